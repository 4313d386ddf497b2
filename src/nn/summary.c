/* summary.c: a table of a module's layers: what each gives, its parameters, multiply-adds and bytes. See module.h.
 *
 * Place in the flow: hooks on every module note its calls while forward is traced, which moves no data; a net that
 * cannot be traced is run. Invariant: the module leaves as it came: modes restored, hooks gone, buffers untouched (when
 * it could be traced) and nothing recorded. */
#include <cairn/autograd.h>
#include <cairn/graph.h>
#include <math.h>
#include <string.h>

#include "module.h"
#include "nn.h"

enum { DEEPEST = 60 };

typedef struct row {
  cn_module *module;
  const char *name;
  int depth;
  uint64_t last; /* bit d: the ancestor at depth d (or itself) is the last child */
  bool training, again; /* again: it stands further up already */
  int64_t hook;
  bool ran;
  int ndim;
  int64_t shape[CN_MAX_DIMS]; /* of its first result in its first call */
  double work, bytes;         /* of all calls */
  int64_t parameters;         /* its own */
} row;

typedef struct table {
  cn_module *root;
  row *rows;
  size_t n, cap;
} table;

/* ---- rows ---- */

static int collect(table *t, cn_module *m, const char *name, int depth, uint64_t last)
{
  if (depth > DEEPEST) return cn_err_set(CN_ERR_UNSUPPORTED, "summary: modules nest deeper than %d", DEEPEST);
  if (cn_grow((void **)&t->rows, &t->cap, t->n + 1, sizeof *t->rows)) return CN_ERR_MEMORY;
  row *r = &t->rows[t->n++];
  *r = (row){.module = m, .name = name, .depth = depth, .last = last, .training = cn_module_training(m)};
  for (size_t i = 0; i + 1 < t->n && !r->again; i++) r->again = t->rows[i].module == m;
  size_t n = r->again ? 0 : cn_module_nchildren(m);
  int status = CN_OK;
  for (size_t i = 0; !status && i < n; i++)
    status = collect(t, cn_module_child(m, i), cn_module_child_name(m, i), depth + 1,
                     i + 1 == n ? last | (uint64_t)1 << (depth + 1) : last);
  return status;
}

static int count_parameters(table *t)
{
  cn_named_list list;
  int status = cn_module_named(&list, t->root, CN_PARAMETERS);
  for (size_t i = 0; !status && i < list.n; i++)
    for (size_t k = 0; k < t->n; k++)
      if (t->rows[k].module == list.v[i].owner && !t->rows[k].again)
        t->rows[k].parameters += cn_numel(list.v[i].tensor);
  cn_named_free(&list);
  return status;
}

/* Runs after each call of a module. */
static int note(cn_module *m, cn_module_call *call, void *payload)
{
  row *r = payload;
  const cn_tensor *y = call->out[0];
  if (!r->ran && y) {
    r->ndim = cn_ndim(y);
    if (r->ndim) memcpy(r->shape, cn_shape(y), (size_t)r->ndim * sizeof *r->shape);
  }
  r->ran = true;
  for (size_t i = 0; i < call->nout; i++)
    if (call->out[i]) r->bytes += (double)cn_tensor_nbytes(call->out[i]);
  if (m->cls->work) r->work += m->cls->work(m, call);
  return CN_OK;
}

static void forget(table *t)
{
  for (size_t i = 0; i < t->n; i++) t->rows[i].ran = false, t->rows[i].work = t->rows[i].bytes = 0;
}

/* ---- running ---- */

typedef struct inputs {
  cn_module *module;
  size_t n;
} inputs;

static int traced(cn_tensor **outputs, cn_tensor *const *in, void *payload)
{
  const inputs *i = payload;
  outputs[0] = cn_forward_one(i->module, in, i->n);
  return outputs[0] ? CN_OK : cn_err();
}

static int run(table *t, cn_tensor *const *in, size_t n)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_graph *graph = cn_trace(traced, 1, in, n, &(inputs){t->root, n});
  int status = graph ? CN_OK : cn_err();
  cn_graph_free(graph);
  if (status && status != CN_ERR_MEMORY) { /* it reads values, say: run it */
    cn_err_clear();
    forget(t);
    status = cn_forward_one(t->root, in, n) ? CN_OK : cn_err();
  }
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return status;
}

