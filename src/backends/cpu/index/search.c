/* search.c: binary search in sorted sequences, and the order of rows, on the CPU.
 *
 * Place in the flow: kernels of ops/search.c and ops/unique.c. Operands are brought into row-major memory of the type
 * that they are compared in (float, double, int64 or uint64) unless they are already. Invariant: the order is stable
 * and made by one thread; searches are independent of each other. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

enum { GRAIN = 2048 };

/* ---- operands ---- */

typedef struct packed {
  const void *data;
  void *copy; /* owned; NULL: data is the tensor's own */
  size_t size;
} packed;

static int packed_open(packed *p, const cn_desc *x, int dtype)
{
  *p = (packed){x->data, NULL, 0};
  if (x->dtype == dtype && cni_is_contiguous(x->ndim, x->shape, x->strides)) return CN_OK;
  p->size = cni_dtype_bytes(dtype, x->numel);
  if (!(p->copy = cni_scratch_alloc(p->size))) return CN_ERR_MEMORY;
  cn_desc to = cni_cpu_packed(x, dtype, p->copy);
  cni_cpu_copy(&to, x);
  p->data = p->copy;
  return CN_OK;
}

static void packed_close(packed *p)
{
  cni_scratch_free(p->copy, p->size);
}

/* The type that elements of this one are compared in. */
static int compared_in(int dtype)
{
  if (dtype == CN_F64 || dtype == CN_U64) return dtype;
  return cni_dtype_is_float(dtype) ? CN_F32 : CN_I64;
}

/* ---- searchsorted(sorted_sequence, input, ...) ---- */

typedef struct search {
  const void *sequence, *x;
  const int64_t *sorter; /* NULL: the sequence is sorted itself */
  int64_t n;             /* elements of one sequence */
  int64_t each;          /* elements of x per sequence */
  bool right, narrow;    /* narrow: results are int32 */
  void *out;
} search;

#define SEARCH(S, T)                                                                                              \
  static void search_##S(int64_t begin, int64_t end, void *payload)                                               \
  {                                                                                                               \
    const search *s = payload;                                                                                    \
    for (int64_t i = begin; i < end; i++) {                                                                       \
      int64_t row = i / s->each * s->n, low = 0, high = s->n;                                                     \
      const T *sequence = (const T *)s->sequence + row;                                                           \
      const int64_t *sorter = s->sorter ? s->sorter + row : NULL;                                                 \
      T x = ((const T *)s->x)[i];                                                                                 \
      while (low < high) {                                                                                        \
        int64_t mid = low + (high - low) / 2;                                                                     \
        T v = sequence[sorter ? sorter[mid] : mid];                                                               \
        bool stop = s->right ? v > x : v >= x; /* NaN is larger than all: it never stops the search */            \
        if (stop) high = mid;                                                                                     \
        else low = mid + 1;                                                                                       \
      }                                                                                                           \
      if (s->narrow) ((int32_t *)s->out)[i] = (int32_t)low;                                                       \
      else ((int64_t *)s->out)[i] = low;                                                                          \
    }                                                                                                             \
  }
SEARCH(f32, float)
SEARCH(f64, double)
SEARCH(i64, int64_t)
SEARCH(u64, uint64_t)

static int check_sorter(const cn_call *c, const search *s, int64_t count)
{
  for (int64_t i = 0; s->sorter && i < count; i++)
    if ((uint64_t)s->sorter[i] >= (uint64_t)s->n)
      return cn_call_fail(c, CN_ERR_INDEX, "sorter has the index %lld, but the sequence has %lld elements",
                          (long long)s->sorter[i], (long long)s->n);
  return CN_OK;
}

static void run_search(search *s, int dtype, int64_t count)
{
  void (*loop)(int64_t, int64_t, void *) = dtype == CN_F32   ? search_f32
                                           : dtype == CN_F64 ? search_f64
                                           : dtype == CN_U64 ? search_u64
                                                             : search_i64;
  cni_parallel_for(count, GRAIN, loop, s);
}

