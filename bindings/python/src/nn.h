/* nn.h: what the files of modules share: nn.c, nn_attr.c, nn_class.c, nn_tree.c, nn_init.c, nn_packed.c,
 * compile_key.c. */
#ifndef CAIRN_PY_NN_H
#define CAIRN_PY_NN_H

#include <cairn/module.h>
#include <cairn/nn.h>

#include "bind.h"

/* A class of modules with its bound signatures; made at first use, kept until exit. */
typedef struct cnpy_class {
  const cn_module_class *cls;
  bool foreign; /* a class written in Python */
  bool has_make;
  cnpy_form make, call;
  int nresults;
  struct cnpy_class *next;
} cnpy_class;

/* The head is cnpy_module's. The three dictionaries write through to the tree in C. */
typedef struct module_object {
  PyObject_HEAD
  cn_module *m; /* owned; NULL before __init__ */
  const cnpy_class *cls;
  PyObject *parameters, *buffers, *modules;
  bool native;  /* its type's forward is the class's in C */
  bool patched; /* the object has a forward of its own */
  bool hooked;  /* Python's hooks are to be called */
} module_object;

static inline module_object *cnpy_mo(PyObject *o) { return (module_object *)(void *)o; }

/* What Python has told: _C._set_module_classes. */
typedef struct nn_globals {
  PyObject *module, *parameter, *entries; /* cairn.nn.Module, Parameter, a maker of the dictionaries */
  PyObject *classes; /* name in C -> class in Python */
  PyObject *twins;   /* type -> capsule of its class in C */
  PyObject *native_forward, *str_forward, *str_dict;
  bool global_hooks;
} nn_globals;
extern nn_globals cnpy_nn;

/* nn_class.c */
cnpy_class *cnpy_class_of(const cn_module_class *cls); /* NULL with the exception set */
/* Makes the object the Python side of m, which it takes over: dictionaries, attributes, children. `b`: the arguments
 * that Python gave, or NULL. */
int cnpy_adopt(PyObject *self, cn_module *m, const cnpy_class *cls, const cnpy_bound *b);
PyObject *cnpy_module_make(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *cnpy_module_make_bare(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *cnpy_module_begin(PyObject *self, PyObject *unused);
PyObject *cnpy_module_copy_from(PyObject *self, PyObject *other);
extern PyMethodDef cnpy_nn_class_functions[];

/* nn.c: what a class written in Python and an overridden forward run when C calls the module */
int cnpy_module_trampoline(cn_module *m, cn_module_call *call, void *payload);
int cnpy_module_forward_python(cn_module *m, cn_module_call *call);

int cnpy_started(PyObject *self); /* has __init__ made it? 0 with AttributeError */
/* Says who runs when C calls it: Python, where it has hooks or a forward that is not the library's. */
int cnpy_choose_trampoline(PyObject *self);

/* nn_attr.c */
PyObject *cnpy_module_setattr(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *cnpy_module_delattr(PyObject *self, PyObject *name);
PyObject *cnpy_set_attribute(PyObject *self, PyObject *args);
PyObject *cnpy_set_removed(PyObject *self, PyObject *args);
extern PyGetSetDef cnpy_module_getset[];

/* nn_tree.c */
extern PyMethodDef cnpy_nn_tree_functions[];
PyObject *cnpy_tree_handle(cn_module *m); /* a capsule that keeps m */

/* nn_init.c, nn_packed.c */
extern PyMethodDef cnpy_nn_init_functions[], cnpy_nn_packed_functions[];

#endif
