/* index.cu: reading and writing by index, for any number of index tensors: gather, index_select, embedding, index, and
 * scatter, index_add, index_put and their kin.
 *
 * A walk over `shape`: one operand is walked by its strides, the other by its own strides plus, for each index tensor,
 * number * step. N is the bytes of an element that is only moved; writes that fold (OP) have the type T0, N of them at
 * once. Where the last dim is a row in both operands, whose elements share their numbers, warps take rows: numbers are
 * read and places found once a row. Where results must repeat, what goes to one place goes there in order: the places are listed and sorted (index.c), and one thread
 * takes all that goes to one. Invariant: a number out of range writes nothing and is reported. */
/* At most 64 registers a thread, so that many rows are under way. */
#define BLOCKS_AT_ONCE (1024 / THREADS)
#include "codegen/device.cuh"
#include "common.cuh"

enum { DIMS = 16, INDICES = 8 };

struct index_job {
  void *y;
  const void *x;
  i64 n;
  i32 ndim, nindex, wraps, skips;
  i64 skip; /* of the first index tensor: elements with this number are passed over */
  f64 scale;
  i64 iscale;
  fault_slot fault;
  const i64 *numbers[INDICES];
  i64 size[INDICES], step[INDICES];
  i64 shape[DIMS], ystride[DIMS], xstride[DIMS];
  i64 istride[INDICES][DIMS];
  /* In order: the first dims, `outer` elements of them, are those that numbers depend on; `inner`: of the others. */
  i64 outer, inner, range; /* range: no place is as large */
  i64 *places;             /* of each of outer, of which `order` says the sorted ones are */
  const i64 *order;
  /* By rows, which are no dim then: `row` elements each, in `cuts` pieces of up to `piece`. A warp takes `takes` of all
   * `pieces` at a time, 32 at most. */
  i64 row, cuts, pieces;
  i32 piece, takes;
};

template <int BYTES> struct raw;
template <> struct raw<1> { typedef u8 type; };
template <> struct raw<2> { typedef u16 type; };
template <> struct raw<4> { typedef u32 type; };
template <> struct raw<8> { typedef u64 type; };
template <> struct raw<16> { typedef pack<u64, 2> type; };

/* 32-bit division is several times faster. */
FN i64 quotient(i64 i, i64 by) { return i < 0x7fffffff && by < 0x7fffffff ? (i64)((u32)i / (u32)by) : i / by; }

/* Offsets of element i. False: one of its numbers is out of range, or it is to be passed over. */
FN bool locate(const index_job &p, i64 i, i64 *y, i64 *x, i64 *indexed)
{
  i64 at[INDICES] = {0}, yo = 0, xo = 0;
#pragma unroll 1
  for (int d = p.ndim - 1; d >= 0; d--) {
    const i64 next = d ? quotient(i, p.shape[d]) : 0;
    const i64 k = i - next * p.shape[d];
    yo += k * p.ystride[d];
    xo += k * p.xstride[d];
#pragma unroll
    for (int m = 0; m < INDICES; m++)
      if (m < p.nindex) at[m] += k * p.istride[m][d];
    i = next;
  }
  *y = yo;
  *x = xo;
  i64 o = 0;
#pragma unroll
  for (int m = 0; m < INDICES; m++) {
    if (m >= p.nindex) break;
    const i64 number = p.numbers[m][at[m]], place = p.wraps && number < 0 ? number + p.size[m] : number;
    if (p.skips && number == p.skip) return false;
    if (place < 0 || place >= p.size[m]) {
      report_fault(p.fault, FAULT_INDEX, number, p.size[m]);
      return false;
    }
    o += place * p.step[m];
  }
  *indexed = o;
  return true;
}

/* ---- by rows ---- */

