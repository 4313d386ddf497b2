/* test_tokenizer.c: tokenizers against what the `tokenizers` library makes of the same texts (tokenizer_golden.py),
 * files that are broken, failing allocations, several threads. test_tokenizer_live.py compares many more texts. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <cairn/io.h>
#include <pthread.h>
#include <stdio.h>

#include "data/tokenizer.h"
#include "data/unicode.h"
#include "test.h"

#define FOLDER CN_TEST_SOURCE_DIR "/tests/data/golden/tokenizer/"

/* ---- golden texts ---- */

static void check_ids(cn_tokenizer *t, const cn_tree *text, const cn_tree *want, bool special)
{
  cn_scope *s = cn_scope_begin();
  const char *bytes = cn_tree_as_str(text, "");
  cn_tensor *ids = cn_tokenizer_encode(t, bytes, cn_tree_str_size(text), special);
  assert_non_null(ids);
  assert_int_equal(cn_dtype_of(ids), CN_I64);
  bool same = cn_numel(ids) == (int64_t)cn_tree_size(want);
  const int64_t *v = cn_data(ids);
  for (size_t i = 0; same && i < cn_tree_size(want); i++) same = v[i] == cn_tree_as_int(cn_tree_at(want, i), -1);
  if (!same) print_message("text: \"%s\"\n", bytes);
  assert_true(same);
  cn_scope_end(s);
}

/* The library reads what comes back as UTF-8 and puts U+FFFD where it is none; such texts are compared elsewhere. */
static void check_text(cn_tokenizer *t, const cn_tree *ids, const cn_tree *want)
{
  int64_t v[4096];
  size_t n = cn_tree_size(ids), size;
  void *bytes;
  assert_true(n < 4096);
  for (size_t i = 0; i < n; i++) v[i] = cn_tree_as_int(cn_tree_at(ids, i), -1);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_tokenizer_decode_bytes(&bytes, &size, t, cn_from_data(v, CN_SHAPE((int64_t)n), CN_I64), true), 0);
  cn_scope_end(s);
  if (!strstr(cn_tree_as_str(want, ""), "\xef\xbf\xbd")) {
    assert_int_equal(size, cn_tree_str_size(want));
    assert_memory_equal(bytes, cn_tree_as_str(want, ""), size);
  }
  cn_free(bytes, size);
}

static void check_file(cn_tokenizer *t, const char *key, const char *path, size_t fewest)
{
  if (!t) print_message("%s: %s\n", key, cn_err_message());
  assert_non_null(t);
  cn_tree *cases = cn_load(path);
  assert_true(cn_tree_size(cases) >= fewest);
  for (size_t i = 0; i < cn_tree_size(cases); i++) {
    const cn_tree *text = cn_tree_get(cn_tree_at(cases, i), "text"), *row = cn_tree_get(cn_tree_at(cases, i), key);
    check_ids(t, text, cn_tree_at(row, 0), false);
    check_ids(t, text, cn_tree_at(row, 1), true);
    check_text(t, cn_tree_at(row, 1), cn_tree_at(row, 2));
  }
  cn_tree_free(cases);
  cn_tokenizer_free(t);
}

static void check_golden(cn_tokenizer *t, const char *key) { check_file(t, key, FOLDER "cases.json", 200); }

static void check_kind(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, FOLDER "%s.json", name);
  check_file(cn_tokenizer_json(path), name, FOLDER "kinds.json", 90);
}

static void unigram_with_a_map_of_characters(void **state)
{
  (void)state;
  check_kind("xlm_roberta");
}

static void unigram_with_normal_forms(void **state)
{
  (void)state;
  check_kind("albert");
}

static void unigram_with_bytes(void **state)
{
  (void)state;
  check_kind("unigram_bytes");
}

static void bpe_of_characters(void **state)
{
  (void)state;
  check_kind("llama2");
  check_kind("clip");
}

static void wordpiece_by_steps(void **state)
{
  (void)state;
  check_kind("electra");
}

static void whole_words(void **state)
{
  (void)state;
  check_kind("words");
}

