/* ops_probe.c: which element types an op takes, found out by calling it on tiny tensors.
 *
 * No row lists its types: infer rules and kernels decide, so asking them is the one way that cannot be
 * out of date. Invariant: an attempt that fails leaves no error behind. */
#include <string.h>

#include "ops.h"

/* How one attempt fills the parameters that must be given. */
typedef struct attempt {
  int ndim;        /* of the first tensor; all sizes are 1 */
  int drop;        /* dimensions that later tensors have less */
  cn_dtype others; /* type of the tensors after the first; CN_DTYPE_NONE: the same as the first */
  int64_t number;  /* for int, int[], float and the elements of the first tensor, which may be an index */
} attempt;

static const int64_t ones_shape[4] = {1, 1, 1, 1};

static cn_tensor *tiny(int ndim, cn_dtype dtype, double fill)
{
  return cn_cast(cn_full(ones_shape, (size_t)ndim, fill, .dtype = CN_F32), dtype);
}

static bool is_type(const cn_op_param *p, const char *word) { return !strncmp(p->type, word, strlen(word)); }

static bool is_list(const cn_op_param *p) { return strchr(p->type, '[') != NULL; }

/* int[2] has its length in its type; another list is taken to have an entry per dimension. */
static size_t length(const cn_op_param *p, const attempt *a)
{
  char digit = strchr(p->type, '[')[1];
  return digit >= '1' && digit <= '9' ? (size_t)(digit - '0') : a->ndim ? (size_t)a->ndim : 1;
}

static cn_value fill(const cn_op_param *p, const attempt *a, cn_tensor *const *tensor)
{
  static const int64_t lists[2][9] = {{0}, {1, 1, 1, 1, 1, 1, 1, 1, 1}};
  if (is_type(p, "Tensor")) return is_list(p) ? cn_v_tensors(tensor, 1) : cn_v_tensor(tensor[0]);
  if (is_type(p, "int")) return is_list(p) ? cn_v_ints(lists[a->number], length(p, a)) : cn_v_int(a->number);
  if (is_type(p, "float") || is_type(p, "Scalar")) return cn_v_float((double)a->number);
  if (is_type(p, "bool")) return cn_v_bool(false);
  if (is_type(p, "dtype")) return cn_v_int(CN_F32);
  return is_type(p, "device") ? cn_v_int(CN_CPU) : cn_v_none();
}

/* One call with a first tensor (or, without tensors, a result) of that type. Did it work? */
static bool works(const cn_op_info *info, const cn_op *op, cn_dtype dtype, const attempt *a)
{
  cn_value args[CN_MAX_ARGS];
  cn_tensor *out[64] = {NULL};
  size_t nout = sizeof out / sizeof *out;
  bool first = true;
  cn_scope *s = cn_scope_begin();
  cn_tensor *data = tiny(a->ndim, dtype, (double)a->number);
  cn_tensor *other =
      tiny(a->ndim - a->drop, a->others ? a->others : dtype, a->others ? 0 : (double)a->number);
  for (int i = 0; i < info->nparams; i++) {
    const cn_op_param *p = &info->params[i];
    bool tensor = is_type(p, "Tensor"), wanted = !p->default_text && !p->optional;
    args[i] = wanted ? fill(p, a, tensor && !first ? &other : &data) : p->default_value;
    if (tensor && wanted) first = false;
    if (first && is_type(p, "dtype")) args[i] = cn_v_int(dtype);
  }
  int status = cn_op_call(out, &nout, op, args, (size_t)info->nparams, NULL);
  for (size_t i = 0; !status && i < nout; i++) cn_release(out[i]);
  cn_scope_end(s);
  cn_err_clear();
  return !status;
}

uint32_t ops_dtypes(const cn_op_info *info, const cn_op *op)
{
  static const int ndims[] = {1, 2, 4, 3, 0};
  static const cn_dtype others[] = {CN_DTYPE_NONE, CN_I64, CN_BOOL, CN_F32};
  uint32_t found = 0;
  for (int d = 1; d < CN_DTYPE_COUNT; d++)
    for (int k = 0; k < 5 * 4 * 2 * 2 && !(found >> d & 1); k++) {
      attempt a = {ndims[k % 5], k / 40, others[k / 5 % 4], !(k / 20 % 2)};
      if (a.ndim >= a.drop && works(info, op, (cn_dtype)d, &a)) found |= UINT32_C(1) << d;
    }
  return found;
}
