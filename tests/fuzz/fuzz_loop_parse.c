/* fuzz_loop_parse.c: any bytes as the text of a nest (graph/loop): refused with an error, or a nest whose text reads
 * back as itself; one that the verifier takes touches nothing outside of its operands when it runs. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/loop/nest_run.h"

enum { MOST_TEXT = 4096, OPERANDS = 3, MOST_SIZE = 16, MOST_POINTS = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cni_nest_operand operand_of(const cn_desc *d)
{
  cni_nest_operand o = {.dtype = d->dtype, .ndim = d->ndim};
  memcpy(o.shape, d->shape, sizeof o.shape);
  return o;
}

static bool is_small(const cni_nest *n)
{
  int64_t points = 1;
  for (int i = 0; i < n->naxes; i++) {
    if (n->axis[i].size < 0 || n->axis[i].size > MOST_SIZE) return false;
    if ((points *= n->axis[i].size + 1) > MOST_POINTS) return false;
  }
  return true;
}

/* A result for a store: each dim as large as the axis that it names. */
static cn_tensor *result_of(const cni_nest *n, const cni_store *s)
{
  int64_t shape[CN_MAX_DIMS];
  for (int k = 0; k < s->ndim; k++) {
    const cni_expr *e = &n->exprs.v[s->index[k]];
    shape[k] = e->op == CNI_EXPR_SIZE && e->value < n->naxes ? n->axis[e->value].size : 1;
  }
  return cn_empty(shape, (size_t)s->ndim, .dtype = (cn_dtype)s->dtype);
}

static void run(const cni_nest *n)
{
  const int64_t index[] = {3, -1, 0, 2};
  cn_tensor *in[OPERANDS] = {cn_ones(CN_SHAPE(3, 4)), cn_from_data(index, CN_SHAPE(4), CN_I64), cn_ones(CN_SHAPE(5))};
  const cn_desc *from[OPERANDS], *to[CNI_MAX_RESULTS];
  cni_nest_operand operands[OPERANDS], results[CNI_MAX_RESULTS];
  for (int i = 0; i < OPERANDS; i++) operands[i] = operand_of(from[i] = cn_desc_of(in[i]));
  for (int i = 0; i < n->nstores; i++) {
    cn_tensor *t = result_of(n, &n->store[i]);
    if (!t) return;
    results[i] = operand_of(to[i] = cn_desc_of(t));
  }
  if (!cni_nest_verify(n, operands, OPERANDS, results, n->nstores)) cni_nest_run(n, NULL, from, to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char text[MOST_TEXT + 1];
  size_t length = size > MOST_TEXT ? MOST_TEXT : size;
  memcpy(text, data, length);
  text[length] = 0;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  cni_nest n = {0}, again = {0};
  int status = cni_nest_parse(&n, text);
  if ((status < 0) != (cn_err() != 0)) abort();
  if (!status) {
    char *once = cni_nest_to_string(&n), *twice = NULL;
    if (!once || cni_nest_parse(&again, once) || !(twice = cni_nest_to_string(&again)) || strcmp(once, twice)) abort();
    cn_string_free(once);
    cn_string_free(twice);
    if (is_small(&n)) run(&n);
  }
  cni_nest_free(&n);
  cni_nest_free(&again);
  cn_err_clear();
  cn_scope_end(s);
  return 0;
}
