/* rows.cuh: rows that a group of threads reads once, keeps, and goes over several times.
 *
 * N > 0: a group is LANES threads of a warp, each of which keeps N packs of V elements in registers. N < 0: a group is
 * a block, or the blocks of a cluster (CLUSTER of them), which keeps -N packs a thread in registers. N == 0: a group is a block too, but a thread's packs are kept in
 * dynamic shared memory where the row fits there (`stash`), or read again where not. Thread t of a group has the packs
 * t, t + GROUP, ... of the row. Rows of any length begin anywhere in a pack: the first pack of a row begins `shift`
 * elements before it, so that all packs but the first and the last are read and written as wholes. N is the least that
 * holds a row, so of the packs that a thread keeps only the first, the last and the one before may be such.
 *
 * While a row is gone over, the next AHEAD ones of the group are on their way into shared memory, which keeps the
 * memory busy with few threads; where N == 0, the next one takes its place bit by bit. Invariant: a thread reads back
 * only what it asked for itself, so no barrier is needed. */

enum { KEPT = N < 0 ? -N : N };
/* A place in a row: rows that are kept in registers are short. */
#if N
typedef int place;
#else
typedef i64 place;
#endif
#define AHEAD (FORM >> 8 & 3)
#define SLOTS (AHEAD + 1)
#define IN_REGISTERS (N != 0 && AHEAD == 0)
/* Is the row in shared memory? STASHED: are those of a launch, `stash` of which says so where N does not? */
#define HAS_ROOM(r) (N ? AHEAD > 0 : (r).room != 0)
#define STASHED(stash) (N ? AHEAD > 0 : (stash) != 0)
#ifndef CLUSTER
#define CLUSTER 1
#endif
#define RANK ((int)(blockIdx.x % CLUSTER)) /* of a cluster's block */
#define LANES (N > 0 ? 32 >> (FORM >> 4 & 7) : 32)
#define GROUP (N > 0 ? LANES : THREADS * CLUSTER)
#define GROUP_LANE (N > 0 ? LANE % LANES : RANK * THREADS + (int)threadIdx.x)
/* The same among those that share memory: how far the packs of a thread are apart there, and where it begins. */
#define ROOM (N > 0 ? LANES : THREADS)
#define ROOM_LANE (N > 0 ? LANE % LANES : (int)threadIdx.x)
/* The row of this group, how far the next one is, and how many groups of the warp are in front of it: all of them go
 * on as long as one has a row. */
#define FIRST_ROW (N > 0 ? (i64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES : (i64)(blockIdx.x / CLUSTER))
#define ROW_STEP (N > 0 ? (i64)gridDim.x * (THREADS / LANES) : (i64)(gridDim.x / CLUSTER))
#define IN_WARP (N > 0 ? LANE / LANES : 0)
#define PACKS(n) (KEPT ? KEPT : (int)(((n) + ((n) % V ? V - 1 : 0) + (i64)V * GROUP - 1) / ((i64)V * GROUP)))
/* Rows in turn, and the slot of shared memory that each is in. */
#define EACH_ROW(row, slot, rows) EACH_ROW_FROM(FIRST_ROW, IN_WARP, row, slot, rows)
#define EACH_ROW_FROM(first, in_front, row, slot, rows)                                      \
  int slot = 0;                                                                              \
  for (i64 row = first; row - (in_front) < (rows); row += ROW_STEP, slot = slot == AHEAD ? 0 : slot + 1)
/* Rows that are asked for before the first is gone over. */
#define ASKED (N ? AHEAD : 1)
#define SLOT_AHEAD(slot) ((slot) ? (slot) - 1 : AHEAD)
/* EVEN: every row begins and ends with a pack, so no pack needs to be taken apart. APART: operands do not begin with
 * packs, so all of them do. LATE, EDGE: may the pack k of a thread reach past the row, or have any elements that are
 * not its? WHOLE: are all elements of the pack at i the row's, and lie as one? */
#define EVEN (FORM & 1)
#define APART (FORM >> 7 & 1)
#define LATE(k) (!KEPT || APART || (k) + (EVEN ? 1 : 2) >= KEPT)
#define EDGE(k) (LATE(k) || (!EVEN && (k) == 0))
#if EVEN
#define WHOLE(i, n) ((i) < (n))
#else
#define WHOLE(i, n) (!APART && (i) >= 0 && (i) + V <= (n))
#endif

/* Over the lanes of a warp that share a row. */
template <class A> FN A lanes_sum(A v)
{
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}
/* The larger one; NaN wins. */
FN f32 top_of(f32 a, f32 b)
{
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
  f32 most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
#else
  return larger(a, b);
#endif
}
FN f64 top_of(f64 a, f64 b) { return larger(a, b); }
template <class A> FN A lanes_max(A v)
{
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) v = top_of(v, __shfl_xor_sync(FULL, v, m));
  return v;
}

