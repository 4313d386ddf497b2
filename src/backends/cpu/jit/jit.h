/* jit.h: groups of compiled functions as machine code, made by the system's C compiler while their programs already run
 * block by block.
 *
 * Place in the flow: compile/code.c asks for the programs of a function's graphs (base/hooks.h); a thread of its own
 * has their text (codegen/blocks.h) compiled as one unit, or finds that on disk; pointwise.c looks for a program's code
 * at each call. CAIRN_JIT says whether: 0, 1, or wait, by which whoever asks has to wait. Invariant: code gives the
 * bits that the block-by-block form does, so that nobody can tell which of them has run. */
#ifndef CNI_CPU_JIT_H
#define CNI_CPU_JIT_H

#include <string.h>

#include "backends/cpu/isa.h"
#include "codegen/blocks.h"

/* The instruction set that kernels are compiled for. */
static inline int cni_jit_level(void)
{
  int level = cni_cpu_isa();
  return level < CNI_PROGRAM_CODES ? level : CNI_PROGRAM_CODES - 1;
}

/* How texts for it are written. */
static inline unsigned cni_jit_style(int level)
{
#ifdef __x86_64__
  return level == CNI_ISA_AVX512 ? CNI_STYLE_EXP16 : 0;
#else
  return (unsigned)(level * 0);
#endif
}

extern const char cni_jit_asked; /* its address in place of code: there is none, and nobody need ask again */

/* The code of a program for the instruction set in use; NULL: there is none so far. */
static inline cni_block_fn cni_jit_find(const cni_program *p)
{
  void *code = atomic_load_explicit(&p->code[cni_jit_level()], memory_order_acquire);
  cni_block_fn fn = NULL;
  if (code && code != &cni_jit_asked) memcpy(&fn, &code, sizeof fn);
  return fn;
}

/* That of a program with steps along rows. */
static inline cni_rows_fn cni_jit_find_rows(const cni_program *p)
{
  void *code = atomic_load_explicit(&p->code[cni_jit_level()], memory_order_acquire);
  cni_rows_fn fn = NULL;
  if (code && code != &cni_jit_asked) memcpy(&fn, &code, sizeof fn);
  return fn;
}

/* ---- jit.c: what is asked for ---- */
void cni_jit_want(const cni_program *const *programs, size_t n);
bool cni_jit_waits(void);
bool cni_jit_has(const cni_program *p);
size_t cni_jit_made(void); /* programs that ever got code */

/* ---- unit.c: how it is made ---- */
/* Gives all these programs their code for a level, from disk or by the compiler. False: there is none. On the JIT's own
 * thread alone. */
bool cni_jit_make(const cni_program *const *programs, size_t n, int level);

#endif
