/* tiles.cuh: parts of a tile in shared memory as a warp's fragments of 16-bit floats (tensor_core.cuh). */

/* As load_matrices, of the matrices turned over: a thread has column LANE / 4 of rows 2 (LANE % 4) on. */
FN void load_turned(u32 *to, const words *row)
{
#ifdef CN_SIMT
  for (int m = 0; m < 4; m++) {
    const u16 *first = (const u16 *)__shfl_sync(FULL, (u64)row, 8 * m + LANE % 4 * 2);
    const u16 *second = (const u16 *)__shfl_sync(FULL, (u64)row, 8 * m + LANE % 4 * 2 + 1);
    to[m] = first[LANE / 4] | (u32)second[LANE / 4] << 16;
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((u32)__cvta_generic_to_shared(row)));
#endif
}

/* Two numbers as the word of a fragment. */
FN u32 word_of(f32 first, f32 second)
{
  const f32 v[2] = {first, second};
  const pack<T0, 2> both = packed<T0, 2>(v);
  return *(const u32 *)&both;
}
