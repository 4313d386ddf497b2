/* reflect.c: shows the op table to the outside: count, walk, and one op's signature as data.
 *
 * Place in the flow: beside apply; bindings, the `cairn ops` command and documentation read ops through here
 * instead of parsing signatures again. Invariant: results only point into rows and parsed signatures, which
 * live until exit. */
#include <stdio.h>
#include <string.h>

#include "base/state.h"
#include "families.h"
#include "table.h"

int cn_op_count(void)
{
  cni_init();
  return cni_nops;
}

const cn_op *cn_op_at(int i)
{
  cni_init();
  return i >= 0 && i < cni_nops && cni_ops[i] ? cni_ops[i]->row : NULL;
}

/* The type as the signature writes it, put together from its parsed parts. */
static void type_text(char *text, size_t size, const cni_param *p)
{
  static const char *const words[] = {
    [CNI_T_TENSOR] = "Tensor", [CNI_T_INT] = "int",     [CNI_T_FLOAT] = "float",   [CNI_T_BOOL] = "bool",
    [CNI_T_STR] = "str",       [CNI_T_DTYPE] = "dtype", [CNI_T_DEVICE] = "device", [CNI_T_SCALAR] = "Scalar",
    [CNI_T_MODULE] = "Module"};
  char list[16] = "";
  if (p->list && p->fixed) snprintf(list, sizeof list, "[%d]", p->fixed);
  else if (p->list) snprintf(list, sizeof list, "[]");
  snprintf(text, size, "%s%s%s%s%s%s", words[p->type], p->number ? "|Scalar" : "",
           p->elem_optional ? "?" : "", list, p->text_too ? "|str" : "", p->optional ? "?" : "");
}

static cn_op_kind kind_of(const cn_op *row)
{
  if (row->flags & CN_OP_COMPOSITE) return CN_KIND_COMPOSITE;
  if (row->flags & CN_OP_VIEW) return CN_KIND_VIEW;
  return row->pointwise ? CN_KIND_POINTWISE : CN_KIND_STRUCTURAL;
}

void cni_describe_param(cn_op_param *out, const cni_param *p)
{
  out->name = p->name;
  type_text(out->type, sizeof out->type, p);
  out->default_text = p->has_default ? p->def_text : NULL;
  out->default_value = p->def;
  out->number = p->number;
  out->optional = p->optional;
  out->keyword_only = p->keyword_only;
}

int cn_op_describe(cn_op_info *info, const cn_op *op)
{
  memset(info, 0, sizeof *info);
  cni_init();
  const cni_opinfo *known = op ? cni_op_info(op) : NULL;
  if (!known) return cni_fail(CN_ERR_UNSUPPORTED, "op_describe: there is no such op; register it first");
  info->name = known->name;
  info->sig = known->row->sig;
  info->doc = cni_op_doc(known);
  info->space = known->space;
  info->overload = known->overload;
  info->kind = kind_of(known->row);
  info->gradient = !(known->row->flags & (CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY));
  info->random = known->row->flags & CN_OP_RANDOM;
  info->method = known->method;
  info->inplace = known->inplace;
  info->internal = known->internal;
  info->numbers = known->numbers;
  info->tuple = known->tuple;
  info->grad_fn = known->grad_fn;
  info->grad_fn_name = known->grad_fn_name;
  info->list_result = known->list_result;
  info->nparams = known->nparams;
  info->nresults = known->nresults;
  info->naliases = known->naliases;
  for (int i = 0; i < known->nparams; i++) cni_describe_param(&info->params[i], &known->params[i]);
  for (int i = 0; i < known->nresults; i++) info->results[i] = known->result_names[i];
  for (int i = 0; i < known->naliases; i++) info->aliases[i] = known->aliases[i];
  return CN_OK;
}
