/* ops.h: what the files of `cairn ops` and `cairn classes` share. */
#ifndef CAIRN_COMMAND_OPS_H
#define CAIRN_COMMAND_OPS_H

#include <cairn/cairn.h>

enum { OPS_KERNELS = 8 };

const char *ops_kind(cn_op_kind kind);
/* Writes what one op is as JSON, without a line break at the end (ops_json.c). */
void ops_json(const cn_op_info *info, const cn_op *op);
void json_string(const char *text);
void json_parameter(const cn_op_param *param);
/* The element types that the op's first tensor may have, found by trying it on tiny tensors (ops_probe.c):
 * bit d stands for cn_dtype d. 0 when no try succeeded with any type. */
uint32_t ops_dtypes(const cn_op_info *info, const cn_op *op);

#endif
