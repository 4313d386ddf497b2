/* walk.c: over a module and all below it: lists of parameters, finding by path, modes, moving. See module.h.
 *
 * Invariant: every walk meets a module once, however often it is listed, and in PyTorch's order: own parameters, own
 * buffers, then children. */
#include <cairn/autograd.h>
#include <cairn/graph.h>
#include <cairn/kw.h>
#include <string.h>

#include "module.h"

/* ---- visiting ---- */

typedef struct walk {
  cn_module_fn fn;
  void *payload;
  cn_text path;
  cn_module **seen;
  size_t nseen, seen_cap;
} walk;

static bool seen(const walk *w, const cn_module *m)
{
  for (size_t i = 0; i < w->nseen; i++)
    if (w->seen[i] == m) return true;
  return false;
}

static int step(walk *w, cn_module *m)
{
  if (seen(w, m)) return CN_OK;
  if (cn_grow((void **)&w->seen, &w->seen_cap, w->nseen + 1, sizeof *w->seen)) return CN_ERR_MEMORY;
  w->seen[w->nseen++] = m;
  int status = w->fn(m, w->path.s ? w->path.s : "", w->payload);
  for (size_t i = 0; !status && i < cn_module_nchildren(m); i++) {
    size_t length = w->path.n;
    if (length) cn_text_put(&w->path, ".");
    cn_text_put(&w->path, cn_module_child_name(m, i));
    status = w->path.failed ? CN_ERR_MEMORY : step(w, cn_module_child(m, i));
    w->path.n = length;
    if (w->path.s) w->path.s[length] = 0;
  }
  return status;
}

int cn_module_visit(cn_module *m, cn_module_fn fn, void *payload)
{
  walk w = {.fn = fn, .payload = payload};
  if (!m) return cn_err() ? cn_err() : cn_err_set(CN_ERR_TYPE, "module: missing (NULL)");
  int status = step(&w, m);
  cn_text_free(&w.path);
  cn_free(w.seen, w.seen_cap * sizeof *w.seen);
  return status;
}

/* ---- lists ---- */

typedef struct listing {
  cn_named_list *list;
  int flags;
} listing;

static bool listed(const cn_named_list *list, const cn_tensor *t)
{
  for (size_t i = 0; i < list->n; i++)
    if (list->v[i].tensor == t) return true;
  return false;
}

static int list_slot(listing *l, cn_module *m, const cni_slot *s, const char *path)
{
  if (!s->tensor || s->hidden || !(l->flags & (s->buffer ? CN_BUFFERS : CN_PARAMETERS))) return CN_OK;
  if (!(l->flags & CN_SHARED) && listed(l->list, s->tensor)) return CN_OK;
  if (cn_grow((void **)&l->list->v, &l->list->cap, l->list->n + 1, sizeof *l->list->v)) return CN_ERR_MEMORY;
  cn_text name = {0};
  if (*path) cn_text_putf(&name, "%s.", path);
  cn_text_put(&name, s->name);
  char *text = cn_text_take(&name);
  if (!text) return CN_ERR_MEMORY;
  l->list->v[l->list->n++] = (cn_named){text, s->tensor, m, s->buffer, !s->transient};
  return CN_OK;
}

static int list_module(cn_module *m, const char *path, void *payload)
{
  const cni_module *i = cni_m(m);
  int status = CN_OK;
  for (int buffers = 0; buffers < 2; buffers++)
    for (size_t k = 0; !status && k < i->nslots; k++)
      if (i->slots[k].buffer == buffers) status = list_slot(payload, m, &i->slots[k], path);
  return status;
}

int cn_module_named(cn_named_list *list, cn_module *m, int flags)
{
  *list = (cn_named_list){0};
  int status = cn_module_visit(m, list_module, &(listing){list, flags});
  if (status) cn_named_free(list);
  return status;
}

void cn_named_free(cn_named_list *list)
{
  for (size_t i = 0; i < list->n; i++) cn_string_free((char *)(uintptr_t)list->v[i].name);
  cn_free(list->v, list->cap * sizeof *list->v);
  *list = (cn_named_list){0};
}

