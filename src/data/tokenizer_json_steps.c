/* tokenizer_json_steps.c: the general way to read a tokenizer.json: each of its parts becomes steps, and the model a
 * kind that takes their pieces. See tokenizer_steps.h.
 *
 * Place in the flow: tokenizer_json.c reads what GPT-2, LLaMA 3 and BERT have by kinds made for them, and comes here
 * with everything else. Invariant: as there, what is not done exactly is refused by name. */
#include <string.h>

#include "tokenizer.h"

static const char *type_of(const cn_tree *tree) { return cn_tree_as_str(cn_tree_get(tree, "type"), "none"); }

static int unsupported(const char *what, const char *name)
{
  return cn_err_set(CN_ERR_UNSUPPORTED, "its %s is a \"%.60s\", which is not supported here", what, name);
}

static bool flag_of(const cn_tree *tree, const char *name, bool otherwise)
{
  return cn_tree_as_bool(cn_tree_get(tree, name), otherwise);
}

/* A copy of a text for a step. Missing: the other text. */
static int text_of(char **to, size_t *size, const cn_tree *text, const char *otherwise)
{
  const char *s = cn_tree_as_str(text, otherwise);
  *size = s == otherwise ? strlen(s) : cn_tree_str_size(text);
  *to = cn_string_copy_bytes(s, *size);
  return *to ? CN_OK : CN_ERR_MEMORY;
}

/* ---- normalisers ---- */

static int base64_value(char c)
{
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static int read_charsmap(cni_text_step *step, const cn_tree *tree)
{
  const cn_tree *text = cn_tree_get(tree, "precompiled_charsmap");
  const char *s = cn_tree_as_str(text, "");
  size_t n = cn_tree_str_size(text), used = 0;
  while (n && s[n - 1] == '=') n--;
  step->normalise = cni_normal_charsmap;
  step->data_size = n / 4 * 3 + 3;
  unsigned char *out = step->data = cn_alloc_zero(step->data_size);
  if (!out) return CN_ERR_MEMORY;
  uint32_t bits = 0;
  for (size_t i = 0; i < n; i++) {
    int v = base64_value(s[i]);
    if (v < 0) return cn_err_set(CN_ERR_IO, "its precompiled_charsmap is no base64");
    bits = bits << 6 | (uint32_t)v;
    if (i % 4) out[used++] = (unsigned char)(bits >> (6 - i % 4 * 2)); /* 12, 18 or 24 bits are there */
  }
  return cni_charsmap_check(step);
}

static int read_replace(cni_text_step *step, const cn_tree *tree)
{
  static const struct {
    const char *expression;
    size_t most;
    bool space;
  } known[] = {{" {2,}", 2, false}, {" +", 1, false}, {"\\s+", 1, true}, {"\\s{2,}", 2, true}};
  const cn_tree *pattern = cn_tree_get(tree, "pattern");
  const char *expression = cn_tree_as_str(cn_tree_get(pattern, "Regex"), NULL);
  step->normalise = cni_normal_replace;
  step->decode = cni_decode_replace;
  if (text_of(&step->a, &step->a_size, cn_tree_get(pattern, "String"), "") ||
      text_of(&step->b, &step->b_size, cn_tree_get(tree, "content"), ""))
    return CN_ERR_MEMORY;
  for (size_t i = 0; expression && i < sizeof known / sizeof *known; i++)
    if (!strcmp(expression, known[i].expression)) step->from = known[i].most, step->flag = known[i].space;
  if (!step->from && !step->a_size) return unsupported("pattern to replace", expression ? expression : "");
  return CN_OK;
}

static int read_bert(cni_text_step *step, const cn_tree *tree)
{
  cni_wordpiece *how = step->data = cn_alloc_zero(sizeof *how);
  if (!how) return CN_ERR_MEMORY;
  step->normalise = cni_normal_bert;
  step->data_size = sizeof *how;
  how->clean = flag_of(tree, "clean_text", true);
  how->chinese = flag_of(tree, "handle_chinese_chars", true);
  how->lower = flag_of(tree, "lowercase", true);
  how->strip = flag_of(tree, "strip_accents", how->lower);
  return CN_OK;
}

static int read_normaliser(cni_text_step *step, const cn_tree *tree)
{
  static const struct {
    const char *name;
    void (*normalise)(cn_text *out, const cni_text_step *how, const char *s, size_t n);
    int kind;
  } plain[] = {{"NFD", cni_normal_form, 0},
               {"NFKD", cni_normal_form, CNI_FORM_COMPATIBLE},
               {"NFC", cni_normal_form, CNI_FORM_COMPOSED},
               {"NFKC", cni_normal_form, CNI_FORM_COMPATIBLE | CNI_FORM_COMPOSED},
               {"Lowercase", cni_normal_lower, 0},
               {"StripAccents", cni_normal_accents, 0},
               {"Strip", cni_normal_strip, 0},
               {"Nmt", cni_normal_nmt, 0},
               {"ByteLevel", cni_normal_bytes, 0},
               {"Prepend", cni_normal_prepend, 0}};
  const char *type = type_of(tree);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!strcmp(type, plain[i].name)) step->normalise = plain[i].normalise, step->kind = plain[i].kind;
  if (step->normalise) {
    step->flag = flag_of(tree, "strip_left", true);
    step->other = flag_of(tree, "strip_right", true);
    return text_of(&step->a, &step->a_size, cn_tree_get(tree, "prepend"), "");
  }
  if (!strcmp(type, "Precompiled")) return read_charsmap(step, tree);
  if (!strcmp(type, "Replace")) return read_replace(step, tree);
  if (!strcmp(type, "BertNormalizer")) return read_bert(step, tree);
  return unsupported("normalizer", type);
}

