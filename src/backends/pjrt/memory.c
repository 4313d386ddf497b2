/* memory.c: memory without addresses: what cairn holds as one is a name, and here it is known what lies there.
 *
 * Place in the flow: cn_backend's alloc, free and copies; record.c and whole.c read and write tensors through it.
 * Invariants: addresses are never given out twice, and nothing can be read through one; the pieces of a memory are in
 * order and do not overlap; where there is none, nothing was written yet. */
#include <string.h>

#include "program.h"

#define host cni_pjrt_host

/* A part of a value at a part of a memory, in bytes. */
typedef struct piece {
  size_t at, size;
  pjrt_value *value;
  size_t from; /* the value's first byte that lies here */
} piece;

typedef struct memory {
  uintptr_t base;
  size_t size;
  int npieces, cap;
  piece *pieces;
} memory;

enum { APART = 256 };
/* In no process's reach: an access through such an address faults. */
static const uintptr_t FIRST = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 2);

static struct {
  memory **v; /* in the order of their addresses, with NULL for those that are gone */
  size_t n, cap, gone;
  uintptr_t next;
} all;

/* ---- memories ---- */

static void squeeze(void)
{
  size_t n = 0;
  for (size_t i = 0; i < all.n; i++)
    if (all.v[i]) all.v[n++] = all.v[i];
  all.n = n;
  all.gone = 0;
}

void *cni_pjrt_alloc(int index, size_t size, void *stream)
{
  (void)index, (void)stream;
  if (size > SIZE_MAX / 8) return NULL;
  memory *m = host->memory(sizeof *m);
  if (!m) return NULL;
  cni_pjrt_lock();
  if (all.gone > 64 && all.gone > all.n / 2) squeeze();
  int status = cni_pjrt_room((void **)&all.v, &all.cap, all.n + 1, sizeof *all.v);
  if (!status) {
    if (!all.next) all.next = FIRST;
    *m = (memory){.base = all.next, .size = size};
    all.next += (size + 2 * APART - 1) / APART * APART;
    all.v[all.n++] = m;
  } else host->free_memory(m, sizeof *m);
  cni_pjrt_unlock();
  return status ? NULL : (void *)m->base; /* NOLINT: a name */
}

/* The place in `all` of the memory that an address is in; all.n: none. */
static size_t find(uintptr_t at)
{
  size_t low = 0, high = all.n;
  while (low < high) { /* the last one that begins at or before `at`; gaps are stepped over */
    size_t mid = low + (high - low) / 2, k = mid;
    while (k < high && !all.v[k]) k++;
    if (k == high || all.v[k]->base > at) high = mid;
    else low = k + 1;
  }
  while (low > 0 && !all.v[low - 1]) low--;
  memory *m = low ? all.v[low - 1] : NULL;
  return m && at >= m->base && at - m->base <= m->size ? low - 1 : all.n;
}

static memory *memory_at(const void *at)
{
  size_t i = find((uintptr_t)at);
  if (i < all.n) return all.v[i];
  host->fail(CN_ERR_INTERNAL, "pjrt: an address that is of no memory");
  return NULL;
}

static void drop_pieces(memory *m)
{
  for (int i = 0; i < m->npieces; i++) cni_pjrt_value_release(m->pieces[i].value);
  if (m->pieces) host->free_memory(m->pieces, (size_t)m->cap * sizeof *m->pieces);
}

void cni_pjrt_free(int index, void *address, size_t size, void *stream)
{
  (void)index, (void)size, (void)stream;
  if (!address) return;
  cni_pjrt_lock();
  size_t i = find((uintptr_t)address);
  if (i < all.n) {
    memory *m = all.v[i];
    all.v[i] = NULL;
    all.gone++;
    drop_pieces(m);
    host->free_memory(m, sizeof *m);
  }
  cni_pjrt_unlock();
}

void cni_pjrt_memory_exit(void)
{
  for (size_t i = 0; i < all.n; i++) {
    if (!all.v[i]) continue;
    drop_pieces(all.v[i]);
    host->free_memory(all.v[i], sizeof *all.v[i]);
  }
  if (all.v) host->free_memory(all.v, all.cap * sizeof *all.v);
  all.v = NULL;
  all.n = all.cap = all.gone = 0;
}

/* ---- pieces ---- */

