/* test_context.c: what a run may take: time, threads, a stream, and until somebody cancels it. A run that is stopped
 * has changed nothing, its context serves the next one, and that gives what it should.
 *
 * Where a run is stopped is decided by how often it asks whether it is cancelled, so that nothing here depends on
 * time. The thread sanitizer's preset runs this. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/cairn.h>
#include <cairn/control.h>
#include <cairn/device.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tensors.h"

/* A call that gave this status failed with it, and its message mentions the word. */
static void failed(int status, int code, const char *word)
{
  assert_int_equal(status, code);
  assert_fails(code, word);
}

static void ok(int status)
{
  if (status || cn_err()) fail_msg("%s", cn_err_message());
}

static cn_graph *traced(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_graph *g = cn_trace(fn, nout, in, nin, payload);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static size_t in_use(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.in_use - m.cached;
}

/* Is asked whether to go on, and says no from the last time on. */
typedef struct patience {
  int asked, last;
} patience;

static bool lost(void *payload)
{
  patience *p = payload;
  return ++p->asked >= p->last;
}

static int run_within(cn_tensor **out, cn_graph *g, cn_tensor *const *in, patience *p)
{
  return cn_graph_run_with(out, g, in, &(cn_run_opts){.size = sizeof(cn_run_opts), .cancelled = lost, .payload = p});
}

/* ---- a step that writes states, stopped everywhere ---- */

typedef struct kept {
  cn_tensor *w, *count, *noise; /* (4, 3), (), (2, 3) */
} kept;

static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  kept *k = payload; /* in: x (2, 4) */
  cn_tensor *y = cn_dropout(cn_softmax(cn_matmul(in[0], k->w), 1), .p = 0.5);
  cn_tensor *slope = cn_matmul(cn_transpose(in[0], 0, 1), y);
  cn_add_(k->count, cn_num(1));
  cn_sub_(k->w, cn_mul(slope, cn_num(0.1)));
  cn_copy_(k->noise, y);
  out[0] = cn_sum(y);
  return cn_err();
}

static kept kept_new(cn_device device)
{
  cn_seed(5);
  return (kept){cn_randn(CN_SHAPE(4, 3), .device = device), cn_zeros(CN_SCALAR_SHAPE, .device = device),
                cn_zeros(CN_SHAPE(2, 3), .device = device)};
}

/* Stops a run of the step at every place where it looks; between those, whole runs give what the function gives. */
static void stop_everywhere(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4), .device = device), *out = NULL, *want = NULL;
  kept k = kept_new(device), eager = kept_new(device);
  cn_graph *g = traced(step, 1, &x, 1, &k);
  int stopped = 0;
  cn_seed(9);
  for (bool through = false; !through; stopped += !through) {
    cn_tensor *before = cn_clone(k.w);
    patience p = {0, stopped + 1};
    int status = run_within(&out, g, &x, &p);
    through = !status;
    if (through) break;
    failed(status, CN_ERR_CANCELLED, "cancelled");
    assert_true(same_elements(before, k.w)); /* nothing was written */
    assert_float_equal(cn_item(k.count), stopped, 0);
    uint64_t seed, offset;
    cn_random_state(&seed, &offset); /* nor drawn */
    ok(step(&want, &x, &eager));
    cn_random_set_state(seed, offset);
    ok(cn_graph_run(&out, g, &x));
    assert_true(same_elements(out, want) && same_elements(k.w, eager.w) && same_elements(k.noise, eager.noise));
  }
  assert_true(stopped > 3);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_stopped_steps(void **state)
{
  (void)state;
  stop_everywhere(CN_CPU);
}

