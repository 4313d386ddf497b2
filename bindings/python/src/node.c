/* node.c: the small objects around the record: grad_fn nodes, and handles that remove hooks.
 *
 * Place in the flow: autograd.c makes them. Invariant: a node object owns one reference to its node, a handle one to
 * its tensor; both are compared by what they stand for, since objects are made anew each time. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "autograd.h"

static PyTypeObject *node_type, *handle_type;

static void free_object(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- nodes ---- */

typedef struct node_object {
  PyObject_HEAD
  cn_node *node; /* owned */
} node_object;

static cn_node *node_of(PyObject *self) { return ((node_object *)(void *)self)->node; }

/* Is a call of this op one node in torch? Describes it then. */
static bool is_recorded(cn_op_info *info, const char *op)
{
  const cn_op *row = cn_op_find(op);
  return row && !cn_op_describe(info, row) && info->grad_fn;
}

/* The op that the node's name is made of, and torch's name where that is another. */
static const char *op_of(const cn_node *node, const char **name)
{
  cn_op_info info;
  const char *call = cn_node_call(node), *op = cn_node_name(node);
  if (is_recorded(&info, call)) op = call;
  else if (!is_recorded(&info, op)) info.grad_fn_name = "";
  *name = info.grad_fn_name;
  return op;
}

/* torch's way to name a node: the op's words in capitals, "Backward0" behind. name: another, or "". */
static const char *torch_name(const char *op, const char *name, char *room, size_t size)
{
  size_t n = 0, length = strlen(op);
  bool start = true, custom = length > 8 && !strcmp(op + length - 8, "Backward"); /* a class's own */
  if (!strcmp(op, "leaf")) name = "AccumulateGrad";
  if (*name || custom) {
    snprintf(room, size, "%s", *name ? name : op);
    return room;
  }
  for (; *op && n + 1 < size; op++) {
    if (*op == '_' || *op == ' ') start = true;
    else {
      room[n++] = (char)(start ? toupper((unsigned char)*op) : *op);
      start = false;
    }
  }
  snprintf(room + n, size - n, "Backward0");
  return room;
}

static const char *named(const cn_node *node, char *room, size_t size)
{
  const char *name, *op = op_of(node, &name);
  return torch_name(op, name, room, size);
}

const char *cnpy_backward_name(const char *op, char *room, size_t size)
{
  cn_op_info info;
  const cn_op *row = cn_op_find(op);
  return torch_name(op, row && !cn_op_describe(&info, row) ? info.grad_fn_name : "", room, size);
}

const char *cnpy_grad_fn_name(cn_tensor *t, char *room, size_t size)
{
  room[0] = 0;
  if (cn_is_leaf(t)) return room;
  cn_node *n = cn_node_of(t, NULL);
  if (n) named(n, room, size);
  bool by_dim = !strcmp(room, "SumBackward0") || !strcmp(room, "MeanBackward0"); /* torch counts their forms */
  if (by_dim && cn_ndim(t)) room[strlen(room) - 1] = '1';
  if (n && !strcmp(cn_node_name(n), "linear")) /* torch has it as a product of matrices, and views around it */
    snprintf(room, size, "%sBackward0", cn_ndim(t) != 2 ? "UnsafeView" : cn_node_ninputs(n) == 2 ? "Mm" : "Addmm");
  cn_node_release(n);
  return room;
}

PyObject *cnpy_node_wrap(cn_node *node)
{
  if (!node) Py_RETURN_NONE;
  node_object *self = PyObject_New(node_object, node_type);
  if (!self) {
    cn_node_release(node);
    return NULL;
  }
  self->node = node;
  return (PyObject *)self;
}

static void node_dealloc(PyObject *self)
{
  cn_node_release(node_of(self));
  free_object(self);
}

static PyObject *node_name(PyObject *self, PyObject *Py_UNUSED(none))
{
  char room[128];
  return PyUnicode_FromString(named(node_of(self), room, sizeof room));
}

static PyObject *node_repr(PyObject *self)
{
  char room[128];
  return PyUnicode_FromFormat("<%s object at %p>", named(node_of(self), room, sizeof room),
                              (void *)node_of(self));
}

