/* describe_net.c: the net of a description file: a section a layer, blocks, sizes that follow. See describe.h.
 *
 * Place in the flow: sections -> modules of cn_module_class_find; each layer is traced on the shape that comes to it,
 * which moves no data and gives the shape for the next. Invariant: layers stand in a Sequential in the file's order, so
 * parameters are called as in torch.nn.Sequential. */
#include <cairn/autograd.h>
#include <cairn/graph.h>
#include <cairn/io.h>
#include <cairn/kw.h>
#include <cairn/nn.h>
#include <cairn/zoo.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"

/* ---- names ---- */

static const char *class_at(size_t i, const void *payload)
{
  (void)payload;
  const cn_module_class *cls = cn_module_class_at(i);
  return cls ? cls->name : NULL;
}

/* Blocks are closed by [end]; NULL: it is none. */
static const char *block_class(const char *section)
{
  static const char *const names[][2] = {
    {"repeat", ""}, {"residual", "Residual"}, {"parallel", "Parallel"}, {"sequential", "Sequential"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(section, names[i][0]) || (*names[i][1] && !strcmp(section, names[i][1]))) return names[i][1];
  return NULL;
}

static bool is_repeat(const cni_section *s) { return !strcmp(s->name, "repeat"); }
static bool is_end(const cni_section *s) { return !strcmp(s->name, "end"); }

static const cn_module_class *class_of(const cni_section *s)
{
  const char *block = block_class(s->name);
  return cn_module_class_find(block ? block : s->name);
}

/* The [end] of the block that begins at section i. */
static size_t block_end(const cn_description *d, size_t i)
{
  int depth = 0;
  for (; i < d->n; i++) {
    depth += block_class(d->v[i].name) != NULL;
    depth -= is_end(&d->v[i]);
    if (!depth) return i;
  }
  return i;
}

/* ---- checks ---- */

static const char *repeat_key_at(size_t i, const void *payload)
{
  (void)payload;
  return i ? NULL : "n";
}

static int check_keys(const cn_description *d, const cni_section *s)
{
  const cn_module_class *cls = is_repeat(s) ? NULL : class_of(s);
  const cn_signature *sig = cls ? cn_module_class_signature(cls) : NULL;
  if (cls && !sig) return cn_err() ? cn_err() : cni_describe_fail(d, s->line, "[%s] cannot be made by name", s->name);
  for (size_t i = 0; i < s->n; i++) {
    const cni_entry *e = &s->v[i];
    char what[80];
    if (cls ? !strcmp(e->key, "name") || cn_signature_find(sig, e->key) >= 0 : !strcmp(e->key, "n")) continue;
    snprintf(what, sizeof what, "argument of %s", s->name);
    return cni_describe_unknown(d, e->line, what, e->key, cls ? cni_parameter_at : repeat_key_at, sig);
  }
  if (is_repeat(s) && cn_tree_as_int(s->n ? s->v[0].value : NULL, 0) < 1)
    return cni_describe_fail(d, s->line, "[repeat] needs n, a whole number above 0");
  return CN_OK;
}

/* How many layers the sections of [begin, end) make, blocks counted, and those in a [repeat] as often as it says (once,
 * where there are none, since that takes time too); at most `most`. */
static int64_t layers_of(const cn_description *d, size_t begin, size_t end, int64_t most)
{
  int64_t n = 0;
  for (size_t i = begin; i < end && n < most; i++) {
    if (cni_is_head(d->v[i].name) || is_end(&d->v[i])) continue;
    if (!is_repeat(&d->v[i])) {
      n++;
      continue;
    }
    size_t last = block_end(d, i);
    int64_t times = cn_tree_as_int(cni_entry_find(&d->v[i], "n")->value, 1);
    int64_t inner = layers_of(d, i + 1, last, most);
    if (!inner) inner = 1;
    n = times > (most - n) / inner ? most : n + times * inner;
    i = last;
  }
  return n;
}

int cni_check_layers(const cn_description *d)
{
  enum { DEEPEST = 30, MOST = 10000 };
  const cni_section *open[DEEPEST];
  size_t depth = 0;
  for (size_t i = 0; i < d->n; i++) {
    const cni_section *s = &d->v[i];
    int status = CN_OK;
    if (is_end(s)) {
      if (!depth) return cni_describe_fail(d, s->line, "[end] without a block that it could end");
      if (s->n) return cni_describe_fail(d, s->line, "[end] takes no keys");
      depth--;
      continue;
    }
    if (cni_is_head(s->name)) {
      if (depth) return cni_describe_fail(d, s->line, "[%s] inside of [%s], which has no [end]", s->name,
                                          open[depth - 1]->name);
      continue;
    }
    if (depth == DEEPEST) return cni_describe_fail(d, s->line, "blocks nest deeper than %d", DEEPEST);
    if (block_class(s->name)) open[depth++] = s;
    else if (!cn_module_class_find(s->name)) return cni_describe_unknown(d, s->line, "layer", s->name, class_at, NULL);
    if ((status = check_keys(d, s))) return status;
  }
  if (depth) return cni_describe_fail(d, open[depth - 1]->line, "[%s] has no [end]", open[depth - 1]->name);
  if (layers_of(d, 0, d->n, MOST) == MOST)
    return cni_describe_fail(d, 0, "describes a net of %d layers or more", MOST);
  return CN_OK;
}

/* ---- shapes ---- */

/* A tensor of that shape that takes no memory to speak of; owned. */
static cn_tensor *stand_in(const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_keep(cn_expand(cn_zeros(CN_SCALAR_SHAPE, .dtype = dtype), shape, ndim));
  cn_scope_end(s);
  return t;
}

typedef struct tracing {
  cn_module *module;
  cni_input result;
} tracing;

static int note(tracing *t, const cn_tensor *y)
{
  if (!y) return cn_err();
  t->result.ndim = (size_t)cn_ndim(y);
  t->result.dtype = cn_dtype_of(y);
  if (t->result.ndim) memcpy(t->result.shape, cn_shape(y), t->result.ndim * sizeof *t->result.shape);
  return CN_OK;
}

static int traced(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  tracing *t = payload;
  outputs[0] = cn_forward_one(t->module, inputs, 1);
  return note(t, outputs[0]);
}

/* What m makes of *x, which it replaces. Modules that read values cannot be traced and are run. */
static int follow(cn_tensor **x, cn_module *m)
{
  tracing t = {.module = m};
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_module_train(m, false);
  cn_graph *graph = cn_trace(traced, 1, x, 1, &t);
  cn_graph_free(graph);
  if (cn_err() == CN_ERR_CAPTURE) {
    cn_err_clear();
    note(&t, cn_forward_one(m, x, 1));
  }
  cn_no_grad_end(saved);
  cn_scope_end(s);
  if (cn_err()) return cn_err();
  cn_tensor *y = stand_in(t.result.shape, t.result.ndim, t.result.dtype);
  if (!y) return cn_err();
  cn_release(*x);
  *x = y;
  return cn_module_train(m, true);
}

/* ---- layers ---- */

/* A size that follows from what comes to a layer; 0: it does not. */
static int64_t following(const char *parameter, const cn_tensor *x)
{
  static const struct {
    const char *name;
    int dim;
  } known[] = {{"in_channels", 1}, {"num_features", 1}, {"num_channels", 1}, {"in_features", -1}, {"input_size", -1},
               {"normalized_shape", -1}, {"d_model", -1}, {"embed_dim", -1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, parameter) && cn_ndim(x) > known[i].dim && cn_ndim(x) > 0)
      return cn_size(x, known[i].dim);
  return 0;
}

static int gather(cni_given *given, const cn_description *d, const cni_section *s, const cn_signature *sig,
                  const cn_tensor *x)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < s->n; i++)
    if (strcmp(s->v[i].key, "name") && cni_given_set(given, sig, cn_signature_find(sig, s->v[i].key), s->v[i].value))
      status = cni_describe_blame(d, s->v[i].line, s->name);
  for (int i = 0; !status && i < cn_signature_size(sig); i++) {
    cn_op_param p;
    status = cn_signature_param(&p, sig, i);
    if (status || p.default_text || cni_entry_find(s, p.name)) continue;
    int64_t size = following(p.name, x);
    if (!size) return cni_describe_fail(d, s->line, "[%s] needs %s", s->name, p.name);
    given->ints[i][0] = size;
    given->v[i] = strchr(p.type, '[') ? cn_v_ints(given->ints[i], 1) : cn_v_int(size);
  }
  return status;
}

