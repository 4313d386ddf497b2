/* weights.c: pretrained weights into a network of the zoo. See zoo.h.
 *
 * Place in the flow: cn_load reads files, cn_module_load copies; here names are matched: files hold a network alone or
 * as part of another one (with or without "transformer.", "bert.", ...), and older ones spell some names otherwise.
 * Invariant: every parameter of the network is found, and every tensor of the file is either used or known to be of no
 * use; else nothing is copied and the error names what is missing or too much. */
#include <cairn/data.h>
#include <cairn/io.h>
#include <string.h>

#include "zoo.h"

/* ---- files ---- */

/* Weights trained on ImageNet, by torchvision's makers. */
#define SERVER "https://download.pytorch.org/models/"

bool cni_is_published(const cni_model *row, const char *pretrained)
{
  const char *slash = strrchr(pretrained, '/');
  return row->weights && (!strcmp(pretrained, "imagenet") || !strcmp(slash ? slash + 1 : pretrained, row->weights));
}

char *cni_weights_path(const cni_model *row, const char *pretrained)
{
  bool known = !strcmp(pretrained, "imagenet");
  char *path = NULL;
  if (known && !row->weights) {
    cn_err_set(CN_ERR_VALUE, "%s: has no weights called \"imagenet\"; .pretrained takes a file", row->name);
  } else if (known || cn_string_starts(pretrained, "https://") || cn_string_starts(pretrained, "http://")) {
    cn_text url = {0};
    if (known) cn_text_put(&url, SERVER);
    cn_text_put(&url, known ? row->weights : pretrained);
    if (!url.failed) path = cn_download(url.s, .folder = "weights");
    cn_text_free(&url);
  } else if (cn_path_kind_of(pretrained) == CN_PATH_NONE) {
    cn_err_set(CN_ERR_IO, "%s: there is no file of weights %s", row->name, pretrained);
  } else path = cn_string_copy(pretrained);
  return path;
}

static bool is_file(const char *folder, const char *name)
{
  char *path = cn_path_join(folder, name);
  bool found = path && cn_path_kind_of(path) == CN_PATH_FILE;
  cn_string_free(path);
  return found;
}

static cn_tree *load_in(const char *folder, const char *name)
{
  char *path = cn_path_join(folder, name);
  cn_tree *tree = path ? cn_load(path) : NULL;
  cn_string_free(path);
  return tree;
}

/* Puts the tensors of one file of several into `all`. */
static int merge(cn_tree *all, const cn_tree *part)
{
  int status = cn_err();
  for (size_t i = 0; !status && i < cn_tree_size(part); i++) {
    const char *name = cn_tree_key(part, i, NULL);
    if (name) status = cn_tree_put(all, name, cn_tree_copy(cn_tree_at(part, i), false));
  }
  return status;
}

/* Weights over several files: the index says which file has which tensor. */
static cn_tree *load_parts(const char *folder, const char *index_name)
{
  cn_tree *index = load_in(folder, index_name), *all = cn_tree_dict(), *done = cn_tree_dict();
  const cn_tree *map = cn_tree_get(index, "weight_map");
  if (!cn_err() && !cn_tree_size(map)) cn_err_set(CN_ERR_IO, "zoo: %s/%s has no weight_map", folder, index_name);
  for (size_t i = 0; !cn_err() && i < cn_tree_size(map); i++) {
    const char *file = cn_tree_as_str(cn_tree_at(map, i), "");
    if (cn_tree_get(done, file)) continue;
    if (!*file || strchr(file, '/'))
      cn_err_set(CN_ERR_IO, "zoo: %s/%s names a file outside its folder", folder, index_name);
    cn_tree *part = cn_err() ? NULL : load_in(folder, file);
    if (part && !merge(all, part)) cn_tree_put(done, file, cn_tree_bool(true));
    cn_tree_free(part);
  }
  cn_tree_free(index);
  cn_tree_free(done);
  if (!cn_err()) return all;
  cn_tree_free(all);
  return NULL;
}

/* A file, or a folder as transformers writes it. */
static cn_tree *load_weights(const char *path)
{
  static const char *const whole[] = {"model.safetensors", "pytorch_model.bin"};
  static const char *const parts[] = {"model.safetensors.index.json", "pytorch_model.bin.index.json"};
  if (cn_path_kind_of(path) != CN_PATH_FOLDER) return cn_load(path);
  for (size_t i = 0; i < 2; i++) {
    if (is_file(path, whole[i])) return load_in(path, whole[i]);
    if (is_file(path, parts[i])) return load_parts(path, parts[i]);
  }
  cn_err_set(CN_ERR_IO, "zoo: the folder %s has no model.safetensors and no pytorch_model.bin", path);
  return NULL;
}

cn_tree *cni_config_beside(const char *path)
{
  const char *slash = strrchr(path, '/');
  char *where;
  if (cn_path_kind_of(path) == CN_PATH_FOLDER) where = cn_string_copy(path);
  else where = slash ? cn_string_copy_bytes(path, (size_t)(slash - path)) : cn_string_copy(".");
  cn_tree *config = where && is_file(where, "config.json") ? load_in(where, "config.json") : NULL;
  cn_string_free(where);
  return config;
}

/* Training programs keep the weights beside other things. */
static const cn_tree *weights_in(const cn_tree *file)
{
  static const char *const names[] = {"state_dict", "model_state_dict", "model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const cn_tree *inner = cn_tree_get(file, names[i]);
    if (cn_tree_kind_of(inner) == CN_TREE_DICT) return inner;
  }
  return file;
}

