/* blocks_text.c: renders typed programs as C functions over blocks. See blocks.h.
 *
 * A primitive that branches or loops would keep the compiler from vectorising what stands around it. So a program is
 * cut into sections in front of and behind such steps, each a loop of its own; what a later section reads waits in an
 * array of a block's size, in the first-level cache. Invariant: results are stored by the last section, when all inputs
 * were read, because a result may lie over an input. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "blocks.h"
#include "embedded.h"
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
  unsigned style;
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

enum cni_step_loop cni_step_loop_of(const cni_program *p, int step, unsigned style)
{
  const cni_step *s = &p->steps[step];
  if (s->prim >= CNI_PW_convert) return CNI_LOOP_PLAIN;
  const bool is_const = s->arg[0] >= p->nin && s->arg[0] < p->nin + p->nconst;
  if (style & CNI_STYLE_EXP16 && s->prim == CNI_PW_exp && s->class == CNI_C_F32 && !is_const && !p->row[s->arg[0]])
    return CNI_LOOP_EXP;
  return scalar_in[s->prim] >> s->class & 1 ? CNI_LOOP_BRANCHES : CNI_LOOP_PLAIN;
}

/* The end of the section that begins at a step. */
static int section_end(const cni_program *p, int begin, unsigned style)
{
  const enum cni_step_loop kind = cni_step_loop_of(p, begin, style);
  int end = begin + 1;
  while (kind != CNI_LOOP_EXP && end < p->nstep && cni_step_loop_of(p, end, style) == kind) end++;
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

static bool is_exp(const section *c) { return cni_step_loop_of(c->p, c->begin, c->style) == CNI_LOOP_EXP; }

/* Must the result of a step of this section wait for a later one, or is it written there in any case? */
static bool waits(const section *c, int reg)
{
  section later = {c->s, c->p, c->style, c->first, c->end, c->p->nstep};
  return is_exp(c) || (c->end < c->p->nstep && section_reads(&later, reg));
}

static const char *type_of(const section *c, int reg) { return cni_steps_types[c->p->class[reg]]; }

/* ---- text ---- */

/* A step that is a call, and, where it is the last one, the loop that stores results. */
static void put_exp(cn_text *t, const section *c)
{
  const cni_program *p = c->p;
  const int reg = c->first + c->begin, arg = p->steps[c->begin].arg[0];
  putf(t, "  cng_exps(t%d, %c%d, n);\n", reg, arg < p->nin ? 'x' : 't', arg);
  for (int k = 0; c->end == p->nstep && k < p->nout; k++) {
    const int out = p->out[k];
    const bool is_const = out >= p->nin && out < c->first;
    putf(t, "  for (long long i = 0; i < n; i++) y%d[i] = %c%d%s;\n", k, is_const ? 'r' : out < p->nin ? 'x' : 't', out,
         is_const ? "" : "[i]");
  }
}

static void put_section(cn_text *t, const section *c)
{
  const cni_program *p = c->p;
  if (is_exp(c)) {
    put_exp(t, c);
    return;
  }
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
    end = section_end(p, begin, all->style);
    section c = {all->s, p, all->style, all->first, begin, end};
    for (int reg = all->first + begin; reg < all->first + end; reg++)
      if (waits(&c, reg)) putf(t, "  %s t%d[%d];\n", type_of(all, reg), reg, CNI_BLOCK_MOST);
  }
  for (int i = 0; i < p->nstep; i++)
    if (cni_steps_checks(all->s, &p->steps[i], all->first + i)) putf(t, "  int bad%d = 0;\n", i);
}

static void put_function(cn_text *t, const cn_source *s, unsigned style)
{
  const cni_program *p = s->program;
  section all = {s, p, style, p->nin + p->nconst, 0, p->nstep};
  char name[CNI_BLOCK_NAME];
  cni_block_name(name, p);
  putf(t, "int %s(void *const *y, const void *const *x, long long n)\n{\n", name);
  put_declarations(t, &all);
  for (int begin = 0, end; begin < p->nstep; begin = end) {
    end = section_end(p, begin, style);
    put_section(t, &(section){s, p, style, all.first, begin, end});
  }
  for (int i = 0; i < p->nstep; i++)
    if (cni_steps_checks(s, &p->steps[i], all.first + i)) putf(t, "  if (bad%d) return %d;\n", i, i + 1);
  put(t, "  return 0;\n}\n");
}

static bool has_exp(const cni_program *p, unsigned style)
{
  for (int i = 0; i < p->nstep; i++)
    if (cni_step_loop_of(p, i, style) == CNI_LOOP_EXP) return true;
  return false;
}

/* Exponentials of a block, as the kernels for AVX-512 compute them. */
static void put_exps(cn_text *t)
{
  put(t, "#include <immintrin.h>\n");
  for (const cni_embedded *e = cni_embedded_texts; e->name; e++)
    if (!strcmp(e->name, CNI_EMBEDDED_EXP16)) put(t, e->text);
  put(t, "static void cng_exps(float *y, const float *x, long long n)\n{\n  long long i = 0;\n"
         "  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, cni_exp16(_mm512_loadu_ps(x + i)));\n"
         "  const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);\n"
         "  _mm512_mask_storeu_ps(y + i, rest, cni_exp16(_mm512_maskz_loadu_ps(rest, x + i)));\n}\n");
}

char *cni_blocks_text(const cni_program *const *programs, size_t n, unsigned style, size_t *size)
{
  cn_text t = {0};
  cni_steps_made made = {{{false}}};
  bool maths = false, exps = false;
  if (cni_grow((void **)&t.s, &t.cap, FIRST_ROOM, 1)) return NULL;
  for (size_t i = 0; i < n; i++) maths |= cni_steps_needs_maths(programs[i]), exps |= has_exp(programs[i], style);
  cni_steps_head(&t, &(cn_source){.lang = CN_LANG_C}, maths);
  put(&t, "#if defined(__clang__)\n#define CN_EACH _Pragma(\"clang loop vectorize(assume_safety)\")\n"
          "#else\n#define CN_EACH _Pragma(\"GCC ivdep\")\n#endif\n");
  put(&t, "typedef union cn_wide { double f; long long i; } cn_wide;\n"
          "typedef struct cn_rows { void *const *y; const void *const *x; const long long *step; char *room;\n"
          "long long pitch; void (*const *fold)(cn_wide *, const void *, int64_t, int64_t, int64_t);\n"
          "long long rows, count; } cn_rows;\n");
  if (exps) put_exps(&t);
  for (size_t i = 0; i < n; i++) {
    cn_source s = {.lang = CN_LANG_C, .program = programs[i]};
    cni_steps_primitives(&t, &s, &made);
    if (programs[i]->row_dims) cni_rows_text(&t, &s, style);
    else put_function(&t, &s, style);
  }
  if (t.failed) {
    cn_text_free(&t);
    return NULL;
  }
  *size = t.cap;
  return t.s;
}
