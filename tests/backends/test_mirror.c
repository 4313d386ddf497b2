/* test_mirror.c: device semantics, shown on the mirror backend: memory of its own, calls that return before
 * they ran, failures that come late, and results equal to the CPU's bit for bit. */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdio.h>

#include "backends/mirror/mirror.h"

static cn_device mirror;

static int set_up(void **state)
{
  (void)state;
  mirror = cn_device_find("mirror");
  return mirror == CN_DEVICE_DEFAULT;
}

static void fine(void)
{
  if (cn_err()) print_error("%s\n", cn_err_message());
  assert_int_equal(cn_err(), 0);
}

/* Both tensors' elements, wherever they are. */
static void same_bits(cn_tensor *a, cn_tensor *b)
{
  fine();
  size_t size = cn_tensor_nbytes(a);
  assert_int_equal(cn_tensor_nbytes(b), size);
  char *x = malloc(size + 1), *y = malloc(size + 1);
  assert_int_equal(cn_to_data(x, size, a), 0);
  assert_int_equal(cn_to_data(y, size, b), 0);
  assert_memory_equal(x, y, size);
  free(x);
  free(y);
}

static void is_there(void **state)
{
  (void)state;
  cn_device_info info;
  char name[32];
  assert_int_equal(cn_device_count("mirror"), 2);
  assert_int_equal(cn_device_info_get(&info, mirror), 0);
  assert_string_equal(cn_device_name(name, sizeof name, mirror), "mirror:0");
  assert_true(info.name[0] != 0);
  assert_int_equal(cn_device_sync(mirror), 0);
}

/* One list of implementations serves all ops here: what was chosen for one must not be taken for another's. */
static void choices_are_of_one_op(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_full(CN_SCALAR_SHAPE, 2.5, .device = mirror);
  assert_non_null(cn_median(x)); /* has no kernel on the CPU */
  assert_float_equal(cn_item(cn_clone(x)), 2.5, 0);
  cn_scope_end(s);
}

/* A value that is refused on the CPU is refused here, when the work is waited for. */
static void values_are_checked(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p = cn_full(CN_SHAPE(3), 1.5, .device = mirror), *y = cn_ones(CN_SHAPE(3), .device = mirror);
  cn_binary_cross_entropy(p, y, NULL);
  if (!cn_err()) cn_device_sync(mirror);
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "must be probabilities"));
  cn_err_clear();
  cn_scope_end(s);
}

static void memory_in_use(void **state)
{
  size_t before, during, after, peak, unused;
  (void)state;
  cn_device_memory_reset_peak(mirror);
  cn_device_memory(&before, &unused, mirror);
  assert_int_equal(before, unused);
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(1000), .device = mirror);
  cn_device_memory(&during, &unused, mirror);
  cn_scope_end(s);
  cn_device_memory(&after, &peak, mirror);
  assert_int_equal(during, before + 4000);
  assert_int_equal(after, before);
  assert_int_equal(peak, during);
  cn_device_memory(&during, &peak, 0x7f00); /* no such device */
  assert_int_equal(during + peak, 0);
}

/* Beyond the limit tensors are out of memory; without it they are not. */
static void memory_limit(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  size_t now, peak;
  cn_device_memory_stats stats = {.size = sizeof stats};
  assert_int_equal(cn_device_memory_trim(mirror), 0);
  cn_device_memory_reserved(&now, &peak, mirror);
  assert_int_equal(cn_device_memory_set_limit(mirror, now + 4000), 0);
  cn_tensor *x = cn_keep(cn_ones(CN_SHAPE(1000), .device = mirror));
  assert_non_null(x);
  assert_null(cn_ones(CN_SHAPE(1), .device = mirror));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_err_clear();
  assert_int_equal(cn_device_memory_set_limit(mirror, 0), 0);
  assert_non_null(cn_ones(CN_SHAPE(1), .device = mirror));
  assert_int_equal(cn_device_memory_get_stats(&stats, mirror), 0); /* it counts nothing more */
  assert_int_equal(stats.size, sizeof stats);
  assert_int_equal(stats.blocks[CN_MEMORY_ALL].total, 0);
  cn_release(x);
  assert_int_equal(cn_device_memory_set_limit(CN_CPU, 1), CN_ERR_UNSUPPORTED); /* cn_memory_set_limit is for the host */
  cn_err_clear();
  cn_scope_end(s);
}

