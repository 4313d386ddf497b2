/* autograd.h: gradients of whatever a program computed (define by run).
 *
 * A tensor that requires a gradient makes every op on it record how its result came about; cn_backward walks that
 * record and adds gradients up in the leaves. */
#ifndef CAIRN_AUTOGRAD_H
#define CAIRN_AUTOGRAD_H

#include "tensor.h"

CN_BEGIN_DECLS

/* ---- what needs a gradient ---- */
/* Makes a leaf record (floating-point tensors only). Returns t, so that it can be written around an expression; NULL
 * with an error for results of ops when `on` is false, and for integer tensors. */
CN_API cn_tensor *cn_requires_grad(cn_tensor *t, bool on);
CN_API bool cn_needs_grad(const cn_tensor *t);
CN_API bool cn_is_leaf(const cn_tensor *t);
/* Keeps the gradient of a result too (leaves always keep it). */
CN_API int cn_retain_grad(cn_tensor *t);
CN_API bool cn_retains_grad(const cn_tensor *t); /* was that asked for? false for leaves */
/* The gradient so far: borrowed from t, valid until it is changed; NULL when there is none. */
CN_API cn_tensor *cn_grad_of(const cn_tensor *t);
/* Replaces it; NULL drops it. Shape, type and device must fit. */
CN_API int cn_set_grad(cn_tensor *t, cn_tensor *grad);
CN_API int cn_zero_grad(cn_tensor *t); /* drops it: the next backward starts afresh */
/* Gives the leaf t the memory, shape, type and device of another tensor, which it shares from now on; whoever holds t
 * sees it. Its gradient is dropped. For moving parameters; not for tensors that a pending backward has saved. */
CN_API int cn_set_data(cn_tensor *t, cn_tensor *other);
/* The same memory without history, of which autograd sees no writes: backward passes that have saved t go on with
 * what is written there. (Writes to cn_detach(t) make them fail.) It belongs to the innermost scope. */
CN_API cn_tensor *cn_data_of(cn_tensor *t);

/* ---- backward ---- */
typedef struct cn_backward_opts {
  size_t size;
  const struct cn_guard *guard;
  cn_tensor *gradient; /* of the result; may be NULL for a one-element result, which then counts as 1 */
  bool retain_graph;   /* keep the record for another backward */
  bool create_graph;   /* record the backward itself, for gradients of gradients (keeps the record too) */
} cn_backward_opts;
CN_API int cn_backward_with(cn_tensor *t, const cn_backward_opts *opts);

typedef struct cn_grad_opts {
  size_t size;
  const struct cn_guard *guard;
  cn_tensor *const *grad_outputs; /* one per output; NULL, or NULL entries, count as 1 for one-element outputs */
  bool retain_graph, create_graph;
  bool allow_unused; /* an input that does not take part gets NULL instead of an error */
} cn_grad_opts;
/* Gradients of the outputs (added up) with respect to chosen inputs, into grads[0..ninputs); they belong to the
 * innermost scope. Leaves' own gradients are left alone. */
CN_API int cn_grad_with(cn_tensor **grads, cn_tensor *const *outputs, size_t noutputs, cn_tensor *const *inputs,
                        size_t ninputs, const cn_grad_opts *opts);

/* Backward of several results in one walk: their gradients (opts->grad_outputs, as for cn_grad) meet on the way and add
 * up in the leaves. */
CN_API int cn_backward_all(cn_tensor *const *outputs, size_t noutputs, const cn_grad_opts *opts);

/* ---- modes: begin returns the old setting, which end restores ---- */
CN_API int cn_no_grad_begin(void);
CN_API void cn_no_grad_end(int saved);
CN_API int cn_enable_grad_begin(void);
CN_API void cn_enable_grad_end(int saved);
/* Like no_grad, and its results can never take part in recording later. */
CN_API int cn_inference_begin(void);
CN_API void cn_inference_end(int saved);
CN_API bool cn_grad_enabled(void);
CN_API bool cn_inference_enabled(void);
CN_API bool cn_is_inference(const cn_tensor *t); /* was it made in inference mode? */
/* While on, the first op whose result has a NaN or Inf (forward or backward) is an error that names it. Slow. */
CN_API bool cn_detect_anomaly(bool on); /* returns the old setting */

/* ---- mixed precision ---- */
/* While on, ops compute in the type that suits them: products, convolutions and attention in `dtype` (CN_BF16 or
 * CN_F16), losses and what needs range in float32, others in the types they are given; PyTorch's lists, in each op's
 * documentation. Parameters are cast once while it is on. Regions nest; CN_DTYPE_NONE switches it off inside. Returns
 * the old setting, which end restores. */
