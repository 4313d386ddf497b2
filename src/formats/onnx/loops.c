/* loops.c: see loops.h. Place in the flow: ops/control.c comes here where a graph is captured and a loop is long, or
 * as long as data says. Invariant: bodies are walked once, in the capture of the loop's node; what is not a tensor of
 * fixed shape cannot go round such a loop, and is an error of the capture. */
#include "loops.h"

#include <string.h>

static cn_tensor *counter(const cni_onnx_loop *l, int64_t value)
{
  return cn_full(CN_SCALAR_SHAPE, (double)value, .dtype = CN_I64, .device = cni_onnx_device(l->call));
}

static cn_tensor *as_tensor(const cni_onnx_loop *l, const cn_onnx_value *v)
{
  cn_tensor *t = cn_onnx_value_as_tensor(v);
  if (!t && !cn_err())
    cni_onnx_fail(l->call, CN_ERR_CAPTURE, "capture: what is no tensor goes round a loop that a graph holds");
  return t;
}

/* The body's results for inputs of which some are given as values, borrowed, in l->in, and others as tensors: n of them
 * from l->in[at] on. 0 or an error; l->made is owned by the caller only where it is 0. */
static int walk(const cni_onnx_loop *l, size_t at, cn_tensor *const *given, size_t n)
{
  for (size_t i = 0; i < n; i++) l->in[at + i] = cni_onnx_take(given[i]);
  int status = cn_err();
  if (!status) status = cni_onnx_walk_inside(l->made, l->call, l->body, l->in, at + n);
  for (size_t i = 0; i < n; i++) {
    cn_onnx_value_release(l->in[at + i]);
    l->in[at + i] = NULL;
  }
  return status;
}

/* The body's results from `first` on as tensors of the scope; all of l->made goes. */
static int hand_over(cn_tensor **out, const cni_onnx_loop *l, size_t first)
{
  for (size_t i = 0; i < l->body->noutputs; i++) {
    cn_tensor *t = i < first || cn_err() ? NULL : as_tensor(l, l->made[i]);
    if (i >= first) out[i - first] = t ? cn_scope_give(cn_keep(t)) : NULL;
    cn_onnx_value_release(l->made[i]);
  }
  return cn_err();
}

/* Tensors of carried values, behind `before` others. NULL with the error set. */
static cn_tensor **carried_tensors(const cni_onnx_loop *l, size_t before, cn_onnx_value *const *carried)
{
  cn_tensor **t = cni_onnx_room(l->call, before + l->ncarried + 1, sizeof *t);
  for (size_t i = 0; t && i < l->ncarried; i++)
    if (!(t[before + i] = as_tensor(l, carried[i]))) return NULL;
  return t;
}

static int replace(const cni_onnx_loop *l, cn_onnx_value **carried, cn_tensor *const *last)
{
  for (size_t i = 0; i < l->ncarried; i++) {
    cn_onnx_value *v = cni_onnx_take(last[i]);
    if (!v) return cn_err();
    cn_onnx_value_release(carried[i]);
    carried[i] = v;
  }
  return cn_err();
}

/* ---- as long as a condition says: what is carried is the condition, the number of the step, the values ---- */

typedef struct bounded {
  const cni_onnx_loop *loop;
  cn_tensor *most;
} bounded;

static int goes_on(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const bounded *b = payload;
  (void)nin;
  out[0] = b->most ? cn_logical_and(in[0], cn_lt(in[1], b->most)) : in[0];
  *nout = 1;
  return cn_err();
}

static int while_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const cni_onnx_loop *l = ((const bounded *)payload)->loop;
  cn_tensor **given = cni_onnx_room(l->call, nin, sizeof *given);
  if (!given) return cn_err();
  memcpy(given, in, nin * sizeof *given);
  given[0] = in[1];
  given[1] = in[0];
  if (walk(l, 0, given, nin)) return cn_err();
  *nout = nin;
  cn_tensor **made = cni_onnx_room(l->call, l->body->noutputs + 1, sizeof *made);
  if (hand_over(made ? made : out, l, 0) || !made) return cn_err();
  out[0] = cn_reshape(cn_cast(made[0], CN_BOOL), CN_SCALAR_SHAPE);
  out[1] = cn_add(in[1], cn_int(1));
  for (size_t i = 0; i < l->ncarried; i++) out[2 + i] = made[1 + i];
  return cn_err();
}

