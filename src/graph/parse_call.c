/* parse_call.c: the calls in a graph's text: an op by its name and version, and its arguments.
 *
 * Place in the flow: parse.c, for nodes and for the scopes of composite ops. Invariant: arguments have the types that
 * the op's signature says; what the text leaves out at the end has a default. */
#include <inttypes.h>
#include <string.h>

#include "control.h"
#include "parse.h"
#include "tensor/tensor.h"

/* A number of the call follows from sizes. */
static bool note(cni_reader *r, int arg, int element, int32_t expr)
{
  if (expr && r->nsyms == CNI_READ_MOST) return false;
  if (expr) r->syms[r->nsyms++] = (cni_gsym){arg, element, expr};
  return true;
}

static bool int_list(cni_reader *r, cn_value *v, cni_lists *l, int arg)
{
  int first = l->nints;
  int32_t expr;
  while (!cni_eat(r, "]")) {
    if (l->nints == CNI_READ_MOST || !cni_read_sized_integer(r, &r->ints[l->nints], &expr)) return false;
    if (!note(r, arg, l->nints++ - first, expr)) return false;
    cni_eat(r, ",");
  }
  *v = cn_v_ints(r->ints + first, (size_t)(l->nints - first));
  return true;
}
static bool float_list(cni_reader *r, cn_value *v, cni_lists *l, int arg)
{
  int first = l->nfloats;
  int32_t expr;
  while (!cni_eat(r, ">")) {
    if (l->nfloats == CNI_READ_MOST || !cni_read_sized_number(r, &r->floats[l->nfloats], &expr)) return false;
    if (!note(r, arg, l->nfloats++ - first, expr)) return false;
    cni_eat(r, ",");
  }
  *v = cn_v_floats(r->floats + first, (size_t)(l->nfloats - first));
  return true;
}
static bool tensor_list(cni_reader *r, cn_value *v, cni_lists *l, bool absent)
{
  int first = l->nids;
  while (!cni_eat(r, "}")) {
    if (l->nids == CNI_READ_MOST || !cni_read_value(r, &r->ids[l->nids])) return false;
    if (r->ids[l->nids++] < 0 && !absent) return false;
    cni_eat(r, ",");
  }
  *v = cn_v_tensors(NULL, (size_t)(l->nids - first));
  return true;
}

/* A plain number: of a Scalar both kinds may be one, and an expression is then an integer unless it is a ratio. */
static bool number_arg(cni_reader *r, const cni_param *p, cn_value *v, int arg)
{
  bool real = p->type == CNI_T_FLOAT || p->type == CNI_T_SCALAR;
  int32_t expr = 0;
  int64_t i = 0;
  double f = 0;
  cni_blanks(r);
  const char *start = r->s;
  if (cni_eat(r, "$")) {
    if (!cni_read_sized(r, &expr, &i, &f) || !note(r, arg, 0, expr)) return false;
    bool ratio = r->g->exprs.v[expr].op == CNI_EXPR_RATIO;
    *v = p->type == CNI_T_FLOAT || ratio ? cn_v_float(f) : cn_v_int(i);
    return real || !ratio;
  }
  if (cni_read_integer(r, &i) && !strchr("x.pe", *r->s))
    return *v = p->type == CNI_T_FLOAT ? cn_v_float((double)i) : cn_v_int(i), true;
  r->s = start;
  return real && cni_read_number(r, &f) && (*v = cn_v_float(f), true);
}

/* A type or a device; 0 stands for the default. */
static bool named_arg(cni_reader *r, const cni_param *p, cn_value *v)
{
  char name[32];
  int64_t number = 0;
  cni_blanks(r);
  if (*r->s == '0') {
    r->s++;
  } else if (p->type == CNI_T_DTYPE) {
    if (!cni_read_word(r, name, sizeof name) || !(number = (int64_t)cn_dtype_find(name))) return false;
  } else if (!cni_eat(r, "'") || !(number = cni_read_device(r)) || !cni_eat(r, "'")) return false;
  *v = cn_v_int(number);
  return true;
}

