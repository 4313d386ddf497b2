/* loop.c: describes the loop of a pointwise call: which operands are dense, strided, single or passed by
 * value, with the dims brought into memory order and merged. See loop.h.
 *
 * Invariant: no allocation and no text here; this runs for every call. */
#include "loop.h"

#include <cairn/ext/hash.h>
#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "base/state.h"
#include "ops/program.h"
#include "tensor/tensor.h"

enum { VECTOR_BYTES = 16, VECTOR_MOST = 8 };

/* The walk while it is made: operand k's stride of dim i, in elements. */
typedef struct walk {
  int n, ndim;
  int64_t shape[CN_MAX_DIMS];
  int64_t stride[CN_LOOP_OPERANDS][CN_MAX_DIMS];
} walk;

static int compute_type(int dtype)
{
  if (dtype == CN_F64 || dtype == CN_U64) return dtype;
  return cni_dtype_is_float(dtype) ? CN_F32 : CN_I64;
}

/* ---- operands ---- */

/* A number in memory as a loop's scalar, converted as the cast kernels do. */
static void scalar_from(cn_loop *loop, int slot, const cn_desc *d, int compute)
{
  bool is_float = cni_dtype_is_float(d->dtype);
  double f = cni_load_f64(d->data, 0, d->dtype);
  int64_t i = cni_load_i64(d->data, 0, d->dtype);
  uint64_t u = d->dtype == CN_U64 ? (uint64_t)i : 0;
  if (compute == CN_I64) loop->scalar[slot].i = i;
  else if (compute == CN_U64) loop->scalar[slot].i = is_float ? (int64_t)cni_f64_to_u64(f) : i;
  else if (compute == CN_F64) loop->scalar[slot].f = is_float ? f : u ? (double)u : (double)i;
  else loop->scalar[slot].f = is_float ? (float)f : u ? (float)u : (float)i; /* no rounding twice */
}

static void scalar_value(cn_loop *loop, int slot, double value, int compute)
{
  if (compute == CN_F64) loop->scalar[slot].f = value;
  else if (compute == CN_F32) loop->scalar[slot].f = (float)value;
  else loop->scalar[slot].i = (int64_t)value;
}

static void round_scalar(double *f, int dtype)
{
  float x = (float)*f;
  *f = (double)(dtype == CN_F16 ? cni_f16_to_f32(cni_f32_to_f16(x)) : cni_bf16_to_f32(cni_f32_to_bf16(x)));
}

/* In host memory while the loop runs elsewhere? */
static bool by_value(const cn_desc *d, cn_device device)
{
  return d->weak || (d->numel == 1 && d->device == CN_CPU && device != CN_CPU);
}

static void add_operand(walk *w, const cn_desc *d)
{
  int64_t *stride = w->stride[w->n++];
  int lead = w->ndim - d->ndim;
  for (int i = 0; i < w->ndim; i++)
    stride[i] =
        d->numel == 1 || i < lead || (d->shape[i - lead] == 1 && w->shape[i] != 1) ? 0 : d->strides[i - lead];
}

/* ---- the source ---- */

static bool all_zero(const walk *w, int k)
{
  for (int i = 0; i < w->ndim; i++)
    if (w->stride[k][i]) return false;
  return true;
}

/* The largest vector in which neighbours of every operand can be read together, or of which an operand has one element;
 * 1: none. It divides the last dim. */
static int strided_vector(const cn_source *s, const walk *w)
{
  int last = w->ndim - 1, vector = VECTOR_MOST;
  for (int k = 0; k < s->nout + s->nin; k++) {
    if (s->form[k] != 'x' || (k >= s->nout && w->stride[k][last] == 0)) continue;
    int64_t size = (int64_t)cni_dtype_size(s->dtype[k]);
    if (w->stride[k][last] != 1) return 1;
    int64_t bits = (int64_t)(uintptr_t)s->loop.ptr[k] / size | w->shape[last] | VECTOR_BYTES / size;
    for (int i = 0; i < last; i++) bits |= w->stride[k][i];
    if ((uintptr_t)s->loop.ptr[k] % (size_t)size) return 1;
    while (bits % vector) vector /= 2;
  }
  return vector;
}

/* Dims and strides of a strided loop; with a vector the last dim counts vectors, and 'w' are the operands that have
 * one there. */
static void settle_strided(cn_source *s, const walk *w)
{
  int last = w->ndim - 1;
  s->vector = s->lang == CN_LANG_CUDA ? strided_vector(s, w) : 1;
  memcpy(s->loop.shape, w->shape, (size_t)w->ndim * sizeof *w->shape);
  for (int k = 0; k < s->nout + s->nin; k++) {
    memcpy(s->loop.stride[k], w->stride[k], (size_t)w->ndim * sizeof *w->shape);
    if (s->vector == 1 || s->form[k] != 'x' || w->stride[k][last] != 1) continue;
    s->form[k] = 'w';
    s->loop.stride[k][last] = s->vector;
  }
  s->loop.shape[last] /= s->vector;
}

static void settle_flat(cn_source *s)
{
  int largest = 1;
  for (int k = 0; k < s->nout + s->nin; k++) {
    int size = (int)cni_dtype_size(s->dtype[k]);
    if (s->form[k] == 'v' && size > largest) largest = size;
  }
  s->vector = s->lang == CN_LANG_CUDA ? VECTOR_BYTES / largest : 1;
  if (s->vector > VECTOR_MOST) s->vector = VECTOR_MOST;
  s->loop.ndim = 1;
  for (int k = 0; k < s->nout + s->nin; k++) {
    size_t bytes = cni_dtype_size(s->dtype[k]) * (size_t)s->vector;
    if (s->form[k] == 'v' && (uintptr_t)s->loop.ptr[k] % bytes) s->loop.ndim = 0;
  }
}

