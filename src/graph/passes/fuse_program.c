/* fuse_program.c: a group of pointwise nodes as one typed program (ops/program.h).
 *
 * Place in the flow: fuse.c has found the group. Each member's own program is written behind those before it; a value
 * that a member makes and another reads stays in its register, in the type that the first computes in. Invariant: what
 * lies in the register is what the reader would have loaded: where memory would have rounded (int32, bool), so does a
 * conversion; float16 and bfloat16 stay float32 unless the group is exact. */
#include <string.h>

#include "base/alloc.h"
#include "fuse.h"
#include "tensor/tensor.h"

/* ---- parts ---- */

static bool computes(int dtype) { return cni_dtype_computes(dtype) && !cni_dtype_is_complex(dtype); }

enum cni_part_kind cni_fuse_part(const cn_graph *g, const cni_gnode *n, int *steps)
{
  const cni_pointwise *pw = n->info->row->pointwise;
  *steps = 1;
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] < 0 || !computes(g->values[n->in[k]].dtype)) return CNI_PART_NONE;
  for (int k = 0; k < n->nout; k++)
    if (!computes(g->values[n->out[k]].dtype)) return CNI_PART_NONE;
  if (!strcmp(n->info->name, "cast")) return CNI_PART_CAST;
  if (pw) {
    *steps = 4; /* about: formulas with fewer are most */
    return pw->kind == CNI_UPD ? CNI_PART_NONE : CNI_PART_ROW;
  }
  if (strcmp(n->info->name, "pointwise")) return CNI_PART_NONE;
  const cni_program *p = cni_program_of_value(&n->args[1]);
  if (!p) cn_err_clear();
  if (!p || p->typed) return CNI_PART_NONE;
  *steps = p->nstep;
  return CNI_PART_PROGRAM;
}

/* ---- writing ---- */

/* Where a value of the group is. */
typedef struct held {
  int value, reg;
  bool clean; /* the register holds what memory would give */
} held;

typedef struct writing {
  const cn_graph *g;
  const cni_row_space *rows; /* NULL: there are no steps along rows */
  cni_builder b;
  bool exact, full; /* full: it cannot be written */
  int in[CNI_GROUP_OPERANDS]; /* values */
  cni_prog_input types[CNI_GROUP_OPERANDS];
  held *held; /* owned */
  size_t nheld, held_cap;
} writing;

static const held *find_held(const writing *w, int value)
{
  for (size_t i = 0; i < w->nheld; i++)
    if (w->held[i].value == value) return &w->held[i];
  return NULL;
}

/* The register of a value from outside, loaded as a class. */
static int input(writing *w, int value, enum cni_compute class)
{
  for (int i = 0; i < w->b.nin; i++)
    if (w->in[i] == value && w->types[i].class == class) return i;
  if (w->b.nin == CNI_GROUP_OPERANDS) {
    w->full = true;
    return 0;
  }
  w->in[w->b.nin] = value;
  w->types[w->b.nin] = (cni_prog_input){(uint8_t)w->g->values[value].dtype, (uint8_t)class};
  return w->b.nin++;
}

/* A value from outside, as node n reads it. */
static int outside(writing *w, const cni_gnode *n, int value, enum cni_compute class)
{
  const cni_types *t = &w->g->types;
  const int reg = input(w, value, class);
  int one = w->rows ? cni_row_operand(w->rows, &t->v[n->out[0]].handle->d, &t->v[value].handle->d) : 0;
  w->full |= one < 0;
  return one > 0 && !w->full ? cni_build_row(&w->b, CNI_PW_row_first, reg, w->rows->dims) : reg;
}

/* A value as node n reads it. */
static int operand(writing *w, const cni_gnode *n, int value, enum cni_compute class)
{
  const held *h = find_held(w, value);
  if (!h) return outside(w, n, value, class);
  w->full |= w->rows && !cni_row_reads(w->rows, w->g, n, value);
  int dtype = w->g->values[value].dtype;
  return cni_build_convert(&w->b, h->reg, class, h->clean ? 0 : dtype);
}

/* Has a register of this class, stored as dtype and read again, the same value? Comparisons give 0 and 1. */
static bool is_clean(const writing *w, enum cni_compute class, int dtype, const cni_pointwise *pw)
{
  bool test = pw && (pw->kind == CNI_CMP || pw->kind == CNI_LOG || pw->kind == CNI_FIT);
  bool half = class == CNI_C_F32 && (dtype == CN_F16 || dtype == CN_BF16);
  return dtype == cni_compute_dtype(class) || (dtype == CN_BOOL && test) || (half && !w->exact);
}

