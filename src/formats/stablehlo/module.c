/* module.c: a graph as one function, and graphs inside of it.
 *
 * Place in the flow: cn_stablehlo_text -> each node that something reads, by its row (row.c), its formula
 * (pointwise.c), as a branch or loop (control.c), or by what it is made of, which is traced here and written in its
 * place. Invariant: the order of arguments and results is what ext/stablehlo.h says; no value is read before it is
 * written. */
#include <cairn/autograd.h>
#include <cairn/device.h>
#include <cairn/ext/stablehlo.h>
#include <cairn/kw.h>
#include <string.h>

#include "rows.h"

enum { DEEPEST = 32 }; /* of parts in parts, and of branches and loops */

typedef struct writing {
  cni_hlo *h;
  const cn_graph *g;
  cni_hval *vals; /* per value; its types too, before it is written */
  bool *read;
  size_t nvals;
  cni_hval offset;
} writing;

/* ---- which way an op goes ---- */

static bool is_formula(const cn_op *op)
{
  cn_op_info info;
  return op->pointwise || (!cn_op_describe(&info, op) && !strcmp(info.name, "pointwise"));
}

static bool can_take_apart(const cn_op *op) { return op->flags & CN_OP_COMPOSITE || op->decompose; }

static const cni_hrow *row_of(const cn_op *op)
{
  cn_op_info info;
  return cn_op_describe(&info, op) ? NULL : cni_hlo_row(info.name);
}

static const char *const by_data = "the sizes of its results depend on data, and XLA's programs have one size";

const char *cn_stablehlo_problem(const cn_op *op)
{
  static const struct {
    const char *op, *why;
  } known[] = {
      {"nonzero", by_data}, {"masked_select", by_data}, {"repeat_interleave_indices", by_data},
      {"string_format", "it reads and writes text on the host"},
      {"string_parse", "it reads text on the host"},
  };
  cn_op_info info;
  if (!op || cn_op_describe(&info, op)) return NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(info.name, known[i].op)) return known[i].why;
  if (op->flags & CN_OP_EFFECTS) return "it calls a function of the host";
  if (row_of(op) || is_formula(op) || can_take_apart(op)) return NULL;
  return "it has no form in StableHLO yet, nor is it made of ops that have";
}

const char *cn_stablehlo_way(const cn_op *op)
{
  if (cn_stablehlo_problem(op)) return "no";
  return row_of(op) ? "row" : is_formula(op) ? "formula" : "parts";
}

/* ---- values ---- */

static cni_hval type_of(const cn_value_info *v)
{
  cni_hval x = {.id = -1, .dtype = v->dtype, .ndim = v->ndim};
  memcpy(x.shape, v->shape, sizeof x.shape);
  return x;
}

/* A tensor's bytes as a constant. */
static cni_hval constant(cni_hlo *h, cn_tensor *t)
{
  cni_hval v = {.id = -1};
  cn_scope *scope = cn_scope_begin();
  cn_tensor *rows = cn_contiguous(cn_to_device(t, CN_CPU));
  if (rows) {
    const cn_desc *d = cn_desc_of(rows);
    v = cni_hlo_data(h, cn_data(rows), d->dtype, d->ndim, d->shape);
  } else h->failed = true;
  cn_scope_end(scope);
  return v;
}

/* What no node makes is written where it is read first. */
static cni_hval source(writing *w, const cn_value_info *v)
{
  if (v->kind == CN_VALUE_SCALAR) {
    cni_hval x = v->dtype == CN_F64 ? cni_hlo_num(v->number) : cni_hlo_int(v->integer);
    x.dtype = v->dtype;
    return v->weak ? x : cni_hlo_splat(w->h, x, v->dtype, 0, NULL);
  }
  if (v->tensor) return constant(w->h, v->tensor);
  cni_hlo_fail(w->h, CN_ERR_VALUE, "state %d is not bound, and cannot be a constant", (int)v->index);
  return (cni_hval){.id = -1};
}

