/* dispatch.c: kernel lists in order, and the choice among them. See dispatch.h.
 *
 * Place in the flow: cni_apply -> cni_dispatch -> a kernel. An op with one implementation that takes every call, which
 * is most of them, costs a test; where several would be asked, what they said is found by the call's signature:
 * everything they may look at, as words, in a table of the thread's own, so that nothing is locked.
 * Invariant: kernel lists are only replaced by longer ones before first use of an op; a list that a running dispatcher
 * may read is never freed before exit. */
#include "dispatch.h"

#include <cairn/ext/hash.h>
#include <string.h>

#include "autotune.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/numerics.h"
#include "base/os.h"
#include "base/scratch.h"
#include "base/state.h"
#include "ops/families.h"
#include "ops/prepared.h"
#include "ops/profile.h"
#include "recording.h"
#include "registry.h"
#include "tensor/tensor.h"

/* Kernels for all pointwise ops, and for every op without one. */
static cni_kernel_list *pointwise[CNI_MAX_BACKENDS], *any[CNI_MAX_BACKENDS];

/* ---- kernel lists ---- */

static size_t list_size(int n) { return sizeof(cni_kernel_list) + (size_t)n * sizeof(cn_kernel); }

static void free_list(cni_kernel_list **slot)
{
  if (*slot) cni_free(*slot, list_size((*slot)->n));
  *slot = NULL;
}

/* The list with `row` in its place: behind all that CAIRN_KERNEL wants first, unless it is such a one itself. */
static int add_row(cni_kernel_list **slot, const cn_kernel *row, const cni_opinfo *info)
{
  int n = *slot ? (*slot)->n : 0, at = 0;
  cni_wish wish = info ? cni_kernel_wish(info, row->name) : CNI_AS_LISTED;
  if (wish == CNI_LEFT_OUT) return CN_OK;
  while (wish != CNI_FIRST && info && at < n && cni_kernel_wish(info, (*slot)->items[at].name) == CNI_FIRST) at++;
  cni_kernel_list *list = cni_alloc(list_size(n + 1));
  if (!list) return CN_ERR_MEMORY;
  list->n = n + 1;
  list->items[at] = *row;
  if (at) memcpy(list->items, (*slot)->items, (size_t)at * sizeof *row);
  if (n - at) memcpy(list->items + at + 1, (*slot)->items + at, (size_t)(n - at) * sizeof *row);
  free_list(slot);
  *slot = list;
  return CN_OK;
}

static int add_kernel(int b, const char *backend_name, const cn_kernel *row)
{
  const cni_opinfo *info = cni_op_by_name(row->op);
  if (!strcmp(row->op, "*")) return add_row(&any[b], row, NULL);
  if (!info) return cni_fail(CN_ERR_VALUE, "backend %s: there is no op %s for its kernel", backend_name, row->op);
  int status = CN_OK;
  if (!strcmp(row->op, "pointwise")) status = add_row(&pointwise[b], row, NULL); /* the rows, and the op of that name */
  return status ? status : add_row((cni_kernel_list **)&info->kernels[b], row, info);
}

/* Row i of a table whose rows have row_size bytes, as the struct of today. */
static cn_kernel row_at(const cn_kernel *rows, size_t row_size, int i)
{
  cn_kernel row = {NULL};
  memcpy(&row, (const char *)rows + (size_t)i * row_size, row_size < sizeof row ? row_size : sizeof row);
  return row;
}

int cni_kernels_add(int b, const char *backend_name, const cn_kernel *rows, size_t row_size)
{
  int count = 0, status = CN_OK;
  while (rows && row_at(rows, row_size, count).op) count++;
  for (int i = count - 1; i >= 0 && !status; i--) { /* backwards, so that the first listed is tried first */
    cn_kernel row = row_at(rows, row_size, i);
    status = add_kernel(b, backend_name, &row);
  }
  return status;
}

const cni_kernel_list *cni_kernels_at(int b, const cni_opinfo *info)
{
  const cni_kernel_list *list = info->kernels[b];
  if (list) return list;
  return info->row->pointwise ? pointwise[b] : any[b];
}

void cni_kernels_free(int b)
{
  free_list(&pointwise[b]);
  free_list(&any[b]);
  for (int i = 0; i < cni_nops; i++)
    if (cni_ops[i]) free_list(&cni_ops[i]->kernels[b]);
}

/* ---- the signature of a call: all that an implementation may look at ---- */

enum { WORDS = 64, KEPT = 128 };

typedef struct signature {
  int n; /* 0: too long to be kept */
  uint64_t words[WORDS];
} signature;

static void put(signature *s, uint64_t word)
{
  if (s->n < WORDS) s->words[s->n] = word;
  s->n++;
}

static void put_all(signature *s, const int64_t *words, int n)
{
  for (int i = 0; i < n; i++) put(s, (uint64_t)words[i]);
}

