/* test_api_calls.c: random calls of all ops, valid and invalid, with gradients, in place and captured: none may
 * crash, hang, leak or report a bug of cairn's own; errors are all that may come of nonsense.
 *
 * 100,000 calls, with CAIRN_LONG=1 a million. CAIRN_FUZZ_SEED=n takes other ones; CAIRN_CALL=i runs call i alone,
 * CAIRN_OP=name only calls of one op. */
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "random_call.h"
#include "test.h"
#include "watch.h"

enum { SHORT = 100000, LONG = 1000000, BUFFER = 1 << 20, RESULTS = 16, MOST_OPS = 2048 };
enum { MEMORY_LIMIT = 64 << 20 };

static random_call call;
static char buffer[BUFFER], expected[BUFFER];

/* ---- looking at what came out ---- */

/* Reads every element, so that memory which is not there shows. */
static void look_at(cn_tensor *t)
{
  int64_t numel = 1;
  if (!CHECK(t != NULL, "a result is missing")) return;
  CHECK(cn_ndim(t) >= 0 && cn_ndim(t) <= CN_MAX_DIMS && cn_dtype_size(cn_dtype_of(t)) > 0, "a result makes no sense");
  for (int i = 0; i < cn_ndim(t); i++) numel *= cn_shape(t)[i];
  CHECK(numel == cn_numel(t) && numel >= 0, "a result's size makes no sense");
  if (cn_is_sparse(t) && numel <= BUFFER / 16) t = cn_to_dense(t);
  else if (cn_is_sparse(t)) t = cn_values(t);
  if (cn_tensor_nbytes(t) <= BUFFER && cn_device_of(t) == CN_CPU)
    CHECK(cn_to_data(buffer, BUFFER, t) == 0, "a result cannot be read: %s", cn_err_message());
}

static void check_error(int status, const char *what)
{
  CHECK(cn_err() == status && cn_err_message()[0], "%s: status %d, error %d, message '%s'", what, status, cn_err(),
        cn_err_message());
  CHECK(status != CN_ERR_INTERNAL && status >= CN_ERR_INTERNAL, "%s: %s", what, cn_err_message());
}

/* ---- gradients ---- */

/* What may be said of a gradient whose forward worked. */
static void check_backward(int status)
{
  if (!status) return;
  check_error(status, "backward");
  bool fine = status == CN_ERR_MEMORY || status == CN_ERR_UNSUPPORTED || status == CN_ERR_GRAD ||
              strstr(cn_err_message(), "singular") || /* a determinant of 0 is fine, its gradient wants the inverse */
              strstr(cn_err_message(), "as_strided: reaches"); /* beyond its input, in the memory it is a view of */
  CHECK(fine, "backward of a call that worked: %s", cn_err_message());
  cn_err_clear();
}

static void go_backward(cn_tensor *result)
{
  if (!cn_needs_grad(result)) return;
  cn_tensor *ones = cn_ones_like(result);
  if (!ones) {
    cn_err_clear();
    return;
  }
  check_backward(cn_backward(result, .gradient = ones, .retain_graph = true));
  for (size_t i = 0; i < call.ntensors; i++) {
    cn_tensor *t = call.tensors[i], *g = cn_is_leaf(t) ? cn_grad_of(t) : NULL;
    if (!g) continue;
    look_at(g);
    bool same = cn_ndim(g) == cn_ndim(t) && cn_dtype_of(g) == cn_dtype_of(t);
    for (int k = 0; same && k < cn_ndim(t); k++) same = cn_shape(g)[k] == cn_shape(t)[k];
    CHECK(same, "a gradient has another shape or type than its tensor");
  }
}

/* ---- captured ---- */

