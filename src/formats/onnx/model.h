/* model.h: what an ONNX file says, as plain structs, and what check.c makes of names. Internal.
 *
 * Everything lies in one arena that goes with the model; texts end with a zero there; the bytes of tensors stay in the
 * file. Nothing changes after cni_onnx_check: any number of threads may walk a model at once. */
#ifndef CNI_ONNX_MODEL_H
#define CNI_ONNX_MODEL_H

#include <cairn/onnx.h>
#include <stdatomic.h>

#include "formats/source.h"
#include "wire.h"

struct cni_onnx_op;
struct cni_onnx_template;

/* ---- the arena ---- */
typedef struct cni_arena {
  struct cni_arena_block *blocks;
  size_t taken, most; /* bytes; most: a file may not want more, 0: no bound */
} cni_arena;
void *cni_arena_take(cni_arena *arena, size_t count, size_t size); /* zeroed; NULL with the error set */
char *cni_arena_text(cni_arena *arena, cni_wire_bytes text);       /* with a zero behind it */
void cni_arena_free(cni_arena *arena);

/* ---- what a file holds ---- */
/* TensorProto: what is needed to make it; its data is walked when it is made (tensors.c). */
typedef struct cni_onnx_tensor {
  const char *name;
  int type; /* TensorProto.DataType */
  const int64_t *dims;
  size_t ndims;
  cni_wire_bytes message;
} cni_onnx_tensor;

/* A SparseTensorProto: values at places. */
typedef struct cni_onnx_sparse {
  cni_onnx_tensor values, indices;
  const int64_t *dims;
  size_t ndims;
} cni_onnx_sparse;

/* AttributeProto.AttributeType, of those that operators have. */
typedef enum cni_onnx_attr_kind {
  CNI_ATTR_NONE,
  CNI_ATTR_FLOAT,
  CNI_ATTR_INT,
  CNI_ATTR_STRING,
  CNI_ATTR_TENSOR,
  CNI_ATTR_GRAPH,
  CNI_ATTR_FLOATS,
  CNI_ATTR_INTS,
  CNI_ATTR_STRINGS,
  CNI_ATTR_TENSORS,
  CNI_ATTR_GRAPHS,
  CNI_ATTR_SPARSE,
  CNI_ATTR_SPARSES,
  CNI_ATTR_TYPE,
  CNI_ATTR_TYPES
} cni_onnx_attr_kind;

typedef struct cni_onnx_attr {
  const char *name, *refers; /* refers: the attribute of the function's call that it stands for; NULL: none */
  cni_onnx_attr_kind kind;
  int64_t i;
  double f;
  const char *s; /* of a string; its size is n: it may hold zeros */
  const int64_t *is;
  const double *fs;
  const char *const *ss;
  const size_t *sizes; /* of ss */
  size_t n;            /* of the lists */
  const cni_onnx_tensor *t;
  const cni_onnx_sparse *sparse;
  struct cni_onnx_graph *g;
  const struct cni_onnx_type *type;
  struct cn_onnx_value *value; /* of a tensor, owned; made when the model is loaded */
} cni_onnx_attr;

/* Where a name's value is found: slot of the graph that lies `up` levels around; slot -1: absent. */
typedef struct cni_onnx_ref {
  int32_t up, slot;
} cni_onnx_ref;

typedef struct cni_onnx_node {
  const char *name, *op, *domain, *overload;
  const char **input_names, **output_names;
  size_t ninputs, noutputs;
  cni_onnx_attr *attrs;
  size_t nattrs;
  /* by check.c: */
  cni_onnx_ref *inputs;
  int32_t *outputs; /* slots; -1: nobody wants it */
  int32_t *done;    /* slots that nobody reads after this node */
  size_t ndone;
  int64_t opset;                 /* of its domain */
  const char *problem;           /* why it cannot run; NULL: one of these is there */
  const struct cni_onnx_op *row; /* or */
  const struct cni_onnx_function *function;
  const struct cni_onnx_template *template; /* of a row that is one */
  _Atomic(cn_onnx_value *) *once;           /* what its operator made of its attributes (cni_onnx_once); owned */
} cni_onnx_node;

typedef enum cni_onnx_type_kind {
  CNI_TYPE_UNKNOWN,
  CNI_TYPE_TENSOR,
  CNI_TYPE_SPARSE,
  CNI_TYPE_SEQUENCE,
  CNI_TYPE_MAP,
  CNI_TYPE_OPTIONAL
} cni_onnx_type_kind;

typedef struct cni_onnx_type {
  cni_onnx_type_kind kind;
  int element; /* of a tensor: TensorProto.DataType; of a map: that of its keys */
  bool ranked; /* shape is known */
  size_t ndims;
  int64_t *dims;                  /* -1: not a number */
  const char **symbols;           /* names of dims; NULL: none */
  const struct cni_onnx_type *of; /* of what a sequence, a map or an optional holds */
} cni_onnx_type;

