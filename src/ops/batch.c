/* batch.c: vmaps that are running, tensors that stand for one example, and the way of a call with such. See batch.h. */
#include "batch.h"

#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <cairn/vmap.h>
#include <string.h>

#include "api.gen.h"
#include "complex.h"
#include "shorthand.h"

enum { FEW = 32 };

/* ---- vmaps ---- */

int64_t cn_vmap_begin(int64_t size, cn_vmap_randomness randomness) { return cn_vmap_again(size, randomness, 0); }

int64_t cn_vmap_again(int64_t size, cn_vmap_randomness randomness, int64_t vmap)
{
  static _Atomic uint64_t next = 1;
  cn_state *st = cni_state();
  if (st->err) return st->err;
  if (size < 0 || randomness < CN_RANDOM_ERROR || randomness > CN_RANDOM_SAME)
    return cni_fail(CN_ERR_VALUE, "vmap: a batch has no negative size, and randomness is error, different or same");
  cni_vmap *v = cni_alloc(sizeof *v);
  if (!v) return CN_ERR_MEMORY;
  *v = (cni_vmap){vmap > 0 ? (uint64_t)vmap : atomic_fetch_add(&next, 1), size, (int)randomness, st->vmap};
  st->vmap = v;
  st->modes |= CNI_MODE_BATCH;
  return (int64_t)v->id;
}

int cn_vmap_end(int64_t id)
{
  cn_state *st = cni_state();
  cni_vmap *v = st->vmap;
  if (!v || (int64_t)v->id != id) return cni_fail(CN_ERR_VALUE, "vmap: the innermost one must end first");
  st->vmap = v->outer;
  if (!st->vmap) st->modes &= ~(uint32_t)CNI_MODE_BATCH;
  cni_free(v, sizeof *v);
  return CN_OK;
}

int cn_vmap_depth(void)
{
  int n = 0;
  for (const cni_vmap *v = cni_state()->vmap; v; v = v->outer) n++;
  return n;
}

static int gone(void)
{
  return cni_fail(CN_ERR_VALUE, "vmap: a tensor that stands for one example of a batch was used outside of the vmap "
                                "that made it; return it from the function instead");
}

static const cni_vmap *vmap_of(uint64_t id)
{
  const cni_vmap *v = cni_state()->vmap;
  while (v && v->id != id) v = v->outer;
  if (!v) gone();
  return v;
}

/* ---- examples ---- */

bool cn_is_batched(const cn_tensor *t) { return t && t->batch; }
bool cn_is_batched_in(const cn_tensor *t, int64_t vmap)
{
  while (t && t->batch && (int64_t)t->batch_level != vmap) t = t->batch;
  return t && t->batch;
}

cn_tensor *cn_batched(cn_tensor *t, int64_t dim, int64_t id)
{
  const cni_vmap *v = t && !cn_err() ? vmap_of((uint64_t)id) : NULL;
  if (!v) return NULL;
  if (dim < -t->d.ndim || dim >= t->d.ndim || t->d.weak) {
    cni_fail(CN_ERR_INDEX, "vmap: dimension %lld is out of range for a tensor of %d dimensions", (long long)dim,
             (int)t->d.ndim);
    return NULL;
  }
  if (dim < 0) dim += t->d.ndim;
  if (t->d.shape[dim] != v->size) {
    cni_fail(CN_ERR_SHAPE, "vmap: a batch of %lld examples was expected, dimension %lld has %lld", (long long)v->size,
             (long long)dim, (long long)t->d.shape[dim]);
    return NULL;
  }
  if (dim) t = cni_batch_to_front(t, dim);
  return t ? cni_scope_add(cni_tensor_batched(t, v->id)) : NULL;
}

