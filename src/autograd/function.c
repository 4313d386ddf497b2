/* function.c: custom functions (forward and backward written by the user) and gradient checkpointing on top of them.
 *
 * Place in the flow: beside record.c: makes a node whose backward is a callback. Invariant: a context saves aliases
 * without history, with the version that the tensors had, and the history they had beside them: a tensor may get
 * another one later that leads back to the context. It is put back whenever they are asked for. */
#include <cairn/graph.h>
#include <string.h>

#include "autograd.h"
#include "base/dtype.h"

typedef struct saved_value {
  cni_saved value;
  int result;     /* which result it is; -1: none */
  cni_node *node; /* what made it, owned, and as which result; NULL: nothing, or this function */
  int index;
} saved_value;

struct cni_context_data {
  const cn_function *fn;
  void *payload;
  cni_node *node; /* the node that owns this; not owned */
  saved_value *saved;
  size_t nsaved, saved_cap;
  uint64_t nondiff; /* results without gradient */
  uint64_t dirty;   /* results that are inputs written in place */
  bool *need;       /* per input: does it want one? NULL: none does */
  size_t ninputs;
  bool history;     /* the running backward records itself */
};

/* The user's view of it is the same struct. */
struct cn_context {
  struct cni_context_data data;
};

void cni_context_free(struct cni_context_data *c)
{
  for (size_t i = 0; i < c->nsaved; i++) {
    cni_tensor_release(c->saved[i].value.t);
    cni_node_release(c->saved[i].node);
  }
  cni_free(c->saved, c->saved_cap * sizeof *c->saved);
  if (c->fn->free) c->fn->free(c->payload);
  cni_free(c->need, c->ninputs);
  cni_free(c, sizeof *c);
}

bool cni_context_records(const cn_context *ctx) { return ctx->data.history; }

const char *cni_context_name(const struct cni_context_data *c) { return c->fn->name; }

int cn_context_save(cn_context *ctx, cn_tensor *const *tensors, size_t n)
{
  struct cni_context_data *c = &ctx->data;
  if (cni_grow((void **)&c->saved, &c->saved_cap, c->nsaved + n, sizeof *c->saved)) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    if (!tensors[i]) return cni_fail(CN_ERR_TYPE, "context_save: tensor %zu is NULL", i);
    c->saved[c->nsaved++] = (saved_value){{cni_tensor_keep(tensors[i]), cni_version(tensors[i])}, -1, NULL, 0};
  }
  return CN_OK;
}

int cn_context_mark_non_differentiable(cn_context *ctx, size_t output)
{
  if (output >= 64) return cni_fail(CN_ERR_VALUE, "context: result %zu is out of range", output);
  ctx->data.nondiff |= 1ull << output;
  return CN_OK;
}

int cn_context_mark_dirty(cn_context *ctx, size_t output)
{
  if (output >= 64) return cni_fail(CN_ERR_VALUE, "context: result %zu is out of range", output);
  ctx->data.dirty |= 1ull << output;
  return CN_OK;
}

void *cn_context_payload(cn_context *ctx) { return ctx->data.payload; }
bool cn_context_needs(cn_context *ctx, size_t input)
{
  return ctx->data.need && input < ctx->data.ninputs && ctx->data.need[input];
}

cn_tensor *cn_context_saved(cn_context *ctx, size_t i)
{
  struct cni_context_data *c = &ctx->data;
  if (i >= c->nsaved) {
    cni_fail(CN_ERR_INDEX, "context_saved: %zu tensors were saved, there is no number %zu", c->nsaved, i);
    return NULL;
  }
  saved_value *s = &c->saved[i];
  cn_tensor *t = s->value.t;
  if (cni_version(t) != s->value.version) {
    cni_fail(CN_ERR_GRAD, "backward of %s: saved tensor %zu was changed in place after it was saved", c->fn->name, i);
    return NULL;
  }
  bool made = s->result >= 0 && !(c->nondiff >> s->result & 1) && cn_dtype_is_float((cn_dtype)t->d.dtype);
  cni_node *node = made ? c->node : s->node;
  if (!node) return t;
  cn_tensor *linked = cni_scope_add(cni_tensor_alias(t));
  if (!linked) return NULL;
  linked->node = cni_node_keep(node);
  linked->out_index = made ? s->result : s->index;
  return linked;
}