static void sentencepiece_models(void **state)
{
  (void)state;
  check_file(cn_tokenizer_sentencepiece(FOLDER "mapped.model"), "mapped", FOLDER "kinds.json", 90);
  check_file(cn_tokenizer_sentencepiece(FOLDER "llama.model"), "llama", FOLDER "kinds.json", 90);
}

static void bpe_of_two_files(void **state)
{
  (void)state;
  check_golden(cn_tokenizer_bpe(FOLDER "vocab.json", FOLDER "merges.txt"), "bpe");
}

static void bpe_of_tokenizer_json(void **state)
{
  (void)state;
  check_golden(cn_tokenizer_json(FOLDER "bpe.json"), "added");
}

static void wordpiece_of_vocab(void **state)
{
  (void)state;
  check_golden(cn_tokenizer_wordpiece(FOLDER "vocab.txt", true), "wordpiece");
}

static void wordpiece_of_tokenizer_json(void **state)
{
  (void)state;
  check_golden(cn_tokenizer_json(FOLDER "wordpiece.json"), "wordpiece");
}

/* ---- what each kind promises ---- */

static int64_t first_id(cn_tokenizer *t, const char *text)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *ids = cn_tokenizer_encode(t, text, strlen(text), false);
  int64_t id = cn_numel(ids) ? *(const int64_t *)cn_data(ids) : -1;
  cn_scope_end(s);
  return id;
}

static void tokens_and_numbers(void **state)
{
  (void)state;
  cn_tokenizer *t = cn_tokenizer_wordpiece(FOLDER "vocab.txt", true);
  assert_string_equal(cn_tokenizer_token(t, 0), "[PAD]");
  assert_int_equal(cn_tokenizer_id(t, "[SEP]"), 3);
  assert_int_equal(cn_tokenizer_id(t, "no such token"), -1);
  assert_null(cn_tokenizer_token(t, cn_tokenizer_size(t)));
  assert_null(cn_tokenizer_token(t, -1));
  for (int64_t i = 0; i < cn_tokenizer_size(t); i++) assert_int_equal(cn_tokenizer_id(t, cn_tokenizer_token(t, i)), i);
  cn_tokenizer_free(t);
}

static void bytes_take_all(void **state)
{
  (void)state;
  char all[256];
  for (int i = 0; i < 256; i++) all[i] = (char)i;
  cn_tokenizer *kinds[] = {cn_tokenizer_bytes(), cn_tokenizer_bpe(FOLDER "vocab.json", FOLDER "merges.txt")};
  assert_int_equal(cn_tokenizer_size(kinds[0]), 256);
  assert_int_equal(first_id(kinds[0], "A"), 65);
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    void *bytes;
    size_t size;
    cn_tensor *ids = cn_tokenizer_encode(kinds[i], all, sizeof all, true);
    assert_int_equal(cn_tokenizer_decode_bytes(&bytes, &size, kinds[i], ids, true), 0);
    assert_int_equal(size, 256);
    assert_memory_equal(bytes, all, 256);
    cn_free(bytes, size);
    char *text = cn_tokenizer_decode(kinds[i], cn_tokenizer_encode(kinds[i], "a\0b\0", 4, false), false);
    assert_string_equal(text, "a\xef\xbf\xbd" "b\xef\xbf\xbd");
    cn_string_free(text);
    text = cn_tokenizer_decode(kinds[i], cn_tokenizer_encode(kinds[i], "", 0, false), false);
    assert_string_equal(text, "");
    cn_string_free(text);
    cn_tokenizer_free(kinds[i]);
    cn_scope_end(s);
  }
}

