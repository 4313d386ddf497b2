/* loop.c: describes the loop of a pointwise call: which operands are dense, strided, single or passed by
 * value, with the dims brought into memory order and merged. See loop.h.
 *
 * Invariant: no text here, and no allocation for the usual number of operands; this runs for every call. */
#include "loop.h"

#include <cairn/ext/hash.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/state.h"
#include "ops/program.h"
#include "tensor/tensor.h"

enum { VECTOR_BYTES = 16, VECTOR_MOST = 8 };
enum { ARGUMENTS = 2 }; /* which layout of cn_loop: compiled code of others may lie in a cache */

/* The walk while it is made: operand k's stride of dim i, in elements. */
typedef struct walk {
  int n, ndim;
  int64_t shape[CN_MAX_DIMS];
  int64_t (*stride)[CN_MAX_DIMS];
} walk;

static int compute_type(int dtype)
{
  if (dtype == CN_F64 || dtype == CN_U64) return dtype;
  return cni_dtype_is_float(dtype) ? CN_F32 : CN_I64;
}

/* ---- operands ---- */

/* A number in memory as a loop's scalar, converted as the cast kernels do. */
static void scalar_from(cni_loop_scalar *to, const cn_desc *d, int compute)
{
  bool is_float = cni_dtype_is_float(d->dtype);
  double f = cni_load_f64(d->data, 0, d->dtype);
  int64_t i = cni_load_i64(d->data, 0, d->dtype);
  uint64_t u = d->dtype == CN_U64 ? (uint64_t)i : 0;
  if (compute == CN_I64) to->i = i;
  else if (compute == CN_U64) to->i = is_float ? (int64_t)cni_f64_to_u64(f) : i;
  else if (compute == CN_F64) to->f = is_float ? f : u ? (double)u : (double)i;
  else to->f = is_float ? (float)f : u ? (float)u : (float)i; /* no rounding twice */
}

static void scalar_value(cni_loop_scalar *to, double value, int compute)
{
  if (compute == CN_F64) to->f = value;
  else if (compute == CN_F32) to->f = (float)value;
  else to->i = (int64_t)value;
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
    uintptr_t at = (uintptr_t)cni_loop_ptr(s)[k];
    int64_t bits = (int64_t)at / size | w->shape[last] | VECTOR_BYTES / size;
    for (int i = 0; i < last; i++) bits |= w->stride[k][i];
    if (at % (size_t)size) return 1;
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
  for (int d = 0; d < w->ndim; d++) {
    int64_t *dim = cni_loop_dim(s, d);
    *dim++ = d == last ? w->shape[d] / s->vector : w->shape[d];
    for (int k = 0; k < s->nout + s->nin; k++) dim[k] = w->stride[k][d];
  }
  for (int k = 0; k < s->nout + s->nin; k++) {
    if (s->vector == 1 || s->form[k] != 'x' || w->stride[k][last] != 1) continue;
    s->form[k] = 'w';
    cni_loop_dim(s, last)[1 + k] = s->vector;
  }
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
  s->loop->ndim = 1;
  for (int k = 0; k < s->nout + s->nin; k++) {
    size_t bytes = cni_dtype_size(s->dtype[k]) * (size_t)s->vector;
    if (s->form[k] == 'v' && (uintptr_t)cni_loop_ptr(s)[k] % bytes) s->loop->ndim = 0;
  }
}

/* Is everything computed in float32? */
static bool all_f32(const cn_source *s)
{
  const cni_program *p = s->program;
  if (!p->typed) return s->compute == CN_F32;
  for (int reg = 0; reg < p->nin + p->nconst + p->nstep; reg++)
    if (p->class[reg] != CNI_C_F32) return false;
  return true;
}

/* Results of 16 bits cannot tell whether multiplications and additions were fused, or how an exponential was had. */
static bool may_be_fast(const cn_source *s)
{
  for (int k = 0; k < s->nout; k++)
    if (s->dtype[k] != CN_BF16 && s->dtype[k] != CN_F16) return false;
  return s->lang == CN_LANG_CUDA && all_f32(s);
}

/* Eight hexadecimal digits, all at once: a byte of a word each. */
static void put_digits(char *to, uint32_t number)
{
  uint64_t each = number;
  each = (each | each << 16) & 0x0000ffff0000ffff;
  each = (each | each << 8) & 0x00ff00ff00ff00ff;
  each = (each | each << 4) & 0x0f0f0f0f0f0f0f0f;
  uint64_t letters = (each + 0x0606060606060606) >> 4 & 0x0101010101010101; /* 1 where it is 10 or more */
  each += 0x3030303030303030 + letters * ('a' - '0' - 10);
  memcpy(to, &each, sizeof each);
}

