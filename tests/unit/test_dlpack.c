/* test_dlpack.c: DLPack in and out: layout, sharing, ownership, and everything that must be refused. */
#include "test.h"

#include <cairn/autograd.h>
#include <cairn/kw.h>

/* The published structs, written down a second time so that a slip in dlpack.c shows. */
typedef struct {
  void *data;
  struct {
    int32_t device_type, device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

static int deleted;
static void count_plain(DLManagedTensor *self) { (void)self, deleted++; }
static void count_versioned(DLManagedTensorVersioned *self) { (void)self, deleted++; }

static float numbers[] = {0, 1, 2, 3, 4, 5};
static int64_t shape_2_3[] = {2, 3};

/* A (2, 3) float32 tensor over `numbers`, without strides. */
static DLTensor sample(void)
{
  DLTensor t = {0};
  t.data = numbers;
  t.device.device_type = 1;
  t.ndim = 2;
  t.dtype.code = 2;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape_2_3;
  return t;
}

static DLManagedTensor plain(DLTensor t)
{
  DLManagedTensor m = {t, NULL, count_plain};
  deleted = 0;
  return m;
}

static DLManagedTensorVersioned versioned(DLTensor t, uint32_t major, uint64_t flags)
{
  DLManagedTensorVersioned m = {{major, 0}, NULL, count_versioned, flags, t};
  deleted = 0;
  return m;
}

static void in_shares_memory(void **state)
{
  (void)state;
  DLManagedTensor m = plain(sample());
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_from_dlpack(&m);
  assert_non_null(t);
  assert_ptr_equal(cn_data(t), numbers);
  assert_int_equal(cn_dtype_of(t), CN_F32);
  assert_int_equal(cn_size(t, 1), 3);
  assert_true(cn_is_contiguous(t));
  assert_int_equal(deleted, 0);
  cn_scope_end(s);
  assert_int_equal(deleted, 1);
}

static void in_strides_and_offset(void **state)
{
  (void)state;
  int64_t shape[] = {2, 2}, strides[] = {1, 3};
  DLTensor d = sample();
  float out[4], want[] = {1, 4, 2, 5};
  d.shape = shape;
  d.strides = strides;
  d.byte_offset = sizeof(float);
  DLManagedTensorVersioned m = versioned(d, 1, 0);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_to_data(out, sizeof out, cn_from_dlpack_versioned(&m)), 0);
  assert_memory_equal(out, want, sizeof want);
  cn_scope_end(s);
  assert_int_equal(deleted, 1);
}

static void in_copies_what_it_must(void **state)
{
  (void)state;
  int64_t shape[] = {2, 2}, strides[] = {1, 3};
  DLTensor d = sample();
  float out[4], want[] = {0, 3, 1, 4};
  d.shape = shape;
  d.strides = strides;
  DLManagedTensorVersioned read_only = versioned(d, 1, 1);
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_from_dlpack_versioned(&read_only);
  assert_non_null(t);
  assert_int_equal(deleted, 1); /* the copy does not need it any more */
  assert_ptr_not_equal(cn_data(t), numbers);
  assert_int_equal(cn_to_data(out, sizeof out, t), 0);
  assert_memory_equal(out, want, sizeof want);
  char bytes[1 + sizeof numbers];
  memcpy(bytes + 1, numbers, sizeof numbers);
  d = sample();
  d.data = bytes + ((uintptr_t)bytes % 4 == 3 ? 0 : 1); /* not aligned for a float, whatever `bytes` is */
  memmove(d.data, bytes + 1, sizeof numbers - sizeof(float));
  shape[1] = 1;
  d.shape = shape;
  DLManagedTensor crooked = plain(d);
  t = cn_from_dlpack(&crooked);
  assert_non_null(t);
  assert_int_equal(deleted, 1);
  assert_int_equal((uintptr_t)cn_data(t) % sizeof(float), 0);
  cn_scope_end(s);
}

static void in_scalar_and_empty(void **state)
{
  (void)state;
  int64_t shape[] = {0, 3};
  DLTensor d = sample();
  d.ndim = 0;
  d.shape = NULL;
  DLManagedTensor m = plain(d);
  cn_scope *s = cn_scope_begin();
  assert_float_equal(cn_item(cn_from_dlpack(&m)), 0, 0);
  d = sample();
  d.shape = shape;
  d.data = NULL;
  DLManagedTensor empty = plain(d);
  cn_tensor *t = cn_from_dlpack(&empty);
  assert_non_null(t);
  assert_int_equal(cn_numel(t), 0);
  assert_int_equal(cn_ndim(t), 2);
  cn_scope_end(s);
}

static void refuse(DLTensor d, int code)
{
  DLManagedTensor m = plain(d);
  assert_null(cn_from_dlpack(&m));
  assert_int_equal(cn_err(), code);
  assert_int_equal(deleted, 1);
  cn_err_clear();
}

static void in_refuses(void **state)
{
  (void)state;
  int64_t many[17], bad[] = {2, -3}, huge[] = {INT64_MAX, 4};
  int64_t negative[] = {-3, 1}, far[] = {INT64_MAX / 2, 1};
  for (int i = 0; i < 17; i++) many[i] = 1;
  DLTensor d = sample();
  d.dtype.lanes = 4;
  refuse(d, CN_ERR_DTYPE);
  d = sample(), d.dtype.code = 5, d.dtype.bits = 16; /* complex, of two numbers of a byte */
  refuse(d, CN_ERR_DTYPE);
  d = sample(), d.dtype.code = 0, d.dtype.bits = 4; /* two to a byte */
  refuse(d, CN_ERR_DTYPE);
  d = sample(), d.dtype.code = 200;
  refuse(d, CN_ERR_DTYPE);
  d = sample(), d.ndim = 17, d.shape = many;
  refuse(d, CN_ERR_SHAPE);
  d = sample(), d.ndim = -1;
  refuse(d, CN_ERR_SHAPE);
  d = sample(), d.shape = bad;
  refuse(d, CN_ERR_SHAPE);
  d = sample(), d.shape = huge;
  refuse(d, CN_ERR_SHAPE);
  d = sample(), d.shape = NULL;
  refuse(d, CN_ERR_VALUE);
  d = sample(), d.strides = negative;
  refuse(d, CN_ERR_VALUE);
  d = sample(), d.strides = far;
  refuse(d, CN_ERR_SHAPE);
  d = sample(), d.data = NULL;
  refuse(d, CN_ERR_VALUE);
  d = sample(), d.device.device_type = 8; /* a kind that is not known here */
  refuse(d, CN_ERR_DEVICE);
  d = sample(), d.device.device_type = 2, d.device.device_id = 99; /* known, not there */
  refuse(d, CN_ERR_DEVICE);
  assert_null(cn_from_dlpack(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  DLManagedTensor m = plain(sample()); /* an error is pending: taken over all the same */
  assert_null(cn_from_dlpack(&m));
  assert_int_equal(deleted, 1);
  cn_err_clear();
}

static void in_versions(void **state)
{
  (void)state;
  DLManagedTensorVersioned m = versioned(sample(), 2, 0);
  assert_null(cn_from_dlpack_versioned(&m));
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  assert_int_equal(deleted, 1);
  cn_err_clear();
  uint8_t nibbles[] = {0, 1, 7, 8, 15, 3};
  DLTensor d = sample();
  d.data = nibbles;
  d.dtype.code = 0;
  d.dtype.bits = 4;
  DLManagedTensorVersioned padded = versioned(d, 1, 4);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_dtype_of(cn_from_dlpack_versioned(&padded)), CN_I4);
  cn_scope_end(s);
  assert_int_equal(deleted, 1);
}

static void out_and_back(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_from_data(numbers, CN_SHAPE(2, 3), CN_F32);
  void *data = cn_data(t);
  DLManagedTensor *m = cn_to_dlpack(t);
  DLManagedTensorVersioned *v = cn_to_dlpack_versioned(t);
  assert_non_null(m);
  assert_non_null(v);
  cn_scope_end(s); /* the exports keep the memory */
  const DLTensor *both[] = {&m->dl_tensor, &v->dl_tensor};
  for (int i = 0; i < 2; i++) {
    const DLTensor *d = both[i];
    assert_ptr_equal((char *)d->data + d->byte_offset, data);
    assert_int_equal(d->device.device_type, 1);
    assert_int_equal(d->ndim, 2);
    assert_int_equal(d->dtype.code, 2);
    assert_int_equal(d->dtype.bits, 32);
    assert_int_equal(d->dtype.lanes, 1);
    assert_int_equal(d->shape[1], 3);
    assert_int_equal(d->strides[0], 3);
    assert_memory_equal(d->data, numbers, sizeof numbers);
  }
  assert_int_equal(v->version.major, 1);
  assert_int_equal(v->flags, 0);
  s = cn_scope_begin();
  cn_tensor *back = cn_from_dlpack(m);
  assert_ptr_equal(cn_data(back), data);
  cn_scope_end(s);
  v->deleter(v);
}

static size_t in_use(void)
{
  cn_memory_stats stats;
  cn_memory_get_stats(&stats);
  return stats.in_use;
}

/* A tensor may get a history, after it was handed out, that reads the memory it shares: all of it goes all the same. */
static void out_holds_no_history(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  size_t before = 0;
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *t = cn_from_data(numbers, CN_SHAPE(2, 3), CN_F32), *leaf = cn_ones(CN_SHAPE(2, 3));
    cn_tensor *shared = cn_from_dlpack(cn_to_dlpack(t));
    cn_tensor *product = cn_mul(cn_requires_grad(leaf, true), shared); /* saves the shared memory */
    cn_copy_(t, product);
    assert_int_equal(cn_err(), CN_OK);
    cn_scope_end(s);
    if (i == 1) before = in_use(); /* what is made once is made by now */
  }
  assert_int_equal(in_use(), before);
  cn_memory_set_caching(true);
}

static void every_type_survives(void **state)
{
  (void)state;
  static const uint64_t zeros[4];
  for (int i = CN_BOOL; i < CN_DTYPE_COUNT; i++) {
    cn_scope *s = cn_scope_begin();
    void *m = cn_to_dlpack_versioned(cn_from_data(zeros, CN_SHAPE(2), (cn_dtype)i));
    assert_non_null(m);
    assert_int_equal(cn_dtype_of(cn_from_dlpack_versioned(m)), i);
    cn_scope_end(s);
  }
}

static void out_refuses(void **state)
{
  (void)state;
  assert_null(cn_to_dlpack(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  cn_scope *s = cn_scope_begin();
  assert_null(cn_to_dlpack(cn_from_data("\1", CN_SHAPE(1), CN_U4)));
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  cn_tensor *t = cn_from_data("\1", CN_SHAPE(1), CN_U8);
  cn_memory_set_caching(false);
  cn_memory_fail_at(1);
  assert_null(cn_to_dlpack(t));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_memory_fail_at(0);
  cn_memory_set_caching(true);
  cn_err_clear();
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_shares_memory), cmocka_unit_test(in_strides_and_offset),
      cmocka_unit_test(in_copies_what_it_must), cmocka_unit_test(in_scalar_and_empty),
      cmocka_unit_test(in_refuses), cmocka_unit_test(in_versions), cmocka_unit_test(out_and_back),
      cmocka_unit_test(out_holds_no_history), cmocka_unit_test(every_type_survives),
      cmocka_unit_test(out_refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
