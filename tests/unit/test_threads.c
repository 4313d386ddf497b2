/* test_threads.c: several threads at once, each with a state of its own: the first use of everything, tensors shared
 * for reading, gradients that meet in one leaf, states that move between threads, threads that end with everything
 * open.
 *
 * The thread sanitizer's preset runs this. Threads only note what is wrong; the test's own thread reports it. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <pthread.h>
#include <string.h>

#include "test.h"

enum { THREADS = 6, ROUNDS = 20 };

typedef struct worker {
  int index;
  int bad_line; /* of the first expectation that did not hold */
  void *payload;
} worker;

#define EXPECT(condition) ((condition) ? (void)0 : (void)(w->bad_line = w->bad_line ? w->bad_line : __LINE__))

static pthread_barrier_t barrier;

typedef void (*work_fn)(worker *w);
typedef struct start {
  worker w;
  work_fn work;
} start;

static void *run_one(void *payload)
{
  start *s = payload;
  pthread_barrier_wait(&barrier);
  s->work(&s->w);
  return NULL;
}

/* Runs work on n threads that begin together. */
static void run_threads(int n, work_fn work, void *payload)
{
  pthread_t threads[16];
  start starts[16];
  pthread_barrier_init(&barrier, NULL, (unsigned)n);
  for (int i = 0; i < n; i++) {
    starts[i] = (start){{i, 0, payload}, work};
    assert_int_equal(pthread_create(&threads[i], NULL, run_one, &starts[i]), 0);
  }
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  for (int i = 0; i < n; i++)
    if (starts[i].w.bad_line) fail_msg("thread %d: line %d: %s", i, starts[i].w.bad_line, cn_err_message());
}

static bool equal(cn_tensor *a, cn_tensor *b) { return a && b && cn_item(cn_all(cn_eq(a, b))) > 0; }

static size_t in_use(void)
{
  cn_memory_stats m;
  cn_memory_trim();
  cn_memory_get_stats(&m);
  return m.in_use;
}

/* ---- the first call of the process, on all threads ---- */

static void first_use(worker *w)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(3, 4)), true), *y = NULL;
  switch (w->index) { /* each begins in another corner */
  case 0: y = cn_matmul(x, cn_ones(CN_SHAPE(4, 2))); break;
  case 1: y = cn_gelu(x); break;
  case 2: y = cn_conv2d(cn_reshape(x, CN_SHAPE(1, 1, 3, 4)), cn_ones(CN_SHAPE(1, 1, 2, 2)), NULL); break;
  case 3: y = cn_softmax(x, 1); break;
  case 4: y = cn_cumsum(x, 0); break;
  default: y = cn_var(x); break;
  }
  EXPECT(cn_backward(cn_sum(y)) == 0);
  EXPECT(cn_grad_of(x) != NULL && !cn_err());
  EXPECT(cn_op_find("gelu") && cn_op_count() > 100 && cn_device_count("mirror") == 2);
  cn_scope_end(s);
}

static void test_first_use(void **state)
{
  (void)state;
  run_threads(THREADS, first_use, NULL);
}

/* The gradient programs of many ops are derived at their first use. */
static void first_gradients(worker *w)
{
  static cn_tensor *(*const ops[])(cn_tensor *) = {cn_sin,   cn_cos,   cn_tan,     cn_sinh,     cn_cosh,
                                                   cn_tanh,  cn_asinh, cn_atan,    cn_log1p,    cn_erf,
                                                   cn_expm1, cn_mish,  cn_sigmoid, cn_hardswish};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(5), 0.5), true);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) EXPECT(cn_backward(cn_sum(ops[i](x))) == 0);
  EXPECT(!cn_err());
  cn_scope_end(s);
}

static void test_first_gradients(void **state)
{
  (void)state;
  run_threads(THREADS, first_gradients, NULL);
}

/* ---- reading the same tensors ---- */

typedef struct shared {
  cn_tensor *x, *wide, *view, *weight, *want; /* (8, 8), (300, 300), (4, 8), (8, 8), (4, 8) */
} shared;

static void read_shared(worker *w)
{
  const shared *h = w->payload;
  char data[64 * sizeof(float)];
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    EXPECT(equal(cn_matmul(h->view, h->weight), h->want));
    EXPECT(cn_contiguous(h->x) == h->x); /* a result that is its input belongs to every thread's scope */
    EXPECT(cn_dropout(h->x, .p = 0.5, .no_training = true) != NULL);
    EXPECT(cn_item(cn_sum(h->wide)) == 90000 && cn_item(cn_sum(cn_transpose(h->wide, 0, 1))) == 90000);
    EXPECT(cn_to_data(data, sizeof data, h->x) == 0);
    char *text = cn_to_string(h->view);
    EXPECT(text != NULL);
    cn_string_free(text);
    EXPECT(cn_numel(cn_cat(((cn_tensor *[]){h->x, h->view}), 2)) == 96);
    EXPECT(!cn_err());
    cn_scope_end(s);
  }
}

