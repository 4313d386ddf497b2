/* norm.cu: layer norm and RMS norm over rows, forward and backward. OP: layer or rms.
 *
 * T0 is the type of rows, T1 that of weight and bias, T2 that of what is added before (forward) or of the incoming
 * gradient (backward), T3 that of the result; statistics are of the type rows are computed in. Rows are read
 * once and kept (rows.cuh). Invariant: gradients of weight and bias are sums over fixed pieces of the rows, joined in
 * order, so they are the same every time. */
/* At most 64 registers a thread, so that many rows are under way; more for long rows of a warp where packs are taken
 * apart, for float64, and for two inputs below. As in norm.c. */
#define BLOCKS_AT_ONCE (THREADS > 512 ? 1 : (sizeof(T0) > 4 ? 512 : EVEN || N <= 0 ? 1024 : 768) / THREADS)
#define CLUSTER (N < 0 ? 1 << (FORM >> 12 & 3) : 1)
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "rows.cuh"

enum norm_kind { layer, rms };
/* Has it weights, a bias, something that is added (to x, or to its gradient)? Are weights laid out for the rows? Is the
 * bias's gradient wanted? */
enum { WEIGHT = FORM >> 1 & 1, BIAS = FORM >> 2 & 1, ADDS = FORM >> 3 & 1, LAID = FORM >> 10 & 1 };
enum { LEARNS = FORM >> 11 & 1 };

typedef wide_of<T0>::type A;
enum { V = 16 / sizeof(T0) };

struct norm_job {
  const T0 *x;       /* (rows, n) */
  const T2 *g;       /* (rows, n): what is added to x, or NULL; backward: the gradient */
  const T1 *w, *b;   /* (n) or NULL */
  T3 *y;             /* result; backward: what `sum` is, or NULL */
  const T0 *add;     /* backward: what is added to the gradient of x, or NULL */
  T0 *sum;           /* x + g, or NULL; backward: gradient of x + add, or NULL */
  A *mean, *rstd;    /* (rows); mean NULL for rms */
  A *partial;        /* (pieces, 2, n): sums for the gradients of weight and bias */
  T1 *gw, *gb;       /* (n) or NULL */
  i64 rows, n, piece, pieces;
  f64 eps;
  i32 stash, laid;   /* laid: bytes of shared memory in front of weights that are laid out */
  i32 meets, unused; /* meets: ... and in front of where a cluster's blocks meet */
};

/* Where packs are taken apart a block's rows begin alike: they are V apart, and so are those of neighbouring blocks, of
 * which there are a multiple of V. So a thread keeps to its columns. */
#define ALIKE (!EVEN && N != 0)
#define EACH_OWN_ROW(row, slot, rows) EACH_ROW_FROM(first_row(), IN_WARP * (ALIKE ? V : 1), row, slot, rows)
FN i64 first_row()
{
  const i64 block = blockIdx.x / CLUSTER, groups = ROW_STEP / (gridDim.x / CLUSTER), group = FIRST_ROW - block * groups;
  return ALIKE ? block % V + V * (block / V * groups + group) : FIRST_ROW;
}

/* 1 / the root; of 16-bit rows the processor's own, which is right to 22 bits. */
FN f32 inverse_root(f32 v)
{
#ifndef CN_SIMT
  if (sizeof(T0) == 2) {
    f32 y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(v));
    return y;
  }
#endif
  return 1 / sqrtf(v);
}
FN f64 inverse_root(f64 v) { return 1 / sqrt(v); }

template <class T> FN A element(const T *w, i64 i, i64 n, A none) { return w && i < n ? (A)get(w[i]) : none; }

/* Of a pack's numbers, those of the row that begins at element `at`: the sum of squared distances from `mean`. */
FN A distances(const A *v, A mean, place at, place n, bool edge)
{
  const u32 own = !edge || WHOLE(at, n) ? ~0u : EVEN ? 0 : those_inside<V>(at, n);
  A sum = 0;
#pragma unroll
  for (int i = 0; i < V; i++) {
    const A d = own >> i & 1 ? v[i] - mean : (A)0;
    sum += d * d;
  }
  return sum;
}