/* Evaluation mode and hooks around the run; taking them back cannot fail. */
static int observe(table *t, cn_tensor *const *in, size_t n)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < t->n; i++) {
    row *r = &t->rows[i];
    if (!r->again && (r->hook = cn_module_hook_after(r->module, note, r, NULL)) < 0) status = (int)r->hook;
  }
  for (size_t i = 0; i < t->n; i++) cni_set_training(t->rows[i].module, false);
  if (!status) status = run(t, in, n);
  for (size_t i = 0; i < t->n; i++) {
    if (t->rows[i].hook > 0) cn_module_hook_remove(t->rows[i].module, t->rows[i].hook);
    cni_set_training(t->rows[i].module, t->rows[i].training);
  }
  return status;
}

/* ---- writing ---- */

static void put_count(cn_text *t, double v)
{
  char digits[32], text[48];
  size_t n = 0, k = 0;
  for (uint64_t left = (uint64_t)v; left || !n; left /= 10) digits[n++] = (char)('0' + left % 10);
  while (n) {
    text[k++] = digits[--n];
    if (n && n % 3 == 0) text[k++] = ',';
  }
  cn_text_put_bytes(t, text, k);
}

/* Two digits behind the point, whatever the locale. */
static void put_decimal(cn_text *t, double v)
{
  uint64_t hundredths = (uint64_t)(v * 100 + 0.5);
  put_count(t, (double)(hundredths / 100));
  cn_text_putf(t, ".%02u", (unsigned)(hundredths % 100));
}

static void put_shape(cn_text *t, const row *r)
{
  cn_text_put(t, "[");
  for (int i = 0; i < r->ndim; i++) cn_text_putf(t, "%s%lld", i ? ", " : "", (long long)r->shape[i]);
  cn_text_put(t, "]");
}

enum { LAYER, SHAPE, PARAMETERS, WORK, BYTES, COLUMNS };

/* One cell of the table, into an empty text. */
static void put_cell(cn_text *t, const row *r, int column)
{
  switch (column) {
  case LAYER:
    for (int d = 1; d < r->depth; d++) cn_text_put(t, r->last >> d & 1 ? "   " : "\xe2\x94\x82  ");
    if (r->depth) cn_text_put(t, r->last >> r->depth & 1 ? "\xe2\x94\x94\xe2\x94\x80 " : "\xe2\x94\x9c\xe2\x94\x80 ");
    if (r->name) cn_text_putf(t, "%s: ", r->name);
    cn_text_put(t, cni_module_shown(r->module));
    break;
  case SHAPE:
    if (r->again) cn_text_put(t, "(shared)");
    else if (r->ran) put_shape(t, r);
    else cn_text_put(t, "--");
    break;
  case PARAMETERS:
    if (r->parameters) put_count(t, (double)r->parameters);
    else cn_text_put(t, "--");
    break;
  case WORK:
    if (r->work > 0) put_count(t, r->work);
    else cn_text_put(t, "--");
    break;
  default:
    if (r->ran && !r->again) put_count(t, r->bytes);
    else cn_text_put(t, "--");
  }
}

/* Characters, which are fewer than bytes where lines are drawn. */
static size_t width(const cn_text *t)
{
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++) n += ((unsigned char)t->s[i] & 0xc0) != 0x80;
  return n;
}

static void put_padded(cn_text *out, const cn_text *cell, size_t room, bool right)
{
  int gap = (int)(room - width(cell));
  if (right) cn_text_putf(out, "%*s%s", gap, "", cell->s ? cell->s : "");
  else cn_text_putf(out, "%s%*s", cell->s ? cell->s : "", gap, "");
}

static void put_rule(cn_text *out, size_t n)
{
  for (size_t i = 0; i < n; i++) cn_text_put(out, "=");
  cn_text_put(out, "\n");
}

/* Row i of the table, or its head where i is n. */
static void put_row(cn_text *out, const table *t, size_t i, const size_t *widths)
{
  static const char *const heads[] = {"Layer", "Output shape", "Parameters", "Multiply-adds", "Output bytes"};
  for (int c = 0; c < COLUMNS; c++) {
    cn_text cell = {0};
    if (i == t->n) cn_text_put(&cell, heads[c]);
    else put_cell(&cell, &t->rows[i], c);
    if (cell.failed) out->failed = true;
    if (c) cn_text_put(out, "  ");
    put_padded(out, &cell, widths[c], c >= PARAMETERS);
    cn_text_free(&cell);
  }
  cn_text_put(out, "\n");
}

static void measure(const table *t, size_t *widths)
{
  static const size_t least[] = {24, 20, 12, 13, 12};
  memcpy(widths, least, sizeof least);
  for (size_t i = 0; i < t->n; i++)
    for (int c = 0; c < COLUMNS; c++) {
      cn_text cell = {0};
      put_cell(&cell, &t->rows[i], c);
      if (width(&cell) > widths[c]) widths[c] = width(&cell);
      cn_text_free(&cell);
    }
}