static void set_key(cn_source *s)
{
  const cni_program *p = s->program;
  uint8_t mode[6] = {(uint8_t)s->lang, s->flat, s->wide, (uint8_t)s->vector, s->by_pointer, ARGUMENTS};
  uint64_t h = cn_hash_more(p->hash, mode, sizeof mode);
  h = cn_hash_more(h, &s->compute, sizeof s->compute);
  h = cn_hash_more(h, s->dtype, (size_t)(s->nout + s->nin));
  s->key = cn_hash_more(h, s->form, (size_t)(s->nout + s->nin));
  memcpy(s->entry, "cn_loop_", 8);
  put_digits(s->entry + 8, (uint32_t)s->key);
  put_digits(s->entry + 16, (uint32_t)(s->key >> 32));
  s->entry[24] = 0;
}

/* ---- its memory ---- */

static size_t align8(size_t n) { return (n + 7) & ~(size_t)7; }

/* Room for the arguments, and for types and forms of the operands. 0 or CN_ERR_MEMORY. */
static int open_source(cn_source *s)
{
  size_t operands = (size_t)(s->nout + s->nin);
  s->loop_size = sizeof *s->loop + operands * sizeof(void *) + (size_t)s->nscalar * sizeof(cni_loop_scalar) +
                 CN_MAX_DIMS * (1 + operands) * sizeof(int64_t);
  bool few = operands <= CN_LOOP_FEW && s->loop_size <= sizeof s->words;
  s->heap = few ? 0 : s->loop_size + 2 * align8(operands);
  s->loop = few ? (cn_loop *)(void *)s->words : cni_alloc(s->heap);
  if (!s->loop) return CN_ERR_MEMORY;
  char *behind = (char *)s->loop + s->loop_size;
  s->dtype = few ? s->few_dtype : (uint8_t *)behind;
  s->form = few ? s->few_form : behind + align8(operands);
  s->loop->n = 0;
  s->loop->fault = NULL;
  s->loop->fault_code = 0;
  s->loop->skip = NULL;
  return CN_OK;
}

void cni_source_end(cn_source *s)
{
  if (s->heap) cni_free(s->loop, s->heap);
  s->heap = 0;
}

/* ---- calls ---- */

/* What a source is made of: results first. */
typedef struct making {
  const cn_desc *(*operand)(const struct making *m, int k);
  const cn_call *call;
  const cn_desc *to, *from; /* of a copy */
  cn_device device;
} making;

static const cn_desc *of_call(const making *m, int k)
{
  return k < m->call->nout ? cn_desc_of(m->call->out[k]) : cn_desc_of(m->call->in[k - m->call->nout]);
}

static const cn_desc *of_copy(const making *m, int k) { return k ? m->from : m->to; }

/* The type that register `reg` is computed in. */
static int register_type(const cn_source *s, int reg)
{
  const cni_program *p = s->program;
  return p->typed ? cni_compute_dtype((enum cni_compute)p->class[reg]) : s->compute;
}

/* Numbers that are passed by value: attributes, then inputs. */
static void fill_scalars(cn_source *s, const making *m, const double *consts)
{
  const cni_program *p = s->program;
  cni_loop_scalar *to = cni_loop_scalars(s);
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) scalar_value(to++, consts[i], register_type(s, p->nin + i));
  for (int k = 0; k < s->nin; k++) {
    if (s->form[s->nout + k] != 'p') continue;
    scalar_from(to, m->operand(m, s->nout + k), register_type(s, k));
    if (m->call && cni_program_rounds(m->call, k)) round_scalar(&to->f, m->call->compute);
    to++;
  }
}

/* Operands that do not all lie as the first does: finds the walk over them, forms, the vector width and the loop's
 * dims. */
static void settle(cn_source *s, const making *m, int64_t (*stride)[CN_MAX_DIMS])
{
  const cn_desc *first = m->operand(m, 0);
  int operands = s->nout + s->nin;
  walk w = {.ndim = first->ndim, .stride = stride};
  memcpy(w.shape, first->shape, (size_t)w.ndim * sizeof *w.shape);
  for (int k = 0; k < operands; k++) add_operand(&w, m->operand(m, k));
  w.ndim = cni_collapse(w.n, w.stride, w.ndim, w.shape);
  s->flat = w.ndim <= 1;
  for (int k = 0; k < operands; k++) {
    if (s->form[k] == 'p') continue;
    bool single = k >= s->nout && all_zero(&w, k);
    s->form[k] = single ? 's' : 'v';
    if (!single && w.ndim == 1 && w.stride[k][0] != 1) s->flat = false;
  }
  s->loop->ndim = w.ndim;
  for (int k = 0; k < operands; k++)
    if (s->form[k] == 'v' && !s->flat) s->form[k] = 'x';
  if (s->flat) settle_flat(s);
  else settle_strided(s, &w);
}

