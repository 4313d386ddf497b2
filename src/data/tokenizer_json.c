/* tokenizer_json.c: tokenizers from files: tokenizer.json as the `tokenizers` library writes it, and the older ones.
 * See data.h.
 *
 * Place in the flow: chooses and fills a kind. What GPT-2, LLaMA 3 and BERT have has kinds of its own (tokenizer_bpe.c,
 * tokenizer_wordpiece.c); tokenizer_json_steps.c reads the rest. Invariant: a file that asks for anything that is not
 * done here exactly is refused, and the error says what that is; no other numbers ever come out. */
#include <string.h>

#include "tokenizer.h"

static const char *type_of(const cn_tree *tree) { return cn_tree_as_str(cn_tree_get(tree, "type"), "none"); }

static bool is_type(const cn_tree *tree, const char *type) { return !strcmp(type_of(tree), type); }

static int unsupported(const char *what, const cn_tree *tree)
{
  return cn_err_set(CN_ERR_UNSUPPORTED, "its %s is a \"%.60s\", which is not supported here", what, type_of(tree));
}

/* Of a sequence of one step that step. */
static const cn_tree *single(const cn_tree *tree, const char *list)
{
  const cn_tree *steps = cn_tree_get(tree, list);
  return is_type(tree, "Sequence") && cn_tree_size(steps) == 1 ? cn_tree_at(steps, 0) : tree;
}

static bool is_empty_text(const cn_tree *tree) { return !*cn_tree_as_str(tree, ""); }

/* ---- models ---- */

static int read_merge(cn_tokenizer *t, const cn_tree *pair)
{
  const char *text = cn_tree_as_str(pair, NULL), *space = text ? strchr(text, ' ') : NULL;
  if (space && !strchr(space + 1, ' '))
    return cni_bpe_merge(t, text, (size_t)(space - text), space + 1, strlen(space + 1));
  const char *a = cn_tree_as_str(cn_tree_at(pair, 0), NULL), *b = cn_tree_as_str(cn_tree_at(pair, 1), NULL);
  if (!a || !b || cn_tree_size(pair) != 2) return cn_err_set(CN_ERR_IO, "one of its merges is not two tokens");
  return cni_bpe_merge(t, a, strlen(a), b, strlen(b));
}

int cni_bpe_read_merges(cn_tokenizer *t, const cn_tree *merges)
{
  int status = CN_OK;
  for (size_t i = 0; i < cn_tree_size(merges) && !status; i++) status = read_merge(t, cn_tree_at(merges, i));
  return status;
}

int cni_words_known(const char *expression)
{
  static const struct {
    const char *expression;
    int digits;
  } known[] = {
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     1},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(expression, known[i].expression)) return known[i].digits;
  return -1;
}

/* Is a text cut into words as GPT-2 does it (ByteLevel alone), or LLaMA 3 (behind a Split)? */
static bool words_of(cni_bpe *how, const cn_tree *words)
{
  const cn_tree *steps = cn_tree_get(words, "pretokenizers"), *split = NULL;
  if (is_type(words, "Sequence") && cn_tree_size(steps) == 2) {
    split = cn_tree_at(steps, 0);
    words = cn_tree_at(steps, 1);
  }
  if (!is_type(words, "ByteLevel")) return false;
  how->prefix_space = cn_tree_as_bool(cn_tree_get(words, "add_prefix_space"), true); /* the library's default */
  bool gpt2 = cn_tree_as_bool(cn_tree_get(words, "use_regex"), true);
  if (!split) return gpt2;
  bool isolated = !strcmp(cn_tree_as_str(cn_tree_get(split, "behavior"), ""), "Isolated");
  if (!is_type(split, "Split") || !isolated || cn_tree_as_bool(cn_tree_get(split, "invert"), false) || gpt2 ||
      how->prefix_space)
    return false;
  how->digits = cni_words_known(cn_tree_as_str(cn_tree_get(cn_tree_get(split, "pattern"), "Regex"), ""));
  return how->digits > 0;
}

