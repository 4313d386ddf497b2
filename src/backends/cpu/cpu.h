/* cpu.h: what the files of the CPU backend show each other and init.c: its table, its kernel tables, and
 * copying.
 *
 * Place in the flow: init.c registers the backend; the dispatcher in backends/common calls the kernels.
 * Invariant: every kernel file owns exactly one table, with one line in kernels.def. */
#ifndef CNI_CPU_CPU_H
#define CNI_CPU_CPU_H

#include <cairn/ext/backend.h>

const cn_backend *cni_cpu_backend(void);
/* Adds the kernel tables behind the first one; called once, after it was registered. 0 or an error. */
int cni_cpu_add_kernels(void);

/* ---- kernel tables: see kernels.def ---- */
#define KERNELS(name) extern const cn_kernel cni_cpu_##name##_kernels[];
#include "kernels.def"
#undef KERNELS

/* ---- for kernels that need an operand in another type or layout (copy.c) ---- */
/* Copies src, broadcast to dst's shape and cast to its type, into dst. The two do not overlap unless they are
 * the same memory in the same layout and type. Cannot fail. */
void cni_cpu_copy(const cn_desc *dst, const cn_desc *src);
/* The real (0) or imaginary (1) parts of d, which may be real itself: then its numbers, and zeros (only to be read). */
cn_desc cni_cpu_part_of(const cn_desc *d, int part);
/* A desc of row-major memory at `data` with d's shape: a kernel's temporary, for cni_cpu_copy. */
cn_desc cni_cpu_packed(const cn_desc *d, int dtype, void *data);

#endif
