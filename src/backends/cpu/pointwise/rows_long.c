/* rows_long.c: programs with steps along rows whose rows are long and read once: sums and extremes of all there is,
 * losses.
 *
 * Place in the flow: rows.c, where no step over whole rows reads what they are reduced to. Pieces of rows, as reduce.c
 * has them, are shared among threads, and go through all steps part by part; what is to be reduced is kept until it is
 * a block of reduce_isa.c. Invariant: blocks and pieces are joined in eager's order, so bits are eager's. */
#include <string.h>

#include "base/parallel.h"
#include "base/scratch.h"
#include "rows.h"
#include "tensor/tensor.h"

typedef cni_rows_job job;
typedef cni_rows_room room;
typedef cni_rows_input input;

enum { PANEL = CNI_ROWS_PANEL };
enum { BLOCK = 4096, WIDE_BLOCK = BLOCK * 8 + 64 }; /* of a row: what is reduced as one (reduce_isa.c); bytes */

/* The parts that a unit of work, a piece of a row, is made of; what rows are reduced to so far. */
typedef struct long_rows {
  const job *j;
  cni_wide *partial; /* [rows][pieces][reductions] */
  int reductions;
  int64_t size; /* bytes of an element that is reduced; 0: they differ */
} long_rows;

static bool is_reduction(const cni_step *s) { return s->prim > CNI_PW_row_first; }

bool cni_rows_flat(const cni_program *p)
{
  for (int i = 0; i < p->nin + p->nconst + p->nstep; i++)
    if (!p->row[i] && p->level[i]) return false;
  return true;
}

static void load_first(const job *j, const cni_step *s, int64_t row, char *y)
{
  const input *in = &j->in[s->arg[0]];
  char raw[8];
  cni_rows_gather(raw, cni_rows_at(j, in, row), &in->along, j->nalong, j->along, 0, 1, in->elem);
  if (in->load) in->load(y, raw, 1);
  else memcpy(y, raw, in->elem);
}

/* Input i from an element of a row on. */
static void load_part(const job *part, const room *m, int i, int64_t row, int64_t at, int64_t whole)
{
  const input *in = &part->in[i];
  char *to = m->inputs + (size_t)i * part->pitch, *gathered = in->load ? m->operands : to;
  if (in->first) return;
  if (in->whole) {
    m->value[i] = cni_rows_converted(in, to, in->base + (size_t)(row * whole + at) * in->elem, part->count);
    return;
  }
  cni_rows_gather(gathered, cni_rows_at(part, in, row), &in->along, part->nalong, part->along, at, part->count,
                  in->elem);
  m->value[i] = cni_rows_converted(in, to, gathered, part->count);
}

/* n elements of what is reduced join those before them: so do the blocks of a row in reduce_isa.c. */
static void fold_blocks(const long_rows *l, const char *blocks, int64_t n, cni_wide *w, bool begins)
{
  const cni_program *p = l->j->p;
  for (int i = 0; i < p->nstep; i++) {
    if (!is_reduction(&p->steps[i])) continue;
    const cni_reduce_loops *f = &l->j->reduce->loops[p->steps[i].class][cni_rows_kind(p->steps[i].prim)];
    cni_wide next;
    f->rows(&next, blocks, 1, 0, n);
    *w = begins ? next : f->join(*w, next);
    blocks += WIDE_BLOCK, w++;
  }
}

/* What is computed of part->count elements of a row. What is reduced of them goes into blocks, one for each reduction,
 * where there are `before` already. */
