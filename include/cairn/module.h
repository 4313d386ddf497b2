/* module.h: modules: things with parameters that compute: layers, containers, whole networks, a program's own.
 *
 * A module is an object of a class: a table of functions that says how it is made, what it computes and how it prints.
 * It holds named slots for parameters and buffers and named children; names joined by dots ("layer1.0.conv1.weight")
 * are those of PyTorch, so that its files of weights fit.
 *
 * Modules are counted. Functions that take a module into another one take the caller's reference over, so that nested
 * calls of constructors leak nothing, even when one of them fails:
 *
 *     cn_module *net = cn_nn_sequential(cn_nn_linear(784, 128), cn_nn_relu(), cn_nn_linear(128, 10));
 *     cn_tensor *y = cn_forward(net, x);
 *     cn_module_release(net);
 */
#ifndef CAIRN_MODULE_H
#define CAIRN_MODULE_H

#include "ext/signature.h"
#include "kw.h"
#include "tree.h"

CN_BEGIN_DECLS

struct cn_text;
typedef struct cn_module cn_module;
typedef struct cn_module_class cn_module_class;

/* The head of every module; the rest is cairn's. */
struct cn_module {
  const cn_module_class *cls;
  void *data; /* cls->data_size bytes of the class's own, zeroed at first */
};

/* One call of forward: its arguments by the class's call signature, and room for its results (borrowed). */
typedef struct cn_module_call {
  const cn_value *args;
  cn_tensor **out;
  size_t nargs, nout;
} cn_module_call;

/* A class. What is NULL or 0 is not needed; size, name and one of apply and forward are:
 *     static const cn_module_class scaled = {CN_MODULE_CLASS, .name = "Scaled", .apply = scaled_apply}; */
#define CN_MODULE_CLASS .size = sizeof(cn_module_class)
struct cn_module_class {
  size_t size;      /* sizeof(cn_module_class): fields may be added at the end */
  const char *name; /* as printed: "Conv2d" */
  /* How it is made by cn_module_make, the C constructors and other languages, see ext/signature.h. NULL: only by
   * cn_module_new. */
  const char *sig;
  const char *doc;
  /* What forward takes and gives, when that is not one tensor in and one out:
   * "(Tensor input, Tensor? h_0=None) -> (Tensor output, Tensor h_n)". */
  const char *call;
  size_t data_size;
  /* Adds slots and children from the arguments of sig; those stay readable by cn_module_args. */
  int (*init)(cn_module *m, const cn_value *args);
  cn_tensor *(*apply)(cn_module *m, cn_tensor *x); /* one tensor in, one out */
  int (*forward)(cn_module *m, cn_module_call *call);
  void (*free)(cn_module *m); /* what data holds; slots and children go by themselves */
  /* Deep copies: to->data is a plain copy of from->data already, slots and children are copied. For data that holds
   * references. */
  int (*copy)(cn_module *to, const cn_module *from);
  /* What stands between the brackets when it is printed; NULL prints the arguments that differ from defaults. */
  void (*print)(const cn_module *m, struct cn_text *text);
  /* State besides slots, kept in state dictionaries under "_extra_state". get: owned. */
  cn_tree *(*get_state)(cn_module *m);
  int (*set_state)(cn_module *m, const cn_tree *state);
  /* Multiply-adds of one call, without those of children; for cn_summary. */
  double (*work)(const cn_module *m, const cn_module_call *call);
  void (*changed)(cn_module *m); /* after a slot was replaced or loaded, or the mode switched: drop what was derived */
};

/* ---- making ---- */
/* A module of a class without a signature: of the program's own. Owned. */
CN_API CN_MUST_USE cn_module *cn_module_new(const cn_module_class *cls);
/* A module by the name of its class and the arguments of its signature ("Conv2d"): what the constructors cn_nn_*, other
 * languages and description files use. Owned. */
