/* recurrent.cu: what a step of a recurrent network does to each element, behind the product of its states and weights,
 * and the gradient of that. OP is the kind of network.
 *
 * T0 is the type of tensors. Products, and cells and gradients that go on to another step, have the type A that is
 * computed in. Gates stand in PyTorch's order: i f g o, r z n. What differs between calls, where tensors lie, is read
 * from a table in device memory where the work is recorded. Invariant: a thread has all gates of one column of a row,
 * and reads them before it writes, so that what a step keeps may take the place of what was given. */
#define BLOCKS_AT_ONCE 8 /* 64 registers a thread: a step waits for memory most of the time */
#include "codegen/device.cuh"
#include "common.cuh"

typedef wide_of<T0>::type A;
enum { lstm, gru, plain_tanh, plain_relu };
enum { GATES = OP == lstm ? 4 : OP == gru ? 3 : 1, KEPT = OP == lstm ? 5 : OP == gru ? 4 : 0 };

FN f32 sigmoid_of(f32 x) { return 1 / (1 + expf(-x)); }
FN f64 sigmoid_of(f64 x) { return 1 / (1 + exp(-x)); }
FN f32 tanh_of(f32 x) { return tanhf(x); }
FN f64 tanh_of(f64 x) { return tanh(x); }

/* Column `col` of row `row`, for each that falls to this thread. */
#define EACH_ROW(row, begin, end) for (i64 row = (begin) + blockIdx.y; row < (end); row += gridDim.y)
#define EACH_COLUMN(col, n) \
  for (i64 col = (i64)blockIdx.x * THREADS + threadIdx.x; col < (n); col += (i64)gridDim.x * THREADS)

/* Where the tensors of a call lie: of all steps, N rows, or of states, (B, H). H: columns of state. */
struct step_places {
  const T0 *given;       /* from the inputs: (N, GATES H), rows given_row apart */
  const T0 *b_ih, *b_hh; /* (GATES H), or NULL */
  T0 *output, *saved;    /* (N, H), (N, KEPT H); saved: or NULL */
  T0 *last_h, *last_c;   /* of rows whose last step it is */
};
/* Rows are those of the step: the first of the batch. */
struct step_job {
  const step_places *table; /* NULL: own */
  step_places own;
  const A *product; /* from the states before, (rows, GATES H) */
  A *state;         /* (B, H): the cell of an LSTM, the state of a GRU, before the step and then after it */
  T0 *h;            /* (B, H): the states that the next product reads */
  i64 at, rows, after; /* the step's first row among N; how many it has, and of them have a step after this */
  i64 hidden, given_row;
};

KERNEL(recurrent_step, step_job)
{
  const step_places a = p.table ? *p.table : p.own;
  const i64 H = p.hidden;
  EACH_ROW(row, 0, p.rows)
    EACH_COLUMN(col, H) {
      const T0 *const given = a.given + (p.at + row) * p.given_row + col;
      A x[GATES], u[GATES], h, c = 0;
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        const i64 gate = g * H;
        x[g] = get(given[gate]) + (a.b_ih ? get(a.b_ih[gate + col]) : (A)0);
        u[g] = p.product[row * GATES * H + gate + col] + (a.b_hh ? get(a.b_hh[gate + col]) : (A)0);
      }
      const i64 i = row * H + col;
      const A before = KEPT == 0 ? (A)0 : p.state[i];
      T0 *const kept = a.saved ? a.saved + (p.at + row) * KEPT * H + col : NULL;
      if (OP == lstm) {
        const A in = sigmoid_of(x[0] + u[0]), forget = sigmoid_of(x[1] + u[1]), fresh = tanh_of(x[2] + u[2]);
        const A out = sigmoid_of(x[3] + u[3]);
        p.state[i] = c = forget * before + in * fresh;
        h = out * tanh_of(c);
        if (kept) {
          const A all[] = {in, forget, fresh, out, c};
#pragma unroll
          for (int k = 0; k < 5; k++) kept[k * H] = put<T0>(all[k]);
        }
      } else if (OP == gru) {
        const A reset = sigmoid_of(x[0] + u[0]), stay = sigmoid_of(x[1] + u[1]), hidden = u[2];
        const A fresh = tanh_of(x[2] + reset * hidden);
        p.state[i] = h = fresh + stay * (before - fresh);
        if (kept) {
          const A all[] = {reset, stay, fresh, hidden};
#pragma unroll
          for (int k = 0; k < 4; k++) kept[k * H] = put<T0>(all[k]);
        }
      } else {
        h = OP == plain_tanh ? tanh_of(x[0] + u[0]) : larger(x[0] + u[0], (A)0);
      }
      p.h[i] = a.output[p.at * H + i] = put<T0>(h);
      if (row < p.after) continue;
      a.last_h[i] = put<T0>(h);
      if (OP == lstm) a.last_c[i] = put<T0>(c);
    }
}

