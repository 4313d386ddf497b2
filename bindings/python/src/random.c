/* random.c: Generator objects.
 *
 * Place in the flow: call.c asks for a generator's numbers around a random op; cairn/random.py stands on
 * default_generator. cairn's numbers are counted: a state is a seed and how far it was used. Each thread has its own
 * state, so threads never disturb each other's numbers; default_generator stands for that of the calling thread.
 * Invariant: while a generator is in use (begin to end) its lock is held and its numbers are the thread's. */
#include <pthread.h>

#include "cairn_py.h"

typedef struct generator_object {
  PyObject_HEAD
  uint64_t seed, offset;             /* its numbers; those of the default one are the thread's */
  uint64_t thread_seed, thread_offset; /* the thread's, while it is in use */
  PyObject *device;                  /* owned */
  pthread_mutex_t lock;
  bool is_default;
} generator_object;

static PyTypeObject *generator_type;

static const uint64_t fresh_seed = 67280421310721u; /* of a new Generator, as torch has it */

static generator_object *of(PyObject *self) { return (generator_object *)(void *)self; }

/* ---- in use by an op ---- */

int cnpy_generator_begin(PyObject *generator)
{
  if (!generator || generator == Py_None) return 0;
  if (!PyObject_TypeCheck(generator, generator_type)) {
    PyErr_Format(PyExc_TypeError, "generator: expected a Generator, not %R", (PyObject *)Py_TYPE(generator));
    return -1;
  }
  generator_object *g = of(generator);
  if (g->is_default) return 0;
  if (cn_tracing()) { /* a graph counts its numbers from where the thread's stand */
    cnpy_fail(cnpy.capture_error, "generator: captured code draws the thread's numbers: draw from others outside");
    return -1;
  }
  if (pthread_mutex_trylock(&g->lock)) { /* another thread draws from it: that one may need the GIL to finish */
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&g->lock);
    Py_END_ALLOW_THREADS
  }
  cn_random_state(&g->thread_seed, &g->thread_offset);
  cn_random_set_state(g->seed, g->offset);
  return 0;
}

void cnpy_generator_end(PyObject *generator)
{
  if (!generator || generator == Py_None || of(generator)->is_default) return;
  generator_object *g = of(generator);
  cn_random_state(&g->seed, &g->offset);
  cn_random_set_state(g->thread_seed, g->thread_offset);
  pthread_mutex_unlock(&g->lock);
}

/* ---- the object ---- */

static void get_numbers(PyObject *self, uint64_t *seed, uint64_t *offset)
{
  if (of(self)->is_default) {
    cn_random_state(seed, offset);
    return;
  }
  *seed = of(self)->seed;
  *offset = of(self)->offset;
}

static void set_numbers(PyObject *self, uint64_t seed, uint64_t offset)
{
  if (of(self)->is_default) {
    cn_random_set_state(seed, offset);
    return;
  }
  of(self)->seed = seed;
  of(self)->offset = offset;
}

static PyObject *make(PyTypeObject *type, PyObject *device, bool is_default)
{
  generator_object *g = (generator_object *)(void *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!g) return NULL;
  g->seed = fresh_seed;
  g->is_default = is_default;
  pthread_mutex_init(&g->lock, NULL);
  g->device = Py_NewRef(device);
  return (PyObject *)g;
}

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"device", NULL};
  PyObject *given = NULL;
  cn_device id = CN_CPU;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", names, &given)) return NULL;
  if (given && given != Py_None && cnpy_to_device(given, &id)) return NULL;
  PyObject *device = cnpy_device_of(id), *self = device ? make(type, device, false) : NULL;
  Py_XDECREF(device);
  return self;
}

static void generator_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(of(self)->device);
  pthread_mutex_destroy(&of(self)->lock);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* Any integer of 64 bits, with or without sign; negative ones count from the top. */
static int to_seed(PyObject *o, uint64_t *seed)
{
  PyObject *number = PyNumber_Index(o);
  if (!number) return -1;
  long long low = PyLong_AsLongLong(number);
  *seed = (uint64_t)low;
  if (low == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    *seed = PyLong_AsUnsignedLongLong(number);
  }
  Py_DECREF(number);
  if (!PyErr_Occurred()) return 0;
  PyErr_Clear();
  return cnpy_fail(PyExc_RuntimeError, "manual_seed: the seed must fit into 64 bits"), -1;
}

