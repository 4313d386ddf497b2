/* random.c: random numbers equal to the CPU's: uniform, normal, integers, permutations, bernoulli, poisson, dropout.
 *
 * Place in the flow: launches of kernels/random.cu with the call's Philox key and counter, of a shuffle's swaps by
 * kernels/shuffle.cu. Invariant: element i, in
 * row-major order whatever the memory order, depends on (seed, offset, i) alone. */
#include <math.h>
#include <string.h>

#include "plugin.h"

/* As in kernels/random.cu. */
typedef struct job {
  void *y;
  const void *x;
  void *mask;
  int64_t n, low;
  uint64_t seed, offset, span;
  const uint64_t *random;
  double scale;
  cni_cuda_slot fault;
  int32_t bits, aligned;
  uint32_t kept, single;
} job;

/* Bits of precision of a type that can be drawn; 0 for other types. */
static int precision(int dtype)
{
  return dtype == CN_F16 ? 11 : dtype == CN_BF16 ? 8 : dtype == CN_F32 ? 24 : dtype == CN_F64 ? 53 : 0;
}

/* Elements of 32-bit draws that a thread makes at a time: V in kernels/random.cu. */
static unsigned pack_of(int dtype) { return cn_element_size(dtype) < 4 ? 16 / (unsigned)cn_element_size(dtype) : 4; }

/* x: input in the type of the result, or NULL. draws: elements that a thread makes at a time. */
static int draw(cn_call *c, job *j, const char *entry, const cn_desc *x, unsigned draws)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0}, om = {0};
  if (!d) return CN_ERR_DEVICE;
  if (y->numel == 0) return CN_OK;
  int status = x && !j->single ? cni_cuda_take(&ox, d, name, x, y->dtype) : CN_OK;
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  if (!status && c->nout > 1) status = cni_cuda_room(&om, d, name, cn_desc_of(c->out[1]), 0);
  j->x = ox.data, j->y = oy.data, j->mask = om.data;
  j->n = y->numel;
  j->seed = c->seed;
  j->offset = c->offset;
  if (!j->random) j->random = c->random;
  j->bits = precision(y->dtype);
  j->fault = cni_cuda_slot_for(d, name);
  uintptr_t size = cn_element_size(y->dtype), bytes = draws * size;
  j->aligned = ((uintptr_t)j->x | (uintptr_t)j->y) % bytes == 0 && (uintptr_t)j->mask % draws == 0;
  if (j->single) j->x = x->data;
  cni_cuda_code code = {.file = "random.cu", .entry = entry, .types = {y->dtype}, .exact = true};
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, (j->n + draws - 1) / draws), j);
  cni_cuda_drop(&ox, d);
  if (om.desc) status = cni_cuda_give(&om, d, name, status);
  return cni_cuda_give(&oy, d, name, status);
}

static int floats(cn_call *c, const char *narrow, const char *wide)
{
  job j = {0};
  int dtype = cn_desc_of(c->out[0])->dtype;
  if (!precision(dtype))
    return cni_cuda_host->fail(CN_ERR_DTYPE, "%s: draws float32, float64, float16 or bfloat16",
                               cni_cuda_host->op_name(c->op));
  return draw(c, &j, dtype == CN_F64 ? wide : narrow, NULL, dtype == CN_F64 ? 1 : pack_of(dtype));
}
static int rand_kernel(cn_call *c) { return floats(c, "uniform_32", "uniform_64"); }
static int randn_kernel(cn_call *c) { return floats(c, "normal_32", "normal_64"); }

static bool fits(int64_t value, int dtype)
{
  int bits = precision(dtype), size = (int)cn_element_size(dtype) * 8;
  if (bits) return value <= (int64_t)1 << bits && value >= -((int64_t)1 << bits);
  if (dtype == CN_BOOL) return value == 0 || value == 1;
  bool is_signed = dtype == CN_I8 || dtype == CN_I16 || dtype == CN_I32 || dtype == CN_I64;
  if (size == 64) return true; /* a word holds it, as signed or as unsigned */
  int64_t half = (int64_t)1 << (size - 1);
  return is_signed ? value >= -half && value < half : value >= 0 && value < 2 * half;
}

/* randint(low, high, size, ...) */
static int randint_kernel(cn_call *c)
{
  int64_t low = c->args[0].u.i, high = c->args[1].u.i;
  int dtype = cn_desc_of(c->out[0])->dtype;
  if (!fits(low, dtype) || !fits(high - 1, dtype) || !cni_cuda_known(dtype))
    return cni_cuda_host->fail(CN_ERR_VALUE, "%s: the type does not hold all integers from %lld to %lld",
                               cni_cuda_host->op_name(c->op), (long long)low, (long long)(high - 1));
  job j = {.low = low, .span = (uint64_t)high - (uint64_t)low};
  return draw(c, &j, "integers", NULL, 1);
}

/* ---- permutations ---- */

/* As in kernels/shuffle.cu. */
typedef struct shuffle_job {
  int64_t *order;
  const void *partner;
  void *latest, *any, *another;
  int64_t n;
} shuffle_job;