static cn_tensor *expanded(cn_tensor *t, int64_t size)
{
  int64_t shape[CN_MAX_DIMS] = {size};
  if (!t) return NULL;
  if (t->d.ndim >= CN_MAX_DIMS) {
    cni_fail(CN_ERR_SHAPE, "vmap: a batch of tensors of %d dimensions has too many", (int)t->d.ndim);
    return NULL;
  }
  memcpy(shape + 1, t->d.shape, (size_t)t->d.ndim * sizeof *shape);
  return cn_expand(cn_unsqueeze(t, 0), shape, (size_t)t->d.ndim + 1);
}

/* All examples of that vmap, as first dim. Examples of inner vmaps stay such. */
static cn_tensor *taken(cn_tensor *t, const cni_vmap *v)
{
  if (!cn_is_batched_in(t, (int64_t)v->id)) return expanded(t, v->size);
  if (t->batch_level == v->id) return t->batch;
  cn_tensor *inner = taken(t->batch, v), *swapped = inner ? cn_transpose(inner, 0, 1) : NULL;
  return swapped ? cni_scope_add(cni_tensor_batched(swapped, t->batch_level)) : NULL;
}

cn_tensor *cni_batch_taken(cn_tensor *t, uint64_t id)
{
  const cni_vmap *v = t && !cn_err() ? vmap_of(id) : NULL;
  return v ? taken(t, v) : NULL;
}

cn_tensor *cn_unbatched(cn_tensor *t, int64_t dim, int64_t id)
{
  cn_tensor *all = cni_batch_taken(t, (uint64_t)id);
  if (!all) return NULL;
  if (dim < -all->d.ndim || dim >= all->d.ndim) {
    cni_fail(CN_ERR_INDEX, "vmap: dimension %lld is out of range for results of %d dimensions", (long long)dim,
             (int)all->d.ndim - 1);
    return NULL;
  }
  if (dim < 0) dim += all->d.ndim;
  return dim ? cn_movedim(all, (const int64_t[]){0}, 1, &dim, 1) : all;
}

static cn_tensor *spread(cn_tensor *t, const cni_vmap *v)
{
  if (!v || !t) return t;
  t = spread(t, v->outer);
  if (!t || cn_is_batched_in(t, (int64_t)v->id)) return t;
  cn_tensor *all = taken(t, v);
  return all ? cni_scope_add(cni_tensor_batched(all, v->id)) : NULL;
}

cn_tensor *cn_batched_all(cn_tensor *t) { return cn_err() ? NULL : spread(t, cni_state()->vmap); }

/* ---- what rules share ---- */

cn_tensor *cni_batch_of(const cni_batching *b, int i)
{
  return !b->in[i] || b->is[i] ? b->in[i] : expanded(b->in[i], b->size);
}

cn_tensor *cni_batch_expanded(const cni_batching *b, cn_tensor *t) { return expanded(t, b->size); }

cn_tensor *cni_batch_lined_up(cn_tensor *t, int rank)
{
  for (int k = t ? t->d.ndim - 1 : rank; k < rank && t; k++) t = cn_unsqueeze(t, 1);
  return t;
}

cn_tensor *cni_batch_shaped(cn_tensor *t, const int64_t *front, int nfront, int from)
{
  int64_t shape[CN_MAX_DIMS + 2];
  if (!t) return NULL;
  int n = nfront + t->d.ndim - from;
  memcpy(shape, front, (size_t)nfront * sizeof *shape);
  memcpy(shape + nfront, t->d.shape + from, (size_t)(t->d.ndim - from) * sizeof *shape);
  return cn_reshape(t, shape, (size_t)n);
}

cn_tensor *cni_batch_fold(cn_tensor *t)
{
  return t ? cni_batch_shaped(t, (const int64_t[]){t->d.shape[0] * t->d.shape[1]}, 1, 2) : NULL;
}

cn_tensor *cni_batch_unfold(const cni_batching *b, cn_tensor *t)
{
  int64_t rest = !t ? 0 : b->size ? t->d.shape[0] / b->size : b->c->spec[0].shape[0];
  return cni_batch_shaped(t, (const int64_t[]){b->size, rest}, 2, 1);
}

