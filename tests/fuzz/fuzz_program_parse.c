/* fuzz_program_parse.c: any bytes as the text of a pointwise program: refused with an error, or a program whose text
 * reads back to itself, that runs on small tensors and whose gradient can be derived and run. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

#include "ops/program.h"

enum { MOST_TEXT = 4096, MOST_INPUTS = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const cni_program *p, const char *text, cn_dtype dtype)
{
  cn_tensor **in = calloc((size_t)p->nin + 1, sizeof *in), *out[CNI_MAX_RESULTS] = {NULL};
  double consts[CN_MAX_ARGS] = {1.5, -2};
  if (!in) abort();
  for (int i = 0; i < p->nin; i++)
    in[i] = cn_full(CN_SHAPE(3), 0.5 * i, .dtype = p->typed ? (cn_dtype)p->in[i].dtype : dtype);
  for (int i = 0; i < p->nin && !p->typed; i++) cn_requires_grad(in[i], true);
  int n = cn_pointwise(out, CNI_MAX_RESULTS, in, (size_t)p->nin, text, consts, CN_MAX_ARGS);
  if (n > 0 && (out[0] == NULL || cn_numel(out[0]) != 3)) abort();
  if (n > 0 && cn_needs_grad(out[0])) cn_backward(cn_sum(out[0]));
  if (cn_err() == CN_ERR_INTERNAL) abort();
  cn_err_clear();
  free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char text[MOST_TEXT + 2];
  size_t n = size > MOST_TEXT ? MOST_TEXT : size;
  memcpy(text, data, n);
  text[n] = 0;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  const cni_program *p = cni_program_parse(text);
  if (!p != (cn_err() != 0)) abort();
  cn_err_clear();
  if (p && p->nin <= MOST_INPUTS) {
    if (cni_program_parse(p->text) != p) abort(); /* the canonical text is the program's own */
    run(p, p->text, CN_F32);
    cn_op_find("add"); /* starts the library, whose tables the calls need */
    run(p, p->text, CN_I64);
  }
  cn_scope_end(s);
  return 0;
}