static void chars_of_a_text(void **state)
{
  (void)state;
  static const char text[] = "hello w\xc3\xb6rld\n";
  cn_scope *s = cn_scope_begin();
  cn_tokenizer *t = cn_tokenizer_chars(text, sizeof text - 1);
  assert_int_equal(cn_tokenizer_size(t), 10);
  assert_string_equal(cn_tokenizer_token(t, 0), "\n");
  assert_string_equal(cn_tokenizer_token(t, 9), "\xc3\xb6");
  char *back = cn_tokenizer_decode(t, cn_tokenizer_encode(t, text, sizeof text - 1, true), true);
  assert_string_equal(back, text);
  cn_string_free(back);
  assert_null(cn_tokenizer_encode(t, "hex", 3, false));
  assert_non_null(strstr(cn_err_message(), "U+0078"));
  cn_err_clear();
  cn_tokenizer_free(t);
  assert_null(cn_tokenizer_chars("ab\xff", 3));
  assert_non_null(strstr(cn_err_message(), "byte 2"));
  cn_err_clear();
  cn_scope_end(s);
}

static void wrong_numbers_are_refused(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tokenizer *t = cn_tokenizer_bytes();
  assert_null(cn_tokenizer_decode(t, cn_from_data((int64_t[]){65, 256}, CN_SHAPE(2), CN_I64), false));
  assert_int_equal(cn_err(), CN_ERR_INDEX);
  cn_err_clear();
  assert_null(cn_tokenizer_decode(t, cn_floats((float[]){1}, 1), false));
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  char *text = cn_tokenizer_decode(t, cn_from_data((uint8_t[]){79, 75}, CN_SHAPE(2), CN_U8), false);
  assert_string_equal(text, "OK");
  cn_string_free(text);
  cn_tokenizer_free(t);
  assert_null(cn_tokenizer_encode(NULL, "a", 1, false));
  cn_err_clear();
  assert_int_equal(cn_tokenizer_size(NULL), 0);
  cn_tokenizer_free(NULL);
  cn_scope_end(s);
}

/* A word of a million letters is merged in a moment, not in hours. */
static void long_words(void **state)
{
  (void)state;
  enum { N = 1 << 20 };
  char *text = malloc(N);
  assert_non_null(text);
  for (size_t i = 0; i < N; i++) text[i] = "theyare"[i % 7];
  cn_tokenizer *kinds[] = {cn_tokenizer_bpe(FOLDER "vocab.json", FOLDER "merges.txt"),
                           cn_tokenizer_wordpiece(FOLDER "vocab.txt", true)};
  cn_scope *s = cn_scope_begin();
  void *bytes;
  size_t size;
  cn_tensor *ids = cn_tokenizer_encode(kinds[0], text, N, false);
  assert_true(cn_numel(ids) < N / 2);
  assert_int_equal(cn_tokenizer_decode_bytes(&bytes, &size, kinds[0], ids, false), 0);
  assert_int_equal(size, N);
  assert_memory_equal(bytes, text, N);
  cn_free(bytes, size);
  assert_int_equal(cn_numel(cn_tokenizer_encode(kinds[1], text, N, false)), 1);
  cn_scope_end(s);
  for (int i = 0; i < 2; i++) cn_tokenizer_free(kinds[i]);
  free(text);
}

static void characters(void **state)
{
  (void)state;
  uint32_t base[CNI_BASE_MOST], c;
  assert_int_equal(cni_unicode_lower(0x0130), 0x0130);
  assert_int_equal(cni_unicode_lower(0x00c9), 0x00e9);
  assert_int_equal(cni_unicode_lower(UINT32_MAX), UINT32_MAX);
  assert_int_equal(cni_unicode_class(UINT32_MAX), 0);
  assert_int_equal(cni_unicode_base(base, 0xd55c), 3);
  assert_int_equal(base[2], 0x11ab);
  assert_int_equal(cni_unicode_base(base, 0x301), 0);
  assert_int_equal(cni_unicode_base(base, 0x1ec7), 1);
  assert_int_equal(base[0], 'e');
  for (c = 0; c < 0x110000; c++) {
    char s[4];
    uint32_t back;
    size_t n = cn_utf8_write(s, c), read = cn_utf8_read(&back, s, s + n);
    assert_true(c >= 0xd800 && c < 0xe000 ? read == 0 : read == n && back == c);
    assert_true(n == 1 || cn_utf8_read(&back, s, s + n - 1) == 0);
    assert_true(cni_unicode_base(base, c) <= CNI_BASE_MOST);
  }
}

