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

static const cni_setting_row *find_setting(const cni_model *row, const char *name)
{
  for (const cni_setting_row *r = row->settings; r && r->name; r++)
    if (!strcmp(r->name, name)) return r;
  return NULL;
}

bool cn_zoo_takes(const char *name, const char *option)
{
  static const char *const names[] = {"classes", "channels", "image", "vocab", "config"}; /* as in cni_takes */
  for (size_t i = 0; name && option && row_at(i); i++) {
    const cni_model *row = row_at(i);
    if (!same_name(name, row->name)) continue;
    for (int k = 0; k < 5; k++)
      if (!strcmp(names[k], option)) return row->takes >> k & 1 || (1 << k == CNI_CONFIG && row->settings);
    return find_setting(row, option) != NULL;
  }
  return false;
}

static int no_such_setting(const cni_model *row, const char *name)
{
  cn_text all = {0};
  for (const cni_setting_row *r = row->settings; r->name; r++) cn_text_putf(&all, "%s%s", all.n ? ", " : "", r->name);
  int status = cn_err_set(CN_ERR_VALUE, "%s: has no setting \"%s\"; there are %s", row->name, name,
                          all.s ? all.s : "others");
  cn_text_free(&all);
  return status;
}

/* Transformers' configurations say more than a network needs; of torchvision's settings each must be known. */
static int check_settings(const cni_model *row, const cn_tree *config)
{
  if (cn_tree_kind_of(config) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "%s: config must be a dictionary, as a config.json holds", row->name);
  for (size_t i = 0; row->settings && i < cn_tree_size(config); i++) {
    const char *name = cn_tree_key(config, i, NULL);
    const cni_setting_row *setting = name ? find_setting(row, name) : NULL;
    cn_tree_kind kind = cn_tree_kind_of(cn_tree_at(config, i));
    if (!setting) return no_such_setting(row, name ? name : "");
    bool fits = kind == setting->kind || (kind == CN_TREE_INT && setting->kind == CN_TREE_FLOAT);
    if (!fits && kind != CN_TREE_NONE)
      return cn_err_set(CN_ERR_TYPE, "%s: the setting %s must be %s", row->name, name,
                        setting->kind == CN_TREE_BOOL ? "true or false" : "a number");
  }
  return CN_OK;
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
  if (o->config && !(row->takes & CNI_CONFIG) && !row->settings)
    return cn_err_set(CN_ERR_VALUE, "%s: takes no option config", row->name);
  return o->config ? check_settings(row, o->config) : CN_OK;
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
