/* mesh.c: meshes and how tensors lie on them, for Python.
 *
 * Place in the flow: below cairn/sharding.py; graph.c reads meshes for StableHLO by it. Invariant: a mesh is a list of
 * (name, size) in Python, and checked by the library. */
#include <cairn/mesh.h>
#include <string.h>

#include "files.h"

int cnpy_to_mesh(PyObject *axes, cn_mesh *mesh)
{
  *mesh = (cn_mesh){0};
  Py_ssize_t n = PyList_Check(axes) ? PyList_Size(axes) : -1;
  if (n < 0 || n > CN_MESH_AXES)
    return cnpy_fail(PyExc_ValueError, "mesh: it needs from 1 to %d axes", CN_MESH_AXES), -1;
  for (Py_ssize_t k = 0; k < n; k++) {
    const char *name;
    long long size;
    if (!PyArg_ParseTuple(PyList_GetItem(axes, k), "sL", &name, &size)) return -1;
    if (strlen(name) >= CN_MESH_NAME) return cnpy_fail(PyExc_ValueError, "mesh: the name %s is too long", name), -1;
    memcpy(mesh->axes[k].name, name, strlen(name) + 1);
    mesh->axes[k].size = size;
  }
  mesh->naxes = (int)n;
  return cn_mesh_check(mesh) ? (cnpy_raise(), -1) : 0;
}

/* _mesh_device(axes, devices) */
static PyObject *mesh_device(PyObject *Py_UNUSED(self), PyObject *args)
{
  PyObject *axes, *list;
  cn_mesh mesh;
  if (!PyArg_ParseTuple(args, "OO!:_mesh_device", &axes, &PyList_Type, &list) || cnpy_to_mesh(axes, &mesh)) return NULL;
  size_t n = (size_t)PyList_Size(list);
  cn_device *devices = PyMem_Calloc(n + 1, sizeof *devices), made = CN_DEVICE_DEFAULT;
  bool good = devices != NULL;
  for (size_t i = 0; i < n && good; i++) good = !cnpy_to_device(PyList_GetItem(list, (Py_ssize_t)i), &devices[i]);
  if (good) made = cn_mesh_device(&mesh, devices, n);
  PyMem_Free(devices);
  if (!good) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  return made == CN_DEVICE_DEFAULT ? cnpy_raise() : cnpy_device_of(made);
}

/* _mesh_of(device) -> axes, or None */
static PyObject *mesh_of(PyObject *Py_UNUSED(self), PyObject *device)
{
  cn_device id;
  cn_mesh mesh;
  if (cnpy_to_device(device, &id)) return NULL;
  if (!cn_mesh_of(&mesh, id)) Py_RETURN_NONE;
  PyObject *list = PyList_New(mesh.naxes);
  for (int k = 0; k < mesh.naxes && list; k++) {
    PyObject *axis = Py_BuildValue("(sL)", mesh.axes[k].name, (long long)mesh.axes[k].size);
    if (!axis || PyList_SetItem(list, k, axis)) Py_CLEAR(list);
  }
  return list;
}

/* _sharding(tensor) -> text */
static PyObject *sharding(PyObject *Py_UNUSED(self), PyObject *tensor)
{
  if (!cnpy_is_tensor(tensor)) return cnpy_fail(PyExc_TypeError, "sharding: expected a tensor");
  char *text = cn_sharding(cnpy_t(tensor));
  PyObject *made = text ? PyUnicode_FromString(text) : cnpy_raise();
  cn_string_free(text);
  return made;
}

static PyMethodDef functions[] = {
  {"_mesh_device", mesh_device, METH_VARARGS, "_mesh_device(axes, devices): the device that stands for them."},
  {"_mesh_of", mesh_of, METH_O, "The axes of such a device; None: it stands for itself."},
  {"_sharding", sharding, METH_O, "How a tensor on a mesh is split, as text."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_mesh(PyObject *module) { return PyModule_AddFunctions(module, functions); }
