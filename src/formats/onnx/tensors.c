/* tensors.c: TensorProto as tensors and strings: raw bytes, lists of numbers, other files. See model.h.
 *
 * Place in the flow: api.c asks for every initialiser once, when a model is loaded. Invariant: what is stored raw and
 * aligned is not copied; files outside of the model's folder are never opened. */
#include <cairn/cairn.h>
#include <string.h>

#include "value.h"
#include "model.h"

/* Element types by their number in TensorProto.DataType: how the list of numbers writes them, and their type here. */
static const struct {
  uint8_t dtype;
  uint8_t field; /* of the list that holds them: 4 float, 5 int32, 7 int64, 10 double, 11 uint64 */
} types[] = {
    {0, 0},
    {CN_F32, 4},
    {CN_U8, 5},
    {CN_I8, 5},
    {CN_U16, 5},
    {CN_I16, 5},
    {CN_I32, 5},
    {CN_I64, 7},
    {0, 6},
    {CN_BOOL, 5},
    {CN_F16, 5},
    {CN_F64, 10},
    {CN_U32, 11},
    {CN_U64, 11},
    {CN_C64, 4},
    {CN_C128, 10},
    {CN_BF16, 5},
    {CN_F8E4M3, 5},
    {CN_F8E4M3FNUZ, 5},
    {CN_F8E5M2, 5},
    {CN_F8E5M2FNUZ, 5},
    {CN_U4, 5},
    {CN_I4, 5},
    {CN_F4E2M1, 5},
    {CN_F8E8M0, 5},
    {CN_U2, 5},
    {CN_I2, 5},
};
enum { NTYPES = sizeof types / sizeof *types };

cn_dtype cni_onnx_dtype(int64_t type)
{
  return type >= 0 && type < NTYPES ? (cn_dtype)types[type].dtype : CN_DTYPE_NONE;
}

int cni_onnx_type_of(cn_dtype dtype)
{
  for (int i = 1; i < NTYPES; i++)
    if (types[i].dtype == dtype && dtype) return i;
  return 0;
}

/* How many elements lie in a byte of raw data; in memory each has a byte of its own. */
static unsigned packed(cn_dtype dtype)
{
  return dtype == CN_U4 || dtype == CN_I4 || dtype == CN_F4E2M1 ? 2 : dtype == CN_U2 || dtype == CN_I2 ? 4 : 1;
}

/* Element i of packed bytes, the low bits first, as memory has it: signed ones with their sign. */
static unsigned char unpacked(const unsigned char *p, uint64_t i, cn_dtype dtype)
{
  unsigned per = packed(dtype), bits = 8 / per, v = (unsigned)p[i / per] >> (i % per * bits) & ((1u << bits) - 1);
  bool sign = (dtype == CN_I4 || dtype == CN_I2) && v >> (bits - 1);
  return (unsigned char)(sign ? v | (0xffu << bits & 0xff) : v);
}

/* ---- other files ---- */

typedef struct cni_onnx_external {
  struct cni_onnx_external *next; /* in the arena */
  const char *name;
  cni_source *source;
} external;

void cni_onnx_externals_free(cni_onnx_model *m)
{
  for (external *e = m->externals; e; e = e->next) cni_source_free(e->source);
}

/* A path that stays in the folder: relative, and without steps upwards. */
static bool stays_inside(const char *path)
{
  if (!*path || *path == '/' || strchr(path, '\\') || strchr(path, ':')) return false;
  for (const char *p = path; p; p = strchr(p, '/')) {
    p += *p == '/';
    if (cn_string_starts(p, "..") && (p[2] == '/' || !p[2])) return false;
  }
  return true;
}

/* Lies in this folder, whatever links lead to either. */
static bool lies_in(const char *real, const char *folder)
{
  char *there = cn_path_real(folder);
  size_t n = there ? strlen(there) : 0;
  bool inside = n && !strncmp(real, there, n) && (real[n] == '/' || there[n - 1] == '/');
  cn_string_free(there);
  return inside;
}

/* The file's own path; NULL with the error set: links lead it out of the model's folder, or it is no file. Where the
 * model itself is a link, as stores of models have them, the folder that this leads to is the model's, too. */