static void describe(cn_source *s, const making *m, int64_t (*stride)[CN_MAX_DIMS])
{
  const cn_desc *first = m->operand(m, 0);
  s->loop->n = first->numel;
  s->flat = first->numel > 1 && cni_is_contiguous(first->ndim, first->shape, first->strides);
  for (int k = 0; k < s->nout + s->nin; k++) {
    const cn_desc *d = m->operand(m, k);
    s->dtype[k] = (uint8_t)d->dtype;
    s->form[k] = k >= s->nout && by_value(d, m->device) ? 'p' : 'v';
    cni_loop_ptr(s)[k] = s->form[k] == 'p' ? NULL : d->data;
    if (s->flat && s->form[k] == 'v') s->flat = cni_same_layout(d, first);
  }
  s->group = 0;
  s->wide = s->loop->n > INT32_MAX;
  s->fast = may_be_fast(s);
  if (s->flat) settle_flat(s);
  else settle(s, m, stride);
  if (s->flat) s->loop_size -= CN_MAX_DIMS * (1 + (size_t)(s->nout + s->nin)) * sizeof(int64_t);
  s->by_pointer = s->lang == CN_LANG_CUDA && s->loop_size > CN_LOOP_BY_VALUE;
  set_key(s);
}

static bool divides(const cn_source *s)
{
  const cni_program *p = s->program;
  for (int i = 0; i < p->nstep; i++) {
    int type = register_type(s, p->nin + p->nconst + i);
    if ((type == CN_I64 || type == CN_U64) && p->steps[i].prim != CNI_PW_convert && cni_prim_divides(p->steps[i].prim))
      return true;
  }
  return false;
}

/* The program, the counts of operands and the compute type are set. */
static int make_source(cn_source *s, const making *m, const double *consts)
{
  const cni_program *p = s->program;
  int64_t few[CN_LOOP_FEW][CN_MAX_DIMS], (*stride)[CN_MAX_DIMS] = few;
  int operands = s->nout + s->nin;
  s->nscalar = 0;
  for (int i = 0; i < p->nconst; i++) s->nscalar += p->consts[i].attr >= 0;
  for (int k = s->nout; k < operands; k++) s->nscalar += by_value(m->operand(m, k), m->device);
  size_t bytes = (size_t)operands * sizeof *few;
  if (open_source(s)) return CN_ERR_MEMORY;
  if (operands > CN_LOOP_FEW && !(stride = cni_alloc(bytes))) {
    cni_source_end(s);
    return CN_ERR_MEMORY;
  }
  s->divides = divides(s);
  describe(s, m, stride);
  if (stride != few) cni_free(stride, bytes);
  fill_scalars(s, m, consts);
  return CN_OK;
}

static int check_size(const cn_source *s)
{
  if (s->size >= sizeof *s) return CN_OK;
  return cni_fail(CN_ERR_VALUE, "a loop's description was made for another version of cairn, or its size was not set");
}

int cni_pointwise_source(cn_source *s, const cn_call *c, cn_lang lang)
{
  const cni_program *p = cni_program_of(c);
  double few[CN_LOOP_FEW], *consts = few;
  making m = {.operand = of_call, .call = c, .device = c->device};
  if (!p || check_size(s)) return cn_err();
  if (p->row_dims) return cni_fail(CN_ERR_UNSUPPORTED, "pointwise: steps along rows are for the CPU alone so far");
  if (c->nin != p->nin || c->nout != p->nout)
    return cni_fail(CN_ERR_INTERNAL, "a loop of %d inputs and %d results", c->nin, c->nout);
  s->lang = lang;
  s->program = p;
  s->compute = p->typed ? 0 : compute_type(c->compute);
  s->nout = c->nout;
  s->nin = c->nin;
  size_t bytes = (size_t)p->nconst * sizeof *consts;
  if (p->nconst > CN_LOOP_FEW && !(consts = cni_alloc(bytes))) return CN_ERR_MEMORY;
  int status = cni_program_consts(consts, c, p);
  if (!status) status = make_source(s, &m, consts);
  if (consts != few) cni_free(consts, bytes);
  return status;
}

int cni_copy_source(cn_source *s, const cn_desc *to, const cn_desc *from, cn_lang lang)
{
  making m = {.operand = of_copy, .to = to, .from = from, .device = to->device};
  const cni_program *p = cni_program_parse("1|||0"); /* one input, which is the result */
  if (!p || check_size(s)) return cn_err();
  if (cni_dtype_is_complex(to->dtype) || cni_dtype_is_complex(from->dtype))
    return cni_fail(CN_ERR_UNSUPPORTED, "copy: complex numbers are copied by the CPU alone so far");
  s->lang = lang;
  s->program = p;
  s->compute = compute_type(from->dtype);
  s->nout = s->nin = 1;
  return make_source(s, &m, NULL);
}