/* What is queued to be released is the device's until it is: trim waits for that. */
static void memory_reserved(void **state)
{
  size_t before, during, after, peak, unused;
  (void)state;
  assert_int_equal(cn_device_memory_trim(mirror), 0);
  cn_device_memory_reset_peak(mirror);
  cn_device_memory_reserved(&before, &peak, mirror);
  assert_int_equal(before, peak);
  cn_device_memory(&during, &unused, mirror);
  assert_int_equal(before, during);
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(1000), .device = mirror);
  cn_device_memory_reserved(&during, &unused, mirror);
  cn_scope_end(s);
  assert_int_equal(during, before + 4000);
  assert_int_equal(cn_device_memory_trim(mirror), 0);
  cn_device_memory_reserved(&after, &peak, mirror);
  assert_int_equal(after, before);
  assert_int_equal(peak, during);
}

/* Only the shape and type of the other tensor are read: its device may be another, and need hold no data. */
static void like_on_another_device(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *none = cn_empty(CN_SHAPE(2, 3), .dtype = CN_F64, .device = cn_device_find("meta"));
  cn_device places[] = {CN_CPU, mirror};
  for (int i = 0; i < 2; i++) {
    cn_device to = places[i];
    cn_seed(7);
    cn_tensor *made[] = {cn_zeros_like(none, .device = to),     cn_ones_like(none, .device = to),
                         cn_full_like(none, 2, .device = to),   cn_empty_like(none, .device = to),
                         cn_rand_like(none, .device = to),      cn_randn_like(none, .device = to),
                         cn_randint_like(none, 2, 5, .device = to)};
    fine();
    for (int k = 0; k < 7; k++) {
      assert_int_equal(cn_device_of(made[k]), to);
      assert_int_equal(cn_dtype_of(made[k]), CN_F64);
      assert_int_equal(cn_numel(made[k]), 6);
      if (k < 3) assert_float_equal(cn_item(cn_sum(made[k])), 6 * k, 0);
    }
    cn_seed(7);
    same_bits(made[4], cn_rand(CN_SHAPE(2, 3), .dtype = CN_F64));
    same_bits(made[5], cn_randn(CN_SHAPE(2, 3), .dtype = CN_F64));
    assert_float_equal(cn_item(cn_amin(made[6])), 2, 0);
  }
  assert_int_equal(cn_device_of(cn_zeros_like(cn_ones(CN_SHAPE(2), .device = mirror), .device = CN_CPU)), CN_CPU);
  cn_scope_end(s);
}

static void memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(33, 7)), *y = cn_to_device(x, mirror);
  assert_int_equal(cn_device_of(y), mirror);
  same_bits(x, y);
  same_bits(cn_transpose(x, 0, 1), cn_to_device(cn_to_device(cn_transpose(x, 0, 1), mirror), CN_CPU));
  cn_tensor *other = cn_to_device(y, cn_device_find("mirror:1"));
  same_bits(x, other);
  assert_true((uintptr_t)cn_desc_of(y)->data >> 48 != 0); /* no address of this process */
  assert_null(cn_data(y));
  assert_int_equal(cn_err(), CN_ERR_DEVICE);
  cn_err_clear();
  assert_null(cn_add(y, x)); /* two devices */
  assert_int_equal(cn_err(), CN_ERR_DEVICE);
  cn_err_clear();
  cn_tensor *z = cn_zeros(CN_SHAPE(4), .device = mirror);
  float values[4] = {1, 2, 3, 4};
  assert_int_equal(cn_copy_from_data(z, values, sizeof values), 0);
  assert_float_equal(cn_item(cn_sum(z)), 10, 0);
  same_bits(cn_ones(CN_SHAPE(0, 3)), cn_ones(CN_SHAPE(0, 3), .device = mirror));
  cn_scope_end(s);
}

