/* rows.c: runs programs with steps along rows (ops/program.h): sums, means and extremes of rows, and formulas that read
 * them beside the row.
 *
 * Place in the flow: cni_cpu_pointwise gives such programs to cni_pw_rows. A panel, as many whole rows as make a block,
 * goes through all steps, or through what the compiler made of them, while it lies in the caches; panels are shared
 * among threads. Invariant: a row is reduced by the loops of reduce.c, in their order, so results are those of the
 * single ops and never depend on panels and threads. */
#include "rows.h"

#include <string.h>

#include "backends/cpu/jit/jit.h"
#include "backends/cpu/reduce/split.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/rows.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { PANEL = CNI_PW_WIDE, SOME = 128, OPERANDS = 3 };
enum { CODE_LEAST = 128 }; /* elements of a row from which code, whose loops are over single rows, is faster */

/* Dims that count rows, or those of a row: an operand's bytes from one element to the next. */
typedef struct steps {
  int64_t by[CN_MAX_DIMS];
} steps;

typedef struct input {
  const char *base;
  cni_cast_fn load;    /* NULL: its type is right as it is */
  size_t elem, size;   /* bytes of an element in memory, and in its register */
  steps lead, along;
  bool whole, same;    /* rows lie dense, one behind the other; or all of them are one */
  bool first;          /* nothing but the first elements of rows is read */
} input;

typedef struct job {
  const cn_call *c;
  const cni_program *p;
  const cni_pw_table *table;
  const cni_reduce_table *reduce;
  cni_rows_fn code;   /* all steps at once, or NULL */
  int nlead, nalong;
  int64_t lead[CN_MAX_DIMS], along[CN_MAX_DIMS]; /* sizes */
  int64_t rows, count, per; /* rows, their length, and how many are a panel */
  cni_split split;    /* what rows are cut into for reductions */
  size_t pitch;       /* bytes of a buffer, which has room for a panel */
  input *in;          /* per input */
} job;

/* The buffers of a thread. */
typedef struct room {
  char *all, *inputs, *consts, *slots, *operands, *results;
  const void **value; /* per register, where it is */
  long long *step;    /* per input, elements from one row to the next */
  bool *held;         /* per input: it is the same for all rows, and there */
  size_t bytes;
} room;

static size_t size_of(enum cni_compute class) { return class == CNI_C_F32 ? 4 : 8; }
static size_t register_size(const job *j, int reg) { return size_of((enum cni_compute)j->p->class[reg]); }

/* ---- operands ---- */

/* n elements of a row, or of what counts rows, from element `at` on. */
static void gather(char *to, const char *from, const steps *s, int ndim, const int64_t *shape, int64_t at, int64_t n,
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

static const char *row_at(const job *j, const input *in, int64_t row)
{
  const char *at = in->base;
  for (int k = j->nlead - 1; k >= 0; row /= j->lead[k--]) at += row % j->lead[k] * in->lead.by[k];
  return at;
}

/* Converts what was gathered, in place: buffers have room for the wider type at `to`. */
static const void *converted(const input *in, char *to, const char *from, int64_t n)
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
    gather(gathered + (size_t)(r * j->count) * in->elem, row_at(j, in, at + r), &in->along, j->nalong, j->along, 0,
           j->count, in->elem);
  return converted(in, to, gathered, rows * j->count);
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
static void load_input(const job *j, const room *m, int i, int64_t at, int64_t rows)
{
  const input *in = &j->in[i];
  char *to = m->inputs + (size_t)i * j->pitch, *raw = m->operands;
  m->step[i] = in->first ? 1 : in->same && j->code ? 0 : j->count;
  if (in->first) {
    char *gathered = in->load ? raw : to;
    gather(gathered, in->base, &in->lead, j->nlead, j->lead, at, rows, in->elem);
    m->value[i] = converted(in, to, gathered, rows);
  } else if (in->same) {
    if (!m->held[i]) m->value[i] = load_same(j, in, to, raw);
    m->held[i] = true;
  } else if (in->whole) {
    m->value[i] = converted(in, to, in->base + (size_t)(at * j->count) * in->elem, rows * j->count);
  } else m->value[i] = load_rows(j, in, at, rows, to, raw);
}

/* ---- results ---- */

/* Result k from row `at` on. */
static char *result_at(const job *j, int k, int64_t at)
{
  const cn_desc *d = cn_desc_of(j->c->out[k]);
  return (char *)d->data + (size_t)(j->p->row[j->p->out[k]] ? at : at * j->count) * cni_dtype_size(d->dtype);
}

static bool is_natural(const job *j, int k)
{
  return cn_desc_of(j->c->out[k])->dtype == cni_compute_dtype((enum cni_compute)j->p->class[j->p->out[k]]);
}

/* ---- steps over a panel ---- */

static enum cni_reduce_kind kind_of(int prim)
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

static void reduce(const job *j, const cni_step *s, void *y, const char *x, int64_t rows)
{
  cni_wide w[SOME];
  const cni_reduce_loops *f = &j->reduce->loops[s->class][kind_of(s->prim)];
  const size_t size = size_of((enum cni_compute)s->class), row = (size_t)j->count * size;
  for (int64_t done = 0; done < rows; done += SOME) {
    int64_t n = rows - done < SOME ? rows - done : SOME;
    reduce_rows(j, f, w, x + (size_t)done * row, size, n);
    for (int64_t i = 0; i < n; i++) {
      double value = s->prim == CNI_PW_row_mean ? w[i].f / (double)j->count : w[i].f;
      if (s->class == CNI_C_F32) ((float *)y)[done + i] = (float)value;
      else ((double *)y)[done + i] = value;
    }
  }
}

static void take_first(const room *m, const cni_step *s, char *y, int64_t rows)
{
  const size_t size = size_of((enum cni_compute)s->class);
  const char *x = m->value[s->arg[0]];
  for (int64_t r = 0; r < rows; r++) memcpy(y + (size_t)r * size, x + (size_t)(r * m->step[s->arg[0]]) * size, size);
}

static void convert(const cni_program *p, const cni_step *s, char *y, const char *x, int64_t n)
{
  const size_t from = size_of((enum cni_compute)p->class[s->arg[0]]), to = size_of((enum cni_compute)s->class);
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
static int run_formula(const job *j, const room *m, const cni_step *s, bool is_row, void *y, int64_t rows)
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
      if (p->out[k] == first + i && is_natural(j, k)) y = result_at(j, k, at);
    int status = CN_OK;
    if (s->prim == CNI_PW_row_first) take_first(m, s, y, rows);
    else if (cni_step_is_row(s)) reduce(j, s, y, m->value[s->arg[0]], rows);
    else status = run_formula(j, m, s, p->row[first + i], y, rows);
    if (status) return status;
    m->value[first + i] = y;
  }
  return CN_OK;
}