static int traced_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_value args[CN_MAX_ARGS];
  cn_tensor *lists[CN_MAX_ARGS][CALL_LIST], *made[RESULTS];
  size_t n = RESULTS, at = 0;
  memcpy(args, call.args, call.nargs * sizeof *args);
  for (size_t i = 0; i < call.nargs; i++) {
    if (args[i].tag == CN_V_TENSOR) args[i].u.t = in[at++];
    if (args[i].tag != CN_V_TENSORS) continue;
    for (int k = 0; k < args[i].n; k++) lists[i][k] = args[i].u.ts[k] ? in[at++] : NULL;
    args[i].u.ts = lists[i];
  }
  int status = cn_op_call(made, &n, call.op, args, call.nargs, NULL);
  for (size_t i = 1; i < n; i++) cn_release(made[i]);
  out[0] = !status && n ? made[0] : NULL;
  cn_release(*(cn_tensor **)payload); /* where sizes depend on data it is traced several times */
  *(cn_tensor **)payload = out[0];    /* owned: released after the trace */
  return status ? status : out[0] ? 0 : CN_ERR_VALUE;
}

/* Its text reads back to the same text. */
static void check_text(const cn_graph *g)
{
  char *text = cn_graph_to_string(g);
  cn_graph *again = text ? cn_graph_parse(text) : NULL;
  char *twin = again ? cn_graph_to_string(again) : NULL;
  bool memory = cn_err() == CN_ERR_MEMORY;
  CHECK(memory || (twin && !strcmp(text, twin)), "captured, its text does not read back: %s\n%s", cn_err_message(),
        text ? text : "");
  cn_string_free(text);
  cn_string_free(twin);
  cn_graph_free(again);
  cn_err_clear();
}

/* Bits of NaNs (their sign, say) are nobody's: all become one. */
static void one_nan(char *data, size_t bytes, cn_dtype dtype)
{
  bool half = dtype == CN_F16 || dtype == CN_BF16, single = dtype == CN_F32 || dtype == CN_C64;
  if (!half && !single && dtype != CN_F64 && dtype != CN_C128) return;
  size_t size = half ? 2 : single ? 4 : 8;
  uint64_t infinity = dtype == CN_F16 ? 0x7c00 : half ? 0x7f80 : single ? 0x7f800000 : 0x7ff0000000000000;
  for (size_t at = 0; at + size <= bytes; at += size) {
    uint64_t bits = 0;
    memcpy(&bits, data + at, size); /* the lowest bytes come first */
    if ((bits & (infinity | (infinity - 1))) > infinity) memset(data + at, 0xff, size);
  }
}

/* The same call through a graph gives the same bytes. */
static void compare_traced(cn_tensor *eager)
{
  cn_tensor *in[CN_MAX_ARGS * CALL_LIST], *out = NULL, *made = NULL;
  size_t n = 0, size = cn_tensor_nbytes(eager);
  if (cn_is_sparse(eager)) return; /* graphs give dense tensors */
  if (!strncmp(call.info.name, "empty", 5) || !strcmp(call.info.name, "batch_norm") || call.dest || size > BUFFER ||
      cn_device_of(eager) != CN_CPU)
    return;
  for (size_t i = 0; i < call.nargs; i++) {
    if (call.args[i].tag == CN_V_TENSOR) in[n++] = call.args[i].u.t;
    for (int k = 0; call.args[i].tag == CN_V_TENSORS && k < call.args[i].n; k++)
      if (call.args[i].u.ts[k]) in[n++] = call.args[i].u.ts[k];
  }
  for (size_t i = 0; i < n; i++)
    if (cn_desc_of(in[i])->weak) return; /* a number becomes a tensor when it is an input */
  bool exact = true;                     /* a graph may lay its inputs out anew: sums may then be in another order */
  for (size_t i = 0; i < n; i++) exact = exact && cn_is_contiguous(in[i]);
  if (!strncmp(call.info.name, "as_strided", 10)) return; /* looks at memory, also where its input has no elements */
  if (cn_to_data(expected, BUFFER, eager)) return;
  cn_graph *g = cn_trace(traced_fn, 1, in, n, &made);
  if (g) {
    check_text(g);
    cn_seed(watch_now.seed);
    int status = cn_graph_run(&out, g, in);
    if (CHECK(!status, "captured it does not run: %s", cn_err_message()) &&
        CHECK(cn_tensor_nbytes(out) == size, "captured it has another size")) {
      bool read = !cn_to_data(buffer, BUFFER, out);
      one_nan(buffer, size, cn_dtype_of(out));
      one_nan(expected, size, cn_dtype_of(eager));
      CHECK(read && (!exact || !memcmp(buffer, expected, size)), "captured it computes something else");
    }
  } else {
    int code = cn_err();
    CHECK(code == CN_ERR_CAPTURE || code == CN_ERR_MEMORY || code == CN_ERR_UNSUPPORTED, "it cannot be captured: %s",
          cn_err_message());
  }
  cn_err_clear();
  cn_release(made);
  cn_graph_free(g);
}