/* ---- names ---- */

/* The name with the first `from` in it replaced, where it is. */
static bool replaced(cn_text *t, const char *name, const char *from, const char *to)
{
  const char *at = strstr(name, from);
  if (!at) return false;
  cn_text_put_bytes(t, name, (size_t)(at - name));
  cn_text_put(t, to);
  cn_text_put(t, at + strlen(from));
  return true;
}

typedef struct matching {
  const cn_tree *file;
  const cni_model *row;
  cn_tree *found, *used; /* by the network's names; by the file's */
} matching;

static const cn_tree *take(matching *x, const char *key)
{
  const cn_tree *t = cn_tree_get(x->file, key);
  if (cn_tree_kind_of(t) != CN_TREE_TENSOR) return NULL;
  cn_tree_put(x->used, key, cn_tree_bool(true));
  return t;
}

/* Under this name, with something in front, or without the part that files may leave out. */
static const cn_tree *with_prefixes(matching *x, const char *name)
{
  static const char *const fronts[] = {"", "module.", "_orig_mod.", "model.", "bert.", "transformer."};
  const char *base = x->row->base;
  const cn_tree *t = NULL;
  for (size_t i = 0; !t && i < sizeof fronts / sizeof *fronts; i++) {
    cn_text key = {0};
    cn_text_put(&key, fronts[i]);
    cn_text_put(&key, name);
    if (key.s && !key.failed) t = take(x, key.s);
    cn_text_free(&key);
  }
  size_t n = base ? strlen(base) : 0;
  return t || !base || !cn_string_starts(name, base) || name[n] != '.' ? t : take(x, name + n + 1);
}

static const cn_tree *look_up(matching *x, const char *name)
{
  static const struct {
    const char *ours, *theirs;
  } older[] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"},
               {".mlp.0.", ".mlp.linear_1."}, {".mlp.3.", ".mlp.linear_2."},
               {".norm1.", ".norm.1."}, {".conv1.", ".conv.1."}, {".norm2.", ".norm.2."}, {".conv2.", ".conv.2."}};
  const cn_tree *t = with_prefixes(x, name);
  for (size_t i = 0; !t && i < sizeof older / sizeof *older; i++) {
    cn_text key = {0};
    if (replaced(&key, name, older[i].ours, older[i].theirs) && !key.failed) t = with_prefixes(x, key.s);
    cn_text_free(&key);
  }
  return t;
}

/* Tensors of files that a network does not need: what is computed anew, and layers for tasks behind the network. */
static bool of_no_use(const char *key)
{
  static const char *const ends[] = {".position_ids", ".token_type_ids", ".attn.bias", ".attn.masked_bias", ".inv_freq",
                                     "lm_head.weight", "num_batches_tracked"};
  static const char *const starts[] = {"cls.", "classifier.", "qa_outputs.", "score.", "aux1.", "aux2."};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (cn_string_ends(key, ends[i])) return true;
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (cn_string_starts(key, starts[i])) return true;
  return false;
}

/* ---- matching ---- */

static bool shared_with_found(const matching *x, const cn_tree *state, const cn_tensor *t)
{
  for (size_t i = 0; i < cn_tree_size(state); i++)
    if (cn_tree_as_tensor(cn_tree_at(state, i)) == t && cn_tree_get(x->found, cn_tree_key(state, i, NULL))) return true;
  return false;
}

/* Fills `found` for every name of the network. */
static int match(matching *x, const cn_tree *state, const char *path)
{
  for (size_t i = 0; !cn_err() && i < cn_tree_size(state); i++) {
    const char *name = cn_tree_key(state, i, NULL);
    const cn_tree *t = look_up(x, name);
    if (t) cn_tree_put(x->found, name, cn_tree_copy(t, false));
  }
  for (size_t i = 0; !cn_err() && i < cn_tree_size(state); i++) {
    const char *name = cn_tree_key(state, i, NULL);
    cn_tensor *own = cn_tree_as_tensor(cn_tree_at(state, i));
    if (cn_tree_get(x->found, name)) continue;
    /* tied to one that is there, or a count that old files lack */
    if (shared_with_found(x, state, own) || cn_string_ends(name, "num_batches_tracked")) continue;
    return cn_err_set(CN_ERR_IO, "%s: %s has no tensor %s", x->row->name, path, name);
  }
  for (size_t i = 0; !cn_err() && i < cn_tree_size(x->file); i++) {
    const char *key = cn_tree_key(x->file, i, NULL);
    bool tensor = cn_tree_kind_of(cn_tree_at(x->file, i)) == CN_TREE_TENSOR;
    if (key && tensor && !cn_tree_get(x->used, key) && !of_no_use(key))
      return cn_err_set(CN_ERR_IO, "%s: %s has a tensor %s that the network lacks; other sizes, or another network?",
                        x->row->name, path, key);
  }
  return cn_err();
}

int cni_load_pretrained(cn_module *m, const cni_model *row, const char *path)
{
  cn_tree *file = load_weights(path), *state = cn_module_state(m);
  matching x = {weights_in(file), row, cn_tree_dict(), cn_tree_dict()};
  if (!cn_err() && cn_tree_kind_of(x.file) != CN_TREE_DICT)
    cn_err_set(CN_ERR_IO, "%s: %s holds no tensors by name", row->name, path);
  if (!cn_err() && !match(&x, state, path)) cn_module_load(m, x.found, .lenient = true);
  cn_tree_free(x.found);
  cn_tree_free(x.used);
  cn_tree_free(state);
  cn_tree_free(file);
  return cn_err();
}
