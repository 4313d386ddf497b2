/* test_checkpoint.c: checkpoints: all parts and any extra state come back, damage is told, allocations may fail;
 * weights alone in every format. */
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "runs.h"
#include "test.h"

/* Steps of training by hand; the last loss. */
static double train(small_run *run, int steps)
{
  double loss = 0;
  cn_batch b;
  for (int i = 0; i < steps;) {
    if (cn_loader_next(&b, run->loader) != 1) continue;
    cn_scope *s = cn_scope_begin();
    cn_tensor *l = cn_cross_entropy(cn_forward(run->net, b.x), b.y);
    cn_backward(l);
    cn_optim_step(run->opt);
    cn_optim_zero_grad(run->opt);
    cn_schedule_step(run->schedule);
    loss = cn_item(l);
    cn_scope_end(s);
    if (cn_err()) return NAN;
    i++;
  }
  return loss;
}

static cn_run parts(const small_run *r)
{
  return (cn_run){.net = r->net, .opt = r->opt, .schedule = r->schedule, .loader = r->loader};
}

static void a_run_goes_on_bit_for_bit(void **state)
{
  (void)state;
  small_run a, b;
  const char *path = temporary("run.safetensors");
  assert_int_equal(small_run_begin(&a), 0);
  train(&a, 10); /* into the second epoch */
  cn_run run = parts(&a);
  run.epoch = 1;
  run.step = 10;
  assert_int_equal(cn_run_save(path, &run, NULL), 0);
  double want[9];
  for (int i = 0; i < 9; i++) want[i] = train(&a, 1);
  uint64_t sum = net_sum(a.net);
  assert_int_equal(small_run_begin(&b), 0);
  cn_seed(77); /* so that what comes is the file's */
  run = parts(&b);
  assert_int_equal(cn_run_load(path, &run, NULL), 0);
  assert_int_equal(run.epoch, 1);
  assert_int_equal(run.step, 10);
  for (int i = 0; i < 9; i++) assert_true(train(&b, 1) == want[i]);
  assert_true(net_sum(b.net) == sum);
  small_run_end(&a);
  small_run_end(&b);
}

/* Every kind of tree, with keys that JSON does not have and names that look like marks. */
static cn_tree *odd_tree(void)
{
  cn_scope *s = cn_scope_begin();
  cn_tree *t = cn_tree_dict(), *numbers = cn_tree_dict(), *list = cn_tree_list(), *tuple = cn_tree_tuple();
  cn_tree *dollar = cn_tree_dict();
  cn_tree_put_index(numbers, -3, cn_tree_tensor(cn_arange(0, 5, .dtype = CN_I64)));
  cn_tree_put_index(numbers, 7, cn_tree_str("quote \" and \n and \xc3\xa4"));
  cn_tree_put(numbers, "text", cn_tree_none());
  cn_tree_push(list, cn_tree_float(INFINITY));
  cn_tree_push(list, cn_tree_float(0.1));
  cn_tree_push(list, cn_tree_int(INT64_MAX));
  cn_tree_push(list, cn_tree_bool(true));
  cn_tree_push(tuple, cn_tree_float(3));
  cn_tree_push(tuple, cn_tree_tensor(cn_transpose(cn_reshape(cn_arange(0, 6), CN_SHAPE(2, 3)), 0, 1)));
  cn_tree_put(dollar, "$tensor", cn_tree_int(1));
  cn_tree_put(t, "a.b", cn_tree_tensor(cn_full(CN_SHAPE(2), 1.5, .dtype = CN_F16)));
  cn_tree *inner = cn_tree_dict();
  cn_tree_put(inner, "b", cn_tree_tensor(cn_ones(CN_SHAPE(0, 3))));
  cn_tree_put(t, "a", inner);
  cn_tree_put(t, "numbers", numbers);
  cn_tree_put(t, "list", list);
  cn_tree_put(t, "tuple", tuple);
  cn_tree_put(t, "dollar", dollar);
  cn_tree_put(t, "empty", cn_tree_dict());
  cn_scope_end(s);
  return t;
}

