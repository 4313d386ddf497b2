/* compile.c: cn_compile: a function with its programs by key; counts; what is said about them.
 *
 * Place in the flow: cn_compiled_call -> key.c -> a program that was found or captured (executable.c) -> graph/run.c,
 * or joint.c. CAIRN_COMPILE=off runs every call as it is, check both (check.c). Invariant: the list of programs is
 * looked at and changed under its lock; functions, captures and runs are outside of it. */
#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hooks.h"
#include "base/log.h"
#include "check.h"
#include "graph/setting.h"
#include "graph/whole.h"

enum { MOST_PROGRAMS = 64, MOST_ALIKE = 8, MOST_BY_VALUE = 16 };

struct cn_compiled {
  cn_compile_fn fn;
  cn_compile_opts opts;
  char *name; /* owned */
  pthread_mutex_t lock;
  cni_executable *programs; /* the newest first */
  size_t nprograms;
  _Atomic int by_value; /* what among the inputs is part of programs: LEAVES, NUMBERS, VALUES (cni_by_value) */
  _Atomic int nvalues;  /* programs that were made for some value alone */
  _Atomic bool warned;
  _Atomic size_t counts[5];
};

enum { EXECUTABLES, RUNS, RECOMPILES, EAGER_CALLS, GROUPS };
static _Atomic size_t all_counts[5];

static void count(cn_compiled *c, int what, size_t n)
{
  atomic_fetch_add_explicit(&c->counts[what], n, memory_order_relaxed);
  atomic_fetch_add_explicit(&all_counts[what], n, memory_order_relaxed);
}

static _Atomic size_t coded_before; /* those counts began at 0 */

/* Different groups that have machine code by now: of a function's programs, or all. */
static size_t count_coded(cn_compiled *c)
{
  size_t n = 0;
  if (!c) return cni_hooks.code_made ? cni_hooks.code_made() - atomic_load(&coded_before) : 0;
  pthread_mutex_lock(&c->lock);
  for (const cni_executable *p = c->programs; p; p = p->next) n += cni_executable_coded(p);
  pthread_mutex_unlock(&c->lock);
  return n;
}

void cn_compile_stats_get(cn_compile_stats *stats, size_t size, const cn_compiled *compiled)
{
  cn_compiled *c = (cn_compiled *)(uintptr_t)compiled; /* its lock changes */
  cn_compile_stats s;
  size_t v[5];
  for (int i = 0; i < 5; i++) v[i] = atomic_load(c ? &c->counts[i] : &all_counts[i]);
  s = (cn_compile_stats){v[EXECUTABLES], v[RUNS], v[RECOMPILES], v[EAGER_CALLS], v[GROUPS], count_coded(c)};
  memcpy(stats, &s, size < sizeof s ? size : sizeof s);
}

void cn_compile_stats_reset(void)
{
  for (int i = 0; i < 5; i++) atomic_store(&all_counts[i], 0);
  if (cni_hooks.code_made) atomic_store(&coded_before, cni_hooks.code_made());
}

cn_compiled *cn_compile_with(cn_compile_fn fn, const cn_compile_opts *opts)
{
  if (cn_err()) return NULL;
  if (!fn) {
    cni_fail(CN_ERR_TYPE, "compile: the function is NULL");
    return NULL;
  }
  cn_compiled *c = cni_alloc_zero(sizeof *c);
  if (!c) return NULL;
  c->fn = fn;
  if (opts) memcpy(&c->opts, opts, opts->size < sizeof c->opts ? opts->size : sizeof c->opts);
  c->name = cni_strdup(c->opts.name ? c->opts.name : "a function");
  pthread_mutex_init(&c->lock, NULL);
  if (c->name) return c;
  cn_compiled_free(c);
  return NULL;
}

void cn_compiled_free(cn_compiled *c)
{
  if (!c) return;
  while (c->programs) {
    cni_executable *next = c->programs->next;
    cni_executable_release(c->programs);
    c->programs = next;
  }
  pthread_mutex_destroy(&c->lock);
  cn_string_free(c->name);
  cni_free(c, sizeof *c);
}

