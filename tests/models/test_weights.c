/* test_weights.c: weights from files and folders, under the names that others give them; options and errors of the zoo;
 * copies. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setenv */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>

#include "formula.h"
#include "small.h"
#include "test.h"

/* ---- weights ---- */

static char folder[100];

/* Saves a network's state with another front of its names, and more or fewer tensors. */
static void save(cn_module *m, const char *file, const char *without, const char *with, const char *extra)
{
  cn_tree *state = cn_module_state(m), *out = cn_tree_dict();
  size_t n = strlen(without);
  for (size_t i = 0; i < cn_tree_size(state); i++) {
    char key[256];
    const char *name = cn_tree_key(state, i, NULL);
    if (n && !strcmp(name, "lm_head.weight")) continue;
    snprintf(key, sizeof key, "%s%s", with, strncmp(name, without, n) ? name : name + n);
    cn_tree_put(out, key, cn_tree_copy(cn_tree_at(state, i), false));
  }
  if (extra) cn_tree_put(out, extra, cn_tree_tensor(cn_zeros(CN_SHAPE(1))));
  if (cn_save(file, out)) fail_msg("%s", cn_err_message());
  cn_tree_free(state);
  cn_tree_free(out);
}

static void loads_under_other_names(void **state)
{
  (void)state;
  static const struct {
    int model; /* of the small ones; -1: bert */
    const char *without, *with, *extra, *ending;
  } cases[] = {
    {0, "", "", NULL, "safetensors"},
    {0, "transformer.", "", "h.0.attn.bias", "safetensors"}, /* as the files of transformers */
    {0, "", "module.", NULL, "pt"},
    {1, "", "", "model.layers.0.self_attn.rotary_emb.inv_freq", "safetensors"},
    {-1, "", "bert.", "cls.predictions.bias", "pt"},
    {-1, "", "", "embeddings.position_ids", "safetensors"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[256];
    cn_scope *s = cn_scope_begin();
    bool bert = cases[i].model < 0;
    const char *name = bert ? "bert" : small_models[cases[i].model].name;
    const char *json = bert ? small_bert : small_models[cases[i].model].config;
    cn_module *m = small_made(name, json, 0);
    snprintf(path, sizeof path, "%s/weights%zu.%s", folder, i, cases[i].ending);
    save(m, path, cases[i].without, cases[i].with, cases[i].extra);
    cn_tree *config = cn_tree_from_json(json, strlen(json));
    cn_module *n = cn_zoo(name, .config = config, .pretrained = path);
    if (!n) fail_msg("%s: %s", path, cn_err_message());
    cn_module_train(m, false);
    cn_module_train(n, false);
    cn_tensor *tokens = formula_tokens(2, 6, SMALL_VOCAB);
    must_equal(cn_forward(m, tokens), cn_forward(n, tokens));
    cn_tree_free(config);
    cn_module_release(m);
    cn_module_release(n);
    cn_file_remove(path);
    cn_scope_end(s);
  }
}

static void wrong_files_are_refused(void **state)
{
  (void)state;
  char path[256];
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0);
  cn_tree *config = cn_tree_from_json(small_models[0].config, strlen(small_models[0].config));
  snprintf(path, sizeof path, "%s/wrong.safetensors", folder);
  save(m, path, "", "", "transformer.h.2.ln_1.weight"); /* a layer more */
  assert_null(cn_zoo("gpt2", .config = config, .pretrained = path));
  assert_non_null(strstr(cn_err_message(), "transformer.h.2.ln_1.weight"));
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .config = config, .vocab = 62, .pretrained = path));
  cn_err_clear();
  save(m, path, "", "", NULL);
  assert_null(cn_zoo("bert", .pretrained = path)); /* another network */
  assert_non_null(strstr(cn_err_message(), "has no tensor"));
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .config = config, .vocab = 62, .pretrained = path)); /* another size */
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .pretrained = "/no/such/file"));
  cn_err_clear();
  cn_file_remove(path);
  cn_tree_free(config);
  cn_module_release(m);
  cn_scope_end(s);
}

