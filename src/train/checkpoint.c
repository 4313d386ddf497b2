/* checkpoint.c: the whole state of a run in one file, and back. See train.h.
 *
 * Place in the flow: each part (module, optimiser, ...) gives its state as a tree; all tensors of the trees go into a
 * safetensors file under their paths ("net.0.weight", "optim.state.0.exp_avg"), the rest as JSON into its metadata,
 * where {"$tensor": "net.0.weight"} stands for a tensor. So any reader of safetensors reads a checkpoint's weights.
 * Invariant: pack and unpack are inverse to each other for every tree; a file is complete or an error. */
#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <cairn/kw.h>
#include <cairn/train.h>
#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"
#define RUN "cairn.run" /* the JSON's name there */
#define SUM "cairn.sum" /* over all of it, which tells a damaged file */
enum { VERSION = 1, DEEPEST = 64 };

/* ---- trees as JSON and tensors ---- */

static cn_tree *pack(const cn_tree *tree, cn_text *path, cn_tree *tensors, int depth);

static cn_tree *pack_tensor(const cn_tree *tree, cn_text *path, cn_tree *tensors)
{
  size_t length = path->n;
  while (path->s && cn_tree_get(tensors, path->s)) cn_text_put(path, "'"); /* "a.b" may be reached in two ways */
  cn_tree *mark = path->failed || cn_tree_put(tensors, path->s, cn_tree_copy(tree, false)) ? NULL : cn_tree_dict();
  if (mark && cn_tree_put(mark, "$tensor", cn_tree_str(path->s))) {
    cn_tree_free(mark);
    mark = NULL;
  }
  path->n = length;
  if (path->s) path->s[length] = 0;
  return mark;
}

/* The tree of one item, with its key or number added to the path meanwhile. */
static cn_tree *pack_item(const cn_tree *tree, size_t i, cn_text *path, cn_tree *tensors, int depth)
{
  size_t length = path->n;
  int64_t index = (int64_t)i;
  const char *key = cn_tree_key(tree, i, &index);
  if (key) cn_text_putf(path, ".%s", key);
  else cn_text_putf(path, ".%lld", (long long)index);
  cn_tree *value = path->failed ? NULL : pack(cn_tree_at(tree, i), path, tensors, depth + 1);
  path->n = length;
  if (path->s) path->s[length] = 0;
  return value;
}

/* Can JSON's own dictionaries hold these keys, and cannot they be taken for a mark? */
static bool plain_keys(const cn_tree *dict)
{
  for (size_t i = 0; i < cn_tree_size(dict); i++) {
    const char *key = cn_tree_key(dict, i, NULL);
    if (!key || *key == '$') return false;
  }
  return true;
}

static cn_tree *key_tree(const cn_tree *dict, size_t i)
{
  int64_t index;
  const char *key = cn_tree_key(dict, i, &index);
  return key ? cn_tree_str(key) : cn_tree_int(index);
}

/* {"$items": [key, value, key, value, ...]} where keys are numbers. */
static cn_tree *pack_items(const cn_tree *tree, cn_text *path, cn_tree *tensors, int depth)
{
  cn_tree_kind kind = cn_tree_kind_of(tree);
  bool dict = kind == CN_TREE_DICT, plain = dict && plain_keys(tree);
  cn_tree *items = plain ? cn_tree_dict() : cn_tree_list();
  int status = items ? CN_OK : cn_err();
  for (size_t i = 0; !status && i < cn_tree_size(tree); i++) {
    if (dict && !plain) status = cn_tree_push(items, key_tree(tree, i));
    cn_tree *value = status ? NULL : pack_item(tree, i, path, tensors, depth);
    if (!status) status = plain ? cn_tree_put(items, cn_tree_key(tree, i, NULL), value) : cn_tree_push(items, value);
  }
  if (!status && (kind == CN_TREE_TUPLE || (dict && !plain))) {
    cn_tree *mark = cn_tree_dict();
    if (mark) status = cn_tree_put(mark, dict ? "$items" : "$tuple", items);
    else status = cn_err();
    if (!mark) cn_tree_free(items);
    items = mark;
  }
  if (!status) return items;
  cn_tree_free(items);
  return NULL;
}

