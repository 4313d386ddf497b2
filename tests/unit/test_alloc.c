/* test_alloc.c: the one allocation hook: what it is told, limits, caches, failing on purpose, borrowed memory; and a
 * whole training step in which every allocation fails in turn.
 *
 * The hook is set before anything else happens, since it may not change later; all tests run on it. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <pthread.h>

#include "test.h"

/* ---- an allocator that checks what it is given back ---- */

enum { SLOTS = 1 << 16 };
static struct {
  void *memory;
  size_t size;
} blocks[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long live, wrong_frees, calls;

static size_t slot_of(const void *memory)
{
  size_t i = ((uintptr_t)memory >> 6) * 2654435761u % SLOTS;
  while (blocks[i].memory && blocks[i].memory != memory) i = (i + 1) % SLOTS;
  return i;
}

static void *checked_alloc(size_t size, void *payload)
{
  void *p = NULL;
  assert_ptr_equal(payload, &live);
  if (posix_memalign(&p, 64, size ? size : 1)) return NULL;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(p);
  blocks[i].memory = p;
  blocks[i].size = size;
  live++;
  calls++;
  pthread_mutex_unlock(&lock);
  return p;
}

/* A freed block keeps its place in the table under the address, with a size that no block has. */
static void checked_free(void *memory, size_t size, void *payload)
{
  (void)payload;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(memory);
  if (!blocks[i].memory || blocks[i].size != size) wrong_frees++;
  blocks[i].size = SIZE_MAX;
  live--;
  pthread_mutex_unlock(&lock);
  free(memory);
}

static cn_memory_stats stats(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m;
}

static void the_hook_sees_everything(void **state)
{
  (void)state;
  long before = calls;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(100, 100));
  assert_non_null(x);
  assert_true(calls > before);
  assert_int_equal((uintptr_t)cn_data(x) % 64, 0);
  assert_true(stats().in_use >= 40000);
  cn_scope_end(s);
  cn_memory_set_caching(true);
  assert_int_equal(wrong_frees, 0);
}

static void it_cannot_change_while_in_use(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(3));
  assert_true(cn_set_allocator(NULL) < 0);
  cn_err_clear();
  assert_true(cn_set_allocator(&(cn_allocator){NULL, NULL, NULL}) < 0);
  cn_err_clear();
  cn_scope_end(s);
}

static void freed_memory_is_cached_and_given_back(void **state)
{
  (void)state;
  cn_memory_trim();
  size_t base = stats().in_use;
  for (int round = 0; round < 3; round++) {
    cn_scope *s = cn_scope_begin();
    cn_zeros(CN_SHAPE(1 << 20)); /* large */
    cn_zeros(CN_SHAPE(8));       /* small */
    cn_scope_end(s);
  }
  assert_true(stats().cached >= 4u << 20);
  uint64_t before = stats().allocations;
  cn_scope *s = cn_scope_begin();
  cn_zeros(CN_SHAPE(1 << 20));
  cn_zeros(CN_SHAPE(8));
  assert_int_equal(stats().allocations, before); /* nothing new was needed */
  cn_scope_end(s);
  cn_memory_trim();
  assert_true(stats().in_use <= base + 4096); /* the state's own arrays may have grown */
  assert_int_equal(stats().cached, 0);
}

/* A large block that is free becomes several small ones, and they become a large one again. */
static void freed_memory_serves_other_sizes(void **state)
{
  (void)state;
  enum { WHOLE = 64 << 20, PART = 4 << 20, PARTS = WHOLE / PART };
  void *part[PARTS];
  cn_memory_trim();
  cn_free(cn_alloc(WHOLE), WHOLE);
  uint64_t before = stats().allocations;
  for (int i = 0; i < PARTS; i++) part[i] = cn_alloc(PART);
  for (int i = 0; i < PARTS; i++) cn_free(part[i * 5 % PARTS], PART); /* 5 and 16 share no factor: each once */
  cn_free(cn_alloc(WHOLE), WHOLE);
  assert_int_equal(stats().allocations, before);
  cn_memory_trim();
}

