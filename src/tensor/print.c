/* print.c: tensors as text, the way PyTorch writes them.
 *
 * Place in the flow: reads a tensor through host memory (a copy for other devices), computes nothing else.
 * Invariant: one format, chosen from the elements that are shown, serves all of them. */
#include <cairn/ext/system.h>
#include <cairn/device.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "base/hooks.h"
#include "base/os.h"
#include "tensor.h"

enum { ITEM_MAX = 512, PRECISION_MAX = 100 };
static const char prefix[] = "tensor(";
enum { PREFIX_LENGTH = sizeof prefix - 1 };

/* ---- options, of the whole process ---- */
static _Atomic int opt_precision = 4, opt_threshold = 1000, opt_edge_items = 3, opt_line_width = 80,
                   opt_scientific = 0;

void cn_set_print_options(const cn_print_options *options)
{
  cn_print_options o = {0, 0, 0, 0, 0};
  if (options) o = *options;
  opt_precision = o.precision <= 0 ? 4 : o.precision > PRECISION_MAX ? PRECISION_MAX : o.precision;
  opt_threshold = o.threshold > 0 ? o.threshold : 1000;
  opt_edge_items = o.edge_items > 0 ? o.edge_items : 3;
  opt_line_width = o.line_width > 0 ? o.line_width : 80;
  opt_scientific = o.scientific;
}

#define put cn_text_put
#define put_bytes cn_text_put_bytes

static void put_repeated(cn_text *x, const char *s, int64_t times)
{
  for (int64_t i = 0; i < times; i++) put(x, s);
}

/* ---- elements ---- */
typedef struct printer {
  cn_text out;
  cn_desc d; /* data in host memory; strides that fit it */
  bool summarize;
  int precision, edge_items, line_width;
  bool blank; /* it has no data: the device "meta" */
  /* Chosen from the elements shown; complex numbers have one for each part. */
  int part; /* the one that is being looked at */
  struct form {
    bool integral, scientific; /* of floats: "1." and "1.0000e+00" */
    bool any;                  /* a finite non-zero one was seen */
    double least, most;        /* of those, by magnitude */
    int width;
  } form[2];
} printer;

/* Elements of dim that are shown: all of them, or edge_items at each end. */
static bool folded(const printer *p, int dim) { return p->summarize && p->d.shape[dim] > 2 * p->edge_items; }
static int64_t shown(const printer *p, int dim)
{
  return folded(p, dim) ? 2 * p->edge_items : p->d.shape[dim];
}

/* Where the k-th shown element of dim lies, relative to the first. */
static int64_t step_to(const printer *p, int dim, int64_t k)
{
  int64_t hidden = folded(p, dim) && k >= p->edge_items ? p->d.shape[dim] - 2 * p->edge_items : 0;
  return (k + hidden) * p->d.strides[dim];
}

static void each_shown(printer *p, int dim, int64_t at, void (*visit)(printer *p, int64_t at))
{
  if (dim == p->d.ndim) {
    visit(p, at);
    return;
  }
  for (int64_t k = 0; k < shown(p, dim); k++) each_shown(p, dim + 1, at + step_to(p, dim, k), visit);
}

/* Element `at` as a number: of complex ones the part. */
static double load(const printer *p, int64_t at, int part)
{
  if (!cni_dtype_is_complex(p->d.dtype)) return cni_load_f64(p->d.data, at, p->d.dtype);
  return cni_load_f64(p->d.data, 2 * at + part, cni_dtype_part(p->d.dtype));
}

static bool has_points(int dtype) { return cni_dtype_is_float(dtype) || cni_dtype_is_complex(dtype); }

/* Writes a float the way Python does; returns its length. */
static int format_float(const printer *p, const struct form *f, double v, char *out)
{
  int n;
  if (isnan(v)) n = snprintf(out, ITEM_MAX, "nan"); /* C may write a sign here */
  else if (f->scientific) n = snprintf(out, ITEM_MAX, "%.*e", p->precision, v);
  else if (f->integral) n = snprintf(out, ITEM_MAX, isinf(v) ? "%.0f" : "%.0f.", v);
  else n = snprintf(out, ITEM_MAX, "%.*f", p->precision, v);
  for (int i = 0; i < n; i++)
    if (out[i] == ',') out[i] = '.'; /* the program's locale */
  return n;
}