/* The module of a section, without children. Owned. */
static cn_module *make(const cn_description *d, const cni_section *s, const cn_tensor *x)
{
  const cn_module_class *cls = class_of(s);
  const cn_signature *sig = cn_module_class_signature(cls);
  cni_given *given = cni_given_new(sig);
  cn_module *m = NULL;
  if (given && !gather(given, d, s, sig, x)) {
    m = cn_module_make_class(cls, given->v, (size_t)cn_signature_size(sig));
    if (!m) cni_describe_blame(d, s->line, s->name);
  }
  cni_given_free(given);
  return m;
}

static int build(const cn_description *d, size_t *i, cn_module *into, cn_tensor **x);

static int build_repeat(const cn_description *d, size_t *i, cn_module *into, cn_tensor **x)
{
  int64_t n = cn_tree_as_int(cni_entry_find(&d->v[*i], "n")->value, 1);
  size_t begin = *i + 1, end = block_end(d, *i);
  int status = CN_OK;
  for (int64_t k = 0; !status && k < n; k++) {
    size_t at = begin;
    status = build(d, &at, into, x);
  }
  *i = end;
  return status;
}

/* Adds the layer at section *i to `into`, and follows *x through it unless the children of `into` stand side by side.
 * *i becomes its last section. */
static int build_one(const cn_description *d, size_t *i, cn_module *into, cn_tensor **x, bool side_by_side)
{
  const cni_section *s = &d->v[*i];
  const cni_entry *name = cni_entry_find(s, "name");
  cn_module *m = make(d, s, *x);
  if (!m) return cn_err();
  int status = cn_module_add(into, name ? cn_tree_as_str(name->value, name->raw) : NULL, cn_module_keep(m));
  if (status) cni_describe_blame(d, s->line, s->name);
  if (!status && block_class(s->name)) {
    cn_tensor *inner = cn_keep(*x);
    ++*i;
    status = build(d, i, m, &inner);
    cn_release(inner);
  }
  if (!status && !side_by_side && (status = follow(x, m))) status = cni_describe_blame(d, s->line, s->name);
  cn_module_release(m);
  return status;
}