/* The tree without its tensors, which go to `tensors` under their paths. Owned. */
static cn_tree *pack(const cn_tree *tree, cn_text *path, cn_tree *tensors, int depth)
{
  cn_tree_kind kind = cn_tree_kind_of(tree);
  if (depth > DEEPEST) {
    cn_err_set(CN_ERR_VALUE, "checkpoint: the state is nested deeper than %d levels", DEEPEST);
    return NULL;
  }
  if (kind == CN_TREE_TENSOR) return pack_tensor(tree, path, tensors);
  if (kind == CN_TREE_LIST || kind == CN_TREE_TUPLE || kind == CN_TREE_DICT)
    return pack_items(tree, path, tensors, depth);
  return kind == CN_TREE_NONE ? cn_tree_none() : cn_tree_copy(tree, false);
}

static cn_tree *unpack(const cn_tree *json, const cn_tree *tensors);

static cn_tree *unpack_tensor(const cn_tree *mark, const cn_tree *tensors)
{
  const char *name = cn_tree_as_str(mark, "");
  cn_tensor *t = cn_tree_as_tensor(cn_tree_get(tensors, name));
  if (t) return cn_tree_tensor(t);
  cn_err_set(CN_ERR_IO, "checkpoint: the tensor '%.100s' is missing in the file", name);
  return NULL;
}

static cn_tree *unpack_keys(const cn_tree *items, const cn_tree *tensors)
{
  cn_tree *dict = cn_tree_dict();
  int status = dict ? CN_OK : cn_err();
  for (size_t i = 0; !status && i + 1 < cn_tree_size(items); i += 2) {
    const cn_tree *key = cn_tree_at(items, i);
    cn_tree *value = unpack(cn_tree_at(items, i + 1), tensors);
    const char *text = cn_tree_as_str(key, NULL);
    status = text ? cn_tree_put(dict, text, value) : cn_tree_put_index(dict, cn_tree_as_int(key, 0), value);
  }
  if (!status) return dict;
  cn_tree_free(dict);
  return NULL;
}

static cn_tree *unpack_all(cn_tree *out, const cn_tree *json, const cn_tree *tensors)
{
  int status = out ? CN_OK : cn_err();
  bool dict = cn_tree_kind_of(out) == CN_TREE_DICT;
  for (size_t i = 0; !status && i < cn_tree_size(json); i++) {
    cn_tree *value = unpack(cn_tree_at(json, i), tensors);
    status = dict ? cn_tree_put(out, cn_tree_key(json, i, NULL), value) : cn_tree_push(out, value);
  }
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

/* What pack was given. Owned; JSON's reader bounds the depth. */
static cn_tree *unpack(const cn_tree *json, const cn_tree *tensors)
{
  const cn_tree *inner;
  if (cn_tree_kind_of(json) == CN_TREE_LIST) return unpack_all(cn_tree_list(), json, tensors);
  if (cn_tree_kind_of(json) != CN_TREE_DICT) return json ? cn_tree_copy(json, false) : cn_tree_none();
  if ((inner = cn_tree_get(json, "$tensor"))) return unpack_tensor(inner, tensors);
  if ((inner = cn_tree_get(json, "$items"))) return unpack_keys(inner, tensors);
  if ((inner = cn_tree_get(json, "$tuple"))) return unpack_all(cn_tree_tuple(), inner, tensors);
  return unpack_all(cn_tree_dict(), json, tensors);
}

/* ---- numbers of 64 bits, which JSON's readers round ---- */

static cn_tree *hex_tree(uint64_t v)
{
  cn_text t = {0};
  cn_text_putf(&t, "%016llx", (unsigned long long)v);
  cn_tree *tree = t.failed ? NULL : cn_tree_str(t.s);
  cn_text_free(&t);
  return tree;
}

static int read_hex(uint64_t *v, const cn_tree *tree)
{
  const char *s = cn_tree_as_str(tree, "");
  char *end;
  *v = strtoull(s, &end, 16);
  return end == s + 16 && !*end ? CN_OK : cn_err_set(CN_ERR_IO, "checkpoint: a 64-bit number is missing");
}

/* ---- a sum over everything ---- */

static uint64_t mix(uint64_t sum, uint64_t v)
{
  v *= 0x9e3779b97f4a7c15u;
  sum ^= v << 31 | v >> 33;
  return sum * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
}

static uint64_t sum_bytes(uint64_t sum, const unsigned char *p, size_t n)
{
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    sum = mix(sum, v);
  }
  uint64_t v = n;
  for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
  return mix(sum, v);
}

