/* autocast.c: see autocast.h. Which op has which rule stands in its signature (amp_low, amp_f32, amp_wide).
 *
 * Place in the flow: before apply's own door, because the types of the inputs decide what infer says. Casts are ops, so
 * gradients flow through them. Invariant: float64 and integers are never touched; inside the op autocast is off. */
#include "autocast.h"

#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "apply.h"
#include "hot.h"

/* Casts of leaves that require a gradient: a weight used at every step of a sequence is cast once. */
struct cni_cast_cache {
  size_t n, cap;
  struct cast {
    cn_tensor *from, *to; /* owned */
    uint64_t version;     /* of from when it was cast */
  } * v;
};

/* ---- switching ---- */

static void drop_casts(cn_state *st)
{
  struct cni_cast_cache *c = st->casts;
  st->casts = NULL;
  if (!c) return;
  for (size_t i = 0; i < c->n; i++) {
    cni_tensor_release(c->v[i].from);
    cni_tensor_release(c->v[i].to);
  }
  cni_free(c->v, c->cap * sizeof *c->v);
  cni_free(c, sizeof *c);
}

static void set_types(cn_state *st, cn_dtype host, cn_dtype devices)
{
  st->autocast[0] = host;
  st->autocast[1] = devices;
  st->modes = host || devices ? st->modes | CNI_MODE_AUTOCAST : st->modes & ~(uint32_t)CNI_MODE_AUTOCAST;
}

int cn_autocast_begin_on(cn_autocast_where where, cn_dtype dtype)
{
  cn_state *st = cni_state();
  int saved = (int)st->autocast[0] | (int)st->autocast[1] << 8;
  if (dtype != CN_DTYPE_NONE && dtype != CN_BF16 && dtype != CN_F16)
    cni_fail(CN_ERR_DTYPE, "autocast: computes in bfloat16 or float16, not %s", cn_dtype_name(dtype));
  else
    set_types(st, where == CN_AUTOCAST_DEVICES ? st->autocast[0] : dtype,
              where == CN_AUTOCAST_CPU ? st->autocast[1] : dtype);
  st->autocast_depth++;
  return saved;
}

int cn_autocast_begin(cn_dtype dtype) { return cn_autocast_begin_on(CN_AUTOCAST_ALL, dtype); }

void cn_autocast_end(int saved)
{
  cn_state *st = cni_state();
  set_types(st, (cn_dtype)(saved & 0xff), (cn_dtype)(saved >> 8 & 0xff));
  if (st->autocast_depth > 0 && --st->autocast_depth == 0) drop_casts(st);
}

cn_dtype cn_autocast_dtype_on(cn_autocast_where where)
{
  const cn_dtype *types = cni_state()->autocast;
  return where == CN_AUTOCAST_DEVICES || (where == CN_AUTOCAST_ALL && !types[0]) ? types[1] : types[0];
}

cn_dtype cn_autocast_dtype(void) { return cn_autocast_dtype_on(CN_AUTOCAST_ALL); }

/* ---- casting ---- */

static bool castable(const cn_tensor *t)
{
  return t && !t->d.weak && (t->d.dtype == CN_F32 || t->d.dtype == CN_F16 || t->d.dtype == CN_BF16);
}

static cn_tensor *cached(const cn_state *st, const cn_tensor *t, int dtype)
{
  for (size_t i = 0; st->casts && i < st->casts->n; i++) {
    const struct cast *c = &st->casts->v[i];
    if (c->from == t && c->to->d.dtype == dtype && c->version == cni_writes(t)) return c->to;
  }
  return NULL;
}

static int remember(cn_state *st, cn_tensor *from, cn_tensor *to)
{
  if (!st->casts && !(st->casts = cni_alloc_zero(sizeof *st->casts))) return CN_ERR_MEMORY;
  struct cni_cast_cache *c = st->casts;
  if (cni_grow((void **)&c->v, &c->cap, c->n + 1, sizeof *c->v)) return CN_ERR_MEMORY;
  c->v[c->n++] = (struct cast){cni_tensor_keep(from), cni_tensor_keep(to), cni_writes(from)};
  return CN_OK;
}

/* t in that type; borrowed. NULL with the error set. */
static cn_tensor *cast(cn_state *st, cn_tensor *t, int dtype)
{
  if (!castable(t) || t->d.dtype == dtype) return t;
  bool keep = !st->no_grad && !st->capture && t->d.dtype == CN_F32 && t->node && cn_is_leaf(t);
  cn_tensor *to = keep ? cached(st, t, dtype) : NULL;
  if (to) return to;
  to = cn_cast(t, (cn_dtype)dtype);
  return to && keep && remember(st, t, to) ? NULL : to;
}