static int run_part(const job *part, const room *m, int64_t row, int64_t at, int64_t whole, char *blocks,
                    int64_t before)
{
  const cni_program *p = part->p;
  const int first = p->nin + p->nconst;
  int status = CN_OK;
  for (int i = 0; i < p->nin; i++) load_part(part, m, i, row, at, whole);
  for (int i = 0; i < p->nstep && !status; i++) {
    const cni_step *s = &p->steps[i];
    char *y = m->slots + (size_t)p->slot[i] * part->pitch;
    if (is_reduction(s)) {
      const size_t size = cni_rows_size((enum cni_compute)s->class);
      memcpy(blocks + (size_t)before * size, m->value[s->arg[0]], (size_t)part->count * size);
      blocks += WIDE_BLOCK;
    }
    if (p->level[first + i]) continue;
    if (s->prim == CNI_PW_row_first) load_first(part, s, row, y);
    else status = cni_rows_formula(part, m, s, p->row[first + i], y, 1);
    m->value[first + i] = y;
    for (int k = 0; k < p->nout && !status && !p->row[first + i]; k++)
      if (p->out[k] == first + i) cni_rows_store(part, k, row * whole + at, part->count, y);
  }
  for (int k = 0; k < p->nout && !status; k++)
    if (p->out[k] < first) cni_rows_store(part, k, row * whole + at, part->count, m->value[p->out[k]]);
  return status;
}

/* What code reduces of a part goes into blocks instead: where the next one's place is. */
static _Thread_local char *next_block;

static void keep(cni_wide *w, const void *x, int64_t n, size_t size)
{
  memcpy(next_block, x, (size_t)n * size);
  next_block += WIDE_BLOCK;
  w->f = 0;
}

static void keep_f32(cni_wide *w, const void *x, int64_t rows, int64_t step, int64_t n)
{
  (void)rows, (void)step;
  keep(w, x, n, sizeof(float));
}

static void keep_f64(cni_wide *w, const void *x, int64_t rows, int64_t step, int64_t n)
{
  (void)rows, (void)step;
  keep(w, x, n, sizeof(double));
}

/* As run_part, by code; all reductions are of one type. */
static int run_part_code(const job *part, const room *m, int64_t row, int64_t at, int64_t whole, char *blocks)
{
  static const cni_row_fold keeps[CNI_ROW_FOLDS] = {keep_f32, keep_f32, keep_f32, keep_f64, keep_f64, keep_f64};
  const cni_program *p = part->p;
  void *y[CNI_MAX_RESULTS];
  for (int i = 0; i < p->nin; i++) {
    load_part(part, m, i, row, at, whole);
    if (part->in[i].first) cni_rows_load(part, m, i, row, 1);
  }
  for (int k = 0; k < p->nout; k++) {
    const bool straight = !p->row[p->out[k]] && cni_rows_natural(part, k);
    y[k] = straight ? cni_rows_element(part, k, row * whole + at) : m->results + (size_t)k * part->pitch;
  }
  next_block = blocks;
  const cni_rows_call call = {y, m->value, m->step, m->slots, (long long)part->pitch, keeps, 1, part->count};
  int fault = part->code(&call);
  if (fault) return cni_pw_division_fault(part->c, &p->steps[fault - 1]);
  for (int k = 0; k < p->nout; k++)
    if (!p->row[p->out[k]]) cni_rows_store(part, k, row * whole + at, part->count, y[k]);
  return CN_OK;
}

/* Do first elements count of rows that are read as a whole? Code would take those of a part. */
static bool needs_steps(const job *j)
{
  for (int i = 0; i < j->p->nstep; i++)
    if (j->p->steps[i].prim == CNI_PW_row_first && !j->in[j->p->steps[i].arg[0]].first) return true;
  return false;
}

/* The values of a row whose parts were reduced. */
static int finish_row(const job *j, const room *m, int64_t row, const cni_wide *w)
{
  const cni_program *p = j->p;
  const int first = p->nin + p->nconst;
  int status = CN_OK;
  for (int i = 0; i < p->nstep && !status; i++) {
    const cni_step *s = &p->steps[i];
    char *y = m->slots + (size_t)p->slot[i] * j->pitch;
    if (!p->row[first + i]) continue;
    if (is_reduction(s)) cni_rows_put(j, s, y, 0, *w++);
    else if (s->prim == CNI_PW_row_first) load_first(j, s, row, y);
    else status = cni_rows_formula(j, m, s, true, y, 1);
    m->value[first + i] = y;
  }
  for (int k = 0; k < p->nout && !status; k++)
    if (p->row[p->out[k]]) cni_rows_store(j, k, row, 1, m->value[p->out[k]]);
  return status;
}

