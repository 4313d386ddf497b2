/* ext/op.h: for authors of ops and kernels: how an op is described, and what a rule or kernel is given.
 *
 * An op is one `struct cn_op` row. Its signature is written the way PyTorch writes one and is the only
 * description of its arguments: the C functions, keyword macros, bindings, printing and file formats are
 * all read off it. See docs/ADDING_AN_OP.md.
 */
#ifndef CAIRN_EXT_OP_H
#define CAIRN_EXT_OP_H

#include "../tensor.h"

CN_BEGIN_DECLS

#define CN_MAX_ARGS 16 /* parameters of one signature */
#define CN_PLAN_INPUTS 16 /* inputs whose memory order a plan can name */

typedef struct cn_op cn_op;
typedef struct cn_call cn_call;
typedef struct cn_vjp cn_vjp;
struct cn_plan;     /* ext/backend.h */
struct cn_prepared;

/* ---- argument values: one per parameter of the signature, in its order ---- */
typedef enum cn_value_tag {
  CN_V_NONE = 0, /* absent optional */
  CN_V_TENSOR,   /* u.t */
  CN_V_TENSORS,  /* u.ts, n of them; an element may be NULL where the signature says Tensor?[] */
  CN_V_INT,      /* u.i; also dtypes and devices */
  CN_V_FLOAT,    /* u.f */
  CN_V_BOOL,     /* u.i, 0 or 1 */
  CN_V_INTS,     /* u.is, n of them */
  CN_V_FLOATS,   /* u.fs, n of them */
  CN_V_STR,      /* u.s, zero-terminated */
  CN_V_MODULE    /* u.m; not for ops: see ext/signature.h */
} cn_value_tag;

typedef struct cn_value {
  int32_t tag;
  int32_t n;
  union {
    cn_tensor *t;
    cn_tensor *const *ts;
    int64_t i;
    double f;
    const int64_t *is;
    const double *fs;
    const char *s;
    struct cn_module *m;
  } u;
} cn_value;

static inline cn_value cn_v_none(void) { cn_value v = {CN_V_NONE, 0, {0}}; return v; }
static inline cn_value cn_v_tensor(cn_tensor *t)
{
  cn_value v = {CN_V_TENSOR, 1, {0}};
  if (!t) v.tag = CN_V_NONE;
  v.u.t = t;
  return v;
}
static inline cn_value cn_v_tensors(cn_tensor *const *ts, size_t n)
{
  cn_value v = {CN_V_TENSORS, 0, {0}};
  v.n = (int32_t)n;
  v.u.ts = ts;
  return v;
}
static inline cn_value cn_v_int(int64_t i) { cn_value v = {CN_V_INT, 1, {0}}; v.u.i = i; return v; }
static inline cn_value cn_v_float(double f) { cn_value v = {CN_V_FLOAT, 1, {0}}; v.u.f = f; return v; }
static inline cn_value cn_v_bool(bool b) { cn_value v = {CN_V_BOOL, 1, {0}}; v.u.i = b; return v; }
static inline cn_value cn_v_ints(const int64_t *is, size_t n)
{
  cn_value v = {CN_V_INTS, 0, {0}};
  v.n = (int32_t)n;
  v.u.is = is;
  return v;
}
static inline cn_value cn_v_floats(const double *fs, size_t n)
{
  cn_value v = {CN_V_FLOATS, 0, {0}};
  v.n = (int32_t)n;
  v.u.fs = fs;
  return v;
}
static inline cn_value cn_v_str(const char *s)
{
  cn_value v = {CN_V_STR, 1, {0}};
  if (!s) v.tag = CN_V_NONE;
  v.u.s = s;
  return v;
}

static inline cn_value cn_v_module(struct cn_module *m)
{
  cn_value v = {CN_V_MODULE, 1, {0}};
  if (!m) v.tag = CN_V_NONE;
  v.u.m = m;
  return v;
}

/* ---- what a kernel sees of a tensor: the public head of every cn_tensor ---- */
typedef struct cn_desc {
  uint32_t size;  /* sizeof(cn_desc), where a plugin makes one for cn_host.wrap: fields may be added at the end */
  int32_t layout; /* a cn_layout; kernels meet CN_LAYOUT_STRIDED alone */
  void *data; /* first element, on the tensor's device; NULL while a graph is captured */
  int64_t numel;
  int32_t dtype; /* a cn_dtype */
  int32_t ndim;
  cn_device device;
  uint32_t weak; /* 1: a weak scalar (cn_num), whose data is always host memory */
  int64_t shape[CN_MAX_DIMS];
  int64_t strides[CN_MAX_DIMS]; /* in elements; 0 where broadcast */
} cn_desc;

