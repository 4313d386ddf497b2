/* random.c: rows of random numbers: Philox 4x32, ten rounds, counted as base/philox.h counts, so that an element's
 * number depends on key, counter and its index alone, wherever it is made. See row.h. */
#include <string.h>

#include "rows.h"

/* The four words of counters offset, offset + 1, ...: n of each. Like all of it, in plain operations. */
static void philox(cni_hlo *h, cni_hval key, cni_hval offset, int64_t n, cni_hval w[4])
{
  cni_hval at = cni_hlo_iota(h, CN_U64, 1, &n, 0), k[2];
  at = cni_hlo_binary(h, "add", at, cni_hlo_expand(h, offset, 1, &n));
  k[0] = CNI_HLO_EXPR(h, "u32(a)", CN_U32, key);
  k[1] = CNI_HLO_EXPR(h, "u32(a >> 32)", CN_U32, key);
  w[0] = CNI_HLO_EXPR(h, "u32(a)", CN_U32, at);
  w[1] = CNI_HLO_EXPR(h, "u32(a >> 32)", CN_U32, at);
  w[2] = w[3] = cni_hlo_splat(h, cni_hlo_int(0), CN_U32, 1, &n);
  for (int round = 0; round < 10 && !h->failed; round++) {
    cni_hval a = CNI_HLO_EXPR(h, "u64(a) * 0xD2511F53", CN_U64, w[0]);
    cni_hval b = CNI_HLO_EXPR(h, "u64(a) * 0xCD9E8D57", CN_U64, w[2]);
    w[0] = CNI_HLO_EXPR(h, "u32(a >> 32) ^ b ^ c", CN_U32, b, w[1], cni_hlo_expand(h, k[0], 1, &n));
    w[2] = CNI_HLO_EXPR(h, "u32(a >> 32) ^ b ^ c", CN_U32, a, w[3], cni_hlo_expand(h, k[1], 1, &n));
    w[1] = CNI_HLO_EXPR(h, "u32(a)", CN_U32, b);
    w[3] = CNI_HLO_EXPR(h, "u32(a)", CN_U32, a);
    k[0] = CNI_HLO_EXPR(h, "a + 0x9E3779B9", CN_U32, k[0]);
    k[1] = CNI_HLO_EXPR(h, "a + 0xBB67AE85", CN_U32, k[1]);
  }
}

/* `lanes` numbers of each counter side by side, as many as the shape has. */
static cni_hval interleaved(cni_hlo *h, cni_hval *lane, int lanes, int ndim, const int64_t *shape)
{
  int64_t n = 1, all = lanes * lane[0].shape[0];
  for (int k = 0; k < ndim; k++) n *= shape[k];
  for (int k = 0; k < lanes; k++) lane[k] = cni_hlo_insert_dim(h, lane[k], 1, 1);
  cni_hval y = cni_hlo_reshape(h, cni_hlo_concat(h, lanes, lane, 1), 1, &all);
  return cni_hlo_reshape(h, cni_hlo_slice_dim(h, y, 0, 0, n, 1), ndim, shape);
}

enum number { WORDS_64, UNIT_F32, UNIT_F64, NORMAL_F32, NORMAL_F64 };

/* Numbers of a kind; bits: of a unit_f32. */
static cni_hval draw(cni_hlo *h, cni_hval key, cni_hval offset, enum number kind, int bits, int ndim,
                     const int64_t *shape)
{
  int64_t n = 1;
  int lanes = kind == UNIT_F32 || kind == NORMAL_F32 ? 4 : 2;
  cni_hval w[4], lane[4];
  for (int k = 0; k < ndim; k++) n *= shape[k];
  philox(h, key, offset, n ? (n + lanes - 1) / lanes : 1, w);
  for (int k = 0; k < 4; k++) lane[k] = w[k];
  for (int k = 0; k < 2 && lanes == 2; k++)
    lane[k] = CNI_HLO_EXPR(h, "u64(b) << 32 | u64(a)", CN_U64, w[2 * k], w[2 * k + 1]);
  for (int k = 0; k < 4 && kind == UNIT_F32; k++)
    lane[k] =
        CNI_HLO_EXPR(h, "f32(a >> b) * c", CN_F32, lane[k], cni_hlo_int(32 - bits), cni_hlo_num(1.0 / (1 << bits)));
  for (int k = 0; k < 2 && kind == UNIT_F64; k++)
    lane[k] = CNI_HLO_EXPR(h, "f64(a >> 11) * 1.1102230246251565e-16", CN_F64, lane[k]);
  for (int k = 0; k < 4 && kind == NORMAL_F32; k += 2) {
    cni_hval r =
        CNI_HLO_EXPR(h, "sqrt(-2 * log(f32(a >> 1) * 4.656612873077393e-10 + 2.3283064365386963e-10))", CN_F32, w[k]);
    cni_hval angle = CNI_HLO_EXPR(h, "6.28318530717958648 * (f32(a >> 8) * 5.9604644775390625e-08)", CN_F32, w[k + 1]);
    lane[k] = CNI_HLO_EXPR(h, "a * cos(b)", CN_F32, r, angle);
    lane[k + 1] = CNI_HLO_EXPR(h, "a * sin(b)", CN_F32, r, angle);
  }
  if (kind == NORMAL_F64) {
    cni_hval r = CNI_HLO_EXPR(h, "sqrt(-2 * log(f64((a >> 11) + 1) * 1.1102230246251565e-16))", CN_F64, lane[0]);
    cni_hval angle = CNI_HLO_EXPR(h, "6.28318530717958648 * (f64(a >> 11) * 1.1102230246251565e-16)", CN_F64, lane[1]);
    lane[0] = CNI_HLO_EXPR(h, "a * cos(b)", CN_F64, r, angle);
    lane[1] = CNI_HLO_EXPR(h, "a * sin(b)", CN_F64, r, angle);
  }
  return interleaved(h, lane, lanes, ndim, shape);
}

