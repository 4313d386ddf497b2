/* depthwise.c: convolutions whose filters see one channel, forward and both gradients, by kernels/depthwise.cu.
 *
 * Place in the flow: asked first by conv.c: such a convolution is as fast as its memory, and of those with a bias cuDNN
 * has slow ways only. A kernel is compiled for a size of filter and its strides. Invariant: tensors are used where they
 * lie, whatever their strides; only filters and biases are made dense. */
#include <string.h>

#include "conv.h"

enum { THREADS = 128, JOIN_THREADS = 1024, WARP = 32 };
enum { MOST_TAPS = 31, MOST_COLUMNS = 32, MOST_STEP = 15, MOST_BACK_STEP = 4, MOST_MANY = 8, MOST_SUMS = 56 };
enum { MOST_REGISTERS = 140, MOST_KEPT = 40, MOST_SHARED = 48 << 10 };
/* Of a multiprocessor: threads that run at a time, and such turns that even out; blocks of sums, and of others. */
enum { RESIDENT = 640, TURNS = 4, SUMS_PER_UNIT = 4, BLOCKS_PER_UNIT = 32, WORTH = 8 };

/* Bits of FORM there. */
enum { BACK = 1, NEXT = 2, MANY = 4, SPREAD = 8, PHASE_BIT = 4, ADDS = 64, GATED = 128 };

/* As in kernels/depthwise.cu. */
typedef struct lay {
  int64_t image, row, column, channel;
} lay;
typedef struct job {
  const void *x, *w, *b, *z;
  void *y;
  void *partial, *gw;
  lay at_x, at_y, at_z;
  int64_t channels, filters, items;
  int32_t in[2], out[2], step[2], shift[2], above, first, units, rows, segments, strips, side, held, many, packs;
  int32_t kernel[2], dilation[2], parts, pieces;
} job;

typedef struct call {
  cni_cuda_device *d;
  const char *name;
  const cni_cuda_conv *v;
  int64_t images;
  int64_t size;          /* bytes of an element */
  int high, wide;        /* taps that a thread has at once */
  int strip, pack, form; /* as there */
  int64_t groups;        /* of channels, a block's each */
  job j;
} call;

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static bool is_weight(const call *k) { return k->v->kind == CNI_CUDA_CONV_WEIGHT; }
static bool is_back(const call *k) { return k->v->kind == CNI_CUDA_CONV_INPUT; }

static lay lay_of(const cn_desc *d)
{
  const int64_t *s = d->strides + (d->ndim == 4);
  return (lay){d->ndim == 4 ? d->strides[0] : 0, s[1], s[2], s[0]};
}

/* ---- what is taken ---- */

static const char *why_not(const cni_cuda_conv *v)
{
  const cn_desc *x = v->x, *w = v->w, *y = v->y;
  int t = x->dtype;
  int64_t channels = x->shape[x->ndim - 3];
  if (v->groups != channels || w->shape[1] != 1) return "filters see more than one channel";
  if ((t != CN_F32 && t != CN_F16 && t != CN_BF16) || w->dtype != t || y->dtype != t || (v->z && v->z->dtype != t))
    return "a type that depthwise kernels do not take";
  if (x->numel == 0 || y->numel == 0 || w->numel == 0) return "an empty tensor";
  if (w->shape[0] > MOST_MANY * channels) return "many filters of few channels";
  for (int i = 0; i < 2; i++) {
    int64_t step = v->kind == CNI_CUDA_CONV_INPUT ? MOST_BACK_STEP : MOST_STEP;
    bool dilated = v->dilation[i] > 1 && w->shape[2 + i] > 1;
    if (v->stride[i] > step) return "strides that depthwise kernels do not take";
    if (v->kind != CNI_CUDA_CONV_WEIGHT && dilated && v->stride[i] > 1) return "dilated filters with strides";
    if (v->kind != CNI_CUDA_CONV_WEIGHT && w->shape[2 + i] > MOST_TAPS) return "filters that registers cannot hold";
    int64_t reach = 2 * v->padding[i] + v->dilation[i] * w->shape[2 + i] + x->shape[x->ndim - 2 + i];
    if (reach > INT32_MAX / 4 || v->stride[i] * w->shape[2 + i] > INT32_MAX / 4) return "an image of too many lines";
  }
  return NULL;
}