/* Every cn_tensor begins with its cn_desc. */
static inline const cn_desc *cn_desc_of(const cn_tensor *t) { return (const cn_desc *)(const void *)t; }

/* What infer says of one result. */
typedef struct cn_spec {
  int32_t dtype;
  int32_t ndim;
  int32_t view_of;     /* index of the input this result is a view of; -1: a tensor of its own */
  bool has_strides;    /* false: contiguous (apply fills the strides in) */
  bool data_dependent; /* the kernel allocates the result (cn_host.out_alloc); where there is no decompose, the first
                        * size alone depends on data, and the others are as they stand here */
  int64_t offset;      /* of a view: elements from its input's first element */
  int64_t shape[CN_MAX_DIMS];
  int64_t strides[CN_MAX_DIMS];
} cn_spec;

/* One call of an op, as infer, modes, kernels and decompositions see it. */
struct cn_call {
  const cn_op *op;
  const cn_value *args;  /* one per parameter, defaults filled in */
  cn_tensor *const *in;  /* the tensors among args, lists laid flat; NULL where an optional is absent */
  cn_tensor **out;       /* results; allocated before the kernel runs */
  cn_spec *spec;         /* nout of them: filled in by infer */
  int nargs, nin, nout;
  cn_device device;      /* where it runs */
  int32_t compute;       /* pointwise ops: the type they compute in; set by infer */
  uint64_t seed, offset; /* ops flagged CN_OP_RANDOM: the Philox key and first counter of this call */
  const char *refusal;   /* a kernel that returns CN_REFUSED says why here */
  void *stream;          /* of the device; NULL: its own. What the kernel queues goes there */
  void *workspace;       /* as many bytes as its plan asked for, until it returns (in stream order) */
  const struct cn_plan *plan; /* what it said of this call; NULL where it was not asked */
  const struct cn_prepared *prepared; /* what its prepare made of inputs that stay as they are; NULL: nothing. See
                                       * ext/backend.h */
  void *keep;            /* the library's own: where that is kept */
  const uint64_t *random; /* while work is recorded (cn_backend.record_begin), random ops: device memory with the key
                           * and a counter, read when the work runs; offset counts from that counter. NULL: as above */
  bool fast;             /* part of a program whose results may be rounded otherwise (cn_graph_join): kernels may take
                          * a way that loses a few roundings more */
};

/* What a kernel returns: 0 done, a negative cn_status (with the error set), or */
#define CN_REFUSED 1 /* not mine: try the next implementation; nothing was written, no error is set */
typedef int (*cn_kernel_fn)(cn_call *call);

/* ---- gradients ---- */
/* Shape and type of an input, known in backward even when its value was not saved. */
typedef struct cn_meta {
  int32_t dtype;
  int32_t ndim;
  cn_device device;
  bool weak; /* a number (cn_num), not a tensor */
  const int64_t *shape;
} cn_meta;

/* What a vjp rule is given, and fills. It is written with public ops, so that gradients can be captured
 * and differentiated again. Broadcasting needs no thought: the engine sums a gradient back to the shape
 * of its input, and casts it to its type. */
struct cn_vjp {
  const cn_op *op;
  const cn_value *args;     /* attributes as in the call; tensor slots are empty, use `in` */
  cn_tensor *const *in;     /* saved inputs; NULL unless the row's `needs` names them */
  cn_tensor *const *out;    /* saved results; likewise */
  cn_tensor *const *g;      /* gradient of each result; NULL stands for zero */
  const cn_meta *in_meta;   /* of every input */
  const cn_meta *out_meta;  /* of every result */
  const bool *need;         /* which inputs want a gradient */
  cn_tensor **gin;          /* to fill (borrowed from the scope); NULL stands for zero */
  int nargs, nin, nout;
};

/* ---- what calls cost ---- */
/* By types and sizes alone, whatever kernel runs. Each input and result counts once, of broadcast ones their own
 * elements; views and shapes are not read. */
typedef struct cn_cost {
  size_t size;
  double flops;         /* floating-point operations: two for a multiply-add, one for a step of a formula, an exp too */
  double products;      /* those of them in products of matrices, convolutions, attention, recurrent layers */
  double read, written; /* bytes */
} cn_cost;

/* Bits for cn_op.needs. */
#define CN_IN(i) (1u << (i))
#define CN_OUT(i) (0x10000u << (i))