/* What was needed once goes back where it is more than the cache holds; what a loop wants again and again stays. */
static void what_is_wanted_again_is_kept(void **state)
{
  (void)state;
  enum { BLOCK = 256 << 20, BLOCKS = 4, CACHE = 512 << 20 };
  void *block[BLOCKS];
  uint64_t before = 0;
  cn_memory_trim();
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < BLOCKS; i++) assert_non_null(block[i] = cn_alloc(BLOCK));
    if (round == 1) before = stats().allocations;
    for (int i = 0; i < BLOCKS; i++) cn_free(block[i], BLOCK);
    if (round == 0) assert_true(stats().cached <= CACHE + (1 << 20));
  }
  assert_int_equal(stats().allocations, before);
  cn_memory_trim();
  assert_int_equal(stats().cached, 0);
}

/* Sizes that take turns need little more than the most that is in use at once. */
static void a_new_size_takes_the_place_of_old_ones(void **state)
{
  (void)state;
  cn_memory_trim();
  size_t base = stats().in_use;
  cn_memory_reset_peak();
  for (size_t size = 8 << 20; size <= 128 << 20; size += 8 << 20) cn_free(cn_alloc(size), size);
  assert_true(stats().peak - base <= 144u << 20);
  cn_memory_trim();
  assert_true(stats().in_use <= base + 4096);
}

/* Blocks of many sizes come and go: none overlaps another, and all memory goes back. */
static void random_traffic_keeps_blocks_apart(void **state)
{
  (void)state;
  enum { LIVE = 200, TURNS = 20000 };
  static struct {
    unsigned char *memory;
    size_t size;
  } live_blocks[LIVE];
  uint64_t x = 1;
  cn_memory_trim();
  size_t base = stats().in_use;
  for (int turn = 0; turn < TURNS + LIVE; turn++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t i = turn < TURNS ? (x >> 33) % LIVE : (size_t)(turn - TURNS), n = live_blocks[i].size;
    unsigned char *p = live_blocks[i].memory;
    if (p) {
      assert_int_equal(p[0], i);
      assert_int_equal(p[n - 1], i);
      cn_free(p, n);
    }
    live_blocks[i].size = n = 200000 + (x >> 40) % 2000000;
    live_blocks[i].memory = p = turn < TURNS ? cn_alloc(n) : NULL;
    if (p) p[0] = p[n - 1] = (unsigned char)i;
  }
  cn_memory_trim();
  assert_true(stats().in_use <= base + 4096);
  assert_int_equal(wrong_frees, 0);
}

static void peak_follows(void **state)
{
  (void)state;
  cn_memory_trim();
  cn_memory_reset_peak();
  size_t before = stats().peak;
  cn_scope *s = cn_scope_begin();
  cn_zeros(CN_SHAPE(1 << 20));
  cn_scope_end(s);
  assert_true(stats().peak >= before + (4u << 20));
  cn_memory_trim();
  cn_memory_reset_peak();
  assert_true(stats().peak < before + (4u << 20));
}

static void limits_hold(void **state)
{
  (void)state;
  cn_memory_trim();
  cn_scope *s = cn_scope_begin();
  cn_memory_set_limit(stats().in_use + (1u << 20));
  assert_non_null(cn_zeros(CN_SHAPE(1000)));
  assert_null(cn_zeros(CN_SHAPE(1 << 20)));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  assert_true(cn_err_message()[0] != 0);
  cn_err_clear();
  /* What is cached goes first: the same memory is used again and again within the limit. */
  for (int i = 0; i < 10; i++) {
    cn_scope *inner = cn_scope_begin();
    assert_non_null(cn_zeros(CN_SHAPE((100 + 10 * i) << 10)));
    cn_scope_end(inner);
  }
  cn_memory_set_limit(0);
  assert_non_null(cn_zeros(CN_SHAPE(1 << 20)));
  cn_scope_end(s);
}

static void fail_at_fails_once(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(3));
  cn_memory_fail_at(1);
  assert_null(cn_ones(CN_SHAPE(3)));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_err_clear();
  assert_non_null(cn_ones(CN_SHAPE(3)));
  cn_memory_fail_at(1000);
  assert_non_null(cn_ones(CN_SHAPE(3)));
  cn_memory_fail_at(0);
  cn_scope_end(s);
  cn_memory_set_caching(true);
}

