/* rows_text.c: renders programs with steps along rows as C functions over rows. See blocks.h.
 *
 * Some rows go through loops together: what reads no reduction is one, what reads the reductions of its values the
 * next, and so on; between them stand the reductions, by the very loops of eager mode, and the formulas over one value
 * for each row, which wait in v. A row's reduction is a chain of steps: those of several rows go on side by side. A
 * step that branches has a loop of its own (blocks_text.c). What a later loop or a reduction reads waits in memory: in
 * a result where it is one, else in a buffer that the caller gives. */
#include "blocks.h"
#include "steps_text.h"

#define put cn_text_put
#define putf cn_text_putf

typedef struct writing {
  const cn_source *s;
  const cni_program *p;
  cn_text *t;
  unsigned style;
  int first; /* register of the first step */
} writing;

/* Some steps over whole rows that are one loop: of a level, from one step to before another, those of a kind. */
typedef struct loop {
  int level, begin, end;
  enum cni_step_loop kind;
  unsigned style;
} loop;

/* ---- what waits ---- */

static int level_of(const cni_program *p, int reg) { return p->level[reg]; }

static int levels(const cni_program *p)
{
  int most = 0;
  for (int i = 0; i < p->nstep; i++) {
    int level = level_of(p, p->nin + p->nconst + i);
    if (level > most) most = level;
  }
  return most + 1;
}

static bool in_loop(const cni_program *p, const loop *l, int step)
{
  const int reg = p->nin + p->nconst + step;
  return step >= l->begin && step < l->end && !p->row[reg] && level_of(p, reg) == l->level &&
         cni_step_loop_of(p, step, l->style) == l->kind;
}

/* The next loop behind *l; false: there is none. */
static bool next_loop(const cni_program *p, loop *l)
{
  const int first = p->nin + p->nconst;
  for (int begin = l->end; begin < p->nstep; begin++) {
    if (p->row[first + begin] || level_of(p, first + begin) != l->level) continue;
    *l = (loop){l->level, begin, p->nstep, cni_step_loop_of(p, begin, l->style), l->style};
    if (l->kind == CNI_LOOP_EXP) l->end = begin + 1;
    for (int i = begin; i < l->end; i++)
      if (!p->row[first + i] && level_of(p, first + i) == l->level && cni_step_loop_of(p, i, l->style) != l->kind) {
        l->end = i;
        break;
      }
    return true;
  }
  return false;
}

/* The loop that makes the result of a step over whole rows. */
static loop loop_of(const cni_program *p, int step, unsigned style)
{
  loop l = {.level = level_of(p, p->nin + p->nconst + step), .style = style};
  while (next_loop(p, &l) && !in_loop(p, &l, step)) {}
  return l;
}

static bool reads(const cni_step *s, int reg)
{
  for (int k = 0; k < cni_step_arity(s); k++)
    if (s->arg[k] == reg) return true;
  return false;
}

static int result_of(const cni_program *p, int reg)
{
  for (int k = 0; k < p->nout; k++)
    if (p->out[k] == reg) return k;
  return -1;
}

/* Is a step's result, of whole rows, read outside of its loop, or no loop's? */
static bool waits(const cni_program *p, int step, unsigned style)
{
  const loop own = loop_of(p, step, style);
  const int reg = p->nin + p->nconst + step;
  for (int i = step + 1; i < p->nstep; i++)
    if (reads(&p->steps[i], reg) && !in_loop(p, &own, i)) return true;
  return own.kind == CNI_LOOP_EXP;
}

/* Does it need a buffer for that? */
static bool needs_buffer(const cni_program *p, int step, unsigned style)
{
  const int reg = p->nin + p->nconst + step;
  return !p->row[reg] && result_of(p, reg) < 0 && waits(p, step, style);
}

int cni_rows_waiting(const cni_program *p, unsigned style)
{
  int n = 0;
  for (int i = 0; i < p->nstep; i++) n += needs_buffer(p, i, style);
  return n;
}

/* ---- text ---- */

static const char *type_of(const writing *w, int reg) { return cni_steps_types[w->p->class[reg]]; }

