/* index.c: ops that read or write by index.
 *
 * Place in the flow: each describes its call as one walk (kernels/index.cu): the operand that is walked, the one that
 * is indexed, and the numbers. Invariants: folds of small types run in float32 or int64 on a copy, because there the
 * device has atomic additions; where results must repeat, what goes to one place goes there in order. Rows that lie
 * alike in both operands are taken by warps, as many bytes at once as these allow. */
#include <string.h>

#include "plugin.h"

enum { INDICES = CNI_CUDA_INDICES, WIDE_BYTES = 16, WARP = 32 };
/* Elements of a row that are a piece at most, of pieces that a warp takes at a time, and warps that a multiprocessor
 * should have before they take more of them. */
enum { PIECE_MOST = 512, TAKES_MOST = 512, WARPS = 32, MOST_BLOCKS = 1 << 30 };

/* As in kernels/index.cu. */
typedef struct job {
  void *y;
  const void *x;
  int64_t n;
  int32_t ndim, nindex, wraps, skips;
  int64_t skip;
  double scale;
  int64_t iscale;
  cni_cuda_slot fault;
  const int64_t *numbers[INDICES];
  int64_t size[INDICES], step[INDICES];
  int64_t shape[CN_MAX_DIMS], ystride[CN_MAX_DIMS], xstride[CN_MAX_DIMS];
  int64_t istride[INDICES][CN_MAX_DIMS];
  int64_t outer, inner, range; /* in order; range: elements of what is written to */
  int64_t *places;
  const int64_t *order;
  int64_t row, cuts, pieces; /* by rows */
  int32_t piece, takes;
} job;

/* ---- making the walk simple ---- */

static void remove_dim(job *j, int d)
{
  for (int i = d; i + 1 < j->ndim; i++) {
    j->shape[i] = j->shape[i + 1];
    j->ystride[i] = j->ystride[i + 1];
    j->xstride[i] = j->xstride[i + 1];
    for (int k = 0; k < j->nindex; k++) j->istride[k][i] = j->istride[k][i + 1];
  }
  j->ndim--;
}

/* Is dim d - 1 just more of dim d, for every operand? */
static bool runs_on(const job *j, int d)
{
  int64_t n = j->shape[d];
  bool one = j->ystride[d - 1] == j->ystride[d] * n && j->xstride[d - 1] == j->xstride[d] * n;
  for (int k = 0; k < j->nindex; k++) one = one && j->istride[k][d - 1] == j->istride[k][d] * n;
  return one;
}

static void simplify(job *j)
{
  for (int d = j->ndim - 1; d >= 0; d--)
    if (j->shape[d] == 1) remove_dim(j, d);
  for (int d = j->ndim - 1; d > 0; d--)
    if (runs_on(j, d)) {
      j->shape[d - 1] *= j->shape[d];
      j->ystride[d - 1] = j->ystride[d];
      j->xstride[d - 1] = j->xstride[d];
      for (int k = 0; k < j->nindex; k++) j->istride[k][d - 1] = j->istride[k][d];
      remove_dim(j, d);
    }
}

static bool is_indexed(const job *j, int d)
{
  bool any = false;
  for (int k = 0; k < j->nindex; k++) any = any || j->istride[k][d];
  return any;
}

/* Is the last dim a row: neighbours in both operands that have their numbers in common? */
static bool has_row(const job *j)
{
  int last = j->ndim - 1;
  return last >= 0 && j->xstride[last] == 1 && j->ystride[last] == 1 && !is_indexed(j, last);
}

/* Makes `times` elements of a row one, if all rows allow it. */
static bool widen(job *j, int size, int times)
{
  int last = j->ndim - 1;
  if (j->shape[last] % times || ((uintptr_t)j->x | (uintptr_t)j->y) % (uintptr_t)(size * times)) return false;
  bool fits = true;
  for (int d = 0; d < last; d++) fits = fits && j->xstride[d] % times == 0 && j->ystride[d] % times == 0;
  for (int k = 0; k < j->nindex; k++) fits = fits && j->step[k] % times == 0;
  if (!fits) return false;
  for (int d = 0; d < last; d++) j->xstride[d] /= times, j->ystride[d] /= times;
  for (int k = 0; k < j->nindex; k++) j->step[k] /= times;
  j->shape[last] /= times;
  return true;
}

