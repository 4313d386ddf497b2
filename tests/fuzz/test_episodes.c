/* test_episodes.c: random programs: a few dozen calls on a handful of tensors that share memory and history: views,
 * writes, gradients, hooks, modes, scopes, capture, custom functions, host memory. Sensible or not, an episode ends
 * with everything given back, and errors are the worst that happens.
 *
 * 10,000 episodes, with CAIRN_LONG=1 ten times as many. CAIRN_FUZZ_SEED=n takes other ones; CAIRN_CALL=i runs one
 * alone. */
#include <cairn/kw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "random_call.h"
#include "test.h"
#include "watch.h"

enum {
  SHORT = 10000,
  LONG = 100000,
  SLOTS = 8,
  ACTIONS = 40,
  TEXT = 1 << 14,
  MEMORY_LIMIT = 64 << 20,
  BUFFER = 1 << 16
};

typedef struct world {
  rng r;
  cn_tensor *slot[SLOTS]; /* owned; some NULL */
  cn_graph *graph;        /* owned; NULL: none */
  int depth;              /* of actions inside actions */
  size_t length;
} world;

static char text[TEXT], buffer[BUFFER];
static world w; /* one at a time: callbacks reach it */

static void say(const char *format, ...) CN_PRINTF(1, 2);
static void say(const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(text + w.length, TEXT - w.length, format, ap);
  va_end(ap);
  if (n > 0) w.length += (size_t)n;
  if (w.length >= TEXT) w.length = TEXT - 1;
}

static int any(void) { return (int)rng_below(&w.r, SLOTS); }
static int64_t below(int64_t n) { return rng_below(&w.r, n); }

/* A slot's tensor for reading; NULL now and then. */
static cn_tensor *pick(void)
{
  int i = any();
  for (int k = 0; k < SLOTS && !w.slot[i]; k++) i = (i + 1) % SLOTS;
  if (rng_one_in(&w.r, 100)) i = any();
  say(" %d", i);
  return w.slot[i];
}

/* A dimension of t, mostly; an index, mostly. */
static int64_t dim_of(const cn_tensor *t)
{
  return rng_one_in(&w.r, 8) ? random_int(&w.r) : below(cn_ndim(t) ? cn_ndim(t) : 1);
}
static int64_t index_of(void) { return rng_one_in(&w.r, 8) ? random_int(&w.r) : below(2); }

static void keep(cn_tensor *t)
{
  int i = any();
  if (!t) return;
  say(" ->%d", i);
  cn_set(&w.slot[i], t);
}

/* ---- computing ---- */

static void act_make(void) { keep(random_tensor(&w.r, rng_one_in(&w.r, 2))); }
static void act_like(void) { keep(rng_one_in(&w.r, 2) ? cn_randn_like(pick()) : cn_zeros_like(pick())); }

static void act_unary(void)
{
  static cn_tensor *(*const ops[])(cn_tensor *) = {cn_neg,        cn_exp,     cn_tanh,   cn_relu, cn_clone,
                                                   cn_contiguous, cn_sigmoid, cn_detach, cn_abs,  cn_square};
  keep(ops[below(10)](pick()));
}

static void act_binary(void)
{
  static cn_tensor *(*const ops[])(cn_tensor *, cn_tensor *) = {cn_mul, cn_maximum, cn_matmul,
                                                                cn_gt,  cn_atan2,   cn_expand_as};
  cn_tensor *a = pick(), *b = rng_one_in(&w.r, 3) ? cn_num(random_float(&w.r)) : pick();
  keep(rng_one_in(&w.r, 3) ? cn_add(a, b) : ops[below(6)](a, b));
}

static void act_fold(void)
{
  cn_tensor *t = pick();
  switch (below(5)) {
  case 0: keep(cn_sum(t)); break;
  case 1: keep(cn_mean(t, .dim = CN_INTS(dim_of(t)))); break;
  case 2: keep(cn_softmax(t, dim_of(t))); break;
  case 3: keep(cn_cumsum(t, dim_of(t))); break;
  default: keep(cn_amax(t, .dim = CN_INTS(0), .keepdim = true));
  }
}

