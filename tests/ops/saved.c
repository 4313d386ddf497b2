/* saved.c: the driver of what ops keep for backward. An input or result that is written to between an op and its
 * backward changes no gradient: where PyTorch allows the write (tests/golden/saved.txt, which saved.py describes)
 * backward goes through; where PyTorch makes it an error it is one, or the op keeps less and the gradient is the
 * right one. */
#include <stdlib.h>
#include <string.h>

#include "drivers.h"

/* The patterns of a sample in the table, up to the line's end; NULL: it is not there. */
static const char *patterns_of(const sample *s)
{
  static char *table;
  size_t size, length = strlen(s->text);
  if (!table) table = sample_read_file(CN_TEST_SOURCE_DIR "/tests/golden/saved.txt", &size);
  for (const char *at = table; at && *at; at++) {
    if (!strncmp(at, s->text, length) && !strncmp(at + length, ": ", 2)) return at + length + 2;
    if (!(at = strchr(at, '\n'))) return NULL;
  }
  return NULL;
}

/* One pattern: which inputs require a gradient, and the digits of inputs and results. */
typedef struct pattern {
  int only; /* -1: all */
  const char *digits;
} pattern;

static bool wanted(const pattern *p, const call *c, int i)
{
  if (p->only >= 0 && i != p->only) return false;
  return c->in[i] && cn_dtype_is_float(cn_dtype_of(c->in[i])) && !cn_desc_of(c->in[i])->weak;
}

/* The call with its history; constant literals (.d) require none. */
static int begin(call *c, call_result *r, const trial *t, const pattern *p)
{
  memset(r, 0, sizeof *r);
  if (call_make(c, t->s, &(call_setup){.grad = true})) return cn_err();
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && cn_needs_grad(c->in[i]) && !wanted(p, c, i)) cn_requires_grad(c->in[i], false);
  cn_seed(1);
  return call_run(r, c, NULL);
}

/* Another value in every element; whole numbers stay, as what they index must be there. */
static int write_to(cn_tensor *t)
{
  int saved = cn_no_grad_begin();
  cn_dtype d = cn_dtype_of(t);
  if (cn_dtype_is_float(d)) cn_add_(cn_mul_(t, cn_num(1.5)), cn_num(0.25));
  else cn_copy_(t, cn_clone(t));
  cn_no_grad_end(saved);
  return cn_err();
}

/* The gradients where tensor `number` (inputs, then results) is written to in between; -1: none is. */
static enum outcome compare(const trial *t, const pattern *p, int number, bool may, const call_result *want)
{
  call c;
  call_result r;
  char detail[300] = "";
  enum outcome o = PASS;
  if (begin(&c, &r, t, p)) o = trial_fail(t, "%s", cn_err_message());
  bool input = number < c.nin;
  cn_tensor *target = input ? c.in[number] : r.out[number - c.nin];
  int at = input ? number : number - c.nin;
  const char *what = input ? "input" : "result";
  if (o == PASS && write_to(target)) {
    cn_err_clear();
    call_result_free(&r);
    call_free(&c);
    return PASS; /* one that overlaps itself */
  }
  int status = o == PASS ? call_grad(&r, &c, NULL, false) : CN_OK;
  if (o == PASS && status && (may || status != CN_ERR_GRAD))
    o = trial_fail(t, "%s %d is written to (wanted: %d): %s", what, at, p->only, cn_err_message());
  for (int i = 0; o == PASS && !status && i < c.nin; i++) {
    call_result a = {0}, b = {0};
    a.grad[0] = r.grad[i];
    b.grad[0] = want->grad[i];
    if (!same_results(&a, &b, 0, detail, sizeof detail))
      o = trial_fail(t, "%s %d is written to (wanted: %d): %s", what, at, p->only, detail);
  }
  cn_err_clear();
  call_result_free(&r);
  call_free(&c);
  return o;
}

static enum outcome run_pattern(const trial *t, const pattern *p)
{
  call c;
  call_result want;
  enum outcome o = PASS;
  int status = begin(&c, &want, t, p), number = 0;
  if (!status) status = call_grad(&want, &c, NULL, false);
  if (status) o = trial_fail(t, "%s", cn_err_message());
  for (const char *at = p->digits; o == PASS && *at != ',' && *at != '\n'; at++) {
    if (*at == '/') continue;
    if (*at != '-' && number < c.nin + (int)want.nout && (number >= c.nin || c.in[number]))
      o = compare(t, p, number, *at == '1', &want);
    number++;
  }
  cn_err_clear();
  call_result_free(&want);
  call_free(&c);
  return o;
}

enum outcome drive_saved(const trial *t)
{
  const char *at = patterns_of(t->s), *reason = exception_for("saved", t->s);
  enum outcome o = PASS;
  if (at && reason) return trial_skip(t, "%s", reason);
  while (at && o == PASS) {
    pattern p = {*at == '*' ? -1 : atoi(at), strchr(at, ' ') + 1};
    o = run_pattern(t, &p);
    at = p.digits + strcspn(p.digits, ",\n");
    at = *at == ',' ? at + 2 : NULL;
  }
  return o;
}