/* A folder as transformers writes it: config.json beside weights in two files and their index. */
static void folders_load(void **state)
{
  (void)state;
  static const char *const files[] = {"config.json", "a.safetensors", "b.safetensors", "model.safetensors.index.json"};
  char path[256];
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0);
  cn_tree *config = cn_tree_from_json(small_models[0].config, strlen(small_models[0].config));
  cn_tree *all = cn_module_state(m), *index = cn_tree_dict();
  cn_tree *map = cn_tree_dict(), *parts[2] = {cn_tree_dict(), cn_tree_dict()};
  for (size_t i = 0; i < cn_tree_size(all); i++) {
    const char *name = cn_tree_key(all, i, NULL);
    if (!strcmp(name, "lm_head.weight")) continue;
    cn_tree_put(parts[i % 2], name, cn_tree_copy(cn_tree_at(all, i), false));
    cn_tree_put(map, name, cn_tree_str(files[1 + i % 2]));
  }
  cn_tree_put(index, "weight_map", map);
  const cn_tree *contents[] = {config, parts[0], parts[1], index};
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    if (cn_save(path, contents[i])) fail_msg("%s", cn_err_message());
  }
  cn_module *n = cn_zoo("gpt2", .pretrained = folder); /* sizes from config.json */
  if (!n) fail_msg("%s", cn_err_message());
  cn_module_train(m, false);
  cn_module_train(n, false);
  must_equal(cn_forward(m, formula_tokens(2, 6, SMALL_VOCAB)), cn_forward(n, formula_tokens(2, 6, SMALL_VOCAB)));
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    cn_file_remove(path);
  }
  cn_tree_free(config);
  cn_tree_free(all);
  cn_tree_free(index);
  cn_tree_free(parts[0]);
  cn_tree_free(parts[1]);
  cn_module_release(m);
  cn_module_release(n);
  cn_scope_end(s);
}

/* Older files call some tensors otherwise. The first of `older` that fits is put into the name. */
typedef struct spelling {
  const char *ours, *theirs;
} spelling;

static void loads_older(const char *net, const char *json, const spelling *older, const char *tensor)
{
  char path[256];
  cn_scope *s = cn_scope_begin();
  cn_module *m = small_made(net, json, 0);
  cn_tree *config = cn_tree_from_json(json, strlen(json)), *all = cn_module_state(m), *file = cn_tree_dict();
  for (size_t i = 0; i < cn_tree_size(all); i++) {
    char key[256];
    const char *name = cn_tree_key(all, i, NULL), *at = NULL;
    const spelling *o = older;
    while (o->ours && !(at = strstr(name, o->ours))) o++;
    int front = at ? (int)(at - name) : (int)strlen(name);
    snprintf(key, sizeof key, "%.*s%s%s", front, name, at ? o->theirs : "", at ? at + strlen(o->ours) : "");
    cn_tree_put(file, key, cn_tree_copy(cn_tree_at(all, i), false));
  }
  snprintf(path, sizeof path, "%s/old.safetensors", folder);
  if (cn_save(path, file)) fail_msg("%s", cn_err_message());
  cn_module *n = cn_zoo(net, .config = config, .pretrained = path);
  if (!n) fail_msg("%s", cn_err_message());
  must_equal(cn_module_get(n, tensor), cn_module_get(m, tensor));
  cn_file_remove(path);
  cn_tree_free(config);
  cn_tree_free(all);
  cn_tree_free(file);
  cn_module_release(m);
  cn_module_release(n);
  cn_scope_end(s);
}

