/* test_zoo.c: networks of the zoo beside torchvision's and transformers': names, outputs, gradients, greedy text, with
 * the same weights (formula.h). golden.py wrote what is expected; it says what the files hold. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <cairn/zoo.h>
#include <math.h>
#include <stdio.h>

#include "formula.h"
#include "test.h"

static cn_tree *golden(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tests/models/golden/%s.json", CN_TEST_SOURCE_DIR, name);
  cn_err_clear(); /* of a test that failed before */
  cn_tree *g = cn_load(path);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static double number(const cn_tree *g, const char *key) { return cn_tree_as_float(cn_tree_get(g, key), NAN); }
static int64_t whole(const cn_tree *g, const char *key) { return cn_tree_as_int(cn_tree_get(g, key), 0); }

/* ---- comparing ---- */

/* Sums are compared relative to the sum of absolute values, single elements relative to their mean. */
static void same(const char *what, const cn_tree *want, cn_tensor *got, double tolerance)
{
  if (!got) fail_msg("%s: %s", what, cn_err_message());
  int64_t n = cn_numel(got);
  const cn_tree *shape = cn_tree_get(want, "shape"), *first = cn_tree_get(want, "first");
  assert_int_equal(cn_ndim(got), cn_tree_size(shape));
  for (size_t i = 0; i < cn_tree_size(shape); i++)
    assert_int_equal(cn_shape(got)[i], cn_tree_as_int(cn_tree_at(shape, i), -1));
  const double *v = cn_data(cn_contiguous(cn_cast(got, CN_F64)));
  uint64_t h = formula_hash("weighted", 0);
  double sum = 0, absolute = 0, weighted = 0, scale = number(want, "abs") + 1e-30;
  for (int64_t i = 0; i < n; i++) {
    sum += v[i];
    absolute += fabs(v[i]);
    weighted += v[i] * formula_unit(h, (uint64_t)i);
  }
  double worst = fmax(fabs(sum - number(want, "sum")), fmax(fabs(absolute - number(want, "abs")),
                                                            fabs(weighted - number(want, "weighted")))) / scale;
  for (size_t i = 0; i < cn_tree_size(first); i++)
    worst = fmax(worst, fabs(v[i] - cn_tree_as_float(cn_tree_at(first, i), NAN)) / (scale / (double)n) / 4);
  if (!(worst <= tolerance)) fail_msg("%s: off by %.3g of its size, %.3g are allowed", what, worst, tolerance);
}

static uint64_t names_hash(const cn_tree *state)
{
  uint64_t h = formula_hash("", 0);
  for (size_t i = 0; i < cn_tree_size(state); i++) {
    char text[64];
    const cn_tensor *t = cn_tree_as_tensor(cn_tree_at(state, i));
    h = formula_hash(cn_tree_key(state, i, NULL), h);
    h = formula_hash(" [", h);
    for (int d = 0; d < cn_ndim(t); d++) {
      snprintf(text, sizeof text, "%s%lld", d ? " " : "", (long long)cn_shape(t)[d]);
      h = formula_hash(text, h);
    }
    h = formula_hash("]\n", h);
  }
  return h;
}

/* The names and shapes of the state in order, and the number of parameters. */
static void same_names(const char *model, cn_module *m, const cn_tree *want)
{
  char text[32];
  cn_tree *state = cn_module_state(m);
  assert_int_equal(cn_tree_size(state), whole(want, "tensors"));
  assert_int_equal(cn_module_count(m, false), whole(want, "parameters"));
  snprintf(text, sizeof text, "%016llx", (unsigned long long)names_hash(state));
  if (strcmp(text, cn_tree_as_str(cn_tree_get(want, "names"), "")) != 0) {
    for (size_t i = 0; getenv("CAIRN_TEST_SHOW") && i < cn_tree_size(state); i++)
      print_message("%s\n", cn_tree_key(state, i, NULL));
    fail_msg("%s: names or shapes of the state differ (golden.py --names shows them)", model);
  }
  cn_tree_free(state);
}

/* ---- a case ---- */