/* The most bytes that can be moved at a time. */
static int widest(job *j, int size)
{
  for (int bytes = WIDE_BYTES; bytes > size && has_row(j); bytes /= 2)
    if (widen(j, size, bytes / size)) return bytes;
  return size;
}

/* How many elements are folded at a time: devices from 9.0 on add four float32 in one instruction. */
static int folded(const cni_cuda_device *d, job *j, int dtype, const char *op)
{
  bool four = d->major >= 9 && dtype == CN_F32 && !strcmp(op, "add_op") && has_row(j) && widen(j, 4, 4);
  return four ? 4 : 1;
}

/* Lets warps take rows, in pieces that are even. False: there are none. */
static bool by_rows(const cni_cuda_device *d, job *j, cni_cuda_grid *grid)
{
  int last = j->ndim - 1;
  if (!has_row(j)) return false;
  j->row = j->shape[last];
  j->cuts = (j->row + PIECE_MOST - 1) / PIECE_MOST;
  j->piece = (int32_t)((j->row + j->cuts - 1) / j->cuts);
  j->pieces = j->n / j->row * j->cuts;
  int64_t takes = TAKES_MOST / j->piece, share = j->pieces / ((int64_t)d->units * WARPS);
  if (takes > share) takes = share;
  j->takes = (int32_t)(takes > WARP ? WARP : takes > 1 ? takes : 1);
  int64_t each = (int64_t)j->takes * (CNI_CUDA_THREADS / WARP), blocks = (j->pieces + each - 1) / each;
  grid->x = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
  remove_dim(j, last);
  return true;
}

static int64_t elements(const job *j)
{
  int64_t n = 1;
  for (int i = 0; i < j->ndim; i++) n *= j->shape[i];
  return n;
}

/* Kernels that do the same to elements, each by itself, and to rows. */
typedef struct entries {
  const char *each, *rows;
} entries;
static const entries reads = {"read_by_index", "read_rows"}, writes = {"write_by_index", "write_rows"},
                     folds = {"fold_by_index", "fold_rows"};

static int launch(cni_cuda_device *d, const char *name, job *j, const entries *of, int dtype, const char *op)
{
  if (elements(j) == 0) return CN_OK;
  simplify(j);
  j->fault = cni_cuda_slot_for(d, name);
  cni_cuda_code code = {.file = "index.cu", .types = {0}, .op = op};
  if (op) code.types[0] = dtype;
  code.number = op ? folded(d, j, dtype, op) : widest(j, (int)cn_element_size(dtype));
  j->n = elements(j);
  cni_cuda_grid grid = cni_cuda_grid_for(d, j->n);
  code.entry = by_rows(d, j, &grid) ? of->rows : of->each;
  return cni_cuda_run(d, name, &code, grid, j);
}

/* ---- in order, where results must repeat ---- */

static void swap_dims(job *j, int a, int b)
{
  job was = *j;
  j->shape[a] = was.shape[b], j->shape[b] = was.shape[a];
  j->ystride[a] = was.ystride[b], j->ystride[b] = was.ystride[a];
  j->xstride[a] = was.xstride[b], j->xstride[b] = was.xstride[a];
  for (int k = 0; k < j->nindex; k++)
    j->istride[k][a] = was.istride[k][b], j->istride[k][b] = was.istride[k][a];
}

/* The dims that numbers depend on first, in their order, so that elements of one place stay in theirs. */
static void indexed_first(job *j)
{
  int first = 0;
  for (int d = 0; d < j->ndim; d++)
    if (is_indexed(j, d)) {
      for (int i = d; i > first; i--) swap_dims(j, i, i - 1);
      first++;
    }
  simplify(j);
  j->outer = j->inner = 1;
  for (int d = 0; d < j->ndim; d++) *(is_indexed(j, d) ? &j->outer : &j->inner) *= j->shape[d];
}

