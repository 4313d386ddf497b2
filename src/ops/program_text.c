/* program_text.c: the text of pointwise programs: written, and read.
 *
 * "2|1.5,@3|mul 0 2;add 4 1|5" has four parts: how many inputs; constants, @ an attribute; steps, whose operands are
 * registers: inputs, constants, steps from 0 on; results. A typed program says what each register holds (program.h):
 *
 *     float32:f32,int32:i64|2:f32|to:f32 1;add:f32 0 3;floor_div:i64@floor_divide 1 1;to:i64:int8 5|4:float32,6:int8
 *
 * "to" converts, "to:i64:int32" by way of int32; behind @ stands the op that messages mention. "row_sum:f32*1 3" adds
 * up register 3 along rows, which extend over the last dim. Place in the flow:
 * program.c writes it for each program that is made; graphs and callers of cn_pointwise give it back. Invariant: what
 * is written reads back as the same program. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "hot.h"
#include "program.h"

/* ---- writing ---- */

static void write_class(cn_text *t, const cni_program *p, int class)
{
  if (p->typed) cn_text_putf(t, ":%s", cni_compute_names[class]);
}

static void write_const(cn_text *t, const cni_program *p, const cni_const *k)
{
  char number[CN_NUMBER_TEXT];
  if (k->attr >= 0) cn_text_putf(t, "@%d", k->attr);
  else cn_text_put(t, cn_number_write(number, k->value, false));
  write_class(t, p, k->class);
}

static const char *name_of(const cni_step *s)
{
  if (cni_step_is_row(s)) return cni_row_names[s->prim - CNI_PW_row_first];
  return s->prim == CNI_PW_convert ? "to" : cni_prims[s->prim].name;
}

static void write_step(cn_text *t, const cni_program *p, const cni_step *s)
{
  cn_text_put(t, name_of(s));
  write_class(t, p, s->class);
  if (cni_step_is_row(s)) cn_text_putf(t, "*%d", s->dtype);
  else if (s->dtype) cn_text_putf(t, ":%s", cn_dtype_name((cn_dtype)s->dtype));
  if (s->origin) cn_text_putf(t, "@%.*s", (int)strcspn(s->origin, " "), s->origin);
  for (int k = 0; k < cni_step_arity(s); k++) cn_text_putf(t, " %d", s->arg[k]);
}

void cni_program_write(cn_text *t, const cni_program *p)
{
  if (!p->typed) cn_text_putf(t, "%d", p->nin);
  for (int i = 0; p->typed && i < p->nin; i++) {
    cn_text_putf(t, "%s%s", i ? "," : "", cn_dtype_name((cn_dtype)p->in[i].dtype));
    write_class(t, p, p->in[i].class);
  }
  cn_text_put(t, "|");
  for (int i = 0; i < p->nconst; i++) {
    if (i) cn_text_put(t, ",");
    write_const(t, p, &p->consts[i]);
  }
  cn_text_put(t, "|");
  for (int i = 0; i < p->nstep; i++) {
    if (i) cn_text_put(t, ";");
    write_step(t, p, &p->steps[i]);
  }
  cn_text_put(t, "|");
  for (int i = 0; i < p->nout; i++) {
    cn_text_putf(t, "%s%d", i ? "," : "", p->out[i]);
    if (p->typed) cn_text_putf(t, ":%s", cn_dtype_name((cn_dtype)p->out_dtype[i]));
  }
}

/* ---- reading ---- */

enum { WORD = 48 };

typedef struct reader {
  const char *s;
  cni_builder b;
  cni_prog_input *in; /* owned, of typed programs */
  size_t in_cap;
  int row_dims; /* of steps along rows; 0: there was none */
  int *reg; /* owned: the builder's registers by number */
  size_t nreg, reg_cap;
} reader;

static bool eat(reader *r, char c)
{
  if (*r->s != c) return false;
  r->s++;
  return true;
}

static bool read_int(reader *r, long most, int *value)
{
  char *end;
  if (*r->s < '0' || *r->s > '9') return false;
  long v = strtol(r->s, &end, 10);
  if (v < 0 || v >= most) return false;
  r->s = end;
  *value = (int)v;
  return true;
}

