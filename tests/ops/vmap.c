/* vmap.c: the driver of batches of examples: an op under cn_vmap gives what a loop over the examples gives, and the
 * same gradients. Each tensor is the batch by itself, along the first dim, then all of them at once along the last one.
 * Behind all samples the ops that run example by example (src/ops/batch_loop.c) are counted: there are no more of them
 * than the list here has. Invariant: the loop is the judge; where an op refuses a batch, its values decide a size. */
#include <cairn/vmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "drivers.h"
#include "tensor/tensor.h"
#include "test.h"

enum { EXAMPLES = 3, MOST_ALONE = 6, MOST_OPS = 4096 };

static bool looped[MOST_OPS];
static size_t nsamples;

/* One way to choose the batches: dims[i] CN_NOT_MAPPED where input i is the same for all. */
typedef struct choice {
  int n;                         /* inputs that are mapped */
  int which[SAMPLE_INPUTS];      /* their numbers in the call */
  cn_tensor *full[SAMPLE_INPUTS]; /* ... as batches, leaves where they are floats */
  int64_t dims[SAMPLE_INPUTS];
} choice;

typedef struct batch_call {
  call *c;
  size_t nout;
  cn_tensor *out[SAMPLE_RESULTS]; /* borrowed */
} batch_call;

static int run_with(batch_call *b, const choice *ch, cn_tensor *const *one)
{
  call_result r = {0};
  cn_tensor *own[SAMPLE_INPUTS];
  for (int i = 0; i < ch->n; i++) {
    own[i] = cn_keep(b->c->in[ch->which[i]]);
    call_set_input(b->c, ch->which[i], one[i]);
  }
  int status = call_run(&r, b->c, NULL);
  for (int i = 0; i < ch->n; i++) {
    call_set_input(b->c, ch->which[i], own[i]);
    cn_release(own[i]);
  }
  b->nout = r.nout;
  for (size_t i = 0; i < r.nout && !status; i++) b->out[i] = r.out[i] ? cni_scope_add(r.out[i]) : NULL;
  return status;
}

/* ---- the loop ---- */

static int by_loop(batch_call *b, const choice *ch)
{
  cn_tensor *rows[SAMPLE_RESULTS][EXAMPLES];
  for (int k = 0; k < EXAMPLES; k++) {
    cn_tensor *one[SAMPLE_INPUTS];
    for (int i = 0; i < ch->n; i++) one[i] = cn_select(ch->full[i], ch->dims[i], k);
    cn_seed(1);
    int status = cn_err() ? cn_err() : run_with(b, ch, one);
    if (status) return status;
    for (size_t i = 0; i < b->nout; i++) rows[i][k] = b->out[i];
  }
  for (size_t i = 0; i < b->nout; i++)
    if (b->out[i]) b->out[i] = cn_stack(rows[i], EXAMPLES);
  return cn_err();
}

/* ---- vmap ---- */

static int by_vmap(batch_call *b, const choice *ch)
{
  cn_tensor *one[SAMPLE_INPUTS];
  cn_seed(1);
  int64_t vmap = cn_vmap_begin(EXAMPLES, CN_RANDOM_SAME);
  for (int i = 0; i < ch->n; i++) one[i] = cn_batched(ch->full[i], ch->dims[i], vmap);
  int status = cn_err() ? cn_err() : run_with(b, ch, one);
  for (size_t i = 0; i < b->nout && !status; i++)
    if (b->out[i] && !(b->out[i] = cn_unbatched(b->out[i], 0, vmap))) status = cn_err();
  cn_vmap_end(vmap);
  return status;
}

/* ---- comparing ---- */

/* The gradients of a weighted sum of all float results with respect to the batches. */
static int gradients(cn_tensor **grads, const batch_call *b, const choice *ch)
{
  cn_tensor *total = NULL, *leaves[SAMPLE_INPUTS];
  size_t n = 0;
  for (size_t i = 0; i < b->nout; i++) {
    cn_tensor *t = b->out[i];
    if (!t || !cn_needs_grad(t) || !cn_numel(t)) continue;
    if (cn_dtype_is_complex(cn_dtype_of(t))) t = cn_view_as_real(t);
    cn_tensor *w = cn_reshape(cn_cos(cn_arange(0, (double)cn_numel(t), .dtype = CN_F64)), cn_shape(t),
                              (size_t)cn_ndim(t));
    cn_tensor *part = cn_sum(cn_mul(cn_cast(t, CN_F64), w));
    total = total ? cn_add(total, part) : part;
  }
  for (int i = 0; i < ch->n; i++) grads[i] = NULL;
  if (!total) return cn_err();
  int at[SAMPLE_INPUTS];
  cn_tensor *found[SAMPLE_INPUTS];
  for (int i = 0; i < ch->n; i++)
    if (cn_needs_grad(ch->full[i])) at[n] = i, leaves[n++] = ch->full[i];
  if (!n) return cn_err();
  int status = cn_grad(found, &total, 1, leaves, n, .allow_unused = true);
  for (size_t i = 0; i < n && !status; i++) grads[at[i]] = found[i];
  return status;
}