static void old_names_load(void **state)
{
  (void)state;
  static const spelling bert[] = {
    {"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}, {NULL, NULL}};
  static const spelling densenet[] = {{".norm1.", ".norm.1."}, {".conv1.", ".conv.1."}, {".norm2.", ".norm.2."},
                                      {".conv2.", ".conv.2."}, {NULL, NULL}}; /* as in torchvision's files */
  loads_older("bert", small_bert, bert, "embeddings.LayerNorm.bias");
  loads_older("densenet121", "{\"bn_size\": 1}", densenet, "features.denseblock2.denselayer3.conv2.weight");
}

static bool flag(cn_module *m, const char *name) { return cn_args_get(cn_module_args(m), name)->u.i; }

/* The weights that torchvision publishes for GoogLeNet are for transformed images; their classifiers on the way are
 * left out where they are not asked for. A file of the program's own changes nothing. */
static void published_googlenet(void **state)
{
  (void)state;
  char path[256], own[256];
  static const char *const files[] = {"googlenet-1378be20.pth", "mine.pth"};
  cn_module *m = cn_zoo("googlenet"), *n;
  cn_tree *all = cn_module_state(m), *config = cn_tree_from_json("{\"aux_logits\": true}", 20);
  snprintf(path, sizeof path, "%s/%s", folder, files[0]);
  snprintf(own, sizeof own, "%s/%s", folder, files[1]);
  if (cn_save(path, all) || cn_save(own, all)) fail_msg("%s", cn_err_message());
  if (!(n = cn_zoo("googlenet", .pretrained = path))) fail_msg("%s", cn_err_message());
  assert_true(flag(n, "transform_input") && !flag(n, "aux_logits") && !cn_module_find(n, "aux1"));
  cn_module_release(n);
  if (!(n = cn_zoo("googlenet", .pretrained = path, .config = config))) fail_msg("%s", cn_err_message());
  assert_true(flag(n, "transform_input") && flag(n, "aux_logits"));
  cn_scope *s = cn_scope_begin();
  must_equal(cn_module_get(n, "aux1.fc1.weight"), cn_module_get(m, "aux1.fc1.weight"));
  cn_scope_end(s);
  cn_module_release(n);
  if (!(n = cn_zoo("googlenet", .pretrained = own))) fail_msg("%s", cn_err_message());
  assert_true(!flag(n, "transform_input") && flag(n, "aux_logits") && cn_module_find(n, "aux1"));
  cn_module_release(n);
  cn_module_release(m);
  cn_tree_free(all);
  cn_tree_free(config);
  cn_file_remove(path);
  cn_file_remove(own);
}

/* What a download would have left in CAIRN_HOME is used; where there is nothing and no network, the error says so. */
static void known_weights_come_from_home(void **state)
{
  (void)state;
  char path[256], part[128];
  cn_err_clear();
  setenv("CAIRN_HOME", folder, 1);
  setenv("CAIRN_OFFLINE", "1", 1);
  assert_null(cn_zoo("mobilenet_v2", .pretrained = "imagenet"));
  assert_int_not_equal(cn_err(), 0);
  cn_err_clear();
  assert_null(cn_zoo("lenet", .pretrained = "imagenet")); /* nobody has published any */
  cn_err_clear();
  cn_module *m = cn_zoo("mobilenet_v2");
  cn_tree *all = cn_module_state(m);
  snprintf(part, sizeof part, "%s/weights", folder);
  snprintf(path, sizeof path, "%s/mobilenet_v2-7ebf99e0.pth", part);
  assert_int_equal(cn_folder_make(part), 0);
  if (cn_save(path, all)) fail_msg("%s", cn_err_message());
  cn_module *n = cn_zoo("mobilenet_v2", .pretrained = "imagenet");
  if (!n) fail_msg("%s", cn_err_message());
  cn_scope *s = cn_scope_begin();
  must_equal(cn_module_get(m, "features.3.conv.0.0.weight"), cn_module_get(n, "features.3.conv.0.0.weight"));
  cn_scope_end(s);
  cn_tree_free(all);
  cn_module_release(m);
  cn_module_release(n);
  cn_file_remove(path);
  cn_file_remove(part);
  unsetenv("CAIRN_HOME");
  unsetenv("CAIRN_OFFLINE");
}

/* ---- the zoo ---- */

static void options_are_checked(void **state)
{
  (void)state;
  cn_tree *bad = cn_tree_from_json("{\"n_head\": 5}", 13), *list = cn_tree_list();
  assert_null(cn_zoo("resnet19"));
  assert_non_null(strstr(cn_err_message(), "resnet18"));
  cn_err_clear();
  assert_null(cn_zoo(NULL));
  cn_err_clear();
  assert_null(cn_zoo("lenet", .vocab = 10));
  assert_non_null(strstr(cn_err_message(), "vocab"));
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .classes = 10));
  cn_err_clear();
  assert_null(cn_zoo("lenet", .classes = -1));
  cn_err_clear();
  assert_null(cn_zoo("lenet", .image = 8));
  cn_err_clear();
  assert_null(cn_zoo("vit_b_16", .image = 100));
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .config = bad));
  assert_non_null(strstr(cn_err_message(), "5 heads"));
  cn_err_clear();
  assert_null(cn_zoo("gpt2", .config = list));
  cn_err_clear();
  cn_tree_put(bad, "n_head", cn_tree_int(4));
  cn_tree_put(bad, "n_layer", cn_tree_int(INT64_MAX));
  assert_null(cn_zoo("gpt2", .config = bad));
  cn_err_clear();
  cn_tree_put(bad, "n_layer", cn_tree_int(1));
  cn_tree_put(bad, "activation_function", cn_tree_str("no such"));
  assert_null(cn_zoo("gpt2", .config = bad));
  assert_non_null(strstr(cn_err_message(), "no such"));
  cn_err_clear();
  cn_module *m = cn_zoo("lenet", .channels = 3, .classes = 7, .image = 32, .dtype = CN_F64);
  assert_non_null(m);
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_forward(m, cn_zeros(CN_SHAPE(2, 3, 32, 32), .dtype = CN_F64));
  assert_int_equal(cn_size(y, 1), 7);
  cn_scope_end(s);
  cn_module_release(m);
  cn_tree_free(bad);
  cn_tree_free(list);
}

