/* module.c: the life of modules, their slots and children, and calling them. See module.h.
 *
 * Place in the flow: class tables below, ops beside (forward is made of public ops), optimisers and trainers above.
 * Invariant: whatever a failed constructor was given is freed with it. */
#include "module.h"

#include <cairn/autograd.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/op.h>
#include <cairn/graph.h>
#include <cairn/kw.h>
#include <cairn/profile.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

cn_module *cni_module_bare(const cn_module_class *cls)
{
  const cni_class *entry = cn_err() ? NULL : cni_class_of(cls);
  if (!entry) return NULL;
  cni_module *m = cn_alloc_zero(sizeof *m);
  void *data = m && cls->data_size ? cn_alloc_zero(cls->data_size) : NULL;
  if (!m || (cls->data_size && !data)) {
    cn_free(m, sizeof *m);
    return NULL;
  }
  m->head = (cn_module){cls, data};
  m->entry = entry;
  m->training = true;
  atomic_init(&m->refs, 1);
  return &m->head;
}

cn_module *cn_module_new(const cn_module_class *cls)
{
  const cni_class *entry = cn_err() ? NULL : cni_class_of(cls);
  if (!entry) return NULL;
  if (!entry->sig) return cni_module_bare(cls);
  cn_err_set(CN_ERR_VALUE, "%s: its class has a signature, so it is made with arguments: use cn_module_make_class",
             cls->name);
  return NULL;
}

cn_module *cn_module_make_class(const cn_module_class *cls, const cn_value *args, size_t n)
{
  const cni_class *entry = cn_err() ? NULL : cni_class_of(cls);
  if (!entry) return NULL;
  if (!entry->sig) {
    cn_err_set(CN_ERR_VALUE, "%s: has no signature to be made by", cls->name);
    return NULL;
  }
  cn_module *m = cni_module_bare(cls);
  if (!m) return NULL;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cni_m(m)->args = cn_args_new(entry->sig, args, n);
  int status = !cni_m(m)->args ? cn_err() : cls->init ? cls->init(m, cn_args_values(cni_m(m)->args)) : CN_OK;
  cn_no_grad_end(saved);
  cn_scope_end(s);
  cni_m(m)->nown = cni_m(m)->nslots;
  if (status >= 0 && !cn_err()) return m;
  if (!cn_err()) cn_err_set(status, "%s: could not be made", cls->name);
  cn_module_release(m);
  return NULL;
}

cn_module *cn_module_make(const char *name, const cn_value *args, size_t n)
{
  const cn_module_class *cls = cn_module_class_find(name);
  if (cls) return cn_module_make_class(cls, args, n);
  cn_err_set(CN_ERR_UNSUPPORTED, "module: there is no class %s", name ? name : "(NULL)");
  return NULL;
}

cn_module *cn_module_keep(cn_module *m)
{
  if (m) atomic_fetch_add_explicit(&cni_m(m)->refs, 1, memory_order_relaxed);
  return m;
}

void cn_module_release(cn_module *m)
{
  cni_module *i = cni_m(m);
  if (!m || atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) != 1) return;
  if (m->cls->free) m->cls->free(m);
  cni_hooks_free(i);
  for (size_t k = 0; k < i->nslots; k++) {
    cn_release(i->slots[k].tensor);
    cn_string_free(i->slots[k].name);
  }
  for (size_t k = 0; k < i->nchildren; k++) {
    cn_module_release(i->children[k].module);
    cn_string_free(i->children[k].name);
  }
  cn_args_free(i->args);
  cn_release(i->mode);
  cn_free(i->slots, i->slots_cap * sizeof *i->slots);
  cn_free(i->children, i->children_cap * sizeof *i->children);
  cn_free(m->data, m->cls->data_size);
  cn_free(i, sizeof *i);
}

const cn_args *cn_module_args(const cn_module *m) { return m ? cni_m(m)->args : NULL; }

/* ---- slots and children ---- */

