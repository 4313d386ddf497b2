/* test_cuda_recurrent.c: recurrent networks on a CUDA device, results and gradients, against the CPU's: every kind,
 * both directions, packed rows, one step, one row, odd sizes, with and without biases, in every type, three times over;
 * and layers of a module. Skipped, with the reason, where there is no device.
 *
 * Products add in another order, and 16-bit floats are rounded at other places: values are compared with a
 * tolerance. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"

#include <cairn/ext/parts.h>

typedef struct recurrent_case {
  int64_t steps, batch, input, hidden; /* steps 0: packed, 3 2 1 rows */
} recurrent_case;
enum { RECURRENT_INPUTS = 7, RECURRENT_RESULTS = 3 };

/* Results of one direction of one layer, and the gradients of what it reads, on the device of its operands. */
static void run_recurrent(cn_tensor **in, const char *mode, bool reverse, bool packed, cn_tensor **out)
{
  static const int64_t sizes[] = {3, 2, 1};
  cn_tensor *saved, *loss = NULL;
  for (int i = 0; i < RECURRENT_INPUTS; i++)
    if (in[i]) cn_requires_grad(in[i], true);
  cn_recurrent_sequence(&out[0], &out[1], &out[2], &saved, in[0], in[1], in[2], in[3], in[4], in[5], in[6], mode,
                        .reverse = reverse, .keep = true, .batch_sizes = {packed ? sizes : NULL, packed ? 3 : 0});
  fine();
  for (int i = 0; i < RECURRENT_RESULTS; i++) { /* every element has another gradient */
    cn_tensor *x = cn_reshape(out[i], CN_SHAPE(cn_numel(out[i])));
    cn_tensor *g = cn_linspace(-1, 1, cn_numel(x), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
    cn_tensor *part = cn_sum(cn_cast(cn_mul(x, g), CN_F64));
    loss = loss ? cn_add(loss, part) : part;
  }
  assert_int_equal(cn_backward(loss), 0);
  for (int i = 0; i < RECURRENT_INPUTS; i++)
    out[RECURRENT_RESULTS + i] = in[i] ? cn_grad_of(in[i]) : out[0];
}

static void check_recurrent(const recurrent_case *k, const char *mode, cn_dtype dtype, bool reverse, bool biases)
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
  }
  run_recurrent(in, mode, reverse, !T, want);
  run_recurrent(far, mode, reverse, !T, have);
  for (int i = 0; i < RECURRENT_RESULTS + RECURRENT_INPUTS; i++) {
    snprintf(what, sizeof what, "%s of %s, %lld steps, H %lld, number %d", mode, cn_dtype_name(dtype), (long long)T,
             (long long)H, i);
    close_to(what, want[i], have[i], rough(dtype));
  }
}

static void sequences(void **state)
{
  (void)state;
  static const char *const modes[] = {"lstm", "gru", "tanh", "relu"};
  static const cn_dtype types[] = {CN_F64, CN_F32, CN_F16, CN_BF16};
  static const recurrent_case cases[] = {{5, 3, 4, 6}, {1, 1, 1, 1}, {4, 8, 16, 32}, {7, 1, 5, 33}, {0, 3, 4, 129}};
  need_gpu();
  for (size_t i = 0; i < 4 * 4 * 5; i++) {
    if (i >= 40 && i / 5 % 4 == 3) continue; /* a rounding of 16 bits decides on which side of relu's corner one is */
    cn_scope *s = cn_scope_begin();
    cn_seed(i);
    for (int k = 0; k < 3; k++) /* launched, recorded, repeated */
      check_recurrent(&cases[i % 5], modes[i / 5 % 4], types[i / 20], i % 2, i % 3);
    cn_scope_end(s);
  }
}

/* Layers in both directions, as a module. */
static void layers(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(2, 5, 7)), *loss[2];
  cn_module *nets[2];
  cn_named_list names[2];
  for (int i = 0; i < 2; i++) {
    cn_seed(3);
    nets[i] = cn_nn_lstm(7, 9, .num_layers = 2, .bidirectional = true, .batch_first = true);
    if (i) cn_module_to(nets[i], gpu, CN_DTYPE_NONE);
    cn_tensor *y = cn_forward(nets[i], i ? there(x) : x);
    loss[i] = cn_sum(cn_square(y));
    assert_int_equal(cn_backward(loss[i]), 0);
    cn_module_named(&names[i], nets[i], CN_PARAMETERS);
  }
  close_to("an LSTM", loss[0], loss[1], 2e-5);
  for (size_t i = 0; i < names[0].n; i++)
    close_to(names[0].v[i].name, cn_grad_of(names[0].v[i].tensor), cn_grad_of(names[1].v[i].tensor), 2e-5);
  for (int i = 0; i < 2; i++) {
    cn_named_free(&names[i]);
    cn_module_release(nets[i]);
  }
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(sequences), cmocka_unit_test(layers)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
