/* random.h: the drawing loops of one instruction set (random_isa.c). */
#ifndef CNI_CPU_RANDOM_H
#define CNI_CPU_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

/* Elements first .. first + n - 1 of a result. bits: of a uniform float32 draw; the others ignore it. Fastest
 * where first is a multiple of CNI_DRAWS_32 (base/philox.h). */
typedef void (*cni_draw_fn)(void *out, int64_t first, int64_t n, uint64_t seed, uint64_t offset, int bits);
/* Uniform draws in u become 1 where they are below p, else 0. False when a p lies outside 0 to 1. */
typedef bool (*cni_trial_fn)(void *u, const void *p, int64_t n);

typedef struct cni_random_table {
  cni_draw_fn unit_f32, unit_f64, normal_f32, normal_f64, u64;
  cni_trial_fn trials_f32, trials_f64;
} cni_random_table;

CNI_DECLARE_BY_ISA(cni_random_table, cni_random_table);

#endif
