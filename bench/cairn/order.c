/* order.c: cairn's side of sort and topk: one long row, and many short ones.
 *
 * Invariant: values and indices are both made, and both are checked; equal elements may come in any order.
 */
#include "side.h"

static cn_tensor *x; /* (n[0], n[1]) */

static void prepare(void) { cn_set(&x, side_fill(CN_SHAPE(now->n[0], now->n[1]), 1, 1)); }

static void sort(void) { cn_sort(&result[0], &result[1], x); }

static void topk(void) { cn_topk(&result[0], &result[1], x, now->n[2]); }

/* The elements that the indices name, instead of the indices. */
static void look_up(void) { result[1] = cn_gather(x, 1, result[1]); }

#define M (1024.0 * 1024)

static const struct side_case order[] = {
    {"sort_long", "", "element", M, prepare, sort, {1, 1024 * 1024}},
    {"sort_rows", "", "element", M, prepare, sort, {1024, 1024}},
    {"topk_long", "", "element", 4 * M, prepare, topk, {1, 4 * 1024 * 1024, 100}},
    {"topk_rows", "", "element", 4 * M, prepare, topk, {4096, 1024, 10}},
};

int main(int argc, char **argv)
{
  side_finish = look_up;
  return side_serve(argc, argv, order, sizeof order / sizeof *order);
}
