/* rows.cuh: rows that a group of threads reads once, keeps, and goes over several times.
 *
 * N > 0: a group is a warp, and each thread keeps N packs of V elements in registers. N < 0: a group is a block, which
 * keeps -N packs a thread in registers. N == 0: a group is a block too, but a thread's packs are kept in dynamic shared
 * memory where the row fits there (`stash`), or read again where not. Thread
 * t of a group has the packs t, t + GROUP, ... of the row. Rows of any length begin anywhere in a pack: the first pack
 * of a row begins `shift` elements before it, so that all packs but the first and the last are read and written as
 * wholes. Invariant: a thread reads back only what it wrote itself, so no barrier is needed for a row that is kept. */

enum { KEPT = N < 0 ? -N : N };
/* A place in a row: rows that are kept in registers are short. */
#if N
typedef int place;
#else
typedef i64 place;
#endif
#define GROUP (N > 0 ? 32 : THREADS)
#define GROUP_LANE (N > 0 ? LANE : (int)threadIdx.x)
/* The row of this group, and how far the next one is. */
#define FIRST_ROW (N > 0 ? (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : (i64)blockIdx.x)
#define ROW_STEP (N > 0 ? (i64)gridDim.x * (blockDim.x >> 5) : (i64)gridDim.x)
#define PACKS(n) (KEPT ? KEPT : (int)(((n) + ((n) % V ? V - 1 : 0) + (i64)V * GROUP - 1) / ((i64)V * GROUP)))
/* How far before row r its first pack begins; `aligned`: the first row begins with a pack. WHOLE: are all elements of
 * the pack at i the row's? EVEN: every row begins and ends with a pack, so no pack needs to be taken apart. */
#define EVEN (FORM & 1)
#if EVEN
#define SHIFT_OF(r) 0
#define WHOLE(i, n, aligned) ((i) < (n))
#else
#define SHIFT_OF(r) (p.aligned ? (int)((u32)(r) * (u32)p.n & (V - 1)) : 0)
#define WHOLE(i, n, aligned) ((aligned) && (i) >= 0 && (i) + V <= (n))
#endif

template <class A> FN A group_sum(A v) { return N > 0 ? warp_sum(v) : block_sum(v); }
template <class A> FN A group_max(A v) { return N > 0 ? warp_max(v) : block_max(v); }

/* V elements from i on; those before the row and past its end are `none`. */
template <class T, int V> FN pack<T, V> load_pack(const T *x, place i, place n, bool aligned, T none)
{
  if (WHOLE(i, n, aligned)) return *(const pack<T, V> *)(x + i);
  pack<T, V> p;
#pragma unroll
  for (int k = 0; k < V; k++) p.v[k] = !EVEN && i + k >= 0 && i + k < n ? x[i + k] : none;
  return p;
}

/* The same for rows, which are read once: weights, which are read by every row, stay in the first cache. */
template <class T, int V> FN pack<T, V> stream_pack(const T *x, place i, place n, bool aligned, T none)
{
#if !defined(CN_SIMT) && EVEN
  if (sizeof(pack<T, V>) == 16) {
    pack<T, V> p;
    u32 *const w = (u32 *)&p;
#pragma unroll
    for (int k = 0; k < V; k++) p.v[k] = none;
    if (i < n)
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(x + i));
    return p;
  }
#endif
  return load_pack<T, V>(x, i, n, aligned, none);
}

template <class T, int V> FN void store_pack(T *y, place i, place n, bool aligned, const pack<T, V> &p)
{
  if (WHOLE(i, n, aligned)) {
    *(pack<T, V> *)(y + i) = p;
    return;
  }
#pragma unroll
  for (int k = 0; k < V; k++)
    if (!EVEN && i + k >= 0 && i + k < n) y[i + k] = p.v[k];
}

/* A kept row. */
template <class T, int V> struct kept {
  pack<T, V> own[KEPT ? KEPT : 1];
  pack<T, V> *room;
  const T *x;
  place n;
  T none;
  bool aligned;
  int shift;

  /* room: of this row in shared memory; NULL: it is read again. */
  FN kept<T, V> of(const T *x, place n, bool aligned, int shift, T none, void *room)
  {
    kept<T, V> r;
    r.room = (pack<T, V> *)room;
    r.x = x;
    r.n = n;
    r.none = none;
    r.aligned = aligned;
    r.shift = shift;
    return r;
  }
};
template <class T, int V> FN pack<T, V> first_read(kept<T, V> &r, int k)
{
  const place i = ((place)k * GROUP + GROUP_LANE) * V - r.shift;
  const pack<T, V> p = stream_pack<T, V>(r.x, i, r.n, r.aligned, r.none);
  if (KEPT) r.own[k] = p;
  else if (r.room) r.room[k * GROUP + GROUP_LANE] = p;
  return p;
}
/* The pack k of the row is another from now on; where nothing is kept, r.x must be. */
template <class T, int V> FN void keep(kept<T, V> &r, int k, const pack<T, V> &p)
{
  if (KEPT) r.own[k] = p;
  else if (r.room) r.room[k * GROUP + GROUP_LANE] = p;
}
/* The same elements, of which the compiler knows nothing: it converts them again instead of keeping what they were
 * converted to, which takes twice the registers. */
template <class T, int V> FN pack<T, V> unknown(pack<T, V> p)
{
#ifndef CN_SIMT
#pragma unroll
  for (int i = 0; i < (int)(sizeof p / 4); i++) asm volatile("" : "+r"(((u32 *)&p)[i]));
#endif
  return p;
}
template <class T, int V> FN pack<T, V> read_again(const kept<T, V> &r, int k)
{
  if (KEPT) return unknown(r.own[k]);
  if (r.room) return r.room[k * GROUP + GROUP_LANE];
  return load_pack<T, V>(r.x, ((place)k * GROUP + GROUP_LANE) * V - r.shift, r.n, r.aligned, r.none);
}
#define PACK_AT(k) (((place)(k)*GROUP + GROUP_LANE) * V - shift)