static PyObject *node_next(PyObject *self, void *Py_UNUSED(closure))
{
  size_t n = cn_node_ninputs(node_of(self));
  PyObject *edges = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; edges && i < n; i++) {
    int result;
    cn_node *to = cn_node_input(node_of(self), i, &result);
    PyObject *pair = Py_BuildValue("(Ni)", cnpy_node_wrap(to), result);
    if (!pair || PyTuple_SetItem(edges, (Py_ssize_t)i, pair)) Py_CLEAR(edges);
  }
  return edges;
}

static PyObject *node_compare(PyObject *a, PyObject *b, int op)
{
  if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, node_type)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((node_of(a) == node_of(b)) == (op == Py_EQ));
}

static Py_hash_t node_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)node_of(self) >> 4); }

static PyMethodDef node_methods[] = {
  {"name", node_name, METH_NOARGS, "name()\n--\n\nThe name of the recorded call."}, {NULL, NULL, 0, NULL}};
static PyGetSetDef node_getset[] = {
  {"next_functions", node_next, NULL, "Pairs (node, result number) that the gradients of its inputs go to.", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot node_slots[] = {{Py_tp_dealloc, (void *)node_dealloc},
                                   {Py_tp_repr, (void *)node_repr},
                                   {Py_tp_richcompare, (void *)node_compare},
                                   {Py_tp_hash, (void *)node_hash},
                                   {Py_tp_methods, node_methods},
                                   {Py_tp_getset, node_getset},
                                   {Py_tp_doc, (void *)"A recorded call: what grad_fn returns."},
                                   {0, NULL}};
static PyType_Spec node_spec = {"cairn._C.Node", sizeof(node_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

/* ---- handles of hooks ---- */

typedef struct handle_object {
  PyObject_HEAD
  cn_tensor *t; /* owned; NULL once removed */
  int64_t id;
} handle_object;

static handle_object *handle_of(PyObject *self) { return (handle_object *)(void *)self; }

PyObject *cnpy_handle_new(cn_tensor *t, int64_t id)
{
  handle_object *self = PyObject_New(handle_object, handle_type);
  if (!self) return NULL;
  self->t = cn_keep(t);
  self->id = id;
  return (PyObject *)self;
}

static PyObject *handle_remove(PyObject *self, PyObject *Py_UNUSED(args))
{
  cn_tensor *t = handle_of(self)->t;
  handle_of(self)->t = NULL;
  if (t && cn_hook_remove(t, handle_of(self)->id)) cn_err_clear(); /* its record is gone: so is the hook */
  cn_release(t);
  Py_RETURN_NONE;
}

static void handle_dealloc(PyObject *self)
{
  cn_release(handle_of(self)->t);
  free_object(self);
}

static PyObject *handle_enter(PyObject *self, PyObject *Py_UNUSED(none)) { return Py_NewRef(self); }
static PyObject *handle_id(PyObject *self, void *Py_UNUSED(closure))
{
  return PyLong_FromLongLong(handle_of(self)->id);
}

static PyMethodDef handle_methods[] = {{"remove", handle_remove, METH_NOARGS, "remove()\n--\n\nTakes the hook away."},
                                       {"__enter__", handle_enter, METH_NOARGS, NULL},
                                       {"__exit__", handle_remove, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyGetSetDef handle_getset[] = {{"id", handle_id, NULL, "The hook's number.", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot handle_slots[] = {{Py_tp_dealloc, (void *)handle_dealloc},
                                     {Py_tp_methods, handle_methods},
                                     {Py_tp_getset, handle_getset},
                                     {Py_tp_doc, (void *)"What register_hook returns."},
                                     {0, NULL}};
static PyType_Spec handle_spec = {"cairn._C.RemovableHandle", sizeof(handle_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, handle_slots};

int cnpy_add_nodes(PyObject *module)
{
  node_type = cnpy_add_type(module, &node_spec);
  handle_type = node_type ? cnpy_add_type(module, &handle_spec) : NULL;
  return handle_type ? 0 : -1;
}
