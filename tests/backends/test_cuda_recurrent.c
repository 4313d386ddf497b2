/* test_cuda_recurrent.c: recurrent networks on a CUDA device, results and gradients, against the CPU's: every kind,
 * both directions, packed rows, one step, one row, odd sizes, with and without biases, in every type, three times over;
 * and layers of a module. Skipped, with the reason, where there is no device. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"
#include "recurrent_checks.h"

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

/* Weights that stay on the chip, of one block and of clusters, several of them, and the first that do not. */
static void sizes(void **state)
{
  (void)state;
  static const char *const modes[] = {"lstm", "gru", "tanh"};
  static const cn_dtype types[] = {CN_F32, CN_F16, CN_BF16};
  static const recurrent_case cases[] = {{9, 5, 20, 64},   {9, 32, 20, 128},  {9, 33, 7, 129}, {9, 16, 20, 256},
                                         {6, 70, 8, 255},  {2, 150, 8, 200},  {5, 9, 8, 300},  {1, 5, 3, 1},
                                         {2, 1, 5, 33},    {35, 32, 9, 100},  {35, 1, 9, 129}, {35, 5, 9, 256},
                                         {1, 32, 20, 256}, {300, 3, 5, 70}};
  enum { CASES = sizeof cases / sizeof *cases, MODES = 3, TYPES = 3 };
  need_gpu();
  for (size_t i = 0; i < CASES * MODES * TYPES; i++) {
    cn_scope *s = cn_scope_begin();
    cn_seed(i);
    for (int k = 0; k < 2; k++)
      check_recurrent(&cases[i % CASES], modes[i / CASES % MODES], types[i / CASES / MODES], i % 2, i % 3);
    cn_scope_end(s);
  }
}

static void infinity(void **state)
{
  (void)state;
  need_gpu();
  check_infinity(1);
  check_infinity(200);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(sequences), cmocka_unit_test(sizes), cmocka_unit_test(infinity),
                                     cmocka_unit_test(layers)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
