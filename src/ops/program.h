/* program.h: pointwise programs: short lists of primitive steps that eager runs in one pass over memory.
 *
 * Place in the flow: a pointwise row (pointwise.def, programs.c) names a builder; infer and the kernels of every
 * backend ask here for its program, autograd for the program of its gradient, codegen renders it. Invariant: a
 * finished program is interned by its text and never changes or goes away, so its address identifies it. */
#ifndef CNI_OPS_PROGRAM_H
#define CNI_OPS_PROGRAM_H

#include <cairn/ext/op.h>
#include <cairn/ext/system.h>
#include <stdatomic.h>

#include "base/dtype.h"
#include "table.h"
#include "tensor/args.h"

enum cni_prim {
#define PW1(name, ...) CNI_PW_##name,
#define PW2 PW1
#define PWP1 PW1
#define PWP2 PW2
#define PWP3 PW1
#include "pointwise.def"
#undef PW1
#undef PW2
#undef PWP1
#undef PWP2
#undef PWP3
  CNI_PRIM_COUNT
};

/* How an op chooses its compute and result types. */
enum cni_kind {
  CNI_FLT, CNI_NUM, CNI_INT, CNI_SGN, CNI_QUO, CNI_CMP, CNI_LOG, CNI_BIT, CNI_FIT,
  CNI_SEL, /* like NUM, but the first input is a condition and does not take part in promotion */
  CNI_UPD, /* results have the types of the inputs of their number; nothing is rounded in between (update.c) */
  CNI_FUN = CNI_FLT, CNI_SLW = CNI_FLT /* they differ in their loops alone */
};

typedef struct cni_prim_info {
  const char *name;
  const char *formula; /* C text over a, b, c, T, M(), F() */
  int arity;
  enum cni_kind kind;
} cni_prim_info;
extern const cni_prim_info cni_prims[CNI_PRIM_COUNT];
/* Does it divide by its second operand? Zero is then an error for integers. */
static inline bool cni_prim_divides(int prim) { return cni_prims[prim].kind == CNI_QUO; }

/* ---- what registers hold ---- */

/* Smaller types are converted on load and store. */
enum cni_compute { CNI_C_F32, CNI_C_F64, CNI_C_I64, CNI_C_U64, CNI_COMPUTES };
/* Which of them a type is computed in, and its own type (CN_F32, ...). */
static inline enum cni_compute cni_compute_class(int dtype)
{
  if (dtype == CN_F64) return CNI_C_F64;
  if (cni_dtype_is_float(dtype)) return CNI_C_F32;
  return dtype == CN_U64 ? CNI_C_U64 : CNI_C_I64;
}
static inline int cni_compute_dtype(enum cni_compute class)
{
  static const uint8_t dtypes[CNI_COMPUTES] = {CN_F32, CN_F64, CN_I64, CN_U64};
  return dtypes[class];
}
extern const char *const cni_compute_names[CNI_COMPUTES]; /* "f32", ... */

/* Registers: inputs first, then constants, then one per step. In most programs all of them hold the type that the call
 * computes in. In a typed program each has its own: inputs say as what they are loaded, constants and steps what they
 * are computed in, results as what they are stored. */
enum { CNI_MOST_REGISTERS = UINT16_MAX };

/* Not of pointwise.def: a register as another type, by way of a third one where memory would have held it; and, in
 * typed programs, steps along rows, the elements along the last dims of what is computed. They give one value for each
 * row, as do further steps over such values and constants alone; where it is read beside others it stands for the whole
 * row. */
enum {
  CNI_PW_convert = CNI_PRIM_COUNT,
  CNI_PW_row_first, /* of an input: the row's first element, where the others are the same or nobody wants them */
  CNI_PW_row_sum,   /* of floats, in the order of eager's reductions, as the next three */
  CNI_PW_row_mean,
  CNI_PW_row_max,
  CNI_PW_row_min,
  CNI_PW_ROW_END
};
/* Elements of a row up to which several values of it stay in the caches: longer ones are worth one pass alone, in which
 * no step over whole rows reads what they are reduced to. */
enum { CNI_ROW_LONGEST = 8192 };
extern const char *const cni_row_names[CNI_PW_ROW_END - CNI_PW_row_first]; /* "row_first", ... */