static cni_hval get(writing *w, int value)
{
  cn_value_info v = {sizeof v};
  if (value < 0) return (cni_hval){.id = -1};
  if (!cni_hlo_there(&w->vals[value]) && !w->h->failed) {
    if (cn_graph_value_at(&v, w->g, value)) w->h->failed = true;
    else if (v.kind == CN_VALUE_RESULT) cni_hlo_fail(w->h, CN_ERR_INTERNAL, "a value is read before it is made");
    else w->vals[value] = source(w, &v);
  }
  return w->vals[value];
}

/* ---- ops by what they are made of ---- */

static bool is_taken_apart(const cn_op *op, void *payload)
{
  (void)payload;
  return !row_of(op) && !is_formula(op) && op->decompose;
}

typedef struct replay {
  const cn_graph *g;
} replay;

static int replay_parts(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  return cn_graph_replay(outputs, ((replay *)payload)->g, inputs, .decompose = is_taken_apart);
}

/* A graph of this one call, its operands inputs; numbers stay numbers. given: which operands the inputs are. */
static cn_graph *graph_of_call(const cni_hcall *c, int *in, int *given, size_t *ninputs)
{
  cn_device meta = cn_device_find("meta");
  cn_graph *g = cn_graph_new();
  int out[64];
  size_t nout = 64;
  *ninputs = 0;
  for (int k = 0; k < c->nin && g; k++) {
    const cni_hval *x = &c->in[k];
    cn_value number = x->dtype == CN_F64    ? cn_v_float(x->f)
                      : x->dtype == CN_BOOL ? cn_v_bool(x->i != 0)
                                            : cn_v_int(x->i);
    in[k] = -1;
    if (!cni_hlo_there(x)) continue;
    if (x->number) in[k] = cn_graph_add_number(g, number);
    else in[k] = cn_graph_add_input(g, meta, (cn_dtype)x->dtype, x->ndim, x->shape);
    if (!x->number) given[(*ninputs)++] = k;
  }
  int node = g ? cn_graph_add_node(out, &nout, g, c->op, c->args, (size_t)c->nargs, in, (size_t)c->nin) : -1;
  int status = node < 0 ? -1 : 0;
  for (int k = 0; k < c->nout && !status; k++) status = cn_graph_add_output(g, out[k]);
  if (!status) return g;
  cn_graph_free(g);
  return NULL;
}

/* That graph with its op taken apart, by tracing what it does. */
static cn_graph *traced_parts(const cni_hcall *c, const cn_graph *one, const int *given, size_t n)
{
  size_t bytes = (n + 1) * sizeof(cn_tensor *);
  cn_tensor **inputs = cn_alloc_zero(bytes);
  cn_scope *scope = cn_scope_begin();
  int cast = cn_autocast_begin(CN_DTYPE_NONE), grad = cn_no_grad_begin();
  replay payload = {one};
  for (size_t k = 0; k < n && inputs; k++) {
    const cni_hval *x = &c->in[given[k]];
    inputs[k] = cn_empty(x->shape, (size_t)x->ndim, .dtype = (cn_dtype)x->dtype, .device = cn_device_find("meta"));
  }
  cn_graph *parts = inputs && !cn_err() ? cn_trace(replay_parts, (size_t)c->nout, inputs, n, &payload) : NULL;
  cn_no_grad_end(grad);
  cn_autocast_end(cast);
  cn_scope_end(scope);
  cn_free(inputs, bytes);
  return parts;
}

static void write_parts(cni_hcall *c)
{
  cni_hlo *h = c->h;
  size_t n = (size_t)c->nin + 1, ninputs = 0, bytes = n * (2 * sizeof(int) + sizeof(cni_hval));
  cni_hval *inputs = cn_alloc_zero(bytes);
  int *in = inputs ? (int *)(void *)(inputs + n) : NULL, *given = in + n;
  cn_graph *one = in ? graph_of_call(c, in, given, &ninputs) : NULL;
  cn_graph *parts = one ? traced_parts(c, one, given, ninputs) : NULL;
  for (size_t k = 0; k < ninputs && parts; k++) inputs[k] = c->in[given[k]];
  if (parts) {
    cni_hval offset = h->offset;
    if (cn_graph_draws(parts) && c->draw)
      offset = cni_hlo_binary(h, "add", offset, cni_hlo_int(c->draw));
    cni_hlo_graph(h, parts, inputs, c->out, &offset);
  } else if (!h->failed) {
    char why[200];
    size_t m = strlen(cn_err_message());
    memcpy(why, cn_err_message(), m = m < sizeof why - 1 ? m : sizeof why - 1);
    why[m] = 0;
    cn_err_clear();
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED, "%s cannot be taken apart: %s", c->name, why);
  }
  cn_graph_free(parts);
  cn_graph_free(one);
  cn_free(inputs, bytes);
}

