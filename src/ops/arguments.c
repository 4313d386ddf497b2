/* arguments.c: fits given values to a signature: kinds are checked, defaults filled in, one number made a list. And
 * signatures and arguments as objects, for what is made by name (ext/signature.h).
 *
 * Place in the flow: before apply, for calls that come with generic values. Invariant: a completed argument has the
 * tag that its parameter's type says, or is CN_V_NONE where that may be. */
#include <cairn/ext/signature.h>
#include <string.h>

#include "base/alloc.h"
#include "complex.h"
#include "table.h"
#include "tensor/tensor.h"

static bool is_list(const cn_value *v)
{
  return v->tag == CN_V_TENSORS || v->tag == CN_V_INTS || v->tag == CN_V_FLOATS;
}

static bool is_number(const cn_value *v)
{
  return v->tag == CN_V_FLOAT || v->tag == CN_V_INT || v->tag == CN_V_BOOL;
}

/* A complex number is a list of two, which rules of ops read that take one. */
static bool is_complex_number(const cn_value *v) { return v->tag == CN_V_FLOATS && v->n == 2; }

static bool fits(const cni_param *p, const cn_value *v)
{
  if (is_list(v) && (v->n < 0 || (v->n && !v->u.is))) return false;
  if (v->tag == CN_V_NONE) return p->optional || (p->has_default && p->def.tag != CN_V_NONE) || p->list;
  if (p->text_too && v->tag == CN_V_STR) return true;
  if (p->list)
    return p->type == CNI_T_TENSOR ? v->tag == CN_V_TENSORS
           : p->type == CNI_T_INT  ? v->tag == CN_V_INTS || v->tag == CN_V_INT
                                   : v->tag == CN_V_FLOATS || is_number(v);
  switch (p->type) {
  case CNI_T_TENSOR: return v->tag == CN_V_TENSOR || is_number(v);
  case CNI_T_INT: return v->tag == CN_V_INT || v->tag == CN_V_BOOL;
  case CNI_T_FLOAT: return is_number(v);
  case CNI_T_SCALAR: return is_number(v) || is_complex_number(v);
  case CNI_T_BOOL: return v->tag == CN_V_BOOL || v->tag == CN_V_INT;
  case CNI_T_STR: return v->tag == CN_V_STR;
  case CNI_T_DTYPE:
  case CNI_T_DEVICE: return v->tag == CN_V_INT;
  case CNI_T_MODULE: return v->tag == CN_V_MODULE;
  }
  return false;
}

/* Numbers get the tag that the generated functions would give them, which is what rules look at. */
static void settle(const cni_param *p, cn_value *v)
{
  if (p->list && !p->optional && v->tag == CN_V_NONE) { /* an empty list */
    v->tag = p->type == CNI_T_TENSOR ? CN_V_TENSORS : p->type == CNI_T_INT ? CN_V_INTS : CN_V_FLOATS;
    v->n = 0;
  }
  if (p->list || v->tag == CN_V_NONE || v->tag == CN_V_FLOAT) return;
  if (p->type == CNI_T_INT) *v = cn_v_int(v->u.i);
  else if (p->type == CNI_T_BOOL) *v = cn_v_bool(v->u.i != 0);
  else if (p->type == CNI_T_FLOAT) *v = cn_v_float((double)v->u.i);
}

/* One number for an int[N] or float[N], alone or as a list of one, stands for all N; for an int[] it is a list of
 * one. */
static void widen(const cni_param *p, cn_value *v, cni_few *room)
{
  int n = p->fixed ? p->fixed : 1;
  bool ints = p->type == CNI_T_INT;
  int64_t one = is_list(v) ? (ints ? v->u.is[0] : 0) : v->u.i;
  double number = v->tag == CN_V_FLOATS ? v->u.fs[0] : v->tag == CN_V_FLOAT ? v->u.f : (double)one;
  for (int i = 0; i < n; i++)
    if (ints) room->i[i] = one;
    else room->f[i] = number;
  *v = ints ? cn_v_ints(room->i, (size_t)n) : cn_v_floats(room->f, (size_t)n);
}

