/* state_dict.c: a module's parameters and buffers as a dictionary, and back. See module.h.
 *
 * Invariant: loading changes nothing unless every tensor that will be copied fits. */
#include <cairn/autograd.h>
#include <cairn/kw.h>
#include <string.h>

#include "module.h"

#define EXTRA "_extra_state"

/* ---- out ---- */

static char *dotted(const char *path, const char *name)
{
  cn_text t = {0};
  if (*path) cn_text_putf(&t, "%s.", path);
  cn_text_put(&t, name);
  return cn_text_take(&t);
}

static int put_named(cn_tree *state, const char *path, const char *name, cn_tree *value)
{
  char *key = value ? dotted(path, name) : NULL;
  int status = key ? cn_tree_put(state, key, value) : cn_err();
  if (!key) cn_tree_free(value);
  cn_string_free(key);
  return status;
}

static int state_of(cn_module *m, const char *path, void *payload)
{
  const cni_module *i = cni_m(m);
  int status = CN_OK;
  for (int buffers = 0; buffers < 2; buffers++)
    for (size_t k = 0; !status && k < i->nslots; k++) {
      const cni_slot *s = &i->slots[k];
      if (s->buffer == buffers && s->tensor && !s->transient && !s->hidden)
        status = put_named(payload, path, s->name, cn_tree_tensor(s->tensor));
    }
  if (!status && m->cls->get_state) status = put_named(payload, path, EXTRA, m->cls->get_state(m));
  return status;
}

/* Like cn_module_visit, but a module that stands in two places is met under both names, as in PyTorch's files. */
static int everywhere(cn_module *m, cn_text *path, cn_module_fn fn, void *payload)
{
  int status = fn(m, path->s ? path->s : "", payload);
  for (size_t i = 0; !status && i < cn_module_nchildren(m); i++) {
    size_t length = path->n;
    if (length) cn_text_put(path, ".");
    cn_text_put(path, cn_module_child_name(m, i));
    status = path->failed ? CN_ERR_MEMORY : everywhere(cn_module_child(m, i), path, fn, payload);
    path->n = length;
    if (path->s) path->s[length] = 0;
  }
  return status;
}

static int visit_names(cn_module *m, cn_module_fn fn, void *payload)
{
  cn_text path = {0};
  if (!m) return cn_err() ? cn_err() : cn_err_set(CN_ERR_TYPE, "module: missing (NULL)");
  int status = everywhere(m, &path, fn, payload);
  cn_text_free(&path);
  return status;
}

cn_tree *cn_module_state(cn_module *m)
{
  cn_tree *state = cn_tree_dict();
  if (state && !visit_names(m, state_of, state)) return state;
  cn_tree_free(state);
  return NULL;
}

/* ---- in ---- */

typedef struct loading {
  const cn_tree *state;
  const cn_load_opts *opts;
  cn_tree *missing, *used; /* a list of names; a dictionary of keys that were asked for */
  bool copying;            /* the second walk: everything fits */
} loading;

static const cn_tree *look_up(loading *l, const char *path, const char *name)
{
  char *key = dotted(path, name);
  cn_text full = {0};
  if (key && l->opts->prefix) cn_text_put(&full, l->opts->prefix);
  if (key) cn_text_put(&full, key);
  const cn_tree *found = full.s ? cn_tree_get(l->state, full.s) : NULL;
  bool needed = strcmp(name, "num_batches_tracked") != 0; /* files from before it was counted lack it */
  if (found) cn_tree_put(l->used, full.s, cn_tree_bool(true));
  else if (key && needed && !l->copying) cn_tree_push(l->missing, cn_tree_str(key));
  cn_text_free(&full);
  cn_string_free(key);
  return found;
}

static int shapes_differ(const cn_module *m, const char *path, const char *name, const cn_tensor *have,
                         const cn_tensor *want)
{
  cn_text t = {0};
  for (int k = 0; k < 2; k++) {
    const cn_tensor *x = k ? want : have;
    cn_text_put(&t, k ? ", the module has " : "the file has ");
    cn_text_put_sizes(&t, cn_shape(x), (size_t)cn_ndim(x));
  }
  int status = cn_err_set(CN_ERR_SHAPE, "load: %s%s%s of %s: %s", path, *path ? "." : "", name, m->cls->name,
                          t.s ? t.s : "shapes differ");
  cn_text_free(&t);
  return status;
}

static int copy_value(cn_tensor *to, cn_tensor *from)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  if (cn_device_of(from) != cn_device_of(to)) from = cn_to_device(from, cn_device_of(to));
  int status = cn_copy_(to, from) ? CN_OK : cn_err();
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return status;
}