/* ---- programs by key ---- */

/* A reference for the caller; NULL: none. why: what the newest differs in. *alike: how many have this key, but not the
 * things outside (a gradient that is another tensor each time, say). */
static cni_executable *find(cn_compiled *c, const cn_key *key, char *why, size_t size, int *alike)
{
  cni_executable *p;
  *alike = 0;
  pthread_mutex_lock(&c->lock);
  for (p = c->programs; p; p = p->next) {
    if (!cni_key_same(&p->key, key)) continue;
    if (cni_executable_holds(p)) break;
    (*alike)++;
  }
  if (p) cni_executable_keep(p);
  else if (*alike)
    snprintf(why, size, "a tensor outside, a setting of an optimiser, or whether a leaf has a gradient, is another");
  else if (c->programs) cni_key_difference(why, size, key, &c->programs->key);
  pthread_mutex_unlock(&c->lock);
  return p;
}

/* Puts a program in front; the oldest goes when there are too many. */
static void add(cn_compiled *c, cni_executable *p)
{
  cni_executable *old = NULL;
  pthread_mutex_lock(&c->lock);
  p->next = c->programs;
  c->programs = cni_executable_keep(p);
  if (++c->nprograms > MOST_PROGRAMS) {
    cni_executable **at = &c->programs;
    while ((*at)->next) at = &(*at)->next;
    old = *at;
    *at = NULL;
    c->nprograms--;
  }
  pthread_mutex_unlock(&c->lock);
  cni_executable_release(old);
}

static void say_made(cn_compiled *c, const cni_executable *p, const char *why)
{
  if (!cni_verbose(CNI_TOPIC_COMPILE)) return;
  cni_log(CN_LOG_DEBUG, CNI_TOPIC_COMPILE, "%s: %zu nodes, %zu of them groups%s%s", c->name, cni_executable_nodes(p),
          cni_executable_groups(p), *why ? ", compiled again: " : "", why);
}

enum { LEAVES = 1, NUMBERS = 2, VALUES = 4 };

static cni_by_value by_value(const cn_compiled *c)
{
  int bits = atomic_load(&c->by_value);
  return (cni_by_value){(bits & LEAVES) != 0, (bits & NUMBERS) != 0, (bits & VALUES) != 0};
}

static int read_again(cn_compiled *c, const cn_compile_call *call, cn_key *key, const cni_by_value *known)
{
  atomic_store(&c->by_value,
               (known->leaves ? LEAVES : 0) | (known->numbers ? NUMBERS : 0) | (known->values ? VALUES : 0));
  cni_key_free(key);
  return cni_key_read(key, call, &c->opts, known, true);
}

/* Captures the call, with as much of its inputs by value as it takes; *key follows. */
static cni_executable *capture(cn_compiled *c, const cn_compile_call *call, cn_key *key)
{
  cni_by_value known = by_value(c), first = known;
  const cni_notes notes = {c->opts.note_free, c->opts.note_same};
  bool retry;
  cni_executable *p = cni_executable_new(c->fn, call, &notes, c->opts.fast, &known, &retry);
  while (!p && retry) {
    cn_err_clear();
    if (read_again(c, call, key, &known)) return NULL;
    p = cni_executable_new(c->fn, call, &notes, c->opts.fast, &known, &retry);
  }
  bool more = (known.numbers && !first.numbers) || (known.values && !first.values);
  bool in_vain = p && p->why_eager && more; /* it was not the numbers */
  known.numbers = first.numbers;
  known.values = first.values;
  if (!in_vain || !read_again(c, call, key, &known)) return p;
  cni_executable_release(p);
  return NULL;
}

enum { HOT_RUNS = 2 }; /* that a program has behind it when code is made of its groups */

/* Before each run. */
static void count_run(cni_executable *p)
{
  uint32_t runs = atomic_load_explicit(&p->runs, memory_order_relaxed);
  if (CNI_LIKELY(runs > HOT_RUNS) || !cni_hooks.code_waits) return;
  runs = atomic_fetch_add_explicit(&p->runs, 1, memory_order_relaxed);
  if (runs == (cni_hooks.code_waits() ? 0 : HOT_RUNS)) cni_executable_want_code(p);
}