static bool name_taken(const cni_module *m, const char *name)
{
  for (size_t i = 0; i < m->nslots; i++)
    if (!m->slots[i].hidden && !strcmp(m->slots[i].name, name)) return true;
  for (size_t i = 0; i < m->nchildren; i++)
    if (!strcmp(m->children[i].name, name)) return true;
  return false;
}

static int check_name(const cni_module *m, const char *name)
{
  if (!*name || strchr(name, '.'))
    return cn_err_set(CN_ERR_VALUE, "%s: \"%s\" cannot be the name of a slot or child", m->head.cls->name, name);
  if (name_taken(m, name))
    return cn_err_set(CN_ERR_VALUE, "%s: has a slot or child \"%s\" already", m->head.cls->name, name);
  return CN_OK;
}

/* The place of a slot that was removed and comes back: its number among the slots; none: their count. */
static size_t place_of(const cni_module *m, const char *name)
{
  size_t i = 0;
  while (i < m->nslots && !(m->slots[i].hidden && !strcmp(m->slots[i].name, name))) i++;
  return i;
}

static int add_slot(cn_module *module, const char *name, cn_tensor *t, bool buffer, bool transient)
{
  cni_module *m = cni_m(module);
  if (cn_err()) return cn_err(); /* t may be NULL because its making failed */
  int status = check_name(m, name);
  if (!status) status = cn_grow((void **)&m->slots, &m->slots_cap, m->nslots + 1, sizeof *m->slots);
  char *copy = status ? NULL : cn_string_copy(name);
  if (!copy) return cn_err();
  if (t && !buffer && cn_dtype_is_float(cn_dtype_of(t)) && !cn_requires_grad(t, true)) {
    cn_string_free(copy);
    return cn_err();
  }
  size_t i = place_of(m, name);
  if (i < m->nslots) {
    cn_release(m->slots[i].tensor);
    cn_string_free(m->slots[i].name);
  } else m->nslots++;
  m->slots[i] = (cni_slot){copy, cn_keep(t), buffer, transient, false};
  return (int)i;
}

int cn_module_add_parameter(cn_module *m, const char *name, cn_tensor *t) { return add_slot(m, name, t, false, false); }

int cn_module_add_buffer(cn_module *m, const char *name, cn_tensor *t, bool persistent)
{
  return add_slot(m, name, t, true, !persistent);
}

cn_tensor *cn_module_slot(const cn_module *m, size_t i)
{
  return m && i < cni_m(m)->nslots ? cni_m(m)->slots[i].tensor : NULL;
}

int cn_module_set_slot(cn_module *module, size_t i, cn_tensor *t)
{
  cni_module *m = cni_m(module);
  if (cn_err()) return cn_err();
  if (i >= m->nslots) return cn_err_set(CN_ERR_INDEX, "%s: has no slot %zu", module->cls->name, i);
  cn_tensor *old = m->slots[i].tensor;
  m->slots[i].tensor = cn_keep(t);
  cn_release(old);
  if (module->cls->changed) module->cls->changed(module);
  return CN_OK;
}

int cn_module_add(cn_module *module, const char *name, cn_module *child)
{
  char number[24];
  cni_module *m = cni_m(module);
  int status = cn_err();
  if (!status && !child) status = cn_err_set(CN_ERR_TYPE, "%s: a child is missing (NULL)", module->cls->name);
  if (!name) {
    snprintf(number, sizeof number, "%zu", m->nchildren);
    name = number;
  }
  if (!status) status = check_name(m, name);
  if (!status) status = cn_grow((void **)&m->children, &m->children_cap, m->nchildren + 1, sizeof *m->children);
  char *copy = status ? NULL : cn_string_copy(name);
  if (!copy) {
    cn_module_release(child);
    return cn_err();
  }
  m->children[m->nchildren++] = (cni_child){copy, child};
  return CN_OK;
}

size_t cn_module_nchildren(const cn_module *m) { return m ? cni_m(m)->nchildren : 0; }

