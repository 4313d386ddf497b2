/* pointwise_text.c: renders a loop (loop.h) as C or CUDA C: the program's steps (steps_text.h), and around them a flat
 * or a strided loop.
 *
 * Place in the flow: called when a backend has no compiled code under a source's key. Invariant: each element is
 * computed by the same text, whatever loop is around it. */
#include <cairn/ext/system.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "loop.h"
#include "steps_text.h"

enum { FIRST_ROOM = 96 << 10 };

#define put cn_text_put
#define putf cn_text_putf

static const char *type_of(const cn_source *s, int reg) { return cni_steps_types[cni_steps_class(s, reg)]; }
/* Of operand k of the source: results, then inputs. */
static int register_of(const cn_source *s, int k)
{
  return k < s->nout ? ((const cni_program *)s->program)->out[k] : k - s->nout;
}

static void put_conversions(cn_text *t, const cn_source *s)
{
  for (int k = 0; k < s->nout + s->nin; k++) {
    enum cni_compute class = cni_steps_class(s, register_of(s, k));
    const char *type = cni_steps_types[class];
    if (s->form[k] == 'p') continue;
    putf(t, "typedef %s S%d;\n", cni_steps_stored(s->dtype[k]), k);
    if (k < s->nout) {
      putf(t, "CNM_FN S%d store%d(%s v) { return ", k, k, type);
      cni_steps_store(t, s->dtype[k], class, "v");
    } else {
      putf(t, "CNM_FN %s load%d(S%d v) { return ", type, k, k);
      cni_steps_load(t, s->dtype[k], class, "v");
    }
    put(t, "; }\n");
  }
}

/* ---- the program ---- */

/* cng_run(x0, ..., k0, ..., &y0, ..., &bad): one element. Registers: inputs, constants, steps. */
static void put_program(cn_text *t, const cn_source *s)
{
  const cni_program *p = s->program;
  int nattr = 0;
  put(t, "CNM_FN void cng_run(");
  for (int i = 0; i < p->nin; i++) putf(t, "%s r%d, ", type_of(s, i), i);
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) putf(t, "%s k%d, ", type_of(s, p->nin + i), nattr++);
  for (int i = 0; i < p->nout; i++) putf(t, "%s *y%d, ", type_of(s, p->out[i]), i);
  put(t, "int *bad)\n{\n");
  nattr = 0;
  for (int i = 0; i < p->nconst; i++) {
    putf(t, "  const %s r%d = ", type_of(s, p->nin + i), p->nin + i);
    if (p->consts[i].attr >= 0) putf(t, "k%d", nattr++);
    else cni_steps_literal(t, cni_steps_class(s, p->nin + i), p->consts[i].value);
    put(t, ";\n");
  }
  for (int i = 0; i < p->nstep; i++) {
    int reg = p->nin + p->nconst + i;
    if (cni_steps_checks(s, &p->steps[i], reg)) putf(t, "  *bad |= r%d == 0;\n", p->steps[i].arg[1]);
    cni_steps_step(t, s, &p->steps[i], reg);
  }
  for (int i = 0; i < p->nout; i++) putf(t, "  *y%d = r%d;\n", i, p->out[i]);
  put(t, "  (void)bad;\n}\n");
}

/* ---- the loop ---- */

static void put_struct(cn_text *t, const cn_source *s)
{
  int operands = s->nout + s->nin;
  put(t, "typedef struct cn_loop {\n  long long n;\n  int *fault;\n  int fault_code, ndim;\n"
         "  const unsigned char *skip;\n");
  putf(t, "  void *ptr[%d];\n", operands);
  if (s->nscalar) putf(t, "  union { double f; long long i; } scalar[%d];\n", s->nscalar);
  if (!s->flat) putf(t, "  long long dim[%d][%d];\n", CN_MAX_DIMS, 1 + operands);
  put(t, "} cn_loop;\n");
}

/* Declares what is the same for all elements: pointers, attributes, inputs of one element. */
static void put_common(cn_text *t, const cn_source *s)
{
  const cni_program *p = s->program;
  int slot = 0;
  put(t, "  int bad = 0;\n");
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) {
      enum cni_compute class = cni_steps_class(s, p->nin + i);
      putf(t, "  const %s k%d = (%s)p->scalar[%d].%c;\n", cni_steps_types[class], slot, cni_steps_types[class], slot,
           class >= CNI_C_I64 ? 'i' : 'f');
      slot++;
    }
  for (int k = 0; k < s->nout + s->nin; k++) {
    const char *constant = k < s->nout ? "" : "const ";
    enum cni_compute class = cni_steps_class(s, register_of(s, k));
    if (s->form[k] != 'p')
      putf(t, "  %sS%d *const a%d = (%sS%d *)p->ptr[%d];\n", constant, k, k, constant, k, k);
    if (s->form[k] == 's') putf(t, "  const %s v%d = load%d(a%d[0]);\n", cni_steps_types[class], k, k, k);
    if (s->form[k] == 'p')
      putf(t, "  const %s v%d = (%s)p->scalar[%d].%c;\n", cni_steps_types[class], k, cni_steps_types[class], slot++,
           class >= CNI_C_I64 ? 'i' : 'f');
  }
}

