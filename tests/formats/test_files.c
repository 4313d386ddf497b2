/* test_files.c: loading and saving as a program sees it: mapped tensors, lazy files, sharing, what is refused when
 * writing, failing memory. What other libraries write is test_golden.c's. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>

#include "listing.h"
#include "test.h"

static cn_tree *dict_of(const char *name, cn_tensor *t)
{
  cn_tree *d = cn_tree_dict();
  assert_int_equal(cn_tree_put(d, name, cn_tree_tensor(t)), 0);
  return d;
}

static cn_tensor *tensor_at(const cn_tree *tree, const char *name)
{
  return cn_tree_as_tensor(cn_tree_get(tree, name));
}

/* Saves, loads and compares what is in it. */
static cn_tree *round_trip(const char *name, const cn_tree *tree)
{
  if (cn_save(scratch(name), tree)) fail_msg("%s: %s", name, cn_err_message());
  cn_tree *back = cn_load(scratch(name));
  if (!back) fail_msg("%s: %s", name, cn_err_message());
  char *a = listing(tree), *b = listing(back);
  assert_string_equal(a, b);
  cn_string_free(a);
  cn_string_free(b);
  cn_file_remove(scratch(name));
  return back;
}

/* A tensor of every type that files have. */
static cn_tree *every_type(void)
{
  cn_tree *d = cn_tree_dict();
  cn_scope *s = cn_scope_begin();
  for (int k = CN_U64; k >= CN_BOOL; k--)
    cn_tree_put(d, cn_dtype_name((cn_dtype)k), cn_tree_tensor(cn_cast(cn_arange(0, 5), (cn_dtype)k)));
  for (int k = CN_F16; k <= CN_F8E8M0; k++)
    cn_tree_put(d, cn_dtype_name((cn_dtype)k), cn_tree_tensor(cn_cast(cn_rand(CN_SHAPE(2, 3)), (cn_dtype)k)));
  cn_scope_end(s);
  return d;
}

static void every_type_goes_round(void **state)
{
  (void)state;
  cn_tree *d = every_type(), *npz = cn_tree_dict();
  cn_tree_free(round_trip("types.pt", d));
  cn_save(scratch("types.safetensors"), d);
  cn_tree *back = cn_load(scratch("types.safetensors")); /* in an order of its own */
  assert_int_equal(cn_tree_size(back), cn_tree_size(d));
  cn_tree_free(back);
  cn_file_remove(scratch("types.safetensors"));
  for (size_t i = 0; i < cn_tree_size(d); i++) {
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(d, i));
    bool numpy = cn_dtype_of(t) < CN_F8E4M3 && cn_dtype_of(t) != CN_BF16;
    if (numpy) cn_tree_put(npz, cn_tree_key(d, i, NULL), cn_tree_tensor(t));
  }
  cn_tree_free(round_trip("types.npz", npz));
  cn_tree_free(npz);
  cn_tree_free(d);
}

static cn_tree *nested(void)
{
  cn_tree *d = cn_tree_dict(), *list = cn_tree_list(), *pair = cn_tree_tuple(), *inner = cn_tree_dict();
  cn_scope *s = cn_scope_begin();
  cn_tree_push(pair, cn_tree_float(0.9));
  cn_tree_push(pair, cn_tree_int(-1));
  cn_tree_push(list, pair);
  cn_tree_push(list, cn_tree_none());
  cn_tree_push(list, cn_tree_bool(true));
  cn_tree_push(list, cn_tree_int(INT64_MIN));
  cn_tree_push(list, cn_tree_int(70000));
  cn_tree_push(list, cn_tree_list());
  cn_tree_put(d, "list", list);
  cn_tree_put_index(inner, 0, cn_tree_tensor(cn_rand(CN_SHAPE(3))));
  cn_tree_put_index(inner, -5, cn_tree_str("\xc3\xa4"));
  cn_tree_put(d, "state", inner);
  cn_tree_put(d, "scalar", cn_tree_tensor(cn_full(CN_SCALAR_SHAPE, 1)));
  cn_tree_put(d, "empty", cn_tree_tensor(cn_zeros(CN_SHAPE(2, 0))));
  cn_scope_end(s);
  return d;
}