static int hold(writing *w, int value, int reg, bool clean)
{
  if (cni_grow((void **)&w->held, &w->held_cap, w->nheld + 1, sizeof *w->held)) return CN_ERR_MEMORY;
  w->held[w->nheld++] = (held){value, reg, clean};
  return CN_OK;
}

/* ---- members ---- */

static int write_cast(writing *w, const cni_gnode *n)
{
  int from = w->g->values[n->in[0]].dtype, to = w->g->values[n->out[0]].dtype;
  int x = operand(w, n, n->in[0], cni_compute_class(from));
  enum cni_compute class = cni_compute_class(to);
  bool natural = to == cni_compute_dtype(class);
  return hold(w, n->out[0], cni_build_convert(&w->b, x, class, natural ? 0 : to), true);
}

/* The steps of p, whose inputs are these registers; reg: room for all of its. */
static void write_steps(writing *w, const cni_program *p, const double *consts, int *reg)
{
  for (int i = 0; i < p->nconst; i++) reg[p->nin + i] = cni_build_const(&w->b, consts[i]);
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    reg[p->nin + p->nconst + i] = cni_build_step(&w->b, (enum cni_prim)s->prim, reg[s->arg[0]], reg[s->arg[1]],
                                                 reg[s->arg[2]]);
  }
}

static int write_with(writing *w, const cn_call *c, const cni_gnode *n, const cni_program *p, int *reg, double *consts)
{
  enum cni_compute class = cni_compute_class(c->compute);
  int status = cni_program_consts(consts, c, p);
  if (status) return status;
  for (int i = 0; i < n->nin; i++) {
    reg[i] = operand(w, n, n->in[i], class);
    if (cni_program_rounds(c, i)) reg[i] = cni_build_convert(&w->b, reg[i], class, c->compute);
  }
  w->b.class = class;
  w->b.origin = n->info->name;
  write_steps(w, p, consts, reg);
  for (int k = 0; k < n->nout && !status; k++) {
    int dtype = w->g->values[n->out[k]].dtype;
    status = hold(w, n->out[k], reg[p->out[k]], is_clean(w, class, dtype, n->info->row->pointwise));
  }
  return status;
}

/* The type that a node computes in, by its op's rule; negative on failure. */
static int compute_of(const cn_graph *g, int node, cn_tensor **in)
{
  const cni_gnode *n = &g->nodes[node];
  cn_spec spec[CNI_MAX_RESULTS];
  cn_value args[CN_MAX_ARGS];
  cn_device device;
  int32_t compute = 0;
  memset(args, 0, sizeof args);
  memset(spec, 0, sizeof spec);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  int status = cni_infer_node(spec, &compute, &device, g, n, args, in);
  return status ? status : compute;
}

/* A pointwise op, or the op "pointwise". in: its inputs' types. */
static int write_part(writing *w, int node, cn_tensor **in)
{
  const cni_gnode *n = &w->g->nodes[node];
  for (int k = 0; k < n->nin; k++) in[k] = w->g->types.v[n->in[k]].handle;
  int compute = compute_of(w->g, node, in);
  if (compute < 0) return compute;
  cn_call c = {.op = n->info->row, .args = n->args, .in = in, .nargs = n->nargs, .nin = n->nin, .nout = n->nout,
               .compute = compute};
  const cni_program *p = cni_program_of(&c);
  if (!p) return cn_err();
  size_t registers = (size_t)(p->nin + p->nconst + p->nstep), bytes = registers * (sizeof(int) + sizeof(double));
  double *consts = cni_alloc(bytes);
  if (!consts) return CN_ERR_MEMORY;
  int status = write_with(w, &c, n, p, (int *)(consts + registers), consts);
  cni_free(consts, bytes);
  return status;
}

/* A reduction along rows. What it reads are whole rows, from outside as well. True ones are counted in float32, which
 * is exact for rows of a group. */
static int write_reduction(writing *w, const cni_gnode *n)
{
  const bool counts = w->g->values[n->in[0]].dtype == CN_BOOL;
  const enum cni_compute class = counts ? CNI_C_F32 : cni_compute_class(w->g->values[n->in[0]].dtype);
  int x = find_held(w, n->in[0]) ? operand(w, n, n->in[0], class) : input(w, n->in[0], class);
  w->full |= cni_build_is_row(&w->b, x) || (x >= CNI_CONST_BASE && x < CNI_STEP_BASE);
  if (w->full) return CN_OK;
  const int reg = cni_build_row(&w->b, cni_row_prim(n), x, w->rows->dims);
  return hold(w, n->out[0], counts ? cni_build_convert(&w->b, reg, CNI_C_I64, 0) : reg, true);
}