/* Results of 16 bits cannot tell whether multiplications and additions were fused, or how an exponential was had. */
static bool may_be_fast(const cn_source *s)
{
  for (int k = 0; k < s->nout; k++)
    if (s->dtype[k] != CN_BF16 && s->dtype[k] != CN_F16) return false;
  return s->lang == CN_LANG_CUDA && s->compute == CN_F32;
}

/* Sets forms, the vector width and the loop's dims, now that the walk is known. */
static void settle(cn_source *s, const walk *w)
{
  int operands = s->nout + s->nin;
  s->flat = w->ndim <= 1;
  for (int k = 0; k < operands; k++) {
    if (s->form[k] == 'p') continue;
    bool single = k >= s->nout && all_zero(w, k);
    s->form[k] = single ? 's' : 'v';
    if (!single && w->ndim == 1 && w->stride[k][0] != 1) s->flat = false;
  }
  s->wide = s->loop.n > INT32_MAX;
  s->fast = may_be_fast(s);
  s->loop.ndim = w->ndim;
  for (int k = 0; k < operands; k++)
    if (s->form[k] == 'v' && !s->flat) s->form[k] = 'x';
  if (s->flat) settle_flat(s);
  else settle_strided(s, w);
}

static void set_key(cn_source *s)
{
  const cni_program *p = s->program;
  uint8_t mode[4] = {(uint8_t)s->lang, s->flat, s->wide, (uint8_t)s->vector};
  uint64_t h = cn_hash_more(p->hash, mode, sizeof mode);
  h = cn_hash_more(h, &s->compute, sizeof s->compute);
  h = cn_hash_more(h, s->dtype, (size_t)(s->nout + s->nin));
  s->key = cn_hash_more(h, s->form, (size_t)(s->nout + s->nin));
  static const char digits[] = "0123456789abcdef";
  memcpy(s->entry, "cn_loop_", 8);
  for (int i = 0; i < 16; i++) s->entry[8 + i] = digits[s->key >> (60 - 4 * i) & 15];
  s->entry[24] = 0;
}

/* desc: results first. Scalars so far: the program's attributes. */
static void make_source(cn_source *s, const cn_desc *const *desc, cn_device device, int nscalar)
{
  walk w = {.ndim = desc[0]->ndim};
  memcpy(w.shape, desc[0]->shape, (size_t)w.ndim * sizeof *w.shape);
  s->loop.n = desc[0]->numel;
  s->loop.fault = NULL;
  s->loop.fault_code = 0;
  for (int k = 0; k < s->nout + s->nin; k++) {
    s->dtype[k] = (uint8_t)desc[k]->dtype;
    s->form[k] = k >= s->nout && by_value(desc[k], device) ? 'p' : 'v';
    s->loop.ptr[k] = s->form[k] == 'p' ? NULL : desc[k]->data;
    add_operand(&w, desc[k]);
    if (s->form[k] == 'p') scalar_from(&s->loop, nscalar++, desc[k], s->compute);
  }
  w.ndim = cni_collapse(w.n, w.stride, w.ndim, w.shape);
  settle(s, &w);
  set_key(s);
}

int cni_pointwise_source(cn_source *s, const cn_call *c, cn_lang lang)
{
  const cn_desc *desc[CN_LOOP_OPERANDS];
  double consts[CNI_PROG_CONSTS];
  const cni_program *p = cni_program_of(c, consts);
  if (!p) return cn_err();
  if (c->nin + c->nout > CN_LOOP_OPERANDS || c->nin != p->nin || c->nout != p->nout)
    return cni_fail(CN_ERR_INTERNAL, "a loop of %d inputs and %d results", c->nin, c->nout);
  int nscalar = 0;
  s->lang = lang;
  s->program = p;
  s->compute = compute_type(c->compute);
  s->nout = c->nout;
  s->nin = c->nin;
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) scalar_value(&s->loop, nscalar++, consts[i], s->compute);
  for (int k = 0; k < c->nout; k++) desc[k] = cn_desc_of(c->out[k]);
  for (int k = 0; k < c->nin; k++) desc[c->nout + k] = cn_desc_of(c->in[k]);
  make_source(s, desc, c->device, nscalar);
  for (int k = 0; k < c->nin; k++) {
    if (s->form[c->nout + k] != 'p') continue;
    if (cni_program_rounds(c, k)) round_scalar(&s->loop.scalar[nscalar].f, c->compute);
    nscalar++;
  }
  return CN_OK;
}

int cni_copy_source(cn_source *s, const cn_desc *to, const cn_desc *from, cn_lang lang)
{
  const cn_desc *desc[2] = {to, from};
  const cni_program *p = cni_program_parse("1|||0"); /* one input, which is the result */
  if (!p) return cn_err();
  if (cni_dtype_is_complex(to->dtype) || cni_dtype_is_complex(from->dtype))
    return cni_fail(CN_ERR_UNSUPPORTED, "copy: complex numbers are copied by the CPU alone so far");
  s->lang = lang;
  s->program = p;
  s->compute = compute_type(from->dtype);
  s->nout = s->nin = 1;
  make_source(s, desc, to->device, 0);
  return CN_OK;
}