static void nested_state_goes_round(void **state)
{
  (void)state;
  cn_tree *d = nested();
  cn_tree_free(round_trip("nested.pt", d));
  cn_tree_free(d);
  cn_tree *number = cn_tree_int(4);
  cn_tree_free(round_trip("number.pt", number));
  cn_tree_free(round_trip("number.json", number));
  cn_tree_free(number);
}

static void views_stay_views(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *base = cn_rand(CN_SHAPE(4, 6));
  cn_tree *d = dict_of("base", base);
  cn_tree_put(d, "transposed", cn_tree_tensor(cn_permute(base, CN_SHAPE(1, 0))));
  cn_tree_put(d, "row", cn_tree_tensor(cn_select(base, 0, 2)));
  cn_tree_put(d, "again", cn_tree_tensor(base));
  cn_tree_put(d, "expanded", cn_tree_tensor(cn_expand(cn_ones(CN_SHAPE(1, 3)), CN_SHAPE(5, 3))));
  cn_tree *back = round_trip("views.pt", d);
  cn_tensor *b = tensor_at(back, "base"), *t = tensor_at(back, "transposed"), *r = tensor_at(back, "row");
  assert_ptr_equal(cn_data(b), cn_data(t));
  assert_ptr_equal((char *)cn_data(b) + 12 * sizeof(float), cn_data(r));
  assert_ptr_equal(cn_data(b), cn_data(tensor_at(back, "again")));
  assert_int_equal(cn_strides(t)[1], 6);
  assert_int_equal(cn_strides(tensor_at(back, "expanded"))[0], 0);
  cn_fill_(r, cn_num(7)); /* writing through one is seen through the other */
  assert_true(cn_item(cn_select(cn_select(t, 0, 5), 0, 2)) == 7);
  cn_tree_free(back);
  cn_tree_free(d);
  cn_scope_end(s);
}

static void mapped_tensors_can_be_written_to(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *d = dict_of("x", cn_ones(CN_SHAPE(3000)));
  assert_int_equal(cn_save(scratch("map.safetensors"), d), 0);
  cn_tree *a = cn_load(scratch("map.safetensors")), *b = cn_load(scratch("map.safetensors"));
  cn_tensor *x = cn_keep(tensor_at(a, "x"));
  cn_tree_free(a); /* the tensor keeps the file */
  cn_fill_(x, cn_num(5));
  assert_true(cn_item(cn_sum(x)) == 15000);
  assert_true(cn_item(cn_sum(tensor_at(b, "x"))) == 3000);
  /* The file itself is as it was, also after it was replaced and removed. */
  assert_int_equal(cn_save(scratch("map.safetensors"), d), 0);
  assert_int_equal(cn_file_remove(scratch("map.safetensors")), 0);
  assert_true(cn_item(cn_sum(tensor_at(b, "x"))) == 3000);
  cn_release(x);
  cn_tree_free(b);
  cn_tree_free(d);
  cn_scope_end(s);
}

static void safetensors_are_lazy(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *d = dict_of("b", cn_ones(CN_SHAPE(2, 3))), *note = cn_tree_dict();
  cn_tree_put(d, "a", cn_tree_tensor(cn_arange(0, 4)));
  cn_tree_put(note, "format", cn_tree_str("pt"));
  cn_tree_put(d, "__metadata__", note);
  assert_int_equal(cn_save(scratch("lazy.safetensors"), d), 0);
  cn_safetensors *f = cn_safetensors_open(scratch("lazy.safetensors"));
  assert_non_null(f);
  assert_int_equal(cn_safetensors_count(f), 2);
  assert_non_null(cn_safetensors_name(f, 1));
  assert_null(cn_safetensors_name(f, 2));
  assert_string_equal(cn_safetensors_metadata(f, "format"), "pt");
  assert_null(cn_safetensors_metadata(f, "none"));
  cn_tensor *b = cn_safetensors_get(f, "b");
  assert_int_equal(cn_ndim(b), 2);
  assert_null(cn_safetensors_get(f, "c"));
  assert_non_null(strstr(cn_err_message(), "'c'"));
  cn_err_clear();
  assert_null(cn_safetensors_get(f, "__metadata__"));
  cn_err_clear();
  cn_safetensors_close(f);
  assert_true(cn_item(cn_sum(b)) == 6); /* lives on */
  cn_safetensors_close(NULL);
  assert_int_equal(cn_safetensors_count(NULL), 0);
  cn_file_remove(scratch("lazy.safetensors"));
  cn_tree_free(d);
  cn_scope_end(s);
}