CN_API CN_MUST_USE cn_module *cn_module_make(const char *name, const cn_value *args, size_t n);
CN_API CN_MUST_USE cn_module *cn_module_make_class(const cn_module_class *cls, const cn_value *args, size_t n);
/* Makes a class known by its name. It must outlive its use. */
CN_API int cn_module_register(const cn_module_class *cls);
CN_API const cn_module_class *cn_module_class_find(const char *name); /* NULL: none, sets no error */
CN_API const cn_module_class *cn_module_class_at(size_t i);           /* NULL past the last */
CN_API const cn_signature *cn_module_class_signature(const cn_module_class *cls); /* NULL: it has none */
CN_API const cn_signature *cn_module_class_call(const cn_module_class *cls);
CN_API CN_MUST_USE cn_module *cn_module_keep(cn_module *m); /* one more reference, owned; returns m */
CN_API void cn_module_release(cn_module *m);                /* gives one back; the last frees it. NULL is fine */
CN_API CN_MUST_USE cn_module *cn_module_copy(cn_module *m); /* with parameters, buffers and children; owned */
CN_API const cn_args *cn_module_args(const cn_module *m); /* what it was made with; NULL for cn_module_new */

/* ---- slots: for classes, mostly in init ---- */
/* Appends a slot; returns its number among the module's slots, or a negative cn_status. The module keeps the tensor
 * and makes a parameter require a gradient. NULL makes an absent slot (a layer without bias). */
CN_API int cn_module_add_parameter(cn_module *m, const char *name, cn_tensor *t);
/* A buffer is state that is not trained (running means). Those that are not persistent stay out of files. */
CN_API int cn_module_add_buffer(cn_module *m, const char *name, cn_tensor *t, bool persistent);
CN_API cn_tensor *cn_module_slot(const cn_module *m, size_t i); /* borrowed; NULL: absent, or past the end */
CN_API int cn_module_set_slot(cn_module *m, size_t i, cn_tensor *t);
/* Appends a child and takes it over, also on failure. name NULL: its number. */
CN_API int cn_module_add(cn_module *m, const char *name, cn_module *child);
CN_API size_t cn_module_nchildren(const cn_module *m);
CN_API cn_module *cn_module_child(const cn_module *m, size_t i); /* borrowed */
CN_API const char *cn_module_child_name(const cn_module *m, size_t i);
CN_API int cn_module_set_child(cn_module *m, size_t i, cn_module *child); /* takes it over */
/* The module that the last part of a path belongs to ("layer1.0.weight": layer1.0), and that part in *name; parts
 * between that are missing are made, as modules that only hold others. Borrowed; NULL with the error set. */
CN_API cn_module *cn_module_reach(cn_module *m, const char *path, const char **name);

/* ---- by name: paths as in state dictionaries ---- */
CN_API cn_module *cn_module_find(cn_module *m, const char *path);        /* "layer1.0"; "" is m. Borrowed; NULL: none */
CN_API cn_tensor *cn_module_get(cn_module *m, const char *path);         /* a parameter or buffer. NULL: none */
CN_API int cn_module_set(cn_module *m, const char *path, cn_tensor *t);  /* replaces it; shapes are not compared */

/* ---- computing ---- */
/* Calls are made in a scope of their own: of what forward made only results stay. Hooks run around it. */
CN_API cn_tensor *cn_forward_one(cn_module *m, cn_tensor *const *inputs, size_t ninputs); /* its first result */
/* Tensors in the order of the call signature, NULL where one is absent; fills up to nout results. */
CN_API int cn_forward_all(cn_tensor **out, size_t nout, cn_module *m, cn_tensor *const *inputs, size_t ninputs);
/* With arguments of all kinds, one per parameter of the call signature. */
CN_API int cn_forward_values(cn_tensor **out, size_t nout, cn_module *m, const cn_value *args, size_t nargs);
/* While a graph is captured, what follows is the forward of m: named by its path below the module around. For languages
 * that call a forward of their own; cn_forward does it itself. As cn_trace_scope_begin; ended by cn_trace_scope_end. */
CN_API CN_MUST_USE int cn_module_scope_begin(cn_module *m);
/* The children one after the other: the forward of Sequential, and of classes that differ from it in name alone. */
CN_API int cn_forward_children(cn_module *m, cn_module_call *call);

/* ---- mode, place and type ---- */
CN_API int cn_module_train(cn_module *m, bool on); /* it and all below; false: evaluation (dropout off, ...) */
CN_API bool cn_module_training(const cn_module *m);
/* Moves parameters and buffers to a device, and floating ones to a type; CN_DEVICE_DEFAULT and CN_DTYPE_NONE leave
 * them as they are. Tensors stay the same objects, so an optimiser made before goes on working. */