static void impossible_sizes_are_errors(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  const int64_t sizes[][2] = {{INT64_MAX, 1}, {INT64_MAX / 4, 4}, {1ll << 40, 1ll << 40}, {1ll << 45, 1}, {-1, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    assert_null(cn_empty(sizes[i], 2));
    assert_true(cn_err() == CN_ERR_SHAPE || cn_err() == CN_ERR_MEMORY);
    cn_err_clear();
  }
  cn_scope_end(s);
}

/* ---- borrowed memory ---- */

static int released;
static void count_release(void *payload) { *(int *)payload += 1; }

static const int64_t shape[] = {3, 4};

static void borrowed_memory_is_released_once(void **state)
{
  (void)state;
  float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  released = 0;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_borrowed(data, shape, NULL, 2, CN_F32, count_release, &released);
  assert_ptr_equal(cn_data(x), data);
  cn_tensor *view = cn_keep(cn_transpose(x, 0, 1)), *copy = cn_clone(x);
  cn_fill_(cn_select(x, 0, 0), cn_num(0));
  assert_float_equal(data[3], 0, 0);
  assert_float_equal(((float *)cn_data(copy))[3], 4, 0);
  cn_scope_end(s);
  assert_int_equal(released, 0); /* the view is still there */
  cn_release(view);
  assert_int_equal(released, 1);
}

static void borrowed_memory_with_strides(void **state)
{
  (void)state;
  float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t column_major[] = {1, 3}, every[] = {0, 0}, negative[] = {-4, 1}, far[] = {INT64_MAX / 2, 1};
  released = 0;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_borrowed(data, shape, column_major, 2, CN_F32, NULL, NULL); /* no release function */
  assert_float_equal(cn_item(cn_select(cn_select(x, 0, 1), 0, 2)), 8, 0);
  x = cn_from_borrowed(data, shape, every, 2, CN_F32, count_release, &released);
  assert_float_equal(cn_item(cn_sum(x)), 12, 0);
  assert_null(cn_from_borrowed(data, shape, negative, 2, CN_F32, count_release, &released));
  assert_int_equal(released, 1);
  cn_err_clear();
  assert_null(cn_from_borrowed(data, shape, far, 2, CN_F32, count_release, &released));
  assert_int_equal(released, 2);
  cn_err_clear();
  cn_scope_end(s);
  assert_int_equal(released, 3);
}

/* On failure it is released at once, whatever failed. */
static void borrowed_memory_is_released_on_failure(void **state)
{
  (void)state;
  float data[12] = {0};
  const int64_t negative[] = {3, -4};
  released = 0;
  cn_scope *s = cn_scope_begin();
  assert_null(cn_from_borrowed(data, shape, NULL, 2, (cn_dtype)77, count_release, &released));
  cn_err_clear();
  assert_null(cn_from_borrowed(data, negative, NULL, 2, CN_F32, count_release, &released));
  cn_err_clear();
  assert_null(cn_from_borrowed(NULL, shape, NULL, 2, CN_F32, count_release, &released));
  cn_err_clear();
  cn_err_set(CN_ERR_VALUE, "pending");
  assert_null(cn_from_borrowed(data, shape, NULL, 2, CN_F32, count_release, &released));
  cn_err_clear();
  assert_int_equal(released, 4);
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k <= 2; k++) {
    cn_memory_fail_at(k);
    assert_null(cn_from_borrowed(data, shape, NULL, 2, CN_F32, count_release, &released));
    cn_memory_fail_at(0);
    assert_int_equal(cn_err(), CN_ERR_MEMORY);
    cn_err_clear();
    assert_int_equal(released, 4 + (int)k);
  }
  cn_memory_set_caching(true);
  cn_scope_end(s);
  assert_int_equal(released, 6);
}

/* ---- a training step ---- */

typedef struct net {
  cn_tensor *w1, *b1, *w2, *m1, *x, *y;
} net;