/* Letters, digits and underscores. */
static bool read_word(reader *r, char *word)
{
  size_t n = strspn(r->s, "abcdefghijklmnopqrstuvwxyz_0123456789");
  if (n == 0 || n >= WORD) return false;
  memcpy(word, r->s, n);
  word[n] = 0;
  r->s += n;
  return true;
}

static bool read_dtype(reader *r, int *dtype)
{
  char word[WORD];
  if (!read_word(r, word)) return false;
  *dtype = (int)cn_dtype_find(word);
  return *dtype && cni_dtype_computes(*dtype) && !cni_dtype_is_complex(*dtype);
}

/* ":f32" of typed programs. */
static bool read_class(reader *r, enum cni_compute *class)
{
  char word[WORD];
  if (!eat(r, ':') || !read_word(r, word)) return false;
  for (int i = 0; i < CNI_COMPUTES; i++)
    if (!strcmp(word, cni_compute_names[i])) {
      *class = (enum cni_compute)i;
      return true;
    }
  return false;
}

static bool add_register(reader *r, int reg)
{
  if (r->b.failed || cni_grow((void **)&r->reg, &r->reg_cap, r->nreg + 1, sizeof *r->reg)) return false;
  r->reg[r->nreg++] = reg;
  return true;
}

static bool read_register(reader *r, int *reg)
{
  int i;
  if (!read_int(r, (long)r->nreg, &i)) return false;
  *reg = r->reg[i];
  return true;
}

static bool read_inputs(reader *r)
{
  int n = 0;
  if (*r->s >= '0' && *r->s <= '9') {
    if (!read_int(r, CNI_MOST_REGISTERS, &n)) return false;
    cni_build_begin(&r->b, n);
  } else {
    do {
      enum cni_compute class;
      int dtype;
      if (!read_dtype(r, &dtype) || !read_class(r, &class) || n == CNI_MOST_REGISTERS) return false;
      if (cni_grow((void **)&r->in, &r->in_cap, (size_t)n + 1, sizeof *r->in)) return false;
      r->in[n++] = (cni_prog_input){(uint8_t)dtype, (uint8_t)class};
    } while (eat(r, ','));
    cni_build_begin(&r->b, n);
    r->b.typed = true;
    r->b.in = r->in;
  }
  for (int i = 0; i < n; i++)
    if (!add_register(r, i)) return false;
  return eat(r, '|');
}

static bool read_const(reader *r)
{
  const char *end;
  double value = 0;
  int attr = -1;
  if (eat(r, '@')) {
    if (!read_int(r, CN_MAX_ARGS, &attr)) return false;
  } else {
    value = cn_number_read(r->s, &end);
    if (end == r->s) return false;
    r->s = end;
  }
  if (r->b.typed && !read_class(r, &r->b.class)) return false;
  return add_register(r, attr >= 0 ? cni_build_attr(&r->b, attr) : cni_build_const(&r->b, value));
}

static int find_prim(const char *name)
{
  for (int i = 0; i < CNI_PRIM_COUNT; i++)
    if (!strcmp(cni_prims[i].name, name)) return i;
  return -1;
}

/* Of a typed program: are there loops of this primitive for the class, and are all operands of it? */
static bool fits(const reader *r, int prim, const int *arg)
{
  bool is_float = r->b.class <= CNI_C_F64;
  for (int k = 0; k < cni_prims[prim].arity; k++)
    if (cni_build_class(&r->b, arg[k]) != r->b.class) return false;
  return cni_prims[prim].kind != (is_float ? CNI_BIT : CNI_FLT);
}

static bool read_conversion(reader *r)
{
  enum cni_compute class;
  int dtype = 0, x;
  if (!r->b.typed || !read_class(r, &class)) return false;
  if (eat(r, ':') && !read_dtype(r, &dtype)) return false;
  if (!eat(r, ' ') || !read_register(r, &x)) return false;
  return add_register(r, cni_build_convert(&r->b, x, class, dtype));
}

