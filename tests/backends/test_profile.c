/* test_profile.c: profiles: which entries there are, how they nest, their times on the device, what they
 * say of modules, costs and memory. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <cairn/profile.h>
#include <pthread.h>

#include "emulated.h"

static cn_profile_entry entry_at(const cn_profile *p, size_t i)
{
  cn_profile_entry e = {.size = sizeof e};
  assert_int_equal(cn_profile_at(&e, p, i), 0);
  return e;
}

static void ops_of_the_host(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *y = cn_ones(CN_SHAPE(3));
  cn_profile *p = cn_profile_begin(CN_PROFILE_DEVICES | CN_PROFILE_SHAPES);
  assert_non_null(p);
  assert_null(cn_profile_begin(0));
  cn_err_clear();
  cn_profile_range_begin("outer");
  cn_add(x, y);
  cn_profile_range_end();
  cn_sum(x);
  cn_add(x, cn_ones(CN_SHAPE(7))); /* fails */
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_profile_end(p), 0);
  cn_mul(x, x); /* no more */
  cn_profile_range_begin("nothing");
  cn_profile_range_end();
  cn_profile_entry outer = entry_at(p, 0), add = entry_at(p, 1), sum = entry_at(p, 2);
  assert_string_equal(outer.name, "outer");
  assert_true(outer.range && !outer.depth && !outer.timed);
  assert_string_equal(add.name, "add");
  assert_string_equal(add.shapes, "[[2, 3], [3]]");
  assert_true(!add.range && add.depth == 1 && !add.timed && add.device == CN_CPU);
  assert_true(outer.begin <= add.begin && add.begin <= add.end && add.end <= outer.end && outer.end <= sum.begin);
  assert_string_equal(sum.name, "sum");
  cn_profile_entry none = {.size = sizeof none};
  assert_int_not_equal(cn_profile_at(&none, p, cn_profile_count(p)), 0);
  cn_err_clear();
  cn_profile_free(p);
  cn_scope_end(s);
}

static int square(cn_compile_call *k)
{
  k->outputs[0] = cn_mul(k->inputs[0], k->inputs[0]);
  return cn_err();
}

static void work_on(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_ones(CN_SHAPE(64, 64)), device), *y = NULL;
  cn_compiled *c = cn_compile(square);
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &y, .noutputs = 1};
  assert_int_equal(cn_compiled_call(c, &k), 0);
  cn_profile *p = cn_profile_begin(CN_PROFILE_DEVICES);
  cn_exp(cn_transpose(x, 0, 1));
  cn_matmul(x, x);
  assert_int_equal(cn_compiled_call(c, &k), 0);
  assert_int_equal(cn_profile_end(p), 0);
  double last = 0;
  int graphs = 0, products = 0;
  for (size_t i = 0; i < cn_profile_count(p); i++) {
    cn_profile_entry e = entry_at(p, i);
    graphs += !strcmp(e.name, "graph");
    products += !strcmp(e.name, "matmul") || !strcmp(e.name, "mm");
    assert_int_equal(e.timed, strcmp(e.name, "transpose") != 0); /* a view is no work */
    if (!e.timed) continue;
    assert_int_equal(e.device, device);
    assert_true(e.device_begin <= e.device_end);
    if (!e.depth) assert_true(e.device_begin >= last - 1e-6); /* one stream: in order */
    if (!e.depth) last = e.device_end;
  }
  assert_int_equal(graphs, 1);
  assert_true(products > 0);
  cn_profile_free(p);
  p = cn_profile_begin(0);
  cn_exp(x);
  assert_int_equal(cn_profile_end(p), 0);
  assert_int_equal(cn_profile_count(p), 1);
  assert_false(entry_at(p, 0).timed);
  cn_profile_free(p);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static void work_on_devices(void **state)
{
  (void)state;
  work_on(cn_device_find("mirror"));
  if (cn_device_count("cuda") > 0) work_on(cn_device_find("cuda"));
}

/* ---- what entries say ---- */

