/* ext/mesh.h: several devices as a grid with named axes, and how a tensor lies on it.
 *
 * A tensor that is split has for some of its dims axes of the mesh: each device holds the part of its place along them.
 * Along axes that split no dim all devices hold the same. One that is split nowhere lies whole on each device. */
#ifndef CAIRN_EXT_MESH_H
#define CAIRN_EXT_MESH_H

#include "../base.h"

CN_BEGIN_DECLS

enum { CN_MESH_AXES = 8, CN_MESH_NAME = 32 };

typedef struct cn_mesh_axis {
  char name[CN_MESH_NAME]; /* a letter, then letters, digits and _ */
  int64_t size;
} cn_mesh_axis;

/* The devices are numbered row by row: the last axis runs fastest. cn_mesh m = {2, {{"data", 4}, {"model", 2}}}; */
typedef struct cn_mesh {
  int naxes;
  cn_mesh_axis axes[CN_MESH_AXES];
} cn_mesh;

/* Per axis the dim that it splits, from 0; -1: none. Axes of one dim split it one after the other, in their order. */
typedef struct cn_partition {
  int8_t dim[CN_MESH_AXES];
} cn_partition;

CN_END_DECLS
#endif