static char *real_file(cni_onnx_model *m, const char *path)
{
  char *real = cn_path_real(path), *own = real && m->beside ? cn_path_real(m->source->name) : NULL;
  char *slash = own ? strrchr(own, '/') : NULL;
  if (slash) slash[slash == own] = '\0';
  bool fine = real && (lies_in(real, m->folder) || (slash && lies_in(real, own)));
  if (real && cn_err()) fine = false;
  else if (real && !fine) cni_onnx_bad(m, "a tensor lies in '%s', which links lead out of the model's folder", path);
  else if (real && cn_path_kind_of(real) != CN_PATH_FILE) fine = cni_onnx_bad(m, "'%s' is no file", path) == CN_OK;
  cn_string_free(own);
  if (fine) return real;
  cn_string_free(real);
  return NULL;
}

static cni_source *external_open(cni_onnx_model *m, const char *name)
{
  for (external *e = m->externals; e; e = e->next)
    if (!strcmp(e->name, name)) return e->source;
  if (!m->folder || !stays_inside(name)) {
    cni_onnx_bad(m,
                 m->folder ? "a tensor lies in '%s', which is not in the model's folder"
                           : "a tensor lies in '%s', and the model has no folder",
                 name);
    return NULL;
  }
  external *e = cni_arena_take(&m->arena, 1, sizeof *e);
  char *path = e ? cn_path_join(m->folder, name) : NULL, *real = path ? real_file(m, path) : NULL;
  if (real && (e->source = cni_source_open(real))) {
    e->name = name;
    e->next = m->externals;
    m->externals = e;
  }
  cn_string_free(path);
  cn_string_free(real);
  return e ? e->source : NULL;
}

/* ---- where a tensor's data is ---- */

typedef struct place {
  cni_source *source; /* of raw bytes; NULL: they are none */
  uint64_t offset, size;
  bool sized; /* of external data: a length is given */
  const char *location;
} place;

static int read_pair(cni_onnx_model *m, place *at, cni_wire_bytes message)
{
  cni_wire_bytes pair[3] = {{NULL, 0}};
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  const char *end;
  while (cni_wire_next(&w, &f))
    if (f.number < 3) pair[f.number] = f.bytes;
  char *value = cni_arena_text(&m->arena, pair[2]);
  if (!value) return cn_err();
  double number = cn_number_read(value, &end);
  bool whole = end != value && !*end && number >= 0 && number < 9e15;
  if (pair[1].n == 8 && !memcmp(pair[1].p, "location", 8)) return at->location = value, CN_OK;
  bool is_length = pair[1].n == 6 && !memcmp(pair[1].p, "length", 6);
  if (!is_length && !(pair[1].n == 6 && !memcmp(pair[1].p, "offset", 6))) return CN_OK;
  if (!whole) return cni_onnx_bad(m, "'%s' is no place in a file", value);
  *(is_length ? &at->size : &at->offset) = (uint64_t)number;
  at->sized = at->sized || is_length;
  return CN_OK;
}

/* Finds raw bytes, in the model or in another file. */
static int find(cni_onnx_model *m, place *at, const cni_onnx_tensor *t)
{
  bool outside = false;
  cni_wire_walk w = cni_wire_of(t->message);
  cni_field f;
  *at = (place){NULL};
  while (cni_wire_next(&w, &f)) {
    if (f.number == 9 && f.type == CNI_WIRE_BYTES)
      *at = (place){m->source, (uint64_t)(f.bytes.p - m->source->data), f.bytes.n, true, at->location};
    if (f.number == 13 && read_pair(m, at, f.bytes)) return cn_err();
    if (f.number == 14) outside = f.value == 1;
  }
  if (!outside) return CN_OK;
  if (!at->location) return cni_onnx_bad(m, "tensor '%s' lies in a file without a name", t->name);
  if (!(at->source = external_open(m, at->location))) return cn_err();
  if (at->offset > at->source->size || (at->sized && at->size > at->source->size - at->offset))
    return cni_onnx_bad(m, "tensor '%s' goes over the end of '%s'", t->name, at->location);
  if (!at->sized) at->size = at->source->size - at->offset;
  return CN_OK;
}

/* ---- making ---- */

static int too_short(cni_onnx_model *m, const cni_onnx_tensor *t)
{
  return cni_onnx_bad(m, "tensor '%s' has another number of elements than its shape says", t->name);
}