static int write_in_order(cni_cuda_device *d, const char *name, job *j, int dtype, const char *op)
{
  indexed_first(j);
  size_t bytes = (size_t)j->outer * sizeof *j->places;
  int64_t *places = cni_cuda_scratch(d, name, 3 * bytes), *order = places + 2 * j->outer;
  if (!places) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "index.cu", .entry = "list_places", .number = (int)cn_element_size(dtype)};
  j->fault = cni_cuda_slot_for(d, name);
  j->places = places;
  int status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j->outer), j);
  if (!status) status = cni_cuda_order(d, name, places, j->outer, j->range, places + j->outer, order);
  j->places = places + j->outer;
  j->order = order;
  code.entry = op ? "fold_in_order" : "write_in_order";
  if (op) code.op = op, code.types[0] = dtype, code.number = 1;
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j->outer * j->inner), j);
  cni_cuda_free(d, places, 3 * bytes);
  return status;
}

/* Does the order matter in which elements go to one place? op NULL: they are written over each other. */
static bool order_matters(int dtype, const char *op)
{
  bool rounds = dtype == CN_F32 || dtype == CN_F64;
  return !op || (rounds && (!strcmp(op, "add_op") || !strcmp(op, "mul_op")));
}

/* Writes, or folds by op, what is walked. range: elements of what is written to. */
static int launch_write(cni_cuda_device *d, const char *name, job *j, int64_t range, int dtype, const char *op)
{
  j->range = range;
  for (int i = 0; i < j->ndim; i++)
    if (!j->shape[i]) return CN_OK;
  if (cni_cuda_repeats() && order_matters(dtype, op)) return write_in_order(d, name, j, dtype, op);
  return launch(d, name, j, op ? &folds : &writes, dtype, op);
}

/* ---- reading ---- */

/* An operand of index numbers: int64, any strides. */
static int take_numbers(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *index)
{
  if (index->dtype == CN_I64 && index->device != CN_CPU && !index->weak) {
    memset(o, 0, sizeof *o);
    o->desc = index;
    o->dense = *index;
    o->data = index->data;
    return CN_OK;
  }
  return cni_cuda_take(o, d, name, index, CN_I64);
}

/* A walk over y, whose strides are its own; the one indexed dim of x is given. */
static void walk_result(job *j, const cn_desc *y, const cn_desc *x, int dim)
{
  memset(j, 0, sizeof *j);
  j->y = y->data;
  j->x = x->data;
  j->ndim = y->ndim;
  j->nindex = 1;
  j->size[0] = x->ndim ? x->shape[dim] : 1;
  j->step[0] = x->ndim ? x->strides[dim] : 0;
  memcpy(j->shape, y->shape, (size_t)y->ndim * sizeof *j->shape);
  memcpy(j->ystride, y->strides, (size_t)y->ndim * sizeof *j->ystride);
}

/* gather(input, dim, index), index_select(input, dim, index): the index has y's shape, or is a vector along dim. */
static int read_along(cn_call *c, bool spread)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand n;
  job j;
  if (!d) return CN_ERR_DEVICE;
  int dim = cni_cuda_dim(c->args[1].u.i, x->ndim), status = take_numbers(&n, d, name, cn_desc_of(c->in[1]));
  walk_result(&j, y, x, dim);
  for (int i = 0; i < y->ndim && x->ndim; i++) j.xstride[i] = i == dim ? 0 : x->strides[i];
  for (int i = 0; i < y->ndim && n.dense.ndim; i++)
    j.istride[0][i] = !spread ? n.dense.strides[i] : i == dim ? n.dense.strides[0] : 0;
  j.numbers[0] = n.data;
  if (!status) status = launch(d, name, &j, &reads, x->dtype, NULL);
  cni_cuda_drop(&n, d);
  return status;
}
static int gather_kernel(cn_call *c) { return read_along(c, false); }
static int index_select_kernel(cn_call *c) { return read_along(c, true); }

/* embedding(input, weight, padding_idx) */
static int embedding_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand n;
  job j;
  if (!d) return CN_ERR_DEVICE;
  int status = take_numbers(&n, d, name, cn_desc_of(c->in[0]));
  walk_result(&j, y, x, 0);
  memcpy(j.istride[0], n.dense.strides, (size_t)n.dense.ndim * sizeof *j.shape);
  j.xstride[n.dense.ndim] = x->strides[1];
  j.numbers[0] = n.data;
  if (!status) status = launch(d, name, &j, &reads, x->dtype, NULL);
  cni_cuda_drop(&n, d);
  return status;
}