/* A tensor with its name, type and shape. */
static uint64_t sum_tensor(const char *name, cn_tensor *t)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  if (cn_device_of(t) != CN_CPU) t = cn_to_device(t, CN_CPU);
  if (t && !cn_is_contiguous(t)) t = cn_contiguous(t);
  const void *data = t && cn_numel(t) ? cn_data_const(t) : NULL;
  uint64_t sum = sum_bytes((uint64_t)cn_dtype_of(t), (const unsigned char *)name, strlen(name));
  for (int i = 0; i < cn_ndim(t); i++) sum = mix(sum, (uint64_t)cn_shape(t)[i]);
  if (data) sum = sum_bytes(sum, data, cn_tensor_nbytes(t));
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return sum;
}

/* Of the JSON and the tensors, in whatever order a file has them. */
static int sum_all(uint64_t *sum, const char *json, const cn_tree *tensors)
{
  *sum = sum_bytes(0, (const unsigned char *)json, strlen(json));
  for (size_t i = 0; i < cn_tree_size(tensors); i++) {
    const char *name = cn_tree_key(tensors, i, NULL);
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(tensors, i));
    if (t && name) *sum += sum_tensor(name, t);
  }
  return cn_err();
}

/* ---- out ---- */

/* Adds the state of a part, taken over, under its name. */
static int add_part(cn_tree *json, cn_tree *tensors, const char *name, cn_tree *state)
{
  cn_text path = {0};
  cn_text_put(&path, name);
  cn_tree *packed = state && !path.failed ? pack(state, &path, tensors, 0) : NULL;
  int status = packed ? cn_tree_put(json, name, packed) : cn_err();
  cn_text_free(&path);
  cn_tree_free(state);
  return status;
}

static int add_parts(cn_tree *json, cn_tree *tensors, const cn_run *run, const cn_tree *extra)
{
  int status = CN_OK;
  if (run->net) status = add_part(json, tensors, "net", cn_module_state(run->net));
  if (!status && run->opt) status = add_part(json, tensors, "optim", cn_optim_state(run->opt));
  if (!status && run->schedule) status = add_part(json, tensors, "schedule", cn_schedule_state(run->schedule));
  if (!status && run->loader) status = add_part(json, tensors, "loader", cn_loader_state(run->loader));
  if (!status && run->scaler) status = add_part(json, tensors, "scaler", cn_grad_scaler_state(run->scaler));
  if (!status && run->average) status = add_part(json, tensors, "average", cn_average_state(run->average));
  if (!status && extra) status = add_part(json, tensors, "extra", cn_tree_copy(extra, false));
  return status;
}

static int add_numbers(cn_tree *json, const cn_run *run)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  int status = cn_tree_put(json, "version", cn_tree_int(VERSION));
  if (!status) status = cn_tree_put(json, "epoch", cn_tree_int(run->epoch));
  if (!status) status = cn_tree_put(json, "step", cn_tree_int(run->step));
  if (!status) status = cn_tree_put(json, "seed", hex_tree(seed));
  if (!status) status = cn_tree_put(json, "offset", hex_tree(offset));
  return status;
}