static int searchsorted_kernel(cn_call *c)
{
  const cn_desc *sequence = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  packed p = {0}, q = {0}, r = {0};
  int dtype = compared_in(cni_result_type(c, c->in, 2)), status = cn_err();
  if (x->numel == 0) return status;
  bool one = sequence->ndim <= 1;
  search s = {.n = sequence->ndim ? sequence->shape[sequence->ndim - 1] : 1,
              .each = one ? x->numel : x->shape[x->ndim - 1],
              .right = cni_arg_bool(c->args, 3) || cni_arg_is(c->args, 4, "right"),
              .narrow = y->dtype == CN_I32,
              .out = y->data};
  if (!status) status = packed_open(&p, sequence, dtype);
  if (!status) status = packed_open(&q, x, dtype);
  if (!status && c->in[2]) status = packed_open(&r, cn_desc_of(c->in[2]), CN_I64);
  s.sequence = p.data;
  s.x = q.data;
  s.sorter = r.data;
  if (!status) status = check_sorter(c, &s, sequence->numel);
  if (!status) run_search(&s, dtype, x->numel);
  packed_close(&p);
  packed_close(&q);
  packed_close(&r);
  return status;
}

/* ---- lexsort_rows(input) ---- */

typedef struct ordering {
  const void *rows;
  int64_t width;
  bool (*before)(const struct ordering *o, int64_t a, int64_t b); /* strictly */
} ordering;

#define BEFORE(S, T)                                                                                              \
  static bool before_##S(const ordering *o, int64_t a, int64_t b)                                                 \
  {                                                                                                               \
    const T *x = (const T *)o->rows + a * o->width, *y = (const T *)o->rows + b * o->width;                       \
    for (int64_t i = 0; i < o->width; i++) {                                                                      \
      bool x_nan = x[i] != x[i], y_nan = y[i] != y[i];                                                            \
      if (x[i] < y[i] || (y_nan && !x_nan)) return true;                                                          \
      if (y[i] < x[i] || (x_nan && !y_nan)) return false;                                                         \
    }                                                                                                             \
    return false;                                                                                                 \
  }
BEFORE(f32, float)
BEFORE(f64, double)
BEFORE(i64, int64_t)
BEFORE(u64, uint64_t)

static void merge(const ordering *o, int64_t *to, const int64_t *a, int64_t na, const int64_t *b, int64_t nb)
{
  int64_t i = 0, j = 0;
  while (i < na && j < nb) *to++ = o->before(o, b[j], a[i]) ? b[j++] : a[i++];
  memcpy(to, a + i, (size_t)(na - i) * sizeof *a);
  memcpy(to + (na - i), b + j, (size_t)(nb - j) * sizeof *b);
}

/* Sorts the numbers 0..n-1 into out by merging runs of growing size; room: n more. */
static void order_rows(const ordering *o, int64_t *out, int64_t *room, int64_t n)
{
  int64_t *from = out, *to = room;
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = n - i < run ? n - i : run, nb = n - i - na < run ? n - i - na : run;
      merge(o, to + i, from + i, na, from + i + na, nb);
    }
    int64_t *t = from;
    from = to;
    to = t;
  }
  if (from != out) memcpy(out, from, (size_t)n * sizeof *out);
}

static int lexsort_rows_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int dtype = compared_in(x->dtype), status;
  int64_t n = x->shape[0];
  ordering o = {.width = x->shape[1],
                .before = dtype == CN_F32   ? before_f32
                          : dtype == CN_F64 ? before_f64
                          : dtype == CN_U64 ? before_u64
                                            : before_i64};
  packed p;
  if (n == 0) return CN_OK;
  size_t size = (size_t)n * sizeof(int64_t);
  int64_t *room = cni_scratch_alloc(size);
  if (!room) return CN_ERR_MEMORY;
  if (!(status = packed_open(&p, x, dtype))) {
    o.rows = p.data;
    order_rows(&o, cn_desc_of(c->out[0])->data, room, n);
  }
  packed_close(&p);
  cni_scratch_free(room, size);
  return status;
}

const cn_kernel cni_cpu_search_kernels[] = {
    {"searchsorted", "binary search", searchsorted_kernel},
    {"lexsort_rows", "merge sort", lexsort_rows_kernel},
    {NULL, NULL, NULL},
};
