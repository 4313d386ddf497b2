/* table.h: the op table: every row with its parsed signature, by number and by name.
 *
 * Place in the flow: families give rows (cn_op), table.c numbers them and reads their signatures once; apply,
 * autograd, capture, backends, bindings and the `cairn ops` command read the result. Invariant: after cni_init rows
 * are only ever added, never changed. */
#ifndef CNI_OPS_TABLE_H
#define CNI_OPS_TABLE_H

#include <cairn/ext/op.h>

enum { CNI_MAX_BACKENDS = 8, CNI_NAME_MAX = 48, CNI_MAX_RESULTS = 8, CNI_MAX_ALIASES = 4, CNI_MAX_FIXED = 6 };

enum cni_type {
  CNI_T_TENSOR, CNI_T_INT, CNI_T_FLOAT, CNI_T_BOOL, CNI_T_STR, CNI_T_DTYPE, CNI_T_DEVICE, CNI_T_SCALAR, CNI_T_MODULE
};

/* What autocast does with the floating inputs of an op: nothing, to the low type, to float32, to the widest of them. */
enum cni_amp { CNI_AMP_NONE, CNI_AMP_LOW, CNI_AMP_F32, CNI_AMP_WIDE };

/* What becomes of a call with complex tensors (complex.c): refused, or lowered by a rule of complex_rules.def; run as
 * it is; run on real and imaginary parts apart; run on pairs of them, with one more dimension. */
enum cni_complex { CNI_COMPLEX_NONE, CNI_COMPLEX_AS_IS, CNI_COMPLEX_PARTS, CNI_COMPLEX_PAIRS };

/* Room for a list of fixed length, where it is made of one number. */
typedef union cni_few {
  int64_t i[CNI_MAX_FIXED];
  double f[CNI_MAX_FIXED];
} cni_few;

typedef struct cni_param {
  char name[CNI_NAME_MAX];
  enum cni_type type;
  bool list;          /* int[], Tensor[] */
  bool optional;      /* may be None */
  bool elem_optional; /* Tensor?[] */
  bool number;        /* Tensor|Scalar: bindings take a number for the tensor */
  bool exact;         /* a number is not rounded to the float16 or bfloat16 computed for (cni_program_rounds) */
  bool text_too;      /* int[2]|str: a text may be given instead */
  bool has_default, keyword_only;
  int fixed;          /* int[2]: 2; 0 otherwise */
  cn_value def;       /* its lists point into def_list */
  cni_few def_list;
  char def_text[40];  /* as written in the signature */
} cni_param;

typedef struct cni_opinfo {
  const cn_op *row;
  char name[CNI_NAME_MAX];
  char space[CNI_NAME_MAX]; /* "", nn, linalg, special; of a class the name of its function in C */
  char group[16]; /* a name under which CAIRN_KERNEL knows several ops: "matmul" of mm, bmm, linear; "": none */
  char overload[CNI_NAME_MAX]; /* the name it shares where a language has overloading; "" when it has its own only */
  char aliases[CNI_MAX_ALIASES][CNI_NAME_MAX]; /* other names that languages give it */
  int id, nparams, nresults, naliases;
  bool own_row; /* row is a copy that goes with this */
  bool list_result, method, inplace, internal;
  bool numbers; /* numbers may stand for all its Tensor|Scalar at once */
  bool tuple;   /* its results are a plain tuple in languages that name those of others */
  bool grad_fn; /* a composite that is one recorded op in PyTorch */
  char grad_fn_name[CNI_NAME_MAX]; /* of its nodes in PyTorch; "": made of its own name */
  uint8_t autocast[2];              /* cni_amp on the host, and on other devices */
  uint8_t complex;                  /* cni_complex */
  uint8_t dtype_at;                 /* its parameter of type dtype, from 1; 0: none */
  bool takes_list;                  /* one of its parameters is a list of tensors */
  uint8_t ntensors, tensors[CN_MAX_ARGS]; /* parameters that are tensors or lists of them */
  cni_param *params;
  char result_names[CNI_MAX_RESULTS][24];
  /* Kernels per backend: filled by backends/common, read by its dispatcher. */
  struct cni_kernel_list *kernels[CNI_MAX_BACKENDS];
} cni_opinfo;

int cni_table_init(void); /* numbers and parses the built-in rows */
void cni_table_exit(void);
extern cni_opinfo *const *cni_ops; /* by id */
extern int cni_nops;
const cni_opinfo *cni_op_by_name(const char *name);
const cni_opinfo *cni_op_info(const cn_op *row); /* of a row; by its name */
const char *cni_op_doc(const cni_opinfo *info);
/* Is it made of others in graphs, too? A view that may have to be a copy is one node there (reshape). */
static inline bool cni_is_composite(const cn_op *row) { return (row->flags & CN_OP_COMPOSITE) && !row->infer; }

/* Parses one signature. 0, or an error that quotes it. What makes no tensors (-> Module) has no results, and the word
 * behind the arrow as its overload. */
int cni_signature_parse(cni_opinfo *info, const char *sig);
void cni_describe_param(cn_op_param *out, const cni_param *p);

/* Fills full[0..nparams) with the arguments given and defaults, checked. Numbers that stand for lists go to room
 * (nparams of them); tensors that are numbers stay numbers. */
int cni_complete(const cni_opinfo *info, cn_value *full, cni_few *room, const cn_value *args, size_t nargs);
/* The one rule of lists of numbers: for an int[N] or float[N] a list of one, or a number, stands for all N (they go to
 * room), and other lengths are errors. v: the value of p, an int[] or float[] of any kind, or None. */
int cni_fit_list(const cni_opinfo *info, const cni_param *p, cn_value *v, cni_few *room);

#endif
