/* shard.c: the op that says how a tensor lies on several devices (cairn/mesh.h).
 *
 * Place in the flow: devices that are a mesh take it for what it says (backends/pjrt, formats/stablehlo); on all others
 * it is a copy. Invariant: the values are those of the input. */
#include <cairn/kw.h>
#include <cairn/mesh.h>

#include "families.h"
#include "infer.h"

/* shard(input, partition). What the mesh has to say of it is checked where there is one. */
static int shard_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  cn_mesh mesh;
  cn_partition p;
  bool several = cn_mesh_of(&mesh, c->device);
  int status = several ? cn_partition_read(&p, &mesh, cni_arg_str(c->args, 1), x->ndim, x->shape) : CN_OK;
  return status ? status : cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
}

static int shard_decompose(cn_call *c)
{
  c->out[0] = cn_clone(c->in[0]);
  return cn_err();
}

/* The gradient is split in the same way. */
static int shard_vjp(cn_vjp *v)
{
  v->gin[0] = cn_shard(v->g[0], cni_arg_str(v->args, 1));
  return cn_err();
}

/* clang-format off */
const cn_op cni_shard_ops[] = {
  {.sig = "shard(Tensor input, str partition) -> Tensor",
   .doc = "The input, split over the devices of the mesh that it is on: \"data, *, model\" names for each dim the axes "
          "(with + between several) that split it, * for none. On a device that is no mesh, a copy.",
   .flags = CN_OP_ANY_DTYPE, .infer = shard_infer, .vjp = shard_vjp, .decompose = shard_decompose},
};
/* clang-format on */
CNI_FAMILY(shard);