/* The widest of the low and single types among the inputs. */
static int widest(const cni_opinfo *info, const cn_value *args)
{
  int found = 0;
  for (int i = 0; i < info->ntensors; i++) {
    const cn_value *v = &args[info->tensors[i]];
    int n = v->tag == CN_V_TENSORS ? v->n : v->tag == CN_V_TENSOR;
    for (int k = 0; k < n; k++) {
      const cn_tensor *t = v->tag == CN_V_TENSORS ? v->u.ts[k] : v->u.t;
      if (castable(t)) found = found ? (int)cn_promote_types((cn_dtype)found, (cn_dtype)t->d.dtype) : t->d.dtype;
    }
  }
  return found;
}

static bool on_host(const cni_opinfo *info, const cn_value *args)
{
  for (int i = 0; i < info->ntensors; i++) {
    const cn_value *v = &args[info->tensors[i]];
    const cn_tensor *t = v->tag == CN_V_TENSOR ? v->u.t : v->tag == CN_V_TENSORS && v->n ? v->u.ts[0] : NULL;
    if (t && !t->d.weak && t->d.device != CN_CPU) return false;
  }
  return true;
}

/* Casts the tensors among args; lists of them come to lie in room. */
static int cast_all(cn_state *st, const cni_opinfo *info, cn_value *args, cn_tensor **room, int dtype)
{
  for (int i = 0; i < info->ntensors; i++) {
    cn_value *v = &args[info->tensors[i]];
    if (v->tag == CN_V_TENSOR && !(v->u.t = cast(st, v->u.t, dtype))) return cn_err();
    if (v->tag != CN_V_TENSORS) continue;
    cn_tensor *const *from = v->u.ts;
    v->u.ts = room;
    for (int k = 0; k < v->n; k++, room++)
      if (!(*room = cast(st, from[k], dtype)) && from[k]) return cn_err();
  }
  return CN_OK;
}

/* Ops that can be told the type of their result read what they are given, and no copy of it is made; as PyTorch has it
 * a type that the caller named stays. False: the op is none of these, or its input is not to be touched. */
static bool tell_type(const cni_opinfo *info, cn_value *args, int dtype)
{
  const cn_value *x = info->ntensors == 1 ? &args[info->tensors[0]] : NULL;
  if (!x || !info->dtype_at || x->tag != CN_V_TENSOR || !castable(x->u.t) || x->u.t->d.dtype == dtype) return false;
  cn_value *told = &args[info->dtype_at - 1];
  if (told->tag == CN_V_NONE) *told = cn_v_int(dtype);
  return true;
}

static size_t listed(const cni_opinfo *info, const cn_value *args)
{
  size_t n = 0;
  for (int i = 0; i < info->ntensors; i++)
    if (args[info->tensors[i]].tag == CN_V_TENSORS) n += (size_t)args[info->tensors[i]].n;
  return n;
}

bool cni_autocast_on(cn_device device)
{
  const cn_state *st = cni_state();
  return (st->modes & CNI_MODE_AUTOCAST) && st->autocast[device == CN_CPU ? 0 : 1] != CN_DTYPE_NONE;
}

int cni_autocast_rule(const cni_opinfo *info, const cn_value *args)
{
  if (!info->autocast[0] && !info->autocast[1]) return CNI_AMP_NONE;
  int where = on_host(info, args) ? 0 : 1;
  return cni_state()->autocast[where] ? info->autocast[where] : CNI_AMP_NONE;
}

int cni_autocast(int rule, const cni_opinfo *info, const cn_value *args, int nargs, cn_tensor **out, int *nout)
{
  cn_state *st = cni_state();
  int low = (int)st->autocast[on_host(info, args) ? 0 : 1];
  int dtype = rule == CNI_AMP_LOW ? low : rule == CNI_AMP_F32 ? CN_F32 : widest(info, args);
  cn_value full[CN_MAX_ARGS];
  size_t n = listed(info, args);
  cn_tensor **room = n ? cni_alloc(n * sizeof *room) : NULL;
  if (n && !room) return CN_ERR_MEMORY;
  st->modes &= ~(uint32_t)CNI_MODE_AUTOCAST;
  size_t depth = cni_scope_push();
  memcpy(full, args, (size_t)nargs * sizeof *full);
  bool told = rule == CNI_AMP_F32 && tell_type(info, full, dtype);
  int status = dtype && !told ? cast_all(st, info, full, room, dtype) : CN_OK;
  if (!status) status = cni_apply(info, full, nargs, NULL, out, nout);
  cni_scope_pop(depth);
  st->modes |= CNI_MODE_AUTOCAST;
  cni_free(room, n * sizeof *room);
  return status;
}
