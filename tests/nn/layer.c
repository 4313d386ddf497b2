/* layer.c: see layer.h. */
#include "layer.h"

#include <cairn/ext/system.h>
#include <stdio.h>

#include "test.h"

cn_tree *layer_open(const char *name, cn_tree **file)
{
  char path[LAYER_NAME * 4];
  snprintf(path, sizeof path, LAYER_FOLDER "/%s", name);
  *file = cn_load(path);
  const cn_tree *text = cn_tree_get(cn_tree_get(*file, "__metadata__"), "cases");
  if (!text) fail_msg("%s: %s", path, cn_err() ? cn_err_message() : "no cases");
  cn_tree *cases = cn_tree_from_json(cn_tree_as_str(text, ""), cn_tree_str_size(text));
  if (!cases) fail_msg("%s: %s", path, cn_err_message());
  return cases;
}

const char *layer_label(const layer *l) { return cn_tree_as_str(cn_tree_get(l->json, "label"), "?"); }

void layer_differs(layer *l, const char *format, ...)
{
  char text[1024];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  print_error("%s: %s\n", layer_label(l), text);
  l->failures++;
}

cn_tensor *layer_tensor(const layer *l, const char *format, ...)
{
  char name[LAYER_NAME];
  int n = snprintf(name, sizeof name, "%zu.", l->number);
  va_list ap;
  va_start(ap, format);
  vsnprintf(name + n, sizeof name - (size_t)n, format, ap);
  va_end(ap);
  return cn_tree_as_tensor(cn_tree_get(l->file, name));
}

/* ---- arguments ---- */

static cn_module *make(layer *l, const char *cls, const cn_tree *args);

static cn_value list_value(layer *l, const cn_tree *json, const char *type)
{
  size_t n = cn_tree_size(json);
  if (l->nlists == LAYER_LISTS || n > LAYER_LISTS) {
    layer_differs(l, "too many lists or too long a list for this test");
    return cn_v_none();
  }
  int64_t *ints = l->ints[l->nlists];
  double *floats = l->floats[l->nlists++];
  for (size_t i = 0; i < n; i++) {
    const cn_tree *v = cn_tree_at(json, i);
    ints[i] = cn_tree_kind_of(v) == CN_TREE_NONE ? CN_NONE : cn_tree_as_int(v, 0);
    floats[i] = cn_tree_as_float(v, 0);
  }
  return strncmp(type, "float", 5) ? cn_v_ints(ints, n) : cn_v_floats(floats, n);
}

static cn_value dict_value(layer *l, const cn_tree *json)
{
  const char *tensor = cn_tree_as_str(cn_tree_get(json, "tensor"), NULL);
  const char *number = cn_tree_as_str(cn_tree_get(json, "float"), NULL);
  const char *dtype = cn_tree_as_str(cn_tree_get(json, "dtype"), NULL);
  const char *module = cn_tree_as_str(cn_tree_get(json, "module"), "");
  if (tensor) return cn_v_tensor(cn_tree_as_tensor(cn_tree_get(l->file, tensor)));
  if (number) return cn_v_float(cn_number_read(number, &number));
  if (dtype) return cn_v_int((int64_t)cn_dtype_find(dtype));
  return cn_v_module(make(l, module, cn_tree_get(json, "make")));
}

static cn_value value_of(layer *l, const cn_tree *json, const char *type)
{
  switch (cn_tree_kind_of(json)) {
  case CN_TREE_BOOL: return cn_v_bool(cn_tree_as_bool(json, false));
  case CN_TREE_INT: return cn_v_int(cn_tree_as_int(json, 0));
  case CN_TREE_FLOAT: return cn_v_float(cn_tree_as_float(json, 0));
  case CN_TREE_STR: return cn_v_str(cn_tree_as_str(json, ""));
  case CN_TREE_LIST: return list_value(l, json, type);
  case CN_TREE_DICT: return dict_value(l, json);
  default: return cn_v_none();
  }
}

/* Values in the order of a signature from a dictionary by name. */
static void values_of(layer *l, cn_value *values, const cn_signature *sig, const cn_tree *args)
{
  for (int i = 0; i < CN_MAX_ARGS; i++) {
    cn_op_param p;
    values[i] = i < cn_signature_size(sig) && !cn_signature_param(&p, sig, i) ? p.default_value : cn_v_none();
  }
  for (size_t k = 0; k < cn_tree_size(args); k++) {
    cn_op_param p;
    const char *name = cn_tree_key(args, k, NULL);
    int i = cn_signature_find(sig, name);
    if (i < 0) {
      layer_differs(l, "cairn has no argument '%s'", name);
      continue;
    }
    cn_signature_param(&p, sig, i);
    values[i] = value_of(l, cn_tree_at(args, k), p.type);
  }
}