/* Where this call's numbers begin. */
static cni_hval begin_of(cni_hcall *c)
{
  if (c->h->key.id < 0) cni_hlo_fail(c->h, CN_ERR_INTERNAL, "%s: there are no random numbers", c->name);
  return c->h->failed ? c->h->key
                      : c->draw ? cni_hlo_binary(c->h, "add", c->h->offset, cni_hlo_int(c->draw)) : c->h->offset;
}

static cni_hval of_call(cni_hcall *c, enum number kind, int bits, const cni_hval *like)
{
  cni_hval begin = begin_of(c);
  return draw(c->h, c->h->key, begin, kind, bits, like->ndim, like->shape);
}

/* rand, randn: as many bits as the type holds exactly. */
static void floats(cni_hcall *c)
{
  cni_hval *out = &c->out[0];
  int bits = out->dtype == CN_F16 ? 11 : out->dtype == CN_BF16 ? 8 : 24;
  bool normal = c->text != NULL;
  enum number kind = out->dtype == CN_F64 ? (normal ? NORMAL_F64 : UNIT_F64) : normal ? NORMAL_F32 : UNIT_F32;
  *out = cni_hlo_cast(c->h, of_call(c, kind, bits, out), out->dtype);
}

/* a as one of b numbers: the upper half of their product. */
#define BELOW "l = u64(u32(a)); h = a >> 32; s = u64(u32(b)); t = b >> 32; m = h * s + (l * s >> 32);" \
              "n = l * t + u64(u32(m)); h * t + (m >> 32) + (n >> 32)"

static void randint(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval *out = &c->out[0], words = of_call(c, WORDS_64, 0, out);
  uint64_t low = (uint64_t)cni_harg_int(c, 0), span = (uint64_t)cni_harg_int(c, 1) - low;
  cni_hval many = cni_hlo_splat(h, cni_hlo_int((int64_t)span), CN_U64, out->ndim, out->shape);
  if (span) words = CNI_HLO_EXPR(h, BELOW, CN_U64, words, many);
  words = CNI_HLO_EXPR(h, "as_i64(a) + b", CN_I64, words, cni_hlo_int((int64_t)low));
  *out = cni_hlo_cast(h, words, out->dtype);
}

/* Fisher and Yates: place i gets one of those not yet placed. carried: the order; then what does not change. */
static void shuffle_step(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval other = cni_hlo_at(h, *(cni_hval *)payload, 0, step);
  cni_hval kept = cni_hlo_at(h, carried[0], 0, step), moved = cni_hlo_at(h, carried[0], 0, other);
  carried[0] = cni_hlo_set_at(h, cni_hlo_set_at(h, carried[0], 0, step, moved), 0, other, kept);
}

static void randperm(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval *out = &c->out[0], words = of_call(c, WORDS_64, 0, out);
  int64_t n = out->shape[0];
  cni_hval order = cni_hlo_iota(h, CN_I32, 1, &n, 0);
  cni_hval left = CNI_HLO_EXPR(h, "b - u64(a)", CN_U64, order, cni_hlo_int(n));
  cni_hval other = CNI_HLO_EXPR(h, "b + i32(a)", CN_I32, CNI_HLO_EXPR(h, BELOW, CN_U64, words, left), order);
  if (n) cni_hlo_loop(h, n, 1, &order, shuffle_step, &other);
  *out = cni_hlo_cast(h, order, out->dtype);
}