/* ---- warps of a group ---- */

/* Where the warps of a row's blocks meet each has a place, which lanes take in turn: EACH_TAKES of them a lane. */
enum { TEAM = CLUSTER * WARPS, TAKERS = TEAM < 32 ? TEAM : 32, EACH_TAKES = TEAM / TAKERS };
/* How often a row's blocks have met, as far as it matters: the slot, and whether it is used an odd time. */
#define MEETS (CLUSTER > 1 ? 2 * SLOTS : SLOTS)
#define NEXT_MEET(meet) ((meet) + 1 == MEETS ? 0 : (meet) + 1)
/* Of a cluster: for each slot a mailbox, then for each slot a parcel of each warp. */
FN u64 *mailboxes(const norm_job &p)
{
  DYNAMIC_SHARED(char, room);
  return (u64 *)(room + p.meets);
}
FN words *parcels(const norm_job &p, int slot) { return (words *)(mailboxes(p) + 4) + slot * TEAM; }
/* All threads, before the first row. */
FN void open_meetings(const norm_job &p)
{
  if (CLUSTER == 1) return;
  if (threadIdx.x == 0)
    for (int i = 0; i < SLOTS; i++) {
      open_mailbox(mailboxes(p) + i);
      expect_parcels(mailboxes(p) + i, TEAM * sizeof(words));
    }
  cluster_barrier();
}
/* What each warp of the group has, to all of them: lane i gets those of warps i, i + 32, ..., and all that of the
 * first. A slot is used again only after the warps met in another one, so nobody still reads it. */
FN void meet_all(const norm_job &p, A a, A b, pack<A, 2> *one, pack<A, 2> *first, int meet)
{
  if (CLUSTER == 1) {
    __shared__ pack<A, 2> room[SLOTS][WARPS];
    group_meets();
    if (LANE == 0) room[meet][threadIdx.x >> 5] = pack<A, 2>{{a, b}};
    __syncthreads();
    one[0] = room[meet][LANE % WARPS];
    *first = room[meet][0];
    return;
  }
  const int slot = meet % SLOTS;
  words *const room = parcels(p, slot), mine = {};
  words parcel = mine;
  ((A *)&parcel)[0] = a, ((A *)&parcel)[1] = b;
  if (LANE < CLUSTER)
    send_parcel(room + RANK * WARPS + (threadIdx.x >> 5), mailboxes(p) + slot, (u32)LANE, parcel);
  wait_for_parcels(mailboxes(p) + slot, meet / SLOTS);
  if (threadIdx.x == 0) expect_parcels(mailboxes(p) + slot, TEAM * sizeof(words));
#pragma unroll
  for (int i = 0; i < EACH_TAKES; i++) one[i] = *(const pack<A, 2> *)(room + LANE % TAKERS + i * TAKERS);
  *first = *(const pack<A, 2> *)room;
}

/* Two sums over a group, which meets once. */
FN void group_sums(const norm_job &p, A &a, A &b, int meet)
{
  a = lanes_sum(a), b = lanes_sum(b);
  if (N > 0 || TEAM == 1) return;
  pack<A, 2> one[EACH_TAKES], first;
  meet_all(p, a, b, one, &first, meet);
  a = b = 0;
#pragma unroll
  for (int i = 0; i < EACH_TAKES; i++) a += one[i].v[0], b += one[i].v[1];
#pragma unroll
  for (int m = TAKERS / 2; m > 0; m >>= 1) a += __shfl_xor_sync(FULL, a, m), b += __shfl_xor_sync(FULL, b, m);
}

/* How many of a row's elements the group's warps have: one over this warp's, and those of the warps with which its lane
 * joins the others. */
