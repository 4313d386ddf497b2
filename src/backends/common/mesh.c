/* mesh.c: devices that stand for several: finds the backend that makes them. See cairn/mesh.h.
 *
 * Invariant: all devices of a mesh are of one backend, each there once. */
#include <cairn/ext/system.h>
#include <cairn/mesh.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/families.h"
#include "registry.h"
#include "tensor/tensor.h"

static const cn_backend *backend_at(cn_device device) { return cni_backend_at((device >> 8) - 1); }

/* Their indices, checked; the backend they are of, or NULL with the error set. */
static const cn_backend *one_backend(int *indices, const cn_device *devices, size_t n)
{
  const cn_backend *b = cni_backend_of(devices[0]);
  char name[64];
  for (size_t i = 0; i < n && b; i++) {
    cn_device_name(name, sizeof name, devices[i]);
    indices[i] = cni_device_index(devices[i]);
    if (backend_at(devices[i]) != b) {
      cni_fail(CN_ERR_DEVICE, "mesh: devices of two kinds: %s is not one of %s's", name, b->name);
      return NULL;
    }
    if (indices[i] >= b->device_count()) {
      cni_fail(CN_ERR_DEVICE, "mesh: device %s is not there, or is a mesh itself", name);
      return NULL;
    }
    for (size_t k = 0; k < i; k++)
      if (indices[k] == indices[i]) {
        cni_fail(CN_ERR_DEVICE, "mesh: device %s is there twice", name);
        return NULL;
      }
  }
  return b;
}

static cn_device make(const cn_mesh *mesh, const cn_device *devices, size_t n, int *indices)
{
  const cn_backend *b = one_backend(indices, devices, n);
  if (!b) return CN_DEVICE_DEFAULT;
  if (!b->mesh_make) {
    cni_fail(CN_ERR_UNSUPPORTED, "mesh: devices of %s cannot run one program together", b->name);
    return CN_DEVICE_DEFAULT;
  }
  int index = b->mesh_make(mesh, indices);
  return index < 0 ? CN_DEVICE_DEFAULT : (devices[0] & ~(cn_device)0xff) | (cn_device)index;
}

cn_device cn_mesh_device(const cn_mesh *mesh, const cn_device *devices, size_t n)
{
  int64_t places = 1;
  cni_init();
  if (cn_err() || cn_mesh_check(mesh)) return CN_DEVICE_DEFAULT;
  for (int k = 0; k < mesh->naxes; k++) places *= mesh->axes[k].size;
  if (!devices || places != (int64_t)n) {
    cni_fail(CN_ERR_VALUE, "mesh: its axes have %lld places, and there are %zu devices", (long long)places, n);
    return CN_DEVICE_DEFAULT;
  }
  int *indices = cni_alloc(n * sizeof *indices);
  cn_device device = indices ? make(mesh, devices, n, indices) : CN_DEVICE_DEFAULT;
  if (indices) cni_free(indices, n * sizeof *indices);
  return device;
}

bool cn_mesh_of(cn_mesh *mesh, cn_device device)
{
  cn_mesh own;
  const cn_backend *b = backend_at(device);
  return b && b->mesh_of && b->mesh_of(mesh ? mesh : &own, cni_device_index(device));
}

char *cn_sharding(const cn_tensor *t)
{
  char text[CN_MESH_AXES * (CN_MESH_NAME + 3) + CN_MAX_DIMS * 3];
  cn_mesh mesh;
  cn_partition p;
  cn_text made = {0};
  if (cn_err()) return NULL;
  if (!t || !cn_mesh_of(&mesh, t->d.device)) {
    cni_fail(t ? CN_ERR_DEVICE : CN_ERR_TYPE, "sharding: the tensor is on no mesh");
    return NULL;
  }
  if (backend_at(t->d.device)->mesh_partition(&p, cni_device_index(t->d.device), &t->d)) return NULL;
  cn_text_put(&made, cn_partition_write(text, sizeof text, &mesh, &p));
  return cn_text_take(&made);
}
