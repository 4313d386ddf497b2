/* test_layers.c: every layer against PyTorch: what golden.py wrote to tests/nn/golden/FAMILY.safetensors.
 *
 * A case names a class, its arguments and those of a call. Each module is made by its signature, printed, given
 * PyTorch's state, and called in both modes; results, gradients of inputs and parameters, and buffers are compared.
 * README.md says how a case is added. A test is one family; all its cases run, and each difference is printed. */
#include <cairn/ext/system.h>
#include <math.h>
#include <stdio.h>

#include "layer.h"
#include "test.h"

static void expect_fine(layer *l, const char *what)
{
  if (cn_err()) layer_differs(l, "%s: %s", what, cn_err_message());
  cn_err_clear();
}

/* ---- comparing ---- */

static double *numbers(cn_tensor *t)
{
  cn_scope *s = cn_scope_begin();
  size_t n = (size_t)cn_numel(t);
  double *v = malloc((n + 1) * sizeof *v);
  cn_tensor *dense = cn_is_sparse(t) ? cn_to_dense(cn_detach(t)) : cn_detach(t);
  if (v && cn_to_data(v, n * sizeof *v, cn_cast(dense, CN_F64))) {
    free(v);
    v = NULL;
  }
  cn_scope_end(s);
  return v;
}

static bool same_shape(cn_tensor *a, cn_tensor *b, int skip)
{
  if (cn_ndim(a) + skip != cn_ndim(b)) return false;
  for (int i = 0; i < cn_ndim(a); i++)
    if (cn_size(a, i) != cn_size(b, i + skip)) return false;
  return true;
}

/* Differences are relative to the largest magnitude in the tensor. */
static void compare(layer *l, const char *what, cn_tensor *got, cn_tensor *want)
{
  double tol = cn_tree_as_float(cn_tree_get(l->json, "tol"), 1e-5);
  if (!got) {
    layer_differs(l, "%s: missing", what);
    return;
  }
  if (cn_dtype_of(got) != cn_dtype_of(want) || !same_shape(got, want, 0)) {
    char *g = cn_to_string(got), *w = cn_to_string(want);
    layer_differs(l, "%s: type or shape: %s instead of %s", what, g, w);
    cn_string_free(g);
    cn_string_free(w);
    return;
  }
  double *a = numbers(got), *b = numbers(want), largest = 1e-30, worst = 0;
  int64_t n = cn_numel(want), at = 0;
  for (int64_t i = 0; i < n && a && b; i++)
    if (isfinite(b[i])) largest = fmax(largest, fabs(b[i]));
  for (int64_t i = 0; i < n && a && b; i++) {
    double d = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : fabs(a[i] - b[i]);
    if (!(d <= worst)) worst = d, at = i; /* also where d is not a number */
  }
  if (!a || !b) layer_differs(l, "%s: %s", what, cn_err_message());
  else if (!(worst <= tol * largest))
    layer_differs(l, "%s: element %lld is %.9g instead of %.9g (largest %.3g)", what, (long long)at, a[at], b[at],
                  largest);
  free(a);
  free(b);
}

static void expect_zero(layer *l, const char *what, cn_tensor *grad)
{
  if (grad && cn_item(cn_any(cn_ne(grad, cn_num(0)))) != 0) layer_differs(l, "%s: PyTorch gives no gradient", what);
}

/* ---- one call ---- */

static bool call(layer *l, cn_tensor **out, const char *mode)
{
  bool fine = !layer_call(l, out, mode);
  expect_fine(l, mode);
  return fine;
}

static void compare_gradients(layer *l, const char *mode)
{
  char what[LAYER_NAME];
  const cn_signature *sig = cn_module_class_call(l->module->cls);
  const cn_tree *parameters = cn_tree_get(l->json, "parameters");
  for (int i = 0; i < CN_MAX_ARGS; i++) {
    cn_op_param p;
    if (!l->leaves[i]) continue;
    cn_signature_param(&p, sig, i);
    snprintf(what, sizeof what, "%s: gradient of %s", mode, p.name);
    cn_tensor *want = layer_tensor(l, "%s.gin.%s", mode, p.name);
    if (want) compare(l, what, cn_grad_of(l->leaves[i]), want);
    else expect_zero(l, what, cn_grad_of(l->leaves[i]));
  }
  for (size_t k = 0; k < cn_tree_size(parameters); k++) {
    const char *name = cn_tree_as_str(cn_tree_at(parameters, k), "");
    cn_tensor *grad = cn_grad_of(cn_module_get(l->module, name)), *want = layer_tensor(l, "%s.grad.%s", mode, name);
    snprintf(what, sizeof what, "%s: gradient of %s", mode, name);
    if (want) compare(l, what, grad, want);
    else expect_zero(l, what, grad);
  }
}

