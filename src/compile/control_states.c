/* control_states.c: tensors from outside that the functions of branches and loops write to: running means, an
 * optimiser's moments, a buffer.
 *
 * Place in the flow: a function is captured (control_capture.c); where it writes to a memory outside it is captured
 * again with that memory as an input of its own and what it holds at the end as a result, until nothing new is found.
 * control_cond.c and control_loop.c then record a node that takes and gives it, in a loop as a value that is carried,
 * and write the result back as the function did. Invariant: a memory stands in the list once, whatever looks into
 * it. */
#include <cairn/autograd.h>
#include <cairn/ops.h>

#include "control.h"

bool cni_state_is_leaf(const cn_tensor *t) { return cn_needs_grad(t) && cn_is_leaf(t); }

static bool has(const cni_states *s, const cn_tensor *t)
{
  for (size_t i = 0; i < s->n; i++)
    if (s->v[i]->storage == t->storage) return true;
  return false;
}

int cni_states_add(cni_states *s, const cni_captured *f)
{
  int count = 0;
  for (size_t i = 0; i < f->nwritten; i++) {
    cn_tensor *t = f->written[i];
    if (has(s, t)) continue; /* another function of the call writes to it, too */
    if (cni_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v) ||
        cni_grow((void **)&s->wants, &s->wants_cap, s->n + 1, sizeof *s->wants))
      return CN_ERR_MEMORY;
    s->wants[s->n] = cn_needs_grad(t);
    s->v[s->n++] = cni_tensor_keep(t);
    count++;
  }
  return count;
}

bool cni_states_widen(cni_states *s, const bool *finals)
{
  bool more = false;
  for (size_t i = 0; i < s->n; i++) {
    more |= finals[i] && !s->wants[i];
    s->wants[i] |= finals[i];
  }
  return more;
}

/* A leaf was written while gradients were switched off, or its function had failed. */
int cni_states_write(const cni_states *s, cn_tensor *const *finals)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  for (size_t i = 0; i < s->n && !cn_err(); i++) {
    st->no_grad = no_grad || cni_state_is_leaf(s->v[i]);
    cn_copy_(s->v[i], finals[i]);
    st->no_grad = no_grad;
  }
  return cn_err();
}

void cni_states_free(cni_states *s)
{
  for (size_t i = 0; i < s->n; i++) cni_tensor_release(s->v[i]);
  cni_free(s->v, s->cap * sizeof *s->v);
  cni_free(s->wants, s->wants_cap * sizeof *s->wants);
}
