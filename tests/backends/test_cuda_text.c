/* test_cuda_text.c: steps of language models that write, on a CUDA device or, without one, on the emulation
 * (tests/simt), against the CPU: linear layers of a few rows, attention over a cache, the choice of a token, and whole
 * texts. Skipped, with the reason, where there is neither. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "emulated.h"

static int set_up(void **state)
{
  (void)state;
  if (cn_device_count("cuda") > 0) gpu = cn_device_find("cuda");
  return cn_err();
}

/* A linear layer of a few rows: with what comes before and behind it, rows that a warp has, that warps share, and
 * longer ones, results that take one turn or several. */
static void few_rows(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(21);
  static const int64_t counts[] = {1, 1, 3, 1, 1}, widths[] = {72, 4104, 72, 2056, 1160};
  static const int64_t outs[] = {11, 11, 11, 301, 5000};
  static const char *const before[] = {"layer", "rms", "rms", "none", "layer"};
  static const char *const joins[] = {"add", "mul", "none", "add", "add"};
  static const char *const acts[] = {"gelu_tanh", "none", "silu", "gelu", "relu"};
  for (int i = 0; i < 10; i++) {
    int k = i % 5;
    int64_t n = widths[k], out = outs[k];
    cn_tensor *all[] = {cn_randn(CN_SHAPE(counts[k], 1, n)), cn_randn(CN_SHAPE(out, n)), cn_randn(CN_SHAPE(out)),
                        cn_randn(CN_SHAPE(n)), cn_randn(CN_SHAPE(n)), cn_randn(CN_SHAPE(counts[k], 1, out))}, *far[6];
    all[1] = cn_div(all[1], cn_num(sqrt((double)n)));
    for (int t = 0; t < 6; t++) {
      if (i > 4) all[t] = cn_cast(all[t], CN_BF16);
      far[t] = there(all[t]);
    }
    if (k == 3) all[3] = far[3] = NULL; /* no norm */
    if (k % 4) all[4] = far[4] = NULL; /* no layer norm */
    if (k == 2) all[5] = far[5] = NULL;
    close_to("a linear step",
             cn_linear_step(all[0], all[1], all[2], all[3], all[4], all[5], .norm = before[k], .activation = acts[k],
                            .join = joins[k]),
             cn_linear_step(far[0], far[1], far[2], far[3], far[4], far[5], .norm = before[k], .activation = acts[k],
                            .join = joins[k]), i > 4 ? 2e-2 : 1e-5);
  }
  cn_scope_end(s);
}

/* Attention of one query to a cache: in one piece and in several, heads that share keys, turned or not. */
static void one_query(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(22);
  static const int64_t lengths[] = {40, 1100, 9}, widths[] = {16, 24, 8};
  for (int i = 0; i < 3; i++) {
    int64_t d = widths[i], length = lengths[i];
    const int64_t places[] = {length - 1, length / 3};
    cn_tensor *all[] = {cn_randn(CN_SHAPE(2, 2, length, d)), cn_randn(CN_SHAPE(2, 2, length, d)),
                        cn_zeros(CN_SHAPE(2, 4, 1, d)), cn_randn(CN_SHAPE(2, 4, 1, d)),
                        cn_transpose(cn_randn(CN_SHAPE(2, 1, 2, d)), 1, 2), cn_randn(CN_SHAPE(2, 2, 1, d)),
                        cn_from_data(places, CN_SHAPE(2), CN_I64), cn_randn(CN_SHAPE(length, d)),
                        cn_randn(CN_SHAPE(length, d))}, *far[9];
    for (int t = 0; t < 9; t++) {
      if (i == 2 && t != 6) all[t] = cn_cast(all[t], CN_BF16);
      far[t] = there(all[t]);
    }
    if (!i) all[7] = all[8] = far[7] = far[8] = NULL;
    int saved = cn_inference_begin();
    assert_int_equal(cn_attend_step_(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8],
                                     .scale = 0.3), 0);
    assert_int_equal(cn_attend_step_(far[0], far[1], far[2], far[3], far[4], far[5], far[6], far[7], far[8],
                                     .scale = 0.3), 0);
    cn_inference_end(saved);
    close_to("keys", all[0], far[0], i == 2 ? 1e-2 : 1e-6);
    close_to("values", all[1], far[1], 0);
    close_to("attention", all[2], far[2], i == 2 ? 2e-2 : 1e-5);
  }
  cn_scope_end(s);
}

