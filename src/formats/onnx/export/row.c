/* row.c: see row.h. */
#include "row.h"

#include <string.h>

#define FAMILY(name) extern const cni_oxrow cni_ox_##name##_rows[];
#include "families.def"
#undef FAMILY

static const cni_oxrow *const families[] = {
#define FAMILY(name) cni_ox_##name##_rows,
#include "families.def"
#undef FAMILY
};

const cni_oxrow *cni_ox_row(const char *op, int opset, const cni_oxrow *after)
{
  bool behind = !after;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (const cni_oxrow *row = families[f]; row->op; row++) {
      if (behind && row->since <= opset && !strcmp(row->op, op)) return row;
      behind = behind || row == after;
    }
  return NULL;
}

/* ---- arguments ---- */

bool cni_oxarg_open(const cni_oxcall *c, int i)
{
  for (int k = 0; k < cni_oxarg_count(c, i); k++)
    if (c->graph && cn_graph_arg_expr(c->graph, c->node, i, k)) return true;
  return false;
}

/* An attribute of ONNX is a number of the file. */
static void must_be_known(const cni_oxcall *c, int i)
{
  cn_op_info info;
  if (!cni_oxarg_open(c, i) || cn_op_describe(&info, c->op)) return;
  cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s: its %s follows from sizes that are open, and ONNX has it fixed", c->name,
              info.params[i].name);
}

int64_t cni_oxarg_int(const cni_oxcall *c, int i)
{
  must_be_known(c, i);
  return c->args[i].u.i;
}

double cni_oxarg_float(const cni_oxcall *c, int i)
{
  must_be_known(c, i);
  return c->args[i].tag == CN_V_FLOAT ? c->args[i].u.f : (double)c->args[i].u.i;
}

const char *cni_oxarg_text(const cni_oxcall *c, int i) { return c->args[i].tag == CN_V_STR ? c->args[i].u.s : ""; }

int cni_oxarg_count(const cni_oxcall *c, int i)
{
  const cn_value *v = &c->args[i];
  return v->tag == CN_V_INTS || v->tag == CN_V_FLOATS ? v->n : v->tag == CN_V_NONE ? 0 : 1;
}

int64_t cni_oxarg_at(const cni_oxcall *c, int i, int k)
{
  const cn_value *v = &c->args[i];
  must_be_known(c, i);
  return v->tag == CN_V_INTS ? v->u.is[v->n == 1 ? 0 : k] : v->u.i;
}

int cni_oxarg_dim(const cni_oxcall *c, int i, int ndim)
{
  int64_t d = cni_oxarg_int(c, i);
  return (int)(d < 0 ? d + (ndim ? ndim : 1) : d);
}

uint32_t cni_oxarg_dims(const cni_oxcall *c, int i, int ndim)
{
  uint32_t mask = 0;
  int n = cni_oxarg_count(c, i);
  if (!n) return ndim ? (1u << ndim) - 1 : 0;
  for (int k = 0; k < n && ndim; k++) {
    int64_t d = cni_oxarg_at(c, i, k);
    mask |= 1u << (d < 0 ? d + ndim : d);
  }
  return mask;
}

int cni_oxarg_find(const cni_oxcall *c, const char *name)
{
  cn_op_info info;
  if (cn_op_describe(&info, c->op)) return -1;
  for (int i = 0; i < info.nparams; i++)
    if (!strcmp(info.params[i].name, name)) return i;
  return -1;
}

cni_oxval cni_oxarg_size(const cni_oxcall *c, int i, int k)
{
  const cn_value *v = &c->args[i];
  int expr = c->graph ? cn_graph_arg_expr(c->graph, c->node, i, v->n == 1 ? 0 : k) : 0;
  if (expr) return cni_ox_size_of(c, expr);
  return cni_ox_whole(v->tag == CN_V_INTS ? v->u.is[v->n == 1 ? 0 : k] : v->u.i);
}

cni_oxval cni_oxarg_value(const cni_oxcall *c, int i, int k, int dtype)
{
  const cn_value *v = &c->args[i];
  int expr = c->graph ? cn_graph_arg_expr(c->graph, c->node, i, k) : 0;
  if (expr) {
    cni_oxval one = cni_ox_cast(c->x, cni_ox_size_of(c, expr), dtype);
    return one.number ? one : cni_ox_squeeze(c->x, one, 0);
  }
  double f = v->tag == CN_V_FLOATS ? v->u.fs[k] : v->tag == CN_V_FLOAT ? v->u.f : 0;
  if (v->tag == CN_V_FLOATS || v->tag == CN_V_FLOAT) return cni_ox_const(c->x, cni_ox_num(f), dtype);
  return cni_ox_const(c->x, cni_ox_whole(v->tag == CN_V_INTS ? v->u.is[k] : v->u.i), dtype);
}

/* ---- operands and results ---- */

int cni_oxarg_tensors(const cni_oxcall *c, int i)
{
  cn_op_info info;
  if (cn_op_describe(&info, c->op) || strncmp(info.params[i].type, "Tensor", 6)) return 0;
  return c->args[i].tag == CN_V_TENSORS ? c->args[i].n : 1;
}

int cni_oxarg_in(const cni_oxcall *c, int i)
{
  int at = 0;
  for (int k = 0; k < i; k++) at += cni_oxarg_tensors(c, k);
  return at;
}

cni_oxval cni_ox_as(const cni_oxcall *c, int in, int out) { return cni_ox_cast(c->x, c->in[in], c->out[out].dtype); }

void cni_ox_give(cni_oxcall *c, int k, cni_oxval v)
{
  cni_oxval type = c->out[k];
  if (c->x->failed) return;
  v = cni_ox_cast(c->x, v, type.dtype);
  c->out[k] = type;
  c->out[k].id = v.id;
  c->out[k].number = false;
}
