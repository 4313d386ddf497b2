/* array.h: systolic arrays: what a grid of multipliers makes of a product, cycle by cycle, and in closed form.
 *
 * Place in the flow: systolic.c is the command; array.c simulates a grid, array_form.c counts its cycles without doing
 * so, array_svg.c draws. Invariant: for every product and grid both give the same number of cycles, and the simulated
 * numbers are those of the product, added in the order in which the grid adds. */
#ifndef CAIRN_COMMAND_ARRAY_H
#define CAIRN_COMMAND_ARRAY_H

#include <cairn/cairn.h>
#include <cairn/ext/system.h>

typedef enum array_flow { ARRAY_WEIGHTS_STAY, ARRAY_OUTPUTS_STAY } array_flow;
typedef enum array_type { ARRAY_INT8, ARRAY_BF16 } array_type;

typedef struct array {
  int64_t rows, cols;
  array_flow flow;
  array_type type;
  bool single;          /* one set of weights (or sums) in each cell: the next is loaded when the last is through */
  double clock;         /* Hz */
  double bandwidth;     /* bytes a second, of the memory that holds the weights; 0: without limit */
  double buffer;        /* bytes beside the grid: activations beyond it come from memory; 0: without limit */
  int64_t accumulators; /* rows of sums below the grid (weights stay): a longer product passes in parts; 0: no limit */
} array;

/* (m x k) times (k x n), so many times with factors of their own. */
typedef struct array_product {
  int64_t count, m, k, n;
  int64_t inputs; /* elements that the left factor is made of; 0: m k. A convolution's windows overlap */
} array_product;

typedef enum array_bound { ARRAY_BY_COMPUTE, ARRAY_BY_MEMORY, ARRAY_BY_LOADING } array_bound;

typedef struct array_cost {
  double tiles, cycles;
  double useful, offered; /* multiply-adds that the product needs; cells times cycles */
  double fetched;         /* bytes from memory */
  double streaming;       /* cycles in which rows go into the grid: the others it waits, fills or drains */
  array_bound bound;      /* what sets the pace of a tile */
} array_cost;

int64_t array_bytes(const array *a); /* of one factor */
/* Tiles that one fetch serves, and the cycles that it takes, rounded up. */
int64_t array_group(const array *a, const array_product *p);
int64_t array_fetch_cycles(const array *a, const array_product *p);
void array_cost_of(array_cost *cost, const array *a, const array_product *p);

/* ---- simulation ---- */
typedef struct array_cell {
  float stay, next;          /* weights stay: the one in use, and the one that waits; outputs stay: the sum */
  float left, above;         /* what came from the left, and from above (a sum, or a weight) */
  float pass, drain;         /* a weight on its way down; a sum on its way out */
  int32_t sum_stay, sum_above, sum_drain; /* the sums of int8 */
  int32_t row;               /* of the left factor that `left` belongs to; -1: nothing */
  int32_t tile;              /* ... and its tile */
  int32_t target;            /* rows that `pass` still has to go; -1: nothing */
  bool drains;               /* `drain` holds a sum */
} array_cell;

typedef struct array_run {
  const array *a;
  const array_product *p; /* count 1 */
  const float *left, *right; /* (m, k) and (k, n): whole numbers of int8, or values of bf16 */
  float *result;             /* (m, n) of bf16, or */
  int32_t *sums;             /* (m, n) of int8 */
  int64_t cycles;            /* it took so many */
  /* Called behind each cycle with the cells, row by row; may be NULL. */
  void (*each)(const struct array_run *run, int64_t cycle, const array_cell *cells, void *payload);
  void *payload;
} array_run;

/* Lets the grid run. result and sums: room for the results of the type. 0 or an error. */
int array_simulate(array_run *run);
/* The same sums without a grid, in the grid's order. */
void array_reference(const array_run *run);

/* ---- drawing ---- */
typedef struct array_layer {
  char name[96];
  const char *op;
  array_product product;
  array_cost cost;
} array_layer;

/* Frames of a run on a small grid; animated: one after another in one place. */
int array_frames_svg(cn_text *t, array_run *run, bool animated);
/* How much of the grid each layer uses, and for how long. */
int array_layers_svg(cn_text *t, const array *a, const array_layer *layers, size_t n, const char *title);

#endif