static int format_element(const printer *p, int64_t at, char *out)
{
  int dtype = p->d.dtype;
  if (has_points(dtype)) return format_float(p, &p->form[p->part], load(p, at, p->part), out);
  int64_t v = cni_load_i64(p->d.data, at, dtype);
  if (dtype == CN_BOOL) return snprintf(out, ITEM_MAX, v ? "True" : "False");
  if (dtype == CN_U64) return snprintf(out, ITEM_MAX, "%" PRIu64, (uint64_t)v);
  return snprintf(out, ITEM_MAX, "%" PRId64, v);
}

static bool sets_format(const printer *p, int64_t at)
{
  if (!has_points(p->d.dtype)) return true;
  double v = load(p, at, p->part);
  return isfinite(v) && v != 0;
}

static void see_range(printer *p, int64_t at)
{
  if (!sets_format(p, at)) return;
  struct form *f = &p->form[p->part];
  double v = load(p, at, p->part), size = fabs(v);
  if (!f->any || size < f->least) f->least = size;
  if (!f->any || size > f->most) f->most = size;
  if (v != ceil(v)) f->integral = false;
  f->any = true;
}

static void see_width(printer *p, int64_t at)
{
  char item[ITEM_MAX];
  if (!sets_format(p, at)) return;
  int n = format_element(p, at, item);
  if (n > p->form[p->part].width) p->form[p->part].width = n;
}

static void choose_form(printer *p, int part)
{
  struct form *f = &p->form[part];
  p->part = part;
  f->integral = true;
  f->width = 1;
  if (has_points(p->d.dtype)) {
    each_shown(p, 0, 0, see_range);
    f->scientific = f->any && (f->most / f->least > 1000.0 || f->most > 1.0e8 || f->least < 1.0e-4);
    if (opt_scientific) f->scientific = opt_scientific > 0;
  }
  each_shown(p, 0, 0, see_width);
}

static void choose_format(printer *p)
{
  if (cni_dtype_is_complex(p->d.dtype)) choose_form(p, 1);
  choose_form(p, 0);
}

/* Columns of one element, as PyTorch counts them. */
static int element_width(const printer *p)
{
  return p->form[0].width + (cni_dtype_is_complex(p->d.dtype) ? p->form[1].width + 1 : 0);
}

/* ---- layout ---- */
static void put_element(printer *p, int64_t at)
{
  char item[ITEM_MAX];
  int n = format_element(p, at, item);
  put_repeated(&p->out, " ", p->form[0].width - n);
  put_bytes(&p->out, item, (size_t)n);
  if (!cni_dtype_is_complex(p->d.dtype)) return;
  format_float(p, &p->form[1], load(p, at, 1), item); /* "2.+3.j": the sign stands between the parts */
  put(&p->out, item[0] == '-' ? "" : "+");
  put(&p->out, item);
  put(&p->out, "j");
}

/* The last dim: as many elements to a line as fit. The dots count as one. */
static void put_vector(printer *p, int64_t at, int indent)
{
  int dim = p->d.ndim - 1, per_line = (p->line_width - indent) / (element_width(p) + 2);
  int64_t n = shown(p, dim), column = 0;
  if (per_line < 1) per_line = 1;
  put(&p->out, "[");
  for (int64_t k = 0; k < n && !p->out.failed; k++) {
    bool dots = folded(p, dim) && k == p->edge_items;
    for (int part = dots ? 0 : 1; part < 2; part++, column++) {
      if (column && column % per_line == 0) {
        put(&p->out, ",\n");
        put_repeated(&p->out, " ", indent + 1);
      } else if (column) put(&p->out, ", ");
      if (part == 0) put(&p->out, " ...");
      else put_element(p, at + step_to(p, dim, k));
    }
  }
  put(&p->out, "]");
}

/* The dims from `dim` on; at: element where they start. */
static void put_dims(printer *p, int dim, int64_t at, int indent)
{
  if (p->d.ndim == 0) {
    put_element(p, at);
    return;
  }
  if (dim == p->d.ndim - 1) {
    put_vector(p, at, indent);
    return;
  }
  put(&p->out, "[");
  for (int64_t k = 0; k < shown(p, dim) && !p->out.failed; k++) {
    bool dots = folded(p, dim) && k == p->edge_items;
    for (int part = dots ? 0 : 1; part < 2; part++) {
      if (k) {
        put(&p->out, ",");
        put_repeated(&p->out, "\n", p->d.ndim - dim - 1);
        put_repeated(&p->out, " ", indent + 1);
      }
      if (part == 0) put(&p->out, "...");
      else put_dims(p, dim + 1, at + step_to(p, dim, k), indent + 1);
    }
  }
  put(&p->out, "]");
}

