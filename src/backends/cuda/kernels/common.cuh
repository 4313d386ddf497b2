/* common.cuh: what every kernel file begins with: element types and the types they are computed in, faults, and
 * reductions over a warp or a block.
 *
 * A file is compiled once for each set of element types it is used with: the plugin writes `#define T0 bf16` and the
 * like in front of it (kernel.c); device.cuh, which generated loops have too, stands before this file. Invariant:
 * nothing of the toolkit is included, so that the driver and NVRTC are all a machine needs. */

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
struct b8 { u8 bits; };
struct f16 { u16 bits; };
struct bf16 { u16 bits; };

/* KERNEL(name, job): where the line before this file says ONLY, and WANT_name for one of a file's kernels, the others
 * are functions that nobody calls: to compile them takes longest. */
#ifdef ONLY
#define KERNEL_JOINED(a, b) a##b
#define KERNEL_JOIN(a, b) KERNEL_JOINED(a, b)
#define KERNEL_SECOND(a, b, ...) b
#define KERNEL_CHOICE(x) KERNEL_SECOND(x, KERNEL_LEFT_OUT, 0)
#define KERNEL_WANTED_1 0, KERNEL_MADE /* what KERNEL_WANTED_ and WANT_name, 1, make together */
#define KERNEL(name, job) KERNEL_CHOICE(KERNEL_JOIN(KERNEL_WANTED_, WANT_##name))(name, job)
#define KERNEL_LEFT_OUT(name, job) FN void name(const job &p)
#else
#define KERNEL(name, job) KERNEL_MADE(name, job)
#endif

