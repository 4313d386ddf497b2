/* emit.c: names, nodes, attributes, constants. See emit.h. */
#include "emit.h"

#include <cairn/cairn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto.h"

enum { DEEPEST = 32 };

int cni_ox_fail(cni_ox *x, int code, const char *format, ...)
{
  char text[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  if (!cn_err()) cn_err_set(code, "onnx: %s", text);
  x->failed = true;
  return code;
}

void cni_ox_free(cni_ox *x)
{
  for (size_t i = 0; i < x->nnames; i++)
    if (x->names[i].tensor) cn_release(x->names[i].tensor);
  cn_free(x->names, x->names_cap * sizeof *x->names);
  cn_free(x->nodes, x->nodes_cap * sizeof *x->nodes);
  cn_free(x->graphs, x->graphs_cap * sizeof *x->graphs);
  cn_free(x->sizes, x->sizes_cap * sizeof *x->sizes);
  cn_text_free(&x->attrs);
  cni_arena_free(&x->arena);
}

static void *take(cni_ox *x, size_t count, size_t size)
{
  void *p = x->failed ? NULL : cni_arena_take(&x->arena, count, size);
  if (!p) x->failed = true;
  return p;
}

static const void *copied(cni_ox *x, const void *p, size_t n)
{
  void *to = take(x, n + 1, 1);
  if (to && n) memcpy(to, p, n);
  return to;
}

const char *cni_ox_word(cni_ox *x, const char *s, size_t n)
{
  const char *copy = copied(x, s, n);
  return copy ? copy : "";
}

bool cni_ox_is_taken(const cni_ox *x, const char *name)
{
  for (size_t i = 0; i < x->nnames; i++)
    if (x->names[i].fixed && !strcmp(x->names[i].text, name)) return true;
  return false;
}

/* ---- types ---- */

static const struct {
  int dtype;
  char letter;
  const char *wider; /* what it is computed in where it cannot be itself, the best first */
} letters[] = {
    {CN_F32, 'f', "d"},        {CN_F64, 'd', "f"},    {CN_F16, 'h', "fd"},   {CN_BF16, 'b', "fd"},
    {CN_BOOL, 'B', "uilf"},    {CN_I8, 'c', "ilfd"},  {CN_U8, 'u', "ilfd"},  {CN_I16, 's', "ilfd"},
    {CN_U16, 'U', "ilfd"},     {CN_I32, 'i', "ldf"},  {CN_I64, 'l', "df"},   {CN_U32, 'I', "ldf"},
    {CN_U64, 'L', "ldf"},      {CN_F8E4M3, '1', "f"}, {CN_F8E5M2, '2', "f"}, {CN_F8E4M3FNUZ, '3', "f"},
    {CN_F8E5M2FNUZ, '4', "f"}, {CN_F8E8M0, '5', "f"}, {CN_F4E2M1, '6', "f"}, {CN_I4, '7', "ilf"},
    {CN_U4, '8', "ilf"},       {CN_I2, '9', "ilf"},   {CN_U2, '0', "ilf"},
};
enum { LETTERS = sizeof letters / sizeof *letters };

static const struct {
  const char *name, *types;
  uint32_t operands;
  char result;
} operators[] = {
#define OPERATOR(name, types, operands, result) {#name, types, operands, result},
#define BEFORE(name, opset, types)
#include "types.def"
#undef OPERATOR
#undef BEFORE
};
static const struct {
  const char *name;
  int opset;
  const char *types;
} older[] = {
#define OPERATOR(name, types, operands, result)
#define BEFORE(name, opset, types) {#name, opset, types},
#include "types.def"
#undef OPERATOR
#undef BEFORE
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static int find_operator(const char *op)
{
  for (int i = 0; i < OPERATORS; i++)
    if (!strcmp(operators[i].name, op)) return i;
  return -1;
}

static int of_letter(char letter)
{
  for (int i = 0; i < LETTERS; i++)
    if (letters[i].letter == letter) return letters[i].dtype;
  return CN_F32;
}

static int kernel_type(const cni_ox *x, int row, int dtype)
{
  const char *types = row < 0 ? "" : operators[row].types;
  for (size_t i = 0; row >= 0 && i < sizeof older / sizeof *older; i++)
    if (x->opset < older[i].opset && !strcmp(older[i].name, operators[row].name)) types = older[i].types;
  for (int i = 0; *types && i < LETTERS; i++) {
    if (letters[i].dtype != dtype || strchr(types, letters[i].letter)) continue;
    for (const char *w = letters[i].wider; *w; w++)
      if (strchr(types, *w)) return of_letter(*w);
  }
  return dtype;
}

int cni_ox_kernel_type(const cni_ox *x, const char *op, int dtype)
{
  return kernel_type(x, find_operator(op), dtype);
}

bool cni_ox_is_float(int dtype) { return cn_dtype_is_float((cn_dtype)dtype); }

bool cni_ox_is_signed(int dtype)
{
  return cni_ox_is_float(dtype) || dtype == CN_I8 || dtype == CN_I16 || dtype == CN_I32 || dtype == CN_I64;
}

/* ---- attributes: AttributeProto ---- */

enum {
  ATTR_NAME = 1,
  ATTR_F = 2,
  ATTR_I = 3,
  ATTR_S = 4,
  ATTR_T = 5,
  ATTR_INTS = 8,
  ATTR_STRINGS = 9,
  ATTR_TYPE = 20
};
enum { NODE_ATTRIBUTE = 5 };

static void put_attr(cni_ox *x, cn_text *attr, const char *name, int type)
{
  cni_proto_string(attr, ATTR_NAME, name);
  cni_proto_int(attr, ATTR_TYPE, type);
  cni_proto_message(&x->attrs, NODE_ATTRIBUTE, attr);
}

void cni_ox_int(cni_ox *x, const char *name, int64_t v)
{
  cn_text attr = {0};
  cni_proto_int(&attr, ATTR_I, v);
  put_attr(x, &attr, name, CNI_ATTR_INT);
}

void cni_ox_float(cni_ox *x, const char *name, double v)
{
  cn_text attr = {0};
  cni_proto_float(&attr, ATTR_F, (float)v);
  put_attr(x, &attr, name, CNI_ATTR_FLOAT);
}

void cni_ox_text(cni_ox *x, const char *name, const char *v)
{
  cn_text attr = {0};
  cni_proto_string(&attr, ATTR_S, v);
  put_attr(x, &attr, name, CNI_ATTR_STRING);
}

void cni_ox_texts(cni_ox *x, const char *name, const char *const *v, int n)
{
  cn_text attr = {0};
  for (int k = 0; k < n; k++) cni_proto_string(&attr, ATTR_STRINGS, v[k]);
  put_attr(x, &attr, name, CNI_ATTR_STRINGS);
}

void cni_ox_ints(cni_ox *x, const char *name, const int64_t *v, int n)
{
  cn_text attr = {0};
  for (int k = 0; k < n; k++) cni_proto_int(&attr, ATTR_INTS, v[k]);
  put_attr(x, &attr, name, CNI_ATTR_INTS);
}

void cni_ox_zeros(cni_ox *x, const char *name, int dtype, double value)
{
  cn_text attr = {0}, tensor = {0};
  unsigned char bytes[8] = {0};
  float f = (float)value;
  int64_t i = (int64_t)value;
  size_t n = cn_dtype_size((cn_dtype)dtype);
  if (dtype == CN_F64) memcpy(bytes, &value, 8);
  else if (dtype == CN_F32) memcpy(bytes, &f, 4);
  else memcpy(bytes, &i, sizeof i);
  cni_proto_int(&tensor, 1, 1);
  cni_proto_int(&tensor, 2, cni_onnx_type_of((cn_dtype)dtype));
  cni_proto_bytes(&tensor, 9, bytes, n);
  cni_proto_message(&attr, ATTR_T, &tensor);
  put_attr(x, &attr, name, CNI_ATTR_TENSOR);
}

void cni_ox_graph(cni_ox *x, const char *name, int graph)
{
  x->sub_names[x->nsubs] = name;
  x->subs[x->nsubs++] = graph;
}

/* ---- nodes ---- */

static int add_name(cni_ox *x, int dtype, int ndim)
{
  if (x->failed || cn_grow((void **)&x->names, &x->names_cap, x->nnames + 1, sizeof *x->names)) {
    x->failed = true;
    return -1;
  }
  x->names[x->nnames] = (cni_oxname){.hint = x->hint, .dtype = dtype, .ndim = ndim, .maker = -1};
  return (int)x->nnames++;
}

cni_oxval cni_ox_fresh(cni_ox *x, int dtype, int ndim, const int64_t *shape, uint32_t open)
{
  cni_oxval v = {.id = add_name(x, dtype, ndim), .dtype = dtype, .ndim = ndim, .open = open};
  const char **symbols = take(x, (size_t)ndim + 1, sizeof *symbols);
  const int64_t *sizes = copied(x, shape, (size_t)ndim * sizeof *shape);
  if (x->failed) return cni_ox_absent();
  for (int k = 0; k < ndim; k++) {
    v.shape[k] = shape[k];
    if (open >> k & 1) symbols[k] = "";
  }
  x->names[v.id].shape = sizes, x->names[v.id].symbols = symbols;
  return v;
}

static const int *ids_of(cni_ox *x, const cni_oxval *v, int n)
{
  int *ids = take(x, (size_t)n + 1, sizeof *ids);
  for (int k = 0; ids && k < n; k++) ids[k] = v[k].id;
  return ids;
}

/* The attributes that were put become the node's. */
static void take_attrs(cni_ox *x, cni_oxnode *n)
{
  if (x->attrs.failed) x->failed = true;
  n->attrs = x->attrs.n ? copied(x, x->attrs.s, x->attrs.n) : NULL;
  n->attrs_n = x->attrs.n;
  n->nsubs = x->nsubs;
  n->subs = copied(x, x->subs, sizeof x->subs);
  n->sub_names = copied(x, x->sub_names, sizeof x->sub_names);
  cn_text_free(&x->attrs);
  x->nsubs = 0;
}

void cni_ox_node(cni_ox *x, const char *op, int nin, const cni_oxval *in, int nout, cni_oxval *out)
{
  cni_oxnode n = {.op = op, .nin = nin, .nout = nout, .graph = x->graph};
  for (int k = 0; k < nout && !x->failed; k++) {
    out[k].number = false;
    out[k].id = add_name(x, out[k].dtype, out[k].ndim);
    if (!x->failed) x->names[out[k].id].made = x->graph == 0, x->names[out[k].id].maker = (int)x->nnodes;
  }
  while (n.nin > 0 && in[n.nin - 1].id < 0) n.nin--;
  n.in = ids_of(x, in, n.nin);
  n.out = ids_of(x, out, nout);
  take_attrs(x, &n);
  if (!x->failed && cn_grow((void **)&x->nodes, &x->nodes_cap, x->nnodes + 1, sizeof *x->nodes)) x->failed = true;
  if (x->failed) {
    for (int k = 0; k < nout; k++) out[k].id = -1;
    return;
  }
  x->nodes[x->nnodes++] = n;
}

/* What operands broadcast to, by their traced sizes. */
static void broadcast(cni_oxval *out, const cni_oxval *in)
{
  int more = in->ndim - out->ndim;
  if (in->id < 0) return;
  if (more > 0) {
    memmove(out->shape + more, out->shape, (size_t)out->ndim * sizeof *out->shape);
    for (int k = 0; k < more; k++) out->shape[k] = 1;
    out->open <<= more;
    out->ndim = in->ndim;
  }
  for (int k = 0; k < in->ndim; k++) {
    int at = out->ndim - in->ndim + k;
    if (out->shape[at] == 1) out->shape[at] = in->shape[k];
    out->open |= (in->open >> k & 1) << at;
  }
}

/* The type of the operands that share one; numbers alone are float32 or int64. */
static int common_type(int nin, const cni_oxval *in, uint32_t mask)
{
  int dtype = CN_DTYPE_NONE;
  for (int k = 0; k < nin; k++) {
    if (!(mask >> k & 1)) continue;
    if (in[k].id >= 0) return in[k].dtype;
    if (in[k].number && dtype != CN_F32) dtype = in[k].dtype == CN_F64 ? CN_F32 : in[k].dtype;
  }
  return dtype ? dtype : CN_F32;
}

cni_oxval cni_ox_emit(cni_ox *x, const char *op, int nin, const cni_oxval *in)
{
  enum { FEW = 16 };
  cni_oxval few[FEW], *args = nin <= FEW ? few : take(x, (size_t)nin, sizeof *args);
  int row = find_operator(op), nsubs = x->nsubs;
  uint32_t mask = row < 0 || !operators[row].operands ? ~0u : operators[row].operands;
  cn_text attrs = x->attrs;
  if (!args || x->failed) return cn_text_free(&x->attrs), cni_ox_absent();
  x->attrs = (cn_text){0}, x->nsubs = 0;
  int type = common_type(nin, in, mask), kernel = kernel_type(x, row, type);
  cni_oxval out = {.id = -1};
  bool first = true;
  for (int k = 0; k < nin; k++) {
    bool shares = k >= 32 || mask >> k & 1;
    int own = in[k].dtype == CN_F64 && in[k].number ? CN_F32 : in[k].dtype;
    args[k] = in[k];
    if (in[k].number) args[k] = cni_ox_const(x, in[k], shares ? kernel : own);
    else if (shares && in[k].id >= 0) args[k] = cni_ox_cast(x, in[k], kernel);
    if (first && args[k].id >= 0) out = args[k], first = false;
    else if (mask == ~0u || !strcmp(op, "Where")) broadcast(&out, &args[k]);
  }
  char result = row < 0 ? 'T' : operators[row].result;
  out.dtype = result == 'B' ? CN_BOOL : result == 'I' ? CN_I64 : kernel;
  x->attrs = attrs, x->nsubs = nsubs;
  cni_ox_node(x, op, nin, args, 1, &out);
  return result == 'T' ? cni_ox_cast(x, out, type) : out;
}

cni_oxval cni_ox_shaped(cni_oxval v, int ndim, const int64_t *shape, uint32_t open)
{
  v.ndim = ndim, v.open = open;
  for (int k = 0; k < ndim; k++) v.shape[k] = shape[k];
  return v;
}

/* ---- graphs inside of nodes ---- */

int cni_ox_graph_begin(cni_ox *x)
{
  if (++x->depth > DEEPEST) cni_ox_fail(x, CN_ERR_UNSUPPORTED, "graphs in graphs, more than %d deep", DEEPEST);
  if (x->failed || cn_grow((void **)&x->graphs, &x->graphs_cap, x->ngraphs + 1, sizeof *x->graphs)) {
    x->failed = true;
    return x->graph;
  }
  x->graphs[x->ngraphs] = (cni_oxgraph){.parent = x->graph};
  return x->graph = (int)x->ngraphs++;
}

cni_oxval cni_ox_identity(cni_ox *x, cni_oxval v)
{
  cni_oxval out = v;
  cni_ox_node(x, "Identity", 1, &v, 1, &out);
  return out;
}

/* Results of an inner graph are what its own nodes make, each but once. */
void cni_ox_graph_end(cni_ox *x, int graph, int nin, const cni_oxval *in, int nout, const cni_oxval *out)
{
  x->depth--;
  if (x->failed) return;
  cni_oxval *own = take(x, (size_t)nout + 1, sizeof *own);
  for (int k = 0; k < nout && own; k++) own[k] = cni_ox_identity(x, cni_ox_solid(x, out[k], out[k].dtype));
  int *inputs = (int *)(uintptr_t)ids_of(x, in, nin), *outputs = own ? (int *)(uintptr_t)ids_of(x, own, nout) : NULL;
  if (x->failed) return;
  cni_oxgraph *g = &x->graphs[graph];
  x->graph = g->parent;
  *g = (cni_oxgraph){g->parent, inputs, outputs, nin, nout};
  size_t kept = 0; /* sizes that were found in there are not known outside */
  for (size_t i = 0; i < x->nsizes; i++)
    if (x->sizes[i].graph != graph) x->sizes[kept++] = x->sizes[i];
  x->nsizes = kept;
}

/* ---- numbers and constants ---- */

cni_oxval cni_ox_num(double f) { return (cni_oxval){.id = -1, .number = true, .dtype = CN_F64, .f = f}; }

cni_oxval cni_ox_whole(int64_t i) { return (cni_oxval){.id = -1, .number = true, .dtype = CN_I64, .i = i}; }

/* Constants that are equal are one. */
static int find_constant(const cni_ox *x, const void *bytes, size_t n, int dtype, int ndim, const int64_t *shape)
{
  for (size_t i = 0; i < x->nnames; i++) {
    const cni_oxname *name = &x->names[i];
    if (!name->bytes || name->dtype != dtype || name->ndim != ndim || (size_t)name->nbytes != n) continue;
    if (memcmp(name->bytes, bytes, n) || memcmp(name->shape, shape, (size_t)ndim * sizeof *shape)) continue;
    return (int)i;
  }
  return -1;
}

cni_oxval cni_ox_data(cni_ox *x, const void *bytes, int dtype, int ndim, const int64_t *shape)
{
  static const int64_t none[1] = {0};
  cni_oxval v = {.id = -1, .dtype = dtype, .ndim = ndim};
  size_t n = cn_dtype_size((cn_dtype)dtype);
  if (!ndim) shape = none;
  for (int k = 0; k < ndim; k++) n *= (size_t)(v.shape[k] = shape[k]);
  if (x->failed || (v.id = find_constant(x, bytes, n, dtype, ndim, shape)) >= 0) return v;
  const void *own = copied(x, bytes, n), *sizes = copied(x, shape, (size_t)ndim * sizeof *shape);
  if ((v.id = add_name(x, dtype, ndim)) < 0) return cni_ox_absent();
  cni_oxname *name = &x->names[v.id];
  name->hint = "const", name->bytes = own, name->nbytes = (int64_t)n, name->shape = sizes;
  return v;
}

/* A number's bytes in any type, by a tensor of it. */
cni_oxval cni_ox_const(cni_ox *x, cni_oxval number, int dtype)
{
  cni_oxval v = cni_ox_absent();
  bool real = number.dtype == CN_F64;
  if (x->failed || !number.number) return v;
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_cast(real ? cn_num(number.f) : cn_int(number.i), (cn_dtype)dtype);
  if (t) v = cni_ox_data(x, cn_data(t), dtype, 0, NULL);
  else x->failed = true;
  cn_scope_end(s);
  return v;
}

cni_oxval cni_ox_solid(cni_ox *x, cni_oxval v, int dtype) { return v.number ? cni_ox_const(x, v, dtype) : v; }

cni_oxval cni_ox_list(cni_ox *x, const int64_t *v, int n)
{
  int64_t size = n;
  return cni_ox_data(x, v, CN_I64, 1, &size);
}

cni_oxval cni_ox_tensor(cni_ox *x, cn_tensor *t, const char *text)
{
  const cn_desc *d = cn_desc_of(t);
  cni_oxval v = {.id = add_name(x, d->dtype, d->ndim), .dtype = d->dtype, .ndim = d->ndim};
  if (v.id < 0) return v;
  cni_oxname *name = &x->names[v.id];
  name->text = text, name->fixed = text != NULL, name->hint = "tensor";
  name->tensor = cn_keep(t);
  name->shape = copied(x, d->shape, (size_t)d->ndim * sizeof *d->shape);
  memcpy(v.shape, d->shape, (size_t)d->ndim * sizeof *d->shape);
  return v;
}

cni_oxval cni_ox_limit(cni_ox *x, int dtype, bool lowest)
{
  int bits = 8 * (int)cn_dtype_size((cn_dtype)dtype);
  if (cni_ox_is_float(dtype)) return cni_ox_const(x, cni_ox_num(lowest ? -1.0 / 0.0 : 1.0 / 0.0), dtype);
  if (dtype == CN_BOOL) return cni_ox_const(x, cni_ox_whole(!lowest), dtype);
  bool sign = cni_ox_is_signed(dtype);
  uint64_t top = ~0ull >> (64 - bits + sign);
  return cni_ox_const(x, cni_ox_whole(lowest ? (sign ? -(int64_t)top - 1 : 0) : (int64_t)top), dtype);
}
