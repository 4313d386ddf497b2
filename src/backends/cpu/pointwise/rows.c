/* rows.c: runs programs with steps along rows (ops/program.h): sums, means and extremes of rows, and formulas that read
 * them beside the row.
 *
 * Place in the flow: cni_cpu_pointwise gives such programs to cni_pw_rows. A panel, as many whole rows as make a block,
 * goes through all steps, or through what the compiler made of them, while it lies in the caches; panels are shared
 * among threads. Long rows that are only reduced go part by part, and their pieces are shared. Invariant: a row is
 * reduced by the loops of reduce.c, in their order, so results are those of the single ops and never depend on panels
 * and threads. */
#include "rows.h"

#include <string.h>

#include "backends/cpu/walk/rows.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

typedef cni_rows_job job;
typedef cni_rows_room room;
typedef cni_rows_input input;
typedef cni_rows_steps steps;

enum { PANEL = CNI_ROWS_PANEL, SOME = 128, OPERANDS = 3 };
enum { CODE_LEAST = 128 }; /* elements of a row from which code, whose loops are over single rows, is faster */

static size_t register_size(const job *j, int reg) { return cni_rows_size((enum cni_compute)j->p->class[reg]); }

/* ---- operands ---- */

/* n elements of a row, or of what counts rows, from element `at` on. */
void cni_rows_gather(char *to, const char *from, const steps *s, int ndim, const int64_t *shape, int64_t at, int64_t n,
                     size_t elem)
{
  if (!ndim) {
    memcpy(to, from, elem);
    return;
  }
  const int64_t inner = shape[ndim - 1];
  for (int64_t done = 0, m; done < n; done += m) {
    int64_t i = (at + done) % inner, rest = (at + done) / inner;
    const char *row = from + i * s->by[ndim - 1];
    for (int k = ndim - 2; k >= 0; rest /= shape[k--]) row += rest % shape[k] * s->by[k];
    m = inner - i < n - done ? inner - i : n - done;
    cni_row_gather(to + (size_t)done * elem, row, s->by[ndim - 1], elem, m);
  }
}

const char *cni_rows_at(const job *j, const input *in, int64_t row)
{
  const char *at = in->base;
  for (int k = j->nlead - 1; k >= 0; row /= j->lead[k--]) at += row % j->lead[k] * in->lead.by[k];
  return at;
}

/* Converts what was gathered, in place: buffers have room for the wider type at `to`. */
const void *cni_rows_converted(const input *in, char *to, const char *from, int64_t n)
{
  if (!in->load) return from;
  in->load(to, from, (size_t)n);
  return to;
}

/* One row, or all of a panel, from row `at` on. raw: room for as many elements as `to`. */
static const void *load_rows(const job *j, const input *in, int64_t at, int64_t rows, char *to, char *raw)
{
  char *gathered = in->load ? raw : to;
  for (int64_t r = 0; r < rows; r++)
    cni_rows_gather(gathered + (size_t)(r * j->count) * in->elem, cni_rows_at(j, in, at + r), &in->along, j->nalong,
                    j->along, 0, j->count, in->elem);
  return cni_rows_converted(in, to, gathered, rows * j->count);
}

/* A row that all rows are: once for code, as often as a panel has rows for loops over steps. */
static const void *load_same(const job *j, const input *in, char *to, char *raw)
{
  const char *row = load_rows(j, in, 0, 1, to, raw);
  size_t bytes = (size_t)j->count * in->size;
  for (int64_t r = 1; !j->code && r < j->per; r++) memcpy(to + (size_t)r * bytes, row, bytes);
  return row;
}

/* Input i for rows [at, at + rows). */
void cni_rows_load(const job *j, const room *m, int i, int64_t at, int64_t rows)
{
  const input *in = &j->in[i];
  char *to = m->inputs + (size_t)i * j->pitch, *raw = m->operands;
  m->step[i] = in->first ? 1 : in->same && j->code ? 0 : j->count;
  if (in->first) {
    char *gathered = in->load ? raw : to;
    cni_rows_gather(gathered, in->base, &in->lead, j->nlead, j->lead, at, rows, in->elem);
    m->value[i] = cni_rows_converted(in, to, gathered, rows);
  } else if (in->same) {
    if (!m->held[i]) m->value[i] = load_same(j, in, to, raw);
    m->held[i] = true;
  } else if (in->whole) {
    m->value[i] = cni_rows_converted(in, to, in->base + (size_t)(at * j->count) * in->elem, rows * j->count);
  } else m->value[i] = load_rows(j, in, at, rows, to, raw);
}

