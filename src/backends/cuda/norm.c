/* norm.c: layer norm and RMS norm, forward and backward, also with the additions and casts around them.
 *
 * Place in the flow: launches of kernels/norm.cu over rows of normalized_shape. Invariant: weight and bias come in one
 * type; rows are row-major, or copied so; what is added and what results is of the rows' type, or a smaller one. */
#include <string.h>

#include "plugin.h"
#include "rows.h"

enum { PIECES_PER_UNIT = 6, LEAST_ROWS = 32, SUM_THREADS = 128, JOIN_THREADS = 1024, WARP = 32 };
/* Threads that a multiprocessor runs at once, as the bounds there have it: of norm_forward; where packs of a warp's
 * rows are taken apart, and of norm_backward and norm_backward_all; of float64, and where their sums take more
 * registers. */
enum { RESIDENT = 1024, LEAN_RESIDENT = 768, FEW_RESIDENT = 512, LEAST_RESIDENT = 384, LEAN_PACKS = 4 };
/* Packs of a thread of a block; FEW_PACKS: so many leave registers for sums of columns. */
enum { PACKS = 4, FEW_PACKS = 3 };

/* As in kernels/norm.cu. */
typedef struct job {
  const void *x, *g, *w, *b;
  void *y;
  const void *add;
  void *sum, *mean, *rstd, *partial, *gw, *gb;
  int64_t rows, n, piece, pieces;
  double eps;
  int32_t stash, laid, meets, unused;
} job;

/* Bits of FORM there. */
enum { WEIGHT = 2, BIAS = 4, ADDS = 8, LAID = 1 << 10, LEARNS = 1 << 11 };
enum { MOST_LAID = 32 << 10 }; /* bytes of a block's weights in shared memory */
/* Blocks that share rows, a cluster: their threads, the logarithm of how many at most, and where that is in FORM; bytes
 * of what they take to meet: mailboxes of four slots, and for each slot a parcel of every warp. */
enum { SHARING = CNI_CUDA_THREADS, MOST_SHARING = 3, CLUSTER_BIT = 12 };
enum { MEETING = 4 * 8 + 4 * (SHARING / WARP << MOST_SHARING) * 16 };

typedef struct call {
  cni_cuda_device *d;
  const char *name, *kind;
  int x_type, w_type, g_type, y_type;
  bool adds;
} call;

static cni_cuda_code code_of(const call *c, const char *entry)
{
  return (cni_cuda_code){.file = "norm.cu", .entry = entry, .types = {c->x_type, c->w_type, c->g_type, c->y_type},
                         .op = c->kind};
}

/* Rows that a block cannot keep fall to a cluster of blocks, if one can. */
static void share_rows(const call *c, const job *j, cni_cuda_rows *r)
{
  int64_t vector = 16 / (int64_t)cn_element_size(c->x_type), room = j->n + (j->n % vector ? vector - 1 : 0);
  if (r->packs || (r->form & CNI_ROWS_APART) || !c->d->clusters) return;
  for (int bits = 1; bits <= MOST_SHARING; bits++) {
    int64_t each = ((int64_t)SHARING << bits) * vector;
    if (room > PACKS * each) continue;
    r->packs = (int)-((room + each - 1) / each);
    r->form |= bits << CLUSTER_BIT;
    r->grid = (cni_cuda_grid){.x = j->rows << bits, .y = 1, .threads = SHARING, .cluster = 1 << bits};
    return;
  }
}
/* Are rows asked for ahead? Where something is added to rows of 32 bits, enough is under way without; but the blocks of
 * a cluster meet in slots by turns. */
static bool asks(const call *c, const cni_cuda_rows *r)
{
  return !c->adds || cn_element_size(c->x_type) < 4 || r->grid.cluster;
}
static int64_t cluster_of(const cni_cuda_rows *r) { return r->grid.cluster ? r->grid.cluster : 1; }

