/* recursion.c: a tree-recursive network. Its shape is the shape of the data, and the recursion is plain C.
 *
 * An expression such as (3 + (2 * 5)) is a tree. A leaf becomes a vector by a table of digits; an inner node
 * joins the vectors of its two sides by a matrix that depends on its operator; the root's vector says
 * whether the value is even or odd. Autograd records whatever was called, so that every expression trains
 * the same few matrices through a graph of its own.
 *
 *     cc recursion.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 */
#include <cairn/cairn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { DIGITS = 10, SIZE = 16, BATCH = 16, STEPS = 1000, PARAMS = 5 };
enum { TABLE, PLUS, TIMES, HEAD, HEAD_BIAS };

/* ---- expressions: "(3+(2*5))", read from left to right ---- */

/* A small generator of its own, so that the data is the same everywhere: a number below n. */
static uint32_t draw(uint32_t *state, uint32_t n)
{
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 16) % n;
}

/* Writes a random expression of at most that depth; returns its end. */
static char *write_expression(char *to, int depth, uint32_t *state)
{
  if (depth == 0 || draw(state, 4) == 0) {
    *to++ = (char)('0' + draw(state, DIGITS));
    return to;
  }
  *to++ = '(';
  to = write_expression(to, depth - 1, state);
  *to++ = draw(state, 2) ? '+' : '*';
  to = write_expression(to, depth - 1, state);
  *to++ = ')';
  return to;
}

/* The parity of an expression, by arithmetic; moves *s behind it. */
static int parity(const char **s)
{
  if (**s != '(') return (*(*s)++ - '0') % 2;
  ++*s;
  int left = parity(s);
  char operator = *(*s)++;
  int right = parity(s);
  ++*s;
  return operator == '+' ? (left + right) % 2 : left * right;
}

/* ---- the network: the same recursion over tensors ---- */

/* Returns the vector (SIZE) of an expression; moves *s behind it. */
static cn_tensor *encode(cn_tensor *const *p, const char **s)
{
  if (**s != '(') return cn_select(p[TABLE], 0, *(*s)++ - '0');
  ++*s;
  cn_tensor *left = encode(p, s);
  cn_tensor *join = p[*(*s)++ == '+' ? PLUS : TIMES]; /* (SIZE, 2 * SIZE + 1) */
  cn_tensor *right = encode(p, s);
  ++*s;
  return cn_tanh(cn_mv(join, cn_cat(CN_TENSORS(left, right, cn_ones(CN_SHAPE(1))))));
}

/* Scores (2) for even and odd. */
static cn_tensor *classify(cn_tensor *const *p, const char *expression)
{
  return cn_add(cn_mv(p[HEAD], encode(p, &expression)), p[HEAD_BIAS]);
}

static void adam(cn_tensor *const *p, cn_tensor *const *m, cn_tensor *const *v, int step)
{
  double size = 0.01 * (1 - (step - 1.0) / STEPS) * sqrt(1 - pow(0.99, step)) / (1 - pow(0.9, step));
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMS; i++) {
    cn_tensor *g = cn_grad_of(p[i]);
    if (!g) continue; /* an operator that no expression of this batch had */
    cn_add_(cn_mul_(m[i], cn_num(0.9)), g, .alpha = 0.1);
    cn_addcmul_(cn_mul_(v[i], cn_num(0.99)), g, g, .value = 0.01);
    cn_addcdiv_(p[i], m[i], cn_add(cn_sqrt(v[i]), cn_num(1e-8)), .value = -size);
    cn_zero_grad(p[i]);
  }
  cn_no_grad_end(saved);
}

static double train_step(cn_tensor *const *p, uint32_t *state)
{
  char text[256];
  cn_tensor *scores[BATCH];
  int64_t labels[BATCH];
  for (int i = 0; i < BATCH; i++) {
    *write_expression(text, 3, state) = 0;
    const char *s = text;
    labels[i] = parity(&s);
    scores[i] = classify(p, text);
  }
  cn_tensor *truth = cn_from_data(labels, CN_SHAPE(BATCH), CN_I64);
  cn_tensor *loss = cn_cross_entropy(cn_stack(scores, BATCH), truth, NULL);
  cn_backward(loss);
  return cn_item(loss);
}

/* The share of deeper expressions that come out right. */
static double accuracy(cn_tensor *const *p, uint32_t *state)
{
  int right = 0, saved = cn_no_grad_begin();
  for (int i = 0; i < 200; i++) {
    char text[512];
    cn_scope *s = cn_scope_begin();
    *write_expression(text, 5, state) = 0;
    const char *rest = text;
    int label = parity(&rest), said = (int)cn_item_int(cn_argmax(classify(p, text), 0));
    right += said == label;
    if (i < 4) printf("%s is %s\n", text, said ? "odd" : "even");
    cn_scope_end(s);
  }
  cn_no_grad_end(saved);
  return right / 200.0;
}

int main(void)
{
  cn_tensor *p[PARAMS], *m[PARAMS], *v[PARAMS];
  uint32_t state = 1;
  cn_scope *all = cn_scope_begin();
  cn_seed(1);
  p[TABLE] = cn_mul(cn_randn(CN_SHAPE(DIGITS, SIZE)), cn_num(0.5));
  p[PLUS] = cn_mul(cn_randn(CN_SHAPE(SIZE, 2 * SIZE + 1)), cn_num(0.3));
  p[TIMES] = cn_mul(cn_randn(CN_SHAPE(SIZE, 2 * SIZE + 1)), cn_num(0.3));
  p[HEAD] = cn_mul(cn_randn(CN_SHAPE(2, SIZE)), cn_num(0.3));
  p[HEAD_BIAS] = cn_zeros(CN_SHAPE(2));
  for (int i = 0; i < PARAMS; i++) {
    cn_requires_grad(p[i], true);
    m[i] = cn_zeros_like(p[i]);
    v[i] = cn_zeros_like(p[i]);
  }

  for (int step = 1; step <= STEPS && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin();
    double loss = train_step(p, &state);
    adam(p, m, v, step);
    if (step % 200 == 0) printf("step %4d  loss %.4f\n", step, loss);
    cn_scope_end(s);
  }
  double share = accuracy(p, &state);
  printf("right on %.1f %% of deeper expressions\n", 100 * share);
  cn_scope_end(all);

  if (cn_err()) printf("%s\n", cn_err_message());
  return cn_err() || share < 0.95 ? 1 : 0;
}
