/* test_dispatch.c: implementations are asked before they run, once for calls that look alike; workspace; CAIRN_KERNEL;
 * backends and rows made for an earlier cairn, whose structs were smaller. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/host.h>
#include <cairn/kw.h>
#include <string.h>

#include "backends/common/dispatch.h"
#include "backends/common/registry.h"

/* ---- a device of host memory with two implementations of neg, and one of exp that wants workspace ---- */

static int asked, ran_even, ran_any, ran_late;
static size_t workspace_size;

static int device_count(void) { return 1; }
static int device_info(int index, cn_device_info *info) { return (void)index, (void)info, CN_OK; }
static void *device_alloc(int index, size_t size, void *stream)
{
  (void)index, (void)stream;
  return aligned_alloc(64, (size + 64) & ~(size_t)63); /* alignment is part of what a call looks like */
}
static void device_free(int index, void *memory, size_t size, void *stream)
{
  (void)index, (void)size, (void)stream;
  free(memory);
}
static int copy_bytes(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)index, (void)stream;
  memcpy(to, from, size);
  return CN_OK;
}

static int can_even(const cn_call *c, cn_plan *plan)
{
  asked++;
  plan->refusal = "an odd number of elements";
  plan->choice = 7;
  return cn_desc_of(c->in[0])->numel % 2 ? CN_REFUSED : CN_OK;
}

static int negate(cn_call *c)
{
  const float *x = cn_desc_of(c->in[0])->data;
  float *y = cn_desc_of(c->out[0])->data;
  for (int64_t i = 0; i < cn_desc_of(c->in[0])->numel; i++) y[i] = -x[i];
  return CN_OK;
}

static int run_even(cn_call *c)
{
  ran_even++;
  assert_non_null(c->plan);
  assert_int_equal(c->plan->choice, 7);
  return negate(c);
}

static int run_any(cn_call *c)
{
  ran_any++;
  return negate(c);
}

static int can_with_workspace(const cn_call *c, cn_plan *plan)
{
  plan->workspace = (size_t)cn_desc_of(c->in[0])->numel * 4;
  return CN_OK;
}

static int run_with_workspace(cn_call *c)
{
  workspace_size = c->plan->workspace;
  memset(c->workspace, 1, workspace_size);
  memcpy(cn_desc_of(c->out[0])->data, cn_desc_of(c->in[0])->data, workspace_size);
  return CN_OK;
}

/* Says that it can, and finds out that it cannot. */
static int can_all(const cn_call *c, cn_plan *plan) { return (void)c, (void)plan, CN_OK; }
static int refuse_late(cn_call *c)
{
  ran_late++;
  c->refusal = "the library did not load";
  return CN_REFUSED;
}

static const cn_kernel kernels[] = {
    {"neg", "even", run_even, can_even},
    {"neg", "any", run_any, NULL},
    {"exp", "roomy", run_with_workspace, can_with_workspace},
    {"abs", "late", refuse_late, can_all},
    {"abs", "any", run_any, NULL},
    {"floor", "even only", run_even, can_even},
    {NULL, NULL, NULL, NULL},
};

static cn_backend whole(const char *name)
{
  return (cn_backend){.size = sizeof(cn_backend),
                      .abi = CN_BACKEND_ABI,
                      .can = CN_CAN_STRIDES | CN_CAN_INPLACE,
                      .name = name,
                      .device_count = device_count,
                      .device_info = device_info,
                      .alloc = device_alloc,
                      .free = device_free,
                      .copy_in = copy_bytes,
                      .copy_out = copy_bytes,
                      .kernels = kernels,
                      .kernel_size = sizeof(cn_kernel)};
}

static cn_device probe;

static int set_up(void **state)
{
  (void)state;
  cn_backend b = whole("probe");
  if (cn_backend_register(&b)) return -1; /* copied: b may go */
  probe = cn_device_find("probe");
  return probe == CN_DEVICE_DEFAULT;
}

static cn_tensor *on_probe(int64_t n)
{
  return cn_to_device(cn_arange(0, (double)n, .dtype = CN_F32), probe);
}

static void asked_once(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  asked = ran_even = ran_any = 0;
  for (int i = 0; i < 5; i++)
    assert_float_equal(cn_item(cn_select(cn_to_device(cn_neg(on_probe(4)), CN_CPU), 0, 3)), -3, 0);
  assert_int_equal(asked, 1);
  assert_int_equal(ran_even, 5);
  for (int i = 0; i < 3; i++) cn_neg(on_probe(5)); /* another size, which the first refuses */
  assert_int_equal(asked, 2);
  assert_int_equal(ran_any, 3);
  cn_neg(on_probe(4));
  assert_int_equal(asked, 2);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void refusals_have_reasons(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  assert_null(cn_floor(on_probe(3))); /* no implementation is left, and floor has no decomposition */
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "an odd number of elements"));
  cn_err_clear();
  ran_late = ran_any = 0;
  assert_non_null(cn_abs(on_probe(3)));
  assert_int_equal(ran_late, 1);
  assert_int_equal(ran_any, 1);
  cn_scope_end(s);
}