static cni_cuda_rows plan(const call *c, const job *j, int inputs)
{
  const void *pointers[] = {j->x, j->g, j->w, j->b, j->y, j->add, j->sum};
  cni_cuda_rows r = cni_cuda_rows_plan(j->rows, j->n, c->x_type, c->x_type, inputs, PACKS, pointers, 7);
  /* A pack of weights may be wider than 16 bytes, and then must lie so. */
  size_t wide = cn_element_size(c->w_type) / cn_element_size(c->x_type);
  if (wide > 1)
    for (int i = 2; i < 4; i++)
      if ((uintptr_t)pointers[i] % (16 * wide)) r.form = (r.form & ~CNI_ROWS_EVEN) | CNI_ROWS_APART;
  share_rows(c, j, &r);
  return r;
}

/* Room for a cluster's blocks to meet, of which there are whole clusters. */
static void make_meetings(const call *c, job *j, cni_cuda_rows *r)
{
  j->meets = (int32_t)r->grid.shared;
  if (r->grid.cluster) cni_cuda_rows_beside(r, c->d, MEETING);
  r->grid.x = r->grid.x < cluster_of(r) ? cluster_of(r) : r->grid.x / cluster_of(r) * cluster_of(r);
}

/* Lets rows of the first `inputs` be asked for ahead, or only makes groups few. */
static void take_turns(const call *c, job *j, cni_cuda_rows *r, int inputs, int resident)
{
  int other = r->grid.cluster ? c->x_type : c->g_type; /* whatever is fused, as many clusters have as many pieces */
  size_t bytes = cn_element_bytes(c->x_type, j->n) + (inputs > 1 ? cn_element_bytes(other, j->n) : 0);
  if (asks(c, r) || !r->packs) {
    cni_cuda_rows_ahead(r, c->d, inputs, (int64_t)bytes / cluster_of(r), 16, resident);
    make_meetings(c, j, r);
    return;
  }
  int64_t most = (int64_t)c->d->units * (resident > r->grid.threads ? resident / r->grid.threads : 1);
  if (r->grid.x > most) r->grid.x = most;
}

static bool is_even(const cni_cuda_rows *r) { return r->form & CNI_ROWS_EVEN; }

/* Rows that packs are taken apart for begin alike in a block: there are as many blocks as that takes, and weights are
 * laid out for them in shared memory. */
static void make_alike(const call *c, job *j, cni_cuda_rows *r)
{
  int64_t vector = 16 / (int64_t)cn_element_size(c->x_type), alike = vector * cluster_of(r);
  if (is_even(r) || !r->packs) return;
  int64_t vectors = (j->w != NULL) + (j->b != NULL);
  int64_t bytes = cni_cuda_rows_packs(r) * vector * (int64_t)cn_element_size(c->w_type) * vectors;
  j->laid = (int32_t)r->grid.shared;
  if (bytes && bytes <= MOST_LAID && cni_cuda_rows_beside(r, c->d, bytes)) r->form |= LAID;
  bool few = r->grid.x < c->d->units || r->grid.x < alike;
  r->grid.x = (few ? r->grid.x + alike - 1 : r->grid.x) / alike * alike;
}

static int launch_rows(const call *c, job *j, const char *entry, cni_cuda_rows r)
{
  cni_cuda_code code = code_of(c, entry);
  code.number = r.packs;
  code.threads = r.grid.threads;
  code.form = r.form | (j->w ? WEIGHT : 0) | (j->b ? BIAS : 0) | (c->adds ? ADDS : 0) | (j->gb ? LEARNS : 0);
  j->stash = r.grid.shared != 0;
  return cni_cuda_run(c->d, c->name, &code, r.grid, j);
}

static int64_t row_length(const cn_value *shape)
{
  int64_t n = 1;
  for (int i = 0; i < shape->n; i++) n *= shape->u.is[i];
  return n;
}

/* ---- forward ---- */

/* What an op's call is made of; tensors that are not there are NULL. */
typedef struct forward_call {
  const char *kind;
  const cn_tensor *x, *other, *w, *b;
  const cn_value *shape, *eps;
  cn_tensor *y, *sum, *mean, *rstd;
} forward_call;

static const cn_desc *desc(const cn_tensor *t) { return t ? cn_desc_of(t) : NULL; }
static bool is_wider(const cn_desc *d, const cn_desc *than)
{
  return d && cn_element_size(d->dtype) > cn_element_size(than->dtype);
}