/* A view of one value for each row is that value. */
static int write_view(writing *w, const cni_gnode *n)
{
  const held *h = find_held(w, n->in[0]);
  w->full |= !h;
  return h ? hold(w, n->out[0], h->reg, h->clean) : CN_OK;
}

static int write_member(writing *w, int node, cn_tensor **in)
{
  const cni_gnode *n = &w->g->nodes[node];
  if (cni_row_prim(n)) return write_reduction(w, n);
  if (n->info->row->flags & CN_OP_VIEW) return write_view(w, n);
  return strcmp(n->info->name, "cast") ? write_part(w, node, in) : write_cast(w, n);
}

static int write_members(writing *w, const int *members, int nmembers)
{
  cn_tensor *in[CNI_GROUP_OPERANDS];
  int status = CN_OK;
  for (int i = 0; i < nmembers && !status && !w->full; i++) {
    const cni_gnode *n = &w->g->nodes[members[i]];
    if (n->nin > CNI_GROUP_OPERANDS) w->full = true;
    else status = write_member(w, members[i], in);
  }
  return status;
}

/* ---- the whole ---- */

/* The first input that has the results' shape decides on their order in memory: one that leads to theirs goes first. */
static void order_inputs(writing *w, int out)
{
  const cni_types *t = &w->g->types;
  const cn_desc *y = &t->v[out].handle->d;
  bool row_major = cni_is_contiguous(y->ndim, y->shape, y->strides);
  for (int i = 0; i < w->b.nin; i++) {
    const cn_desc *x = &t->v[w->in[i]].handle->d;
    if (!cni_same_shape(x->ndim, x->shape, y->ndim, y->shape)) continue;
    bool leads = cni_same_layout(x, y) || (row_major && !cni_is_dense(x->ndim, x->shape, x->strides));
    if (!leads) continue;
    int value = w->in[i];
    cni_prog_input type = w->types[i];
    w->in[i] = w->in[0], w->types[i] = w->types[0];
    w->in[0] = value, w->types[0] = type;
    return;
  }
}

/* Writes the group; the first `nin` inputs are known. */
static int write_group(writing *w, int nin, const cni_fuse_group *group)
{
  const cni_types *t = &w->g->types;
  cni_build_begin(&w->b, nin);
  w->b.typed = true;
  w->b.in = w->types;
  w->nheld = 0;
  int status = write_members(w, group->members, group->nmembers);
  for (int k = 0; k < group->nout && !status && !w->full; k++) {
    const int out = group->out[k], reg = find_held(w, out)->reg;
    bool whole = !w->rows || cni_row_form_of(w->rows, &t->v[out].handle->d) == CNI_ROW_WHOLE;
    w->full |= whole == cni_build_is_row(&w->b, reg); /* computed of numbers alone, or of one value for each row */
    w->b.out[w->b.nout] = reg;
    w->b.out_dtype[w->b.nout++] = (uint8_t)w->g->values[out].dtype;
  }
  return status;
}

/* Are long rows read once alone? */
static bool reads_once(const writing *w)
{
  for (int i = 0; w->rows && w->rows->count > CNI_ROW_LONGEST && i < w->b.nstep; i++)
    if (w->b.steps[i].level && !w->b.steps[i].row) return false;
  return true;
}

int cni_fuse_program(cni_group_program *p, const cn_graph *g, const cni_fuse_group *group)
{
  writing w = {.g = g, .rows = group->rows, .exact = group->exact};
  int status = write_group(&w, 0, group);
  bool fits = !w.full && reads_once(&w) && w.b.nin + group->nout <= CNI_GROUP_OPERANDS && w.b.nin > 0;
  cni_build_drop(&w.b);
  if (!status && fits) {
    order_inputs(&w, group->out[0]);
    status = write_group(&w, w.b.nin, group);
    p->program = status ? NULL : cni_build_end(&w.b);
    memcpy(p->in, w.in, sizeof p->in);
    cni_build_drop(&w.b);
    if (!status && !p->program) status = cn_err();
  }
  cni_free(w.held, w.held_cap * sizeof *w.held);
  return status ? status : fits;
}
