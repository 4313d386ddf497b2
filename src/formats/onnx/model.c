/* model.c: ModelProto and what is in it, from the wire to plain structs. See model.h.
 *
 * Place in the flow: behind wire.c, in front of check.c. Each message has a function: it counts its repeated fields,
 * takes room for them, and walks its fields. Invariant: messages nest to a bounded depth, and the structs take a
 * bounded multiple of the file's size. */
#include "model.h"

#include <string.h>

enum {
  DEPTH = 48,    /* of graphs in graphs, types in types */
  FIELDS = 32,   /* numbers of fields that are counted */
  GROWTH = 32,   /* structs may take so many times the file's bytes ... */
  ROOM = 1 << 20 /* ... and these */
};

typedef struct reader {
  cni_arena *arena;
  int depth;
} reader;

static int bad(const char *what) { return cn_err_set(CN_ERR_IO, "onnx: the file is damaged: %s", what); }

/* How often each field stands there. 0 or an error. */
static int count(size_t counts[FIELDS], cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  memset(counts, 0, FIELDS * sizeof *counts);
  while (cni_wire_next(&w, &f))
    if (f.number < FIELDS) counts[f.number]++;
  return w.bad ? bad("a message ends in the middle") : CN_OK;
}

/* A text, which must be UTF-8. */
static const char *text(const reader *r, const cni_field *f)
{
  const char *s = (const char *)f->bytes.p, *end = s + f->bytes.n;
  uint32_t c;
  if (f->type != CNI_WIRE_BYTES) return bad("a text is a number"), NULL;
  while (s < end) {
    size_t n = cn_utf8_read(&c, s, end);
    if (!n || !c) return bad("a name is not UTF-8"), NULL;
    s += n;
  }
  return cni_arena_text(r->arena, f->bytes);
}

/* Takes room for n elements; a list of none has a place, too, so that NULL is failure. */
#define ROOM_FOR(list, n) ((list) = cni_arena_take(r->arena, (size_t)(n), sizeof *(list)))

/* All numbers of repeated field `number`. `n`: an upper bound of how many. */
static int ints(const reader *r, const int64_t **out, size_t *n, cni_wire_bytes message, uint32_t number)
{
  size_t most = 0;
  cni_field f;
  for (cni_wire_walk w = cni_wire_of(message); cni_wire_next(&w, &f);)
    if (f.number == number) most += f.type == CNI_WIRE_BYTES ? f.bytes.n : 1;
  int64_t *list = cni_arena_take(r->arena, most ? most : 1, sizeof *list);
  if (!list) return cn_err();
  *n = 0;
  for (cni_wire_walk w = cni_wire_of(message); cni_wire_next(&w, &f);) {
    cni_wire_walk packed = cni_wire_of(f.bytes);
    bool once = false;
    uint64_t v;
    while (f.number == number && cni_wire_number(&v, &f, &packed, &once, CNI_WIRE_VARINT)) list[(*n)++] = (int64_t)v;
    if (packed.bad) return bad("a list of numbers ends in the middle");
  }
  *out = list;
  return CN_OK;
}

static int floats(const reader *r, const double **out, size_t *n, cni_wire_bytes message, uint32_t number)
{
  size_t most = 0;
  cni_field f;
  for (cni_wire_walk w = cni_wire_of(message); cni_wire_next(&w, &f);)
    if (f.number == number) most += f.type == CNI_WIRE_BYTES ? f.bytes.n / 4 + 1 : 1;
  double *list = cni_arena_take(r->arena, most ? most : 1, sizeof *list);
  if (!list) return cn_err();
  *n = 0;
  for (cni_wire_walk w = cni_wire_of(message); cni_wire_next(&w, &f);) {
    cni_wire_walk packed = cni_wire_of(f.bytes);
    bool once = false;
    uint64_t v;
    while (f.number == number && cni_wire_number(&v, &f, &packed, &once, CNI_WIRE_32))
      list[(*n)++] = cni_wire_float(v);
    if (packed.bad) return bad("a list of numbers ends in the middle");
  }
  *out = list;
  return CN_OK;
}

/* ---- tensors ---- */

static int read_tensor(const reader *r, cni_onnx_tensor *t, cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *t = (cni_onnx_tensor){.name = "", .message = message};
  while (cni_wire_next(&w, &f)) {
    if (f.number == 2) t->type = (int)(f.value > 255 ? 255 : f.value);
    else if (f.number == 8 && !(t->name = text(r, &f))) return cn_err();
    else if (f.number == 3) return cn_err_set(CN_ERR_UNSUPPORTED, "onnx: tensors in segments");
  }
  if (w.bad) return bad("a tensor ends in the middle");
  return ints(r, &t->dims, &t->ndims, message, 1);
}