static void one_array(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_permute(cn_rand(CN_SHAPE(3, 2)), CN_SHAPE(1, 0));
  assert_int_equal(cn_save_npy(scratch("a.npy"), t), 0);
  cn_tensor *back = cn_load_npy(scratch("a.npy"));
  assert_true(cn_item(cn_all(cn_eq(t, back))));
  assert_int_equal((uintptr_t)cn_data(back) % 64, 0); /* the header is padded for that */
  assert_null(cn_load_npy(scratch("none.npy")));
  cn_err_clear();
  cn_file_remove(scratch("a.npy"));
  cn_scope_end(s);
}

/* Tensors of another device, and ones that need a gradient, are written like others. */
static void any_tensor_is_written(void **state)
{
  (void)state;
  static const char *const names[] = {"any.safetensors", "any.pt", "any.npz"};
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_permute(cn_rand(CN_SHAPE(3, 2)), CN_SHAPE(1, 0)), *leaf = cn_rand(CN_SHAPE(4));
  cn_device mirror = cn_device_find("mirror");
  cn_err_clear();
  cn_requires_grad(leaf, true);
  cn_tree *d = dict_of("leaf", leaf), *moved = dict_of("leaf", cn_mul(leaf, cn_num(1))); /* with a history */
  cn_tree_put(d, "x", cn_tree_tensor(t));
  cn_tree_put(moved, "x", cn_tree_tensor(mirror ? cn_to_device(t, mirror) : t));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_int_equal(cn_save(scratch(names[i]), moved), 0);
    cn_tree *back = cn_load(scratch(names[i]));
    char *a = listing(d), *b = listing(back);
    assert_string_equal(a, b);
    assert_false(cn_needs_grad(tensor_at(back, "leaf")));
    cn_string_free(a);
    cn_string_free(b);
    cn_tree_free(back);
    cn_file_remove(scratch(names[i]));
  }
  cn_tree_free(moved);
  cn_tree_free(d);
  cn_scope_end(s);
}