/* Before rows: constants, and what steps that may fail have met. */
static void put_head(const writing *w)
{
  const cni_program *p = w->p;
  for (int i = 0; i < p->nconst; i++) {
    putf(w->t, "  const %s r%d = ", type_of(w, p->nin + i), p->nin + i);
    cni_steps_literal(w->t, (enum cni_compute)p->class[p->nin + i], p->consts[i].value);
    put(w->t, ";\n");
  }
  for (int i = 0; i < p->nstep; i++) {
    const int reg = w->first + i;
    if (cni_steps_checks(w->s, &p->steps[i], reg)) putf(w->t, "  int bad%d = 0;\n", i);
    if (p->row[reg]) putf(w->t, "  %s v%d[%d];\n", type_of(w, reg), reg, CNI_ROWS_MOST);
  }
}

/* Where a row's operands, results and what waits are: x for inputs, t for steps, y for results that are neither. */
static void put_places(const writing *w)
{
  const cni_program *p = w->p;
  int room = 0;
  for (int i = 0; i < p->nin; i++) {
    const char *type = type_of(w, i);
    putf(w->t, "  const %s *const x%d = (const %s *)c->x[%d] + row * c->step[%d];\n", type, i, type, i, i);
  }
  for (int k = 0; k < p->nout; k++) {
    const int reg = p->out[k];
    putf(w->t, "  %s *const y%d = (%s *)c->y[%d] + row%s;\n", type_of(w, reg), k, type_of(w, reg), k,
         p->row[reg] ? "" : " * n");
  }
  for (int i = 0; i < p->nstep; i++)
    if (needs_buffer(p, i, w->style))
      putf(w->t, "  %s *const t%d = (%s *)(c->room + %d * c->pitch) + row * n;\n", type_of(w, w->first + i),
           w->first + i, type_of(w, w->first + i), room++);
}

static void begin_rows(const writing *w)
{
  put(w->t, "  for (long long row = 0; row < c->rows; row++) {\n");
  put_places(w);
}

static void end_rows(const writing *w) { put(w->t, "  }\n"); }

/* The memory that has a register of whole rows. */
static void put_place(const writing *w, int reg)
{
  const int k = reg < w->first ? -1 : result_of(w->p, reg);
  putf(w->t, "%c%d", reg < w->p->nin ? 'x' : k >= 0 ? 'y' : 't', k >= 0 ? k : reg);
}

static void put_check(const writing *w, int i)
{
  if (cni_steps_checks(w->s, &w->p->steps[i], w->first + i))
    putf(w->t, "  bad%d |= r%d == 0;\n", i, w->p->steps[i].arg[1]);
}

/* A row's value, as a step reads it. */
static void put_row_value(const writing *w, int reg)
{
  putf(w->t, "  const %s r%d = v%d[row];\n", type_of(w, reg), reg, reg);
}

/* All rows are reduced by one call: the first row's place, and how far the next one is from it. */
static void put_reduction(const writing *w, int i)
{
  const cni_step *s = &w->p->steps[i];
  const int reg = w->first + i, fold = s->prim == CNI_PW_row_max ? 1 : s->prim == CNI_PW_row_min ? 2 : 0;
  putf(w->t, "  {\n  const long long row = 0;\n  cn_wide w[%d];\n", CNI_ROWS_MOST);
  put_places(w);
  putf(w->t, "  c->fold[%d](w, ", 3 * s->class + fold);
  put_place(w, s->arg[0]);
  if (s->arg[0] < w->p->nin) putf(w->t, ", c->rows, c->step[%d], n);\n", s->arg[0]);
  else put(w->t, ", c->rows, n, n);\n");
  putf(w->t, "  for (long long k = 0; k < c->rows; k++) v%d[k] = (%s)(w[k].f%s);\n  }\n", reg, type_of(w, reg),
       s->prim == CNI_PW_row_mean ? " / (double)n" : "");
}

/* A step that gives one value for each row. */
static void put_value(const writing *w, int i)
{
  const cni_step *s = &w->p->steps[i];
  const int reg = w->first + i;
  if (s->prim > CNI_PW_row_first) {
    put_reduction(w, i);
    return;
  }
  begin_rows(w);
  if (s->prim == CNI_PW_row_first) putf(w->t, "  v%d[row] = x%d[0];\n", reg, s->arg[0]);
  else {
    for (int r = w->first; r < reg; r++)
      if (reads(s, r)) put_row_value(w, r);
    put_check(w, i);
    cni_steps_step(w->t, w->s, s, reg);
    putf(w->t, "  v%d[row] = r%d;\n", reg, reg);
  }
  end_rows(w);
}

