/* ctc.cu: the CTC loss of sequences, and its gradient, as the CPU's (backends/cpu/sequence/ctc.c).
 *
 * T0 is the type of x. Labels are read as blank, l1, blank, l2, ..., blank: the states. A block goes through the times
 * of a sequence, a thread a state (ctc_sweep), forward and, for the gradient, another block backward; then each time
 * has a block (ctc_gradient). Times wait for each other, so what lies between two of them is short: probabilities are
 * numbers with exponents of their own (scaled), which are added and multiplied without a logarithm, and those of labels
 * are read and made such numbers a few times ahead. Invariant: sums over ways are float64, and a sequence whose lengths
 * or labels are out of range is reported and reads nothing. */
#include "codegen/device.cuh"
#include "common.cuh"

/* m 2^e, m from 1 to 2, or 0, or not a number: as far down as ways of many times go. */
struct alignas(16) scaled {
  f64 m;
  i64 e;
};

struct ctc_job {
  const T0 *x;              /* (times, sequences, classes) */
  const i64 *targets;       /* (sequences, most_labels); flat: (most_labels), one sequence after another */
  const i64 *input_lengths, *target_lengths; /* (sequences) */
  const T0 *grad;           /* (sequences) */
  T0 *y;                    /* (sequences); gradient: like x */
  scaled *alpha, *beta;     /* room of all sequences for rows of states: of all times, or two */
  f64 *losses;              /* gradient: (sequences) */
  i64 *starts;              /* gradient: (sequences), where labels begin; below zero: out of range */
  i64 *links;               /* gradient: 1 + where a label comes next, below zero but at its first place */
  i64 times, sequences, classes, most_labels, blank, alpha_rows;
  i32 flat, zero_infinity, shared, unused; /* shared: bytes of shared memory, for two rows of most sequences */
  fault_slot fault;
};

/* What a block knows of its sequence. */
struct sequence {
  const i64 *labels;
  i64 n, start, steps, count, states;
  bool fits;
};

FN f64 sum_logs(f64 a, f64 b)
{
  const f64 most = larger(a, b);
  if (most == -INF_F64 || most == INF_F64) return most;
  return most + log(exp(a - most) + exp(b - most));
}

#define NO_WAY (scaled{0, -(1ll << 60)})
#define LN_2 0.693147180559945309417

/* 2^e for e of 0 and below. */
FN f64 power_of_2(i64 e) { return e > -1000 ? __longlong_as_double((1023 + e) << 52) : 0; }

FN scaled plus(const scaled &a, const scaled &b, const scaled &c)
{
  const i64 ab = a.e > b.e ? a.e : b.e, most = ab > c.e ? ab : c.e;
  return scaled{a.m * power_of_2(a.e - most) + b.m * power_of_2(b.e - most) + c.m * power_of_2(c.e - most), most};
}
FN scaled times(const scaled &a, const scaled &b)
{
  const f64 m = a.m * b.m;
  const i64 bits = __double_as_longlong(m), field = bits >> 52 & 0x7ff;
  if (field == 0x7ff) return scaled{m, a.e + b.e};
  if (field == 0) return NO_WAY;
  return scaled{__longlong_as_double((bits & ~(0x7ffll << 52)) | 1023ll << 52), a.e + b.e + field - 1023};
}
FN f64 log_of(const scaled &v) { return log(v.m) + (f64)v.e * LN_2; }

/* e^v: 2^n times the series of e^f, |f| at most ln 2 / 2, to 1e-16. Below e^-10^15 there is no way. */
FN scaled exp_of(f64 v)
{
  const f64 n = rint(v * 1.44269504088896338700);
  const f64 f = v - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10; /* ln 2 in two parts */
  if (v < -1e15) return NO_WAY;
  f64 m = 1.0 / 479001600;
  m = m * f + 1.0 / 39916800;
  m = m * f + 1.0 / 3628800;
  m = m * f + 1.0 / 362880;
  m = m * f + 1.0 / 40320;
  m = m * f + 1.0 / 5040;
  m = m * f + 1.0 / 720;
  m = m * f + 1.0 / 120;
  m = m * f + 1.0 / 24;
  m = m * f + 1.0 / 6;
  m = m * f + 0.5;
  m = m * f + 1;
  return scaled{m * f + 1, v <= 1e15 ? (i64)n : 0};
}

FN i64 label_of(const ctc_job &p, const sequence &s, i64 k) { return k & 1 ? s.labels[k / 2] : p.blank; }
FN const T0 *probs_at(const ctc_job &p, const sequence &s, i64 t)
{
  return p.x + (t * p.sequences + s.n) * p.classes;
}
/* Where its rows of states begin: behind those of the sequences before. */
FN i64 room_of(const ctc_job &p, const sequence &s)
{
  return (p.flat ? 2 * s.start + s.n : s.n * (2 * p.most_labels + 1)) * p.alpha_rows;
}

