/* simt.h: what the text of a CUDA kernel finds in front of it when it is compiled for the CPU: threads of a block that
 * take turns, their barriers, shuffles and atomics. See simt.c. C++. */
#ifndef SIMT_H
#define SIMT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define CN_SIMT 1
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct simt_index {
  unsigned x, y, z;
};
struct simt_thread {
  simt_index thread, block, threads, blocks;
};
extern "C" {
extern simt_thread simt_now;
void simt_block_barrier(void);
void simt_warp_barrier(void);
void *simt_warp_room(unsigned lane); /* 16 bytes of each lane */
void simt_cluster_barrier(void);
void *simt_dynamic_shared(void);
unsigned simt_block_of_cluster(void);
void *simt_at_block(const void *mine, unsigned block); /* what lies in dynamic shared memory, in another block's */
void simt_fail(const char *why);                       /* the launch fails when it ends */
float simt_f16_value(uint16_t bits);
uint16_t simt_f16_bits(float value);
}
#define threadIdx simt_now.thread
#define blockIdx simt_now.block
#define blockDim simt_now.threads
#define gridDim simt_now.blocks

static inline void __syncthreads() { simt_block_barrier(); }
static inline void __syncwarp(unsigned = ~0u) { simt_warp_barrier(); }
static inline void __threadfence() {}
static inline void __threadfence_system() {}

template <class T> static inline T simt_exchange(T v, unsigned from)
{
  memcpy(simt_warp_room(simt_now.thread.x & 31), &v, sizeof v);
  simt_warp_barrier();
  T got;
  memcpy(&got, simt_warp_room(from & 31), sizeof got);
  simt_warp_barrier();
  return got;
}
template <class T> static inline T __shfl_sync(unsigned, T v, int from, int width = 32)
{
  unsigned lane = simt_now.thread.x & 31, base = lane & ~(unsigned)(width - 1);
  return simt_exchange(v, base + ((unsigned)from & (unsigned)(width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int m)
{
  return simt_exchange(v, (simt_now.thread.x & 31) ^ (unsigned)m);
}
template <class T> static inline T __shfl_up_sync(unsigned, T v, int n)
{
  unsigned lane = simt_now.thread.x & 31;
  return simt_exchange(v, lane < (unsigned)n ? lane : lane - (unsigned)n);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int n)
{
  unsigned lane = simt_now.thread.x & 31;
  return simt_exchange(v, lane + (unsigned)n > 31 ? lane : lane + (unsigned)n);
}
static inline unsigned __ballot_sync(unsigned, int predicate)
{
  unsigned votes = 0;
  memcpy(simt_warp_room(simt_now.thread.x & 31), &predicate, sizeof predicate);
  simt_warp_barrier();
  for (unsigned i = 0; i < 32 && i < ((simt_now.threads.x - (simt_now.thread.x & ~31u))); i++) {
    int p;
    memcpy(&p, simt_warp_room(i), sizeof p);
    votes |= (p ? 1u : 0u) << i;
  }
  simt_warp_barrier();
  return votes;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline unsigned __match_any_sync(unsigned, unsigned v)
{
  unsigned same = 0;
  memcpy(simt_warp_room(simt_now.thread.x & 31), &v, sizeof v);
  simt_warp_barrier();
  for (unsigned i = 0; i < 32; i++) {
    unsigned other;
    memcpy(&other, simt_warp_room(i), sizeof other);
    same |= (other == v ? 1u : 0u) << i;
  }
  simt_warp_barrier();
  return same;
}

template <class T> static inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicExch(T *p, T v) { T old = *p; *p = v; return old; }
template <class T> static inline T atomicMax(T *p, T v) { T old = *p; if (v > old) *p = v; return old; }
template <class T> static inline T atomicOr(T *p, T v) { T old = *p; *p = old | v; return old; }
template <class T> static inline T atomicMin(T *p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> static inline T atomicCAS(T *p, T expected, T v)
{
  T old = *p;
  if (old == expected) *p = v;
  return old;
}
template <class T> static inline T __ldg(const T *p) { return *p; }

template <class To, class From> static inline To simt_bits(From v) { To to; memcpy(&to, &v, sizeof to); return to; }
static inline float __uint_as_float(unsigned u) { return simt_bits<float>(u); }
static inline float __int_as_float(int u) { return simt_bits<float>(u); }
static inline unsigned __float_as_uint(float f) { return simt_bits<unsigned>(f); }
static inline int __float_as_int(float f) { return simt_bits<int>(f); }
static inline double __longlong_as_double(long long u) { return simt_bits<double>(u); }
static inline long long __double_as_longlong(double f) { return simt_bits<long long>(f); }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
#define __expf expf
#define __logf logf
static inline float __fdividef(float a, float b) { return a / b; }

/* A kernel that has arguments of any kind: called with their addresses; how large they are, up to a 0. */
template <class T> struct simt_kept { typedef T type; };
template <class T> struct simt_kept<const T> { typedef T type; };
template <unsigned... I> struct simt_numbers {};
template <unsigned N, unsigned... I> struct simt_below : simt_below<N - 1, N - 1, I...> {};
template <unsigned... I> struct simt_below<0, I...> { typedef simt_numbers<I...> type; };
template <class... A, unsigned... I> static void simt_call_with(void (*f)(A...), void **a, simt_numbers<I...>)
{
  f(*(typename simt_kept<A>::type *)a[I]...);
}
template <class... A> static void simt_call(void (*f)(A...), void **a)
{
  simt_call_with(f, a, typename simt_below<sizeof...(A)>::type());
}
template <class... A> static const unsigned long *simt_sizes(void (*)(A...))
{
  static const unsigned long sizes[] = {sizeof(A)..., 0};
  return sizes;
}

/* Words that generated loops load and store. */
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };

#endif