/* The operands that a loop's steps have in memory. */
static void put_loads(const writing *w, const loop *l)
{
  const cni_program *p = w->p;
  for (int reg = 0; reg < w->first + p->nstep; reg++) {
    bool read = false, outside = reg < p->nin || (reg >= w->first && !p->row[reg] && !in_loop(p, l, reg - w->first));
    for (int i = 0; outside && i < p->nstep; i++) read |= in_loop(p, l, i) && reads(&p->steps[i], reg);
    if (!read) continue;
    putf(w->t, "  const %s r%d = ", type_of(w, reg), reg);
    put_place(w, reg);
    put(w->t, "[i];\n");
  }
}

/* ... and those that are one value for the row. */
static void put_row_values(const writing *w, const loop *l)
{
  const cni_program *p = w->p;
  for (int reg = w->first; reg < w->first + p->nstep; reg++) {
    bool read = false;
    for (int i = 0; p->row[reg] && i < p->nstep; i++) read |= in_loop(p, l, i) && reads(&p->steps[i], reg);
    if (read) put_row_value(w, reg);
  }
}

/* A step that is a call. */
static void put_exp(const writing *w, int step)
{
  const int reg = w->first + step, first = result_of(w->p, reg);
  put(w->t, "  cng_exps(");
  put_place(w, reg);
  put(w->t, ", ");
  put_place(w, w->p->steps[step].arg[0]);
  put(w->t, ", n);\n");
  for (int k = first + 1; first >= 0 && k < w->p->nout; k++)
    if (w->p->out[k] == reg) putf(w->t, "  for (long long i = 0; i < n; i++) y%d[i] = y%d[i];\n", k, first);
}

static void put_loop(const writing *w, const loop *l)
{
  const cni_program *p = w->p;
  begin_rows(w);
  if (l->kind == CNI_LOOP_EXP) {
    put_exp(w, l->begin);
    end_rows(w);
    return;
  }
  put_row_values(w, l);
  put(w->t, "  CN_EACH for (long long i = 0; i < n; i++) {\n");
  put_loads(w, l);
  for (int i = l->begin; i < l->end; i++) {
    if (!in_loop(p, l, i)) continue;
    put_check(w, i);
    cni_steps_step(w->t, w->s, &p->steps[i], w->first + i);
    if (needs_buffer(p, i, w->style)) putf(w->t, "  t%d[i] = r%d;\n", w->first + i, w->first + i);
    for (int k = 0; k < p->nout; k++)
      if (p->out[k] == w->first + i) putf(w->t, "  y%d[i] = r%d;\n", k, w->first + i);
  }
  put(w->t, "  }\n");
  end_rows(w);
}

/* Results that no loop stores: values of rows, inputs and constants. */
static void put_results(const writing *w)
{
  const cni_program *p = w->p;
  begin_rows(w);
  for (int k = 0; k < p->nout; k++) {
    const int reg = p->out[k];
    if (p->row[reg]) putf(w->t, "  *y%d = v%d[row];\n", k, reg);
    else if (reg < p->nin) putf(w->t, "  for (long long i = 0; i < n; i++) y%d[i] = x%d[i];\n", k, reg);
    else if (reg < w->first) putf(w->t, "  for (long long i = 0; i < n; i++) y%d[i] = r%d;\n", k, reg);
  }
  end_rows(w);
}

void cni_rows_text(cn_text *t, const cn_source *s, unsigned style)
{
  const cni_program *p = s->program;
  const writing w = {s, p, t, style, p->nin + p->nconst};
  const int most = levels(p);
  char name[CNI_BLOCK_NAME];
  cni_block_name(name, p);
  putf(t, "int %s(const cn_rows *c)\n{\n  const long long n = c->count;\n", name);
  put_head(&w);
  for (int level = 0; level < most; level++) {
    loop l = {.level = level, .style = style};
    for (int i = 0; i < p->nstep; i++)
      if (p->row[w.first + i] && level_of(p, w.first + i) == level) put_value(&w, i);
    while (next_loop(p, &l)) put_loop(&w, &l);
  }
  put_results(&w);
  for (int i = 0; i < p->nstep; i++)
    if (cni_steps_checks(s, &p->steps[i], w.first + i)) putf(t, "  if (bad%d) return %d;\n", i, i + 1);
  put(t, "  return 0;\n}\n");
}