int cni_onnx_read_tensor(cni_onnx_tensor *t, cni_arena *arena, cni_wire_bytes message)
{
  return read_tensor(&(reader){arena, 0}, t, message);
}

static int read_sparse(const reader *r, cni_onnx_sparse *s, cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  int status = CN_OK;
  *s = (cni_onnx_sparse){.values.name = "", .indices.name = ""};
  while (!status && cni_wire_next(&w, &f)) {
    if (f.number == 1) status = read_tensor(r, &s->values, f.bytes);
    else if (f.number == 2) status = read_tensor(r, &s->indices, f.bytes);
  }
  if (!status && w.bad) status = bad("a sparse tensor ends in the middle");
  return status ? status : ints(r, &s->dims, &s->ndims, message, 3);
}

/* ---- types ---- */

static int read_dim(const reader *r, cni_onnx_type *t, size_t i, cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  t->dims[i] = -1;
  while (cni_wire_next(&w, &f)) {
    if (f.number == 1) t->dims[i] = (int64_t)f.value;
    else if (f.number == 2 && !(t->symbols[i] = text(r, &f))) return cn_err();
  }
  return w.bad ? bad("a shape ends in the middle") : CN_OK;
}

static int read_shape(const reader *r, cni_onnx_type *t, cni_wire_bytes message)
{
  size_t counts[FIELDS], i = 0;
  if (count(counts, message)) return cn_err();
  if (!ROOM_FOR(t->dims, counts[1]) || !ROOM_FOR(t->symbols, counts[1])) return cn_err();
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  while (cni_wire_next(&w, &f))
    if (f.number == 1 && read_dim(r, t, i++, f.bytes)) return cn_err();
  t->ranked = true;
  t->ndims = i;
  return CN_OK;
}

static int read_type(const reader *outer, cni_onnx_type *t, cni_wire_bytes message);

/* What is inside of one of TypeProto's cases. inner: the number of the field that is a type again. */
static int read_case(const reader *r, cni_onnx_type *t, cni_wire_bytes message, uint32_t inner)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  while (cni_wire_next(&w, &f)) {
    int status = CN_OK;
    cni_onnx_type *of;
    if (f.number == inner) {
      if (!(of = cni_arena_take(r->arena, 1, sizeof *of))) return cn_err();
      t->of = of;
      status = read_type(r, of, f.bytes);
    } else if (f.number == 1) t->element = (int)(f.value > 255 ? 255 : f.value);
    else if (f.number == 2) status = read_shape(r, t, f.bytes);
    if (status) return status;
  }
  return w.bad ? bad("a type ends in the middle") : CN_OK;
}

static int read_type(const reader *outer, cni_onnx_type *t, cni_wire_bytes message)
{
  static const struct {
    uint32_t number, inner;
    cni_onnx_type_kind kind;
  } cases[] = {{1, 0, CNI_TYPE_TENSOR},
               {8, 0, CNI_TYPE_SPARSE},
               {4, 1, CNI_TYPE_SEQUENCE},
               {9, 1, CNI_TYPE_OPTIONAL},
               {5, 2, CNI_TYPE_MAP}};
  reader r = {outer->arena, outer->depth + 1};
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  if (r.depth > DEPTH) return bad("types lie too deep in one another");
  *t = (cni_onnx_type){CNI_TYPE_UNKNOWN};
  while (cni_wire_next(&w, &f))
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      if (f.number == cases[i].number) {
        t->kind = cases[i].kind;
        if (read_case(&r, t, f.bytes, cases[i].inner)) return cn_err();
      }
  return w.bad ? bad("a type ends in the middle") : CN_OK;
}

static int read_name(const reader *r, cni_onnx_name *n, cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *n = (cni_onnx_name){.name = ""};
  while (cni_wire_next(&w, &f)) {
    if (f.number == 1 && !(n->name = text(r, &f))) return cn_err();
    if (f.number == 2 && read_type(r, &n->type, f.bytes)) return cn_err();
  }
  return w.bad ? bad("a value's description ends in the middle") : CN_OK;
}

/* ---- nodes ---- */

static int read_graph(const reader *outer, cni_onnx_graph *g, cni_wire_bytes message);

