/* recurrent_chip.cu: all steps of a recurrent layer in one launch. The weights of its states stay in registers, and a
 * step waits for nothing but the states that other blocks send.
 *
 * T0 is the type of tensors: float32, or 16-bit floats, whose products are the Tensor Cores'. OP is the kind of network
 * (recurrent.cuh). A cluster has CLUSTER blocks and ROWS rows of the batch (FORM: these two); a block has UNITS columns
 * of the state (N). A step is a product of the block's weights (M, K) and what all blocks had sent, x (K, ROWS); its sums
 * go through shared memory to the threads that have an element each, whose results are sent to all blocks, for the
 * next step. Forward x is the states, and M counts gates; backward x is the gradients of gates. Teams of threads have a
 * strip of the weights each: HIGH lines, and of the columns a part (SPLITS), DEEP at a time.
 * Invariants: a step reads one buffer of x while the other fills: blocks send into it only what depends on everybody's
 * having read it; what lies beyond the batch and the columns is sent as zero, since there a sum may be NaN (0 times
 * infinity). A block ends after it has got all that others send to it. */
#define CLUSTER (FORM & 15)
enum { UNITS = N, ROWS = FORM >> 4 };
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "tensor_core.cuh"
#include "recurrent.cuh"

enum { LOW = sizeof(T0) == 2, HIGH = LOW ? 16 : 4, DEEP = LOW ? 32 : 64, TEAM = LOW ? 32 : 16 };
enum { ELEMENTS = UNITS * ROWS, EACH_HAS = (ELEMENTS + THREADS - 1) / THREADS }; /* of a block, of a thread */

/* Weights (M, K) of a block; a block sends SENT numbers of each row. */
template <int M, int K, int SENT> struct shape {
  enum { TEAMS = THREADS / TEAM, SPLITS = TEAMS < M / HIGH ? 1 : TEAMS / (M / HIGH) }; /* fewer: a kernel left out */
  enum { STEPS = (K + DEEP * SPLITS - 1) / (DEEP * SPLITS) };
  enum { FILLED = STEPS * DEEP * SPLITS };
  /* Between rows of x and of sums: so that threads of a warp find different banks. */
  enum { X_ROW = FILLED + (LOW && FILLED % 64 == 0 ? 32 : 0), SUM_ROW = M + 4 };
  enum { X_BYTES = ROWS * X_ROW * (int)sizeof(T0), SENT_BYTES = ROWS * SENT * (int)sizeof(T0) };
  enum { PARCELS = SENT_BYTES / 16, OF_ROW = SENT * (int)sizeof(T0) / 16, PER_PARCEL = 16 / (int)sizeof(T0) };
};

/* What a block has in shared memory. */
template <class S> struct rooms {
  u64 *box;  /* of each buffer of x */
  T0 *x, *sent;
  f32 *sums; /* (SPLITS, ROWS, SUM_ROW) */
  FN T0 *buffer(const rooms &r, int i) { return r.x + (i & 1) * (S::X_BYTES / (int)sizeof(T0)); }
};
template <class S> FN rooms<S> divide()
{
  DYNAMIC_SHARED(u8, room);
  rooms<S> r;
  r.box = (u64 *)room;
  r.x = (T0 *)(room + 16);
  r.sent = (T0 *)(room + 16 + 2 * S::X_BYTES);
  r.sums = (f32 *)(room + 16 + 2 * S::X_BYTES + S::SENT_BYTES);
  return r;
}

/* x is zero, and the mailboxes are ready for the first sends; all threads call it. */
template <class S> FN void clear(const rooms<S> &r)
{
  const words zero = {};
  for (int i = threadIdx.x; i < 2 * S::X_BYTES / 16; i += THREADS) ((words *)r.x)[i] = zero;
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; i++) {
      open_mailbox(&r.box[i]);
      expect_parcels(&r.box[i], CLUSTER * S::SENT_BYTES);
    }
  cluster_barrier();
}

