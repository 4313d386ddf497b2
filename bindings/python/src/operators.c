/* operators.c: +, -, ==, @ and the other operators of tensors, straight to cn_op_call.
 *
 * Place in the flow: the quickest way from Python to an op, since expressions are written with them. Invariant: an
 * operand that is neither tensor nor number gets Python's NotImplemented, so that its own class may answer. */
#include <string.h>

#include "cairn_py.h"

/* The operators' ops; `name` is looked up once. */
typedef struct operator_op {
  const char *name;
  const cn_op *op;
} operator_op;

/* A tensor, a number, or an array that becomes a tensor (*made owns it). 1, 0: not mine, -1: exception. */
static int operand(PyObject *o, cn_value *v, cn_tensor **made)
{
  if (cnpy_is_tensor(o)) {
    *v = cn_v_tensor(cnpy_t(o));
    return 1;
  }
  if (cnpy_is_weak(o)) {
    *v = cn_v_tensor(cnpy_weak_input(o));
    return v->u.t ? 1 : -1;
  }
  if (PyComplex_Check(o)) {
    *made = cnpy_complex_number(o);
    *v = cn_v_tensor(*made);
    return *made ? 1 : -1;
  }
  int fits = cnpy_to_number(o, v);
  if (fits || !PyObject_HasAttrString(o, "__array_interface__")) return fits;
  *made = cnpy_from_data(o, CN_DTYPE_NONE, CN_DEVICE_DEFAULT);
  *v = cn_v_tensor(*made);
  return *made ? 1 : -1;
}

static int64_t elements(const cn_value *v) { return v->tag == CN_V_TENSOR ? cn_numel(v->u.t) : 0; }

/* nargs: 1 or 2. */
static int run(cn_tensor **out, operator_op *o, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  size_t n = 1;
  int status;
  if (!o->op) o->op = cn_op_find(o->name);
  if (elements(&args[0]) + (nargs > 1 ? elements(&args[1]) : 0) < CNPY_LONG_CALL)
    return cn_op_call(out, &n, o->op, args, nargs, dest);
  cn_tensor *held[2] = {NULL, NULL}; /* meanwhile others may drop theirs */
  for (size_t i = 0; i < nargs; i++) held[i] = cn_keep(args[i].tag == CN_V_TENSOR ? args[i].u.t : NULL);
  Py_BEGIN_ALLOW_THREADS status = cn_op_call(out, &n, o->op, args, nargs, dest);
  for (size_t i = 0; i < nargs; i++) cn_release(held[i]);
  Py_END_ALLOW_THREADS return status;
}

/* What a class derived from Tensor returns; NotImplemented: none takes part. */
static PyObject *asked(const char *op, const char *behind, PyObject *a, PyObject *b)
{
  char name[40];
  if (!cnpy_overrides_on()) Py_RETURN_NOTIMPLEMENTED;
  PyOS_snprintf(name, sizeof name, "%s%s", op, behind);
  PyObject *args[] = {a, b}, **rest = args + 1;
  if (cnpy_is_tensor(a)) return cnpy_override(name, a, rest, b != NULL, NULL);
  return cnpy_override(name, NULL, args, 1 + (b != NULL), NULL);
}

static PyObject *binary(operator_op *o, PyObject *a, PyObject *b)
{
  PyObject *overridden = asked(o->name, "", a, b);
  if (overridden != Py_NotImplemented) return overridden;
  Py_DECREF(overridden);
  cn_value args[2];
  cn_tensor *out = NULL, *made[2] = {NULL, NULL};
  int fits = operand(a, &args[0], &made[0]);
  if (fits == 1) fits = operand(b, &args[1], &made[1]);
  PyObject *result = NULL;
  if (fits == 0) result = Py_NewRef(Py_NotImplemented);
  else if (fits == 1) result = run(&out, o, args, 2, NULL) ? cnpy_raise() : cnpy_wrap(out);
  cn_release(made[0]);
  cn_release(made[1]);
  return result;
}

static PyObject *inplace(operator_op *o, PyObject *a, PyObject *b)
{
  PyObject *overridden = asked(o->name, "_", a, b);
  if (overridden != Py_NotImplemented) return overridden;
  Py_DECREF(overridden);
  cn_value args[2] = {cn_v_tensor(cnpy_t(a))};
  cn_tensor *out = NULL, *made = NULL;
  int fits = operand(b, &args[1], &made);
  PyObject *result = NULL;
  if (fits == 0) result = Py_NewRef(Py_NotImplemented);
  else if (fits == 1) result = run(&out, o, args, 2, cnpy_t(a)) ? cnpy_raise() : Py_NewRef(a);
  cn_release(out);
  cn_release(made);
  return result;
}

static PyObject *unary(operator_op *o, PyObject *a)
{
  PyObject *result = asked(o->name, "", a, NULL);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  const cn_value args[1] = {cn_v_tensor(cnpy_t(a))};
  cn_tensor *out = NULL;
  return run(&out, o, args, 1, NULL) ? cnpy_raise() : cnpy_wrap(out);
}