/* Captures the call; *key goes to the program. */
static cni_executable *make(cn_compiled *c, const cn_compile_call *call, cn_key *key, const char *why)
{
  cni_executable *p = capture(c, call, key);
  if (!p) return NULL;
  p->key = *key;
  *key = (cn_key){NULL};
  atomic_fetch_add(&c->nvalues, by_value(c).values);
  count(c, EXECUTABLES, p->forward != NULL);
  count(c, RECOMPILES, p->forward && *why);
  count(c, GROUPS, cni_executable_groups(p));
  say_made(c, p, why);
  add(c, p);
  return p;
}

/* Stands for a program that would be made anew for every call. */
static cni_executable *given_up(cn_key *key, bool values)
{
  static const char of_values[] = "integers among its inputs, on whose values it depends, are others in every call";
  static const char of_things[] =
    "tensors outside, settings of an optimiser, or gradients of leaves are others in every call: clear gradients "
    "inside, at the beginning or the end; schedules may change rates, which are tensors, but not momenta";
  cni_executable *p = cni_executable_refused(CN_ERR_CAPTURE, values ? of_values : of_things);
  if (!p) return NULL;
  p->key = *key;
  *key = (cn_key){NULL};
  return p;
}

/* The program of a call; a reference for the caller, NULL with the error set. */
static cni_executable *program_for(cn_compiled *c, const cn_compile_call *call)
{
  cn_key key;
  char why[160] = "";
  cni_by_value known = by_value(c);
  if (cni_key_read(&key, call, &c->opts, &known, false)) return NULL;
  int alike;
  cni_executable *p = find(c, &key, why, sizeof why, &alike);
  if (!p || (p->why_eager && !atomic_load(&p->tried_again))) {
    /* One is to be made, of a key that can be kept and says what it differs in. */
    cni_executable_release(p);
    cni_key_free(&key);
    if (cni_key_read(&key, call, &c->opts, &known, true)) return NULL;
    p = find(c, &key, why, sizeof why, &alike);
  }
  bool many = known.values && atomic_load(&c->nvalues) >= MOST_BY_VALUE;
  if (!p && (many || alike >= MOST_ALIKE)) p = given_up(&key, many);
  else if (p && p->why_eager && !atomic_exchange(&p->tried_again, true)) {
    cni_executable_release(p);
    p = make(c, call, &key, why);
    if (p) atomic_store(&p->tried_again, true);
  } else if (!p) p = make(c, call, &key, why);
  cni_key_free(&key);
  return p;
}

/* ---- calls ---- */

static int run_eager(cn_compiled *c, cn_compile_call *call)
{
  count(c, EAGER_CALLS, 1);
  call->ran_as_is = true;
  int status = c->fn(call);
  return status && !cn_err() ? cni_fail(status, "compile: the function failed") : status;
}

static int run_refused(cn_compiled *c, int status, const char *why, cn_compile_call *call)
{
  if (c->opts.fullgraph) return cni_fail(status, "compile: %s cannot be captured: %s", c->name, why);
  if (!atomic_exchange(&c->warned, true))
    cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "compile: %s cannot be captured, and runs as it is: %s", c->name, why);
  return run_eager(c, call);
}

typedef struct program {
  cn_compiled *c;
  cni_executable *p;
} program;

/* The results of the call, from those of the graph and what they show. */
static int give_results(const cni_executable *p, cn_compile_call *call, cn_tensor *const *made)
{
  bool inference = cni_state()->inference;
  for (size_t i = 0; i < p->nresults; i++) {
    bool seen = cni_is_seen(&p->seen[i]);
    call->outputs[i] = seen ? cni_seen_make(&p->seen[i], call) : *made++;
    if (!call->outputs[i]) return cn_err();
    if (!seen && inference) call->outputs[i]->inference = true;
  }
  return CN_OK;
}