/* Sections from *i up to the [end] of their block, or of the file; *i becomes that. */
static int build(const cn_description *d, size_t *i, cn_module *into, cn_tensor **x)
{
  bool side_by_side = !strcmp(into->cls->name, "Parallel");
  int status = CN_OK;
  for (; !status && *i < d->n && !is_end(&d->v[*i]); ++*i) {
    if (cni_is_head(d->v[*i].name)) continue;
    if (is_repeat(&d->v[*i])) status = build_repeat(d, i, into, x);
    else status = build_one(d, i, into, x, side_by_side);
  }
  return status;
}

/* ---- whole nets ---- */

static const cni_section *first_layer(const cn_description *d)
{
  for (size_t i = 0; i < d->n; i++)
    if (!cni_is_head(d->v[i].name) && !block_class(d->v[i].name)) return &d->v[i];
  return NULL;
}

int cni_net_input(cni_input *input, const cn_description *d)
{
  const cn_tree *given = cn_description_get(d, "net", "input");
  const cni_section *first = first_layer(d);
  if (!given) return cni_data_input(input, d);
  *input = (cni_input){.dtype = CN_F32};
  if (cn_tree_kind_of(given) == CN_TREE_INT) input->shape[input->ndim++] = cn_tree_as_int(given, 0);
  for (size_t i = 0; i < cn_tree_size(given) && i < CN_MAX_DIMS - 1; i++)
    input->shape[input->ndim++] = cn_tree_as_int(cn_tree_at(given, i), 0);
  for (size_t i = 0; i < input->ndim; i++)
    if (input->shape[i] < 1)
      return cni_describe_fail(d, cni_entry_find(cni_section_find(d, "net"), "input")->line,
                               "[net]: input has a size below 1");
  if (cni_data_is_text(d) || (first && !strncmp(first->name, "Embedding", 9))) input->dtype = CN_I64;
  return CN_OK;
}