/* b->args with b->in in the places of the tensors. */
static void fill_in(cni_batching *b)
{
  const cni_opinfo *info = b->info;
  for (int i = 0, k = 0; i < info->ntensors; i++) {
    cn_value *v = &b->args[info->tensors[i]];
    if (info->params[info->tensors[i]].list) {
      for (int e = 0; e < v->n; e++) b->room[k + e] = b->in[k + e];
      v->u.ts = b->room + k;
      k += v->n;
    } else *v = cn_v_tensor(b->in[k++]);
  }
}

int cni_batch_call(cni_batching *b)
{
  int n = b->c->nout;
  if (cn_err()) return cn_err();
  fill_in(b);
  int status = cni_apply(b->info, b->args, b->c->nargs, b->dest, b->out, &n);
  for (int i = 0; !status && i < n; i++) {
    if (b->dest) cni_tensor_release(b->out[i]);
    else if (b->out[i] && !(b->out[i] = cni_scope_add(b->out[i]))) status = CN_ERR_MEMORY;
    if (b->dest) b->out[i] = NULL;
  }
  return status;
}

/* ---- the way of a call ---- */

static int dynamic(const cni_opinfo *info)
{
  return cni_fail(CN_ERR_UNSUPPORTED, "vmap: It looks like you're attempting to use %s, an operation that has dynamic "
                  "shape: the size of its result depends on values, and differs between examples. We don't support "
                  "that; compute with a mask (where) instead", info->name);
}

int cni_batch_refused(cni_batching *b) { return dynamic(b->info); }

typedef struct rule {
  cni_batch_rule run;
} rule;

static const rule rules[CNI_OP_COUNT_BUILTIN] = {
#define WAY(op, way) [CNI_OP_##op] = {cni_batch_##way},
#define RULE(op) [CNI_OP_##op] = {cni_batch_op_##op},
#include "batch_rules.def"
#undef WAY
#undef RULE
};

bool cni_batch_has_rule(const cni_opinfo *info) { return info->id < CNI_OP_COUNT_BUILTIN && rules[info->id].run; }

static int refuse(cni_batching *b)
{
  (void)b;
  return CN_REFUSED;
}

/* What has no rule is taken apart, or runs example by example. */
static cni_batch_rule rule_of(const cni_opinfo *info)
{
  if (cni_batch_has_rule(info)) return rules[info->id].run;
  if (info->row->pointwise) return cni_batch_each;
  return info->row->decompose && !(info->row->flags & CN_OP_RANDOM) ? refuse : cni_batch_loop;
}

static bool of(const cn_tensor *t, const cni_vmap *v) { return t && t->batch && t->batch_level == v->id; }

int cni_batch_innermost(const cni_vmap **vmap, cn_tensor *const *tensors, size_t n)
{
  bool any = false;
  for (const cni_vmap *v = cni_state()->vmap; v; v = v->outer)
    for (size_t i = 0; i < n; i++)
      if (of(tensors[i], v)) {
        *vmap = v;
        return CN_OK;
      }
  for (size_t i = 0; i < n; i++) any |= tensors[i] && tensors[i]->batch;
  *vmap = NULL;
  return any ? gone() : CN_OK;
}

int cni_batch_find(const cni_vmap **vmap, const cni_applying *a, const cn_state *st)
{
  const cni_vmap *dest = NULL;
  int status = cni_batch_innermost(vmap, a->c.in, (size_t)a->c.nin);
  if (!status && a->dest && a->dest->batch) status = cni_batch_innermost(&dest, &a->dest, 1);
  for (const cni_vmap *v = st->vmap; v && dest; v = v->outer) {
    if (v != dest && v != *vmap) continue;
    *vmap = v;
    break;
  }
  if (a->info->row->flags & CN_OP_RANDOM && st->vmap) *vmap = st->vmap;
  return status;
}