/* Are two rows of its states in shared memory? */
FN bool is_shared(const ctc_job &p, const sequence &s) { return 2 * s.states * (i64)sizeof(scaled) <= p.shared; }

#define EACH_OF_BLOCK(i, n) for (i64 i = threadIdx.x; i < (n); i += THREADS)

FN sequence sequence_at(const ctc_job &p, i64 n, i64 start)
{
  sequence s;
  s.n = n;
  s.start = start;
  s.steps = p.input_lengths[n];
  s.count = p.target_lengths[n];
  s.labels = p.targets + start;
  s.states = 2 * s.count + 1;
  s.fits = true;
  return s;
}

/* The same, and is it in range? All threads of the block call it; one reports. */
FN sequence sequence_of(const ctc_job &p, i64 n, bool reports)
{
  i64 before = 0, bad = 0;
  if (p.flat)
    EACH_OF_BLOCK(i, n) before += p.target_lengths[i];
  sequence s = sequence_at(p, n, p.flat ? block_sum(before) : n * p.most_labels);
  const i64 left = p.flat ? p.most_labels - s.start : p.most_labels;
  s.fits = s.steps >= 0 && s.steps <= p.times && s.start >= 0 && s.count >= 0 && s.count <= left;
  if (!s.fits && reports && threadIdx.x == 0) report_fault(p.fault, FAULT_VALUE, s.count, left);
  if (s.fits)
    EACH_OF_BLOCK(i, s.count)
      if (s.labels[i] < 0 || s.labels[i] >= p.classes) {
        if (reports) report_fault(p.fault, FAULT_CLASS, s.labels[i], p.classes);
        bad = 1;
      }
  s.fits = block_sum(bad) == 0 && s.fits;
  return s;
}

/* The k-th state on the way, a time in turn, and where the states before are. */
#define AT(k) (back ? s.states - 1 - (k) : (k))
#define TIME(i) (back ? s.steps - 1 - (i) : (i))
#define BEFORE (back ? 1 : -1)

/* What state k on the way has by one time from what the states had at the last one; `own` is what it had itself. */
FN scaled ways_to(const scaled *last, const scaled &own, i64 at, i64 k, bool skips, int before, bool begins)
{
  if (begins) return k < 2 ? scaled{1, 0} : NO_WAY;
  return plus(own, k ? last[at + before] : NO_WAY, skips ? last[at + 2 * before] : NO_WAY);
}

/* Of times i to i + AHEAD - 1, what a thread's first state reads. */
enum { AHEAD = 4 };
struct some {
  T0 v[AHEAD];
};
FN some read_ahead(const ctc_job &p, const sequence &s, i64 label, bool back, i64 i)
{
  some made;
#pragma unroll
  for (int u = 0; u < AHEAD; u++) made.v[u] = i + u < s.steps ? probs_at(p, s, TIME(i + u))[label] : put<T0>(0);
  return made;
}

/* Probabilities of all ways to each state and time, from the first, or back from the last; those of the last time gone
 * through stay in the row that is returned. Rows are in `two`, by turns, which is shared memory where SHARED; where
 * they are to stay (STAYS), in `all`, too, or only there. */
template <bool SHARED, bool STAYS>
FN const scaled *sweep(const ctc_job &p, const sequence &s, bool back, scaled *two, scaled *all)
{
  const i64 mine = threadIdx.x < s.states ? threadIdx.x : 0, label = label_of(p, s, AT(mine));
  const bool mine_skips = mine > 1 && label_of(p, s, AT(mine - 2)) != label;
  if (s.steps == 0) return NULL;
  some soon = read_ahead(p, s, label, back, 0);
  scaled own = NO_WAY, *now = NULL;
  for (i64 i = 0; i < s.steps; i += AHEAD) {
    scaled probs[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++) probs[u] = exp_of((f64)get(soon.v[u]));
    soon = read_ahead(p, s, label, back, i + AHEAD);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const i64 t = TIME(i + u);
      if (i + u >= s.steps) break;
      const scaled *const last = now;
      now = SHARED || !STAYS ? two + ((i + u) & 1) * s.states : all + t * s.states;
      own = times(ways_to(last, own, AT(mine), mine, mine_skips, BEFORE, i + u == 0), probs[u]);
      if (threadIdx.x < s.states) {
        now[AT(mine)] = own;
        if (SHARED && STAYS) all[t * s.states + AT(mine)] = own;
      }
      for (i64 k = threadIdx.x + THREADS; k < s.states; k += THREADS) { /* more states than threads */
        const i64 here = label_of(p, s, AT(k));
        const scaled had = i + u ? last[AT(k)] : NO_WAY;
        const scaled has = times(ways_to(last, had, AT(k), k, label_of(p, s, AT(k - 2)) != here, BEFORE, i + u == 0),
                                 exp_of((f64)get(probs_at(p, s, t)[here])));
        now[AT(k)] = has;
        if (SHARED && STAYS) all[t * s.states + AT(k)] = has;
      }
      __syncthreads();
    }
  }
  return now;
}
/* With rows in shared memory if they fit there. */
template <bool STAYS> FN const scaled *sweep_all(const ctc_job &p, const sequence &s, bool back, scaled *there)
{
  DYNAMIC_SHARED(scaled, room);
  return is_shared(p, s) ? sweep<true, STAYS>(p, s, back, room, there) : sweep<false, STAYS>(p, s, back, there, there);
}

