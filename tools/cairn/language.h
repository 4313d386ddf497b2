/* language.h: language models in a folder as transformers lays it out, with their tokenizer. */
#ifndef CAIRN_COMMAND_LANGUAGE_H
#define CAIRN_COMMAND_LANGUAGE_H

#include <cairn/zoo.h>

typedef struct language {
  cn_module *net;
  cn_tokenizer *tokenizer;
} language;

/* what: a folder with config.json, weights and a tokenizer (tokenizer.json, vocab.json and merges.txt, or vocab.txt),
 * or a file of weights in such a folder; or a folder of `cairn train`. name: of the zoo, where config.json does not
 * tell; may be NULL. 0 or a negative status; language_close in any case. */
int language_open(language *l, const char *what, const char *name);
void language_close(language *l);

#endif
