/* test_generate.c: caches, choosing tokens, generation, for every kind of language model, on the CPU and on
 * the mirror or the device that CAIRN_TEST_DEVICE names; a failing allocation at every place. */
#include <cairn/cairn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
#include "small.h"
#include "test.h"

/* ---- caches ---- */

static void steps_equal_the_whole(void **state)
{
  (void)state;
  for (int i = 0; i < SMALL_MODELS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_module *m = small(i);
    cn_tensor *tokens = formula_tokens(3, 12, SMALL_VOCAB);
    cn_module_train(m, false);
    cn_tensor *whole = cn_forward(m, tokens);
    cn_cache *cache = cn_cache_new(m, 3, 12);
    const int64_t cuts[] = {0, 5, 6, 9, 12}; /* several, one, several */
    for (int k = 0; k < 4; k++) {
      cn_tensor *y = cn_decode_step(m, cn_slice(tokens, 1, cuts[k], cuts[k + 1]), cache);
      must_be_near(y, cn_slice(whole, 1, cuts[k], cuts[k + 1]));
      assert_int_equal(cn_cache_size(cache), cuts[k + 1]);
    }
    assert_null(cn_decode_step(m, cn_slice(tokens, 1, 0, 1), cache)); /* full */
    assert_int_equal(cn_err(), CN_ERR_VALUE);
    cn_err_clear();
    int64_t kept = i < 2 ? 7 : 0;
    assert_int_equal(cn_cache_truncate(cache, kept), 0);
    must_be_near(cn_decode_step(m, cn_slice(tokens, 1, kept, 12), cache), cn_slice(whole, 1, kept, 12));
    cn_cache_free(cache);
    cn_module_release(m);
    cn_scope_end(s);
  }
}

static void caches_refuse(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0), *other = small(1), *plain = cn_nn_relu(), *rnn = small(2);
  cn_cache *cache = cn_cache_new(m, 1, 4), *states = cn_cache_new(rnn, 1, 4);
  assert_null(cn_cache_new(plain, 1, 4));
  cn_err_clear();
  assert_null(cn_cache_new(m, 1, 41)); /* longer than its context */
  cn_err_clear();
  assert_null(cn_decode_step(other, formula_tokens(1, 1, SMALL_VOCAB), cache));
  cn_err_clear();
  assert_null(cn_decode_step(m, formula_tokens(2, 1, SMALL_VOCAB), cache));
  cn_err_clear();
  assert_null(cn_decode_step(m, cn_zeros(CN_SHAPE(1, 1)), cache)); /* floats */
  cn_err_clear();
  assert_int_not_equal(cn_cache_truncate(cache, 1), 0);
  cn_err_clear();
  assert_non_null(cn_decode_step(rnn, formula_tokens(1, 3, SMALL_VOCAB), states));
  assert_int_equal(cn_cache_truncate(states, 2), CN_ERR_UNSUPPORTED);
  cn_err_clear();
  cn_cache_free(cache);
  cn_cache_free(states);
  cn_module_release(m);
  cn_module_release(other);
  cn_module_release(plain);
  cn_module_release(rnn);
  cn_scope_end(s);
}

/* ---- generation ---- */

static void greedy_needs_no_cache(void **state)
{
  (void)state;
  for (int i = 0; i < SMALL_MODELS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_module *m = small(i);
    cn_tensor *prompt = formula_tokens(2, 5, SMALL_VOCAB);
    cn_tensor *y = cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO);
    must_equal(y, cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO, .no_cache = true));
    must_equal(cn_slice(y, 1, 0, 5), prompt);
    assert_int_equal(cn_size(y, 1), 25);
    assert_true(cn_module_training(m)); /* as it was */
    /* a row of a batch is what it is alone */
    must_equal(cn_slice(y, 0, 1, 2),
               cn_generate(m, cn_slice(prompt, 0, 1, 2), .max_new_tokens = 20, .temperature = CN_ZERO));
    /* so are the only candidate, and the one that makes up the smallest part */
    must_equal(y, cn_generate(m, prompt, .max_new_tokens = 20, .top_k = 1));
    must_equal(y, cn_generate(m, prompt, .max_new_tokens = 20, .top_p = 1e-9));
    must_equal(y, cn_generate(m, prompt, .max_new_tokens = 20, .temperature = 1e-4));
    cn_module_release(m);
    cn_scope_end(s);
  }
}