/* Of a job whose rows are parts. */
static job part_of(const job *j)
{
  job part = *j;
  part.count = PANEL;
  part.per = 1;
  return part;
}

/* Pieces [begin, end) of rows. */
static void long_range(int64_t begin, int64_t end, void *payload)
{
  const long_rows *l = payload;
  const cni_split *split = &l->j->split;
  const size_t bytes = (size_t)l->reductions * WIDE_BLOCK;
  job part = part_of(l->j);
  room m;
  char *blocks = cni_rows_open(&m, &part) ? cni_scratch_alloc(bytes) : NULL;
  int status = blocks ? CN_OK : CN_ERR_MEMORY;
  for (int64_t u = begin; u < end && !status; u++) {
    const int64_t row = u / split->pieces, from = u % split->pieces * split->piece, left = l->j->count - from;
    const int64_t to = from + (left < split->piece ? left : split->piece);
    for (int64_t at = from, n; at < to && !status; at += n) {
      n = to - at < BLOCK ? to - at : BLOCK;
      for (int64_t done = 0; done < n && !status; done += part.count) {
        part.count = n - done < PANEL ? n - done : PANEL;
        status = part.code ? run_part_code(&part, &m, row, at + done, l->j->count, blocks + done * l->size)
                           : run_part(&part, &m, row, at + done, l->j->count, blocks, done);
      }
      if (!status) fold_blocks(l, blocks, n, l->partial + u * l->reductions, at == from);
    }
  }
  if (blocks) cni_scratch_free(blocks, bytes);
  if (m.all) cni_scratch_free(m.all, m.bytes);
}

/* Joins the pieces of each row, and makes its values. */
static void finish_long(const long_rows *l)
{
  const job *j = l->j;
  job part = part_of(j);
  const cni_program *p = j->p;
  room m;
  part.code = NULL;
  int status = cni_rows_open(&m, &part) ? CN_OK : CN_ERR_MEMORY;
  for (int64_t row = 0; row < j->rows && !status; row++) {
    cni_wide *w = l->partial + row * j->split.pieces * l->reductions;
    for (int i = 0, r = 0; i < p->nstep; i++) {
      if (!is_reduction(&p->steps[i])) continue;
      const cni_reduce_loops *f = &j->reduce->loops[p->steps[i].class][cni_rows_kind(p->steps[i].prim)];
      for (int64_t k = 1; k < j->split.pieces; k++) w[r] = f->join(w[r], w[k * l->reductions + r]);
      r++;
    }
    status = finish_row(j, &m, row, w);
  }
  if (m.all) cni_scratch_free(m.all, m.bytes);
}

int cni_rows_long(job *j)
{
  const int64_t units = j->rows * j->split.pieces;
  long_rows l = {.j = j};
  for (int i = 0; i < j->p->nstep; i++) {
    if (!is_reduction(&j->p->steps[i])) continue;
    const int64_t size = (int64_t)cni_rows_size((enum cni_compute)j->p->steps[i].class);
    l.size = !l.reductions++ || l.size == size ? size : 0;
  }
  if (!l.size || needs_steps(j)) j->code = NULL;
  const size_t bytes = (size_t)(units * l.reductions) * sizeof *l.partial;
  if (!(l.partial = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  cni_parallel_for(units, CNI_PW_GRAIN / j->split.piece + 1, long_range, &l);
  if (!cn_err()) finish_long(&l);
  cni_scratch_free(l.partial, bytes);
  return cn_err();
}
