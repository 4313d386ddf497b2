/* zoo.c: networks by name, generation of tokens, sentence embeddings and tables of layers, for Python.
 *
 * Place in the flow: below cairn/zoo.py. Invariant: a Python callback that raises ends the generation, and its
 * exception is what the caller sees. */
#include <cairn/kw.h>
#include <cairn/zoo.h>

#include "data.h"
#include "files.h"

/* The module of an object; NULL with an exception. */
static cn_module *module_of(PyObject *o, const char *who)
{
  cn_module *m = cnpy_is_module(o) ? cnpy_m(o) : NULL;
  if (!m) PyErr_Format(PyExc_TypeError, "%s: expected a Module, not %R", who, (PyObject *)Py_TYPE(o));
  return m;
}

/* ---- networks ---- */

/* _zoo_list() -> [(name, doc, (option, ...)), ...] */
static PyObject *zoo_list(PyObject *module, PyObject *unused)
{
  static const char *const options[] = {"classes", "channels", "image", "vocab"};
  const char *name, *doc;
  (void)module, (void)unused;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && cn_zoo_at(i, &name, &doc); i++) {
    PyObject *takes = PyList_New(0), *row = NULL;
    for (size_t k = 0; takes && k < sizeof options / sizeof *options; k++) {
      if (!cn_zoo_takes(name, options[k])) continue;
      PyObject *text = PyUnicode_FromString(options[k]);
      if (!text || PyList_Append(takes, text)) Py_CLEAR(takes);
      Py_XDECREF(text);
    }
    if (takes) row = Py_BuildValue("(ssN)", name, doc ? doc : "", PyList_AsTuple(takes));
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
    Py_XDECREF(takes);
  }
  return list;
}

/* _zoo_takes(name, option) */
static PyObject *zoo_takes(PyObject *module, PyObject *args)
{
  const char *name, *option;
  (void)module;
  return PyArg_ParseTuple(args, "ss:_zoo_takes", &name, &option) ? PyBool_FromLong(cn_zoo_takes(name, option)) : NULL;
}

/* The number or 0 for None. */
static int to_size(PyObject *o, int64_t *size)
{
  *size = 0;
  return o == Py_None ? 0 : cnpy_to_int(o, size);
}

/* _zoo(name, classes, channels, image, vocab, pretrained, config, device, dtype); None: its own */
static PyObject *zoo_make(PyObject *module, PyObject *args)
{
  const char *name;
  PyObject *size[4], *pretrained, *config, *device, *dtype, *path = NULL;
  int64_t n[4];
  cn_zoo_opts o = {.size = sizeof o};
  cn_tree *tree = NULL;
  cn_module *m = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "sOOOOOOOO:_zoo", &name, &size[0], &size[1], &size[2], &size[3], &pretrained, &config,
                        &device, &dtype))
    return NULL;
  for (int i = 0; i < 4; i++)
    if (to_size(size[i], &n[i])) return NULL;
  o.classes = n[0], o.channels = n[1], o.image = n[2], o.vocab = n[3];
  if (device != Py_None && cnpy_to_device(device, &o.device)) return NULL;
  if (dtype != Py_None && cnpy_to_dtype(dtype, &o.dtype)) return NULL;
  if (pretrained != Py_None && !PyUnicode_FSConverter(pretrained, &path)) return NULL;
  if (config != Py_None) o.config = tree = cnpy_to_tree(config);
  o.pretrained = path ? PyBytes_AsString(path) : NULL;
  if (config == Py_None || tree) {
    Py_BEGIN_ALLOW_THREADS
    m = cn_zoo_with(name, &o);
    Py_END_ALLOW_THREADS
  }
  cn_tree_free(tree);
  Py_XDECREF(path);
  if (!m) return cnpy_raise();
  return cnpy_wrap_module(m);
}

/* ---- generation ---- */

/* Asks the Python function whether to go on; anything but False is a yes. */
static bool each_token(int64_t token, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *result = PyErr_Occurred() ? NULL : PyObject_CallFunction(payload, "L", (long long)token);
  bool go_on = result && result != Py_False;
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return go_on;
}