/* ", name" behind the elements, or on a line of its own when it does not fit. */
static void put_suffix(printer *p, size_t *line, const char *suffix)
{
  size_t n = strlen(suffix);
  if (*line + n + 2 > (size_t)p->line_width) {
    put(&p->out, ",\n");
    put_repeated(&p->out, " ", PREFIX_LENGTH);
    *line = PREFIX_LENGTH + n;
  } else {
    put(&p->out, ", ");
    *line += n + 2;
  }
  put(&p->out, suffix);
}

static void put_history(printer *p, size_t *line, const struct cni_node *node)
{
  char item[ITEM_MAX];
  const char *op = node && cni_hooks.node_label ? cni_hooks.node_label(node) : NULL;
  if (op) {
    snprintf(item, sizeof item, "grad_fn=<%s>", op);
    put_suffix(p, line, item);
  } else if (node) put_suffix(p, line, "requires_grad=True");
}

static void put_suffixes(printer *p, const cn_tensor *t)
{
  if (p->out.failed) return;
  char item[ITEM_MAX], shape[ITEM_MAX];
  const char *last = strrchr(p->out.s, '\n');
  /* PyTorch counts from the newline, and one more; two more on the first line. */
  size_t line = last ? p->out.n - (size_t)(last - p->out.s) + 1 : p->out.n + 2;
  bool empty = t->d.numel == 0, usual = t->d.dtype == (int32_t)cn_default_dtype();
  if (!empty) usual = usual || t->d.dtype == CN_I64 || t->d.dtype == CN_BOOL;
  if (cni_dtype_is_complex(t->d.dtype)) usual = !empty && cni_dtype_part(t->d.dtype) == (int)cn_default_dtype();
  if (t->d.device != CN_CPU && !t->d.weak) {
    snprintf(item, sizeof item, "device='%s'", cn_device_name(shape, 64, t->d.device));
    put_suffix(p, &line, item);
  }
  if ((empty && t->d.ndim != 1) || p->blank) {
    snprintf(item, sizeof item, "size=%s", cni_shape_text(shape, sizeof shape - 8, t->d.ndim, t->d.shape));
    put_suffix(p, &line, item);
  }
  if (!usual) {
    snprintf(item, sizeof item, "dtype=cairn.%s", cni_dtype_rows[t->d.dtype].name);
    put_suffix(p, &line, item);
  }
  put_history(p, &line, t->node);
}

/* Makes p->d.data readable: the tensor's own host memory, or a copy of *size bytes that the caller frees. */
static int open_elements(printer *p, cn_tensor *t, void **copy, size_t *size)
{
  *copy = NULL;
  *size = cn_tensor_nbytes(t);
  p->d = t->d;
  if (t->d.numel == 0) return CN_OK;
  if (t->d.device == CN_CPU || t->d.weak) {
    p->d.data = cni_tensor_host(t);
    return p->d.data ? CN_OK : cn_err();
  }
  *copy = cni_alloc(*size);
  if (!*copy) return CN_ERR_MEMORY;
  p->d.data = *copy;
  cni_contiguous_strides(t->d.ndim, t->d.shape, p->d.strides);
  return cn_to_data(*copy, *size, t);
}

/* An example of a batch is shown by all of them. */
static char *batch_to_string(const cn_tensor *t)
{
  cn_text text = {0};
  char *inner = cn_to_string(t->batch), *result = NULL;
  cn_text_putf(&text, "BatchedTensor(lvl=%llu, bdim=0, value=\n%s\n)", (unsigned long long)t->batch_level,
               inner ? inner : "");
  if (inner && !text.failed) result = cni_strdup(text.s);
  cn_string_free(inner);
  cn_text_free(&text);
  return result;
}

/* ---- sparse tensors: their parts, each as it is printed by itself ---- */

/* "name=tensor(...)" of a part. */
static void put_part(cn_text *out, const char *name, cn_tensor *t)
{
  printer p = {.out = *out, .precision = opt_precision, .edge_items = opt_edge_items, .line_width = opt_line_width};
  void *copy = NULL;
  size_t size = 0;
  char shape[CNI_SHAPE_TEXT];
  p.summarize = t->d.numel > opt_threshold;
  put(&p.out, name);
  put(&p.out, "=tensor(");
  if (!open_elements(&p, t, &copy, &size)) {
    if (t->d.numel == 0) {
      put(&p.out, "[], size=");
      put(&p.out, cni_shape_text(shape, sizeof shape, t->d.ndim, t->d.shape));
    } else {
      choose_format(&p);
      put_dims(&p, 0, 0, PREFIX_LENGTH + (int)strlen(name) + (int)strlen("=tensor("));
    }
    put(&p.out, ")");
  }
  cni_free(copy, size);
  *out = p.out;
}

