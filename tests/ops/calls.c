/* calls.c: makes a sample's tensors, runs its op, and its gradient.
 *
 * Place in the flow: every driver goes through here. Invariant: tensors are made over memory of the C library, so
 * that cairn's own count of memory moves only by what the op allocates. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "sample.h"
#include "tensor/tensor.h"

/* ---- layouts ---- */

static void row_major(int ndim, const int64_t *shape, int64_t *strides)
{
  int64_t n = 1;
  for (int i = ndim; i-- > 0;) {
    strides[i] = n;
    n *= shape[i] > 0 ? shape[i] : 1;
  }
}

static void swap(int64_t *a, int64_t *b)
{
  int64_t t = *a;
  *a = *b;
  *b = t;
}

static void strides_of(char layout, int n, const int64_t *shape, int64_t *strides)
{
  int64_t memory[CN_MAX_DIMS] = {0};
  memcpy(memory, shape, (size_t)n * sizeof *shape);
  if (layout == 'c') {
    cni_channels_last_strides(n, shape, strides);
    return;
  }
  if (layout == 't') swap(&memory[n - 1], &memory[n - 2]);
  if (layout == 's') memory[n - 1] *= 2;
  if (layout == 'e') memory[0] = 1;
  row_major(n, memory, strides);
  if (layout == 't') swap(&strides[n - 1], &strides[n - 2]);
  if (layout == 's') strides[n - 1] = 2;
  if (layout == 'e') strides[0] = 0;
  if (layout == 'r') strides[n - 1] = -1;
}

static char layout_of(const sample_literal *l, const call_setup *setup)
{
  if (setup->contiguous) return 0;
  if (!setup->layout) return l->layout;
  if (l->ndim < (setup->layout == 't' ? 2 : 1)) return 0;
  return setup->layout;
}

/* ---- tensors ---- */

/* The literal as memory: elements of `dtype` from `first` on, laid out by strides. NULL when out of memory. */
typedef struct image {
  void *memory;
  int64_t length, first; /* in elements */
  int64_t strides[CN_MAX_DIMS];
} image;

static int64_t place_of(const sample_literal *l, const int64_t *strides, int64_t i)
{
  int64_t at = 0;
  for (int d = l->ndim; d-- > 0; i /= l->shape[d]) at += i % l->shape[d] * strides[d];
  return at;
}

static bool image_make(image *m, const sample *s, const sample_literal *l, int dtype, const call_setup *setup)
{
  int64_t numel = cni_numel(l->ndim, l->shape), lowest = 0, highest = 0;
  strides_of(layout_of(l, setup), l->ndim, l->shape, m->strides);
  for (int d = 0; numel && d < l->ndim; d++)
    *(m->strides[d] < 0 ? &lowest : &highest) += (l->shape[d] - 1) * m->strides[d];
  m->first = (l->offset && !setup->contiguous ? 3 : 0) - lowest;
  m->length = m->first + highest + 1;
  m->memory = calloc((size_t)m->length + 1, cn_dtype_size((cn_dtype)dtype));
  if (!m->memory) return false;
  for (int64_t i = 0; i < numel; i++)
    sample_store(s, l, dtype, i, m->memory, m->first + place_of(l, m->strides, i));
  return true;
}

static cn_tensor *on_host(const image *m, const sample_literal *l, int dtype)
{
  size_t bytes = (size_t)m->length * cn_dtype_size((cn_dtype)dtype);
  cni_storage *storage = cni_storage_borrow(CN_CPU, m->memory, bytes, free, m->memory);
  if (!storage) free(m->memory);
  return cni_tensor_over(storage, m->first, dtype, l->ndim, l->shape, m->strides);
}

/* Moves the whole memory there, then takes the same view of it; owned. */
static cn_tensor *on_device(const image *m, const sample_literal *l, int dtype, cn_device device)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *flat = cn_from_data(m->memory, CN_SHAPE(m->length), (cn_dtype)dtype), *t = NULL;
  free(m->memory);
  flat = cn_to_device(flat, device);
  if (flat) t = cni_tensor_over(cni_storage_keep(flat->storage), m->first, dtype, l->ndim, l->shape, m->strides);
  cn_scope_end(scope);
  return t;
}

