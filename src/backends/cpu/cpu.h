/* cpu.h: what the files of the CPU backend show each other and init.c: its table, its kernel tables, and
 * copying.
 *
 * Place in the flow: init.c registers the backend; the dispatcher in backends/common calls the kernels.
 * Invariant: every kernel file owns exactly one table, declared here and listed once in cpu.c. */
#ifndef CNI_CPU_CPU_H
#define CNI_CPU_CPU_H

#include <cairn/ext/backend.h>

const cn_backend *cni_cpu_backend(void);
/* Adds the kernel tables behind the first one; called once, after it was registered. 0 or an error. */
int cni_cpu_add_kernels(void);

/* ---- kernel tables: one line per file ---- */
extern const cn_kernel cni_cpu_create_kernels[];
extern const cn_kernel cni_cpu_ctc_kernels[];
extern const cn_kernel cni_cpu_random_kernels[];
extern const cn_kernel cni_cpu_copy_kernels[];
extern const cn_kernel cni_cpu_reduce_kernels[];
extern const cn_kernel cni_cpu_batch_norm_kernels[];
extern const cn_kernel cni_cpu_norm_kernels[];
extern const cn_kernel cni_cpu_moments_kernels[];
extern const cn_kernel cni_cpu_softmax_kernels[];
extern const cn_kernel cni_cpu_sort_kernels[];
extern const cn_kernel cni_cpu_scan_kernels[];
extern const cn_kernel cni_cpu_argmax_kernels[];
extern const cn_kernel cni_cpu_matmul_kernels[];
extern const cn_kernel cni_cpu_linalg_kernels[];
extern const cn_kernel cni_cpu_linalg_lu_kernels[];
extern const cn_kernel cni_cpu_linalg_qr_kernels[];
extern const cn_kernel cni_cpu_linalg_svd_kernels[];
extern const cn_kernel cni_cpu_linalg_eigh_kernels[];
extern const cn_kernel cni_cpu_linalg_exp_kernels[];
extern const cn_kernel cni_cpu_distance_kernels[];
extern const cn_kernel cni_cpu_fft_kernels[];
extern const cn_kernel cni_cpu_attention_kernels[];
extern const cn_kernel cni_cpu_recurrent_kernels[];
extern const cn_kernel cni_cpu_join_kernels[];
extern const cn_kernel cni_cpu_index_kernels[];
extern const cn_kernel cni_cpu_scatter_kernels[];
extern const cn_kernel cni_cpu_loss_kernels[];
extern const cn_kernel cni_cpu_conv_kernels[];
extern const cn_kernel cni_cpu_columns_kernels[];
extern const cn_kernel cni_cpu_pool_kernels[];
extern const cn_kernel cni_cpu_resample_kernels[];
extern const cn_kernel cni_cpu_grid_kernels[];
extern const cn_kernel cni_cpu_pad_kernels[];
extern const cn_kernel cni_cpu_place_kernels[];
extern const cn_kernel cni_cpu_bag_kernels[];
extern const cn_kernel cni_cpu_draw_kernels[];
extern const cn_kernel cni_cpu_update_kernels[];
extern const cn_kernel cni_cpu_search_kernels[];
extern const cn_kernel cni_cpu_log_scan_kernels[];

/* ---- for kernels that need an operand in another type or layout (copy.c) ---- */
/* Copies src, broadcast to dst's shape and cast to its type, into dst. The two do not overlap unless they are
 * the same memory in the same layout and type. Cannot fail. */
void cni_cpu_copy(const cn_desc *dst, const cn_desc *src);
/* A desc of row-major memory at `data` with d's shape: a kernel's temporary, for cni_cpu_copy. */
cn_desc cni_cpu_packed(const cn_desc *d, int dtype, void *data);

#endif
