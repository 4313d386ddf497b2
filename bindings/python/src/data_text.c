/* data_text.c: tokenizers of the library for Python.
 *
 * Place in the flow: below cairn/tokenizers.py. Invariant: texts go in and out as bytes of UTF-8; what is not UTF-8 is
 * the Python side's to mend. */
#include "data.h"

#include <string.h>

typedef struct tokenizer_object {
  PyObject_HEAD
  cn_tokenizer *t; /* owned */
} tokenizer_object;

static PyTypeObject *tokenizer_type;

static cn_tokenizer *of(PyObject *self) { return ((tokenizer_object *)(void *)self)->t; }

cn_tokenizer *cnpy_tokenizer_of(PyObject *o)
{
  if (PyObject_TypeCheck(o, tokenizer_type)) return of(o);
  cnpy_fail(PyExc_TypeError, "expected a tokenizer");
  return NULL;
}

static PyObject *wrap(cn_tokenizer *t)
{
  PyObject *o = t ? cnpy_alloc_object(tokenizer_type) : cnpy_raise();
  if (o) ((tokenizer_object *)(void *)o)->t = t;
  else cn_tokenizer_free(t);
  return o;
}

static void tokenizer_dealloc(PyObject *self)
{
  cn_tokenizer_free(of(self));
  cnpy_free_object(self);
}

/* encode(bytes, special) -> tensor */
static PyObject *encode(PyObject *self, PyObject *args)
{
  const char *text;
  Py_ssize_t size;
  int special;
  cn_tensor *t;
  if (!PyArg_ParseTuple(args, "y#p:encode", &text, &size, &special)) return NULL;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  t = cn_tokenizer_encode(of(self), text, (size_t)size, special);
  Py_END_ALLOW_THREADS
  return cnpy_wrap(cnpy_take(scope, t));
}

/* decode(tensor, skip_special) -> bytes */
static PyObject *decode(PyObject *self, PyObject *args)
{
  PyObject *tokens;
  int skip;
  void *bytes = NULL;
  size_t size = 0;
  if (!PyArg_ParseTuple(args, "O!p:decode", cnpy.tensor_base, &tokens, &skip)) return NULL;
  int status = cn_tokenizer_decode_bytes(&bytes, &size, of(self), cnpy_t(tokens), skip);
  PyObject *made = status ? cnpy_raise() : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  cn_free(bytes, size);
  return made;
}

static PyObject *token_id(PyObject *self, PyObject *token)
{
  const char *text = PyUnicode_AsUTF8AndSize(token, NULL);
  return text ? PyLong_FromLongLong(cn_tokenizer_id(of(self), text)) : NULL;
}

static PyObject *token_text(PyObject *self, PyObject *id)
{
  int64_t i;
  if (cnpy_to_int(id, &i)) return NULL;
  const char *text = cn_tokenizer_token(of(self), i);
  return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : Py_NewRef(Py_None);
}

static Py_ssize_t length(PyObject *self) { return (Py_ssize_t)cn_tokenizer_size(of(self)); }

static PyMethodDef methods[] = {
  {"encode", encode, METH_VARARGS, "encode(text, special)\n--\n\nThe tokens of a text (bytes), int64."},
  {"decode", decode, METH_VARARGS, "decode(tokens, skip_special)\n--\n\nThe text as bytes."},
  {"id", token_id, METH_O, "id(token)\n--\n\nThe number of a token; -1 when there is none."},
  {"token", token_text, METH_O, "token(id)\n--\n\nA token as the vocabulary writes it, or None."},
  {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)tokenizer_dealloc},
                              {Py_tp_methods, methods},
                              {Py_sq_length, (void *)length},
                              {Py_tp_doc, (void *)"A tokenizer of the library."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.NativeTokenizer", sizeof(tokenizer_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

/* ---- makers ---- */

static PyObject *of_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) { return wrap(cn_tokenizer_bytes()); }

static PyObject *of_chars(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *text;
  Py_ssize_t size;
  return PyArg_ParseTuple(args, "y#:_tokenizer_chars", &text, &size) ? wrap(cn_tokenizer_chars(text, (size_t)size))
                                                                     : NULL;
}

static PyObject *of_bpe(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *vocab = NULL, *merges = NULL, *made = NULL;
  if (PyArg_ParseTuple(args, "O&O&:_tokenizer_bpe", PyUnicode_FSConverter, &vocab, PyUnicode_FSConverter, &merges))
    made = wrap(cn_tokenizer_bpe(PyBytes_AsString(vocab), PyBytes_AsString(merges)));
  Py_XDECREF(vocab);
  Py_XDECREF(merges);
  return made;
}

static PyObject *of_wordpiece(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *vocab;
  int lower;
  if (!PyArg_ParseTuple(args, "O&p:_tokenizer_wordpiece", PyUnicode_FSConverter, &vocab, &lower)) return NULL;
  PyObject *made = wrap(cn_tokenizer_wordpiece(PyBytes_AsString(vocab), lower));
  Py_DECREF(vocab);
  return made;
}

static PyObject *of_path(PyObject *args, cn_tokenizer *(*read)(const char *path))
{
  PyObject *path;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
  PyObject *made = wrap(read(PyBytes_AsString(path)));
  Py_DECREF(path);
  return made;
}

static PyObject *of_json(PyObject *Py_UNUSED(module), PyObject *args) { return of_path(args, cn_tokenizer_json); }

static PyObject *of_sentencepiece(PyObject *Py_UNUSED(module), PyObject *args)
{
  return of_path(args, cn_tokenizer_sentencepiece);
}

static PyMethodDef functions[] = {
  {"_tokenizer_bytes", of_bytes, METH_NOARGS, "A token a byte."},
  {"_tokenizer_chars", of_chars, METH_VARARGS, "The characters of a text (bytes)."},
  {"_tokenizer_bpe", of_bpe, METH_VARARGS, "vocab.json, merges.txt"},
  {"_tokenizer_wordpiece", of_wordpiece, METH_VARARGS, "vocab.txt, lower"},
  {"_tokenizer_json", of_json, METH_VARARGS, "tokenizer.json"},
  {"_tokenizer_sentencepiece", of_sentencepiece, METH_VARARGS, "a .model of SentencePiece"},
  {NULL, NULL, 0, NULL}};

int cnpy_add_text(PyObject *module)
{
  tokenizer_type = cnpy_add_type(module, &spec);
  return !tokenizer_type || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