#ifdef CN_SIMT /* the tests' emulation on the CPU */
#define KERNEL_MADE(name, job)                                                \
  static void name##_body(const job &p);                                      \
  extern "C" void name(void **arguments) { name##_body(*(const job *)arguments[0]); } \
  extern "C" const unsigned long name##_size; \
  const unsigned long name##_size = sizeof(job);                              \
  static void name##_body(const job &p)
#define DYNAMIC_SHARED(T, name) T *const name = (T *)simt_dynamic_shared()
#define FN static inline
#else
#ifdef BLOCKS_AT_ONCE /* on a multiprocessor, at least: a limit on registers */
#define BOUNDS __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif
#define KERNEL_MADE(name, job) extern "C" __global__ void BOUNDS name(const __grid_constant__ job p)
#define DYNAMIC_SHARED(T, name) \
  extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
  T *const name = (T *)dynamic_shared
#define FN static __device__ __forceinline__
#endif

/* Kernels that are launched early (cni_cuda_grid): begin_next lets the kernel behind this one begin, too; before
 * wait_for_previous nothing may be written, and nothing read that what was queued before writes. */
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 900
FN void begin_next() { asm volatile("griddepcontrol.launch_dependents;"); }
FN void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
FN void begin_next() {}
FN void wait_for_previous() {}
#endif

#define INF_F64 __longlong_as_double(0x7ff0000000000000ll)
#define NAN_F64 __longlong_as_double(0x7ff8000000000000ll)
#define INF_F32 __int_as_float(0x7f800000)
#define NAN_F32 __int_as_float(0x7fc00000)
#define FULL 0xffffffffu

/* ---- element types: wide_of<T>::type is what elements are computed in ---- */
template <class T> struct wide_of { typedef i64 type; };
template <> struct wide_of<f16> { typedef f32 type; };
template <> struct wide_of<bf16> { typedef f32 type; };
template <> struct wide_of<f32> { typedef f32 type; };
template <> struct wide_of<f64> { typedef f64 type; };
template <> struct wide_of<u64> { typedef u64 type; };
#define WIDE(T) typename wide_of<T>::type

FN f32 get(f16 v) { return cnd_f16_value(v.bits); }
FN f32 get(bf16 v) { return cnd_bf16_value(v.bits); }
FN f32 get(f32 v) { return v; }
FN f64 get(f64 v) { return v; }
FN i64 get(b8 v) { return v.bits != 0; }
FN i64 get(u8 v) { return v; }
FN i64 get(i8 v) { return v; }
FN i64 get(u16 v) { return v; }
FN i64 get(i16 v) { return v; }
FN i64 get(u32 v) { return v; }
FN i64 get(i32 v) { return v; }
FN i64 get(i64 v) { return v; }
FN u64 get(u64 v) { return v; }

/* put<T>(value): from a wide type to an element. Integers wrap. */
template <class T> struct putter {
  template <class V> FN T to(V v) { return (T)v; }
};
template <> struct putter<f16> {
  template <class V> FN f16 to(V v) { return f16{cnd_f16_bits((f32)v)}; }
};
template <> struct putter<bf16> {
  template <class V> FN bf16 to(V v) { return bf16{cnd_bf16_bits((f32)v)}; }
};
template <> struct putter<b8> {
  template <class V> FN b8 to(V v) { return b8{(u8)(v != 0)}; }
};
template <class T, class V> FN T put(V v) { return putter<T>::to(v); }

/* V elements that are read or written at once. */
template <class T, int V> struct alignas(sizeof(T) * V) pack { T v[V]; };

/* Numbers as a pack: 16-bit floats two at a time. */
template <class T> struct packer {
  template <int V, class A> FN pack<T, V> of(const A *v)
  {
    pack<T, V> p;
#pragma unroll
    for (int i = 0; i < V; i++) p.v[i] = put<T>(v[i]);
    return p;
  }
};
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
#define PACKER(T, type)                                                                                    \
  template <> struct packer<T> {                                                                           \
    template <int V> FN pack<T, V> of(const f32 *v)                                                        \
    {                                                                                                      \
      pack<T, V> p;                                                                                        \
      _Pragma("unroll") for (int i = 0; i < V; i += 2)                                                     \
        asm("cvt.rn." type "x2.f32 %0, %1, %2;" : "=r"(((u32 *)&p)[i / 2]) : "f"(v[i + 1]), "f"(v[i]));    \
      return p;                                                                                            \
    }                                                                                                      \
  };
PACKER(bf16, "bf16")
PACKER(f16, "f16")
#endif
template <class T, int V, class A> FN pack<T, V> packed(const A *v) { return packer<T>::template of<V>(v); }

/* The numbers of a pack: of two bf16 in a word each takes one instruction. */
template <class T> struct unpacker {
  template <int V, class A> FN void to(A *v, const pack<T, V> &p)
  {
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = (A)get(p.v[i]);
  }
};
#ifndef CN_SIMT
template <> struct unpacker<bf16> {
  template <int V, class A> FN void to(A *v, const pack<bf16, V> &p)
  {
#pragma unroll
    for (int i = 0; i + 1 < V; i += 2) {
      const u32 both = ((const u32 *)&p)[i / 2];
      v[i] = (A)__int_as_float((int)(both << 16));
      v[i + 1] = (A)__int_as_float((int)(both & 0xffff0000u));
    }
    if (V % 2) v[V - 1] = (A)get(p.v[V - 1]);
  }
};
#endif
template <class T, int V, class A> FN void unpack(A *v, const pack<T, V> &p) { unpacker<T>::template to<V>(v, p); }

/* ---- faults: what the host reads after the next wait (device.c) ---- */
enum { FAULT_DIVISION = 0, FAULT_INDEX = 1, FAULT_CLASS = 2, FAULT_VALUE = 3 };
struct fault_record {
  i32 op, kind;
  i64 index, bound;
};
/* Where faults of this launch go, and the number of its op. */
struct fault_slot {
  fault_record *record;
  i32 op, unused;
};

static __device__ __noinline__ void report_fault(fault_slot f, int kind, i64 index, i64 bound)
{
  f.record->kind = kind;
  f.record->index = index;
  f.record->bound = bound;
  __threadfence_system();
  f.record->op = f.op;
}

/* ---- over warps and blocks ---- */
#define LANE ((int)(threadIdx.x & 31))

template <class A> FN A warp_sum(A v)
{
  for (int m = 16; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}

/* 16 bytes as words, which is how packs are kept that are read long before they are needed: the compiler would keep
 * elements, one or two registers each. They are taken out again wherever they are used. */
typedef pack<u32, 4> words;
template <class P> FN P as_pack(words p)
{
#ifndef CN_SIMT
#pragma unroll
  for (int i = 0; i < 4; i++) asm("" : "+r"(p.v[i]));
#endif
  return *(const P *)&p;
}

/* ---- memory that is asked for before it is needed ---- */

/* BYTES of memory on their way to shared memory, of which the first `read` are read: zeros are behind them. */
template <int BYTES> FN void copy_async(void *to, const void *from, int read)
{
#if defined(CN_SIMT) || __CUDA_ARCH__ < 800
  for (int i = 0; i < BYTES / 2; i++) ((u16 *)to)[i] = 2 * i < read ? ((const u16 *)from)[i] : (u16)0;
#else
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(BYTES), "r"(read)
                 : "memory");
#endif
}
/* All that was asked for since the last call is one portion; all but the last LEFT of them have arrived. */
FN void portion_ends()
{
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> FN void portions_arrive()
{
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* NaN wins. */
template <class A> FN A larger(A a, A b) { return a > b || a != a ? a : b; }
template <class A> FN A smaller(A a, A b) { return a < b || a != a ? a : b; }

template <class A> FN A warp_max(A v)
{
  for (int m = 16; m > 0; m >>= 1) v = larger(v, __shfl_xor_sync(FULL, v, m));
  return v;
}

/* Over all threads of a block, in every thread; all of them call it. */
template <class A> FN A block_sum(A v)
{
  __shared__ A room[32];
  const int warps = (int)blockDim.x >> 5;
  v = warp_sum(v);
  if (warps == 1) return v;
  __syncthreads(); /* an earlier call's results were read */
  if (LANE == 0) room[threadIdx.x >> 5] = v;
  __syncthreads();
  return warp_sum(LANE < warps ? room[LANE] : (A)0);
}

template <class A> FN A block_max(A v)
{
  __shared__ A room[32];
  const int warps = (int)blockDim.x >> 5;
  v = warp_max(v);
  if (warps == 1) return v;
  __syncthreads();
  if (LANE == 0) room[threadIdx.x >> 5] = v;
  __syncthreads();
  return warp_max(room[LANE < warps ? LANE : 0]);
}

/* ---- positions ---- */
/* Element `at` of a row-major walk over `size`, as an offset by `stride`. */
FN i64 offset_of(i64 at, int n, const i64 *size, const i64 *stride)
{
  i64 o = 0;
  if (at < 0x7fffffff) { /* 32-bit division is several times faster */
    u32 rest = (u32)at;
    for (int d = n - 1; d > 0; d--) {
      const u32 next = size[d] > 0x7fffffff ? 0 : rest / (u32)size[d];
      o += (i64)(rest - next * (u32)size[d]) * stride[d];
      rest = next;
    }
    return n ? o + (i64)rest * stride[0] : 0;
  }
  for (int d = n - 1; d > 0; d--) {
    const i64 next = at / size[d];
    o += (at - next * size[d]) * stride[d];
    at = next;
  }
  return n ? o + at * stride[0] : 0;
}

/* The elements i of 0 .. n - 1 that fall to this thread. */
#define EACH(i, n)                                                                                    \
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)
