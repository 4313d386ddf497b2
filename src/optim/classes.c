/* classes.c: every optimiser by its name, with its signature parsed once.
 *
 * Place in the flow: the tables of the families below; cn_optim_make and listings above. Invariant: a parsed signature
 * stays where it is until exit. */
#include <pthread.h>
#include <string.h>

#include "optim.h"

#define TABLE(name) cni_optim_##name##_classes,
static const cni_optim_class *const *const tables[] = {CNI_OPTIM_FAMILIES(TABLE)};
#undef TABLE
enum { TABLES = sizeof tables / sizeof *tables, MOST = 32 };

static const cni_optim_class *class_at(size_t i)
{
  for (size_t t = 0; t < TABLES; t++)
    for (size_t k = 0; tables[t][k]; k++)
      if (!i--) return tables[t][k];
  return NULL;
}

/* Is the signature's name this one? */
static bool is_named(const cni_optim_class *cls, const char *name)
{
  size_t n = strcspn(cls->sig, "(");
  return strlen(name) == n && !memcmp(cls->sig, name, n);
}

const cni_optim_class *cni_optim_class_find(const char *name, const cn_signature **sig)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static cn_signature *parsed[MOST];
  const cni_optim_class *cls;
  for (size_t i = 0; (cls = class_at(i)) && i < MOST; i++) {
    if (!name || !is_named(cls, name)) continue;
    pthread_mutex_lock(&lock);
    if (!parsed[i]) parsed[i] = cn_signature_parse(cls->sig);
    *sig = parsed[i];
    pthread_mutex_unlock(&lock);
    return *sig ? cls : NULL;
  }
  cn_err_set(CN_ERR_UNSUPPORTED, "optimiser: there is no class %s", name ? name : "(NULL)");
  return NULL;
}

const char *cn_optim_class_keys(size_t i)
{
  const cni_optim_class *cls = class_at(i);
  return cls ? cls->keys : NULL;
}

bool cn_optim_class_at(size_t i, const char **name, const char **sig, const char **doc)
{
  const cni_optim_class *cls = class_at(i);
  const cn_signature *parsed;
  if (!cls) return false;
  char text[64];
  size_t n = strcspn(cls->sig, "(");
  if (n >= sizeof text) return false;
  memcpy(text, cls->sig, n);
  text[n] = 0;
  if (!cni_optim_class_find(text, &parsed)) return false;
  *name = cn_signature_name(parsed);
  *sig = cls->sig;
  *doc = cls->doc;
  return true;
}
