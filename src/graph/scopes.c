/* scopes.c: where in the program a node comes from: the module whose forward it was, and the composite op's call.
 *
 * Place in the flow: apply says when a composite op's decomposition begins and ends (base/hooks.h), modules and
 * programs name their parts with cn_trace_scope_begin; capture.c gives each node the innermost scope. Exporters and
 * pictures read them. Invariant: scopes nest; a scope's parent stands before it. */
#include <cairn/graph.h>
#include <string.h>

#include "capture.h"
#include "ops/profile.h"
#include "tensor/args.h"

bool cn_tracing(void) { return cni_capturing() != NULL; }
bool cn_tracing_sizes(void) { return cn_tracing() && cni_state()->tracing_sizes; }

static int add_scope(cni_capture *cap, const cni_gscope *s)
{
  cn_graph *g = cap->g;
  if (cni_grow((void **)&g->scopes, &g->scopes_cap, g->nscopes + 1, sizeof *g->scopes)) return CN_ERR_MEMORY;
  g->scopes[g->nscopes] = *s;
  return (int)g->nscopes++;
}

/* Opens a scope that takes over what s owns. */
static int enter(cni_capture *cap, cni_gscope *s)
{
  if (cni_grow((void **)&cap->open, &cap->open_cap, cap->nopen + 1, sizeof *cap->open)) return CN_ERR_MEMORY;
  s->parent = cni_scope_now(cap);
  int scope = add_scope(cap, s);
  if (scope >= 0) cap->open[cap->nopen++] = scope;
  return scope;
}

void cni_gscope_free(cni_gscope *s)
{
  cn_string_free(s->name);
  cn_string_free(s->kind);
  cni_free(s->args, s->args_size);
  cni_free(s->syms.v, s->syms.cap * sizeof *s->syms.v);
  cni_free(s->in, (size_t)s->nin * sizeof *s->in);
  cni_free(s->out, (size_t)s->nout * sizeof *s->out);
}

/* ---- parts of a program ---- */

int cn_trace_scope_begin(const char *name, const char *kind, const void *owner)
{
  cni_capture *cap = cni_capturing();
  if (!cap) return cni_profiled() ? cni_profile_scope_begin(name, kind, owner) : -1;
  cni_gscope s = {.name = cni_strdup(name ? name : ""), .kind = cni_strdup(kind ? kind : ""), .owner = owner};
  int status = s.name && s.kind ? enter(cap, &s) : CN_ERR_MEMORY;
  if (status < 0) cni_gscope_free(&s);
  return status;
}

void cn_trace_scope_end(int scope)
{
  cni_capture *cap = cni_capturing();
  if (!cap && scope >= CNI_PROFILE_SCOPE) cni_profile_scope_end(scope);
  while (cap && scope >= 0 && cap->nopen && cap->open[cap->nopen - 1] >= scope) cap->nopen--;
}

const void *cn_trace_scope_owner(void)
{
  const cni_capture *cap = cni_capturing();
  if (!cap && cni_profiled()) return cni_profile_scope_owner();
  for (size_t i = cap ? cap->nopen : 0; i-- > 0;)
    if (cap->g->scopes[cap->open[i]].owner) return cap->g->scopes[cap->open[i]].owner;
  return NULL;
}

/* ---- calls of composite ops ---- */

int cni_scope_call_begin(const cni_opinfo *info, const cn_call *c)
{
  cni_capture *cap = cni_capturing();
  cni_gscope s = {.op = info, .nargs = c->nargs, .nin = c->nin, .args_size = cni_args_bytes(c->args, c->nargs)};
  s.args = cni_alloc(s.args_size);
  s.in = s.args ? cni_alloc((size_t)c->nin * sizeof *s.in) : NULL;
  if (s.args) cni_args_copy(s.args, c->args, c->nargs);
  for (int i = 0; s.in && i < c->nin; i++) s.in[i] = -1; /* as they stay where the call fails */
  int status = s.in ? enter(cap, &s) : CN_ERR_MEMORY;
  if (status < 0) cni_gscope_free(&s);
  return status;
}

/* The value of a call's tensor, where it is known and was not written over; -1 elsewhere, also on an error. */
static int known_of(cni_capture *cap, cn_tensor *t)
{
  int value = t ? cni_capture_known(cap, t) : -1;
  return value < 0 ? -1 : value;
}

int cni_scope_call_end(int scope, const cn_call *c, int status)
{
  cni_capture *cap = cni_capturing();
  cn_trace_scope_end(scope);
  if (status) return status;
  cni_gscope *s = &cap->g->scopes[scope];
  for (int i = 0; i < s->nin; i++) s->in[i] = known_of(cap, c->in[i]);
  if (!(s->out = cni_alloc((size_t)c->nout * sizeof *s->out))) return CN_ERR_MEMORY;
  s->nout = c->nout;
  for (int i = 0; i < c->nout; i++) s->out[i] = known_of(cap, c->out[i]);
  return cn_err();
}
