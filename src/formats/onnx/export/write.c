/* write.c: a model's bytes: names for all values, what nobody reads left out, weights inside or in a file of their
 * own.
 *
 * Place in the flow: behind model.c. Invariant: what is put is what was counted before: the graph's size stands in
 * front of it. Weights go from their memory to the file without a copy of all of them. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "proto.h"
#include "save.h"

enum { ALIGN = 64 };                            /* of weights in a file of their own */
#define MOST ((uint64_t)0x7fffffff - (1 << 20)) /* bytes of a message */
enum { SMALL = 1024 };                          /* initialisers of so many bytes stay in the model */

typedef struct writing {
  cni_oxsave *s;
  bool *live, *named;    /* per name: something reads it; it is a result of a node that is written */
  const char *file;      /* of weights that lie elsewhere; NULL: they are in the model */
  uint64_t at;           /* in it */
  cn_text nodes, around; /* of the graph: nodes; inputs and outputs */
} writing;

/* ---- what is needed ---- */

static void mark_live(writing *w)
{
  const cni_ox *x = &w->s->x;
  for (size_t i = 0; i < w->s->noutputs; i++) w->live[w->s->outputs[i]] = true;
  for (size_t i = 0; i < w->s->ninputs; i++) w->live[w->s->inputs[i]] = true;
  for (size_t i = x->nnodes; i-- > 0;) {
    const cni_oxnode *n = &x->nodes[i];
    bool live = false;
    for (int k = 0; k < n->nout; k++) live = live || (n->out[k] >= 0 && w->live[n->out[k]]);
    for (int k = 0; k < n->nin && live; k++)
      if (n->in[k] >= 0) w->live[n->in[k]] = true;
    for (int k = 0; k < n->nout && live; k++) w->named[n->out[k]] = true;
    for (int k = 0; k < n->nsubs && live; k++) {
      const cni_oxgraph *g = &x->graphs[n->subs[k]];
      for (int o = 0; o < g->noutputs; o++) w->live[g->outputs[o]] = true;
      for (int in = 0; in < g->ninputs; in++) w->named[g->inputs[in]] = true;
    }
  }
}

static bool is_live(const writing *w, const cni_oxnode *n)
{
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0 && w->live[n->out[k]]) return true;
  return false;
}

/* Every value that has no name yet is called after the op that it was made for. */
static void name_all(writing *w)
{
  cni_ox *x = &w->s->x;
  char name[80];
  for (size_t i = 0; i < x->nnames && !x->failed; i++) {
    if (x->names[i].text || !(w->live[i] || w->named[i])) continue;
    int n = snprintf(name, sizeof name - 8, "%s_%zu", x->names[i].hint ? x->names[i].hint : "value", i);
    for (n = n < 71 ? n : 71; n < 78 && cni_ox_is_taken(x, name); n++) name[n] = '_', name[n + 1] = 0;
    x->names[i].text = cni_ox_word(x, name, strlen(name));
  }
}

/* ---- nodes ---- */

static void put_graph(writing *w, cn_text *t, int graph);

/* Results that nobody reads are left out where the operator may do without them. */
static bool is_left_out(const writing *w, const cni_oxnode *n, int k)
{
  static const char *const optional[] = {"MaxPool", "LayerNormalization", "LSTM", "GRU", "RNN"};
  if (n->out[k] < 0) return true;
  for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
    if (!strcmp(n->op, optional[i]) && (k > 0 || i > 1)) return !w->live[n->out[k]];
  return false;
}

static void put_node(writing *w, cn_text *t, const cni_oxnode *n)
{
  const cni_ox *x = &w->s->x;
  cn_text node = {0}, attr = {0}, graph = {0};
  for (int k = 0; k < n->nin; k++) cni_proto_string(&node, 1, n->in[k] < 0 ? "" : x->names[n->in[k]].text);
  for (int k = 0; k < n->nout; k++) cni_proto_string(&node, 2, is_left_out(w, n, k) ? "" : x->names[n->out[k]].text);
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0 && w->live[n->out[k]]) {
      cni_proto_string(&node, 3, x->names[n->out[k]].text);
      break;
    }
  cni_proto_string(&node, 4, n->op);
  if (n->attrs_n) cn_text_put_bytes(&node, n->attrs, n->attrs_n);
  for (int k = 0; k < n->nsubs; k++) {
    cni_proto_string(&attr, 1, n->sub_names[k]);
    put_graph(w, &graph, n->subs[k]);
    cni_proto_message(&attr, 6, &graph);
    cni_proto_int(&attr, 20, CNI_ATTR_GRAPH);
    cni_proto_message(&node, 5, &attr);
  }
  cni_proto_message(t, 1, &node);
}