/* A device that records a context's second run, and repeats it: the launch is one thing. */
static void test_recorded_steps(void **state)
{
  (void)state;
  cn_device mirror = cn_device_find("mirror");
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4), .device = mirror), *out = NULL, *want = NULL;
  kept k = kept_new(mirror), eager = kept_new(mirror);
  cn_graph *g = traced(step, 1, &x, 1, &k);
  for (int i = 0; i < 6; i++) { /* node by node, recorded, repeated */
    patience none = {0, 1};
    failed(run_within(&out, g, &x, &none), CN_ERR_CANCELLED, "cancelled");
    cn_seed((uint64_t)i);
    ok(step(&want, &x, &eager));
    cn_seed((uint64_t)i);
    ok(cn_graph_run(&out, g, &x));
    assert_true(same_elements(out, want) && same_elements(k.w, eager.w) && same_elements(k.noise, eager.noise));
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_timeout(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4)), *out = NULL;
  kept k = kept_new(CN_CPU);
  cn_graph *g = traced(step, 1, &x, 1, &k);
  cn_run_opts brief = {.size = sizeof brief, .timeout = 1e-9}, ample = {.size = sizeof ample, .timeout = 1e6};
  failed(cn_graph_run_with(&out, g, &x, &brief), CN_ERR_TIMEOUT, "time limit of 1e-09 s");
  ok(cn_graph_run_with(&out, g, &x, &ample));
  assert_float_equal(cn_item(k.count), 1, 0);
  cn_run_opts wrong = {.size = sizeof wrong, .timeout = -1};
  failed(cn_graph_run_with(&out, g, &x, &wrong), CN_ERR_VALUE, "timeout of -1");
  wrong = (cn_run_opts){.size = sizeof wrong, .threads = -2};
  failed(cn_graph_run_with(&out, g, &x, &wrong), CN_ERR_VALUE, "-2 threads");
  ok(cn_graph_run_with(&out, g, &x, NULL));
  cn_graph_free(g);
  cn_scope_end(s);
}

/* A state that a node writes, whose new value another reads that can fail: the first is not written in place. */
static int count_down(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *left = payload;
  cn_sub_(left, in[0]);
  out[0] = cn_nll_loss(cn_zeros(CN_SHAPE(1, 3)), cn_cast(cn_reshape(left, CN_SHAPE(1)), CN_I64));
  return cn_err();
}

static void test_states_wait_for_their_readers(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *left = cn_full(CN_SCALAR_SHAPE, 2), *one = cn_ones(CN_SCALAR_SHAPE), *ten = cn_full(CN_SCALAR_SHAPE, 10);
  cn_tensor *out = NULL;
  cn_graph *g = traced(count_down, 1, &one, 1, left);
  ok(cn_graph_run(&out, g, &one));
  assert_float_equal(cn_item(left), 1, 0);
  assert_true(cn_graph_run(&out, g, &ten) < 0); /* class -9 */
  cn_err_clear();
  assert_float_equal(cn_item(left), 1, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- loops ---- */

static int same_again(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)payload;
  for (size_t i = 0; i < nin; i++) out[i] = in[i];
  *nout = nin;
  return CN_OK;
}

static int forever(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* in: a condition that stays what it is */
  return cn_while(out, in, 1, same_again, same_again, NULL);
}

static int grows(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_tanh(cn_add(in[0], in[1]));
  out[1] = cn_mul(out[0], cn_num(2));
  *nout = 2;
  return cn_err();
}

static int scanned(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* in: h (3), xs (5, 3) */
  size_t nys = 1;
  return cn_scan(&out[0], &out[1], &nys, in, 1, in + 1, 1, grows, NULL);
}

static void test_loops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *yes = cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_BOOL), *no = cn_full(CN_SCALAR_SHAPE, 0, .dtype = CN_BOOL);
  cn_tensor *out[2] = {NULL}, *want[2] = {NULL};
  cn_graph *g = traced(forever, 1, &no, 1, NULL);
  patience p = {0, 1000};
  failed(run_within(out, g, &yes, &p), CN_ERR_CANCELLED, "while");
  assert_int_equal(p.asked, 1000);
  cn_run_opts brief = {.size = sizeof brief, .timeout = 0.01};
  failed(cn_graph_run_with(out, g, &yes, &brief), CN_ERR_TIMEOUT, "0.01 s");
  ok(cn_graph_run(out, g, &no));
  cn_graph_free(g);

  cn_tensor *in[2] = {cn_zeros(CN_SHAPE(3)), cn_randn(CN_SHAPE(5, 3))};
  g = traced(scanned, 2, in, 2, NULL);
  ok(scanned(want, in, NULL));
  int status = CN_ERR_CANCELLED, stops = 0;
  for (; status; stops++) {
    p = (patience){0, stops + 1};
    status = run_within(out, g, in, &p);
    if (!status) break;
    failed(status, CN_ERR_CANCELLED, "cancelled");
    ok(cn_graph_run(out, g, in));
    assert_true(same_elements(out[0], want[0]) && same_elements(out[1], want[1]));
  }
  assert_true(stops >= 5 * 3); /* each step, and each of its nodes */
  assert_true(same_elements(out[0], want[0]) && same_elements(out[1], want[1]));
  cn_graph_free(g);
  cn_scope_end(s);
}