/* One that is given by itself. */
static int read_attr_field(const reader *r, cni_onnx_attr *a, const cni_field *f)
{
  cni_onnx_tensor *t;
  cni_onnx_sparse *sparse;
  cni_onnx_type *type;
  switch (f->number) {
  case 1: return (a->name = text(r, f)) ? CN_OK : cn_err();
  case 2: a->f = (double)cni_wire_float(f->value); break;
  case 3: a->i = (int64_t)f->value; break;
  case 4:
    if (f->type != CNI_WIRE_BYTES) return bad("a text is a number");
    a->n = f->bytes.n;
    return (a->s = cni_arena_text(r->arena, f->bytes)) ? CN_OK : cn_err();
  case 5: return (a->t = ROOM_FOR(t, 1)) ? read_tensor(r, t, f->bytes) : cn_err();
  case 6: return ROOM_FOR(a->g, 1) ? read_graph(r, a->g, f->bytes) : cn_err();
  case 14: return (a->type = ROOM_FOR(type, 1)) ? read_type(r, type, f->bytes) : cn_err();
  case 20: a->kind = f->value <= CNI_ATTR_TYPES ? (cni_onnx_attr_kind)f->value : CNI_ATTR_NONE; break;
  case 21: return (a->refers = text(r, f)) ? CN_OK : cn_err();
  case 22: return (a->sparse = ROOM_FOR(sparse, 1)) ? read_sparse(r, sparse, f->bytes) : cn_err();
  default: break;
  }
  return CN_OK;
}

static int read_texts(const reader *r, cni_onnx_attr *a, cni_wire_bytes message, size_t n)
{
  const char **ss;
  size_t *sizes, i = 0;
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  if (!ROOM_FOR(ss, n) || !ROOM_FOR(sizes, n)) return cn_err();
  while (cni_wire_next(&w, &f)) {
    if (f.number != 9) continue;
    sizes[i] = f.bytes.n;
    if (!(ss[i++] = cni_arena_text(r->arena, f.bytes))) return cn_err();
  }
  a->ss = ss;
  a->sizes = sizes;
  a->n = n;
  return CN_OK;
}