/* ---- pre-tokenizers ---- */

static int read_prepend(cni_text_step *step, const cn_tree *tree)
{
  const char *scheme = cn_tree_as_str(cn_tree_get(tree, "prepend_scheme"), NULL);
  if (!scheme) scheme = flag_of(tree, "add_prefix_space", true) ? "always" : "never";
  step->kind = !strcmp(scheme, "always")  ? CNI_PREPEND_ALWAYS
               : !strcmp(scheme, "first") ? CNI_PREPEND_FIRST
                                          : CNI_PREPEND_NEVER;
  step->flag = flag_of(tree, "split", true);
  if (text_of(&step->a, &step->a_size, cn_tree_get(tree, "replacement"), "\xe2\x96\x81")) return CN_ERR_MEMORY;
  return step->a_size ? CN_OK : cn_err_set(CN_ERR_IO, "its replacement of spaces is empty");
}

static int read_behaviour(cni_text_step *step, const cn_tree *tree, const char *otherwise)
{
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const char *name = cn_tree_as_str(cn_tree_get(tree, "behavior"), otherwise);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) {
      step->from = i;
      return CN_OK;
    }
  return unsupported("behaviour of a cut", name);
}

static int read_split(cni_text_step *step, const cn_tree *tree)
{
  const cn_tree *pattern = cn_tree_get(tree, "pattern");
  const char *expression = cn_tree_as_str(cn_tree_get(pattern, "Regex"), NULL);
  step->kind = CNI_FIND_TEXT;
  step->invert = flag_of(tree, "invert", false);
  if (text_of(&step->a, &step->a_size, cn_tree_get(pattern, "String"), "")) return CN_ERR_MEMORY;
  if (read_behaviour(step, tree, "Isolated")) return cn_err();
  if (!expression) return step->a_size ? CN_OK : unsupported("pattern to cut at", "");
  int digits = cni_words_known(expression);
  if (digits < 0) return unsupported("pattern to cut at", expression);
  step->kind = digits ? CNI_FIND_LLAMA3 : CNI_FIND_GPT2;
  step->to = (size_t)digits;
  return CN_OK;
}