/* ---- what is done with a panel ---- */

static void store(const job *j, int k, int64_t at, int64_t rows, const void *value)
{
  const int reg = j->p->out[k], compute = cni_compute_dtype((enum cni_compute)j->p->class[reg]);
  const size_t n = (size_t)(j->p->row[reg] ? rows : rows * j->count);
  char *to = result_at(j, k, at);
  if (to == value) return;
  if (is_natural(j, k)) memcpy(to, value, n * register_size(j, reg));
  else cni_cast_find(compute, cn_desc_of(j->c->out[k])->dtype)(to, value, n);
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
    y[k] = is_natural(j, k) ? result_at(j, k, at) : m->results + (size_t)k * j->pitch;
  const cni_rows_call call = {y, m->value, m->step, m->slots, (long long)j->pitch, folds, rows, j->count};
  int fault = j->code(&call);
  if (fault) return cni_pw_division_fault(j->c, &j->p->steps[fault - 1]);
  for (int k = 0; k < j->p->nout; k++)
    if (!is_natural(j, k)) store(j, k, at, rows, y[k]);
  return CN_OK;
}

static int run_panel(const job *j, const room *m, int64_t at, int64_t rows)
{
  const cni_program *p = j->p;
  for (int i = 0; i < p->nin; i++) load_input(j, m, i, at, rows);
  if (j->code) return run_code(j, m, at, rows);
  int status = run_steps(j, m, at, rows);
  for (int k = 0; k < p->nout && !status; k++) store(j, k, at, rows, m->value[p->out[k]]);
  return status;
}

/* ---- the whole ---- */

static bool open_room(room *m, const job *j)
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
  memset(m->held, 0, nin * sizeof *m->held);
  for (size_t i = 0; i < nconst; i++) {
    char *to = m->consts + i * j->pitch;
    m->value[nin + i] = to;
    cni_pw_splat(to, cni_compute_dtype((enum cni_compute)p->class[nin + i]), p->consts[i].value, j->per * j->count);
  }
  return true;
}

/* Panels [begin, end). */
static void run_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  room m;
  int status = open_room(&m, j) ? CN_OK : CN_ERR_MEMORY;
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
  find_split(&j);
  j.per = j.count < PANEL ? PANEL / j.count : 1;
  if (j.code && j.per > CNI_ROWS_MOST) j.per = CNI_ROWS_MOST;
  if (j.per > j.rows) j.per = j.rows;
  for (int i = 0; i < p->nin; i++) narrow &= cni_dtype_size(cn_desc_of(c->in[i])->dtype) <= 4;
  j.pitch = ((size_t)(j.per * j.count) * (narrow ? 4 : 8) + 63) / 64 * 64 + 320; /* never a multiple of 4096 */
  const size_t bytes = (size_t)p->nin * sizeof *j.in;
  if (!(j.in = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  for (int i = 0; i < p->nin; i++) describe(&j, i);
  const int64_t panel = j.per * j.count, panels = (j.rows + j.per - 1) / j.per;
  cni_parallel_for(panels, CNI_PW_GRAIN / panel + 1, run_range, &j);
  cni_scratch_free(j.in, bytes);
  return cn_err();
}