struct back_places {
  const T0 *saved, *output;   /* (N, KEPT H), (N, H) */
  const T0 *first;            /* the cell of an LSTM, the state of a GRU, before all steps */
  const T0 *g_output;         /* gradients of the results: (N, H), or NULL; */
  const T0 *g_h, *g_c;        /* of states, or NULL */
  T0 *g_given, *g_hidden;     /* (N, GATES H); g_hidden: of a GRU */
  T0 *g_h0, *g_c0;            /* of rows whose first step it is */
};
struct back_job {
  const back_places *table; /* NULL: own */
  back_places own;
  const A *product; /* (rows, H): gradient of the state that the step after reads, less `state` */
  A *state;         /* (B, H): of the cell; of a GRU what of the state's gradient goes past its gates */
  T0 *gates;        /* (rows, GATES H): gradients of what the next product reads */
  i64 at, rows, before, after; /* as above; before: how many have a step before this, */
  i64 earlier;                 /* whose first row is this */
  i64 hidden;
};

KERNEL(recurrent_back, back_job)
{
  const back_places a = p.table ? *p.table : p.own;
  const i64 H = p.hidden;
  EACH_ROW(row, 0, p.rows)
    EACH_COLUMN(col, H) {
      const i64 i = row * H + col, all = p.at + row, was = p.earlier + row;
      T0 *const given = a.g_given + all * GATES * H + col, *const gates = p.gates + row * GATES * H + col;
      A kept[5], d[4], dh, dc = 0, before = 0;
#pragma unroll
      for (int k = 0; k < KEPT; k++) kept[k] = get(a.saved[(all * KEPT + k) * H + col]);
      if (KEPT && row >= p.before) before = get(a.first[i]);
      else if (OP == lstm) before = get(a.saved[(was * KEPT + KEPT - 1) * H + col]);
      else if (OP == gru) before = get(a.output[was * H + col]);
      if (row < p.after) {
        dh = p.product[i] + (OP == gru ? p.state[i] : (A)0);
        if (OP == lstm) dc = p.state[i];
      } else {
        dh = a.g_h ? get(a.g_h[i]) : (A)0;
        if (OP == lstm) dc = a.g_c ? get(a.g_c[i]) : (A)0;
      }
      if (a.g_output) dh += get(a.g_output[all * H + col]);
      if (OP == lstm) {
        const A in = kept[0], forget = kept[1], fresh = kept[2], out = kept[3], t = tanh_of(kept[4]);
        dc += dh * out * (1 - t * t);
        d[0] = dc * fresh * in * (1 - in);
        d[1] = dc * before * forget * (1 - forget);
        d[2] = dc * in * (1 - fresh * fresh);
        d[3] = dh * t * out * (1 - out);
        p.state[i] = dc * forget;
        if (row >= p.before) a.g_c0[i] = put<T0>(dc * forget);
      } else if (OP == gru) {
        const A reset = kept[0], stay = kept[1], fresh = kept[2];
        d[2] = dh * (1 - stay) * (1 - fresh * fresh);
        d[1] = dh * (before - fresh) * stay * (1 - stay);
        d[0] = d[2] * kept[3] * reset * (1 - reset);
        p.state[i] = dh * stay;
      } else {
        const A y = get(a.output[all * H + col]);
        d[0] = OP == plain_tanh ? dh * (1 - y * y) : y > 0 ? dh : (A)0;
      }
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        given[g * H] = put<T0>(d[g]);
        if (OP == gru && g == 2) d[g] *= kept[0]; /* what is behind the reset gate */
        gates[g * H] = put<T0>(d[g]);
        if (OP == gru) a.g_hidden[(all * GATES + g) * H + col] = gates[g * H];
      }
    }
}

/* The gradient of the first state, for rows that have no step before this one. product: as for the step before. */
KERNEL(recurrent_first, back_job)
{
  const back_places a = p.table ? *p.table : p.own;
  EACH_ROW(row, p.before, p.rows)
    EACH_COLUMN(col, p.hidden) {
      const i64 i = row * p.hidden + col;
      a.g_h0[i] = put<T0>(p.product[i] + (OP == gru ? p.state[i] : (A)0));
    }
}

/* The places of a call become the table's. */
struct aim_job {
  const void **table;
  i64 count;
  const void *places[12];
};

KERNEL(recurrent_aim, aim_job)
{
  if (threadIdx.x < p.count) p.table[threadIdx.x] = p.places[threadIdx.x];
}