static void put_text(signature *s, const char *text)
{
  for (size_t left = strlen(text) + 1, n; left; left -= n, text += n) {
    uint64_t word = 0;
    n = left < sizeof word ? left : sizeof word;
    memcpy(&word, text, n);
    put(s, word);
  }
}

/* Alignment counts up to a cache line, and whether it is the very memory of a result. */
static void put_tensor(signature *s, const cn_call *c, const cn_tensor *t, bool addresses)
{
  const cn_desc *d = t ? cn_desc_of(t) : NULL;
  if (!d) {
    put(s, 0);
    return;
  }
  uint64_t same = 0, align = addresses ? (uintptr_t)d->data & 63 : 0;
  for (int i = 0; i < c->nout && i < 8; i++)
    if (c->out[i] && cn_desc_of(c->out[i])->data == d->data) same |= 1u << i;
  put(s, 1 | (uint64_t)d->dtype << 8 | (uint64_t)d->ndim << 16 | (uint64_t)d->weak << 24 | same << 32 | align << 40 |
             (uint64_t)(d->device == c->device) << 48);
  put_all(s, d->shape, d->ndim);
  put_all(s, d->strides, d->ndim);
}

static void put_attribute(signature *s, const cn_value *v)
{
  put(s, (uint64_t)v->tag << 32 | (uint32_t)v->n);
  switch (v->tag) {
  case CN_V_INT:
  case CN_V_BOOL:
  case CN_V_FLOAT: put_all(s, &v->u.i, 1); break;
  case CN_V_INTS: put_all(s, v->u.is, v->n); break;
  case CN_V_FLOATS: put_all(s, (const int64_t *)(const void *)v->u.fs, v->n); break;
  case CN_V_STR: put_text(s, v->u.s); break;
  default: break;
  }
}

static void put_call(signature *s, const cn_call *c, bool addresses)
{
  put(s, (uint64_t)c->fast << 63 | (uint64_t)c->device << 32 | (uint64_t)cni_numerics() << 16 |
             (uint64_t)cn_num_threads());
  for (int i = 0; i < c->nin; i++) put_tensor(s, c, c->in[i], addresses);
  for (int i = 0; i < c->nout; i++) put_tensor(s, c, c->out[i], addresses);
  for (int i = 0; i < c->nargs; i++) put_attribute(s, &c->args[i]);
  if (s->n > WORDS) s->n = 0;
}

static void read_signature(signature *s, const cn_call *c, const cni_kernel_list *list)
{
  s->n = 0;
  put(s, (uint64_t)(uintptr_t)list);
  put(s, (uint64_t)(uintptr_t)c->op); /* a list may serve many ops: "*" */
  put_call(s, c, true);
}

static size_t slot_of(const signature *s)
{
  uint64_t h = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < s->n; i++) h = (h ^ s->words[i]) * 0xff51afd7ed558ccdu;
  return (size_t)(h >> 32) % KEPT;
}

/* ---- choosing ---- */

typedef struct kept {
  signature signature; /* n 0: nothing is kept here yet */
  cni_choice choice;
} kept;

typedef struct cni_choices {
  kept slots[KEPT];
} cni_choices;

void cni_dispatch_forget(cn_state *st)
{
  if (st->choices) cni_os_free(st->choices, sizeof(cni_choices));
  st->choices = NULL;
}

/* Puts the choice of the clock in the place of the list's, where it is asked for. */
static CNI_APART void let_clock_choose(cni_choice *choice, cn_call *c, const cni_kernel_list *list)
{
  signature s = {0};
  put_call(&s, c, false);
  if (s.n) cni_autotune(choice, c, cni_op_info(c->op), list, cn_hash(s.words, (size_t)s.n * sizeof *s.words));
}

static CNI_APART void say_refusal(const cn_call *c, const cn_kernel *k, const char *why)
{
  if (cni_verbose(CNI_TOPIC_DISPATCH))
    cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: %s refused: %s", cni_op_info(c->op)->name, k->name,
            why ? why : "no reason given");
}

void cni_kernel_choose(cni_choice *choice, const cn_call *c, const cni_kernel_list *list, int from)
{
  const char *why = NULL;
  for (int i = from; i < list->n; i++) {
    const cn_kernel *k = &list->items[i];
    *choice = (cni_choice){.kernel = k, .next = i + 1};
    if (!k->can) return;
    choice->plan.size = sizeof choice->plan;
    if (k->can(c, &choice->plan) == CN_OK) return;
    why = choice->plan.refusal;
    say_refusal(c, k, why);
  }
  *choice = (cni_choice){.next = list->n, .plan.refusal = why};
}

/* The place of a signature in the thread's table; NULL when there is no memory for one: then it is asked for again the
 * next time. The table comes from the system, so that no count of tensors' memory sees it. */
static kept *place_of(const signature *s)
{
  cn_state *st = cni_state();
  if (CNI_UNLIKELY(!s->n || !st->pooled)) return NULL;
  if (CNI_UNLIKELY(!st->choices)) {
    cni_choices *all = cni_os_alloc(sizeof *all);
    for (int i = 0; all && i < KEPT; i++) all->slots[i].signature.n = 0;
    st->choices = all;
  }
  return st->choices ? &((cni_choices *)st->choices)->slots[slot_of(s)] : NULL;
}

