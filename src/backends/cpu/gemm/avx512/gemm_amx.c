/* gemm_amx.c: panels of bfloat16 pairs and of int8 quadruples along k multiplied by tile registers (AMX), for x86-64
 * processors that have them, and the packing of A for that.
 *
 * Place in the flow: matmul_half.c and matmul_int8.c take these tables where cni_cpu_multiplies_tiles says so. A panel
 * of B is what vectors read, too: a row of a tile is 16 elements of 4 bytes, and a tile has 16 along k. Invariant:
 * tiles are configured when a run begins and released when it ends, so between runs a thread has no state that the
 * system would save, and a caller's own use is as after any call: tile registers are the callee's. */
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/walk/avx512/bf16x16.h"

enum { TILE = CNI_TILE, LINE = 64, SIDE = 2 * TILE /* rows and columns of a block of sums: 2 x 2 tiles */ };

typedef struct configuration {
  uint8_t palette, start_row, none[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} configuration;

/* Registers: sums 0..3, A's upper and lower 4 and 5, B's left and right 6 and 7. rows: of A, up to 32. */
static void configure(int rows)
{
  const int upper = rows < TILE ? rows : TILE, lower = rows - upper;
  configuration c = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    c.row_bytes[i] = LINE;
    c.rows[i] = (uint8_t)(i >= 6 ? TILE : i == 2 || i == 3 || i == 5 ? lower : upper);
    if (!c.rows[i]) c.row_bytes[i] = 0;
  }
  _tile_loadconfig(&c);
}

typedef struct sums {
  char *at;
  int64_t step; /* bytes between rows */
} sums;

static inline void load_sums(const sums *c, bool lower)
{
  _tile_loadd(0, c->at, c->step);
  _tile_loadd(1, c->at + LINE, c->step);
  if (!lower) return;
  _tile_loadd(2, c->at + TILE * c->step, c->step);
  _tile_loadd(3, c->at + TILE * c->step + LINE, c->step);
}

static inline void zero_sums(bool lower)
{
  _tile_zero(0);
  _tile_zero(1);
  if (!lower) return;
  _tile_zero(2);
  _tile_zero(3);
}

static inline void store_sums(const sums *c, bool lower)
{
  _tile_stored(0, c->at, c->step);
  _tile_stored(1, c->at + LINE, c->step);
  if (!lower) return;
  _tile_stored(2, c->at + TILE * c->step, c->step);
  _tile_stored(3, c->at + TILE * c->step + LINE, c->step);
}

/* What is fetched while sums are made: `rows` rows of the next panel, from `at` on. */
typedef struct fetch {
  const char *at;
  int rows;
} fetch;

/* The j-th panel's share of the next rows. */
static inline fetch fetch_of(const cni_gemm_run *r, int64_t j)
{
  const int64_t panels = (r->cols + SIDE - 1) / SIDE, share = (SIDE + panels - 1) / panels, first = j / SIDE * share;
  if (!r->next || first >= r->rows) return (fetch){0};
  return (fetch){(const char *)r->next + first * r->a_row * 4,
                 (int)(r->rows - first < share ? r->rows - first : share)};
}

/* Adds the products of A's rows and a panel of B to the sums. */
#define ADD_PRODUCTS(name, MULTIPLY)                                                                                 \
  static inline void name(const cni_gemm_run *r, const char *b, bool lower, fetch f)                                 \
  {                                                                                                                  \
    const int64_t a_row = r->a_row * 4, a_step = r->a_col * 4, b_row = SIDE * 4;                                     \
    const int64_t *steps = r->a_steps;                                                                               \
    for (int64_t k = 0; k < r->depth; k += TILE, b += TILE * b_row) {                                                \
      const char *a = (const char *)r->a + (steps ? steps[k / TILE] * 4 : k / TILE * a_step);                        \
      for (int i = 0; i < f.rows; i++) __builtin_prefetch(f.at + k / TILE * a_step + i * a_row, 0, 2);               \
      _tile_loadd(6, b, b_row);                                                                                      \
      _tile_loadd(4, a, a_row);                                                                                      \
      _tile_loadd(7, b + LINE, b_row);                                                                               \
      MULTIPLY(0, 4, 6);                                                                                             \
      MULTIPLY(1, 4, 7);                                                                                             \
      if (!lower) continue;                                                                                          \
      _tile_loadd(5, a + TILE * a_row, a_row);                                                                       \
      MULTIPLY(2, 5, 6);                                                                                             \
      MULTIPLY(3, 5, 7);                                                                                             \
    }                                                                                                                \
  }