static void seeds_repeat(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0);
  cn_tensor *prompt = formula_tokens(2, 5, SMALL_VOCAB), *y[3];
  for (int i = 0; i < 3; i++) {
    cn_seed(i == 1 ? 8 : 7);
    y[i] = cn_generate(m, prompt, .max_new_tokens = 30, .temperature = 1.5, .top_k = 40, .top_p = 0.95,
                       .no_cache = i == 2);
  }
  must_equal(y[0], y[2]);
  assert_false(cn_item(cn_all(cn_eq(y[0], y[1]))));
  cn_module_release(m);
  cn_scope_end(s);
}

/* Scores of two tokens, drawn often: their frequencies are their probabilities. */
static int two_scores(cn_module *m, cn_module_call *call)
{
  (void)m;
  cn_tensor *t = call->args[0].u.t;
  const float scores[] = {0, 1, -30, 2};
  cn_tensor *one = cn_reshape(cn_floats(scores, 4), CN_SHAPE(1, 1, 4));
  call->out[0] = cn_expand(one, CN_SHAPE(cn_size(t, 0), cn_size(t, 1), 4));
  return cn_err();
}

static double share(cn_module *m, int64_t token, const cn_generate_opts *o)
{
  cn_tensor *y = cn_generate_with(m, cn_zeros(CN_SHAPE(2000, 1), .dtype = CN_I64), o);
  if (!y) fail_msg("%s", cn_err_message());
  return cn_item(cn_mean(cn_cast(cn_eq(cn_select(y, 1, 1), cn_int(token)), CN_F32)));
}

static void draws_have_their_probabilities(void **state)
{
  (void)state;
  static const cn_module_class cls = {CN_MODULE_CLASS, .name = "TwoScores", .forward = two_scores};
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_module_new(&cls);
  double sum = 1 + exp(1) + exp(2);
  cn_seed(3);
#define SHARE(token, ...) \
  share(m, token, &(cn_generate_opts){.size = sizeof(cn_generate_opts), .max_new_tokens = 1, __VA_ARGS__})
  assert_true(fabs(SHARE(0, .stop = 0) - 1 / sum) < 0.03);
  assert_true(fabs(SHARE(3, .stop = 0) - exp(2) / sum) < 0.03);
  assert_true(SHARE(2, .stop = 0) == 0);
  assert_true(fabs(SHARE(1, .temperature = 2) - exp(0.5) / (1 + exp(0.5) + exp(1))) < 0.03);
  assert_true(SHARE(0, .top_k = 2) == 0);
  assert_true(fabs(SHARE(1, .top_k = 2) - exp(1) / (exp(1) + exp(2))) < 0.03);
  assert_true(SHARE(0, .top_p = 0.8) == 0); /* 0.665 and 0.245 make 0.91 */
  assert_true(fabs(SHARE(3, .top_p = 0.8) - exp(2) / (exp(1) + exp(2))) < 0.03);
  assert_true(SHARE(3, .top_p = 0.6) == 1);
  cn_module_release(m);
  cn_scope_end(s);
}

static void penalty_is_transformers_one(void **state)
{
  (void)state;
  static const cn_module_class cls = {CN_MODULE_CLASS, .name = "TwoScores", .forward = two_scores};
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_module_new(&cls);
  const int64_t seen[] = {3, 3, 1}, wanted[] = {3, 3, 1, 3}; /* 2 / 1.5 is still above 1 / 1.5 and 0 */
  cn_tensor *prompt = cn_from_data(seen, CN_SHAPE(1, 3), CN_I64);
  cn_tensor *y = cn_generate(m, prompt, .max_new_tokens = 1, .temperature = CN_ZERO, .repetition_penalty = 1.5);
  must_equal(y, cn_from_data(wanted, CN_SHAPE(1, 4), CN_I64));
  const int64_t only[] = {3};
  y = cn_generate(m, cn_from_data(only, CN_SHAPE(1, 1), CN_I64), .max_new_tokens = 1, .temperature = CN_ZERO,
                  .repetition_penalty = 3);
  assert_int_equal(((int64_t *)cn_data(y))[1], 1); /* 2 / 3 is below 1 */
  cn_module_release(m);
  cn_scope_end(s);
}

typedef struct seen_tokens {
  int64_t n, last, most;
} seen_tokens;

static bool note(int64_t token, void *payload)
{
  seen_tokens *p = payload;
  p->last = token;
  return ++p->n < p->most;
}

