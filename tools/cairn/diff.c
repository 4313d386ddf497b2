/* diff.c: `cairn diff`: two ONNX models on the same inputs, and how far their outputs lie apart.
 *
 * Place in the flow: onnx.c makes the inputs, of the first model's names and sizes. Invariant: outputs are matched by
 * their names, or, where they have no name in common, by their order. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "onnx.h"

const char help_diff[] =
    "An output is the same where |a - b| <= atol + rtol * |b| in every element, with equal types and sizes. The "
    "exit\n"
    "status is 1 where one is not.\n"
    "\n"
    "  --rtol R --atol A   0.001, 0.00001\n"
    "  --seed N            of random inputs; 0\n"
    "  --eager             node by node\n" ONNX_HELP_INPUT ONNX_HELP_RANDOM ONNX_HELP_IMAGE ONNX_HELP_WHERE;

typedef struct tolerance {
  double rtol, atol;
} tolerance;

/* The other model's value of an output: of the same name, or at the same place. */
static const cn_onnx_value *matching(const onnx_subject *b, const cn_onnx_info *info, size_t i)
{
  cn_onnx_info other;
  for (size_t k = 0; k < cn_onnx_outputs(b->model); k++)
    if (!cn_onnx_output_at(&other, b->model, k) && !strcmp(other.name, info->name)) return b->made[k];
  return i < cn_onnx_outputs(b->model) ? b->made[i] : NULL;
}

static bool same_kind(const cn_tensor *a, const cn_tensor *b)
{
  bool same = cn_ndim(a) == cn_ndim(b) && cn_dtype_of(a) == cn_dtype_of(b);
  for (int d = 0; same && d < cn_ndim(a); d++) same = cn_size(a, d) == cn_size(b, d);
  return same;
}

/* How far two tensors lie apart, and whether that is within the tolerance; NaN equals NaN. */
static bool compare_tensors(double *most, double *relative, cn_tensor *a, cn_tensor *b, const tolerance *t)
{
  a = cn_cast(cn_to_device(a, CN_CPU), CN_F64);
  b = cn_cast(cn_to_device(b, CN_CPU), CN_F64);
  const double *x = cn_data(cn_contiguous(a)), *y = cn_data(cn_contiguous(b));
  bool same = true;
  *most = *relative = 0;
  for (int64_t i = 0; !cn_err() && i < cn_numel(a); i++) {
    if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
    double apart = fabs(x[i] - y[i]);
    same = same && apart <= t->atol + t->rtol * fabs(y[i]);
    *most = fmax(*most, isnan(apart) ? INFINITY : apart);
    *relative = fmax(*relative, isnan(apart) ? INFINITY : apart / fmax(fabs(y[i]), t->atol));
  }
  return same;
}

static bool same_strings(const cn_onnx_value *a, const cn_onnx_value *b)
{
  cn_strings x, y;
  if (!cn_onnx_value_as_strings(&x, a) || !cn_onnx_value_as_strings(&y, b)) return false;
  cn_tensor *equal = same_kind(x.lengths, y.lengths) ? cn_strings_equal(&x, &y) : NULL;
  return equal && cn_item(cn_all(equal)) != 0;
}

static bool compare(const char *name, const cn_onnx_value *a, const cn_onnx_value *b, const tolerance *t)
{
  double most, relative;
  cn_tensor *x = cn_onnx_value_as_tensor(a), *y = cn_onnx_value_as_tensor(b);
  bool same = true;
  if (cn_onnx_value_kind(a) != cn_onnx_value_kind(b) || cn_onnx_value_size(a) != cn_onnx_value_size(b) ||
      (x && !same_kind(x, y))) {
    printf("%-32s of another type, or of other sizes\n", name);
    return false;
  }
  if (x) {
    same = compare_tensors(&most, &relative, x, y, t);
    printf("%-32s %s: apart by %.3g at most, relative %.3g\n", name, same ? "same" : "differs", most, relative);
  } else if (cn_onnx_value_kind(a) == CN_ONNX_STRINGS) {
    same = same_strings(a, b);
    printf("%-32s %s\n", name, same ? "same" : "differs");
  }
  for (size_t i = 0; i < cn_onnx_value_size(a); i++)
    same = compare(name, cn_onnx_value_at(a, i), cn_onnx_value_at(b, i), t) && same;
  return same;
}

static bool compare_all(const onnx_subject *a, const onnx_subject *b, const tolerance *t)
{
  cn_onnx_info info;
  bool same = cn_onnx_outputs(a->model) == cn_onnx_outputs(b->model);
  if (!same) printf("%zu outputs, and %zu\n", cn_onnx_outputs(a->model), cn_onnx_outputs(b->model));
  for (size_t i = 0; i < cn_onnx_outputs(a->model) && !cn_onnx_output_at(&info, a->model, i); i++)
    same = compare(info.name, a->made[i], matching(b, &info, i), t) && same;
  return same;
}

static int diff(const char *const *paths, const onnx_options *o, const tolerance *t, bool eager)
{
  onnx_subject a = {NULL}, b = {NULL};
  bool same = false;
  int status = onnx_open(&a, paths[0], o, !eager);
  if (!status) status = onnx_open_beside(&b, paths[1], &a, !eager);
  if (!status) status = onnx_run(&a);
  if (!status) status = onnx_run(&b);
  cn_scope *scope = cn_scope_begin();
  if (!status) same = compare_all(&a, &b, t);
  cn_scope_end(scope);
  onnx_close(&a);
  onnx_close(&b);
  return status || cn_err() ? command_failed() : same ? 0 : 1;
}

int command_diff(int argc, char **argv)
{
  const char *paths[2], *rtol = NULL, *atol = NULL, *seed = NULL;
  bool eager = false;
  int64_t number = 0;
  tolerance t = {1e-3, 1e-5};
  onnx_options o = {.random = true};
  const command_flag flags[] = {
      {"--rtol", &rtol, NULL},       {"--atol", &atol, NULL},         {"--seed", &seed, NULL},
      {"--eager", NULL, &eager},     {"--mean", &o.mean, NULL},       {"--std", &o.std, NULL},
      {"--device", &o.device, NULL}, {"--threads", &o.threads, NULL}, {NULL, NULL, NULL}};
  if (!onnx_take_options(&o, &argc, argv)) return 2;
  int n = command_parse(argc, argv, flags, paths, 2);
  if (n < 0) return 2;
  if (n < 2) return command_missing(argv[0], "which two models?");
  if (!command_number(&t.rtol, rtol) || t.rtol < 0) return command_usage(argv[0], rtol);
  if (!command_number(&t.atol, atol) || t.atol < 0) return command_usage(argv[0], atol);
  if (!command_whole(&number, seed)) return command_usage(argv[0], seed);
  cn_seed((uint64_t)number);
  return onnx_place(&o) ? command_failed() : diff(paths, &o, &t, eager);
}
