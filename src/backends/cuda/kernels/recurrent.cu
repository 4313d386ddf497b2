/* recurrent.cu: what a step of a recurrent network does to each element, behind the product of its states and weights,
 * and the gradient of that. OP is the kind of network.
 *
 * T0 is the type of tensors. Products, and cells and gradients that go on to another step, have the type A that is
 * computed in (recurrent.cuh). What differs between calls, where tensors lie, is read from a table in device memory
 * where the work is recorded. Invariant: a thread has all gates of one column of a row, and reads them before it writes, so
 * that what a step keeps may take the place of what was given. */
#define BLOCKS_AT_ONCE 8 /* 64 registers a thread: a step waits for memory most of the time */
#include "codegen/device.cuh"
#include "common.cuh"
#include "recurrent.cuh"

/* Column `col` of row `row`, for each that falls to this thread. */
#define EACH_ROW(row, begin, end) for (i64 row = (begin) + blockIdx.y; row < (end); row += gridDim.y)
#define EACH_COLUMN(col, n) \
  for (i64 col = (i64)blockIdx.x * THREADS + threadIdx.x; col < (n); col += (i64)gridDim.x * THREADS)

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
      A x[GATES], u[GATES], kept[KEPT_ROOM];
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        const i64 gate = g * H;
        x[g] = get(given[gate]) + (a.b_ih ? get(a.b_ih[gate + col]) : (A)0);
        u[g] = p.product[row * GATES * H + gate + col] + (a.b_hh ? get(a.b_hh[gate + col]) : (A)0);
      }
      const i64 i = row * H + col;
      A state = KEPT ? p.state[i] : (A)0;
      const A h = next_state(x, u, state, kept);
      if (KEPT) p.state[i] = state;
#pragma unroll
      for (int k = 0; k < KEPT; k++)
        if (a.saved) a.saved[((p.at + row) * KEPT + k) * H + col] = put<T0>(kept[k]);
      p.h[i] = a.output[p.at * H + i] = put<T0>(h);
      if (row < p.after) continue;
      a.last_h[i] = put<T0>(h);
      if (OP == lstm) a.last_c[i] = put<T0>(state);
    }
}

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
      A kept[KEPT_ROOM], d[GATES], dh, state = 0, before = 0;
#pragma unroll
      for (int k = 0; k < KEPT; k++) kept[k] = get(a.saved[(all * KEPT + k) * H + col]);
      if (KEPT && row >= p.before) before = get(a.first[i]);
      else if (OP == lstm) before = get(a.saved[(was * KEPT + KEPT - 1) * H + col]);
      else if (OP == gru) before = get(a.output[was * H + col]);
      if (row < p.after) {
        dh = p.product[i] + (OP == gru ? p.state[i] : (A)0);
        if (OP == lstm) state = p.state[i];
      } else {
        dh = a.g_h ? get(a.g_h[i]) : (A)0;
        if (OP == lstm) state = a.g_c ? get(a.g_c[i]) : (A)0;
      }
      if (a.g_output) dh += get(a.g_output[all * H + col]);
      gate_gradients(kept, before, KEPT ? (A)0 : get(a.output[all * H + col]), dh, state, d);
      if (KEPT) p.state[i] = state;
      if (OP == lstm && row >= p.before) a.g_c0[i] = put<T0>(state);
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