int64_t cn_module_count(cn_module *m, bool trainable_only)
{
  cn_named_list list;
  int status = cn_module_named(&list, m, CN_PARAMETERS);
  if (status) return status;
  int64_t n = 0;
  for (size_t i = 0; i < list.n; i++)
    if (!trainable_only || cn_needs_grad(list.v[i].tensor)) n += cn_numel(list.v[i].tensor);
  cn_named_free(&list);
  return n;
}

/* ---- by path ---- */

/* The child called by the first `length` characters of name. */
static cn_module *child_called(const cn_module *m, const char *name, size_t length)
{
  for (size_t i = 0; i < cn_module_nchildren(m); i++) {
    const char *have = cn_module_child_name(m, i);
    if (strlen(have) == length && !memcmp(have, name, length)) return cn_module_child(m, i);
  }
  return NULL;
}

/* The module that the path leads to, all but its last `keep_last` part; *rest: what is left of the path. */
static cn_module *follow(cn_module *m, const char *path, bool keep_last, const char **rest)
{
  while (m && *path) {
    const char *dot = strchr(path, '.');
    if (!dot && keep_last) break;
    size_t length = dot ? (size_t)(dot - path) : strlen(path);
    m = child_called(m, path, length);
    path += length + (dot != NULL);
  }
  if (rest) *rest = path;
  return m;
}

cn_module *cn_module_find(cn_module *m, const char *path) { return follow(m, path, false, NULL); }

static int no_forward(cn_module *m, cn_module_call *call)
{
  (void)m, (void)call;
  return cn_err_set(CN_ERR_UNSUPPORTED, "Part: holds parameters of what is around it, and computes nothing by itself");
}

/* What lies between dots where nobody says what it is. */
static const cn_module_class part_class = {CN_MODULE_CLASS, .name = "Part", .forward = no_forward};

static cn_module *part_called(cn_module *m, const char *name, size_t length)
{
  cn_module *part = child_called(m, name, length);
  if (part) return part;
  char *own = cn_string_copy_bytes(name, length);
  part = own ? cn_module_new(&part_class) : NULL;
  if (part && cn_module_add(m, own, part)) part = NULL;
  cn_string_free(own);
  return part;
}

cn_module *cn_module_reach(cn_module *m, const char *path, const char **name)
{
  for (const char *dot; m && (dot = strchr(path, '.')); path = dot + 1) m = part_called(m, path, (size_t)(dot - path));
  *name = path;
  return m;
}

static cni_slot *slot_at(cn_module *m, const char *path, cn_module **owner)
{
  const char *name;
  *owner = follow(m, path, true, &name);
  if (!*owner) return NULL;
  cni_module *i = cni_m(*owner);
  for (size_t k = 0; k < i->nslots; k++)
    if (!i->slots[k].hidden && !strcmp(i->slots[k].name, name)) return &i->slots[k];
  return NULL;
}

cn_tensor *cn_module_get(cn_module *m, const char *path)
{
  cn_module *owner;
  const cni_slot *s = slot_at(m, path, &owner);
  return s ? s->tensor : NULL;
}

int cn_module_set(cn_module *m, const char *path, cn_tensor *t)
{
  cn_module *owner;
  const cni_slot *s = slot_at(m, path, &owner);
  if (!s) return cn_err_set(CN_ERR_VALUE, "module: there is no parameter or buffer \"%s\"", path);
  return cn_module_set_slot(owner, (size_t)(s - cni_m(owner)->slots), t);
}

/* ---- mode ---- */

static int set_mode(cn_module *m, const char *path, void *payload)
{
  (void)path;
  cni_set_training(m, *(const bool *)payload);
  return CN_OK;
}

int cn_module_train(cn_module *m, bool on) { return cn_module_visit(m, set_mode, &on); }
bool cn_module_training(const cn_module *m) { return m && cni_m(m)->training; }

/* ---- what compiled functions depend on ---- */

typedef struct key {
  uint64_t *words;
  size_t n, cap;
} key;

static void put_word(key *k, uint64_t word)
{
  if (k->n++ < k->cap) k->words[k->n - 1] = word;
}

