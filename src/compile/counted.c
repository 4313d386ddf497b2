/* counted.c: functions with sizes that depend on data, captured at several: whether everything but the graphs is the
 * same, too.
 *
 * Place in the flow: executable.c captures such a function a few dozen times, at sizes that graph/dynamic.c chooses,
 * and asks here each time; the graphs' numbers become expressions of the sizes there. Invariant: what a program says
 * besides its graph (which results are views, what carries gradients, the note) holds for all counts. */
#include <string.h>

#include "compile.h"
#include "tensor/args.h"

static bool same_step(const cni_view_step *a, const cni_view_step *b)
{
  if (a->info != b->info || a->nargs != b->nargs || a->size != b->size) return false;
  for (int i = 0; i < a->nargs; i++) {
    const cn_value *v = &a->args[i], *w = &b->args[i];
    if (v->tag != w->tag || v->n != w->n) return false;
    if (v->tag == CN_V_INTS ? memcmp(v->u.is, w->u.is, (size_t)v->n * sizeof *v->u.is) != 0
                            : (v->tag == CN_V_INT || v->tag == CN_V_BOOL) && v->u.i != w->u.i)
      return false;
  }
  return true;
}

static bool same_seen(const cni_seen *a, const cni_seen *b)
{
  bool same = a->input == b->input && a->outside == b->outside && a->nsteps == b->nsteps;
  for (int i = 0; same && i < a->nsteps; i++) same = same_step(&a->steps[i], &b->steps[i]);
  return same;
}

static bool same_gradients(const cni_executable *a, const cni_executable *b)
{
  if (!a->carries != !b->carries || a->nleaves != b->nleaves || a->hooked != b->hooked) return false;
  if (!a->carries) return true;
  for (size_t i = 0; i < a->nleaves; i++)
    if (a->leaves[i] != b->leaves[i]) return false;
  return !memcmp(a->carries, b->carries, a->noutputs) &&
         !memcmp(a->gradient, b->gradient, (a->ninputs + a->nleaves) * sizeof *a->gradient);
}

static bool same_note(const cni_executable *a, const cni_executable *b)
{
  return a->note == b->note || (a->notes.same && a->note && b->note && a->notes.same(a->note, b->note));
}

int cni_counted_same(const cni_executable *a, const cni_executable *b)
{
  if (a->nresults != b->nresults || a->noutputs != b->noutputs || !same_gradients(a, b))
    return cni_fail(CN_ERR_CAPTURE, "compile: its results, or which of them carry gradients, depend on a size that "
                                    "depends on data");
  for (size_t i = 0; i < a->nresults; i++)
    if (!same_seen(&a->seen[i], &b->seen[i]))
      return cni_fail(CN_ERR_CAPTURE, "compile: result %zu is a view, and which one depends on a size that depends on "
                                      "data: return a copy (clone)", i);
  if (same_note(a, b)) return CN_OK;
  return cni_fail(CN_ERR_CAPTURE, "compile: what it returns besides tensors depends on a size that depends on data: "
                                  "return a tensor");
}