struct shares {
  A inverse, one[EACH_TAKES];
};
/* Of the first `end` elements behind the beginning of a pack, those of a warp. */
FN place warp_has(place end, int warp)
{
  const place all = GROUP * V, each = 32 * V, rest = end % all - warp * each;
  return end / all * each + (rest < 0 ? 0 : rest < each ? rest : each);
}
FN shares shares_of(int shift, place n)
{
  const int warp = RANK * WARPS + ((int)threadIdx.x >> 5);
  const A own = (A)(warp_has(shift + n, warp) - warp_has(shift, warp));
  shares made = {(A)1 / larger(own, (A)1), {}};
#pragma unroll
  for (int i = 0; i < EACH_TAKES; i++) {
    const int one = LANE % TAKERS + i * TAKERS;
    made.one[i] = (A)(warp_has(shift + n, one) - warp_has(shift, one));
  }
  return made;
}

/* The elements `by` and following of two packs that lie behind each other, a word at a time. */
template <class T> FN pack<T, V> shifted(const pack<T, V> &first, const pack<T, V> &second, int by)
{
  enum { WORDS = sizeof(pack<T, V>) / 4, EACH_HAS = sizeof(T) };
  u32 w[2 * WORDS];
  pack<T, V> out;
#pragma unroll
  for (int i = 0; i < WORDS; i++) w[i] = ((const u32 *)&first)[i], w[WORDS + i] = ((const u32 *)&second)[i];
#pragma unroll
  for (int step = V / 2; step * EACH_HAS >= 4; step /= 2) {
    const int words = step * EACH_HAS / 4;
#pragma unroll
    for (int i = 0; i + words < 2 * WORDS; i++) w[i] = by & step ? w[i + words] : w[i];
  }
#pragma unroll
  for (int i = 0; i < WORDS; i++) /* the odd one of 16 bits */
    ((u32 *)&out)[i] = EACH_HAS < 4 ? (u32)((((u64)w[i + 1] << 32) | w[i]) >> ((by & 1) * 16)) : w[i];
  return out;
}

/* Weights or biases in shared memory as the packs of the block's rows want them, with zeros around them. */
FN void lay_out(pack<T1, V> *to, const T1 *w, i64 n)
{
  const int shift = shift_of<V>(first_row(), n);
  for (int i = threadIdx.x; i < KEPT * ROOM * V; i += THREADS) {
    const int at = i / (ROOM * V) * (GROUP * V) + (N < 0 ? RANK * ROOM * V : 0) + i % (ROOM * V) - shift;
    ((T1 *)to)[i] = at >= 0 && at < n ? w[at] : put<T1>(0);
  }
}
/* Where they lie: weights, then biases. */
FN pack<T1, V> *lay_out_all(const norm_job &p, char *room)
{
  pack<T1, V> *const laid = (pack<T1, V> *)(room + p.laid);
  if (!LAID) return 0;
  if (WEIGHT) lay_out(laid, p.w, p.n);
  if (BIAS) lay_out(laid + WEIGHT * KEPT * ROOM, p.b, p.n);
  __syncthreads();
  return laid;
}

/* The weights or biases of pack k, which is at `at`, of a row that begins `shift` behind a pack: as they are laid out,
 * or of the two packs they lie in. What is not the row's is some other weight, or 0. */
FN pack<T1, V> weights_at(const T1 *w, const pack<T1, V> *laid, int k, place at, int shift, place n)
{
  const bool late = LATE(k);
  if (LAID) return laid[k * ROOM + ROOM_LANE];
  if (EVEN || APART) return load_pack<T1, V>(PACK_AT(w + GROUP_LANE * V, k), at, n, put<T1>(0), EDGE(k));
  const int by = (V - shift) & (V - 1);
  const place first = at - by;
  if (late && first + 2 * V > n) { /* the last ones, by element */
    pack<T1, V> p;
#pragma unroll
    for (int i = 0; i < V; i++) p.v[i] = at + i >= 0 && at + i < n ? w[at + i] : put<T1>(0);
    return in_words(p);
  }
  const pack<T1, V> before = in_words(*(const pack<T1, V> *)(w + (first > 0 ? first : 0)));
  return shifted(before, in_words(*(const pack<T1, V> *)(w + first + V)), by);
}