/* ---- one call ---- */

static size_t worked, worked_of[MOST_OPS];

static void count_worked(void)
{
  worked++;
  for (int i = 0; i < cn_op_count() && i < MOST_OPS; i++)
    if (cn_op_at(i) == call.op) worked_of[i]++;
}

/* Ops of which no call was valid are not tested by this. */
static void say_never_worked(void)
{
  cn_op_info info;
  for (int i = 0; i < cn_op_count() && i < MOST_OPS; i++)
    if (!worked_of[i] && !cn_op_describe(&info, cn_op_at(i))) print_message("never valid: %s\n", info.sig);
}

static void run_call(const cn_op *op)
{
  cn_tensor *out[RESULTS] = {NULL};
  cn_scope *s = cn_scope_begin();
  uint64_t id = watch_now.seed * 0x100000001b3ull + watch_now.number;
  if (!random_call_make(&call, id, op)) {
    size_t n = call.capacity;
    cn_seed(watch_now.seed);
    int status = cn_op_call(out, &n, call.op, call.args, call.nargs, call.dest);
    if (status) check_error(status, "call");
    else count_worked();
    CHECK(status || n <= RESULTS, "%zu results", n);
    bool fewer = !strcmp(call.info.name, "multi_head_attention"); /* gives no weights unless asked */
    for (size_t i = 0; !status && i < n; i++)
      if (out[i] || i == 0 || !fewer) look_at(out[i]);
    cn_err_clear();
    if (!status && n && call.traced) compare_traced(out[0]);
    for (size_t i = 0; !status && i < n; i++) {
      if (call.grad && out[i]) go_backward(out[i]);
      cn_release(out[i]);
    }
  } else {
    CHECK(cn_err() == CN_ERR_MEMORY, "its tensors cannot be made: %s", cn_err_message());
  }
  cn_err_clear();
  cn_scope_end(s);
  const cn_state *st = cni_state();
  CHECK(!st->nframes && !st->modes && !st->no_grad && !st->capture && !st->draining,
        "modes or scopes were left open");
}

/* What a call makes for good (a program of a gradient, say) it makes once; what it makes again and again is lost. */
static void run_without_leak(const cn_op *op)
{
  size_t used = watch_in_use(), first = used;
  for (int i = 0; i < 4; i++) {
    size_t before_it = used;
    run_call(op);
    used = watch_in_use();
    if (used <= before_it) return;
  }
  CHECK(false, "leaks: %zu bytes after four times the same call", used - first);
}

static void test_random_calls(void **state)
{
  (void)state;
  const char *one = getenv("CAIRN_CALL"), *name = getenv("CAIRN_OP");
  const cn_op *op = name ? cn_op_find(name) : NULL;
  uint64_t first = one ? strtoull(one, NULL, 10) : 0, last = one ? first + 1 : watch_count(SHORT, LONG);
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  watch_begin(call.text);
  print_message("%llu calls of %d ops, CAIRN_FUZZ_SEED=%llu\n", (unsigned long long)(last - first), cn_op_count(),
                (unsigned long long)watch_now.seed);
  for (watch_now.number = first; watch_now.number < last; watch_now.number++) {
    if (watch_now.number % 256 == 0) watch_tick();
    run_without_leak(op);
  }
  watch_end();
  cn_memory_set_limit(0);
  cn_memory_set_caching(true);
  print_message("%zu of them worked\n", worked);
  if (one) print_message("%s\n", call.text);
  if (!op && !one) say_never_worked();
  assert_int_equal(watch_now.failures, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
