/* test_pjrt.c: the PJRT backend on a plugin for tests, without a compiler: devices, buffers both ways, memory that is
 * only a name, and what happens when the plugin refuses or fails late. */
#define _DEFAULT_SOURCE /* setenv, mkdtemp */
#include "on_pjrt.h"

static const char *started_as;

static void information(void **state)
{
  (void)state;
  need_device();
  cn_device_info info;
  char name[64];
  assert_int_equal(cn_device_count("pjrt"), 2);
  assert_int_equal(cn_device_info_get(&info, there), 0);
  assert_string_equal(info.name, "a device for tests");
  assert_string_equal(info.arch, "fake 1.0");
  assert_true(info.memory_total == 1 << 30 && info.memory_free == (1 << 30) - (1 << 20));
  assert_string_equal(cn_device_name(name, sizeof name, cn_device_find("pjrt:1")), "pjrt:1");
  assert_int_equal(cn_device_find("fake:1"), cn_device_find("pjrt:1")); /* by what the platform calls itself */
  assert_int_equal(cn_device_find("fake"), there);
  fine();
  assert_int_equal(cn_device_find("pjrt:2"), CN_DEVICE_DEFAULT);
  expect_error(CN_ERR_DEVICE, "device 'pjrt:2' is not there");
}

/* Tensors go there and back in every type, whole and in parts; nothing is computed for that. */
static void copies(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_F16, CN_BF16, CN_I8, CN_I16, CN_I32, CN_I64, CN_U8, CN_BOOL};
  size_t compiled = count().compiled;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_cast(cn_mul(cn_randn(CN_SHAPE(5, 7)), cn_num(3)), types[i]), *y = to(x);
    assert_int_equal(cn_device_of(y), there);
    close_to(cn_dtype_name(types[i]), x, y, 0);
    close_to("a row", cn_select(x, 0, 3), cn_select(y, 0, 3), 0);
    close_to("an element", cn_select(cn_select(x, 0, 4), 0, 6), cn_select(cn_select(y, 0, 4), 0, 6), 0);
    assert_null(cn_data(y)); /* there is no address that could be read */
    cn_err_clear();
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  close_to("none", cn_ones(CN_SHAPE(0, 4)), to(cn_ones(CN_SHAPE(0, 4))), 0);
  close_to("one", cn_ones(CN_SCALAR_SHAPE), to(cn_ones(CN_SCALAR_SHAPE)), 0);
  cn_tensor *x = cn_randn(CN_SHAPE(40)), *y = cn_to_device(to(x), cn_device_find("pjrt:1"));
  assert_true(cn_device_of(y) != there);
  close_to("the other device", x, y, 0);
  cn_scope_end(s);
  assert_int_equal(count().compiled, compiled);
  fine();
}

/* ---- programs: the plugin for tests takes any text, and gives results the bytes of arguments, or zeros ---- */

static cn_tensor *some(void) { return to(cn_randn(CN_SHAPE(3, 4))); }

/* x + 1, which is not computed yet. */
static cn_tensor *pending(void) { return cn_add(some(), cn_num(1)); }

static int read_one(cn_tensor *x)
{
  float numbers[12];
  return cn_to_data(numbers, sizeof numbers, x);
}

static void one_program_for_all_that_looks_alike(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  fake_counts before = count();
  for (int i = 0; i < 3; i++) assert_int_equal(read_one(cn_mul(pending(), cn_num(2))), 0);
  fake_counts after = count();
  assert_int_equal(after.compiled - before.compiled, 1);
  assert_int_equal(after.executed - before.executed, 3);
  assert_int_equal(read_one(to(cn_ones(CN_SHAPE(12)))), 0); /* nothing to compute */
  cn_tensor *kept = pending(); /* one result is asked for, both are computed: the other is there, too */
  cn_tensor *other = cn_exp(kept);
  assert_int_equal(read_one(other), 0);
  assert_int_equal(read_one(kept), 0);
  assert_int_equal(count().executed - after.executed, 1);
  cn_scope_end(s);
  fine();
}

