/* grouped.cuh: which part of a grouped product a block makes. A product for each group: of rows of (m, k) by the
 * group's matrix of (groups, k, n), of (groups, m, k) by columns of (k, n), or of what is summed in (m, k) (k, n).
 *
 * T0 is the type of the operands' elements, T1 that of the result's; a tile is ROWS x COLS. Where groups end stands in
 * device memory, so that nobody waits for it: there are as many blocks as any groups can need, and each finds its tile
 * among them. Invariant: ends that are none are reported, and what they would lead to is neither read nor written. */
enum { CUT_ROWS, CUT_COLUMNS, CUT_SUM };
enum { WHOLE = 8 }; /* tiles of a group begin at a multiple: what lies before it is another's */

struct grouped_job {
  const T0 *a, *b;
  T1 *y;
  const void *ends;
  i64 ends_step;
  i64 m, n, k, groups, slots; /* slots: places for tiles along what is cut, or along the rows */
  i64 a_row, a_col, a_step, b_row, b_col, b_step, y_row, y_col, y_step; /* in elements */
  i32 cut, wide;   /* wide: ends are int64 */
  i32 pairs, unused; /* may neighbours of the result be stored by twos? */
  fault_slot fault;
};

struct range {
  i64 from, to;
};
struct tile {
  i64 group, row, col;    /* row, col: where it begins, perhaps before its group does */
  range rows, cols, depth;
};

FN i64 cut_size(const grouped_job &p) { return p.cut == CUT_ROWS ? p.m : p.cut == CUT_COLUMNS ? p.n : p.k; }

FN i64 said_end(const grouped_job &p, i64 g)
{
  if (g < 0) return 0;
  return p.wide ? ((const i64 *)p.ends)[g * p.ends_step] : ((const i32 *)p.ends)[g * p.ends_step];
}

/* Of group g; number `groups` is what lies behind the last one, which is zeros. */
FN range range_of(const grouped_job &p, i64 g)
{
  const i64 size = cut_size(p), from = said_end(p, g - 1), to = g < p.groups ? said_end(p, g) : size;
  range r = {from < 0 ? 0 : from > size ? size : from, to < 0 ? 0 : to > size ? size : to};
  if (r.to < r.from) r.to = r.from;
  return r;
}

FN void check_ends(const grouped_job &p)
{
  if (blockIdx.x) return;
  for (i64 g = threadIdx.x; g < p.groups; g += THREADS) {
    const i64 end = said_end(p, g);
    if (end < said_end(p, g - 1) || end > cut_size(p)) report_fault(p.fault, FAULT_INDEX, end, cut_size(p));
  }
}

/* The slot's tile along what is cut: 32 groups at a time say how many they have. False: no group has so many. */
FN bool find_group(const grouped_job &p, i64 slot, int side, tile &t, range &cut)
{
  for (i64 first = 0; first <= p.groups; first += 32) {
    const i64 g = first + LANE;
    const range r = g <= p.groups ? range_of(p, g) : range{0, 0};
    const i64 begin = r.from / WHOLE * WHOLE, own = r.to > r.from ? (r.to - begin + side - 1) / side : 0;
    i64 upto = own;
    for (int by = 1; by < 32; by *= 2) {
      const i64 before = __shfl_up_sync(FULL, upto, by);
      if (LANE >= by) upto += before;
    }
    const u32 beyond = __ballot_sync(FULL, slot < upto);
    if (!beyond) {
      slot -= __shfl_sync(FULL, upto, 31);
      continue;
    }
    const int at = __ffs((int)beyond) - 1;
    t.group = first + at;
    cut.from = __shfl_sync(FULL, r.from, at);
    cut.to = __shfl_sync(FULL, r.to, at);
    const i64 place = cut.from / WHOLE * WHOLE + (slot - __shfl_sync(FULL, upto - own, at)) * side;
    (p.cut == CUT_ROWS ? t.row : t.col) = place;
    return true;
  }
  return false;
}

/* All threads of a block call it. False: there is nothing to be done. */
FN bool find_tile(const grouped_job &p, tile &t)
{
  const i64 slot = blockIdx.x % p.slots, other = blockIdx.x / p.slots, across = (p.n + COLS - 1) / COLS;
  t = tile{0, 0, 0, {0, p.m}, {0, p.n}, {0, p.k}};
  if (p.cut == CUT_SUM) {
    t.group = across ? other / across : p.groups;
    if (t.group >= p.groups) return false;
    t.row = slot * ROWS;
    t.col = other % across * COLS;
    t.depth = range_of(p, t.group);
    return true;
  }
  (p.cut == CUT_ROWS ? t.col : t.row) = other * (p.cut == CUT_ROWS ? COLS : ROWS);
  range &cut = p.cut == CUT_ROWS ? t.rows : t.cols;
  if (!find_group(p, slot, p.cut == CUT_ROWS ? ROWS : COLS, t, cut)) return false;
  if (t.group == p.groups) t.depth.to = 0;
  return true;
}

FN i64 place_in_result(const grouped_job &p, const tile &t, i64 row, i64 col)
{
  return (p.cut == CUT_SUM ? t.group * p.y_step : 0) + row * p.y_row + col * p.y_col;
}
FN bool is_in(const range &r, i64 i) { return i >= r.from && i < r.to; }
