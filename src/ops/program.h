/* program.h: pointwise programs: short lists of primitive steps that eager runs in one pass over memory.
 *
 * Place in the flow: a pointwise row (pointwise.def, programs.c) names a builder; infer and the kernels of every
 * backend ask here for its program, autograd for the program of its gradient, codegen renders it. Invariant: a
 * finished program is interned by its text and never changes or goes away, so its address identifies it. */
#ifndef CNI_OPS_PROGRAM_H
#define CNI_OPS_PROGRAM_H

#include <cairn/ext/op.h>

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
  CNI_UPD  /* results have the types of the inputs of their number; nothing is rounded in between (update.c) */
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

enum { CNI_PROG_INPUTS = 12, CNI_PROG_CONSTS = 12, CNI_PROG_STEPS = 96, CNI_PROG_OUTS = 4 };

/* Registers: inputs first, then constants, then one per step. */
typedef struct cni_step {
  uint8_t prim;
  uint8_t arg[3];
} cni_step;

/* A constant of a program: a literal, or the value of an attribute, filled in per call. */
typedef struct cni_const {
  int attr; /* index of the parameter; -1: the literal */
  double value;
} cni_const;

typedef struct cni_program {
  uint64_t hash; /* of text */
  const struct cni_program *next; /* in the intern table */
  int nin, nconst, nstep, nout;
  cni_const consts[CNI_PROG_CONSTS];
  cni_step steps[CNI_PROG_STEPS];
  uint8_t out[CNI_PROG_OUTS];
  /* Where an interpreter keeps each step's value: slots are reused as soon as their value was read for the last time.
   */
  uint8_t slot[CNI_PROG_STEPS];
  int nslots;
  char text[]; /* of those that stay; while one is made there is none */
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

/* A program being written. Registers are small ints; -1 stands for "no value" (a zero gradient). */
typedef struct cni_builder {
  int nin, nconst, nstep, nout;
  int drop; /* low bits of a float that the type computed for does not store: 13 float16, 16 bfloat16, else 0 */
  bool overflow;
  cni_const consts[CNI_PROG_CONSTS];
  cni_step steps[CNI_PROG_STEPS];
  int out[CNI_PROG_OUTS];
} cni_builder;

enum { CNI_CONST_BASE = 64 }; /* while building, constants are 64.., steps 128.. */

void cni_build_begin(cni_builder *b, int nin);
int cni_build_const(cni_builder *b, double value);
int cni_build_attr(cni_builder *b, int param);
int cni_build_step(cni_builder *b, enum cni_prim prim, int x, int y, int z);
/* x as it would be stored between two ops: rounded to float16 or bfloat16 in programs for these, else x itself. */
int cni_build_rounded(cni_builder *b, int x);
/* Dead steps out, text made, interned. NULL with the error set. */
const cni_program *cni_build_end(cni_builder *b);

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

/* The program of a call to a pointwise op, or to the op "pointwise" itself, and its constants' values.
 * NULL with the error set. */
const cni_program *cni_program_of(const cn_call *call, double *consts);
/* Is input i, of another type, rounded to the float16 or bfloat16 that this call computes for before it is used? So are
 * numbers and integers in PyTorch; a number for a parameter tagged exact_NAME (to multiply, divide or weigh by) is
 * taken as it is, and so is a tensor of one element where it is the last. */
bool cni_program_rounds(const cn_call *call, int i);
/* Finds or parses a program by its text (cni_program.text). NULL with the error set on nonsense. */
const cni_program *cni_program_parse(const char *text);

/* The gradient of a program with respect to the wanted inputs (bit mask); numbers as in cni_pointwise.grad. Its inputs
 * are the gradients of the results, then the inputs, then the results of the original program; `uses` says which of
 * those (bit i: input i) it reads. Its results are the gradients of the wanted inputs, in order; a register of -1 never
 * occurs (zero is a constant). */
typedef struct cni_program_grad {
  const cni_program *program;
  uint32_t uses;
  int64_t needs; /* the same as a mask of saved values: CN_IN and CN_OUT bits */
  int source[CNI_PROG_INPUTS]; /* where the gradient program's input k comes from, as bit index of uses */
} cni_program_grad;
/* It stays. NULL with the error set. */
const cni_program_grad *cni_program_gradient(const cn_op *op, const cn_value *args, const cni_program *p, unsigned want,
                                             unsigned numbers);
/* Is that of the op "pointwise" with p small enough to be a program? Negative: the error is set. Gradients of gradients
 * grow; one whose own gradient is too large is not recorded as one call (cni_pointwise_vjp). */
int cni_program_has_gradient(const cni_program *p, unsigned want);

#endif