/* ---- nodes ---- */

static void write_node(cni_hcall *c, const cn_graph_node *n)
{
  const cni_hrow *row = NULL;
  const char *why = NULL;
  if (cni_hlo_control(c, n)) return;
  if (cn_op_describe(&(cn_op_info){0}, c->op) == CN_OK && (why = cn_stablehlo_problem(c->op))) {
    cni_hlo_fail(c->h, CN_ERR_UNSUPPORTED, "%s: %s", c->name, why);
  } else if ((row = cni_hlo_row(c->name))) {
    c->text = row->text;
    row->lower(c);
  } else if (is_formula(c->op)) {
    cni_hlo_pointwise(c);
  } else {
    write_parts(c);
  }
}

static void check_result(const cni_hcall *c, const cni_hval *want, const cni_hval *have)
{
  if (c->h->failed || (have->dtype == want->dtype && have->ndim == want->ndim && !have->number && have->id >= 0 &&
                       !memcmp(have->shape, want->shape, (size_t)want->ndim * sizeof *want->shape)))
    return;
  cni_hlo_fail(c->h, CN_ERR_INTERNAL, "%s: its result became another type", c->name);
}

static void enter_node(writing *w, int i)
{
  cn_graph_node n = {sizeof n};
  cn_value_info v = {sizeof v};
  if (cn_graph_node_at(&n, w->g, i)) w->h->failed = true;
  bool live = false;
  for (int k = 0; k < n.nout && !w->h->failed; k++) live = live || w->read[n.out[k]];
  if (!live || w->h->failed) return;
  size_t bytes = (size_t)(n.nin + 2 * n.nout + 1) * sizeof(cni_hval);
  cni_hval *in = cn_alloc_zero(bytes), *out = in ? in + n.nin : NULL, *want = in ? out + n.nout : NULL;
  if (!in) w->h->failed = true;
  for (int k = 0; k < n.nin && !w->h->failed; k++) in[k] = get(w, n.in[k]);
  for (int k = 0; k < n.nout && !w->h->failed; k++) {
    if (cn_graph_value_at(&v, w->g, n.out[k])) w->h->failed = true;
    else out[k] = want[k] = type_of(&v);
  }
  cni_hcall c = {.h = w->h, .op = n.op, .name = n.name, .args = n.args, .in = in, .out = out, .nargs = n.nargs,
                 .nin = n.nin, .nout = n.nout, .graph = w->g, .node = i,
                 .draw = n.draw >= 0 ? cn_graph_draw_offset(w->g, (size_t)n.draw) : 0};
  if (!w->h->failed) write_node(&c, &n);
  for (int k = 0; k < n.nout && !w->h->failed; k++) {
    if (w->read[n.out[k]]) check_result(&c, &want[k], &out[k]);
    w->vals[n.out[k]] = out[k];
  }
  if (in) cn_free(in, bytes);
}

static void mark_read(writing *w)
{
  cn_graph_node n = {sizeof n};
  for (int i = (int)cn_graph_nodes(w->g) - 1; i >= 0; i--) {
    bool live = false;
    if (cn_graph_node_at(&n, w->g, i)) return;
    for (int k = 0; k < n.nout; k++) live = live || w->read[n.out[k]];
    for (int k = 0; k < n.nin && live; k++)
      if (n.in[k] >= 0) w->read[n.in[k]] = true;
  }
}