/* ---- files that are broken ---- */

static void refuses_json(const char *text, const char *says)
{
  cn_tokenizer *t = cni_tokenizer_read_json(text, strlen(text));
  assert_null(t);
  if (!strstr(cn_err_message(), says)) print_message("%s\n", cn_err_message());
  assert_non_null(strstr(cn_err_message(), says));
  cn_err_clear();
}

#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":"
#define BERT "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"vocab\":"

static void broken_json(void **state)
{
  (void)state;
  refuses_json("", "json");
  refuses_json("[]", "no \"model\"");
  refuses_json("{\"model\":{\"type\":\"Other\"}}", "\"Other\"");
  refuses_json("{" BPE "{}}}", "vocabulary");
  refuses_json("{" BYTE_LEVEL "," BPE "{}}}", "vocabulary");
  refuses_json("{" BYTE_LEVEL "," BPE "[1]}}", "vocabulary");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":\"b\"}}}", "has no number");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":-1}}}", "number -1");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":9e18}}}", "has no number");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":4000000000}}}", "numbers go from 0");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1,\"b\":1}}}", "two tokens");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"merges\":[\"a a\"]}}", "together");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"merges\":[\"a  a\"]}}", "not two");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"merges\":[[1,2]]}}", "not two");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"unk_token\":\"b\"}}", "unk_token");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"dropout\":0.5}}", "dropout");
  refuses_json("{" BYTE_LEVEL "," BPE "{\"a\":1},\"end_of_word_suffix\":\"<the end of a word>\"}}", "too long");
  refuses_json("{" BYTE_LEVEL ",\"added_tokens\":[{}]," BPE "{\"a\":1}}}", "no content");
  refuses_json("{" BYTE_LEVEL ",\"added_tokens\":[{\"id\":1,\"content\":\"b\"}]," BPE
               "{\"a\":1}}}", "two tokens");
  refuses_json("{" BERT "{\"a\":0}}}", "unk_token");
  refuses_json("{" BERT "{\"[UNK]\":0},\"max_input_chars_per_word\":1000000}}", "too long");
  refuses_json("{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",7],\"sep\":1}," BERT "{\"[UNK]\":0}}}",
               "number 7");
  refuses_json("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},{\"Sequence\":{}}]},"
               BERT "{\"[UNK]\":0}}}", "twice");
  refuses_json("{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"Sequence\"}]}," BERT
               "{\"[UNK]\":0}}}", "post_processor");
}

#define UNIGRAM(parts) "{" parts "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-1.5]]}}"
#define CUT(part) UNIGRAM("\"pre_tokenizer\":{" part "},")
#define NORMAL(part) UNIGRAM("\"normalizer\":{" part "},")
#define DECODER(part) UNIGRAM("\"decoder\":{" part "},")

static void broken_steps(void **state)
{
  (void)state;
  refuses_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "no vocabulary");
  refuses_json("{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]}}", "unk_id");
  refuses_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[\"a\"]}}", "no text with a score");
  refuses_json("{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", "vocabulary");
  refuses_json(NORMAL("\"type\":\"Other\""), "normalizer is a \"Other\"");
  refuses_json(NORMAL("\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\""), "base64");
  refuses_json(NORMAL("\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\""), "broken");
  refuses_json(NORMAL("\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////wAAAAAAAAAA\""), "broken");
  refuses_json(NORMAL("\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a|b)+\"},\"content\":\"\""), "(a|b)+");
  refuses_json(NORMAL("\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\""), "pattern");
  refuses_json(CUT("\"type\":\"Other\""), "pre_tokenizer is a \"Other\"");
  refuses_json(CUT("\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Isolated\""), "x+");
  refuses_json(CUT("\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":\"Doubled\""), "Doubled");
  refuses_json(CUT("\"type\":\"CharDelimiterSplit\",\"delimiter\":\"\""), "empty");
  refuses_json(CUT("\"type\":\"Metaspace\",\"replacement\":\"\""), "empty");
  refuses_json(DECODER("\"type\":\"Other\""), "decoder is a \"Other\"");
  refuses_json(DECODER("\"type\":\"Strip\",\"content\":\"a\",\"start\":-1,\"stop\":0"), "-1");
  refuses_json(DECODER("\"type\":\"CTC\",\"pad_token\":\"\""), "empty");
}

