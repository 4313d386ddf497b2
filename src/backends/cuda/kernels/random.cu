/* random.cu: random numbers. The generator and what is made of its words are the CPU's own text (base/philox.h), so the
 * numbers are the CPU's.
 *
 * T0 is the type of the result. Invariant: element i depends on (seed, offset, i) alone: counter offset + i / 4 for
 * 32-bit draws, offset + i / 2 for 64-bit ones. */
#include "philox.cuh"
#include "base/maths.h"
#include "base/maths_f64.h"
#include "base/maths_f32.h"
#include "base/philox.h"
#include "codegen/device.cuh"
#include "common.cuh"

struct random_job {
  T0 *y;
  const T0 *x;  /* bernoulli: probabilities; poisson: rates; dropout: input, or NULL for ones */
  b8 *mask;     /* dropout; or NULL */
  i64 n, low;
  u64 seed, offset, span; /* span: 0 stands for 2^64 */
  const u64 *random;      /* recorded work, and what was reserved: seed, and what offset counts from, as they are now;
                           * NULL: as above */
  f64 scale;
  fault_slot fault;
  i32 bits, aligned; /* of a uniform float32 draw; V elements of each operand can be moved at once */
  u32 kept, single;  /* dropout: of 2^24 draws, so many keep an element; is its input one number for all? */
};

/* Elements of 32-bit draws that a thread makes at a time. */
enum { V = sizeof(T0) < 4 ? 16 / sizeof(T0) : 4 };

/* Elements V c to V c + V - 1, as far as there are so many. */
template <class T> FN void put_pack(const random_job &p, T *y, i64 c, const pack<T, V> &v)
{
  if (p.aligned && V * c + V <= p.n) *(pack<T, V> *)(y + V * c) = v;
  else
    for (int k = 0; k < V && V * c + k < p.n; k++) y[V * c + k] = v.v[k];
}

/* The seed, and the first counter. */
struct start {
  u64 seed, first;
};
FN start start_of(const random_job &p)
{
  return start{p.random ? p.random[0] : p.seed, p.offset + (p.random ? p.random[1] : 0)};
}
FN void words_of(const random_job &p, i64 counter, uint32_t *w)
{
  const start s = start_of(p);
  cni_philox(s.seed, s.first + (u64)counter, 0, w);
}
/* The words of elements V c on. */
FN void words_of_pack(const start &s, i64 c, uint32_t *w)
{
#pragma unroll
  for (int k = 0; k < V; k += 4) cni_philox(s.seed, s.first + (u64)(c * (V / 4) + k / 4), 0, w + k);
}

KERNEL(uniform_32, random_job)
{
  const start s = start_of(p);
  EACH(c, (p.n + V - 1) / V)
  {
    uint32_t w[V];
    pack<T0, V> v;
    words_of_pack(s, c, w);
#pragma unroll
    for (int k = 0; k < V; k++) v.v[k] = put<T0>(cni_unit_f32(w[k], p.bits));
    put_pack(p, p.y, c, v);
  }
}

KERNEL(normal_32, random_job)
{
  const start s = start_of(p);
  EACH(c, (p.n + V - 1) / V)
  {
    uint32_t w[V];
    f32 z[V];
    pack<T0, V> v;
    words_of_pack(s, c, w);
#pragma unroll
    for (int k = 0; k < V; k += 2) cni_normal_pair_f32(w[k], w[k + 1], &z[k], &z[k + 1]);
#pragma unroll
    for (int k = 0; k < V; k++) v.v[k] = put<T0>(z[k]);
    put_pack(p, p.y, c, v);
  }
}

FN u64 draw_64(const random_job &p, i64 i)
{
  uint32_t w[4];
  words_of(p, i / 2, w);
  return i % 2 ? cni_word_64(w[2], w[3]) : cni_word_64(w[0], w[1]);
}

FN f64 normal_at(const random_job &p, i64 i)
{
  uint32_t w[4];
  f64 z[2];
  words_of(p, i / 2, w);
  cni_normal_pair_f64(cni_word_64(w[0], w[1]), cni_word_64(w[2], w[3]), &z[0], &z[1]);
  return z[i % 2];
}

KERNEL(uniform_64, random_job)
{
  EACH(i, p.n) p.y[i] = put<T0>(cni_unit_f64(draw_64(p, i)));
}

KERNEL(normal_64, random_job)
{
  EACH(i, p.n) p.y[i] = put<T0>(normal_at(p, i));
}

