/* steps_text.c: see steps_text.h. */
#include "steps_text.h"

#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "embedded.h"

#define put cn_text_put
#define putf cn_text_putf

/* ---- element types ---- */

/* How a type is written in the text. Small ones are computed in a hub type and converted by two functions. */
typedef struct element {
  const char *id, *type;
  char kind; /* of the type, or of its hub: I, F or D, for the CNI_TO_ macros of convert.h */
  const char *hub, *load, *store;
} element;

#define NATURAL(ID, T, K, unused) [CN_##ID] = {#ID, #T, #K[0], NULL, NULL, NULL},
#define SMALL(ID, T, HUB, K, to, from, unused) [CN_##ID] = {#ID, #T, #K[0], #HUB, #to, #from},
static const element elements[CN_DTYPE_COUNT] = {CNI_EACH_NATURAL(NATURAL, ) CNI_EACH_SMALL(SMALL, )};

const char *const cni_steps_types[CNI_COMPUTES] = {"float", "double", "long long", "unsigned long long"};

const char *cni_steps_stored(int dtype) { return elements[dtype].type; }

/* ---- what stands before the loop ---- */

static const char cuda_names[] =
    "typedef unsigned char uint8_t; typedef signed char int8_t; typedef unsigned short uint16_t;\n"
    "typedef short int16_t; typedef unsigned int uint32_t; typedef int int32_t;\n"
    "typedef unsigned long uint64_t; typedef long int64_t;\n"
    "#define __builtin_inf() CNM_INF\n";

/* The processor's own conversions, and its own exponentials where results are too short to tell (device.cuh). */
static const char cuda_halves[] = "#define cni_f16_to_f32 cnd_f16_value\n#define cni_f32_to_f16 cnd_f16_bits\n"
                                  "#define cni_f32_to_bf16 cnd_bf16_bits\n";
static const char cuda_fast[] = "#define cnm_expf cnd_exp\n#define cnm_tanhf cnd_tanh\n"
                                "#define cnm_sigmoidf cnd_sigmoid\n";

bool cni_steps_needs_maths(const cni_program *p)
{
  for (int i = 0; i < p->nstep; i++) {
    const char *formula = p->steps[i].prim >= CNI_PW_convert ? "" : cni_prims[p->steps[i].prim].formula;
    if (strstr(formula, "M(") || strstr(formula, "F(")) return true;
  }
  return false;
}

void cni_steps_head(cn_text *t, const cn_source *s, bool maths)
{
  static const char *const builtins[] = {"fabs", "sqrt", "floor",    "ceil", "trunc",
                                         "rint", "fmod", "copysign", "hypot"};
  bool cuda = s->lang == CN_LANG_CUDA;
  put(t, "#define CNM_EMBEDDED 1\n");
  put(t, cuda ? cuda_names : "#include <stdint.h>\n#include <string.h>\n");
  for (size_t i = 0; cuda && i < sizeof builtins / sizeof *builtins; i++)
    putf(t, "#define __builtin_%s %s\n#define __builtin_%sf %sf\n", builtins[i], builtins[i], builtins[i],
         builtins[i]);
  if (s->fast) put(t, "#define CNM_EXP2F cnd_exp2_normal\n");
  for (const cni_embedded *e = cni_embedded_texts; e->name; e++) {
    bool own = !strcmp(e->name, "codegen/device.cuh");
    bool base = !strcmp(e->name, "base/convert.h") || !strcmp(e->name, "base/maths.h");
    if (s->fast && !strcmp(e->name, "ops/pointwise_fn.h")) put(t, cuda_fast); /* before their use there */
    if (!strcmp(e->name, CNI_EMBEDDED_EXP16)) continue;
    if (own ? cuda : maths || base) put(t, e->text);
  }
  if (cuda) put(t, cuda_halves);
}