static int read_cut(cni_text_step *step, const cn_tree *tree)
{
  const char *type = type_of(tree);
  step->cut = cni_cut_at;
  if (!strcmp(type, "Metaspace")) {
    step->cut = cni_cut_metaspace;
    return read_prepend(step, tree);
  }
  if (!strcmp(type, "ByteLevel")) {
    step->cut = cni_cut_bytes;
    step->other = flag_of(tree, "add_prefix_space", true);
    step->flag = flag_of(tree, "use_regex", true);
  } else if (!strcmp(type, "BertPreTokenizer")) step->cut = cni_cut_bert;
  else if (!strcmp(type, "WhitespaceSplit")) step->kind = CNI_FIND_SPACE, step->from = CNI_CUT_REMOVED;
  else if (!strcmp(type, "Whitespace")) {
    step->kind = CNI_FIND_WORDS, step->from = CNI_CUT_REMOVED;
    step->invert = true;
  } else if (!strcmp(type, "Digits")) {
    step->kind = CNI_FIND_NUMERIC;
    step->from = flag_of(tree, "individual_digits", false) ? CNI_CUT_ISOLATED : CNI_CUT_CONTIGUOUS;
  } else if (!strcmp(type, "Punctuation")) {
    step->kind = CNI_FIND_PUNCTUATION;
    return read_behaviour(step, tree, "Isolated");
  } else if (!strcmp(type, "CharDelimiterSplit")) {
    step->kind = CNI_FIND_TEXT, step->from = CNI_CUT_REMOVED;
    if (text_of(&step->a, &step->a_size, cn_tree_get(tree, "delimiter"), "")) return CN_ERR_MEMORY;
    return step->a_size ? CN_OK : cn_err_set(CN_ERR_IO, "its delimiter is empty");
  } else if (!strcmp(type, "Split")) return read_split(step, tree);
  else return unsupported("pre_tokenizer", type);
  return CN_OK;
}

/* ---- decoders ---- */

static int count_of(size_t *to, const cn_tree *tree, const char *name)
{
  int64_t n = cn_tree_as_int(cn_tree_get(tree, name), 0);
  *to = n > 0 ? (size_t)n : 0;
  return n < 0 ? cn_err_set(CN_ERR_IO, "its decoder strips %lld characters", (long long)n) : CN_OK;
}

static int read_decoder(cni_text_step *step, const cn_tree *tree)
{
  const char *type = type_of(tree);
  if (!strcmp(type, "ByteLevel")) step->decode = cni_decode_bytes;
  else if (!strcmp(type, "ByteFallback")) step->decode = cni_decode_fallback;
  else if (!strcmp(type, "Fuse")) step->decode = cni_decode_fuse;
  else if (!strcmp(type, "Replace")) return read_replace(step, tree);
  else if (!strcmp(type, "Strip")) {
    step->decode = cni_decode_strip;
    if (count_of(&step->from, tree, "start") || count_of(&step->to, tree, "stop")) return cn_err();
    if (text_of(&step->a, &step->a_size, cn_tree_get(tree, "content"), " ")) return CN_ERR_MEMORY;
    return step->a_size ? CN_OK : cn_err_set(CN_ERR_IO, "its decoder strips nothing");
  } else if (!strcmp(type, "Metaspace")) {
    step->decode = cni_decode_metaspace;
    return read_prepend(step, tree);
  } else if (!strcmp(type, "WordPiece")) {
    step->decode = cni_decode_wordpiece;
    step->flag = flag_of(tree, "cleanup", true);
    return text_of(&step->a, &step->a_size, cn_tree_get(tree, "prefix"), "##");
  } else if (!strcmp(type, "BPEDecoder")) {
    step->decode = cni_decode_suffix;
    return text_of(&step->a, &step->a_size, cn_tree_get(tree, "suffix"), "</w>");
  } else if (!strcmp(type, "CTC")) {
    step->decode = cni_decode_ctc;
    step->flag = flag_of(tree, "cleanup", true);
    if (text_of(&step->a, &step->a_size, cn_tree_get(tree, "pad_token"), "<pad>") ||
        text_of(&step->b, &step->b_size, cn_tree_get(tree, "word_delimiter_token"), "|"))
      return CN_ERR_MEMORY;
    return step->a_size && step->b_size ? CN_OK : cn_err_set(CN_ERR_IO, "its CTC decoder has an empty token");
  } else return unsupported("decoder", type);
  return CN_OK;
}

