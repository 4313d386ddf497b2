/* control_eager.c: while, scan and map in eager code: a function is called, and called again.
 *
 * Place in the flow: control.c has checked the inputs, and nothing is captured. Invariants: a step's temporary values
 * are gone when the next one begins; what is carried, and rows, are row-major, as they are in a graph, so that kernels
 * do the same in both. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "base/limits.h"
#include "control.h"

typedef struct stepping {
  const cni_loop *loop;
  cn_tensor **now;  /* owned: carried values */
  cn_tensor **in;   /* of one step */
  cn_tensor **made; /* of one step: room for CNI_MOST_RESULTS */
  cn_tensor **rows; /* owned: of y k, row i: rows[k * length + i]; NULL: no step has been done */
  size_t nys;
  int64_t most, done; /* steps at most, -1: no bound; steps that were done */
  uint64_t seed, base; /* where random numbers stood */
} stepping;

static bool gives_rows(const cni_loop *p) { return p->kind != CNI_CONTROL_WHILE || p->counts; }

/* Carried values keep their types and shapes. */
static int check_carried(const cni_loop *p, cn_tensor *const *made, size_t nmade, cn_tensor *const *had)
{
  if (nmade < p->ncarried || (!gives_rows(p) && nmade != p->ncarried))
    return cni_fail(CN_ERR_VALUE, "%s: it carries %zu values, and a step gives %zu", p->who, p->ncarried, nmade);
  for (size_t i = 0; i < p->ncarried; i++) {
    cn_graph_value a = cni_type_of_tensor(had[i]), b = cni_type_of_tensor(made[i]);
    if (cni_carried_fits(p->who, i, &a, &b)) return cn_err();
  }
  return CN_OK;
}

/* ---- one step ---- */

static int note_rows(stepping *s, size_t nys, int64_t at)
{
  size_t length = (size_t)s->loop->length;
  if (!s->rows) {
    if (!(s->rows = cni_alloc_zero((nys * length + 1) * sizeof *s->rows))) return CN_ERR_MEMORY;
    s->nys = nys;
  }
  if (nys != s->nys)
    return cni_fail(CN_ERR_VALUE, "%s: a step gives %zu results, and one before gave %zu", s->loop->who, nys, s->nys);
  for (size_t k = 0; k < nys; k++) s->rows[k * length + (size_t)at] = s->made[s->loop->ncarried + k];
  return CN_OK;
}

static int run_step(stepping *s)
{
  const cni_loop *p = s->loop;
  size_t n = CNI_MOST_RESULTS, depth = cni_scope_push();
  int64_t last = s->most - 1 - s->done, at = p->reverse ? last : s->done, counted = p->countdown ? last : s->done;
  int status = CN_OK;
  if (p->draws) cn_random_set_state(s->seed, s->base + (uint64_t)counted * p->draws);
  for (size_t i = 0; i < p->ncarried; i++) s->in[i] = s->now[i];
  for (size_t i = 0; i < p->nxs && !status; i++)
    if (!(s->in[p->ncarried + i] = cn_select(p->in[p->ncarried + i], 0, at))) status = cn_err();
  if (status) n = 0;
  else status = cni_call_function(s->made, &n, p->who, p->fn, s->in, p->ncarried + p->nxs, p->payload, p->ncarried);
  cni_scope_pop(depth);
  if (!status) status = check_carried(p, s->made, n, s->now);
  if (!status && gives_rows(p)) status = note_rows(s, n - p->ncarried, at);
  if (status) {
    cni_release_all(s->made, n);
    return status;
  }
  cni_release_all(s->now, p->ncarried);
  memcpy(s->now, s->made, p->ncarried * sizeof *s->now);
  s->done++;
  return CN_OK;
}

/* Does a while go on? 1, 0 or an error. */
static int goes_on(stepping *s)
{
  const cni_loop *p = s->loop;
  size_t made = CNI_MOST_RESULTS;
  int status = cni_call_function(s->made, &made, p->who, p->cond, s->now, p->ncarried, p->payload, 0);
  if (!status && made != 1) status = cni_fail(CN_ERR_VALUE, "while: its condition must give one result of one element");
  int yes = status ? status : cni_truth(p->who, s->made[0]);
  cni_release_all(s->made, made);
  return yes;
}

/* ---- rows ---- */

/* What a step would make is found by tracing one; owned results in `made`. */
static int trace_step(stepping *s, size_t *n)
{
  const cni_loop *p = s->loop;
  size_t given = p->ncarried + p->nxs;
  cni_capture cap;
  *n = 0;
  if (cni_trace_begin(&cap)) return cn_err();
  int status = CN_OK, no_grad = cn_no_grad_begin();
  for (size_t i = 0; i < given && !status; i++) {
    cn_desc d = p->in[i]->d;
    if (i >= p->ncarried) memmove(d.shape, d.shape + 1, (size_t)--d.ndim * sizeof *d.shape);
    cni_contiguous_strides(d.ndim, d.shape, d.strides);
    if (!(s->in[i] = cni_trace_input(&cap, &d))) status = cn_err();
  }
  *n = CNI_MOST_RESULTS;
  if (!status) status = cni_call_function(s->made, n, p->who, p->fn, s->in, given, p->payload, 0);
  else *n = 0;
  cn_no_grad_end(no_grad);
  cn_graph_free(cni_trace_end(&cap, status));
  return status ? status : check_carried(p, s->made, *n, p->in);
}

