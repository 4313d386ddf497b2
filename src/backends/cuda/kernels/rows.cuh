/* rows.cuh: rows that a group of threads reads once, keeps, and goes over several times.
 *
 * N > 0: a group is a warp, and each thread keeps N packs of V elements in registers. N < 0: a group is a block, which
 * keeps -N packs a thread in registers. N == 0: a group is a block too, but a thread's packs are kept in dynamic shared
 * memory where the row fits there (`stash`), or read again where not. Thread
 * t of a group has the packs t, t + GROUP, ... of the row. Invariant: a thread reads back only what it wrote itself, so
 * no barrier is needed for a row that is kept. */

enum { KEPT = N < 0 ? -N : N };
#define GROUP (N > 0 ? 32 : THREADS)
#define GROUP_LANE (N > 0 ? LANE : (int)threadIdx.x)
/* The row of this group, and how far the next one is. */
#define FIRST_ROW (N > 0 ? (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : (i64)blockIdx.x)
#define ROW_STEP (N > 0 ? (i64)gridDim.x * (blockDim.x >> 5) : (i64)gridDim.x)
#define PACKS(n) (KEPT ? KEPT : (int)(((n) + (i64)V * GROUP - 1) / ((i64)V * GROUP)))

template <class A> FN A group_sum(A v) { return N > 0 ? warp_sum(v) : block_sum(v); }
template <class A> FN A group_max(A v) { return N > 0 ? warp_max(v) : block_max(v); }

/* V elements from i on; those past the end are `none`. */
template <class T, int V> FN pack<T, V> load_pack(const T *x, i64 i, i64 n, bool aligned, T none)
{
  if (aligned && i + V <= n) return *(const pack<T, V> *)(x + i);
  pack<T, V> p;
#pragma unroll
  for (int k = 0; k < V; k++) p.v[k] = i + k < n ? x[i + k] : none;
  return p;
}

template <class T, int V> FN void store_pack(T *y, i64 i, i64 n, bool aligned, const pack<T, V> &p)
{
  if (aligned && i + V <= n) {
    *(pack<T, V> *)(y + i) = p;
    return;
  }
#pragma unroll
  for (int k = 0; k < V; k++)
    if (i + k < n) y[i + k] = p.v[k];
}

/* A kept row. */
template <class T, int V> struct kept {
  pack<T, V> own[KEPT ? KEPT : 1];
  pack<T, V> *room;
  const T *x;
  i64 n;
  T none;
  bool aligned;

  /* room: of this row in shared memory; NULL: it is read again. */
  FN kept<T, V> of(const T *x, i64 n, bool aligned, T none, void *room)
  {
    kept<T, V> r;
    r.room = (pack<T, V> *)room;
    r.x = x;
    r.n = n;
    r.none = none;
    r.aligned = aligned;
    return r;
  }
};
template <class T, int V> FN pack<T, V> first_read(kept<T, V> &r, int k)
{
  const i64 i = ((i64)k * GROUP + GROUP_LANE) * V;
  const pack<T, V> p = load_pack<T, V>(r.x, i, r.n, r.aligned, r.none);
  if (KEPT) r.own[k] = p;
  else if (r.room) r.room[k * GROUP + GROUP_LANE] = p;
  return p;
}
template <class T, int V> FN pack<T, V> read_again(const kept<T, V> &r, int k)
{
  if (KEPT) return r.own[k];
  if (r.room) return r.room[k * GROUP + GROUP_LANE];
  return load_pack<T, V>(r.x, ((i64)k * GROUP + GROUP_LANE) * V, r.n, r.aligned, r.none);
}
#define PACK_AT(k) (((i64)(k)*GROUP + GROUP_LANE) * V)