/* What a format cannot hold is refused, and leaves no file. */
static void refuses_to_write(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *state_tree = nested(), *half = dict_of("x", cn_cast(cn_ones(CN_SHAPE(2)), CN_BF16));
  cn_tree *tiny = dict_of("x", cn_cast(cn_ones(CN_SHAPE(2)), CN_I4)), *bytes = cn_tree_str_bytes("\xff", 1);
  cn_tree *misnamed = dict_of("\xff", cn_ones(CN_SHAPE(2)));
  struct {
    const char *name;
    const cn_tree *tree;
    int status;
  } cases[] = {
    {"x.safetensors", state_tree, CN_ERR_TYPE},
    {"x.npz", state_tree, CN_ERR_TYPE},
    {"x.npy", state_tree, CN_ERR_TYPE},
    {"x.json", state_tree, CN_ERR_TYPE},
    {"x.npz", half, CN_ERR_DTYPE},
    {"x.safetensors", tiny, CN_ERR_DTYPE},
    {"x.pt", tiny, CN_ERR_DTYPE},
    {"x.pt", bytes, CN_ERR_VALUE},
    {"x.json", bytes, CN_ERR_VALUE},
    {"x.safetensors", misnamed, CN_ERR_VALUE},
    {"x.unknown", half, CN_ERR_VALUE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = cn_save(scratch(cases[i].name), cases[i].tree);
    if (status != cases[i].status) fail_msg("%s: %d %s", cases[i].name, status, cn_err_message());
    cn_err_clear();
    assert_int_equal(cn_path_kind_of(scratch(cases[i].name)), CN_PATH_NONE);
  }
  cn_tree *deep = cn_tree_list();
  for (int i = 0; i < 300; i++) {
    cn_tree *outer = cn_tree_list();
    cn_tree_push(outer, deep);
    deep = outer;
  }
  assert_int_equal(cn_save(scratch("x.pt"), deep), CN_ERR_VALUE);
  cn_err_clear();
  assert_null(cn_load(scratch("absent.pt")));
  assert_int_equal(cn_err(), CN_ERR_IO);
  assert_null(cn_load(scratch("absent.pt"))); /* the first error stays */
  cn_err_clear();
  cn_tree_free(deep), cn_tree_free(bytes), cn_tree_free(tiny), cn_tree_free(half), cn_tree_free(state_tree);
  cn_tree_free(misnamed);
  cn_scope_end(s);
}

/* Pieces of every size in any order come out in that order. */
static void writer_keeps_order(void **state)
{
  (void)state;
  static unsigned char piece[200000];
  cn_writer *w = cn_writer_open(scratch("order"));
  static const size_t sizes[] = {1, 40000, 10, 33000, 30000, 200000, 5, 65536, 32768, 32769, 7};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    memset(piece, (int)i + 1, sizes[i]);
    assert_int_equal(cn_writer_put(w, piece, sizes[i]), 0);
  }
  assert_int_equal(cn_writer_commit(w), 0);
  cn_mapping m;
  assert_int_equal(cn_map_open(&m, scratch("order")), 0);
  for (size_t i = 0, at = 0; i < sizeof sizes / sizeof *sizes; at += sizes[i++]) {
    assert_int_equal(m.data[at], i + 1);
    assert_int_equal(m.data[at + sizes[i] - 1], i + 1);
  }
  cn_map_close(&m);
  cn_file_remove(scratch("order"));
}

/* What a sink got; it fails when it would hold more than `most`. */
typedef struct received {
  unsigned char *bytes;
  size_t n, cap, most;
} received;

static int receive(const void *bytes, size_t size, void *payload)
{
  received *r = payload;
  if (size > r->most - r->n) return cn_err_set(CN_ERR_VALUE, "the sink is full");
  if (cn_grow((void **)&r->bytes, &r->cap, r->n + size, 1)) return CN_ERR_MEMORY;
  memcpy(r->bytes + r->n, bytes, size);
  r->n += size;
  return CN_OK;
}

/* A program's own sink gets the very bytes that a file would have. */
static void writes_to_a_sink(void **state)
{
  (void)state;
  static const cn_format formats[] = {CN_FORMAT_SAFETENSORS, CN_FORMAT_TORCH, CN_FORMAT_NPZ};
  cn_scope *s = cn_scope_begin();
  cn_tree *d = dict_of("x", cn_rand(CN_SHAPE(300, 100)));
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    received r = {.most = SIZE_MAX}, little = {.most = 5000};
    cn_mapping m;
    assert_int_equal(cn_save_to(receive, &r, d, formats[i]), 0);
    assert_int_equal(cn_save_as(scratch("sink"), d, formats[i]), 0);
    assert_int_equal(cn_map_open(&m, scratch("sink")), 0);
    assert_int_equal(m.size, r.n);
    assert_memory_equal(m.data, r.bytes, r.n);
    cn_map_close(&m);
    assert_true(cn_save_to(receive, &little, d, formats[i]) != 0);
    assert_string_equal(cn_err_message(), "the sink is full");
    cn_err_clear();
    cn_free(r.bytes, r.cap);
    cn_free(little.bytes, little.cap);
  }
  assert_int_equal(cn_save_to(NULL, NULL, d, CN_FORMAT_TORCH), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_save_to(receive, NULL, d, CN_FORMAT_AUTO), CN_ERR_VALUE);
  cn_err_clear();
  cn_file_remove(scratch("sink"));
  cn_tree_free(d);
  cn_scope_end(s);
}