/* What the attribute is where it does not say so itself, as files of the first version did. */
static cni_onnx_attr_kind kind_of(const size_t counts[FIELDS])
{
  static const struct {
    uint32_t number;
    cni_onnx_attr_kind kind;
  } kinds[] = {{2, CNI_ATTR_FLOAT}, {3, CNI_ATTR_INT},    {4, CNI_ATTR_STRING}, {5, CNI_ATTR_TENSOR},
               {6, CNI_ATTR_GRAPH}, {7, CNI_ATTR_FLOATS}, {8, CNI_ATTR_INTS},   {9, CNI_ATTR_STRINGS},
               {14, CNI_ATTR_TYPE}, {22, CNI_ATTR_SPARSE}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (counts[kinds[i].number]) return kinds[i].kind;
  return CNI_ATTR_NONE;
}

static int read_attr(const reader *r, cni_onnx_attr *a, cni_wire_bytes message)
{
  size_t counts[FIELDS];
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *a = (cni_onnx_attr){.name = "", .s = ""};
  if (count(counts, message)) return cn_err();
  while (cni_wire_next(&w, &f))
    if (read_attr_field(r, a, &f)) return cn_err();
  if (a->kind == CNI_ATTR_NONE && !a->refers) a->kind = kind_of(counts);
  if (a->kind != CNI_ATTR_GRAPH) a->g = NULL; /* who looks for graphs looks at g alone */
  if (a->kind == CNI_ATTR_GRAPH && !a->g) return bad("an attribute has no graph");
  if (a->kind == CNI_ATTR_TENSOR && !a->t) return bad("an attribute has no tensor");
  if (a->kind == CNI_ATTR_SPARSE && !a->sparse) return bad("an attribute has no sparse tensor");
  if (a->kind == CNI_ATTR_INTS) return ints(r, &a->is, &a->n, message, 8);
  if (a->kind == CNI_ATTR_FLOATS) return floats(r, &a->fs, &a->n, message, 7);
  return a->kind == CNI_ATTR_STRINGS ? read_texts(r, a, message, counts[9]) : CN_OK;
}

static int read_node(const reader *r, cni_onnx_node *n, cni_wire_bytes message)
{
  size_t counts[FIELDS];
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *n = (cni_onnx_node){.name = "", .op = "", .domain = "", .overload = ""};
  if (count(counts, message)) return cn_err();
  if (!ROOM_FOR(n->input_names, counts[1]) || !ROOM_FOR(n->output_names, counts[2]) ||
      !ROOM_FOR(n->attrs, counts[5]) || !ROOM_FOR(n->once, 1))
    return cn_err();
  while (cni_wire_next(&w, &f)) {
    const char **to = NULL;
    switch (f.number) {
    case 1: to = &n->input_names[n->ninputs++]; break;
    case 2: to = &n->output_names[n->noutputs++]; break;
    case 3: to = &n->name; break;
    case 4: to = &n->op; break;
    case 7: to = &n->domain; break;
    case 8: to = &n->overload; break;
    case 5:
      if (read_attr(r, &n->attrs[n->nattrs++], f.bytes)) return cn_err();
      break;
    default: break;
    }
    if (to && !(*to = text(r, &f))) return cn_err();
  }
  if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
  return CN_OK;
}

/* ---- graphs ---- */

static int read_graph_field(const reader *r, cni_onnx_graph *g, const cni_field *f)
{
  switch (f->number) {
  case 1: return read_node(r, &g->nodes[g->nnodes++], f->bytes);
  case 2: return (g->name = text(r, f)) ? CN_OK : cn_err();
  case 5: return read_tensor(r, &g->initials[g->ninitials++], f->bytes);
  case 11: return read_name(r, &g->inputs[g->ninputs++], f->bytes);
  case 12: return read_name(r, &g->outputs[g->noutputs++], f->bytes);
  case 13: return read_name(r, &g->infos[g->ninfos++], f->bytes);
  case 15: return read_sparse(r, &g->sparses[g->nsparses++], f->bytes);
  default: return CN_OK;
  }
}

static int read_graph(const reader *outer, cni_onnx_graph *g, cni_wire_bytes message)
{
  reader inner = {outer->arena, outer->depth + 1}, *r = &inner;
  size_t counts[FIELDS];
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  if (r->depth > DEPTH) return bad("graphs lie too deep in one another");
  *g = (cni_onnx_graph){.name = ""};
  if (count(counts, message)) return cn_err();
  if (!ROOM_FOR(g->nodes, counts[1]) || !ROOM_FOR(g->initials, counts[5]) || !ROOM_FOR(g->inputs, counts[11]) ||
      !ROOM_FOR(g->outputs, counts[12]) || !ROOM_FOR(g->infos, counts[13]) || !ROOM_FOR(g->sparses, counts[15]))
    return cn_err();
  while (cni_wire_next(&w, &f))
    if (read_graph_field(r, g, &f)) return cn_err();
  return CN_OK;
}

static int read_opset(const reader *r, cni_onnx_opset *o, cni_wire_bytes message)
{
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *o = (cni_onnx_opset){"", 0};
  while (cni_wire_next(&w, &f)) {
    if (f.number == 1 && !(o->domain = text(r, &f))) return cn_err();
    if (f.number == 2) o->version = (int64_t)f.value;
  }
  if (!strcmp(o->domain, "ai.onnx")) o->domain = "";
  return w.bad ? bad("an opset ends in the middle") : CN_OK;
}

/* ---- functions ---- */

static int read_function_field(const reader *r, cni_onnx_function *fn, const cni_field *f)
{
  cni_onnx_graph *g = &fn->body;
  switch (f->number) {
  case 1: return (fn->name = text(r, f)) ? CN_OK : cn_err();
  case 4: return (g->inputs[g->ninputs++].name = text(r, f)) ? CN_OK : cn_err();
  case 5: return (g->outputs[g->noutputs++].name = text(r, f)) ? CN_OK : cn_err();
  case 6: return (fn->needs[fn->nneeds++] = text(r, f)) ? CN_OK : cn_err();
  case 7: return read_node(r, &g->nodes[g->nnodes++], f->bytes);
  case 9: return read_opset(r, &fn->opsets[fn->nopsets++], f->bytes);
  case 10: return (fn->domain = text(r, f)) ? CN_OK : cn_err();
  case 11: return read_attr(r, &fn->defaults[fn->ndefaults++], f->bytes);
  case 13: return (fn->overload = text(r, f)) ? CN_OK : cn_err();
  default: return CN_OK;
  }
}

static int read_function(const reader *r, cni_onnx_function *fn, cni_wire_bytes message)
{
  size_t counts[FIELDS];
  cni_onnx_graph *g = &fn->body;
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  *fn = (cni_onnx_function){.name = "", .domain = "", .overload = "", .body.name = ""};
  if (count(counts, message)) return cn_err();
  if (!ROOM_FOR(g->inputs, counts[4]) || !ROOM_FOR(g->outputs, counts[5]) || !ROOM_FOR(fn->needs, counts[6]) ||
      !ROOM_FOR(g->nodes, counts[7]) || !ROOM_FOR(fn->opsets, counts[9]) || !ROOM_FOR(fn->defaults, counts[11]))
    return cn_err();
  while (cni_wire_next(&w, &f))
    if (read_function_field(r, fn, &f)) return cn_err();
  g->name = fn->name;
  if (!strcmp(fn->domain, "ai.onnx")) fn->domain = "";
  return CN_OK;
}

/* ---- the model ---- */

static int read_metadata(const reader *r, cni_onnx_model *m, cni_wire_bytes message)
{
  const char **to = m->metadata + 2 * m->nmetadata++;
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  to[0] = to[1] = "";
  while (cni_wire_next(&w, &f))
    if ((f.number == 1 || f.number == 2) && !(to[f.number - 1] = text(r, &f))) return cn_err();
  return w.bad ? bad("metadata end in the middle") : CN_OK;
}

static int read_model_field(const reader *r, cni_onnx_model *m, const cni_field *f)
{
  switch (f->number) {
  case 1: m->ir = (int64_t)f->value; return CN_OK;
  case 2: return (m->producer = text(r, f)) ? CN_OK : cn_err();
  case 3: return (m->producer_version = text(r, f)) ? CN_OK : cn_err();
  case 4: return (m->domain = text(r, f)) ? CN_OK : cn_err();
  case 5: m->version = (int64_t)f->value; return CN_OK;
  case 6: return (m->doc = text(r, f)) ? CN_OK : cn_err();
  case 7: return read_graph(r, &m->graph, f->bytes);
  case 8: return read_opset(r, &m->opsets[m->nopsets++], f->bytes);
  case 14: return read_metadata(r, m, f->bytes);
  case 25: return read_function(r, &m->functions[m->nfunctions++], f->bytes);
  default: return CN_OK;
  }
}

int cni_onnx_read(cni_onnx_model *m)
{
  reader root = {&m->arena, 0}, *r = &root;
  cni_wire_bytes message = {m->source->data, m->source->size};
  size_t counts[FIELDS];
  cni_wire_walk w = cni_wire_of(message);
  cni_field f;
  m->arena.most = m->source->size < SIZE_MAX / GROWTH - ROOM ? m->source->size * GROWTH + ROOM : SIZE_MAX;
  m->producer = m->producer_version = m->domain = m->doc = m->graph.name = "";
  if (count(counts, message) || counts[7] != 1)
    return cn_err() ? cn_err() : cni_onnx_bad(m, "this is no ONNX model: it has no graph");
  if (!ROOM_FOR(m->opsets, counts[8]) || !ROOM_FOR(m->metadata, counts[14] + counts[14]) ||
      !ROOM_FOR(m->functions, counts[25]))
    return cn_err();
  while (cni_wire_next(&w, &f))
    if (read_model_field(r, m, &f)) return cn_err();
  return CN_OK;
}

/* ---- the end ---- */

static void graph_free(cni_onnx_graph *g)
{
  for (size_t i = 0; g->values && i < g->ninitials + g->nsparses; i++) cn_onnx_value_release(g->values[i]);
  for (size_t i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].once) cn_onnx_value_release(atomic_load(g->nodes[i].once));
    for (size_t k = 0; k < g->nodes[i].nattrs; k++) {
      cn_onnx_value_release(g->nodes[i].attrs[k].value);
      if (g->nodes[i].attrs[k].g) graph_free(g->nodes[i].attrs[k].g);
    }
  }
}

void cni_onnx_model_release(cni_onnx_model *m)
{
  if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
  graph_free(&m->graph);
  for (size_t i = 0; i < m->nfunctions; i++) {
    graph_free(&m->functions[i].body);
    for (size_t k = 0; k < m->functions[i].ndefaults; k++) cn_onnx_value_release(m->functions[i].defaults[k].value);
  }
  cni_onnx_externals_free(m);
  cni_source_free(m->source);
  cn_string_free(m->folder);
  cni_arena_free(&m->arena);
  cn_free(m, sizeof *m);
}