static int launch_forward(const call *k, job *j)
{
  cni_cuda_rows r = plan(k, j, 1);
  int resident = is_even(&r) || r.packs <= 0 ? RESIDENT : LEAN_RESIDENT;
  if (cn_element_size(k->x_type) > 4) resident = FEW_RESIDENT;
  if (asks(k, &r)) take_turns(k, j, &r, k->adds && r.packs ? 2 : 1, resident);
  make_alike(k, j, &r);
  return launch_rows(k, j, "norm_forward", r);
}

static int forward(cn_call *c, const forward_call *f)
{
  const cn_desc *x = desc(f->x), *other = desc(f->other), *w = desc(f->w), *b = desc(f->b), *y = desc(f->y);
  call k = {cni_cuda_of(c), cni_cuda_host->op_name(c->op), f->kind, x->dtype, w ? w->dtype : b ? b->dtype : x->dtype,
            other ? other->dtype : x->dtype, y->dtype, other != NULL};
  cni_cuda_operand ox = {0}, oo = {0}, ow = {0}, ob = {0}, oy = {0}, os = {0};
  job j;
  if (!k.d) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  if (is_wider(other, x) || is_wider(y, x)) return cni_cuda_refuse(c, "types wider than the input's");
  memset(&j, 0, sizeof j);
  j.n = row_length(f->shape);
  j.rows = x->numel / j.n;
  j.eps = f->eps->tag == CN_V_FLOAT ? f->eps->u.f : (double)f->eps->u.i;
  j.mean = f->mean ? cn_desc_of(f->mean)->data : NULL;
  j.rstd = cn_desc_of(f->rstd)->data;
  int status = cni_cuda_take(&ox, k.d, k.name, x, 0);
  if (!status && other) status = cni_cuda_take(&oo, k.d, k.name, other, 0);
  if (!status && w) status = cni_cuda_take(&ow, k.d, k.name, w, 0);
  if (!status && b) status = cni_cuda_take(&ob, k.d, k.name, b, k.w_type);
  if (!status) status = cni_cuda_room(&oy, k.d, k.name, y, 0);
  if (!status && other) status = cni_cuda_room(&os, k.d, k.name, desc(f->sum), 0);
  j.x = ox.data, j.g = oo.data, j.w = ow.data, j.b = ob.data, j.y = oy.data, j.sum = os.data;
  if (!status) status = launch_forward(&k, &j);
  cni_cuda_drop(&ox, k.d);
  cni_cuda_drop(&oo, k.d);
  cni_cuda_drop(&ow, k.d);
  cni_cuda_drop(&ob, k.d);
  if (os.desc) status = cni_cuda_give(&os, k.d, k.name, status);
  return cni_cuda_give(&oy, k.d, k.name, status);
}

/* (input, normalized_shape, weight, bias, eps) -> (output, mean, rstd) */
static int layer_norm_kernel(cn_call *c)
{
  return forward(c, &(forward_call){"layer", c->in[0], NULL, c->in[1], c->in[2], &c->args[1], &c->args[4], c->out[0],
                                    NULL, c->out[1], c->out[2]});
}
/* (input, normalized_shape, weight, eps) -> (output, rstd) */
static int rms_norm_kernel(cn_call *c)
{
  return forward(c, &(forward_call){"rms", c->in[0], NULL, c->in[1], NULL, &c->args[1], &c->args[3], c->out[0], NULL,
                                    NULL, c->out[1]});
}
/* (input, other, normalized_shape, weight, bias, eps, centered, dtype) -> (output, sum, mean, rstd) */
static int add_norm_kernel(cn_call *c)
{
  bool layer = c->args[6].u.i != 0;
  return forward(c, &(forward_call){layer ? "layer" : "rms", c->in[0], c->in[1], c->in[2], c->in[3], &c->args[2],
                                    &c->args[5], c->out[0], c->out[1], layer ? c->out[2] : NULL, c->out[3]});
}

/* ---- backward ---- */

/* Adds up the pieces' sums to the gradients of weight and bias. */
static int join(const call *k, job *j)
{
  cni_cuda_code code = code_of(k, "norm_affine_join");
  code.threads = JOIN_THREADS;
  int kinds = j->gb ? 2 : 1;
  return cni_cuda_run(k->d, k->name, &code, (cni_cuda_grid){(j->n + WARP - 1) / WARP, kinds, JOIN_THREADS, 0}, j);
}

