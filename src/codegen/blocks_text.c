/* blocks_text.c: renders typed programs as C functions over blocks. See blocks.h.
 *
 * A primitive that branches or loops would keep the compiler from vectorising what stands around it. So a program is
 * cut into sections in front of and behind such steps, each a loop of its own; what a later section reads waits in an
 * array of a block's size, in the first-level cache. Invariant: results are stored by the last section, when all inputs
 * were read, because a result may lie over an input. */
#include <stdio.h>

#include "base/alloc.h"
#include "blocks.h"
#include "steps_text.h"

enum { FIRST_ROOM = 96 << 10 };

#define put cn_text_put
#define putf cn_text_putf

void cni_block_name(char name[CNI_BLOCK_NAME], const cni_program *p)
{
  snprintf(name, CNI_BLOCK_NAME, "cn_block_%016llx", (unsigned long long)p->hash);
}

bool cni_block_possible(const cni_program *p)
{
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) return false;
  return p->typed && p->nstep > 0;
}

/* ---- sections ---- */

/* Steps [begin, end); registers from 0 on, of which `first` is the first step's. */
typedef struct section {
  const cn_source *s;
  const cni_program *p;
  int first, begin, end;
} section;

/* In which types compilers leave a loop over a primitive scalar: a bit per cni_compute. Where this is wrong code is
 * slower, not wrong. */
enum { F32 = 1 << CNI_C_F32, F64 = 1 << CNI_C_F64, FLOATS = F32 | F64, INTEGERS = 1 << CNI_C_I64 | 1 << CNI_C_U64 };
static const uint8_t scalar_in[CNI_PRIM_COUNT] = {
    [CNI_PW_lgamma] = FLOATS,
    [CNI_PW_digamma] = FLOATS,
    [CNI_PW_polygamma] = FLOATS,
    [CNI_PW_zeta] = FLOATS,
    [CNI_PW_igamma] = FLOATS,
    [CNI_PW_igammac] = FLOATS,
    [CNI_PW_ndtri] = FLOATS,
    [CNI_PW_hypot] = FLOATS,
    [CNI_PW_nextafter] = F32,
    [CNI_PW_narrow] = F32,
    [CNI_PW_sin] = F64,
    [CNI_PW_cos] = F64,
    [CNI_PW_tan] = F64,
    [CNI_PW_gcd] = INTEGERS,
    [CNI_PW_lcm] = INTEGERS,
    [CNI_PW_pow] = INTEGERS,
    [CNI_PW_trunc_div] = INTEGERS,
    [CNI_PW_fmod] = FLOATS | INTEGERS,
    [CNI_PW_remainder] = FLOATS | INTEGERS,
    [CNI_PW_floor_div] = FLOATS | INTEGERS,
};

bool cni_block_branches(const cni_program *p, int step)
{
  const cni_step *s = &p->steps[step];
  return s->prim < CNI_PW_convert && (scalar_in[s->prim] >> s->class & 1);
}

/* The end of the section that begins at a step. */
static int section_end(const cni_program *p, int begin)
{
  int end = begin + 1;
  while (end < p->nstep && cni_block_branches(p, end) == cni_block_branches(p, begin)) end++;
  return end;
}

static bool is_result(const cni_program *p, int reg)
{
  for (int k = 0; k < p->nout; k++)
    if (p->out[k] == reg) return true;
  return false;
}

/* Does one of the steps read the register? The last section also stores results. */
static bool section_reads(const section *c, int reg)
{
  for (int i = c->begin; i < c->end; i++)
    for (int k = 0; k < cni_step_arity(&c->p->steps[i]); k++)
      if (c->p->steps[i].arg[k] == reg) return true;
  return c->end == c->p->nstep && is_result(c->p, reg);
}

/* Must the result of a step of this section wait for a later one? */
static bool waits(const section *c, int reg)
{
  section later = {c->s, c->p, c->first, c->end, c->p->nstep};
  return c->end < c->p->nstep && section_reads(&later, reg);
}

static const char *type_of(const section *c, int reg) { return cni_steps_types[c->p->class[reg]]; }

/* ---- text ---- */

