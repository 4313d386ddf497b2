/* test_emulated_attention.c: attention by kernels of ours on the CUDA plugin, emulated (test_emulated.c), against the
 * CPU's: one query a head; tiles of many, with dropout drawn inside, forward and backward. Heads that share keys, masks
 * of every type and form, queries that see no key, lengths that fill no tile. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/autograd.h>
#include <cairn/compile.h>
#include <cairn/ext/backend.h>
#include <cairn/ext/parts.h>

#include "emulated.h"
#include "graph/run.h"

typedef struct form {
  const char *name;
  int64_t b, heads, key_heads, keys, width;
  cn_dtype type, mask; /* of the mask; CN_DTYPE_NONE: there is none */
  int64_t shape[4];    /* the mask's; a leading 0: it has fewer dims */
} form;

static const form forms[] = {
    {"plain", 1, 3, 3, 50, 64, CN_BF16, CN_DTYPE_NONE, {0}},
    {"many keys", 1, 2, 2, 1500, 64, CN_BF16, CN_DTYPE_NONE, {0}},
    {"shared keys", 2, 8, 2, 700, 128, CN_F16, CN_DTYPE_NONE, {0}},
    {"shared by three", 2, 6, 2, 300, 32, CN_F32, CN_DTYPE_NONE, {0}},
    {"shared by seven, wide", 1, 7, 1, 40, 256, CN_F32, CN_BOOL, {0, 0, 1, 40}},
    {"bool (B,1,1,T)", 3, 4, 2, 400, 64, CN_BF16, CN_BOOL, {3, 1, 1, 400}},
    {"bias (1,H,1,T)", 2, 4, 4, 77, 80, CN_BF16, CN_BF16, {1, 4, 1, 77}},
    {"float32 bias (B,H,1,T)", 2, 4, 4, 77, 64, CN_BF16, CN_F32, {2, 4, 1, 77}},
};

static cn_tensor *mask_of(const form *f)
{
  int skip = 0;
  if (f->mask == CN_DTYPE_NONE) return NULL;
  while (!f->shape[skip]) skip++;
  cn_tensor *keep = cn_lt(cn_rand(f->shape + skip, (size_t)(4 - skip)), cn_num(0.7)), *row = keep;
  while (cn_ndim(row) > 1) row = cn_select(row, 0, 0);
  cn_fill_(row, cn_num(0)); /* the first sees no key */
  if (f->mask == CN_BOOL) return keep;
  return cn_cast(cn_where(keep, cn_randn(f->shape + skip, (size_t)(4 - skip)), cn_num(-INFINITY)), f->mask);
}

static void one_query(void **state)
{
  (void)state;
  need_device();
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const form *f = &forms[i];
    cn_scope *s = cn_scope_begin();
    cn_seed(i);
    cn_tensor *q = cn_cast(cn_randn(CN_SHAPE(f->b, f->heads, 1, f->width)), f->type);
    /* keys as a cache has them: (B, T, H, D) in memory */
    cn_tensor *k = cn_transpose(cn_cast(cn_randn(CN_SHAPE(f->b, f->keys, f->key_heads, f->width)), f->type), 1, 2);
    cn_tensor *v = cn_cast(cn_randn(CN_SHAPE(f->b, f->key_heads, f->keys, f->width)), f->type), *mask = mask_of(f);
    cn_tensor *y[2], *lse[2];
    for (int far = 0; far < 2; far++)
      cn_sdpa_forward(&y[far], &lse[far], far ? there(q) : q, far ? there(k) : k, far ? there(v) : v,
                      far && mask ? there(mask) : mask, NULL);
    close_to(f->name, y[0], y[1], f->type == CN_F32 ? 1e-5 : 1e-2);
    cn_tensor *finite = cn_where(cn_isinf(lse[0]), cn_num(0), lse[0]);
    cn_tensor *have = cn_to_device(lse[1], CN_CPU);
    close_to(f->name, cn_isinf(lse[0]), cn_isinf(have), 0);
    close_to(f->name, finite, cn_where(cn_isinf(have), cn_num(0), have), f->type == CN_F32 ? 1e-5 : 1e-2);
    cn_scope_end(s);
  }
}

/* ---- tiles of queries and keys ---- */

enum { CAUSAL = 1, HIDES = 2 }; /* HIDES: of the mask's first row every key */
typedef struct tiled {
  const char *name;
  int64_t b, heads, key_heads, queries, keys, width, values;
  cn_dtype type, mask;
  int64_t shape[4];
  int how;
  double dropout;
} tiled;

