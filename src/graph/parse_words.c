/* parse_words.c: the words of a graph's text: numbers, names, strings, values, and expressions of sizes.
 *
 * Place in the flow: below parse.c and parse_call.c. Invariant: nothing is read behind the end of the text, and what is
 * not there is not taken. */
#include <cairn/device.h>
#include <cairn/ext/system.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

int cni_read_bad(const cni_reader *r, const char *what)
{
  return cni_fail(CN_ERR_IO, "graph text, line %d: %s near \"%.20s\"", r->line, what, r->s);
}

void cni_blanks(cni_reader *r)
{
  while (*r->s == ' ') r->s++;
}

bool cni_eat(cni_reader *r, const char *word)
{
  size_t n = strlen(word);
  cni_blanks(r);
  if (strncmp(r->s, word, n)) return false;
  r->s += n;
  return true;
}

bool cni_read_integer(cni_reader *r, int64_t *v)
{
  char *end;
  cni_blanks(r);
  if (*r->s != '-' && (*r->s < '0' || *r->s > '9')) return false;
  *v = strtoll(r->s, &end, 10);
  if (end == r->s) return false;
  r->s = end;
  return true;
}

bool cni_read_number(cni_reader *r, double *v)
{
  const char *end;
  cni_blanks(r);
  if (!strchr("-+0123456789in", *r->s) || !*r->s) return false;
  *v = cn_number_read(r->s, &end);
  if (end == r->s) return false;
  r->s = end;
  return true;
}

bool cni_read_word(cni_reader *r, char *out, size_t size)
{
  cni_blanks(r);
  size_t n = strspn(r->s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (!n || n >= size) return false;
  memcpy(out, r->s, n);
  out[n] = 0;
  r->s += n;
  return true;
}

bool cni_read_small(cni_reader *r, int *v)
{
  int64_t x;
  if (!cni_read_integer(r, &x) || x < -2 || x > INT32_MAX) return false;
  *v = (int)x;
  return true;
}

cn_device cni_read_device(cni_reader *r)
{
  char name[64];
  size_t n = strcspn(r->s, " ,'\n");
  if (n >= sizeof name) return 0;
  memcpy(name, r->s, n);
  name[n] = 0;
  r->s += n;
  cn_device found = cn_device_find(name);
  if (!found) cn_err_clear(); /* the line's error says where */
  return found;
}

bool cni_read_string(cni_reader *r, cn_value *v, char **room, const char *room_end)
{
  char *start = *room;
  for (; *r->s && *r->s != '\'' && *r->s != '\n'; r->s++) {
    if (*r->s == '\\' && r->s[1]) r->s++;
    if (*room + 1 >= room_end) return false;
    *(*room)++ = *r->s;
  }
  if (*r->s != '\'' || *room + 1 >= room_end) return false;
  r->s++;
  *(*room)++ = 0;
  *v = cn_v_str(start);
  return true;
}

bool cni_read_value(cni_reader *r, int *id)
{
  *id = -1;
  if (cni_eat(r, "none")) return true;
  return cni_eat(r, "%") && cni_read_small(r, id) && (size_t)*id < r->g->nvalues;
}

/* ---- numbers that follow from sizes: see put_expr ---- */

static int expression(cni_reader *r, int depth);

static int size_named(cni_reader *r)
{
  char name[CNI_SIZE_NAME];
  if (!cni_read_word(r, name, sizeof name)) return CN_ERR_VALUE;
  for (size_t i = 0; i < r->g->nsizes; i++)
    if (!strcmp(r->g->sizes[i].name, name)) return cni_expr_size(&r->g->exprs, (int)i);
  return CN_ERR_VALUE;
}

static int operand(cni_reader *r, int depth)
{
  int64_t v;
  if (depth > CNI_EXPR_MOST) return CN_ERR_VALUE;
  if (cni_read_integer(r, &v)) return cni_expr_const(&r->g->exprs, v);
  if (cni_eat(r, "(")) {
    int e = expression(r, depth + 1);
    return e > 0 && !cni_eat(r, ")") ? CN_ERR_VALUE : e;
  }
  bool min = cni_eat(r, "min("), call = min || cni_eat(r, "max(");
  if (!call) return size_named(r);
  int a = expression(r, depth + 1), b = a > 0 && cni_eat(r, ",") ? expression(r, depth + 1) : CN_ERR_VALUE;
  int e = a < 0 ? a : cni_expr_make(&r->g->exprs, min ? CNI_EXPR_MIN : CNI_EXPR_MAX, a, b);
  return e > 0 && !cni_eat(r, ")") ? CN_ERR_VALUE : e;
}

static int product(cni_reader *r, int depth)
{
  int e = operand(r, depth);
  while (e > 0) {
    enum cni_expr_op op = cni_eat(r, "//") ? CNI_EXPR_DIV
                        : cni_eat(r, "*")  ? CNI_EXPR_MUL
                        : cni_eat(r, "/")  ? CNI_EXPR_RATIO : CNI_EXPR_NONE;
    if (!op) break;
    e = cni_expr_make(&r->g->exprs, op, e, operand(r, depth));
  }
  return e;
}

static int expression(cni_reader *r, int depth)
{
  int e = product(r, depth);
  while (e > 0) {
    enum cni_expr_op op = cni_eat(r, "+") ? CNI_EXPR_ADD : cni_eat(r, "-") ? CNI_EXPR_SUB : CNI_EXPR_NONE;
    if (!op) break;
    e = cni_expr_make(&r->g->exprs, op, e, product(r, depth));
  }
  return e;
}

int cni_expression_parse(cn_graph *g, const char *text)
{
  cni_reader r = {.s = text, .g = g};
  int e = expression(&r, 0);
  cni_blanks(&r);
  return e > 0 && *r.s ? CN_ERR_VALUE : e;
}

bool cni_read_sized(cni_reader *r, int32_t *expr, int64_t *integer_value, double *number_value)
{
  bool open = cni_eat(r, "(");
  int e = open ? expression(r, 0) : size_named(r);
  if (e <= 0 || (open && !cni_eat(r, ")"))) return false;
  *expr = e;
  *integer_value = cni_expr_traced(r->g, e, number_value);
  return *number_value == *number_value; /* no number stands for "undefined" */
}

bool cni_read_sized_integer(cni_reader *r, int64_t *v, int32_t *expr)
{
  double number;
  *expr = 0;
  if (!cni_eat(r, "$")) return cni_read_integer(r, v);
  return cni_read_sized(r, expr, v, &number) && r->g->exprs.v[*expr].op != CNI_EXPR_RATIO;
}

bool cni_read_sized_number(cni_reader *r, double *v, int32_t *expr)
{
  int64_t integer_value;
  *expr = 0;
  return cni_eat(r, "$") ? cni_read_sized(r, expr, &integer_value, v) : cni_read_number(r, v);
}
