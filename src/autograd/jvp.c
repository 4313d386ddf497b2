/* jvp.c: forward mode: the product of a Jacobian with a vector, by going backward twice.
 *
 * Place in the flow: above cn_grad. The gradient g -> J^T g of a recorded function is linear in g; its own gradient,
 * with the tangents as seed, is J v, whatever g was (ones here: some gradients are computed by logarithms of g).
 * Invariant: the gradients of leaves are left alone, and what the caller recorded before is not walked. */
#include <cairn/ops.h>

#include "autograd.h"
#include "base/alloc.h"
#include "tensor/tensor.h"

/* Everything of one call, in one block: arrays of tensors, borrowed from the scope. */
typedef struct jvp {
  size_t nin, nout;
  cn_tensor **in, **out;      /* the inputs cut off, fn's results */
  cn_tensor **seed;           /* g: ones of each result's shape */
  cn_tensor **back;           /* J^T g: of each input's shape */
  cn_tensor **roots, **seeds; /* those of them that take part in a walk */
  cn_tensor **found;
  size_t most;                /* inputs or results */
} jvp;

static int check(const jvp *j, cn_tensor *const *inputs, cn_tensor *const *tangents)
{
  for (size_t i = 0; i < j->nin; i++) {
    const cn_tensor *x = inputs[i], *v = tangents[i];
    if (!x) return cni_fail(CN_ERR_TYPE, "jvp: input %zu is NULL", i);
    if (v && !cni_same_shape(x->d.ndim, x->d.shape, v->d.ndim, v->d.shape))
      return cni_fail(CN_ERR_SHAPE, "jvp: tangent %zu does not have the shape of its input", i);
    if (v && v->d.dtype != x->d.dtype)
      return cni_fail(CN_ERR_DTYPE, "jvp: tangent %zu is of type %s, its input of type %s", i,
                      cn_dtype_name((cn_dtype)v->d.dtype), cn_dtype_name((cn_dtype)x->d.dtype));
  }
  return CN_OK;
}

/* Runs fn from inputs without history; those that can carry a gradient do. */
static int forward(jvp *j, cn_jvp_fn fn, cn_tensor *const *inputs, void *payload)
{
  for (size_t i = 0; i < j->nin; i++) {
    j->in[i] = cn_detach(inputs[i]);
    if (j->in[i] && cn_dtype_is_float(cn_dtype_of(j->in[i]))) j->in[i] = cn_requires_grad(j->in[i], true);
    if (!j->in[i]) return cn_err();
  }
  int status = fn(j->out, j->in, payload);
  if (!status) status = cn_err();
  for (size_t i = 0; i < j->nout && !status; i++)
    if (!j->out[i]) status = cni_fail(CN_ERR_TYPE, "jvp: the function did not set output %zu", i);
  return status;
}

/* Gradients of the roots that have a history with respect to `by`, which may be NULL where none flows. */
static int walk(jvp *j, cn_tensor **grads, cn_tensor *const *roots, cn_tensor *const *seeds, size_t nroots,
                cn_tensor *const *by, size_t nby, bool create_graph)
{
  size_t n = 0;
  cn_grad_opts o = {.size = sizeof o, .retain_graph = true, .create_graph = create_graph, .allow_unused = true};
  for (size_t i = 0; i < nby; i++) grads[i] = NULL;
  for (size_t i = 0; i < nroots; i++)
    if (roots[i] && seeds[i] && cn_needs_grad(roots[i])) {
      j->roots[n] = roots[i];
      j->seeds[n++] = seeds[i];
    }
  o.grad_outputs = j->seeds;
  return n ? cn_grad_with(grads, j->roots, n, by, nby, &o) : cn_err();
}

/* The inputs that can carry a gradient, gathered at the front of `to`; returns how many. */
static size_t floats_of(const jvp *j, cn_tensor **to, cn_tensor **v, cn_tensor *const *tangents)
{
  size_t n = 0;
  for (size_t i = 0; i < j->nin; i++)
    if (cn_needs_grad(j->in[i])) {
      to[n] = j->in[i];
      v[n++] = tangents[i];
    }
  return n;
}

static int derive(jvp *j, cn_tensor **result, cn_tensor *const *tangents, cn_tensor **by, cn_tensor **v,
                  bool create_graph)
{
  size_t nby = floats_of(j, by, v, tangents);
  for (size_t i = 0; i < j->nout; i++) {
    bool is_float = cn_dtype_is_float(cn_dtype_of(j->out[i]));
    j->seed[i] = cn_ones_like_with(j->out[i], NULL);
    if (j->seed[i] && is_float) j->seed[i] = cn_requires_grad(j->seed[i], true);
    if (!j->seed[i]) return cn_err();
  }
  int status = nby ? walk(j, j->back, j->out, j->seed, j->nout, by, nby, true) : CN_OK;
  size_t n = 0;
  for (size_t i = 0; i < j->nout; i++)
    if (cn_needs_grad(j->seed[i])) by[n++] = j->seed[i]; /* the inputs are done with */
  if (!status && n) status = walk(j, j->found, j->back, v, nby, by, n, create_graph);
  n = 0;
  for (size_t i = 0; i < j->nout && !status; i++) {
    cn_tensor *t = cn_needs_grad(j->seed[i]) ? j->found[n++] : NULL;
    result[i] = t ? t : cn_zeros_like_with(j->out[i], NULL);
    if (!result[i]) status = cn_err();
  }
  return status;
}

int cn_jvp_with(cn_tensor **outputs, cn_tensor **tangent_outputs, size_t noutputs, cn_jvp_fn fn,
                cn_tensor *const *inputs, cn_tensor *const *tangents, size_t ninputs, void *payload,
                const cn_jvp_opts *opts)
{
  enum { ARRAYS = 9 };
  if (cn_err()) return cn_err();
  jvp j = {.nin = ninputs, .nout = noutputs, .most = ninputs > noutputs ? ninputs : noutputs};
  bool create_graph = opts && opts->size >= sizeof *opts && opts->create_graph;
  int status = check(&j, inputs, tangents);
  if (status) return status;
  size_t size = ARRAYS * (j.most + 1) * sizeof(cn_tensor *);
  cn_tensor **room = cni_alloc_zero(size), **part[ARRAYS];
  if (!room) return CN_ERR_MEMORY;
  for (int i = 0; i < ARRAYS; i++) part[i] = room + (size_t)i * (j.most + 1);
  j.in = part[0], j.out = part[1], j.seed = part[2], j.back = part[3];
  j.roots = part[4], j.seeds = part[5], j.found = part[6];
  int saved = cn_enable_grad_begin();
  status = forward(&j, fn, inputs, payload);
  if (!status) status = derive(&j, tangent_outputs, tangents, part[7], part[8], create_graph);
  cn_enable_grad_end(saved);
  for (size_t i = 0; i < noutputs && outputs && !status; i++)
    if (!(outputs[i] = create_graph ? j.out[i] : cn_detach(j.out[i]))) status = cn_err();
  for (size_t i = 0; i < noutputs && !create_graph && !status; i++)
    if (!(tangent_outputs[i] = cn_detach(tangent_outputs[i]))) status = cn_err();
  cni_free(room, size);
  return status;
}