/* Layers of a decoder. */
typedef struct decoder_case {
  int64_t layers, width, heads, key_heads, head, inner, length, at;
  bool gated, low; /* low: bfloat16 */
} decoder_case;
enum { WEIGHTS = 7, OF_LAYER = 18, MOST_TENSORS = WEIGHTS + 3 * OF_LAYER };

static cn_tensor *scaled(int64_t rows, int64_t columns)
{
  return cn_div(cn_randn(CN_SHAPE(rows, columns)), cn_num(sqrt((double)columns)));
}

/* Weights and biases of a layer; with a gate there is no layer norm, and some biases less. */
static void layer_weights(cn_tensor **to, const decoder_case *d)
{
  int64_t w = d->width, q = d->heads * d->head, k = d->key_heads * d->head, inner = d->inner;
  const int64_t rows[] = {0, q, k, k, w, 0, inner, inner, w}, columns[] = {0, w, w, w, q, 0, w, w, inner};
  for (int i = 0; i < OF_LAYER / 2; i++) {
    bool norm = !rows[i];
    to[2 * i] = norm ? cn_randn(CN_SHAPE(w)) : scaled(rows[i], columns[i]);
    to[2 * i + 1] = d->gated && i != 2 && i != 7 ? NULL : cn_randn(CN_SHAPE(norm ? w : rows[i]));
  }
  if (!d->gated) to[12] = to[13] = NULL;
}

static int run_decoder(cn_tensor **t, const decoder_case *d)
{
  double scales[] = {0.3, 0.2, 0.1};
  cn_doubles given = {scales, (size_t)d->layers};
  if (d->gated) given = (cn_doubles){NULL, 0};
  return cn_decoder_step_(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t + WEIGHTS, (size_t)d->layers * OF_LAYER,
                          .norm = d->gated ? "rms" : "layer", .activation = d->gated ? "silu" : "gelu_tanh",
                          .scales = given);
}

/* A decoder at once: in clusters of one, two and eight blocks, whose shares are even and not; heads that share keys,
 * with a gate and angles; caches that take several rounds; and one that is too wide. */
static void decoders(void **state)
{
  (void)state;
  need_device();
  static const decoder_case cases[] = {
      {3, 32, 4, 4, 8, 64, 20, 7, false, true},   {2, 24, 3, 3, 8, 40, 1100, 1090, false, false},
      {2, 128, 4, 2, 64, 96, 70, 69, true, false}, {1, 128, 2, 2, 64, 256, 300, 0, false, true},
      {3, 1056, 2, 1, 8, 16, 12, 5, true, false}, {2, 96, 6, 2, 16, 80, 40, 33, true, true}};
  cn_seed(25);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const decoder_case *d = &cases[i];
    cn_scope *s = cn_scope_begin();
    int64_t n = WEIGHTS + d->layers * OF_LAYER;
    cn_tensor *angles = cn_randn(CN_SHAPE(2, d->length, d->head)), *far[MOST_TENSORS], *all[MOST_TENSORS] = {
        cn_randn(CN_SHAPE(d->layers, 1, d->key_heads, d->length, d->head)),
        cn_randn(CN_SHAPE(d->layers, 1, d->key_heads, d->length, d->head)), cn_zeros(CN_SHAPE(1, 1, d->width)),
        cn_randn(CN_SHAPE(1, 1, d->width)), cn_from_data(&d->at, CN_SHAPE(1), CN_I64)};
    if (d->gated) all[5] = cn_select(angles, 0, 0), all[6] = cn_select(angles, 0, 1);
    for (int64_t k = 0; k < d->layers; k++) layer_weights(all + WEIGHTS + k * OF_LAYER, d);
    for (int64_t t = 0; t < n; t++) {
      if (all[t]) all[t] = cn_contiguous(d->low && t != 4 ? cn_cast(all[t], CN_BF16) : all[t]);
      far[t] = all[t] ? there(all[t]) : NULL;
    }
    int saved = cn_inference_begin();
    assert_int_equal(run_decoder(all, d), 0);
    assert_int_equal(run_decoder(far, d), 0);
    cn_inference_end(saved);
    /* bfloat16: roundings that go the other way, layer after layer. */
    close_to("keys", all[0], far[0], d->low ? 5e-2 : 1e-5);
    close_to("values", all[1], far[1], d->low ? 5e-2 : 1e-5);
    close_to("a decoder", all[2], far[2], d->low ? 1e-1 : 1e-5);
    cn_scope_end(s);
  }
}