static void put_section(cn_text *t, const section *c)
{
  const cni_program *p = c->p;
  put(t, "  CN_EACH for (long long i = 0; i < n; i++) {\n");
  for (int reg = 0; reg < c->first + c->begin; reg++) {
    if ((reg >= p->nin && reg < c->first) || !section_reads(c, reg)) continue;
    putf(t, "  const %s r%d = %c%d[i];\n", type_of(c, reg), reg, reg < p->nin ? 'x' : 't', reg);
  }
  for (int i = c->begin; i < c->end; i++) {
    int reg = c->first + i;
    if (cni_steps_checks(c->s, &p->steps[i], reg)) putf(t, "  bad%d |= r%d == 0;\n", i, p->steps[i].arg[1]);
    cni_steps_step(t, c->s, &p->steps[i], reg);
    if (waits(c, reg)) putf(t, "  t%d[i] = r%d;\n", reg, reg);
  }
  for (int k = 0; c->end == p->nstep && k < p->nout; k++) putf(t, "  y%d[i] = r%d;\n", k, p->out[k]);
  put(t, "  }\n");
}

/* Operands, constants, and what is kept between sections. */
static void put_declarations(cn_text *t, const section *all)
{
  const cni_program *p = all->p;
  for (int i = 0; i < p->nin; i++)
    putf(t, "  const %s *const x%d = (const %s *)x[%d];\n", type_of(all, i), i, type_of(all, i), i);
  for (int k = 0; k < p->nout; k++)
    putf(t, "  %s *const y%d = (%s *)y[%d];\n", type_of(all, p->out[k]), k, type_of(all, p->out[k]), k);
  for (int i = 0; i < p->nconst; i++) {
    putf(t, "  const %s r%d = ", type_of(all, p->nin + i), p->nin + i);
    cni_steps_literal(t, (enum cni_compute)p->class[p->nin + i], p -> consts[i].value);
    put(t, ";\n");
  }
  for (int begin = 0, end; begin < p->nstep; begin = end) {
    end = section_end(p, begin);
    section c = {all->s, p, all->first, begin, end};
    for (int reg = all->first + begin; reg < all->first + end; reg++)
      if (waits(&c, reg)) putf(t, "  %s t%d[%d];\n", type_of(all, reg), reg, CNI_BLOCK_MOST);
  }
  for (int i = 0; i < p->nstep; i++)
    if (cni_steps_checks(all->s, &p->steps[i], all->first + i)) putf(t, "  int bad%d = 0;\n", i);
}

static void put_function(cn_text *t, const cn_source *s)
{
  const cni_program *p = s->program;
  section all = {s, p, p->nin + p->nconst, 0, p->nstep};
  char name[CNI_BLOCK_NAME];
  cni_block_name(name, p);
  putf(t, "int %s(void *const *y, const void *const *x, long long n)\n{\n", name);
  put_declarations(t, &all);
  for (int begin = 0, end; begin < p->nstep; begin = end) {
    end = section_end(p, begin);
    put_section(t, &(section){s, p, all.first, begin, end});
  }
  for (int i = 0; i < p->nstep; i++)
    if (cni_steps_checks(s, &p->steps[i], all.first + i)) putf(t, "  if (bad%d) return %d;\n", i, i + 1);
  put(t, "  return 0;\n}\n");
}

char *cni_blocks_text(const cni_program *const *programs, size_t n, size_t *size)
{
  cn_text t = {0};
  cni_steps_made made = {{{false}}};
  bool maths = false;
  if (cni_grow((void **)&t.s, &t.cap, FIRST_ROOM, 1)) return NULL;
  for (size_t i = 0; i < n; i++) maths |= cni_steps_needs_maths(programs[i]);
  cni_steps_head(&t, &(cn_source){.lang = CN_LANG_C}, maths);
  put(&t, "#if defined(__clang__)\n#define CN_EACH _Pragma(\"clang loop vectorize(assume_safety)\")\n"
          "#else\n#define CN_EACH _Pragma(\"GCC ivdep\")\n#endif\n");
  put(&t, "typedef union cn_wide { double f; long long i; } cn_wide;\n"
          "typedef struct cn_rows { void *const *y; const void *const *x; const long long *step; char *room;\n"
          "long long pitch; void (*const *fold)(cn_wide *, const void *, int64_t, int64_t, int64_t);\n"
          "long long rows, count; } cn_rows;\n");
  for (size_t i = 0; i < n; i++) {
    cn_source s = {.lang = CN_LANG_C, .program = programs[i]};
    cni_steps_primitives(&t, &s, &made);
    if (programs[i]->row_dims) cni_rows_text(&t, &s);
    else put_function(&t, &s);
  }
  if (t.failed) {
    cn_text_free(&t);
    return NULL;
  }
  *size = t.cap;
  return t.s;
}
