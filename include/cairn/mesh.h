/* mesh.h: one program for several devices: a mesh is a device whose tensors may be split over others.
 *
 *     cn_mesh mesh = {2, {{"data", 2}, {"model", 2}}};
 *     cn_device all = cn_mesh_device(&mesh, four, 4);
 *     cn_tensor *x = cn_shard(cn_to_device(images, all), "data");        // rows over two devices each
 *     cn_tensor *w = cn_shard(cn_to_device(weight, all), "*, model");    // columns
 *
 * What is computed with them is the same as on one device; the compiler of the devices splits the work as the tensors
 * are split, and moves between devices what it has to. Splits are texts: for each dim an axis, several with + between
 * them, or * for none, with commas between dims; dims at the end may be left out. "" is whole. */
#ifndef CAIRN_MESH_H
#define CAIRN_MESH_H

#include "ext/mesh.h"
#include "tensor.h"

CN_BEGIN_DECLS

/* The device that stands for n devices of one backend, as many as the mesh has places; the same mesh over the same
 * devices is the same device. It stays as long as the process. CN_DEVICE_DEFAULT with the error set: devices that are
 * not there, of two backends or named twice, or a backend that knows no meshes. */
CN_API cn_device cn_mesh_device(const cn_mesh *mesh, const cn_device *devices, size_t n);
/* Is a device one that stands for several? Their mesh; mesh may be NULL. Sets no error. */
CN_API bool cn_mesh_of(cn_mesh *mesh, cn_device device);
/* How a tensor on a mesh is split, as text; owned: cn_string_free. NULL with the error set: it is on no mesh. */
CN_API CN_MUST_USE char *cn_sharding(const cn_tensor *t);

/* Checks a mesh by itself. */
CN_API int cn_mesh_check(const cn_mesh *mesh);
/* Reads a split of a tensor of that shape. An axis that the mesh does not have, one that is named twice, a size that it
 * does not divide and more parts than dims are errors. */
CN_API int cn_partition_read(cn_partition *p, const cn_mesh *mesh, const char *text, int ndim, const int64_t *shape);
/* The text of it, of `size` bytes at most; returns text. */
CN_API const char *cn_partition_write(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p);

CN_END_DECLS
#endif