/* Where an operand's element is while a loop is written. */
typedef enum place {
  IN_ORDER,  /* a3[i], or a3[j] in CUDA */
  AT_OFFSET, /* a3[o3] */
  IN_VECTOR  /* u3.v[j] where neighbours are read together, else e3, read once for all of them */
} place;

static void put_input(cn_text *t, const cn_source *s, int k, place where)
{
  char form = s->form[k];
  if (form == 's' || form == 'p') putf(t, "v%d, ", k);
  else if (where == AT_OFFSET) putf(t, "load%d(a%d[o%d]), ", k, k, k);
  else if (where == IN_ORDER) putf(t, "load%d(a%d[%c]), ", k, k, s->lang == CN_LANG_C ? 'i' : 'j');
  else if (form == 'x') putf(t, "e%d, ", k);
  else putf(t, "load%d(u%d.v[j]), ", k, k);
}

static void put_result(cn_text *t, const cn_source *s, int k, place where)
{
  if (where == AT_OFFSET) putf(t, "a%d[o%d]", k, k);
  else if (where == IN_ORDER) putf(t, "a%d[%c]", k, s->lang == CN_LANG_C ? 'i' : 'j');
  else putf(t, "u%d.v[j]", k);
  putf(t, " = store%d(y%d);\n", k, k);
}

/* One element. */
static void put_element(cn_text *t, const cn_source *s, const char *indent, place where)
{
  const cni_program *p = s->program;
  int nattr = 0;
  for (int k = 0; k < s->nout; k++) putf(t, "%s%s y%d;\n", indent, type_of(s, p->out[k]), k);
  putf(t, "%scng_run(", indent);
  for (int k = s->nout; k < s->nout + s->nin; k++) put_input(t, s, k, where);
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) putf(t, "k%d, ", nattr++);
  for (int k = 0; k < s->nout; k++) putf(t, "&y%d, ", k);
  put(t, "&bad);\n");
  for (int k = 0; k < s->nout; k++) {
    put(t, indent);
    put_result(t, s, k, where);
  }
}

/* Has it a position of its own in a strided loop? */
static bool strided(const cn_source *s, int k) { return s->form[k] == 'x' || s->form[k] == 'w'; }

/* Sets offsets o0, o1, ... of the position `i`, whose type is I. */
static void put_offsets(cn_text *t, const cn_source *s)
{
  put(t, "    I rest = (I)i;\n    long long ");
  const char *comma = "";
  for (int k = 0; k < s->nout + s->nin; k++)
    if (strided(s, k)) {
      putf(t, "%so%d = 0", comma, k);
      comma = ", ";
    }
  put(t, ";\n    for (int d = p->ndim - 1; d >= 0; d--) {\n"
         "      const long long *const dim = p->dim[d];\n"
         "      const I next = d ? rest / (I)dim[0] : 0;\n"
         "      const long long at = (long long)(rest - next * (I)dim[0]);\n");
  for (int k = 0; k < s->nout + s->nin; k++)
    if (strided(s, k)) putf(t, "      o%d += at * dim[%d];\n", k, 1 + k);
  put(t, "      rest = next;\n    }\n");
}

static void put_c_loop(cn_text *t, const cn_source *s)
{
  putf(t, "void %s(const cn_loop *p, long long begin, long long end)\n{\n", s->entry);
  put_common(t, s);
  if (s->flat) {
    put(t, "#if defined(__clang__)\n#pragma clang loop vectorize(assume_safety)\n#elif defined(__GNUC__)\n"
           "#pragma GCC ivdep\n#endif\n  for (long long i = begin; i < end; i++) {\n");
    put_element(t, s, "    ", IN_ORDER);
    put(t, "  }\n");
  } else { /* a run along the last dim at a time */
    put(t, "  for (long long i = begin; i < end;) {\n");
    put_offsets(t, s);
    put(t,
        "    const long long *const row = p->dim[p->ndim - 1];\n    long long stop = i - i % row[0] + row[0];\n"
        "    if (stop > end) stop = end;\n    for (; i < stop; i++) {\n");
    put_element(t, s, "      ", AT_OFFSET);
    for (int k = 0; k < s->nout + s->nin; k++)
      if (s->form[k] == 'x') putf(t, "      o%d += row[%d];\n", k, 1 + k);
    put(t, "    }\n  }\n");
  }
  put(t, "  if (bad) *p->fault = p->fault_code;\n}\n");
}

static const char *word_of(size_t bytes)
{
  return bytes == 16  ? "uint4"
         : bytes == 8 ? "uint2"
         : bytes == 4 ? "unsigned int"
         : bytes == 2 ? "unsigned short"
                      : "unsigned char";
}