static void write_nodes(writing *w)
{
  cni_hval outer = w->h->offset;
  if (++w->h->depth > DEEPEST) cni_hlo_fail(w->h, CN_ERR_UNSUPPORTED, "graphs in graphs, more than %d deep", DEEPEST);
  w->h->offset = w->offset;
  mark_read(w);
  for (int i = 0; i < (int)cn_graph_nodes(w->g) && !w->h->failed; i++) enter_node(w, i);
  w->h->offset = outer;
  w->h->depth--;
}

static int writing_begin(writing *w, cni_hlo *h, const cn_graph *g)
{
  *w = (writing){.h = h, .g = g, .nvals = cn_graph_values(g)};
  w->vals = cn_alloc_zero((w->nvals + 1) * (sizeof *w->vals + 1));
  if (!w->vals) {
    h->failed = true;
    return CN_ERR_MEMORY;
  }
  w->read = (bool *)(w->vals + w->nvals + 1);
  for (size_t i = 0; i < w->nvals; i++) w->vals[i].id = -1;
  return CN_OK;
}

static void writing_end(writing *w)
{
  if (w->vals) cn_free(w->vals, (w->nvals + 1) * (sizeof *w->vals + 1));
}

void cni_hlo_graph(cni_hlo *h, const cn_graph *g, const cni_hval *inputs, cni_hval *outputs, const cni_hval *offset)
{
  writing w;
  if (h->failed || writing_begin(&w, h, g)) return;
  w.offset = *offset;
  for (size_t i = 0; i < cn_graph_inputs(g); i++) w.vals[cn_graph_input(g, i)] = inputs[i];
  for (size_t i = 0; i < cn_graph_outputs(g); i++) w.read[cn_graph_output(g, i)] = true;
  write_nodes(&w);
  for (size_t i = 0; i < cn_graph_outputs(g) && !h->failed; i++) {
    cni_hval v = get(&w, cn_graph_output(g, i));
    outputs[i] = v.number ? cni_hlo_splat(h, v, v.dtype, 0, NULL) : v;
  }
  writing_end(&w);
}

/* ---- the function ---- */

typedef struct results {
  int *value;
  size_t n, cap;
  bool failed;
} results;

static void add_result(results *r, int value)
{
  if (value < 0 || r->failed) return;
  if (cn_grow((void **)&r->value, &r->cap, r->n + 1, sizeof *r->value)) r->failed = true;
  else r->value[r->n++] = value;
}

/* finals: where those of states and inputs begin. */
static void find_results(results *r, const cn_graph *g, const cn_stablehlo_opts *opts)
{
  cn_graph_gradient gradient = {sizeof gradient};
  if (opts->wanted) {
    for (size_t i = 0; i < opts->nwanted; i++) add_result(r, opts->wanted[i]);
    return;
  }
  for (size_t i = 0; i < cn_graph_outputs(g); i++) add_result(r, cn_graph_output(g, i));
  for (size_t i = 0; i < cn_graph_states(g); i++) add_result(r, cn_graph_state_final(g, i));
  for (size_t i = 0; i < cn_graph_inputs(g); i++) add_result(r, cn_graph_input_final(g, i));
  for (size_t i = 0; i < cn_graph_gradients(g); i++)
    if (!cn_graph_gradient_at(&gradient, g, (int)i)) add_result(r, gradient.value);
}

typedef struct function {
  writing w;
  const cn_stablehlo_opts *opts;
  results results;
  bool *aliased; /* per result */
  int narguments;
} function;

/* The result that may take over the memory of an argument whose new value this is; -1: none. */
static int alias_of(function *f, int final)
{
  size_t first = f->opts->wanted ? 0 : cn_graph_outputs(f->w.g);
  for (size_t i = first; f->opts->donate && final >= 0 && i < f->results.n; i++)
    if (f->results.value[i] == final && !f->aliased[i]) {
      f->aliased[i] = true;
      return (int)i;
    }
  return -1;
}

/* How a value of ndim dims lies on the mesh; sharding NULL: whole. */
static void put_sharding(cni_hlo *h, const char *sharding, int ndim)
{
  char room[CNI_HLO_SHARDING];
  cn_partition whole;
  memset(&whole, -1, sizeof whole);
  if (!sharding && h->shardy) sharding = cn_stablehlo_shardy(room, sizeof room, h->mesh, &whole, ndim);
  else if (!sharding) sharding = cn_stablehlo_sharding(room, sizeof room, h->mesh, &whole, ndim);
  cn_text_putf(&h->t, h->shardy ? "sdy.sharding = #sdy.sharding%s" : "mhlo.sharding = \"%s\"", sharding);
}