/* As code that runs by itself: the loops look, too. */
static void test_eager_loops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *yes = cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_BOOL), *out = NULL;
  patience p = {0, 100};
  cn_limits *l = cn_limits_begin(.cancelled = lost, .payload = &p);
  failed(forever(&out, &yes, NULL), CN_ERR_CANCELLED, "cancelled");
  cn_limits_end(l);
  cn_scope_end(s);
}

/* ---- sizes that nodes define ---- */

static int selected(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *sum = payload; /* in: x (8) */
  cn_tensor *some = cn_masked_select(in[0], cn_gt(in[0], cn_num(0)));
  cn_add_(sum, cn_sum(cn_exp(some)));
  out[0] = cn_mul(some, cn_num(2));
  return cn_err();
}

static void test_counted(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(2);
  cn_tensor *x = cn_randn(CN_SHAPE(8)), *sum = cn_zeros(CN_SCALAR_SHAPE), *out = NULL, *want = NULL;
  cn_graph *g = traced(selected, 1, &x, 1, sum);
  double total = 0;
  for (int stops = 0;; stops++) {
    patience p = {0, stops + 1};
    int status = run_within(&out, g, &x, &p);
    if (status) {
      failed(status, CN_ERR_CANCELLED, "cancelled");
      assert_float_equal(cn_item(sum), total, 0);
      ok(cn_graph_run(&out, g, &x));
    }
    total = cn_item(sum);
    cn_tensor *other = cn_zeros(CN_SCALAR_SHAPE);
    ok(selected(&want, &x, other));
    assert_true(same_elements(out, want));
    if (!status) {
      assert_true(stops > 3);
      break;
    }
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- threads ---- */

static int products(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* in: a, b (160, 160) */
  cn_tensor *c = cn_matmul(in[0], in[1]);
  out[0] = cn_softmax(cn_add(c, cn_sum(in[0], .dim = CN_INTS(1), .keepdim = true)), 1);
  return cn_err();
}

static void test_thread_budget(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_randn(CN_SHAPE(160, 160)), cn_randn(CN_SHAPE(160, 160))}, *out = NULL, *want = NULL;
  cn_set_num_threads(4);
  cn_graph *g = traced(products, 1, in, 2, NULL);
  ok(products(&want, in, NULL));
  for (int threads = 0; threads <= 6; threads++) {
    ok(cn_graph_run_with(&out, g, in, &(cn_run_opts){.size = sizeof(cn_run_opts), .threads = threads}));
    assert_true(same_elements(out, want));
    assert_int_equal(cn_num_threads(), 4);
  }
  cn_limits *two = cn_limits_begin(.threads = 2);
  assert_int_equal(cn_num_threads(), 2);
  cn_limits *three = cn_limits_begin(.threads = 3); /* cannot be wider */
  assert_int_equal(cn_num_threads(), 2);
  cn_limits *one = cn_limits_begin(.threads = 1);
  assert_int_equal(cn_num_threads(), 1);
  cn_limits_end(one);
  assert_int_equal(cn_num_threads(), 2);
  cn_limits_end(two); /* and what is inside */
  cn_limits_end(three);
  cn_limits_end(NULL);
  assert_int_equal(cn_num_threads(), 4);
  cn_set_num_threads(0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- limits by themselves ---- */

static void test_ops(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  patience p = {0, 3};
  cn_limits *outer = cn_limits_begin(.cancelled = lost, .payload = &p);
  cn_limits *inner = cn_limits_begin(.timeout = 1e6); /* those around it hold inside, too */
  ok(cn_limits_check());
  assert_non_null(cn_exp(x));
  assert_null(cn_exp(x));
  failed(cn_err(), CN_ERR_CANCELLED, "exp");
  failed(cn_limits_check(), CN_ERR_CANCELLED, "limits_check");
  cn_limits_end(inner);
  cn_limits_end(outer);
  assert_non_null(cn_exp(x));
  ok(cn_limits_check());
  assert_null(cn_limits_begin(.timeout = -1));
  failed(cn_err(), CN_ERR_VALUE, "timeout");
  cn_scope_end(s);
}

static void *leaves_limits_open(void *unused)
{
  (void)unused;
  cn_limits *l = cn_limits_begin(.timeout = 1e6, .threads = 1);
  return l && cn_num_threads() == 1 ? NULL : "no limits";
}

static void test_threads_that_end(void **state)
{
  (void)state;
  pthread_t t;
  void *problem;
  assert_int_equal(pthread_create(&t, NULL, leaves_limits_open, NULL), 0);
  pthread_join(t, &problem);
  assert_null(problem);
}

/* ---- compiled functions ---- */

static int compiled_fn(cn_compile_call *call)
{
  call->outputs[0] = cn_sum(cn_mul(cn_exp(call->inputs[0]), call->payload));
  call->noutputs = 1;
  return cn_err();
}

/* A capture that is stopped is forgotten; backward runs in the limits of whoever calls it. */
static void test_compiled(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *out = NULL, *w = cn_requires_grad(cn_full(CN_SHAPE(3), 2), true);
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  for (int at = 1;; at++) {
    patience p = {0, at};
    cn_limits *l = cn_limits_begin(.cancelled = lost, .payload = &p);
    int status = cn_compiled_call(c, &(cn_compile_call){.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1,
                                                        .payload = w});
    cn_limits_end(l);
    if (!status) break;
    failed(status, CN_ERR_CANCELLED, "cancelled");
  }
  for (int at = 1;; at++) {
    patience p = {0, at};
    cn_limits *l = cn_limits_begin(.cancelled = lost, .payload = &p);
    int status = cn_backward(out, .retain_graph = true);
    cn_limits_end(l);
    if (!status) break;
    failed(status, CN_ERR_CANCELLED, "cancelled");
    assert_null(cn_grad_of(w));
  }
  assert_true(same_elements(cn_grad_of(w), cn_exp(x)));
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* ---- streams ---- */

static int doubled(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_softmax(cn_mul(in[0], cn_num(2)), 0);
  return cn_err();
}

static void run_in_stream(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(5)), *out = NULL, *want = NULL;
  x = cn_to_device(x, device);
  cn_stream *one = cn_stream_new(device, 0), *two = cn_stream_new(device, 0);
  cn_graph *g = traced(doubled, 1, &x, 1, NULL);
  ok(doubled(&want, &x, NULL));
  ok(cn_device_sync(device));
  ok(cn_stream_use(device, two));
  for (int i = 0; i < 5; i++) {
    ok(cn_graph_run_with(&out, g, &x, &(cn_run_opts){.size = sizeof(cn_run_opts), .stream = one}));
    assert_ptr_equal(cn_stream_current(device), two); /* as it was */
    ok(cn_stream_sync(one));
    assert_true(same_elements(cn_to_device(out, CN_CPU), cn_to_device(want, CN_CPU)));
  }
  patience p = {0, 1};
  cn_run_opts stopped = {.size = sizeof stopped, .stream = one, .cancelled = lost, .payload = &p};
  failed(cn_graph_run_with(&out, g, &x, &stopped), CN_ERR_CANCELLED, "cancelled");
  assert_ptr_equal(cn_stream_current(device), two);
  ok(cn_stream_use(device, NULL));
  cn_graph_free(g);
  cn_stream_release(one);
  cn_stream_release(two);
  cn_scope_end(s);
}

static void test_streams(void **state)
{
  (void)state;
  cn_device mirror = cn_device_find("mirror");
  run_in_stream(mirror);
  run_in_stream(CN_CPU); /* the only queue that there is */
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *out = NULL;
  cn_graph *g = traced(doubled, 1, &x, 1, NULL);
  cn_stream *elsewhere = cn_stream_new(mirror, 0);
  failed(cn_graph_run_with(&out, g, &x, &(cn_run_opts){.size = sizeof(cn_run_opts), .stream = elsewhere}),
               CN_ERR_DEVICE, "the graph has nothing");
  cn_stream_release(elsewhere);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- several threads ---- */

typedef struct shared {
  cn_graph *g;
  cn_tensor *x;
  _Atomic int inside;   /* the run that holds the turn is in its call of the host */
  _Atomic bool let_go, give_up;
} shared;

static int wait_there(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  shared *k = payload;
  (void)nout, (void)nin;
  atomic_fetch_add(&k->inside, 1);
  while (!atomic_load(&k->let_go)) {}
  memcpy(cn_data(out[0]), cn_data(in[0]), sizeof(float));
  return CN_OK;
}

static int waits(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  kept *k = ((void **)payload)[0];
  const cn_host_result result = {CN_F32, 0, {0}};
  if (cn_host_call(out, &result, 1, in, 1, wait_there, ((void **)payload)[1])) return cn_err();
  cn_add_(k->count, out[0]);
  return cn_err();
}

static void *run_once(void *payload)
{
  shared *k = payload;
  cn_scope *s = cn_scope_begin();
  cn_tensor *out = NULL;
  int status = cn_graph_run(&out, k->g, &k->x);
  cn_scope_end(s);
  return status ? "failed" : NULL;
}

static bool gave_up(void *payload) { return atomic_load(&((shared *)payload)->give_up); }

static void *give_up_soon(void *payload)
{
  shared *k = payload;
  while (!atomic_load(&k->inside)) {}
  atomic_store(&k->give_up, true);
  return NULL;
}

/* A run that writes waits for its turn no longer than it may. */
static void test_waiting_for_a_turn(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  kept k = kept_new(CN_CPU);
  cn_tensor *x = cn_ones(CN_SCALAR_SHAPE), *out = NULL;
  shared h = {.x = x};
  void *payload[2] = {&k, &h}, *problem;
  h.g = traced(waits, 1, &x, 1, payload);
  pthread_t first, other;
  assert_int_equal(pthread_create(&first, NULL, run_once, &h), 0);
  assert_int_equal(pthread_create(&other, NULL, give_up_soon, &h), 0);
  while (!atomic_load(&h.inside)) {}
  cn_run_opts o = {.size = sizeof o, .cancelled = gave_up, .payload = &h};
  failed(cn_graph_run_with(&out, h.g, &x, &o), CN_ERR_CANCELLED, "cancelled");
  pthread_join(other, &problem);
  o = (cn_run_opts){.size = sizeof o, .timeout = 0.001};
  failed(cn_graph_run_with(&out, h.g, &x, &o), CN_ERR_TIMEOUT, "0.001 s");
  atomic_store(&h.let_go, true);
  pthread_join(first, &problem);
  assert_null(problem);
  ok(cn_graph_run(&out, h.g, &x));
  assert_float_equal(cn_item(k.count), 2, 0);
  cn_graph_free(h.g);
  cn_scope_end(s);
}

enum { CALLERS = 4, CALLS = 60 };

typedef struct caller {
  cn_graph *g;
  cn_tensor *const *in;
  cn_tensor *want;
  int index, wrong, stopped;
} caller;

static void *call_often(void *payload)
{
  caller *c = payload;
  for (int i = 0; i < CALLS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *out = NULL;
    patience p = {0, 1 + (i * 7 + c->index) % 6};
    cn_run_opts o = {.size = sizeof o, .threads = 1 + c->index % 3, .cancelled = lost, .payload = &p};
    int status = cn_graph_run_with(&out, c->g, c->in, &o);
    if (!status) c->wrong += !same_elements(out, c->want);
    else c->wrong += status != CN_ERR_CANCELLED, c->stopped++, cn_err_clear();
    cn_scope_end(s);
  }
  return NULL;
}

/* Callers of one graph, some of whose runs are stopped. The pool of contexts has as many as ran at once. */
static void test_callers(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_randn(CN_SHAPE(160, 160)), cn_randn(CN_SHAPE(160, 160))}, *want = NULL;
  cn_set_num_threads(4);
  cn_graph *g = traced(products, 1, in, 2, NULL);
  ok(products(&want, in, NULL));
  size_t planned, before = in_use();
  for (int round = 0; round < 3; round++) {
    caller c[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
      c[i] = (caller){g, in, want, i, 0, 0};
      assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
      pthread_join(threads[i], NULL);
      assert_int_equal(c[i].wrong, 0);
      assert_true(c[i].stopped > 0 && c[i].stopped < CALLS);
    }
  }
  cn_graph_memory(g, &planned, NULL);
  assert_true(in_use() - before <= CALLERS * (planned + 65536));
  cn_set_num_threads(0);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  setenv("CAIRN_MIRROR", "graphs", 1); /* the mirror takes no graph whole here: it records */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_stopped_steps, clear_errors),
    cmocka_unit_test_setup(test_recorded_steps, clear_errors),
    cmocka_unit_test_setup(test_timeout, clear_errors),
    cmocka_unit_test_setup(test_states_wait_for_their_readers, clear_errors),
    cmocka_unit_test_setup(test_loops, clear_errors),
    cmocka_unit_test_setup(test_eager_loops, clear_errors),
    cmocka_unit_test_setup(test_counted, clear_errors),
    cmocka_unit_test_setup(test_thread_budget, clear_errors),
    cmocka_unit_test_setup(test_ops, clear_errors),
    cmocka_unit_test_setup(test_threads_that_end, clear_errors),
    cmocka_unit_test_setup(test_compiled, clear_errors),
    cmocka_unit_test_setup(test_streams, clear_errors),
    cmocka_unit_test_setup(test_waiting_for_a_turn, clear_errors),
    cmocka_unit_test_setup(test_callers, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
