/* decoder_end.cu: the row behind the last layer of a decoder, of parts and what they are added to. One block; T0 is the
 * element type. */
#define CLUSTER 1
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "tensor_core.cuh"
#include "step.cuh"
#include "decoder.cuh"

struct end_job {
  row_parts row;
  i64 width;
};

KERNEL(decoder_end, end_job)
{
  DYNAMIC_SHARED(f32, row);
  const pack<T0, 4> bias = ask_bias(p.row, 0, (int)p.width);
  begin_next();
  wait_for_previous();
  add_parts(row, 0, p.row, bias, (int)p.width, 0);
}
