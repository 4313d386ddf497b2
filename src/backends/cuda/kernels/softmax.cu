/* softmax.cu: softmax, log_softmax and their gradients along one dim. OP is the kind.
 *
 * T0 is the type of the inputs, T1 that of the result. Rows (the dim is innermost) are read once: see rows.cuh. Other
 * lines (`inner` elements apart) are taken by one thread each, neighbours side by side. Invariant: sums are taken in
 * float32, or float64 for float64. */
/* At most 64 registers a thread, so that many rows are under way; 85 for rows that are kept where there are two inputs or
 * packs are taken apart: as in softmax.c. */
#define BLOCKS_AT_ONCE (THREADS > 512 ? 1 : (N && (GRAD || !EVEN) ? 768 : 1024) / THREADS)
#include "codegen/device.cuh"
#include "common.cuh"
#include "rows.cuh"

typedef wide_of<T1>::type A;
enum { SHORT = sizeof(T1) == 2 };
#include "exponent.cuh"

enum kind { softmax, log_softmax, softmax_grad, log_softmax_grad };
enum { GRAD = OP == softmax_grad || OP == log_softmax_grad };

struct softmax_job {
  const T0 *x, *b; /* input; or gradient and result */
  T1 *y;
  i64 rows, n, inner;
  i32 stash, unused;
};

enum { V = 16 / (sizeof(T0) > sizeof(T1) ? sizeof(T0) : sizeof(T1)) };

FN f32 log_of(f32 v) { return logf(v); }
FN f64 log_of(f64 v) { return log(v); }

/* last: 1 / the sum of exponentials, or its logarithm. Where all elements are -inf this is NaN, as it should be. */
FN A forward_of(A v, A most, A last) { return OP == softmax ? exp_of(v, most) * last : v - most - last; }
FN A gradient_of(A g, A y, A sum) { return OP == softmax_grad ? y * (g - sum) : g - exp_of(y, 0) * sum; }

/* Rows kept in registers: the largest first, so that each exponential is taken once. */
FN void forward_kept(kept<T0, V> &row, T1 *y, int slot)
{
  enum { OF = KEPT ? KEPT : 1 };
  pack<T0, V> e[OF];
  A v[OF][V], sum = 0;
#pragma unroll
  for (int k = 0; k < KEPT; k++) e[KEPT ? k : 0] = first_read(row, k);
  const A most = group_max<0>(most_in<T0>::template of<V, OF>(e), slot);
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    A *const own = v[KEPT ? k : 0];
    A part = 0;
    unpack<T0, V>(own, e[KEPT ? k : 0]);
#pragma unroll
    for (int i = 0; i < V; i++) {
      own[i] = OP == softmax ? exp_of(own[i], most) : own[i] - most;
      part += OP == softmax ? own[i] : exp_of(own[i], 0);
    }
    sum += part;
  }
  sum = group_sum<1>(sum, slot);
  const A last = OP == softmax ? (A)1 / sum : log_of(sum);
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    A *const own = v[KEPT ? k : 0];
#pragma unroll
    for (int i = 0; i < V; i++) own[i] = OP == softmax ? own[i] * last : own[i] - last;
    store_pack<T1, V>(PACK_AT(y, k), PLACE_OF(row, k), row.n, packed<T1, V>(own), EDGE(k));
  }
}

/* Rows that are read twice. y: the row of the result. */
FN void forward_long(kept<T0, V> &row, const kept<T0, V> &next, T1 *y, int slot)
{
  const span own = span_of(row), more = span_of(next);
  const pack<T0, 1> edge = {{edge_of(row, own)}};
  T1 *const mine = FIRST_OF(row, y);
  exponentials x = {least(), 0};
  for (int k = own.from; k < own.to; k++) add_pack<T0, V>(x, read_whole(row, k));
  add_pack<T0, 1>(x, edge);
  x = join(x, slot);
  const A last = OP == softmax ? (A)1 / x.sum : log_of(x.sum);
  for (int k = own.from; k < own.to; k++) {
    A v[V];
    unpack<T0, V>(v, read_whole(row, k));
    ask_whole(next, more, k);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = forward_of(v[i], x.most, last);
    give_whole<T1, V>(PACK_AT(mine, k), packed<T1, V>(v));
  }
  if (own.edge >= 0) y[own.edge] = put<T1>(forward_of((A)get(edge.v[0]), x.most, last));
  ask_rest(next, own, more);
}

FN A share_of(A g, A y) { return OP == softmax_grad ? g * y : g; }