static void stops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0);
  cn_tensor *prompt = formula_tokens(1, 5, SMALL_VOCAB);
  seen_tokens p = {.most = 100};
  cn_tensor *y = cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO, .each = note, .payload = &p);
  assert_int_equal(p.n, 20);
  const int64_t *v = cn_data(y);
  int64_t stop = v[5 + 7], first = 7;
  for (int64_t i = 6; i >= 0; i--)
    if (v[5 + i] == stop) first = i;
  cn_tensor *z = cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO, .stop = stop ? stop : CN_ZERO);
  assert_int_equal(cn_size(z, 1), 5 + first + 1);
  p = (seen_tokens){.most = 4};
  z = cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO, .each = note, .payload = &p);
  assert_int_equal(cn_size(z, 1), 9);
  assert_int_equal(p.last, v[8]);
  assert_null(cn_generate(m, prompt, .max_new_tokens = 36)); /* 41 of 40 */
  cn_err_clear();
  assert_null(cn_generate(m, prompt, .max_new_tokens = INT64_MAX));
  cn_err_clear();
  cn_module *rnn = small(2); /* which sees any number; room for all of these would not be a number */
  assert_null(cn_generate(rnn, formula_tokens(2, 5, SMALL_VOCAB), .max_new_tokens = INT64_MAX - 4));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  cn_module_release(rnn);
  assert_null(cn_generate(m, prompt, .temperature = -1));
  cn_err_clear();
  assert_null(cn_generate(m, cn_zeros(CN_SHAPE(1, 2))));
  cn_err_clear();
  assert_null(cn_generate(NULL, prompt));
  cn_err_clear();
  cn_module_release(m);
  cn_scope_end(s);
}

/* ---- devices ---- */

/* The mirror, or the device that CAIRN_TEST_DEVICE names. */
static cn_device other_device(void)
{
  const char *asked = getenv("CAIRN_TEST_DEVICE");
  return cn_device_find(asked ? asked : "mirror");
}

typedef struct noted_tokens {
  int64_t token[64];
  int n, most;
} noted_tokens;

static bool note_all(int64_t token, void *payload)
{
  noted_tokens *p = payload;
  p->token[p->n++] = token;
  return p->n < p->most;
}

/* Here and there, with and without a cache: the same tokens, the same calls of a function, the same random numbers left
 * over. */
static void must_write_alike(cn_module *here, cn_module *there, cn_tensor *prompt, cn_generate_opts o)
{
  cn_tensor *y[3];
  noted_tokens seen[3];
  uint64_t after[3];
  for (int i = 0; i < 3; i++) {
    seen[i] = (noted_tokens){.most = (int)(intptr_t)o.payload};
    cn_generate_opts mine = o;
    mine.size = sizeof mine;
    mine.payload = &seen[i];
    mine.no_cache = i == 2;
    cn_seed(11);
    y[i] = cn_generate_with(i ? there : here, i ? cn_to_device(prompt, other_device()) : prompt, &mine);
    if (!y[i]) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_device_of(y[i]), i ? other_device() : CN_CPU);
    y[i] = cn_to_device(y[i], CN_CPU);
    cn_random_state(NULL, &after[i]);
    must_equal(y[i], y[0]);
    assert_int_equal(after[i], after[0]);
    assert_int_equal(seen[i].n, seen[0].n);
    assert_memory_equal(seen[i].token, seen[0].token, (size_t)seen[0].n * sizeof *seen[0].token);
  }
}

/* A step of which is one launch from the third token on, where the device records. */
static void devices_write_the_same(void **state)
{
  (void)state;
  for (int i = 0; i < SMALL_MODELS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_module *m = small(i), *there = cn_module_copy(m);
    assert_int_equal(cn_module_to(there, other_device(), CN_DTYPE_NONE), 0);
    cn_tensor *prompt = formula_tokens(3, 5, SMALL_VOCAB), *one = cn_slice(prompt, 0, 1, 2);
#define ALIKE(prompt, ...) \
  must_write_alike(m, there, prompt, (cn_generate_opts){.guard = NULL, __VA_ARGS__})
    ALIKE(prompt, .max_new_tokens = 20, .temperature = CN_ZERO);
    ALIKE(one, .temperature = CN_ZERO, .max_new_tokens = 35); /* all there is room for */
    ALIKE(one, .temperature = CN_ZERO, .max_new_tokens = 1);
    ALIKE(prompt, .max_new_tokens = 20, .temperature = 1.5);
    ALIKE(prompt, .max_new_tokens = 20, .temperature = 0.7, .top_k = 12, .top_p = 0.9, .repetition_penalty = 1.3);
    ALIKE(one, .max_new_tokens = 20, .top_p = 0.6);
    ALIKE(prompt, .max_new_tokens = 20, .temperature = 1.5, .stop = 7);
    ALIKE(prompt, .max_new_tokens = 20, .temperature = 1.2, .stop = 3,
          .each = note_all, .payload = (void *)(intptr_t)64);
    ALIKE(one, .max_new_tokens = 20, .temperature = 1.2, .each = note_all, .payload = (void *)(intptr_t)4);
    cn_module_release(m);
    cn_module_release(there);
    cn_scope_end(s);
  }
}