/* What each warp of a block has, to all of them; then lane i has that of warp i % WARPS. Each PLACE is memory of its
 * own: between two uses of one the block must meet elsewhere. Rows in turn have a place for each slot, which is enough
 * where there are two: then no warp is so far ahead as to write what another one still reads. */
enum { WARPS = THREADS / 32 };
template <int PLACE, class A> FN A of_warps(A v, int slot)
{
  __shared__ A room[SLOTS][WARPS];
  if (LANE == 0) room[slot][threadIdx.x >> 5] = v;
  __syncthreads();
  return room[slot][LANE % WARPS];
}
template <int PLACE, class A> FN A group_sum(A v, int slot)
{
  v = lanes_sum(v);
  if (N > 0 || WARPS == 1) return v;
  v = of_warps<PLACE>(v, slot);
#pragma unroll
  for (int m = WARPS / 2; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}
template <int PLACE, class A> FN A group_max(A v, int slot)
{
  v = lanes_max(v);
  if (N > 0 || WARPS == 1) return v;
  v = of_warps<PLACE>(v, slot);
#pragma unroll
  for (int m = WARPS / 2; m > 0; m >>= 1) v = top_of(v, __shfl_xor_sync(FULL, v, m));
  return v;
}
/* Before what a row's places are used for: an earlier row's were read. */
FN void group_meets()
{
  if (N <= 0 && WARPS > 1 && SLOTS == 1) __syncthreads();
}

/* A pack of which the compiler knows no more than its words: it keeps and moves those, where it would take the pack
 * apart into elements wherever one of several ways to it does. */
template <class T, int V> FN pack<T, V> in_words(pack<T, V> p)
{
#ifndef CN_SIMT
#pragma unroll
  for (int i = 0; i < (int)(sizeof p / 4); i++) asm("" : "+r"(((u32 *)&p)[i]));
#endif
  return p;
}

/* Which elements of the pack at i are the row's: a bit for each, so that they are asked once for all. */
template <int V> FN u32 those_inside(place i, place n)
{
  const int front = i < 0 ? (int)-i : 0, past = i >= n ? 0 : i + V > n ? (int)(n - i) : (int)V;
  return ((1u << past) - 1) >> front << front;
}

/* The pack at x, which is element i of a row; those before the row and past its end are `none`. edge: EDGE of it. */
template <class T, int V> FN pack<T, V> load_pack(const T *x, place i, place n, T none, bool edge = true)
{
  if (!edge || WHOLE(i, n)) return *(const pack<T, V> *)x;
  const u32 own = EVEN ? 0 : those_inside<V>(i, n);
  pack<T, V> p;
#pragma unroll
  for (int k = 0; k < V; k++) p.v[k] = own >> k & 1 ? x[k] : none;
  return in_words(p);
}

/* The pack at i, with `none` for what is not the row's. */
template <class T, int V> FN pack<T, V> without_others(pack<T, V> p, place i, place n, T none)
{
  if (EVEN) { /* all or nothing, a word at a time */
    pack<T, V> nothing;
#pragma unroll
    for (int e = 0; e < V; e++) nothing.v[e] = none;
#pragma unroll
    for (int e = 0; e < (int)(sizeof p / 4); e++)
      ((u32 *)&p)[e] = i < n ? ((const u32 *)&p)[e] : ((const u32 *)&nothing)[e];
    return p;
  }
  if (WHOLE(i, n)) return p;
  const u32 own = those_inside<V>(i, n);
#pragma unroll
  for (int e = 0; e < V; e++)
    if (!(own >> e & 1)) p.v[e] = none;
  return in_words(p);
}

/* A whole pack, by the widest stores there are: left to itself the compiler shares stores of elements with the way for
 * packs that are taken apart. */
template <class T, int V> FN void store_whole(T *y, const pack<T, V> &p)
{
#if defined(CN_SIMT) || EVEN
  *(pack<T, V> *)y = p;
#else
  const u32 *const w = (const u32 *)&p;
  if (sizeof p % 16 == 0) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof p / 4); i += 4)
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"((u32 *)y + i), "r"(w[i]), "r"(w[i + 1]),
                   "r"(w[i + 2]), "r"(w[i + 3])
                   : "memory");
  } else if (sizeof p == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(y), "r"(w[0]), "r"(w[1]) : "memory");
  } else *(pack<T, V> *)y = p;
#endif
}