cn_module *cn_module_child(const cn_module *m, size_t i)
{
  return m && i < cni_m(m)->nchildren ? cni_m(m)->children[i].module : NULL;
}

const char *cn_module_child_name(const cn_module *m, size_t i)
{
  return m && i < cni_m(m)->nchildren ? cni_m(m)->children[i].name : NULL;
}

int cn_module_set_child(cn_module *module, size_t i, cn_module *child)
{
  cni_module *m = cni_m(module);
  if (child && i < m->nchildren && !cn_err()) {
    cn_module_release(m->children[i].module);
    m->children[i].module = child;
    return CN_OK;
  }
  cn_module_release(child);
  if (cn_err()) return cn_err();
  return cn_err_set(CN_ERR_INDEX, "%s: has no child %zu to replace", module->cls->name, i);
}

/* ---- deep copies ---- */

/* What was copied to what: a tensor or module that stands in two places does so in the copy too. */
typedef struct memo {
  struct pair {
    const void *from;
    void *to;
  } * v;
  size_t n, cap;
} memo;

static void *remembered(const memo *known, const void *from)
{
  for (size_t i = 0; i < known->n; i++)
    if (known->v[i].from == from) return known->v[i].to;
  return NULL;
}

static int remember(memo *known, const void *from, void *to)
{
  if (cn_grow((void **)&known->v, &known->cap, known->n + 1, sizeof *known->v)) return CN_ERR_MEMORY;
  known->v[known->n++] = (struct pair){from, to};
  return CN_OK;
}

static cn_tensor *copy_tensor(cn_tensor *from, memo *known)
{
  cn_tensor *t = remembered(known, from);
  if (t) return t;
  t = cn_clone(from);
  if (t && cn_needs_grad(from)) t = cn_requires_grad(t, true);
  return t && !remember(known, from, t) ? t : NULL;
}

static int copy_slots(cni_module *to, const cni_module *from, memo *known)
{
  for (size_t i = 0; i < from->nslots; i++) {
    const cni_slot *s = &from->slots[i];
    bool frozen = s->tensor && !cn_needs_grad(s->tensor);
    cn_tensor *t = s->tensor ? copy_tensor(s->tensor, known) : NULL;
    if (add_slot(&to->head, s->name, t, s->buffer || frozen, s->transient) < 0) return cn_err();
    to->slots[i].buffer = s->buffer;
    to->slots[i].hidden = s->hidden;
  }
  return CN_OK;
}

static cn_module *copy_module(cn_module *m, memo *known);

static int copy_parts(cni_module *to, const cni_module *from, memo *known)
{
  const cn_module_class *cls = from->head.cls;
  int status = CN_OK;
  if (from->args && !(to->args = cn_args_copy(from->args))) return cn_err();
  to->training = from->training;
  to->nown = from->nown;
  if (cls->free && !cls->copy) /* data holds references that a plain copy must not share */
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: its class does not say how to copy it", cls->name);
  if (cls->data_size) memcpy(to->head.data, from->head.data, cls->data_size);
  if (cls->copy && (status = cls->copy(&to->head, &from->head))) {
    memset(to->head.data, 0, cls->data_size);
    return status;
  }
  status = copy_slots(to, from, known);
  for (size_t i = 0; !status && i < from->nchildren; i++)
    status = cn_module_add(&to->head, from->children[i].name, copy_module(from->children[i].module, known));
  return status;
}

static cn_module *copy_module(cn_module *m, memo *known)
{
  cn_module *copy = remembered(known, m);
  if (copy) return cn_module_keep(copy);
  copy = cni_module_bare(m->cls);
  if (copy && !remember(known, m, copy) && !copy_parts(cni_m(copy), cni_m(m), known)) return copy;
  cn_module_release(copy);
  return NULL;
}

cn_module *cn_module_copy(cn_module *m)
{
  memo known = {0};
  if (!m || cn_err()) return NULL;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_module *copy = copy_module(m, &known);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  cn_free(known.v, known.cap * sizeof *known.v);
  return copy;
}

