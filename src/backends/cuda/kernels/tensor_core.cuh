/* tensor_core.cuh: products of small matrices of 16-bit floats by a warp, and how their operands come from shared memory
 * to registers. */
/* sums (16, 8) += a (16, 16) b (16, 8), as they are dealt out to the threads of a warp. */
template <class T> struct tensor_core {
#ifdef CN_SIMT
  FN f32 half_of(u32 pair, int i) { return get(T{(u16)(pair >> 16 * i)}); }
  FN void multiply(f32 *sums, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
  {
    const pack<u32, 4> a = {{a0, a1, a2, a3}};
    const pack<u32, 2> b = {{b0, b1}};
    pack<u32, 4> left[4];
    pack<u32, 2> right[2][4];
    for (int q = 0; q < 4; q++) left[q] = __shfl_sync(FULL, a, (LANE & ~3) + q);
    for (int i = 0; i < 2; i++)
      for (int q = 0; q < 4; q++) right[i][q] = __shfl_sync(FULL, b, ((LANE & 3) * 2 + i) * 4 + q);
    for (int q = 0; q < 8; q++) /* pairs of columns: 4 of the lower half, then of the upper */
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
          sums[i] += half_of(left[q % 4].v[q / 4 * 2 + i / 2], j) * half_of(right[i % 2][q % 4].v[q / 4], j);
  }
#endif
};
#ifndef CN_SIMT
#define TENSOR_CORE(T, type)                                                                                     \
  template <> struct tensor_core<T> {                                                                            \
    FN void multiply(f32 *s, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)                                     \
    {                                                                                                            \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                                 \
          ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
          : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                                       \
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                               \
    }                                                                                                            \
  };
TENSOR_CORE(f16, "f16")
TENSOR_CORE(bf16, "bf16")
#endif
/* There for kernels of all types: nobody calls it. */
template <> struct tensor_core<f32> {
  FN void multiply(f32 *, u32, u32, u32, u32, u32, u32) {}
};

/* Four matrices (8, 8) of 16-bit floats from shared memory, whose lines are 16 bytes: lane 8 i + r says where line r of
 * matrix i is. Each is dealt out like the sums above: a thread has two neighbours of line LANE / 4. */
FN void load_matrices(u32 *to, const words *line)
{
#ifdef CN_SIMT
  for (int i = 0; i < 4; i++) to[i] = __shfl_sync(FULL, line, 8 * i + LANE / 4)->v[LANE & 3];
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((u32)__cvta_generic_to_shared(line))
               : "memory");
#endif
}