/* [at, at + size) of m is the value's bytes from `from` on; pieces that lay there are cut or go. Keeps the value. */
static int put(memory *m, size_t at, size_t size, pjrt_value *v, size_t from)
{
  size_t cap = (size_t)m->cap;
  if (!size) return CN_OK;
  if (at > m->size || size > m->size - at) return host->fail(CN_ERR_INTERNAL, "pjrt: a write beyond a memory's end");
  int status = cni_pjrt_room((void **)&m->pieces, &cap, (size_t)m->npieces + 2, sizeof *m->pieces);
  m->cap = (int)cap;
  if (status) return status;
  int first = 0;
  while (first < m->npieces && m->pieces[first].at + m->pieces[first].size <= at) first++;
  int last = first; /* those from first to last are touched */
  while (last < m->npieces && m->pieces[last].at < at + size) last++;
  piece made[3];
  int n = 0;
  piece head = last > first ? m->pieces[first] : (piece){0}, tail = last > first ? m->pieces[last - 1] : (piece){0};
  if (last > first && head.at < at) {
    made[n] = head;
    made[n].size = at - head.at;
    cni_pjrt_value_keep(made[n++].value);
  }
  made[n++] = (piece){at, size, cni_pjrt_value_keep(v), from};
  if (last > first && tail.at + tail.size > at + size) {
    size_t cut = at + size - tail.at;
    made[n] = (piece){at + size, tail.size - cut, cni_pjrt_value_keep(tail.value), tail.from + cut};
    n++;
  }
  for (int i = first; i < last; i++) cni_pjrt_value_release(m->pieces[i].value);
  memmove(m->pieces + first + n, m->pieces + last, (size_t)(m->npieces - last) * sizeof *m->pieces);
  memcpy(m->pieces + first, made, (size_t)n * sizeof *made);
  m->npieces += n - (last - first);
  return CN_OK;
}

/* The piece that byte `at` is in; NULL: there is none. */
static const piece *piece_at(const memory *m, size_t at)
{
  for (int i = 0; i < m->npieces; i++)
    if (at >= m->pieces[i].at && at - m->pieces[i].at < m->pieces[i].size) return &m->pieces[i];
  return NULL;
}

int cni_pjrt_write(int index, void *at, pjrt_value *v)
{
  (void)index;
  memory *m = v->bytes ? memory_at(at) : NULL;
  if (!v->bytes) return CN_OK;
  return m ? put(m, (uintptr_t)at - m->base, v->bytes, v, 0) : CN_ERR_INTERNAL;
}

const pjrt_value *cni_pjrt_lies_at(const void *at)
{
  size_t i = find((uintptr_t)at);
  const piece *p = i < all.n ? piece_at(all.v[i], (uintptr_t)at - all.v[i]->base) : NULL;
  return p && !p->from && p->at == (uintptr_t)at - all.v[i]->base ? p->value : NULL;
}

/* ---- reading ---- */

/* Elements [from, from + n) of a value as a list. Owned. */
static pjrt_value *cut(int index, pjrt_value *v, int64_t from, int64_t n)
{
  pjrt_value *flat = cni_pjrt_shaped(index, cni_pjrt_value_keep(v), 1, &v->numel);
  return flat ? cni_pjrt_sliced(index, flat, 0, from, n, 1) : NULL;
}

/* Elements of one piece: [at, at + size) of the memory lies in it. NULL without an error: not as elements of this
 * type. */
static pjrt_value *from_piece(int index, const piece *p, size_t at, size_t size, int dtype)
{
  pjrt_value *v = p->value;
  size_t from = p->from + (at - p->at), elem = cn_element_size(dtype);
  if (v->dtype == CN_DTYPE_NONE && v->bytes % elem == 0) {
    int64_t n = (int64_t)(v->bytes / elem);
    cni_pjrt_value_is(v, dtype, 1, &n);
  }
  if (v->dtype != dtype || from % elem) return NULL;
  return cut(index, v, (int64_t)(from / elem), (int64_t)(size / elem));
}

/* Bytes of a memory, wherever they are kept; zero where nothing was written. */
static int bytes_of(int index, const memory *m, char *to, size_t at, size_t size)
{
  int status = cni_pjrt_flush(index);
  memset(to, 0, size);
  for (int i = 0; i < m->npieces && !status; i++) {
    piece p = m->pieces[i];
    size_t begin = p.at > at ? p.at : at, end = p.at + p.size < at + size ? p.at + p.size : at + size;
    if (begin < end) status = cni_pjrt_value_download(p.value, to + (begin - at), p.from + (begin - p.at), end - begin);
  }
  return status;
}

/* By way of the host: what lies there has another type, or begins in the middle of an element. */
static pjrt_value *by_host(int index, memory *m, size_t at, size_t size, int dtype, int64_t n)
{
  char *bytes = host->memory(size);
  if (!bytes) return NULL;
  host->log(CN_LOG_DEBUG, "pjrt: %zu bytes are read as another type, by way of the host", size);
  int status = bytes_of(index, m, bytes, at, size);
  pjrt_value *v = status ? NULL : cni_pjrt_value_of(index, dtype, 1, &n, bytes, size);
  host->free_memory(bytes, size);
  return v;
}

static pjrt_value *zeros(int index, int dtype, int64_t n)
{
  static const char zero[16];
  pjrt_value *one = cni_pjrt_value_of(index, dtype, 0, NULL, zero, cn_element_size(dtype));
  if (!one) return NULL;
  pjrt_operand in = cni_pjrt_operand(one);
  const cn_value args[] = {cni_pjrt_slot, cn_v_ints(&n, 1)};
  pjrt_value *v = cni_pjrt_op(index, "expand", args, 2, &in, 1, dtype, 1, &n);
  cni_pjrt_value_release(one);
  return v;
}