/* ---- results ---- */

/* Result k from an element on. */
char *cni_rows_element(const job *j, int k, int64_t at)
{
  const cn_desc *d = cn_desc_of(j->c->out[k]);
  return (char *)d->data + (size_t)at * cni_dtype_size(d->dtype);
}

/* ... and from row `at` on. */
static char *result_at(const job *j, int k, int64_t at)
{
  return cni_rows_element(j, k, j->p->row[j->p->out[k]] ? at : at * j->count);
}

bool cni_rows_natural(const job *j, int k)
{
  return cn_desc_of(j->c->out[k])->dtype == cni_compute_dtype((enum cni_compute)j->p->class[j->p->out[k]]);
}

/* ---- steps over a panel ---- */

enum cni_reduce_kind cni_rows_kind(int prim)
{
  return prim == CNI_PW_row_max ? CNI_REDUCE_MAX : prim == CNI_PW_row_min ? CNI_REDUCE_MIN : CNI_REDUCE_SUM;
}

/* Few long rows are reduced in pieces, as they are by reduce.c. */
static void reduce_rows(const job *j, const cni_reduce_loops *f, cni_wide *w, const char *x, size_t size, int64_t rows)
{
  const int64_t piece = j->split.piece;
  cni_wide next[SOME];
  f->rows(w, x, rows, j->count, piece);
  for (int64_t at = piece; at < j->count; at += piece) {
    f->rows(next, x + (size_t)at * size, rows, j->count, j->count - at < piece ? j->count - at : piece);
    for (int64_t i = 0; i < rows; i++) w[i] = f->join(w[i], next[i]);
  }
}

/* What a row was reduced to, as element i of a register. */
void cni_rows_put(const job *j, const cni_step *s, void *y, int64_t i, cni_wide w)
{
  double value = s->prim == CNI_PW_row_mean ? w.f / (double)j->count : w.f;
  if (s->class == CNI_C_F32) ((float *)y)[i] = (float)value;
  else ((double *)y)[i] = value;
}

static void reduce(const job *j, const cni_step *s, void *y, const char *x, int64_t rows)
{
  cni_wide w[SOME];
  const cni_reduce_loops *f = &j->reduce->loops[s->class][cni_rows_kind(s->prim)];
  const size_t size = cni_rows_size((enum cni_compute)s->class), row = (size_t)j->count * size;
  for (int64_t done = 0; done < rows; done += SOME) {
    int64_t n = rows - done < SOME ? rows - done : SOME;
    reduce_rows(j, f, w, x + (size_t)done * row, size, n);
    for (int64_t i = 0; i < n; i++) cni_rows_put(j, s, y, done + i, w[i]);
  }
}

static void take_first(const room *m, const cni_step *s, char *y, int64_t rows)
{
  const size_t size = cni_rows_size((enum cni_compute)s->class);
  const char *x = m->value[s->arg[0]];
  for (int64_t r = 0; r < rows; r++) memcpy(y + (size_t)r * size, x + (size_t)(r * m->step[s->arg[0]]) * size, size);
}

static void convert(const cni_program *p, const cni_step *s, char *y, const char *x, int64_t n)
{
  const size_t from = cni_rows_size((enum cni_compute)p->class[s->arg[0]]);
  const size_t to = cni_rows_size((enum cni_compute)s->class);
  for (int64_t done = 0; done < n; done += PANEL)
    cni_pw_convert(p, s, y + (size_t)done * to, x + (size_t)done * from, n - done < PANEL ? n - done : PANEL);
}

/* Operand k of a step over whole rows: one value for each row is written as often as the row is long. */
static const void *operand(const job *j, const room *m, const cni_step *s, int k, int64_t rows)
{
  const int reg = s->arg[k];
  if (!j->p->row[reg]) return m->value[reg];
  const size_t size = register_size(j, reg), row = (size_t)j->count * size;
  char *to = m->operands + (size_t)k * j->pitch;
  for (int64_t r = 0; r < rows; r++) {
    memcpy(to + (size_t)r * row, (const char *)m->value[reg] + (size_t)r * size, size);
    cni_pw_repeat(to + (size_t)r * row, size, j->count);
  }
  return to;
}

