/* test_gzip.c: gzip files in every form of DEFLATE, made by zlib (golden.py), and damaged ones. */
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>

#include "formats/zip/inflate.h"
#include "test.h"

#define GOLDEN CN_TEST_SOURCE_DIR "/tests/formats/golden/gzip/"
enum { SIZE = 50000 };
static const char *const forms[] = {"stored", "fixed", "dynamic", "huffman", "two", "named"};
enum { FORMS = sizeof forms / sizeof *forms };

static cn_mapping open_form(const char *name)
{
  char path[400];
  cn_mapping m;
  snprintf(path, sizeof path, GOLDEN "%s.gz", name);
  assert_int_equal(cn_map_open(&m, path), 0);
  return m;
}

static void unpacks_every_form(void **state)
{
  (void)state;
  for (size_t f = 0; f < FORMS; f++) {
    cn_mapping m = open_form(forms[f]);
    void *bytes;
    size_t size;
    assert_true(cn_is_gzip(m.data, m.size));
    assert_int_equal(cn_gunzip(&bytes, &size, m.data, m.size), 0);
    assert_int_equal(size, SIZE);
    for (size_t i = 0; i < size; i++) assert_int_equal(((unsigned char *)bytes)[i], (i % 251) ^ (i >> 7 & 0x3f));
    cn_free(bytes, size);
    cn_map_close(&m);
  }
}

/* A file that is cut anywhere is refused; one with a changed byte (in its name, say) gives as many bytes or fails. */
static void refuses_damage(void **state)
{
  (void)state;
  for (size_t f = 0; f < FORMS; f++) {
    cn_mapping m = open_form(forms[f]);
    void *bytes;
    size_t size, step = 1 + m.size / 300;
    for (size_t i = 0; i < m.size; i += step) {
      int status = cn_gunzip(&bytes, &size, m.data, i);
      bool whole_member = !strcmp(forms[f], "two") && !status; /* it may be cut between the two, or in the padding */
      if (!whole_member) assert_int_equal(status, CN_ERR_IO);
      cn_free(bytes, size);
      cn_err_clear();
      m.data[i] ^= 0x10;
      status = cn_gunzip(&bytes, &size, m.data, m.size);
      m.data[i] ^= 0x10;
      if (!status) assert_int_equal(size, SIZE);
      cn_free(bytes, size);
      cn_err_clear();
    }
    cn_map_close(&m);
  }
}

static void keeps_limits(void **state)
{
  (void)state;
  cn_mapping m = open_form("dynamic");
  cni_bytes out = {0};
  size_t used, head = 10;
  assert_non_null(cni_inflate(&out, SIZE - 1, m.data + head, m.size - head, &used));
  assert_true(out.n < SIZE);
  out.n = 0;
  assert_null(cni_inflate(&out, SIZE, m.data + head, m.size - head, &used));
  assert_int_equal(out.n, SIZE);
  assert_int_equal(used, m.size - head - 8);
  cn_free(out.bytes, out.cap);
  cn_map_close(&m);
}

static void sums(void **state)
{
  (void)state;
  assert_int_equal(cni_crc32(0, "123456789", 9), 0xcbf43926u);
  assert_int_equal(cni_crc32(0, "", 0), 0);
  const char text[] = "the quick brown fox jumps over the lazy dog";
  for (size_t i = 0; i < sizeof text; i++)
    assert_int_equal(cni_crc32(cni_crc32(0, text, i), text + i, sizeof text - i), cni_crc32(0, text, sizeof text));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(unpacks_every_form),
    cmocka_unit_test(refuses_damage),
    cmocka_unit_test(keeps_limits),
    cmocka_unit_test(sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