/* ---- several index tensors: index and index_put ---- */

typedef struct many {
  int n, wide, at;                  /* index tensors; dims of them, broadcast; where these stand in what is selected */
  int ndim;                         /* of what is selected */
  int64_t shape[CN_MAX_DIMS];
  int dim[INDICES];                 /* of the input, for each */
  int from[CN_MAX_DIMS];            /* the input's dim that each other dim is */
  cni_cuda_operand numbers[INDICES];
} many;

/* The shape of the indices together. */
static void broadcast_shape(many *m, int64_t *shape)
{
  for (int k = 0; k < m->n; k++)
    if (m->numbers[k].dense.ndim > m->wide) m->wide = m->numbers[k].dense.ndim;
  for (int i = 0; i < m->wide; i++) {
    shape[i] = 1;
    for (int k = 0; k < m->n; k++) {
      const cn_desc *d = &m->numbers[k].dense;
      int own = i - (m->wide - d->ndim);
      if (own >= 0 && d->shape[own] != 1) shape[i] = d->shape[own];
    }
  }
}

/* As ops/index_many.h says: neighbouring indices leave their dims where the first was, others put them in front. */
static void place_dims(many *m, const cn_desc *x)
{
  int64_t shape[CN_MAX_DIMS];
  uint32_t taken = 0;
  for (int k = 0; k < m->n; k++) taken |= 1u << m->dim[k];
  int first = taken ? __builtin_ctz(taken) : 0;
  uint32_t run = taken >> first;
  m->at = (run & (run + 1)) == 0 ? first : 0;
  broadcast_shape(m, shape);
  for (int i = 0; i <= x->ndim; i++) {
    if (m->ndim == m->at)
      for (int k = 0; k < m->wide; k++) m->shape[m->ndim++] = shape[k];
    if (i == x->ndim || taken >> i & 1) continue;
    m->from[m->ndim] = i;
    m->shape[m->ndim++] = x->shape[i];
  }
}

/* Takes the list's tensors. CN_REFUSED, with nothing taken, where it holds a mask or is too long. */
static int many_open(many *m, cn_call *c, cni_cuda_device *d, const cn_desc *x, cn_tensor *const *list, int n)
{
  int status = CN_OK, count = 0;
  memset(m, 0, sizeof *m);
  for (int i = 0; i < n; i++) {
    if (list[i] && cn_desc_of(list[i])->dtype == CN_BOOL) return cni_cuda_refuse(c, "masks are made positions first");
    count += list[i] != NULL;
  }
  if (count > INDICES) return cni_cuda_refuse(c, "more than eight index tensors");
  for (int i = 0; i < n && !status; i++) {
    if (!list[i]) continue;
    m->dim[m->n] = i;
    status = take_numbers(&m->numbers[m->n++], d, cni_cuda_host->op_name(c->op), cn_desc_of(list[i]));
  }
  if (!status) place_dims(m, x);
  return status;
}

static void many_close(many *m, cni_cuda_device *d)
{
  for (int k = 0; k < m->n; k++) cni_cuda_drop(&m->numbers[k], d);
}

/* The walk over what is selected: `indexed` gets the strides of x's other dims. */
static void walk_many(job *j, const many *m, const cn_desc *x, int64_t *indexed)
{
  memset(j, 0, sizeof *j);
  j->ndim = m->ndim;
  j->nindex = m->n;
  j->wraps = 1;
  memcpy(j->shape, m->shape, (size_t)m->ndim * sizeof *j->shape);
  for (int i = 0; i < m->ndim; i++)
    if (i < m->at || i >= m->at + m->wide) indexed[i] = x->strides[m->from[i]];
  for (int k = 0; k < m->n; k++) {
    const cn_desc *d = &m->numbers[k].dense;
    j->numbers[k] = m->numbers[k].data;
    j->size[k] = x->shape[m->dim[k]];
    j->step[k] = x->strides[m->dim[k]];
    for (int i = 0; i < m->wide; i++) {
      int own = i - (m->wide - d->ndim);
      if (own >= 0 && d->shape[own] != 1) j->istride[k][m->at + i] = d->strides[own];
    }
  }
}