/* The entry of that kind and name, the k-th from 0. */
static cn_profile_entry find(const cn_profile *p, cn_profile_kind kind, const char *name, int k)
{
  for (size_t i = 0; i < cn_profile_count(p); i++) {
    cn_profile_entry e = entry_at(p, i);
    if (e.kind == (int)kind && !strcmp(e.name, name) && !k--) return e;
  }
  fail_msg("there is no entry %s", name);
  return (cn_profile_entry){0};
}

static void modules_and_costs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_linear(4, 8), cn_nn_relu());
  cn_tensor *x = cn_ones(CN_SHAPE(3, 4));
  cn_profile *p = cn_profile_begin(CN_PROFILE_COSTS | CN_PROFILE_MODULES | CN_PROFILE_MEMORY);
  assert_true(cn_profile_on(CN_PROFILE_MODULES) && !cn_profile_on(CN_PROFILE_SHAPES));
  cn_backward(cn_sum(cn_forward(net, x)));
  cn_reshape(cn_transpose(x, 0, 1), CN_SHAPE(12)); /* made of others */
  assert_int_equal(cn_profile_end(p), 0);
  assert_false(cn_profile_on(0));
  cn_profile_entry root = find(p, CN_ENTRY_MODULE, "Sequential", 0);
  cn_profile_entry first = find(p, CN_ENTRY_MODULE, "Sequential.0", 0);
  cn_profile_entry linear = find(p, CN_ENTRY_OP, "linear", 0), back = find(p, CN_ENTRY_BACKWARD, "linear", 0);
  cn_profile_entry mm = find(p, CN_ENTRY_OP, "mm", 0);
  assert_string_equal(root.detail, "Sequential");
  assert_string_equal(first.detail, "Linear");
  assert_string_equal(linear.module, "Sequential.0");
  assert_true(linear.products == 2 * 3 * 4 * 8 && linear.read == 4 * (12 + 32 + 8) && linear.written == 96);
  assert_true(linear.allocated >= 96 && *linear.detail);
  assert_true(linear.sequence && linear.sequence == back.sequence);
  assert_string_equal(back.module, "Sequential.0"); /* whose op it is the gradient of */
  assert_string_equal(mm.module, "Sequential.0");
  assert_true(mm.depth == back.depth + 1 && mm.products > 0);
  assert_true(find(p, CN_ENTRY_COMPOSITE, "reshape", 0).depth == 0);
  assert_true(cn_profile_memory_count(p) > 0);
  int64_t total = 0;
  for (size_t i = 0; i < cn_profile_memory_count(p); i++) {
    cn_profile_memory m = {.size = sizeof m};
    assert_int_equal(cn_profile_memory_at(&m, p, i), 0);
    assert_int_equal(m.total, total += m.bytes);
  }
  cn_profile_free(p);
  cn_module_release(net);
  cn_scope_end(s);
}

static int gate(cn_compile_call *k)
{
  k->outputs[0] = cn_relu(cn_add(cn_mul(k->inputs[0], k->inputs[0]), k->inputs[0]));
  return cn_err();
}

/* Groups are called after their ops. */
static void nodes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(16)), *y = NULL;
  cn_compiled *c = cn_compile(gate);
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &y, .noutputs = 1};
  assert_int_equal(cn_compiled_call(c, &k), 0);
  cn_profile *p = cn_profile_begin(CN_PROFILE_COSTS | CN_PROFILE_NODES);
  assert_int_equal(cn_compiled_call(c, &k), 0);
  assert_int_equal(cn_profile_end(p), 0);
  cn_profile_entry run = find(p, CN_ENTRY_GRAPH, "graph", 0), group = find(p, CN_ENTRY_NODE, "mul+add+relu", 0);
  assert_true(run.begin <= group.begin && group.end <= run.end && group.depth == run.depth + 1);
  assert_true(group.flops == 3 * 16 && group.read == 64 && group.written == 64);
  cn_profile_free(p);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static const char *here(void *payload) { return payload; }