static void workspace(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  size_t before, during, peak;
  cn_tensor *x = on_probe(1000);
  cn_device_memory_reset_peak(probe);
  cn_device_memory(&before, &peak, probe);
  cn_tensor *y = cn_exp(x);
  assert_non_null(y);
  assert_int_equal(workspace_size, 4000);
  cn_device_memory(&during, &peak, probe);
  assert_int_equal(during, before + 4000); /* y alone is left */
  assert_int_equal(peak, before + 8000);
  cn_scope_end(s);
}

/* ---- structs of an earlier cairn ---- */

/* A row before `can` was added. */
typedef struct old_kernel {
  const char *op, *name;
  cn_kernel_fn run;
} old_kernel;

static void earlier_backends(void **state)
{
  (void)state;
  static const old_kernel rows[] = {{"neg", "old", run_any}, {"pointwise", "old", refuse_late}, {NULL, NULL, NULL}};
  static cn_backend b;
  b = whole("earlier");
  b.kernels = (const cn_kernel *)(const void *)rows;
  b.kernel_size = sizeof(old_kernel);
  b.size = offsetof(cn_backend, host_memory); /* and nothing of what came later */
  memset((char *)&b + b.size, 0x5a, sizeof b - b.size);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_backend_register(&b), CN_OK);
  cn_device device = cn_device_find("earlier");
  ran_any = 0;
  cn_tensor *y = cn_neg(cn_to_device(cn_arange(0, 3, .dtype = CN_F32), device));
  assert_float_equal(cn_item(cn_select(cn_to_device(y, CN_CPU), 0, 2)), -2, 0);
  assert_int_equal(ran_any, 1);
  assert_int_equal(cn_device_sync(device), CN_OK); /* it has no sync: nothing is ever queued */
  cn_stream *stream = cn_stream_new(device, 0);     /* nor streams: one stands for its only queue */
  assert_non_null(stream);
  assert_int_equal(cn_stream_query(stream), 1);
  cn_stream_release(stream);
  cn_scope_end(s);
}

static void other_versions_are_refused(void **state)
{
  (void)state;
  cn_backend b = whole("later");
  b.abi++;
  assert_int_equal(cn_backend_register(&b), CN_ERR_VALUE);
  cn_err_clear();
  b = whole("small");
  b.size = 16;
  assert_int_equal(cn_backend_register(&b), CN_ERR_VALUE);
  cn_err_clear();
  b = whole("incomplete");
  b.copy_in = NULL;
  assert_int_equal(cn_backend_register(&b), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "incomplete"));
  cn_err_clear();
}

static int twice_decompose(cn_call *c)
{
  c->out[0] = cn_add(c->in[0], c->in[0]);
  return cn_err();
}

/* An op's row without the fields at its end. */
static void earlier_ops(void **state)
{
  (void)state;
  static cn_op row = {.sig = "test_twice(Tensor input) -> Tensor", .doc = "Twice.", .flags = CN_OP_COMPOSITE,
                      .decompose = twice_decompose};
  size_t size = offsetof(cn_op, scatter);
  cn_tensor *out[1];
  size_t n = 1;
  memset((char *)&row + size, 0x5a, sizeof row - size);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_op_register_rows(&row, 1, size), CN_OK);
  cn_value args[] = {cn_v_tensor(cn_ones(CN_SHAPE(2)))};
  assert_int_equal(cn_op_call(out, &n, cn_op_find("test_twice"), args, 1, NULL), CN_OK);
  assert_float_equal(cn_item(cn_sum(out[0])), 4, 0);
  cn_release(out[0]);
  assert_int_equal(cn_op_register_rows(&row, 1, 8), CN_ERR_VALUE);
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- CAIRN_KERNEL ---- */

static void wishes(void **state)
{
  (void)state;
  const cni_opinfo *neg = cni_op_by_name("neg"), *exp = cni_op_by_name("exp"), *expm1 = cni_op_by_name("expm1");
  assert_int_equal(cni_kernel_wish(neg, "wanted"), CNI_FIRST);
  assert_int_equal(cni_kernel_wish(neg, "other"), CNI_AS_LISTED);
  assert_int_equal(cni_kernel_wish(exp, "slow"), CNI_LEFT_OUT);
  assert_int_equal(cni_kernel_wish(expm1, "slow"), CNI_LEFT_OUT); /* exp* */
  assert_int_equal(cni_kernel_wish(neg, "slow"), CNI_AS_LISTED);
  assert_int_equal(cni_kernel_wish(neg, "unloved"), CNI_LEFT_OUT); /* * */
  const char *names[8];
  static const cn_kernel rows[] = {
      {"neg", "plain", run_any}, {"neg", "unloved", run_any}, {"neg", "wanted", run_any}, {NULL, NULL, NULL}};
  cn_backend b = whole("wishes");
  b.kernels = rows;
  assert_int_equal(cn_backend_register(&b), CN_OK);
  assert_int_equal(cn_op_kernels(names, 8, neg->row, "wishes"), 2);
  assert_string_equal(names[0], "wanted");
  assert_string_equal(names[1], "plain");
}

int main(void)
{
  setenv("CAIRN_KERNEL", "neg=wanted,exp*=-slow,*=-unloved", 1); /* read at the first op */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(asked_once),
      cmocka_unit_test(refusals_have_reasons),
      cmocka_unit_test(workspace),
      cmocka_unit_test(earlier_backends),
      cmocka_unit_test(other_versions_are_refused),
      cmocka_unit_test(earlier_ops),
      cmocka_unit_test(wishes),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
