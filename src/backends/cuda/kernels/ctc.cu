/* ctc.cu: the CTC loss of sequences, and its gradient, as the CPU's (backends/cpu/sequence/ctc.c).
 *
 * T0 is the type of x. Labels are read as blank, l1, blank, l2, ..., blank: the states. A block goes through the times of
 * a sequence, a thread a state (ctc_sweep), forward and, for the gradient, another block backward; then each time has a
 * block (ctc_gradient). Invariant: sums over ways are float64, and a sequence whose lengths or labels are out of range is
 * reported and reads nothing. */
#include "codegen/device.cuh"
#include "common.cuh"

struct ctc_job {
  const T0 *x;              /* (times, sequences, classes) */
  const i64 *targets;       /* (sequences, most_labels); flat: (most_labels), one sequence after another */
  const i64 *input_lengths, *target_lengths; /* (sequences) */
  const T0 *grad;           /* (sequences) */
  T0 *y;                    /* (sequences); gradient: like x */
  f64 *alpha, *beta;        /* room of all sequences for rows of states: of all times, or two */
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

FN f64 sum_logs(f64 a, f64 b, f64 c)
{
  const f64 most = larger(larger(a, b), c);
  if (most == -INF_F64 || most == INF_F64) return most;
  return most + log(exp(a - most) + exp(b - most) + exp(c - most));
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

/* Room for two rows in shared memory, or else there. */
FN f64 *two_rows(const ctc_job &p, const sequence &s, f64 *there)
{
  DYNAMIC_SHARED(f64, room);
  return 2 * s.states * (i64)sizeof(f64) <= p.shared ? room : there;
}

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

/* Logarithms of the probabilities of all ways to each state and time, from the first, or back from the last; those of
 * the last time gone through stay in the row that is returned. Rows are in `two`, by turns, or in `all`, where they stay
 * in any case; either may be NULL. What a thread's first state wants of the next time is read a time ahead. */
FN const f64 *sweep(const ctc_job &p, const sequence &s, bool back, f64 *two, f64 *all)
{
  const i64 most = s.states - 1, mine = threadIdx.x < s.states ? threadIdx.x : 0;
#define AT(k) (back ? most - (k) : (k)) /* the k-th state on the way */
#define TIME(i) (back ? s.steps - 1 - (i) : (i))
  if (s.steps == 0) return NULL;
  const i64 first = label_of(p, s, AT(mine));
  T0 ahead = probs_at(p, s, TIME(0))[first];
  f64 *now = NULL;
  for (i64 i = 0; i < s.steps; i++) {
    const T0 *const probs = probs_at(p, s, TIME(i));
    const T0 next = i + 1 < s.steps ? probs_at(p, s, TIME(i + 1))[first] : ahead;
    const f64 *const last = now;
    now = two ? two + (i & 1) * s.states : all + TIME(i) * s.states;
    EACH_OF_BLOCK(k, s.states)
    {
      const i64 here = label_of(p, s, AT(k));
      const bool skips = k > 1 && label_of(p, s, AT(k - 2)) != here;
      f64 sum = k < 2 ? 0 : -INF_F64;
      if (i) sum = sum_logs(last[AT(k)], k ? last[AT(k - 1)] : -INF_F64, skips ? last[AT(k - 2)] : -INF_F64);
      sum += (f64)get(k < THREADS ? ahead : probs[here]);
      now[AT(k)] = sum;
      if (two && all) all[TIME(i) * s.states + AT(k)] = sum;
    }
    ahead = next;
    __syncthreads();
  }
  return now;
#undef AT
#undef TIME
}

/* end: the last row of a sweep from the first time. */
FN f64 loss_of(const sequence &s, const f64 *end)
{
  if (s.steps == 0) return s.states == 1 ? 0 : INF_F64;
  return -sum_logs(end[s.states - 1], s.states > 1 ? end[s.states - 2] : -INF_F64, -INF_F64);
}

KERNEL(ctc_forward, ctc_job)
{
  const sequence s = sequence_of(p, blockIdx.x, true);
  if (!s.fits) return;
  const f64 loss = loss_of(s, sweep(p, s, false, two_rows(p, s, p.alpha + room_of(p, s)), NULL));
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
  const f64 *end = sweep(p, s, back, two_rows(p, s, NULL), (back ? p.beta : p.alpha) + room_of(p, s));
  if (back) return;
  find_links(p, s);
  if (threadIdx.x == 0) p.losses[s.n] = loss_of(s, end);
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
    const f64 *const alpha = p.alpha + room_of(p, s) + t * s.states, *const beta = p.beta + (alpha - p.alpha);
    EACH_OF_BLOCK(j, s.count)
    {
      const i64 *const links = p.links + s.start;
      if (links[j] < 0 || s.labels[j] == p.blank) continue;
      f64 all = -INF_F64;
      for (i64 i = j; i < s.count; i = (links[i] < 0 ? -links[i] : links[i]) - 1)
        all = sum_logs(all, alpha[2 * i + 1] + beta[2 * i + 1], -INF_F64);
      put_gradient(p, probs, y, s.labels[j], all, loss, scale);
    }
    f64 most = -INF_F64, sum = 0;
    EACH_OF_BLOCK(k, s.states)
      if (label_of(p, s, k) == p.blank) most = larger(most, alpha[k] + beta[k]);
    most = block_max(most);
    EACH_OF_BLOCK(k, s.states)
      if (label_of(p, s, k) == p.blank && most != -INF_F64) sum += exp(alpha[k] + beta[k] - most);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
      put_gradient(p, probs, y, p.blank, most == -INF_F64 ? most : most + log(sum), loss, scale);
  }
}