/* Attributes of an argument or a result: which result takes its memory (-1: none), and how it lies on a mesh. */
static void put_attributes(cni_hlo *h, int alias, const char *sharding, int ndim)
{
  if (alias < 0 && !h->mesh) return;
  cn_text_put(&h->t, " {");
  if (h->mesh) put_sharding(h, sharding, ndim);
  if (h->mesh && alias >= 0) cn_text_put(&h->t, ", ");
  if (alias >= 0) cn_text_putf(&h->t, "tf.aliasing_output = %d : i32", alias);
  cn_text_put(&h->t, "}");
}

/* How many states are arguments; the others are constants. */
static size_t states_given(const function *f)
{
  size_t n = cn_graph_states(f->w.g), asked = f->opts->nstates;
  return f->opts->constants ? 0 : asked && asked < n ? asked : n;
}

/* The argument whose new value a result is, counted as shardings are; -1: none. */
static int source_of(const function *f, int value)
{
  const cn_graph *g = f->w.g;
  size_t nstates = states_given(f);
  for (size_t i = 0; i < nstates; i++)
    if (cn_graph_state_final(g, i) == value) return (int)i;
  for (size_t i = 0; i < cn_graph_inputs(g); i++)
    if (cn_graph_input_final(g, i) == value) return (int)(nstates + i);
  return -1;
}

/* What the caller says of an argument; NULL: nothing. */
static const char *sharding_at(const function *f, size_t i)
{
  return f->opts->mesh && i < f->opts->nshardings ? f->opts->shardings[i] : NULL;
}

static cni_hval put_argument(function *f, const cni_hval *type, int final)
{
  cni_hlo *h = f->w.h;
  cni_hval v = cni_hlo_fresh(h, type->dtype, type->ndim, type->shape);
  size_t i = (size_t)f->narguments++;
  cn_text_putf(&h->t, "%s%%%d: ", i ? ", " : "", v.id);
  cni_hlo_put_type_of(h, &v);
  put_attributes(h, alias_of(f, final), sharding_at(f, i), v.ndim);
  return v;
}

static void put_value_argument(function *f, int value, int final)
{
  cn_value_info v = {sizeof v};
  if (cn_graph_value_at(&v, f->w.g, value)) {
    f->w.h->failed = true;
    return;
  }
  cni_hval type = type_of(&v);
  f->w.vals[value] = put_argument(f, &type, final);
}

static void put_arguments(function *f)
{
  const cn_graph *g = f->w.g;
  cni_hval word = {.id = -1, .dtype = CN_U64};
  for (size_t i = 0; i < states_given(f); i++)
    put_value_argument(f, cn_graph_state_value(g, i), cn_graph_state_final(g, i));
  for (size_t i = 0; i < cn_graph_inputs(g); i++)
    put_value_argument(f, cn_graph_input(g, i), cn_graph_input_final(g, i));
  if (!cn_graph_draws(g)) return;
  f->w.h->key = put_argument(f, &word, -1);
  f->w.offset = put_argument(f, &word, -1);
}

/* What the op shard says of a result that it makes, in `room`; NULL: another op makes it. */
static const char *sharding_said(function *f, const cn_value_info *v, char *room)
{
  cn_graph_node n = {sizeof n};
  if (!f->opts->mesh || v->kind != CN_VALUE_RESULT || cn_graph_node_at(&n, f->w.g, v->node)) return NULL;
  if (n.nsubs || strcmp(n.name, "shard") != 0) return NULL;
  if (cni_hlo_shard_text(room, f->w.h, n.args[1].u.s, v->ndim, v->shape)) f->w.h->failed = true;
  return room;
}