/* ---- pinned memory ---- */

static size_t pinned_blocks(void)
{
  size_t blocks, copies;
  cni_mirror_pinned(&blocks, &copies);
  return blocks;
}

static size_t pinned_copies(void)
{
  size_t blocks, copies;
  cni_mirror_pinned(&blocks, &copies);
  return copies;
}

static void pinned(void **state)
{
  (void)state;
  size_t before = pinned_blocks(), copies = pinned_copies();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(33, 7)), *p = cn_pin_memory(x, mirror);
  fine();
  assert_true(cn_is_pinned(p) && !cn_is_pinned(x) && !cn_is_pinned(NULL));
  assert_int_equal(cn_device_of(p), CN_CPU);
  assert_int_equal(pinned_blocks(), before + 1);
  assert_ptr_equal(cn_pin_memory(p, mirror), p);
  assert_true(cn_is_pinned(cn_select(p, 0, 2)));
  same_bits(x, p);
  same_bits(x, cn_to_device(p, mirror));
  same_bits(cn_select(x, 0, 4), cn_to_device(cn_select(p, 0, 4), mirror)); /* from its middle */
  assert_int_equal(pinned_copies(), copies + 2);
  same_bits(x, cn_to_device(p, cn_device_find("mirror:1"))); /* not its own: as from ordinary memory */
  assert_int_equal(pinned_copies(), copies + 2);
  cn_tensor *transposed = cn_transpose(x, 0, 1), *part = cn_slice(x, 1, 1, CN_NONE, .step = 2);
  assert_int_equal(cn_strides(cn_pin_memory(transposed, mirror))[0], 1); /* dense: it keeps its order */
  same_bits(transposed, cn_to_device(cn_pin_memory(transposed, mirror), mirror));
  same_bits(part, cn_to_device(cn_pin_memory(part, mirror), mirror));
  assert_ptr_equal(cn_pin_memory(x, CN_CPU), x); /* no such memory there */
  cn_tensor *empty = cn_ones(CN_SHAPE(0, 3)), *number = cn_num(2);
  assert_ptr_equal(cn_pin_memory(empty, mirror), empty);
  assert_ptr_equal(cn_pin_memory(number, mirror), number);
  fine();
  assert_null(cn_pin_memory(cn_to_device(x, mirror), mirror));
  assert_int_equal(cn_err(), CN_ERR_DEVICE);
  cn_err_clear();
  assert_null(cn_pin_memory(NULL, mirror));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  cn_scope_end(s);
  assert_int_equal(pinned_blocks(), before);
}

/* The copy waits in the queue, behind work that takes its time, while the program gives the memory back or writes. */
static void pinned_is_read_later(void **state)
{
  (void)state;
  enum { N = 20000, ROUNDS = 50 };
  cn_tensor *copies[ROUNDS] = {NULL};
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *busy = cn_ones(CN_SHAPE(64, 64), .device = mirror);
    cn_matmul(busy, busy);
    cn_tensor *p = cn_pin_memory(cn_full(CN_SHAPE(N), i), mirror);
    assert_int_equal(cn_set(&copies[i], cn_to_device(p, mirror)), 0);
    if (i % 3 == 1) cn_add_(p, cn_num(1000)); /* waits */
    if (i % 3 == 2) ((float *)cn_data(p))[0] = 1000;
    cn_scope_end(s);
    fine();
  }
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    same_bits(cn_full(CN_SHAPE(N), i), copies[i]);
    cn_scope_end(s);
    cn_release(copies[i]);
  }
  assert_int_equal(pinned_blocks(), 0);
}