static int find_row(const char *name)
{
  for (int i = CNI_PW_row_first; i < CNI_PW_ROW_END; i++)
    if (!strcmp(cni_row_names[i - CNI_PW_row_first], name)) return i;
  return -1;
}

/* Only inputs have a first element, only floats that are not the row's already are reduced, all over the same dims. */
static bool read_row(reader *r, int prim)
{
  enum cni_compute class;
  int dims, x;
  if (!r->b.typed || !read_class(r, &class) || !eat(r, '*') || !read_int(r, CN_MAX_DIMS + 1, &dims) || dims < 1)
    return false;
  if (!eat(r, ' ') || !read_register(r, &x) || cni_build_class(&r->b, x) != class) return false;
  if (r->row_dims && r->row_dims != dims) return false;
  r->row_dims = dims;
  const bool is_input = x < CNI_CONST_BASE, is_const = !is_input && x < CNI_STEP_BASE;
  if (prim == CNI_PW_row_first ? !is_input : class > CNI_C_F64 || is_const || cni_build_is_row(&r->b, x)) return false;
  return add_register(r, cni_build_row(&r->b, prim, x, dims));
}

static bool read_step(reader *r)
{
  char word[WORD];
  int arg[3] = {-1, -1, -1};
  if (!read_word(r, word)) return false;
  if (!strcmp(word, "to")) return read_conversion(r);
  if (find_row(word) >= 0) return read_row(r, find_row(word));
  int prim = find_prim(word);
  if (prim < 0 || (r->b.typed && !read_class(r, &r->b.class))) return false;
  r->b.origin = NULL;
  if (r->b.typed && eat(r, '@')) {
    r->b.origin = r->s;
    if (!read_word(r, word)) return false;
  }
  for (int k = 0; k < cni_prims[prim].arity; k++)
    if (!eat(r, ' ') || !read_register(r, &arg[k])) return false;
  if (r->b.typed && !fits(r, prim, arg)) return false;
  return add_register(r, cni_build_step(&r->b, (enum cni_prim)prim, arg[0], arg[1], arg[2]));
}

static bool read_result(reader *r)
{
  int dtype = 0;
  if (r->b.nout == CNI_MAX_RESULTS || !read_register(r, &r->b.out[r->b.nout])) return false;
  if (r->b.typed && (!eat(r, ':') || !read_dtype(r, &dtype))) return false;
  r->b.out_dtype[r->b.nout++] = (uint8_t)dtype;
  return true;
}

/* Items with a separator between them, up to the bar or the end. */
static bool read_items(reader *r, char separator, char end, bool (*read)(reader *r))
{
  while (*r->s != end) {
    if (!read(r)) return false;
    if (*r->s != end && !eat(r, separator)) return false;
  }
  return end == 0 || eat(r, end);
}

static bool read_all(reader *r)
{
  return read_inputs(r) && read_items(r, ',', '|', read_const) && read_items(r, ';', '|', read_step) &&
         read_items(r, ',', 0, read_result) && r->b.nout > 0;
}

static CNI_APART const cni_program *parse(const char *text)
{
  reader r = {.s = text};
  cni_build_begin(&r.b, 0);
  const cni_program *p = NULL;
  if (read_all(&r)) p = cni_build_end(&r.b);
  else if (!cn_err()) cni_fail(CN_ERR_VALUE, "pointwise: \"%.60s\" is not a pointwise program", text);
  cni_build_drop(&r.b);
  cni_free(r.in, r.in_cap * sizeof *r.in);
  cni_free(r.reg, r.reg_cap * sizeof *r.reg);
  return p;
}

const cni_program *cni_program_parse(const char *text)
{
  const cni_program *found = cni_program_find(text);
  return found ? found : parse(text);
}

const cni_program *cni_program_of_value(const cn_value *v)
{
  if (v->tag != CN_V_STR) return cni_program_parse("");
  if (CNI_UNLIKELY(!cni_text_stays(v))) return cni_program_parse(v->u.s);
  return (const cni_program *)(const void *)(v->u.s - offsetof(cni_program, text));
}