ADD_PRODUCTS(add_pairs, _tile_dpbf16ps)
ADD_PRODUCTS(add_quads, _tile_dpbssd)

/* c or what is rounded = alpha * sum + beta * c for one block. */
static void give(const cni_gemm_run *r, int64_t j, int64_t cols, const float *sum, bool scaled)
{
  const __m512 alpha = _mm512_set1_ps((float)r->alpha), beta = _mm512_set1_ps((float)r->beta);
  const float *c = (const float *)r->c + j;
  for (int i = 0; i < r->rows; i++, c += r->c_row)
    for (int64_t t = 0; t < cols; t += TILE) {
      const __mmask16 mask = (__mmask16)(cols - t < TILE ? (1u << (cols - t)) - 1 : 0xffff);
      __m512 x = _mm512_loadu_ps(sum + i * SIDE + t);
      if (scaled) {
        x = _mm512_mul_ps(alpha, x);
        if (r->beta != 0) x = _mm512_add_ps(x, _mm512_mul_ps(beta, _mm512_maskz_loadu_ps(mask, c + t)));
      }
      if (r->rounded) _mm256_mask_storeu_epi16(r->rounded + i * r->rounded_row + j + t, mask, cni_bf16x16(x));
      else _mm512_mask_storeu_ps((float *)r->c + i * r->c_row + j + t, mask, x);
    }
}

/* See cni_gemm_kernels.run. Sums start from what is there where that is all there is to adding it. */
static void run_pairs(const cni_gemm_run *r)
{
  float room[SIDE * SIDE] __attribute__((aligned(LINE)));
  const bool lower = r->rows > TILE, plain = r->alpha == 1 && (r->beta == 0 || r->beta == 1);
  const bool load = plain && r->beta == 1;
  configure(r->rows);
  for (int64_t j = 0; j < r->cols; j += SIDE) {
    const int64_t cols = r->cols - j < SIDE ? r->cols - j : SIDE;
    float *c = (float *)r->c + j;
    sums s = {(char *)c, r->c_row * 4}, aside = {(char *)room, SIDE * 4};
    if (load && cols < SIDE) {
      for (int64_t i = 0; i < r->rows; i++) memcpy(room + i * SIDE, c + i * r->c_row, (size_t)cols * 4);
      s = aside;
    }
    if (load) load_sums(&s, lower);
    else zero_sums(lower);
    add_pairs(r, (const char *)r->b + j * r->depth * 4, lower, fetch_of(r, j));
    if (plain && !r->rounded && cols == SIDE) {
      store_sums(&s, lower);
    } else {
      store_sums(&aside, lower);
      give(r, j, cols, room, !plain);
    }
  }
  _tile_release();
}

/* The same in int32, whole or not, without factors: beta is 0 or 1. */
static void run_quads(const cni_gemm_run *r)
{
  int32_t room[SIDE * SIDE] __attribute__((aligned(LINE)));
  const bool lower = r->rows > TILE;
  configure(r->rows);
  for (int64_t j = 0; j < r->cols; j += SIDE) {
    const int64_t cols = r->cols - j < SIDE ? r->cols - j : SIDE;
    int32_t *c = (int32_t *)r->c + j;
    const bool in_place = cols == SIDE;
    sums s = {in_place ? (char *)c : (char *)room, in_place ? r->c_row * 4 : SIDE * 4};
    if (r->beta != 0 && !in_place)
      for (int64_t i = 0; i < r->rows; i++) memcpy(room + i * SIDE, c + i * r->c_row, (size_t)cols * 4);
    if (r->beta != 0) load_sums(&s, lower);
    else zero_sums(lower);
    add_quads(r, (const char *)r->b + j * r->depth * 4, lower, fetch_of(r, j));
    store_sums(&s, lower);
    if (!in_place)
      for (int64_t i = 0; i < r->rows; i++) memcpy(c + i * r->c_row, room + i * SIDE, (size_t)cols * 4);
  }
  _tile_release();
}

