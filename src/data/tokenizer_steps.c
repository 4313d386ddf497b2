/* tokenizer_steps.c: lists of steps, run one after the other. See tokenizer_steps.h.
 *
 * Invariant: a step reads one buffer and writes another, so that it may make text longer or shorter as it likes. */
#include "tokenizer_steps.h"

#include <string.h>

#include "tokenizer.h"

/* ---- pieces ---- */

void cni_fragments_end(cni_fragments *p)
{
  if (p->text.failed || cn_grow((void **)&p->ends, &p->cap, p->n + 1, sizeof *p->ends)) {
    p->text.failed = true;
    return;
  }
  p->ends[p->n++] = p->text.n;
}

void cni_fragments_put(cni_fragments *p, const char *s, size_t n)
{
  if (!n) return;
  if (!p->n) p->origin = s;
  cn_text_put_bytes(&p->text, s, n);
  cni_fragments_end(p);
}

const char *cni_fragments_at(const cni_fragments *p, size_t i, size_t *size)
{
  size_t from = i ? p->ends[i - 1] : 0;
  *size = p->ends[i] - from;
  return p->text.s ? p->text.s + from : "";
}

void cni_fragments_clear(cni_fragments *p)
{
  p->text.n = p->n = 0;
  p->origin = NULL;
  p->first = false;
}

void cni_fragments_free(cni_fragments *p)
{
  cn_text_free(&p->text);
  cn_free(p->ends, p->cap * sizeof *p->ends);
}

/* ---- lists ---- */

void cni_step_free(cni_text_step *step)
{
  cn_string_free(step->a);
  cn_string_free(step->b);
  if (step->free_data) step->free_data(step->data, step->data_size);
  else cn_free(step->data, step->data_size);
}

int cni_steps_add(cni_text_steps *steps, const cni_text_step *step)
{
  cni_text_step mine = *step;
  if (cn_grow((void **)&steps->v, &steps->cap, steps->n + 1, sizeof *steps->v)) {
    cni_step_free(&mine);
    return CN_ERR_MEMORY;
  }
  steps->v[steps->n++] = mine;
  return CN_OK;
}

void cni_steps_free(cni_text_steps *steps)
{
  for (size_t i = 0; i < steps->n; i++) cni_step_free(&steps->v[i]);
  cn_free(steps->v, steps->cap * sizeof *steps->v);
}

void cni_steps_normalise(cn_text *out, const cni_text_steps *steps, const char *s, size_t n)
{
  cn_text now = {0};
  for (size_t i = 0; i < steps->n && !out->failed; i++) {
    cn_text next = {0};
    cn_text *to = i + 1 < steps->n ? &next : out;
    steps->v[i].normalise(to, &steps->v[i], s, n);
    out->failed |= to->failed;
    cn_text_free(&now);
    now = next;
    s = now.n ? now.s : "";
    n = now.n;
  }
  cn_text_free(&now);
}

int cni_steps_cut(cni_fragments *p, const cni_text_steps *steps, const char *s, size_t n, bool first)
{
  cni_fragments other = {0}, *now = p, *next = &other;
  cni_fragments_put(now, s, n);
  now->first = first;
  for (size_t i = 0; i < steps->n && !now->text.failed; i++) {
    cni_fragments_clear(next);
    for (size_t k = 0; k < now->n && !next->text.failed; k++) {
      size_t size;
      const char *piece = cni_fragments_at(now, k, &size);
      steps->v[i].cut(next, &steps->v[i], piece, size, !k && now->first);
      if (!k) next->first = now->first && next->n && next->origin == piece;
    }
    cni_fragments *was = now;
    now = next;
    next = was;
  }
  bool failed = now->text.failed;
  if (now != p) {
    cni_fragments swap = *p;
    *p = *now;
    *now = swap;
  }
  cni_fragments_free(&other);
  return failed ? CN_ERR_MEMORY : CN_OK;
}

int cni_steps_decode(cni_fragments *tokens, const cni_text_steps *steps)
{
  for (size_t i = 0; i < steps->n && !tokens->text.failed; i++) {
    cni_fragments next = {0};
    steps->v[i].decode(&next, &steps->v[i], tokens);
    cni_fragments_free(tokens);
    *tokens = next;
  }
  return tokens->text.failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- for models ---- */

int cni_encode_pieces(cni_encoder *e, const char *s, size_t n)
{
  const cn_tokenizer *t = e->t;
  if (!t->cuts.n) return cni_encode_word(e, s, n, t->cls->word);
  cni_fragments p = {0};
  int status = cni_steps_cut(&p, &t->cuts, s, n, e->first);
  for (size_t i = 0; i < p.n && !status; i++) {
    size_t size;
    const char *piece = cni_fragments_at(&p, i, &size);
    if (size) status = cni_encode_word(e, piece, size, t->cls->word);
  }
  cni_fragments_free(&p);
  return status;
}
