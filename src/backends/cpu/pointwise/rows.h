/* rows.h: programs with steps along rows on the CPU: what the two files that run them share.
 *
 * Place in the flow: pointwise.c hands them to rows.c, which takes panels of rows; rows_long.c takes long rows, part by
 * part. */
#ifndef CNI_CPU_POINTWISE_ROWS_H
#define CNI_CPU_POINTWISE_ROWS_H

#include "backends/cpu/jit/jit.h"
#include "backends/cpu/reduce/split.h"
#include "backends/cpu/walk/cast.h"
#include "pointwise.h"

enum { CNI_ROWS_PANEL = CNI_PW_WIDE }; /* elements that go through all steps together */

/* Dims that count rows, or those of a row: an operand's bytes from one element to the next. */
typedef struct cni_rows_steps {
  int64_t by[CN_MAX_DIMS];
} cni_rows_steps;

typedef struct cni_rows_input {
  const char *base;
  cni_cast_fn load;    /* NULL: its type is right as it is */
  size_t elem, size;   /* bytes of an element in memory, and in its register */
  cni_rows_steps lead, along;
  bool whole, same;    /* rows lie dense, one behind the other; or all of them are one */
  bool first;          /* nothing but the first elements of rows is read */
} cni_rows_input;

typedef struct cni_rows_job {
  const cn_call *c;
  const cni_program *p;
  const cni_pw_table *table;
  const cni_reduce_table *reduce;
  cni_rows_fn code;   /* all steps at once, or NULL */
  int nlead, nalong;
  int64_t lead[CN_MAX_DIMS], along[CN_MAX_DIMS]; /* sizes */
  int64_t rows, count, per; /* rows, their length, and how many are a panel */
  cni_split split;    /* what rows are cut into for reductions */
  size_t pitch;       /* bytes of a buffer, which has room for a panel */
  cni_rows_input *in; /* per input */
} cni_rows_job;

/* The buffers of a thread. */
typedef struct cni_rows_room {
  char *all, *inputs, *consts, *slots, *operands, *results;
  const void **value; /* per register, where it is */
  long long *step;    /* per input, elements from one row to the next */
  bool *held;         /* per input: it is the same for all rows, and there */
  size_t bytes;
} cni_rows_room;

static inline size_t cni_rows_size(enum cni_compute class) { return class == CNI_C_F32 ? 4 : 8; }

/* ---- rows.c ---- */
int cni_pw_rows(const cn_call *c, const cni_program *p, const cni_pw_table *table); /* 0 or an error */
/* n elements of a row, or of what counts rows, from element `at` on. */
void cni_rows_gather(char *to, const char *from, const cni_rows_steps *s, int ndim, const int64_t *shape, int64_t at,
                     int64_t n, size_t elem);
/* Where an operand's row begins. */
const char *cni_rows_at(const cni_rows_job *j, const cni_rows_input *in, int64_t row);
/* What was gathered, as registers hold it: in `to`, or where it is. */
const void *cni_rows_converted(const cni_rows_input *in, char *to, const char *from, int64_t n);
/* Input i for rows [at, at + rows). */
void cni_rows_load(const cni_rows_job *j, const cni_rows_room *m, int i, int64_t at, int64_t rows);
/* A step of pointwise.def, or a conversion; 0 or an error. */
int cni_rows_formula(const cni_rows_job *j, const cni_rows_room *m, const cni_step *s, bool is_row, void *y,
                     int64_t rows);
/* What a row was reduced to, as element i of a register. */
void cni_rows_put(const cni_rows_job *j, const cni_step *s, void *y, int64_t i, cni_wide w);
/* Is a result's type that of its register? */
bool cni_rows_natural(const cni_rows_job *j, int k);
/* n elements of result k. */
void cni_rows_store(const cni_rows_job *j, int k, int64_t at, int64_t n, const void *value);
/* Result k from an element on. */
char *cni_rows_element(const cni_rows_job *j, int k, int64_t at);
/* Of a step along rows. */
enum cni_reduce_kind cni_rows_kind(int prim);
/* The buffers for a job; false: no memory. */
bool cni_rows_open(cni_rows_room *m, const cni_rows_job *j);

/* ---- rows_long.c ---- */
bool cni_rows_flat(const cni_program *p); /* is no whole row computed of what rows are reduced to? */
int cni_rows_long(cni_rows_job *j);       /* of such a program; 0 or an error */

#endif
