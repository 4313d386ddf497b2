/* sample.h: op samples: one call of an op a line, in tests/ops/FAMILY.samples, read by the drivers here and by
 * tests/golden/make.py, which asks PyTorch what should come out.
 *
 *     sum(f32[3,4], dim=[1], keepdim=True)
 *     add(f32[2,3].t, f64[3], alpha=2)
 *     gather(f32[4,5], dim=1, i64[4,3]%5)
 *     cat([f32[2,3], f32[1,3]], dim=0)
 *
 * A value without a name goes to the first parameter that has none yet. Values are numbers, True, False, None,
 * 'text', [lists], a dtype (f32) or device (cpu) by its name, and tensors: dtype[shape] and then, in any order,
 *   memory   .t  last two dims swapped     .s  every second element      .o  offset into a larger buffer
 *            .e  first dim expanded        .cl channels last             .r  last dim backwards (negative stride)
 *   layout   .coo .csr .csc  the call gets it as a sparse tensor, of which each second of three elements is left
 *            out; what comes out sparse is looked at as a dense tensor. Gradients are those of the dense one
 *   grad     .d  data: needs no gradient, though a float
 *   values   %N  integers in [0, N)        +   in [0.125, 2.125), integers in [1, 8]
 *            <   in [-0.875, 0.875)        >   in [1.125, 3.125)
 *            ~   all different, a quarter apart, no two of one size
 *            =V  all V                     {a,b,...}  these
 *            !   some of them NaN, infinite, zeros of both signs; or the type's limits
 *            otherwise [-2, 2), integers in [-8, 8), or [0, 16) where unsigned
 * A number where a tensor is expected is a weak scalar. A line begins with
 *   "! "   the call must fail, in cairn and in PyTorch      "!c "  in cairn (PyTorch allows it)
 *   "~ "   PyTorch's gradient is not to be compared: it differs by convention (ties), or is wrong
 *   "@ "   large: compared with itself only (threads, layouts, devices), not in the golden file
 *   "#"    a comment
 *
 * Values come from a hash of (line, literal, element), so that C and Python make the same ones; those of f16 and bf16
 * are multiples of 1/16 or 1/32 that both types hold exactly. Complex tensors (c64, c128) have the values of pairs. */
#ifndef TESTS_OPS_SAMPLE_H
#define TESTS_OPS_SAMPLE_H

#include <cairn/cairn.h>
#include <cairn/ext/op.h>

#include "ops/table.h"

enum { SAMPLE_INPUTS = 32, SAMPLE_ITEMS = 64, SAMPLE_RESULTS = 16, SAMPLE_WEIGHTS = 1000 };

typedef struct sample_literal {
  int dtype, ndim;
  int index;   /* which literal of the line it is */
  char layout; /* 0, t, s, e, c (.cl), r */
  bool offset, constant;
  char sparse; /* 0, or the last letter of .coo, .csr, .csc */
  char range; /* 0 + < > % ~ ! = */
  int64_t arg; /* the N of %N */
  int first, count; /* of the values of = and {}, in sample.values */
  int64_t shape[CN_MAX_DIMS];
} sample_literal;

/* An element of a list, a number, or what stands for a tensor. */
typedef struct sample_item {
  enum { ITEM_NONE, ITEM_TENSOR, ITEM_INT, ITEM_FLOAT, ITEM_BOOL } kind;
  int literal;
  int64_t i;
  double f;
} sample_item;

/* One argument: absent (the default), or items, or a word. */
typedef struct sample_arg {
  enum { ARG_DEFAULT, ARG_NONE, ARG_ONE, ARG_LIST, ARG_WORD } kind;
  int first, count; /* in sample.items */
  char word[160];
} sample_arg;

typedef struct sample {
  char *text; /* without the mark */
  int line;
  bool must_fail, large;
  uint64_t hash;
  const cni_opinfo *info;
  int nliterals, nitems, nvalues;
  sample_arg args[CN_MAX_ARGS];
  sample_literal literals[SAMPLE_INPUTS];
  sample_item items[SAMPLE_ITEMS];
  sample_item values[SAMPLE_ITEMS];
} sample;

typedef struct sample_list {
  sample *all;
  size_t count;
  char *text;
} sample_list;

/* Reads a family's file. 0, or -1 with a message that names the line. */
int sample_read(sample_list *list, const char *family, char *message, size_t size);
void sample_list_free(sample_list *list);
/* The whole file, with a zero behind it; NULL when it cannot be read. To be given to free(). */
char *sample_read_file(const char *path, size_t *size);

bool sample_has_range(const sample *s, char range, bool floats_only);
bool sample_has_layout(const sample *s);
bool sample_is_sparse(const sample *s); /* does the op take or make sparse tensors? */

/* ---- values (values.c) ---- */
/* Element i of a literal, written into an array of its dtype at `at`. */
void sample_store(const sample *s, const sample_literal *l, int dtype, int64_t i, void *array, int64_t at);
uint64_t sample_hash(uint64_t seed, int literal, int64_t element);

/* ---- calls: a sample made real ---- */
typedef struct call_setup {
  bool contiguous; /* all layouts row-major */
  char layout;     /* force this one where the shape allows it; 0: as written */
  bool as_f64;     /* float tensors become float64 */
  bool grad;       /* float tensors require a gradient */
  cn_device device;
} call_setup;

typedef struct call {
  const sample *s;
  int nin, nargs;
  char sparse[SAMPLE_INPUTS];   /* which of them the op gets in a sparse layout */
  cn_tensor *in[SAMPLE_INPUTS]; /* owned; in the order of the signature, lists laid flat, NULL where absent */
  cn_value args[CN_MAX_ARGS];
  int64_t ints[SAMPLE_ITEMS];
  double floats[SAMPLE_ITEMS];
} call;

/* What came out: owned. */
typedef struct call_result {
  size_t nout;
  cn_tensor *out[SAMPLE_RESULTS];
  cn_tensor *grad[SAMPLE_INPUTS]; /* NULL where no gradient flows */
} call_result;

/* 0, or a negative status with the error pending. What is made is owned by the call. */
int call_make(call *c, const sample *s, const call_setup *setup);
void call_free(call *c);
/* Replaces input i (keeps t) wherever the arguments refer to it. */
void call_set_input(call *c, int i, cn_tensor *t);
/* Runs the op; dest as in cn_op_call. 0 or a status; the error stays pending until the next call. */
int call_run(call_result *r, const call *c, cn_tensor *dest);
/* Runs it, then fills r->grad with gradients of sum(result * weights) with respect to leaves (NULL: the inputs). */
int call_run_grad(call_result *r, const call *c, cn_tensor *dest, cn_tensor *const *leaves);
/* The same for results that are in r already. same_order: weights lie in memory as their results do, not row by row. */
int call_grad(call_result *r, const call *c, cn_tensor *const *leaves, bool same_order);
void call_result_free(call_result *r);
/* What result i is multiplied with; owned, on the device of `like`. */
cn_tensor *call_weights(const sample *s, int i, cn_tensor *like);

#endif
