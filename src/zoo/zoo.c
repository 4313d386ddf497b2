/* zoo.c: networks by name. See cairn/zoo.h.
 *
 * Place in the flow: looks a name up among the families' rows, checks the options, lets the family build, then loads
 * weights and moves the network. Invariant: an option that a network does not take is an error, not ignored. */
#include <string.h>

#include "zoo.h"

enum { MOST = 1 << 24 }; /* classes, channels, pixels of a side: products of a few of them are numbers */

#define TABLE(name) cni_zoo_##name,
static const cni_model *const families[] = {CNI_ZOO_FAMILIES(TABLE)};
#undef TABLE

static const cni_model *row_at(size_t i)
{
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (const cni_model *row = families[f]; row->name; row++)
      if (i-- == 0) return row;
  return NULL;
}

bool cn_zoo_at(size_t i, const char **name, const char **doc)
{
  const cni_model *row = row_at(i);
  if (name) *name = row ? row->name : NULL;
  if (doc) *doc = row ? row->doc : NULL;
  return row != NULL;
}

/* Torchvision's and transformers' spellings differ in - and _. */
static bool same_name(const char *a, const char *b)
{
  for (; *a && (*a == *b || (*a == '-' && *b == '_') || (*a == '_' && *b == '-')); a++, b++) {
  }
  return !*a && !*b;
}

static const cni_model *find(const char *name)
{
  cn_text all = {0};
  if (!name) name = "";
  for (size_t i = 0; row_at(i); i++)
    if (same_name(name, row_at(i)->name)) return row_at(i);
  for (size_t i = 0; row_at(i); i++) cn_text_putf(&all, "%s%s", i ? ", " : "", row_at(i)->name);
  cn_err_set(CN_ERR_VALUE, "zoo: there is no network \"%s\"; there are %s", name, all.s ? all.s : "others");
  cn_text_free(&all);
  return NULL;
}

bool cn_zoo_takes(const char *name, const char *option)
{
  static const char *const names[] = {"classes", "channels", "image", "vocab"}; /* in the order of cni_takes */
  for (size_t i = 0; name && option && row_at(i); i++)
    for (int k = 0; k < 4 && same_name(name, row_at(i)->name); k++)
      if (!strcmp(names[k], option)) return row_at(i)->takes >> k & 1;
  return false;
}

static int check_options(const cni_model *row, const cn_zoo_opts *o)
{
  const struct {
    int takes;
    const char *name;
    int64_t value;
  } sizes[] = {{CNI_CLASSES, "classes", o->classes}, {CNI_CHANNELS, "channels", o->channels},
               {CNI_IMAGE, "image", o->image}, {CNI_VOCAB, "vocab", o->vocab}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (!sizes[i].value) continue;
    if (!(row->takes & sizes[i].takes))
      return cn_err_set(CN_ERR_VALUE, "%s: takes no option %s", row->name, sizes[i].name);
    if (sizes[i].value < 0 || sizes[i].value > MOST)
      return cn_err_set(CN_ERR_VALUE, "%s: %s is %lld, it must be from 1 to %d", row->name, sizes[i].name,
                        (long long)sizes[i].value, MOST);
  }
  if (o->config && !(row->takes & CNI_CONFIG))
    return cn_err_set(CN_ERR_VALUE, "%s: takes no option config", row->name);
  if (o->config && cn_tree_kind_of(o->config) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "%s: config must be a dictionary, as a config.json holds", row->name);
  return CN_OK;
}

static cn_module *make(const cni_model *row, const cn_zoo_opts *given)
{
  cn_zoo_opts o = *given;
  cn_tree *beside = NULL;
  char *file = o.pretrained ? cni_weights_path(row, o.pretrained) : NULL;
  if (file && !o.config && (row->takes & CNI_CONFIG)) o.config = beside = cni_config_beside(file);
  cn_module *m = cn_err() ? NULL : row->make(row, &o);
  if (m && file) cni_load_pretrained(m, row, file);
  if (m && !cn_err() && (o.device || o.dtype)) cn_module_to(m, o.device, o.dtype);
  cn_tree_free(beside);
  cn_string_free(file);
  return cni_made(m);
}

cn_module *cn_zoo_with(const char *name, const cn_zoo_opts *opts)
{
  cn_zoo_opts room;
  if (cn_err()) return NULL;
  const cn_zoo_opts *o = cn_opts_read(&room, sizeof room, opts, "zoo");
  const cni_model *row = o ? find(name) : NULL;
  if (!row || check_options(row, o)) return NULL;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_module *m = make(row, o);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return m;
}