/* ---- lists ---- */

typedef int (*read_fn)(cni_text_step *step, const cn_tree *tree);

/* A part of the file: nothing, a step, or a sequence of parts. */
static int read_part(cni_text_steps *to, const cn_tree *tree, const char *list, read_fn read, int depth)
{
  enum { DEEPEST = 8 };
  if (cn_tree_kind_of(tree) == CN_TREE_NONE) return CN_OK;
  if (!strcmp(type_of(tree), "Sequence")) {
    const cn_tree *parts = cn_tree_get(tree, list);
    int status = depth > DEEPEST ? cn_err_set(CN_ERR_IO, "its sequences lie too deep in each other") : CN_OK;
    for (size_t i = 0; i < cn_tree_size(parts) && !status; i++)
      status = read_part(to, cn_tree_at(parts, i), list, read, depth + 1);
    return status;
  }
  cni_text_step step = {0};
  if (!read(&step, tree)) return cni_steps_add(to, &step);
  cni_step_free(&step);
  return cn_err();
}

int cni_tokenizer_read_normal(cn_tokenizer *t, const cn_tree *normalizer)
{
  return read_part(&t->normal, normalizer, "normalizers", read_normaliser, 0);
}

static int read_parts(cn_tokenizer *t, const cn_tree *root)
{
  const cn_tree *decoder = cn_tree_get(root, "decoder");
  if (cni_tokenizer_read_normal(t, cn_tree_get(root, "normalizer")) ||
      read_part(&t->cuts, cn_tree_get(root, "pre_tokenizer"), "pretokenizers", read_cut, 0) ||
      read_part(&t->decoders, decoder, "decoders", read_decoder, 0))
    return cn_err();
  t->spaced = cn_tree_kind_of(decoder) == CN_TREE_NONE;
  return CN_OK;
}

/* ---- models ---- */

static int read_mark(char to[16], const cn_tree *tree)
{
  const char *s = cn_tree_as_str(tree, "");
  if (strlen(s) >= 16) return cn_err_set(CN_ERR_UNSUPPORTED, "its mark of words, \"%.60s\", is too long here", s);
  memcpy(to, s, strlen(s) + 1);
  return CN_OK;
}

/* The number of the token for what is unknown, -1: there is none. */
static int read_unknown(int64_t *id, const cn_tokenizer *t, const cn_tree *model, const char *otherwise)
{
  const char *unknown = cn_tree_as_str(cn_tree_get(model, "unk_token"), otherwise);
  *id = unknown ? cn_tokenizer_id(t, unknown) : -1;
  return unknown && *id < 0 ? cn_err_set(CN_ERR_IO, "its unk_token is not in the vocabulary") : CN_OK;
}

static cn_tokenizer *done(cn_tokenizer *t, int status)
{
  if (!status) return t;
  cn_tokenizer_free(t);
  return NULL;
}

static cn_tokenizer *read_bpe(const cn_tree *model)
{
  const cn_tree *merges = cn_tree_get(model, "merges");
  cni_bpe how = {.chars = true,
                 .whole_words = flag_of(model, "ignore_merges", false),
                 .fallback = flag_of(model, "byte_fallback", false),
                 .fuse = flag_of(model, "fuse_unk", false)};
  int64_t unknown;
  if (cn_tree_as_float(cn_tree_get(model, "dropout"), 0) != 0) {
    cn_err_set(CN_ERR_UNSUPPORTED, "its BPE has dropout, which is not supported here");
    return NULL;
  }
  if (read_mark(how.prefix, cn_tree_get(model, "continuing_subword_prefix")) ||
      read_mark(how.suffix, cn_tree_get(model, "end_of_word_suffix")))
    return NULL;
  cn_tokenizer *t = cni_bpe_new(&how, cn_tree_size(merges));
  int status = t ? cni_vocab_put_tree(&t->vocab, cn_tree_get(model, "vocab")) : cn_err();
  if (!status) status = cni_bpe_read_merges(t, merges);
  if (!status) status = read_unknown(&unknown, t, model, NULL);
  if (!status && unknown >= 0) cni_bpe_unknown(t, unknown);
  if (!status) cni_bpe_ready(t);
  return done(t, status);
}

