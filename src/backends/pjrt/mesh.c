/* mesh.c: meshes: indices that stand for several devices, and how arrays lie on them.
 *
 * Place in the flow: cn_mesh_device asks for one; after that it is a device like others: value.c, pending.c and whole.c
 * look here when a value has parts, program.c when a program is for several. Invariant: meshes have the indices behind
 * the devices, and stay. */
#include <string.h>

#include "program.h"

#define host cni_pjrt_host

static struct entry {
  cn_mesh mesh;
  int n, *indices;
} meshes[PJRT_DEVICES];
static int nmeshes;

static struct entry *entry_of(int index)
{
  int k = index - cni_pjrt_device_count();
  return k >= 0 && k < nmeshes ? &meshes[k] : NULL;
}

static bool same_mesh(const cn_mesh *a, const cn_mesh *b)
{
  bool same = a->naxes == b->naxes;
  for (int k = 0; k < a->naxes && same; k++)
    same = a->axes[k].size == b->axes[k].size && !strcmp(a->axes[k].name, b->axes[k].name);
  return same;
}

static int add(const cn_mesh *mesh, const int *indices, int n)
{
  struct entry *e = &meshes[nmeshes];
  if (cni_pjrt_device_count() + nmeshes >= PJRT_DEVICES)
    return host->fail(CN_ERR_UNSUPPORTED, "pjrt: devices and meshes are %d at most", PJRT_DEVICES);
  if (!(e->indices = host->memory((size_t)n * sizeof *indices))) return CN_ERR_MEMORY;
  memcpy(e->indices, indices, (size_t)n * sizeof *indices);
  e->mesh = *mesh;
  e->n = n;
  return cni_pjrt_device_count() + nmeshes++;
}

int cni_pjrt_mesh_make(const cn_mesh *mesh, const int *indices)
{
  int n = 1, found = -1;
  for (int k = 0; k < mesh->naxes; k++) n *= (int)mesh->axes[k].size;
  cni_pjrt_lock();
  for (int k = 0; k < nmeshes && found < 0; k++)
    if (same_mesh(&meshes[k].mesh, mesh) && !memcmp(meshes[k].indices, indices, (size_t)n * sizeof *indices))
      found = cni_pjrt_device_count() + k;
  if (found < 0) found = add(mesh, indices, n);
  cni_pjrt_unlock();
  return found;
}

const cn_mesh *cni_pjrt_mesh(int index) { return entry_of(index) ? &entry_of(index)->mesh : NULL; }

bool cni_pjrt_mesh_of(cn_mesh *mesh, int index)
{
  cni_pjrt_lock();
  const cn_mesh *own = cni_pjrt_mesh(index);
  if (own) *mesh = *own;
  cni_pjrt_unlock();
  return own != NULL;
}

int cni_pjrt_index_count(void) { return cni_pjrt_device_count() + nmeshes; }
int cni_pjrt_parts(int index) { return entry_of(index) ? entry_of(index)->n : 1; }
int cni_pjrt_part(int index, int k) { return entry_of(index) ? entry_of(index)->indices[k] : index; }

int cni_pjrt_mesh_partition(cn_partition *p, int index, const cn_desc *d)
{
  memset(p, -1, sizeof *p);
  if (!d->numel) return CN_OK;
  cni_pjrt_lock();
  pjrt_value *v = cni_pjrt_read_tensor(index, d);
  if (v) *p = v->split;
  cni_pjrt_value_release(v);
  cni_pjrt_unlock();
  return v ? CN_OK : CN_ERR_DEVICE;
}

void cni_pjrt_mesh_exit(void)
{
  for (int k = 0; k < nmeshes; k++) host->free_memory(meshes[k].indices, (size_t)meshes[k].n * sizeof(int));
  nmeshes = 0;
}

/* ---- in words ---- */

const char *cni_pjrt_sharding(char *text, const cn_mesh *mesh, const cn_partition *p, int ndim)
{
  return (cni_pjrt_shardy() ? host->make->shardy : host->make->sharding)(text, PJRT_SHARDING, mesh, p, ndim);
}

/* ---- parts of arrays ---- */

bool cni_pjrt_is_split(const cn_partition *p)
{
  for (int k = 0; k < CN_MESH_AXES; k++)
    if (p->dim[k] >= 0) return true;
  return false;
}

void cni_pjrt_box(pjrt_box *box, int index, int k, const cn_partition *p, int ndim, const int64_t *shape)
{
  const cn_mesh *mesh = cni_pjrt_mesh(index);
  int64_t at[CN_MESH_AXES] = {0};
  for (int d = 0; d < ndim; d++) box->from[d] = 0, box->shape[d] = shape[d];
  box->first = true;
  for (int a = mesh ? mesh->naxes - 1 : -1; a >= 0; a--) { /* the last axis runs fastest */
    at[a] = k % mesh->axes[a].size;
    k /= (int)mesh->axes[a].size;
  }
  for (int a = 0; mesh && a < mesh->naxes; a++) {
    int d = p->dim[a];
    box->first = box->first && (d >= 0 || !at[a]);
    if (d < 0) continue;
    box->shape[d] /= mesh->axes[a].size;
    box->from[d] += at[a] * box->shape[d];
  }
}

void cni_pjrt_box_copy(char *whole, char *part, bool out, const pjrt_box *box, int ndim, const int64_t *shape,
                       size_t elem)
{
  int64_t rows = 1, at[CN_MAX_DIMS] = {0};
  size_t row = ndim ? (size_t)box->shape[ndim - 1] * elem : elem;
  for (int d = 0; d < ndim - 1; d++) rows *= box->shape[d];
  for (int64_t r = 0; r < rows; r++, part += row) {
    size_t place = 0;
    for (int d = 0; d < ndim; d++) place = place * (size_t)shape[d] + (size_t)(box->from[d] + at[d]);
    if (out) memcpy(whole + place * elem, part, row);
    else memcpy(part, whole + place * elem, row);
    for (int d = ndim - 2; d >= 0 && ++at[d] == box->shape[d]; d--) at[d] = 0;
  }
}
