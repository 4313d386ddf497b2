/* test_emulated_attention.c: attention of one query on the CUDA plugin, emulated (test_emulated.c), against the CPU's:
 * heads that share keys, masks of every type and form, heads that see no key, keys dealt out to several blocks. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/ext/parts.h>

#include "emulated.h"

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

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_query)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