/* The loop of a step over whole rows whose operand `one` is one value for each of them, and the other is not; NULL:
 * there is none. */
static cni_pw_loop loop_with_one(const job *j, const cni_step *s, int *one)
{
  *one = s->prim < CNI_PRIM_COUNT && j->p->row[s->arg[1]];
  if (s->class != CNI_C_F32 || cni_step_arity(s) != 2 || j->p->row[s->arg[0]] == j->p->row[s->arg[1]]) return NULL;
  for (int i = 0; i < CNI_PW_ONES; i++)
    if (j->table->one[i].prim == s->prim) return j->table->one[i].loop[*one];
  return NULL;
}

/* Such a step, row by row. What it gives may lie over the operand that it is to read again for the next row. */
static void run_with_one(const job *j, const room *m, const cni_step *s, cni_pw_loop loop, int one, char *y,
                         int64_t rows)
{
  const size_t row = (size_t)j->count * sizeof(float);
  const char *x[2] = {m->value[s->arg[0]], m->value[s->arg[1]]};
  x[one] = memcpy(m->operands, x[one], (size_t)rows * sizeof(float));
  for (int64_t r = 0; r < rows; r++) {
    loop(y, x[0], x[1], NULL, j->count);
    y += row;
    x[one] += sizeof(float);
    x[!one] += row;
  }
}

/* A step of pointwise.def, or a conversion. */
int cni_rows_formula(const job *j, const room *m, const cni_step *s, bool is_row, void *y, int64_t rows)
{
  const int64_t n = is_row ? rows : rows * j->count;
  const void *x[OPERANDS] = {NULL};
  int one;
  cni_pw_loop loop = is_row ? NULL : loop_with_one(j, s, &one);
  if (loop) {
    run_with_one(j, m, s, loop, one, y, rows);
    return CN_OK;
  }
  for (int k = 0; k < cni_step_arity(s); k++) x[k] = is_row ? m->value[s->arg[k]] : operand(j, m, s, k, rows);
  if (s->prim == CNI_PW_convert) convert(j->p, s, y, x[0], n);
  else if (s->class >= CNI_C_I64 && cni_prim_divides(s->prim) && cni_pw_has_zero(x[1], n))
    return cni_pw_division_fault(j->c, s);
  else cni_pw_loop_for(j->table, (enum cni_compute)s->class, s->prim, x[0], n)(y, x[0], x[1], x[2], n);
  return CN_OK;
}

/* Steps write results where they are wanted, if their type is right as it is. */
static int run_steps(const job *j, const room *m, int64_t at, int64_t rows)
{
  const cni_program *p = j->p;
  const int first = p->nin + p->nconst;
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    char *y = m->slots + (size_t)p->slot[i] * j->pitch;
    for (int k = 0; k < p->nout; k++)
      if (p->out[k] == first + i && cni_rows_natural(j, k)) y = result_at(j, k, at);
    int status = CN_OK;
    if (s->prim == CNI_PW_row_first) take_first(m, s, y, rows);
    else if (cni_step_is_row(s)) reduce(j, s, y, m->value[s->arg[0]], rows);
    else status = cni_rows_formula(j, m, s, p->row[first + i], y, rows);
    if (status) return status;
    m->value[first + i] = y;
  }
  return CN_OK;
}

/* ---- what is done with a panel ---- */

/* n elements of result k. */
void cni_rows_store(const job *j, int k, int64_t at, int64_t n, const void *value)
{
  const int reg = j->p->out[k], compute = cni_compute_dtype((enum cni_compute)j->p->class[reg]);
  char *to = cni_rows_element(j, k, at);
  if (to == value) return;
  if (cni_rows_natural(j, k)) memcpy(to, value, (size_t)n * register_size(j, reg));
  else cni_cast_find(compute, cn_desc_of(j->c->out[k])->dtype)(to, value, (size_t)n);
}

static void store(const job *j, int k, int64_t at, int64_t rows, const void *value)
{
  const int64_t each = j->p->row[j->p->out[k]] ? 1 : j->count;
  cni_rows_store(j, k, at * each, rows * each, value);
}