/* Stores a pack at y, which is element i of a row. */
template <class T, int V> FN void store_pack(T *y, place i, place n, const pack<T, V> &p, bool edge)
{
  if (!edge || WHOLE(i, n)) {
    store_whole<T, V>(y, p);
    return;
  }
  const u32 own = EVEN ? 0 : those_inside<V>(i, n);
#pragma unroll
  for (int k = 0; k < V; k++)
    if (own >> k & 1) y[k] = p.v[k];
}

/* A kept row. */
template <class T, int V> struct kept {
  pack<T, V> own[IN_REGISTERS ? KEPT : 1];
  pack<T, V> *room; /* this thread's first pack in shared memory; NULL: read where it is */
  const T *x, *mine; /* its first element, and this thread's first pack */
  place n;
  T none;
  int shift;
};

/* How far row r begins behind a pack. */
template <int V> FN int shift_of(i64 r, i64 n) { return EVEN || APART ? 0 : (int)((u32)r * (u32)n & (V - 1)); }

/* Row r of `rows` at x, of n elements; one that there is not has none. room: of the block, for this row. Packs of a
 * group lie beside each other there. */
template <class T, int V> FN kept<T, V> row_at(const T *x, i64 r, i64 rows, i64 n, T none, char *room)
{
  kept<T, V> made;
  made.room = N || room ? (pack<T, V> *)room + (threadIdx.x / ROOM * KEPT * ROOM + ROOM_LANE) : 0;
  made.x = x + r * n;
  made.n = (place)(r < rows ? n : 0);
  made.none = none;
  made.shift = shift_of<V>(r, n);
  made.mine = made.x + (GROUP_LANE * V - made.shift);
  return made;
}
/* Where a block's rows lie in shared memory: `input` of those that each group reads. T is the widest type of them. */
template <class T, int V> FN char *room_of(char *room, int input, int slot, i64 n)
{
  return room + (place)(input * SLOTS + slot) * PACKS(n) * THREADS * (int)sizeof(pack<T, V>);
}

/* The pack k of this thread: which element of the row it begins with; where it is, from the first one's place on. */
#define PLACE_OF(r, k) (((place)(k) * GROUP + GROUP_LANE) * V - (r).shift)
#define PACK_AT(first, k) ((first) + (place)(k) * GROUP * V)
/* This thread's first pack of another row of the same length and shift. */
#define FIRST_OF(r, other) ((other) + (GROUP_LANE * V - (r).shift))

/* Asks for pack k of a row. The first one comes with elements of the row before, the last one with zeros; first_read
 * takes them out, whoever reads again must not mind them. */
template <class T, int V> FN void ask_pack(const kept<T, V> &r, int k)
{
  const place i = PLACE_OF(r, k);
  const int within = !EVEN && LATE(k) && i + V > r.n ? (int)(r.n - i) : (int)V;
  if (LATE(k) && i >= r.n) return;
  if (APART) r.room[k * ROOM] = load_pack<T, V>(PACK_AT(r.mine, k), i, r.n, r.none);
  else copy_async<(int)sizeof(pack<T, V>)>(r.room + k * ROOM, PACK_AT(r.mine, k), within * (int)sizeof(T));
}
template <class T, int V> FN void ask(const kept<T, V> &r)
{
  if (!HAS_ROOM(r) || !r.n) return;
#pragma unroll
  for (int k = 0; k < PACKS(r.n); k++) ask_pack(r, k);
}

/* Those of a row that was not asked for are read past the first cache: weights, which all rows need, stay there. */
template <class T, int V> FN pack<T, V> stream_pack(const T *x, place i, place n, T none, bool edge)
{
#if !defined(CN_SIMT) && EVEN
  if (sizeof(pack<T, V>) == 16) {
    pack<T, V> p;
    u32 *const w = (u32 *)&p;
#pragma unroll
    for (int k = 0; k < V; k++) p.v[k] = none;
    if (!edge || i < n)
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(x));
    return p;
  }
#endif
  return load_pack<T, V>(x, i, n, none, edge);
}

