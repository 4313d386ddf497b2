/* test_cuda_attention.c: attention on a CUDA device in all its forms, results and gradients, against the CPU's in
 * float32: every broadcast of a mask, of every type, grouped queries, lengths and widths that differ, queries that see
 * no key. Skipped, with the reason, where there is no device.
 *
 * What is compared is the length of the difference beside the length of the whole, which a wrong gradient of any part
 * cannot pass. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"

enum { NONE, BOOL, OWN, WIDE, CAUSAL }; /* masks: none, of the queries' type, float32 */
typedef struct form {
  const char *name;
  int64_t b, h, hk, tq, tk, d, dv;
  int mask;
  int64_t shape[4]; /* the mask's; a leading 0: it has fewer dims */
  bool hidden;      /* a query that sees no key */
} form;

static const form forms[] = {
    {"plain", 2, 3, 3, 77, 77, 64, 64, NONE, {0}, false},
    {"causal", 2, 3, 3, 128, 128, 64, 64, CAUSAL, {0}, false},
    {"longer keys", 2, 3, 3, 40, 130, 64, 64, NONE, {0}, false},
    {"longer keys, causal", 2, 3, 3, 40, 130, 64, 64, CAUSAL, {0}, false},
    {"longer queries, causal", 2, 3, 3, 130, 40, 64, 64, CAUSAL, {0}, false},
    {"grouped queries", 2, 6, 2, 96, 96, 64, 64, NONE, {0}, false},
    {"grouped queries, causal", 2, 8, 1, 96, 96, 128, 128, CAUSAL, {0}, false},
    {"wider values", 2, 3, 3, 64, 64, 64, 128, NONE, {0}, false},
    {"bool (B,1,1,T)", 3, 4, 4, 96, 96, 64, 64, BOOL, {3, 1, 1, 96}, true},
    {"bool (B,1,T,T)", 3, 4, 4, 96, 96, 64, 64, BOOL, {3, 1, 96, 96}, true},
    {"bool (B,H,T,T)", 2, 4, 4, 77, 131, 64, 64, BOOL, {2, 4, 77, 131}, true},
    {"bool (T,T)", 2, 4, 4, 77, 131, 64, 64, BOOL, {0, 0, 77, 131}, true},
    {"bool (1,H,1,T), grouped", 2, 4, 2, 77, 131, 64, 64, BOOL, {1, 4, 1, 131}, true},
    {"bias (B,1,1,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {3, 1, 1, 96}, true},
    {"bias (B,H,1,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {3, 4, 1, 96}, true},
    {"bias (1,1,T,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {1, 1, 96, 96}, true},
    {"bias (1,H,T,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {1, 4, 96, 96}, false},
    {"bias (B,1,T,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {3, 1, 96, 96}, true},
    {"bias (B,H,T,T)", 3, 4, 4, 96, 96, 64, 64, OWN, {3, 4, 96, 96}, true},
    {"bias (H,T,T), odd, grouped", 2, 4, 2, 77, 131, 64, 64, OWN, {0, 4, 77, 131}, false},
    {"bias (T), one row", 2, 4, 4, 77, 131, 64, 64, OWN, {0, 0, 0, 131}, false},
    {"bias (B,1,T,1)", 2, 4, 4, 77, 131, 64, 64, OWN, {2, 1, 77, 1}, true},
    {"float32 bias (B,1,T,T)", 2, 4, 4, 80, 80, 64, 64, WIDE, {2, 1, 80, 80}, true},
    {"large bias (B,H,T,T)", 2, 4, 4, 768, 768, 64, 64, OWN, {2, 4, 768, 768}, true},
    {"large float32 bias (1,H,T,T)", 2, 8, 8, 768, 768, 64, 64, WIDE, {1, 8, 768, 768}, false},
    {"float32 bias (1,H,1,T)", 2, 4, 4, 80, 80, 64, 64, WIDE, {1, 4, 1, 80}, false},
    {"one query", 2, 4, 4, 1, 131, 64, 64, NONE, {0}, false},
    {"one query, grouped, bool (B,1,1,T)", 3, 8, 2, 1, 1000, 128, 128, BOOL, {3, 1, 1, 1000}, true},
    {"one query, bias (1,H,1,T)", 2, 4, 4, 1, 300, 80, 80, OWN, {1, 4, 1, 300}, false},
};

/* A mask of a form with some keys hidden; hidden: the first row's all. NULL: none. */
static cn_tensor *mask_of(const form *f, cn_dtype type)
{
  int skip = 0;
  if (f->mask == NONE || f->mask == CAUSAL) return NULL;
  while (!f->shape[skip]) skip++;
  size_t n = (size_t)(4 - skip);
  const int64_t *shape = f->shape + skip;
  cn_tensor *keep = cn_lt(cn_rand(shape, n), cn_num(0.7));
  if (shape[n - 1] > 1) cn_fill_(cn_select(keep, (int64_t)n - 1, 5), cn_num(1)); /* every query sees one */
  if (f->hidden) {
    cn_tensor *row = keep;
    while (cn_ndim(row) > 1) row = cn_select(row, 0, 0);
    cn_fill_(cn_slice(row, 0, 0, shape[n - 1] > 1 ? CN_NONE : 1), cn_num(0));
  }
  if (f->mask == BOOL) return keep;
  cn_tensor *bias = cn_where(keep, cn_randn(shape, n), cn_num(-INFINITY));
  return cn_cast(bias, f->mask == OWN ? type : CN_F32);
}

enum { PARTS = 5 }; /* a result, and gradients */

/* out[0]: the result; out[1..5): gradients of query, key, value and, if it is one of numbers, the mask, for a given
 * gradient. Returns how many there are. */
static int attend(cn_tensor **out, const form *f, cn_tensor *const *qkv, cn_tensor *mask, cn_tensor *grad,
                  double dropout, cn_device where, cn_dtype type)
{
  cn_tensor *x[4];
  int leaves = 3;
  for (int i = 0; i < 3; i++) x[i] = cn_requires_grad(cn_to_device(cn_cast(qkv[i], type), where), true);
  if (mask) mask = cn_to_device(mask, where);
  if (mask && f->mask != BOOL) x[leaves++] = mask = cn_requires_grad(cn_detach(mask), true);
  cn_seed(13);
  out[0] = cn_scaled_dot_product_attention(x[0], x[1], x[2], .attn_mask = mask, .is_causal = f->mask == CAUSAL,
                                           .enable_gqa = f->h != f->hk, .dropout_p = dropout);
  cn_backward(cn_sum(cn_mul(out[0], cn_to_device(cn_cast(grad, type), where))));
  for (int i = 0; i < leaves; i++) out[i + 1] = cn_grad_of(x[i]);
  fine();
  return leaves + 1;
}

/* |a - b| / |a| over all elements */
static double distance(cn_tensor *a, cn_tensor *b)
{
  a = cn_cast(a, CN_F64);
  b = cn_cast(cn_to_device(b, CN_CPU), CN_F64);
  cn_tensor *d = cn_sub(a, b);
  double size = cn_item(cn_sum(cn_mul(a, a))), off = cn_item(cn_sum(cn_mul(d, d)));
  fine();
  return sqrt(off / (size > 0 ? size : 1));
}

static void check_form(const form *f, cn_dtype type, double dropout)
{
  static const char *const parts[PARTS] = {"result", "gradient of query", "gradient of key", "gradient of value",
                                           "gradient of mask"};
  cn_scope *s = cn_scope_begin();
  cn_tensor *qkv[3] = {cn_randn(CN_SHAPE(f->b, f->h, f->tq, f->d)), cn_randn(CN_SHAPE(f->b, f->hk, f->tk, f->d)),
                       cn_randn(CN_SHAPE(f->b, f->hk, f->tk, f->dv))};
  cn_tensor *grad = cn_cast(cn_randn(CN_SHAPE(f->b, f->h, f->tq, f->dv)), type), *mask = mask_of(f, type);
  cn_tensor *want[PARTS], *have[PARTS];
  for (int i = 0; i < 3; i++) qkv[i] = cn_cast(qkv[i], type); /* what both are given */
  cn_tensor *wide = mask && f->mask == OWN ? cn_cast(mask, CN_F32) : mask;
  attend(want, f, qkv, wide, grad, dropout, CN_CPU, CN_F32);
  int n = attend(have, f, qkv, mask, grad, dropout, gpu, type);
  double most = type == CN_BF16 ? 1.2e-2 : type == CN_F16 ? 2e-3 : 1e-5;
  for (int i = 0; i < n; i++) {
    /* A mask that is one number for all keys changes nothing: its gradient is 0, beside which nothing is small. */
    bool shifts = i == 4 && f->shape[3] == 1;
    double off = shifts ? distance(grad, cn_add(cn_sum(have[i]), cn_to_device(grad, gpu))) : distance(want[i], have[i]);
    if (!(off <= most))
      fail_msg("%s, %s, dropout %g, %s: off by %.3g", f->name, cn_dtype_name(type), dropout, parts[i], off);
  }
  cn_scope_end(s);
}

static void all_forms(cn_dtype type)
{
  need_gpu();
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    cn_seed(21 + i);
    check_form(&forms[i], type, 0);
  }
}

static void bfloat16(void **state)
{
  (void)state;
  all_forms(CN_BF16);
}
static void float16(void **state)
{
  (void)state;
  all_forms(CN_F16);
}
static void float32(void **state)
{
  (void)state;
  all_forms(CN_F32);
}

/* Masks that never hide a key, however low: a row of them is an even average, not zeros. Of both kinds: masks that are
 * copied, and large ones that are read as they lie. */
static void lowest_numbers(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t heads[] = {2, 64};
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t n = i ? 512 : 64;
    cn_tensor *q = cn_cast(cn_randn(CN_SHAPE(1, heads[i], n, 64)), CN_BF16);
    cn_tensor *mask = cn_full(CN_SHAPE(1, i ? 64 : 1, n, n), 0);
    cn_fill_(cn_select(mask, 2, 3), cn_num(-3.3895314e38)); /* bfloat16's least */
    cn_fill_(cn_slice(mask, 3, 0, 32), cn_num(-3.3895314e38));
    cn_fill_(cn_select(mask, 2, 5), cn_num(-INFINITY));
    mask = cn_cast(mask, CN_BF16);
    cn_tensor *want = cn_scaled_dot_product_attention(cn_cast(q, CN_F32), cn_cast(q, CN_F32), cn_cast(q, CN_F32),
                                                      .attn_mask = cn_cast(mask, CN_F32));
    cn_tensor *x = cn_to_device(q, gpu);
    cn_tensor *have = cn_scaled_dot_product_attention(x, x, x, .attn_mask = cn_to_device(mask, gpu));
    double off = distance(want, have), row = distance(cn_select(want, 2, 3), cn_select(have, 2, 3));
    if (!(off <= 1.2e-2 && row <= 1.2e-2)) fail_msg("off by %.3g, the low row by %.3g", off, row);
    assert_true(cn_item(cn_sum(cn_abs(cn_to_device(cn_select(have, 2, 5), CN_CPU)))) == 0);
    cn_scope_end(s);
  }
}

/* A NaN among the queries is seen, whatever the mask. */
static void not_a_number(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *q = cn_randn(CN_SHAPE(1, 2, 64, 64)), *mask = cn_ones(CN_SHAPE(64, 64), .dtype = CN_BOOL);
  cn_fill_(cn_select(cn_select(cn_select(q, 2, 9), 1, 1), 1, 4), cn_num(NAN));
  cn_fill_(cn_slice(mask, 1, 0, 7), cn_num(0));
  cn_tensor *k = cn_to_device(cn_cast(cn_randn(CN_SHAPE(1, 2, 64, 64)), CN_BF16), gpu);
  cn_tensor *y = cn_scaled_dot_product_attention(cn_to_device(cn_cast(q, CN_BF16), gpu), k, k,
                                                 .attn_mask = cn_to_device(mask, gpu));
  cn_tensor *bad = cn_to_device(cn_isnan(y), CN_CPU);
  fine();
  assert_int_equal((int)cn_item(cn_sum(bad)), 64);
  assert_int_equal((int)cn_item(cn_sum(cn_select(cn_select(bad, 2, 9), 1, 1))), 64);
  cn_scope_end(s);
}

/* Dropout draws the CPU's numbers, in every form. */
static void dropped(void **state)
{
  (void)state;
  need_gpu();
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i += 2) {
    cn_seed(40 + i);
    check_form(&forms[i], CN_BF16, 0.3);
  }
}

int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bfloat16),       cmocka_unit_test(float16),      cmocka_unit_test(float32),
      cmocka_unit_test(lowest_numbers), cmocka_unit_test(not_a_number), cmocka_unit_test(dropped),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