/* What lies in `sent` goes to all blocks, into x of a round, which is the first or a later one. */
template <class S> FN void send_all(const rooms<S> &r, u32 rank, int round)
{
  T0 *const x = rooms<S>::buffer(r, round) + rank * S::OF_ROW * S::PER_PARCEL;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < CLUSTER * S::PARCELS; i += THREADS) {
    const int k = i + (int)threadIdx.x;
    if (k >= CLUSTER * S::PARCELS) break;
    const int parcel = k % S::PARCELS, row = parcel / S::OF_ROW, at = parcel % S::OF_ROW * S::PER_PARCEL;
    const u32 block = (rank + k / S::PARCELS) % CLUSTER; /* not all to the same one at a time */
    send_parcel(x + row * S::X_ROW + at, &r.box[round & 1], block, ((const words *)r.sent)[parcel]);
  }
}
/* ... has come from all blocks. */
template <class S> FN void receive_all(const rooms<S> &r, int round)
{
  wait_for_parcels(&r.box[round & 1], (round - 1) >> 1 & 1);
  if (threadIdx.x == 0) expect_parcels(&r.box[round & 1], CLUSTER * S::SENT_BYTES);
}

/* ---- products ---- */

#define STRIP ((int)threadIdx.x / TEAM % (M / HIGH))
#define SPLIT ((int)threadIdx.x / TEAM / (M / HIGH))

/* W::at(job, m, k): the weight in line m and column k of the block's.
 *
 * 16-bit floats: a team is a warp. Of 32 columns a thread has 8 that are neighbours, in the two lines of a fragment that
 * are its own: in which order columns are summed does not matter, so that one load of x feeds two instructions. */