/* _generate(model, tokens, max_new_tokens, temperature, top_k, top_p, repetition_penalty, stop or None, callback or
 * None, use_cache) */
static PyObject *generate(PyObject *module, PyObject *args)
{
  PyObject *model, *tokens, *stop, *callback;
  long long most, top_k;
  double temperature, top_p, penalty;
  int64_t end = 0;
  int cached;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!LdLddOOp:_generate", &model, cnpy.tensor_base, &tokens, &most, &temperature, &top_k,
                        &top_p, &penalty, &stop, &callback, &cached))
    return NULL;
  cn_module *m = module_of(model, "generate");
  if (!m || to_size(stop, &end)) return NULL;
  cn_generate_opts o = {.size = sizeof o, .top_k = top_k, .top_p = top_p, .repetition_penalty = penalty};
  o.max_new_tokens = most ? most : CN_ZERO;
  o.temperature = temperature != 0 ? temperature : (double)CN_ZERO;
  o.stop = stop != Py_None && !end ? CN_ZERO : end;
  o.no_cache = !cached;
  if (callback != Py_None) o.each = each_token, o.payload = callback;
  cn_tensor *made;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  made = cn_generate_with(m, cnpy_t(tokens), &o);
  Py_END_ALLOW_THREADS
  if (PyErr_Occurred()) {
    cn_scope_end(scope);
    return cnpy_raise();
  }
  return cnpy_wrap(cnpy_take(scope, made));
}

/* ---- the cache of keys and values ---- */

typedef struct cache_object {
  PyObject_HEAD
  cn_cache *cache; /* owned */
  PyObject *model; /* whose cache it is */
} cache_object;

static cache_object *cache_of(PyObject *self) { return (cache_object *)(void *)self; }

/* CacheBase(model, batch, length) */
static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *model;
  long long batch, length;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "CacheBase takes no keywords");
  if (!PyArg_ParseTuple(args, "OLL:CacheBase", &model, &batch, &length)) return NULL;
  cn_module *m = module_of(model, "KVCache");
  cn_cache *cache = m ? cn_cache_new(m, batch, length) : NULL;
  PyObject *self = cache ? ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : cnpy_raise();
  if (self) {
    cache_of(self)->cache = cache;
    cache_of(self)->model = Py_NewRef(model);
  } else {
    cn_cache_free(cache);
  }
  return self;
}

static void cache_dealloc(PyObject *self)
{
  cn_cache_free(cache_of(self)->cache);
  Py_CLEAR(cache_of(self)->model);
  cnpy_holder_free(self);
}

static PyObject *cache_step(PyObject *self, PyObject *tokens)
{
  cn_tensor *scores;
  if (!cnpy_is_tensor(tokens)) return cnpy_fail(PyExc_TypeError, "step: tokens must be a tensor");
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  scores = cn_decode_step(cnpy_m(cache_of(self)->model), cnpy_t(tokens), cache_of(self)->cache);
  Py_END_ALLOW_THREADS
  return cnpy_wrap(cnpy_take(scope, scores));
}

static PyObject *cache_truncate(PyObject *self, PyObject *n)
{
  int64_t kept;
  return cnpy_to_int(n, &kept) ? NULL : cnpy_done(cn_cache_truncate(cache_of(self)->cache, kept));
}

static Py_ssize_t cache_length(PyObject *self) { return (Py_ssize_t)cn_cache_size(cache_of(self)->cache); }