static size_t partial_bytes(const call *k, const job *j)
{
  return (size_t)(j->pieces * 2) * cn_element_bytes(cni_cuda_wide(k->x_type), j->n);
}

/* Gradients of weight and bias alone, in a pass over the rows of their own. */
static int affine(const call *k, job *j)
{
  int64_t width = WARP * (16 / (int64_t)cn_element_size(k->x_type)); /* of a block */
  int64_t columns = (j->n + width - 1) / width, most = j->rows / LEAST_ROWS;
  int64_t wanted = ((int64_t)k->d->units * PIECES_PER_UNIT + columns - 1) / columns;
  j->pieces = wanted < most ? wanted : most > 0 ? most : 1;
  j->piece = (j->rows + j->pieces - 1) / j->pieces;
  j->pieces = (j->rows + j->piece - 1) / j->piece;
  bool even = cn_element_bytes(k->x_type, j->n) % 16 == 0 && ((uintptr_t)j->x | (uintptr_t)j->g) % 16 == 0;
  size_t bytes = partial_bytes(k, j);
  j->partial = cni_cuda_scratch(k->d, k->name, bytes);
  if (!j->partial) return CN_ERR_MEMORY;
  cni_cuda_code code = code_of(k, "norm_affine");
  code.form = even ? CNI_ROWS_EVEN : CNI_ROWS_APART;
  int status = cni_cuda_run(k->d, k->name, &code, (cni_cuda_grid){columns, j->pieces, CNI_CUDA_THREADS, 0}, j);
  if (!status) status = join(k, j);
  cni_cuda_free(k->d, j->partial, bytes);
  return status;
}

/* All three gradients in one pass: few blocks, each of which keeps sums over its rows. */
static int all_at_once(const call *k, job *j, cni_cuda_rows r)
{
  bool lean = is_even(&r) && !k->adds && r.packs <= LEAN_PACKS && !r.grid.cluster;
  bool few = r.packs < 0 && r.packs >= -FEW_PACKS;
  if (r.packs > 0) { /* each warp adds up sums of its own: blocks of 4 */
    r.grid.x = r.grid.x * (r.grid.threads / SUM_THREADS);
    r.grid.threads = SUM_THREADS;
  }
  int resident = few && lean ? LEAN_RESIDENT
                 : few || lean || r.grid.threads > SUM_THREADS ? FEW_RESIDENT
                                                               : LEAST_RESIDENT;
  take_turns(k, j, &r, 2, resident);
  make_alike(k, j, &r);
  j->pieces = r.grid.x / cluster_of(&r);
  size_t bytes = partial_bytes(k, j);
  j->partial = cni_cuda_scratch(k->d, k->name, bytes);
  if (!j->partial) return CN_ERR_MEMORY;
  int status = launch_rows(k, j, "norm_backward_all", r);
  if (!status) status = join(k, j);
  cni_cuda_free(k->d, j->partial, bytes);
  return status;
}

static int launch_backward(const call *k, job *j)
{
  bool sums = j->gw || j->gb;
  int status = CN_OK;
  if (j->y || j->sum) {
    cni_cuda_rows r = plan(k, j, 2);
    if (sums && r.packs) return all_at_once(k, j, r);
    take_turns(k, j, &r, 2, r.packs > 0 ? FEW_RESIDENT : LEAN_RESIDENT);
    make_alike(k, j, &r);
    status = launch_rows(k, j, "norm_backward", r);
  }
  return !status && sums ? affine(k, j) : status;
}

/* What an op's call is made of; tensors that are not there, or not wanted, are NULL. */
typedef struct backward_call {
  const char *kind;
  const cn_tensor *g, *x, *mean, *rstd, *w, *other;
  const cn_value *shape;
  cn_tensor *gx, *low, *gw, *gb;
} backward_call;

