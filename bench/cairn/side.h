/* side.h: cairn's side of the rows about large ops: a table of cases becomes a table of works for serve.h.
 *
 * A case is a name, what one call amounts to, its sizes, and two functions: `prepare` makes the inputs, `call` does
 * the work once and leaves what it made in result[]. Invariant: `call` changes no input, unless the case says so, so
 * variants of a case share them; results are freed within the timed loop.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include "../serve.h"

#include <cairn/cairn.h>

enum { SIDE_RESULTS = 8, SIDE_SIZES = 8, SIDE_CASES = 128 };

struct side_case {
  const char *name, *variant, *unit;
  double amount;
  void (*prepare)(void); /* within a scope; keeps what it makes with cn_set */
  void (*call)(void);    /* within a scope */
  int64_t n[SIDE_SIZES];
  bool changes; /* its call changes what prepare made: each variant begins with its own */
};

static const struct side_case *cases; /* the program's table */
static const struct side_case *now;   /* the case that is asked for */
static cn_tensor *result[SIDE_RESULTS];
static void (*side_finish)(void); /* may be set: what the check does to result[] before it counts */

/* New, of the numbers of bench_fill; borrowed from the scope. */
static inline cn_tensor *side_fill(const int64_t *shape, size_t ndim, uint64_t seed, float scale)
{
  size_t n = 1;
  for (size_t i = 0; i < ndim; i++) n *= (size_t)shape[i];
  float *room = malloc(n * sizeof *room);
  bench_require(room != NULL, "out of memory");
  bench_fill(room, n, seed, scale);
  cn_tensor *t = cn_from_data(room, shape, ndim, CN_F32);
  free(room);
  return t;
}

/* The sum of about a thousand elements, evenly spread in row-major order. */
static inline double side_sample(cn_tensor *t)
{
  cn_tensor *flat = cn_contiguous(cn_cast(t, CN_F32));
  const float *p = cn_data(flat);
  int64_t n = cn_numel(flat);
  double sum = 0;
  for (int64_t i = 0; p && i < n; i += n / 1009 + 1) sum += (double)p[i];
  return sum;
}

/* Gradients of `out` for n inputs, given g, that of `out`, into result[0..n). */
static inline void side_grad(cn_tensor *out, cn_tensor *const *inputs, size_t n, cn_tensor *g)
{
  cn_grad(result, &out, 1, inputs, n, .grad_outputs = &g);
}

static int side_setup(void)
{
  const struct side_case *next = &cases[bench_index];
  bool ready = now && !strcmp(now->name, next->name) && (!next->changes || now == next);
  now = next;
  if (ready) return 0;
  cn_scope *s = cn_scope_begin();
  now->prepare();
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "%s: %s\n", now->name, cn_err_message());
  return cn_err();
}

static void side_run(long n)
{
  now = &cases[bench_index];
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    now->call();
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static double side_check(void)
{
  double sum = 0;
  cn_scope *s = cn_scope_begin();
  memset(result, 0, sizeof result);
  now->call();
  if (side_finish) side_finish();
  for (size_t i = 0; i < SIDE_RESULTS && result[i]; i++) sum += side_sample(result[i]);
  cn_scope_end(s);
  bench_require(!cn_err(), cn_err_message());
  return sum;
}

/* The whole of main. */
static int side_serve(int argc, char **argv, const struct side_case *table, size_t count)
{
  static struct bench_work works[SIDE_CASES];
  bench_require(count <= SIDE_CASES, "more cases than SIDE_CASES");
  cases = table;
  for (size_t i = 0; i < count; i++)
    works[i] = (struct bench_work){table[i].name, table[i].variant, table[i].unit, table[i].amount,
                                   side_setup,    side_run,         side_check};
  cn_set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, count);
}

#endif