/* A layer with a hook, or of another kind, is called as it is. */
static int doubled(cn_module *m, cn_module_call *call, void *payload)
{
  (void)m, (void)payload;
  call->out[0] = cn_mul(call->out[0], cn_num(2));
  return cn_err();
}

static void layers_with_hooks_count(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0), *there = cn_module_copy(m), *both[] = {m, there};
  cn_tensor *prompt = formula_tokens(2, 5, SMALL_VOCAB);
  assert_int_equal(cn_module_to(there, other_device(), CN_DTYPE_NONE), 0);
  cn_tensor *plain = cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO);
  for (int i = 0; i < 2; i++) {
    cn_module *block = cn_module_child(cn_module_child(cn_module_child(both[i], 0), 3), 0);
    cn_module *mlp = cn_module_child(block, 3), *act = cn_module_child(mlp, 1);
    assert_true(cn_module_plain(act));
    assert_true(cn_module_hook_after(act, doubled, NULL, NULL) >= 0);
    assert_false(cn_module_plain(act));
  }
  must_write_alike(m, there, prompt, (cn_generate_opts){.max_new_tokens = 20, .temperature = CN_ZERO});
  assert_false(cn_item(cn_all(cn_eq(plain, cn_generate(m, prompt, .max_new_tokens = 20, .temperature = CN_ZERO)))));
  cn_module_release(m);
  cn_module_release(there);
  cn_scope_end(s);
}

static void other_types_generate(void **state)
{
  (void)state;
  static const cn_dtype types[] = {CN_F64, CN_BF16, CN_F16};
  for (size_t i = 0; i < 3; i++)
    for (int k = 0; k < SMALL_MODELS; k++) {
      cn_scope *s = cn_scope_begin();
      cn_module *m = small(k);
      assert_int_equal(cn_module_to(m, CN_DEVICE_DEFAULT, types[i]), 0);
      cn_tensor *y = cn_generate(m, formula_tokens(2, 4, SMALL_VOCAB), .max_new_tokens = 8, .temperature = CN_ZERO);
      if (!y) fail_msg("%s, %s: %s", small_models[k].name, cn_dtype_name(types[i]), cn_err_message());
      assert_int_equal(cn_size(y, 1), 12);
      cn_module_release(m);
      cn_scope_end(s);
    }
}

/* ---- memory ---- */

/* Every allocation of making a network and of a few tokens fails once: an error each time, and nothing is lost. */
static void survives_failing_allocations(void **state)
{
  (void)state;
  cn_err_clear();
  cn_memory_set_caching(false);
  for (int i = 0; i < SMALL_MODELS; i++) {
    cn_tree *config = cn_tree_from_json(small_models[i].config, strlen(small_models[i].config));
    int failed = 0;
    for (uint64_t k = 1;; k += 1 + k / 20) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *prompt = formula_tokens(1, 3, SMALL_VOCAB);
      cn_memory_fail_at(k);
      cn_module *m = cn_zoo(small_models[i].name, .config = config, .vocab = small_models[i].vocab);
      cn_tensor *y = m ? cn_generate(m, prompt, .max_new_tokens = 3) : NULL;
      cn_memory_fail_at(0);
      bool done = y && !cn_err();
      if (!done) assert_int_not_equal(cn_err(), 0);
      cn_err_clear();
      cn_module_release(m);
      cn_scope_end(s);
      if (done) break;
      failed++;
    }
    assert_true(failed > 10);
    cn_tree_free(config);
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_equal_the_whole), cmocka_unit_test(caches_refuse), cmocka_unit_test(greedy_needs_no_cache),
    cmocka_unit_test(seeds_repeat), cmocka_unit_test(draws_have_their_probabilities),
    cmocka_unit_test(penalty_is_transformers_one), cmocka_unit_test(stops), cmocka_unit_test(devices_write_the_same),
    cmocka_unit_test(layers_with_hooks_count), cmocka_unit_test(other_types_generate),
    cmocka_unit_test(survives_failing_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
