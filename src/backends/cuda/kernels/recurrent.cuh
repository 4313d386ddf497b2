/* recurrent.cuh: what a step of a recurrent network does to one element, and the gradient of that. OP is the kind of
 * network.
 *
 * T0 is the type of tensors, A the one that is computed in. Gates stand in PyTorch's order: i f g o, r z n. Invariant:
 * a step keeps what its gradient reads in this order: i f g o and the cell, r z n and the hidden part of n; plain
 * networks keep nothing. */
typedef wide_of<T0>::type A;
enum { lstm, gru, plain_tanh, plain_relu };
enum { GATES = OP == lstm ? 4 : OP == gru ? 3 : 1, KEPT = OP == lstm ? 5 : OP == gru ? 4 : 0 };
enum { KEPT_ROOM = KEPT ? KEPT : 1 }; /* no array is empty */

/* Right to 2 units in the last place; without a branch, so that gates are done side by side. */
FN f32 sigmoid_of(f32 x) { return __fdividef(1, 1 + expf(-x)); }
FN f64 sigmoid_of(f64 x) { return 1 / (1 + exp(-x)); }
FN f32 tanh_of(f32 x) { return tanhf(x); }
FN f64 tanh_of(f64 x) { return tanh(x); }

/* Where the tensors of a call lie: of all steps, N rows, or of states, (B, H). H: columns of state. */
struct step_places {
  const T0 *given;       /* from the inputs: (N, GATES H), rows given_row apart */
  const T0 *b_ih, *b_hh; /* (GATES H), or NULL */
  T0 *output, *saved;    /* (N, H), (N, KEPT H); saved: or NULL */
  T0 *last_h, *last_c;   /* of rows whose last step it is */
};
struct back_places {
  const T0 *saved, *output;   /* (N, KEPT H), (N, H) */
  const T0 *first;            /* the cell of an LSTM, the state of a GRU, before all steps */
  const T0 *g_output;         /* gradients of the results: (N, H), or NULL; */
  const T0 *g_h, *g_c;        /* of states, or NULL */
  T0 *g_given, *g_hidden;     /* (N, GATES H); g_hidden: of a GRU */
  T0 *g_h0, *g_c0;            /* of rows whose first step it is */
};

/* The next h. x, u: what inputs and states give to the gates; state: the cell of an LSTM, the state of a GRU, before
 * the step and then after it. */
FN A next_state(const A *x, const A *u, A &state, A *kept)
{
  if (OP == lstm) {
    const A in = sigmoid_of(x[0] + u[0]), forget = sigmoid_of(x[1] + u[1]), fresh = tanh_of(x[2] + u[2]);
    const A out = sigmoid_of(x[3] + u[3]);
    state = forget * state + in * fresh;
    kept[0] = in, kept[1] = forget, kept[2] = fresh, kept[3] = out, kept[4] = state;
    return out * tanh_of(state);
  }
  if (OP == gru) {
    const A reset = sigmoid_of(x[0] + u[0]), stay = sigmoid_of(x[1] + u[1]), fresh = tanh_of(x[2] + reset * u[2]);
    kept[0] = reset, kept[1] = stay, kept[2] = fresh, kept[3] = u[2];
    return state = fresh + stay * (state - fresh);
  }
  return OP == plain_tanh ? tanh_of(x[0] + u[0]) : larger(x[0] + u[0], (A)0);
}

/* d: gradients of the gates, given dh. before: the state before the step, as above; y: h after it, of a plain network.
 * state: the gradient of the cell after the step and then before it; of a GRU what of dh goes past the gates. */
FN void gate_gradients(const A *kept, A before, A y, A dh, A &state, A *d)
{
  if (OP == lstm) {
    const A in = kept[0], forget = kept[1], fresh = kept[2], out = kept[3], t = tanh_of(kept[4]);
    const A dc = state + dh * out * (1 - t * t);
    d[0] = dc * fresh * in * (1 - in);
    d[1] = dc * before * forget * (1 - forget);
    d[2] = dc * in * (1 - fresh * fresh);
    d[3] = dh * t * out * (1 - out);
    state = dc * forget;
  } else if (OP == gru) {
    const A reset = kept[0], stay = kept[1], fresh = kept[2];
    d[2] = dh * (1 - stay) * (1 - fresh * fresh);
    d[1] = dh * (before - fresh) * stay * (1 - stay);
    d[0] = d[2] * kept[3] * reset * (1 - reset);
    state = dh * stay;
  } else {
    d[0] = OP == plain_tanh ? dh * (1 - y * y) : y > 0 ? dh : (A)0;
  }
}
