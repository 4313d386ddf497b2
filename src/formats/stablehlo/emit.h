/* emit.h: StableHLO's operations as text, one function for each kind, on values that know their type.
 *
 * Place in the flow: rows (row.h) are written with these; module.c puts the function around them. Invariant: every
 * value has the type that it is used with, operands of one operation have one shape: what broadcasts here, broadcasts
 * by an operation of its own. After a failure values are absent, nothing more is written, and the error is set. */
#ifndef CNI_STABLEHLO_EMIT_H
#define CNI_STABLEHLO_EMIT_H

#include <cairn/ext/graph.h>
#include <cairn/ext/mesh.h>
#include <cairn/ext/system.h>

/* A value of the text, %id; or a number that is written where it is used, with the type that it has there. */
typedef struct cni_hval {
  int id; /* negative: absent, or a number */
  bool number;
  int dtype, ndim;
  double f;  /* numbers: of float64 (of programs' constants even where they are tensors), and ... */
  int64_t i; /* ... of int64 and bool */
  int64_t shape[CN_MAX_DIMS];
} cni_hval;

typedef struct cni_hlo {
  cn_text t;
  int next; /* the next value's number */
  bool failed;
  cni_hval key, offset; /* of random numbers */
  int depth;            /* of decompositions and regions */
  const cn_mesh *mesh;  /* NULL: one device */
  bool shardy;          /* how tensors lie there is said in Shardy's words */
} cni_hlo;

static inline bool cni_hlo_there(const cni_hval *v) { return v->id >= 0 || v->number; }
int cni_hlo_fail(cni_hlo *h, int code, const char *format, ...) CN_PRINTF(3, 4); /* returns code */
int64_t cni_hlo_numel(const cni_hval *v);
bool cni_hlo_is_float(int dtype);
bool cni_hlo_is_unsigned(int dtype); /* bool, too */
int cni_hlo_bits(int dtype);         /* of one element, 8 for bool */
bool cni_hlo_is_complex(int dtype);
int cni_hlo_part(int dtype); /* of a complex number's parts; other types are their own */

/* "tensor<2x3xf32>", to the text; of v, or of such a type. */
void cni_hlo_put_type(cni_hlo *h, int dtype, int ndim, const int64_t *shape);
void cni_hlo_put_type_of(cni_hlo *h, const cni_hval *v);
/* "array<i64: 1, 2>" and "[1, 2]" to any text. */
void cni_hlo_put_array(cn_text *t, const int64_t *v, int n);
void cni_hlo_put_list(cn_text *t, const int64_t *v, int n);
/* The head of an operation: "%7 = ", and its result. For operations that write the rest themselves. */
cni_hval cni_hlo_begin(cni_hlo *h, int dtype, int ndim, const int64_t *shape);
cni_hval cni_hlo_fresh(cni_hlo *h, int dtype, int ndim, const int64_t *shape); /* a number alone: a region's argument */

/* One operation of "stablehlo", or, with a dot in its name, of another dialect; attrs: "dim = 0", or NULL. */
cni_hval cni_hlo_emit(cni_hlo *h, const char *op, const char *attrs, int dtype, int ndim, const int64_t *shape, int n,
                      const cni_hval *in);
cni_hval cni_hlo_unary(cni_hlo *h, const char *op, cni_hval x);                /* of x's type */
/* Both are brought to one type: a number to that of the other. */
cni_hval cni_hlo_binary(cni_hlo *h, const char *op, cni_hval x, cni_hval y);
cni_hval cni_hlo_compare(cni_hlo *h, const char *direction, cni_hval x, cni_hval y); /* "LT", ...: a bool */
cni_hval cni_hlo_select(cni_hlo *h, cni_hval p, cni_hval x, cni_hval y);

/* ---- numbers and constants ---- */
cni_hval cni_hlo_num(double f);
cni_hval cni_hlo_int(int64_t i);
cni_hval cni_hlo_splat(cni_hlo *h, cni_hval number, int dtype, int ndim, const int64_t *shape);
cni_hval cni_hlo_const(cni_hlo *h, double f, int dtype); /* without dims */
cni_hval cni_hlo_extreme(cni_hlo *h, int dtype, bool lowest); /* its smallest or largest number; infinities */
/* Bytes as they lie in memory, row-major. */
cni_hval cni_hlo_data(cni_hlo *h, const void *bytes, int dtype, int ndim, const int64_t *shape);
cni_hval cni_hlo_iota(cni_hlo *h, int dtype, int ndim, const int64_t *shape, int dim);