typedef struct cni_step {
  uint16_t prim;
  uint8_t class; /* typed programs: what it computes in; of a conversion: what it gives */
  uint8_t dtype; /* of a conversion: rounded to that type on the way; 0: it is not. Along rows: over how many dims */
  uint16_t arg[3];
  const char *origin; /* the op that messages mention, up to a blank; NULL: that of the call */
} cni_step;
static inline int cni_step_arity(const cni_step *s) { return s->prim < CNI_PRIM_COUNT ? cni_prims[s->prim].arity : 1; }
static inline bool cni_step_is_row(const cni_step *s) { return s->prim > CNI_PW_convert; }

/* A constant of a program: a literal, or the value of an attribute, filled in per call. */
typedef struct cni_const {
  int attr; /* index of the parameter; -1: the literal */
  int class; /* typed programs */
  double value;
} cni_const;

/* Typed programs: an input's type in memory and in its register. */
typedef struct cni_prog_input {
  uint8_t dtype, class;
} cni_prog_input;

enum { CNI_PROGRAM_CODES = 3 }; /* one for each instruction set that kernels are compiled for, at most */
typedef struct cni_program {
  uint64_t hash; /* of text */
  const struct cni_program *next; /* in the intern table */
  size_t bytes; /* of all of it */
  int nin, nconst, nstep, nout;
  bool typed;
  /* These arrays lie behind the text. */
  cni_const *consts;
  cni_step *steps;
  uint16_t *out;
  /* Where an interpreter keeps each step's value: slots are reused as soon as their value was read for the last time.
   */
  uint16_t *slot;
  int nslots;
  cni_prog_input *in; /* typed programs: nin of them, and ... */
  uint8_t *out_dtype; /* ... what results are stored as */
  uint8_t *class;     /* ... and what each register holds */
  bool *row;          /* ... and which hold one value for each row, ... */
  uint16_t *level;    /* ... behind how many reductions, one after the other */
  int row_dims;       /* what rows extend over: so many of the last dims; 0: there are no steps along rows */
  /* What a backend made of it, to be used in place of its steps: CNI_PROGRAM_CODES of them, NULL where there is none.
   * The one thing here that changes. */
  void *_Atomic *code;
  char text[];
} cni_program;

/* A program as an argument: its text, marked as one that stays, so that it is neither copied nor looked up. */
static inline cn_value cni_v_program(const cni_program *p)
{
  cn_value v = cn_v_str(p->text);
  v.n = cni_text_mark(p->text);
  return v;
}
/* The program that such a text, or any other, stands for. NULL with the error set on nonsense. */
const cni_program *cni_program_of_value(const cn_value *v);

/* A program being written. Registers are ints: inputs from 0, constants and steps from the bases below; -1 stands for
 * "no value" (a zero gradient). It owns memory once there is more than its own room has place for: cni_build_end or
 * cni_build_drop frees it. */
typedef struct cni_draft {
  int prim, class, dtype, arg[3];
  const char *origin;
  int level; /* filled in when it is added, as in cni_program */
  bool row;
} cni_draft;

enum { CNI_CONST_BASE = 1 << 20, CNI_STEP_BASE = 1 << 21 };
enum { CNI_BUILD_CONSTS = 16, CNI_BUILD_STEPS = 64 };
typedef struct cni_builder {
  int nin, nconst, nstep, nout;
  int drop; /* low bits of a float that the type computed for does not store: 13 float16, 16 bfloat16, else 0 */
  bool failed; /* no memory, or more registers than there are: cni_build_end says so */
  bool typed;
  enum cni_compute class; /* typed programs: of the constants and steps that come next, ... */
  const char *origin;     /* ... and what messages about them mention; a text that stays until the end */
  const cni_prog_input *in; /* typed programs: nin of them, for as long */
  cni_const *consts;
  cni_draft *steps;
  int nconst_room, nstep_room;
  int out[CNI_MAX_RESULTS];
  uint8_t out_dtype[CNI_MAX_RESULTS];
  cni_const few_consts[CNI_BUILD_CONSTS];
  cni_draft few_steps[CNI_BUILD_STEPS];
} cni_builder;

