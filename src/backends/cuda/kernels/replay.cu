/* replay.cu: what is copied before and behind recorded work: inputs into its own memory, numbers that the host sends
 * with the launch, results into memory of the caller.
 *
 * Place in the flow: the first and the last node of the CUDA graph that record.c makes of a recording; it sets their
 * arguments anew for each launch. Copies are told apart by blockIdx.y. Invariant: blocks of memory do not overlap. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { COPIES = 16, NUMBERS = 3640 };

struct copied {
  u8 *to;
  const u8 *from;
  i64 bytes;
};

struct give_job {
  copied c[COPIES];
};

struct bring_job {
  copied c[COPIES];
  u8 *to; /* of the numbers */
  i64 bytes;
  u8 numbers[NUMBERS];
};

/* Sixteen bytes at a time where both sides allow it. */
FN void copy_bytes(const copied &c)
{
  const i64 first = (i64)blockIdx.x * THREADS + threadIdx.x, step = (i64)gridDim.x * THREADS;
  const bool whole = ((u64)c.to | (u64)c.from) % 16 == 0;
  const i64 packs = whole ? c.bytes / 16 : 0;
  for (i64 i = first; i < packs; i += step) ((pack<u8, 16> *)c.to)[i] = ((const pack<u8, 16> *)c.from)[i];
  for (i64 i = packs * 16 + first; i < c.bytes; i += step) c.to[i] = c.from[i];
}

KERNEL(bring, bring_job)
{
  copy_bytes(p.c[blockIdx.y]);
  if (blockIdx.x == 0 && blockIdx.y == 0)
    for (i64 i = threadIdx.x; i < p.bytes; i += THREADS) p.to[i] = p.numbers[i];
}

KERNEL(give, give_job)
{
  copy_bytes(p.c[blockIdx.y]);
}
