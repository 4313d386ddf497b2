/* api.c: cairn/onnx.h: models from files and memory, what they take and give, runs. */
#include <cairn/ext/graph.h>
#include <string.h>

#include "run.h"

const cni_onnx_model *cni_onnx_model_of(const cn_onnx *o) { return o->model; }

/* ---- loading ---- */

void cn_onnx_free(cn_onnx *o)
{
  if (!o) return;
  cni_onnx_model_release(o->model);
  cn_free(o, sizeof *o);
}

cn_onnx *cni_onnx_again(const cn_onnx *o)
{
  cn_onnx *made = cn_alloc_zero(sizeof *made);
  if (!made) return NULL;
  *made = *o;
  atomic_fetch_add_explicit(&made->model->refs, 1, memory_order_relaxed);
  return made;
}

static int list_inputs(cn_onnx *o)
{
  cni_onnx_graph *g = &o->model->graph;
  o->inputs = cni_arena_take(&o->model->arena, g->ninputs + 1, sizeof *o->inputs);
  for (size_t i = 0; o->inputs && i < g->ninputs; i++)
    if (g->inputs[i].initial < 0) o->inputs[o->ninputs++] = &g->inputs[i];
  return o->inputs ? CN_OK : cn_err();
}

/* Takes the source and the folder over. */
static cn_onnx *load(cni_source *source, char *folder, const cn_onnx_opts *opts)
{
  cn_onnx_opts room;
  const cn_onnx_opts *o = cn_opts_read(&room, sizeof room, opts, "onnx_load");
  cn_onnx *made = o && source ? cn_alloc_zero(sizeof *made) : NULL;
  cni_onnx_model *m = made ? cn_alloc_zero(sizeof *m) : NULL;
  if (!m) {
    cni_source_free(source);
    cn_string_free(folder);
    cn_free(made, sizeof *made);
    return NULL;
  }
  made->model = m;
  atomic_init(&m->refs, 1);
  m->source = source;
  m->folder = folder;
  m->beside = folder && !o->folder;
  m->device = o->device ? o->device : cn_default_device();
  m->partial = o->partial;
  if (o->folder) {
    cn_string_free(folder);
    m->folder = cn_string_copy(o->folder);
  }
  void *paused = cn_trace_pause(); /* its tensors live on */
  int status = cni_onnx_read(m);
  if (!status) status = cni_onnx_check(m);
  if (!status) status = cni_onnx_find_weights(m);
  if (!status) status = list_inputs(made);
  if (!status) status = cni_onnx_list_nodes(made);
  cn_trace_resume(paused);
  if (!status) return made;
  cn_onnx_free(made);
  return NULL;
}

cn_onnx *cn_onnx_load_with(const char *path, const cn_onnx_opts *opts)
{
  cni_source *source = cni_source_open(path);
  const char *slash = source ? strrchr(path, '/') : NULL;
  char *folder = !source ? NULL
                 : slash ? cn_string_copy_bytes(path, (size_t)(slash - path + 1))
                         : cn_string_copy(".");
  if (source && !folder) {
    cni_source_free(source);
    source = NULL;
  }
  return load(source, folder, opts);
}

cn_onnx *cn_onnx_load_memory_with(const void *bytes, size_t size, const cn_onnx_opts *opts)
{
  void *copy = cn_alloc(size);
  if (!copy) return NULL;
  if (size) memcpy(copy, bytes, size);
  return load(cni_source_take(copy, size, size, "memory"), NULL, opts);
}

cn_onnx_value *cn_onnx_value_read(const void *bytes, size_t size)
{
  cni_onnx_model m = {.source = cni_source_memory(bytes, size, "memory")};
  cni_onnx_tensor t;
  cn_onnx_value *v = NULL;
  if (m.source && !cni_onnx_read_tensor(&t, &m.arena, (cni_wire_bytes){bytes, size})) v = cni_onnx_make(&m, &t);
  cni_source_free(m.source);
  cni_arena_free(&m.arena);
  return v;
}

/* ---- what it takes and gives ---- */

size_t cn_onnx_inputs(const cn_onnx *o) { return o->ninputs; }
size_t cn_onnx_outputs(const cn_onnx *o) { return o->model->graph.noutputs; }

