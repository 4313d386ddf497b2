/* decode.c: the row of choose_token: which token follows, by its scores. See row.h.
 *
 * Rows go one after the other, since a row's number of draws depends on which rows before it have ended. Invariant: the
 * likeliest of equals is the first, and weights are added up in float64, as on the CPU. */
#include <string.h>

#include "rows.h"

enum { TOKENS, CURRENT, POSITION, ENDED, SCORES, UNIFORMS, PROMPT, TEMPERATURE, TOP_K, TOP_P, PENALTY, STOP };

/* Element i of a list. */
static cni_hval element(cni_hlo *h, cni_hval v, cni_hval i) { return cni_hlo_at(h, v, 0, i); }

/* The scores of a row (V), less where a token came already. tokens: (L), of which `at` + 1 count. */
static cni_hval penalised(cni_hcall *c, cni_hval scores, cni_hval tokens, cni_hval at)
{
  cni_hlo *h = c->h;
  cni_hval i = cni_hlo_iota(h, CN_I64, 1, tokens.shape, 0);
  if (cni_harg_float(c, PENALTY) == 1) return scores;
  cni_hval counts = CNI_HLO_EXPR(h, "i32(a <= b)", CN_I32, i, cni_hlo_expand(h, at, 1, tokens.shape));
  cni_hval none = cni_hlo_splat(h, cni_hlo_int(0), CN_I32, 1, scores.shape);
  cni_hval out = cni_hlo_int(scores.shape[0]); /* a negative token is none */
  cni_hval seen = cni_hlo_put(h, "maximum", none, 0, CNI_HLO_EXPR(h, "a < 0 ? b : a", CN_I64, tokens, out), counts);
  cni_hval wide = cni_hlo_convert(h, scores, CN_F64), by = cni_hlo_num(cni_harg_float(c, PENALTY));
  wide = CNI_HLO_EXPR(h, "b == 0 ? a : a > 0 ? a / c : a * c", CN_F64, wide, seen, by);
  return cni_hlo_convert(h, wide, CN_F32);
}

/* The first of the largest. */
static cni_hval likeliest(cni_hlo *h, cni_hval x, cni_hval *most)
{
  cni_hval i = cni_hlo_iota(h, CN_I64, 1, x.shape, 0);
  *most = cni_hlo_reduce(h, "maximum", x, 1);
  cni_hval best = cni_hlo_expand(h, *most, 1, x.shape);
  cni_hval at = CNI_HLO_EXPR(h, "a == b ? c : d", CN_I64, x, best, i, cni_hlo_int(x.shape[0] - 1));
  return cni_hlo_reduce(h, "minimum", at, 1);
}

/* The place in a list of weights that share u of `sum` falls to; k: how many count. */
static cni_hval falls_to(cni_hlo *h, cni_hval weights, cni_hval u, cni_hval sum, cni_hval k)
{
  cni_hval i = cni_hlo_iota(h, CN_I64, 1, weights.shape, 0);
  cni_hval so_far = cni_hlo_scan(h, "a + b", cni_hlo_num(0), weights, 0);
  cni_hval at = cni_hlo_expand(h, cni_hlo_binary(h, "multiply", u, sum), 1, weights.shape);
  cni_hval last = CNI_HLO_EXPR(h, "a - 1", CN_I64, k);
  cni_hval place = CNI_HLO_EXPR(h, "a < b ? c : d", CN_I64, at, so_far, i, cni_hlo_expand(h, last, 1, weights.shape));
  return CNI_HLO_EXPR(h, "min(a, b)", CN_I64, cni_hlo_reduce(h, "minimum", place, 1), last);
}

/* Among the likeliest: top_k of them, or as many as have top_p of the sum. */
static cni_hval among_few(cni_hcall *c, cni_hval weights, cni_hval u, int64_t top_k)
{
  cni_hlo *h = c->h;
  cni_hval both[2] = {weights, cni_hlo_iota(h, CN_I64, 1, weights.shape, 0)}, i = both[1];
  double top_p = cni_harg_float(c, TOP_P);
  cni_hlo_sort(h, 2, both, 0, true);
  cni_hval kept = CNI_HLO_EXPR(h, "b < c ? a : 0", CN_F64, both[0], i, cni_hlo_int(top_k));
  cni_hval sum = cni_hlo_reduce(h, "add", kept, 1), k = cni_hlo_splat(h, cni_hlo_int(top_k), CN_I64, 0, NULL);
  if (top_p < 1) {
    cni_hval before = CNI_HLO_EXPR(h, "a - b", CN_F64, cni_hlo_scan(h, "a + b", cni_hlo_num(0), kept, 0), kept);
    cni_hval bound = CNI_HLO_EXPR(h, "a * b", CN_F64, sum, cni_hlo_num(top_p));
    cni_hval in = CNI_HLO_EXPR(h, "i64((a < b) & (c < d))", CN_I64, before, cni_hlo_expand(h, bound, 1, kept.shape), i,
                               cni_hlo_int(top_k));
    kept = CNI_HLO_EXPR(h, "b != 0 ? a : 0", CN_F64, kept, in);
    sum = cni_hlo_reduce(h, "add", kept, 1), k = cni_hlo_reduce(h, "add", in, 1);
  }
  return element(h, both[1], falls_to(h, kept, u, sum, k));
}