static int index_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y;
  cni_cuda_device *d = cni_cuda_of(c);
  many m;
  job j;
  int64_t strides[CN_MAX_DIMS] = {0};
  if (!d) return CN_ERR_DEVICE;
  int status = many_open(&m, c, d, x, c->in + 1, c->nin - 1);
  if (!status) {
    y = cn_desc_of(c->out[0]);
    walk_many(&j, &m, x, strides);
    memcpy(j.xstride, strides, sizeof strides);
    memcpy(j.ystride, y->strides, (size_t)y->ndim * sizeof *strides);
    j.x = x->data;
    j.y = y->data;
    status = launch(d, cni_cuda_host->op_name(c->op), &j, &reads, x->dtype, NULL);
  }
  many_close(&m, d);
  return status;
}

/* ---- writing ---- */

/* In place, an input that is the destination would be read while it is written. */
static bool reads_destination(const cn_call *c)
{
  const void *data = cn_desc_of(c->out[0])->data;
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && cn_desc_of(c->in[i])->data == data && cn_desc_of(c->in[i])->numel) return true;
  return false;
}

/* The type that a fold runs in. */
static int fold_type(int dtype, const char *op) { return op ? cni_cuda_wide(dtype) : dtype; }

static void set_scale(job *j, const cn_value *alpha)
{
  j->scale = !alpha ? 1 : alpha->tag == CN_V_FLOAT ? alpha->u.f : (double)alpha->u.i;
  j->iscale = !alpha ? 1 : alpha->tag == CN_V_FLOAT ? (int64_t)alpha->u.f : alpha->u.i;
}

/* scatter(input, dim, index, src), index_add(input, dim, index, source, alpha) and their kin. spread: the index is a
 * vector along dim; else it has the shape of what is written. op: what is folded; NULL: written over. */
