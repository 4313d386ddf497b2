/* onnx.h: models in ONNX's files: what they compute, with cairn's ops; and graphs as such files (cn_onnx_save).
 *
 * A model is a program: running it walks its nodes and calls public ops, so that a run is like any code that calls ops:
 * inside of a function that is compiled (cn_compile) or traced it becomes part of the graph, gradients flow through it,
 * devices take it. Initialisers that are stored raw and aligned lie in the mapped file.
 *
 *     cn_onnx *model = cn_onnx_load("model.onnx");
 *     cn_tensor *logits;
 *     cn_onnx_run(&logits, model, &image);
 *     cn_onnx_free(model);
 *
 * Place in the flow: above the ops, like any code of a program. Invariant: a loaded model never changes, and any number
 * of threads may run it at once. Any bytes are loaded or refused with an error; a node that fails says its name, its
 * operator and opset.
 */
#ifndef CAIRN_ONNX_H
#define CAIRN_ONNX_H

#include "graph.h"
#include "module.h"
#include "strings.h"

CN_BEGIN_DECLS

typedef struct cn_onnx cn_onnx;

/* ---- loading ---- */
typedef struct cn_onnx_opts {
  size_t size;
  const struct cn_guard *guard;
  cn_device device;   /* where initialisers go, and where nodes make what they make of nothing; 0: the default device */
  const char *folder; /* where tensors that lie in other files are found; NULL: the model's folder; none for memory */
  bool partial;       /* a node that cairn cannot run is an error where it runs, not here: see cn_onnx_node_at */
} cn_onnx_opts;
/* Owned; NULL with the error set. What cannot be run, an operator that cairn has not, is an error here. */
CN_API CN_MUST_USE cn_onnx *cn_onnx_load_with(const char *path, const cn_onnx_opts *opts);
/* Copies the bytes. */
CN_API CN_MUST_USE cn_onnx *cn_onnx_load_memory_with(const void *bytes, size_t size, const cn_onnx_opts *opts);
CN_API void cn_onnx_free(cn_onnx *model); /* NULL is fine */

/* ---- what it takes and gives ---- */
typedef enum cn_onnx_kind {
  CN_ONNX_NONE, /* an optional that is empty */
  CN_ONNX_TENSOR,
  CN_ONNX_STRINGS,
  CN_ONNX_SEQUENCE,
  CN_ONNX_MAP /* from whole numbers or strings to others, or to numbers */
} cn_onnx_kind;

typedef struct cn_onnx_info {
  const char *name;
  cn_onnx_kind kind;
  bool optional;         /* it may be empty */
  cn_dtype dtype;        /* of a tensor, or of a sequence's; CN_DTYPE_NONE: not said, or strings */
  int ndim;              /* -1: not said */
  int64_t shape[CN_MAX_DIMS];          /* -1: any */
  const char *symbols[CN_MAX_DIMS];    /* names of sizes that are not numbers; NULL: none */
} cn_onnx_info;
/* Texts live as long as the model. */
CN_API size_t cn_onnx_inputs(const cn_onnx *model); /* without those that an initialiser stands for */
CN_API size_t cn_onnx_outputs(const cn_onnx *model);
CN_API int cn_onnx_input_at(cn_onnx_info *info, const cn_onnx *model, size_t i); /* 0, or an error: there is none */
CN_API int cn_onnx_output_at(cn_onnx_info *info, const cn_onnx *model, size_t i);
CN_API int64_t cn_onnx_opset(const cn_onnx *model, const char *domain); /* "": ONNX's own; 0: the model has none */
CN_API const char *cn_onnx_metadata(const cn_onnx *model, const char *key); /* NULL: none */
/* ---- looking in ---- */
/* Where it comes from; "" and 0 for what it does not say. */
typedef struct cn_onnx_origin {
  const char *producer, *producer_version, *domain, *graph, *doc;
  int64_t version, ir; /* its own; of the format */
} cn_onnx_origin;
CN_API void cn_onnx_origin_of(cn_onnx_origin *origin, const cn_onnx *model);
/* A domain; NULL past the last. */
CN_API const char *cn_onnx_opset_at(const cn_onnx *model, size_t i, int64_t *version);
CN_API const char *cn_onnx_metadata_at(const cn_onnx *model, size_t i, const char **value); /* a key; likewise */
CN_API size_t cn_onnx_initials(const cn_onnx *model); /* its weights and constants, without those inside of nodes */
CN_API int cn_onnx_initial_at(cn_onnx_info *info, const cn_onnx *model, size_t i);