static PyMethodDef cache_methods[] = {
  {"step", cache_step, METH_O,
   "step(tokens)\n--\n\nScores (B, T, vocab) of what follows each of these tokens (B, T), which come behind those that "
   "were given before."},
  {"truncate", cache_truncate, METH_O, "truncate(n)\n--\n\nForgets all tokens but the first n."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot cache_slots[] = {{Py_tp_new, (void *)cache_new},
                                    {Py_tp_dealloc, (void *)cache_dealloc},
                                    {Py_tp_methods, cache_methods},
                                    {Py_sq_length, (void *)cache_length},
                                    {Py_tp_doc, (void *)"What a language model has seen of a batch of sequences."},
                                    {0, NULL}};
static PyType_Spec cache_spec = {"cairn._C.CacheBase", sizeof(cache_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, cache_slots};

/* ---- sentence embeddings ---- */

/* _embed_tokens(model, tokens, mask) */
static PyObject *embed_tokens(PyObject *module, PyObject *args)
{
  PyObject *model, *tokens, *mask;
  cn_tensor *made;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!O!:_embed_tokens", &model, cnpy.tensor_base, &tokens, cnpy.tensor_base, &mask))
    return NULL;
  cn_module *m = module_of(model, "embed");
  if (!m) return NULL;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  made = cn_embed_tokens(m, cnpy_t(tokens), cnpy_t(mask));
  Py_END_ALLOW_THREADS
  return cnpy_wrap(cnpy_take(scope, made));
}

/* _embed(model, tokenizer, list of texts) */
static PyObject *embed(PyObject *module, PyObject *args)
{
  PyObject *model, *tokenizer, *list;
  cn_tensor *made;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO!:_embed", &model, &tokenizer, &PyList_Type, &list)) return NULL;
  cn_module *m = module_of(model, "embed");
  cn_tokenizer *t = m ? cnpy_tokenizer_of(tokenizer) : NULL;
  Py_ssize_t n = PyList_Size(list);
  const char **texts = t ? cnpy_texts(list, n) : NULL;
  if (!texts) return NULL;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  made = cn_embed(m, t, texts, (size_t)n);
  Py_END_ALLOW_THREADS
  PyMem_Free(texts);
  return cnpy_wrap(cnpy_take(scope, made));
}

/* ---- tables of layers ---- */

/* _summary(module, sizes) or _summary(module, tensors); a tuple of either */
static PyObject *summary(PyObject *module, PyObject *args)
{
  enum { MOST = 32 };
  PyObject *net, *given;
  cn_tensor *inputs[MOST];
  int64_t shape[CN_MAX_DIMS];
  char *text;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!:_summary", &net, &PyTuple_Type, &given)) return NULL;
  cn_module *m = module_of(net, "summary");
  Py_ssize_t n = PyTuple_Size(given);
  if (!m) return NULL;
  if (n && cnpy_is_tensor(PyTuple_GetItem(given, 0))) {
    if (n > MOST) return cnpy_fail(PyExc_ValueError, "summary: more than %d inputs", MOST);
    for (Py_ssize_t i = 0; i < n; i++) {
      PyObject *t = PyTuple_GetItem(given, i);
      if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "summary: the inputs must be tensors");
      inputs[i] = cnpy_t(t);
    }
    text = cn_summary_inputs(m, inputs, (size_t)n);
  } else {
    int ndim = cnpy_to_ints(given, shape, CN_MAX_DIMS);
    if (ndim < 0) return NULL;
    text = cn_summary(m, shape, (size_t)ndim);
  }
  PyObject *made = text ? PyUnicode_FromString(text) : cnpy_raise();
  cn_string_free(text);
  return made;
}

static PyMethodDef functions[] = {
  {"_zoo_list", zoo_list, METH_NOARGS, "_zoo_list()\n--\n\nNames, descriptions and options of all networks."},
  {"_zoo_takes", zoo_takes, METH_VARARGS, "_zoo_takes(name, option)\n--\n\nWhether a network takes it."},
  {"_zoo", zoo_make, METH_VARARGS, "_zoo(name, ...)\n--\n\nA network by name."},
  {"_generate", generate, METH_VARARGS, "_generate(model, tokens, ...)\n--\n\nTokens and what follows them."},
  {"_embed", embed, METH_VARARGS, "_embed(model, tokenizer, texts)\n--\n\nSentence embeddings of texts."},
  {"_embed_tokens", embed_tokens, METH_VARARGS, "_embed_tokens(model, tokens, mask)\n--\n\nSentence embeddings."},
  {"_summary", summary, METH_VARARGS, "_summary(module, sizes_or_tensors)\n--\n\nA table of layers."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_zoo(PyObject *module)
{
  if (PyModule_AddFunctions(module, functions) || !cnpy_add_type(module, &cache_spec)) return -1;
  return cnpy_add_metrics(module);
}