static int write_along(cn_call *c, const char *op, bool spread, const cn_value *alpha)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *src = cn_desc_of(c->in[2]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand n = {0}, s = {0}, to = {0};
  job j;
  if (!d) return CN_ERR_DEVICE;
  if (reads_destination(c)) return cni_cuda_refuse(c, "an input is the destination");
  if (op && !cni_cuda_known(y->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  int dim = cni_cuda_dim(c->args[1].u.i, x->ndim), type = fold_type(y->dtype, op);
  int status = take_numbers(&n, d, name, cn_desc_of(c->in[1]));
  if (!status) status = cni_cuda_take(&s, d, name, src, type);
  if (!status) status = cni_cuda_room_of(&to, d, name, y, type, x);
  memset(&j, 0, sizeof j);
  const cn_desc *walked = spread ? &s.dense : &n.dense;
  bool one = spread && src->ndim == 0; /* one value for all places: index_fill */
  if (one) walked = &to.dense;
  j.ndim = walked->ndim ? walked->ndim : 1;
  j.nindex = 1;
  j.numbers[0] = n.data;
  j.size[0] = x->ndim ? x->shape[dim] : 1;
  j.step[0] = to.dense.ndim ? to.dense.strides[dim] : 0;
  for (int i = 0; i < j.ndim; i++) {
    j.shape[i] = walked->ndim ? walked->shape[i] : 1;
    if (one && i == dim) j.shape[i] = n.dense.numel;
    j.ystride[i] = i == dim || !to.dense.ndim ? 0 : to.dense.strides[i];
    j.xstride[i] = s.dense.ndim ? s.dense.strides[i] : 0;
    j.istride[0][i] = !n.dense.ndim ? 0 : !spread ? n.dense.strides[i] : i == dim ? n.dense.strides[0] : 0;
  }
  j.x = s.data;
  j.y = to.data;
  set_scale(&j, alpha);
  bool any = n.dense.numel && src->numel;
  if (!status && any) status = launch_write(d, name, &j, to.dense.numel, type, op);
  cni_cuda_drop(&n, d);
  cni_cuda_drop(&s, d);
  return cni_cuda_give(&to, d, name, status);
}

static int scatter_kernel(cn_call *c) { return write_along(c, NULL, false, NULL); }
static int scatter_add_kernel(cn_call *c) { return write_along(c, "add_op", false, NULL); }
static int scatter_reduce_self_kernel(cn_call *c)
{
  const char *reduce = c->args[4].u.s;
  const char *op = !strcmp(reduce, "prod") ? "mul_op" : !strcmp(reduce, "amax") ? "max_op" : "min_op";
  return write_along(c, op, false, NULL);
}
static int index_add_kernel(cn_call *c) { return write_along(c, "add_op", true, &c->args[4]); }
static int index_copy_kernel(cn_call *c) { return write_along(c, NULL, true, NULL); }

/* index_put(input, indices, values, accumulate) */
static int index_put_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *values = cn_desc_of(c->in[c->nin - 1]);
  const char *name = cni_cuda_host->op_name(c->op), *op = c->args[3].u.i ? "add_op" : NULL;
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand s = {0}, to = {0};
  int64_t strides[CN_MAX_DIMS] = {0};
  many m;
  job j;
  if (!d) return CN_ERR_DEVICE;
  if (reads_destination(c)) return cni_cuda_refuse(c, "an input is the destination");
  int type = fold_type(y->dtype, op), status = many_open(&m, c, d, x, c->in + 1, c->nin - 2);
  if (status == CN_REFUSED) return status;
  if (!status) status = cni_cuda_take(&s, d, name, values, type);
  if (!status) status = cni_cuda_room_of(&to, d, name, y, type, x);
  if (!status) {
    walk_many(&j, &m, &to.dense, strides);
    memcpy(j.ystride, strides, sizeof strides);
    int lead = m.ndim - values->ndim;
    for (int i = 0; i < m.ndim; i++)
      j.xstride[i] = i < lead || values->shape[i - lead] == 1 ? 0 : s.dense.strides[i - lead];
    j.x = s.data;
    j.y = to.data;
    set_scale(&j, NULL);
    status = launch_write(d, name, &j, to.dense.numel, type, op);
  }
  many_close(&m, d);
  cni_cuda_drop(&s, d);
  return cni_cuda_give(&to, d, name, status);
}

/* embedding_grad(grad, input, num_weights, padding_idx) */
static int embedding_grad_kernel(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand n = {0}, s = {0}, to = {0};
  job j;
  if (!d) return CN_ERR_DEVICE;
  int type = cni_cuda_wide(y->dtype), status = cni_cuda_take(&n, d, name, cn_desc_of(c->in[1]), CN_I64);
  if (!status) status = cni_cuda_take(&s, d, name, g, type);
  if (!status) status = cni_cuda_room(&to, d, name, y, type);
  if (!status) status = cni_cuda_zero(d, to.data, cn_element_bytes(type, y->numel));
  memset(&j, 0, sizeof j);
  j.ndim = 2;
  j.nindex = 1;
  j.numbers[0] = n.data;
  j.size[0] = y->shape[0];
  j.step[0] = y->shape[1];
  j.shape[0] = n.dense.numel;
  j.shape[1] = y->shape[1];
  j.ystride[1] = j.xstride[1] = 1;
  j.xstride[0] = y->shape[1];
  j.istride[0][0] = 1;
  j.x = s.data;
  j.y = to.data;
  j.skips = c->args[3].tag != CN_V_NONE;
  if (j.skips) j.skip = c->args[3].u.i;
  set_scale(&j, NULL);
  if (!status && g->numel) status = launch_write(d, name, &j, to.dense.numel, type, "add_op");
  cni_cuda_drop(&n, d);
  cni_cuda_drop(&s, d);
  return cni_cuda_give(&to, d, name, status);
}

const cn_kernel cni_cuda_index_kernels[] = {
    {"gather", "index.cu", gather_kernel},
    {"index_select", "index.cu", index_select_kernel},
    {"embedding", "index.cu", embedding_kernel},
    {"index", "index.cu", index_kernel},
    {"scatter", "index.cu", scatter_kernel},
    {"scatter_add", "index.cu", scatter_add_kernel},
    {"scatter_reduce_self", "index.cu", scatter_reduce_self_kernel},
    {"index_add", "index.cu", index_add_kernel},
    {"index_copy", "index.cu", index_copy_kernel},
    {"index_fill", "index.cu", index_copy_kernel},
    {"index_put", "index.cu", index_put_kernel},
    {"embedding_grad", "index.cu", embedding_grad_kernel},
    {NULL, NULL, NULL},
};
