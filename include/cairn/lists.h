/* lists.h: lists of tensors as values that graphs can hold, of any length.
 *
 * A list is two tensors: the elements of all its members one after another, and the members' shapes. So whatever takes
 * tensors takes lists: graphs and their files, compiled functions, gradients, devices; members may have different
 * sizes, but have one type and one number of dimensions. Functions here are made of ops. Where a size depends on data
 * (that of a member at an index that is computed) it is read in eager code, and a size of the graph while one is
 * captured.
 *
 *     cn_list list;
 *     cn_list_make(&list, CN_TENSORS(a, b));
 *     cn_list_insert(&list, &list, c, NULL);
 *     cn_tensor *all = cn_list_concat(&list, 0, NULL);
 *
 * What a loop carries keeps its sizes, so a list that grows is no such thing: what each step appends goes into rows of
 * a tensor (those of cn_scan are made so), of which cn_list_rows and cn_list_take make a list of as many as there are.
 *
 * Place in the flow: above the ops, like any code of a program; graphs see the ops alone. Invariant: data has as many
 * elements as the shapes say. Results belong to the innermost scope, as those of ops. Functions that return int give 0
 * or an error; out may be the list that is read.
 */
#ifndef CAIRN_LISTS_H
#define CAIRN_LISTS_H

#include "tensor.h"

CN_BEGIN_DECLS

typedef struct cn_list {
  cn_tensor *data;   /* a vector: the members' elements in row-major order */
  cn_tensor *shapes; /* (length, dimensions), int64 */
} cn_list;

/* ---- making ---- */
CN_API int cn_list_make(cn_list *out, cn_tensor *const *tensors, size_t n); /* at least one */
CN_API int cn_list_empty(cn_list *out, cn_dtype dtype, int ndim, cn_device device);
CN_API int cn_list_rows(cn_list *out, cn_tensor *x); /* x[0], x[1] ... */
/* x cut along dim into pieces of these sizes, an int64 vector whose sum is x's size there. not keepdim: the sizes are
 * 1, and the pieces have no such dimension. */
CN_API int cn_list_split(cn_list *out, cn_tensor *x, cn_tensor *sizes, int64_t dim, bool keepdim);

/* ---- changing: lists that differ in one member ---- */
/* index: an int64 of one element; negative ones count from the end. NULL: behind the last one. */
CN_API int cn_list_insert(cn_list *out, const cn_list *list, cn_tensor *t, cn_tensor *index);
CN_API int cn_list_erase(cn_list *out, const cn_list *list, cn_tensor *index);           /* NULL: the last one */
CN_API int cn_list_take(cn_list *out, const cn_list *list, cn_tensor *indices); /* a vector: these, in this order */

/* ---- reading ---- */
CN_API cn_tensor *cn_list_length(const cn_list *list); /* int64, of no dimensions */
/* A member. shape: its sizes as far as they are known, one for each dimension, -1: not known; NULL: none is. A graph
 * has fewer sizes to find where more are given. */
CN_API cn_tensor *cn_list_at(const cn_list *list, cn_tensor *index, const int64_t *shape);
/* All members joined along dim, in which they may differ, or along a new one. shape: as above, of one member (that of
 * dim does not matter). */
CN_API cn_tensor *cn_list_concat(const cn_list *list, int64_t dim, const int64_t *shape);
CN_API cn_tensor *cn_list_stack(const cn_list *list, int64_t dim, const int64_t *shape);

CN_END_DECLS
#endif
