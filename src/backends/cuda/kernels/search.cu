/* search.cu: binary search in sorted sequences, and positions from counts (repeat_interleave_indices).
 *
 * T0 is the type that elements are compared in, T1 that of the positions. Invariant: searches are independent. */
#include "codegen/device.cuh"
#include "common.cuh"

struct search_job {
  const T0 *sequence, *x;
  const i64 *sorter; /* NULL: the sequence is sorted itself */
  T1 *y;
  i64 count, n, each; /* elements of x; of one sequence; of x per sequence */
  i32 right, unused;
  fault_slot fault;
};

KERNEL(search_sorted, search_job)
{
  if (p.sorter) /* every entry must be one, also those that no search comes to */
    EACH(k, p.count / p.each * p.n)
      if (p.sorter[k] < 0 || p.sorter[k] >= p.n) report_fault(p.fault, FAULT_INDEX, p.sorter[k], p.n);
  EACH(i, p.count)
  {
    const i64 row = i / p.each * p.n;
    i64 low = 0, high = p.n;
    const T0 x = p.x[i];
    while (low < high) {
      const i64 mid = low + (high - low) / 2;
      i64 at = p.sorter ? p.sorter[row + mid] : mid;
      if (at < 0 || at >= p.n) at = 0; /* it is reported */
      const T0 v = p.sequence[row + at];
      const bool stop = p.right ? v > x : v >= x; /* NaN is larger than all: it never stops the search */
      if (stop) high = mid;
      else low = mid + 1;
    }
    p.y[i] = (T1)low;
  }
}
