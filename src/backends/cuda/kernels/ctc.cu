/* ctc.cu: the CTC loss of sequences, and its gradient, as the CPU's (backends/cpu/sequence/ctc.c) with a block for each
 * sequence: the states of a time are its threads', times follow each other.
 *
 * T0 is the type of x. Labels are read as blank, l1, blank, l2, ..., blank. Invariant: sums over ways are float64, and
 * a sequence whose lengths or labels are out of range is reported and reads nothing. */
#include "codegen/device.cuh"
#include "common.cuh"

struct ctc_job {
  const T0 *x;              /* (times, sequences, classes) */
  const i64 *targets;       /* (sequences, most_labels); flat: (most_labels), one sequence after another */
  const i64 *input_lengths, *target_lengths; /* (sequences) */
  const T0 *grad;           /* (sequences) */
  T0 *y;                    /* (sequences); gradient: like x */
  f64 *alpha, *beta, *ways; /* room of all sequences: alpha_rows and 2 rows of states, and the classes */
  i64 *links;               /* gradient: 1 + where a label comes next, below zero but at its first place */
  i64 times, sequences, classes, most_labels, blank, alpha_rows;
  i32 flat, zero_infinity;
  fault_slot fault;
};

/* What a block knows of its sequence. */
struct sequence {
  const i64 *labels;
  i64 n, start, steps, count, states;
  f64 *alpha, *beta, *ways;
  i64 *links;
  bool fits;
};

FN f64 add_logs(f64 a, f64 b)
{
  const f64 most = a > b ? a : b, least = a > b ? b : a;
  return least == -INF_F64 ? most : most + log1p(exp(least - most));
}

FN i64 label_of(const ctc_job &p, const sequence &s, i64 k) { return k & 1 ? s.labels[k / 2] : p.blank; }
FN f64 log_prob(const ctc_job &p, const sequence &s, i64 t, i64 c)
{
  return get(p.x[(t * p.sequences + s.n) * p.classes + c]);
}

#define EACH_OF_BLOCK(i, n) for (i64 i = threadIdx.x; i < (n); i += THREADS)

/* All threads of the block call it. */
FN sequence sequence_of(const ctc_job &p, i64 n)
{
  sequence s;
  i64 before = 0, bad = 0;
  if (p.flat)
    EACH_OF_BLOCK(i, n) before += p.target_lengths[i];
  s.n = n;
  s.start = p.flat ? block_sum(before) : n * p.most_labels;
  s.steps = p.input_lengths[n];
  s.count = p.target_lengths[n];
  const i64 left = p.flat ? p.most_labels - s.start : p.most_labels;
  s.fits = s.steps >= 0 && s.steps <= p.times && s.start >= 0 && s.count >= 0 && s.count <= left;
  if (!s.fits && threadIdx.x == 0) report_fault(p.fault, FAULT_VALUE, s.count, left);
  s.labels = p.targets + s.start;
  s.states = 2 * s.count + 1;
  if (s.fits)
    EACH_OF_BLOCK(i, s.count)
      if (s.labels[i] < 0 || s.labels[i] >= p.classes) {
        report_fault(p.fault, FAULT_CLASS, s.labels[i], p.classes);
        bad = 1;
      }
  s.fits = block_sum(bad) == 0 && s.fits;
  const i64 room = p.flat ? 2 * s.start + n : n * (2 * p.most_labels + 1); /* states of the sequences before */
  s.alpha = p.alpha + room * p.alpha_rows;
  s.beta = p.beta + room * 2;
  s.ways = p.ways + n * p.classes;
  s.links = p.links + s.start;
  return s;
}