/* A piece of a row: where it begins in both operands, and how many elements it has; 0: its number is out of range. */
struct part_of_row {
  i64 y, x;
  i32 n;
};
template <bool READS> FN part_of_row part(const index_job &p, i64 i)
{
  i64 y, x, o;
  const i64 row = p.cuts > 1 ? quotient(i, p.cuts) : i, begin = (i - row * p.cuts) * p.piece, rest = p.row - begin;
  if (!locate(p, row, &y, &x, &o)) return part_of_row{0, 0, 0};
  return part_of_row{begin + y + (READS ? 0 : o), begin + x + (READS ? o : 0), rest < p.piece ? (i32)rest : p.piece};
}

/* Each lane finds a piece; then the warp goes over all elements of all of them in turn, AT_ONCE of each lane on their
 * way together. */
template <class E, bool READS, class DO> FN void each_piece(const index_job &p, DO give)
{
  enum { AT_ONCE = sizeof(E) < 16 ? 8 : 4 };
  const int begin_row = LANE / p.piece, begin_at = LANE - begin_row * p.piece; /* of this lane's first element */
  const int step_row = 32 / p.piece, step_at = 32 - step_row * p.piece;        /* from one to the next */
  const i64 step = (i64)gridDim.x * (THREADS / 32) * p.takes;
  i64 first = ((i64)blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5)) * p.takes;
  for (; first < p.pieces; first += step) {
    part_of_row own = {0, 0, 0};
    if (LANE < p.takes && first + LANE < p.pieces) own = part<READS>(p, first + LANE);
    int row = begin_row, at = begin_at;
    for (int done = 0; done < p.takes * p.piece; done += 32 * AT_ONCE) {
      E v[AT_ONCE];
      i64 to[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        const i64 from = __shfl_sync(FULL, own.x, row) + at;
        to[k] = __shfl_sync(FULL, own.y, row) + at;
        const int n = __shfl_sync(FULL, own.n, row);
        if (row < p.takes && at < n) v[k] = ((const E *)p.x)[from];
        else to[k] = -1;
        at += step_at;
        row += step_row + (at >= p.piece);
        at -= at >= p.piece ? p.piece : 0;
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++)
        if (to[k] >= 0) give((E *)p.y + to[k], v[k]);
    }
  }
}

KERNEL(list_places, index_job)
{
  EACH(i, p.outer)
  {
    i64 y, x, o;
    p.places[i] = locate(p, i * p.inner, &y, &x, &o) ? y + o : p.range;
  }
}

#ifndef OP
typedef raw<N>::type E;

KERNEL(read_by_index, index_job)
{
  EACH(i, p.n)
  {
    i64 y, x, o;
    if (locate(p, i, &y, &x, &o)) ((E *)p.y)[y] = ((const E *)p.x)[x + o];
  }
}

KERNEL(write_by_index, index_job)
{
  EACH(i, p.n)
  {
    i64 y, x, o;
    if (locate(p, i, &y, &x, &o)) ((E *)p.y)[y + o] = ((const E *)p.x)[x];
  }
}

FN void store(E *to, const E &v) { *to = v; }
KERNEL(read_rows, index_job) { each_piece<E, true>(p, store); }
KERNEL(write_rows, index_job) { each_piece<E, false>(p, store); }

/* The last of those that go to one place. */
KERNEL(write_in_order, index_job)
{
  EACH(i, p.outer * p.inner)
  {
    const i64 s = i / p.inner, to = p.places[s];
    i64 y, x, o;
    if (to >= p.range || (s + 1 < p.outer && p.places[s + 1] == to)) continue;
    if (locate(p, p.order[s] * p.inner + i % p.inner, &y, &x, &o)) ((E *)p.y)[y + o] = ((const E *)p.x)[x];
  }
}
#else