/* ---- how it is cut ---- */

/* Where results lie among what they are made of, along a dim; as place_of and tap_of there have it. */
static void read_dim(call *k, int i)
{
  const cni_cuda_conv *v = k->v;
  job *j = &k->j;
  const cn_desc *in = is_back(k) ? v->y : v->x, *out = is_back(k) ? v->x : v->y;
  int32_t stride = (int32_t)v->stride[i], padding = (int32_t)v->padding[i], taps = i ? k->wide : k->high;
  j->kernel[i] = (int32_t)v->w->shape[2 + i];
  j->dilation[i] = j->kernel[i] > 1 ? (int32_t)v->dilation[i] : 1;
  j->in[i] = (int32_t)in->shape[in->ndim - 2 + i];
  j->out[i] = (int32_t)out->shape[out->ndim - 2 + i];
  j->step[i] = stride == 1 ? j->dilation[i] : 1;
  int32_t reach = (taps - 1) / stride * j->step[i], phase = i && is_back(k) ? padding % stride : 0;
  k->form |= phase << PHASE_BIT;
  if (!is_back(k)) j->shift[i] = i ? -padding : reach * stride - padding;
  else j->shift[i] = i ? (padding - phase) / stride - reach : 0;
  if (i) return;
  int32_t lines = j->step[0] * (is_back(k) ? stride : 1);
  j->above = is_back(k) ? padding : 0;
  j->first = j->above / lines;
  j->units = (int32_t)up(j->out[0] + j->above, lines);
}

/* A gradient of a filter is made by parts that registers can hold: of equal size, so that little is done twice. */
static void choose_part(call *k)
{
  const cni_cuda_conv *v = k->v;
  const int64_t *w = v->w->shape + 2;
  k->high = (int)w[0], k->wide = (int)w[1];
  if (!is_weight(k)) return;
  bool apart[2];
  for (int i = 0; i < 2; i++) apart[i] = v->stride[i] > 1 && v->dilation[i] > 1;
  int64_t wide = apart[1] ? 1 : up(w[1], up(w[1], 8)), high = apart[0] ? 1 : most(MOST_SUMS / (wide * k->pack), 1);
  k->wide = (int)wide;
  k->high = (int)(apart[0] ? 1 : up(w[0], up(w[0], high)));
}

static int64_t columns_of(const call *k)
{
  int64_t across = k->v->stride[1], span = (k->wide - 1) / across, phase = k->v->padding[1] % across;
  return is_back(k) ? (k->strip - 1 + phase) / across + span + 1 : (k->strip - 1) * across + k->wide;
}

/* Registers of a thread's numbers, about. */
static int64_t registers_of(const call *k)
{
  int64_t down = k->v->stride[0], columns = columns_of(k), taps = (int64_t)k->high * k->wide * k->pack;
  int64_t live = is_back(k) ? most(k->high, down) : (k->high - 1) / down + 1;
  int64_t lines = is_back(k) ? 1 : least(down, k->high), packed = up(k->pack * k->size, 4);
  int64_t filter = is_weight(k) ? taps + k->strip * packed : taps <= MOST_KEPT ? taps : 2 * k->pack;
  return live * k->strip * k->pack + columns * k->pack + lines * columns * packed + filter;
}

/* May a pack of `n` elements lie at every n-th place of a dim? `along`: that dim has stride 1, the others do not. */
static bool lies_by(const call *k, const cn_desc *d, int64_t n, int along)
{
  if (!d) return true;
  const int64_t *shape = d->shape + (d->ndim - 3), *strides = d->strides + (d->ndim - 3);
  bool fits = (uintptr_t)d->data % ((size_t)n * (size_t)k->size) == 0 && shape[along] % n == 0 && strides[along] == 1;
  for (int i = 0; i < 3 && fits; i++) fits = i == along || shape[i] == 1 || strides[i] % n == 0;
  return fits && (d->ndim == 3 || d->shape[0] == 1 || d->strides[0] % n == 0);
}
static bool packs_of(const call *k, int64_t n)
{
  return !(k->form & (MANY | NEXT)) && lies_by(k, k->v->x, n, 0) && lies_by(k, k->v->y, n, 0) &&
         lies_by(k, k->v->z, n, 0);
}