/* Sums of their own, as they lie in memory: never one instruction with a product before. */
FN f32 plain_sum(f32 a, f32 b) { return __fadd_rn(a, b); }
FN f64 plain_sum(f64 a, f64 b) { return __dadd_rn(a, b); }
template <class T> FN pack<T0, V> added(pack<T0, V> e, const pack<T, V> &g)
{
#pragma unroll
  for (int i = 0; i < V; i++) e.v[i] = put<T0>(plain_sum(get(e.v[i]), (A)get(g.v[i])));
  return e;
}

/* Numbers as they are after they were stored among rows, in another type. */
template <class T> struct result_of {
  FN pack<T, V> of(A *v)
  {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = (A)get(put<T0>(v[i]));
    return packed<T, V>(v);
  }
};
template <> struct result_of<T0> {
  FN pack<T0, V> of(A *v) { return packed<T0, V>(v); }
};

/* Means and sums of squared distances of the group's warps as those of all: about the first warp's mean, so that both
 * sums are taken together. */
FN void join_warps(const norm_job &p, const shares &has, A &mean, A &squares, A inverse, int meet)
{
  pack<A, 2> one[EACH_TAKES], first;
  meet_all(p, mean, squares, one, &first, meet);
  A sum = 0;
  squares = 0;
#pragma unroll
  for (int i = 0; i < EACH_TAKES; i++) {
    const A away = one[i].v[0] - first.v[0], part = has.one[i] * away;
    sum += part;
    squares += one[i].v[1] + part * away;
  }
#pragma unroll
  for (int m = TAKERS / 2; m > 0; m >>= 1) {
    sum += __shfl_xor_sync(FULL, sum, m);
    squares += __shfl_xor_sync(FULL, squares, m);
  }
  const A moved = sum * inverse;
  mean = first.v[0] + moved;
  squares = larger(squares - (A)p.n * moved * moved, (A)0);
}

/* Inputs 0 and 1 of row r. What is added is not kept where rows are not in registers or a ring. */
FN kept<T0, V> x_row(const norm_job &p, i64 r, int slot, char *room)
{
  return row_at<T0, V>(p.x, r, p.rows, p.n, put<T0>(0), STASHED(p.stash) ? room_of<T0, V>(room, 0, slot, p.n) : 0);
}
FN kept<T2, V> g_row(const norm_job &p, i64 r, int slot, char *room, bool stays)
{
  return row_at<T2, V>(p.g, r, p.rows, p.n, put<T2>(0),
                       STASHED(p.stash) && stays ? room_of<T0, V>(room, 1, slot, p.n) : 0);
}
FN void ask_rows(const norm_job &p, i64 r, int slot, char *room, bool both)
{
  ask(x_row(p, r, slot, room));
  if (both) ask(g_row(p, r, slot, room, true));
  portion_ends();
}

/* What a row is normalised by. shift: for 16-bit rows, whose elements are fewer bits than what a product with 1 / the
 * deviation rounds. */
struct spread {
  A mean, rstd, shift;
};
FN spread spread_by(A mean, A rstd) { return spread{mean, rstd, -mean * rstd}; }
FN A normalised(A v, const spread &by)
{
  if (OP == rms) return v * by.rstd;
  return sizeof(T0) == 2 ? v * by.rstd + by.shift : (v - by.mean) * by.rstd;
}

/* The numbers of rows that are kept stay in registers; others are read again. */
enum { HELD = KEPT ? KEPT : 1 };
#define OWN(k) (KEPT ? (k) : 0)

