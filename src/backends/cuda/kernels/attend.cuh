/* attend.cuh: what threads do that let one query of a head attend to keys and values of a cache.
 *
 * A group of LANES threads has a key at a time, 16 bytes each, and keeps to itself what it has seen until the end. T0
 * is the element type, N the width of a head. Invariant: a thread reads back only what it asked for itself. */
enum {
  PACKS = N / V,
  LANES = PACKS > 16 ? 32 : PACKS > 8 ? 16 : PACKS > 4 ? 8 : PACKS > 2 ? 4 : PACKS > 1 ? 2 : 1,
  EACH_LANE = (PACKS + LANES - 1) / LANES,
  KEYS = THREADS / LANES, /* at a time */
  AHEAD = EACH_LANE > 1 ? 2 : 4
};

/* (positions, N): by which heads are turned; NULL: not at all. */
struct angles {
  const T0 *cosines, *sines;
};

#define PIECE(e, lane) ((e) * LANES + (lane))

/* Element i of a head at x, turned by the angles of position `at`. */
FN f32 turned(const angles &a, const T0 *x, i64 at, int i)
{
  const f32 own = get(x[i]);
  if (!a.cosines) return own;
  const f32 c = get(a.cosines[at * N + i]), s = get(a.sines[at * N + i]), other = get(x[(i + N / 2) % N]);
  return get(put<T0>(get(put<T0>(own * c)) + other * s));
}

/* Asks for this group's key and value j of n: each thread's packs of them, keys and values in turn, are its own in
 * shared memory. */
FN words *room_of(words *room, int slot) { return room + slot * 2 * EACH_LANE * THREADS + (int)threadIdx.x; }
FN void ask(words *room, int slot, const T0 *keys, const T0 *values, int j, int n, int lane)
{
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    if (j >= n || PIECE(e, lane) >= PACKS) continue;
    words *const to = room_of(room, slot) + 2 * e * THREADS;
    copy_async<16>(to, (const words *)(keys + (i64)j * N) + PIECE(e, lane), 16);
    copy_async<16>(to + THREADS, (const words *)(values + (i64)j * N) + PIECE(e, lane), 16);
  }
  portion_ends();
}

FN f32 group_total(f32 v)
{
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}

/* What threads know of the keys they have seen: the largest score, the sum of weights, weighted values. */
struct seen {
  f32 most, total;
  f32 sum[EACH_LANE][V];
};

/* By how much weights shrink when the largest score becomes `most`; nothing was seen before where it was -INF. */
FN f32 shrunk(f32 before, f32 most) { return before == -INF_F32 ? 0 : cnd_exp(before - most); }

FN void rescale(seen &s, f32 most)
{
  const f32 by = shrunk(s.most, most);
  s.most = most;
  s.total *= by;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
    for (int i = 0; i < V; i++) s.sum[e][i] *= by;
}

/* A key with this score, and its value. */
FN void add_key(seen &s, f32 score, const words *value, int lane)
{
  rescale(s, larger(s.most, score));
  const f32 weight = cnd_exp(score - s.most);
  s.total += weight;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    f32 v[V];
    unpack(v, as_pack<piece>(value[e]));
#pragma unroll
    for (int i = 0; i < V; i++)
      if (PIECE(e, lane) < PACKS) s.sum[e][i] += weight * v[i];
  }
}

/* What the groups of a warp have seen, to all of them. */
FN void join_groups(seen &s)
{
#pragma unroll 1
  for (int m = LANES; m < 32; m <<= 1) {
    rescale(s, larger(s.most, __shfl_xor_sync(FULL, s.most, m)));
    s.total += __shfl_xor_sync(FULL, s.total, m);
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
      for (int i = 0; i < V; i++) s.sum[e][i] += __shfl_xor_sync(FULL, s.sum[e][i], m);
  }
}

/* This thread's packs of a head at x, as they are: asked for together, before any is needed. */
FN void fetch(words *to, const T0 *x, int lane)
{
  const bool whole = (u64)x % 16 == 0;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    if (PIECE(e, lane) >= PACKS) continue;
    if (whole) to[e] = ((const words *)x)[PIECE(e, lane)];
    else
#pragma unroll
      for (int i = 0; i < V; i++) ((piece *)&to[e])->v[i] = x[PIECE(e, lane) * V + i];
  }
}

/* Their columns, turned. */
FN void columns_of(f32 (*to)[V], const words *packs, const angles &a, const T0 *x, i64 at, int lane)
{
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    unpack(to[e], as_pack<piece>(packs[e]));
#pragma unroll
    for (int i = 0; i < V; i++)
      if (PIECE(e, lane) >= PACKS) to[e][i] = 0;
    if (!a.cosines) continue;
#pragma unroll
    for (int i = 0; i < V; i++)
      if (PIECE(e, lane) < PACKS) to[e][i] = turned(a, x, at, PIECE(e, lane) * V + i);
  }
}

/* q . k, of which each thread of a group has some columns. */
FN f32 score_of(const f32 (*q)[V], const words *k, int lane, bool there, f32 scale)
{
  f32 dot = 0;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    f32 v[V];
    unpack(v, as_pack<piece>(k[e]));
#pragma unroll
    for (int i = 0; i < V; i++)
      if (there && PIECE(e, lane) < PACKS) dot += q[e][i] * v[i];
  }
  return group_total(dot) * scale;
}

/* The key that comes now, as it goes into the cache; at: its position, key: where it came from. */
FN void take_new(words *k, const words *new_k, const angles &a, const T0 *key, i64 at, int lane)
{
  f32 columns[EACH_LANE][V];
  columns_of(columns, new_k, a, key, at, lane);
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) *(piece *)&k[e] = packed<T0, V>(columns[e]);
}

/* A group puts it there, with its value. */
FN void keep_new(T0 *keys, T0 *values, const words *k, const words *v, int lane)
{
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    if (PIECE(e, lane) >= PACKS) continue;
    ((words *)keys)[PIECE(e, lane)] = k[e];
    ((words *)values)[PIECE(e, lane)] = v[e];
  }
}