/* ---- other types and shapes ---- */
cni_hval cni_hlo_convert(cni_hlo *h, cni_hval x, int dtype); /* as XLA does: for what is known to fit */
cni_hval cni_hlo_cast(cni_hlo *h, cni_hval x, int dtype);    /* as cairn does, for every bit pattern */
cni_hval cni_hlo_bitcast(cni_hlo *h, cni_hval x, int dtype); /* of the same size */
cni_hval cni_hlo_reshape(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape);
cni_hval cni_hlo_expand(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape); /* by the usual rules */
/* Dim k of x becomes dim dims[k]. */
cni_hval cni_hlo_broadcast(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape, const int64_t *dims);
cni_hval cni_hlo_transpose(cni_hlo *h, cni_hval x, const int64_t *order);
cni_hval cni_hlo_swap(cni_hlo *h, cni_hval x, int a, int b);
cni_hval cni_hlo_slice(cni_hlo *h, cni_hval x, const int64_t *from, const int64_t *to, const int64_t *step);
/* Elements from .. to of one dim. */
cni_hval cni_hlo_slice_dim(cni_hlo *h, cni_hval x, int dim, int64_t from, int64_t to, int64_t step);
cni_hval cni_hlo_pad(cni_hlo *h, cni_hval x, cni_hval value, const int64_t *low, const int64_t *high,
                     const int64_t *inner);
cni_hval cni_hlo_pad_dim(cni_hlo *h, cni_hval x, cni_hval value, int dim, int64_t low, int64_t high);
cni_hval cni_hlo_concat(cni_hlo *h, int n, const cni_hval *x, int dim);
cni_hval cni_hlo_reverse(cni_hlo *h, cni_hval x, const int64_t *dims, int n);
cni_hval cni_hlo_drop_dim(cni_hlo *h, cni_hval x, int dim);                  /* of size 1 */
cni_hval cni_hlo_insert_dim(cni_hlo *h, cni_hval x, int dim, int64_t size); /* repeated along it */

/* ---- over elements ---- */
/* By "add", "multiply", "maximum", ... over the dims in the mask, which go. From its neutral element, or init. */
cni_hval cni_hlo_reduce(cni_hlo *h, const char *op, cni_hval x, uint32_t dims);
cni_hval cni_hlo_reduce_from(cni_hlo *h, const char *op, cni_hval x, cni_hval init, uint32_t dims);
/* Windows of these sizes, steps, distances and padding (low, high of each dim). */
typedef struct cni_hwindow {
  int64_t size[CN_MAX_DIMS], step[CN_MAX_DIMS], inner[CN_MAX_DIMS], apart[CN_MAX_DIMS];
  int64_t pad[CN_MAX_DIMS][2];
} cni_hwindow;
cni_hwindow cni_hlo_window(int ndim); /* of one element each */
cni_hval cni_hlo_reduce_window(cni_hlo *h, const char *op, cni_hval x, const cni_hwindow *w);
/* Products over the dims `over`, one by one for those of `batch`: the batch, the rest of a, the rest of b. */
typedef struct cni_hdot {
  int nbatch, nover;
  int64_t batch_a[CN_MAX_DIMS], batch_b[CN_MAX_DIMS], over_a[CN_MAX_DIMS], over_b[CN_MAX_DIMS];
} cni_hdot;
cni_hval cni_hlo_dot(cni_hlo *h, cni_hval a, cni_hval b, const cni_hdot *d, int dtype);
/* (..., n, k) x (..., k, m) with the same dims before. */
cni_hval cni_hlo_matmul(cni_hlo *h, cni_hval a, cni_hval b, int dtype);

/* ---- formulas (expr.c) ---- */
/* "x = a * 2; x > b ? x : exp(b)" over a, b, c, ..., which stand for in[0], in[1], ...; T is what a `type` is. */
cni_hval cni_hlo_expr(cni_hlo *h, const char *text, int type, int n, const cni_hval *in);
/* A primitive of pointwise programs, by its name. */
cni_hval cni_hlo_primitive(cni_hlo *h, const char *name, int type, int n, const cni_hval *in);
#define CNI_HLO_EXPR(h, text, type, ...)                                            \
  cni_hlo_expr(h, text, type, (int)(sizeof((cni_hval[]){__VA_ARGS__}) / sizeof(cni_hval)), (cni_hval[]){__VA_ARGS__})

#endif