static PyObject *manual_seed(PyObject *self, PyObject *value)
{
  uint64_t seed;
  if (to_seed(value, &seed)) return NULL;
  if (of(self)->is_default) cn_seed(seed);
  else set_numbers(self, seed, 0);
  return Py_NewRef(self);
}

static PyObject *initial_seed(PyObject *self, PyObject *Py_UNUSED(none))
{
  uint64_t seed, offset;
  get_numbers(self, &seed, &offset);
  return PyLong_FromUnsignedLongLong(seed);
}

static PyObject *new_seed(PyObject *self, PyObject *Py_UNUSED(none))
{
  uint64_t seed = cn_fresh_seed();
  if (of(self)->is_default) cn_seed(seed);
  else set_numbers(self, seed, 0);
  return PyLong_FromUnsignedLongLong(seed);
}

static PyObject *get_state(PyObject *self, PyObject *Py_UNUSED(none))
{
  uint64_t words[2];
  const int64_t shape[1] = {sizeof words};
  get_numbers(self, &words[0], &words[1]);
  cn_scope *scope = cn_scope_begin();
  PyObject *result = cnpy_wrap(cn_keep(cn_from_data(words, shape, 1, CN_U8)));
  cn_scope_end(scope);
  return result;
}

static PyObject *set_state(PyObject *self, PyObject *state)
{
  uint64_t words[2];
  if (!cnpy_is_tensor(state)) return cnpy_fail(PyExc_TypeError, "set_state: expected a tensor");
  cn_tensor *t = cnpy_t(state);
  if (cn_dtype_of(t) != CN_U8) return cnpy_fail(PyExc_TypeError, "set_state: expected a tensor of type uint8");
  if (cn_numel(t) != (int64_t)sizeof words)
    return cnpy_fail(PyExc_RuntimeError, "set_state: a state has %zu bytes, not %lld", sizeof words,
                     (long long)cn_numel(t));
  if (cn_to_data(words, sizeof words, t)) return cnpy_raise();
  set_numbers(self, words[0], words[1]);
  return Py_NewRef(self);
}

static PyObject *clone_state(PyObject *self, PyObject *Py_UNUSED(none))
{
  uint64_t seed, offset;
  get_numbers(self, &seed, &offset);
  PyObject *copy = make(generator_type, of(self)->device, false);
  if (copy) set_numbers(copy, seed, offset);
  return copy;
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure)) { return Py_NewRef(of(self)->device); }

static PyMethodDef methods[] = {
  {"manual_seed", manual_seed, METH_O, "manual_seed(seed)\n--\n\nStarts afresh from this seed; returns the generator."},
  {"seed", new_seed, METH_NOARGS, "seed()\n--\n\nStarts afresh from a seed that cannot be foretold; returns it."},
  {"initial_seed", initial_seed, METH_NOARGS, "initial_seed()\n--\n\nThe seed it was last started from."},
  {"get_state", get_state, METH_NOARGS, "get_state()\n--\n\nThe state as a tensor of bytes."},
  {"set_state", set_state, METH_O, "set_state(state)\n--\n\nGoes on from a state that get_state returned."},
  {"clone_state", clone_state, METH_NOARGS, "clone_state()\n--\n\nA new generator in the same state."},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef getset[] = {{"device", get_device, NULL, "The device it was made for.", NULL},
                               {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)generator_new},
                              {Py_tp_dealloc, (void *)generator_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, (void *)"Generator(device='cpu')\n--\n\nA stream of random numbers."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.Generator", sizeof(generator_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

int cnpy_add_random(PyObject *module)
{
  generator_type = cnpy_add_type(module, &spec);
  if (!generator_type) return -1;
  PyObject *device = cnpy_device_of(CN_CPU), *standard = device ? make(generator_type, device, true) : NULL;
  Py_XDECREF(device);
  int status = standard ? PyModule_AddObjectRef(module, "default_generator", standard) : -1;
  Py_XDECREF(standard);
  return status;
}