/* A node, of the model's graph or of one inside of it. */
typedef struct cn_onnx_node {
  const char *name; /* that of its first output where it has none itself */
  const char *op, *domain;
  int64_t opset;
  int depth;           /* graphs and functions that it stands in: those follow the node that has them */
  const char *how;     /* the ops that it is, "leaky_relu(%0, $alpha=0.01)"; NULL: code that calls ops */
  bool function;       /* it calls a function of the model */
  const char *problem; /* why cairn cannot run it; NULL: it can */
} cn_onnx_node;
CN_API size_t cn_onnx_nodes(const cn_onnx *model); /* in order; functions of the model behind all others */
CN_API int cn_onnx_node_at(cn_onnx_node *node, const cn_onnx *model, size_t i);
/* The i-th operator that cairn runs, as "LeakyRelu", its domain and the first opset of this meaning; NULL past the
 * last. */
CN_API const char *cn_onnx_operator_at(size_t i, const char **domain, int64_t *since);

/* ---- values: what tensors alone cannot say ---- */
typedef struct cn_onnx_value cn_onnx_value;
/* Owned: cn_onnx_value_release; NULL with the error set. They never change. */
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_none(void);
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_tensor(cn_tensor *t); /* keeps it; NULL fails */
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_strings(const cn_strings *strings);
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_sequence(cn_onnx_value *const *values, size_t n); /* keeps them */
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_map(cn_onnx_value *keys, cn_onnx_value *values);  /* two vectors */
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_keep(cn_onnx_value *value);
CN_API void cn_onnx_value_release(cn_onnx_value *value); /* NULL is fine */
CN_API cn_onnx_kind cn_onnx_value_kind(const cn_onnx_value *value);      /* CN_ONNX_NONE for NULL */
CN_API cn_tensor *cn_onnx_value_as_tensor(const cn_onnx_value *value);   /* borrowed; NULL: it is none */
CN_API bool cn_onnx_value_as_strings(cn_strings *out, const cn_onnx_value *value); /* borrowed */
CN_API size_t cn_onnx_value_size(const cn_onnx_value *value);            /* of a sequence; a map has 2: keys, values */
CN_API cn_onnx_value *cn_onnx_value_at(const cn_onnx_value *value, size_t i); /* borrowed; NULL past the end */

/* ---- running ---- */
/* inputs: as many as cn_onnx_inputs says, NULL for those left out; outputs: as many as cn_onnx_outputs says, of the
 * innermost scope. All must be tensors. */
CN_API int cn_onnx_run(cn_tensor **outputs, const cn_onnx *model, cn_tensor *const *inputs);
/* A value by the name of an input; of any other value of the graph, too, an initialiser or what a node gives: it then
 * stands in its place, and a node of which all is given is not run. */
typedef struct cn_onnx_feed {
  const char *name;
  cn_onnx_value *value;
} cn_onnx_feed;
/* names: of the outputs that are wanted, or of any other value of the graph, n of them; NULL: all outputs of the model.
 * outputs: owned, each to be released; on failure there are none. */
CN_API int cn_onnx_run_named(cn_onnx_value **outputs, const char *const *names, size_t n, const cn_onnx *model,
                             const cn_onnx_feed *feeds, size_t nfeeds);

/* ---- training it further, and keeping it as a graph ---- */
/* Tensors that training changes, or moves: floating initialisers and constants of the model's graph, but for those that
 * operators read as settings (limits, scales of pictures) and single numbers that scale. */
