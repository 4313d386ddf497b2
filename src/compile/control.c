/* control.c: cn_cond, cn_while, cn_scan and cn_map: checks, and who does it.
 *
 * Place in the flow: in eager code a function is called, and called again (control_eager.c); while a graph is captured
 * control_cond.c and control_loop.c record a node. Invariant: what a loop carries, and rows, are row-major. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "control.h"
#include "ops/families.h"

/* ---- checks ---- */

/* The tensors as the capture that goes on knows them; owned array of n + 1, the last NULL. NULL with the error set. */
static cn_tensor **checked(const char *who, const char *what, cn_tensor *const *tensors, size_t n)
{
  if (cn_err()) return NULL;
  cni_init();
  cn_tensor **known = cni_alloc_zero((n + 1) * sizeof *known);
  bool inside = (cni_state()->modes & CNI_MODE_INSIDE) != 0;
  for (size_t i = 0; known && i < n; i++) {
    if (!tensors[i]) cni_fail(CN_ERR_TYPE, "%s: %s %zu is NULL", who, what, i);
    else if (tensors[i]->d.weak) cni_fail(CN_ERR_TYPE, "%s: %s %zu is a number, not a tensor", who, what, i);
    else known[i] = inside ? cni_bring_one_inside(tensors[i]) : tensors[i];
    if (known[i]) continue;
    cni_free(known, (n + 1) * sizeof *known);
    return NULL;
  }
  return known;
}

static int row_major(cn_tensor **tensors, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!(tensors[i] = cn_contiguous(tensors[i]))) return cn_err();
  return CN_OK;
}

static int no_function(const char *who) { return cni_fail(CN_ERR_TYPE, "%s: a function is NULL", who); }

/* ---- calling in eager code ---- */

int cni_call_function(cn_tensor **out, size_t *n, const char *who, cn_control_fn fn, cn_tensor *const *in, size_t nin,
                      void *payload, size_t carried)
{
  size_t most = *n, depth = cni_scope_push();
  memset(out, 0, most * sizeof *out);
  int status = fn(out, n, in, nin, payload);
  if (!status) status = cn_err();
  if (status && !cn_err()) cni_fail(status, "%s: the function failed", who);
  if (!status && *n > most) status = cni_fail(CN_ERR_VALUE, "%s: more results than there is room for", who);
  for (size_t i = 0; i < *n && !status; i++) {
    if (!out[i]) status = cni_fail(CN_ERR_VALUE, "%s: the function left result %zu unset", who, i);
    else if (out[i]->d.weak) status = cni_fail(CN_ERR_TYPE, "%s: result %zu is a number, not a tensor", who, i);
    else if (i < carried && !(out[i] = cn_contiguous(out[i]))) status = cn_err();
  }
  for (size_t i = 0; i < *n && !status; i++) cni_tensor_keep(out[i]);
  if (status) *n = 0;
  cni_scope_pop(depth);
  return status;
}

void cni_release_all(cn_tensor **t, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    cni_tensor_release(t[i]);
    t[i] = NULL;
  }
}

int cni_hand_over(cn_tensor **t, size_t n)
{
  int status = CN_OK;
  for (size_t i = 0; i < n; i++) {
    if (status) cni_tensor_release(t[i]);
    else if (!cni_scope_add(t[i])) status = CN_ERR_MEMORY;
    if (status) t[i] = NULL;
  }
  return status;
}

/* ---- cond ---- */

int cni_truth(const char *who, cn_tensor *t)
{
  if (t->d.numel != 1) return cni_fail(CN_ERR_SHAPE, "%s: the predicate must have one element", who);
  double v = cn_item(t);
  return cn_err() ? cn_err() : v != 0;
}

int cn_cond(cn_tensor **outputs, size_t *noutputs, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
            cn_control_fn true_fn, cn_control_fn false_fn, void *payload)
{
  if (cn_err()) return cn_err();
  if (!pred || !noutputs) return cni_fail(CN_ERR_TYPE, "cond: the predicate is NULL");
  if (!true_fn || !false_fn) return no_function("cond");
  cn_tensor **known = checked("cond", "operand", operands, noperands);
  if (!known) return cn_err();
  int status;
  if (cni_capturing() && !pred->d.weak) {
    cn_tensor **p = checked("cond", "predicate", &pred, 1);
    if (!p) status = cn_err();
    else if (p[0]->d.numel != 1) status = cni_fail(CN_ERR_SHAPE, "cond: the predicate must have one element");
    else status = cni_capture_cond(outputs, noutputs, p[0], known, noperands, true_fn, false_fn, payload);
    cni_free(p, 2 * sizeof *p);
  } else {
    int yes = cni_truth("cond", pred);
    cn_control_fn fn = yes ? true_fn : false_fn;
    status = yes < 0 ? yes : cni_call_function(outputs, noutputs, "cond", fn, known, noperands, payload, 0);
    if (!status) status = cni_hand_over(outputs, *noutputs);
  }
  cni_free(known, (noperands + 1) * sizeof *known);
  return status;
}

/* ---- loops ---- */