static cn_module *network(const cn_tree *g)
{
  const cn_tree *o = cn_tree_get(g, "options"), *config = cn_tree_get(g, "config");
  const char *name = cn_tree_as_str(cn_tree_get(g, "model"), "");
  cn_module *m = cn_zoo(name, .classes = whole(o, "classes"), .image = whole(o, "image"), .vocab = whole(o, "vocab"),
                        .config = cn_tree_kind_of(config) == CN_TREE_DICT ? config : NULL);
  if (!m) fail_msg("%s: %s", name, cn_err_message());
  return m;
}

static size_t make_inputs(cn_tensor *in[2], const cn_tree *g)
{
  int64_t size[4];
  const cn_tree *image = cn_tree_get(g, "image"), *lengths = cn_tree_get(g, "lengths");
  const cn_tree *shape = image ? image : cn_tree_get(g, "tokens");
  for (size_t i = 0; i < cn_tree_size(shape); i++) size[i] = cn_tree_as_int(cn_tree_at(shape, i), 0);
  in[0] = image ? formula_image(size, 4) : formula_tokens(size[0], size[1], size[2]);
  if (!lengths) return 1;
  in[1] = cn_zeros(CN_SHAPE(size[0], size[1]), .dtype = CN_I64);
  int64_t *v = cn_data(in[1]);
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t t = 0; t < size[1]; t++) v[b * size[1] + t] = t < cn_tree_as_int(cn_tree_at(lengths, (size_t)b), 0);
  return 2;
}

/* In float64: in float32 a value that lies on the kink of a ReLU but for rounding may fall on either side, and a small
 * network's gradients then differ by percents. */
static void check_gradients(const cn_tree *g, cn_module *m, cn_tensor *const *in, size_t n)
{
  const cn_tree *want = cn_tree_get(g, "gradients"), *picked = cn_tree_get(want, "picked");
  const cn_tree *buffers = cn_tree_get(g, "buffers");
  cn_named_list list;
  double squares = 0;
  int64_t count = 0;
  cn_module_train(m, cn_tree_as_bool(cn_tree_get(g, "trained"), false));
  cn_module_to(m, CN_DEVICE_DEFAULT, CN_F64);
  cn_tensor *wide[2] = {cn_dtype_of(in[0]) == CN_F32 ? cn_cast(in[0], CN_F64) : in[0], n > 1 ? in[1] : NULL};
  cn_tensor *y[3] = {NULL}, *loss = NULL;
  size_t results = (size_t)cn_tree_as_int(cn_tree_get(want, "results"), 1);
  assert_true(results <= 3);
  cn_forward_all(y, results, m, wide, n);
  for (size_t i = 0; i < results; i++) {
    cn_tensor *one = cn_sum(cn_mul(y[i], formula_units("loss", y[i])));
    loss = i ? cn_add(loss, one) : one;
  }
  if (cn_backward(loss)) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_module_named(&list, m, CN_PARAMETERS), 0);
  for (size_t i = 0; i < list.n; i++) {
    cn_tensor *grad = cn_grad_of(list.v[i].tensor);
    if (!grad) continue;
    count++;
    squares += cn_item(cn_sum(cn_square(grad)));
    const cn_tree *one = cn_tree_get(picked, list.v[i].name);
    if (one) same(list.v[i].name, one, grad, 1e-6);
  }
  assert_int_equal(count, whole(want, "count"));
  double off = fabs(sqrt(squares) - number(want, "norm")) / number(want, "norm");
  if (!(off < 1e-6)) fail_msg("gradients: their norm is off by %.3g", off);
  for (size_t i = 0; i < cn_tree_size(buffers); i++)
    same(cn_tree_key(buffers, i, NULL), cn_tree_at(buffers, i), cn_module_get(m, cn_tree_key(buffers, i, NULL)), 1e-5);
  cn_named_free(&list);
}