static bool same_tree(const cn_tree *a, const cn_tree *b)
{
  cn_tree_kind kind = cn_tree_kind_of(a);
  if (kind != cn_tree_kind_of(b) || cn_tree_size(a) != cn_tree_size(b)) return false;
  if (kind == CN_TREE_TENSOR) {
    cn_tensor *x = cn_tree_as_tensor(a), *y = cn_tree_as_tensor(b);
    if (cn_dtype_of(x) != cn_dtype_of(y) || cn_ndim(x) != cn_ndim(y)) return false;
    return cn_numel(x) == cn_numel(y) && (!cn_numel(x) || cn_item(cn_all(cn_eq(x, y))) != 0);
  }
  if (kind == CN_TREE_STR) return !strcmp(cn_tree_as_str(a, ""), cn_tree_as_str(b, "-"));
  if (kind == CN_TREE_INT) return cn_tree_as_int(a, 0) == cn_tree_as_int(b, 1);
  if (kind == CN_TREE_FLOAT) return cn_tree_as_float(a, 0) == cn_tree_as_float(b, 1);
  if (kind == CN_TREE_BOOL) return cn_tree_as_bool(a, false) == cn_tree_as_bool(b, true);
  for (size_t i = 0; i < cn_tree_size(a); i++) {
    int64_t p = 0, q = 0;
    const char *s = cn_tree_key(a, i, &p), *t = cn_tree_key(b, i, &q);
    if (p != q || !s != !t || (s && strcmp(s, t))) return false;
    if (!same_tree(cn_tree_at(a, i), cn_tree_at(b, i))) return false;
  }
  return true;
}

static void extra_state_comes_back_as_it_was(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  const char *path = temporary("extra.safetensors");
  cn_tree *tree = odd_tree(), *back = NULL;
  cn_run nothing = {.epoch = 2, .step = INT64_MAX};
  assert_int_equal(cn_run_save(path, &nothing, tree), 0);
  nothing = (cn_run){0};
  uint64_t seed, offset;
  cn_random_set_state(UINT64_MAX - 1, 12345);
  assert_int_equal(cn_run_save(path, &nothing, tree), 0);
  cn_seed(1);
  assert_int_equal(cn_run_load(path, &nothing, &back), 0);
  cn_random_state(&seed, &offset);
  assert_true(seed == UINT64_MAX - 1 && offset == 12345);
  assert_true(same_tree(tree, back));
  cn_tree_free(back);
  cn_tree_free(tree);
  small_run r; /* parts that the file does not have */
  assert_int_equal(small_run_begin(&r), 0);
  cn_run run = parts(&r);
  assert_true(cn_run_load(path, &run, NULL) < 0);
  assert_non_null(strstr(cn_err_message(), "net"));
  cn_err_clear();
  small_run_end(&r);
  cn_scope_end(s);
}

/* ---- damage ---- */

static void write_bytes(const char *path, const unsigned char *bytes, size_t n)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

static void damage_is_told(void **state)
{
  (void)state;
  small_run r;
  const char *path = temporary("whole.safetensors"), *bad = temporary("bad.safetensors");
  cn_tree *tree = odd_tree();
  cn_run run = {.step = 1};
  assert_int_equal(cn_run_save(path, &run, tree), 0);
  cn_tree_free(tree);
  cn_mapping file;
  assert_int_equal(cn_map_open(&file, path), 0);
  size_t spaces = 0, undetected = 0;
  for (size_t i = 0; i < file.size; i += 1 + i / 500) {
    write_bytes(bad, file.data, i);
    assert_true(cn_run_load(bad, &run, NULL) < 0); /* cut short anywhere */
    cn_err_clear();
    file.data[i] ^= 1;
    write_bytes(bad, file.data, file.size);
    undetected += cn_run_load(bad, &run, NULL) == 0;
    spaces += file.data[i] == (' ' ^ 1) || i < 8;
    cn_err_clear();
    file.data[i] ^= 1;
  }
  assert_true(undetected <= spaces); /* blanks at the header's end mean nothing */
  cn_map_close(&file);
  assert_int_equal(small_run_begin(&r), 0);
  assert_int_equal(cn_module_save(r.net, path), 0); /* weights are no checkpoint */
  run = parts(&r);
  assert_true(cn_run_load(path, &run, NULL) < 0);
  cn_err_clear();
  assert_true(cn_run_load(temporary("absent"), &run, NULL) < 0);
  cn_err_clear();
  assert_true(cn_run_save(temporary("no/such/folder"), &run, NULL) < 0);
  cn_err_clear();
  small_run_end(&r);
}

