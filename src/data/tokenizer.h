/* tokenizer.h: what the tokenizers share: a vocabulary, the tokens that are found in a text as they stand, one call of
 * encode, and the table of functions that makes a kind.
 *
 * Place in the flow: tokenizer.c (public functions) calls a kind's functions: tokenizer_bpe.c, tokenizer_wordpiece.c,
 * tokenizer_unigram.c, and the small ones in tokenizer.c; tokenizer_json.c makes the larger kinds from a
 * tokenizer.json, tokenizer_sentencepiece.c from a .model. Below: tokenizer_steps.h, tokenizer_vocab.c and unicode.c.
 *
 *     text -> added tokens cut out -> normalise -> added tokens cut out again -> encode (words -> numbers)
 */
#ifndef CNI_DATA_TEXT_H
#define CNI_DATA_TEXT_H

#include <cairn/data.h>
#include <cairn/ext/system.h>
#include <pthread.h>

#include "tokenizer_steps.h"

/* ---- vocabulary ---- */

/* Tokens by number and numbers by token. Zero-initialise it. */
typedef struct cni_vocab {
  char *bytes; /* all tokens, a zero behind each */
  size_t used, cap;
  struct cni_token {
    size_t at; /* in bytes, plus 1; 0: no token has this number */
    uint32_t size;
    bool special; /* left out by skip_special */
  } * v;
  size_t n, v_cap; /* numbers are below n */
  uint32_t *table; /* number + 1 at the token's hash; 2^k slots, at least half of them empty */
  size_t slots, filled;
  size_t longest; /* bytes of a token */
} cni_vocab;
enum { CNI_MOST_TOKENS = 1 << 22 };

/* A token that is there already gets this number too, and is found by it from now on. Two tokens of one number are an
 * error. */
int cni_vocab_put(cni_vocab *vocab, const char *s, size_t n, int64_t id);
int64_t cni_vocab_find(const cni_vocab *vocab, const char *s, size_t n);    /* -1: none */
const char *cni_vocab_at(const cni_vocab *vocab, int64_t id, size_t *size); /* NULL: none */
void cni_vocab_free(cni_vocab *vocab);

/* ---- tokenizers ---- */

/* A token that is looked for in the text itself, before it is cut into words. */
typedef struct cni_added {
  int64_t id;
  char *s; /* what is looked for: the token, normalised where it is looked for in such text. Owned */
  size_t n;
  bool special;
  bool normalised;  /* looked for in normalised text */
  bool left, right; /* takes the white space before or behind it along */
  bool whole;       /* not within a word */
} cni_added;

/* A word and what it is encoded as: a cache line. */
enum { CNI_WORD_BYTES = 30, CNI_WORD_IDS = 8, CNI_WORDS = 1 << 14 };
typedef struct cni_word {
  uint8_t size, n; /* size 0: empty */
  char s[CNI_WORD_BYTES];
  uint32_t ids[CNI_WORD_IDS];
} cni_word;

typedef struct cni_text_class {
  const char *name;
  /* Text as encode wants it, appended to out. NULL: it takes text as it is. */
  void (*normalise)(cn_text *out, const cn_tokenizer *t, const char *s, size_t n);
  int (*encode)(cni_encoder *e, const char *s, size_t n); /* n > 0 */
  /* One token as text; first: nothing was put before it. NULL: the token itself. */
  void (*decode)(cn_text *out, const cn_tokenizer *t, const char *token, size_t n, bool first);
  void (*free)(void *model);
  int (*word)(cni_encoder *e, const char *s, size_t n); /* of kinds whose encode is cni_encode_pieces: n > 0 */
} cni_text_class;

enum { CNI_MARKS_MOST = 8 };
struct cn_tokenizer {
  const cni_text_class *cls;
  void *model; /* the kind's own */
  cni_vocab vocab;
  cni_text_steps normal, cuts, decoders; /* normal: instead of the kind's normalise, decoders instead of its decode */
  bool spaced;                      /* decoded tokens have a space between them: there is no decoder */
  cni_added *added;
  size_t nadded, added_cap;
  bool begins[2][256]; /* bytes with which added tokens begin: raw ones, normalised ones */
  int64_t before[CNI_MARKS_MOST], after[CNI_MARKS_MOST]; /* marks around a text */
  size_t nbefore, nafter;
  cni_word *words; /* CNI_WORDS of them, or NULL. Used by the call that holds the lock; others do without */
  pthread_mutex_t lock;
};

/* With an empty vocabulary. model is taken over, also when it fails. */
cn_tokenizer *cni_tokenizer_new(const cni_text_class *cls, void *model, bool cached);
/* Adds a token to look for, at its number of the vocabulary (where it is put when it is not there). */
int cni_tokenizer_add(cn_tokenizer *t, const char *s, size_t n, const cni_added *how);
int cni_tokenizer_mark(cn_tokenizer *t, bool before, int64_t id); /* one more mark around a text */

/* ---- encoding ---- */