static cn_tensor *tensor_of(const sample *s, const sample_literal *l, const call_setup *setup)
{
  bool complex = cn_dtype_is_complex((cn_dtype)l->dtype);
  bool is_float = complex || (cn_dtype_is_float((cn_dtype)l->dtype) && cni_dtype_computes(l->dtype));
  int dtype = !setup->as_f64 || !is_float ? l->dtype : complex ? CN_C128 : CN_F64;
  image m;
  if (!image_make(&m, s, l, dtype, setup)) return NULL;
  bool host = setup->device == CN_DEVICE_DEFAULT || setup->device == CN_CPU;
  cn_tensor *t = host ? on_host(&m, l, dtype) : on_device(&m, l, dtype, setup->device);
  if (t && setup->grad && is_float && !l->constant) cn_requires_grad(t, true);
  return t;
}

static cn_tensor *item_tensor(const sample *s, const sample_item *it, const call_setup *setup)
{
  if (it->kind == ITEM_TENSOR) return tensor_of(s, &s->literals[it->literal], setup);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cn_keep(it->kind == ITEM_INT     ? cn_int(it->i)
                         : it->kind == ITEM_FLOAT ? cn_num(it->f)
                                                  : cn_bool(it->i));
  cn_scope_end(scope);
  return t;
}

/* ---- arguments ---- */

static int add_inputs(call *c, const sample_arg *a, const cni_param *p, cn_value *v, const call_setup *setup)
{
  int first = c->nin, count = p->list ? a->count : 1;
  if (first + count > SAMPLE_INPUTS) return cn_err_set(CN_ERR_VALUE, "sample: too many tensors");
  for (int i = 0; i < count; i++) {
    const sample_item *it = &c->s->items[a->first + i];
    if (it->kind == ITEM_TENSOR && a->count) c->sparse[c->nin] = c->s->literals[it->literal].sparse;
    bool given = (a->kind == ARG_ONE || a->kind == ARG_LIST) && it->kind != ITEM_NONE;
    c->in[c->nin++] = given ? item_tensor(c->s, it, setup) : NULL;
    if (cn_err()) return cn_err();
  }
  if (p->list) *v = a->kind == ARG_LIST ? cn_v_tensors(&c->in[first], (size_t)count) : cn_v_none();
  else *v = cn_v_tensor(c->in[first]);
  return CN_OK;
}

static cn_value number_of(const sample_item *it)
{
  return it->kind == ITEM_INT ? cn_v_int(it->i) : it->kind == ITEM_FLOAT ? cn_v_float(it->f) : cn_v_bool(it->i);
}

static cn_value plain_value(call *c, const sample_arg *a, const cni_param *p)
{
  const sample_item *it = &c->s->items[a->first];
  if (a->kind == ARG_DEFAULT) return p->def;
  if (a->kind == ARG_NONE) return cn_v_none();
  if (a->kind == ARG_WORD) {
    if (p->type == CNI_T_DTYPE) return cn_v_int(cn_dtype_find(a->word));
    if (p->type == CNI_T_DEVICE) return cn_v_int(cn_device_find(a->word));
    return cn_v_str(a->word);
  }
  if (a->kind == ARG_ONE && p->type == CNI_T_FLOAT) return cn_v_float(it->kind == ITEM_INT ? (double)it->i : it->f);
  if (a->kind == ARG_ONE) return number_of(it);
  for (int i = 0; i < a->count; i++) {
    c->ints[a->first + i] = it[i].i;
    c->floats[a->first + i] = it[i].kind == ITEM_FLOAT ? it[i].f : (double)it[i].i;
  }
  if (p->type == CNI_T_INT) return cn_v_ints(&c->ints[a->first], (size_t)a->count);
  return cn_v_floats(&c->floats[a->first], (size_t)a->count);
}

