/* convert.c: `cairn convert`: files of weights from one format into another, or a list of what is in them.
 *
 * Place in the flow: io.h reads and writes; formats that hold no nested trees get names joined by dots. Invariant: OUT
 * is written whole or not at all. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

const char help_convert[] =
    "Formats go by the ending of OUT. IN is read by its content. Nothing in a file is executed.\n"
    "\n"
    "  --formats        the formats, the endings of their files, and what they hold\n"
    "  --list           names, shapes and types of IN; writes nothing\n"
    "  --dtype T        floats as float32, float16, bfloat16, float64\n"
    "  --weights        of a checkpoint: the network's parameters and buffers alone\n"
    "  --prefix P       take only names that begin with P, and leave it out\n";

typedef struct request {
  cn_dtype dtype;
  const char *prefix;
} request;

/* The tree of a file; an error names it. */
static cn_tree *load(const char *path)
{
  char message[512];
  cn_tree *tree = cn_load(path);
  if (tree || strstr(cn_err_message(), path)) return tree;
  int code = cn_err();
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  cn_err_set(code, "%s: %s", path, message);
  return NULL;
}

/* ---- listing ---- */

typedef struct sums {
  int64_t tensors, elements, bytes;
} sums;

static void print_tensor(const char *name, const cn_tensor *t)
{
  char shape[160];
  size_t n = 0;
  shape[0] = 0;
  for (int i = 0; i < cn_ndim(t) && n < sizeof shape - 24; i++)
    n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", i ? ", " : "", (long long)cn_size(t, i));
  printf("%-48s %-10s [%s]\n", name, cn_dtype_name(cn_dtype_of(t)), shape);
}

static void print_plain(const char *name, const cn_tree *tree)
{
  char *text = cn_tree_to_json(tree, 0);
  printf("%-48s %.60s%s\n", name, text ? text : "?", text && strlen(text) > 60 ? "..." : "");
  cn_string_free(text);
}

/* Calls fn for every leaf with its name. */
typedef int (*leaf_fn)(const char *name, const cn_tree *leaf, void *payload);

static int each_leaf(const cn_tree *tree, const char *name, leaf_fn fn, void *payload, int depth)
{
  cn_tree_kind kind = cn_tree_kind_of(tree);
  if (depth > 50) return cn_err_set(CN_ERR_VALUE, "the file nests deeper than 50 levels");
  if (kind != CN_TREE_DICT && kind != CN_TREE_LIST && kind != CN_TREE_TUPLE) return fn(name, tree, payload);
  int status = CN_OK;
  for (size_t i = 0; i < cn_tree_size(tree) && !status; i++) {
    int64_t index = (int64_t)i;
    const char *key = kind == CN_TREE_DICT ? cn_tree_key(tree, i, &index) : NULL;
    cn_text path = {0};
    cn_text_putf(&path, "%s%s", name, *name ? "." : "");
    if (key) cn_text_put(&path, key);
    else cn_text_putf(&path, "%lld", (long long)index);
    status = path.failed ? CN_ERR_MEMORY : each_leaf(cn_tree_at(tree, i), path.s, fn, payload, depth + 1);
    cn_text_free(&path);
  }
  return status;
}

static int list_leaf(const char *name, const cn_tree *leaf, void *payload)
{
  sums *s = payload;
  const cn_tensor *t = cn_tree_as_tensor(leaf);
  if (!t) {
    print_plain(name, leaf);
    return CN_OK;
  }
  print_tensor(name, t);
  s->tensors++;
  s->elements += cn_numel(t);
  s->bytes += (int64_t)cn_tensor_nbytes(t);
  return CN_OK;
}

static int list(const char *path)
{
  sums s = {0, 0, 0};
  cn_tree *tree = load(path);
  if (tree && !each_leaf(tree, "", list_leaf, &s, 0))
    printf("%lld tensors, %lld elements, %.2f MB\n", (long long)s.tensors, (long long)s.elements,
           (double)s.bytes / 1e6);
  cn_tree_free(tree);
  return cn_err() ? command_failed() : 0;
}

/* ---- converting ---- */

static cn_tree *converted(const cn_tree *leaf, cn_dtype dtype)
{
  cn_tensor *t = cn_tree_as_tensor(leaf);
  if (!t || !dtype || !cn_dtype_is_float(cn_dtype_of(t))) return cn_tree_copy(leaf, false);
  cn_scope *s = cn_scope_begin();
  cn_tree *made = cn_tree_tensor(cn_cast(t, dtype));
  cn_scope_end(s);
  return made;
}