/* `vector` elements, read and written by whole words at `a3 + i`, or at `a3 + o3`. */
static void put_vector(cn_text *t, const cn_source *s, const char *indent)
{
  int operands = s->nout + s->nin;
  for (int k = 0; k < operands; k++) {
    bool neighbours = s->form[k] == 'v' || s->form[k] == 'w';
    const char *word = neighbours ? word_of(cni_dtype_size(s->dtype[k]) * (size_t)s->vector) : "";
    if (s->form[k] == 'x')
      putf(t, "%sconst %s e%d = load%d(a%d[o%d]);\n", indent, type_of(s, register_of(s, k)), k, k, k, k);
    if (!neighbours) continue;
    putf(t, "%sunion { %s w; S%d v[%d]; } u%d;\n", indent, word, k, s->vector, k);
    if (k < s->nout) continue;
    putf(t, "%su%d.w = *(const %s *)(a%d + ", indent, k, word, k);
    if (s->flat) put(t, "i);\n");
    else putf(t, "o%d);\n", k);
  }
  putf(t, "#pragma unroll\n%sfor (int j = 0; j < %d; j++) {\n", indent, s->vector);
  put_element(t, s, indent, IN_VECTOR);
  putf(t, "%s}\n", indent);
  for (int k = 0; k < s->nout; k++) {
    putf(t, "%s*(%s *)(a%d + ", indent, word_of(cni_dtype_size(s->dtype[k]) * (size_t)s->vector), k);
    if (s->flat) putf(t, "i) = u%d.w;\n", k);
    else putf(t, "o%d) = u%d.w;\n", k, k);
  }
}

/* `vector` elements at a time, 16 bytes of the widest operand; single ones at the end or where pointers are
 * not aligned. */
static void put_cuda_flat(cn_text *t, const cn_source *s)
{
  putf(t,
       "  const unsigned long long n = (unsigned long long)p->n, step = gridDim.x * %dull;\n"
       "  unsigned long long i = (blockIdx.x * %dull + threadIdx.x) * %d;\n  for (; i < n; i += step) {\n",
       CN_LOOP_THREADS * s->vector, CN_LOOP_THREADS, s->vector);
  if (s->vector > 1) {
    putf(t, "    if (p->ndim && i + %d <= n) {\n", s->vector);
    put_vector(t, s, "      ");
    put(t, "      continue;\n    }\n");
  }
  putf(t, "    for (unsigned long long j = i; j < n && j < i + %d; j++) {\n", s->vector);
  put_element(t, s, "      ", IN_ORDER);
  put(t, "    }\n  }\n");
}

/* Where neighbours lie together (see settle in loop.c) the last dim counts vectors. */
static void put_cuda_strided(cn_text *t, const cn_source *s)
{
  putf(t,
       "  const I n = (I)(p->n / %d), step = (I)gridDim.x * %d;\n"
       "  for (I i = (I)blockIdx.x * %d + threadIdx.x; i < n; i += step) {\n",
       s->vector, CN_LOOP_THREADS, CN_LOOP_THREADS);
  put_offsets(t, s);
  if (s->vector > 1) put_vector(t, s, "    ");
  else put_element(t, s, "    ", AT_OFFSET);
  put(t, "  }\n");
}

static void put_cuda_loop(cn_text *t, const cn_source *s)
{
  if (s->group) putf(t, "typedef struct cn_loops { cn_loop v[%d]; } cn_loops;\n", s->group);
  putf(t, "extern \"C\" __global__ void __launch_bounds__(%d) %s(", CN_LOOP_THREADS, s->entry);
  put(t, s->by_pointer ? "const cn_loop *const p)\n{\n"
         : s->group    ? "const __grid_constant__ cn_loops all)\n{\n  const cn_loop *const p = &all.v[blockIdx.y];\n"
                       : "const __grid_constant__ cn_loop loop)\n{\n  const cn_loop *const p = &loop;\n");
  put(t, "  if (p->skip && *p->skip) return;\n");
  put_common(t, s);
  if (s->flat) put_cuda_flat(t, s);
  else put_cuda_strided(t, s);
  put(t, "  if (bad) *p->fault = p->fault_code;\n}\n");
}

char *cni_source_text(const cn_source *s, size_t *size)
{
  cn_text t = {0};
  cni_steps_made made = {{{false}}};
  if (cni_grow((void **)&t.s, &t.cap, FIRST_ROOM, 1)) return NULL;
  cni_steps_head(&t, s, cni_steps_needs_maths(s->program));
  cni_steps_primitives(&t, s, &made);
  put_conversions(&t, s);
  put_program(&t, s);
  put_struct(&t, s);
  putf(&t, "typedef unsigned %s I;\n", s->wide || s->lang == CN_LANG_C ? "long long" : "int");
  if (s->lang == CN_LANG_CUDA) put_cuda_loop(&t, s);
  else put_c_loop(&t, s);
  if (t.failed) {
    cn_text_free(&t);
    return NULL;
  }
  *size = t.cap;
  return t.s;
}