void cni_build_begin(cni_builder *b, int nin);
int cni_build_const(cni_builder *b, double value);
int cni_build_attr(cni_builder *b, int param);
int cni_build_step(cni_builder *b, enum cni_prim prim, int x, int y, int z);
/* x as it would be stored between two ops: rounded to float16 or bfloat16 in programs for these, else x itself. */
int cni_build_rounded(cni_builder *b, int x);
/* A register as another type: of a class, rounded to dtype on the way (0: not). */
int cni_build_convert(cni_builder *b, int x, enum cni_compute class, int dtype);
/* A step along rows, over so many of the last dims: the same number in all of a program's. */
int cni_build_row(cni_builder *b, int prim, int x, int dims);
bool cni_build_is_row(const cni_builder *b, int x); /* does a register hold one value for each row? */
enum cni_compute cni_build_class(const cni_builder *b, int x); /* of a register of a typed program */
/* Dead steps out, text made, interned. NULL with the error set. */
const cni_program *cni_build_end(cni_builder *b);
void cni_build_drop(cni_builder *b); /* instead */

/* What cn_op.pointwise points to. */
typedef struct cni_pointwise {
  enum cni_kind kind;
  int nin;
  /* Which of the op's programs these attributes want, 0..7 (UPD: 0..23); NULL: always 0. Negative: an error was set.
   */
  int (*variant)(const cn_value *args);
  /* Writes the program; returns the first result's register. One of several results sets b->nout and the others. */
  int (*build)(cni_builder *b, int variant);
  /* Overrides the derived gradient: given registers, fills g[i] for each input; what is not wanted falls away. Bit i
   * of numbers: input i is a number, not a tensor (clamp then shares no gradient with it). */
  void (*grad)(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g);
  /* By variant, three of each: for float16, bfloat16, others; those of UPD are the same for all types. Filled at first
   * use. */
  const cni_program *made[24];
} cni_pointwise;

/* The program of a call to a pointwise op, or to the op "pointwise" itself. NULL with the error set. */
const cni_program *cni_program_of(const cn_call *call);
/* Its constants' values in this call: nconst of them. 0 or an error. */
int cni_program_consts(double *consts, const cn_call *call, const cni_program *p);
/* Is input i, of another type, rounded to the float16 or bfloat16 that this call computes for before it is used? So are
 * numbers and integers in PyTorch; a number for a parameter tagged exact_NAME (to multiply, divide or weigh by) is
 * taken as it is, and so is a tensor of one element where it is the last. */
bool cni_program_rounds(const cn_call *call, int i);
/* Finds or parses a program by its text (program_text.c has the form). NULL with the error set on nonsense. */
const cni_program *cni_program_parse(const char *text);
void cni_program_write(cn_text *t, const cni_program *p); /* its text */
const cni_program *cni_program_find(const char *text); /* one that is there; NULL: none, and no error */

/* The gradient of a program with respect to up to CNI_MAX_RESULTS wanted inputs: bit i of `want` is input first + i;
 * numbers as in cni_pointwise.grad, of programs with no more than 32 inputs. Its inputs are some of the gradients of
 * the results, the inputs, and the results of the original program, in this order. Its results are the gradients of
 * the wanted inputs, in order; a register of -1 never occurs (zero is a constant). */
typedef struct cni_program_grad {
  const cni_program *program;
  int64_t needs; /* values it reads, as a mask of saved ones: CN_IN and CN_OUT bits, CNI_NEEDS_MANY */
  const int *source; /* where the gradient program's input k comes from, counted over all of the above */
} cni_program_grad;
enum { CNI_GRAD_WINDOW = 64 }; /* inputs that a mask covers */
#define CNI_NEEDS_MANY ((int64_t)1 << 62) /* all inputs from the 16th on, which the bits do not tell apart */
/* It stays. NULL with the error set. */
const cni_program_grad *cni_program_gradient(const cn_op *op, const cn_value *args, const cni_program *p, int first,
                                             uint64_t want, unsigned numbers);
/* Of the wanted inputs in a mask those that one gradient program takes; *mask loses them. */
static inline uint64_t cni_grad_chunk(uint64_t *mask)
{
  uint64_t chunk = 0;
  for (int n = 0; *mask && n < CNI_MAX_RESULTS; n++) {
    chunk |= *mask & -*mask;
    *mask &= *mask - 1;
  }
  return chunk;
}
/* Is that of the op "pointwise" with p, for the inputs wanted, small enough to be worth one program? Negative: the
 * error is set. Gradients of gradients grow; one whose own gradient is too large is not recorded as one call
 * (cni_pointwise_vjp). */
int cni_program_has_gradient(const cni_program *p, uint64_t want);

#endif