void cni_onnx_describe(cn_onnx_info *info, const cni_onnx_name *n)
{
  static const cn_onnx_kind kinds[] = {CN_ONNX_TENSOR, CN_ONNX_TENSOR, CN_ONNX_TENSOR, CN_ONNX_SEQUENCE, CN_ONNX_MAP};
  const cni_onnx_type *t = &n->type;
  *info = (cn_onnx_info){.name = n->name, .kind = CN_ONNX_TENSOR, .ndim = -1};
  for (; t && t->kind == CNI_TYPE_OPTIONAL; t = t->of) info->optional = true;
  if (!t) return;
  info->kind = kinds[t->kind];
  if (t->kind == CNI_TYPE_TENSOR && t->element == CNI_ONNX_STRING) info->kind = CN_ONNX_STRINGS;
  if (t->kind == CNI_TYPE_SEQUENCE && t->of) t = t->of;
  if (t->kind == CNI_TYPE_TENSOR || t->kind == CNI_TYPE_SPARSE) info->dtype = cni_onnx_dtype(t->element);
  if (!t->ranked || t->ndims > CN_MAX_DIMS) return;
  info->ndim = (int)t->ndims;
  for (size_t i = 0; i < t->ndims; i++) {
    info->shape[i] = t->dims[i];
    info->symbols[i] = t->symbols[i];
  }
}

int cn_onnx_input_at(cn_onnx_info *info, const cn_onnx *o, size_t i)
{
  if (i >= o->ninputs) return cn_err_set(CN_ERR_INDEX, "onnx: there is no input %zu", i);
  cni_onnx_describe(info, o->inputs[i]);
  return CN_OK;
}

int cn_onnx_output_at(cn_onnx_info *info, const cn_onnx *o, size_t i)
{
  const cni_onnx_graph *g = &o->model->graph;
  if (i >= g->noutputs) return cn_err_set(CN_ERR_INDEX, "onnx: there is no output %zu", i);
  cni_onnx_describe(info, &g->outputs[i]);
  info->optional = g->outputs[i].type.kind == CNI_TYPE_OPTIONAL;
  return CN_OK;
}

/* ---- running ---- */

static bool is_output(const cni_onnx_graph *g, const char *name)
{
  for (size_t i = 0; i < g->noutputs; i++)
    if (!strcmp(g->outputs[i].name, name)) return true;
  return false;
}

/* An input must have the type, and the sizes as far as they are numbers, that the model says. No dimensions say
 * nothing: exporters write them for shapes that they do not know. */
static int check_input(const cn_onnx_info *info, const cn_tensor *t)
{
  const cn_desc *d = cn_desc_of(t);
  if (info->dtype && (int)info->dtype != d->dtype)
    return cn_err_set(CN_ERR_DTYPE, "onnx: input '%s' must be of %s, it is of %s", info->name,
                      cn_dtype_name(info->dtype), cn_dtype_name((cn_dtype)d->dtype));
  if (info->ndim <= 0) return CN_OK;
  if (info->ndim != d->ndim)
    return cn_err_set(CN_ERR_SHAPE, "onnx: input '%s' must have %d dimensions, it has %d", info->name, info->ndim,
                      d->ndim);
  for (int k = 0; k < info->ndim; k++)
    if (info->shape[k] >= 0 && info->shape[k] != d->shape[k])
      return cn_err_set(CN_ERR_SHAPE, "onnx: dimension %d of input '%s' must be %lld, it is %lld", k, info->name,
                        (long long)info->shape[k], (long long)d->shape[k]);
  return CN_OK;
}

/* Inputs have the first slots. */
static int feed(cni_onnx_frame *f, const cn_onnx *o, const cn_onnx_feed *given)
{
  const cni_onnx_graph *g = f->graph;
  cn_onnx_info info = {.ndim = -1};
  int32_t slot = cni_onnx_slot_of(o->model, given->name);
  if (slot < 0) return cni_onnx_bad(o->model, "the model has no input '%s'", given->name);
  if ((size_t)slot < g->ninputs) cni_onnx_describe(&info, &g->inputs[slot]);
  cn_tensor *t = cn_onnx_value_as_tensor(given->value);
  if (t && info.name && info.kind == CN_ONNX_TENSOR && check_input(&info, t)) return cn_err();
  if (t && cn_device_of(t) != CN_CPU) f->track = true;
  if (!t || !cn_trace_is_value(t)) return cni_onnx_feed_slot(f, slot, given->value);
  cn_onnx_value *v = cni_onnx_value_know(cn_onnx_value_tensor(t), t);
  int status = v ? cni_onnx_feed_slot(f, slot, v) : cn_err();
  cn_onnx_value_release(v);
  return status;
}