static void bernoulli(cni_hcall *c)
{
  bool wide = c->in[0].dtype == CN_F64;
  cni_hval u = of_call(c, wide ? UNIT_F64 : UNIT_F32, 24, &c->out[0]);
  cni_hval p = cni_hlo_cast(c->h, c->in[0], wide ? CN_F64 : CN_F32);
  c->out[0] = cni_hlo_convert(c->h, cni_hlo_compare(c->h, "LT", u, p), c->out[0].dtype);
}

/* Which elements stay, by numbers from `begin` on. */
static cni_hval kept(cni_hlo *h, cni_hval key, cni_hval begin, double p, const cni_hval *like)
{
  cni_hval u = draw(h, key, begin, UNIT_F32, 24, like->ndim, like->shape);
  return cni_hlo_compare(h, "LT", u, cni_hlo_num(1 - p));
}

/* x where it stays, scaled. */
static cni_hval dropped(cni_hlo *h, cni_hval x, cni_hval mask, double p, int dtype)
{
  int type = cni_hlo_wide(x.dtype);
  cni_hval scale = cni_hlo_binary(h, "multiply", cni_hlo_convert(h, mask, type), cni_hlo_num(1 / (1 - p)));
  return cni_hlo_cast(h, cni_hlo_binary(h, "multiply", cni_hlo_cast(h, x, type), scale), dtype);
}

static void native_dropout(cni_hcall *c)
{
  double p = cni_harg_float(c, 1);
  cni_hval mask = kept(c->h, c->h->key, begin_of(c), p, &c->in[0]);
  c->out[0] = dropped(c->h, c->in[0], mask, p, c->out[0].dtype);
  c->out[1] = cni_hlo_convert(c->h, mask, c->out[1].dtype);
}

/* reserve_draws(size): key and counter, for who draws later. */
static void reserve(cni_hcall *c)
{
  cni_hval two[2] = {c->h->key, begin_of(c)};
  int64_t one = 1;
  for (int k = 0; k < 2 && !c->h->failed; k++)
    two[k] = cni_hlo_reshape(c->h, cni_hlo_bitcast(c->h, two[k], CN_I64), 1, &one);
  c->out[0] = cni_hlo_concat(c->h, 2, two, 0);
}

/* dropped_ones(draws, size, p) */
static void dropped_ones(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval at[2], *out = &c->out[0];
  for (int64_t k = 0; k < 2; k++)
    at[k] = cni_hlo_bitcast(h, cni_hlo_reshape(h, cni_hlo_slice_dim(h, c->in[0], 0, k, k + 1, 1), 0, NULL), CN_U64);
  cni_hval one = cni_hlo_splat(h, cni_hlo_num(1), out->dtype, out->ndim, out->shape);
  double p = cni_harg_float(c, 2);
  *out = dropped(h, one, kept(h, at[0], at[1], p, out), p, out->dtype);
}

/* ---- choices with weights ---- */

/* With replacement: the category at each number's share of the whole, by running sums. */
static void multinomial(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval p = cni_hlo_cast(h, c->in[0], CN_F64), *out = &c->out[0], u = of_call(c, UNIT_F64, 0, out);
  int n = p.ndim;
  int64_t categories = p.shape[n - 1], samples = out->shape[n - 1];
  bool replace = cni_harg_int(c, 2) != 0;
  cni_hval chosen[64];
  if (!replace && samples > 64) {
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED, "multinomial: more than 64 samples without replacement");
    return;
  }
  for (int64_t s = 0; s < (replace ? 1 : samples) && !h->failed; s++) {
    cni_hval sums = cni_hlo_scan(h, "a + b", cni_hlo_num(0), p, n - 1);
    cni_hval part = replace ? u : cni_hlo_slice_dim(h, u, n - 1, s, s + 1, 1);
    cni_hval total = cni_hlo_slice_dim(h, sums, n - 1, categories - 1, categories, 1);
    cni_hval at = cni_hlo_binary(h, "multiply", part, cni_hlo_expand(h, total, n, part.shape));
    cni_hval wide = cni_hlo_insert_dim(h, at, n, categories),
             line = cni_hlo_insert_dim(h, sums, n - 1, part.shape[n - 1]);
    cni_hval below = cni_hlo_convert(h, cni_hlo_compare(h, "LE", line, wide), CN_I64);
    cni_hval k = cni_hlo_reduce(h, "add", below, 1u << n);
    k = CNI_HLO_EXPR(h, "min(a, b)", CN_I64, k, cni_hlo_int(categories - 1));
    chosen[s] = k;
    if (replace) break;
    cni_hval i = cni_hlo_iota(h, CN_I64, n, p.shape, n - 1);
    p = cni_hlo_select(h, cni_hlo_compare(h, "EQ", i, cni_hlo_expand(h, k, n, p.shape)), cni_hlo_num(0), p);
  }
  *out = replace || h->failed ? chosen[0] : cni_hlo_concat(h, (int)samples, chosen, n - 1);
}