/* The choice of a token, by every setting: the CPU's. */
static void choices(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(23);
  const cn_choose_token_opts how[] = {{.temperature = CN_ZERO, .penalty = 2}, {.temperature = 0.8},
                                      {.top_k = 5, .top_p = 0.7}, {.top_p = 0.5, .penalty = 1.5, .stop = 3}};
  cn_tensor *scores = cn_mul(cn_randn(CN_SHAPE(3, 1203)), cn_num(2)), *uniforms = cn_cast(cn_rand(CN_SHAPE(9)), CN_F64);
  cn_tensor *tokens = cn_randint(0, 1203, CN_SHAPE(3, 6));
  for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
    const int64_t at[] = {2, 2, 2}, ends[] = {6, 1, 6};
    cn_tensor *all[] = {cn_clone(tokens), cn_zeros(CN_SHAPE(3, 1), .dtype = CN_I64),
                        cn_from_data(at, CN_SHAPE(3), CN_I64), cn_from_data(ends, CN_SHAPE(3), CN_I64)}, *far[4];
    for (int t = 0; t < 4; t++) far[t] = there(all[t]);
    cn_choose_token_opts o = how[i];
    o.size = sizeof o;
    o.prompt = 2;
    int saved = cn_inference_begin();
    assert_int_equal(cn_choose_token_inplace_with(all[0], all[1], all[2], all[3], scores, uniforms, &o), 0);
    cn_tensor *far_scores = there(scores), *far_uniforms = there(uniforms);
    assert_int_equal(cn_choose_token_inplace_with(far[0], far[1], far[2], far[3], far_scores, far_uniforms, &o), 0);
    cn_inference_end(saved);
    for (int t = 0; t < 4; t++) close_to("a choice", all[t], far[t], 0);
  }
  cn_scope_end(s);
}

/* A text of which each step is a recording. */
static void text(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  static const char json[] = "{\"vocab_size\": 40, \"n_positions\": 12, \"n_embd\": 16, \"n_layer\": 1, \"n_head\": 2}";
  cn_tree *config = cn_tree_from_json(json, strlen(json));
  cn_seed(24);
  cn_module *m = cn_zoo("gpt2", .config = config), *far = cn_module_copy(m);
  cn_tree_free(config);
  assert_int_equal(cn_module_to(far, gpu, CN_DTYPE_NONE), 0);
  cn_tensor *prompt = cn_randint(0, 40, CN_SHAPE(1, 3));
  close_to("a text", cn_generate(m, prompt, .max_new_tokens = 6, .temperature = CN_ZERO),
           cn_generate(far, there(prompt), .max_new_tokens = 6, .temperature = CN_ZERO), 0);
  cn_module_release(m);
  cn_module_release(far);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  char folder[1000];
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  if (slash) { /* the plugin lies in the build folder, two above this program */
    snprintf(folder, sizeof folder, "%.*s/../..", (int)(slash - argv[0]), argv[0]);
    setenv("CAIRN_PLUGIN_PATH", folder, 0);
    if (cn_device_count("cuda") < 1) emulate(argv);
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_rows), cmocka_unit_test(one_query),
                                     cmocka_unit_test(decoders), cmocka_unit_test(choices),
                                     cmocka_unit_test(text)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