/* How result i lies: as it was told, as the argument that it is the new value of, as the op shard says, whole. */
static const char *result_sharding(function *f, size_t i, const cn_value_info *v, char *room)
{
  const cn_stablehlo_opts *o = f->opts;
  int source = o->mesh ? source_of(f, f->results.value[i]) : -1;
  if (i < o->nresult_shardings && o->result_shardings[i]) return o->result_shardings[i];
  return source >= 0 ? sharding_at(f, (size_t)source) : sharding_said(f, v, room);
}

/* attributes: of @main's head; the return has types alone. */
static void put_result_types(function *f, const char *before, const char *after, bool attributes)
{
  cn_value_info v = {sizeof v};
  char room[CNI_HLO_SHARDING];
  cni_hlo *h = f->w.h;
  cn_text_put(&h->t, before);
  for (size_t i = 0; i < f->results.n && !h->failed; i++) {
    if (cn_graph_value_at(&v, f->w.g, f->results.value[i])) h->failed = true;
    cni_hval type = type_of(&v);
    if (i) cn_text_put(&h->t, ", ");
    cni_hlo_put_type_of(h, &type);
    if (attributes) put_attributes(h, -1, result_sharding(f, i, &v, room), v.ndim);
  }
  cn_text_put(&h->t, after);
}

static void put_return(function *f)
{
  cni_hlo *h = f->w.h;
  cn_text ids = {0};
  for (size_t i = 0; i < f->results.n && !h->failed; i++) {
    cni_hval v = get(&f->w, f->results.value[i]);
    if (v.number) v = cni_hlo_splat(h, v, v.dtype, 0, NULL);
    cn_text_putf(&ids, "%s%%%d", i ? ", " : " ", v.id);
  }
  if (ids.failed) h->failed = true;
  cn_text_putf(&h->t, "  return%s", ids.s ? ids.s : "");
  if (f->results.n) put_result_types(f, " : ", "", false);
  cn_text_put(&h->t, "\n  }\n}\n");
  cn_text_free(&ids);
}

static void put_mesh(cni_hlo *h)
{
  cn_text_put(&h->t, "  sdy.mesh @mesh = <[");
  for (int k = 0; k < h->mesh->naxes; k++)
    cn_text_putf(&h->t, "%s\"%s\"=%lld", k ? ", " : "", h->mesh->axes[k].name, (long long)h->mesh->axes[k].size);
  cn_text_put(&h->t, "]>\n");
}

static void put_function(function *f)
{
  cni_hlo *h = f->w.h;
  for (size_t i = 0; i < f->results.n; i++) f->w.read[f->results.value[i]] = true;
  cn_text_put(&h->t, "module {\n");
  if (h->mesh && h->shardy) put_mesh(h);
  cn_text_put(&h->t, "  func.func public @main(");
  put_arguments(f);
  put_result_types(f, ") -> (", ") {\n", true);
  write_nodes(&f->w);
  if (!h->failed && cn_graph_format(f->w.g) > 1)
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED, "a size in the graph depends on data, and XLA's programs have one size");
  if (!h->failed) put_return(f);
}

char *cn_stablehlo_text_with(const cn_graph *graph, const cn_stablehlo_opts *opts)
{
  static const cn_stablehlo_opts none = {.size = sizeof none};
  cni_hlo h = {.key = {.id = -1}, .offset = {.id = -1}, .mesh = opts ? opts->mesh : NULL,
               .shardy = opts && opts->shardy};
  function f = {.opts = opts ? opts : &none};
  if (cn_err()) return NULL;
  if (!graph) {
    cn_err_set(CN_ERR_VALUE, "stablehlo: there is no graph");
    return NULL;
  }
  find_results(&f.results, graph, f.opts);
  f.aliased = cn_alloc_zero(f.results.n + 1);
  if (f.aliased && !f.results.failed && !writing_begin(&f.w, &h, graph)) put_function(&f);
  else h.failed = true;
  writing_end(&f.w);
  cn_free(f.results.value, f.results.cap * sizeof *f.results.value);
  if (f.aliased) cn_free(f.aliased, f.results.n + 1);
  if (!h.failed && !cn_err()) return cn_text_take(&h.t);
  cn_text_free(&h.t);
  if (!cn_err()) cn_err_set(CN_ERR_MEMORY, "stablehlo: out of memory");
  return NULL;
}