/* ---- folding into memory that other threads fold into ---- */
FN f32 bits_to(f32, u32 b) { return __uint_as_float(b); }
FN f64 bits_to(f64, u64 b) { return __longlong_as_double((long long)b); }
FN i64 bits_to(i64, u64 b) { return (i64)b; }
FN u64 bits_to(u64, u64 b) { return b; }
FN u32 to_bits(f32 v) { return __float_as_uint(v); }
FN u64 to_bits(f64 v) { return (u64)__double_as_longlong(v); }
FN u64 to_bits(i64 v) { return (u64)v; }
FN u64 to_bits(u64 v) { return v; }

struct add_op {
  template <class T> FN T fold(T d, T s) { return d + s; }
};
struct mul_op {
  template <class T> FN T fold(T d, T s) { return d * s; }
};
struct max_op {
  template <class T> FN T fold(T d, T s) { return s > d || s != s ? s : d; }
};
struct min_op {
  template <class T> FN T fold(T d, T s) { return s < d || s != s ? s : d; }
};

template <class O, class T, class B> FN void fold_bits(T *to, T v, B *bits)
{
  B old = *bits, seen;
  do {
    seen = old;
    const T now = O::fold(bits_to(v, seen), v);
    if (to_bits(now) == seen) return;
    old = atomicCAS(bits, seen, to_bits(now));
  } while (old != seen);
  (void)to;
}
template <class O> struct folder {
  FN void go(f32 *to, f32 v) { fold_bits<O>(to, v, (u32 *)to); }
  template <class T> FN void go(T *to, T v) { fold_bits<O>(to, v, (u64 *)to); }
};
template <> struct folder<add_op> {
  FN void go(f32 *to, f32 v) { atomicAdd(to, v); }
  FN void go(f64 *to, f64 v) { atomicAdd(to, v); }
  FN void go(i64 *to, i64 v) { atomicAdd((u64 *)to, (u64)v); }
  FN void go(u64 *to, u64 v) { atomicAdd(to, v); }
};

FN f32 scaled(const index_job &p, f32 v) { return v * (f32)p.scale; }
FN f64 scaled(const index_job &p, f64 v) { return v * p.scale; }
FN i64 scaled(const index_job &p, i64 v) { return v * p.iscale; }
FN u64 scaled(const index_job &p, u64 v) { return v * (u64)p.iscale; }

KERNEL(fold_by_index, index_job)
{
  EACH(i, p.n)
  {
    i64 y, x, o;
    if (locate(p, i, &y, &x, &o)) folder<OP>::go((T0 *)p.y + y + o, scaled(p, ((const T0 *)p.x)[x]));
  }
}

/* N neighbours; four that are added are one instruction. */
FN void fold_pack(pack<T0, N> *to, const pack<T0, N> &v, const index_job &p)
{
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 900 && N == 4
  f32 s[N];
#pragma unroll
  for (int i = 0; i < N; i++) s[i] = scaled(p, v.v[i]);
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(s[0]), "f"(s[1]), "f"(s[2]),
               "f"(s[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < N; i++) folder<OP>::go((T0 *)to + i, scaled(p, v.v[i]));
#endif
}
KERNEL(fold_rows, index_job)
{
  each_piece<pack<T0, N>, false>(p, [&](pack<T0, N> *to, const pack<T0, N> &v) { fold_pack(to, v, p); });
}

/* By the thread of the first that goes to a place. */
KERNEL(fold_in_order, index_job)
{
  EACH(i, p.outer * p.inner)
  {
    const i64 s = i / p.inner, to = p.places[s];
    i64 y, x, o;
    if (to >= p.range || (s && p.places[s - 1] == to)) continue;
    locate(p, p.order[s] * p.inner + i % p.inner, &y, &x, &o);
    T0 *const at = (T0 *)p.y + y + o;
    T0 sum = *at;
    for (i64 k = s; k < p.outer && p.places[k] == to; k++) {
      locate(p, p.order[k] * p.inner + i % p.inner, &y, &x, &o);
      sum = OP::fold(sum, scaled(p, ((const T0 *)p.x)[x]));
    }
    *at = sum;
  }
}
#endif