typedef struct cn_onnx_weight {
  const char *name;  /* of the value in the model */
  const char *path;  /* as modules have it: the name, unless its dots make no path of parts */
  cn_tensor *tensor; /* borrowed, and not to be written to */
  bool trained;      /* false: a running mean or variance */
} cn_onnx_weight;
CN_API size_t cn_onnx_weights(const cn_onnx *model);
/* 0, or an error: there is none. */
CN_API int cn_onnx_weight_at(cn_onnx_weight *weight, const cn_onnx *model, size_t i);
/* The model as a module, which goes on when the model is freed. Copies of the weights are its parameters and buffers,
 * under their paths; forward takes up to 16 inputs in order and gives up to 8 results. What the file says of training
 * or inference (Dropout, BatchNormalization) stays, whatever the module's mode. Owned. */
CN_API CN_MUST_USE cn_module *cn_onnx_module(const cn_onnx *model);
/* The model as a graph for all sizes that it leaves open, those of one name being the same. Of inputs, as many as
 * cn_onnx_inputs says, only the descriptions count: their sizes must be some for which the model works. Weights are
 * states under their paths. Owned. */
CN_API CN_MUST_USE cn_graph *cn_onnx_graph(cn_onnx *model, cn_tensor *const *inputs);

/* ---- writing ---- */
#define CN_ONNX_OPSET 23      /* what is written where nothing else is asked for, */
#define CN_ONNX_OPSET_LEAST 13 /* ... and what can be asked for */
#define CN_ONNX_OPSET_MOST 25

typedef enum cn_onnx_external {
  CN_ONNX_EXTERNAL_AUTO, /* in a file of their own where the model would be larger than 2 GB, which no reader takes */
  CN_ONNX_EXTERNAL_YES,
  CN_ONNX_EXTERNAL_NO
} cn_onnx_external;

typedef struct cn_onnx_save_opts {
  size_t size;
  const struct cn_guard *guard;
  int opset;                 /* CN_ONNX_OPSET */
  const char *const *inputs; /* their names, of the first ninputs; others are input_0, input_1, ... */
  size_t ninputs;
  const char *const *outputs; /* likewise: output_0, ... */
  size_t noutputs;
  cn_onnx_external external;  /* large weights lie in PATH.data */
  bool no_weights;            /* states are inputs without values, behind the others */
  bool weights_as_inputs;     /* states are inputs, too, which may be given other values than the model's */
  /* What a run writes into states and inputs, as further outputs NAME.next. Otherwise a graph that writes is an
   * error. */
  bool writes;
  bool no_folding; /* what is constant is computed by the model, not here */
  const char *doc; /* of the model; NULL: none */
} cn_onnx_save_opts;
/* Writes a graph as a model: by ONNX's own operators where those say what an op computes, also where it is made of
 * others (layer norms, attention, recurrent layers); else by its formula, or what it is made of. States are
 * initialisers under their names; sizes that the graph leaves open are open, under theirs. The file appears whole or
 * not at all. 0, or an error that names the op that has no form there, and says why. */
CN_API int cn_onnx_save_with(const cn_graph *graph, const char *path, const cn_onnx_save_opts *opts);
/* The file's bytes as a vector of uint8, of the innermost scope; with all weights in it. NULL with the error set. */
CN_API cn_tensor *cn_onnx_bytes_with(const cn_graph *graph, const cn_onnx_save_opts *opts);

/* A TensorProto by itself, as files of test data hold it. Owned. */
CN_API CN_MUST_USE cn_onnx_value *cn_onnx_value_read(const void *bytes, size_t size);

CN_END_DECLS

#ifndef __cplusplus
#define cn_onnx_load(...) cn_onnx_load_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_onnx_opts, CN_TAIL(__VA_ARGS__, )))
/* cn_onnx_save(graph, "model.onnx", .opset = 18) */
#define cn_onnx_save(graph, ...) \
  cn_onnx_save_with(graph, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_onnx_save_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_onnx_bytes(...) \
  cn_onnx_bytes_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_onnx_save_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_onnx_load_memory(bytes, ...) \
  cn_onnx_load_memory_with(bytes, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_onnx_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