typedef struct cni_onnx_name {
  const char *name;
  cni_onnx_type type;
  int32_t slot;    /* by check.c */
  int32_t initial; /* the initialiser that it has as its default; -1: none */
} cni_onnx_name;

typedef struct cni_onnx_graph {
  const char *name;
  cni_onnx_node *nodes;
  cni_onnx_name *inputs, *outputs, *infos;
  cni_onnx_tensor *initials;
  cni_onnx_sparse *sparses;
  size_t nnodes, ninputs, noutputs, ninfos, ninitials, nsparses;
  /* by check.c: */
  int32_t nslots;
  int32_t *initial_slots, *sparse_slots;
  cni_onnx_ref *results;  /* of outputs: those of a body may lie around it */
  cn_onnx_value **values; /* of initialisers, then of sparse ones; owned, made when the model is loaded */
} cni_onnx_graph;

typedef struct cni_onnx_opset {
  const char *domain;
  int64_t version;
} cni_onnx_opset;

typedef struct cni_onnx_function {
  const char *name, *domain, *overload;
  const char **needs; /* attributes without a default */
  size_t nneeds;
  cni_onnx_attr *defaults;
  size_t ndefaults;
  cni_onnx_opset *opsets;
  size_t nopsets;
  cni_onnx_graph body;
} cni_onnx_function;

/* A tensor that may be trained, or that training moves. */
typedef struct cni_onnx_weight {
  const char *name;     /* of the value */
  const char *path;     /* as modules have it: no part between dots is empty */
  cn_onnx_value *value; /* borrowed */
  bool trained;         /* otherwise it is a statistic, which is only kept */
} cni_onnx_weight;

typedef struct cni_onnx_model {
  _Atomic int64_t refs; /* handles of it (api.c) */
  cni_arena arena;
  cni_source *source;
  char *folder;                        /* of external data; NULL: there can be none */
  bool beside;                         /* it is that of the model's file */
  struct cni_onnx_external *externals; /* files that tensors lie in, open (tensors.c) */
  cn_device device;
  bool partial; /* nodes that cannot run are kept */
  int64_t ir;
  const char *producer, *producer_version, *domain, *doc;
  int64_t version;
  cni_onnx_opset *opsets;
  size_t nopsets;
  cni_onnx_function *functions;
  size_t nfunctions;
  cni_onnx_graph graph;
  const char **metadata;             /* key, value, key, ... */
  size_t nmetadata;                  /* pairs */
  struct cni_onnx_names *names;      /* of the graph's values, by check.c */
  struct cni_onnx_parsed *templates; /* likewise */
  cni_onnx_weight *weights;          /* by weights.c */
  size_t nweights;
} cni_onnx_model;

/* Reads the message into *model, whose source is set. 0 or an error. */
int cni_onnx_read(cni_onnx_model *model);
/* A TensorProto, or a type, by themselves: test data of others, and attributes. */
int cni_onnx_read_tensor(cni_onnx_tensor *tensor, cni_arena *arena, cni_wire_bytes message);
/* Resolves names and operators, and refuses what is no model: see check.c. 0 or an error. */
int cni_onnx_check(cni_onnx_model *model);
void cni_onnx_model_release(cni_onnx_model *model);
/* The slot of a value of the model's graph, once that is checked; -1: there is none. */
int32_t cni_onnx_slot_of(const cni_onnx_model *model, const char *name);
const cni_onnx_model *cni_onnx_model_of(const cn_onnx *onnx); /* api.c */
cn_onnx *cni_onnx_again(const cn_onnx *onnx);                 /* another handle of the same model, owned */
/* Finds the weights of a checked model: see weights.c. 0 or an error. */
int cni_onnx_find_weights(cni_onnx_model *model);

/* Sets CN_ERR_IO with the file's name in front; returns it. */
#define cni_onnx_bad(model, ...) cni_source_bad((model)->source, "onnx", __VA_ARGS__)

/* ---- tensors.c ---- */
/* CN_DTYPE_NONE: there is none (strings and what nobody knows). */
cn_dtype cni_onnx_dtype(int64_t type);
int cni_onnx_type_of(cn_dtype dtype); /* TensorProto.DataType */
enum { CNI_ONNX_STRING = 8 };
/* The tensor, or strings, of the host: over the file's bytes where they are aligned and stored raw. Owned; NULL with
 * the error set. */
cn_onnx_value *cni_onnx_make(cni_onnx_model *model, const cni_onnx_tensor *tensor);
cn_onnx_value *cni_onnx_make_sparse(cni_onnx_model *model, const cni_onnx_sparse *sparse); /* dense */
void cni_onnx_externals_free(cni_onnx_model *model);

#endif