int cni_fit_list(const cni_opinfo *info, const cni_param *p, cn_value *v, cni_few *room)
{
  if (p->fixed && p->optional && is_list(v) && !v->n) *v = cn_v_none(); /* () */
  if (is_list(v) && v->n && !v->u.is)
    return cni_fail(CN_ERR_TYPE, "%s: the list '%s' is NULL, but has %d numbers", info->name, p->name, v->n);
  if (is_number(v) || (is_list(v) && v->n == 1 && p->fixed > 1)) widen(p, v, room);
  if (!p->fixed || !is_list(v)) return CN_OK;
  if (v->n != p->fixed)
    return cni_fail(CN_ERR_VALUE, "%s: '%s' takes %d numbers, not %d", info->name, p->name, p->fixed, v->n);
  for (int k = 0; v->tag == CN_V_INTS && k < v->n; k++)
    if (CNI_UNLIKELY(v->u.is[k] == CN_ZERO))
      return cni_fail(CN_ERR_VALUE, "%s: CN_ZERO has no meaning inside of a list such as '%s'; write 0", info->name,
                      p->name);
  return CN_OK;
}

/* Types and devices are ints: a larger number must not become one of them by losing its upper half. */
static int check_number(const cni_opinfo *info, const cni_param *p, const cn_value *v)
{
  if (v->tag != CN_V_INT) return CN_OK;
  if (p->type == CNI_T_INT && v->u.i <= CN_NONE)
    return cni_fail(CN_ERR_VALUE, "%s: '%s' is %lld, a number that stands for none or zero in C", info->name, p->name,
                    (long long)v->u.i);
  if ((p->type == CNI_T_DTYPE || p->type == CNI_T_DEVICE) && v->u.i != (int32_t)v->u.i)
    return cni_fail(CN_ERR_VALUE, "%s: '%s' is %lld, which is none", info->name, p->name, (long long)v->u.i);
  return CN_OK;
}

int cni_complete(const cni_opinfo *info, cn_value *full, cni_few *room, const cn_value *args, size_t nargs)
{
  if (nargs > (size_t)info->nparams)
    return cni_fail(CN_ERR_TYPE, "%s: %zu arguments given, it takes %d", info->name, nargs, info->nparams);
  for (int i = 0; i < info->nparams; i++) {
    const cni_param *p = &info->params[i];
    bool given = (size_t)i < nargs;
    if (!given && !p->has_default && !p->optional)
      return cni_fail(CN_ERR_TYPE, "%s: argument '%s' is missing", info->name, p->name);
    full[i] = given ? args[i] : p->def;
    if (!fits(p, &full[i]))
      return cni_fail(CN_ERR_TYPE, "%s: argument '%s' is missing or of the wrong kind", info->name, p->name);
    if (full[i].tag == CN_V_NONE && p->has_default && !p->optional) full[i] = p->def;
    settle(p, &full[i]);
    if (p->type == CNI_T_SCALAR && !p->list && is_complex_number(&full[i]) && !cni_complex_numbers(info))
      return cni_fail(CN_ERR_TYPE, "%s: argument '%s' must be a real number", info->name, p->name);
    int status = p->list && p->type != CNI_T_TENSOR ? cni_fit_list(info, p, &full[i], &room[i])
                                                    : check_number(info, p, &full[i]);
    if (status) return status;
  }
  return CN_OK;
}

/* ---- as objects ---- */

struct cn_signature {
  cni_opinfo info;
};

cn_signature *cn_signature_parse(const char *text)
{
  cn_signature *s = cni_alloc_zero(sizeof *s);
  if (s && cni_signature_parse(&s->info, text)) {
    cni_free(s, sizeof *s);
    return NULL;
  }
  return s;
}

void cn_signature_free(cn_signature *s)
{
  if (!s) return;
  cni_free(s->info.params, (size_t)s->info.nparams * sizeof *s->info.params);
  cni_free(s, sizeof *s);
}

const char *cn_signature_name(const cn_signature *s) { return s->info.name; }
const char *cn_signature_result(const cn_signature *s) { return s->info.overload; }
int cn_signature_size(const cn_signature *s) { return s->info.nparams; }

int cn_signature_param(cn_op_param *param, const cn_signature *s, int i)
{
  if (i < 0 || i >= s->info.nparams)
    return cni_fail(CN_ERR_INDEX, "%s: there is no parameter %d", s->info.name, i);
  memset(param, 0, sizeof *param);
  cni_describe_param(param, &s->info.params[i]);
  return CN_OK;
}

int cn_signature_find(const cn_signature *s, const char *name)
{
  for (int i = 0; i < s->info.nparams; i++)
    if (!strcmp(s->info.params[i].name, name)) return i;
  return -1;
}

struct cn_args {
  const cn_signature *signature;
  size_t size; /* of this block: the struct, then what lists and texts hold */
  cn_value v[CN_MAX_ARGS];
  int64_t room[]; /* the copies */
};