static void bounded(void **state)
{
  (void)state;
  char line[] = "train.c:12";
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  cn_profile *p = cn_profile_begin_with(
      &(cn_profile_opts){.size = sizeof(cn_profile_opts), .most = 10, .where = here, .payload = line});
  for (int i = 0; i < 1000; i++) {
    cn_profile_range_begin("step");
    cn_exp(x);
    cn_profile_range_end();
  }
  assert_int_equal(cn_profile_count(p), 10); /* while it goes on, too */
  assert_int_equal(cn_profile_end(p), 0);
  assert_int_equal(cn_profile_count(p), 10);
  assert_int_equal(cn_profile_dropped(p), 1990);
  assert_string_equal(entry_at(p, 9).name, "exp");
  assert_string_equal(entry_at(p, 9).where, "train.c:12");
  cn_profile_free(p);
  cn_scope_end(s);
}

static void *elsewhere(void *payload)
{
  cn_scope *s = cn_scope_begin();
  int status = cn_profile_join(payload);
  cn_neg(cn_ones(CN_SHAPE(2)));
  if (!status) status = cn_profile_leave(payload);
  cn_scope_end(s);
  return status ? payload : NULL;
}

static void threads(void **state)
{
  (void)state;
  pthread_t other;
  void *failed;
  cn_scope *s = cn_scope_begin();
  cn_profile *p = cn_profile_begin(0);
  cn_exp(cn_ones(CN_SHAPE(2)));
  pthread_create(&other, NULL, elsewhere, p);
  pthread_join(other, &failed);
  assert_null(failed);
  assert_int_not_equal(cn_profile_join(p), 0); /* it is in it */
  cn_err_clear();
  assert_int_not_equal(cn_profile_leave(p), 0);
  cn_err_clear();
  assert_int_equal(cn_profile_end(p), 0);
  cn_profile_entry mine = find(p, CN_ENTRY_OP, "exp", 0), theirs = find(p, CN_ENTRY_OP, "neg", 0);
  assert_true(mine.thread != theirs.thread);
  assert_int_not_equal(cn_profile_join(p), 0); /* it has ended */
  cn_err_clear();
  assert_int_not_equal(cn_profile_end(p), 0);
  cn_err_clear();
  cn_profile_free(p);
  cn_scope_end(s);
}

static void *drop(void *profile)
{
  cn_profile_free(profile);
  return NULL;
}

/* One that another thread gives up goes on where it is on. */
static void freed_elsewhere(void **state)
{
  (void)state;
  pthread_t other;
  cn_scope *s = cn_scope_begin();
  cn_profile *p = cn_profile_begin(CN_PROFILE_SHAPES);
  pthread_create(&other, NULL, drop, p);
  pthread_join(other, NULL);
  cn_exp(cn_ones(CN_SHAPE(2)));
  assert_int_equal(cn_profile_end(p), 0);
  find(p, CN_ENTRY_OP, "exp", 0);
  cn_profile_free(p);
  cn_scope_end(s);
}

/* Without the library each call says so; with it there are ranges, which nobody watches. */
static void nvtx(void **state)
{
  (void)state;
  int expected = cn_nvtx_available() ? CN_OK : CN_ERR_UNSUPPORTED;
  uint64_t range = 0;
  assert_int_equal(cn_nvtx_push(NULL, "a"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_pop(NULL), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_mark("b"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_start(&range, "c"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_end(range), expected);
  cn_err_clear();
  cn_profile *p = cn_profile_begin(CN_PROFILE_NVTX);
  assert_int_equal(p != NULL, !expected);
  cn_err_clear();
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(3));
  if (p) assert_int_equal(cn_profile_end(p), 0);
  if (p) assert_int_equal(cn_profile_count(p), 0);
  cn_profile_free(p);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0 && cn_device_count("cuda") < 1) emulate(argv); /* so that the plugin takes part */
  const struct CMUnitTest tests[] = {cmocka_unit_test(ops_of_the_host), cmocka_unit_test(work_on_devices),
                                     cmocka_unit_test(modules_and_costs), cmocka_unit_test(nodes),
                                     cmocka_unit_test(bounded), cmocka_unit_test(threads),
                                     cmocka_unit_test(freed_elsewhere), cmocka_unit_test(nvtx)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
