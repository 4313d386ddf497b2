/* shuffle.cu: the swaps of a Fisher-Yates shuffle, many at a time, with the result of doing them one after the other.
 *
 * Swap i exchanges places i and partner[i], which is not before i. In a round every swap that is left puts itself down
 * at its two places, where the earliest one stays; one that holds both has nobody before it there and is done. Three of
 * four are left after a round. Invariant: what is put down in a later round is below all that was put down before, so
 * nothing is cleared between rounds. */
#include "codegen/device.cuh"
#include "common.cuh"

struct shuffle_job {
  i64 *order;         /* (n) */
  const i64 *partner; /* (n) */
  u64 *holder;        /* (n): who has put itself down at a place */
  i64 *left[2];       /* (n) each: swaps that are left, in even and odd rounds */
  u64 *counts;        /* how many, by round; zeros at first */
  i64 n;
  i32 round, unused;
};

enum { ROUND_BITS = 16 };
FN u64 mark_of(int round, i64 i) { return (u64)(((1 << ROUND_BITS) - 1 - round)) << (63 - ROUND_BITS) | (u64)i; }

FN void put_down(const shuffle_job &p, int round, i64 i)
{
  atomicMin(&p.holder[i], mark_of(round, i));
  atomicMin(&p.holder[p.partner[i]], mark_of(round, i));
}

/* Whether swap i was done. */
FN bool try_swap(const shuffle_job &p, int round, i64 i)
{
  const i64 other = p.partner[i], kept = p.order[i];
  if (p.holder[i] != mark_of(round, i) || p.holder[other] != mark_of(round, i)) return false;
  p.order[i] = p.order[other];
  p.order[other] = kept;
  return true;
}

KERNEL(shuffle_begin, shuffle_job)
{
  EACH(i, p.n)
  {
    p.order[i] = p.left[0][i] = i;
    p.holder[i] = ~(u64)0;
    if (i == 0) p.counts[0] = (u64)p.n;
  }
}

KERNEL(shuffle_reserve, shuffle_job)
{
  EACH(k, (i64)p.counts[p.round]) put_down(p, p.round, p.left[p.round & 1][k]);
}

/* A place in a list for each thread of a warp that says so, taken by one of them; all of them call it. */
FN u64 take_place(u64 *count, bool wanted)
{
  const u32 votes = __ballot_sync(FULL, wanted);
  u64 first = 0;
  if (votes && LANE == 0) first = atomicAdd(count, (u64)__popc(votes));
  return __shfl_sync(FULL, first, 0) + __popc(votes & ((1u << LANE) - 1));
}

KERNEL(shuffle_commit, shuffle_job)
{
  const i64 count = (i64)p.counts[p.round], step = (i64)gridDim.x * THREADS;
  for (i64 tile = (i64)blockIdx.x * THREADS; tile < count; tile += step) {
    const i64 k = tile + threadIdx.x, i = k < count ? p.left[p.round & 1][k] : 0;
    const bool stays = k < count && !try_swap(p, p.round, i);
    const u64 place = take_place(&p.counts[p.round + 1], stays);
    if (stays) p.left[~p.round & 1][place] = i;
  }
}

/* One block does what is left. */
KERNEL(shuffle_rest, shuffle_job)
{
  __shared__ u64 more;
  i64 count = (i64)p.counts[p.round];
  for (int round = p.round; count > 0; round++) {
    const i64 *const from = p.left[round & 1];
    if (threadIdx.x == 0) more = 0;
    for (i64 k = threadIdx.x; k < count; k += THREADS) put_down(p, round, from[k]);
    __syncthreads();
    for (i64 tile = 0; tile < count; tile += THREADS) {
      const i64 k = tile + threadIdx.x, i = k < count ? from[k] : 0;
      const bool stays = k < count && !try_swap(p, round, i);
      const u64 place = take_place(&more, stays);
      if (stays) p.left[~round & 1][place] = i;
    }
    __syncthreads();
    count = (i64)more;
    __syncthreads();
  }
}