int call_make(call *c, const sample *s, const call_setup *setup)
{
  memset(c, 0, sizeof *c);
  cn_err_clear();
  c->s = s;
  c->nargs = s->info->nparams;
  for (int i = 0; i < c->nargs; i++) {
    const cni_param *p = &s->info->params[i];
    if (p->type != CNI_T_TENSOR) c->args[i] = plain_value(c, &s->args[i], p);
    else add_inputs(c, &s->args[i], p, &c->args[i], setup);
    if (cn_err()) break;
  }
  if (cn_err()) call_free(c);
  return cn_err();
}

void call_free(call *c)
{
  for (int i = 0; i < c->nin; i++) cn_release(c->in[i]);
  c->nin = 0;
}

void call_set_input(call *c, int i, cn_tensor *t)
{
  cn_tensor *before = c->in[i];
  c->in[i] = cn_keep(t);
  cn_release(before);
  for (int a = 0, at = 0; a < c->nargs; a++) {
    const cni_param *p = &c->s->info->params[a];
    if (p->type != CNI_T_TENSOR) continue;
    if (!p->list && at == i) c->args[a] = cn_v_tensor(t);
    if (p->list && c->args[a].tag == CN_V_TENSORS) c->args[a].u.ts = &c->in[at]; /* c may be a copy of another call */
    at += p->list ? c->args[a].n : 1;
  }
}

/* ---- running ---- */

/* t at its places: all but each second of three elements. */
static cn_tensor *as_sparse(cn_tensor *t, char layout)
{
  int64_t n = 0, count = cn_numel(t), ndim = cn_ndim(t), *places = malloc((size_t)(ndim * count + 1) * sizeof *places);
  if (!places) return NULL;
  int64_t all = count - (count + 1) / 3;
  for (int64_t i = 0; i < count; i++) {
    if (i % 3 == 1) continue;
    int64_t rest = i;
    for (int64_t d = ndim; d-- > 0; rest /= cn_shape(t)[d]) places[d * all + n] = rest % cn_shape(t)[d];
    n++;
  }
  cn_tensor *indices = cn_to_device(cn_from_data(places, CN_SHAPE(ndim, all), CN_I64), cn_device_of(t));
  free(places);
  cn_tensor *ones = cn_ones_with(&all, 1, CN_OPTS(cn_ones_opts, .dtype = cn_dtype_of(t), .device = cn_device_of(t)));
  cn_sparse_coo_tensor_opts o = {.size = sizeof o, .size_ = {cn_shape(t), (size_t)ndim}, .is_coalesced = true};
  cn_tensor *s = cn_sparse_mask(t, cn_sparse_coo_tensor_with(indices, ones, &o));
  return layout == 'r' ? cn_to_sparse_csr(s, CN_NONE) : layout == 'c' ? cn_to_sparse_csc(s, CN_NONE) : s;
}

static bool any_sparse(const call *c)
{
  for (int i = 0; i < c->nin; i++)
    if (c->sparse[i]) return true;
  return false;
}

/* The call with those of its inputs in sparse layouts; what comes out sparse is made dense. The scope has them. */
static int run_sparse(call_result *r, const call *c)
{
  call other = *c;
  cn_tensor *list[SAMPLE_INPUTS];
  for (int i = 0; i < c->nin; i++) list[i] = c->sparse[i] && c->in[i] ? as_sparse(c->in[i], c->sparse[i]) : c->in[i];
  for (int a = 0, at = 0; a < c->nargs && !cn_err(); a++) {
    const cni_param *p = &c->s->info->params[a];
    if (p->type != CNI_T_TENSOR) continue;
    if (p->list) other.args[a].u.ts = &list[at];
    else other.args[a] = cn_v_tensor(list[at]);
    at += p->list ? c->args[a].n : 1;
  }
  int status = cn_err();
  if (!status) status = cn_op_call(r->out, &r->nout, c->s->info->row, other.args, (size_t)c->nargs, NULL);
  for (size_t i = 0; !status && i < r->nout; i++) {
    if (!cn_is_sparse(r->out[i])) continue;
    cn_tensor *dense = cn_keep(cn_to_dense_with(r->out[i], NULL));
    cn_release(r->out[i]);
    r->out[i] = dense;
    if (!dense) status = cn_err();
  }
  return status;
}