static void test_shared_for_reading(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_reshape(cn_arange(0, 64, .dtype = CN_F32), CN_SHAPE(8, 8));
  shared h = {x, cn_ones(CN_SHAPE(300, 300)), cn_slice(x, 0, 2, 6), cn_eye(8, 8), NULL};
  h.want = cn_clone(h.view);
  run_threads(THREADS, read_shared, &h);
  assert_true(equal(h.want, h.view));
  cn_scope_end(s);
}

/* Loops large enough for the pool of workers, from all threads; an error reaches the thread whose loop it was. */
static void large_loops(worker *w)
{
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_full(CN_SHAPE(200000), (double)w->index, .dtype = CN_I64);
    cn_tensor *y = cn_floor_divide(cn_full(CN_SHAPE(200000), 12, .dtype = CN_I64), x);
    if (w->index == 0) {
      EXPECT(!y && cn_err() == CN_ERR_VALUE);
      cn_err_clear();
    } else {
      EXPECT(y && cn_item_int(cn_sum(y)) == 200000 * (12 / w->index));
    }
    cn_scope_end(s);
  }
}

static void test_large_loops(void **state)
{
  (void)state;
  assert_int_equal(cn_set_num_threads(3), 0);
  run_threads(THREADS, large_loops, NULL);
  assert_int_equal(cn_set_num_threads(0), 0);
}

/* ---- gradients ---- */

/* Views of one leaf, a graph of each thread's own: all gradients add up in the leaf. */
static void backward_into_leaf(worker *w)
{
  cn_tensor *leaf = w->payload; /* (6, 4) */
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *row = cn_select(leaf, 0, w->index), *t = cn_slice(cn_transpose(leaf, 0, 1), 0, 1, 3);
    EXPECT(cn_backward(cn_add(cn_sum(cn_mul(row, cn_num(2))), cn_sum(t))) == 0);
    cn_scope_end(s);
  }
}

static void test_backward_into_one_leaf(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *leaf = cn_requires_grad(cn_ones(CN_SHAPE(THREADS, 4)), true);
  run_threads(THREADS, backward_into_leaf, leaf);
  cn_tensor *want = cn_full(CN_SHAPE(THREADS, 4), 2 * ROUNDS);
  cn_add_(cn_slice(want, 1, 1, 3), cn_num(THREADS * ROUNDS));
  assert_true(equal(cn_grad_of(leaf), want));
  cn_scope_end(s);
}

/* One graph that nobody changes, walked by all (it is kept), and gradients with respect to its inner values. */
typedef struct kept_graph {
  cn_tensor *x, *y, *loss;
} kept_graph;

static void walk_kept_graph(worker *w)
{
  kept_graph *k = w->payload;
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[2] = {k->x, k->y}, *g[2] = {NULL, NULL};
    EXPECT(cn_grad(g, &k->loss, 1, in, 2, .retain_graph = true) == 0);
    EXPECT(g[0] && cn_item(cn_sum(g[0])) == 4 * 2 * 3 && g[1] && cn_item(cn_sum(g[1])) == 2 * 3 * 4);
    cn_scope_end(s);
  }
}

static void test_one_graph_many_walks(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  kept_graph k = {.x = cn_requires_grad(cn_full(CN_SHAPE(4), 1.5), true)};
  k.y = cn_mul(k.x, cn_num(1));
  k.loss = cn_sum(cn_mul(cn_mul(k.y, k.y), cn_num(2)));
  run_threads(THREADS, walk_kept_graph, &k);
  cn_scope_end(s);
}

/* Views whose base was written to after they were made: whoever reads one first brings its history up to date. */
static void read_stale_views(worker *w)
{
  cn_tensor **v = w->payload; /* the leaf (4, 4), then views of a written result of it */
  cn_scope *s = cn_scope_begin();
  cn_tensor *g = NULL, *total = cn_sum(cn_add(cn_sum(v[1]), cn_sum(cn_mul(v[2], v[2]))));
  EXPECT(total && cn_needs_grad(v[2]) && !cn_is_leaf(v[2]));
  EXPECT(cn_grad(&g, &total, 1, &v[0], 1, .retain_graph = true) == 0);
  EXPECT(g && cn_item(cn_sum(g)) == 4 * 10 + 4 * 2 * 10 * 10);
  cn_scope_end(s);
}

static void test_stale_views(void **state)
{
  (void)state;
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(4, 4)), true), *y = cn_mul(x, cn_num(1));
    cn_tensor *v[3] = {x, cn_select(y, 0, 1), cn_transpose(cn_slice(y, 0, 2, 3), 0, 1)};
    cn_mul_(y, cn_num(10));
    run_threads(THREADS, read_stale_views, v);
    cn_scope_end(s);
  }
}

/* ---- memory: made here, released there; threads that end in the middle of things ---- */

static void release_others(worker *w)
{
  cn_tensor **kept = w->payload;
  for (int i = w->index; i < 8 * THREADS; i += THREADS) cn_release(kept[i]);
}