/* Of one type that registers have: T, M and F as pointwise.def uses them, and a function per primitive. */
static void put_primitives_of(cn_text *t, const cn_source *s, enum cni_compute class, bool *made)
{
  static const char *const arguments[] = {"", "T a", "T a, T b", "T a, T b, T c"};
  static const char *const trigonometric[] = {"sin", "cos", "tan"};
  const cni_program *p = s->program;
  const char *suffix = cni_compute_names[class];
  putf(t, "#define T %s\n#define M(fn) cnm_##fn%s\n#define F(fn) cnp_##fn##_%s\n", cni_steps_types[class],
       class == CNI_C_F32 ? "##f" : "", suffix);
  if (class == CNI_C_F64) /* those of any argument: a loop cannot look at its largest one first */
    for (size_t i = 0; i < 3; i++) putf(t, "#define cnm_%s cnm_%s_full\n", trigonometric[i], trigonometric[i]);
  for (int i = 0; i < p->nstep; i++) {
    int k = p->steps[i].prim;
    if (k >= CNI_PW_convert || made[k] || cni_steps_class(s, p->nin + p->nconst + i) != class) continue;
    made[k] = true;
    putf(t, "CNM_FN T cng_%s_%s(%s) { return (T)(%s); }\n", cni_prims[k].name, suffix, arguments[cni_prims[k].arity],
         cni_prims[k].formula);
  }
  put(t, "#undef T\n#undef M\n#undef F\n");
}

void cni_steps_primitives(cn_text *t, const cn_source *s, cni_steps_made *made)
{
  const cni_program *p = s->program;
  bool used[CNI_COMPUTES] = {false};
  for (int i = 0; i < p->nstep; i++)
    used[cni_steps_class(s, p->nin + p->nconst + i)] |= p->steps[i].prim < CNI_PW_convert;
  for (int class = 0; class < CNI_COMPUTES; class ++)
    if (used[class]) put_primitives_of(t, s, (enum cni_compute) class, made->prim[class]);
}

void cni_steps_store(cn_text *t, int dtype, enum cni_compute class, const char *value)
{
  const element *e = &elements[dtype];
  char kind = elements[cni_compute_dtype(class)].kind;
  if (e->hub) putf(t, "%s(CNI_TO_%s(%c, %s))", e->store, e->hub, kind, value);
  else putf(t, "CNI_TO_%s(%c, %s)", e->id, kind, value);
}

void cni_steps_load(cn_text *t, int dtype, enum cni_compute class, const char *value)
{
  const element *e = &elements[dtype];
  putf(t, "(%s)CNI_TO_%s(%c, %s(%s%s))", cni_steps_types[class], elements[cni_compute_dtype(class)].id, e->kind,
       e->hub ? e->load : "", value, dtype == CN_BOOL ? " != 0" : "");
}

/* ---- steps ---- */

void cni_steps_literal(cn_text *t, enum cni_compute class, double value)
{
  const char *type = cni_steps_types[class];
  union {
    double f;
    unsigned long long u;
  } bits = {value};
  if (class >= CNI_C_I64) putf(t, "(%s)%lldLL", type, (long long)value);
  else if (value - value != 0) putf(t, "(%s)cnm_u2d(0x%llxULL)", type, bits.u);
  else {
    char number[CN_NUMBER_TEXT];
    putf(t, "(%s)%s", type, cn_number_write(number, value, false));
    if (!strpbrk(number, ".e")) put(t, ".0");
  }
}

bool cni_steps_checks(const cn_source *s, const cni_step *step, int reg)
{
  return step->prim < CNI_PW_convert && cni_steps_class(s, reg) >= CNI_C_I64 && cni_prim_divides(step->prim);
}

void cni_steps_step(cn_text *t, const cn_source *s, const cni_step *step, int reg)
{
  char from[16], via[16];
  enum cni_compute class = cni_steps_class(s, reg);
  snprintf(from, sizeof from, "r%d", step->arg[0]);
  snprintf(via, sizeof via, "t%d", reg);
  if (step->prim == CNI_PW_convert && step->dtype) {
    putf(t, "  const %s t%d = ", elements[step->dtype].type, reg);
    cni_steps_store(t, step->dtype, cni_steps_class(s, step->arg[0]), from);
    putf(t, ";\n  const %s r%d = ", cni_steps_types[class], reg);
    cni_steps_load(t, step->dtype, class, via);
  } else if (step->prim == CNI_PW_convert) {
    putf(t, "  const %s r%d = ", cni_steps_types[class], reg);
    cni_steps_load(t, cni_compute_dtype(cni_steps_class(s, step->arg[0])), class, from);
  } else {
    const cni_prim_info *prim = &cni_prims[step->prim];
    putf(t, "  const %s r%d = cng_%s_%s(", cni_steps_types[class], reg, prim->name, cni_compute_names[class]);
    for (int k = 0; k < prim->arity; k++) putf(t, "%sr%d", k ? ", " : "", step->arg[k]);
    put(t, ")");
  }
  put(t, ";\n");
}