enum cn_op_flags {
  CN_OP_NO_GRAD = 1 << 0,   /* results never carry a gradient (comparisons, argmax, ...) */
  /* Results share the input's memory: infer gives strides, there is no kernel. Where infer makes a result of its own
   * (reshape, of what cannot be had without a copy), that is the input's elements in row-major order. */
  CN_OP_VIEW = 1 << 1,
  CN_OP_RANDOM = 1 << 2,    /* draws random numbers: call.seed and call.offset are set */
  CN_OP_ALIAS_SAFE = 1 << 3, /* its kernels may write a result over an input of the same layout */
  /* Only decompose: runs above autograd, its gradient comes by composition. One with an infer of its own is a node of
   * graphs all the same: what it is made of depends on memory order, and with it on the sizes of a run. */
  CN_OP_COMPOSITE = 1 << 4,
  CN_OP_SAVE_ALL = 1 << 5,   /* backward needs all inputs (lists longer than `needs`) */
  CN_OP_SHAPE_ONLY = 1 << 6, /* reads only the shape and type of its inputs (zeros_like): no data, no grad */
  CN_OP_ANY_DTYPE = 1 << 7,  /* takes storage-only types (float8, int4, ...) too; views always do */
  CN_OP_CHECKS = 1 << 8,     /* is there to fail: it stays in a graph though nobody reads its result */
  CN_OP_EFFECTS = 1 << 9,    /* does something outside (calls the host, sends, prints): in a graph such nodes keep their
                              * order, and none is dropped, merged or computed beforehand */
  CN_OP_RESERVES = 1 << 10,  /* random, but draws nothing yet: its first argument is the size of what will be drawn */
  CN_OP_SPARSE = 1 << 11     /* a composite that takes or makes sparse tensors: in a graph only what it is made of */
};

struct cn_op {
  /* PyTorch-like: "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)
   * -> Tensor ; method". `Tensor|Scalar` is a tensor for which other languages take a number too (in C it is
   * cn_num). After the semicolon: method, inplace (has an in-place form; of several results
   * each is written over the tensor of its number), a namespace (nn, linalg, special),
   * opt_NAME for an optional tensor that is an option in C instead of positional, overload_NAME for a form that
   * PyTorch calls NAME too (max_dim: overload_max), alias_NAME for another name of the op in other languages
   * (abs: alias_absolute; up to four), numbers where numbers may stand for all its tensors at once (add(2, 3)), tuple
   * where languages get several results without names, grad_fn and grad_fn_NAME for what PyTorch records (see
   * cn_op_info), and internal for a part of other ops that no program needs by itself. docs/ADDING_AN_OP.md has all. */
  const char *sig;
  const char *doc; /* first sentence: what it computes; then shapes and corner cases */
  uint32_t flags;
  int (*infer)(cn_call *call);     /* fills call->spec */
  int (*vjp)(cn_vjp *v);           /* gradient, or NULL with CN_OP_NO_GRAD or CN_OP_COMPOSITE */
  int (*decompose)(cn_call *call); /* computes call->out with simpler public ops (borrowed results) */
  /* Views: the value of the base after the viewed part became src. Borrowed result. The default gradient of
   * a view is scatter into zeros. */
  cn_tensor *(*scatter)(const cn_call *view, cn_tensor *base, cn_tensor *src);
  /* needs[i]: which inputs and results the gradient of input i reads (CN_IN, CN_OUT bits). */
  uint32_t needs[8];
  const void *pointwise; /* a pointwise op's program builder (src/ops/program.h); NULL for the others */
  /* Which meaning of its name and arguments this is; 0 stands for 1. It rises when a call that a graph's file holds
   * would be read as something else: a parameter that moved or means another thing. One that is added behind the others
   * and has a default needs no new version: calls without it get the default. */
  uint32_t version;
  /* Adds the arithmetic of a call, whose results are described in call->spec; bytes are there already, and may be put
   * right. NULL: a formula's steps, or none. */
  void (*cost)(cn_cost *cost, const cn_call *call);
  /* Inputs and results (CN_IN, CN_OUT bits) that may be written to before backward although it needs them: PyTorch has
   * saved something else that it made of them. The first write copies what was saved. */
  uint32_t copied;
};

/* ---- for infer rules and kernels ---- */
/* Reports an error as "op: message"; returns the code, so that rules end with `return cn_call_fail(...)`. */
CN_API int cn_call_fail(const cn_call *call, int code, const char *format, ...) CN_PRINTF(3, 4);
/* Sets result i to a fresh tensor of that type and shape (contiguous). Checks sizes. */
CN_API int cn_call_result(cn_call *call, int i, int dtype, int ndim, const int64_t *shape);
/* Sets result i to a view of input `of`. offset (from its first element) and strides in elements of the result. */
CN_API int cn_call_view(cn_call *call, int i, int of, int ndim, const int64_t *shape, const int64_t *strides,
                        int64_t offset);
