/* array_form.c: what a product costs on a systolic array, without simulating it. See array.h.
 *
 * With r rows, c columns and f cycles to fetch a tile, tiles follow one another every max(m, r, f) cycles where weights
 * stay: rows to stream, a tile to load, a tile to fetch. Where outputs stay it is max(k, r), k steps and a tile to
 * drain, and a fetch serves a column of tiles. The first has to be fetched and loaded, the last to run through.
 * Invariant: for one product on a grid without limits of buffers this is array.c's count. */
#include <math.h>

#include "array.h"

int64_t array_bytes(const array *a) { return a->type == ARRAY_BF16 ? 2 : 1; }

static double ceil_div(int64_t a, int64_t b) { return (double)((a + b - 1) / b); }

static double cycles_for(const array *a, double bytes)
{
  return a->bandwidth > 0 ? ceil(bytes * a->clock / a->bandwidth - 1e-9) : 0;
}

static bool weights_stay(const array *a) { return a->flow == ARRAY_WEIGHTS_STAY; }

int64_t array_fetch_cycles(const array *a, const array_product *p)
{
  return (int64_t)cycles_for(a, (double)((weights_stay(a) ? a->rows : p->k) * a->cols * array_bytes(a)));
}

/* Tiles that one fetch serves. Outputs stay: a column of tiles, where their weights fit the buffer. */
int64_t array_group(const array *a, const array_product *p)
{
  bool kept = a->buffer <= 0 || (double)(p->k * a->cols * array_bytes(a)) <= a->buffer;
  return weights_stay(a) || !kept ? 1 : (p->m + a->rows - 1) / a->rows;
}

/* Activations that do not fit beside the grid come from memory and go back. */
static double spilled(const array *a, const array_product *p)
{
  double bytes = (double)(((p->inputs ? p->inputs : p->m * p->k) + p->m * p->n) * array_bytes(a));
  return a->buffer > 0 && bytes > a->buffer ? bytes : 0;
}

/* A part of the rows at a time: as many as there is room for their sums. */
static double parts_of(const array *a, const array_product *p)
{
  return weights_stay(a) && a->accumulators > 0 ? ceil_div(p->m, a->accumulators) : 1;
}

static double through(const array *a, double steps)
{
  return steps + (double)(weights_stay(a) ? a->rows : 2 * a->rows) + (double)a->cols - 2;
}

static void add_up(array_cost *cost, const array *a, const array_product *p)
{
  double parts = parts_of(a, p), rows = (double)a->rows, group = (double)array_group(a, p);
  double steps = weights_stay(a) ? ceil((double)p->m / parts) : (double)p->k;
  double tiles = parts * ceil_div(weights_stay(a) ? p->k : p->m, a->rows) * ceil_div(p->n, a->cols);
  double bytes = (double)((weights_stay(a) ? a->rows : p->k) * a->cols * array_bytes(a)) * tiles / group;
  double first = (double)array_fetch_cycles(a, p), spill = spilled(a, p);
  double fetch = spill > 0 ? cycles_for(a, (bytes + spill) * group / tiles) : first;
  double run = through(a, steps), load = weights_stay(a) ? rows : 0;
  double pace = a->single ? load + run : fmax(steps, rows);
  cost->tiles = tiles;
  cost->cycles = first + load + (tiles / group - 1) * fmax(group * pace, fetch) + (group - 1) * pace + run;
  cost->fetched = bytes + spill;
  cost->streaming = tiles * steps;
  cost->bound = fetch > group * pace ? ARRAY_BY_MEMORY : pace > steps ? ARRAY_BY_LOADING : ARRAY_BY_COMPUTE;
}

void array_cost_of(array_cost *cost, const array *a, const array_product *p)
{
  double count = (double)p->count;
  *cost = (array_cost){.tiles = 0};
  add_up(cost, a, p);
  cost->tiles *= count;
  cost->cycles *= count;
  cost->fetched *= count;
  cost->streaming *= count;
  cost->useful = count * (double)p->m * (double)p->k * (double)p->n;
  cost->offered = cost->cycles * (double)a->rows * (double)a->cols;
}