static cn_tensor *from_raw(cni_onnx_model *m, const cni_onnx_tensor *t, const place *at, uint64_t n, cn_dtype dtype)
{
  unsigned per = packed(dtype);
  uint64_t need = per == 1 ? n * cn_dtype_size(dtype) : (n + per - 1) / per;
  if (at->size != need && !(at->location && at->size > need)) return too_short(m, t), NULL;
  if (per == 1) return cni_source_tensor(at->source, (size_t)at->offset, t->dims, t->ndims, dtype);
  cn_tensor *made = cn_empty(t->dims, t->ndims, .dtype = dtype, .device = CN_CPU);
  unsigned char *to = made && n ? cn_data(made) : NULL;
  for (uint64_t i = 0; to && i < n; i++) to[i] = unpacked(at->source->data + at->offset, i, dtype);
  return cn_tensor_sole(made);
}

/* Writes number i of a list; floats of 16 bits and below stand there as their bits. */
static void put(unsigned char *to, uint64_t i, uint64_t bits, cn_dtype dtype)
{
  size_t size = dtype == CN_C64 ? 4 : dtype == CN_C128 ? 8 : cn_dtype_size(dtype);
  if (dtype == CN_BOOL) bits = bits != 0;
  memcpy(to + i * size, &bits, size);
}

static cn_tensor *from_list(cni_onnx_model *m, const cni_onnx_tensor *t, uint64_t n, cn_dtype dtype)
{
  uint32_t number = types[t->type].field;
  int type = number == 4 ? CNI_WIRE_32 : number == 10 ? CNI_WIRE_64 : CNI_WIRE_VARINT;
  unsigned per = packed(dtype);
  uint64_t most = cn_dtype_is_complex(dtype) ? 2 * n : n, i = 0, v;
  cni_wire_walk w = cni_wire_of(t->message);
  cni_field f;
  if (n > t->message.n * per) return too_short(m, t), NULL;
  cn_tensor *made = cn_empty(t->dims, t->ndims, .dtype = dtype, .device = CN_CPU);
  unsigned char *to = made && n ? cn_data(made) : NULL;
  while (made && cni_wire_next(&w, &f)) {
    cni_wire_walk list = cni_wire_of(f.bytes);
    bool once = false;
    while (f.number == number && cni_wire_number(&v, &f, &list, &once, type)) {
      if (i >= most) return too_short(m, t), NULL;
      if (per == 1) put(to, i++, v, dtype);
      for (unsigned k = 0; per > 1 && k < per && i < most; k++)
        to[i++] = unpacked(&(unsigned char){(unsigned char)v}, k, dtype);
    }
    if (list.bad) return too_short(m, t), NULL;
  }
  return made && i < most ? (too_short(m, t), NULL) : cn_tensor_sole(made);
}

static cn_onnx_value *make_strings(cni_onnx_model *m, const cni_onnx_tensor *t, uint64_t n)
{
  size_t total = 0, count = 0;
  cni_field f;
  for (cni_wire_walk w = cni_wire_of(t->message); cni_wire_next(&w, &f);)
    if (f.number == 6) total += f.bytes.n, count++;
  if (count != n) return too_short(m, t), NULL;
  cn_tensor *bytes = cn_empty(CN_SHAPE((int64_t)total), .dtype = CN_U8, .device = CN_CPU);
  cn_tensor *lengths = cn_empty(t->dims, t->ndims, .dtype = CN_I64, .device = CN_CPU);
  unsigned char *to = bytes ? cn_data(bytes) : NULL;
  int64_t *length = lengths ? cn_data(lengths) : NULL;
  if (cn_err()) return NULL;
  for (cni_wire_walk w = cni_wire_of(t->message); cni_wire_next(&w, &f);) {
    if (f.number != 6) continue;
    if (f.bytes.n) memcpy(to, f.bytes.p, f.bytes.n);
    to += f.bytes.n;
    *length++ = (int64_t)f.bytes.n;
  }
  return cn_onnx_value_strings(&(cn_strings){bytes, lengths});
}

/* A file of the host's tensor on the model's device; what is small keeps its numbers here, too. */
static cn_onnx_value *placed(cni_onnx_model *m, cn_tensor *t)
{
  cn_tensor *there = t && m->device && m->device != CN_CPU ? cn_to_device(t, m->device) : t;
  cn_onnx_value *v = t ? cn_onnx_value_tensor(there) : NULL;
  return cn_numel(t) <= CNI_ONNX_SMALL ? cni_onnx_value_know(v, t) : v;
}