static const tiled tiles[] = {
    {"causal, two tiles", 1, 2, 2, 80, 80, 64, 64, CN_BF16, CN_DTYPE_NONE, {0}, CAUSAL, 0.3},
    {"narrow", 2, 2, 2, 40, 136, 8, 8, CN_F16, CN_DTYPE_NONE, {0}, 0, 0.5},
    {"no fours of keys", 1, 2, 2, 70, 67, 32, 32, CN_F16, CN_DTYPE_NONE, {0}, CAUSAL, 0.1},
    {"wide, shared", 1, 4, 2, 33, 70, 128, 128, CN_BF16, CN_DTYPE_NONE, {0}, 0, 0.2},
    {"more queries, causal, one key head", 1, 3, 1, 150, 20, 24, 40, CN_F16, CN_DTYPE_NONE, {0}, CAUSAL, 0.3},
    {"more keys, causal", 1, 2, 2, 20, 150, 16, 16, CN_F16, CN_DTYPE_NONE, {0}, CAUSAL, 0.3},
    {"bool (B,1,1,T)", 2, 2, 2, 20, 76, 16, 16, CN_F16, CN_BOOL, {2, 1, 1, 76}, HIDES, 0.3},
    {"bool (T,T)", 1, 2, 2, 70, 35, 16, 16, CN_F16, CN_BOOL, {0, 0, 70, 35}, HIDES, 0.3},
    {"bias (1,H,T,T)", 1, 2, 2, 33, 36, 16, 16, CN_F16, CN_F16, {1, 2, 33, 36}, HIDES, 0.3},
    {"float32 bias (B,1,T,T), shared", 2, 2, 1, 18, 33, 80, 80, CN_BF16, CN_F32, {2, 1, 18, 33}, HIDES, 0.3},
    {"bias (B,1,T,1)", 2, 2, 2, 18, 20, 16, 16, CN_F16, CN_F16, {2, 1, 18, 1}, 0, 0.3},
    {"one query", 2, 2, 2, 1, 40, 16, 16, CN_F16, CN_DTYPE_NONE, {0}, 0, 0.3},
    {"nothing dropped", 1, 2, 2, 70, 70, 16, 16, CN_F16, CN_DTYPE_NONE, {0}, CAUSAL, 0},
    {"nothing dropped, bool (B,H,T,T)", 1, 2, 2, 18, 70, 16, 16, CN_F16, CN_BOOL, {1, 2, 18, 70}, HIDES, 0},
};

static cn_tensor *tile_mask(const tiled *f)
{
  form m = {.mask = f->mask};
  memcpy(m.shape, f->shape, sizeof m.shape);
  return f->how & HIDES ? mask_of(&m) : f->mask == CN_DTYPE_NONE ? NULL : cn_cast(cn_randn(f->shape, 4), f->mask);
}

/* out: result, logarithms, gradients of query, key and value; by sdpa_forward and sdpa_backward. */
enum { PARTS = 5 };
static void attend_tiles(cn_tensor **out, const tiled *f, cn_tensor *const *in, cn_device where, cn_dtype type)
{
  cn_tensor *x[5] = {NULL}, *draws = NULL;
  for (int i = 0; i < 5; i++)
    if (in[i]) x[i] = cn_to_device(i == 3 && f->mask != f->type ? in[i] : cn_cast(in[i], type), where);
  cn_seed(9);
  cn_rand(CN_SHAPE(5)); /* what is drawn begins in the middle */
  if (f->dropout > 0)
    draws = cn_reserve_draws(CN_SHAPE(f->b, f->heads, f->queries, f->keys), .device = where);
  cn_sdpa_forward(&out[0], &out[1], x[0], x[1], x[2], x[3], NULL, .is_causal = (f->how & CAUSAL) != 0,
                  .dropout_p = f->dropout, .draws = draws);
  cn_sdpa_backward(&out[2], &out[3], &out[4], x[4], x[0], x[1], x[2], out[0], out[1], x[3], NULL,
                   .is_causal = (f->how & CAUSAL) != 0, .dropout_p = f->dropout, .draws = draws);
}

/* |a - b| / |a|: weights and gradients of scores are rounded to 16 bits before they are multiplied by. */
static double distance(cn_tensor *a, cn_tensor *b)
{
  a = cn_cast(a, CN_F64), b = cn_cast(cn_to_device(b, CN_CPU), CN_F64);
  cn_tensor *unseen = cn_eq(a, cn_num(-INFINITY));
  close_to("what sees no key", unseen, cn_eq(b, cn_num(-INFINITY)), 0);
  a = cn_where(unseen, cn_num(0), a), b = cn_where(unseen, cn_num(0), b);
  cn_tensor *d = cn_sub(a, b);
  double size = cn_item(cn_sum(cn_mul(a, a))), off = cn_item(cn_sum(cn_mul(d, d)));
  return sqrt(off / (size > 0 ? size : 1));
}