/* The state after the call: what PyTorch's call changed (running means), and all the rest as it was. */
static void compare_state(layer *l, const char *mode)
{
  const cn_tree *names = cn_tree_get(l->json, "state");
  for (size_t k = 0; k < cn_tree_size(names); k++) {
    char what[LAYER_NAME];
    const char *name = cn_tree_as_str(cn_tree_at(names, k), "");
    cn_tensor *want = layer_tensor(l, "%s.after.%s", mode, name);
    snprintf(what, sizeof what, "%s: %s after the call", mode, name);
    compare(l, what, cn_module_get(l->module, name), want ? want : layer_tensor(l, "state.%s", name));
  }
}

/* ---- random layers: moments of many calls ---- */

enum { REPEATS = 2000 };

typedef struct moment {
  double *sum, *squares; /* of x and of x^2, one each per element */
  cn_tensor *want;       /* (4, shape) */
  char what[LAYER_NAME];
} moment;

static void moment_add(moment *a, cn_tensor *t)
{
  double *v = numbers(t);
  for (int64_t i = 0; v && i < cn_numel(t); i++) {
    a->sum[i] += v[i];
    a->squares[i] += v[i] * v[i];
  }
  free(v);
}

/* Within six standard errors of both sides, PyTorch's being smaller. */
static void moment_check(layer *l, const moment *a)
{
  int64_t n = cn_numel(a->want) / 4;
  double *w = numbers(a->want);
  for (int64_t i = 0; w && i < n; i++) {
    double mean = a->sum[i] / REPEATS, square = a->squares[i] / REPEATS, root = sqrt((double)REPEATS);
    if (fabs(mean - w[i]) > 6 * w[n + i] / root + 1e-5 * fabs(w[i]) ||
        fabs(square - w[2 * n + i]) > 6 * w[3 * n + i] / root + 1e-5 * w[2 * n + i]) {
      layer_differs(l, "%s: element %lld has mean %g and mean square %g instead of %g and %g", a->what, (long long)i,
                    mean, square, w[i], w[2 * n + i]);
      break;
    }
  }
  free(w);
}

static size_t moments_begin(layer *l, moment *all)
{
  size_t n = 0;
  const cn_signature *sig = cn_module_class_call(l->module->cls);
  for (size_t k = 0; k < LAYER_RESULTS + CN_MAX_ARGS; k++) {
    cn_op_param p;
    bool result = k < LAYER_RESULTS;
    all[k] = (moment){0};
    if (result) snprintf(all[k].what, LAYER_NAME, "train.moment.out.%zu", k);
    else if ((int)k - LAYER_RESULTS < cn_signature_size(sig)) {
      cn_signature_param(&p, sig, (int)k - LAYER_RESULTS);
      snprintf(all[k].what, LAYER_NAME, "train.moment.gin.%s", p.name);
    } else continue;
    all[k].want = layer_tensor(l, "%s", all[k].what);
    if (!all[k].want) continue;
    all[k].sum = calloc((size_t)cn_numel(all[k].want), sizeof(double));
    all[k].squares = calloc((size_t)cn_numel(all[k].want), sizeof(double));
    n++;
  }
  return n;
}