int call_run(call_result *r, const call *c, cn_tensor *dest)
{
  memset(r, 0, sizeof *r);
  r->nout = SAMPLE_RESULTS;
  int status;
  if (c->s->info->row->flags & CN_OP_SPARSE || any_sparse(c)) {
    cn_scope *scope = cn_scope_begin();
    status = run_sparse(r, c);
    cn_scope_end(scope);
  } else status = cn_op_call(r->out, &r->nout, c->s->info->row, c->args, (size_t)c->nargs, dest);
  if (status) r->nout = 0;
  return status;
}

cn_tensor *call_weights(const sample *s, int i, cn_tensor *like)
{
  const cn_desc *d = cn_desc_of(like);
  sample_literal l = {.dtype = d->dtype, .ndim = d->ndim, .index = SAMPLE_WEIGHTS + i};
  memcpy(l.shape, d->shape, (size_t)d->ndim * sizeof *d->shape);
  return tensor_of(s, &l, &(call_setup){.device = d->device});
}

/* Gradients in the innermost scope become owned; a failed call leaves none. */
static int take_grads(call_result *r, int nin, cn_tensor *const *leaves, cn_tensor **roots, cn_tensor **weights,
                      size_t nroots)
{
  cn_tensor *wanted[SAMPLE_INPUTS], *grads[SAMPLE_INPUTS] = {NULL};
  size_t n = 0, k = 0;
  for (int i = 0; i < nin; i++)
    if (leaves[i] && cn_needs_grad(leaves[i])) wanted[n++] = leaves[i];
  if (!n || !nroots) return CN_OK;
  cn_grad_opts o = {.size = sizeof o, .grad_outputs = weights, .allow_unused = true};
  int status = cn_grad_with(grads, roots, nroots, wanted, n, &o);
  if (status) return status;
  for (int i = 0; i < nin; i++)
    if (leaves[i] && cn_needs_grad(leaves[i])) {
      cn_tensor *g = grads[k++];
      r->grad[i] = cn_keep(cn_is_sparse(g) ? cn_to_dense_with(g, NULL) : g);
    }
  return cn_err();
}

/* The same numbers in the memory order of `like`; takes t over. */
static cn_tensor *in_order_of(cn_tensor *like, cn_tensor *t)
{
  cn_tensor *made = t ? cn_keep(cn_copy_(cn_empty_like(like), t)) : NULL;
  cn_release(t);
  return made;
}

int call_grad(call_result *r, const call *c, cn_tensor *const *leaves, bool same_order)
{
  cn_tensor *roots[SAMPLE_RESULTS], *weights[SAMPLE_RESULTS];
  size_t n = 0;
  cn_scope *scope = cn_scope_begin();
  if (!scope) return cn_err();
  for (size_t i = 0; i < r->nout && !cn_err(); i++) {
    int dtype = (int)cn_dtype_of(r->out[i]);
    if (!r->out[i] || !cn_needs_grad(r->out[i]) || !(cni_dtype_computes(dtype) || cni_dtype_is_complex(dtype)))
      continue;
    weights[n] = call_weights(c->s, (int)i, r->out[i]);
    if (same_order) weights[n] = in_order_of(r->out[i], weights[n]);
    if (weights[n]) roots[n++] = r->out[i];
  }
  int status = cn_err() ? cn_err() : take_grads(r, c->nin, leaves ? leaves : c->in, roots, weights, n);
  for (size_t i = 0; i < n; i++) cn_release(weights[i]);
  cn_scope_end(scope);
  return status;
}

int call_run_grad(call_result *r, const call *c, cn_tensor *dest, cn_tensor *const *leaves)
{
  int status = call_run(r, c, dest);
  return status ? status : call_grad(r, c, leaves, false);
}

void call_result_free(call_result *r)
{
  for (size_t i = 0; i < r->nout; i++) cn_release(r->out[i]);
  for (int i = 0; i < SAMPLE_INPUTS; i++) cn_release(r->grad[i]);
  memset(r, 0, sizeof *r);
}