/* The partners of swaps, who has whom, and what comes of it. room: (4, n) of `type`. */
static int shuffle(cni_cuda_device *d, const char *name, job *draws, int64_t *order, char *room, int type)
{
  size_t each = cn_element_bytes(type, draws->n);
  cni_cuda_grid grid = cni_cuda_grid_for(d, draws->n);
  cni_cuda_code code = {.file = "random.cu", .entry = "partners", .types = {type}, .exact = true};
  shuffle_job j = {order, room, room + each, room + 2 * each, room + 3 * each, draws->n};
  draws->y = room;
  int status = cni_cuda_zero(d, j.latest, 2 * each);
  if (!status) status = cni_cuda_run(d, name, &code, grid, draws);
  code = (cni_cuda_code){.file = "shuffle.cu", .entry = "shuffle_link", .types = {type}};
  if (!status) status = cni_cuda_run(d, name, &code, grid, &j);
  code.entry = "shuffle_resolve";
  return status ? status : cni_cuda_run(d, name, &code, grid, &j);
}

/* randperm(n, ...) */
static int randperm_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand oy;
  int type = y->numel < UINT32_MAX ? CN_U32 : CN_U64;
  size_t bytes = 4 * cn_element_bytes(type, y->numel);
  if (!d) return CN_ERR_DEVICE;
  if (!y->numel) return CN_OK;
  if (!fits(y->numel - 1, y->dtype) || !cni_cuda_known(y->dtype))
    return cni_cuda_host->fail(CN_ERR_VALUE, "%s: the type does not hold all integers up to %lld", name,
                               (long long)(y->numel - 1));
  char *room = cni_cuda_scratch(d, name, bytes);
  if (!room) return CN_ERR_MEMORY;
  job draws = {.n = y->numel, .seed = c->seed, .offset = c->offset, .random = c->random};
  int status = cni_cuda_room(&oy, d, name, y, CN_I64);
  if (!status) status = shuffle(d, name, &draws, oy.data, room, type);
  cni_cuda_free(d, room, bytes);
  return cni_cuda_give(&oy, d, name, status);
}

/* bernoulli(input), poisson(input): the result has the input's type */
static int bernoulli_kernel(cn_call *c)
{
  job j = {0};
  const cn_desc *x = cn_desc_of(c->in[0]);
  if (x->dtype != cn_desc_of(c->out[0])->dtype || !precision(x->dtype))
    return cni_cuda_refuse(c, "probabilities of another type than the result");
  return draw(c, &j, "bernoulli", x, 1);
}
static int poisson_kernel(cn_call *c)
{
  job j = {0};
  const cn_desc *x = cn_desc_of(c->in[0]);
  if (x->dtype != cn_desc_of(c->out[0])->dtype || !precision(x->dtype))
    return cni_cuda_refuse(c, "rates of another type than the result");
  return draw(c, &j, "poisson", x, 1);
}

/* Is it one number, for all places? */
static bool is_single(const cn_desc *x)
{
  for (int i = 0; i < x->ndim; i++)
    if (x->shape[i] > 1 && x->strides[i]) return false;
  return x->device != CN_CPU && !x->weak;
}

/* What dropout keeps, and how that is scaled. p: its argument. */
static void choose(job *j, const cn_value *p)
{
  double keep = 1 - (p->tag == CN_V_FLOAT ? p->u.f : (double)p->u.i);
  j->scale = 1 / keep;
  j->kept = (uint32_t)ceil((double)(float)keep * 0x1p24);
}

/* native_dropout(input, p) -> (output, mask) */
static int dropout_kernel(cn_call *c)
{
  job j = {.single = is_single(cn_desc_of(c->in[0]))};
  choose(&j, &c->args[1]);
  return draw(c, &j, "dropout", cn_desc_of(c->in[0]), pack_of(cn_desc_of(c->out[0])->dtype));
}

/* reserve_draws(size, device) -> (2,) */
static int reserve_kernel(cn_call *c)
{
  job j = {0};
  return draw(c, &j, "reserve", NULL, 1);
}

/* dropped_ones(draws, size, p, dtype) */
static int dropped_ones_kernel(cn_call *c)
{
  const cn_desc *draws = cn_desc_of(c->in[0]);
  job j = {.random = draws->data};
  if (draws->device == CN_CPU || draws->strides[0] != 1) return cni_cuda_refuse(c, "numbers that begin elsewhere");
  choose(&j, &c->args[2]);
  return draw(c, &j, "dropout", NULL, pack_of(cn_desc_of(c->out[0])->dtype));
}

const cn_kernel cni_cuda_random_kernels[] = {
    {"rand", "random.cu", rand_kernel},
    {"rand_like", "random.cu", rand_kernel},
    {"randn", "random.cu", randn_kernel},
    {"randn_like", "random.cu", randn_kernel},
    {"randint", "random.cu", randint_kernel},
    {"randperm", "shuffle.cu", randperm_kernel},
    {"bernoulli", "random.cu", bernoulli_kernel},
    {"poisson", "random.cu", poisson_kernel},
    {"native_dropout", "random.cu", dropout_kernel},
    {"reserve_draws", "random.cu", reserve_kernel},
    {"dropped_ones", "random.cu", dropped_ones_kernel},
    {NULL, NULL, NULL},
};