static int run_program(void *payload, cn_compile_call *call)
{
  cn_compiled *c = ((program *)payload)->c;
  cni_executable *p = ((program *)payload)->p;
  if (p->nresults > call->noutputs)
    return cni_fail(CN_ERR_VALUE, "compile: there are %zu results, and room for %zu", p->nresults, call->noutputs);
  size_t bytes = (p->ninputs + p->noutputs + 1) * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc_zero(bytes), **out = in + p->ninputs;
  if (!in) return CN_ERR_MEMORY;
  for (size_t i = 0; i < p->ninputs; i++) in[i] = call->inputs[p->inputs[i]];
  count_run(p);
  int status = p->backward ? cni_joint_run(p, out, in) : cn_graph_run(out, p->forward, in);
  if (!status) status = give_results(p, call, out);
  cni_free(in, bytes);
  if (status) return status;
  call->noutputs = p->nresults;
  call->note = p->note;
  call->ran_as_is = false;
  count(c, RUNS, 1);
  return CN_OK;
}

/* CAIRN_COMPILE=check */
static int run_checked(program *k, cn_compile_call *call)
{
  cni_check check = {k->c->fn, k->c->name, k->p, call, call->noutputs, by_value(k->c), run_program, k};
  int status = cni_check_capture(&check);
  return status ? status : cni_check_run(&check);
}

static int run_found(cn_compiled *c, cni_executable *p, cn_compile_call *call, bool check)
{
  program k = {c, p};
  const char *why = p->why_eager ? p->why_eager : cni_executable_conflict(p, call);
  if (why) return run_refused(c, p->why_eager ? p->status : CN_ERR_CAPTURE, why, call);
  int status = check ? run_checked(&k, call) : run_program(&k, call);
  if (status != CN_ERR_SHAPE || !p->counts) return status;
  char found[256]; /* a size for which the program is not known to hold: it has changed nothing */
  snprintf(found, sizeof found, "%s", cn_err_message());
  cn_err_clear();
  return run_refused(c, CN_ERR_CAPTURE, found, call);
}

/* Hooks that keep saved values in another form, and vmap, see ops one by one. */
static bool must_be_eager(const cn_state *st, enum cni_compile_mode mode)
{
  return st->capture || st->saved_hooks || st->vmap || mode == CNI_COMPILE_OFF || cni_whole.by_hand();
}

int cn_compiled_call(cn_compiled *c, cn_compile_call *call)
{
  if (cn_err()) return cn_err();
  if (!c || !call) return cni_fail(CN_ERR_TYPE, "compiled_call: the function or the call is NULL");
  enum cni_compile_mode mode = cni_compile_setting(); /* the environment is searched once a call */
  if (must_be_eager(cni_state(), mode)) return run_eager(c, call);
  cni_executable *p = program_for(c, call);
  if (!p) return cn_err();
  int status = run_found(c, p, call, mode == CNI_COMPILE_CHECK);
  cni_executable_release(p);
  return status;
}

/* ---- explaining ---- */

static void put_graph(cn_text *t, const char *title, const cn_graph *g, size_t groups)
{
  char *text = g ? cn_graph_to_string(g) : NULL;
  if (!text) return;
  size_t planned;
  cn_graph_memory(g, &planned, NULL);
  cn_text_putf(t, "%s: %zu nodes, %zu of them groups", title, cn_graph_nodes(g), groups);
  if (planned) cn_text_putf(t, "; %zu bytes of memory, of which %zu at once", planned, cn_graph_memory_least(g));
  cn_text_putf(t, "\n%s", text);
  cn_string_free(text);
}

char *cn_compiled_explain(cn_compiled *c, cn_compile_call *call)
{
  if (cn_err() || !c || !call) return NULL;
  cn_text t = {0};
  cni_executable *p = program_for(c, call);
  if (!p) return NULL;
  if (p->why_eager) cn_text_putf(&t, "runs as it is: %s\n", p->why_eager);
  put_graph(&t, p->backward ? "forward" : "program", p->forward, p->groups[0]);
  put_graph(&t, "backward", p->backward, p->groups[1]);
  cni_executable_release(p);
  return cn_text_take(&t);
}