CN_API int cn_autocast_begin(cn_dtype dtype);
CN_API void cn_autocast_end(int saved);
CN_API cn_dtype cn_autocast_dtype(void); /* CN_DTYPE_NONE: it is off; else the CPU's, or that of the other devices */
/* The same for ops on the CPU only, or on other devices only: what the others compute in stays. */
typedef enum cn_autocast_where { CN_AUTOCAST_ALL, CN_AUTOCAST_CPU, CN_AUTOCAST_DEVICES } cn_autocast_where;
CN_API int cn_autocast_begin_on(cn_autocast_where where, cn_dtype dtype);
CN_API cn_dtype cn_autocast_dtype_on(cn_autocast_where where);

/* ---- ways of attention ---- */
/* Which ways scaled_dot_product_attention may take inside: by plain products and a softmax, by the CPU's fused kernel,
 * by those of other devices; bits, 0: all. Where none of them can do it, it fails with CN_ERR_UNSUPPORTED. Returns the
 * old setting, which end restores. */
typedef enum cn_attention_way {
  CN_ATTENTION_PARTS = 1,
  CN_ATTENTION_CPU = 2,
  CN_ATTENTION_DEVICE = 4
} cn_attention_way;
CN_API unsigned cn_attention_begin(unsigned ways);
CN_API void cn_attention_end(unsigned saved);

/* ---- hooks ---- */
/* Called with the gradient of t when it is known; what it returns (if not NULL) replaces it. Returns an id. */
typedef cn_tensor *(*cn_grad_hook)(cn_tensor *grad, void *payload);
CN_API int64_t cn_hook_add(cn_tensor *t, cn_grad_hook hook, void *payload);
/* The same for a payload that the hook takes over: `free` is called with it when the hook is removed, when the record
 * is gone, and at once on failure. */
CN_API int64_t cn_hook_add_owned(cn_tensor *t, cn_grad_hook hook, void *payload, void (*free)(void *payload));
/* The same for a leaf's whole gradient, each time backward has added to it; what the hook returns is not looked at. An
 * optimiser's step may be taken there, and the gradient dropped. */
CN_API int64_t cn_hook_add_after(cn_tensor *t, cn_grad_hook hook, void *payload, void (*free)(void *payload));
CN_API int cn_hook_remove(cn_tensor *t, int64_t id);

/* ---- what is kept for backward ---- */
/* While set in a thread, a value that an op there keeps for backward is given to `pack` (recording is off inside), and
 * what that returns is kept in its place; backward gets it from `unpack`, a borrowed tensor of the same shape and type.
 * `free` drops it. pack returns NULL, unpack as well, on failure, with the error set. Values that custom functions save
 * stay as they are. The table must outlive what is recorded with it; payload is only used while it is set. */
typedef struct cn_saved_hooks {
  void *(*pack)(cn_tensor *t, void *payload);
  cn_tensor *(*unpack)(void *packed);
  void (*free)(void *packed);
} cn_saved_hooks;
typedef struct cn_saved_setting {
  const cn_saved_hooks *hooks; /* NULL: values are kept as they are */
  void *payload;
} cn_saved_setting;
CN_API cn_saved_setting cn_saved_hooks_set(cn_saved_setting now); /* returns the old setting */

/* ---- looking at the record ---- */
/* One recorded call, counted; for drawing and debugging. */
typedef struct cn_node cn_node;
/* What t was computed by, or the place where a leaf's gradients add up. Owned; NULL when t needs no gradient. *result
 * (may be NULL): which of its results t is. */
CN_API CN_MUST_USE cn_node *cn_node_of(cn_tensor *t, int *result);
CN_API void cn_node_release(cn_node *node);
/* The op's or custom function's name; "leaf" for leaves. Valid as long as the node has it: a custom function's own name
 * goes with its record. */
CN_API const char *cn_node_name(const cn_node *node);
/* The name of the op that was called, where the recorded one is the last step of it (the mean of mse_loss); else the
 * same. */
CN_API const char *cn_node_call(const cn_node *node);
CN_API size_t cn_node_ninputs(const cn_node *node);
/* Where the gradient of input i goes, and which of that node's results it is. Owned; NULL: nowhere. */
CN_API CN_MUST_USE cn_node *cn_node_input(const cn_node *node, size_t i, int *result);