CN_API int cn_module_to(cn_module *m, cn_device device, cn_dtype dtype);
CN_API int cn_module_requires_grad(cn_module *m, bool on); /* false freezes it */
CN_API int cn_module_zero_grad(cn_module *m);
CN_API int64_t cn_module_count(cn_module *m, bool trainable_only); /* elements of its parameters, shared ones once */

/* ---- walking ---- */
/* A parameter or buffer with its full name. Lists are in PyTorch's order; shared tensors come once, unless asked for
 * under every name. */
typedef struct cn_named {
  const char *name;
  cn_tensor *tensor;
  cn_module *owner;
  bool buffer, persistent;
} cn_named;
typedef struct cn_named_list {
  cn_named *v;
  size_t n, cap;
} cn_named_list;
enum cn_named_flags { CN_PARAMETERS = 1, CN_BUFFERS = 2, CN_SHARED = 4 /* shared ones under each name */ };
CN_API int cn_module_named(cn_named_list *list, cn_module *m, int flags); /* owned: cn_named_free */
CN_API void cn_named_free(cn_named_list *list);
/* Names the states of a graph (graph.h) that are parameters or buffers of m by their full names, so that files of the
 * graph have its weights under these. Returns how many, or the error. */
struct cn_graph;
CN_API int cn_module_name_states(cn_module *m, struct cn_graph *graph);
/* A graph as a module, which takes it over, also on failure: its states are parameters, where they require gradients,
 * and buffers, under their names; forward computes it, with gradients, autocast and captures as any module, of up to
 * 16 inputs with up to 8 results. What the trace was made for (sizes, training or evaluation) stays. Owned. */
CN_API CN_MUST_USE cn_module *cn_graph_module(struct cn_graph *graph);
/* Calls fn for m and all modules below it, each once, parents before children as PyTorch's named_modules does. fn
 * returns 0, or a negative status that ends the walk and is returned. */
typedef int (*cn_module_fn)(cn_module *m, const char *path, void *payload);
CN_API int cn_module_visit(cn_module *m, cn_module_fn fn, void *payload);

/* Slot i of the module itself: what it is called and what kind it is; tensor NULL where it is absent. False past the
 * last. `name` stays the module's, and is NULL for one that was removed while its class counts on its place. */
CN_API CN_MUST_USE bool cn_module_slot_at(cn_named *slot, const cn_module *m, size_t i);
/* What a compiled function that calls the module depends on of it, as bytes for cn_key_put: its tensors, which of them
 * want gradients, its parts, their modes and settings. Writes as many as there is room for (size; bytes may be NULL
 * when that is 0) and returns how many there are. */
CN_API size_t cn_module_key(void *bytes, size_t size, const cn_module *m);
/* Removes a parameter, a buffer or a child. What a class of the library made keeps its place, absent. */
CN_API int cn_module_remove(cn_module *m, const char *name);
/* Puts a tensor into the place of a removed slot: the class computes with it, no list shows it. False: there is no such
 * place. */
CN_API bool cn_module_set_removed(cn_module *m, const char *name, cn_tensor *t);

/* ---- hooks ---- */
/* Before a call: may replace inputs (put borrowed tensors in). After it: may replace results. Both return 0 or a
 * negative status. Returns an id for cn_module_hook_remove, negative on failure. `free` (may be NULL) gets the payload
 * when the hook goes. */
typedef int (*cn_module_hook)(cn_module *m, cn_module_call *call, void *payload);
CN_API int64_t cn_module_hook_before(cn_module *m, cn_module_hook hook, void *payload, void (*free)(void *));
CN_API int64_t cn_module_hook_after(cn_module *m, cn_module_hook hook, void *payload, void (*free)(void *));
/* In backward, once the gradients of all tensor inputs that need one are known: gradients of inputs and of results
 * (NULL where there is none). It may replace those of inputs. */
typedef int (*cn_module_grad_hook)(cn_module *m, cn_tensor **grad_inputs, size_t ninputs,
                                   cn_tensor *const *grad_outputs, size_t noutputs, void *payload);