static int cannot_write(const cni_applying *a)
{
  return cni_fail(CN_ERR_VALUE, "vmap: %s in place is not possible: what is written to is one tensor for all examples, "
                  "and what is written differs between them (there is a tensor with more elements than it); use the op "
                  "that is not in place, or make the tensor with new_zeros or zeros_like of a mapped one",
                  a->info->name);
}

/* Numbers of examples without dims count less in the type of a result than those of tensors with dims, but a batch of
 * them has one: they are cast first, where both are of a kind. */
static cn_tensor *settle_type(const cn_call *c, cn_tensor *t, const cn_tensor *one)
{
  int widest = 0;
  if (one->d.ndim || !cni_dtype_computes(one->d.dtype)) return t;
  for (int i = 0; i < c->nin; i++) {
    const cn_tensor *o = c->in[i];
    bool beside = o && o->d.ndim && cni_dtype_category(o->d.dtype) == cni_dtype_category(one->d.dtype);
    if (beside && (!widest || cni_dtype_size(o->d.dtype) > cni_dtype_size(widest))) widest = o->d.dtype;
  }
  return widest && widest != one->d.dtype ? cn_cast(t, (cn_dtype)widest) : t;
}

/* The call's tensors as batches of this vmap. */
static int open_up(cni_batching *b, const cni_applying *a)
{
  bool each = b->info->row->pointwise && rule_of(b->info) == cni_batch_each;
  for (int i = 0; i < a->c.nin; i++) {
    cn_tensor *t = a->c.in[i];
    b->is[i] = t && t->batch && t->batch_level == b->vmap->id;
    b->in[i] = b->is[i] ? t->batch : t;
    if (b->is[i] && each && t != a->dest) b->in[i] = settle_type(&a->c, b->in[i], t);
    if (t && !b->in[i]) return cn_err();
  }
  if (!a->dest) return CN_OK;
  bool mine = a->dest->batch && a->dest->batch_level == b->vmap->id;
  for (int i = 0; mine && a->c.nout > 1 && i < a->c.nout; i++) mine = b->is[i];
  b->dest = mine ? a->dest->batch : NULL;
  return mine ? CN_OK : cannot_write(a);
}

/* Results have the shape of one example behind the batch. */
static cn_tensor *fit(const cni_batching *b, cn_tensor *t, const cn_spec *s)
{
  int64_t shape[CN_MAX_DIMS + 1] = {b->size};
  /* Nothing was inferred: rules of composites, and of what depends on data, are exact. */
  if (b->info->row->flags & CN_OP_COMPOSITE || s->data_dependent) return t;
  memcpy(shape + 1, s->shape, (size_t)s->ndim * sizeof *shape);
  if (t && !cni_same_shape(t->d.ndim, t->d.shape, s->ndim + 1, shape))
    t = cn_reshape(t, shape, (size_t)s->ndim + 1);
  return t && t->d.dtype != s->dtype ? cn_cast(t, (cn_dtype)s->dtype) : t;
}