/* Turns a possibly negative dim into 0..ndim-1 (ndim 0 counts as 1). Negative status when out of range. */
CN_API int cn_call_dim(const cn_call *call, int64_t dim, int ndim);

/* Registers ops made outside cairn. The rows must outlive the process's use of them. row_size: sizeof(cn_op), which
 * tells the fields that the caller knows; the others are zero. */
CN_API int cn_op_register_rows(const cn_op *rows, size_t n, size_t row_size);
static inline int cn_op_register(const cn_op *rows, size_t n) { return cn_op_register_rows(rows, n, sizeof *rows); }
CN_API const cn_op *cn_op_find(const char *name); /* NULL when there is none */

/* ---- looking at ops: what listings, bindings and documentation read ---- */
typedef enum cn_op_kind {
  CN_KIND_COMPOSITE,  /* made of other ops, above autograd */
  CN_KIND_POINTWISE,  /* a formula or program per element */
  CN_KIND_VIEW,       /* shares memory; no kernel anywhere */
  CN_KIND_STRUCTURAL  /* rules and kernels of its own */
} cn_op_kind;

/* One parameter of a signature. Texts live as long as the op table. */
typedef struct cn_op_param {
  const char *name;
  char type[32];            /* as the signature writes it: "Tensor", "Tensor|Scalar", "int[2]", "dtype?" */
  const char *default_text; /* as written there, without quotes; NULL when it must be given */
  cn_value default_value;   /* CN_V_NONE when there is none, or when it is None */
  bool optional;            /* may be None */
  bool keyword_only;
  bool number;              /* Tensor|Scalar: languages take a number for the tensor; cn_op_call always does */
} cn_op_param;

typedef struct cn_op_info {
  const char *name, *sig, *doc;
  const char *space; /* "", "nn", "linalg", "special" */
  const char *overload; /* the name it shares where a language has overloading ("max" of max_dim); "" for most */
  cn_op_kind kind;
  bool gradient;     /* results carry one: by a rule, by derivation or by composition */
  bool random, method, inplace;
  bool internal;     /* a part of other ops (a backward, the terms of a loss), of no use to programs */
  bool numbers;      /* numbers may stand for all its Tensor|Scalar at once; of other ops one must be a tensor */
  bool list_result;  /* the number of results depends on the call */
  int nparams, nresults;
  cn_op_param params[CN_MAX_ARGS];
  const char *results[8]; /* their names; "out" for a single one */
  int naliases;
  const char *aliases[4]; /* its other names in languages: "absolute" of abs; of another namespace: "special_psi" */
  bool tuple;        /* several results are a plain tuple, without names */
  bool grad_fn;      /* a composite that PyTorch records as one op, under its name or grad_fn_name */
  const char *grad_fn_name; /* what PyTorch calls its nodes ("ConvolutionBackward0"); "": after the op's own name */
} cn_op_info;

CN_API int cn_op_count(void);          /* ops so far; registering more raises it */
CN_API const cn_op *cn_op_at(int i);   /* by number, in no particular order; NULL past the end */
/* Fills info from the op's row and its parsed signature. 0, or an error when the row is in no table. */
CN_API int cn_op_describe(cn_op_info *info, const cn_op *op);

/* Calls any op by name or row. args: one value per parameter, in the signature's order; missing trailing
 * ones get their defaults, and a number given for a tensor is a weak scalar (cn_num). Results are owned by
 * the caller. *nout: capacity in, count out. Reports an error by its code and leaves the message for
 * cn_err_message; the sticky error is cleared at the next call of this function. `dest` (may be NULL)
 * receives result 0 in place. */
CN_API int cn_op_call(cn_tensor **out, size_t *nout, const cn_op *op, const cn_value *args, size_t nargs,
                      cn_tensor *dest);

/* What such a call would cost; nothing is computed, and tensors need no values. What an op is made of is added up.
 * Sizes that depend on data count as 0. */
CN_API int cn_op_cost(cn_cost *cost, const cn_op *op, const cn_value *args, size_t nargs);

/* ---- updates of many tensors ---- */
/* Between these a device may keep updates, pointwise ops that write over their inputs, and queue several of this
 * thread's at once: at the latest in front of other work of the thread, or at the end. unless: a bool; updates on its
 * device are not made where it is true when they run; or NULL. CN_REFUSED, and nothing has begun: the device cannot
 * decide that. end: 0 or an error of theirs. */
CN_API CN_MUST_USE int cn_updates_begin(cn_tensor *unless);
CN_API int cn_updates_end(void);

CN_END_DECLS
#endif