/* end: the last row of a sweep from the first time. */
FN f64 loss_of(const sequence &s, const scaled *end)
{
  if (s.steps == 0) return s.states == 1 ? 0 : INF_F64;
  return -log_of(plus(end[s.states - 1], s.states > 1 ? end[s.states - 2] : NO_WAY, NO_WAY));
}

KERNEL(ctc_forward, ctc_job)
{
  const sequence s = sequence_of(p, blockIdx.x, true);
  if (!s.fits) return;
  const f64 loss = loss_of(s, sweep_all<false>(p, s, false, p.alpha + room_of(p, s)));
  if (threadIdx.x == 0) p.y[s.n] = put<T0>(p.zero_infinity && loss == INF_F64 ? (f64)0 : loss);
}

/* Places of the same label are one chain, which the thread of the first one walks. */
FN void find_links(const ctc_job &p, const sequence &s)
{
  EACH_OF_BLOCK(j, s.count)
  {
    i64 next = j + 1, first = j;
    while (next < s.count && s.labels[next] != s.labels[j]) next++;
    while (first > 0 && s.labels[first - 1] != s.labels[j]) first--;
    const i64 link = 1 + next;
    p.links[s.start + j] = first > 0 ? -link : link;
  }
}

/* Of blocks with blockIdx.y 0 from the first time, of those with 1 back from the last. */
KERNEL(ctc_sweep, ctc_job)
{
  const bool back = blockIdx.y != 0;
  const sequence s = sequence_of(p, blockIdx.x, !back);
  if (!back && threadIdx.x == 0) p.starts[s.n] = s.fits ? s.start : -1;
  if (!s.fits) return;
  const scaled *const end = sweep_all<true>(p, s, back, (back ? p.beta : p.alpha) + room_of(p, s));
  if (back) return;
  find_links(p, s);
  if (threadIdx.x == 0) p.losses[s.n] = loss_of(s, end);
}

/* The logarithm of the probability of all ways through a state at one time. */
FN f64 ways_through(const scaled &alpha, const scaled &beta)
{
  return log(alpha.m * beta.m) + (f64)(alpha.e + beta.e) * LN_2;
}

/* The gradient at one time, of class c, whose ways' probabilities have this logarithm. */
FN void put_gradient(const ctc_job &p, const T0 *probs, T0 *y, i64 c, f64 ways, f64 loss, f64 scale)
{
  const f64 lp = get(probs[c]);
  y[c] = put<T0>((exp(lp) - exp(ways + loss - lp)) * scale);
}

/* blockIdx.x is the time, sequences follow each other. */
KERNEL(ctc_gradient, ctc_job)
{
  const i64 t = blockIdx.x;
  for (i64 n = blockIdx.y; n < p.sequences; n += gridDim.y) {
    if (p.starts[n] < 0) continue;
    const sequence s = sequence_at(p, n, p.starts[n]);
    const f64 loss = p.losses[n], scale = get(p.grad[n]);
    const T0 *const probs = probs_at(p, s, t);
    T0 *const y = p.y + (probs - p.x);
    const bool nothing = (p.zero_infinity && loss == INF_F64) || t >= s.steps;
    EACH_OF_BLOCK(c, p.classes)
    {
      if (nothing) y[c] = put<T0>(0);
      else put_gradient(p, probs, y, c, -INF_F64, loss, scale);
    }
    if (nothing) continue;
    __syncthreads(); /* then those of labels, and of blanks */
    const scaled *const alpha = p.alpha + room_of(p, s) + t * s.states, *const beta = p.beta + (alpha - p.alpha);
    EACH_OF_BLOCK(j, s.count)
    {
      const i64 *const links = p.links + s.start;
      if (links[j] < 0 || s.labels[j] == p.blank) continue;
      f64 all = -INF_F64;
      for (i64 i = j; i < s.count; i = (links[i] < 0 ? -links[i] : links[i]) - 1)
        all = sum_logs(all, ways_through(alpha[2 * i + 1], beta[2 * i + 1]));
      put_gradient(p, probs, y, s.labels[j], all, loss, scale);
    }
    f64 most = -INF_F64, sum = 0;
    EACH_OF_BLOCK(k, s.states)
      if (label_of(p, s, k) == p.blank) most = larger(most, ways_through(alpha[k], beta[k]));
    most = block_max(most);
    EACH_OF_BLOCK(k, s.states)
      if (label_of(p, s, k) == p.blank && most != -INF_F64) sum += exp(ways_through(alpha[k], beta[k]) - most);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
      put_gradient(p, probs, y, p.blank, most == -INF_F64 ? most : most + log(sum), loss, scale);
  }
}
