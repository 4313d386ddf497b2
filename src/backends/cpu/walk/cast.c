/* cast.c: picks the conversion loop for a pair of types, and chains two or three where there is no single
 * one.
 *
 * Place in the flow: between the cast op and the loops of cast_isa.c. Invariant: a chain goes through the
 * types that the small ones are computed in (float32, int32), as base/convert.h says, so it changes no
 * value. */
#include "cast.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "base/dtype.h"

/* Elements per step of a chain, whose two buffers stay in L1; bytes of an element of a hub. */
enum { BLOCK = 1024, HUB_SIZE = 4 };

/* The type that a small one is computed in; 0 for the natural ones. */
#define HUB_ROW(ID, T, HUB, K, to, from, unused) [CN_##ID] = CN_##HUB,
static const uint8_t hub[CN_DTYPE_COUNT] = {CNI_EACH_SMALL(HUB_ROW, )};

static const cni_cast_table *table(void) { return CNI_BY_ISA(cni_cast_table); }

static void chain(int from, int to, void *dst, const void *src, size_t n)
{
  _Alignas(64) char buffers[2][BLOCK * HUB_SIZE];
  const cni_cast_table *t = table();
  int types[4], steps = 0;
  types[0] = from;
  if (hub[from]) types[++steps] = hub[from];
  if (hub[to] && hub[to] != types[steps]) types[++steps] = hub[to];
  if (to != types[steps]) types[++steps] = to;

  for (size_t done = 0; done < n; done += BLOCK) {
    size_t m = n - done < BLOCK ? n - done : BLOCK;
    const void *at = (const char *)src + done * cni_dtype_size(from);
    for (int i = 0; i < steps; i++) {
      void *next = i == steps - 1 ? (char *)dst + done * cni_dtype_size(to) : buffers[i & 1];
      t->direct[types[i]][types[i + 1]](next, at, m);
      at = next;
    }
  }
}

/* A function per pair, because a cni_cast_fn carries no state. */
#define EACH_NATURAL_NAME(X, A) \
  X(A, BOOL) X(A, U8) X(A, I8) X(A, I16) X(A, I32) X(A, I64) X(A, U16) X(A, U32) X(A, U64) X(A, F32) X(A, F64)
#define EACH_SMALL_NAME(X, A)                                                                              \
  X(A, F16) X(A, BF16) X(A, F8E4M3) X(A, F8E5M2) X(A, F8E4M3FNUZ) X(A, F8E5M2FNUZ) X(A, F8E8M0) X(A, F4E2M1) \
  X(A, I4) X(A, U4) X(A, I2) X(A, U2)

#define CHAIN(A, B) \
  static void A##_to_##B(void *dst, const void *src, size_t n) { chain(CN_##A, CN_##B, dst, src, n); }
#define CHAINS_OF_SMALL(A, T, HUB, K, to, from, unused) EACH_NATURAL_NAME(CHAIN, A) EACH_SMALL_NAME(CHAIN, A)
#define CHAINS_OF_NATURAL(A, T, K, unused) EACH_SMALL_NAME(CHAIN, A)
CNI_EACH_SMALL(CHAINS_OF_SMALL, )
CNI_EACH_NATURAL(CHAINS_OF_NATURAL, )

#define CELL(A, B) [CN_##B] = A##_to_##B,
#define ROW_OF_SMALL(A, T, HUB, K, to, from, unused) \
  [CN_##A] = {EACH_NATURAL_NAME(CELL, A) EACH_SMALL_NAME(CELL, A)},
#define ROW_OF_NATURAL(A, T, K, unused) [CN_##A] = {EACH_SMALL_NAME(CELL, A)},
static const cni_cast_table chains = {
    .direct = {CNI_EACH_SMALL(ROW_OF_SMALL, ) CNI_EACH_NATURAL(ROW_OF_NATURAL, )}};

static void copy_1(void *dst, const void *src, size_t n) { memcpy(dst, src, n); }
static void copy_2(void *dst, const void *src, size_t n) { memcpy(dst, src, 2 * n); }
static void copy_4(void *dst, const void *src, size_t n) { memcpy(dst, src, 4 * n); }
static void copy_8(void *dst, const void *src, size_t n) { memcpy(dst, src, 8 * n); }

cni_cast_fn cni_cast_find(int from, int to)
{
  static const cni_cast_fn copies[9] = {[1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8};
  if (!cni_dtype_valid(from) || !cni_dtype_valid(to)) return NULL;
  if (cni_dtype_is_complex(from) || cni_dtype_is_complex(to)) return NULL; /* cni_cpu_copy takes them apart */
  if (from == to) return copies[cni_dtype_size(from)];
  cni_cast_fn direct = table()->direct[from][to];
  return direct ? direct : chains.direct[from][to];
}
