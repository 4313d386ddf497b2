/* index.cu: reading and writing by index, for any number of index tensors: gather, index_select, embedding, index, and
 * scatter, index_add, index_put and their kin.
 *
 * A walk over `shape`: one operand is walked by its strides, the other by its own strides plus, for each index tensor,
 * number * step. N is the bytes of an element that is only moved; writes that fold (OP) have the type T0. Where results
 * must repeat, what goes to one place goes there in order: the places are listed and sorted (index.c), and one thread
 * takes all that goes to one. Invariant: a number out of range writes nothing and is reported. */
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
};

template <int BYTES> struct raw;
template <> struct raw<1> { typedef u8 type; };
template <> struct raw<2> { typedef u16 type; };
template <> struct raw<4> { typedef u32 type; };
template <> struct raw<8> { typedef u64 type; };
template <> struct raw<16> { typedef pack<u64, 2> type; };

/* Offsets of element i. False: one of its numbers is out of range, or it is to be passed over. */
FN bool locate(const index_job &p, i64 i, i64 *y, i64 *x, i64 *indexed)
{
  i64 at[INDICES] = {0}, yo = 0, xo = 0;
  for (int d = p.ndim - 1; d >= 0; d--) {
    const bool narrow = i < 0x7fffffff && p.shape[d] < 0x7fffffff; /* 32-bit division is several times faster */
    const i64 next = !d ? 0 : narrow ? (i64)((u32)i / (u32)p.shape[d]) : i / p.shape[d];
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