/* ValueInfoProto: name, type, sizes as far as they are known. */
static void put_info(writing *w, cn_text *t, uint32_t field, int id)
{
  const cni_oxname *name = &w->s->x.names[id];
  cn_text info = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};
  cni_proto_string(&info, 1, name->text);
  cni_proto_int(&tensor, 1, cni_onnx_type_of((cn_dtype)name->dtype));
  for (int k = 0; k < name->ndim && name->shape; k++) {
    const char *symbol = name->symbols ? name->symbols[k] : NULL;
    if (symbol && *symbol) cni_proto_string(&dim, 2, symbol);
    else if (!symbol) cni_proto_int(&dim, 1, name->shape[k]);
    cni_proto_message(&shape, 1, &dim);
  }
  if (name->shape) cni_proto_message(&tensor, 2, &shape);
  cni_proto_message(&type, 1, &tensor);
  cni_proto_message(&info, 2, &type);
  cni_proto_message(t, field, &info);
}

static void put_nodes(writing *w, cn_text *t, int graph)
{
  const cni_ox *x = &w->s->x;
  for (size_t i = 0; i < x->nnodes; i++)
    if (x->nodes[i].graph == graph && is_live(w, &x->nodes[i])) put_node(w, t, &x->nodes[i]);
}

/* A graph inside of a node. Its inputs and results have types; what it reads from outside goes by name. */
static void put_graph(writing *w, cn_text *t, int graph)
{
  const cni_oxgraph *g = &w->s->x.graphs[graph];
  put_nodes(w, t, graph);
  cn_text name = {0};
  cn_text_putf(&name, "graph_%d", graph);
  cni_proto_string(t, 2, name.s ? name.s : "");
  cn_text_free(&name);
  for (int k = 0; k < g->ninputs; k++) put_info(w, t, 11, g->inputs[k]);
  for (int k = 0; k < g->noutputs; k++) put_info(w, t, 12, g->outputs[k]);
}

/* ---- weights: TensorProto ---- */

static unsigned packed(int dtype)
{
  return dtype == CN_U4 || dtype == CN_I4 || dtype == CN_F4E2M1 ? 2 : dtype == CN_U2 || dtype == CN_I2 ? 4 : 1;
}

static int64_t count_of(const cni_oxname *name)
{
  int64_t n = 1;
  for (int k = 0; k < name->ndim; k++) n *= name->shape[k];
  return n;
}

static uint64_t size_of(const cni_oxname *name)
{
  uint64_t n = (uint64_t)count_of(name), per = packed(name->dtype);
  return per > 1 ? (n + per - 1) / per : n * cn_dtype_size((cn_dtype)name->dtype);
}

static bool is_initial(const writing *w, size_t i)
{
  const cni_oxname *name = &w->s->x.names[i];
  return w->live[i] && (name->tensor || name->bytes);
}

static void put_entry(cn_text *t, const char *key, const char *value)
{
  cn_text entry = {0};
  cni_proto_string(&entry, 1, key);
  cni_proto_string(&entry, 2, value);
  cni_proto_message(t, 13, &entry);
}

static void put_place(cn_text *t, const char *key, uint64_t v)
{
  cn_text number = {0};
  cn_text_putf(&number, "%llu", (unsigned long long)v);
  put_entry(t, key, number.s ? number.s : "");
  cn_text_free(&number);
}

static uint64_t aligned(uint64_t at) { return (at + ALIGN - 1) / ALIGN * ALIGN; }

static bool lies_elsewhere(const writing *w, const cni_oxname *name)
{
  return w->file && name->tensor && size_of(name) > SMALL;
}

/* All of a tensor but its bytes; for those in the model the head of their field stands last. */
static void tensor_head(writing *w, cn_text *t, const cni_oxname *name)
{
  uint64_t n = size_of(name);
  for (int k = 0; k < name->ndim; k++) cni_proto_int(t, 1, name->shape[k]);
  cni_proto_int(t, 2, cni_onnx_type_of((cn_dtype)name->dtype));
  cni_proto_string(t, 8, name->text);
  if (lies_elsewhere(w, name)) {
    put_entry(t, "location", w->file);
    put_place(t, "offset", w->at = aligned(w->at));
    put_place(t, "length", n);
    cni_proto_int(t, 14, 1);
    w->at += n;
  } else {
    cni_proto_head(t, 9, n);
  }
}

