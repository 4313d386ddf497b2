/* vmap.c: vmap as one call: a function of one example, called once for a batch.
 *
 * Place in the flow: above batch.c, whose parts it puts together; bindings with nested structures do the same in their
 * language. Invariant: whatever happens inside, the vmap has ended when it returns. */
#include <cairn/ops.h>
#include <cairn/vmap.h>
#include <string.h>

#include "base/alloc.h"
#include "shorthand.h"

typedef struct mapping {
  cn_tensor **outputs, *const *inputs;
  size_t nout, nin;
  cn_vmap_fn fn;
  void *payload;
  const cn_vmap_opts *o;
  cn_tensor **one; /* an example of each input */
  int64_t size;
} mapping;

static int64_t dim_of(const cn_ints *dims, size_t i)
{
  return !dims->n ? 0 : dims->v[dims->n == 1 ? 0 : i];
}

static int check(mapping *m)
{
  const cn_vmap_opts *o = m->o;
  if ((o->in_dims.n > 1 && o->in_dims.n != m->nin) || (o->out_dims.n > 1 && o->out_dims.n != m->nout))
    return cni_fail(CN_ERR_VALUE, "vmap: in_dims and out_dims have one entry for each input and output, or one for "
                                  "all");
  if (o->chunk < 0) return cni_fail(CN_ERR_VALUE, "vmap: a chunk has at least one example");
  m->size = -1;
  for (size_t i = 0; i < m->nin; i++) {
    int64_t dim = dim_of(&o->in_dims, i);
    if (!m->inputs[i]) return cni_fail(CN_ERR_TYPE, "vmap: input %zu is NULL", i);
    if (dim == CN_NOT_MAPPED) continue;
    int64_t n = cn_size(m->inputs[i], dim);
    if (cn_err()) return cn_err();
    if (m->size >= 0 && n != m->size)
      return cni_fail(CN_ERR_SHAPE, "vmap: expected all tensors to have the same size in the mapped dimension, got "
                                    "%lld and %lld", (long long)m->size, (long long)n);
    m->size = n;
  }
  return m->size < 0 ? cni_fail(CN_ERR_VALUE, "vmap: at least one input must be mapped over") : CN_OK;
}

/* Examples from..to: fn's results, each with its batch where out_dims says. Borrowed. */
static int map_range(mapping *m, cn_tensor **out, int64_t from, int64_t to)
{
  int64_t vmap = cn_vmap_begin(to - from, m->o->randomness);
  if (vmap < 0) return (int)vmap;
  int status = CN_OK;
  for (size_t i = 0; i < m->nin && !status; i++) {
    int64_t dim = dim_of(&m->o->in_dims, i);
    cn_tensor *t = m->inputs[i];
    if (dim != CN_NOT_MAPPED && to - from < m->size) t = cn_slice_with(t, dim, from, to, NULL);
    m->one[i] = dim == CN_NOT_MAPPED ? t : cn_batched(t, dim, vmap);
    if (!m->one[i]) status = cn_err();
  }
  for (size_t i = 0; i < m->nout; i++) out[i] = NULL;
  if (!status) status = m->fn(out, m->one, m->payload);
  if (!status) status = cn_err();
  for (size_t i = 0; i < m->nout && !status; i++) {
    int64_t dim = dim_of(&m->o->out_dims, i);
    if (!out[i]) status = cni_fail(CN_ERR_TYPE, "vmap: the function did not set output %zu", i);
    else if (dim != CN_NOT_MAPPED) out[i] = cn_unbatched(out[i], dim, vmap);
    else if (cn_is_batched_in(out[i], vmap))
      status = cni_fail(CN_ERR_VALUE, "vmap: output %zu differs between examples, it has no place without them", i);
    if (!status && !out[i]) status = cn_err();
  }
  cni_saved_error failed;
  if (status) cni_error_take(&failed);
  cn_vmap_end(vmap);
  if (status) cni_error_restore(&failed);
  return status;
}

/* Parts of the batch one after the other. parts: room for nout * chunks tensors. */
static int map_chunks(mapping *m, cn_tensor **parts, int64_t chunk, size_t chunks)
{
  int status = CN_OK;
  cn_tensor **row = parts + m->nout * chunks;
  for (size_t k = 0; k < chunks && !status; k++) {
    int64_t from = (int64_t)k * chunk, to = from + chunk < m->size ? from + chunk : m->size;
    status = map_range(m, row, from, to);
    for (size_t i = 0; i < m->nout && !status; i++) parts[i * chunks + k] = row[i];
  }
  for (size_t i = 0; i < m->nout && !status; i++) {
    int64_t dim = dim_of(&m->o->out_dims, i);
    cn_cat_opts o = {.size = sizeof o, .dim = dim == CN_NOT_MAPPED ? 0 : dim};
    m->outputs[i] = dim == CN_NOT_MAPPED ? parts[i * chunks] : cn_cat_with(parts + i * chunks, chunks, &o);
    if (!m->outputs[i]) status = cn_err();
  }
  return status;
}

int cn_vmap_with(cn_tensor **outputs, size_t noutputs, cn_vmap_fn fn, cn_tensor *const *inputs, size_t ninputs,
                 void *payload, const cn_vmap_opts *opts)
{
  cn_vmap_opts none = {.size = sizeof none};
  if (cn_err()) return cn_err();
  mapping m = {outputs, inputs, noutputs, ninputs, fn, payload, opts ? opts : &none, NULL, 0};
  int status = check(&m);
  if (status) return status;
  int64_t chunk = m.o->chunk && m.o->chunk < m.size ? m.o->chunk : m.size;
  size_t chunks = chunk ? (size_t)((m.size + chunk - 1) / chunk) : 1;
  size_t bytes = (ninputs + noutputs * (chunks + 1) + 1) * sizeof(cn_tensor *);
  if (!(m.one = cni_alloc_zero(bytes))) return CN_ERR_MEMORY;
  status = chunks > 1 ? map_chunks(&m, m.one + ninputs, chunk, chunks) : map_range(&m, outputs, 0, m.size);
  cni_free(m.one, bytes);
  return status;
}