/* ---- packing A: see cni_tiles_pack ---- */

/* Transposes 16 x 16 elements of 4 bytes: r[i] lane j <-> r[j] lane i. */
static inline void transpose(__m512i *r)
{
  __m512i s[TILE];
  for (int i = 0; i < TILE; i += 2) {
    s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < TILE; i += 4)
    for (int j = 0; j < 2; j++) {
      r[i + 2 * j] = _mm512_unpacklo_epi64(s[i + j], s[i + 2 + j]);
      r[i + 2 * j + 1] = _mm512_unpackhi_epi64(s[i + j], s[i + 2 + j]);
    }
  for (int j = 0; j < 4; j++) { /* quarters: of rows 4 i + j, i < 4 */
    s[j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
    s[4 + j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    s[8 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    s[12 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
  }
  for (int j = 0; j < 4; j++) {
    r[j] = _mm512_shuffle_i32x4(s[j], s[8 + j], 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(s[j], s[8 + j], 0xdd);
    r[4 + j] = _mm512_shuffle_i32x4(s[4 + j], s[12 + j], 0x88);
    r[12 + j] = _mm512_shuffle_i32x4(s[4 + j], s[12 + j], 0xdd);
  }
}

/* 16 rows (or `rows`) of up to 32 bfloat16 of which those of one k lie side by side. */
static void turn_pairs(char *to, const uint16_t *from, int64_t k_step, int rows, int64_t k)
{
  const __mmask16 mask = (__mmask16)((1u << rows) - 1);
  __m512i r[TILE];
  for (int t = 0; t < TILE; t++) {
    __m512i x = _mm512_setzero_si512(), y = x;
    if (2 * t < k) x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + 2 * t * k_step));
    if (2 * t + 1 < k) y = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + (2 * t + 1) * k_step));
    r[t] = _mm512_or_si512(x, _mm512_slli_epi32(y, 16));
  }
  transpose(r);
  for (int i = 0; i < rows; i++) _mm512_storeu_si512(to + i * LINE, r[i]);
}

/* One line: up to LINE bytes of a row, 0 behind them. */
static inline void put_line(char *to, const char *from, int64_t k_step, int64_t size, int64_t k)
{
  if (k_step == 1) {
    __mmask64 mask = k * size >= LINE ? ~UINT64_C(0) : (UINT64_C(1) << (k * size)) - 1;
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
    return;
  }
  memset(to, 0, LINE);
  for (int64_t t = 0; t < k && t < LINE / size; t++) memcpy(to + t * size, from + t * k_step * size, (size_t)size);
}

void cni_tiles_pack(void *dst, const void *src, int64_t i_step, int64_t k_step, int rows, int64_t k, int size)
{
  const int64_t each = LINE / size;
  const char *from = src;
  char *to = dst;
  for (int64_t t = 0; t < k; t += each, from += each * k_step * size, to += rows * LINE) {
    if (size == 2 && i_step == 1 && k_step != 1) {
      for (int i = 0; i < rows; i += TILE)
        turn_pairs(to + i * LINE, (const uint16_t *)(const void *)from + i, k_step, rows - i < TILE ? rows - i : TILE,
                   k - t);
      continue;
    }
    for (int i = 0; i < rows; i++) put_line(to + i * LINE, from + i * i_step * size, k_step, size, k - t);
  }
}

/* Panels come from the second-level cache as fast as they are multiplied, so that sums stay in their registers. */
#define BLOCK 1024, 512, 0

const cni_gemm_kernels cni_gemm_tile_pairs = {4, SIDE, SIDE, 0, BLOCK, NULL, run_pairs, NULL, NULL, NULL};
const cni_gemm_kernels cni_gemm_tile_quads = {4, SIDE, SIDE, 0, BLOCK, NULL, run_quads, NULL, NULL, NULL};
