/* tokenizer_steps.h: the steps of a tokenizer.json: text is normalised, cut into pieces, and tokens are made text
 * again, each by a list of steps.
 *
 * Place in the flow: tokenizer.c runs normalisers and decoders, tokenizer_steps.c the cuts and then the model;
 * tokenizer_json_steps.c and tokenizer_sentencepiece.c make them. The steps: tokenizer_normal.c, tokenizer_words.c,
 * tokenizer_decode.c. */
#ifndef CNI_DATA_TOKENIZER_STEPS_H
#define CNI_DATA_TOKENIZER_STEPS_H

#include <cairn/ext/system.h>

typedef struct cn_tokenizer cn_tokenizer;
typedef struct cni_encoder cni_encoder;

/* Texts behind each other. Zero-initialise it. */
typedef struct cni_fragments {
  cn_text text;
  size_t *ends;
  size_t n, cap;
  const char *origin; /* where the first piece came from */
  bool first;         /* the first piece stands at the beginning of the whole text */
} cni_fragments;
void cni_fragments_put(cni_fragments *p, const char *s, size_t n); /* one more; nothing for an empty one */
void cni_fragments_end(cni_fragments *p); /* what was put into text is a piece, empty or not */
const char *cni_fragments_at(const cni_fragments *p, size_t i, size_t *size);
void cni_fragments_clear(cni_fragments *p);
void cni_fragments_free(cni_fragments *p);

typedef struct cni_text_step cni_text_step;
struct cni_text_step {
  void (*normalise)(cn_text *out, const cni_text_step *how, const char *s, size_t n);
  /* first: s is the beginning of the whole text. */
  void (*cut)(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first);
  void (*decode)(cni_fragments *out, const cni_text_step *how, const cni_fragments *in);
  char *a, *b; /* owned: what is looked for, what it becomes */
  size_t a_size, b_size;
  int kind;
  bool invert, flag, other;
  size_t from, to;
  void *data; /* owned: of cn_alloc, or freed by free_data */
  size_t data_size;
  void (*free_data)(void *data, size_t size);
  const void *of; /* borrowed */
};

typedef struct cni_text_steps {
  cni_text_step *v;
  size_t n, cap;
} cni_text_steps;
/* Takes over what the step owns, also when it fails. */
int cni_steps_add(cni_text_steps *steps, const cni_text_step *step);
void cni_step_free(cni_text_step *step);
void cni_steps_free(cni_text_steps *steps);
void cni_steps_normalise(cn_text *out, const cni_text_steps *steps, const char *s, size_t n);
/* The pieces that a text is cut into, in *p. 0, or an error code. */
int cni_steps_cut(cni_fragments *p, const cni_text_steps *steps, const char *s, size_t n, bool first);
int cni_steps_decode(cni_fragments *tokens, const cni_text_steps *steps); /* in place */

typedef void cni_normal_fn(cn_text *out, const cni_text_step *how, const char *s, size_t n);

/* ---- tokenizer_normal.c ---- */
enum { CNI_FORM_COMPATIBLE = 1, CNI_FORM_COMPOSED = 2 };
cni_normal_fn cni_normal_form; /* kind: of the two above */
cni_normal_fn cni_normal_lower;
cni_normal_fn cni_normal_accents;
cni_normal_fn cni_normal_strip;   /* flag: left; other: right */
cni_normal_fn cni_normal_prepend; /* a */
/* a becomes b; where from is not 0 runs of so many characters do: of spaces, or with flag of white space. */
cni_normal_fn cni_normal_replace;
cni_normal_fn cni_normal_nmt;
cni_normal_fn cni_normal_bert;  /* data: a cni_wordpiece */
cni_normal_fn cni_normal_bytes; /* as characters */

/* ---- tokenizer_charsmap.c; data: the map of a SentencePiece model as it is in files ---- */
cni_normal_fn cni_normal_charsmap;
/* The map's text for the longest beginning of s that it has, NULL: none. *taken: bytes of s; *size: of the text. */
const char *cni_charsmap_find(const cni_text_step *map, const char *s, size_t n, size_t *taken, size_t *size);
int cni_charsmap_check(const cni_text_step *map); /* an error where it is no map */

/* ---- tokenizer_words.c ---- */
enum { CNI_CUT_REMOVED, CNI_CUT_ISOLATED, CNI_CUT_TO_PREVIOUS, CNI_CUT_TO_NEXT, CNI_CUT_CONTIGUOUS };
enum {
  CNI_FIND_TEXT,
  CNI_FIND_SPACE,
  CNI_FIND_PUNCTUATION,
  CNI_FIND_NUMERIC,
  CNI_FIND_WORDS,
  CNI_FIND_GPT2,
  CNI_FIND_LLAMA3
};
typedef void cni_cut_fn(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first);
cni_cut_fn cni_cut_at; /* kind: what is found; from: what becomes of it; invert; to: digits of LLaMA 3's numbers */
enum { CNI_PREPEND_NEVER, CNI_PREPEND_FIRST, CNI_PREPEND_ALWAYS };
cni_cut_fn cni_cut_metaspace; /* a: what spaces become; kind: one in front; flag: cut there */
cni_cut_fn cni_cut_bytes;     /* flag: GPT-2's words; other: a space in front */
cni_cut_fn cni_cut_bert;

/* ---- tokenizer_decode.c ---- */
int cni_byte_of_token(const char *s, size_t n);         /* the byte that "<0xE4>" is; -1: it is none */
size_t cni_token_of_byte(char token[8], unsigned byte); /* and back; its size */
typedef void cni_decode_fn(cni_fragments *out, const cni_text_step *how, const cni_fragments *in);
cni_decode_fn cni_decode_bytes; /* characters as bytes */
cni_decode_fn cni_decode_fallback;
cni_decode_fn cni_decode_fuse;
cni_decode_fn cni_decode_strip;     /* a; from, to: at most so many before and behind */
cni_decode_fn cni_decode_replace;   /* a by b */
cni_decode_fn cni_decode_metaspace; /* a, kind */
cni_decode_fn cni_decode_wordpiece; /* a: prefix; flag: clean up */
cni_decode_fn cni_decode_suffix;    /* a */
cni_decode_fn cni_decode_ctc;       /* a: pad, b: between words; flag: clean up */

#endif
