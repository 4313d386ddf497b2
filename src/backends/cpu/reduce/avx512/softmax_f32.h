/* softmax_f32.h: the loops of softmax for float32 that take the time, by AVX-512: sixteen exponentials at a time
 * (exp16.h).
 *
 * Place in the flow: softmax_isa.c puts them into its AVX-512 table, where other levels have the loops of HOT_LOOPS;
 * softmax.h says what each does. Invariant: sums run in the order of softmax_isa.c. */
#ifndef CNI_CPU_SOFTMAX_F32_H
#define CNI_CPU_SOFTMAX_F32_H

#include <stdbool.h>
#include <stdint.h>

double cni_softmax_max_row_avx512(const void *x, int64_t n);
double cni_softmax_exp_row_avx512(void *y, const void *x, int64_t n, double shift, const void *ahead);
void cni_softmax_scale_row_avx512(void *y, const void *x, int64_t n, double by, bool nontemporal);
void cni_softmax_part_row_avx512(void *y, const void *x, int64_t n, double shift, double by, bool nontemporal);
void cni_softmax_max_columns_avx512(void *y, int64_t ystep, void *max, const void *x, int64_t xstep, int64_t rows,
                                    int64_t m);
void cni_softmax_exp_columns_avx512(void *y, int64_t ystep, void *sum, const void *x, int64_t xstep, const void *max,
                                    int64_t rows, int64_t m);
void cni_softmax_lift_columns_avx512(void *sum, void *max, const void *top, int64_t m);
void cni_softmax_part_columns_avx512(void *y, int64_t ystep, const void *x, int64_t xstep, const void *max,
                                     const void *by, int64_t rows, int64_t m);

#endif
