/* listing.c: see listing.h. */
#define _XOPEN_SOURCE 700 /* P_tmpdir */
#include "listing.h"

#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/zip/inflate.h"
#include "formats/json.h"

static void put_tensor(cn_text *out, cn_tensor *t)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *c = cn_contiguous(t);
  uint32_t crc = cni_crc32(0, cn_numel(c) ? cn_data(c) : "", cn_tensor_nbytes(c));
  cn_text_putf(out, " tensor %s [", cn_dtype_name(cn_dtype_of(t)));
  for (int i = 0; i < cn_ndim(t); i++) cn_text_putf(out, "%s%lld", i ? ", " : "", (long long)cn_shape(t)[i]);
  cn_text_putf(out, "] %u", (unsigned)crc);
  cn_scope_end(s);
}

static void put_value(cn_text *out, const cn_tree *tree)
{
  double f = cn_tree_as_float(tree, 0);
  uint64_t raw;
  memcpy(&raw, &f, sizeof raw);
  switch (cn_tree_kind_of(tree)) {
  case CN_TREE_NONE: cn_text_put(out, " none"); break;
  case CN_TREE_BOOL: cn_text_putf(out, " bool %d", cn_tree_as_bool(tree, false)); break;
  case CN_TREE_INT: cn_text_putf(out, " int %lld", (long long)cn_tree_as_int(tree, 0)); break;
  case CN_TREE_FLOAT: cn_text_putf(out, " float %016llx", (unsigned long long)raw); break;
  case CN_TREE_STR:
    cn_text_put(out, " str ");
    cni_json_put_string(out, cn_tree_as_str(tree, ""), cn_tree_str_size(tree));
    break;
  case CN_TREE_TENSOR: put_tensor(out, cn_tree_as_tensor(tree)); break;
  case CN_TREE_LIST: cn_text_putf(out, " list %zu", cn_tree_size(tree)); break;
  case CN_TREE_TUPLE: cn_text_putf(out, " tuple %zu", cn_tree_size(tree)); break;
  case CN_TREE_DICT: cn_text_putf(out, " dict %zu", cn_tree_size(tree)); break;
  }
}

static void put_lines(cn_text *out, const cn_tree *tree, const char *path)
{
  cni_json_put_string(out, path, strlen(path));
  put_value(out, tree);
  cn_text_put(out, "\n");
  for (size_t i = 0; i < cn_tree_size(tree); i++) {
    cn_text below = {0};
    int64_t index = (int64_t)i;
    const char *key = cn_tree_key(tree, i, &index);
    if (key) cn_text_putf(&below, "%s/%s", path, key);
    else cn_text_putf(&below, "%s/%lld", path, (long long)index);
    put_lines(out, cn_tree_at(tree, i), below.s);
    cn_text_free(&below);
  }
}

char *listing(const cn_tree *tree)
{
  cn_text out = {0};
  put_lines(&out, tree, "");
  return cn_text_take(&out);
}

const char *scratch(const char *name)
{
  static char path[300];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cairn-formats-%s", folder ? folder : P_tmpdir, name);
  return path;
}