/* Takes the file's tensor itself. */
static int assign(cn_tensor *to, cn_tensor *from) { return cn_set_data(to, from); }

static int load_slot(loading *l, cn_module *m, const cni_slot *s, const char *path)
{
  const cn_tree *found = look_up(l, path, s->name);
  if (!found) return cn_err();
  cn_tensor *t = cn_tree_as_tensor(found);
  if (!t) return cn_err_set(CN_ERR_TYPE, "load: %s%s%s is not a tensor in the file", path, *path ? "." : "", s->name);
  bool one = cn_ndim(s->tensor) == 0 && cn_numel(t) == 1; /* old files have counts of shape (1) */
  if (!cn_same_shape(t, s->tensor) && !one) return shapes_differ(m, path, s->name, t, s->tensor);
  if (!l->copying) return CN_OK;
  return l->opts->assign && !one ? assign(s->tensor, t) : copy_value(s->tensor, t);
}

static int load_module(cn_module *m, const char *path, void *payload)
{
  loading *l = payload;
  const cni_module *i = cni_m(m);
  int status = CN_OK;
  for (size_t k = 0; !status && k < i->nslots; k++)
    if (i->slots[k].tensor && !i->slots[k].transient && !i->slots[k].hidden)
      status = load_slot(l, m, &i->slots[k], path);
  if (!status && m->cls->get_state) {
    const cn_tree *extra = look_up(l, path, EXTRA);
    if (extra && l->copying && m->cls->set_state) status = m->cls->set_state(m, extra);
  }
  if (!status && l->copying && m->cls->changed) m->cls->changed(m);
  return status ? status : cn_err();
}

/* The keys of the file that nothing asked for. */
static cn_tree *unexpected(const loading *l)
{
  cn_tree *list = cn_tree_list();
  for (size_t i = 0; list && i < cn_tree_size(l->state); i++) {
    const char *key = cn_tree_key(l->state, i, NULL);
    bool tensor = cn_tree_as_tensor(cn_tree_at(l->state, i)) != NULL; /* the rest is what files say about them */
    if (key && (tensor || cn_string_ends(key, EXTRA)) && !cn_tree_get(l->used, key))
      cn_tree_push(list, cn_tree_str(key));
  }
  return list;
}

static void put_names(cn_text *t, const char *what, const cn_tree *names)
{
  size_t n = cn_tree_size(names), shown = n < 8 ? n : 8;
  if (!n) return;
  cn_text_putf(t, "%s%zu %s: ", t->n ? "; " : "", n, what);
  for (size_t i = 0; i < shown; i++) cn_text_putf(t, "%s%s", i ? ", " : "", cn_tree_as_str(cn_tree_at(names, i), ""));
  if (shown < n) cn_text_put(t, ", ...");
}

static int check_names(const loading *l, const cn_tree *extra)
{
  if (l->opts->lenient || (!cn_tree_size(l->missing) && !cn_tree_size(extra))) return CN_OK;
  cn_text t = {0};
  put_names(&t, "missing", l->missing);
  put_names(&t, "unexpected", extra);
  int status = cn_err_set(CN_ERR_VALUE, "load: names do not match: %s", t.s ? t.s : "");
  cn_text_free(&t);
  return status;
}

static void hand_out(cn_tree **where, cn_tree *list)
{
  if (where) *where = list;
  else cn_tree_free(list);
}

int cn_module_load_with(cn_module *m, const cn_tree *state, const cn_load_opts *opts)
{
  cn_load_opts room;
  loading l = {.state = state, .opts = cn_opts_read(&room, sizeof room, opts, "module_load")};
  if (!l.opts) return cn_err();
  if (l.opts->missing) *l.opts->missing = NULL;
  if (l.opts->unexpected) *l.opts->unexpected = NULL;
  if (cn_err()) return cn_err();
  if (cn_tree_kind_of(state) != CN_TREE_DICT) return cn_err_set(CN_ERR_TYPE, "load: the state is not a dictionary");
  l.missing = cn_tree_list();
  l.used = cn_tree_dict();
  int status = l.missing && l.used ? visit_names(m, load_module, &l) : cn_err();
  cn_tree *extra = status ? NULL : unexpected(&l);
  if (!status) status = extra ? check_names(&l, extra) : cn_err();
  l.copying = true;
  if (!status) status = visit_names(m, load_module, &l);
  hand_out(l.opts->missing, l.missing);
  hand_out(l.opts->unexpected, extra);
  cn_tree_free(l.used);
  return status;
}
