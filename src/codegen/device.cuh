/* device.cuh: what an NVIDIA processor has an instruction for: conversions of 16-bit floats, and exponentials that are
 * right to 22 bits.
 *
 * Place in the flow: generated loops (pointwise_text.c) and the CUDA plugin's kernels (kernels/common.cuh) carry this
 * text. Invariant: conversions differ from base/convert.h in the bits of NaNs alone. */
#ifdef CN_SIMT /* the tests' emulation on the CPU */
#define CND_FN static inline
CND_FN float cnd_f16_value(unsigned short h) { return simt_f16_value(h); }
CND_FN unsigned short cnd_f16_bits(float f) { return simt_f16_bits(f); }
CND_FN float cnd_exp2(float x) { return exp2f(x); }
CND_FN float cnd_exp2_normal(float x) { return exp2f(x); }
CND_FN float cnd_reciprocal(float x) { return 1 / x; }
CND_FN float cnd_tanh(float x) { return tanhf(x); }
#else
#define CND_FN static __device__ __forceinline__
CND_FN float cnd_f16_value(unsigned short h)
{
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
CND_FN unsigned short cnd_f16_bits(float f)
{
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
CND_FN float cnd_exp2(float x)
{
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* These two give 0 for what is below the normal numbers, which takes three instructions less. */
CND_FN float cnd_exp2_normal(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CND_FN float cnd_reciprocal(float x)
{
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Right to 11 bits. */
CND_FN float cnd_tanh(float x)
{
#if __CUDA_ARCH__ >= 750
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return tanhf(x);
#endif
}
#endif

CND_FN float cnd_bf16_value(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
CND_FN unsigned short cnd_bf16_bits(float f)
{
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  const unsigned u = __float_as_uint(f);
  return (unsigned short)(f != f ? (u >> 16 | 0x40) : (u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}

/* a / b as a division rounds it, without its case for quotients, or steps on the way, beyond the normal numbers: here b
 * is normal, and a / b is too or b is 1. */
CND_FN float cnd_quotient(float a, float b)
{
#ifdef CN_SIMT
  return a / b;
#else
  float r = cnd_reciprocal(b);
  r = fmaf(r, fmaf(-b, r, 1.0f), r);
  float q = a * r;
  q = fmaf(fmaf(-b, q, a), r, q);
  return fmaf(fmaf(-b, q, a), r, q);
#endif
}
#define CNM_QUOTIENTF cnd_quotient

CND_FN float cnd_exp(float x) { return cnd_exp2(x * 1.44269504f); }
CND_FN float cnd_sigmoid(float x) { return cnd_reciprocal(1 + cnd_exp2_normal(x * -1.44269504f)); }