#define BINARY(slot, op)                                                                                             \
  static PyObject *nb_##slot(PyObject *a, PyObject *b)                                                               \
  {                                                                                                                  \
    static operator_op o = {#op, NULL};                                                                              \
    return binary(&o, a, b);                                                                                         \
  }
#define INPLACE(slot, op)                                                                                            \
  static PyObject *nb_inplace_##slot(PyObject *a, PyObject *b)                                                       \
  {                                                                                                                  \
    static operator_op o = {#op, NULL};                                                                              \
    return inplace(&o, a, b);                                                                                        \
  }
#define UNARY(slot, op)                                                                                              \
  static PyObject *nb_##slot(PyObject *a)                                                                            \
  {                                                                                                                  \
    static operator_op o = {#op, NULL};                                                                              \
    return unary(&o, a);                                                                                             \
  }

/* Python's slot, cairn's op */
#define BINARIES(X)                                                                                                  \
  X(add, add)                                                                                                        \
  X(multiply, mul) X(floor_divide, floor_divide)                                                    \
      X(remainder, remainder) X(and, bitwise_and) X(or, bitwise_or) X(xor, bitwise_xor)                              \
          X(lshift, bitwise_left_shift) X(rshift, bitwise_right_shift)
#define UNARIES(X) X(negative, neg) X(absolute, abs) X(invert, bitwise_not)

BINARIES(BINARY)
BINARIES(INPLACE)
UNARIES(UNARY)
BINARY(matrix_multiply, matmul)
INPLACE(subtract, sub)
INPLACE(true_divide, true_divide)

/* A number in front is an op of its own in torch, whose name grad_fn shows. */
static PyObject *nb_subtract(PyObject *a, PyObject *b)
{
  static operator_op o = {"sub", NULL}, reversed = {"rsub", NULL};
  cn_value number;
  int from = cnpy_is_tensor(a) ? 0 : cnpy_is_weak(a) || PyComplex_Check(a) ? 1 : cnpy_to_number(a, &number);
  if (from < 0) return NULL;
  return from ? binary(&reversed, b, a) : binary(&o, a, b);
}

/* number / x is the number times 1 / x, as in PyTorch; the difference shows where 1 / x is stored in half a float. */
static PyObject *nb_true_divide(PyObject *a, PyObject *b)
{
  static operator_op divide = {"true_divide", NULL}, multiply = {"mul", NULL}, invert = {"reciprocal", NULL};
  cn_dtype dtype = cnpy_is_tensor(b) && !cnpy_is_tensor(a) ? cn_dtype_of(cnpy_t(b)) : CN_DTYPE_NONE;
  if ((dtype != CN_F16 && dtype != CN_BF16) || !PyNumber_Check(a)) return binary(&divide, a, b);
  PyObject *inverse = unary(&invert, b);
  PyObject *result = inverse ? binary(&multiply, inverse, a) : NULL;
  Py_XDECREF(inverse);
  return result;
}

static PyObject *nb_positive(PyObject *a) { return Py_NewRef(a); }

static operator_op pow_op = {"pow", NULL};
static PyObject *nb_power(PyObject *a, PyObject *b, PyObject *modulus)
{
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary(&pow_op, a, b);
}

static PyObject *nb_inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return inplace(&pow_op, a, b);
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
  static operator_op ops[] = {[Py_LT] = {"lt", NULL}, [Py_LE] = {"le", NULL}, [Py_EQ] = {"eq", NULL},
                              [Py_NE] = {"ne", NULL}, [Py_GT] = {"gt", NULL}, [Py_GE] = {"ge", NULL}};
  return binary(&ops[how], a, b);
}

#define SLOT(slot, op) {Py_nb_##slot, (void *)nb_##slot},
#define INPLACE_SLOT(slot, op) {Py_nb_inplace_##slot, (void *)nb_inplace_##slot},
static const PyType_Slot slots[] = {
    BINARIES(SLOT) BINARIES(INPLACE_SLOT) UNARIES(SLOT){Py_nb_true_divide, (void *)nb_true_divide},
    {Py_nb_inplace_true_divide, (void *)nb_inplace_true_divide},
    {Py_nb_subtract, (void *)nb_subtract},
    {Py_nb_inplace_subtract, (void *)nb_inplace_subtract},
    {Py_nb_matrix_multiply, (void *)nb_matrix_multiply},
    {Py_nb_positive, (void *)nb_positive},
    {Py_nb_power, (void *)nb_power},
    {Py_nb_inplace_power, (void *)nb_inplace_power},
    {Py_tp_richcompare, (void *)compare},
};

size_t cnpy_operator_slots(PyType_Slot *to)
{
  _Static_assert(sizeof slots / sizeof *slots <= CNPY_OPERATORS, "make CNPY_OPERATORS larger");
  memcpy(to, slots, sizeof slots);
  return sizeof slots / sizeof *slots;
}
