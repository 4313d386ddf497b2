/* key.c: the key of a call: everything that a captured program depends on, as bytes, with names for messages.
 *
 * Place in the flow: compile.c reads the key of each call and finds the program by it. Invariant: two calls with the
 * same key may run the same program, whatever the values of their tensors. */
#include <cairn/autograd.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/numerics.h"
#include "base/state.h"
#include "compile.h"

/* From the room that a key without names has to memory of its own. */
static int move_out(cn_key *k, size_t n)
{
  void *bytes = NULL;
  if (cni_grow(&bytes, &k->cap, n, 1)) return CN_ERR_MEMORY;
  memcpy(bytes, k->few, k->n);
  k->bytes = bytes;
  return CN_OK;
}

static int grow(cn_key *k, size_t n)
{
  bool few = !k->named && !k->cap;
  if (few && n <= sizeof k->few) return CN_OK;
  return few ? move_out(k, n) : cni_grow((void **)&k->bytes, &k->cap, n, 1);
}

static void put(cn_key *k, const void *bytes, size_t n)
{
  if (k->failed || grow(k, k->n + n)) {
    k->failed = true;
    return;
  }
  if (n) memcpy(k->bytes + k->n, bytes, n);
  k->n += n;
}

static void begin(cn_key *k, const char *what, int input)
{
  if (!k->named) return;
  if (k->failed || cni_grow((void **)&k->parts, &k->parts_cap, k->nparts + 1, sizeof *k->parts)) {
    k->failed = true;
    return;
  }
  k->parts[k->nparts++] = (struct cni_key_part){what, input, k->n};
}

/* Room for most keys at once. */
static void reserve(cn_key *k, size_t ninputs)
{
  k->failed = cni_grow((void **)&k->bytes, &k->cap, 64 + 128 * ninputs, 1) ||
              cni_grow((void **)&k->parts, &k->parts_cap, 8 + 10 * ninputs, sizeof *k->parts);
}

static void put_int(cn_key *k, const char *what, int input, int64_t v)
{
  begin(k, what, input);
  put(k, &v, sizeof v);
}

void cn_key_put(cn_key *key, const void *bytes, size_t size, const char *what)
{
  put_int(key, what, -1, (int64_t)size);
  put(key, bytes, size);
}

/* Which earlier input has the same memory; itself: none. */
static int64_t shares_with(const cn_compile_call *call, size_t i)
{
  size_t k = 0;
  while (k < i && (!call->inputs[k] || call->inputs[k]->storage != call->inputs[i]->storage)) k++;
  return (int64_t)k;
}

bool cni_is_part(const cn_tensor *t)
{
  return t->storage && (t->offset || t->storage->size != (size_t)t->d.numel * cni_dtype_size(t->d.dtype));
}

bool cni_is_by_value(const cn_tensor *t)
{
  const cn_desc *d = &t->d;
  bool whole = cni_dtype_is_int(d->dtype) || d->dtype == CN_BOOL;
  return whole && !d->weak && d->numel == 1 && d->device == CN_CPU && d->data;
}

static void put_input(cn_key *k, const cn_compile_call *call, size_t i, const cni_by_value *known)
{
  cn_tensor *t = call->inputs[i];
  const cn_desc *d = &t->d;
  int n = (int)i;
  put_int(k, "the type", n, d->dtype);
  put_int(k, "the device", n, d->device);
  put_int(k, "the number of dimensions", n, d->ndim);
  begin(k, "the shape", n);
  put(k, d->shape, (size_t)d->ndim * sizeof *d->shape);
  begin(k, "the memory order", n);
  put(k, d->strides, (size_t)d->ndim * sizeof *d->strides);
  if (d->weak) { /* a float is an input, unless the program depends on it; another number is part of the program */
    begin(k, "the number", n);
    if (d->dtype != CN_F64 || known->numbers) put(k, d->data, d->dtype == CN_BOOL ? 1 : sizeof(int64_t));
    return;
  }
  if (known->values && cni_is_by_value(t)) {
    const void *value = cni_tensor_host(t);
    begin(k, "the value", n);
    if (value) put(k, value, cni_dtype_size(d->dtype));
  }
  put_int(k, "what it shares memory with", n, shares_with(call, i));
  bool grad = cn_needs_grad(t), leaf = cn_is_leaf(t);
  put_int(k, "whether it is a part of a larger tensor", n, cni_is_part(t));
  put_int(k, "requires_grad, or whether it was computed", n, grad + !leaf);
  if (known->leaves && grad && leaf) put_int(k, "which tensor it is", n, (int64_t)(intptr_t)t);
}

int cni_key_read(cn_key *k, const cn_compile_call *call, const cn_compile_opts *opts, const cni_by_value *known,
                 bool named)
{
  const cn_state *st = cni_state();
  k->n = k->cap = k->nparts = k->parts_cap = 0;
  k->parts = NULL;
  k->failed = false;
  k->named = named;
  k->bytes = named ? NULL : k->few;
  if (named) reserve(k, call->ninputs);
  put_int(k, "gradient mode", -1, st->no_grad | st->inference << 1);
  put_int(k, "autocast", -1, st->autocast_depth ? (int64_t)st->autocast[0] << 32 | st->autocast[1] : 0);
  put_int(k, "what devices may round, or whether results must repeat,", -1, cni_numerics());
  put_int(k, "the ways of attention", -1, st->attention);
  put_int(k, "the default type", -1, st->default_dtype);
  put_int(k, "the default device", -1, st->default_device);
  put_int(k, "the number of inputs", -1, (int64_t)call->ninputs);
  for (size_t i = 0; i < call->ninputs; i++) {
    if (call->inputs[i]) put_input(k, call, i, known);
    else put_int(k, "that it is there", (int)i, 0);
  }
  if (opts->key) opts->key(k, call);
  if (!k->failed && !cn_err()) return CN_OK;
  cni_key_free(k);
  return cn_err() ? cn_err() : CN_ERR_MEMORY;
}

bool cni_key_same(const cn_key *a, const cn_key *b) { return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n); }

static size_t part_end(const cn_key *k, size_t i) { return i + 1 < k->nparts ? k->parts[i + 1].first : k->n; }

void cni_key_difference(char *text, size_t size, const cn_key *now, const cn_key *before)
{
  for (size_t i = 0; i < now->nparts; i++) {
    const struct cni_key_part *a = &now->parts[i], *b = i < before->nparts ? &before->parts[i] : NULL;
    size_t n = part_end(now, i) - a->first;
    bool same = b && part_end(before, i) - b->first == n && !memcmp(now->bytes + a->first, before->bytes + b->first, n);
    if (same) continue;
    if (a->input >= 0) snprintf(text, size, "%s of input %d is another", a->what, a->input);
    else snprintf(text, size, "%s is another", a->what);
    return;
  }
  snprintf(text, size, "there are fewer inputs");
}

void cni_key_free(cn_key *k)
{
  if (k->cap) cni_free(k->bytes, k->cap);
  cni_free(k->parts, k->parts_cap * sizeof *k->parts);
  k->bytes = NULL;
  k->parts = NULL;
  k->n = k->cap = k->nparts = k->parts_cap = 0;
}