static void many_queries(void **state)
{
  (void)state;
  static const char *const parts[PARTS] = {"result", "lse", "gradient of query", "of key", "of value"};
  need_device();
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    const tiled *f = &tiles[i];
    cn_scope *s = cn_scope_begin();
    cn_seed(i);
    cn_tensor *in[5] = {cn_randn(CN_SHAPE(f->b, f->heads, f->queries, f->width)),
                        /* keys as a cache has them: (B, T, H, D) in memory */
                        cn_transpose(cn_randn(CN_SHAPE(f->b, f->keys, f->key_heads, f->width)), 1, 2),
                        cn_randn(CN_SHAPE(f->b, f->key_heads, f->keys, f->values)), tile_mask(f),
                        cn_randn(CN_SHAPE(f->b, f->heads, f->queries, f->values))};
    for (int k = 0; k < 5; k++)
      if (k != 3) in[k] = cn_cast(in[k], f->type);
    cn_tensor *want[PARTS], *have[PARTS];
    attend_tiles(want, f, in, CN_CPU, CN_F32);
    unsigned ways = cn_attention_begin(CN_ATTENTION_DEVICE); /* by parts it would fail */
    attend_tiles(have, f, in, gpu, f->type);
    cn_attention_end(ways);
    for (int k = 0; k < PARTS; k++) {
      double off = distance(want[k], have[k]);
      if (cn_err()) fail_msg("%s: %s", f->name, cn_err_message());
      if (!(off <= (f->type == CN_BF16 ? 1.2e-2 : 2e-3)))
        fail_msg("%s, %s: off by %.3g", f->name, parts[k], off);
    }
    cn_scope_end(s);
  }
}

/* outputs: causal attention with dropout, as a program calls it, and gradients of its operands. */
static int attend(cn_compile_call *k)
{
  cn_tensor *x[3];
  for (int i = 0; i < 3; i++) x[i] = cn_requires_grad(cn_detach(k->inputs[i]), true);
  cn_tensor *y = cn_scaled_dot_product_attention(x[0], x[1], x[2], NULL, .dropout_p = 0.3, .is_causal = true);
  cn_tensor *sum = cn_sum(cn_mul(y, y));
  k->outputs[0] = cn_detach(y);
  cn_grad(&k->outputs[1], &sum, 1, x, 3);
  k->noutputs = 4;
  return cn_err();
}

/* A recording draws anew each time, what eager code draws. */
static void recorded_work_draws_anew(void **state)
{
  (void)state;
  enum { TIMES = 5 };
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(2);
  cn_tensor *in[3], *want[TIMES][4], *have[TIMES][4];
  for (int i = 0; i < 3; i++) in[i] = there(cn_cast(cn_randn(CN_SHAPE(1, 2, 36, 16)), CN_F16));
  cn_compiled *fast = cn_compile(attend, .fullgraph = true);
  size_t before = 0;
  for (int compiled = 0; compiled < 2; compiled++) {
    before = cni_recorded_runs();
    cn_seed(6);
    for (int i = 0; i < TIMES; i++) {
      cn_compile_call k = {.inputs = in, .ninputs = 3, .outputs = compiled ? have[i] : want[i], .noutputs = 4};
      assert_int_equal(compiled ? cn_compiled_call(fast, &k) : attend(&k), 0);
    }
  }
  assert_int_equal(cni_recorded_runs() - before, TIMES - 1);
  for (int i = 0; i < TIMES; i++) {
    for (int k = 0; k < 4; k++) close_to("a recorded result", cn_to_device(want[i][k], CN_CPU), have[i][k], 0);
    if (i) assert_true(cn_item(cn_amax(cn_abs(cn_sub(have[i][0], have[i - 1][0])))) > 0);
  }
  cn_compiled_free(fast);
  cn_scope_end(s);
}

/* No tensor has a number for each score: not as much as a bit. */
static void memory_is_linear(void **state)
{
  (void)state;
  enum { LENGTH = 640, WIDTH = 8, ROWS = 16 }; /* of the operands, gradients, and what is between */
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3], *out[4];
  for (int i = 0; i < 3; i++) in[i] = there(cn_cast(cn_randn(CN_SHAPE(1, 1, LENGTH, WIDTH)), CN_F16));
  cn_device_memory_stats before = {.size = sizeof before}, after = {.size = sizeof after};
  cn_device_memory_reset_peak(gpu);
  cn_device_memory_get_stats(&before, gpu);
  assert_int_equal(attend(&(cn_compile_call){.inputs = in, .ninputs = 3, .outputs = out, .noutputs = 4}), 0);
  cn_device_memory_get_stats(&after, gpu);
  uint64_t more = after.used[CN_MEMORY_ALL].peak - before.used[CN_MEMORY_ALL].now;
  if (more > LENGTH * WIDTH * 2 * ROWS)
    fail_msg("%llu bytes for %d queries and keys", (unsigned long long)more, LENGTH);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_query), cmocka_unit_test(many_queries),
                                     cmocka_unit_test(recorded_work_draws_anew), cmocka_unit_test(memory_is_linear)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
