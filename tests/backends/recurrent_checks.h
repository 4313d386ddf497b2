/* recurrent_checks.h: one direction of a recurrent layer on a device, results and gradients, against the CPU's float64
 * from the same rounded numbers.
 *
 * Place in the flow: included behind emulated.h or on_cuda.h, which say what `there` and `close_to` are; the programs
 * choose sizes, because layers of few and of many units go different ways. Invariant: every check can fail.
 *
 * Products add in another order, and 16-bit floats are rounded at other places: values are compared with a
 * tolerance. */
#ifndef CNI_TESTS_RECURRENT_CHECKS_H
#define CNI_TESTS_RECURRENT_CHECKS_H

#include <cairn/ext/parts.h>

typedef struct recurrent_case {
  int64_t steps, batch, input, hidden; /* steps 0: packed, 3 2 1 rows */
} recurrent_case;
enum { RECURRENT_INPUTS = 7, RECURRENT_RESULTS = 3 };

/* Results of one direction of one layer, and the gradients of what it reads, on the device of its operands. */
static inline void run_recurrent(cn_tensor **in, const char *mode, bool reverse, bool packed, cn_tensor **out)
{
  static const int64_t sizes[] = {3, 2, 1};
  cn_tensor *saved, *loss = NULL;
  /* Gradients of weights are sums over all rows: of many the roundings of 16 bits would be all that is seen. */
  double rows = (double)cn_numel(in[0]) / (double)cn_size(in[0], -1), most = rows > 16 ? 4 / sqrt(rows) : 1;
  for (int i = 0; i < RECURRENT_INPUTS; i++)
    if (in[i]) cn_requires_grad(in[i], true);
  cn_recurrent_sequence(&out[0], &out[1], &out[2], &saved, in[0], in[1], in[2], in[3], in[4], in[5], in[6], mode,
                        .reverse = reverse, .keep = true, .batch_sizes = {packed ? sizes : NULL, packed ? 3 : 0});
  assert_int_equal(cn_err(), 0);
  for (int i = 0; i < RECURRENT_RESULTS; i++) { /* every element has another gradient */
    cn_tensor *x = cn_reshape(out[i], CN_SHAPE(cn_numel(out[i])));
    cn_tensor *g = cn_linspace(-most, most, cn_numel(x), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
    cn_tensor *part = cn_sum(cn_cast(cn_mul(x, g), CN_F64));
    loss = loss ? cn_add(loss, part) : part;
  }
  assert_int_equal(cn_backward(loss), 0);
  for (int i = 0; i < RECURRENT_INPUTS; i++)
    out[RECURRENT_RESULTS + i] = in[i] ? cn_grad_of(in[i]) : out[0];
}

/* float32: gradients go through as many products as there are steps, each of which adds up in another order. */
static inline double recurrent_tolerance(cn_dtype dtype)
{
  return dtype == CN_F64 ? 1e-12 : dtype == CN_F32 ? 2e-5 : dtype == CN_F16 ? 4e-3 : 3e-2;
}

static inline void check_recurrent(const recurrent_case *k, const char *mode, cn_dtype dtype, bool reverse, bool biases)
{
  int64_t T = k->steps, B = T ? k->batch : 3, H = k->hidden, gates = *mode == 'l' ? 4 : *mode == 'g' ? 3 : 1;
  cn_tensor *in[RECURRENT_INPUTS] = {NULL}, *far[RECURRENT_INPUTS] = {NULL};
  cn_tensor *want[RECURRENT_RESULTS + RECURRENT_INPUTS], *have[RECURRENT_RESULTS + RECURRENT_INPUTS];
  char what[80];
  in[0] = T ? cn_randn(CN_SHAPE(T, B, k->input)) : cn_randn(CN_SHAPE(6, k->input));
  in[1] = cn_randn(CN_SHAPE(gates * H, k->input));
  in[2] = cn_randn(CN_SHAPE(gates * H, H));
  in[3] = cn_randn(CN_SHAPE(B, H));
  if (biases) in[4] = cn_randn(CN_SHAPE(gates * H)), in[5] = cn_randn(CN_SHAPE(gates * H));
  if (gates == 4) in[6] = cn_randn(CN_SHAPE(B, H));
  for (int i = 0; i < RECURRENT_INPUTS; i++) {
    if (!in[i]) continue;
    in[i] = cn_cast(cn_mul(in[i], cn_num(i == 1 || i == 2 ? 0.5 / sqrt((double)H) : 0.5)), dtype);
    far[i] = cn_detach(there(in[i]));
    in[i] = cn_detach(cn_cast(in[i], CN_F64)); /* sums of gradients cancel: roundings of the CPU's would be seen, too */
  }
  run_recurrent(in, mode, reverse, !T, want);
  run_recurrent(far, mode, reverse, !T, have);
  for (int i = 0; i < RECURRENT_RESULTS + RECURRENT_INPUTS; i++) {
    snprintf(what, sizeof what, "%s of %s, %lld steps, H %lld, number %d", mode, cn_dtype_name(dtype), (long long)T,
             (long long)H, i);
    close_to(what, cn_cast(want[i], dtype), have[i], recurrent_tolerance(dtype));
  }
}

/* A state that has become infinite stays so: what fills blocks beyond the layer's columns is 0 times infinity. */
static inline void check_infinity(int64_t hidden)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(5, 1, 1)), *w = cn_zeros(CN_SHAPE(hidden, 1)), *y, *h, *c;
  cn_tensor *u = cn_full(CN_SHAPE(hidden, hidden), 2), *first = cn_full(CN_SHAPE(1, hidden), 6e4);
  cn_tensor *in[] = {x, w, u, first};
  for (int i = 0; i < 4; i++) in[i] = there(cn_cast(in[i], CN_F16));
  cn_recurrent_sequence(&y, &h, &c, NULL, in[0], in[1], in[2], in[3], NULL, NULL, NULL, "relu");
  assert_int_equal(cn_err(), 0);
  y = cn_cast(cn_to_device(y, CN_CPU), CN_F64);
  const double *value = cn_data(y);
  for (int64_t i = 0; i < cn_numel(y); i++) assert_true(isinf(value[i]) && value[i] > 0);
  cn_scope_end(s);
}

#endif