static void copies_are_their_own(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(1), *n = cn_module_copy(m), *t = small(0), *u = cn_module_copy(t);
  cn_tensor *tokens = formula_tokens(1, 6, SMALL_VOCAB);
  must_equal(cn_forward(m, tokens), cn_forward(n, tokens));
  assert_ptr_equal(cn_module_get(u, "lm_head.weight"), cn_module_get(u, "transformer.wte.weight")); /* still tied */
  cn_module_release(m);
  assert_non_null(cn_forward(n, tokens));
  cn_module_release(n);
  cn_module_release(t);
  cn_module_release(u);
  cn_scope_end(s);
}

/* A tensor under two names is one parameter; state dicts have both. */
static void shared_parameters_are_one(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = small(0);
  for (int i = 0; i < 2; i++) {
    cn_named_list once = {0}, both = {0};
    assert_ptr_equal(cn_module_get(m, "lm_head.weight"), cn_module_get(m, "transformer.wte.weight"));
    assert_int_equal(cn_module_named(&once, m, CN_PARAMETERS), 0);
    assert_int_equal(cn_module_named(&both, m, CN_PARAMETERS | CN_SHARED), 0);
    assert_int_equal(both.n, once.n + 1);
    for (size_t k = 0; k < once.n; k++) assert_string_not_equal(once.v[k].name, "lm_head.weight");
    cn_named_free(&once);
    cn_named_free(&both);
    cn_tree *saved = cn_module_state(m);
    assert_non_null(cn_tree_get(saved, "lm_head.weight"));
    assert_non_null(cn_tree_get(saved, "transformer.wte.weight"));
    cn_tree_free(saved);
    assert_int_equal(cn_module_to(m, CN_DEVICE_DEFAULT, CN_BF16), 0);
  }
  cn_module_release(m);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(loads_under_other_names), cmocka_unit_test(old_names_load), cmocka_unit_test(published_googlenet),
    cmocka_unit_test(shared_parameters_are_one),
    cmocka_unit_test(known_weights_come_from_home), cmocka_unit_test(wrong_files_are_refused),
    cmocka_unit_test(folders_load), cmocka_unit_test(options_are_checked), cmocka_unit_test(copies_are_their_own),
  };
  const char *tmp = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.80s/cairn-zoo-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cn_file_remove(folder);
  return failed;
}