static size_t held(const cn_value *v)
{
  size_t bytes = v->tag == CN_V_STR                               ? strlen(v->u.s) + 1
                 : v->tag == CN_V_INTS || v->tag == CN_V_FLOATS   ? (size_t)v->n * sizeof(int64_t)
                 : v->tag == CN_V_TENSORS                         ? (size_t)v->n * sizeof(cn_tensor *)
                                                                  : 0;
  return (bytes + sizeof(int64_t) - 1) / sizeof(int64_t);
}

/* Makes v point to its own copy in room of what it points to. */
static void hold(cn_value *v, int64_t *room)
{
  if (v->tag == CN_V_STR) v->u.s = memcpy(room, v->u.s, strlen(v->u.s) + 1);
  else if (v->tag == CN_V_INTS || v->tag == CN_V_FLOATS) {
    if (v->n) memcpy(room, v->u.is, (size_t)v->n * sizeof *room);
    v->u.is = room;
  } else if (v->tag == CN_V_TENSORS) {
    if (v->n) memcpy(room, v->u.ts, (size_t)v->n * sizeof(cn_tensor *));
    v->u.ts = (cn_tensor *const *)room;
    for (int i = 0; i < v->n; i++) cni_tensor_keep(v->u.ts[i]);
  } else if (v->tag == CN_V_TENSOR) cni_tensor_keep(v->u.t);
}

static cn_args *args_of(const cn_signature *s, const cn_value *values)
{
  size_t words = 0;
  for (int i = 0; i < s->info.nparams; i++) words += held(&values[i]);
  size_t size = sizeof(cn_args) + words * sizeof(int64_t);
  cn_args *a = cni_alloc(size);
  if (!a) return NULL;
  a->signature = s;
  a->size = size;
  int64_t *room = a->room;
  for (int i = 0; i < s->info.nparams; i++) {
    a->v[i] = values[i];
    hold(&a->v[i], room);
    room += held(&values[i]);
  }
  return a;
}

cn_args *cn_args_new(const cn_signature *s, const cn_value *given, size_t n)
{
  cn_value full[CN_MAX_ARGS];
  cni_few room[CN_MAX_ARGS];
  return cni_complete(&s->info, full, room, given, n) ? NULL : args_of(s, full);
}

cn_args *cn_args_copy(const cn_args *a) { return args_of(a->signature, a->v); }

void cn_args_free(cn_args *a)
{
  if (!a) return;
  for (int i = 0; i < a->signature->info.nparams; i++) {
    if (a->v[i].tag == CN_V_TENSOR) cni_tensor_release(a->v[i].u.t);
    for (int k = 0; a->v[i].tag == CN_V_TENSORS && k < a->v[i].n; k++) cni_tensor_release(a->v[i].u.ts[k]);
  }
  cni_free(a, a->size);
}

const cn_signature *cn_args_signature(const cn_args *a) { return a->signature; }
const cn_value *cn_args_values(const cn_args *a) { return a->v; }

const cn_value *cn_args_get(const cn_args *a, const char *name)
{
  int i = cn_signature_find(a->signature, name);
  return i < 0 ? NULL : &a->v[i];
}

static uint64_t mix(uint64_t h, uint64_t word) { return (h ^ word) * 0x9e3779b97f4a7c15u ^ h >> 29; }

static uint64_t mix_value(uint64_t h, const cn_value *v)
{
  h = mix(h, (uint64_t)v->tag << 32 | (uint32_t)v->n);
  if (v->tag == CN_V_STR)
    for (const char *s = v->u.s; s && *s; s++) h = mix(h, (unsigned char)*s);
  else if (v->tag == CN_V_INTS || v->tag == CN_V_FLOATS)
    for (int i = 0; i < v->n; i++) h = mix(h, (uint64_t)v->u.is[i]); /* both have 8 bytes */
  else h = mix(h, (uint64_t)v->u.i);
  return h;
}

uint64_t cn_args_hash(const cn_args *a, const char *without)
{
  uint64_t h = 0;
  int left = without ? cn_signature_find(a->signature, without) : -1;
  for (int i = 0; i < cn_signature_size(a->signature); i++)
    if (i != left) h = mix_value(h, &a->v[i]);
  return h;
}

int cn_args_set(cn_args **args, const char *name, cn_value value)
{
  cn_args *old = *args;
  int i = cn_signature_find(old->signature, name);
  if (i < 0) return cni_fail(CN_ERR_VALUE, "%s: has no argument '%s'", old->signature->info.name, name);
  cn_value given[CN_MAX_ARGS];
  memcpy(given, old->v, sizeof given);
  given[i] = value;
  cn_args *a = cn_args_new(old->signature, given, (size_t)old->signature->info.nparams);
  if (!a) return cn_err();
  cn_args_free(old);
  *args = a;
  return CN_OK;
}
