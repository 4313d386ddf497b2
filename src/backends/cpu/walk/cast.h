/* cast.h: conversion of contiguous runs of elements between any two types.
 *
 * Place in the flow: the cast op, host copies and file readers ask cni_cast_find once per run of work and
 * call what they get per block. Invariant: the values are those of base/convert.h on every instruction
 * set; dst and src do not overlap, and each is aligned to its element. */
#ifndef CNI_CPU_CAST_H
#define CNI_CPU_CAST_H

#include <cairn/base.h>

#include "backends/cpu/isa.h"

typedef void (*cni_cast_fn)(void *dst, const void *src, size_t n);

/* Never NULL for two valid types; NULL otherwise. Same types: a copy. */
cni_cast_fn cni_cast_find(int from, int to);

/* What one instruction set level has (cast_isa.c). NULL: there is no single loop; cast.c goes through the
 * type that the smaller one is computed in. */
typedef struct cni_cast_table {
  cni_cast_fn direct[CN_DTYPE_COUNT][CN_DTYPE_COUNT]; /* [from][to] */
} cni_cast_table;

CNI_DECLARE_BY_ISA(cni_cast_table, cni_cast_table);

#endif