/* By a number in [0, 1): of all, from the last token on. */
static cni_hval drawn(cni_hcall *c, cni_hval scores, cni_hval u)
{
  cni_hlo *h = c->h;
  cni_hval most;
  int64_t vocab = scores.shape[0], top_k = cni_harg_int(c, TOP_K);
  if (top_k <= 0 || top_k > vocab) top_k = vocab;
  likeliest(h, scores, &most);
  cni_hval x = cni_hlo_binary(h, "subtract", scores, most);
  x = CNI_HLO_EXPR(h, "f32(f64(a) / b)", CN_F64, x, cni_hlo_num(cni_harg_float(c, TEMPERATURE)));
  cni_hval weights = cni_hlo_convert(h, CNI_HLO_EXPR(h, "exp(a)", CN_F32, x), CN_F64);
  if (top_k < vocab || cni_harg_float(c, TOP_P) < 1) return among_few(c, weights, u, top_k);
  cni_hval back = cni_hlo_reverse(h, weights, (int64_t[]){0}, 1), sum = cni_hlo_reduce(h, "add", weights, 1);
  cni_hval place = falls_to(h, back, u, sum, cni_hlo_splat(h, cni_hlo_int(vocab), CN_I64, 0, NULL));
  return CNI_HLO_EXPR(h, "b - a", CN_I64, place, cni_hlo_int(vocab - 1));
}

/* Which draw of all is this row's. */
static cni_hval draw_number(cni_hcall *c, cni_hval ended, cni_hval row, cni_hval at)
{
  cni_hlo *h = c->h;
  cni_hval r = cni_hlo_iota(h, CN_I64, 1, ended.shape, 0), i = cni_hlo_expand(h, row, 1, ended.shape);
  cni_hval n = CNI_HLO_EXPR(h, "min(a, b) + 1 - e + i64((c < d) & (a > b))", CN_I64, ended,
                            cni_hlo_expand(h, at, 1, ended.shape), r, i, cni_hlo_int(cni_harg_int(c, PROMPT)));
  n = cni_hlo_reduce(h, "add", n, 1);
  return CNI_HLO_EXPR(h, "max(min(a, b), 0)", CN_I64, n, cni_hlo_int(c->in[UNIFORMS].shape[0] - 1));
}

/* carried: tokens (B, L), current (B, 1), position (B), ended (B). */
static void advance(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hcall *c = payload;
  cni_hval row = cni_hlo_convert(h, step, CN_I64), at = element(h, carried[POSITION], step), most;
  cni_hval tokens = element(h, carried[TOKENS], step), end = element(h, carried[ENDED], step);
  cni_hval scores = cni_hlo_cast(h, element(h, c->in[SCORES], step), CN_F32), chosen;
  scores = penalised(c, scores, tokens, at);
  if (cni_harg_float(c, TEMPERATURE) == 0) chosen = likeliest(h, scores, &most);
  else chosen = drawn(c, scores, element(h, c->in[UNIFORMS], draw_number(c, carried[ENDED], row, at)));
  cni_hval length = cni_hlo_int(tokens.shape[0]), stop = cni_hlo_int(cni_harg_int(c, STOP));
  cni_hval goes = CNI_HLO_EXPR(h, "(a >= 0) & (a + 1 < b)", CN_I64, at, length);
  chosen = CNI_HLO_EXPR(h, "b <= c ? d : a", CN_I64, chosen, end, at, stop);
  cni_hval stops = CNI_HLO_EXPR(h, "a & (b == c) & (d > e)", CN_I64, goes, chosen, stop, end, at);
  cni_hval next = CNI_HLO_EXPR(h, "min(max(a + 1, 0), b - 1)", CN_I64, at, length);
  cni_hval was = element(h, tokens, next), now = cni_hlo_select(h, goes, chosen, was);
  cni_hval current = element(h, carried[CURRENT], step); /* (1) */
  carried[TOKENS] = cni_hlo_set_at(h, carried[TOKENS], 0, step, cni_hlo_set_at(h, tokens, 0, next, now));
  was = cni_hlo_reshape(h, current, 0, NULL);
  current = cni_hlo_reshape(h, cni_hlo_select(h, goes, chosen, was), 1, current.shape);
  carried[CURRENT] = cni_hlo_set_at(h, carried[CURRENT], 0, step, current);
  carried[POSITION] = cni_hlo_set_at(h, carried[POSITION], 0, step, CNI_HLO_EXPR(h, "b ? a + 1 : a", CN_I64, at, goes));
  carried[ENDED] = cni_hlo_set_at(h, carried[ENDED], 0, step, CNI_HLO_EXPR(h, "c ? b + 1 : a", CN_I64, end, at, stops));
}

static void choose_token(cni_hcall *c)
{
  cni_hval carried[4];
  memcpy(carried, c->in, sizeof carried);
  if (cni_hlo_numel(&c->in[TOKENS])) cni_hlo_loop(c->h, c->in[TOKENS].shape[0], 4, carried, advance, c);
  memcpy(c->out, carried, sizeof carried);
}

const cni_hrow cni_hlo_decode_rows[] = {{"choose_token", choose_token, NULL}, {NULL, NULL, NULL}};