/* The file's metadata: how tensors are laid out, in the word that other readers know, and the JSON (may be NULL). */
static int add_metadata(cn_tree *tensors, const char *json)
{
  uint64_t sum = 0;
  cn_tree *metadata = cn_tree_dict();
  int status = metadata ? cn_tree_put(metadata, "format", cn_tree_str("pt")) : cn_err();
  if (!status && json) status = cn_tree_put(metadata, RUN, cn_tree_str(json));
  if (!status && json) status = sum_all(&sum, json, tensors);
  if (!status && json) status = cn_tree_put(metadata, SUM, hex_tree(sum));
  if (!status) return cn_tree_put(tensors, METADATA, metadata);
  cn_tree_free(metadata);
  return status;
}

int cn_run_save(const char *path, const cn_run *run, const cn_tree *extra)
{
  if (cn_err()) return cn_err();
  if (!path || !run) return cn_err_set(CN_ERR_TYPE, "run_save: an argument is missing (NULL)");
  cn_tree *json = cn_tree_dict(), *tensors = json ? cn_tree_dict() : NULL;
  int status = tensors ? add_parts(json, tensors, run, extra) : cn_err();
  if (!status) status = add_numbers(json, run);
  char *text = status ? NULL : cn_tree_to_json(json, 0);
  if (!status) status = text ? add_metadata(tensors, text) : cn_err();
  if (!status) status = cn_save_as(path, tensors, CN_FORMAT_SAFETENSORS);
  cn_string_free(text);
  cn_tree_free(json);
  cn_tree_free(tensors);
  return status;
}

/* ---- in ---- */

/* The JSON of a checkpoint; NULL without an error for files that are none. Owned. */
static cn_tree *run_json(const cn_tree *file)
{
  const cn_tree *text = cn_tree_get(cn_tree_get(file, METADATA), RUN);
  return text ? cn_tree_from_json(cn_tree_as_str(text, ""), cn_tree_str_size(text)) : NULL;
}

static int check_file(const char *path, const cn_tree *file, const cn_tree *json)
{
  uint64_t sum, want;
  int64_t version = cn_tree_as_int(cn_tree_get(json, "version"), -1);
  if (version < 1 || version > VERSION)
    return cn_err_set(CN_ERR_IO, "%s: a checkpoint of version %lld; this library reads up to %d", path,
                      (long long)version, VERSION);
  const cn_tree *metadata = cn_tree_get(file, METADATA);
  int status = read_hex(&want, cn_tree_get(metadata, SUM));
  if (!status) status = sum_all(&sum, cn_tree_as_str(cn_tree_get(metadata, RUN), ""), file);
  if (!status && sum != want) return cn_err_set(CN_ERR_IO, "%s: the checkpoint is damaged: its sum is wrong", path);
  return status;
}

/* Opens a checkpoint and checks it. Both owned by the caller, also on failure. */
static int open_run(cn_tree **file, cn_tree **json, const char *path)
{
  *json = NULL;
  *file = cn_load(path);
  if (!*file) return cn_err();
  *json = run_json(*file);
  if (!*json) return cn_err() ? cn_err() : cn_err_set(CN_ERR_IO, "%s: not a checkpoint of a run", path);
  return check_file(path, *file, *json);
}

typedef struct loading {
  const char *path;
  const cn_tree *file, *json;
} loading;

/* The state of a part that the run has. Owned. */
static cn_tree *part(const loading *l, const char *name)
{
  const cn_tree *packed = cn_tree_get(l->json, name);
  if (packed) return unpack(packed, l->file);
  cn_err_set(CN_ERR_VALUE, "%s: the checkpoint has no %s", l->path, name);
  return NULL;
}

/* As `part`, for a part that has a loading function. */
#define LOAD(object, name, load) \
  do { \
    if (!status && (object)) { \
      cn_tree *state = part(l, name); \
      status = state ? load(object, state) : cn_err(); \
      cn_tree_free(state); \
    } \
  } while (0)