/* Of a row whose packs were read: sum is this thread's, of its elements or their squares. */
FN spread statistics(kept<T0, V> &row, A (*v)[V], A sum, const shares &has, const norm_job &p, int meet)
{
  const A inverse = (A)1 / (A)p.n;
  A mean = 0;
  if (OP == layer) { /* about the warp's mean first, so that the block meets once */
    mean = lanes_sum(sum) * (N > 0 ? inverse : has.inverse);
    sum = 0;
#pragma unroll
    for (int k = 0; k < PACKS(p.n); k++) {
      if (!KEPT) unpack<T0, V>(v[0], read_again(row, k));
      sum += distances(v[OWN(k)], mean, PLACE_OF(row, k), row.n, EDGE(k));
    }
    sum = lanes_sum(sum);
    if (N <= 0 && TEAM > 1) join_warps(p, has, mean, sum, inverse, meet);
  } else if (CLUSTER > 1) {
    A none = 0;
    group_sums(p, sum, none, meet);
  } else {
    group_meets();
    sum = group_sum<0>(sum, meet);
  }
  return spread_by(mean, inverse_root(sum * inverse + (A)p.eps));
}

FN void forward_row(const norm_job &p, i64 r, kept<T0, V> &row, kept<T2, V> &other, const kept<T0, V> &next,
                    const pack<T1, V> *laid, const shares &has, int meet)
{
  T0 *const added_to = ADDS ? FIRST_OF(row, p.sum + r * p.n) : 0;
  T3 *const y = FIRST_OF(row, p.y + r * p.n);
  A v[HELD][V], sum = 0;
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    A *const own = v[OWN(k)];
    pack<T0, V> e = first_read(row, k);
    if (ADDS) {
      e = added(e, first_read(other, k));
      if (!KEPT) store_pack<T0, V>(PACK_AT(added_to, k), PLACE_OF(row, k), row.n, e, EDGE(k));
      keep(row, k, e);
    }
    unpack<T0, V>(own, e);
    A part = 0;
#pragma unroll
    for (int i = 0; i < V; i++) part += OP == layer ? own[i] : own[i] * own[i];
    sum += part;
  }
  if (ADDS) row.mine = added_to; /* where it is read again */
  const spread by = statistics(row, v, sum, has, p, meet);
  if (GROUP_LANE == 0 && r < p.rows) {
    if (p.mean) p.mean[r] = by.mean;
    p.rstd[r] = by.rstd;
  }
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const place at = PLACE_OF(row, k);
    A *const own = v[OWN(k)];
    if (!KEPT) unpack<T0, V>(own, last_read(row, next, k));
    if (LATE(k) && at >= row.n) continue;
    if (KEPT && ADDS) /* not before: it would hold up what is read after it */
      store_pack<T0, V>(PACK_AT(added_to, k), at, row.n, packed<T0, V>(own), EDGE(k));
    A w[V], b[V];
    if (WEIGHT) unpack<T1, V>(w, weights_at(p.w, laid, k, at, row.shift, row.n));
    if (BIAS) unpack<T1, V>(b, weights_at(p.b, laid + WEIGHT * KEPT * ROOM, k, at, row.shift, row.n));
#pragma unroll
    for (int i = 0; i < V; i++) {
      own[i] = normalised(own[i], by);
      if (WEIGHT) own[i] *= w[i];
      if (BIAS) own[i] += b[i];
    }
    store_pack<T3, V>(PACK_AT(y, k), at, row.n, result_of<T3>::of(own), EDGE(k));
  }
}

KERNEL(norm_forward, norm_job)
{
  DYNAMIC_SHARED(char, room);
  const bool both = ADDS && AHEAD;
  for (int a = 0; a < ASKED; a++) ask_rows(p, first_row() + a * ROW_STEP, a, room, both);
  const pack<T1, V> *const laid = lay_out_all(p, room);
  shares has = shares_of(shift_of<V>(first_row(), p.n), (place)p.n);
  int meet = 0;
  open_meetings(p);
  EACH_OWN_ROW(r, slot, p.rows)
  {
    if (N) ask_rows(p, r + AHEAD * ROW_STEP, SLOT_AHEAD(slot), room, both);
    portions_arrive<AHEAD>();
    kept<T0, V> row = x_row(p, r, slot, room), next = x_row(p, r + ROW_STEP, slot, room);
    kept<T2, V> other = g_row(p, r, slot, room, both);
    if (!KEPT) has = shares_of(row.shift, row.n);
    forward_row(p, r, row, other, next, laid, has, meet);
    meet = NEXT_MEET(meet);
    if (!N) portion_ends();
  }
}

