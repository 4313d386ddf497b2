/* mesh.c: the row of shard, and splits in the words of XLA's partitioner (mhlo.sharding) and of its successor, Shardy
 * (sdy.sharding). See row.h and cairn/mesh.h.
 *
 * Shardy knows the mesh and names the axes of each dim. To the older one a sharding is a list of devices as an array:
 * first a dim for each dim of the tensor, as many as the dim has parts, then one for what is the same everywhere. The
 * list is that of the mesh with its axes in another order, which has a short form: [shape]<=[sizes of axes]T(order of
 * axes). Invariant: no mention of a mesh where there is none. */
#include <cairn/ext/stablehlo.h>
#include <cairn/mesh.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"

/* "a,b,c" of n numbers behind what is there. */
static size_t put_numbers(char *text, size_t size, size_t at, const int64_t *v, int n)
{
  for (int k = 0; k < n && at < size; k++)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", k ? "," : "", (long long)v[k]);
  return at;
}

/* Axes in the order of a list: axes that follow each other in both orders count as one, and those of size 1 not at all,
 * since that is the one form that partitioners read without a word about the others. Returns how many are left. */
static int merge(int64_t *sizes, int64_t *order, int n)
{
  int64_t axis[CN_MESH_AXES], kept = 0, place[CN_MESH_AXES] = {0}, in[CN_MESH_AXES];
  memcpy(in, sizes, (size_t)n * sizeof *in);
  for (int k = 0; k < n; k++)
    if (in[order[k]] > 1) axis[kept++] = order[k];
  int m = 0;
  for (int64_t k = 0; k < kept; k++) {
    bool follows = k > 0;
    for (int64_t j = k ? axis[k - 1] + 1 : 0; k && j < axis[k]; j++) follows = follows && in[j] == 1;
    if (follows && axis[k] > axis[k - 1]) in[axis[k]] *= in[axis[k - 1]], m--;
    order[m++] = axis[k];
  }
  for (int k = 0; k < m; k++) /* the place of each among those that are left */
    for (int j = 0; j < m; j++) place[k] += order[j] < order[k];
  for (int k = 0; k < m; k++) sizes[place[k]] = in[order[k]];
  memcpy(order, place, sizeof place);
  return m;
}

/* Parts of each dim, and the order of the axes: those that split a dim, then others, whose places are returned. */
static int64_t lay_out(int64_t *parts, int64_t *order, const cn_mesh *mesh, const cn_partition *p, int ndim)
{
  int64_t same = 1;
  int n = 0;
  for (int d = 0; d < ndim; d++) {
    parts[d] = 1;
    for (int k = 0; k < mesh->naxes; k++)
      if (p->dim[k] == d) parts[d] *= mesh->axes[k].size, order[n++] = k;
  }
  for (int k = 0; k < mesh->naxes; k++)
    if (p->dim[k] < 0) same *= mesh->axes[k].size, order[n++] = k;
  return same;
}

const char *cn_stablehlo_sharding(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim)
{
  int64_t parts[CN_MAX_DIMS + 1], sizes[CN_MESH_AXES], order[CN_MESH_AXES];
  bool split = false;
  int64_t same = parts[ndim] = lay_out(parts, order, mesh, p, ndim);
  for (int d = 0; d < ndim; d++) split = split || parts[d] > 1;
  for (int k = 0; k < mesh->naxes; k++) sizes[k] = mesh->axes[k].size;
  size_t at = (size_t)snprintf(text, size, split ? "{devices=[" : "{replicated}");
  if (!split) return text;
  int n = merge(sizes, order, mesh->naxes);
  at = put_numbers(text, size, at, parts, ndim + (same > 1));
  if (at < size) at += (size_t)snprintf(text + at, size - at, "]<=[");
  at = put_numbers(text, size, at, sizes, n);
  if (at < size) at += (size_t)snprintf(text + at, size - at, n > 1 ? "]T(" : "]");
  if (n > 1) at = put_numbers(text, size, at, order, n);
  if (at < size) snprintf(text + at, size - at, "%s%s}", n > 1 ? ")" : "", same > 1 ? " last_tile_dim_replicate" : "");
  return text;
}

const char *cn_stablehlo_shardy(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim)
{
  size_t at = (size_t)snprintf(text, size, "<@mesh, [");
  for (int d = 0; d < ndim && at < size; d++) {
    bool first = true;
    at += (size_t)snprintf(text + at, size - at, d ? ", {" : "{");
    for (int k = 0; k < mesh->naxes && at < size; k++) {
      if (p->dim[k] != d) continue;
      at += (size_t)snprintf(text + at, size - at, "%s\"%s\"", first ? "" : ", ", mesh->axes[k].name);
      first = false;
    }
    if (at < size) at += (size_t)snprintf(text + at, size - at, "}");
  }
  if (at < size) snprintf(text + at, size - at, "]>");
  return text;
}

int cni_hlo_shard_text(char *text, const cni_hlo *h, const char *partition, int ndim, const int64_t *shape)
{
  cn_partition p;
  int status = cn_partition_read(&p, h->mesh, partition, ndim, shape);
  if (!status) (h->shardy ? cn_stablehlo_shardy : cn_stablehlo_sharding)(text, CNI_HLO_SHARDING, h->mesh, &p, ndim);
  return status;
}

/* shard(input, partition) */
static void shard(cni_hcall *c)
{
  char text[CNI_HLO_SHARDING], attrs[CNI_HLO_SHARDING + 80];
  cni_hval x = c->in[0];
  if (x.number) x = cni_hlo_splat(c->h, x, c->out[0].dtype, 0, NULL);
  c->out[0] = x;
  if (!c->h->mesh) return;
  if (cni_hlo_shard_text(text, c->h, c->args[1].u.s, x.ndim, x.shape)) {
    c->h->failed = true;
    return;
  }
  if (c->h->shardy) {
    c->out[0] = cni_hlo_begin(c->h, x.dtype, x.ndim, x.shape);
    if (c->h->failed) return;
    cn_text_putf(&c->h->t, "sdy.sharding_constraint %%%d %s : ", x.id, text);
    cni_hlo_put_type_of(c->h, &x);
    cn_text_put(&c->h->t, "\n");
    return;
  }
  snprintf(attrs, sizeof attrs, "call_target_name = \"Sharding\", mhlo.sharding = \"%s\"", text);
  c->out[0] = cni_hlo_emit(c->h, "custom_call", attrs, x.dtype, x.ndim, x.shape, 1, &x);
}

const cni_hrow cni_hlo_mesh_rows[] = {{"shard", shard, NULL}, {NULL, NULL, NULL}};