static void a_program_for_another_device(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  size_t elsewhere = count().elsewhere;
  cn_tensor *x = cn_to_device(cn_randn(CN_SHAPE(3, 4)), cn_device_find("pjrt:1"));
  assert_int_equal(read_one(cn_add(x, cn_num(1))), 0);
  assert_int_equal(count().elsewhere, elsewhere + 1);
  assert_null(cn_add(x, some()));
  expect_error(CN_ERR_DEVICE, "");
  cn_scope_end(s);
}

static void what_nobody_asks_for_is_not_run(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  size_t executed = count().executed, uploads = count().uploads;
  pending();
  cn_scope_end(s);
  assert_int_equal(cn_device_sync(there), 0);
  assert_int_equal(count().executed, executed);
  assert_int_equal(count().uploads, uploads);
}

/* A loop that never reads anything is run in parts all the same, and holds no more than its parts need. */
static void long_programs_are_run_in_parts(void **state)
{
  (void)state;
  need_device();
  size_t executed = count().executed;
  cn_tensor *x = NULL;
  assert_int_equal(cn_set(&x, some()), 0);
  for (int i = 0; i < 5000; i++) {
    cn_scope *s = cn_scope_begin();
    assert_int_equal(cn_set(&x, cn_add(x, cn_num(1))), 0);
    cn_scope_end(s);
  }
  assert_int_equal(count().executed, executed + 2);
  assert_int_equal(read_one(x), 0);
  assert_int_equal(count().executed, executed + 3);
  cn_release(x);
  fine();
}

/* Another number is another program: they do not pile up. */
static void programs_do_not_pile_up(void **state)
{
  (void)state;
  need_device();
  for (int i = 0; i < 1200; i++) {
    cn_scope *s = cn_scope_begin();
    assert_int_equal(read_one(cn_mul(pending(), cn_num(3 + i))), 0);
    cn_scope_end(s);
  }
  assert_true(count().executables <= 1000);
  fine();
}

/* ---- failures: an error as everywhere, and the next program runs ---- */

static void expect_failure(const char *what, int code, const char *text)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = pending();
  fake_fail(what);
  assert_true(read_one(x) < 0);
  fake_fail("");
  expect_error(code, text);
  if (strcmp(what, "download")) {
    assert_true(read_one(x) < 0); /* it stays without a value */
    cn_err_clear();
  }
  cn_device_sync(there);
  cn_err_clear();
  assert_int_equal(read_one(pending()), 0);
  assert_int_equal(cn_device_sync(there), 0);
  cn_scope_end(s);
  fine();
}

static void refusals(void **state)
{
  (void)state;
  need_device();
  expect_failure("upload", CN_ERR_MEMORY, "Out of memory while trying to allocate 1.00TiB (code 8)");
  expect_failure("execute", CN_ERR_DEVICE, "pjrt: running a program: no execution (code 13)");
  expect_failure("download", CN_ERR_DEVICE, "pjrt: reading a tensor: no transfer (code 13)");
  expect_failure("execute", CN_ERR_DEVICE, "libfake_pjrt.so"); /* whose error it is */
}

static void late_failures(void **state)
{
  (void)state;
  need_device();
  expect_failure("upload-late", CN_ERR_DEVICE, "sending a tensor to the device: it failed while it ran");
  expect_failure("execute-late", CN_ERR_DEVICE, "it failed while it ran");
  expect_failure("memory", CN_ERR_MEMORY, "Out of memory while trying to allocate 1.00TiB");
}

static void a_program_that_does_not_compile(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_sub(pending(), cn_num(12345)); /* a text of its own */
  fake_fail("compile");
  assert_true(read_one(x) < 0);
  expect_error(CN_ERR_DEVICE, "compiling a program: -:2:7: error: custom op 'stablehlo.frobnicate' is unknown");
  fake_fail("");
  assert_int_equal(read_one(cn_sub(pending(), cn_num(12345))), 0); /* it was not kept */
  cn_scope_end(s);
  fine();
}