/* Replaces the handles saved in forward by aliases, and notes where they came from. */
static int settle_saved(struct cni_context_data *c, cn_tensor *const *out, int nout)
{
  for (size_t i = 0; i < c->nsaved; i++) {
    saved_value *s = &c->saved[i];
    cn_tensor *t = s->value.t, *alias = cni_tensor_alias(t);
    if (!alias) return CN_ERR_MEMORY;
    for (int k = 0; k < nout; k++)
      if (out[k] == t) s->result = k;
    if (s->result < 0 && (s->node = cni_node_of(t))) {
      cni_node_keep(s->node);
      s->index = t->out_index;
    }
    s->value.t = alias;
    cni_tensor_release(t);
  }
  return CN_OK;
}

static const cn_function checkpoint_function;

/* In a graph a function stands in a scope: its backward is not there (graph/replay.c). in_graphs: it is. */
static int run_forward(cn_context *ctx, const cn_function *fn, cn_tensor **out, size_t nout, cn_tensor *const *in,
                       bool in_graphs)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  st->no_grad = true;
  for (size_t i = 0; i < nout; i++) out[i] = NULL;
  const char *kind = fn == &checkpoint_function ? "checkpoint" : "function";
  int scope = in_graphs ? -1 : cn_trace_scope_begin(fn->name, kind, NULL);
  int status = fn->forward(ctx, out, in);
  if (!in_graphs) cn_trace_scope_end(scope);
  st->no_grad = no_grad;
  if (!status) status = cn_err();
  for (size_t i = 0; i < nout && !status; i++)
    if (!out[i]) status = cni_fail(CN_ERR_VALUE, "%s: forward left result %zu unset", fn->name, i);
  return status ? (cn_err() ? cn_err() : cni_fail(status, "%s: forward failed", fn->name)) : CN_OK;
}

static cni_node *function_node(cn_tensor *const *in, size_t nin, cn_tensor *const *out, size_t nout)
{
  size_t words = 0;
  for (size_t i = 0; i < nin; i++) words += in[i] ? (size_t)in[i]->d.ndim : 0;
  for (size_t i = 0; i < nout; i++) words += (size_t)out[i]->d.ndim;
  cni_node *n = cni_node_new(CNI_NODE_FUNCTION, (int)nin, (int)nout, NULL, 0, words);
  if (!n) return NULL;
  int64_t *at = n->words;
  for (size_t i = 0; i < nin; i++) {
    if (!in[i]) continue;
    cni_node *producer = cni_node_of(in[i]);
    cni_node_link(n, (int)i, producer, in[i]->out_index);
    cni_node_meta(n, (int)i, &in[i]->d, &at);
  }
  for (size_t i = 0; i < nout; i++) cni_node_meta(n, (int)(nin + i), &out[i]->d, &at);
  return n;
}

/* Results are aliases of what forward returned: it may have returned an input, whose history must stay. One that
 * forward wrote into gets the new history itself. */