static int load_net(cn_module *net, const cn_tree *state) { return cn_module_load(net, state); }

static int load_parts(const loading *l, const cn_run *run)
{
  int status = CN_OK;
  LOAD(run->net, "net", load_net);
  LOAD(run->opt, "optim", cn_optim_load);
  LOAD(run->schedule, "schedule", cn_schedule_load);
  LOAD(run->loader, "loader", cn_loader_load);
  LOAD(run->scaler, "scaler", cn_grad_scaler_load);
  LOAD(run->average, "average", cn_average_load);
  return status;
}

static int load_numbers(const loading *l, cn_run *run)
{
  uint64_t seed, offset;
  int status = read_hex(&seed, cn_tree_get(l->json, "seed"));
  if (!status) status = read_hex(&offset, cn_tree_get(l->json, "offset"));
  if (status) return status;
  cn_random_set_state(seed, offset);
  run->epoch = cn_tree_as_int(cn_tree_get(l->json, "epoch"), 0);
  run->step = cn_tree_as_int(cn_tree_get(l->json, "step"), 0);
  return CN_OK;
}

int cn_run_load(const char *path, cn_run *run, cn_tree **extra)
{
  cn_tree *file, *json;
  if (extra) *extra = NULL;
  if (cn_err()) return cn_err();
  if (!path || !run) return cn_err_set(CN_ERR_TYPE, "run_load: an argument is missing (NULL)");
  int status = open_run(&file, &json, path);
  loading l = {path, file, json};
  if (!status) status = load_parts(&l, run);
  if (!status && extra && cn_tree_get(json, "extra") && !(*extra = part(&l, "extra"))) status = cn_err();
  if (!status) status = load_numbers(&l, run);
  if (status && extra) {
    cn_tree_free(*extra);
    *extra = NULL;
  }
  cn_tree_free(json);
  cn_tree_free(file);
  return status;
}

/* ---- weights alone ---- */

int cn_module_save(cn_module *m, const char *path)
{
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "module_save: the path is missing (NULL)");
  cn_tree *state = cn_module_state(m);
  int status = state ? CN_OK : cn_err();
  if (!status && cn_string_ends(path, ".safetensors")) status = add_metadata(state, NULL);
  if (!status) status = cn_save(path, state);
  cn_tree_free(state);
  return status;
}

/* The weights in what a file held: a checkpoint's, those under a name that trainers use, or all but metadata. Owned. */
static cn_tree *weights_of(const char *path, const cn_tree *file)
{
  static const char *const names[] = {"state_dict", "model_state_dict", "model"};
  cn_tree *json = run_json(file), *weights = NULL;
  if (json) {
    loading l = {path, file, json};
    if (!check_file(path, file, json)) weights = part(&l, "net");
    cn_tree_free(json);
    return weights;
  }
  if (cn_err()) return NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (cn_tree_kind_of(cn_tree_get(file, names[i])) == CN_TREE_DICT)
      return cn_tree_copy(cn_tree_get(file, names[i]), false);
  if (cn_tree_kind_of(file) != CN_TREE_DICT) {
    cn_err_set(CN_ERR_VALUE, "%s: no dictionary of weights", path);
    return NULL;
  }
  weights = cn_tree_dict();
  for (size_t i = 0; weights && i < cn_tree_size(file); i++) {
    const char *key = cn_tree_key(file, i, NULL);
    if (key && strcmp(key, METADATA) && cn_tree_put(weights, key, cn_tree_copy(cn_tree_at(file, i), false))) {
      cn_tree_free(weights);
      return NULL;
    }
  }
  return weights;
}

int cn_module_load_file(cn_module *m, const char *path)
{
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "module_load_file: the path is missing (NULL)");
  cn_tree *file = cn_load(path), *weights = file ? weights_of(path, file) : NULL;
  int status = weights ? cn_module_load(m, weights) : cn_err();
  cn_tree_free(weights);
  cn_tree_free(file);
  return status;
}