/* ---- custom functions ---- */
typedef struct cn_context cn_context;
/* Forward computes outputs (borrowed, usually results of ops; recording is off inside) from inputs. Backward gets the
 * gradients of the outputs (NULL stands for zero) and fills one per input (NULL where none flows). Both return 0 or a
 * negative status. */
typedef struct cn_function {
  size_t size; /* sizeof(cn_function): fields may be added at the end */
  const char *name;
  int (*forward)(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs);
  int (*backward)(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs);
  void (*free)(void *payload); /* of payload, when the record is gone or apply failed; may be NULL */
} cn_function;
CN_API int cn_function_apply(cn_tensor **outputs, size_t noutputs, const cn_function *function,
                             cn_tensor *const *inputs, size_t ninputs, void *payload);
/* For forward: keeps tensors for backward. */
CN_API int cn_context_save(cn_context *ctx, cn_tensor *const *tensors, size_t n);
CN_API int cn_context_mark_non_differentiable(cn_context *ctx, size_t output);
/* For forward: this result is an input that forward wrote into; the very tensor gets the function's history. */
CN_API int cn_context_mark_dirty(cn_context *ctx, size_t output);
/* For backward: the i-th saved tensor, borrowed; an error when it was changed in place since. */
CN_API cn_tensor *cn_context_saved(cn_context *ctx, size_t i);
CN_API void *cn_context_payload(cn_context *ctx);
CN_API bool cn_context_needs(cn_context *ctx, size_t input); /* does this input want a gradient? */

/* ---- checkpointing ---- */
/* Runs fn without recording its inside, and runs it again in backward: memory for time. Random numbers repeat. Leaves
 * that fn uses besides its inputs get their gradients with cn_backward; cn_grad sees the inputs only. */
typedef int (*cn_checkpoint_fn)(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);
CN_API int cn_checkpoint(cn_tensor **outputs, size_t noutputs, cn_checkpoint_fn fn, cn_tensor *const *inputs,
                         size_t ninputs, void *payload);

/* ---- forward mode ---- */
/* How fn's outputs change when its inputs change by tangents: the product of its Jacobian with them, one tangent
 * per output, into tangent_outputs[0..noutputs). A tangent that is NULL stands for zero. outputs (may be NULL)
 * receives fn's values. All of them belong to the innermost scope. fn runs once, with recording on, from inputs cut
 * off from their history; the product is the gradient of its gradient, so every op with a gradient of second order
 * goes through. With create_graph in opts the result can be differentiated again by the tangents and by leaves that
 * fn uses besides. */
typedef int (*cn_jvp_fn)(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);
typedef struct cn_jvp_opts {
  size_t size;
  const struct cn_guard *guard;
  bool create_graph;
} cn_jvp_opts;
CN_API int cn_jvp_with(cn_tensor **outputs, cn_tensor **tangent_outputs, size_t noutputs, cn_jvp_fn fn,
                       cn_tensor *const *inputs, cn_tensor *const *tangents, size_t ninputs, void *payload,
                       const cn_jvp_opts *opts);

/* ---- checking ---- */
/* Compares the gradients of fn at these float64 inputs with finite differences: 0, or an error that shows the worst
 * place. */
typedef cn_tensor *(*cn_scalar_fn)(cn_tensor *const *inputs, void *payload);
typedef struct cn_gradcheck_opts {
  size_t size;
  const struct cn_guard *guard;
  double eps;  /* 1e-6 */
  double atol; /* 1e-5 */
  double rtol; /* 1e-3 */
  bool second_order; /* check the gradients' gradients as well */
} cn_gradcheck_opts;
CN_API int cn_gradcheck_with(cn_scalar_fn fn, cn_tensor *const *inputs, size_t ninputs, void *payload,
                             const cn_gradcheck_opts *opts);

CN_END_DECLS

#ifndef __cplusplus
#define cn_backward(...) cn_backward_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_backward_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_grad(grads, outputs, noutputs, inputs, ...)                                                               \
  cn_grad_with(grads, outputs, noutputs, inputs, CN_HEAD(__VA_ARGS__, ),                                             \
               CN_OPTS(cn_grad_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_jvp(outputs, tangent_outputs, noutputs, fn, inputs, tangents, ninputs, ...)                               \
  cn_jvp_with(outputs, tangent_outputs, noutputs, fn, inputs, tangents, ninputs, CN_HEAD(__VA_ARGS__, ),             \
              CN_OPTS(cn_jvp_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_gradcheck(fn, inputs, ninputs, ...) \
  cn_gradcheck_with(fn, inputs, ninputs, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_gradcheck_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