static cn_module *from_zoo(const cn_description *d, const char *name)
{
  cn_zoo_opts o = {.size = sizeof o,
                   .classes = cni_describe_number(d, "net", "classes", 0),
                   .channels = cni_describe_number(d, "net", "channels", 0),
                   .image = cni_describe_number(d, "net", "image", 0),
                   .vocab = cni_describe_number(d, "net", "vocab", 0),
                   .pretrained = cni_describe_word(d, "net", "pretrained", NULL)};
  const cni_section *net = cni_section_find(d, "net");
  const cni_entry *said = cni_entry_find(net, "zoo");
  cni_input input;
  if (first_layer(d)) {
    cni_describe_fail(d, first_layer(d)->line, "[%s]: a net of the zoo has its own layers", first_layer(d)->name);
    return NULL;
  }
  bool known = cn_description_get(d, "net", "input") || cn_description_get(d, "data", "set");
  if (known && cn_zoo_takes(name, "channels") && !cni_net_input(&input, d) && input.ndim == 3) {
    if (!o.channels) o.channels = input.shape[0];
    if (!o.image && cn_zoo_takes(name, "image")) o.image = input.shape[1];
  }
  if (!o.classes && !cn_err() && cn_zoo_takes(name, "classes")) o.classes = cni_data_classes(d);
  if (!o.vocab && !cn_err() && cn_zoo_takes(name, "vocab") && cni_data_is_text(d)) {
    cn_tokenizer *tokenizer = cn_description_tokenizer(d);
    o.vocab = tokenizer ? cn_tokenizer_size(tokenizer) : 0;
    cn_tokenizer_free(tokenizer);
  }
  const char *config = cni_describe_word(d, "net", "config", NULL);
  cn_tree *settings = config && !cn_err() ? cn_load(config) : NULL;
  o.config = settings;
  cn_module *m = cn_err() ? NULL : cn_zoo_with(name, &o);
  cn_tree_free(settings);
  if (!m) cni_describe_blame(d, said->line, "[net]");
  return m;
}

/* A net whose results are scores must have one for each class. */
static int check_classes(const cn_description *d, const cn_tensor *result)
{
  int64_t classes = cni_describe_number(d, "net", "classes", 0);
  if (!classes || cn_ndim(result) != 2 || cn_size(result, 1) == classes) return CN_OK;
  return cni_describe_fail(d, cni_entry_find(cni_section_find(d, "net"), "classes")->line,
                           "[net]: there are %lld classes, but the last layer gives %lld numbers", (long long)classes,
                           (long long)cn_size(result, 1));
}

cn_module *cn_description_net(const cn_description *d)
{
  const char *zoo = cni_describe_word(d, "net", "zoo", NULL);
  cni_input input;
  if (!cni_described(d)) return NULL;
  if (zoo) return from_zoo(d, zoo);
  if (!first_layer(d)) {
    cni_describe_fail(d, 0, "describes no net: give layers, or zoo = NAME in [net]");
    return NULL;
  }
  if (cni_net_input(&input, d)) return NULL;
  memmove(input.shape + 1, input.shape, input.ndim * sizeof *input.shape);
  input.shape[0] = 1;
  cn_tensor *x = stand_in(input.shape, input.ndim + 1, input.dtype);
  cn_module *net = x ? cn_nn_sequential_of(NULL, 0) : NULL;
  size_t i = 0;
  if (net && !build(d, &i, net, &x)) check_classes(d, x);
  cn_release(x);
  const char *pretrained = cni_describe_word(d, "net", "pretrained", NULL);
  if (net && !cn_err() && pretrained) cn_module_load_file(net, pretrained);
  if (!cn_err()) return net;
  cn_module_release(net);
  return NULL;
}