static void pinned_memory_may_fail(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(100));
  cni_mirror_pinned_limit(1);
  cn_tensor *first = cn_pin_memory(x, mirror), *second = cn_pin_memory(x, mirror);
  fine();
  assert_true(cn_is_pinned(first));
  assert_ptr_equal(second, x); /* ordinary memory, and no error */
  same_bits(x, cn_to_device(second, mirror));
  cni_mirror_pinned_limit(SIZE_MAX);
  assert_true(cn_is_pinned(cn_pin_memory(x, mirror)));
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 12; k++) { /* whatever is missing, nothing is lost, and what comes back is right */
    cn_memory_fail_at(k);
    cn_tensor *p = cn_pin_memory(x, mirror);
    cn_memory_fail_at(0);
    assert_true(p || cn_err() == CN_ERR_MEMORY);
    cn_err_clear();
    if (p) same_bits(x, cn_to_device(p, mirror));
  }
  cn_memory_set_caching(true);
  cn_scope_end(s);
  assert_int_equal(pinned_blocks(), 0);
}

/* A mixture of kinds: pointwise, reductions, products, lists, numbers, casts, results that are not dense. */
static void compute(cn_tensor **out, cn_tensor *x, cn_tensor *w)
{
  cn_tensor *pair[2] = {x, cn_mul(x, cn_num(2))};
  out[0] = cn_gelu(cn_add(x, cn_select(x, 0, 1), .alpha = 0.5));
  out[1] = cn_sum(x, .dim = CN_INTS(1), .keepdim = true);
  out[2] = cn_matmul(x, w);
  out[3] = cn_cat(pair, 2, .dim = 1);
  out[4] = cn_where(cn_gt(x, cn_num(0)), x, cn_int(-1));
  out[5] = cn_cast(cn_transpose(x, 0, 1), CN_BF16);
  out[6] = cn_mean(cn_slice(x, 1, 1, CN_NONE, .step = 2));
  out[7] = cn_linear(x, cn_transpose(w, 0, 1), NULL);
}

static void ops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *x = cn_randn(CN_SHAPE(12, 9)), *w = cn_randn(CN_SHAPE(9, 5)), *here[8], *there[8];
  compute(here, x, w);
  compute(there, cn_to_device(x, mirror), cn_to_device(w, mirror));
  for (int i = 0; i < 8; i++) {
    fine();
    assert_int_equal(cn_device_of(there[i]), mirror);
    same_bits(here[i], there[i]);
  }
  cn_tensor *a = cn_int(5); /* the number may be gone before the queue comes to it */
  cn_tensor *y = cn_mul(cn_to_device(cn_cast(x, CN_I64), mirror), a);
  same_bits(cn_mul(cn_cast(x, CN_I64), cn_int(5)), y);
  cn_scope_end(s);
  s = cn_scope_begin();
  cn_seed(9);
  cn_tensor *r = cn_randn(CN_SHAPE(100));
  cn_seed(9);
  same_bits(r, cn_randn(CN_SHAPE(100), .device = mirror));
  cn_scope_end(s);
}

static void depends_on_data(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_relu(cn_randn(CN_SHAPE(6, 7)));
  cn_tensor *y = cn_nonzero(cn_to_device(x, mirror));
  assert_int_equal(cn_device_of(y), mirror);
  same_bits(cn_nonzero(x), y);
  cn_scope_end(s);
}

static cn_tensor *leaf(cn_tensor *x, cn_device device)
{
  cn_tensor *copy = device == CN_CPU ? cn_clone(x) : cn_to_device(x, device);
  return cn_requires_grad(copy, true);
}

static void gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 5)), *w = cn_randn(CN_SHAPE(5, 3)), *b = cn_randn(CN_SHAPE(3));
  cn_tensor *grads[2][3];
  for (int k = 0; k < 2; k++) {
    cn_device device = k ? mirror : CN_CPU;
    cn_tensor *leaves[3] = {leaf(x, device), leaf(w, device), leaf(b, device)};
    cn_tensor *loss = cn_mean(cn_gelu(cn_add(cn_matmul(leaves[0], leaves[1]), leaves[2])));
    assert_int_equal(cn_backward(loss), 0);
    for (int i = 0; i < 3; i++) grads[k][i] = cn_grad_of(leaves[i]);
  }
  for (int i = 0; i < 3; i++) same_bits(grads[0][i], grads[1][i]);
  cn_scope_end(s);
}

