/* mesh.c: meshes and splits as texts. See cairn/mesh.h.
 *
 * Place in the flow: the op shard, StableHLO texts and backends with several devices read splits by these functions
 * alone. Invariant: a partition that was read fits its mesh and its shape: sizes divide, no axis is there twice. */
#include <cairn/mesh.h>
#include <stdio.h>
#include <string.h>

#include "base/state.h"

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_name(const char *s)
{
  if (!is_letter(*s)) return false;
  while (is_letter(*s) || (*s >= '0' && *s <= '9') || *s == '_') s++;
  return !*s;
}

int cn_mesh_check(const cn_mesh *mesh)
{
  if (!mesh || mesh->naxes < 1 || mesh->naxes > CN_MESH_AXES)
    return cni_fail(CN_ERR_VALUE, "mesh: it needs from 1 to %d axes", CN_MESH_AXES);
  for (int k = 0; k < mesh->naxes; k++) {
    const cn_mesh_axis *axis = &mesh->axes[k];
    if (!memchr(axis->name, 0, sizeof axis->name) || !is_name(axis->name))
      return cni_fail(CN_ERR_VALUE,
                      "mesh: the name of axis %d is to be a letter, then letters, digits and _, "
                      "%d at most",
                      k, CN_MESH_NAME - 1);
    if (axis->size < 1 || axis->size > 1 << 16)
      return cni_fail(CN_ERR_VALUE, "mesh: axis %s has size %lld", axis->name, (long long)axis->size);
    for (int j = 0; j < k; j++)
      if (!strcmp(mesh->axes[j].name, axis->name)) return cni_fail(CN_ERR_VALUE, "mesh: two axes %s", axis->name);
  }
  return CN_OK;
}

/* ---- reading ---- */

static int no_such_axis(const cn_mesh *mesh, const char *name, size_t n)
{
  char all[CN_MESH_AXES * (CN_MESH_NAME + 2)] = "";
  for (int k = 0; k < mesh->naxes; k++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? ", " : "", mesh->axes[k].name);
  return cni_fail(CN_ERR_VALUE, "shard: the mesh has no axis '%.*s'; it has %s", (int)n, name, all);
}

/* One axis of a dim. last: the axis before it in this dim, or -1. */
static int read_axis(cn_partition *p, int *last, const cn_mesh *mesh, const char *name, size_t n, int dim)
{
  int k = 0;
  while (k < mesh->naxes && (strlen(mesh->axes[k].name) != n || memcmp(mesh->axes[k].name, name, n) != 0)) k++;
  if (k == mesh->naxes) return no_such_axis(mesh, name, n);
  if (p->dim[k] >= 0) return cni_fail(CN_ERR_VALUE, "shard: axis %s is named twice", mesh->axes[k].name);
  if (k < *last)
    return cni_fail(CN_ERR_VALUE, "shard: axes of one dim stand in the mesh's order: %s before %s", mesh->axes[k].name,
                    mesh->axes[*last].name);
  p->dim[*last = k] = (int8_t)dim;
  return CN_OK;
}

static int read_dim(cn_partition *p, const cn_mesh *mesh, const char *s, const char *end, int dim)
{
  int status = CN_OK, last = -1;
  while (s < end && !status) {
    size_t n = strcspn(s, "+,"), blank = strspn(s, " "), m = n;
    while (m > blank && s[m - 1] == ' ') m--;
    bool none = m == blank || (m == blank + 1 && s[blank] == '*');
    if (!none) status = read_axis(p, &last, mesh, s + blank, m - blank, dim);
    s += n + 1;
  }
  return status;
}

static int check_sizes(const cn_partition *p, const cn_mesh *mesh, int ndim, const int64_t *shape)
{
  for (int d = 0; d < ndim; d++) {
    int64_t parts = 1;
    for (int k = 0; k < mesh->naxes; k++) parts *= p->dim[k] == d ? mesh->axes[k].size : 1;
    if (shape[d] % parts)
      return cni_fail(CN_ERR_SHAPE, "shard: dim %d of size %lld cannot be split in %lld equal parts", d,
                      (long long)shape[d], (long long)parts);
  }
  return CN_OK;
}

int cn_partition_read(cn_partition *p, const cn_mesh *mesh, const char *text, int ndim, const int64_t *shape)
{
  memset(p, -1, sizeof *p);
  int status = cn_mesh_check(mesh), dim = 0;
  for (const char *s = text ? text : ""; *s && !status; dim++) {
    size_t n = strcspn(s, ",");
    if (dim >= ndim)
      status = cni_fail(CN_ERR_SHAPE, "shard: \"%s\" has more parts than the tensor has dims: %d", text, ndim);
    else status = read_dim(p, mesh, s, s + n, dim);
    s += n + (s[n] == ',');
  }
  return status ? status : check_sizes(p, mesh, ndim, shape);
}

/* ---- writing ---- */

const char *cn_partition_write(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p)
{
  int last = -1;
  size_t n = 0;
  for (int k = 0; k < mesh->naxes; k++) last = p->dim[k] > last ? p->dim[k] : last;
  if (size) *text = 0;
  for (int d = 0; d <= last && n < size; d++) {
    bool any = false;
    n += (size_t)snprintf(text + n, size - n, "%s", d ? ", " : "");
    for (int k = 0; k < mesh->naxes && n < size; k++) {
      if (p->dim[k] != d) continue;
      n += (size_t)snprintf(text + n, size - n, "%s%s", any ? "+" : "", mesh->axes[k].name);
      any = true;
    }
    if (!any && n < size) n += (size_t)snprintf(text + n, size - n, "*");
  }
  return text;
}