static void run_random(layer *l)
{
  moment all[LAYER_RESULTS + CN_MAX_ARGS];
  if (!moments_begin(l, all)) layer_differs(l, "the file has no moments");
  cn_seed(1);
  for (int r = 0; r < REPEATS && !l->failures; r++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *out[LAYER_RESULTS] = {NULL};
    bool fine = call(l, out, "train");
    for (size_t k = 0; fine && k < LAYER_RESULTS + CN_MAX_ARGS; k++) {
      if (!all[k].want) continue;
      cn_tensor *leaf = k < LAYER_RESULTS ? NULL : l->leaves[k - LAYER_RESULTS];
      cn_tensor *t = k < LAYER_RESULTS ? out[k] : leaf ? cn_grad_of(leaf) : NULL;
      if (t && same_shape(t, all[k].want, 1)) moment_add(&all[k], t);
      else layer_differs(l, "%s: missing or of another shape", all[k].what);
    }
    cn_scope_end(s);
  }
  for (size_t k = 0; k < LAYER_RESULTS + CN_MAX_ARGS; k++) {
    if (all[k].want && !l->failures) moment_check(l, &all[k]);
    free(all[k].sum);
    free(all[k].squares);
  }
}

/* ---- one case ---- */

static void compare_text(layer *l)
{
  const char *want = cn_tree_as_str(cn_tree_get(l->json, "text"), NULL);
  char *text = cn_module_to_string(l->module);
  if (want && (!text || strcmp(text, want)))
    layer_differs(l, "prints as %s instead of %s", text ? text : "nothing", want);
  cn_string_free(text);
}

/* Names and their order must be PyTorch's. */
static void load_state(layer *l)
{
  const cn_tree *names = cn_tree_get(l->json, "state");
  cn_tree *own = cn_module_state(l->module), *state = cn_tree_dict();
  if (cn_tree_size(own) != cn_tree_size(names))
    layer_differs(l, "its state has %zu tensors instead of %zu", cn_tree_size(own), cn_tree_size(names));
  for (size_t k = 0; k < cn_tree_size(names); k++) {
    const char *name = cn_tree_as_str(cn_tree_at(names, k), "");
    const char *own_name = k < cn_tree_size(own) ? cn_tree_key(own, k, NULL) : "nothing";
    if (strcmp(own_name, name)) layer_differs(l, "state %zu is %s instead of %s", k, own_name, name);
    cn_tree_put(state, name, cn_tree_tensor(layer_tensor(l, "state.%s", name)));
  }
  cn_module_load(l->module, state);
  expect_fine(l, "loading");
  cn_tree_free(own);
  cn_tree_free(state);
}

static int add_work(cn_module *m, cn_module_call *call, void *payload)
{
  if (m->cls->work) *(double *)payload += m->cls->work(m, call);
  return CN_OK;
}

static int watch_work(cn_module *m, const char *path, void *payload)
{
  (void)path;
  return cn_module_hook_after(m, add_work, payload, NULL) < 0 ? cn_err() : CN_OK;
}

static void compare_work(layer *l)
{
  double want = cn_tree_as_float(cn_tree_get(l->json, "work"), -1), got = 0;
  cn_tensor *out[LAYER_RESULTS];
  if (want < 0) return;
  cn_module *whole = l->module;
  l->module = cn_module_copy(whole);
  if (!cn_module_visit(l->module, watch_work, &got)) call(l, out, "eval");
  if (got != want) layer_differs(l, "%.0f multiply-adds instead of %.0f", got, want);
  cn_module_release(l->module);
  l->module = whole;
}

/* A deep copy computes the same. */
static void compare_copy(layer *l, cn_tensor *const *out, const char *mode)
{
  cn_tensor *again[LAYER_RESULTS] = {NULL};
  cn_module *whole = l->module;
  l->module = cn_module_copy(whole);
  if (l->module && call(l, again, mode))
    for (size_t k = 0; k < LAYER_RESULTS; k++)
      if (out[k]) compare(l, "result of its copy", again[k], out[k]);
  cn_module_release(l->module);
  l->module = whole;
}

static void run_mode(layer *l, const char *mode)
{
  bool train = !strcmp(mode, "train"), same = cn_tree_as_bool(cn_tree_get(l->json, "same"), false);
  load_state(l);
  cn_module_zero_grad(l->module);
  cn_module_train(l->module, train);
  if (train && cn_tree_as_bool(cn_tree_get(l->json, "random"), false)) {
    run_random(l);
    return;
  }
  cn_tensor *out[LAYER_RESULTS] = {NULL};
  const char *golden = same ? "train" : mode;
  if (!call(l, out, golden)) return;
  for (size_t k = 0; k < LAYER_RESULTS; k++) {
    char what[LAYER_NAME];
    cn_tensor *want = layer_tensor(l, "%s.out.%zu", golden, k);
    snprintf(what, sizeof what, "%s: result %zu", mode, k);
    if (want) compare(l, what, out[k], want);
    else if (out[k]) layer_differs(l, "%s: PyTorch gives none", what);
  }
  compare_gradients(l, golden);
  compare_state(l, golden);
  if (train) return;
  compare_work(l);
  compare_copy(l, out, golden);
}