CN_API int64_t cn_module_hook_backward(cn_module *m, cn_module_grad_hook hook, void *payload, void (*free)(void *));
CN_API int cn_module_hook_remove(cn_module *m, int64_t id);

/* ---- for other languages: objects of theirs that are modules ---- */
/* Whatever the language wants to find again from the module; copies have none. */
CN_API void *cn_module_object(const cn_module *m);
CN_API void cn_module_set_object(cn_module *m, void *object);
/* Calls run this, with the object as payload, instead of the class's forward; NULL: the class's again. */
CN_API void cn_module_set_forward(cn_module *m, cn_module_hook forward);
/* The name of a class of that language, derived from the module's: printed in its place. It must outlive the module. */
CN_API void cn_module_set_shown(cn_module *m, const char *name);
/* cn_forward_values as the class computes it, without hooks: what such a forward calls to go on. */
CN_API int cn_forward_class(cn_tensor **out, size_t nout, cn_module *m, const cn_value *args, size_t nargs);
CN_API bool cn_module_hooked(const cn_module *m); /* does it have hooks? */
CN_API bool cn_module_plain(const cn_module *m);  /* is a call of it its class's forward, and nothing else? */
/* With arguments and nothing that init adds, for one who adds it all himself. Owned. */
CN_API CN_MUST_USE cn_module *cn_module_new_with(const cn_module_class *cls, const cn_value *args, size_t n);
/* A copy without children, its slots all absent. Owned. */
CN_API CN_MUST_USE cn_module *cn_module_copy_bare(const cn_module *m);
/* m is from now on what `other` is: its class, arguments and parts, for all who hold m; other is taken over and goes.
 * Of m its mode, its hooks and its object stay. */
CN_API void cn_module_become(cn_module *m, cn_module *other);
/* Replaces an argument it was made with, as far as forward still reads it. */
CN_API int cn_module_set_arg(cn_module *m, const char *name, cn_value value);
CN_API void cn_module_set_training(cn_module *m, bool on); /* its own mode, not that of modules below */
/* What is printed between the brackets. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_module_describe(const cn_module *m);

/* ---- state ---- */
/* Parameters and persistent buffers by name, as a dictionary that shares the tensors. Owned. */
CN_API CN_MUST_USE cn_tree *cn_module_state(cn_module *m);
/* Copies values in. Strict: every name must be in both, and an error lists those that are not; else what fits is taken
 * and `missing`, `unexpected` (may be NULL) name the rest. A shape that differs is always an error; nothing is copied
 * when there is an error. */
typedef struct cn_load_opts {
  size_t size;
  const struct cn_guard *guard;
  bool lenient;   /* names may be missing or unexpected */
  bool assign;    /* take the tensors themselves instead of copying values */
  const char *prefix; /* of the names in the file: "module." */
  cn_tree **missing, **unexpected; /* lists of names; owned by the caller */
} cn_load_opts;
CN_API int cn_module_load_with(cn_module *m, const cn_tree *state, const cn_load_opts *opts);

/* ---- looking ---- */
/* As PyTorch prints it. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_module_to_string(cn_module *m);
CN_API int cn_module_print(cn_module *m); /* to standard output */
/* A table of layers: name, output shape, parameters, multiply-adds, bytes of the output; and sums. Runs forward once in
 * evaluation mode on zeros of that shape, without data where the modules allow it; whole numbers where the net takes no
 * floats. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_summary(cn_module *m, const int64_t *shape, size_t ndim);
/* With these inputs. */
CN_API CN_MUST_USE char *cn_summary_inputs(cn_module *m, cn_tensor *const *inputs, size_t ninputs);

CN_END_DECLS

#ifndef __cplusplus
/* cn_forward(net, x), cn_forward(attention, query, key, value): the first result. */
#define cn_forward(module, ...) cn_forward_one(module, CN_TENSORS(__VA_ARGS__))
#define cn_module_load(module, ...) \
  cn_module_load_with(module, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_load_opts, CN_TAIL(__VA_ARGS__, )))
/* The two arguments (modules, count) of a container's constructor. */
#define CN_MODULES(...) \
  ((cn_module *const[]){__VA_ARGS__}), (sizeof((cn_module *const[]){__VA_ARGS__}) / sizeof(cn_module *))
#endif

#endif