/* Is it all that GPT-2 or LLaMA 3 has? Then a kind of its own reads the bytes as they are. */
static bool is_plain_bpe(cni_bpe *how, const cn_tree *root, const cn_tree *model)
{
  const cn_tree *decoder = single(cn_tree_get(root, "decoder"), "decoders");
  *how = (cni_bpe){.whole_words = cn_tree_as_bool(cn_tree_get(model, "ignore_merges"), false)};
  return !cn_tree_as_bool(cn_tree_get(model, "byte_fallback"), false) &&
         !cn_tree_as_bool(cn_tree_get(model, "fuse_unk"), false) &&
         cn_tree_as_float(cn_tree_get(model, "dropout"), 0) == 0 &&
         is_empty_text(cn_tree_get(model, "continuing_subword_prefix")) &&
         is_empty_text(cn_tree_get(model, "end_of_word_suffix")) && is_type(decoder, "ByteLevel") &&
         words_of(how, single(cn_tree_get(root, "pre_tokenizer"), "pretokenizers"));
}

static cn_tokenizer *read_bpe(const cni_bpe *how, const cn_tree *root, const cn_tree *model)
{
  const cn_tree *merges = cn_tree_get(model, "merges");
  cn_tokenizer *t = cni_bpe_new(how, cn_tree_size(merges));
  int status = t ? cni_vocab_put_tree(&t->vocab, cn_tree_get(model, "vocab")) : cn_err();
  if (!status) status = cni_bpe_read_merges(t, merges);
  if (!status) status = cni_tokenizer_read_normal(t, cn_tree_get(root, "normalizer"));
  const char *unknown = cn_tree_as_str(cn_tree_get(model, "unk_token"), NULL);
  if (!status && unknown) {
    int64_t id = cn_tokenizer_id(t, unknown);
    if (id < 0) status = cn_err_set(CN_ERR_IO, "its unk_token is not in the vocabulary");
    else cni_bpe_unknown(t, id);
  }
  if (!status) {
    cni_bpe_ready(t);
    return t;
  }
  cn_tokenizer_free(t);
  return NULL;
}

/* Is it all that BERT has? */
static bool is_bert(cni_wordpiece *how, const cn_tree *root, const cn_tree *model)
{
  const cn_tree *normalizer = single(cn_tree_get(root, "normalizer"), "normalizers");
  const cn_tree *decoder = single(cn_tree_get(root, "decoder"), "decoders");
  const char *prefix = cn_tree_as_str(cn_tree_get(model, "continuing_subword_prefix"), "##");
  int64_t most = cn_tree_as_int(cn_tree_get(model, "max_input_chars_per_word"), 100);
  *how = (cni_wordpiece){.join = true};
  if (is_type(normalizer, "BertNormalizer")) {
    how->clean = cn_tree_as_bool(cn_tree_get(normalizer, "clean_text"), true);
    how->chinese = cn_tree_as_bool(cn_tree_get(normalizer, "handle_chinese_chars"), true);
    how->lower = cn_tree_as_bool(cn_tree_get(normalizer, "lowercase"), true);
    how->strip = cn_tree_as_bool(cn_tree_get(normalizer, "strip_accents"), how->lower);
  } else return false;
  how->cleanup = cn_tree_as_bool(cn_tree_get(decoder, "cleanup"), true);
  if (strlen(prefix) >= sizeof how->prefix || most < 0 || most > 10000) return false;
  memcpy(how->prefix, prefix, strlen(prefix) + 1);
  how->most = (size_t)most;
  return is_type(decoder, "WordPiece") && !strcmp(prefix, cn_tree_as_str(cn_tree_get(decoder, "prefix"), "##")) &&
         is_type(single(cn_tree_get(root, "pre_tokenizer"), "pretokenizers"), "BertPreTokenizer");
}

