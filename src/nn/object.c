/* object.c: what a binding needs of a module beside what programs in C do: its own object behind it, its own forward
 * in place of the class's, parts taken away, arguments changed. See module.h.
 *
 * Invariant: slots that a class's init made keep their numbers, whatever is removed, since the class reads them so. */
#include <string.h>

#include "module.h"
#include "nn.h"

void *cn_module_object(const cn_module *m) { return m ? cni_m(m)->object : NULL; }
void cn_module_set_object(cn_module *m, void *object) { cni_m(m)->object = object; }
void cn_module_set_forward(cn_module *m, cn_module_hook forward) { cni_m(m)->forward = forward; }
void cn_module_set_shown(cn_module *m, const char *name) { cni_m(m)->shown = name; }
const char *cni_module_shown(const cn_module *m) { return cni_m(m)->shown ? cni_m(m)->shown : m->cls->name; }
bool cn_module_hooked(const cn_module *m) { return m && cni_m(m)->nhooks > 0; }
bool cn_module_plain(const cn_module *m) { return m && !cni_m(m)->nhooks && !cni_m(m)->forward; }

int cn_forward_class(cn_tensor **out, size_t nout, cn_module *m, const cn_value *args, size_t nargs)
{
  cn_value full[CN_MAX_ARGS];
  for (size_t i = 0; i < nout; i++) out[i] = NULL;
  if (cn_err()) return cn_err();
  if (!m) return cn_err_set(CN_ERR_TYPE, "forward: the module is missing (NULL)");
  if (cni_call_complete(cni_m(m), full, args, nargs)) return cn_err();
  return cni_invoke(out, nout, cni_m(m), full, true);
}

/* ---- parts ---- */

bool cn_module_slot_at(cn_named *slot, const cn_module *m, size_t i)
{
  if (!m || i >= cni_m(m)->nslots) return false;
  const cni_slot *s = &cni_m(m)->slots[i];
  *slot = (cn_named){s->hidden ? NULL : s->name, s->tensor, (cn_module *)(uintptr_t)m, s->buffer, !s->transient};
  return true;
}

static void remove_slot(cni_module *m, size_t i)
{
  cni_slot *s = &m->slots[i];
  cn_tensor *gone = s->tensor;
  if (i < m->nown) {
    s->tensor = NULL;
    s->hidden = true;
  } else {
    cn_string_free(s->name);
    memmove(s, s + 1, (--m->nslots - i) * sizeof *s);
  }
  cn_release(gone);
  if (m->head.cls->changed) m->head.cls->changed(&m->head);
}

static void remove_child(cni_module *m, size_t i)
{
  cni_child gone = m->children[i];
  memmove(&m->children[i], &m->children[i + 1], (--m->nchildren - i) * sizeof gone);
  cn_string_free(gone.name);
  cn_module_release(gone.module);
}

int cn_module_remove(cn_module *module, const char *name)
{
  cni_module *m = cni_m(module);
  if (cn_err()) return cn_err();
  for (size_t i = 0; i < m->nslots; i++)
    if (!m->slots[i].hidden && !strcmp(m->slots[i].name, name)) {
      remove_slot(m, i);
      return CN_OK;
    }
  for (size_t i = 0; i < m->nchildren; i++)
    if (!strcmp(m->children[i].name, name)) {
      remove_child(m, i);
      return CN_OK;
    }
  return cn_err_set(CN_ERR_VALUE, "%s: has no slot or child \"%s\" to remove", module->cls->name, name);
}

bool cn_module_set_removed(cn_module *module, const char *name, cn_tensor *t)
{
  cni_module *m = cni_m(module);
  for (size_t i = 0; i < m->nown && i < m->nslots; i++)
    if (m->slots[i].hidden && !strcmp(m->slots[i].name, name)) return cn_module_set_slot(module, i, t) == CN_OK;
  return false;
}

void cn_module_become(cn_module *module, cn_module *other)
{
  cni_module *m = cni_m(module), *from = cni_m(other), old = *m;
#define TRADE(field) m->field = from->field, from->field = old.field
  TRADE(head);
  TRADE(entry);
  TRADE(args);
  TRADE(nown);
  TRADE(slots);
  TRADE(nslots);
  TRADE(slots_cap);
  TRADE(children);
  TRADE(nchildren);
  TRADE(children_cap);
#undef TRADE
  cn_module_release(other);
}

/* ---- arguments, mode, text ---- */

int cn_module_set_arg(cn_module *module, const char *name, cn_value value)
{
  cni_module *m = cni_m(module);
  if (cn_err()) return cn_err();
  if (!m->args) return cn_err_set(CN_ERR_VALUE, "%s: was not made with arguments", module->cls->name);
  int status = cn_args_set(&m->args, name, value);
  if (!status && module->cls->changed) module->cls->changed(module);
  return status;
}

void cn_module_set_training(cn_module *m, bool on)
{
  cni_set_training(m, on);
}

char *cn_module_describe(const cn_module *m)
{
  cn_text t = {0};
  if (m->cls->print) m->cls->print(m, &t);
  else cni_print_args(m, &t);
  cn_text_put(&t, "");
  return cn_text_take(&t);
}

/* ---- making and copying without parts ---- */

cn_module *cn_module_new_with(const cn_module_class *cls, const cn_value *args, size_t n)
{
  const cn_signature *sig = cn_err() ? NULL : cn_module_class_signature(cls);
  if (!sig && !cn_err()) cn_err_set(CN_ERR_VALUE, "%s: has no signature to be made by", cls->name);
  cn_module *m = sig ? cni_module_bare(cls) : NULL;
  if (m && (cni_m(m)->args = cn_args_new(sig, args, n))) return m;
  cn_module_release(m);
  return NULL;
}

static int copy_data(cni_module *to, const cni_module *from)
{
  const cn_module_class *cls = from->head.cls;
  if (cls->free && !cls->copy)
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: its class does not say how to copy it", cls->name);
  if (cls->data_size) memcpy(to->head.data, from->head.data, cls->data_size);
  int status = cls->copy ? cls->copy(&to->head, &from->head) : CN_OK;
  if (status) memset(to->head.data, 0, cls->data_size);
  return status;
}

static int copy_names(cni_module *to, const cni_module *from)
{
  to->training = from->training;
  if (from->args && !(to->args = cn_args_copy(from->args))) return cn_err();
  for (size_t i = 0; i < from->nslots; i++) {
    const cni_slot *s = &from->slots[i];
    int at = s->buffer ? cn_module_add_buffer(&to->head, s->name, NULL, !s->transient)
                       : cn_module_add_parameter(&to->head, s->name, NULL);
    if (at < 0) return at;
    to->slots[at].hidden = s->hidden;
  }
  to->nown = from->nown;
  return CN_OK;
}

cn_module *cn_module_copy_bare(const cn_module *m)
{
  cn_module *copy = m && !cn_err() ? cni_module_bare(m->cls) : NULL;
  if (copy && !copy_data(cni_m(copy), cni_m(m)) && !copy_names(cni_m(copy), cni_m(m))) return copy;
  cn_module_release(copy);
  return NULL;
}
