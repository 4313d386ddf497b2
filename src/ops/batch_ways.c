/* batch_ways.c: how most ops take a batch: ways that many share. batch_rules.def says which op goes which way.
 *
 *   each    element by element: the tensors are lined up, as broadcasting lines up examples
 *   along   arguments that name dims name the ones behind the batch; all tensors get the batch
 *   cut     the same, of a tensor and a part of it, which has other dims
 *   whole   the same, and without a dim the example is one row
 *   lead    the op takes leading dims as they come: the batch is one more
 *   fold3/4 it takes (N, ...) of 3 or 4 dims: batch and N become one
 *   made    the size of what is made, or of the view, gets the batch in front
 *
 * Invariant: what a way does not fit runs example by example (batch_loop.c). */
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

static bool counts(const cn_tensor *t) { return t && !t->d.weak; }

/* The dims of input i, for one example. */
static int rank_of(const cni_batching *b, int i) { return b->in[i]->d.ndim - b->is[i]; }

int cni_batch_each(cni_batching *b)
{
  int rank = 0;
  for (int i = 0; i < b->c->nin; i++)
    if (counts(b->in[i]) && rank_of(b, i) > rank) rank = rank_of(b, i);
  for (int i = 0; i < b->c->nin; i++)
    if (b->is[i] && b->in[i] != b->dest) b->in[i] = cni_batch_lined_up(b->in[i], rank);
  return cni_batch_call(b);
}

/* All tensors that count as batches. */
static int all_of(cni_batching *b)
{
  for (int i = 0; i < b->c->nin; i++) {
    if (!counts(b->in[i])) continue;
    b->in[i] = cni_batch_of(b, i);
    b->is[i] = true;
    if (!b->in[i]) return cn_err();
  }
  return CN_OK;
}

/* A way that knows no destination gives a result, which is copied. */
static int call_apart(cni_batching *b)
{
  cn_tensor *dest = b->dest;
  b->dest = NULL;
  int status = cni_batch_call(b);
  b->dest = dest;
  return status;
}

static bool names_dim(const cni_param *p)
{
  static const char *const names[] = {"dim", "dims", "dim0", "dim1", "dim2", "dimension"};
  if (p->type != CNI_T_INT) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(p->name, names[i])) return true;
  return false;
}

/* A list of dims, or none for all of them, as dims of the batch. */
static cn_value shifted(const cn_value *v, int ndim, int64_t *room)
{
  int n = v->tag == CN_V_INTS && v->n ? v->n : ndim;
  for (int k = 0; k < n; k++) room[k] = v->tag == CN_V_INTS && v->n ? cni_batch_dim(v->u.is[k], ndim) : k + 1;
  return cn_v_ints(room, (size_t)n);
}

/* Examples without dims get one, as ops that name dims take them for vectors. */
static void as_vectors(cni_batching *b)
{
  for (int i = 0; i < b->c->nin; i++)
    if (counts(b->in[i]) && b->in[i]->d.ndim == 1) b->in[i] = cn_unsqueeze(b->in[i], 1);
}

static int shift_and_call(cni_batching *b)
{
  int64_t room[3][CN_MAX_DIMS];
  int lists = 0;
  if (cn_err()) return cn_err();
  int ndim = b->in[0]->d.ndim - 1;
  for (int i = 0; i < b->info->nparams; i++) {
    const cni_param *p = &b->info->params[i];
    cn_value *v = &b->args[i];
    if (!names_dim(p)) continue;
    if (p->list) *v = shifted(v, ndim, room[lists++]);
    else if (v->tag == CN_V_INT) *v = cn_v_int(cni_batch_dim(v->u.i, ndim));
  }
  return call_apart(b);
}

int cni_batch_along(cni_batching *b)
{
  int status = all_of(b);
  if (!status) as_vectors(b);
  return status ? status : shift_and_call(b);
}

int cni_batch_cut(cni_batching *b)
{
  int status = all_of(b);
  return status ? status : shift_and_call(b);
}

int cni_batch_whole(cni_batching *b)
{
  for (int i = 0; i < b->info->nparams; i++) {
    if (!names_dim(&b->info->params[i]) || b->args[i].tag != CN_V_NONE) continue;
    b->in[0] = cni_batch_shaped(b->in[0], (const int64_t[]){b->size, b->c->in[0]->d.numel}, 2, b->in[0]->d.ndim);
    b->args[i] = cn_v_int(1);
    return cn_err() ? cn_err() : call_apart(b);
  }
  return cni_batch_along(b);
}

int cni_batch_lead(cni_batching *b)
{
  int rank = -1;
  for (int i = 0; i < b->c->nin; i++) {
    if (!counts(b->in[i])) continue;
    if (rank >= 0 && rank_of(b, i) != rank) return cni_batch_loop(b);
    rank = rank_of(b, i);
  }
  int status = all_of(b);
  return status ? status : call_apart(b);
}

/* input_size among the arguments is that of the batch, too. */
static void grow_size(cni_batching *b, bool folded, int64_t *room)
{
  for (int i = 0; i < b->info->nparams; i++) {
    cn_value *v = &b->args[i];
    if (strcmp(b->info->params[i].name, "input_size") || v->tag != CN_V_INTS) continue;
    room[0] = b->size;
    memcpy(room + !folded, v->u.is, (size_t)v->n * sizeof *room);
    if (folded) room[0] *= b->size;
    *v = cn_v_ints(room, (size_t)(v->n + !folded));
  }
}

static int folded(cni_batching *b, int rank)
{
  int64_t room[CN_MAX_DIMS + 1];
  int have = rank_of(b, 0), status = all_of(b);
  if (have != rank && have != rank - 1) return cni_batch_loop(b);
  for (int i = 0; i < b->c->nin && have == rank && !status; i++)
    if (counts(b->in[i]) && !(b->in[i] = cni_batch_fold(b->in[i]))) status = cn_err();
  grow_size(b, have == rank, room);
  return status ? status : call_apart(b);
}

int cni_batch_fold3(cni_batching *b) { return folded(b, 3); }
int cni_batch_fold4(cni_batching *b) { return folded(b, 4); }

int cni_batch_made(cni_batching *b)
{
  int64_t room[CN_MAX_DIMS + 1];
  for (int i = 0; i < b->info->nparams; i++) {
    cn_value *v = &b->args[i];
    if (strcmp(b->info->params[i].name, "size")) continue;
    if (v->n >= CN_MAX_DIMS) return cn_call_fail(b->c, CN_ERR_SHAPE, "a batch of these has too many dimensions");
    room[0] = b->size;
    if (v->n) memcpy(room + 1, v->u.is, (size_t)v->n * sizeof *room);
    *v = cn_v_ints(room, (size_t)v->n + 1);
  }
  return cni_batch_call(b);
}