static cn_tokenizer *read_wordpiece(const cni_wordpiece *how, const cn_tree *model)
{
  cn_tokenizer *t = cni_wordpiece_new(how, false);
  int status = t ? cni_vocab_put_tree(&t->vocab, cn_tree_get(model, "vocab")) : cn_err();
  if (!status) {
    int64_t id = cn_tokenizer_id(t, cn_tree_as_str(cn_tree_get(model, "unk_token"), "[UNK]"));
    if (id < 0) status = cn_err_set(CN_ERR_IO, "its unk_token is not in the vocabulary");
    ((cni_wordpiece *)t->model)->unknown = id;
  }
  if (!status) return t;
  cn_tokenizer_free(t);
  return NULL;
}

/* ---- what both have ---- */

static int read_added(cn_tokenizer *t, const cn_tree *list)
{
  for (size_t i = 0; i < cn_tree_size(list); i++) {
    const cn_tree *a = cn_tree_at(list, i);
    const char *s = cn_tree_as_str(cn_tree_get(a, "content"), NULL);
    if (!s) return cn_err_set(CN_ERR_IO, "added token %zu has no content", i);
    bool special = cn_tree_as_bool(cn_tree_get(a, "special"), false);
    cni_added how = {.id = cn_tree_as_int(cn_tree_get(a, "id"), -1),
                     .special = special,
                     .normalised = cn_tree_as_bool(cn_tree_get(a, "normalized"), !special),
                     .left = cn_tree_as_bool(cn_tree_get(a, "lstrip"), false),
                     .right = cn_tree_as_bool(cn_tree_get(a, "rstrip"), false),
                     .whole = cn_tree_as_bool(cn_tree_get(a, "single_word"), false)};
    int status = cni_tokenizer_add(t, s, strlen(s), &how);
    if (status) return status;
  }
  return CN_OK;
}

/* TemplateProcessing: [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": ...}, ...] */
static int read_template(cn_tokenizer *t, const cn_tree *post)
{
  const cn_tree *single_text = cn_tree_get(post, "single");
  bool before = true;
  for (size_t i = 0; i < cn_tree_size(single_text); i++) {
    const cn_tree *special = cn_tree_get(cn_tree_at(single_text, i), "SpecialToken");
    if (cn_tree_get(cn_tree_at(single_text, i), "Sequence")) {
      if (!before) return cn_err_set(CN_ERR_UNSUPPORTED, "its template has the text twice");
      before = false;
      continue;
    }
    const char *name = cn_tree_as_str(cn_tree_get(special, "id"), NULL);
    const cn_tree *ids = name ? cn_tree_get(cn_tree_get(cn_tree_get(post, "special_tokens"), name), "ids") : NULL;
    if (!cn_tree_size(ids)) return cn_err_set(CN_ERR_IO, "its template has a part that is no token");
    for (size_t k = 0; k < cn_tree_size(ids); k++) {
      int status = cni_tokenizer_mark(t, before, cn_tree_as_int(cn_tree_at(ids, k), -1));
      if (status) return status;
    }
  }
  return before ? cn_err_set(CN_ERR_IO, "its template has no text") : CN_OK;
}

/* Marks around a text; a few steps after each other are allowed. */
static int read_marks(cn_tokenizer *t, const cn_tree *post, int depth)
{
  if (cn_tree_kind_of(post) == CN_TREE_NONE || is_type(post, "ByteLevel")) return CN_OK;
  if (is_type(post, "TemplateProcessing")) return read_template(t, post);
  if (is_type(post, "BertProcessing") || is_type(post, "RobertaProcessing")) {
    int64_t cls = cn_tree_as_int(cn_tree_at(cn_tree_get(post, "cls"), 1), -1);
    int64_t sep = cn_tree_as_int(cn_tree_at(cn_tree_get(post, "sep"), 1), -1);
    int status = cni_tokenizer_mark(t, true, cls);
    return status ? status : cni_tokenizer_mark(t, false, sep);
  }
  if (!is_type(post, "Sequence") || depth > 0) return unsupported("post_processor", post);
  const cn_tree *steps = cn_tree_get(post, "processors");
  int status = CN_OK;
  for (size_t i = 0; i < cn_tree_size(steps) && !status; i++) status = read_marks(t, cn_tree_at(steps, i), depth + 1);
  return status;
}