/* Modules among the arguments are given to the one that is made, as the C constructors do. */
static cn_module *make(layer *l, const char *cls, const cn_tree *args)
{
  cn_value values[CN_MAX_ARGS];
  const cn_module_class *found = cn_module_class_find(cls);
  const cn_signature *sig = found ? cn_module_class_signature(found) : NULL;
  if (!sig) {
    if (!cn_err()) cn_err_set(CN_ERR_UNSUPPORTED, "there is no class %s", cls);
    return NULL;
  }
  values_of(l, values, sig, args);
  cn_module *m = cn_module_make(cls, values, (size_t)cn_signature_size(sig));
  for (int i = 0; i < CN_MAX_ARGS; i++)
    if (values[i].tag == CN_V_MODULE) cn_module_release(values[i].u.m);
  return m;
}

cn_module *layer_make(layer *l)
{
  l->nlists = 0;
  return make(l, cn_tree_as_str(cn_tree_get(l->json, "class"), ""), cn_tree_get(l->json, "make"));
}

/* ---- calls ---- */

static bool is_fixed(const layer *l, const char *name)
{
  const cn_tree *fixed = cn_tree_get(l->json, "fixed");
  for (size_t k = 0; k < cn_tree_size(fixed); k++)
    if (!strcmp(cn_tree_as_str(cn_tree_at(fixed, k), ""), name)) return true;
  return false;
}

/* Float tensors are copies of leaves, since some layers write into their input. */
void layer_read_call(layer *l)
{
  const cn_signature *sig = cn_module_class_call(l->module->cls);
  l->nlists = 0;
  values_of(l, l->call, sig, cn_tree_get(l->json, "call"));
  for (int i = 0; i < CN_MAX_ARGS; i++) {
    cn_op_param p;
    l->leaves[i] = NULL;
    if (l->call[i].tag != CN_V_TENSOR || !cn_dtype_is_float(cn_dtype_of(l->call[i].u.t))) continue;
    cn_signature_param(&p, sig, i);
    cn_tensor *leaf = cn_clone(l->call[i].u.t);
    if (!is_fixed(l, p.name)) l->leaves[i] = cn_requires_grad(leaf, true);
    l->call[i] = cn_v_tensor(cn_clone(leaf));
  }
}

int layer_call(layer *l, cn_tensor **out, const char *mode)
{
  cn_tensor *from[LAYER_RESULTS], *cots[LAYER_RESULTS];
  size_t n = 0, results = (size_t)cn_tree_as_int(cn_tree_get(l->json, "results"), 1);
  layer_read_call(l);
  int nargs = cn_signature_size(cn_module_class_call(l->module->cls));
  if (cn_err() || cn_forward_values(out, results, l->module, l->call, (size_t)nargs)) return cn_err();
  for (size_t k = 0; k < results; k++) {
    cn_tensor *cot = layer_tensor(l, "%s.cot.%zu", mode, k);
    if (!cot || !out[k]) continue;
    from[n] = out[k];
    cots[n++] = cot;
  }
  return n ? cn_backward_all(from, n, &(cn_grad_opts){.size = sizeof(cn_grad_opts), .grad_outputs = cots}) : CN_OK;
}

/* ---- a test for each file ---- */

int layer_main(const char *group, void (*test)(void **state), void (*last)(void **state))
{
  enum { MOST = 64 };
  struct CMUnitTest tests[MOST];
  cn_names names = {0};
  size_t n = 0;
  if (cn_folder_list(&names, LAYER_FOLDER)) {
    print_error("%s\n", cn_err_message());
    return 1;
  }
  for (size_t i = 0; i < names.n && n < MOST - 1; i++)
    if (strstr(names.v[i], ".safetensors"))
      tests[n++] = (struct CMUnitTest){names.v[i], test, NULL, NULL, names.v[i]};
  if (last) tests[n++] = (struct CMUnitTest){"every class", last, NULL, NULL, NULL};
#ifdef CN_TEST_PLAIN
  int failed = test_run_group(group, tests, n, NULL, NULL);
#else
  int failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
#endif
  cn_names_free(&names);
  return failed;
}