/* Does a module below it have calls of its own? Then its output is theirs. */
static bool covered(const table *t, size_t i)
{
  for (size_t k = i + 1; k < t->n && t->rows[k].depth > t->rows[i].depth; k++)
    if (t->rows[k].ran) return true;
  return false;
}

static void put_line(cn_text *out, const char *what, double value, bool decimal)
{
  cn_text_putf(out, "%s: ", what);
  if (decimal) put_decimal(out, value);
  else put_count(out, value);
  cn_text_put(out, "\n");
}

static double bytes_of(cn_module *m)
{
  cn_named_list list;
  double bytes = 0;
  if (!cn_module_named(&list, m, CN_PARAMETERS))
    for (size_t i = 0; i < list.n; i++)
      bytes += (double)cn_tensor_nbytes(list.v[i].tensor);
  cn_named_free(&list);
  return bytes;
}

static void put_sums(cn_text *out, const table *t, double input, size_t columns)
{
  double all = (double)cn_module_count(t->root, false), trained = (double)cn_module_count(t->root, true);
  double work = 0, between = 0, held = bytes_of(t->root), unit;
  for (size_t i = 0; i < t->n; i++) {
    work += t->rows[i].work;
    if (t->rows[i].ran && !covered(t, i)) between += t->rows[i].bytes;
  }
  put_line(out, "Parameters", all, false);
  put_line(out, "Trainable parameters", trained, false);
  put_line(out, "Other parameters", all - trained, false);
  unit = work >= 1e9 ? 1e9 : 1e6;
  put_line(out, unit > 1e6 ? "Multiply-adds (G)" : "Multiply-adds (M)", work / unit, true);
  put_rule(out, columns);
  put_line(out, "Input (MB)", input / 1e6, true);
  put_line(out, "Forward and backward pass (MB)", 2 * between / 1e6, true);
  put_line(out, "Parameters (MB)", held / 1e6, true);
  put_line(out, "Sum (MB)", (input + 2 * between + held) / 1e6, true);
  put_rule(out, columns);
}

static char *write_table(const table *t, double input)
{
  cn_text out = {0};
  size_t widths[COLUMNS], columns = 2 * (COLUMNS - 1);
  measure(t, widths);
  for (int c = 0; c < COLUMNS; c++) columns += widths[c];
  put_rule(&out, columns);
  put_row(&out, t, t->n, widths);
  put_rule(&out, columns);
  for (size_t i = 0; i < t->n; i++) put_row(&out, t, i, widths);
  put_rule(&out, columns);
  put_sums(&out, t, input, columns);
  return cn_text_take(&out);
}

/* ---- the functions ---- */

char *cn_summary_inputs(cn_module *m, cn_tensor *const *in, size_t n)
{
  table t = {.root = m};
  char *text = NULL;
  double input = 0;
  if (cn_err()) return NULL;
  if (!m) {
    cn_err_set(CN_ERR_TYPE, "summary: the module is missing (NULL)");
    return NULL;
  }
  for (size_t i = 0; i < n; i++) input += (double)cn_tensor_nbytes(in[i]);
  int status = collect(&t, m, NULL, 0, 0);
  if (!status) status = count_parameters(&t);
  if (!status) status = observe(&t, in, n);
  if (!status) text = write_table(&t, input);
  cn_free(t.rows, t.cap * sizeof *t.rows);
  return text;
}

char *cn_summary(cn_module *m, const int64_t *shape, size_t ndim)
{
  cn_named_list list;
  cn_dtype type = CN_DTYPE_NONE;
  cn_device device = CN_DEVICE_DEFAULT;
  if (!m || cn_err()) return cn_summary_inputs(m, NULL, 0);
  if (cn_module_named(&list, m, CN_PARAMETERS)) return NULL;
  if (list.n) type = cn_dtype_of(list.v[0].tensor), device = cn_device_of(list.v[0].tensor);
  cn_named_free(&list);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(shape, ndim, .dtype = type, .device = device);
  char *text = x ? cn_summary_inputs(m, &x, 1) : NULL;
  if (!text && cn_err() == CN_ERR_DTYPE) { /* numbers of words or classes: a net that begins with an embedding */
    cn_err_clear();
    x = cn_zeros(shape, ndim, .dtype = CN_I64, .device = device);
    text = x ? cn_summary_inputs(m, &x, 1) : NULL;
  }
  cn_scope_end(s);
  return text;
}

int cn_module_print(cn_module *m)
{
  char *text = cn_module_to_string(m);
  if (!text) return cn_err();
  cn_terminal_write(text);
  cn_terminal_write("\n");
  cn_string_free(text);
  return CN_OK;
}
