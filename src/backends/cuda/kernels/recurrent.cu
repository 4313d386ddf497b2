/* recurrent.cu: what a step of a recurrent network does to each element, behind the product of its states and weights,
 * and the gradient of that. OP is the kind of network.
 *
 * T0 is the type of tensors. Products, and cells and gradients that go on to another step, have the type A that is
 * computed in. Gates stand in PyTorch's order: i f g o, r z n. Invariant: a thread has all gates of one column of a
 * row, and reads them before it writes, so that what a step keeps may take the place of what was given. */
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

/* H columns of state. Rows are those of the step: the first of the batch. */
struct step_job {
  const T0 *given;       /* from the inputs, GATES H of a row, rows given_row apart */
  const A *product;      /* from the states before, (rows, GATES H) */
  const T0 *b_ih, *b_hh; /* (GATES H), or NULL */
  const T0 *first;       /* (B, H): the cell of an LSTM, the state of a GRU, before a row's first step */
  A *state;              /* (B, H): the same after the step before, and then after this one */
  T0 *output, *saved;    /* (rows, H), (rows, KEPT H); saved: or NULL */
  T0 *last_h, *last_c;   /* (B, H): of rows whose last step it is */
  i64 rows, hidden, given_row;
  i64 before, after; /* rows that have a step before, and one after */
};

KERNEL(recurrent_step, step_job)
{
  const i64 H = p.hidden;
  EACH_ROW(row, 0, p.rows)
    EACH_COLUMN(col, H) {
      A x[GATES], u[GATES], h, c = 0;
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        const i64 at = g * H + col;
        x[g] = get(p.given[row * p.given_row + at]) + (p.b_ih ? get(p.b_ih[at]) : (A)0);
        u[g] = p.product[row * GATES * H + at] + (p.b_hh ? get(p.b_hh[at]) : (A)0);
      }
      const i64 i = row * H + col;
      T0 *const kept = p.saved ? p.saved + row * KEPT * H + col : NULL;
      const A before = KEPT == 0 ? (A)0 : row < p.before ? p.state[i] : (A)get(p.first[i]);
      if (OP == lstm) {
        const A in = sigmoid_of(x[0] + u[0]), forget = sigmoid_of(x[1] + u[1]), fresh = tanh_of(x[2] + u[2]);
        const A out = sigmoid_of(x[3] + u[3]);
        c = forget * before + in * fresh;
        h = out * tanh_of(c);
        p.state[i] = c;
        if (kept) {
          const A all[] = {in, forget, fresh, out, c};
#pragma unroll
          for (int k = 0; k < 5; k++) kept[k * H] = put<T0>(all[k]);
        }
      } else if (OP == gru) {
        const A reset = sigmoid_of(x[0] + u[0]), stay = sigmoid_of(x[1] + u[1]), hidden = u[2];
        const A fresh = tanh_of(x[2] + reset * hidden);
        h = fresh + stay * (before - fresh);
        p.state[i] = h;
        if (kept) {
          const A all[] = {reset, stay, fresh, hidden};
#pragma unroll
          for (int k = 0; k < 4; k++) kept[k * H] = put<T0>(all[k]);
        }
      } else {
        h = OP == plain_tanh ? tanh_of(x[0] + u[0]) : larger(x[0] + u[0], (A)0);
      }
      p.output[i] = put<T0>(h);
      if (row < p.after) continue;
      p.last_h[i] = put<T0>(h);
      if (OP == lstm) p.last_c[i] = put<T0>(c);
    }
}

struct back_job {
  const T0 *saved, *output;   /* (rows, KEPT H); of a plain network (rows, H) */
  const T0 *earlier, *first;  /* the cell or state before: of the step before, rows earlier_row apart; (B, H): of all */
  const T0 *g_output;         /* gradients of the results, (rows, H) or NULL; */
  const T0 *g_h, *g_c;        /* (B, H) or NULL: of the states of rows whose last step it is */
  const A *product;           /* (rows, H): gradient of the state that the step after reads, less `state` */
  A *state;                   /* (B, H): of the cell; of a GRU what of the state's gradient goes past its gates */
  T0 *g_given, *g_hidden;     /* (rows, GATES H); g_hidden: of a GRU */
  T0 *g_h0, *g_c0;            /* (B, H): of rows whose first step it is */
  i64 rows, hidden, earlier_row;
  i64 before, after; /* as above */
};

KERNEL(recurrent_back, back_job)
{
  const i64 H = p.hidden;
  EACH_ROW(row, 0, p.rows)
    EACH_COLUMN(col, H) {
      const i64 i = row * H + col;
      T0 *const given = p.g_given + row * GATES * H + col;
      A kept[KEPT + 1], dh, dc = 0;
#pragma unroll
      for (int k = 0; k < KEPT; k++) kept[k] = get(p.saved[row * KEPT * H + k * H + col]);
      const A before = KEPT == 0 ? (A)0 : get(row < p.before ? p.earlier[row * p.earlier_row + col] : p.first[i]);
      if (row < p.after) {
        dh = p.product[i] + (OP == gru ? p.state[i] : (A)0);
        if (OP == lstm) dc = p.state[i];
      } else {
        dh = p.g_h ? get(p.g_h[i]) : (A)0;
        if (OP == lstm) dc = p.g_c ? get(p.g_c[i]) : (A)0;
      }
      if (p.g_output) dh += get(p.g_output[i]);
      if (OP == lstm) {
        const A in = kept[0], forget = kept[1], fresh = kept[2], out = kept[3], t = tanh_of(kept[KEPT - 1]);
        dc += dh * out * (1 - t * t);
        given[0] = put<T0>(dc * fresh * in * (1 - in));
        given[H] = put<T0>(dc * before * forget * (1 - forget));
        given[2 * H] = put<T0>(dc * in * (1 - fresh * fresh));
        given[3 * H] = put<T0>(dh * t * out * (1 - out));
        p.state[i] = dc * forget;
        if (row >= p.before) p.g_c0[i] = put<T0>(dc * forget);
      } else if (OP == gru) {
        T0 *const hidden = p.g_hidden + row * GATES * H + col;
        const A reset = kept[0], stay = kept[1], fresh = kept[2];
        const A dn = dh * (1 - stay) * (1 - fresh * fresh);
        given[0] = hidden[0] = put<T0>(dn * kept[KEPT - 1] * reset * (1 - reset));
        given[H] = hidden[H] = put<T0>(dh * (before - fresh) * stay * (1 - stay));
        given[2 * H] = put<T0>(dn);
        hidden[2 * H] = put<T0>(dn * reset);
        p.state[i] = dh * stay;
      } else {
        const A y = get(p.output[i]);
        given[0] = put<T0>(OP == plain_tanh ? dh * (1 - y * y) : y > 0 ? dh : (A)0);
      }
    }
}

/* The gradient of the first state, for rows that have no step before this one. product: as for the step before. */
KERNEL(recurrent_first, back_job)
{
  const i64 H = p.hidden;
  EACH_ROW(row, p.before, p.rows)
    EACH_COLUMN(col, H) {
      const i64 i = row * H + col;
      p.g_h0[i] = put<T0>(p.product[i] + (OP == gru ? p.state[i] : (A)0));
    }
}