static void put_marked(key *k, const void *address, bool mark) /* addresses have free low bits */
{
  put_word(k, (uint64_t)(uintptr_t)address | (uint64_t)mark);
}

static void put_key(key *k, const cn_module *m)
{
  const cni_module *own = cni_m(m);
  put_marked(k, m, own->training);
  if (cn_module_args(m)) put_word(k, cn_args_hash(cn_module_args(m), NULL));
  for (size_t i = 0; i < own->nslots; i++) put_marked(k, own->slots[i].tensor, cn_needs_grad(own->slots[i].tensor));
  for (size_t i = 0; i < cn_module_nchildren(m); i++)
    if (cn_module_child(m, i)) put_key(k, cn_module_child(m, i));
  put_word(k, 0);
}

size_t cn_module_key(void *bytes, size_t size, const cn_module *m)
{
  key k = {bytes, 0, size / sizeof *k.words};
  if (m) put_key(&k, m);
  return k.n * sizeof *k.words;
}

/* ---- place and type ---- */

typedef struct place {
  cn_device device;
  cn_dtype dtype;
} place;

static int move_tensor(cn_tensor *t, const place *to)
{
  cn_device device = to->device ? to->device : cn_device_of(t);
  cn_dtype dtype = to->dtype && cn_dtype_is_float(cn_dtype_of(t)) ? to->dtype : cn_dtype_of(t);
  if (device == cn_device_of(t) && dtype == cn_dtype_of(t)) return CN_OK;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *moved = cn_detach(t);
  if (device != cn_device_of(t)) moved = cn_to_device(moved, device);
  if (moved && dtype != cn_dtype_of(moved)) moved = cn_cast(moved, dtype);
  cn_no_grad_end(saved);
  int status = moved ? cn_set_data(t, moved) : cn_err();
  cn_scope_end(s);
  return status;
}

static int move_module(cn_module *m, const char *path, void *payload)
{
  (void)path;
  const cni_module *i = cni_m(m);
  int status = CN_OK;
  for (size_t k = 0; !status && k < i->nslots; k++)
    if (i->slots[k].tensor) status = move_tensor(i->slots[k].tensor, payload);
  if (m->cls->changed) m->cls->changed(m);
  return status;
}

int cn_module_to(cn_module *m, cn_device device, cn_dtype dtype)
{
  if (dtype != CN_DTYPE_NONE && !cn_dtype_is_float(dtype))
    return cn_err_set(CN_ERR_DTYPE, "module: parameters cannot be of type %s", cn_dtype_name(dtype));
  return cn_module_visit(m, move_module, &(place){device, dtype});
}

static int for_parameters(cn_module *m, int (*fn)(cn_tensor *t, bool on), bool on)
{
  cn_named_list list;
  int status = cn_module_named(&list, m, CN_PARAMETERS);
  for (size_t i = 0; !status && i < list.n; i++) status = fn(list.v[i].tensor, on);
  cn_named_free(&list);
  return status;
}

static int switch_grad(cn_tensor *t, bool on) { return cn_requires_grad(t, on) ? CN_OK : cn_err(); }

static int drop_grad(cn_tensor *t, bool on)
{
  (void)on;
  return cn_zero_grad(t);
}

int cn_module_requires_grad(cn_module *m, bool on) { return for_parameters(m, switch_grad, on); }
int cn_module_zero_grad(cn_module *m) { return for_parameters(m, drop_grad, false); }

/* ---- graphs ---- */

static int name_state(cn_graph *graph, size_t i, const cn_named_list *list)
{
  for (size_t k = 0; k < list->n; k++)
    if (list->v[k].tensor == cn_graph_state(graph, i)) {
      int status = cn_graph_name_state(graph, i, list->v[k].name);
      return status ? status : 1;
    }
  return 0;
}

int cn_module_name_states(cn_module *m, cn_graph *graph)
{
  cn_named_list list = {0};
  int named = 0, status = cn_module_named(&list, m, CN_PARAMETERS | CN_BUFFERS);
  for (size_t i = 0; i < cn_graph_states(graph) && status >= 0; i++) {
    status = name_state(graph, i, &list);
    if (status > 0) named++;
  }
  cn_named_free(&list);
  return status < 0 ? status : named;
}
