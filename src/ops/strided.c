/* strided.c: the view with any sizes, strides and offset into its input's memory.
 *
 * Place in the flow: as_strided notes the input's layout and calls as_strided_from, the view itself. Invariant: its
 * gradient and its inverse work on the memory that input and view reach, whatever their layouts, so elements outside
 * the input are seen but get no gradient. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>

#include "base/hooks.h"
#include "families.h"
#include "infer.h"

/* as_strided(input, size, stride, storage_offset): offset None: the input's own. The input's own layout goes along as
 * arguments of the view, because its gradient and its inverse are about memory. */
static int as_strided_decompose(cn_call *c)
{
  const cn_tensor *x = c->in[0];
  const cn_value *a = c->args;
  int status = cni_hooks.place_read ? cni_hooks.place_read(c->in[0]) : CN_OK;
  if (status) return status;
  c->out[0] = cn_as_strided_from(c->in[0], a[1].u.is, (size_t)a[1].n, a[2].u.is, (size_t)a[2].n,
                                 cni_arg_int_or(a, 3, x->offset), x->d.strides, (size_t)x->d.ndim, x->offset);
  return cn_err();
}

enum { FROM_SIZE = 1, FROM_STRIDE, FROM_OFFSET, FROM_OWN_STRIDE, FROM_OWN_OFFSET }; /* parameters of as_strided_from */

/* The layout the input is said to have: one that memory can hold, since gradients make room for what it reaches. */
static bool own_layout_fits(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  const cn_value *stride = &c->args[FROM_OWN_STRIDE];
  const int64_t most = INT64_MAX / 64;
  int64_t offset = cni_arg_int(c->args, FROM_OWN_OFFSET), first = offset, last = offset, step;
  if (stride->n != x->ndim || offset < 0 || offset > most) return false;
  for (int i = 0; x->numel && i < x->ndim; i++) {
    if (__builtin_mul_overflow(x->shape[i] - 1, stride->u.is[i], &step) || step > most || step < -most) return false;
    *(step < 0 ? &first : &last) += step;
    if (first < 0 || last > most) return false;
  }
  return true;
}

static int as_strided_from_infer(cn_call *c)
{
  const cn_tensor *x = c->in[0];
  const cn_value *size = &c->args[FROM_SIZE], *stride = &c->args[FROM_STRIDE];
  int64_t offset = cni_arg_int(c->args, FROM_OFFSET), last = offset, step;
  int64_t own = cni_arg_int(c->args, FROM_OWN_OFFSET); /* where the input was; in a graph's run it may be elsewhere */
  bool empty = false;
  if (size->n != stride->n || size->n > CN_MAX_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d sizes but %d strides", size->n, stride->n);
  for (int i = 0; i < size->n; i++) {
    if (size->u.is[i] < 0 || stride->u.is[i] < 0)
      return cn_call_fail(c, CN_ERR_VALUE, "sizes and strides must not be negative");
    if (size->u.is[i] == 0) empty = true;
    else if (__builtin_mul_overflow(size->u.is[i] - 1, stride->u.is[i], &step) ||
             __builtin_add_overflow(last, step, &last))
      return cn_call_fail(c, CN_ERR_SHAPE, "the strides are too large");
  }
  if (!own_layout_fits(c)) return cn_call_fail(c, CN_ERR_VALUE, "own_stride and own_offset are of no such input");
  int64_t room = (int64_t)(x->storage->size / cni_dtype_size(x->d.dtype)) - x->offset + own;
  if (offset < 0 || offset - own + x->offset < 0 || (!empty && last >= room))
    return cn_call_fail(c, CN_ERR_INDEX, "reaches element %lld of memory that holds %lld", (long long)last,
                        (long long)room);
  if (empty) offset = own; /* a view of nothing may lie anywhere: it stays where the input is */
  return cn_call_view(c, 0, 0, size->n, size->u.is, stride->u.is, offset - own);
}

/* Widens [low, high] by the elements of memory that a layout reaches. */
static void reach(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t *low, int64_t *high)
{
  int64_t first = offset, last = offset;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] == 0) return;
    *(strides[i] < 0 ? &first : &last) += (shape[i] - 1) * strides[i];
  }
  if (first < *low) *low = first;
  if (last > *high) *high = last;
}

