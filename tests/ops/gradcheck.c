/* gradcheck.c: the driver that compares gradients with finite differences, in float64, first and second order.
 *
 * Float inputs of any type are made float64, so that every differentiable op with a small float sample is checked.
 * Invariant: samples whose values may fall on a kink (ties, chosen values, special values) are left to the oracle. */
#include "drivers.h"
#include "tensor/tensor.h"

enum { MOST_ELEMENTS = 64, MOST_SECOND = 24 };

typedef struct scalar_call {
  call *c;
  int input[SAMPLE_INPUTS]; /* which input of the call each checked tensor is */
  bool pairs[SAMPLE_INPUTS]; /* it is complex, and checked as pairs */
  size_t n;
} scalar_call;

/* Sum over all float results of result * weights. NULL when there is none, or with the error set. */
static cn_tensor *weighted_sum(const call *c)
{
  call_result r;
  cn_tensor *total = NULL;
  cn_seed(1); /* random ops draw the same each time */
  if (call_run(&r, c, NULL)) return NULL;
  for (size_t i = 0; i < r.nout; i++) {
    cn_tensor *out = cni_scope_add(r.out[i]);
    cn_tensor *weights = out ? cni_scope_add(call_weights(c->s, (int)i, out)) : NULL;
    if (!out || (cn_dtype_of(out) != CN_F64 && cn_dtype_of(out) != CN_C128)) continue;
    if (cn_dtype_of(out) == CN_C128) out = cn_view_as_real(out), weights = cn_view_as_real(weights);
    cn_tensor *part = cn_sum(cn_mul(out, weights));
    total = total ? cn_add(total, part) : part;
  }
  return cn_err() ? NULL : total;
}

static cn_tensor *scalar_of(cn_tensor *const *inputs, void *payload)
{
  scalar_call *k = payload;
  for (size_t i = 0; i < k->n; i++)
    call_set_input(k->c, k->input[i], k->pairs[i] ? cn_view_as_complex(inputs[i]) : inputs[i]);
  return weighted_sum(k->c);
}

/* The pairs of a complex tensor as a leaf of their own; owned. */
static cn_tensor *leaf_of_pairs(cn_tensor *t)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *pairs = cn_keep(cn_requires_grad(cn_clone(cn_view_as_real(cn_detach(t))), true));
  cn_scope_end(scope);
  return pairs;
}

/* Which inputs to check, complex ones as pairs; returns their elements together. */
static int64_t pick_inputs(scalar_call *k, cn_tensor **inputs)
{
  int64_t elements = 0;
  for (int i = 0; i < k->c->nin; i++) {
    cn_tensor *t = k->c->in[i];
    if (!t || !cn_needs_grad(t)) continue;
    k->pairs[k->n] = cn_dtype_is_complex(cn_dtype_of(t));
    inputs[k->n] = k->pairs[k->n] ? leaf_of_pairs(t) : cn_keep(t);
    elements += cn_numel(inputs[k->n]);
    k->input[k->n++] = i;
  }
  return elements;
}

static bool gives_gradient(const call *c)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *y = weighted_sum(c);
  bool yes = y && cn_needs_grad(y);
  cn_scope_end(scope);
  cn_err_clear();
  return yes;
}

static enum outcome check(const trial *t, scalar_call *k, cn_tensor **inputs, int64_t elements)
{
  const char *reason = exception_for("second order", t->s);
  if (!k->n || elements > MOST_ELEMENTS || !gives_gradient(k->c)) return PASS;
  cn_gradcheck_opts o = {.size = sizeof o, .second_order = !reason && elements <= MOST_SECOND};
  cn_scope *scope = cn_scope_begin();
  int status = cn_gradcheck_with(scalar_of, inputs, k->n, k, &o);
  enum outcome result =
      status ? trial_fail(t, "%s%s", o.second_order ? "(second order asked) " : "", cn_err_message()) : PASS;
  cn_scope_end(scope);
  return result;
}

enum outcome drive_gradcheck(const trial *t)
{
  const sample *s = t->s;
  const char *reason = exception_for("gradcheck", s);
  if (s->must_fail || s->large || !differentiable(s)) return PASS;
  if (sample_has_range(s, '!', false) || sample_has_range(s, '%', true) || sample_has_range(s, '=', true))
    return PASS;
  if (reason) return trial_skip(t, "%s", reason);
  call c;
  scalar_call k = {.c = &c};
  cn_tensor *inputs[SAMPLE_INPUTS] = {NULL};
  if (call_make(&c, s, &(call_setup){.contiguous = true, .as_f64 = true, .grad = true}))
    return trial_fail(t, "inputs: %s", cn_err_message());
  int64_t elements = pick_inputs(&k, inputs);
  enum outcome o = check(t, &k, inputs, elements);
  for (size_t i = 0; i < k.n; i++) cn_release(inputs[i]);
  call_free(&c);
  cn_err_clear();
  return o;
}