#undef BLOCKS_AT_ONCE
#define BLOCKS_AT_ONCE (THREADS > 512 ? 1 : (N <= 0 ? 768 : 512) / THREADS)

/* A pack of rows in the type of results. */
template <class T> struct low_of {
  FN pack<T, V> of(const pack<T0, V> &e)
  {
    A v[V];
    unpack<T0, V>(v, e);
    return packed<T, V>(v);
  }
};
template <> struct low_of<T0> {
  FN pack<T0, V> of(const pack<T0, V> &e) { return e; }
};

/* What the rows of this thread add to the gradients of weight and bias, in the columns it has. */
template <bool SUMS> struct column_sums {
  enum { PACKS_OF = SUMS && KEPT ? KEPT : 1 };
  A w[PACKS_OF][V], b[LEARNS ? PACKS_OF : 1][V];
};

/* Adds up the block's warps where each has rows of its own, and stores the block's piece. */
FN void store_sums(const norm_job &p, const column_sums<true> &s)
{
  const int shift = shift_of<V>(first_row(), p.n);
  __shared__ A room[N > 0 ? THREADS / 32 : 1][N > 0 ? LANES * V : 1];
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
#pragma unroll
    for (int which = 0; which < 1 + LEARNS; which++) {
      A *to = p.partial + ((i64)(blockIdx.x / CLUSTER) * 2 + which) * p.n;
      if (N < 0) {
        pack<A, V> own;
#pragma unroll
        for (int i = 0; i < V; i++) own.v[i] = which ? s.b[LEARNS ? k : 0][i] : s.w[k][i];
        const place at = ((place)k * GROUP + GROUP_LANE) * V - shift;
        if (EVEN) store_pack<A, V>(to + at, at, (place)p.n, own, true);
#pragma unroll
        for (int i = 0; i < V; i++)
          if (!EVEN && at + i >= 0 && at + i < p.n) to[at + i] = own.v[i];
        continue;
      }
#pragma unroll
      for (int i = 0; i < V; i++) {
        A own = which ? s.b[LEARNS ? k : 0][i] : s.w[k][i];
#pragma unroll
        for (int m = LANES; m < 32; m <<= 1) own += __shfl_xor_sync(FULL, own, m); /* groups of the warp */
        if (LANE < LANES) room[threadIdx.x >> 5][i * LANES + LANE] = own;
      }
      __syncthreads();
      for (int t = threadIdx.x; t < LANES * V; t += THREADS) {
        const i64 column = ((i64)k * LANES + t % LANES) * V + t / LANES - shift;
        A sum = 0;
        for (int i = 0; i < THREADS / 32; i++) sum += room[i][t];
        if (column >= 0 && column < p.n) to[column] = sum;
      }
      __syncthreads();
    }
  }
}

/* What row r was normalised by; read a row ahead. */
struct read_spread {
  A mean, rstd;
};
FN read_spread spread_of(const norm_job &p, i64 r)
{
  return r < p.rows ? read_spread{OP == layer ? p.mean[r] : (A)0, p.rstd[r]} : read_spread{0, 0};
}

/* rstd (gw - mean(gw) - h mean(gw h)), h the normalised row, gw = g * weight; mean(gw) for layer norm only. Of 16-bit
 * rows as gw * rstd + (x * slope + level). */
struct slant {
  A s1, s2, slope, level;
};
FN slant slant_of(const spread &by, A s1, A s2)
{
  return slant{s1, s2, -s2 * by.rstd * by.rstd, -(s1 + s2 * by.shift) * by.rstd};
}
FN A gradient_of(A x, A gw, const spread &by, const slant &to)
{
  if (sizeof(T0) == 2) return gw * by.rstd + (OP == layer ? x * to.slope + to.level : x * to.slope);
  return by.rstd * (gw - to.s1 - normalised(x, by) * to.s2);
}

