/* average.c: averages of a module's parameters over training: exponential, or the mean of all (SWA). */
#include <cairn/graph.h>
#include <cairn/kw.h>
#include <string.h>

#include "optim.h"

struct cn_average {
  cn_module *module; /* the copy that holds the averages */
  double decay;      /* 0: the mean */
  bool buffers;
  cn_tensor *count; /* int64, zero-dimensional: a compiled step counts, too */
};

static cn_tensor *new_count(int64_t count) { return cn_from_data(&count, NULL, 0, CN_I64); }

cn_average *cn_average_new(cn_module *m, double decay, bool average_buffers)
{
  if (cn_err()) return NULL;
  if (!m || !(decay >= 0 && decay <= 1)) {
    cn_err_set(CN_ERR_VALUE, "average: needs a module, and a decay between 0 and 1, not %g", decay);
    return NULL;
  }
  cn_average *a = cn_alloc_zero(sizeof *a);
  if (!a) return NULL;
  cn_scope *s = cn_scope_begin();
  *a = (cn_average){cn_module_copy(m), decay, average_buffers, cn_keep(new_count(0))};
  cn_scope_end(s);
  if (a->module && a->count) return a;
  cn_average_free(a);
  return NULL;
}

void cn_average_free(cn_average *a)
{
  if (!a) return;
  cn_module_release(a->module);
  cn_release(a->count);
  cn_free(a, sizeof *a);
}

cn_module *cn_average_module(cn_average *a) { return a ? a->module : NULL; }
int64_t cn_average_count(const cn_average *a) { return a ? cn_item_int(a->count) : 0; }

/* How one tensor follows, where the count is known. */
static cn_tensor *towards(const cn_average *a, cn_tensor *to, cn_tensor *from)
{
  int64_t count = cn_item_int(a->count);
  double weight = a->decay > 0 ? 1 - a->decay : 1 / (double)(count + 1);
  return count ? cn_lerp_(to, from, cn_num(weight)) : cn_copy_(to, from);
}

/* The same by a count that is known when the captured code runs. */
static cn_tensor *towards_captured(const cn_average *a, cn_tensor *to, cn_tensor *from)
{
  cn_dtype dtype = cn_dtype_of(to) == CN_F64 ? CN_F64 : CN_F32; /* what numbers are computed with */
  cn_tensor *weight = a->decay > 0 ? cn_num(1 - a->decay)
                                   : cn_cast(cn_reciprocal(cn_add(cn_cast(a->count, CN_F64), cn_num(1))), dtype);
  cn_tensor *first = cn_eq(a->count, cn_int(0));
  return cn_copy_(to, cn_where(first, from, cn_lerp(to, from, weight)));
}

/* One tensor's part: a copy the first time and of what is not averaged, else towards the present value. */
static int follow(const cn_average *a, cn_tensor *to, cn_tensor *from, bool buffer)
{
  bool copies = (buffer && !a->buffers) || !cn_dtype_is_float(cn_dtype_of(to));
  if (cn_device_of(from) != cn_device_of(to)) from = cn_to_device(from, cn_device_of(to));
  cn_tensor *done = copies ? cn_copy_(to, from) : cn_tracing() ? towards_captured(a, to, from) : towards(a, to, from);
  return done ? CN_OK : cn_err();
}

static int follow_all(const cn_average *a, const cn_named_list *to, const cn_named_list *from)
{
  int status = CN_OK;
  if (to->n != from->n) return cn_err_set(CN_ERR_VALUE, "average: the module has other parameters than the average");
  for (size_t i = 0; i < to->n; i++)
    if (strcmp(to->v[i].name, from->v[i].name))
      return cn_err_set(CN_ERR_VALUE, "average: the module has %s where the average has %s", from->v[i].name,
                        to->v[i].name);
  for (size_t i = 0; i < to->n && !status; i++)
    status = follow(a, to->v[i].tensor, from->v[i].tensor, to->v[i].buffer);
  return status;
}

static int update(const cn_average *a, cn_module *m)
{
  cn_named_list to = {0}, from = {0};
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  int status = cn_module_named(&to, a->module, CN_PARAMETERS | CN_BUFFERS);
  if (!status) status = cn_module_named(&from, m, CN_PARAMETERS | CN_BUFFERS);
  if (!status) status = follow_all(a, &to, &from);
  cn_named_free(&to);
  cn_named_free(&from);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return status;
}

int cn_average_update(cn_average *a, cn_module *m)
{
  if (cn_err()) return cn_err();
  if (!a || !m) return cn_err_set(CN_ERR_TYPE, "average: it, or the module, is missing (NULL)");
  int status = update(a, m);
  return status ? status : cn_add_(a->count, cn_int(1)) ? CN_OK : cn_err();
}

int cn_average_follow(cn_module *to, cn_module *from, double decay, int64_t count, bool average_buffers)
{
  if (cn_err()) return cn_err();
  if (cn_tracing())
    return cn_err_set(CN_ERR_CAPTURE, "average: the count is a number, which captured code cannot change: give it as a "
                      "tensor (cn_average_follow_counted)");
  cn_scope *s = cn_scope_begin();
  int status = cn_average_follow_counted(to, from, decay, new_count(count), average_buffers);
  cn_scope_end(s);
  return status;
}

int cn_average_follow_counted(cn_module *to, cn_module *from, double decay, cn_tensor *count, bool average_buffers)
{
  if (cn_err()) return cn_err();
  if (!to || !from || !count) return cn_err_set(CN_ERR_TYPE, "average: a module, or the count, is missing (NULL)");
  return update(&(cn_average){to, decay, average_buffers, count}, from);
}

/* ---- state: n_averaged, and the module's with names below "module." ---- */

static const char prefix[] = "module.";

cn_tree *cn_average_state(cn_average *a)
{
  if (cn_err() || !a) return NULL;
  cn_tree *out = cn_tree_dict(), *inner = cn_module_state(a->module);
  cn_scope *s = cn_scope_begin();
  cn_tensor *count = out && inner ? cn_clone(a->count) : NULL;
  int status = count ? cn_tree_put(out, "n_averaged", cn_tree_tensor(count)) : cn_err();
  cn_scope_end(s);
  for (size_t i = 0; i < cn_tree_size(inner) && !status; i++) {
    cn_text name = {0};
    cn_text_put(&name, prefix);
    cn_text_put(&name, cn_tree_key(inner, i, NULL));
    status = name.failed ? cn_err() : cn_tree_put(out, name.s, cn_tree_copy(cn_tree_at(inner, i), false));
    cn_text_free(&name);
  }
  cn_tree_free(inner);
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

int cn_average_load(cn_average *a, const cn_tree *state)
{
  if (cn_err()) return cn_err();
  cn_tensor *count = cn_tree_as_tensor(cn_tree_get(state, "n_averaged"));
  if (!a || !count) return cn_err_set(CN_ERR_VALUE, "average: the state has no n_averaged");
  cn_tree *inner = cn_tree_dict();
  int status = inner ? CN_OK : cn_err();
  for (size_t i = 0; i < cn_tree_size(state) && !status; i++) {
    const char *name = cn_tree_key(state, i, NULL);
    if (name && !strncmp(name, prefix, sizeof prefix - 1))
      status = cn_tree_put(inner, name + sizeof prefix - 1, cn_tree_copy(cn_tree_at(state, i), false));
  }
  if (!status) status = cn_module_load(a->module, inner);
  cn_tree_free(inner);
  int64_t now = status ? 0 : cn_item_int(count);
  return status ? status : cn_err() ? cn_err() : cn_copy_from_data(a->count, &now, sizeof now);
}