/* Cut off anywhere, or with any byte changed, a model is refused or read; nothing else happens. */
static void broken_models(void **state)
{
  (void)state;
  cn_mapping file;
  assert_int_equal(cn_map_open(&file, FOLDER "mapped.model"), CN_OK);
  char *copy = cn_alloc(file.size);
  for (size_t i = 0; i < file.size; i += i < 200 ? 1 : 97) {
    memcpy(copy, file.data, file.size);
    cn_tokenizer_free(cni_sentencepiece_read(copy, i));
    cn_err_clear();
    copy[i] = (char)(copy[i] ^ 0x55);
    cn_tokenizer *t = cni_sentencepiece_read(copy, file.size);
    assert_true((t == NULL) == (cn_err() != 0));
    cn_scope *s = cn_scope_begin();
    if (t) cn_tokenizer_encode(t, "they a\xcc\x81 <sep>", 13, true);
    cn_tokenizer_free(t);
    cn_scope_end(s);
    cn_err_clear();
  }
  cn_free(copy, file.size);
  cn_map_close(&file);
  assert_null(cn_tokenizer_sentencepiece(FOLDER "vocab.txt"));
  assert_non_null(strstr(cn_err_message(), "vocab.txt: it is no SentencePiece model"));
  cn_err_clear();
}

static void broken_files(void **state)
{
  (void)state;
  assert_null(cn_tokenizer_json(FOLDER "none.json"));
  assert_int_equal(cn_err(), CN_ERR_IO);
  cn_err_clear();
  assert_null(cn_tokenizer_json(FOLDER "vocab.txt"));
  assert_non_null(strstr(cn_err_message(), "vocab.txt: json"));
  cn_err_clear();
  assert_null(cn_tokenizer_bpe(FOLDER "vocab.json", FOLDER "vocab.json"));
  assert_non_null(strstr(cn_err_message(), "not two tokens"));
  cn_err_clear();
  assert_null(cn_tokenizer_wordpiece(FOLDER "merges.txt", true));
  assert_non_null(strstr(cn_err_message(), "[UNK]"));
  cn_err_clear();
}

/* ---- allocations and threads ---- */

static const char *const small[] = {
  "{" BYTE_LEVEL ",\"added_tokens\":[{\"id\":3,\"content\":\"<x>\",\"special\":true}]," BPE
  "{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]}}",
  "{\"normalizer\":{\"type\":\"BertNormalizer\"}," BERT "{\"[UNK]\":0,\"a\":1,\"##b\":2}}}",
  "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},"
  "{\"type\":\"Prepend\",\"prepend\":\"a\"}]},"
  "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
  "{\"type\":\"Metaspace\"}]},"
  "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\"}]},"
  "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"ab\",-1.5],[\"<x>\",-2]]}}",
  "{\"decoder\":{\"type\":\"BPEDecoder\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}," BPE
  "{\"a\":0,\"b</w>\":1,\"ab</w>\":2,\"?\":3},\"merges\":[[\"a\",\"b</w>\"]],\"end_of_word_suffix\":\"</w>\","
  "\"unk_token\":\"?\"}}",
};

static bool goes_through(const char *json)
{
  cn_scope *s = cn_scope_begin();
  cn_tokenizer *t = cni_tokenizer_read_json(json, strlen(json));
  cn_tensor *ids = t ? cn_tokenizer_encode(t, "ab <x> b\xc3\xa9", 10, true) : NULL;
  char *text = ids ? cn_tokenizer_decode(t, ids, true) : NULL;
  bool done = text != NULL;
  assert_true(done || cn_err());
  cn_string_free(text);
  cn_tokenizer_free(t);
  cn_scope_end(s);
  cn_err_clear();
  return done;
}