/* ---- weights alone ---- */

static void weights_in_every_format(void **state)
{
  (void)state;
  static const char *const names[] = {"w.safetensors", "w.pt", "w.npz"};
  cn_seed(1);
  cn_module *a = small_net();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_module *b = small_net();
    assert_true(net_sum(a) != net_sum(b));
    const char *path = temporary(names[i]);
    int status = cn_module_save(a, path);
    if (!status) status = cn_module_load_file(b, path);
    if (status) print_error("%s: %s\n", names[i], cn_err_message());
    assert_int_equal(status, 0);
    assert_true(net_sum(a) == net_sum(b));
    cn_module_release(b);
  }
  small_run r; /* and those of a checkpoint */
  assert_int_equal(small_run_begin(&r), 0);
  train(&r, 2);
  cn_run run = parts(&r);
  const char *path = temporary("weights-run.safetensors");
  assert_int_equal(cn_run_save(path, &run, NULL), 0);
  assert_int_equal(cn_module_load_file(a, path), 0);
  assert_true(net_sum(a) == net_sum(r.net));
  cn_module *other = cn_nn_linear(3, 4);
  assert_true(cn_module_load_file(other, path) < 0);
  cn_err_clear();
  cn_module_release(other);
  cn_module_release(a);
  small_run_end(&r);
}

/* ---- failing allocations ---- */

static int save_and_load(const small_run *r, const char *path)
{
  cn_tree *extra = odd_tree(), *back = NULL;
  cn_run run = parts(r);
  int status = extra ? cn_run_save(path, &run, extra) : cn_err();
  if (!status) status = cn_run_load(path, &run, &back);
  cn_tree_free(extra);
  cn_tree_free(back);
  return status ? status : cn_err();
}

static void failing_allocations_leak_nothing(void **state)
{
  (void)state;
  small_run r;
  cn_memory_stats before, after;
  assert_int_equal(small_run_begin(&r), 0);
  train(&r, 2);
  const char *path = temporary("memory.safetensors");
  assert_int_equal(save_and_load(&r, path), 0);
  assert_int_equal(save_and_load(&r, path), 0);
  cn_memory_set_caching(false);
  cn_memory_trim();
  cn_memory_get_stats(&before);
  bool failed = true;
  for (uint64_t k = 1; failed; k += 1 + k / 40) {
    cn_memory_fail_at(k);
    int status = save_and_load(&r, path);
    cn_memory_fail_at(0);
    failed = status != 0;
    if (failed) assert_int_equal(status, CN_ERR_MEMORY);
    cn_err_clear();
    cn_memory_get_stats(&after);
    if (after.in_use != before.in_use) print_error("allocation %d\n", (int)k);
    assert_int_equal(after.in_use, before.in_use);
    cn_run run = parts(&r);
    assert_int_equal(cn_run_load(path, &run, NULL), 0); /* the old one or the new one */
  }
  cn_memory_set_caching(true);
  small_run_end(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_goes_on_bit_for_bit), cmocka_unit_test(extra_state_comes_back_as_it_was),
    cmocka_unit_test(damage_is_told), cmocka_unit_test(weights_in_every_format),
    cmocka_unit_test(failing_allocations_leak_nothing)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_temporary();
  return failed;
}
