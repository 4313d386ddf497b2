/* optim.h: what optim.c, optim_schedule.c and optim_amp.c share: classes bound by their signatures. */
#ifndef CAIRN_PY_OPTIM_H
#define CAIRN_PY_OPTIM_H

#include <cairn/optimiser.h>

#include "bind.h"

/* One owned optimiser. */
typedef struct cnpy_optim {
  PyObject_HEAD
  cn_optim *opt;
  const cnpy_form *form; /* its class's signature */
} cnpy_optim;

extern PyTypeObject *cnpy_optim_type;
static inline cn_optim *cnpy_opt(PyObject *o) { return ((cnpy_optim *)(void *)o)->opt; } /* borrowed */

typedef bool (*cnpy_class_at)(size_t i, const char **name, const char **sig, const char **doc);
/* The form of a class in a list of them, parsed once; NULL with an exception. `room` holds CNPY_CLASSES of them. */
enum { CNPY_CLASSES = 32 };
const cnpy_form *cnpy_class_form(cnpy_form **room, cnpy_class_at at, const char *wanted);
/* Binds a dictionary of arguments: 0, or -1 with an exception. */
int cnpy_bind_dict(cnpy_bound *b, const cnpy_form *form, PyObject *dict);

int cnpy_add_schedules(PyObject *module); /* optim_schedule.c */
int cnpy_add_amp(PyObject *module);       /* optim_amp.c */

#endif