/* One call of encode: what it has found, and room to work in that stays from word to word. */
struct cni_encoder {
  const cn_tokenizer *t;
  int64_t *ids;
  size_t n, cap;
  cni_word *words; /* NULL: no cache */
  bool first;      /* what is encoded begins the text */
  void *room[3];   /* of the kind */
  size_t room_cap[3], room_element[3];
};
int cni_encoder_room(cni_encoder *e, int which, size_t need, size_t element);

static inline int cni_encoder_put(cni_encoder *e, int64_t id)
{
  if (e->n == e->cap && cn_grow((void **)&e->ids, &e->cap, e->n + 1, sizeof *e->ids)) return CN_ERR_MEMORY;
  e->ids[e->n++] = id;
  return CN_OK;
}

/* Cuts a text by the tokenizer's steps and encodes each piece by its kind's word(). */
int cni_encode_pieces(cni_encoder *e, const char *s, size_t n);

/* Encodes one word by `fn`, or as it was encoded last time. */
int cni_encode_word(cni_encoder *e, const char *s, size_t n, int (*fn)(cni_encoder *e, const char *s, size_t n));

/* ---- kinds; texts of files, which `who` names in errors ---- */

typedef struct cni_bpe {
  bool prefix_space; /* in front of a text that has none */
  bool whole_words;  /* a word that is a token is that token, whatever the merges say */
  int digits;        /* 0: words are cut as GPT-2 does; else as LLaMA 3 does, numbers after so many digits */
  /* Of characters rather than bytes; words are then cut by steps. */
  bool chars;
  bool fallback;               /* a character without a token is its bytes' tokens, <0xE4> */
  bool fuse;                   /* neighbours that are unknown are one token */
  char prefix[16], suffix[16]; /* of all but the first character of a word, of its last */
} cni_bpe;
cn_tokenizer *cni_bpe_new(const cni_bpe *how, size_t most_merges);
int cni_bpe_merge(cn_tokenizer *t, const char *a, size_t a_size, const char *b, size_t b_size); /* the next one */
void cni_bpe_unknown(cn_tokenizer *t, int64_t id); /* for bytes without a token; before cni_bpe_ready */
void cni_bpe_ready(cn_tokenizer *t);               /* the vocabulary is complete */
/* Bytes of the first word of a text, by GPT-2's rules, or with a number of digits by LLaMA 3's. */
size_t cni_gpt2_word(const char *s, const char *end, int digits);
uint32_t cni_char_of_byte(unsigned byte);                     /* that stands for it in vocabularies */
void cni_bpe_decode(cn_text *out, const char *token, size_t n); /* such characters as bytes */
cn_tokenizer *cni_bpe_read(const char *vocab, size_t vocab_size, const char *merges, size_t merges_size);

typedef struct cni_wordpiece {
  bool clean, chinese, strip, lower; /* what normalise does */
  bool join, cleanup;                /* what decode does */
  int64_t unknown;
  size_t most;     /* characters of a word; longer ones are unknown */
  char prefix[16]; /* of pieces that continue a word */
} cni_wordpiece;
cn_tokenizer *cni_wordpiece_new(const cni_wordpiece *how, bool by_steps);
void cni_wordpiece_normalise(cn_text *out, const cni_wordpiece *how, const char *s, size_t n);
void cni_wordpiece_decode(cn_text *out, const char *prefix, bool cleanup, const char *token, size_t n, bool first);
void cni_wordpiece_clean_up(cn_text *text);
cn_tokenizer *cni_wordpiece_read(const char *text, size_t size, bool lower);

/* Unigram: each token has a score, and a word is cut so that their sum is greatest. */
cn_tokenizer *cni_unigram_new(bool fallback);
/* user: a score that says nothing of unknown text. */
int cni_unigram_put(cn_tokenizer *t, const char *s, size_t n, int64_t id, double score, bool user);
void cni_unigram_narrow(cn_tokenizer *t); /* computes as SentencePiece does */
int cni_unigram_ready(cn_tokenizer *t, int64_t unknown); /* the vocabulary is complete; unknown -1: none */
cn_tokenizer *cni_wordlevel_new(void);
void cni_wordlevel_unknown(cn_tokenizer *t, int64_t id);

cn_tokenizer *cni_sentencepiece_read(const char *data, size_t size);
cn_tokenizer *cni_tokenizer_read_json(const char *text, size_t size);
/* A tokenizer.json whose model is read by steps; `root` is the whole file. */
cn_tokenizer *cni_tokenizer_read_steps(const cn_tree *root);
int cni_tokenizer_read_normal(cn_tokenizer *t, const cn_tree *normalizer);
/* An expression for words that is known: how many digits a number has at most, 0: GPT-2's; -1: another one. */
int cni_words_known(const char *expression);
int cni_bpe_read_merges(cn_tokenizer *t, const cn_tree *merges);
int cni_vocab_put_tree(cni_vocab *vocab, const cn_tree *tree); /* {"token": number, ...} */

#endif