static int link_results(cni_node *n, const struct cni_context_data *c, cn_tensor **out, size_t nout)
{
  for (size_t i = 0; i < nout; i++) {
    if (c->dirty >> i & 1) {
      int status = cni_inplace_link(out[i], n, (int)i);
      if (status) return status;
      continue;
    }
    cn_tensor *t = cni_tensor_alias(out[i]);
    if (!t) return CN_ERR_MEMORY;
    if (!(c->nondiff >> i & 1) && cni_dtype_is_inexact(t->d.dtype))
      cni_node_attach(t, (cni_node *)cni_node_keep(n), (int)i);
    out[i] = cni_scope_add(t);
    if (!out[i]) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* Notes which inputs want a gradient; none where recording is off. */
static int note_needs(struct cni_context_data *c, cn_tensor *const *in, size_t n)
{
  bool any = false;
  for (size_t i = 0; !any && i < n && cn_grad_enabled(); i++) any = in[i] && cni_node_of(in[i]);
  if (!any) return CN_OK;
  if (!(c->need = cni_alloc_zero(n))) return CN_ERR_MEMORY;
  c->ninputs = n;
  for (size_t i = 0; i < n; i++) c->need[i] = in[i] && cni_node_of(in[i]);
  return CN_OK;
}

static int record_function(struct cni_context_data *c, cn_tensor **out, size_t nout, cn_tensor *const *in, size_t nin)
{
  int status = settle_saved(c, out, (int)nout);
  for (size_t i = 0; i < nout && !status; i++)
    if (c->dirty >> i & 1) status = cni_inplace_check(c->fn->name, out[i]);
  cni_node *n = status ? NULL : function_node(in, nin, out, nout);
  if (!n) {
    cni_context_free(c);
    return status ? status : CN_ERR_MEMORY;
  }
  n->context = c;
  c->node = n;
  status = link_results(n, c, out, nout);
  cni_node_release(n);
  return status;
}

/* The payload is taken over in every case. */
static int give_up(const cn_function *function, void *payload, int status)
{
  if (function->free) function->free(payload);
  return status;
}

cn_tensor **cni_bring_inside(cn_tensor *const *tensors, size_t n)
{
  cn_tensor **known = cni_alloc((n + 1) * sizeof *known);
  for (size_t i = 0; known && i < n; i++) {
    known[i] = tensors[i] ? cni_hooks.bring_inside(tensors[i]) : NULL;
    if (known[i] || !tensors[i]) continue;
    cni_free(known, (n + 1) * sizeof *known);
    return NULL;
  }
  return known;
}

static int apply_function(cn_tensor **outputs, size_t noutputs, const cn_function *function, cn_tensor *const *inputs,
                          size_t ninputs, void *payload, bool in_graphs)
{
  cn_context *ctx = cni_alloc_zero(sizeof *ctx);
  if (!ctx) return give_up(function, payload, CN_ERR_MEMORY);
  struct cni_context_data *c = &ctx->data;
  c->fn = function;
  c->payload = payload;
  int status = note_needs(c, inputs, ninputs);
  if (!status) status = run_forward(ctx, function, outputs, noutputs, inputs, in_graphs);
  if (status || !c->need) {
    cni_context_free(c);
    for (size_t i = 0; status && i < noutputs; i++) outputs[i] = NULL;
    return status;
  }
  return record_function(c, outputs, noutputs, inputs, ninputs);
}

static bool any_batched(cn_tensor *const *inputs, size_t n)
{
  bool any = false;
  for (size_t i = 0; i < n; i++) any |= inputs[i] && inputs[i]->batch;
  return any;
}

static int run_unchecked(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);

/* Records hold whole batches, and a function works on examples: a checkpoint is run as it is, its inside recorded;
 * others have no rule. */
static int apply_batched(cn_tensor **outputs, const cn_function *function, cn_tensor *const *inputs, void *payload)
{
  int status = function == &checkpoint_function
                 ? run_unchecked(outputs, inputs, payload)
                 : cni_fail(CN_ERR_UNSUPPORTED, "%s: a function with a backward of its own has no rule for vmap",
                            function->name);
  return give_up(function, payload, status);
}

int cni_function_apply(cn_tensor **outputs, size_t noutputs, const cn_function *function, cn_tensor *const *inputs,
                       size_t ninputs, void *payload, bool in_graphs)
{
  if (cn_err()) return give_up(function, payload, cn_err());
  if (function->size < offsetof(cn_function, free) + sizeof function->free) /* its free cannot be trusted */
    return cni_fail(CN_ERR_VALUE, "function: .size must be sizeof(cn_function)");
  if (noutputs > 64 || ninputs > INT32_MAX)
    return give_up(function, payload, cni_fail(CN_ERR_UNSUPPORTED, "%s: at most 64 results", function->name));
  if (CNI_UNLIKELY(cni_state()->vmap != NULL) && any_batched(inputs, ninputs))
    return apply_batched(outputs, function, inputs, payload);
  if (CNI_LIKELY(!(cni_state()->modes & CNI_MODE_INSIDE)))
    return apply_function(outputs, noutputs, function, inputs, ninputs, payload, in_graphs);
  cn_tensor **known = cni_bring_inside(inputs, ninputs);
  if (!known) return give_up(function, payload, cn_err());
  int status = apply_function(outputs, noutputs, function, known, ninputs, payload, in_graphs);
  cni_free(known, (ninputs + 1) * sizeof *known);
  return status;
}

int cn_function_apply(cn_tensor **outputs, size_t noutputs, const cn_function *function, cn_tensor *const *inputs,
                      size_t ninputs, void *payload)
{
  return cni_function_apply(outputs, noutputs, function, inputs, ninputs, payload, false);
}

int cni_function_begin(cn_tensor *t, const cn_function *function)
{
  cn_context *ctx = cni_alloc_zero(sizeof *ctx);
  cni_node *n = ctx ? function_node(NULL, 0, &t, 1) : NULL;
  if (!n) {
    cni_free(ctx, sizeof *ctx);
    return CN_ERR_MEMORY;
  }
  ctx->data = (struct cni_context_data){.fn = function, .node = n};
  n->context = &ctx->data;
  cni_node_attach(t, n, 0);
  return CN_OK;
}

bool cni_function_begins(cn_tensor *t, const cn_function *function)
{
  const cni_node *n = cni_node_of(t);
  return n && n->kind == CNI_NODE_FUNCTION && n->nin == 0 && n->context->fn == function;
}

int cni_function_backward(cni_node *n, cn_tensor *const *g, cn_tensor **gin, bool create)
{
  struct cni_context_data *c = n->context;
  c->history = create;
  int status = c->fn->backward((cn_context *)(void *)c, gin, g);
  c->history = false;
  if (cn_err()) return cn_err();
  return status ? cni_fail(status < 0 ? status : CN_ERR_GRAD, "%s: backward failed", c->fn->name) : CN_OK;
}

/* ---- checkpointing ---- */

typedef struct checkpoint {
  cn_checkpoint_fn fn;
  void *payload;
  size_t nin, nout;
  uint64_t seed, offset;
} checkpoint;

static int run_unchecked(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const checkpoint *k = payload;
  return k->fn(outputs, inputs, k->payload);
}

static void checkpoint_free(void *payload) { cni_free(payload, sizeof(checkpoint)); }

static int checkpoint_forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  checkpoint *k = cn_context_payload(ctx);
  cn_random_state(&k->seed, &k->offset);
  int status = k->fn(outputs, inputs, k->payload);
  return status ? status : cn_context_save(ctx, inputs, k->nin);
}

/* Runs fn again with recording on, from inputs cut off from their history, and goes backward through that. */
static int run_again(const checkpoint *k, cn_context *ctx, cn_tensor **in, cn_tensor **out)
{
  uint64_t seed, offset;
  for (size_t i = 0; i < k->nin; i++) {
    cn_tensor *t = cn_context_saved(ctx, i);
    in[i] = t ? cni_scope_add(cni_tensor_alias(t)) : NULL;
    if (!in[i] || (cn_context_needs(ctx, i) && !cn_requires_grad(in[i], true))) return cn_err();
  }
  cn_random_state(&seed, &offset);
  cn_random_set_state(k->seed, k->offset);
  int scope = cn_trace_scope_begin("checkpoint", "recompute", NULL); /* no pass may take it for the first time */
  int saved = cn_enable_grad_begin(), status = k->fn(out, in, k->payload);
  cn_enable_grad_end(saved);
  cn_trace_scope_end(scope);
  cn_random_set_state(seed, offset);
  return status ? status : cn_err();
}

static int checkpoint_backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  checkpoint *k = cn_context_payload(ctx);
  cn_tensor *in[64], *out[16], *roots[16], *seeds[16];
  if (ctx->data.history)
    return cni_fail(CN_ERR_UNSUPPORTED, "checkpoint: gradients of gradients do not go through a checkpoint");
  int status = run_again(k, ctx, in, out), n = 0;
  for (size_t i = 0; !status && i < k->nout; i++)
    if (grad_outputs[i] && out[i] && cni_node_of(out[i])) {
      roots[n] = out[i];
      seeds[n++] = grad_outputs[i];
    }
  cni_backward b = {.roots = roots, .seeds = seeds, .nroots = n};
  if (!status) status = cni_backward_run(&b);
  for (size_t i = 0; !status && i < k->nin; i++) grad_inputs[i] = cn_grad_of(in[i]);
  return status;
}

static const cn_function checkpoint_function = {sizeof(cn_function), "checkpoint", checkpoint_forward,
  checkpoint_backward,
                                                checkpoint_free};

int cn_checkpoint(cn_tensor **outputs, size_t noutputs, cn_checkpoint_fn fn, cn_tensor *const *inputs, size_t ninputs,
                  void *payload)
{
  if (cn_err()) return cn_err();
  if (ninputs > 64 || noutputs > 16)
    return cni_fail(CN_ERR_UNSUPPORTED, "checkpoint: at most 64 inputs and 16 results");
  checkpoint *k = cni_alloc(sizeof *k);
  if (!k) return CN_ERR_MEMORY;
  *k = (checkpoint){fn, payload, ninputs, noutputs, 0, 0};
  return cn_function_apply(outputs, noutputs, &checkpoint_function, inputs, ninputs, k);
}