static enum outcome compare(const trial *t, call *c, const choice *ch, const char *what)
{
  batch_call want = {.c = c}, have = {.c = c};
  char detail[300] = "";
  size_t before = cn_vmap_loops();
  if (by_loop(&want, ch)) {
    cn_err_clear();
    return SKIP; /* the other values are not for this op */
  }
  uint64_t seed, offset, start;
  cn_random_state(&seed, &offset);
  cn_seed(1);
  cn_random_state(&seed, &start);
  if (by_vmap(&have, ch)) {
    const char *message = cn_err_message();
    bool refused = strstr(message, "dynamic shape") || strstr(message, "calling .item()");
    enum outcome o = refused ? PASS : trial_fail(t, "%s: %s", what, message);
    cn_err_clear();
    return o;
  }
  if (cn_vmap_loops() != before) looped[t->s->info->id] = true;
  if (have.nout != want.nout) return trial_fail(t, "%s: %zu results should be %zu", what, have.nout, want.nout);
  for (size_t i = 0; i < want.nout; i++)
    if ((have.out[i] || want.out[i]) &&
        !same_tensors(have.out[i], want.out[i], t->family->scale, detail, sizeof detail))
      return trial_fail(t, "%s: result %zu: %s", what, i, detail);
  cn_tensor *a[SAMPLE_INPUTS], *b[SAMPLE_INPUTS];
  if (gradients(a, &want, ch)) {
    cn_err_clear();
    return PASS; /* it has none */
  }
  if (gradients(b, &have, ch)) return trial_fail(t, "%s: gradient: %s", what, cn_err_message());
  for (int i = 0; i < ch->n; i++) {
    cn_tensor *x = a[i] ? a[i] : b[i] ? cn_zeros_like(b[i]) : NULL, *y = b[i] ? b[i] : x ? cn_zeros_like(x) : NULL;
    if (x && !same_tensors(y, x, t->family->grad_scale, detail, sizeof detail))
      return trial_fail(t, "%s: gradient of input %d: %s", what, ch->which[i], detail);
  }
  return PASS;
}

/* ---- batches ---- */

/* Examples of an input: itself, and others of its kind: floats smaller, whole numbers in another order. */
static cn_tensor *examples_of(cn_tensor *t, int64_t dim, bool alike)
{
  cn_tensor *rows[EXAMPLES];
  cn_dtype d = cn_dtype_of(t);
  bool number = (cn_dtype_is_float(d) && cni_dtype_computes((int)d)) || cn_dtype_is_complex(d);
  for (int k = 0; k < EXAMPLES; k++) {
    rows[k] = cn_detach(t);
    if (alike || !k || !(number || cni_dtype_computes((int)d))) continue;
    if (number) rows[k] = cn_cast(cn_mul(rows[k], cn_num(1 - 0.25 * k)), d);
    else if (cn_ndim(t) && k == 1) rows[k] = cn_flip(rows[k], (const int64_t[]){0}, 1);
  }
  cn_tensor *full = cn_stack(rows, EXAMPLES, .dim = dim);
  return full && number ? cn_requires_grad(cn_clone(cn_detach(full)), true) : full;
}

static bool may_map(const cn_tensor *t) { return t && !cn_desc_of(t)->weak && cn_ndim(t) < CN_MAX_DIMS - 1; }

/* only: the one input that is mapped; -1: all, along the last dim */
static enum outcome run_choice(const trial *t, call *c, int only, const char *what)
{
  enum outcome o = SKIP;
  for (int alike = 0; alike < 2 && o == SKIP; alike++) {
    choice ch = {0};
    for (int i = 0; i < c->nin; i++) {
      if (!may_map(c->in[i]) || (only >= 0 && i != only)) continue;
      int64_t dim = only < 0 ? cn_ndim(c->in[i]) : 0;
      ch.which[ch.n] = i;
      ch.dims[ch.n] = dim;
      ch.full[ch.n] = examples_of(c->in[i], dim, alike);
      if (!ch.full[ch.n++]) return trial_fail(t, "%s: %s", what, cn_err_message());
    }
    o = ch.n ? compare(t, c, &ch, what) : PASS;
  }
  return o == SKIP ? PASS : o;
}

enum outcome drive_vmap(const trial *t)
{
  call c;
  const char *reason = exception_for("vmap", t->s);
  enum outcome o = PASS;
  if (t->s->must_fail || t->s->large || sample_is_sparse(t->s)) return PASS; /* parts of them are batches, not they */
  if (reason) return trial_skip(t, "%s", reason);
  if (call_make(&c, t->s, &(call_setup){0})) return trial_fail(t, "inputs: %s", cn_err_message());
  nsamples++;
  cn_scope *scope = cn_scope_begin();
  for (int i = 0, n = 0; i < c.nin && n < MOST_ALONE && o == PASS; i++) {
    char what[40];
    if (!may_map(c.in[i])) continue;
    snprintf(what, sizeof what, "input %d", i);
    o = run_choice(t, &c, i, what);
    n++;
  }
  if (o == PASS) o = run_choice(t, &c, -1, "all inputs");
  cn_scope_end(scope);
  cn_err_clear();
  call_free(&c);
  return o;
}

/* Behind all families: what runs example by example. */
void looped_ops(void **state)
{
  static const char *const listed[] = {
#include "vmap_loops.inc"
  };
  size_t unknown = 0;
  (void)state;
  for (int i = 0; i < MOST_OPS; i++) {
    bool known = !looped[i];
    for (size_t k = 0; k < sizeof listed / sizeof *listed && !known; k++)
      known = !strcmp(listed[k], cni_ops[i]->name);
    if (known) continue;
    print_error("%s runs example by example, at least for some calls, and is not in the list\n", cni_ops[i]->name);
    unknown++;
  }
  if (unknown) fail_msg("%zu ops more run example by example", unknown);
}