/* What PyTorch refuses in the call may be refused as early as when the module is made. */
static void run_error(layer *l, const char *stage)
{
  bool in_call = l->module && !cn_err() && !strcmp(stage, "call");
  if (in_call) {
    cn_tensor *out[LAYER_RESULTS];
    layer_read_call(l);
    cn_forward_values(out, 1, l->module, l->call, (size_t)cn_signature_size(cn_module_class_call(l->module->cls)));
  }
  if (!cn_err()) layer_differs(l, "PyTorch takes this for an error");
  cn_err_clear();
}

static int run_case(const cn_tree *file, const cn_tree *json, size_t number)
{
  layer l = {.file = file, .json = json, .number = number};
  const char *error = cn_tree_as_str(cn_tree_get(json, "error"), NULL);
  static const char *const both[] = {"train", "eval"};
  const cn_tree *modes = cn_tree_get(json, "modes");
  size_t nmodes = modes ? cn_tree_size(modes) : 2;
  cn_scope *s = cn_scope_begin();
  l.module = layer_make(&l);
  if (error) run_error(&l, error);
  else expect_fine(&l, "making");
  for (size_t k = 0; l.module && !error && k < nmodes; k++) {
    if (!k) compare_text(&l);
    run_mode(&l, modes ? cn_tree_as_str(cn_tree_at(modes, k), "") : both[k]);
    expect_fine(&l, "comparing");
  }
  cn_module_release(l.module);
  cn_scope_end(s);
  return l.failures != 0;
}

/* ---- families: a file and a test each ---- */

enum { MOST_CLASSES = 1024 };
static bool has_case[MOST_CLASSES]; /* by the number of the class */

static void note_class(const cn_tree *json)
{
  const cn_module_class *cls;
  const char *name = cn_tree_as_str(cn_tree_get(json, "class"), "");
  for (size_t i = 0; i < MOST_CLASSES && (cls = cn_module_class_at(i)); i++)
    if (!strcmp(cls->name, name)) has_case[i] = true;
}

/* Containers compute nothing of their own: test_module.c looks at them. */
static void every_class_has_a_case(void **state)
{
  static const char *const containers[] = {"Sequential", "ModuleList", "ModuleDict", "Residual", "Parallel"};
  const cn_module_class *cls;
  int lacking = 0;
  (void)state;
  for (size_t i = 0; i < MOST_CLASSES && (cls = cn_module_class_at(i)); i++) {
    for (size_t k = 0; k < sizeof containers / sizeof *containers; k++)
      has_case[i] |= !strcmp(cls->name, containers[k]);
    if (has_case[i]) continue;
    print_error("%s has no case\n", cls->name);
    lacking++;
  }
  assert_int_equal(lacking, 0);
}

static void equals_pytorch(void **state)
{
  cn_tree *file, *cases = layer_open(*state, &file);
  const char *only = cn_env("CAIRN_TEST_CASE"); /* cases whose label has this text */
  int failed = 0;
  for (size_t i = 0; i < cn_tree_size(cases); i++) {
    const cn_tree *json = cn_tree_at(cases, i);
    note_class(json);
    if (only && !strstr(cn_tree_as_str(cn_tree_get(json, "label"), ""), only)) continue;
    failed += run_case(file, json, i);
  }
  size_t n = cn_tree_size(cases);
  cn_tree_free(cases);
  cn_tree_free(file);
  print_message("%s: %zu cases\n", (const char *)*state, n);
  if (failed) fail_msg("%d of %zu cases of %s differ from PyTorch", failed, n, (const char *)*state);
}

int main(void) { return layer_main("layers", equals_pytorch, every_class_has_a_case); }