/* A failure inside a kernel is reported by the next wait, with the op's name, and only once. */
static void late_failure(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_arange(0, 10), mirror);
  cn_tensor *zero = cn_zeros(CN_SHAPE(10), .dtype = CN_I64, .device = mirror);
  cn_tensor *y = cn_floor_divide(cn_cast(x, CN_I64), zero);
  bool waits = getenv("CAIRN_SYNC") != NULL;
  if (!waits) {
    assert_non_null(y);
    assert_int_equal(cn_err(), 0);
    assert_int_equal(cn_device_sync(mirror), CN_ERR_VALUE);
  }
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "floor_divide"));
  cn_err_clear();
  assert_int_equal(cn_device_sync(mirror), 0);
  if (!waits) { /* reading is waiting */
    int64_t values[10];
    y = cn_remainder(cn_cast(x, CN_I64), zero);
    assert_int_equal(cn_to_data(values, sizeof values, y), CN_ERR_VALUE);
    assert_non_null(strstr(cn_err_message(), "remainder"));
    cn_err_clear();
  }
  same_bits(cn_arange(0, 10), x);
  cn_scope_end(s);
}

/* Buffers are given back while work on them is queued; many of them, so that a wrong order would show. */
static void freed_in_order(void **state)
{
  (void)state;
  cn_tensor *sum = NULL;
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_set(&sum, cn_zeros(CN_SHAPE(1000), .device = mirror)), 0);
  cn_scope_end(s);
  for (int i = 0; i < 500; i++) {
    s = cn_scope_begin();
    assert_int_equal(cn_set(&sum, cn_add(sum, cn_full(CN_SHAPE(1000), i % 3, .device = mirror))), 0);
    cn_scope_end(s);
  }
  s = cn_scope_begin(); /* device memory left at the end would look lost: no pointer shows its address */
  assert_float_equal(cn_item(cn_mean(sum)), 499, 0);
  cn_scope_end(s);
  cn_release(sum);
}

/* Two steps of a small network with its gradient and update in place. */
static void train(cn_tensor **parameters, cn_tensor *x, cn_tensor *target)
{
  for (int step = 0; step < 2; step++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *hidden = cn_relu(cn_linear(x, parameters[0], parameters[1]));
    cn_tensor *diff = cn_sub(cn_linear(hidden, parameters[2], NULL), target);
    assert_int_equal(cn_backward(cn_mean(cn_mul(diff, diff))), 0);
    int saved = cn_no_grad_begin();
    for (int i = 0; i < 3; i++) {
      cn_sub_(parameters[i], cn_grad_of(parameters[i]), .alpha = 0.1);
      cn_zero_grad(parameters[i]);
    }
    cn_no_grad_end(saved);
    cn_scope_end(s);
    fine();
  }
}

static void training_step(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *x = cn_randn(CN_SHAPE(32, 10)), *target = cn_randn(CN_SHAPE(32, 4));
  cn_tensor *first[3] = {cn_randn(CN_SHAPE(16, 10)), cn_randn(CN_SHAPE(16)), cn_randn(CN_SHAPE(4, 16))};
  cn_tensor *here[3], *there[3];
  for (int i = 0; i < 3; i++) {
    here[i] = leaf(first[i], CN_CPU);
    there[i] = leaf(first[i], mirror);
  }
  train(here, x, target);
  train(there, cn_to_device(x, mirror), cn_to_device(target, mirror));
  for (int i = 0; i < 3; i++) same_bits(here[i], there[i]);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices_are_of_one_op), cmocka_unit_test(values_are_checked),
      cmocka_unit_test(is_there),     cmocka_unit_test(memory),          cmocka_unit_test(memory_in_use),
      cmocka_unit_test(memory_limit),
      cmocka_unit_test(memory_reserved), cmocka_unit_test(like_on_another_device),
      cmocka_unit_test(ops),          cmocka_unit_test(depends_on_data), cmocka_unit_test(gradients),
      cmocka_unit_test(late_failure), cmocka_unit_test(freed_in_order),  cmocka_unit_test(training_step),
      cmocka_unit_test(pinned),       cmocka_unit_test(pinned_is_read_later),
      cmocka_unit_test(pinned_memory_may_fail),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