/* Neighbours among a line's results: so many that they can be written at once, where they lie beside each other. */
static void choose_strip(call *k)
{
  const cn_desc *out = is_back(k) ? k->v->x : k->v->y;
  int64_t across = is_back(k) ? k->v->stride[1] : 1, wide = out->shape[out->ndim - 1];
  k->strip = across == 3 ? 3 : k->high == 1 && !is_weight(k) ? 8 : 4;
  while (k->strip % 2 == 0 && k->strip / 2 % across == 0 && k->strip / 2 >= wide) k->strip /= 2;
  k->j.packs = 0;
  if (!(k->form & NEXT) || (k->form & SPREAD) || is_weight(k) || across == 3) return;
  int64_t strip = least(k->strip, 16 / k->size);
  for (; strip > 1 && strip % across == 0; strip /= 2)
    if (lies_by(k, out, strip, 2)) break;
  k->j.packs = strip > 1 && strip % across == 0;
  if (k->j.packs) k->strip = (int)strip;
  else if (k->strip > 2 && 2 % across == 0) k->strip = 2;
}

/* What a thread has, so that it fits into registers. False: it cannot. */
static bool choose_size(call *k)
{
  int64_t taps = k->v->w->shape[2] * k->v->w->shape[3], across = is_back(k) ? k->v->stride[1] : 1;
  k->pack = k->size == 2 && taps <= 4 && !is_weight(k) ? 4 : 2;
  while (k->pack > 1 && !packs_of(k, k->pack)) k->pack /= 2;
  choose_part(k);
  choose_strip(k);
  while (columns_of(k) > MOST_COLUMNS || registers_of(k) > MOST_REGISTERS) {
    if (k->pack > 1) k->pack /= 2, choose_part(k);
    else if (k->strip % 2 == 0 && k->strip / 2 % across == 0) k->strip /= 2;
    else return false;
  }
  k->j.packs = k->j.packs && k->strip > 1;
  return true;
}

/* Channels of a block: whole lines of memory, in which the threads of a warp are neighbours; of planes as many as their
 * lines leave lanes for. */
static void choose_block(call *k)
{
  job *j = &k->j;
  int64_t taps = (int64_t)k->high * k->wide, packs = up(j->channels, k->pack), across = is_back(k) ? j->many : 1;
  bool kept = taps * k->pack <= MOST_KEPT;
  int64_t side = k->form & NEXT ? WARP / j->strips : (kept ? 128 : 64) / (k->pack * k->size);
  side = least(most(side, 1), WARP);
  side = up(packs, up(packs, side));
  while (side > 1 && side * k->pack * across * taps * 4 > MOST_SHARED) side = up(side, 2);
  k->groups = up(packs, side);
  j->side = (int32_t)side;
  j->held = (int32_t)(side * k->pack * across);
}

/* Lines of a thread: many, since each segment reads some of its neighbours' lines again, but so that there is work for
 * all of the device. */
static void choose_segments(call *k)
{
  job *j = &k->j;
  int64_t units = j->units - j->first, full = (int64_t)k->d->units * RESIDENT;
  j->strips = (int32_t)(j->step[1] * up(up(j->out[1], j->step[1]), k->strip));
  int64_t threads = k->images * j->step[0] * j->strips * up(j->channels, k->pack);
  int64_t segments = most(1, least(up(full * TURNS, threads), units / WORTH));
  if (threads * segments < full) segments = least(units, up(full, threads));
  j->rows = (int32_t)up(units, segments);
  segments = up(units, j->rows) * j->step[0];
  j->segments = (int32_t)segments;
  j->items = k->images * segments * j->strips;
}

static const char *cut(call *k)
{
  const cni_cuda_conv *v = k->v;
  job *j = &k->j;
  const cn_desc *read = is_back(k) ? v->y : v->x, *made = is_back(k) ? v->x : v->y;
  int64_t channels = v->x->shape[v->x->ndim - 3];
  k->size = (int64_t)cn_element_size(v->x->dtype);
  k->images = v->x->ndim == 4 ? v->x->shape[0] : 1;
  j->filters = v->w->shape[0];
  j->many = (int32_t)(j->filters / channels);
  j->channels = is_back(k) ? channels : j->filters;
  j->at_x = lay_of(read), j->at_y = lay_of(made);
  if (v->z) j->at_z = lay_of(v->z);
  bool last = j->at_x.channel == 1 && j->at_y.channel == 1 && channels > 1;
  bool next = j->at_x.column == 1 && j->at_y.column == 1 && (!v->z || j->at_z.column == 1);
  bool spread = v->stride[1] == 1 && v->dilation[1] > 1 && v->w->shape[3] > 1;
  k->form = (is_back(k) ? BACK : 0) | (!last && next ? NEXT : 0) | (j->many > 1 ? MANY : 0) | (spread ? SPREAD : 0) |
            (v->z ? ADDS : 0) | (v->relu ? GATED : 0);
  if (!choose_size(k)) return "filters that registers cannot hold";
  for (int i = 0; i < 2; i++) read_dim(k, i);
  choose_segments(k);
  choose_block(k);
  return NULL;
}