/* What fails late is told by the next one who waits, too, though nobody reads it. */
static void late_failures_are_told_at_the_end(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = pending();
  fake_fail("execute-late");
  assert_true(cn_device_sync(there) < 0);
  fake_fail("");
  expect_error(CN_ERR_DEVICE, "running a program: it failed while it ran");
  assert_int_equal(cn_device_sync(there), 0);
  assert_true(read_one(x) < 0);
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- whole graphs ---- */

typedef struct running {
  cn_tensor *total;
} running;

static int add_up(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  running *r = payload;
  cn_add_(r->total, in[0]);
  out[0] = cn_mul(r->total, cn_num(0.5));
  return cn_err();
}

static void states_are_given_away(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  running r = {some()};
  cn_tensor *x = some(), *out = NULL, *held;
  cn_graph *g = cn_trace(add_up, 1, &x, 1, &r);
  fine();
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  fake_counts before = count();
  for (int i = 0; i < 3; i++) assert_int_equal(cn_graph_run(&out, g, &x), 0);
  assert_int_equal(count().given - before.given, 3);
  assert_int_equal(count().executed - before.executed, 3);
  held = cn_clone(r.total); /* shares the value, so that it must stay as it is */
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  assert_int_equal(count().kept - before.kept, 1);
  assert_int_equal(read_one(held), 0);
  fake_fail("execute");
  assert_true(cn_graph_run(&out, g, &x) < 0);
  fake_fail("");
  expect_error(CN_ERR_DEVICE, "no execution");
  assert_int_equal(read_one(r.total), 0); /* nothing had begun */
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  cn_graph_free(g);
  cn_scope_end(s);
  fine();
}

typedef struct counting {
  cn_tensor *total, *steps; /* on the device; on the host */
} counting;

static int count_steps(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  counting *c = payload;
  cn_add_(c->steps, cn_num(1));
  cn_add_(c->total, cn_mul(in[0], c->steps));
  out[0] = cn_mul(c->total, cn_num(2));
  return cn_err();
}

/* A step count in host memory does not keep a graph from being one program; the host counts on. */
static void states_of_the_host(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  counting c = {some(), cn_zeros(CN_SCALAR_SHAPE)};
  cn_tensor *x = some(), *out = NULL;
  cn_graph *g = cn_trace(count_steps, 1, &x, 1, &c);
  fine();
  for (int i = 1; i < 4; i++) {
    size_t executed = count().executed;
    assert_int_equal(cn_graph_run(&out, g, &x), 0);
    assert_int_equal(count().executed, executed + 1);
    assert_true(cn_item(c.steps) == i);
  }
  assert_int_equal(cn_device_of(out), there);
  fake_fail("execute");
  assert_true(cn_graph_run(&out, g, &x) < 0);
  fake_fail("");
  cn_err_clear();
  assert_true(cn_item(c.steps) == 3); /* nothing was done */
  cn_graph_free(g);
  cn_scope_end(s);
  fine();
}

/* ---- the cache on disk ---- */

static void programs_on_disk(void **state)
{
  (void)state;
  need_device();
  char command[600], folder[] = "/tmp/cairn-pjrt-XXXXXX", text[100] = "";
  if (getenv("CAIRN_PJRT_CACHED")) SKIP_TEST("this is the run that is looked at");
  assert_non_null(mkdtemp(folder));
  static const char *const want[] = {"compiled 1, loaded 0", "compiled 0, loaded 1", "compiled 1, loaded 0"};
  for (int i = 0; i < 3; i++) { /* the third is told that what was stored is damaged */
    snprintf(command, sizeof command, "CAIRN_CACHE=%s CAIRN_PJRT_CACHED=%s %s", folder, i < 2 ? "plain" : "damaged",
             started_as);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(text, sizeof text, out));
    assert_int_equal(pclose(out), 0);
    text[strcspn(text, "\n")] = 0;
    assert_string_equal(text, want[i]);
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

/* What the test above starts: one program, and how it was had. */
static int run_cached(const char *how)
{
  void *unused = NULL;
  if (find_device(&unused) || !there) return 1;
  cn_scope *s = cn_scope_begin();
  if (!strcmp(how, "damaged")) fake_fail("load");
  int status = read_one(pending());
  printf("compiled %zu, loaded %zu\n", count().compiled, count().loaded);
  cn_scope_end(s);
  return status != 0;
}

/* Nothing is left behind: the last test. */
/* Two devices as one: a tensor goes to each in part or whole, and is brought together again. */
static void meshes(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  const cn_mesh mesh = {1, {{"data", 2}}}, other = {1, {{"rows", 2}}};
  const cn_device devices[2] = {there, cn_device_find("pjrt:1")}, twice[2] = {there, there}, host[2] = {there, CN_CPU};
  cn_device all = cn_mesh_device(&mesh, devices, 2);
  cn_mesh same;
  fine();
  assert_int_equal(cn_mesh_device(&mesh, devices, 2), all);
  assert_int_not_equal(cn_mesh_device(&other, devices, 2), all);
  assert_true(cn_mesh_of(&same, all));
  assert_string_equal(same.axes[0].name, "data");
  assert_false(cn_mesh_of(NULL, there));
  assert_int_equal(cn_device_count("pjrt"), 2);
  cn_tensor *x = cn_randn(CN_SHAPE(4, 2)), *y = cn_to_device(x, all);
  const char *const splits[] = {"data", "*, data", ""};
  for (int i = 0; i < 3; i++) {
    cn_tensor *part = cn_shard(y, splits[i]);
    char *text = cn_sharding(part);
    fine();
    assert_string_equal(text, splits[i]);
    close_to(splits[i], x, part, 0);
    cn_string_free(text);
  }
  cn_shard(y, "model");
  expect_error(CN_ERR_VALUE, "no axis 'model'; it has data");
  cn_shard(cn_to_device(cn_randn(CN_SHAPE(3)), all), "data");
  expect_error(CN_ERR_SHAPE, "dim 0 of size 3 cannot be split in 2");
  cn_mesh_device(&mesh, devices, 1);
  expect_error(CN_ERR_VALUE, "2 places, and there are 1 devices");
  cn_mesh_device(&mesh, twice, 2);
  expect_error(CN_ERR_DEVICE, "there twice");
  cn_mesh_device(&mesh, host, 2);
  expect_error(CN_ERR_DEVICE, "two kinds");
  assert_null(cn_sharding(x));
  expect_error(CN_ERR_DEVICE, "on no mesh");
  cn_scope_end(s);
  fine();
}

static void nothing_is_left(void **state)
{
  (void)state;
  need_device();
  fake_counts c = count();
  assert_int_equal(cn_device_sync(there), 0);
  assert_int_equal(cn_device_sync(cn_device_find("pjrt:1")), 0);
  assert_int_equal(c.buffers, 0);
  assert_int_equal(c.errors, 0);
  assert_int_equal(count().events, 0);
  assert_true(c.executables > 0); /* they are kept for the next time */
}

int main(int argc, char **argv)
{
  (void)argc;
  started_as = argv[0];
  use_fake(argv[0]);
  unsetenv("PJRT_TEST_PYTHON");
  if (getenv("CAIRN_PJRT_CACHED")) return run_cached(getenv("CAIRN_PJRT_CACHED"));
  setenv("CAIRN_CACHE", "off", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(information),
      cmocka_unit_test(copies),
      cmocka_unit_test(one_program_for_all_that_looks_alike),
      cmocka_unit_test(a_program_for_another_device),
      cmocka_unit_test(what_nobody_asks_for_is_not_run),
      cmocka_unit_test(long_programs_are_run_in_parts),
      cmocka_unit_test(programs_do_not_pile_up),
      cmocka_unit_test(refusals),
      cmocka_unit_test(late_failures),
      cmocka_unit_test(late_failures_are_told_at_the_end),
      cmocka_unit_test(a_program_that_does_not_compile),
      cmocka_unit_test(states_are_given_away),
      cmocka_unit_test(states_of_the_host),
      cmocka_unit_test(programs_on_disk),
      cmocka_unit_test(meshes),
      cmocka_unit_test(nothing_is_left),
  };
  return cmocka_run_group_tests(tests, find_device, NULL);
}