/* The same tree with other types. */
static cn_tree *cast_tree(const cn_tree *tree, cn_dtype dtype, int depth)
{
  cn_tree_kind kind = cn_tree_kind_of(tree);
  cn_tree *made = kind == CN_TREE_DICT ? cn_tree_dict() : kind == CN_TREE_TUPLE ? cn_tree_tuple() : cn_tree_list();
  if (kind != CN_TREE_DICT && kind != CN_TREE_LIST && kind != CN_TREE_TUPLE) {
    cn_tree_free(made);
    return converted(tree, dtype);
  }
  if (depth > 50) cn_err_set(CN_ERR_VALUE, "the file nests deeper than 50 levels");
  for (size_t i = 0; i < cn_tree_size(tree) && !cn_err(); i++) {
    int64_t index;
    const char *key = kind == CN_TREE_DICT ? cn_tree_key(tree, i, &index) : NULL;
    if (!depth && key && !strcmp(key, "__metadata__")) continue; /* of safetensors: no weights */
    cn_tree *value = cast_tree(cn_tree_at(tree, i), dtype, depth + 1);
    if (kind != CN_TREE_DICT) cn_tree_push(made, value);
    else if (key) cn_tree_put(made, key, value);
    else cn_tree_put_index(made, index, value);
  }
  if (!cn_err()) return made;
  cn_tree_free(made);
  return NULL;
}

typedef struct flat {
  cn_tree *all;
  const request *r;
  size_t left_out; /* things that are not tensors */
} flat;

static int flat_leaf(const char *name, const cn_tree *leaf, void *payload)
{
  flat *f = payload;
  size_t n = f->r->prefix ? strlen(f->r->prefix) : 0;
  if (n && strncmp(name, f->r->prefix, n)) return CN_OK;
  if (cn_tree_kind_of(leaf) != CN_TREE_TENSOR) {
    f->left_out += strncmp(name, "__metadata__", 12) != 0;
    return CN_OK;
  }
  if (cn_tree_get(f->all, name + n)) return cn_err_set(CN_ERR_VALUE, "two tensors would be called '%s'", name + n);
  return cn_tree_put(f->all, name + n, converted(leaf, f->r->dtype));
}

static cn_tree *only_array(const cn_tree *all, const char *path)
{
  if (cn_tree_size(all) == 1) return cn_tree_copy(cn_tree_at(all, 0), false);
  cn_err_set(CN_ERR_VALUE, "%s: such a file holds one array, not %zu; .npz holds many", path, cn_tree_size(all));
  return NULL;
}

static int convert(const char *in, const char *out, const request *r)
{
  cn_tree *from = load(in), *to = NULL;
  const cn_format_info *format = cn_format_named(out);
  cn_format_holds holds = format ? format->holds : CN_HOLDS_TREE; /* of no format: cn_save says so */
  bool nested = (holds == CN_HOLDS_TREE || holds == CN_HOLDS_SETTINGS) && !r->prefix;
  flat f = {nested ? NULL : cn_tree_dict(), r, 0};
  const char *name = cn_tree_kind_of(from) == CN_TREE_TENSOR ? "array" : "";
  if (from && nested) to = cast_tree(from, r->dtype, 0);
  else if (from && f.all && !each_leaf(from, name, flat_leaf, &f, 0)) {
    to = holds == CN_HOLDS_ARRAY ? only_array(f.all, out) : cn_tree_copy(f.all, false);
    if (to && !cn_tree_size(f.all)) cn_err_set(CN_ERR_VALUE, "%s: there are no tensors to write", in);
  }
  if (to && !cn_err() && !cn_save(out, to)) {
    printf("wrote %s (%.2f MB)\n", out, (double)cn_file_size(out) / 1e6);
    if (f.left_out) printf("%zu values that are not tensors were left out\n", f.left_out);
  }
  cn_tree_free(to);
  cn_tree_free(f.all);
  cn_tree_free(from);
  return cn_err() ? command_failed() : 0;
}

static int list_formats(void)
{
  static const char *const holds[] = {[CN_HOLDS_ARRAY] = "one array", [CN_HOLDS_TENSORS] = "tensors by name",
                                      [CN_HOLDS_SETTINGS] = "settings without tensors",
                                      [CN_HOLDS_TREE] = "tensors and settings, nested"};
  const cn_format_info *f;
  for (size_t i = 0; (f = cn_format_at(i)); i++) printf("%-12s %-20s %s\n", f->name, f->endings, holds[f->holds]);
  return 0;
}

int command_convert(int argc, char **argv)
{
  const char *words[2] = {NULL, NULL}, *dtype = NULL;
  bool listing = false, weights = false, formats = false;
  request r = {CN_DTYPE_NONE, NULL};
  const command_flag flags[] = {{"--dtype", &dtype, NULL}, {"--list", NULL, &listing}, {"--prefix", &r.prefix, NULL},
                                {"--weights", NULL, &weights}, {"--formats", NULL, &formats}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, words, 2);
  if (n < 0) return 2;
  if (dtype && (!(r.dtype = cn_dtype_find(dtype)) || !cn_dtype_is_float(r.dtype))) return command_usage(argv[0], dtype);
  if (formats) return n ? command_usage(argv[0], words[0]) : list_formats();
  if (listing) return n == 1 ? list(words[0]) : command_missing(argv[0], "--list takes one file");
  if (n < 2) return command_missing(argv[0], n ? "the file to write is missing" : "the file to read is missing");
  if (weights && !r.prefix) r.prefix = "net.";
  return convert(words[0], words[1], &r);
}