/* ---- calling ---- */

static int run(cn_module *m, cn_module_call *call)
{
  if (!m->cls->forward) {
    call->out[0] = m->cls->apply(m, call->args[0].u.t);
    return call->out[0] ? CN_OK : cn_err();
  }
  int status = m->cls->forward(m, call);
  return cn_err() ? cn_err() : status;
}

/* As the program wants it: its own forward, or the class's. */
static int run_chosen(cni_module *m, cn_module_call *call)
{
  if (!m->forward) return run(&m->head, call);
  int status = m->forward(&m->head, call, m->object);
  return cn_err() ? cn_err() : status;
}

static int run_hooked(cni_module *m, cn_module_call *call)
{
  void *watch = NULL;
  int status = cni_hooks_run(m, CNI_HOOK_BEFORE, call);
  if (!status) status = cni_hooks_watch_inputs(m, call, &watch);
  if (!status) status = run_chosen(m, call);
  if (!status) status = cni_hooks_run(m, CNI_HOOK_AFTER, call);
  if (!status) return cni_hooks_watch_results(m, call, watch);
  cni_hooks_unwatch(watch);
  return status;
}

/* ---- modes, which graphs depend on ---- */

/* The mode as a number that graphs can depend on; NULL with the error set. */
static cn_tensor *mode_of(cni_module *m)
{
  cn_tensor *known = atomic_load(&m->mode);
  if (known) return known;
  void *capture = cn_trace_pause();
  cn_scope *s = cn_scope_begin();
  cn_tensor *made = cn_keep(cn_int(m->training));
  if (made && !atomic_compare_exchange_strong(&m->mode, &known, made)) { /* another thread was faster */
    cn_release(made);
    made = known;
  }
  cn_scope_end(s);
  cn_trace_resume(capture);
  return made;
}

void cni_set_training(cn_module *module, bool on)
{
  cni_module *m = cni_m(module);
  cn_tensor *mode = cn_tracing() ? mode_of(m) : atomic_load(&m->mode);
  if (mode) (void)cn_trace_sets(mode); /* an error stays pending, and ends the capture */
  m->training = on;
  if (mode) *(int64_t *)cn_desc_of(mode)->data = on;
  if (module->cls->changed) module->cls->changed(module);
}

/* ---- names for graphs ---- */

typedef struct search {
  const cn_module *module;
  char *path; /* owned */
} search;

static int compare_path(cn_module *m, const char *path, void *payload)
{
  search *s = payload;
  if (m == s->module && !s->path && !(s->path = cn_string_copy(path))) return cn_err();
  return CN_OK;
}

/* Its name, where it is a child of `around`; NULL: it is not. */
static const char *child_name(const cn_module *around, const cn_module *m)
{
  for (size_t i = 0; i < cn_module_nchildren(around); i++)
    if (cn_module_child(around, i) == m) return cn_module_child_name(around, i);
  return NULL;
}

int cn_module_scope_begin(cn_module *m)
{
  search s = {.module = m};
  if (!cn_tracing() && !cn_profile_on(CN_PROFILE_MODULES)) return -1;
  cn_tensor *mode = cn_tracing() ? mode_of(cni_m(m)) : NULL;
  if (cn_tracing() && (!mode || cn_trace_reads(mode))) return cn_err();
  cn_module *around = (cn_module *)(uintptr_t)cn_trace_scope_owner();
  const char *name = around ? child_name(around, m) : NULL;
  if (around && !name && cn_module_visit(around, compare_path, &s)) return cn_err();
  int scope = cn_trace_scope_begin(name ? name : s.path ? s.path : "", m->cls->name, m);
  cn_string_free(s.path);
  return scope;
}

/* Runs a call whose arguments are complete; its results go to the scope around. class_only: what the class computes,
 * without hooks. */