/* ---- counts of events ---- */

enum { UP, DOWN, P_UP, P_DOWN, LEFT, COUNT, DONE, POISSON }; /* all but the last: carried */

static cni_hval some_left(cni_hlo *h, cni_hval step, const cni_hval *carried, void *payload)
{
  (void)step, (void)payload;
  cni_hval left = cni_hlo_unary(h, "not", carried[DONE]);
  return cni_hlo_reduce(h, "or", left, left.ndim ? (1u << left.ndim) - 1 : 0);
}

/* Chances are laid side by side from the likeliest outwards, up and down in turns, until they cover what was drawn. */
static void outwards(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  cni_hval rate = *(cni_hval *)payload;
  (void)step;
  v[UP] = CNI_HLO_EXPR(h, "a + 1", CN_F64, v[UP]);
  v[P_UP] = CNI_HLO_EXPR(h, "a * (b / c)", CN_F64, v[P_UP], rate, v[UP]);
  cni_hval left = CNI_HLO_EXPR(h, "a - b", CN_F64, v[LEFT], v[P_UP]);
  cni_hval falls = cni_hlo_compare(h, "GT", v[DOWN], cni_hlo_num(0));
  cni_hval p_down = CNI_HLO_EXPR(h, "a * (b / c)", CN_F64, v[P_DOWN], v[DOWN], rate);
  cni_hval down = CNI_HLO_EXPR(h, "a - 1", CN_F64, v[DOWN]), after = CNI_HLO_EXPR(h, "a - b", CN_F64, left, p_down);
  after = cni_hlo_select(h, falls, after, left);
  cni_hval same = CNI_HLO_EXPR(h, "a == b", CN_F64, after, v[LEFT]);
  cni_hval count = CNI_HLO_EXPR(h, "a < 0 ? c : b < 0 ? d : floor(e)", CN_F64, left, after, v[UP], down, rate);
  cni_hval ends = CNI_HLO_EXPR(h, "(a < 0) | (b < 0) | c", CN_F64, left, after, same);
  v[COUNT] = cni_hlo_select(h, cni_hlo_unary(h, "not", v[DONE]), count, v[COUNT]);
  v[DONE] = cni_hlo_binary(h, "or", v[DONE], ends);
  v[P_DOWN] = cni_hlo_select(h, falls, p_down, v[P_DOWN]);
  v[DOWN] = cni_hlo_select(h, falls, down, v[DOWN]);
  v[LEFT] = after;
}

static void poisson(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval given = cni_hlo_cast(h, c->in[0], CN_F64), *out = &c->out[0], v[POISSON];
  cni_hval u = of_call(c, UNIT_F64, 0, out), z = of_call(c, NORMAL_F64, 0, out);
  cni_hval rate = CNI_HLO_EXPR(h, "(a > 0) & (a < 1e8) ? a : 1", CN_F64, given);
  v[UP] = v[DOWN] = cni_hlo_unary(h, "floor", rate);
  v[P_UP] = v[P_DOWN] = CNI_HLO_EXPR(h, "exp(a * log(b) - b - lgamma(a + 1))", CN_F64, v[UP], rate);
  v[LEFT] = CNI_HLO_EXPR(h, "a - b", CN_F64, u, v[P_UP]);
  v[COUNT] = v[UP];
  v[DONE] = CNI_HLO_EXPR(h, "(a < 0) | !((b > 0) & (b < 1e8))", CN_F64, v[LEFT], given);
  cni_hlo_while(h, some_left, POISSON, v, outwards, &rate);
  const char *text = "a >= 1e8 ? floor(a + sqrt(a) * b + 0.5) : a > 0 ? c : a";
  cni_hval count = CNI_HLO_EXPR(h, text, CN_F64, given, z, v[COUNT]);
  *out = cni_hlo_cast(h, count, out->dtype);
}

const cni_hrow cni_hlo_random_rows[] = {
    {"rand", floats, NULL},        {"rand_like", floats, NULL},   {"randn", floats, "normal"},
    {"randn_like", floats, "normal"}, {"randint", randint, NULL}, {"randperm", randperm, NULL},
    {"bernoulli", bernoulli, NULL}, {"native_dropout", native_dropout, NULL}, {"reserve_draws", reserve, NULL},
    {"dropped_ones", dropped_ones, NULL}, {"multinomial", multinomial, NULL},
    {"poisson", poisson, NULL}, {NULL, NULL, NULL}};
