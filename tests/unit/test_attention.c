/* test_attention.c: the CPU's attention with dropout drops what the formulas in public ops drop, forward and backward,
 * for every way that its blocks of scores lie, and compiled to the bit. */
#include <cairn/autograd.h>
#include <cairn/cairn.h>
#include <cairn/compile.h>

#include "tensors.h"

typedef struct form {
  int64_t heads, key_heads, queries, keys, width;
  bool causal;
  int mask; /* 0: none; 1: numbers; 2: true where a key takes part */
} form;

static const form forms[] = {
  {4, 4, 40, 40, 8, false, 0},   {2, 2, 3, 5, 4, false, 0},     {4, 2, 64, 300, 16, false, 0},
  {2, 2, 130, 130, 8, true, 0},  {2, 1, 70, 290, 8, false, 1},  {2, 2, 33, 20, 8, false, 2},
  {1, 1, 5, 600, 8, false, 1},
};
enum { FORMS = sizeof forms / sizeof *forms, RESULTS = 4 };

typedef struct operands {
  const form *f;
  cn_tensor *in[4]; /* query, key, value, mask */
  cn_tensor *grad;
} operands;

static operands operands_of(const form *f, cn_dtype type)
{
  operands o = {.f = f};
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_randn(CN_SHAPE(2, i ? f->key_heads : f->heads, i ? f->keys : f->queries, f->width));
    o.in[i] = cn_requires_grad(cn_cast(x, type), true);
  }
  if (f->mask) o.in[3] = cn_cast(cn_randn(CN_SHAPE(f->queries, f->keys)), type);
  if (f->mask == 2) o.in[3] = cn_gt(o.in[3], cn_num(-0.5));
  o.grad = cn_cast(cn_randn(CN_SHAPE(2, f->heads, f->queries, f->width)), type);
  return o;
}

/* (output, gradients of query, key and value) */
static int attend(cn_compile_call *k)
{
  const operands *o = k->payload;
  cn_tensor *y = cn_scaled_dot_product_attention(k->inputs[0], k->inputs[1], k->inputs[2], .attn_mask = o->in[3],
                                                 .dropout_p = 0.3, .is_causal = o->f->causal,
                                                 .enable_gqa = o->f->heads != o->f->key_heads);
  cn_tensor *of[] = {y};
  k->outputs[0] = cn_detach(y);
  cn_grad(&k->outputs[1], of, 1, k->inputs, 3, .grad_outputs = &o->grad);
  k->noutputs = RESULTS;
  return cn_err();
}

static void run(cn_tensor **out, const operands *o, cn_compiled *fast)
{
  cn_compile_call k = {.inputs = (cn_tensor **)(uintptr_t)o->in, .ninputs = 3, .outputs = out, .noutputs = RESULTS,
                       .payload = (void *)(uintptr_t)o};
  cn_seed(5);
  if (fast ? cn_compiled_call(fast, &k) : attend(&k)) fail_msg("%s", cn_err_message());
}

static void drops_what_the_formulas_drop(void **state)
{
  (void)state;
  for (int i = 0; i < 2 * FORMS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_seed(1);
    operands o = operands_of(&forms[i / 2], i % 2 ? CN_F64 : CN_F32);
    cn_tensor *have[RESULTS] = {NULL}, *want[RESULTS] = {NULL};
    run(have, &o, NULL);
    unsigned ways = cn_attention_begin(CN_ATTENTION_PARTS);
    run(want, &o, NULL);
    cn_attention_end(ways);
    for (int k = 0; k < RESULTS; k++) {
      double off = cn_item(cn_amax(cn_abs(cn_sub(have[k], want[k])))), most = cn_item(cn_amax(cn_abs(want[k])));
      if (!(off <= most * (i % 2 ? 1e-13 : 1e-5))) fail_msg("form %d, result %d: off by %g of %g", i / 2, k, off, most);
    }
    cn_scope_end(s);
  }
}

static void is_the_same_compiled(void **state)
{
  (void)state;
  for (int i = 0; i < FORMS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_seed(1);
    operands o = operands_of(&forms[i], CN_F32);
    cn_compiled *fast = cn_compile(attend, .fullgraph = true);
    cn_tensor *have[RESULTS] = {NULL}, *want[RESULTS] = {NULL};
    run(want, &o, NULL);
    for (int time = 0; time < 3; time++) {
      run(have, &o, fast);
      for (int k = 0; k < RESULTS; k++)
        if (!same_tensors(have[k], want[k])) fail_msg("form %d, result %d differs in run %d", i, k, time);
    }
    cn_compiled_free(fast);
    cn_scope_end(s);
  }
}

/* No bit depends on the number of threads. */
static void is_the_same_for_all_threads(void **state)
{
  (void)state;
  int all = cn_num_threads();
  for (int i = 0; i < FORMS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have[RESULTS] = {NULL}, *want[RESULTS] = {NULL};
    cn_seed(1);
    operands o = operands_of(&forms[i], CN_F32);
    cn_set_num_threads(1);
    run(want, &o, NULL);
    cn_set_num_threads(6);
    run(have, &o, NULL);
    for (int k = 0; k < RESULTS; k++)
      if (!same_tensors(have[k], want[k])) fail_msg("form %d, result %d differs", i, k);
    cn_scope_end(s);
  }
  cn_set_num_threads(all);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(drops_what_the_formulas_drop, clear_errors),
    cmocka_unit_test_setup(is_the_same_compiled, clear_errors),
    cmocka_unit_test_setup(is_the_same_for_all_threads, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