static int run_code(const job *j, const room *m, int64_t at, int64_t rows)
{
  cni_row_fold folds[CNI_ROW_FOLDS];
  void *y[CNI_MAX_RESULTS];
  for (int k = 0; k < CNI_ROW_FOLDS; k++) {
    static const uint8_t kinds[] = {CNI_REDUCE_SUM, CNI_REDUCE_MAX, CNI_REDUCE_MIN};
    folds[k] = j->reduce->loops[k / 3][kinds[k % 3]].rows;
  }
  for (int k = 0; k < j->p->nout; k++)
    y[k] = cni_rows_natural(j, k) ? result_at(j, k, at) : m->results + (size_t)k * j->pitch;
  const cni_rows_call call = {y, m->value, m->step, m->slots, (long long)j->pitch, folds, rows, j->count};
  int fault = j->code(&call);
  if (fault) return cni_pw_division_fault(j->c, &j->p->steps[fault - 1]);
  for (int k = 0; k < j->p->nout; k++)
    if (!cni_rows_natural(j, k)) store(j, k, at, rows, y[k]);
  return CN_OK;
}

static int run_panel(const job *j, const room *m, int64_t at, int64_t rows)
{
  const cni_program *p = j->p;
  for (int i = 0; i < p->nin; i++) cni_rows_load(j, m, i, at, rows);
  if (j->code) return run_code(j, m, at, rows);
  int status = run_steps(j, m, at, rows);
  for (int k = 0; k < p->nout && !status; k++) store(j, k, at, rows, m->value[p->out[k]]);
  return status;
}

/* ---- the buffers of a thread ---- */

bool cni_rows_open(room *m, const job *j)
{
  const cni_program *p = j->p;
  const size_t nconst = j->code ? 0 : (size_t)p->nconst;
  const int waiting = j->code ? cni_rows_waiting(p, cni_jit_style(cni_jit_level())) : p->nslots;
  const size_t nslots = (size_t)waiting, nin = (size_t)p->nin;
  const size_t registers = nin + (size_t)p->nconst + (size_t)p->nstep;
  const size_t buffers = nin + nconst + nslots + OPERANDS + (j->code ? (size_t)p->nout : 0);
  m->bytes = buffers * j->pitch + registers * sizeof *m->value + nin * (sizeof *m->step + sizeof *m->held);
  if (!(m->all = cni_scratch_alloc(m->bytes))) return false;
  m->inputs = m->all;
  m->consts = m->inputs + nin * j->pitch;
  m->slots = m->consts + nconst * j->pitch;
  m->operands = m->slots + nslots * j->pitch;
  m->results = m->operands + OPERANDS * j->pitch;
  m->value = (const void **)(void *)(m->all + buffers * j->pitch);
  m->step = (long long *)(void *)(m->value + registers);
  m->held = (bool *)(m->step + nin);
  memset(m->step, 0, nin * sizeof *m->step);
  memset(m->held, 0, nin * sizeof *m->held);
  for (size_t i = 0; i < nconst; i++) {
    char *to = m->consts + i * j->pitch;
    m->value[nin + i] = to;
    cni_pw_splat(to, cni_compute_dtype((enum cni_compute)p->class[nin + i]), p->consts[i].value, j->per * j->count);
  }
  return true;
}

/* ---- the whole ---- */

/* Panels [begin, end). */
static void run_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  room m;
  int status = cni_rows_open(&m, j) ? CN_OK : CN_ERR_MEMORY;
  for (int64_t i = begin; i < end && !status; i++) {
    int64_t at = i * j->per, rows = j->rows - at < j->per ? j->rows - at : j->per;
    status = run_panel(j, &m, at, rows);
  }
  if (m.all) cni_scratch_free(m.all, m.bytes);
}

static bool only_first(const cni_program *p, int i)
{
  for (int s = 0; s < p->nstep; s++)
    for (int k = 0; k < cni_step_arity(&p->steps[s]); k++)
      if (p->steps[s].arg[k] == i && p->steps[s].prim != CNI_PW_row_first) return false;
  for (int k = 0; k < p->nout; k++)
    if (p->out[k] == i) return false;
  return true;
}