static int backward(cn_call *c, const backward_call *f)
{
  enum { X, G, W, MEAN, RSTD, ADD, INPUTS };
  const cn_desc *x = desc(f->x), *low = desc(f->low);
  const cn_desc *in[INPUTS] = {x, desc(f->g), desc(f->w), desc(f->mean), desc(f->rstd), desc(f->other)};
  call k = {cni_cuda_of(c), cni_cuda_host->op_name(c->op), f->kind, x->dtype, in[W] ? in[W]->dtype : x->dtype,
            is_wider(in[G], x) ? x->dtype : in[G]->dtype, low ? low->dtype : x->dtype,
            in[ADD] != NULL};
  cni_cuda_operand o[INPUTS] = {{0}}, os = {0}, ol = {0};
  job j;
  int status = CN_OK;
  if (!k.d) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  if (is_wider(low, x) || (in[ADD] && in[ADD]->dtype != x->dtype)) return cni_cuda_refuse(c, "types of another width");
  memset(&j, 0, sizeof j);
  j.n = row_length(f->shape);
  j.rows = x->numel / j.n;
  for (int i = 0; i < INPUTS && !status; i++)
    if (in[i]) status = cni_cuda_take(&o[i], k.d, k.name, in[i], i == G ? k.g_type : 0);
  if (!status && f->gx) status = cni_cuda_room(&os, k.d, k.name, desc(f->gx), 0);
  if (!status && f->low) status = cni_cuda_room(&ol, k.d, k.name, low, 0);
  j.x = o[X].data, j.g = o[G].data, j.w = o[W].data, j.mean = o[MEAN].data, j.rstd = o[RSTD].data;
  j.add = o[ADD].data, j.sum = os.data, j.y = ol.data;
  j.gw = f->gw ? cn_desc_of(f->gw)->data : NULL;
  j.gb = f->gb ? cn_desc_of(f->gb)->data : NULL;
  if (!status) status = launch_backward(&k, &j);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&o[i], k.d);
  if (os.desc) status = cni_cuda_give(&os, k.d, k.name, status);
  return ol.desc ? cni_cuda_give(&ol, k.d, k.name, status) : status;
}

static cn_tensor *if_wanted(const cn_call *c, const cn_value *mask, int i)
{
  return i < mask->n && mask->u.is[i] ? c->out[i] : NULL;
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, output_mask) -> (grad_input, grad_weight, grad_bias) */
static int layer_norm_backward_kernel(cn_call *c)
{
  const cn_value *mask = &c->args[6];
  return backward(c, &(backward_call){"layer", c->in[0], c->in[1], c->in[2], c->in[3], c->in[4], NULL, &c->args[2],
                                      if_wanted(c, mask, 0), NULL, if_wanted(c, mask, 1), if_wanted(c, mask, 2)});
}
/* The same without mean and grad_bias. */
static int rms_norm_backward_kernel(cn_call *c)
{
  const cn_value *mask = &c->args[5];
  return backward(c, &(backward_call){"rms", c->in[0], c->in[1], NULL, c->in[2], c->in[3], NULL, &c->args[2],
                                      if_wanted(c, mask, 0), NULL, if_wanted(c, mask, 1), NULL});
}
/* (grad_out, input, normalized_shape, mean, rstd, weight, other, output_mask, dtype)
 * -> (grad_input, low, grad_weight, grad_bias) */
static int add_norm_backward_kernel(cn_call *c)
{
  const cn_value *mask = &c->args[7];
  return backward(c, &(backward_call){c->in[2] ? "layer" : "rms", c->in[0], c->in[1], c->in[2], c->in[3], c->in[4],
                                      c->in[5], &c->args[2], if_wanted(c, mask, 0), if_wanted(c, mask, 1),
                                      if_wanted(c, mask, 2), if_wanted(c, mask, 3)});
}

const cn_kernel cni_cuda_norm_kernels[] = {
    {"native_layer_norm", "norm.cu", layer_norm_kernel},
    {"native_layer_norm_backward", "norm.cu", layer_norm_backward_kernel},
    {"native_rms_norm", "norm.cu", rms_norm_kernel},
    {"native_rms_norm_backward", "norm.cu", rms_norm_backward_kernel},
    {"add_norm", "norm.cu", add_norm_kernel},
    {"add_norm_backward", "norm.cu", add_norm_backward_kernel},
    {NULL, NULL, NULL},
};
