/* onnx_save.c: graphs as ONNX models: GraphBase.onnx.
 *
 * Place in the flow: cairn/onnx/export.py traces and turns torch's arguments into these. Invariant: texts that are
 * handed to the library live as long as the call. */
#include <cairn/ext/onnx.h>

#include "files.h"

static PyObject *as_bytes(const cn_graph *g, const cn_onnx_save_opts *opts)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_onnx_bytes_with(g, opts);
  PyObject *made = t ? PyBytes_FromStringAndSize(cn_data(t), (Py_ssize_t)cn_numel(t)) : cnpy_raise();
  cn_scope_end(s);
  return made;
}

/* onnx(path, opset, inputs, outputs, external, no_weights, weights_as_inputs, writes, folding, doc); path None:
 * bytes */
PyObject *cnpy_graph_onnx(PyObject *self, PyObject *args)
{
  const char *doc;
  PyObject *path, *in, *out, *bytes = NULL;
  int opset, external, no_weights, weights_as_inputs, writes, folding;
  if (!PyArg_ParseTuple(args, "OiO!O!ippppz:onnx", &path, &opset, &PyList_Type, &in, &PyList_Type, &out, &external,
                        &no_weights, &weights_as_inputs, &writes, &folding, &doc))
    return NULL;
  Py_ssize_t nin = PyList_Size(in), nout = PyList_Size(out);
  const char **inputs = cnpy_texts(in, nin), **outputs = inputs ? cnpy_texts(out, nout) : NULL;
  PyObject *made = NULL;
  cn_onnx_save_opts opts = {.size = sizeof opts,
                            .opset = opset,
                            .inputs = inputs,
                            .ninputs = (size_t)nin,
                            .outputs = outputs,
                            .noutputs = (size_t)nout,
                            .external = (cn_onnx_external)external,
                            .no_weights = no_weights != 0,
                            .weights_as_inputs = weights_as_inputs != 0,
                            .writes = writes != 0,
                            .no_folding = folding == 0,
                            .doc = doc};
  if (outputs && path == Py_None) made = as_bytes(cnpy_held(self), &opts);
  else if (outputs && PyUnicode_FSConverter(path, &bytes))
    made = cnpy_done(cn_onnx_save_with(cnpy_held(self), PyBytes_AsString(bytes), &opts));
  Py_XDECREF(bytes);
  PyMem_Free(inputs);
  PyMem_Free(outputs);
  return made;
}

/* _onnx_refused() -> a dictionary: ops that cannot be written, and why. */
PyObject *cnpy_onnx_refused(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  PyObject *made = PyDict_New();
  cn_op_info info;
  for (int i = 0; made && i < cn_op_count(); i++) {
    const char *why = cn_onnx_problem(cn_op_at(i));
    if (!why || cn_op_describe(&info, cn_op_at(i))) continue;
    PyObject *text = PyUnicode_FromString(why);
    if (!text || PyDict_SetItemString(made, info.name, text)) Py_CLEAR(made);
    Py_XDECREF(text);
  }
  return made;
}