static void every_allocation_may_fail(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    assert_true(goes_through(small[i]));
    cn_memory_stats before, after;
    cn_memory_get_stats(&before);
    uint64_t k = 1;
    for (bool done = false; !done; k++) {
      cn_memory_fail_at(k);
      done = goes_through(small[i]);
      cn_memory_fail_at(0);
      assert_true(k < 10000);
    }
    assert_true(k > 20);
    cn_memory_get_stats(&after);
    assert_int_equal(after.in_use, before.in_use);
  }
  cn_memory_set_caching(true);
}

/* The same with a SentencePiece model: only some of its many allocations. */
static void a_models_allocations_may_fail(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  cn_memory_stats before, after;
  cn_memory_get_stats(&before);
  bool done = false;
  for (uint64_t k = 1; !done; k += 1 + k / 20) {
    cn_scope *s = cn_scope_begin();
    cn_memory_fail_at(k);
    cn_tokenizer *t = cn_tokenizer_sentencepiece(FOLDER "mapped.model");
    cn_tensor *ids = t ? cn_tokenizer_encode(t, "they a b\xc3\xa9", 10, true) : NULL;
    char *text = ids ? cn_tokenizer_decode(t, ids, true) : NULL;
    cn_memory_fail_at(0);
    done = text != NULL;
    assert_true(done || cn_err() == CN_ERR_MEMORY);
    cn_string_free(text);
    cn_tokenizer_free(t);
    cn_scope_end(s);
    cn_err_clear();
    assert_true(k < 100000);
  }
  cn_memory_get_stats(&after);
  assert_int_equal(after.in_use, before.in_use);
  cn_memory_set_caching(true);
}

static void *encode_often(void *payload)
{
  static const char text[] = "they would have been there when the model was training, 1234 times";
  int64_t *sum = calloc(1, sizeof *sum);
  for (int i = 0; sum && i < 200; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *ids = cn_tokenizer_encode(payload, text, sizeof text - 1, false);
    const int64_t *v = ids ? cn_data(ids) : NULL;
    for (int64_t k = 0; k < cn_numel(ids); k++) *sum += v[k] * (k + 1);
    cn_scope_end(s);
  }
  return sum;
}

static void threads_share_one(void **state)
{
  (void)state;
  cn_tokenizer *t = cn_tokenizer_bpe(FOLDER "vocab.json", FOLDER "merges.txt");
  pthread_t threads[4];
  void *sums[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], &sums[i]);
  for (int i = 0; i < 4; i++) {
    assert_non_null(sums[i]);
    assert_int_equal(*(int64_t *)sums[i], *(int64_t *)sums[0]);
  }
  for (int i = 0; i < 4; i++) free(sums[i]);
  cn_tokenizer_free(t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bpe_of_two_files),       cmocka_unit_test(bpe_of_tokenizer_json),
    cmocka_unit_test(wordpiece_of_vocab),     cmocka_unit_test(wordpiece_of_tokenizer_json),
    cmocka_unit_test(tokens_and_numbers),     cmocka_unit_test(bytes_take_all),
    cmocka_unit_test(chars_of_a_text),        cmocka_unit_test(wrong_numbers_are_refused),
    cmocka_unit_test(long_words),             cmocka_unit_test(characters),
    cmocka_unit_test(broken_json),            cmocka_unit_test(broken_files),
    cmocka_unit_test(broken_steps),           cmocka_unit_test(broken_models),
    cmocka_unit_test(unigram_with_a_map_of_characters), cmocka_unit_test(unigram_with_normal_forms),
    cmocka_unit_test(unigram_with_bytes),     cmocka_unit_test(bpe_of_characters),
    cmocka_unit_test(wordpiece_by_steps),     cmocka_unit_test(whole_words),
    cmocka_unit_test(sentencepiece_models),   cmocka_unit_test(a_models_allocations_may_fail),
    cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(threads_share_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