/* The loss, in every thread; alpha's last p.alpha_rows times stay. */
FN f64 run_forward(const ctc_job &p, const sequence &s)
{
  if (s.steps == 0) return s.states == 1 ? 0 : INF_F64;
  EACH_OF_BLOCK(k, s.states) s.alpha[k] = k < 2 ? log_prob(p, s, 0, label_of(p, s, k)) : -INF_F64;
  __syncthreads();
  for (i64 t = 1; t < s.steps; t++) {
    const f64 *last = s.alpha + (t - 1) % p.alpha_rows * s.states;
    f64 *now = s.alpha + t % p.alpha_rows * s.states;
    EACH_OF_BLOCK(k, s.states)
    {
      const i64 here = label_of(p, s, k);
      f64 sum = last[k];
      if (k > 0) sum = add_logs(sum, last[k - 1]);
      if (k > 1 && label_of(p, s, k - 2) != here) sum = add_logs(sum, last[k - 2]);
      now[k] = sum + log_prob(p, s, t, here);
    }
    __syncthreads();
  }
  const f64 *end = s.alpha + (s.steps - 1) % p.alpha_rows * s.states;
  return -(s.states > 1 ? add_logs(end[s.states - 1], end[s.states - 2]) : end[0]);
}

KERNEL(ctc_forward, ctc_job)
{
  const sequence s = sequence_of(p, blockIdx.x);
  if (!s.fits) return;
  const f64 loss = run_forward(p, s);
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
    s.links[j] = first > 0 ? -link : link;
  }
  __syncthreads();
}

FN void step_back(const ctc_job &p, const sequence &s, i64 t, f64 *now, const f64 *next)
{
  const bool last = t == s.steps - 1;
  EACH_OF_BLOCK(k, s.states)
  {
    const i64 here = label_of(p, s, k);
    f64 sum = last ? (k >= s.states - 2 ? 0 : -INF_F64) : next[k];
    if (!last && k + 1 < s.states) sum = add_logs(sum, next[k + 1]);
    if (!last && k + 2 < s.states && label_of(p, s, k + 2) != here) sum = add_logs(sum, next[k + 2]);
    now[k] = sum + log_prob(p, s, t, here);
  }
  __syncthreads();
}

/* ways[c]: the logarithm of the probability of all ways through label c at a time, for labels of the sequence. */
FN void sum_ways(const ctc_job &p, const sequence &s, const f64 *alpha, const f64 *beta)
{
  f64 most = -INF_F64, sum = 0;
  EACH_OF_BLOCK(j, s.count)
  {
    if (s.links[j] < 0 || s.labels[j] == p.blank) continue;
    f64 all = -INF_F64;
    for (i64 i = j; i < s.count; i = (s.links[i] < 0 ? -s.links[i] : s.links[i]) - 1)
      all = add_logs(all, alpha[2 * i + 1] + beta[2 * i + 1]);
    s.ways[s.labels[j]] = all;
  }
  EACH_OF_BLOCK(k, s.states)
    if (label_of(p, s, k) == p.blank) most = larger(most, alpha[k] + beta[k]);
  most = block_max(most);
  EACH_OF_BLOCK(k, s.states)
    if (label_of(p, s, k) == p.blank && most != -INF_F64) sum += exp(alpha[k] + beta[k] - most);
  sum = block_sum(sum);
  if (threadIdx.x == 0) s.ways[p.blank] = most == -INF_F64 ? most : most + log(sum);
  __syncthreads();
}

KERNEL(ctc_backward, ctc_job)
{
  const sequence s = sequence_of(p, blockIdx.x);
  if (!s.fits) return;
  const f64 loss = run_forward(p, s), scale = get(p.grad[s.n]);
  const bool nothing = p.zero_infinity && loss == INF_F64;
  EACH_OF_BLOCK(c, p.classes) s.ways[c] = -INF_F64;
  find_links(p, s);
  for (i64 t = p.times - 1; t >= 0; t--) {
    T0 *const y = p.y + (t * p.sequences + s.n) * p.classes;
    if (nothing || t >= s.steps) {
      EACH_OF_BLOCK(c, p.classes) y[c] = put<T0>(0);
      continue;
    }
    f64 *const now = s.beta + t % 2 * s.states, *const next = s.beta + (t + 1) % 2 * s.states;
    step_back(p, s, t, now, next);
    sum_ways(p, s, s.alpha + t * s.states, now);
    EACH_OF_BLOCK(c, p.classes)
    {
      const f64 lp = log_prob(p, s, t, c);
      y[c] = put<T0>((exp(lp) - exp(s.ways[c] + loss - lp)) * scale);
    }
    __syncthreads(); /* before ways change */
  }
}