static cn_tensor *view_of(cn_tensor *t)
{
  int64_t a = dim_of(t), b = dim_of(t), index = index_of();
  switch (below(9)) {
  case 0: return cn_select(t, a, index);
  case 1: return cn_slice(t, a, index, CN_NONE);
  case 2: return cn_transpose(t, a, b);
  case 3: return cn_reshape(t, CN_SHAPE(-1));
  case 4: return cn_unsqueeze(t, a);
  case 5: return cn_narrow(t, a, 0, 1 + below(2));
  case 6: return cn_diagonal(t);
  case 7: return cn_unfold(t, a, 2, 1);
  default: return cn_expand(t, CN_SHAPE(2, -1));
  }
}
static void act_view(void) { keep(view_of(pick())); }

static void act_lists(void)
{
  cn_tensor *parts[4] = {NULL};
  int n = rng_one_in(&w.r, 2) ? cn_chunk(parts, 4, pick(), below(4), .dim = below(3)) : cn_unbind(parts, 4, pick());
  for (int i = 0; i < n; i++)
    if (rng_one_in(&w.r, 2)) keep(parts[i]);
  cn_tensor *in[3] = {pick(), pick(), pick()};
  keep(cn_stack(in, 2));
}

/* ---- writing ---- */

static void act_write(void)
{
  cn_tensor *t = pick(), *to = rng_one_in(&w.r, 2) ? view_of(t) : t, *other = pick();
  if (cn_err()) return;
  switch (below(6)) {
  case 0: cn_mul_(to, cn_num(1.5)); break;
  case 1: cn_add_(to, other); break;
  case 2: cn_copy_(to, other); break;
  case 3: cn_fill_(to, cn_num(2)); break;
  case 4: cn_relu_(to); break;
  default: cn_masked_fill_(to, cn_gt(to, cn_num(0)), cn_num(1));
  }
}

/* ---- gradients ---- */

static void act_leaf(void) { cn_requires_grad(pick(), !rng_one_in(&w.r, 4)); }
static void act_retain(void) { cn_retain_grad(pick()); }

static cn_tensor *hook(cn_tensor *grad, void *payload)
{
  switch ((int)(intptr_t)payload) {
  case 0: return NULL;
  case 1: return cn_mul(grad, cn_num(2));
  case 2: return cn_sum(grad); /* the wrong shape */
  default: cn_err_set(CN_ERR_VALUE, "the hook says no"); return grad;
  }
}
static void act_hook(void)
{
  cn_tensor *t = pick();
  int64_t id = cn_hook_add(t, hook, (void *)(intptr_t)below(rng_one_in(&w.r, 8) ? 4 : 2));
  if (rng_one_in(&w.r, 3)) cn_hook_remove(t, rng_one_in(&w.r, 3) ? random_int(&w.r) : id);
}

static void act_backward(void)
{
  cn_tensor *t = pick(), *seed = rng_one_in(&w.r, 4) ? pick() : t ? cn_ones_like(t) : NULL;
  cn_backward(t, .gradient = seed, .retain_graph = rng_one_in(&w.r, 2));
}

static void act_grad(void)
{
  cn_tensor *out[2] = {cn_sum(pick()), cn_sum(pick())}, *in[2] = {pick(), pick()}, *grads[2] = {NULL, NULL};
  if (cn_err()) return;
  cn_grad(grads, out, (size_t)below(3), in, (size_t)below(3), .allow_unused = rng_one_in(&w.r, 2),
          .create_graph = rng_one_in(&w.r, 2), .retain_graph = true);
  keep(grads[0]);
}

static void act_edit_gradient(void)
{
  cn_tensor *t = pick();
  if (rng_one_in(&w.r, 2)) cn_zero_grad(t);
  else if (rng_one_in(&w.r, 2))
    cn_set_grad(t, cn_clone(cn_detach(pick())));         /* one with history could hold t itself */
  else if (cn_grad_of(t)) keep(cn_clone(cn_grad_of(t))); /* written to, it could get a history that holds t */
}

static int twice_forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  out[0] = rng_one_in(&w.r, 8) ? in[0] : cn_mul(in[0], in[0]);
  return rng_one_in(&w.r, 8) ? CN_ERR_VALUE : cn_context_save(ctx, rng_one_in(&w.r, 2) ? in : out, 1);
}
static int twice_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  cn_tensor *x = cn_context_saved(ctx, (size_t)below(8) / 7);
  gin[0] = rng_one_in(&w.r, 8) ? cn_sum(g[0]) : cn_mul(g[0], x);
  return rng_one_in(&w.r, 16) ? CN_ERR_VALUE : cn_err();
}
static const cn_function twice = {sizeof(cn_function), "twice", twice_forward, twice_backward, NULL};

