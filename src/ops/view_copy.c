/* view_copy.c: the family of views with memory of their own: transpose_copy is transpose, copied.
 *
 * Place in the flow: composites. The view is found by its name and called with the same arguments; its result, or each
 * of a list, becomes a row-major copy. Invariant: nothing here shares memory with its input. */
#include <cairn/kw.h>

#include "apply.h"
#include "families.h"
#include "shorthand.h"

static int alias_copy_decompose(cn_call *c)
{
  c->out[0] = cn_contiguous_copy(c->in[0]);
  return cn_err();
}

/* The row's own name less its ending is the view's. */
static const cni_opinfo *view_of(const cn_call *c)
{
  char name[CNI_NAME_MAX];
  const char *own = cni_op_info(c->op)->name;
  size_t length = strlen(own) - strlen("_copy");
  memcpy(name, own, length);
  name[length] = 0;
  return cni_op_by_name(name);
}

static int view_copy_decompose(cn_call *c)
{
  const cni_opinfo *view = view_of(c);
  cn_value args[CN_MAX_ARGS];
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  args[0] = cn_v_tensor(c->in[0]);
  if (view->list_result) {
    int n = cni_apply_list(view->id, args, c->nargs, c->out, (size_t)c->nout);
    if (n < 0) return n;
    c->nout = n;
  } else {
    c->out[0] = cni_apply1(view->id, args, c->nargs, NULL);
  }
  for (int i = 0; i < c->nout; i++) c->out[i] = cn_contiguous_copy(c->out[i]);
  return cn_err();
}

/* clang-format off */
const cn_op cni_view_copy_ops[] = {
  {.sig = "alias_copy(Tensor input) -> Tensor ; complex",
   .doc = "A row-major copy.",
   .flags = CN_OP_COMPOSITE, .decompose = alias_copy_decompose},
  {.sig = "as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor ; complex",
   .doc = "as_strided, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "detach_copy(Tensor input) -> Tensor ; complex",
   .doc = "detach, copied: gradients stop here.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor ; complex",
   .doc = "diagonal, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "expand_copy(Tensor input, int[] size) -> Tensor ; complex",
   .doc = "expand, copied: the elements are repeated in memory.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "narrow_copy(Tensor input, int dim, int start, int length) -> Tensor ; method complex",
   .doc = "narrow, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "permute_copy(Tensor input, int[] dims) -> Tensor ; complex",
   .doc = "permute, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "select_copy(Tensor input, int dim, int index) -> Tensor ; complex",
   .doc = "select, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor ; complex",
   .doc = "slice, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[] ; complex",
   .doc = "split_with_sizes, each piece copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "squeeze_copy(Tensor input, int[]? dim=None) -> Tensor ; complex",
   .doc = "squeeze, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "t_copy(Tensor input) -> Tensor ; complex",
   .doc = "t, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "transpose_copy(Tensor input, int dim0, int dim1) -> Tensor ; complex",
   .doc = "transpose, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "unbind_copy(Tensor input, int dim=0) -> Tensor[] ; complex",
   .doc = "unbind, each tensor copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor ; complex",
   .doc = "unfold, copied: windows that overlap are repeated in memory.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "unsqueeze_copy(Tensor input, int dim) -> Tensor ; complex",
   .doc = "unsqueeze, copied.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
  {.sig = "view_copy(Tensor input, int[] size) -> Tensor ; complex",
   .doc = "view, copied. An error, as there, where the layout does not allow the shape.",
   .flags = CN_OP_COMPOSITE, .decompose = view_copy_decompose},
};
/* clang-format on */
CNI_FAMILY(view_copy);