/* The shape that all inputs are broadcast to, in two parts. */
static void find_shape(job *j)
{
  int ndim = 0;
  int64_t shape[CN_MAX_DIMS];
  for (int i = 0; i < j->p->nin; i++) {
    const cn_desc *d = cn_desc_of(j->c->in[i]);
    if (d->ndim > ndim) ndim = d->ndim;
  }
  for (int k = 0; k < ndim; k++) shape[k] = 1;
  for (int i = 0; i < j->p->nin; i++) {
    const cn_desc *d = cn_desc_of(j->c->in[i]);
    for (int k = 0; k < d->ndim; k++)
      if (d->shape[k] != 1) shape[ndim - d->ndim + k] = d->shape[k];
  }
  j->nalong = j->p->row_dims;
  j->nlead = ndim - j->nalong;
  j->rows = j->count = 1;
  for (int k = 0; k < j->nlead; k++) j->rows *= j->lead[k] = shape[k];
  for (int k = 0; k < j->nalong; k++) j->count *= j->along[k] = shape[j->nlead + k];
}

/* As reduce.c cuts this reduction. Code takes rows whole, and long ones. */
static void find_split(job *j)
{
  cni_reduction r = {.nk = j->rows > 1, .nr = 1, .ksize = {j->rows}, .kin = {j->count}, .rsize = {j->count}, .rin = {1},
                     .outputs = j->rows, .count = j->count};
  cni_split_make(&j->split, &r, CNI_REDUCE_LOAD, CNI_REDUCE_ALIGN);
  if (j->split.pieces > 1 || j->count < CODE_LEAST) j->code = NULL;
}

static void describe(job *j, int i)
{
  const cn_desc *d = cn_desc_of(j->c->in[i]);
  const int compute = cni_compute_dtype((enum cni_compute)j->p->class[i]), ndim = j->nlead + j->nalong;
  input *in = &j->in[i];
  *in = (input){.base = d->data, .load = d->dtype == compute ? NULL : cni_cast_find(d->dtype, compute),
                .elem = cni_dtype_size(d->dtype), .size = register_size(j, i), .same = true};
  for (int k = 0; k < d->ndim; k++) {
    const int at = ndim - d->ndim + k;
    const int64_t by = d->shape[k] == 1 ? 0 : d->strides[k] * (int64_t)in->elem;
    if (at < j->nlead) in->lead.by[at] = by, in->same &= by == 0;
    else in->along.by[at - j->nlead] = by;
  }
  in->same &= j->rows > 1;
  in->whole = d->numel == j->rows * j->count && cni_is_contiguous(d->ndim, d->shape, d->strides);
  in->first = only_first(j->p, i);
}

int cni_pw_rows(const cn_call *c, const cni_program *p, const cni_pw_table *table)
{
  job j = {.c = c, .p = p, .table = table, .reduce = cni_reduce_now(), .code = cni_jit_find_rows(p)};
  bool narrow = true;
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= 0) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "constants of rows are literals");
  for (int i = 0; i < p->nin + p->nconst + p->nstep; i++) narrow &= p->class[i] == CNI_C_F32;
  find_shape(&j);
  if (!j.rows) return CN_OK;
  if (!j.count) return cn_call_fail(c, CN_ERR_VALUE, "rows without elements are not reduced");
  const cni_rows_fn code = j.code;
  find_split(&j);
  const bool is_long = j.count > CNI_ROW_LONGEST && cni_rows_flat(p);
  j.per = j.count < PANEL ? PANEL / j.count : 1;
  if (j.code && j.per > CNI_ROWS_MOST) j.per = CNI_ROWS_MOST;
  if (j.per > j.rows) j.per = j.rows;
  for (int i = 0; i < p->nin; i++) narrow &= cni_dtype_size(cn_desc_of(c->in[i])->dtype) <= 4;
  j.pitch = ((size_t)(is_long ? PANEL : j.per * j.count) * (narrow ? 4 : 8) + 63) / 64 * 64;
  j.pitch += 320; /* never a multiple of 4096 */
  const size_t bytes = (size_t)p->nin * sizeof *j.in;
  if (!(j.in = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  for (int i = 0; i < p->nin; i++) describe(&j, i);
  const int64_t panel = j.per * j.count, panels = (j.rows + j.per - 1) / j.per;
  j.code = is_long ? code : j.code;
  if (is_long) cni_rows_long(&j);
  else cni_parallel_for(panels, CNI_PW_GRAIN / panel + 1, run_range, &j);
  cni_scratch_free(j.in, bytes);
  return cn_err();
}