int cni_invoke(cn_tensor **out, size_t nout, cni_module *m, const cn_value *args, bool class_only)
{
  enum { MOST = 8 };
  cn_tensor *results[MOST] = {NULL};
  cn_value mutable_args[CN_MAX_ARGS];
  cn_module_call call = {args, results, (size_t)m->entry->ncall, nout < MOST ? nout : MOST};
  cn_scope *s = cn_scope_begin();
  int traced = cn_module_scope_begin(&m->head), status;
  if (class_only) status = run(&m->head, &call);
  else if (m->nhooks) { /* hooks may put other inputs in */
    memcpy(mutable_args, args, call.nargs * sizeof *args);
    call.args = mutable_args;
    call.nout = MOST;
    status = run_hooked(m, &call);
  } else status = run_chosen(m, &call);
  cn_trace_scope_end(traced);
  for (size_t i = 0; i < nout; i++) out[i] = !status && i < MOST ? cn_keep(results[i]) : NULL;
  cn_scope_end(s);
  for (size_t i = 0; i < nout; i++)
    if (out[i] && !cn_scope_give(out[i])) status = cn_err(), out[i] = NULL;
  if (status && !cn_err()) cn_err_set(status, "%s: forward failed", m->head.cls->name);
  return status;
}

static int missing(const cni_module *m, int i)
{
  cn_op_param p;
  cn_signature_param(&p, m->entry->call, i);
  return cn_err_set(CN_ERR_TYPE, "%s: input '%s' is missing", m->head.cls->name, p.name);
}

static int usable(const cn_module *m)
{
  if (cn_err()) return cn_err();
  return m ? CN_OK : cn_err_set(CN_ERR_TYPE, "forward: the module is missing (NULL)");
}

int cni_call_complete(cni_module *m, cn_value *full, const cn_value *args, size_t nargs)
{
  if (nargs > (size_t)m->entry->ncall)
    return cn_err_set(CN_ERR_TYPE, "%s: %zu inputs given, it takes %d", m->head.cls->name, nargs, m->entry->ncall);
  for (int i = 0; i < m->entry->ncall; i++) {
    bool given = (size_t)i < nargs && args[i].tag != CN_V_NONE;
    full[i] = given ? args[i] : m->entry->defaults[i];
    if ((!given && m->entry->required[i]) || (given && m->entry->tensor[i] && full[i].tag != CN_V_TENSOR))
      return missing(m, i);
  }
  return CN_OK;
}

int cn_forward_values(cn_tensor **out, size_t nout, cn_module *module, const cn_value *args, size_t nargs)
{
  cn_value full[CN_MAX_ARGS];
  for (size_t i = 0; i < nout; i++) out[i] = NULL;
  if (usable(module) || cni_call_complete(cni_m(module), full, args, nargs)) return cn_err();
  return cni_invoke(out, nout, cni_m(module), full, false);
}

int cn_forward_all(cn_tensor **out, size_t nout, cn_module *module, cn_tensor *const *inputs, size_t ninputs)
{
  cn_value full[CN_MAX_ARGS];
  size_t taken = 0;
  for (size_t i = 0; i < nout; i++) out[i] = NULL;
  if (usable(module)) return cn_err();
  cni_module *m = cni_m(module);
  for (int i = 0; i < m->entry->ncall; i++) {
    cn_tensor *t = m->entry->tensor[i] && taken < ninputs ? inputs[taken++] : NULL;
    full[i] = t ? cn_v_tensor(t) : m->entry->defaults[i];
    if (!t && m->entry->required[i]) return missing(m, i);
  }
  if (taken < ninputs)
    return cn_err_set(CN_ERR_TYPE, "%s: %zu tensors given, it takes %zu", module->cls->name, ninputs, taken);
  return cni_invoke(out, nout, m, full, false);
}

cn_tensor *cn_forward_one(cn_module *m, cn_tensor *const *inputs, size_t ninputs)
{
  cn_tensor *out;
  return cn_forward_all(&out, 1, m, inputs, ninputs) ? NULL : out;
}