/* Every row of the table: what it writes is known by its content, read again, and named by its endings. */
static void knows_formats(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *d = dict_of("x", cn_ones(CN_SHAPE(2))), *t = cn_tree_tensor(cn_ones(CN_SHAPE(2)));
  cn_tree *settings = cn_tree_dict();
  cn_tree_put(settings, "a", cn_tree_int(1));
  const cn_format_info *f;
  size_t n = 0;
  for (; (f = cn_format_at(n)); n++) {
    const cn_tree *tree = f->holds == CN_HOLDS_ARRAY ? t : f->holds == CN_HOLDS_SETTINGS ? settings : d;
    char path[64];
    cn_mapping m;
    snprintf(path, sizeof path, "x%.*s", (int)strcspn(f->endings, " "), f->endings);
    assert_ptr_equal(cn_format_named(path), f);
    assert_int_equal(cn_save_as(scratch("some"), tree, f->format), 0);
    assert_int_equal(cn_map_open(&m, scratch("some")), 0);
    assert_int_equal(cn_format_of(m.data, m.size, NULL), f->format);
    assert_int_equal(cn_format_of(m.data, m.size, "x.json"), f->format); /* the content counts */
    cn_map_close(&m);
    cn_tree *again = cn_load(scratch("some"));
    assert_int_equal(cn_tree_kind_of(again), cn_tree_kind_of(tree));
    assert_int_equal(cn_tree_size(again), cn_tree_size(tree));
    cn_tree_free(again);
    assert_int_equal(cn_err(), 0);
  }
  assert_true(n >= 5);
  assert_null(cn_format_named("x.other"));
  assert_null(cn_format_named(NULL));
  assert_int_equal(cn_save(scratch("x.other"), d), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), ".pth"));
  cn_err_clear();
  cn_tree_free(settings);
  assert_int_equal(cn_format_of("{\"a\": 1}", 8, NULL), CN_FORMAT_JSON);
  assert_int_equal(cn_format_of("", 0, NULL), CN_FORMAT_AUTO);
  assert_int_equal(cn_format_of("hello", 5, "x.pt"), CN_FORMAT_AUTO);
  cn_file_remove(scratch("some"));
  cn_tree_free(d);
  cn_tree_free(t);
  cn_scope_end(s);
}

static void survives_failing_memory(void **state)
{
  (void)state;
  static const char *const names[] = {"fail.safetensors", "fail.pt", "fail.npz"};
  cn_scope *s = cn_scope_begin();
  cn_tree *d = dict_of("a.weight", cn_permute(cn_rand(CN_SHAPE(30, 20)), CN_SHAPE(1, 0)));
  cn_tree_put(d, "b", cn_tree_tensor(cn_arange(0, 9)));
  cn_memory_set_caching(false);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_save(scratch(names[i]), d); /* whatever is made once is made */
    cn_file_remove(scratch(names[i]));
    cn_memory_stats before, after;
    cn_memory_get_stats(&before);
    int status = CN_ERR_MEMORY;
    for (uint64_t k = 1; status && k < 2000; k++) {
      cn_memory_fail_at(k);
      status = cn_save(scratch(names[i]), d);
      cn_memory_fail_at(0);
      assert_int_equal(status, cn_err());
      if (status) assert_int_equal(status, CN_ERR_MEMORY);
      assert_int_equal(cn_path_kind_of(scratch(names[i])), status ? CN_PATH_NONE : CN_PATH_FILE);
      cn_err_clear();
      cn_memory_get_stats(&after);
      assert_int_equal(before.in_use, after.in_use);
    }
    assert_int_equal(status, 0);
    cn_file_remove(scratch(names[i]));
  }
  cn_memory_set_caching(true);
  cn_tree_free(d);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_type_goes_round),
    cmocka_unit_test(nested_state_goes_round),
    cmocka_unit_test(views_stay_views),
    cmocka_unit_test(mapped_tensors_can_be_written_to),
    cmocka_unit_test(safetensors_are_lazy),
    cmocka_unit_test(one_array),
    cmocka_unit_test(any_tensor_is_written),
    cmocka_unit_test(refuses_to_write),
    cmocka_unit_test(writer_keeps_order),
    cmocka_unit_test(writes_to_a_sink),
    cmocka_unit_test(knows_formats),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