static const void *bytes_of(const cni_oxname *name) { return name->tensor ? cn_data(name->tensor) : name->bytes; }

static int put_bytes(cn_writer *out, const cni_oxname *name)
{
  unsigned per = packed(name->dtype), bits = 8 / per;
  const unsigned char *p = bytes_of(name);
  int64_t n = count_of(name);
  if (per == 1) return size_of(name) ? cn_writer_put(out, p, (size_t)size_of(name)) : CN_OK;
  int status = CN_OK;
  for (int64_t i = 0; i < n && !status; i += per) {
    unsigned char byte = 0;
    for (unsigned k = 0; k < per && i + k < n; k++)
      byte = (unsigned char)(byte | (p[i + k] & ((1u << bits) - 1)) << k * bits);
    status = cn_writer_put(out, &byte, 1);
  }
  return status;
}

/* Initialisers with their heads; out NULL: only counted. */
static uint64_t put_initials(writing *w, cn_writer *out, int *status)
{
  const cni_ox *x = &w->s->x;
  uint64_t total = 0;
  w->at = 0;
  for (size_t i = 0; i < x->nnames && !*status; i++) {
    cn_text head = {0}, field = {0};
    if (!is_initial(w, i)) continue;
    tensor_head(w, &head, &x->names[i]);
    uint64_t inside = lies_elsewhere(w, &x->names[i]) ? 0 : size_of(&x->names[i]);
    cni_proto_head(&field, 5, head.n + inside);
    total += field.n + head.n + inside;
    if (head.failed || field.failed) *status = CN_ERR_MEMORY;
    if (out && !*status) *status = cn_writer_put(out, field.s, field.n);
    if (out && !*status) *status = cn_writer_put(out, head.s, head.n);
    if (out && !*status && inside) *status = put_bytes(out, &x->names[i]);
    cn_text_free(&head);
    cn_text_free(&field);
  }
  return total;
}

/* ---- the file of weights ---- */

static int put_weights(writing *w, const char *path)
{
  const cni_ox *x = &w->s->x;
  static const char zeros[ALIGN] = {0};
  cn_writer *out = cn_writer_open(path);
  int status = out ? CN_OK : cn_err();
  for (size_t i = 0; i < x->nnames && !status; i++) {
    if (!is_initial(w, i) || !lies_elsewhere(w, &x->names[i])) continue;
    uint64_t gap = aligned(cn_writer_at(out)) - cn_writer_at(out);
    if (gap) status = cn_writer_put(out, zeros, (size_t)gap);
    if (!status) status = put_bytes(out, &x->names[i]);
  }
  if (!status) return cn_writer_commit(out);
  cn_writer_abandon(out);
  return status;
}

/* ---- the model ---- */

static int ir_version(int opset)
{
  static const struct {
    int opset, ir;
  } versions[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {13, 7}};
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
    if (opset >= versions[i].opset) return versions[i].ir;
  return 7;
}

static void put_heading(writing *w, cn_text *t, uint64_t graph)
{
  cn_text opset = {0};
  cni_proto_int(t, 1, ir_version(w->s->x.opset));
  cni_proto_string(t, 2, "cairn");
  cni_proto_string(t, 3, cn_version());
  if (w->s->opts->doc) cni_proto_string(t, 6, w->s->opts->doc);
  cni_proto_string(&opset, 1, "");
  cni_proto_int(&opset, 2, w->s->x.opset);
  cni_proto_message(t, 8, &opset);
  cni_proto_head(t, 7, graph);
}

static int put_model(writing *w, cn_writer *out)
{
  cn_text heading = {0}, name = {0};
  int status = CN_OK;
  cni_proto_string(&name, 2, "main");
  uint64_t graph = w->nodes.n + name.n + put_initials(w, NULL, &status) + w->around.n;
  put_heading(w, &heading, graph);
  if (heading.failed || name.failed || w->nodes.failed || w->around.failed) status = CN_ERR_MEMORY;
  if (!status && graph > MOST)
    status = cn_err_set(CN_ERR_IO, "onnx: a model of more than 2 GB: its weights must lie in a file of their own");
  if (!status) status = cn_writer_put(out, heading.s, heading.n);
  if (!status && w->nodes.n) status = cn_writer_put(out, w->nodes.s, w->nodes.n);
  if (!status) status = cn_writer_put(out, name.s, name.n);
  if (!status) put_initials(w, out, &status);
  if (!status && w->around.n) status = cn_writer_put(out, w->around.s, w->around.n);
  cn_text_free(&heading);
  cn_text_free(&name);
  return status;
}

