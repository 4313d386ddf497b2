/* small.h: small language models with the formula's weights, and comparing, for the tests of generation and loading. */
#ifndef TESTS_MODELS_SMALL_H
#define TESTS_MODELS_SMALL_H

#include <cairn/cairn.h>

enum { SMALL_MODELS = 4, SMALL_VOCAB = 61 };
typedef struct small_model {
  const char *name, *config; /* JSON */
  int64_t vocab;
} small_model;
extern const small_model small_models[SMALL_MODELS]; /* gpt2, llama, char_lstm, char_rnn */
extern const char small_bert[];                      /* a configuration */

cn_module *small_made(const char *name, const char *json, int64_t vocab); /* fails the test when it cannot */
cn_module *small(int i);
void must_equal(cn_tensor *a, cn_tensor *b);
void must_be_near(cn_tensor *a, cn_tensor *b);

#endif
