/* host.c: the table of services that plugins get. See include/cairn/ext/host.h.
 *
 * Invariant: everything a plugin may do with cairn is listed here; plugins link against nothing. */
#include <cairn/ext/host.h>
#include <cairn/ext/system.h>
#include <cairn/mesh.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/numerics.h"
#include "base/os.h"
#include "base/os_cache.h"
#include "base/parallel.h"
#include "codegen/loop.h"
#include "dispatch.h"
#include "graph/ir.h"
#include "ops/apply.h"
#include "registry.h"

static int host_fail(int code, const char *format, ...)
{
  char text[CNI_MESSAGE_MAX];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  return cni_fail(code, "%s", text);
}

static void host_log(cn_log_level level, const char *format, ...)
{
  char text[1000];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  cni_log(level, CNI_TOPIC_DISPATCH, "%s", text);
}

static const char *host_op_name(const cn_op *op)
{
  const cni_opinfo *info = cni_op_info(op);
  return info ? info->name : "";
}

static const char *host_op_running(void) { return cni_state()->running; }

/* The decomposition of a call on host tensors, its results copied into those that are there. What it draws are the
 * call's numbers. */
static int run_decomposed(cn_call *call)
{
  cn_tensor *results[CNI_MAX_RESULTS] = {NULL};
  cn_state *st = cni_state();
  cn_call c = *call;
  uint64_t seed, offset;
  bool no_grad = st->no_grad, draws = (c.op->flags & CN_OP_RANDOM) != 0;
  if (c.nout > CNI_MAX_RESULTS) return CN_REFUSED;
  size_t depth = cni_scope_push();
  cn_random_state(&seed, &offset);
  if (draws) cn_random_set_state(c.seed, c.offset);
  st->no_grad = true;
  c.out = results;
  int status = c.op->decompose(&c);
  st->no_grad = no_grad;
  if (draws) cn_random_set_state(seed, offset);
  if (!status) status = st->err;
  for (int i = 0; i < c.nout && !status; i++)
    if (call->out[i] && results[i]) status = cni_copy_elements(call->out[i], results[i]);
    else if (results[i]) call->out[i] = cni_tensor_keep(results[i]);
  cni_scope_pop(depth);
  return status;
}

static int host_run_cpu(cn_call *call)
{
  cn_device device = call->device;
  call->device = CN_CPU;
  call->plan = NULL; /* what the other device's kernel said */
  call->workspace = NULL;
  int status = cni_run_kernel(call, cni_op_info(call->op));
  if (status == CN_REFUSED && call->op->decompose) status = run_decomposed(call);
  if (status == CN_REFUSED)
    status = cn_call_fail(call, CN_ERR_UNSUPPORTED, "no CPU implementation for this call%s%s",
                          call->refusal ? ": " : "", call->refusal ? call->refusal : "");
  call->device = device;
  return status;
}

static void nothing(void *payload) { (void)payload; }

static cn_tensor *host_wrap(const cn_desc *d)
{
  if (d->size < sizeof *d || d->layout != CN_LAYOUT_STRIDED) {
    cni_fail(CN_ERR_UNSUPPORTED, "wrap: a descriptor of another version, or not a strided one");
    return NULL;
  }
  cni_storage *s = cni_storage_borrow(CN_CPU, d->data, SIZE_MAX / 2, nothing, NULL);
  if (!s) return NULL;
  cn_tensor *t = cni_tensor_over(s, 0, d->dtype, d->ndim, d->shape, d->strides);
  if (t) t->d.weak = d->weak;
  return t;
}

static void host_release(cn_tensor *t) { cni_tensor_release(t); }

static int host_out_alloc(cn_call *c, int i, int ndim, const int64_t *shape)
{
  c->out[i] = cni_tensor_new(c->device, c->spec[i].dtype, ndim, shape, NULL);
  return c->out[i] ? CN_OK : CN_ERR_MEMORY;
}

static int host_take_error(char *message, size_t size)
{
  int code = cn_err();
  snprintf(message, size, "%s", cn_err_message());
  cn_err_clear();
  return code;
}

static bool host_cpu_has_kernel(const cn_op *op)
{
  const cni_opinfo *info = cni_op_info(op);
  return info && cni_kernels_at(0, info);
}

static void fill(cn_value *args, const cn_op *op, cn_tensor *const *in)
{
  cni_fill_slots(cni_op_info(op), args, in);
}

static const cn_graph_reader reader = {
  .size = sizeof(cn_graph_reader),
  .values = cn_graph_values,
  .nodes = cn_graph_nodes,
  .inputs = cn_graph_inputs,
  .states = cn_graph_states,
  .draws = cn_graph_draws,
  .value_at = cn_graph_value_at,
  .node_at = cn_graph_node_at,
  .input = cn_graph_input,
  .state_value = cn_graph_state_value,
  .fill = fill,
  .state_final = cn_graph_state_final,
  .input_final = cn_graph_input_final,
};

static uint64_t draws(const cn_call *call) { return cni_random_draws(call); }

static const cn_graph_maker maker = {
  .size = sizeof(cn_graph_maker),
  .graph = cn_graph_new,
  .free = cn_graph_free,
  .add_input = cn_graph_add_input,
  .add_number = cn_graph_add_number,
  .add_node = cn_graph_add_node,
  .add_output = cn_graph_add_output,
  .find = cn_op_find,
  .draws = draws,
  .stablehlo = cn_stablehlo_text_with,
  .string_free = cn_string_free,
  .stablehlo_problem = cn_stablehlo_problem,
  .partition_read = cn_partition_read,
  .sharding = cn_stablehlo_sharding,
  .shardy = cn_stablehlo_shardy,
};

const cn_host cni_host = {
  .size = sizeof(cn_host),
  .abi = CN_BACKEND_ABI,
  .memory = cni_alloc,
  .free_memory = cni_free,
  .fail = host_fail,
  .log = host_log,
  .op_name = host_op_name,
  .pointwise_source = cni_pointwise_source,
  .copy_source = cni_copy_source,
  .source_free = cni_source_end,
  .source_text = cni_source_text,
  .run_cpu = host_run_cpu,
  .wrap = host_wrap,
  .release_tensor = host_release,
  .out_alloc = host_out_alloc,
  .cpu_has_kernel = host_cpu_has_kernel,
  .env = cni_os_env,
  .take_error = host_take_error,
  .cache_load = cni_os_cache_load,
  .cache_store = cni_os_cache_store,
  .now = cni_os_now,
  .graph = &reader,
  .library_folders = cn_library_folders,
  .op_running = host_op_running,
  .parallel = cni_parallel_for,
  .matmul_precision = cn_matmul_precision,
  .conv_precision = cn_conv_precision,
  .deterministic_mode = cn_deterministic_mode,
  .not_deterministic = cni_not_deterministic,
  .waiting = cni_waiting,
  .make = &maker,
  .path_kind = cn_path_kind_of,
};