cn_onnx_value *cni_onnx_make(cni_onnx_model *m, const cni_onnx_tensor *t)
{
  cn_dtype dtype = cni_onnx_dtype(t->type);
  uint64_t n = 0;
  place at;
  cn_onnx_value *v = NULL;
  if (t->ndims > CN_MAX_DIMS || !cni_shape_bytes(&n, t->dims, t->ndims, 1))
    return cni_onnx_bad(m, "tensor '%s' has a shape that no tensor can have", t->name), NULL;
  if (!dtype && t->type != CNI_ONNX_STRING)
    return cni_onnx_bad(m, "tensor '%s' has the unknown type %d", t->name, t->type), NULL;
  cn_scope *scope = cn_scope_begin();
  if (!dtype) v = make_strings(m, t, n);
  else if (!find(m, &at, t)) {
    /* an empty list and empty raw bytes are the same */
    bool raw = at.source && (at.size || !n);
    v = placed(m, raw ? from_raw(m, t, &at, n, dtype) : from_list(m, t, n, dtype));
  }
  cn_scope_end(scope);
  return v;
}

/* The row-major place of one value: its index is a number, or as many as the tensor has dimensions. */
static int64_t place_of(const cni_onnx_sparse *s, const int64_t *index, bool flat)
{
  int64_t at = 0, size = 1;
  for (size_t d = 0; d < s->ndims; d++) size *= s->dims[d];
  if (flat) return *index >= 0 && *index < size ? *index : -1;
  for (size_t d = 0; d < s->ndims; d++) {
    if (index[d] < 0 || index[d] >= s->dims[d]) return -1;
    at = at * s->dims[d] + index[d];
  }
  return at;
}

static cn_tensor *dense(cni_onnx_model *m, const cni_onnx_sparse *s, cn_tensor *values, cn_tensor *indices)
{
  bool flat = indices && cn_ndim(indices) == 1;
  uint64_t n;
  enum { MOST = 1 << 28 }; /* a few numbers must not stand for terabytes */
  if (s->ndims > CN_MAX_DIMS || !cni_shape_bytes(&n, s->dims, s->ndims, 1) || n > MOST || !values || !indices ||
      cn_dtype_of(indices) != CN_I64 || cn_numel(indices) != cn_numel(values) * (flat ? 1 : (int64_t)s->ndims))
    return cni_onnx_bad(m, "sparse tensor '%s' does not fit its indices", s->values.name), NULL;
  cn_tensor *made = cn_zeros(s->dims, s->ndims, .dtype = cn_dtype_of(values), .device = CN_CPU);
  const int64_t *index = cn_data_const(indices);
  const unsigned char *from = cn_data_const(values);
  unsigned char *to = made ? cn_data(made) : NULL;
  size_t size = cn_dtype_size(cn_dtype_of(values));
  for (int64_t i = 0; to && i < cn_numel(values); i++) {
    int64_t at = place_of(s, index + i * (flat ? 1 : (int64_t)s->ndims), flat);
    if (at < 0) return cni_onnx_bad(m, "sparse tensor '%s' has an index out of range", s->values.name), NULL;
    memcpy(to + (size_t)at * size, from + (size_t)i * size, size);
  }
  return made;
}

cn_onnx_value *cni_onnx_make_sparse(cni_onnx_model *m, const cni_onnx_sparse *s)
{
  cn_onnx_value *values = cni_onnx_make(m, &s->values), *indices = values ? cni_onnx_make(m, &s->indices) : NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *host = values && values->kind == CN_ONNX_TENSOR ? (values->known ? values->known : values->t) : NULL;
  cn_tensor *where =
      indices && indices->kind == CN_ONNX_TENSOR ? (indices->known ? indices->known : indices->t) : NULL;
  if (host && cn_device_of(host) != CN_CPU) host = cn_to_device(host, CN_CPU);
  if (where && cn_device_of(where) != CN_CPU) where = cn_to_device(where, CN_CPU);
  cn_onnx_value *v = indices ? placed(m, dense(m, s, host, where)) : NULL;
  cn_scope_end(scope);
  cn_onnx_value_release(values);
  cn_onnx_value_release(indices);
  return v;
}