template <bool SUMS>
FN void backward_row(const norm_job &p, i64 r, spread by, kept<T0, V> &xs, kept<T2, V> &gs, const kept<T0, V> &next_x,
                     const kept<T2, V> &next_g, const pack<T1, V> *laid, column_sums<SUMS> &sums, int meet)
{
  const i64 first = r * p.n;
  const T0 *const add = ADDS ? FIRST_OF(xs, p.add + first) : 0;
  pack<T0, V> adds[N > 0 ? N : 1];
  A x[V], g[V], w[V], s1 = 0, s2 = 0;
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const place at = PLACE_OF(xs, k);
    unpack<T0, V>(x, first_read(xs, k));
    unpack<T2, V>(g, first_read(gs, k)); /* 0 past the end, and so are weights */
    if (N > 0 && ADDS) adds[N > 0 ? k : 0] = load_pack<T0, V>(PACK_AT(add, k), at, xs.n, put<T0>(0), EDGE(k));
    if (WEIGHT) unpack<T1, V>(w, weights_at(p.w, laid, k, at, xs.shift, xs.n));
    A part1 = 0, part2 = 0;
#pragma unroll
    for (int i = 0; i < V; i++) {
      const A h = normalised(x[i], by), gw = WEIGHT ? g[i] * w[i] : g[i];
      part1 += gw;
      part2 += gw * h;
      if (SUMS) sums.w[SUMS ? k : 0][i] += g[i] * h;
      if (SUMS && LEARNS) sums.b[SUMS && LEARNS ? k : 0][i] += g[i];
    }
    s1 += part1, s2 += part2;
  }
  group_sums(p, s1, s2, meet);
  const A inverse = (A)1 / (A)p.n;
  const slant to = slant_of(by, OP == layer ? s1 * inverse : (A)0, s2 * inverse);
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const place at = PLACE_OF(xs, k);
    unpack<T0, V>(x, last_read(xs, next_x, k));
    unpack<T2, V>(g, last_read(gs, next_g, k));
    if (LATE(k) && at >= xs.n) continue;
    if (WEIGHT) unpack<T1, V>(w, weights_at(p.w, laid, k, at, xs.shift, xs.n));
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = gradient_of(x[i], WEIGHT ? g[i] * w[i] : g[i], by, to);
    pack<T0, V> out = packed<T0, V>(x);
    if (ADDS)
      out = added(out, N > 0 ? adds[N > 0 ? k : 0]
                             : load_pack<T0, V>(PACK_AT(add, k), at, xs.n, put<T0>(0), EDGE(k)));
    if (p.sum) store_pack<T0, V>(PACK_AT(FIRST_OF(xs, p.sum + first), k), at, xs.n, out, EDGE(k));
    if (p.y) store_pack<T3, V>(PACK_AT(FIRST_OF(xs, p.y + first), k), at, xs.n, low_of<T3>::of(out), EDGE(k));
  }
}

template <bool SUMS> FN void backward_rows(const norm_job &p, char *room)
{
  column_sums<SUMS> sums = {};
  read_spread next = spread_of(p, first_row());
  for (int a = 0; a < ASKED; a++) ask_rows(p, first_row() + a * ROW_STEP, a, room, true);
  const pack<T1, V> *const laid = lay_out_all(p, room);
  int meet = 0;
  open_meetings(p);
  EACH_OWN_ROW(r, slot, p.rows)
  {
    const spread by = spread_by(next.mean, next.rstd);
    if (N) ask_rows(p, r + AHEAD * ROW_STEP, SLOT_AHEAD(slot), room, true);
    next = spread_of(p, r + ROW_STEP);
    portions_arrive<AHEAD>();
    kept<T0, V> xs = x_row(p, r, slot, room), next_x = x_row(p, r + ROW_STEP, slot, room);
    kept<T2, V> gs = g_row(p, r, slot, room, true), next_g = g_row(p, r + ROW_STEP, slot, room, true);
    backward_row<SUMS>(p, r, by, xs, gs, next_x, next_g, laid, sums, meet);
    meet = NEXT_MEET(meet);
    if (!N) portion_ends();
  }
  if constexpr (SUMS) store_sums(p, sums);
}