enum { MOST_PARTS = 256 };

/* Several pieces behind each other. parts: owned by the caller. -1: it has to go by way of the host. */
static int parts_of(int index, const memory *m, size_t at, size_t size, int dtype, pjrt_operand *parts)
{
  size_t elem = cn_element_size(dtype), end = at + size;
  int n = 0;
  while (at < end) {
    const piece *p = piece_at(m, at);
    size_t stop = end;
    for (int i = 0; i < m->npieces && !p; i++)
      if (m->pieces[i].at > at && m->pieces[i].at < stop) stop = m->pieces[i].at;
    if (p && p->at + p->size < stop) stop = p->at + p->size;
    if (n == MOST_PARTS || (stop - at) % elem) return -1;
    pjrt_value *v = p ? from_piece(index, p, at, stop - at, dtype) : zeros(index, dtype, (int64_t)((stop - at) / elem));
    if (!v) return -1;
    parts[n++] = cni_pjrt_operand(v);
    at = stop;
  }
  return n;
}

static pjrt_value *joined(int index, memory *m, size_t at, size_t size, int dtype, int64_t numel)
{
  pjrt_operand parts[MOST_PARTS] = {{NULL, {0}}};
  char message[8];
  int n = parts_of(index, m, at, size, dtype, parts);
  pjrt_value *v = NULL;
  if (n == 1) v = cni_pjrt_value_keep(parts[0].value);
  else if (n > 1) {
    const cn_value args[] = {cn_v_tensors(NULL, (size_t)n), cn_v_int(0)};
    v = cni_pjrt_op(index, "cat", args, 2, parts, n, dtype, 1, &numel);
  }
  for (int i = 0; i < MOST_PARTS && parts[i].value; i++) cni_pjrt_value_release(parts[i].value);
  if (n >= 0) return v;
  host->take_error(message, sizeof message);
  return by_host(index, m, at, size, dtype, numel);
}

pjrt_value *cni_pjrt_read(int index, const void *at, int dtype, int ndim, const int64_t *shape)
{
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= shape[i];
  if (!n) return cni_pjrt_value_of(index, dtype, ndim, shape, NULL, 0);
  size_t size = cn_element_bytes(dtype, n);
  memory *m = memory_at(at);
  if (!m) return NULL;
  size_t begin = (uintptr_t)at - m->base;
  if (size > m->size - begin) {
    host->fail(CN_ERR_INTERNAL, "pjrt: a read beyond a memory's end");
    return NULL;
  }
  const piece *p = piece_at(m, begin);
  if (p && p->at + p->size - begin >= size && p->value->dtype == dtype && p->from == 0 && p->at == begin &&
      p->value->numel == n)
    return cni_pjrt_shaped(index, cni_pjrt_value_keep(p->value), ndim, shape); /* as it is, in most cases */
  if (p && p->value->dtype == CN_DTYPE_NONE && p->at == begin && !p->from && p->value->bytes == size) {
    cni_pjrt_value_is(p->value, dtype, ndim, shape);
    return cni_pjrt_value_keep(p->value);
  }
  pjrt_value *v = joined(index, m, begin, size, dtype, n);
  return v ? cni_pjrt_shaped(index, v, ndim, shape) : NULL;
}

int cni_pjrt_around(const char *first, const char *end, size_t elem, const char **begin, int64_t *count)
{
  memory *m = memory_at(first);
  if (!m) return CN_ERR_INTERNAL;
  size_t here = (uintptr_t)first - m->base, stop = here + (size_t)(end - first), lead = here % elem;
  const piece *p = piece_at(m, here);
  bool inside = p && p->at % elem == lead && p->from % elem == 0 && stop <= p->at + p->size;
  size_t from = inside ? p->at : lead, size = inside ? p->size : m->size - lead;
  *begin = first - (here - from);
  *count = (int64_t)(size / elem);
  return CN_OK;
}

/* ---- copies ---- */

/* The bytes get a type when somebody reads them as one, and go to the device then. */
int cni_pjrt_copy_in(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)stream;
  const int64_t n = (int64_t)size;
  if (!size) return CN_OK;
  pjrt_value *v = cni_pjrt_value_of(index, CN_DTYPE_NONE, 1, &n, from, size);
  if (!v) return CN_ERR_MEMORY;
  cni_pjrt_lock();
  int status = cni_pjrt_write(index, to, v);
  cni_pjrt_value_release(v);
  cni_pjrt_unlock();
  return status;
}

int cni_pjrt_copy_out(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)stream;
  int status = size ? host->waiting() : CN_OK;
  if (!size || status) return status;
  cni_pjrt_lock();
  memory *m = memory_at(from);
  status = m ? bytes_of(index, m, to, (uintptr_t)from - m->base, size) : CN_ERR_INTERNAL;
  cni_pjrt_unlock();
  return status;
}

int cni_pjrt_sync(int index)
{
  cni_pjrt_lock();
  int status = cni_pjrt_flush(index);
  if (!status) status = cni_pjrt_code_wait(index);
  cni_pjrt_unlock();
  return status;
}