int cni_onnx_loop_while(cni_onnx_loop *l, cn_onnx_value **carried, int64_t first, cn_tensor *condition,
                        cn_tensor *most)
{
  bounded b = {l, most ? cn_reshape(most, CN_SCALAR_SHAPE) : NULL};
  cn_tensor **in = carried_tensors(l, 2, carried), **out = cni_onnx_room(l->call, l->ncarried + 2, sizeof *out);
  if (!in || !out) return cn_err();
  if (l->nrows)
    return cni_onnx_fail(l->call, CN_ERR_CAPTURE,
                         "capture: a loop that goes on as data says, and stacks what its steps give");
  in[0] = condition ? cn_reshape(condition, CN_SCALAR_SHAPE)
                    : cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_BOOL, .device = cni_onnx_device(l->call));
  in[1] = counter(l, first);
  if (cn_err() || cn_while(out, in, l->ncarried + 2, goes_on, while_step, &b)) return cn_err();
  return replace(l, carried, out + 2);
}

/* ---- a known number of steps: what is carried is the number of the step, the values ---- */

typedef struct counted {
  const cni_onnx_loop *loop;
  cn_onnx_value *condition; /* borrowed; known, and true */
} counted;

/* The body says that it goes on, whatever data says. */
static bool stays_true(const cni_onnx_loop *l)
{
  const cn_onnx_value *v = l->made[0];
  if (!v || !v->known) return false;
  void *paused = cn_trace_pause();
  bool yes = cn_item(v->known) != 0;
  cn_trace_resume(paused);
  return yes;
}

static int counted_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const counted *k = payload;
  const cni_onnx_loop *l = k->loop;
  cn_onnx_value *step = cni_onnx_take(in[0]);
  l->in[0] = step;
  l->in[1] = k->condition;
  int status = step ? walk(l, 2, in + 1, nin - 1) : cn_err();
  cn_onnx_value_release(step);
  if (status) return status;
  bool on = stays_true(l);
  if (hand_over(out + 1, l, 1)) return cn_err();
  if (!on) return cni_onnx_fail(l->call, CN_ERR_CAPTURE, "capture: a long loop whose condition its steps decide");
  out[0] = cn_add(in[0], cn_int(1));
  *nout = 1 + l->ncarried + l->nrows;
  return cn_err();
}

int cni_onnx_loop_steps(cni_onnx_loop *l, cn_onnx_value **carried, cn_tensor **rows, cn_onnx_value *condition,
                        int64_t steps)
{
  counted k = {l, condition};
  size_t nrows = l->nrows;
  cn_tensor **in = carried_tensors(l, 1, carried), **out = cni_onnx_room(l->call, l->ncarried + 1, sizeof *out);
  if (!in || !out || !(in[0] = counter(l, 0))) return cn_err();
  if (cn_scan(out, rows, &nrows, in, l->ncarried + 1, NULL, 0, counted_step, &k, .length = steps)) return cn_err();
  return replace(l, carried, out + 1);
}

/* ---- a step for each row ---- */

static int row_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const cni_onnx_loop *l = payload;
  *nout = l->body->noutputs;
  return walk(l, 0, in, nin) ? cn_err() : hand_over(out, l, 0);
}

int cni_onnx_loop_rows(cni_onnx_loop *l, cn_onnx_value **carried, cn_tensor **rows, cn_tensor *const *xs, size_t nxs)
{
  size_t nrows = l->nrows;
  cn_tensor **in = carried_tensors(l, 0, carried), **out = cni_onnx_room(l->call, l->ncarried + 1, sizeof *out);
  if (!in || !out || cn_scan(out, rows, &nrows, in, l->ncarried, xs, nxs, row_step, l)) return cn_err();
  return replace(l, carried, out);
}