static cn_tokenizer *read_wordpiece(const cn_tree *model)
{
  cni_wordpiece how = {0};
  int64_t most = cn_tree_as_int(cn_tree_get(model, "max_input_chars_per_word"), 100), unknown = 0;
  if (most < 0 || most > 10000) {
    cn_err_set(CN_ERR_UNSUPPORTED, "words of %lld characters are too long here", (long long)most);
    return NULL;
  }
  how.most = (size_t)most;
  const cn_tree *prefix = cn_tree_get(model, "continuing_subword_prefix");
  if (prefix ? read_mark(how.prefix, prefix) : (memcpy(how.prefix, "##", 3), CN_OK)) return NULL;
  cn_tokenizer *t = cni_wordpiece_new(&how, true);
  int status = t ? cni_vocab_put_tree(&t->vocab, cn_tree_get(model, "vocab")) : cn_err();
  if (!status) status = read_unknown(&unknown, t, model, "[UNK]");
  if (!status) ((cni_wordpiece *)t->model)->unknown = unknown;
  return done(t, status);
}

static cn_tokenizer *read_words(const cn_tree *model)
{
  cn_tokenizer *t = cni_wordlevel_new();
  int status = t ? cni_vocab_put_tree(&t->vocab, cn_tree_get(model, "vocab")) : cn_err();
  const char *unknown = cn_tree_as_str(cn_tree_get(model, "unk_token"), "");
  if (!status) cni_wordlevel_unknown(t, cn_tokenizer_id(t, unknown));
  return done(t, status);
}

static cn_tokenizer *read_unigram(const cn_tree *model)
{
  const cn_tree *vocab = cn_tree_get(model, "vocab");
  size_t n = cn_tree_size(vocab);
  int64_t unknown = cn_tree_as_int(cn_tree_get(model, "unk_id"), -1);
  cn_tokenizer *t = cni_unigram_new(flag_of(model, "byte_fallback", false));
  int status = t ? CN_OK : cn_err();
  if (!status && (!n || unknown >= (int64_t)n))
    status = cn_err_set(CN_ERR_IO, n ? "its unk_id is not in the vocabulary" : "there is no vocabulary");
  for (size_t i = 0; i < n && !status; i++) {
    const cn_tree *row = cn_tree_at(vocab, i), *piece = cn_tree_at(row, 0);
    const char *s = cn_tree_as_str(piece, NULL);
    if (!s) status = cn_err_set(CN_ERR_IO, "piece %zu of the vocabulary is no text with a score", i);
    else
      status =
          cni_unigram_put(t, s, cn_tree_str_size(piece), (int64_t)i, cn_tree_as_float(cn_tree_at(row, 1), 0), false);
  }
  if (!status) status = cni_unigram_ready(t, unknown);
  return done(t, status);
}

cn_tokenizer *cni_tokenizer_read_steps(const cn_tree *root)
{
  const cn_tree *model = cn_tree_get(root, "model");
  const char *type = type_of(model);
  cn_tokenizer *t = NULL;
  /* Files of old have no type; only BPE has merges, and only Unigram a list. */
  bool typed = cn_tree_get(model, "type");
  if (!strcmp(type, "BPE") || (!typed && cn_tree_get(model, "merges"))) t = read_bpe(model);
  else if (!strcmp(type, "WordPiece")) t = read_wordpiece(model);
  else if (!strcmp(type, "WordLevel")) t = read_words(model);
  else if (!strcmp(type, "Unigram") || (!typed && cn_tree_kind_of(cn_tree_get(model, "vocab")) == CN_TREE_LIST))
    t = read_unigram(model);
  else unsupported("model", type);
  return t ? done(t, read_parts(t, root)) : NULL;
}