/* rows -1: no such dimension. Borrowed; NULL with the error set. */
static cn_tensor *zeros_like(const cn_tensor *t, int64_t rows)
{
  cn_graph_value type = cni_type_of_tensor(t);
  return cni_zeros_typed(&type, rows);
}

/* Without a step rows are zero. */
static int empty_rows(cn_tensor **ys, size_t *nys, stepping *s)
{
  const cni_loop *p = s->loop;
  size_t n;
  int status = trace_step(s, &n);
  if (!status && n - p->ncarried > *nys)
    status = cni_fail(CN_ERR_VALUE, "%s: there is no room for its results", p->who);
  for (size_t i = p->ncarried; i < n && !status; i++) {
    if (!(ys[i - p->ncarried] = zeros_like(s->made[i], p->length))) status = cn_err();
  }
  cni_release_all(s->made, n);
  *nys = status ? 0 : n - p->ncarried;
  return status;
}

/* Rows that no step made are zero. */
static int fill_rows(cn_tensor **rows, size_t length)
{
  cn_tensor *zeros = NULL, *like = NULL;
  for (size_t i = 0; i < length && !like; i++) like = rows[i];
  for (size_t i = 0; i < length; i++) {
    if (rows[i]) continue;
    if (!zeros && !(zeros = zeros_like(like, -1))) return cn_err();
    rows[i] = cni_tensor_keep(zeros);
  }
  return CN_OK;
}

static int stack_rows(cn_tensor **ys, size_t *nys, const stepping *s)
{
  size_t length = (size_t)s->loop->length;
  if (s->nys > *nys) return cni_fail(CN_ERR_VALUE, "%s: there is no room for its results", s->loop->who);
  for (size_t k = 0; k < s->nys; k++)
    if (fill_rows(s->rows + k * length, length) || !(ys[k] = cn_stack_with(s->rows + k * length, length, NULL)))
      return cn_err();
  *nys = s->nys;
  return CN_OK;
}

/* ---- the loop ---- */

static int run_steps(stepping *s)
{
  const cni_loop *p = s->loop;
  int status = CN_OK;
  s->most = p->kind == CNI_CONTROL_WHILE && !p->length ? -1 : p->length;
  if (p->steps) {
    int64_t wanted = cn_item_int(p->steps);
    if (cn_err()) return cn_err();
    s->most = wanted < 0 ? 0 : wanted < s->most ? wanted : s->most;
  }
  while (!status && s->done != s->most) {
    int go = p->cond ? goes_on(s) : 1;
    if (go <= 0) return go;
    status = cni_limits_hold(p->who);
    if (!status) status = run_step(s);
  }
  return status;
}

/* Results behind the carried values. */
static int give_rows(cn_tensor **ys, size_t *nys, stepping *s)
{
  const cni_loop *p = s->loop;
  size_t room = *nys;
  *nys = 0;
  if (!gives_rows(p)) return CN_OK;
  if (p->counts) room--;
  int status = s->rows ? stack_rows(ys, &room, s) : empty_rows(ys, &room, s);
  if (status) return status;
  *nys = room;
  if (!p->counts) return CN_OK;
  cn_full_opts o = {.size = sizeof o, .dtype = CN_I64, .device = p->in[0]->d.device};
  return (ys[(*nys)++] = cn_full_with(NULL, 0, (double)s->done, &o)) ? CN_OK : cn_err();
}

static int run_all(cn_tensor **out, size_t *nout, stepping *s)
{
  const cni_loop *p = s->loop;
  size_t nys = *nout - p->ncarried;
  cn_random_state(&s->seed, &s->base);
  for (size_t i = 0; i < p->ncarried; i++) s->now[i] = cni_tensor_keep(p->in[i]);
  int status = run_steps(s);
  if (!status) status = give_rows(out + p->ncarried, &nys, s);
  if (s->rows) cni_release_all(s->rows, s->nys * (size_t)p->length);
  if (s->rows) cni_free(s->rows, (s->nys * (size_t)p->length + 1) * sizeof *s->rows);
  memcpy(out, s->now, p->ncarried * sizeof *out);
  *nout = p->ncarried + nys;
  if (!status) return cni_hand_over(out, p->ncarried);
  cni_release_all(out, p->ncarried);
  return status;
}

int cni_eager_loop(cn_tensor **out, size_t *nout, const cni_loop *loop)
{
  size_t n = 2 * loop->ncarried + loop->nxs + CNI_MOST_RESULTS + 1;
  cn_tensor **room = cni_alloc_zero(n * sizeof *room);
  if (!room) return CN_ERR_MEMORY;
  stepping s = {.loop = loop, .now = room, .in = room + loop->ncarried,
                .made = room + 2 * loop->ncarried + loop->nxs};
  int status = run_all(out, nout, &s);
  cni_free(room, n * sizeof *room);
  return status;
}