/* For each element of a layout its place in memory, as a vector. */
static cn_tensor *offsets(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, cn_device device)
{
  int64_t numel = cni_numel(ndim, shape);
  cn_tensor *at = cn_full_with(shape, (size_t)ndim, (double)offset,
                               &(cn_full_opts){.size = sizeof(cn_full_opts), .dtype = CN_I64, .device = device});
  for (int i = 0; i < ndim && numel; i++) {
    cn_arange_opts o = {.size = sizeof o, .dtype = CN_I64, .device = device};
    int64_t own[CN_MAX_DIMS];
    for (int k = 0; k < ndim; k++) own[k] = k == i ? shape[i] : 1;
    cn_tensor *n = cn_mul(cn_arange_with(0, (double)shape[i], &o), cn_int(strides[i]));
    at = cn_add_with(at, cn_reshape(n, own, (size_t)ndim), NULL);
  }
  return cn_reshape(at, &numel, 1);
}

/* The memory that both the input and its view reach: offsets in it, and its size. */
typedef struct memory {
  cn_tensor *own, *shown; /* offsets of the input's elements and of the view's */
  int64_t size;
} memory;

static memory memory_of(const cn_value *a, int ndim, const int64_t *shape, cn_device device)
{
  int64_t own = a[FROM_OWN_OFFSET].u.i, offset = a[FROM_OFFSET].u.i, low = own, high = own;
  reach(ndim, shape, a[FROM_OWN_STRIDE].u.is, own, &low, &high);
  reach(a[FROM_SIZE].n, a[FROM_SIZE].u.is, a[FROM_STRIDE].u.is, offset, &low, &high);
  return (memory){offsets(ndim, shape, a[FROM_OWN_STRIDE].u.is, own - low, device),
                  offsets(a[FROM_SIZE].n, a[FROM_SIZE].u.is, a[FROM_STRIDE].u.is, offset - low, device),
                  high - low + 1};
}

static cn_tensor *flat(cn_tensor *x) { return cn_reshape(x, CN_SHAPE(-1)); }

static cn_tensor *zeros_in(int64_t n, cn_tensor *like)
{
  return cn_zeros_with(&n, 1, &(cn_zeros_opts){.size = sizeof(cn_zeros_opts), .dtype = cn_dtype_of(like),
                                               .device = cn_device_of(like)});
}

/* Gradients are added up in memory; what lies outside the input is nobody's. Where several elements of the input share
 * a place, each gets its part. */
static int as_strided_from_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  cn_tensor *g = flat(v->g[0]);
  if (!g) return cn_err();
  memory mem = memory_of(v->args, m->ndim, m->shape, m->device);
  cn_tensor *sums = cn_index_add_with(zeros_in(mem.size, g), 0, mem.shown, g, NULL);
  cn_tensor *own = cn_index_select(sums, 0, mem.own);
  if (!cni_is_dense(m->ndim, m->shape, v->args[FROM_OWN_STRIDE].u.is) && own) {
    cn_tensor *ones = cn_ones_like_with(own, NULL);
    cn_tensor *count = cn_index_add_with(zeros_in(mem.size, own), 0, mem.own, ones, NULL);
    own = cn_true_divide(own, cn_index_select(count, 0, mem.own));
  }
  v->gin[0] = cn_reshape(own, m->shape, (size_t)m->ndim);
  return cn_err();
}
static cn_tensor *as_strided_from_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  if (!base || !src) return NULL;
  memory mem = memory_of(c->args, cn_ndim(base), cn_shape(base), cn_device_of(base));
  cn_tensor *all = cn_index_copy(zeros_in(mem.size, base), 0, mem.own, flat(base));
  all = cn_index_copy(all, 0, mem.shown, flat(src));
  return cn_reshape(cn_index_select(all, 0, mem.own), cn_shape(base), (size_t)cn_ndim(base));
}

/* clang-format off */
const cn_op cni_strided_ops[] = {
  {.sig = "as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor ; method complex",
   .doc = "A view with these sizes, strides and offset into the same memory.",
   .flags = CN_OP_COMPOSITE, .decompose = as_strided_decompose},
  {.sig = "as_strided_from(Tensor input, int[] size, int[] stride, int storage_offset, int[] own_stride, "
          "int own_offset) -> Tensor ; internal complex",
   .doc = "as_strided of an input that has these strides and this offset itself: what as_strided records.",
   .flags = CN_OP_VIEW, .infer = as_strided_from_infer, .vjp = as_strided_from_vjp,
   .scatter = as_strided_from_scatter},
};
/* clang-format on */
CNI_FAMILY(strided);