/* ---- launches ---- */

static int launch(const call *k, const char *entry, cni_cuda_grid grid)
{
  const int64_t *stride = k->v->stride;
  cni_cuda_code code = {.file = "depthwise.cu", .entry = entry, .types = {k->v->x->dtype}, .threads = grid.threads,
                        .number = k->high | k->wide << 6 | (int)stride[0] << 12 | (int)stride[1] << 16 |
                                  k->strip << 20 | k->pack << 24,
                        .form = k->form};
  return cni_cuda_run(k->d, k->name, &code, grid, (void *)(uintptr_t)&k->j);
}

/* So many blocks take the items of a group in turn. */
static int64_t blocks_of(const call *k, int64_t groups, int64_t per_unit)
{
  int64_t wanted = up(k->j.items, THREADS / k->j.side), room = most(1, up((int64_t)k->d->units * per_unit, groups));
  return least(least(wanted, room), 65535);
}

static int run_walk(call *k)
{
  cni_cuda_grid grid = {k->groups, blocks_of(k, k->groups, BLOCKS_PER_UNIT), THREADS, 0};
  grid.shared = (size_t)k->j.held * (size_t)(k->high * k->wide) * sizeof(float);
  return launch(k, "depthwise", grid);
}

static int run_weight(call *k)
{
  job *j = &k->j;
  int64_t taps = (int64_t)j->kernel[0] * j->kernel[1];
  j->parts = (int32_t)(up(j->kernel[0], k->high) * up(j->kernel[1], k->wide));
  int64_t groups = k->groups * j->parts;
  j->pieces = (int32_t)blocks_of(k, groups, SUMS_PER_UNIT);
  size_t bytes = (size_t)(j->pieces * taps * j->channels) * sizeof(float);
  j->partial = cni_cuda_scratch(k->d, k->name, bytes);
  if (!j->partial) return CN_ERR_MEMORY;
  int status = launch(k, "depthwise_weight", (cni_cuda_grid){groups, j->pieces, THREADS, 0});
  cni_cuda_grid join = {up(taps * j->channels, WARP), 1, JOIN_THREADS, 0};
  if (!status) status = launch(k, "depthwise_join", join);
  cni_cuda_free(k->d, j->partial, bytes);
  return status;
}

int cni_cuda_depthwise(cn_call *c, const cni_cuda_conv *v)
{
  call k = {.name = cni_cuda_host->op_name(c->op), .v = v};
  cni_cuda_operand w = {0}, b = {0};
  const char *why = why_not(v);
  if (why) return cni_cuda_refuse(c, why);
  if (!(k.d = cni_cuda_of(c))) return CN_ERR_DEVICE;
  if ((why = cut(&k))) return cni_cuda_refuse(c, why);
  int status = is_weight(&k) ? cni_cuda_room(&w, k.d, k.name, v->w, 0) : cni_cuda_take(&w, k.d, k.name, v->w, 0);
  if (!status && v->b) status = cni_cuda_take(&b, k.d, k.name, v->b, v->x->dtype);
  job *j = &k.j;
  j->x = is_back(&k) ? v->y->data : v->x->data;
  j->y = is_back(&k) ? v->x->data : v->y->data;
  j->z = v->z ? v->z->data : NULL;
  j->b = b.data;
  j->w = w.data, j->gw = w.data;
  if (!status) status = is_weight(&k) ? run_weight(&k) : run_walk(&k);
  cni_cuda_drop(&b, k.d);
  if (is_weight(&k)) return cni_cuda_give(&w, k.d, k.name, status);
  cni_cuda_drop(&w, k.d);
  return status;
}