template <class S, int M, class T> struct strip {
  words w[S::STEPS][2];
  template <class W, class J> FN void load(strip &s, const J &job, u32 rank)
  {
#pragma unroll
    for (int i = 0; i < S::STEPS * 2; i++) {
      pack<T0, 8> line;
      const int m = STRIP * HIGH + LANE / 4 + i % 2 * 8, k = (SPLIT * S::STEPS + i / 2) * DEEP + (LANE & 3) * 8;
#pragma unroll
      for (int j = 0; j < 8; j++) line.v[j] = W::at(job, rank, m, k + j);
      s.w[i / 2][i % 2] = *(const words *)&line;
    }
  }
  FN void multiply(const strip &s, const T0 *x, f32 *sums)
  {
    const T0 *const mine = x + (LANE / 4) * S::X_ROW + SPLIT * S::STEPS * DEEP + (LANE & 3) * 8;
    f32 *const out = sums + (SPLIT * ROWS + (LANE & 3) * 2) * S::SUM_ROW + STRIP * HIGH + LANE / 4;
    for (int row = 0; row < ROWS; row += 8) {
      f32 a[4][4] = {}; /* an instruction waits for the sums of the one before: four take turns */
#pragma unroll
      for (int i = 0; i < S::STEPS; i++) {
        const words q = *(const words *)(mine + row * S::X_ROW + i * DEEP);
        const words &u = s.w[i][0], &v = s.w[i][1];
        tensor_core<T>::multiply(a[i % 2 * 2], u.v[0], v.v[0], u.v[1], v.v[1], q.v[0], q.v[1]);
        tensor_core<T>::multiply(a[i % 2 * 2 + 1], u.v[2], v.v[2], u.v[3], v.v[3], q.v[2], q.v[3]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
        out[(row + i % 2) * S::SUM_ROW + i / 2 * 8] = (a[0][i] + a[1][i]) + (a[2][i] + a[3][i]);
    }
  }
};

/* Sums over the 16 threads of a team: that of v[i] in its thread i. HALF: 8. */
template <int HALF> FN f32 sum_and_deal(const f32 *v)
{
  if constexpr (HALF == 0) {
    return v[0];
  } else {
    const bool upper = LANE & HALF;
    f32 mine[HALF];
#pragma unroll
    for (int i = 0; i < HALF; i++)
      mine[i] = (upper ? v[i + HALF] : v[i]) + __shfl_xor_sync(FULL, upper ? v[i] : v[i + HALF], HALF);
    return sum_and_deal<HALF / 2>(mine);
  }
}

/* float32: a team is half a warp. Of 64 columns a thread has 4 neighbours, in 4 lines; rows go 4 at a time. */
template <class S, int M> struct strip<S, M, f32> {
  f32 w[S::STEPS][4][4];
  template <class W, class J> FN void load(strip &s, const J &job, u32 rank)
  {
#pragma unroll
    for (int i = 0; i < S::STEPS; i++)
#pragma unroll
      for (int j = 0; j < 16; j++)
        s.w[i][j / 4][j % 4] = get(W::at(job, rank, STRIP * HIGH + j / 4,
                                         (SPLIT * S::STEPS + i) * DEEP + (LANE & 15) * 4 + j % 4));
  }
  FN void multiply(const strip &s, const T0 *x, f32 *sums)
  {
    const T0 *const mine = x + SPLIT * S::STEPS * DEEP + (LANE & 15) * 4;
    f32 *const out = sums + (SPLIT * ROWS + (LANE & 15) / 4) * S::SUM_ROW + STRIP * HIGH + (LANE & 3);
    for (int row = 0; row < ROWS; row += 4) {
      f32 a[16] = {};
#pragma unroll
      for (int i = 0; i < S::STEPS; i++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const pack<f32, 4> q = *(const pack<f32, 4> *)(mine + (row + n) * S::X_ROW + i * DEEP);
#pragma unroll
          for (int j = 0; j < 16; j++) a[4 * n + j / 4] += s.w[i][j / 4][j % 4] * q.v[j % 4];
        }
      out[row * S::SUM_ROW] = sum_and_deal<8>(a);
    }
  }
};

/* Of line m, for a row of the cluster's. */
template <class S> FN f32 sum_of(const rooms<S> &r, int row, int m)
{
  f32 sum = 0;
#pragma unroll
  for (int i = 0; i < S::SPLITS; i++) sum += r.sums[(i * ROWS + row) * S::SUM_ROW + m];
  return sum;
}

/* ---- a thread's elements: its number e of a block is a column and a row, of the block and of the layer ---- */

struct element {
  int unit, row;
  i64 col, b;
  bool is, live; /* is it one of the block's, and of the layer's? */
};
FN element element_at(int i, u32 rank, i64 hidden, i64 batch)
{
  const int e = i * THREADS + (int)threadIdx.x;
  element a;
  a.unit = e % UNITS, a.row = e / UNITS;
  a.col = (i64)rank * UNITS + a.unit, a.b = (i64)(blockIdx.x / CLUSTER) * ROWS + a.row;
  a.is = a.row < ROWS;
  a.live = a.is && a.col < hidden && a.b < batch;
  return a;
}
#define EACH_ELEMENT(i, e) \
  _Pragma("unroll") for (int i = 0; i < EACH_HAS; i++) \
    if (const element e = element_at(i, rank, p.hidden, p.batch); e.is)

/* Step s is that of this time. */
template <class J> FN i64 time_of(const J &p, i64 s) { return p.reverse ? p.steps - 1 - s : s; }

/* ---- forward ---- */

struct chip_step_job {
  step_places own;
  const T0 *weights, *h0, *c0; /* (GATES H, H); (B, H) */
  i64 steps, batch, hidden, given_row, reverse;
};
typedef shape<GATES * UNITS, CLUSTER * UNITS, UNITS> forward_shape;

struct forward_weights {
  FN T0 at(const chip_step_job &p, u32 rank, int m, i64 k)
  {
    const i64 col = (i64)rank * UNITS + m % UNITS;
    return col < p.hidden && k < p.hidden ? p.weights[(m / UNITS * p.hidden + col) * p.hidden + k] : put<T0>(0);
  }
};

/* From the inputs, as it lies in memory: to convert it would be to wait for it. */
FN void fetch(const chip_step_job &p, const element &e, i64 s, T0 *x)
{
#pragma unroll
  for (int g = 0; g < GATES; g++)
    x[g] = e.live ? p.own.given[(time_of(p, s) * p.batch + e.b) * p.given_row + g * p.hidden + e.col] : put<T0>(0);
}

KERNEL(recurrent_chip_step, chip_step_job)
{
  typedef forward_shape S;
  const u32 rank = block_of_cluster();
  const rooms<S> r = divide<S>();
  const i64 H = p.hidden;
  strip<S, GATES * UNITS, T0> w;
  T0 given[EACH_HAS][GATES];
  A bias[EACH_HAS][GATES], hidden_bias[EACH_HAS], state[EACH_HAS];
  strip<S, GATES * UNITS, T0>::load<forward_weights>(w, p, rank);
  clear(r);
  const i64 first = (i64)(blockIdx.x / CLUSTER) * ROWS;
  for (int i = threadIdx.x, cols = (int)H; i < ROWS * cols; i += THREADS)
    if (first + i / cols < p.batch) r.x[i / cols * S::X_ROW + i % cols] = p.h0[first * H + i];
  EACH_ELEMENT(i, e)
  {
    state[i] = KEPT && e.live ? get((OP == lstm ? p.c0 : p.h0)[e.b * H + e.col]) : (A)0;
#pragma unroll
    for (int g = 0; g < GATES; g++) {
      bias[i][g] = e.live && p.own.b_ih ? get(p.own.b_ih[g * H + e.col]) : (A)0;
      hidden_bias[i] = e.live && p.own.b_hh ? get(p.own.b_hh[g * H + e.col]) : (A)0;
      if (OP != gru || g < 2) bias[i][g] += hidden_bias[i]; /* a GRU's last one is multiplied */
    }
    fetch(p, e, 0, given[i]);
  }
  __syncthreads();
  for (i64 s = 0; s < p.steps; s++) {
    const bool last = s + 1 == p.steps;
    A h[EACH_HAS], kept[EACH_HAS][KEPT_ROOM];
    if (s) receive_all(r, (int)s);
    strip<S, GATES * UNITS, T0>::multiply(w, rooms<S>::buffer(r, (int)s), r.sums);
    __syncthreads();
    EACH_ELEMENT(i, e)
    {
      A x[GATES], u[GATES];
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        x[g] = get(given[i][g]) + bias[i][g];
        u[g] = sum_of(r, e.row, g * UNITS + e.unit) + (OP == gru && g == 2 ? hidden_bias[i] : (A)0);
      }
      h[i] = next_state(x, u, state[i], kept[i]);
      r.sent[e.row * UNITS + e.unit] = put<T0>(e.live ? h[i] : (A)0);
    }
    if (!last) send_all(r, rank, (int)s + 1);
    EACH_ELEMENT(i, e)
    {
      const i64 at = time_of(p, s) * p.batch + e.b;
      if (!e.live) continue;
      p.own.output[at * H + e.col] = put<T0>(h[i]);
#pragma unroll
      for (int k = 0; k < KEPT; k++)
        if (p.own.saved) p.own.saved[(at * KEPT + k) * H + e.col] = put<T0>(kept[i][k]);
      if (last) p.own.last_h[e.b * H + e.col] = put<T0>(h[i]);
      if (last && OP == lstm) p.own.last_c[e.b * H + e.col] = put<T0>(state[i]);
      if (!last) fetch(p, e, s + 1, given[i]);
    }
  }
}

/* ---- backward ---- */

struct chip_back_job {
  back_places own;
  const T0 *weights; /* (GATES H, H) */
  i64 steps, batch, hidden, reverse;
};
typedef shape<UNITS, CLUSTER * GATES * UNITS, GATES * UNITS> backward_shape;

/* A column of the block's is a unit of x: of each block all gates, each of all its units. */
struct backward_weights {
  FN T0 at(const chip_back_job &p, u32 rank, int m, i64 k)
  {
    const i64 from = k / (GATES * UNITS) * UNITS + k % UNITS, gate = k / UNITS % GATES, col = (i64)rank * UNITS + m;
    return col < p.hidden && from < p.hidden ? p.weights[(gate * p.hidden + from) * p.hidden + col] : put<T0>(0);
  }
};

/* What the gradient of a step reads of an element, as above. */
struct step_kept {
  T0 kept[KEPT_ROOM], before, y, g_output;
};
FN void fetch(const chip_back_job &p, const element &e, i64 s, step_kept &f)
{
  const i64 H = p.hidden, at = time_of(p, s) * p.batch + e.b, was = time_of(p, s - 1) * p.batch + e.b;
  f.before = f.y = f.g_output = put<T0>(0);
#pragma unroll
  for (int k = 0; k < KEPT; k++) f.kept[k] = e.live ? p.own.saved[(at * KEPT + k) * H + e.col] : put<T0>(0);
  if (!e.live) return;
  if (KEPT && s == 0) f.before = p.own.first[e.b * H + e.col];
  else if (OP == lstm) f.before = p.own.saved[(was * KEPT + KEPT - 1) * H + e.col];
  else if (OP == gru) f.before = p.own.output[was * H + e.col];
  if (!KEPT) f.y = p.own.output[at * H + e.col];
  if (p.own.g_output) f.g_output = p.own.g_output[at * H + e.col];
}

KERNEL(recurrent_chip_back, chip_back_job)
{
  typedef backward_shape S;
  const u32 rank = block_of_cluster();
  const rooms<S> r = divide<S>();
  const i64 H = p.hidden;
  strip<S, UNITS, T0> w;
  A dh[EACH_HAS], state[EACH_HAS];
  step_kept f[EACH_HAS];
  strip<S, UNITS, T0>::load<backward_weights>(w, p, rank);
  clear(r);
  EACH_ELEMENT(i, e)
  {
    dh[i] = e.live && p.own.g_h ? get(p.own.g_h[e.b * H + e.col]) : (A)0;
    state[i] = OP == lstm && e.live && p.own.g_c ? get(p.own.g_c[e.b * H + e.col]) : (A)0;
    fetch(p, e, p.steps - 1, f[i]);
  }
  for (i64 done = 0; done < p.steps; done++) {
    const i64 s = p.steps - 1 - done, at = time_of(p, s) * p.batch;
    A d[EACH_HAS][GATES], hidden[EACH_HAS];
    EACH_ELEMENT(i, e)
    {
      A kept[KEPT_ROOM];
#pragma unroll
      for (int k = 0; k < KEPT; k++) kept[k] = get(f[i].kept[k]);
      gate_gradients(kept, get(f[i].before), get(f[i].y), dh[i] + get(f[i].g_output), state[i], d[i]);
      hidden[i] = OP == gru ? d[i][GATES - 1] * kept[0] : 0; /* what is behind the reset gate */
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        const A sent = OP == gru && g == 2 ? hidden[i] : d[i][g];
        r.sent[(e.row * GATES + g) * UNITS + e.unit] = put<T0>(e.live ? sent : (A)0);
      }
    }
    send_all(r, rank, (int)done + 1);
    EACH_ELEMENT(i, e)
    {
      if (!e.live) continue;
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        const i64 to = ((at + e.b) * GATES + g) * H + e.col;
        p.own.g_given[to] = put<T0>(d[i][g]);
        if (OP == gru) p.own.g_hidden[to] = put<T0>(g == 2 ? hidden[i] : d[i][g]);
      }
      if (s) fetch(p, e, s - 1, f[i]);
    }
    receive_all(r, (int)done + 1);
    strip<S, UNITS, T0>::multiply(w, rooms<S>::buffer(r, (int)done + 1), r.sums);
    __syncthreads();
    EACH_ELEMENT(i, e) dh[i] = sum_of(r, e.row, e.unit) + (OP == gru ? state[i] : (A)0);
  }
  EACH_ELEMENT(i, e)
  {
    if (!e.live) continue;
    p.own.g_h0[e.b * H + e.col] = put<T0>(dh[i]);
    if (OP == lstm) p.own.g_c0[e.b * H + e.col] = put<T0>(state[i]);
  }
}