/* Greedy text, with and without cache. */
static void check_generated(const cn_tree *g, cn_module *m, cn_tensor *prompt)
{
  const cn_tree *want = cn_tree_get(g, "generated");
  if (!want) return;
  int64_t new = (int64_t)cn_tree_size(cn_tree_at(want, 0)), old = cn_size(prompt, 1);
  for (int plain = 0; plain < 2; plain++) {
    cn_tensor *y = cn_generate(m, prompt, .max_new_tokens = new, .temperature = CN_ZERO, .no_cache = plain);
    if (!y) fail_msg("%s", cn_err_message());
    const int64_t *v = cn_data(y);
    assert_int_equal(cn_size(y, 1), old + new);
    for (int64_t b = 0; b < cn_size(y, 0); b++)
      for (int64_t t = 0; t < new; t++)
        assert_int_equal(v[b * (old + new) + old + t],
                         cn_tree_as_int(cn_tree_at(cn_tree_at(want, (size_t)b), (size_t)t), -1));
  }
}

static void equals_its_model(void **state)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2], *out[2] = {NULL};
  cn_tree *g = golden(*state);
  cn_module *m = network(g);
  const cn_tree *pooler = cn_tree_get(g, "pooler");
  same_names(*state, m, g);
  formula_fill(m);
  size_t n = make_inputs(in, g);
  cn_module_train(m, false);
  int saved = cn_inference_begin();
  cn_forward_all(out, pooler ? 2 : 1, m, in, n);
  cn_inference_end(saved);
  same("output", cn_tree_get(g, "output"), out[0], 1e-5);
  if (pooler) same("pooler_output", pooler, out[1], 1e-5);
  check_generated(g, m, in[0]);
  check_gradients(g, m, in, n);
  cn_module_release(m);
  cn_tree_free(g);
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

/* ---- all names ---- */

/* On the device whose tensors have no data: the largest networks are made in no time. */
static void names_are_theirs(void **state)
{
  (void)state;
  cn_tree *all = golden("full");
  size_t seen = 0;
  const char *name, *doc;
  cn_set_default_device(cn_device_find("meta"));
  for (size_t i = 0; cn_zoo_at(i, &name, &doc); i++) {
    const cn_tree *want = cn_tree_get(all, name);
    assert_non_null(doc);
    if (!want) continue;
    cn_module *m = cn_zoo(name);
    if (!m) fail_msg("%s: %s", name, cn_err_message());
    same_names(name, m, want);
    cn_module_release(m);
    seen++;
  }
  cn_set_default_device(CN_CPU);
  assert_int_equal(seen, cn_tree_size(all));
  cn_tree_free(all);
}

/* ---- first weights ---- */

/* Both are samples of n: deviations differ by some parts of their size, means by some parts of the deviation. */
static void same_start(const char *model, const char *name, const cn_tree *want, cn_tensor *t)
{
  double n = (double)cn_numel(t), mean = cn_tree_as_float(cn_tree_at(want, 0), NAN);
  double deviation = cn_tree_as_float(cn_tree_at(want, 1), NAN), most = cn_tree_as_float(cn_tree_at(want, 2), NAN);
  double got_mean = cn_item(cn_mean(t)), got_most = cn_item(cn_amax(cn_abs(t)));
  double got = sqrt(cn_item(cn_mean(cn_square(cn_sub(t, cn_num(got_mean))))));
  bool fits = fabs(got_mean - mean) <= 6 * deviation * sqrt(2 / n) + 1e-7;
  fits = fits && fabs(got - deviation) <= 6 * deviation / sqrt(n) + 1e-7;
  if (n > 4000) fits = fits && fabs(got_most - most) <= 0.35 * most + 1e-7; /* uniform, normal or cut off? */
  if (!fits)
    fail_msg("%s: %s starts with mean %.4g, deviation %.4g, up to %.4g; theirs with %.4g, %.4g, %.4g", model, name,
             got_mean, got, got_most, mean, deviation, most);
}

static void starts_like_theirs(void **state)
{
  (void)state;
  cn_tree *all = golden("starts");
  cn_seed(1);
  for (size_t i = 0; i < cn_tree_size(all); i++) {
    const cn_tree *start = cn_tree_get(cn_tree_at(all, i), "start");
    cn_module *m = network(cn_tree_at(all, i));
    int saved = cn_no_grad_begin();
    for (size_t k = 0; k < cn_tree_size(start); k++) {
      const char *name = cn_tree_key(start, k, NULL);
      cn_scope *s = cn_scope_begin();
      if (!cn_module_get(m, name)) fail_msg("%s: has no %s", cn_tree_key(all, i, NULL), name);
      same_start(cn_tree_key(all, i, NULL), name, cn_tree_at(start, k), cn_module_get(m, name));
      cn_scope_end(s);
    }
    cn_no_grad_end(saved);
    cn_module_release(m);
  }
  cn_tree_free(all);
}

