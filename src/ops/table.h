/* table.h: the op table: every row with its parsed signature, by number and by name.
 *
 * Place in the flow: families give rows (cn_op), table.c numbers them and reads their signatures once; apply,
 * autograd, capture, backends, bindings and the `cairn ops` command read the result. Invariant: after cni_init rows
 * are only ever added, never changed. */
#ifndef CNI_OPS_TABLE_H
#define CNI_OPS_TABLE_H

#include <cairn/ext/op.h>

enum { CNI_MAX_BACKENDS = 8, CNI_NAME_MAX = 48, CNI_MAX_RESULTS = 8, CNI_MAX_ALIASES = 4 };

enum cni_type {
  CNI_T_TENSOR, CNI_T_INT, CNI_T_FLOAT, CNI_T_BOOL, CNI_T_STR, CNI_T_DTYPE, CNI_T_DEVICE, CNI_T_SCALAR
};

typedef struct cni_param {
  char name[CNI_NAME_MAX];
  enum cni_type type;
  bool list;          /* int[], Tensor[] */
  bool optional;      /* may be None */
  bool elem_optional; /* Tensor?[] */
  bool number;        /* Tensor|Scalar: bindings take a number for the tensor */
  bool has_default, keyword_only;
  int fixed;          /* int[2]: 2; 0 otherwise */
  cn_value def;       /* its lists point into def_ints */
  int64_t def_ints[3];
  char def_text[24];  /* as written in the signature */
} cni_param;

typedef struct cni_opinfo {
  const cn_op *row;
  char name[CNI_NAME_MAX];
  char space[16]; /* "", nn, linalg, special */
  char overload[CNI_NAME_MAX]; /* the name it shares where a language has overloading; "" when it has its own only */
  char aliases[CNI_MAX_ALIASES][CNI_NAME_MAX]; /* other names that languages give it */
  int id, nparams, nresults, naliases;
  bool list_result, method, inplace, internal;
  bool numbers; /* numbers may stand for all its Tensor|Scalar at once */
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

/* Parses one signature. 0, or an error that quotes it. */
int cni_signature_parse(cni_opinfo *info, const char *sig);

#endif