static void put_between(cn_text *out)
{
  put(out, ",\n");
  put_repeated(out, " ", PREFIX_LENGTH);
}

/* What stands behind the parts; of COO on a line of its own. */
static void put_sparse_suffixes(printer *p, const cn_tensor *t)
{
  char item[ITEM_MAX], text[CNI_SHAPE_TEXT];
  if (p->out.failed) return;
  const char *last = strrchr(p->out.s, '\n');
  size_t line = t->d.layout == CN_LAYOUT_COO ? (size_t)p->line_width
                : last                       ? p->out.n - (size_t)(last - p->out.s) + 1
                                             : p->out.n + 2;
  if (t->d.device != CN_CPU) {
    snprintf(item, sizeof item, "device='%s'", cn_device_name(text, sizeof text, t->d.device));
    put_suffix(p, &line, item);
  }
  snprintf(item, sizeof item, "size=%s", cni_shape_text(text, sizeof text, t->d.ndim, t->d.shape));
  put_suffix(p, &line, item);
  snprintf(item, sizeof item, "nnz=%" PRId64, cn_nnz(t));
  put_suffix(p, &line, item);
  if (t->d.dtype != (int32_t)cn_default_dtype() && t->d.dtype != CN_I64 && t->d.dtype != CN_BOOL) {
    snprintf(item, sizeof item, "dtype=cairn.%s", cni_dtype_rows[t->d.dtype].name);
    put_suffix(p, &line, item);
  }
  snprintf(item, sizeof item, "layout=cairn.%s", cni_layout_name(t->d.layout));
  put_suffix(p, &line, item);
  put_history(p, &line, t->sparse->values->node);
}

static char *sparse_to_string(cn_tensor *t)
{
  printer p = {.line_width = opt_line_width};
  bool rows = t->d.layout == CN_LAYOUT_CSR || t->d.layout == CN_LAYOUT_BSR;
  put(&p.out, prefix);
  if (t->d.layout == CN_LAYOUT_COO) put_part(&p.out, "indices", t->sparse->index);
  else {
    put_part(&p.out, rows ? "crow_indices" : "ccol_indices", t->sparse->index);
    put_between(&p.out);
    put_part(&p.out, rows ? "col_indices" : "row_indices", t->sparse->plain);
  }
  put_between(&p.out);
  put_part(&p.out, "values", t->sparse->values);
  put_sparse_suffixes(&p, t);
  put(&p.out, ")");
  char *result = p.out.failed || cn_err() ? NULL : cni_strdup(p.out.s);
  cn_text_free(&p.out);
  return result;
}

char *cn_to_string(cn_tensor *t)
{
  if (cn_err()) return NULL;
  if (t && t->batch) return batch_to_string(t);
  if (!t) {
    cni_fail(CN_ERR_TYPE, "to_string: the tensor is NULL");
    return NULL;
  }
  if (cni_is_sparse(t)) return sparse_to_string(t);
  printer p = {.precision = opt_precision, .edge_items = opt_edge_items, .line_width = opt_line_width};
  void *copy = NULL;
  size_t size = 0;
  char *result = NULL, device[64];
  p.summarize = t->d.numel > opt_threshold;
  p.blank = t->d.device != CN_CPU && !t->d.weak && !strcmp(cn_device_name(device, sizeof device, t->d.device), "meta");
  if (p.blank || open_elements(&p, t, &copy, &size) == CN_OK) {
    put(&p.out, prefix);
    if (p.blank) put(&p.out, "...");
    else if (t->d.numel == 0) put(&p.out, "[]");
    else {
      choose_format(&p);
      put_dims(&p, 0, 0, PREFIX_LENGTH);
    }
    put_suffixes(&p, t);
    put(&p.out, ")");
    if (!p.out.failed) result = cni_strdup(p.out.s);
  }
  cni_free(copy, size);
  cn_text_free(&p.out);
  return result;
}

void cn_string_free(char *string) { cni_strfree(string); }

int cn_print(cn_tensor *t)
{
  char *s = cn_to_string(t);
  if (!s) return cn_err();
  cni_os_write_stdout(s);
  cni_os_write_stdout("\n");
  cn_string_free(s);
  return CN_OK;
}
