/* formula.h: reads the texts of formulas' programs, which cn_graph_formula_at gives (ext/graph.h says how they look).
 *
 * Place in the flow: the writers of ONNX and of StableHLO make each part that is read a value of theirs. Invariant:
 * what is not understood sets `bad` and ends the text, so every loop over it ends. */
#ifndef CNI_FORMATS_FORMULA_H
#define CNI_FORMATS_FORMULA_H

#include <cairn/ext/graph.h>

typedef struct cni_formula {
  const char *s; /* what is still to be read */
  bool typed;    /* the program says the types of its registers */
  bool bad;
} cni_formula;

/* A number behind the inputs: of the call's k-th parameter where k >= 0; type: 0 where the program does not say it. */
typedef struct cni_formula_constant {
  double value;
  int k, type;
} cni_formula_constant;

/* A step: a primitive's name, or "to" or "row_...". type and via: 0 where it does not say them. */
typedef struct cni_formula_step {
  char name[32];
  int type, via, dims, n, reg[3];
} cni_formula_step;

/* Inputs: how many there must be; then the type of the i-th register, or 0 where the program says none. */
void cni_formula_inputs(cni_formula *f, int n);
int cni_formula_input(cni_formula *f, int i);
/* The bar in front of constants, steps and results; whether there is one more of them; what stands between two. */
void cni_formula_bar(cni_formula *f);
bool cni_formula_more(const cni_formula *f);
void cni_formula_between(cni_formula *f, char c);
cni_formula_constant cni_formula_read_constant(cni_formula *f);
cni_formula_step cni_formula_read_step(cni_formula *f);
int cni_formula_read_result(cni_formula *f); /* its register */

/* What registers are of where the program says no types: the type that the CPU's loops compute in. */
int cni_formula_register_type(int compute);

#endif