KERNEL(integers, random_job)
{
  EACH(i, p.n)
  {
    const u64 word = draw_64(p, i), at = p.span ? __umul64hi(word, p.span) : word;
    p.y[i] = put<T0>((i64)((u64)p.low + at));
  }
}

/* Where draws begin that are made later. */
KERNEL(reserve, random_job)
{
  const start s = start_of(p);
  if (blockIdx.x || threadIdx.x) return;
  p.y[0] = put<T0>((i64)s.seed);
  p.y[1] = put<T0>((i64)s.first);
}

/* With whom place i of a shuffle is exchanged: one of those from it on. */
KERNEL(partners, random_job)
{
  EACH(i, p.n) p.y[i] = put<T0>(i + (i64)__umul64hi(draw_64(p, i), (u64)(p.n - i)));
}

FN f64 unit_at(const random_job &p, i64 i)
{
  if (sizeof(T0) == 8) return cni_unit_f64(draw_64(p, i));
  uint32_t w[4];
  words_of(p, i / 4, w);
  return (f64)cni_unit_f32(w[i % 4], 24);
}

KERNEL(bernoulli, random_job)
{
  EACH(i, p.n)
  {
    const f64 chance = (f64)get(p.x[i]);
    if (!(chance >= 0) || !(chance <= 1)) report_fault(p.fault, FAULT_VALUE, i, 0);
    p.y[i] = put<T0>((i64)(unit_at(p, i) < chance));
  }
}

/* Elements V c to V c + V - 1 of dropout's input; 0 past its end. */
FN pack<T0, V> input_pack(const random_job &p, i64 c)
{
  pack<T0, V> x;
  if (p.x && !p.single && p.aligned && V * c + V <= p.n) return *(const pack<T0, V> *)(p.x + V * c);
#pragma unroll
  for (int k = 0; k < V; k++) x.v[k] = !p.x ? put<T0>(1) : p.single ? p.x[0] : V * c + k < p.n ? p.x[V * c + k] : put<T0>(0);
  return x;
}

/* As the CPU: 32-bit draws whatever the type; kept elements are scaled in the type that is computed in. A draw of 24
 * bits is below a number where it is below the next whole one, so whole numbers are compared. The next elements are on
 * their way while numbers are drawn. */
KERNEL(dropout, random_job)
{
  typedef wide_of<T0>::type A;
  const start s = start_of(p);
  const A scale = (A)p.scale, left_out = 0 * scale;
  const i64 packs = (p.n + V - 1) / V, step = (i64)gridDim.x * blockDim.x;
  i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  pack<T0, V> next = input_pack(p, c < packs ? c : 0);
  for (; c < packs; c += step) {
    uint32_t w[V];
    A v[V];
    pack<b8, V> mask;
    unpack<T0, V>(v, next);
    if (c + step < packs) next = input_pack(p, c + step);
    words_of_pack(s, c, w);
#pragma unroll
    for (int k = 0; k < V; k++) {
      const bool keep = w[k] >> 8 < p.kept;
      mask.v[k] = b8{keep};
      v[k] *= keep ? scale : left_out;
    }
    if (p.mask) put_pack(p, p.mask, c, mask);
    put_pack(p, p.y, c, packed<T0, V>(v));
  }
}

/* The count that share u of all chance falls to, when chances are laid side by side from the likeliest outwards. */
FN f64 count_at(f64 rate, f64 u)
{
  if (!(rate > 0)) return rate;
  f64 up = floor(rate), down = up;
  f64 p_up = exp(up * log(rate) - rate - lgamma(up + 1)), p_down = p_up;
  for (u -= p_up; u >= 0;) {
    const f64 before = u;
    p_up *= rate / ++up;
    if ((u -= p_up) < 0) return up;
    if (down > 0) {
      p_down *= down-- / rate;
      if ((u -= p_down) < 0) return down;
    }
    if (u == before) break;
  }
  return floor(rate);
}

KERNEL(poisson, random_job)
{
  EACH(i, p.n)
  {
    const f64 rate = (f64)get(p.x[i]);
    if (rate < 0) report_fault(p.fault, FAULT_VALUE, i, 0);
    p.y[i] = put<T0>(rate < 1e8 ? count_at(rate, cni_unit_f64(draw_64(p, i)))
                                : floor(rate + sqrt(rate) * normal_at(p, i) + 0.5));
  }
}