static void leave_everything_open(worker *w)
{
  cn_scope *outer = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(50, 50)), true), *y = x;
  cn_scope *inner = cn_scope_begin();
  EXPECT(outer && inner);
  for (int i = 0; i < 20; i++) y = cn_tanh(cn_matmul(y, cn_transpose(x, 0, 1)));
  cn_backward(cn_sum(y), .retain_graph = true);
  EXPECT(cn_grad_of(x) != NULL && cn_err() == 0);
  cn_no_grad_begin();
  EXPECT(cn_add(x, cn_ones(CN_SHAPE(7))) == NULL && cn_err() == CN_ERR_SHAPE); /* stays pending */
}

static void make_here_release_there(void)
{
  cn_tensor *kept[8 * THREADS];
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(16, 16)), true);
  for (int i = 0; i < 8 * THREADS; i++) kept[i] = cn_keep(cn_select(cn_exp(cn_mul(x, x)), 0, i % 16));
  cn_scope_end(s);
  run_threads(THREADS, release_others, kept);
}

static void test_other_threads_release(void **state)
{
  (void)state;
  make_here_release_there(); /* what is made once is made now */
  size_t base = in_use();
  make_here_release_there();
  assert_int_equal(in_use(), base);
}

static void test_thread_end_releases_all(void **state)
{
  (void)state;
  run_threads(THREADS, leave_everything_open, NULL);
  size_t base = in_use();
  for (int i = 0; i < 5; i++) run_threads(THREADS, leave_everything_open, NULL);
  assert_int_equal(in_use(), base);
  assert_int_equal(cn_err(), 0); /* their errors were theirs */
}

/* Settings of the process, changed while others compute. */
static void change_settings(worker *w)
{
  cn_memory_stats m;
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *s = cn_scope_begin();
    if (w->index == 0) cn_memory_set_caching(i & 1);
    if (w->index == 1) cn_set_num_threads(1 + i % 3);
    if (w->index == 2) cn_memory_trim();
    if (w->index == 3) cn_memory_reset_peak();
    cn_memory_get_stats(&m);
    EXPECT(m.in_use > 0 && cn_item(cn_sum(cn_mul(cn_ones(CN_SHAPE(100000)), cn_num(2)))) == 200000);
    cn_scope_end(s);
  }
}

static void test_settings(void **state)
{
  (void)state;
  run_threads(THREADS, change_settings, NULL);
  cn_memory_set_caching(true);
  cn_set_num_threads(0);
}

/* ---- states that move ---- */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

typedef struct task_state {
  cn_state *state;
  cn_tensor *total; /* owned by the state's scope */
  int steps;
} task_state;

/* Each thread in turn installs the task's state, goes on where the last one stopped, and takes it out again. */
static void take_turns(worker *w)
{
  task_state *t = w->payload;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&turn);
    cn_state *mine = cn_state_swap(t->state);
    t->total = t->total ? cn_add(t->total, cn_rand(CN_SHAPE(3))) : cn_rand(CN_SHAPE(3));
    EXPECT(t->total != NULL);
    t->steps++;
    cn_state *back = cn_state_swap(mine);
    EXPECT(back == t->state);
    pthread_mutex_unlock(&turn);
    EXPECT(cn_item(cn_sum(cn_ones(CN_SHAPE(3)))) == 3); /* its own state again */
  }
}

static void test_state_moves(void **state)
{
  (void)state;
  task_state t = {cn_state_new(), NULL, 0};
  assert_non_null(t.state);
  cn_state *mine = cn_state_swap(t.state);
  cn_seed(11);
  cn_state_swap(mine);
  run_threads(THREADS, take_turns, &t);
  assert_int_equal(t.steps, THREADS * ROUNDS);
  cn_seed(11); /* the same numbers in a row on one thread */
  cn_scope *s = cn_scope_begin();
  cn_tensor *want = cn_rand(CN_SHAPE(3));
  for (int i = 1; i < t.steps; i++) want = cn_add(want, cn_rand(CN_SHAPE(3)));
  assert_true(equal(want, t.total));
  cn_scope_end(s);
  cn_state_free(t.state);
}

/* A state that is freed while it is installed is not freed again when the thread ends. */
static void free_installed_state(worker *w)
{
  cn_state *own = cn_state_new(), *old = cn_state_swap(own);
  EXPECT(own != NULL && cn_item(cn_ones(CN_SHAPE(1))) == 1);
  cn_state_free(own);
  if (w->index % 2) EXPECT(cn_item(cn_ones(CN_SHAPE(1))) == 1); /* in a state made anew */
  cn_state_free(old);
}

static void test_free_installed_state(void **state)
{
  (void)state;
  size_t base = in_use();
  run_threads(THREADS, free_installed_state, NULL);
  assert_int_equal(in_use(), base);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_use), /* must be the first */
      cmocka_unit_test(test_first_gradients),
      cmocka_unit_test(test_shared_for_reading),
      cmocka_unit_test(test_large_loops),
      cmocka_unit_test(test_backward_into_one_leaf),
      cmocka_unit_test(test_one_graph_many_walks),
      cmocka_unit_test(test_stale_views),
      cmocka_unit_test(test_other_threads_release),
      cmocka_unit_test(test_thread_end_releases_all),
      cmocka_unit_test(test_settings),
      cmocka_unit_test(test_state_moves),
      cmocka_unit_test(test_free_installed_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
