/* shuffle.cu: the result of a Fisher-Yates shuffle, without doing its swaps one after the other.
 *
 * Swap i exchanges places i and partner[i], which is not before i, and leaves place i as it stays. So place p has, until
 * swap p, what the latest swap k < p with that partner brought from place k, which is what place k had before swap k; or
 * p itself, if there was none. `latest` says that k, so what a place had is found by going from one to the next, a few
 * steps (3.4 with those below, on average; the longest ways grow with the logarithm of n). What place i ends with is what place partner[i] had before swap i: what
 * the latest swap below i with the same partner brought; it is looked for among all that have this partner, two on
 * average. T0 is the type of numbers of swaps, which are counted from 1. Invariant: nothing that is read in a kernel is
 * written there, so the order of threads does not matter. */
#include "codegen/device.cuh"
#include "common.cuh"

struct shuffle_job {
  i64 *order;        /* (n) */
  const T0 *partner; /* (n) */
  T0 *latest, *any;  /* (n): of each place the latest swap before its own that it is partner of; one of all. 0: none */
  T0 *another;       /* (n): of each swap another one with its partner */
  i64 n;
};

KERNEL(shuffle_link, shuffle_job)
{
  EACH(i, p.n)
  {
    const T0 to = p.partner[i], swap = (T0)(i + 1);
    p.another[i] = atomicExch(&p.any[to], swap);
    if (to != (T0)i) atomicMax(&p.latest[to], swap);
  }
}

KERNEL(shuffle_resolve, shuffle_job)
{
  EACH(i, p.n)
  {
    const T0 from = p.partner[i];
    T0 before = 0, has = from;
    for (T0 k = p.any[from]; k; k = p.another[k - 1])
      if (k <= (T0)i && k > before) before = k;
    for (; before; before = p.latest[has]) has = before - 1;
    p.order[i] = (i64)has;
  }
}
