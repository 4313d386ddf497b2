/* views.c: results of compiled functions that are inputs, tensors from outside, or views of those: they are handed out
 * as such, so that whoever writes into one writes where the function's own result would have been.
 *
 * Place in the flow: executable.c notes them while it captures; compile.c makes them after each run, by the views'
 * own ops, which record gradients as usual. Invariant: what is noted is no output of the graph. */
#include "views.h"

#include <string.h>

#include "graph/capture.h"
#include "ops/apply.h"
#include "tensor/args.h"

void cni_seen_free(cni_seen *s)
{
  cni_tensor_release(s->outside);
  for (int i = 0; i < s->nsteps; i++) cni_free(s->steps[i].args, s->steps[i].size);
  *s = (cni_seen){.input = -1};
}

/* Which input's handle, or tensor from outside, a result shows; NULL: memory that the function made, or a tensor that
 * stands for it with another history. */
static bool find_root(cni_seen *s, cn_tensor *root, const cni_capture *cap, cn_tensor *const *handles, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (handles[i] == root && !root->d.weak) {
      s->input = (int)i;
      return true;
    }
  for (size_t i = 0; i < cap->g->nstates; i++)
    if (cap->g->states[i].tensor == root) {
      s->outside = cni_tensor_keep(root);
      return true;
    }
  return false;
}

static int note_step(cni_seen *s, const cni_view *v)
{
  cni_view_step *step = &s->steps[s->nsteps];
  step->size = cni_args_bytes(v->args, v->nargs);
  if (!(step->args = cni_alloc(step->size))) return CN_ERR_MEMORY;
  cni_args_copy(step->args, v->args, v->nargs);
  step->info = cni_op_info(v->op);
  step->nargs = v->nargs;
  s->nsteps++;
  return CN_OK;
}

int cni_seen_note(cni_seen *s, cn_tensor *t, cni_capture *cap, cn_tensor *const *handles, size_t n)
{
  bool grad = !cni_state()->no_grad;
  int depth = 0;
  cn_tensor *root = t;
  *s = (cni_seen){.input = -1};
  for (; root->view; root = root->view->parent, depth++) {
    bool cut = (root->view->op->flags & CN_OP_NO_GRAD) || root->view->parent->detached;
    if (grad && root->detached && !cut) return 0; /* made while gradients were off: another call would record it */
  }
  if (depth > CNI_VIEW_STEPS || t->d.weak) return 0;
  if (cni_capture_value(cap, t) < 0) return cn_err();
  if (!find_root(s, root, cap, handles, n)) return 0;
  int status = CN_OK;
  for (const cn_tensor *v = t; v->view && !status; v = v->view->parent) status = note_step(s, v->view);
  if (status) cni_seen_free(s);
  return status ? status : 1;
}

cn_tensor *cni_seen_make(const cni_seen *s, const cn_compile_call *call)
{
  cn_tensor *t = cni_scope_add(cni_tensor_keep(s->input >= 0 ? call->inputs[s->input] : s->outside));
  for (int i = s->nsteps; t && i-- > 0;) { /* the outermost was noted first */
    const cni_view_step *step = &s->steps[i];
    cn_value args[CN_MAX_ARGS];
    cn_tensor *made = NULL;
    int one = 1;
    memcpy(args, step->args, (size_t)step->nargs * sizeof *args);
    args[0] = cn_v_tensor(t);
    t = cni_apply(step->info, args, step->nargs, NULL, &made, &one) ? NULL : cni_scope_add(made);
  }
  return t;
}