/* The choice for a call, asked for now or at an earlier call that looked the same. */
static void find_choice(cni_choice *choice, cn_call *c, const cni_kernel_list *list)
{
  signature s;
  read_signature(&s, c, list);
  kept *k = place_of(&s);
  if (CNI_LIKELY(k && k->signature.n == s.n && !memcmp(k->signature.words, s.words, (size_t)s.n * sizeof *s.words))) {
    *choice = k->choice;
    return;
  }
  cni_kernel_choose(choice, c, list, 0);
  if (CNI_UNLIKELY(cni_autotune_on())) let_clock_choose(choice, c, list);
  if (!k) return;
  memcpy(&k->signature, &s, offsetof(signature, words) + (size_t)s.n * sizeof *s.words);
  k->choice = *choice;
}

/* ---- running ---- */

/* With what it made of the call's weights, where they are a graph's. */
static int run_kernel(cn_call *c, const cn_kernel *k)
{
  if (CNI_LIKELY(!c->keep) || !k->prepare) return k->run(c);
  c->prepared = cni_prepared_for(c, k);
  int status = k->run(c);
  c->prepared = NULL;
  return status;
}

int cni_dispatch_chosen(cn_call *c, const cni_choice *choice)
{
  size_t bytes = choice->plan.workspace;
  if (CNI_LIKELY(!bytes)) {
    c->plan = choice->plan.size ? &choice->plan : NULL;
    return run_kernel(c, choice->kernel);
  }
  bool host = c->device == CN_CPU;
  c->workspace = host ? cni_scratch_alloc(bytes) : cni_memory.alloc(c->device, bytes, c->stream);
  if (!c->workspace) return CN_ERR_MEMORY;
  c->plan = &choice->plan;
  int status = run_kernel(c, choice->kernel);
  if (host) cni_scratch_free(c->workspace, bytes);
  else cni_memory.free(c->device, c->workspace, bytes, c->stream);
  c->workspace = NULL;
  return status;
}

static CNI_APART void tell(const cn_call *c, const cni_opinfo *info, const cn_kernel *k)
{
  cni_profile_kernel(k->name);
  cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: %s/%s", info->name, cni_backend_of(c->device)->name, k->name);
}

static inline void say_taken(const cn_call *c, const cni_opinfo *info, const cn_kernel *k)
{
  if (CNI_UNLIKELY(cni_verbose(CNI_TOPIC_DISPATCH | CNI_TOPIC_PROFILE))) tell(c, info, k);
}

/* Goes through the list from a choice on. */
static int run_list(cn_call *c, const cni_opinfo *info, const cni_kernel_list *list, cni_choice *choice)
{
  while (choice->kernel) {
    int status = cni_dispatch_chosen(c, choice);
    if (CNI_LIKELY(status != CN_REFUSED)) {
      say_taken(c, info, choice->kernel);
      return status;
    }
    say_refusal(c, choice->kernel, c->refusal);
    cni_kernel_choose(choice, c, list, choice->next);
  }
  if (choice->plan.refusal) c->refusal = choice->plan.refusal;
  return CN_REFUSED;
}

/* For ops whose first implementation has to be asked, or would not take the call. */
static CNI_APART int dispatch_asking(cn_call *c, const cni_opinfo *info, const cni_kernel_list *list, bool refused)
{
  cni_choice choice;
  if (refused) {
    say_refusal(c, &list->items[0], c->refusal);
    cni_kernel_choose(&choice, c, list, 1);
  } else if (list->n == 1) {
    cni_kernel_choose(&choice, c, list, 0); /* to ask it costs less than to look its result up */
  } else {
    find_choice(&choice, c, list);
  }
  return run_list(c, info, list, &choice);
}

int cni_dispatch(cn_call *c, const cni_opinfo *info)
{
  cn_recording *r = cni_recording_at_work();
  return CNI_UNLIKELY(r != NULL) ? cni_recording_call(r, c, info) : cni_dispatch_now(c, info);
}

int cni_dispatch_now(cn_call *c, const cni_opinfo *info)
{
  unsigned b = (unsigned)(c->device >> 8) - 1;
  const cni_kernel_list *list = b < CNI_MAX_BACKENDS ? cni_kernels_at((int)b, info) : NULL;
  if (CNI_UNLIKELY(!list || !list->n)) return cni_backend_of(c->device) ? CN_REFUSED : CN_ERR_DEVICE;
  const cn_kernel *first = &list->items[0];
  if (first->can || (first->flags && cni_autotune_on())) return dispatch_asking(c, info, list, false);
  int status = CNI_LIKELY(!c->keep) ? first->run(c) : run_kernel(c, first);
  if (CNI_UNLIKELY(status == CN_REFUSED)) return dispatch_asking(c, info, list, true);
  say_taken(c, info, first);
  return status;
}
