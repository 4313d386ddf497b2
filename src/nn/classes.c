/* classes.c: every class of modules by its name, with its signatures parsed once.
 *
 * Place in the flow: families of layers give tables of classes; cn_module_make, bindings and description files find
 * them here. Invariant: an entry, once made, stays where it is until exit, so that modules may point to it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "families.h"
#include "module.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cni_class **entries;
static size_t nentries, entries_cap;
static bool filled;

static int read_call(cni_class *e)
{
  char text[512];
  const char *call = e->cls->call ? e->cls->call : "(Tensor input) -> Tensor";
  int n = snprintf(text, sizeof text, "forward%s", call);
  if (n < 0 || (size_t)n >= sizeof text)
    return cn_err_set(CN_ERR_VALUE, "%s: its call signature is too long", e->cls->name);
  e->call = cn_signature_parse(text);
  if (!e->call) return cn_err();
  e->ncall = cn_signature_size(e->call);
  for (int i = 0; i < e->ncall; i++) {
    cn_op_param p;
    cn_signature_param(&p, e->call, i);
    e->tensor[i] = !strncmp(p.type, "Tensor", 6);
    e->required[i] = !p.optional && !p.default_text;
    e->defaults[i] = p.default_value;
  }
  return CN_OK;
}

static void entry_free(cni_class *e)
{
  cn_signature_free(e->sig);
  cn_signature_free(e->call);
  cn_free(e, sizeof *e);
}

/* What every class has; fields that came later are read only where a class is large enough for them. */
#define FIRST_SIZE (offsetof(cn_module_class, changed) + sizeof(void (*)(cn_module *)))

/* Under the lock. */
static cni_class *add(const cn_module_class *cls)
{
  if (cls->size < FIRST_SIZE) {
    cn_err_set(CN_ERR_VALUE, "module: .size of a class must be sizeof(cn_module_class)");
    return NULL;
  }
  if (!cls->name || (!cls->apply && !cls->forward)) {
    cn_err_set(CN_ERR_VALUE, "module: a class needs a name and a forward or apply function");
    return NULL;
  }
  cni_class *e = cn_alloc_zero(sizeof *e);
  if (!e) return NULL;
  e->cls = cls;
  int status = read_call(e);
  if (!status && cls->sig && !(e->sig = cn_signature_parse(cls->sig))) status = cn_err();
  if (!status) status = cn_grow((void **)&entries, &entries_cap, nentries + 1, sizeof *entries);
  if (status) {
    entry_free(e);
    return NULL;
  }
  entries[nentries++] = e;
  return e;
}

/* Under the lock. */
static int fill(void)
{
#define TABLE(name) cni_nn_##name##_classes,
  static const cn_module_class *const *const tables[] = {CNI_NN_FAMILIES(TABLE)};
#undef TABLE
  if (filled) return CN_OK;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (size_t i = 0; tables[t][i]; i++) {
      bool known = false; /* an earlier attempt may have run out of memory half way */
      for (size_t k = 0; k < nentries; k++) known |= entries[k]->cls == tables[t][i];
      if (!known && !add(tables[t][i])) return cn_err();
    }
  filled = true;
  return CN_OK;
}

const cni_class *cni_class_of(const cn_module_class *cls)
{
  cni_class *found = NULL;
  if (!cls) {
    cn_err_set(CN_ERR_TYPE, "module: the class is missing (NULL)");
    return NULL;
  }
  pthread_mutex_lock(&lock);
  if (!fill()) {
    for (size_t i = 0; i < nentries && !found; i++)
      if (entries[i]->cls == cls) found = entries[i];
    if (!found) found = add(cls);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

int cn_module_register(const cn_module_class *cls)
{
  const cn_module_class *other = cls && cls->name ? cn_module_class_find(cls->name) : NULL;
  if (other && other != cls) return cn_err_set(CN_ERR_VALUE, "module: there is a class %s already", cls->name);
  return cni_class_of(cls) ? CN_OK : cn_err();
}

const cn_module_class *cn_module_class_find(const char *name)
{
  const cn_module_class *found = NULL;
  pthread_mutex_lock(&lock);
  if (!fill())
    for (size_t i = 0; name && i < nentries && !found; i++)
      if (!strcmp(entries[i]->cls->name, name)) found = entries[i]->cls;
  pthread_mutex_unlock(&lock);
  return found;
}

const cn_module_class *cn_module_class_at(size_t i)
{
  pthread_mutex_lock(&lock);
  const cn_module_class *cls = !fill() && i < nentries ? entries[i]->cls : NULL;
  pthread_mutex_unlock(&lock);
  return cls;
}

const cn_signature *cn_module_class_signature(const cn_module_class *cls)
{
  const cni_class *e = cni_class_of(cls);
  return e ? e->sig : NULL;
}

const cn_signature *cn_module_class_call(const cn_module_class *cls)
{
  const cni_class *e = cni_class_of(cls);
  return e ? e->call : NULL;
}