/* What the rule left in b->out becomes the results of the call: owned. */
static int close_up(cni_batching *b, cni_applying *a, size_t depth)
{
  cn_call *c = &a->c;
  if (a->dest) { /* a rule that knows no destination leaves a result: it is copied */
    if (b->out[0] && !cn_copy_(b->dest, fit(b, b->out[0], &c->spec[0]))) return cn_err();
    for (int i = 0; i < c->nout; i++) c->out[i] = cni_tensor_keep(cni_dest(a, i));
    return CN_OK;
  }
  for (int i = 0; i < c->nout; i++) {
    if (!b->out[i]) continue;
    cn_tensor *all = fit(b, b->out[i], &c->spec[i]);
    all = all ? cni_scope_take_inside(depth, all) : NULL;
    c->out[i] = all ? cni_tensor_batched(all, b->vmap->id) : NULL;
    cni_tensor_release(all);
    if (!c->out[i]) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* Random numbers: refused, or drawn once (false: the call then runs as it is, without this vmap). */
static int check_random(const cni_applying *a, const cni_vmap *v, bool *once)
{
  bool any = false;
  *once = false;
  if (!(a->info->row->flags & CN_OP_RANDOM)) return CN_OK;
  if (v->randomness == CN_RANDOM_ERROR)
    return cni_fail(CN_ERR_VALUE, "vmap: called random operation %s while in randomness error mode. Please either use "
                    "the 'same' or 'different' randomness flags on vmap or perform the randomness operation out of "
                    "vmap", a->info->name);
  for (int i = 0; i < a->c.nin; i++) any |= a->c.in[i] && a->c.in[i]->batch && a->c.in[i]->batch_level == v->id;
  *once = v->randomness == CN_RANDOM_SAME && !any;
  return CN_OK;
}

/* An op's parts have the op's results, but not always its gradients: what is recorded is not taken apart. */
static bool may_take_apart(const cni_batching *b)
{
  const cn_op *row = b->info->row;
  bool recorded = !cni_state()->no_grad && !(row->flags & (CN_OP_NO_GRAD | CN_OP_COMPOSITE));
  for (int i = 0; i < b->c->nin; i++)
    if (recorded && b->c->in[i] && cn_needs_grad(b->c->in[i])) return false;
  return row->decompose != NULL;
}

static int run_rule(cni_batching *b, cni_applying *a, bool once)
{
  size_t depth = cni_scope_push();
  int status = open_up(b, a);
  cni_batch_rule run = rule_of(b->info);
  if (b->info->row->flags & CN_OP_RANDOM && b->vmap->randomness == CN_RANDOM_SAME) run = cni_batch_loop;
  if (!status && once) {
    int n = a->c.nout;
    status = cni_apply(a->info, a->c.args, a->c.nargs, a->dest, a->c.out, &n);
  } else if (!status) {
    status = run(b);
    if (status == CN_REFUSED && !may_take_apart(b)) status = cni_batch_loop(b);
    if (!status) status = cn_err();
    if (!status) status = close_up(b, a, depth);
  }
  cni_scope_pop(depth);
  if (status) cni_drop_results(&a->c);
  return status;
}

int cni_batch_run(cni_applying *a, const cni_vmap *v)
{
  cn_state *st = cni_state();
  cn_call *c = &a->c;
  bool once, composite = (a->info->row->flags & CN_OP_COMPOSITE) != 0;
  cni_vmap *inner = st->vmap;
  int status = check_random(a, v, &once);
  if (!status && !composite) status = a->info->row->infer(c);
  if (status) return status;
  for (int i = 0; i < c->nout && !composite; i++)
    if (c->spec[i].data_dependent && !cni_batch_has_rule(a->info)) return dynamic(a->info);
  size_t count = (size_t)(c->nin + 1), results = (size_t)(c->nout + 1);
  cn_tensor *few[3 * FEW + 1], **room = few;
  bool is_few[FEW], *is = is_few;
  cn_value args[CN_MAX_ARGS];
  size_t bytes = (2 * count + results) * sizeof *room;
  if (2 * count + results > sizeof few / sizeof *few && !(room = cni_alloc(bytes))) return CN_ERR_MEMORY;
  if (count > FEW && !(is = cni_alloc(count))) status = CN_ERR_MEMORY;
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  cni_batching b = {.info = a->info, .c = c, .vmap = v, .size = v->size, .in = room, .is = is, .args = args,
                    .room = room + count, .out = room + 2 * count};
  memset(b.out, 0, results * sizeof *b.out);
  st->vmap = v->outer;
  if (!st->vmap) st->modes &= ~(uint32_t)CNI_MODE_BATCH;
  if (!status) status = run_rule(&b, a, once);
  st->vmap = inner;
  st->modes |= CNI_MODE_BATCH;
  if (is && is != is_few) cni_free(is, count);
  if (room != few) cni_free(room, bytes);
  return status;
}