/* Rows of xs come first; *length: how many. */
static int bring_rows_first(const char *who, cn_tensor **xs, size_t n, int64_t dim, int64_t *length)
{
  int64_t given = *length;
  for (size_t i = 0; i < n; i++) {
    int64_t from = dim < 0 ? dim + xs[i]->d.ndim : dim;
    if (from < 0 || from >= xs[i]->d.ndim)
      return cni_fail(CN_ERR_INDEX, "%s: x %zu has %d dimensions, and no dimension %d", who, i, (int)xs[i]->d.ndim,
                      (int)dim);
    if (i && xs[i]->d.shape[from] != *length)
      return cni_fail(CN_ERR_SHAPE, "%s: x %zu has %d rows, and x 0 has %d", who, i, (int)xs[i]->d.shape[from],
                      (int)*length);
    *length = xs[i]->d.shape[from];
    if (from && !(xs[i] = cn_movedim(xs[i], &from, 1, (const int64_t[]){0}, 1))) return cn_err();
  }
  if (row_major(xs, n)) return cn_err();
  if (n && given && given != *length)
    return cni_fail(CN_ERR_SHAPE, "%s: its length is %d, and xs have %d rows", who, (int)given, (int)*length);
  return CN_OK;
}

int cni_run_loop(cn_tensor **out, size_t *nout, cni_loop *loop, cn_tensor *const *given, int64_t dim)
{
  size_t n = loop->ncarried + loop->nxs;
  const char *what = loop->nxs == n ? "x" : loop->nxs ? "input" : "carried value";
  cn_tensor **known = checked(loop->who, what, given, n);
  if (!known) return cn_err();
  int status = row_major(known, loop->ncarried);
  if (!status) status = bring_rows_first(loop->who, known + loop->ncarried, loop->nxs, dim, &loop->length);
  loop->in = known;
  if (!status && loop->steps && (cni_state()->modes & CNI_MODE_INSIDE) &&
      !(loop->steps = cni_bring_one_inside(loop->steps)))
    status = cn_err();
  if (!status) status = cni_capturing() ? cni_capture_loop(out, nout, loop) : cni_eager_loop(out, nout, loop);
  for (size_t i = loop->ncarried; i < *nout && !status && dim; i++) {
    int64_t to = dim < 0 ? dim + given[loop->ncarried]->d.ndim : dim;
    if (to < out[i]->d.ndim && to && !(out[i] = cn_movedim(out[i], (const int64_t[]){0}, 1, &to, 1))) status = cn_err();
  }
  cni_free(known, (n + 1) * sizeof *known);
  return status;
}

int cn_while_with(cn_tensor **outputs, cn_tensor *const *carried, size_t n, cn_control_fn cond_fn,
                  cn_control_fn body_fn, void *payload, const cn_while_opts *opts)
{
  cn_while_opts o = {.size = sizeof o};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  if (cn_err()) return cn_err();
  if (!cond_fn || !body_fn) return no_function("while");
  if (!n) return cni_fail(CN_ERR_VALUE, "while: it must carry a value");
  if (o.max_steps < 0) return cni_fail(CN_ERR_VALUE, "while: max_steps is negative");
  cni_loop loop = {.kind = CNI_CONTROL_WHILE, .who = "while", .fn = body_fn, .cond = cond_fn, .payload = payload,
                   .ncarried = n, .length = o.max_steps};
  size_t nout = n;
  return cni_run_loop(outputs, &nout, &loop, carried, 0);
}

int cn_scan_with(cn_tensor **last, cn_tensor **ys, size_t *nys, cn_tensor *const *init, size_t ncarries,
                 cn_tensor *const *xs, size_t nxs, cn_control_fn combine, void *payload, const cn_scan_opts *opts)
{
  cn_scan_opts o = {.size = sizeof o};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  if (cn_err()) return cn_err();
  if (!combine) return no_function("scan");
  if (!ncarries) return cni_fail(CN_ERR_VALUE, "scan: it must carry a value; cn_map carries none");
  if (o.length < 0) return cni_fail(CN_ERR_VALUE, "scan: its length is negative");
  if (!nxs && o.dim) return cni_fail(CN_ERR_VALUE, "scan: there are no xs, and so no dimension %d", (int)o.dim);
  size_t most = ncarries + (nys ? *nys : 0), bytes = (most + ncarries + nxs + 1) * sizeof *last;
  cn_tensor **out = cni_alloc_zero(bytes), **given = out + most;
  if (!out) return CN_ERR_MEMORY;
  memcpy(given, init, ncarries * sizeof *given);
  if (nxs) memcpy(given + ncarries, xs, nxs * sizeof *given);
  cni_loop loop = {.kind = CNI_CONTROL_SCAN, .who = "scan", .fn = combine, .payload = payload, .ncarried = ncarries,
                   .nxs = nxs, .length = o.length, .reverse = o.reverse};
  int status = cni_run_loop(out, &most, &loop, given, o.dim);
  size_t count = status ? 0 : most - ncarries;
  memcpy(last, out, ncarries * sizeof *last);
  if (count) memcpy(ys, out + ncarries, count * sizeof *ys);
  if (nys) *nys = count;
  cni_free(out, bytes);
  return status;
}

int cn_map(cn_tensor **ys, size_t *nys, cn_tensor *const *xs, size_t nxs, cn_control_fn fn, void *payload)
{
  if (cn_err()) return cn_err();
  if (!fn) return no_function("map");
  if (!nxs || !nys) return cni_fail(CN_ERR_VALUE, "map: there is nothing to go along");
  cni_loop loop = {.kind = CNI_CONTROL_MAP, .who = "map", .fn = fn, .payload = payload, .nxs = nxs};
  return cni_run_loop(ys, nys, &loop, xs, 0);
}
