/* cluster.cuh: blocks of a cluster (sm_90 and later) that send each other what lies in shared memory.
 *
 * A parcel is 16 bytes for the shared memory of a block, at a place that the sender names in its own; a mailbox, there
 * too, counts the bytes that have come. Nothing waits but who reads: no fence, no barrier of all blocks. CLUSTER is the
 * number of blocks; kernels with one are compiled for every architecture. Invariants: all that is shared is dynamic
 * shared memory; a mailbox is told what to expect before the block sends what the others wait for. */
#if CLUSTER > 1 && !defined(CN_SIMT) && __CUDA_ARCH__ >= 900
FN u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
FN u32 address_at(const void *p, u32 block)
{
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(block));
  return there;
}
FN u32 block_of_cluster()
{
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/* All threads of all blocks. */
FN void cluster_barrier()
{
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* One thread; cluster_barrier follows before anybody sends. */
FN void open_mailbox(u64 *box)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(box))
               : "memory");
}
FN void expect_parcels(u64 *box, u32 bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(box)), "r"(bytes)
               : "memory");
}
FN void send_parcel(void *to, u64 *box, u32 block, words v)
{
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address_at(to, block)),
               "r"(v.v[0]), "r"(v.v[1]), "r"(v.v[2]), "r"(v.v[3]), "r"(address_at(box, block))
               : "memory");
}
/* All that was expected has come. odd: of the times it is expected, the first is even. */
FN void wait_for_parcels(u64 *box, bool odd)
{
  asm volatile("{\n.reg .pred done;\nwaiting:\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra waiting;\n}" ::"r"(
                   shared_address(box)),
               "r"((u32)odd)
               : "memory");
}
#elif CLUSTER > 1 && defined(CN_SIMT)
/* Emulated: a mailbox is a number of bytes that are still to come, and who waits does so for all blocks. */
FN u32 block_of_cluster() { return simt_block_of_cluster(); }
FN void cluster_barrier() { simt_cluster_barrier(); }
FN void open_mailbox(u64 *box) { *box = 0; }
FN void expect_parcels(u64 *box, u32 bytes) { *box += bytes; }
FN void send_parcel(void *to, u64 *box, u32 block, words v)
{
  *(words *)simt_at_block(to, block) = v;
  *(u64 *)simt_at_block(box, block) -= sizeof v;
}
FN void wait_for_parcels(u64 *box, bool odd)
{
  simt_cluster_barrier();
  if (*box) simt_fail("a mailbox has not got what it expects");
  simt_cluster_barrier(); /* before more is expected */
}
#else /* one block */
FN u32 block_of_cluster() { return 0; }
FN void cluster_barrier() { __syncthreads(); }
FN void open_mailbox(u64 *box) {}
FN void expect_parcels(u64 *box, u32 bytes) {}
FN void send_parcel(void *to, u64 *box, u32 block, words v) { *(words *)to = v; }
FN void wait_for_parcels(u64 *box, bool odd) { __syncthreads(); }
#endif