static int complete(const cni_onnx_frame *f, const cn_onnx *o)
{
  const cni_onnx_graph *g = f->graph;
  for (size_t i = 0; i < g->ninputs; i++)
    if (!f->slots[g->inputs[i].slot] && g->inputs[i].initial < 0 && g->inputs[i].type.kind != CNI_TYPE_OPTIONAL)
      return cn_err_set(CN_ERR_VALUE, "onnx: %s: input '%s' is missing", o->model->source->name, g->inputs[i].name);
  return CN_OK;
}

static int wanted(cn_onnx_value **outputs, const char *const *names, size_t n, const cni_onnx_frame *f)
{
  if (!names) return cni_onnx_results(outputs, f);
  for (size_t i = 0; i < n; i++) {
    int32_t slot = cni_onnx_slot_of(f->model, names[i]);
    outputs[i] = slot < 0 ? NULL : f->slots[slot] ? cn_onnx_value_keep(f->slots[slot]) : cn_onnx_value_none();
    if (outputs[i]) continue;
    if (!cn_err()) cn_err_set(CN_ERR_VALUE, "onnx: the model has no output '%s'", names[i]);
    while (i-- > 0) cn_onnx_value_release(outputs[i]);
    return cn_err();
  }
  return CN_OK;
}

int cn_onnx_run_named(cn_onnx_value **outputs, const char *const *names, size_t n, const cn_onnx *o,
                      const cn_onnx_feed *feeds, size_t nfeeds)
{
  cni_onnx_frame f = {.model = o->model};
  if (cn_err()) return cn_err();
  f.track = cn_tracing() || o->model->device != CN_CPU;
  for (size_t i = 0; names && i < n; i++) f.keep = f.keep || !is_output(&o->model->graph, names[i]);
  int status = cni_onnx_frame_begin(&f, NULL, &o->model->graph);
  for (size_t i = 0; !status && i < nfeeds; i++) status = feed(&f, o, &feeds[i]);
  if (!status) status = complete(&f, o);
  if (!status) status = cni_onnx_walk(&f);
  if (!status) status = wanted(outputs, names, n, &f);
  cni_onnx_frame_end(&f);
  return status;
}

/* Tensors for values, which go; those of no tensor are an error. */
static int as_tensors(cn_tensor **outputs, cn_onnx_value **values, const cn_onnx *o)
{
  for (size_t i = 0; i < cn_onnx_outputs(o); i++) {
    cn_tensor *t = cn_onnx_value_as_tensor(values[i]);
    outputs[i] = t ? cn_scope_give(cn_keep(t)) : NULL;
    if (!t) cn_err_set(CN_ERR_TYPE, "onnx: output '%s' is no tensor", o->model->graph.outputs[i].name);
    cn_onnx_value_release(values[i]);
  }
  return cn_err();
}

int cn_onnx_run(cn_tensor **outputs, const cn_onnx *o, cn_tensor *const *inputs)
{
  cni_arena room = {NULL};
  cn_onnx_feed *feeds = cni_arena_take(&room, o->ninputs + 1, sizeof *feeds);
  cn_onnx_value **made = cni_arena_take(&room, cn_onnx_outputs(o) + 1, sizeof *made);
  size_t n = 0;
  int status = feeds && made ? CN_OK : cn_err();
  for (size_t i = 0; !status && i < o->ninputs; i++) {
    if (!inputs[i]) continue;
    feeds[n] = (cn_onnx_feed){o->inputs[i]->name, cn_onnx_value_tensor(inputs[i])};
    status = feeds[n++].value ? CN_OK : cn_err();
  }
  if (!status) status = cn_onnx_run_named(made, NULL, 0, o, feeds, n);
  if (!status) status = as_tensors(outputs, made, o);
  for (size_t i = 0; i < n; i++) cn_onnx_value_release(feeds[i].value);
  cni_arena_free(&room);
  return status;
}