/* The same of gradients. */
FN void gradient_long(kept<T0, V> &gs, kept<T0, V> &ys, const kept<T0, V> &next_g, const kept<T0, V> &next_y, T1 *y,
                      int slot)
{
  const span own = span_of(gs), more = span_of(next_g);
  const A edge_g = (A)get(edge_of(gs, own)), edge_y = (A)get(edge_of(ys, own));
  T1 *const mine = FIRST_OF(gs, y);
  A sum = share_of(edge_g, edge_y), g[V], o[V];
  for (int k = own.from; k < own.to; k++) {
    A part = 0;
    unpack<T0, V>(g, read_whole(gs, k));
    if (OP == softmax_grad) unpack<T0, V>(o, read_whole(ys, k));
#pragma unroll
    for (int i = 0; i < V; i++) part += share_of(g[i], o[i]);
    sum += part;
  }
  group_meets();
  sum = group_sum<0>(sum, slot);
  for (int k = own.from; k < own.to; k++) {
    unpack<T0, V>(g, read_whole(gs, k));
    unpack<T0, V>(o, read_whole(ys, k));
    ask_whole(next_g, more, k);
    ask_whole(next_y, more, k);
#pragma unroll
    for (int i = 0; i < V; i++) g[i] = gradient_of(g[i], o[i], sum);
    give_whole<T1, V>(PACK_AT(mine, k), packed<T1, V>(g));
  }
  if (own.edge >= 0) y[own.edge] = put<T1>(gradient_of(edge_g, edge_y, sum));
  ask_rest(next_g, own, more);
  ask_rest(next_y, own, more);
}

/* y: the place of this thread's first pack. */
FN void gradient_kept(kept<T0, V> &gs, kept<T0, V> &ys, T1 *y, int slot)
{
  A sum = 0, g[V], o[V];
#pragma unroll
  for (int k = 0; k < PACKS(gs.n); k++) {
    A part = 0;
    unpack<T0, V>(g, first_read(gs, k));
    unpack<T0, V>(o, first_read(ys, k));
#pragma unroll
    for (int i = 0; i < V; i++) part += share_of(g[i], o[i]);
    sum += part;
  }
  group_meets();
  sum = group_sum<0>(sum, slot);
#pragma unroll
  for (int k = 0; k < PACKS(gs.n); k++) {
    unpack<T0, V>(g, read_again(gs, k));
    unpack<T0, V>(o, read_again(ys, k));
#pragma unroll
    for (int i = 0; i < V; i++) g[i] = gradient_of(g[i], o[i], sum);
    store_pack<T1, V>(PACK_AT(y, k), PLACE_OF(gs, k), gs.n, packed<T1, V>(g), EDGE(k));
  }
}

/* Input 0: x, or the gradient; 1: the result. */
FN kept<T0, V> input_row(const softmax_job &p, int input, i64 r, int slot, char *room)
{
  return row_at<T0, V>(input ? p.b : p.x, r, p.rows, p.n, put<T0>(GRAD ? (A)0 : least()),
                       STASHED(p.stash) ? room_of<T0, V>(room, input, slot, p.n) : 0);
}
FN void ask_row(const softmax_job &p, i64 r, int slot, char *room)
{
  ask(input_row(p, 0, r, slot, room));
  if (GRAD) ask(input_row(p, 1, r, slot, room));
  portion_ends();
}

KERNEL(softmax_rows, softmax_job)
{
  DYNAMIC_SHARED(char, room);
  for (int a = 0; a < ASKED; a++) ask_row(p, FIRST_ROW + a * ROW_STEP, a, room);
  EACH_ROW(r, slot, p.rows)
  {
    if (N) ask_row(p, r + AHEAD * ROW_STEP, SLOT_AHEAD(slot), room);
    portions_arrive<AHEAD>();
    kept<T0, V> row = input_row(p, 0, r, slot, room), next = input_row(p, 0, r + ROW_STEP, slot, room);
    T1 *const y = p.y + r * p.n;
    if (GRAD) {
      kept<T0, V> result = input_row(p, 1, r, slot, room), more = input_row(p, 1, r + ROW_STEP, slot, room);
      if (KEPT) gradient_kept(row, result, FIRST_OF(row, y), slot);
      else gradient_long(row, result, next, more, y, slot);
    } else if (KEPT) forward_kept(row, FIRST_OF(row, y), slot);
    else forward_long(row, next, y, slot);
    if (!N) portion_ends();
  }
}

/* Lines whose elements are `inner` apart. */
KERNEL(softmax_lines, softmax_job)
{
  EACH(line, p.rows)
  {
    const i64 first = line / p.inner * p.inner * p.n + line % p.inner, end = first + p.n * p.inner;
    A sum = 0;
    if (GRAD) {
      for (i64 i = first; i < end; i += p.inner)
        sum += OP == softmax_grad ? (A)get(p.x[i]) * (A)get(p.b[i]) : (A)get(p.x[i]);
      for (i64 i = first; i < end; i += p.inner)
        p.y[i] = put<T1>(gradient_of((A)get(p.x[i]), (A)get(p.b[i]), sum));
      continue;
    }
    exponentials x = {least(), 0};
    for (i64 i = first; i < end; i += p.inner) add_pack<T0, 1>(x, *(const pack<T0, 1> *)(p.x + i));
    const A last = OP == softmax ? (A)1 / x.sum : log_of(x.sum);
    for (i64 i = first; i < end; i += p.inner) p.y[i] = put<T1>(forward_of((A)get(p.x[i]), x.most, last));
  }
}