static int begin(writing *w, cni_oxsave *s)
{
  *w = (writing){.s = s, .live = cn_alloc_zero(2 * s->x.nnames + 1)};
  if (!w->live) return CN_ERR_MEMORY;
  w->named = w->live + s->x.nnames;
  mark_live(w);
  name_all(w);
  put_nodes(w, &w->nodes, 0);
  for (size_t i = 0; i < s->ninputs; i++) put_info(w, &w->around, 11, s->inputs[i]);
  for (size_t i = 0; i < s->noutputs; i++) put_info(w, &w->around, 12, s->outputs[i]);
  return s->x.failed || w->nodes.failed || w->around.failed ? CN_ERR_MEMORY : CN_OK;
}

static void end(writing *w)
{
  if (w->live) cn_free(w->live, 2 * w->s->x.nnames + 1);
  cn_text_free(&w->nodes);
  cn_text_free(&w->around);
}

static int finished(int status)
{
  if (status && !cn_err()) cn_err_set(status, "onnx: the model cannot be written");
  return cn_err();
}

static int write_to(writing *w, cn_writer *out)
{
  int status = out ? put_model(w, out) : cn_err();
  if (out && !status) return cn_writer_commit(out);
  cn_writer_abandon(out);
  return status;
}

/* Weights lie in NAME.data beside the model where that is asked for, or it would be too large for readers. */
static int choose_file(writing *w, const char *path, cn_text *data)
{
  int status = CN_OK;
  cn_onnx_external how = w->s->opts->external;
  const char *slash = strrchr(path, '/');
  if (how == CN_ONNX_EXTERNAL_AUTO && put_initials(w, NULL, &status) + w->nodes.n > MOST) how = CN_ONNX_EXTERNAL_YES;
  if (status || how != CN_ONNX_EXTERNAL_YES) return status;
  cn_text_putf(data, "%s.data", path);
  w->file = data->failed ? NULL : slash ? data->s + (slash + 1 - path) : data->s;
  for (size_t i = 0; i < w->s->x.nnames && w->file; i++)
    if (is_initial(w, i) && lies_elsewhere(w, &w->s->x.names[i])) return put_weights(w, data->s);
  return w->file ? CN_OK : CN_ERR_MEMORY;
}

int cn_onnx_save_with(const cn_graph *graph, const char *path, const cn_onnx_save_opts *opts)
{
  static const cn_onnx_save_opts none = {.size = sizeof none};
  cni_oxsave s = {.opts = opts ? opts : &none};
  writing w = {0};
  cn_text data = {0};
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_VALUE, "onnx: there is no path");
  int status = cni_ox_make(&s, graph);
  if (!status) status = begin(&w, &s);
  if (!status) status = choose_file(&w, path, &data);
  if (!status) status = write_to(&w, cn_writer_open(path));
  end(&w);
  cn_text_free(&data);
  cni_ox_free(&s.x);
  return finished(status);
}

/* ---- in memory ---- */

static int append(const void *bytes, size_t size, void *payload)
{
  cn_text *t = payload;
  cn_text_put_bytes(t, bytes, size);
  return t->failed ? cn_err_set(CN_ERR_MEMORY, "onnx: out of memory") : CN_OK;
}

cn_tensor *cn_onnx_bytes_with(const cn_graph *graph, const cn_onnx_save_opts *opts)
{
  static const cn_onnx_save_opts none = {.size = sizeof none};
  cni_oxsave s = {.opts = opts ? opts : &none};
  writing w = {0};
  cn_text t = {0};
  cn_tensor *bytes = NULL;
  if (cn_err()) return NULL;
  int status = CN_OK;
  if (s.opts->external == CN_ONNX_EXTERNAL_YES)
    status = cn_err_set(CN_ERR_VALUE, "onnx: bytes have no other file for their weights");
  if (!status) status = cni_ox_make(&s, graph);
  if (!status) status = begin(&w, &s);
  if (!status) status = write_to(&w, cn_writer_to(append, &t));
  if (!status) bytes = cn_empty(CN_SHAPE((int64_t)t.n), .dtype = CN_U8);
  if (bytes) memcpy(cn_data(bytes), t.s, t.n);
  end(&w);
  cn_text_free(&t);
  cni_ox_free(&s.x);
  finished(status);
  return bytes;
}