/* Forward, backward, and SGD with momentum on one weight, written in place. */
static int train_step(const net *n)
{
  cn_scope *s = cn_scope_begin();
  if (!s) return cn_err();
  cn_tensor *hidden = cn_relu(cn_linear(n->x, n->w1, n->b1));
  cn_tensor *loss = cn_mse_loss(cn_linear(hidden, n->w2, NULL), n->y);
  cn_backward(loss);
  int saved = cn_no_grad_begin();
  cn_tensor *const params[] = {n->w1, n->b1, n->w2};
  cn_add_(cn_mul_(n->m1, cn_num(0.9)), cn_grad_of(n->w1));
  cn_sub_(n->w1, n->m1, .alpha = 0.1);
  for (int i = 1; i < 3; i++) cn_sub_(params[i], cn_grad_of(params[i]), .alpha = 0.1);
  cn_no_grad_end(saved);
  for (int i = 0; i < 3; i++) cn_zero_grad(params[i]);
  cn_scope_end(s);
  return cn_err();
}

static void net_make(net *n)
{
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  n->w1 = cn_keep(cn_requires_grad(cn_randn(CN_SHAPE(8, 5)), true));
  n->b1 = cn_keep(cn_requires_grad(cn_zeros(CN_SHAPE(8)), true));
  n->w2 = cn_keep(cn_requires_grad(cn_randn(CN_SHAPE(2, 8)), true));
  n->m1 = cn_keep(cn_zeros(CN_SHAPE(8, 5)));
  n->x = cn_keep(cn_randn(CN_SHAPE(4, 5)));
  n->y = cn_keep(cn_randn(CN_SHAPE(4, 2)));
  cn_scope_end(s);
}

static void net_free(net *n)
{
  cn_tensor *const all[] = {n->w1, n->b1, n->w2, n->m1, n->x, n->y};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) cn_release(all[i]);
}

static void every_allocation_of_a_step_fails(void **state)
{
  (void)state;
  net n;
  cn_memory_set_caching(false);
  net_make(&n);
  for (int i = 0; i < 3; i++) assert_int_equal(train_step(&n), CN_OK);
  size_t base = stats().in_use;
  uint64_t count = stats().allocations;
  assert_int_equal(train_step(&n), CN_OK);
  count = stats().allocations - count;
  assert_int_equal(stats().in_use, base);
  assert_true(count > 20);
  for (uint64_t k = 1; k <= count; k++) {
    cn_memory_fail_at(k);
    int status = train_step(&n);
    cn_memory_fail_at(0);
    if (status != CN_OK && status != CN_ERR_MEMORY) fail_msg("allocation %d: %s", (int)k, cn_err_message());
    cn_err_clear();
    cn_tensor *const params[] = {n.w1, n.b1, n.w2};
    for (int i = 0; i < 3; i++) cn_zero_grad(params[i]); /* a step cut short leaves gradients */
    if (stats().in_use != base) fail_msg("allocation %d: %lld bytes stay behind", (int)k,
                                         (long long)(stats().in_use - base));
  }
  assert_int_equal(train_step(&n), CN_OK); /* and it goes on as if nothing had been */
  net_free(&n);
  cn_memory_set_caching(true);
  assert_int_equal(wrong_frees, 0);
}

static int set_hook(void **state)
{
  (void)state;
  return cn_set_allocator(&(cn_allocator){checked_alloc, checked_free, &live});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_hook_sees_everything), cmocka_unit_test(it_cannot_change_while_in_use),
    cmocka_unit_test(freed_memory_is_cached_and_given_back), cmocka_unit_test(freed_memory_serves_other_sizes),
    cmocka_unit_test(what_is_wanted_again_is_kept), cmocka_unit_test(a_new_size_takes_the_place_of_old_ones),
    cmocka_unit_test(random_traffic_keeps_blocks_apart), cmocka_unit_test(peak_follows),
    cmocka_unit_test(limits_hold), cmocka_unit_test(fail_at_fails_once),
    cmocka_unit_test(impossible_sizes_are_errors), cmocka_unit_test(borrowed_memory_is_released_once),
    cmocka_unit_test(borrowed_memory_with_strides), cmocka_unit_test(borrowed_memory_is_released_on_failure),
    cmocka_unit_test(every_allocation_of_a_step_fails),
  };
  return cmocka_run_group_tests(tests, set_hook, NULL);
}