static int block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_dropout(cn_tanh(cn_mul(in[0], in[1])), .p = 0.5);
  return cn_err();
}
static void act_function(void)
{
  cn_tensor *in[2] = {pick(), pick()}, *out = NULL;
  if (!in[0] || !in[1]) return;
  if (rng_one_in(&w.r, 2)) cn_function_apply(&out, 1, &twice, in, 1, NULL);
  else cn_checkpoint(&out, 1, block, in, 2, NULL);
  keep(out);
}

/* ---- modes, scopes, states: other actions happen inside ---- */

static void act(void);

static void some(int n)
{
  w.depth++;
  while (n-- > 0) act();
  w.depth--;
}

static void act_mode(void)
{
  int kind = (int)below(4), saved = kind == 0   ? cn_no_grad_begin()
                                    : kind == 1 ? cn_inference_begin()
                                                : cn_enable_grad_begin();
  bool anomaly = kind == 3 && cn_detect_anomaly(true);
  some((int)below(4));
  if (kind == 3) cn_detect_anomaly(anomaly);
  if (kind == 0) cn_no_grad_end(saved);
  else if (kind == 1) cn_inference_end(saved);
  else cn_enable_grad_end(saved);
}

static void act_scope(void)
{
  cn_scope *s = cn_scope_begin(), *inner = rng_one_in(&w.r, 3) ? cn_scope_begin() : NULL;
  some((int)below(4));
  if (rng_one_in(&w.r, 3)) keep(cn_scope_return(s, cn_neg(pick())));
  cn_scope_end(s);
  if (rng_one_in(&w.r, 2)) cn_scope_end(s); /* again: ignored */
  cn_scope_end(inner);                      /* ended with the outer one */
}

static void act_state(void)
{
  cn_state *other = cn_state_new(), *mine = cn_state_swap(other);
  some((int)below(3));
  cn_state_swap(mine);
  cn_state_free(other);
}

/* ---- capture ---- */

static int traced(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  keep(in[0]);
  some(1 + (int)below(5)); /* whatever it is; slots may be left with tensors that have no memory */
  out[0] = pick();
  return cn_err();
}

static void act_trace(void)
{
  cn_tensor *in = pick();
  if (!in) return;
  cn_graph *g = cn_trace(traced, 1, &in, 1, NULL);
  if (!g) return;
  cn_graph_free(w.graph);
  w.graph = g;
  CHECK(cn_graph_verify(g) == 0, "a captured graph is not sound: %s", cn_err_message());
}

static void act_run_graph(void)
{
  cn_tensor *in = pick(), *out = NULL;
  if (w.graph && !cn_graph_run(&out, w.graph, &in)) keep(out);
}

static void act_edit_graph(void)
{
  if (!w.graph || cn_err()) return;
  if (rng_one_in(&w.r, 2) && cn_graph_bind(w.graph, (size_t)below(3), pick())) return;
  cn_graph_remove_dead(w.graph);
  char *source = cn_graph_to_string(w.graph);
  cn_graph *again = source ? cn_graph_parse(source) : NULL;
  CHECK(again || cn_err() == CN_ERR_MEMORY, "a graph's text does not read back: %s\n%s", cn_err_message(), source);
  cn_string_free(source);
  if (again && rng_one_in(&w.r, 3)) {
    cn_graph_free(w.graph);
    w.graph = again;
  } else cn_graph_free(again);
}

/* ---- host ---- */

static void give_back(void *payload) { free(payload); }

static void act_host(void)
{
  cn_tensor *t = pick();
  int64_t shape[3] = {random_int(&w.r), random_int(&w.r), random_int(&w.r)}, strides[3] = {8, 2, below(4) - 1};
  void *memory = NULL;
  switch (below(8)) {
  case 0: cn_to_data(buffer, (size_t)below(600), t); break;
  case 1: cn_item(t); break;
  case 2: cn_item_int(t); break;
  case 3: cn_copy_from_data(t, buffer, (size_t)below(600)); break;
  case 4: cn_string_free(cn_to_string(t)); break;
  case 5:
    memory = calloc(1, 4096); /* given back by the last tensor over it, or at once */
    keep(cn_from_borrowed(memory, (const int64_t[]){below(4), 4, 2}, rng_one_in(&w.r, 2) ? NULL : strides, 3, CN_F32,
                          give_back, memory));
    break;
  case 6:
    if (shape[0] < 9 && shape[1] < 9) keep(cn_from_data(buffer, shape, 2, (cn_dtype)below(16)));
    break;
  default: cn_size(t, random_int(&w.r)), cn_data(t);
  }
}