static cn_tokenizer *read_model(const cn_tree *root, const cn_tree *model)
{
  cni_bpe bpe;
  cni_wordpiece wordpiece;
  /* Files of old have no type; only BPE has merges. */
  bool merges = is_type(model, "BPE") || (!cn_tree_get(model, "type") && cn_tree_get(model, "merges"));
  if (merges && is_plain_bpe(&bpe, root, model)) return read_bpe(&bpe, root, model);
  if (is_type(model, "WordPiece") && is_bert(&wordpiece, root, model)) return read_wordpiece(&wordpiece, model);
  if (model) return cni_tokenizer_read_steps(root);
  cn_err_set(CN_ERR_IO, "it is no tokenizer.json: there is no \"model\"");
  return NULL;
}

static cn_tokenizer *from_tree(const cn_tree *root)
{
  cn_tokenizer *t = read_model(root, cn_tree_get(root, "model"));
  if (!t) return NULL;
  int status = read_added(t, cn_tree_get(root, "added_tokens"));
  if (!status) status = read_marks(t, cn_tree_get(root, "post_processor"), 0);
  if (!status) return t;
  cn_tokenizer_free(t);
  return NULL;
}

cn_tokenizer *cni_tokenizer_read_json(const char *text, size_t size)
{
  cn_tree *root = cn_tree_from_json(text, size);
  cn_tokenizer *t = root ? from_tree(root) : NULL;
  cn_tree_free(root);
  return t;
}

/* ---- files ---- */

/* Errors of reading get the file's name in front. */
static cn_tokenizer *named(cn_tokenizer *t, const char *path)
{
  char text[512];
  int code = cn_err();
  if (t || !code || code == CN_ERR_MEMORY) return t;
  strncpy(text, cn_err_message(), sizeof text - 1);
  text[sizeof text - 1] = 0;
  cn_err_clear();
  cn_err_set(code, "%s: %s", path, text);
  return NULL;
}

cn_tokenizer *cn_tokenizer_json(const char *path)
{
  cn_mapping file;
  if (cn_err() || cn_map_open(&file, path)) return NULL;
  cn_tokenizer *t = named(cni_tokenizer_read_json((const char *)file.data, file.size), path);
  cn_map_close(&file);
  return t;
}

cn_tokenizer *cn_tokenizer_sentencepiece(const char *path)
{
  cn_mapping file;
  if (cn_err() || cn_map_open(&file, path)) return NULL;
  cn_tokenizer *t = named(cni_sentencepiece_read((const char *)file.data, file.size), path);
  cn_map_close(&file);
  return t;
}

cn_tokenizer *cn_tokenizer_bpe(const char *vocab, const char *merges)
{
  cn_mapping a, b;
  if (cn_err() || cn_map_open(&a, vocab)) return NULL;
  if (cn_map_open(&b, merges)) {
    cn_map_close(&a);
    return NULL;
  }
  cn_tokenizer *t = cni_bpe_read((const char *)a.data, a.size, (const char *)b.data, b.size);
  named(t, vocab);
  cn_map_close(&a);
  cn_map_close(&b);
  return t;
}

cn_tokenizer *cn_tokenizer_wordpiece(const char *vocab, bool lower)
{
  cn_mapping file;
  if (cn_err() || cn_map_open(&file, vocab)) return NULL;
  cn_tokenizer *t = named(cni_wordpiece_read((const char *)file.data, file.size, lower), vocab);
  cn_map_close(&file);
  return t;
}