/* ---- settings ---- */

static cn_module *with_settings(const char *name, const char *json)
{
  cn_tree *config = cn_tree_from_json(json, strlen(json));
  cn_module *m = cn_zoo(name, .classes = 3, .config = config);
  cn_tree_free(config);
  return m;
}

static double argument(cn_module *m, const char *path, const char *name)
{
  cn_module *part = m ? cn_module_find(m, path) : NULL;
  const cn_value *v = part ? cn_args_get(cn_module_args(part), name) : NULL;
  if (!v) fail_msg("%s: there is no %s", path, name);
  return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i;
}

static void settings_count(void **state)
{
  (void)state;
  static const struct {
    const char *net, *json, *path, *name;
    double value;
  } cases[] = {
    {"alexnet", "{\"dropout\": 0.25}", "classifier.3", "p", 0.25},
    {"squeezenet1_1", "{\"dropout\": 0}", "classifier.0", "p", 0},
    {"mobilenet_v2", "{\"dropout\": 0.75}", "classifier.0", "p", 0.75},
    {"mobilenet_v3_small", "{\"dropout\": null}", "classifier.2", "p", 0.2},
    {"densenet121", "{\"drop_rate\": 0.125}", "features.denseblock2.denselayer3", "drop_rate", 0.125},
    {"densenet121", "{\"bn_size\": 2}", "features.denseblock1.denselayer1.conv1", "out_channels", 64},
    {"efficientnet_b0", "{\"stochastic_depth_prob\": 0.8}", "features.7.0.stochastic_depth", "p", 0.8 * 15 / 16},
    {"convnext_tiny", "{}", "features.7.2.stochastic_depth", "p", 0.1},
    {"googlenet", "{\"dropout_aux\": 0.5}", "aux2.dropout", "p", 0.5},
    {"vit_b_32", "{\"dropout\": 0.5}", "encoder.layers.encoder_layer_3.mlp.2", "p", 0.5},
    {"vit_b_32", "{\"attention_dropout\": 0.5}", "encoder.layers.encoder_layer_3.self_attention", "dropout", 0.5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_module *m = with_settings(cases[i].net, cases[i].json);
    if (!m) fail_msg("%s: %s", cases[i].net, cn_err_message());
    assert_true(fabs(argument(m, cases[i].path, cases[i].name) - cases[i].value) < 1e-12);
    cn_module_release(m);
  }
  cn_module *m = with_settings("resnet18", "{\"zero_init_residual\": true}");
  cn_scope *s = cn_scope_begin();
  assert_true(cn_item(cn_amax(cn_module_get(m, "layer3.1.bn2.weight"))) == 0);
  assert_true(cn_item(cn_amin(cn_module_get(m, "layer3.1.bn1.weight"))) == 1);
  cn_scope_end(s);
  cn_module_release(m);
  REFUSED(with_settings("resnet18", "{\"zero_init\": true}") ? 0 : cn_err(), CN_ERR_VALUE);
  REFUSED(with_settings("resnet18", "{\"zero_init_residual\": 1}") ? 0 : cn_err(), CN_ERR_TYPE);
  REFUSED(with_settings("alexnet", "{\"dropout\": \"much\"}") ? 0 : cn_err(), CN_ERR_TYPE);
  REFUSED(with_settings("alexnet", "{\"dropout\": 1.5}") ? 0 : cn_err(), CN_ERR_VALUE);
  REFUSED(with_settings("convnext_tiny", "{\"stochastic_depth_prob\": -1}") ? 0 : cn_err(), CN_ERR_VALUE);
  REFUSED(with_settings("lenet", "{}") ? 0 : cn_err(), CN_ERR_VALUE);
  assert_true(cn_zoo_takes("googlenet", "aux_logits") && cn_zoo_takes("googlenet", "config"));
  assert_false(cn_zoo_takes("googlenet", "vocab") || cn_zoo_takes("lenet", "config"));
}

/* In training a sample is left out or scaled up; in evaluation it is what it was. */
static void stochastic_depth_leaves_out_samples(void **state)
{
  (void)state;
  enum { SAMPLES = 64 };
  cn_module *m = with_settings("efficientnet_b0", "{\"stochastic_depth_prob\": 0.8}");
  cn_module *depth = m ? cn_module_find(m, "features.7.0.stochastic_depth") : NULL; /* p is 0.75 */
  if (!depth) fail_msg("%s", cn_err_message());
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *y = cn_contiguous(cn_forward(depth, cn_ones(CN_SHAPE(SAMPLES, 2, 3, 3))));
  const float *v = cn_data(y);
  int stay = 0;
  for (int i = 0; v && i < SAMPLES; i++) {
    assert_true(v[18 * i] == 0 || v[18 * i] == 4);
    for (int k = 1; k < 18; k++) assert_true(v[18 * i + k] == v[18 * i]);
    stay += v[18 * i] > 0;
  }
  assert_true(stay > 4 && stay < 32);
  cn_module_train(m, false);
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  assert_true(cn_item(cn_all(cn_eq(cn_forward(depth, x), x))));
  cn_scope_end(s);
  cn_module_release(m);
}

/* The classifiers on the way give their scores in training alone, and where there are some. */
static void googlenet_helps_in_training(void **state)
{
  (void)state;
  static const struct {
    const char *json;
    bool train, helped;
  } cases[] = {{"{}", true, true}, {"{}", false, false}, {"{\"aux_logits\": false}", true, false}};
  for (size_t i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    cn_module *m = with_settings("googlenet", cases[i].json);
    cn_tensor *out[3] = {NULL}, *x = cn_zeros(CN_SHAPE(2, 3, 32, 32));
    if (!m) fail_msg("%s", cn_err_message());
    cn_module_train(m, cases[i].train);
    assert_int_equal(cn_forward_all(out, 3, m, &x, 1), 0);
    assert_true(out[0] && cn_size(out[0], 1) == 3);
    assert_true((out[1] != NULL) == cases[i].helped && (out[2] != NULL) == cases[i].helped);
    cn_module_release(m);
    cn_scope_end(s);
  }
}

static void wrong_options_are_refused(void **state)
{
  (void)state;
  REFUSED(cn_zoo("vit_b_16", .image = (int64_t)1 << 60) ? 0 : cn_err(), CN_ERR_VALUE); /* its square is no number */
  REFUSED(cn_zoo("resnet18", .classes = -1) ? 0 : cn_err(), CN_ERR_VALUE);
  REFUSED(cn_zoo("resnet18", .vocab = 10) ? 0 : cn_err(), CN_ERR_VALUE);
  assert_true(cn_zoo_takes("vit_b_16", "image"));
  assert_false(cn_zoo_takes("vit_b_16", NULL) || cn_zoo_takes(NULL, "image"));
}

#define CASE(name) {name, equals_its_model, NULL, NULL, (void *)(uintptr_t)name}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE("lenet"), CASE("alexnet"), CASE("vgg11"), CASE("vgg16_bn"), CASE("resnet18"), CASE("resnet50"),
    CASE("mobilenet_v2"), CASE("squeezenet1_0"), CASE("squeezenet1_1"), CASE("densenet121"),
    CASE("mobilenet_v3_small"), CASE("mobilenet_v3_large"), CASE("efficientnet_b0"), CASE("efficientnet_b5"),
    CASE("googlenet"), CASE("convnext_tiny"), CASE("vit_b_32"), CASE("unet"), CASE("char_rnn"), CASE("char_lstm"),
    CASE("gpt2"), CASE("gpt2_untied"), CASE("llama"), CASE("llama_stretched"), CASE("bert"),
    cmocka_unit_test(names_are_theirs), cmocka_unit_test(starts_like_theirs), cmocka_unit_test(settings_count),
    cmocka_unit_test(stochastic_depth_leaves_out_samples), cmocka_unit_test(googlenet_helps_in_training),
    cmocka_unit_test(wrong_options_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