static void act_dlpack(void)
{
  void *managed = cn_to_dlpack_versioned(pick());
  if (managed) keep(cn_from_dlpack_versioned(managed));
}

static void act_drop(void)
{
  int i = any();
  say(" %d", i);
  cn_release(w.slot[i]);
  w.slot[i] = NULL;
}

/* ---- the episode ---- */

static void act(void)
{
  static const struct {
    const char *name;
    void (*run)(void);
    int weight;
    bool nests;
  } all[] = {{"make", act_make, 4, 0},
             {"like", act_like, 1, 0},
             {"unary", act_unary, 5, 0},
             {"binary", act_binary, 6, 0},
             {"fold", act_fold, 4, 0},
             {"view", act_view, 6, 0},
             {"lists", act_lists, 2, 0},
             {"write", act_write, 8, 0},
             {"leaf", act_leaf, 3, 0},
             {"retain", act_retain, 1, 0},
             {"hook", act_hook, 1, 0},
             {"backward", act_backward, 6, 0},
             {"grad", act_grad, 3, 0},
             {"edit_gradient", act_edit_gradient, 2, 0},
             {"function", act_function, 3, 0},
             {"mode", act_mode, 2, 1},
             {"scope", act_scope, 2, 1},
             {"state", act_state, 1, 1},
             {"trace", act_trace, 3, 1},
             {"run_graph", act_run_graph, 2, 0},
             {"edit_graph", act_edit_graph, 1, 0},
             {"host", act_host, 3, 0},
             {"dlpack", act_dlpack, 1, 0},
             {"drop", act_drop, 2, 0}};
  int n = sizeof all / sizeof *all, total = 0, i = 0;
  for (int k = 0; k < n; k++) total += all[k].weight;
  int64_t at = below(total);
  while (at >= all[i].weight) at -= all[i++].weight;
  if (all[i].nests && w.depth >= 2) return;
  say("%s%s", all[i].nests ? " {" : " ", all[i].name);
  all[i].run();
  if (cn_err()) say("!");
  if (all[i].nests) say("}");
  say(";");
  CHECK(cn_err() != CN_ERR_INTERNAL && cn_err() >= CN_ERR_INTERNAL, "%d: %s", cn_err(), cn_err_message());
  if (!rng_one_in(&w.r, 10)) cn_err_clear(); /* else the next one meets a pending error */
}

static void run_episode(void)
{
  cn_state *own = cn_state_new(), *old = cn_state_swap(own);
  w = (world){.r = {watch_now.seed * 0x100000001b3ull + watch_now.number}};
  text[0] = 0;
  random_theme(&w.r);
  cn_seed(1);
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < 4; i++) act_make();
  for (int i = 0; i < ACTIONS; i++) act();
  cn_err_clear();
  for (int i = 0; i < SLOTS; i++) cn_release(w.slot[i]);
  cn_graph_free(w.graph);
  cn_scope_end(s);
  CHECK(!own->nframes && !own->modes && !own->no_grad && !own->capture && !own->draining,
        "modes or scopes were left open");
  cn_state_swap(old);
  cn_state_free(own);
}

/* What is made for good is made once; what is made again and again is lost. */
static void run_without_leak(void)
{
  size_t first = watch_in_use(), used = first;
  for (int i = 0; i < 4; i++) {
    size_t before = used;
    run_episode();
    used = watch_in_use();
    if (used <= before) return;
  }
  CHECK(false, "leaks: %zu bytes after four times the same episode", used - first);
}

static void test_episodes(void **state)
{
  (void)state;
  const char *one = getenv("CAIRN_CALL");
  uint64_t first = one ? strtoull(one, NULL, 10) : 0, last = one ? first + 1 : watch_count(SHORT, LONG);
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  watch_begin(text);
  print_message("%llu episodes, CAIRN_FUZZ_SEED=%llu\n", (unsigned long long)(last - first),
                (unsigned long long)watch_now.seed);
  for (watch_now.number = first; watch_now.number < last; watch_now.number++) {
    watch_tick();
    run_without_leak();
  }
  watch_end();
  if (one) print_message("%s\n", text);
  cn_memory_set_limit(0);
  cn_memory_set_caching(true);
  assert_int_equal(watch_now.failures, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_episodes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