static bool argument(cni_reader *r, const cni_opinfo *info, int arg, cn_value *v, cni_lists *l)
{
  const cni_param *p = &info->params[arg];
  *v = cn_v_none();
  if (p->type == CNI_T_TENSOR && !p->list) {
    if (l->nids == CNI_READ_MOST || !cni_read_value(r, &r->ids[l->nids])) return false;
    if (r->ids[l->nids] >= 0) *v = (cn_value){CN_V_TENSOR, 1, {0}};
    else if (!p->optional && !r->any_absent) return false;
    l->nids++;
    return true;
  }
  if (cni_eat(r, "{")) return p->type == CNI_T_TENSOR && tensor_list(r, v, l, p->elem_optional || r->any_absent);
  if (p->type == CNI_T_TENSOR) return false;
  if (cni_eat(r, "none")) return p->optional;
  if (cni_eat(r, "["))
    return p->list && p->type == CNI_T_INT && int_list(r, v, l, arg) && (!p->fixed || v->n == p->fixed);
  if (cni_eat(r, "<")) return p->list && p->type == CNI_T_FLOAT && float_list(r, v, l, arg);
  if (p->list) return false;
  if (p->type != CNI_T_DEVICE && cni_eat(r, "'"))
    return p->type == CNI_T_STR && cni_read_string(r, v, &l->room, l->room_end);
  if (p->type == CNI_T_STR) return false;
  bool truth = p->type == CNI_T_BOOL || p->type == CNI_T_SCALAR;
  if (truth && cni_eat(r, "true")) return *v = cn_v_bool(true), true;
  if (truth && cni_eat(r, "false")) return *v = cn_v_bool(false), true;
  if (p->type == CNI_T_DTYPE || p->type == CNI_T_DEVICE) return named_arg(r, p, v);
  return p->type != CNI_T_BOOL && number_arg(r, p, v, arg);
}

/* Behind the last argument written: the op had fewer then, and what was added has a default. */
static bool default_arg(cni_reader *r, const cni_param *p, cn_value *v, cni_lists *l)
{
  bool tensor = p->type == CNI_T_TENSOR;
  *v = !tensor && p->has_default ? p->def : cn_v_none();
  if (tensor && !p->list && l->nids < CNI_READ_MOST) r->ids[l->nids++] = -1;
  return tensor ? p->optional && !p->list && l->nids < CNI_READ_MOST : p->has_default || p->optional;
}

/* A call means what its op meant when it was written: another version is another op. */
static int version(cni_reader *r, const cni_opinfo *info)
{
  int64_t written = 1, own = cni_op_version(info);
  if (*r->s == '@' && (r->s++, !cni_read_integer(r, &written) || written < 2))
    return cni_read_bad(r, "bad version of an op");
  if (written == own) return CN_OK;
  return cni_fail(CN_ERR_IO, "graph text, line %d: it calls %s of version %" PRId64 ", and this library's is %" PRId64
                  ": %s", r->line, info->name, written, own,
                  written > own ? "a newer library wrote it" : "trace the function again");
}

const cni_opinfo *cni_read_call(cni_reader *r, cn_value *args, cni_lists *l)
{
  char name[CNI_NAME_MAX];
  r->nsyms = 0;
  *l = (cni_lists){.room = r->strings, .room_end = r->strings + CNI_READ_MOST};
  const cni_opinfo *info = cni_read_word(r, name, sizeof name) ? cni_graph_op(name) : NULL;
  if (!info) return cn_err() ? cn_err() : cni_read_bad(r, "there is no such op"), NULL;
  if (version(r, info)) return NULL;
  if (!cni_eat(r, "(")) return cni_read_bad(r, "a call is missing"), NULL;
  for (int i = 0; i < info->nparams; i++) {
    if (i && !cni_eat(r, ",")) {
      if (!default_arg(r, &info->params[i], &args[i], l)) return cni_read_bad(r, "an argument is missing"), NULL;
    } else if (!argument(r, info, i, &args[i], l)) return cni_read_bad(r, "bad argument"), NULL;
  }
  if (!cni_eat(r, ")") || !cni_eat(r, ":")) return cni_read_bad(r, "the call does not end"), NULL;
  return info;
}

int cni_take_syms(const cni_reader *r, cni_gsyms *syms)
{
  int status = CN_OK;
  for (int i = 0; i < r->nsyms && !status; i++)
    status = cni_syms_add(syms, r->syms[i].arg, r->syms[i].element, r->syms[i].expr);
  return status;
}