KERNEL(norm_backward, norm_job)
{
  DYNAMIC_SHARED(char, room);
  backward_rows<false>(p, room);
}

/* What a piece of the rows adds to the gradients of weight and bias: a warp's lanes are neighbouring packs of columns,
 * the block's warps take rows in turn. */
KERNEL(norm_affine, norm_job)
{
  __shared__ A sums[2][THREADS / 32][32 * V];
  const i64 column = ((i64)blockIdx.x * 32 + LANE) * V, begin = blockIdx.y * p.piece;
  const i64 end = begin + p.piece < p.rows ? begin + p.piece : p.rows;
  const int warp = (int)threadIdx.x >> 5;
  A sw[V] = {}, sb[V] = {};
  if (column < p.n)
    for (i64 r = begin + warp; r < end; r += THREADS / 32) {
      const pack<T0, V> x = load_pack<T0, V>(p.x + r * p.n + column, column, p.n, put<T0>(0));
      const pack<T2, V> g = load_pack<T2, V>(p.g + r * p.n + column, column, p.n, put<T2>(0));
      const A mean = p.mean ? p.mean[r] : (A)0, rstd = p.rstd[r];
#pragma unroll
      for (int i = 0; i < V; i++) {
        sw[i] += (A)get(g.v[i]) * ((get(x.v[i]) - mean) * rstd);
        sb[i] += (A)get(g.v[i]);
      }
    }
#pragma unroll
  for (int i = 0; i < V; i++) {
    sums[0][warp][i * 32 + LANE] = sw[i];
    sums[1][warp][i * 32 + LANE] = sb[i];
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * 32 * V; t += THREADS) {
    const int which = t / (32 * V), at = t % (32 * V);
    const i64 c = ((i64)blockIdx.x * 32 + at % 32) * V + at / 32;
    A sum = 0;
    for (int k = 0; k < THREADS / 32; k++) sum += sums[which][k][at];
    if (c < p.n) p.partial[(blockIdx.y * 2 + which) * p.n + c] = sum;
  }
}

/* The pieces added up, in order: a warp takes every (THREADS / 32)th of them, its lanes are columns. */
KERNEL(norm_affine_join, norm_job)
{
  __shared__ A room[THREADS / 32][32];
  const i64 column = (i64)blockIdx.x * 32 + LANE;
  const int warp = (int)threadIdx.x >> 5, which = (int)blockIdx.y;
  A sum = 0;
  if (column < p.n)
#pragma unroll 8 /* so many are on their way at once */
    for (i64 k = warp; k < p.pieces; k += THREADS / 32) sum += p.partial[(k * 2 + which) * p.n + column];
  room[warp][LANE] = sum;
  __syncthreads();
  T1 *const to = which ? p.gb : p.gw;
  if (warp || column >= p.n || !to) return;
  for (int k = 1; k < THREADS / 32; k++) sum += room[k][LANE];
  to[column] = put<T1>(sum);
}

/* norm_backward together with what each block's rows add to the gradients of weight and bias: rows that are kept in
 * registers, 80 of them where a thread has few packs, 128 or more where it has four; more where packs are taken apart
 * or something is added, if two blocks have them. As in norm.c. */
#undef BLOCKS_AT_ONCE
#define LEAN (EVEN && !ADDS && N <= 4 && CLUSTER == 1)
#define RESIDENT (N < 0 && N >= -3 ? (LEAN ? 768 : 512) : LEAN || THREADS > 128 ? 512 : 384)
#define BLOCKS_AT_ONCE (THREADS < 384 ? RESIDENT / THREADS : 1)
#if N != 0
KERNEL(norm_backward_all, norm_job)
{
  DYNAMIC_SHARED(char, room);
  backward_rows<true>(p, room);
}
#endif