/* The pack k of the row is another from now on; where nothing is kept, r.x must be. */
template <class T, int V> FN void keep(kept<T, V> &r, int k, const pack<T, V> &p)
{
  if (IN_REGISTERS) r.own[k] = p;
  else if (HAS_ROOM(r)) r.room[k * ROOM] = p;
}
template <class T, int V> FN pack<T, V> first_read(kept<T, V> &r, int k)
{
  const place i = PLACE_OF(r, k);
  pack<T, V> p;
  if (!HAS_ROOM(r)) p = stream_pack<T, V>(PACK_AT(r.mine, k), i, r.n, r.none, EDGE(k));
  else {
    p = r.room[k * ROOM];
    if (EDGE(k)) p = without_others<T, V>(p, i, r.n, r.none);
  }
  if (IN_REGISTERS) r.own[k] = p;
  return p;
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
/* A pack from shared memory as if another thread might have changed it: so it is read again, where the compiler would
 * have kept it, and what it was converted to, in registers. */
template <class T, int V> FN pack<T, V> read_anew(const pack<T, V> *room)
{
#ifndef CN_SIMT
  if (KEPT && sizeof(pack<T, V>) == 16) {
    pack<T, V> p;
    u32 *const w = (u32 *)&p;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"((u32)__cvta_generic_to_shared(room)));
    return p;
  }
#endif
  return *room;
}
template <class T, int V> FN pack<T, V> read_again(const kept<T, V> &r, int k)
{
  if (IN_REGISTERS) return unknown(r.own[k]);
  if (HAS_ROOM(r)) return read_anew<T, V>(r.room + k * ROOM);
  return load_pack<T, V>(PACK_AT(r.mine, k), PLACE_OF(r, k), r.n, r.none, EDGE(k));
}
/* The same for the last time: where there is room for one row only, the next one's pack takes its place. */
template <class T, int V> FN pack<T, V> last_read(const kept<T, V> &r, const kept<T, V> &next, int k)
{
  const pack<T, V> p = read_again(r, k);
  if (N == 0 && HAS_ROOM(r) && next.n) ask_pack(next, k);
  return p;
}

/* ---- N == 0: only whole packs are gone over; what is left at a row's ends falls to threads by element ---- */

/* Of this thread: its packs from .. to - 1, and an element before the first or behind the last whole one, or -1. */
struct span {
  int from, to;
  place edge;
};
template <class T, int V> FN span span_of(const kept<T, V> &r)
{
  const int lane = (int)threadIdx.x, front = r.shift && r.n ? V - r.shift : 0, tail = (int)((r.n + r.shift) % V);
  const place whole = (r.n + r.shift) / V;
  span s = {r.shift && !lane, whole > lane ? (int)((whole - lane + THREADS - 1) / THREADS) : 0, -1};
  if (EVEN || !r.n) return s;
  if (lane < front) s.edge = lane;
  else if (lane >= V && lane - V < tail) s.edge = r.n - tail + (lane - V);
  return s;
}
/* x: where it is. */
template <class T, int V> FN pack<T, V> whole_pack(const T *x)
{
  if (!APART) return *(const pack<T, V> *)x;
  pack<T, V> p;
#pragma unroll
  for (int i = 0; i < V; i++) p.v[i] = x[i];
  return p;
}
/* The same of a pack that is read once, past the first cache; one that is not wanted is `none`. */
template <class T, int V> FN pack<T, V> stream_whole(const T *x, bool wanted, T none)
{
  pack<T, V> p;
#pragma unroll
  for (int i = 0; i < V; i++) p.v[i] = none;
#ifndef CN_SIMT
  if (!APART && sizeof p == 16) {
    u32 *const w = (u32 *)&p;
    if (wanted)
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(x));
    return p;
  }
#endif
  return wanted ? whole_pack<T, V>(x) : p;
}
template <class T, int V> FN void give_whole(T *y, const pack<T, V> &p)
{
  if (!APART) {
    store_whole<T, V>(y, p);
    return;
  }
#pragma unroll
  for (int i = 0; i < V; i++) y[i] = p.v[i];
}
template <class T, int V> FN pack<T, V> read_whole(const kept<T, V> &r, int k)
{
  return HAS_ROOM(r) ? r.room[k * ROOM] : whole_pack<T, V>(PACK_AT(r.mine, k));
}
template <class T, int V> FN void ask_whole(const kept<T, V> &r, const span &s, int k)
{
  if (!HAS_ROOM(r) || k < s.from || k >= s.to) return;
  if (APART) r.room[k * ROOM] = whole_pack<T, V>(PACK_AT(r.mine, k));
  else copy_async<(int)sizeof(pack<T, V>)>(r.room + k * ROOM, PACK_AT(r.mine, k), (int)sizeof(pack<T, V>));
}
/* What of the next row has no place among the packs of this one, `own`. */
template <class T, int V> FN void ask_rest(const kept<T, V> &next, const span &own, const span &more)
{
  for (int k = 0; k < own.from; k++) ask_whole(next, more, k);
  for (int k = own.to; k < more.to; k++) ask_whole(next, more, k);
}
/* The element at the row's edge, or what is none. */
template <class T, int V> FN T edge_of(const kept<T, V> &r, const span &s) { return s.edge < 0 ? r.none : r.x[s.edge]; }
