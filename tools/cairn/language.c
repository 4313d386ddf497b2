/* language.c: see language.h. */
#include "language.h"

#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"

static cn_tokenizer *find_tokenizer(const char *folder)
{
  char vocab[COMMAND_PATH], merges[COMMAND_PATH];
  if (command_is_file(folder, "tokenizer.json"))
    return cn_tokenizer_json(command_join(vocab, folder, "tokenizer.json"));
  if (command_is_file(folder, "vocab.json") && command_is_file(folder, "merges.txt"))
    return cn_tokenizer_bpe(command_join(vocab, folder, "vocab.json"), command_join(merges, folder, "merges.txt"));
  if (command_is_file(folder, "vocab.txt"))
    return cn_tokenizer_wordpiece(command_join(vocab, folder, "vocab.txt"), true);
  cn_err_set(CN_ERR_IO, "%s: there is no tokenizer (tokenizer.json, vocab.json and merges.txt, or vocab.txt)", folder);
  return NULL;
}

/* The network of the zoo that a config.json asks for. */
static const char *zoo_name(const cn_tree *config)
{
  static const struct {
    const char *type, *name;
  } known[] = {{"gpt2", "gpt2"}, {"llama", "llama"}, {"mistral", "llama"}, {"bert", "bert"}};
  const char *type = cn_tree_as_str(cn_tree_get(config, "model_type"), "");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].type, type)) return known[i].name;
  return NULL;
}

static int open_folder(language *l, const char *folder, const char *weights, const char *name)
{
  char path[COMMAND_PATH];
  cn_tree *config = command_is_file(folder, "config.json") ? cn_load(command_join(path, folder, "config.json")) : NULL;
  if (!name && config) name = zoo_name(config);
  if (!name && !cn_err())
    cn_err_set(CN_ERR_IO, "%s: there is no config.json that says what network it is; give --model NAME", folder);
  if (!cn_err()) l->net = cn_zoo(name, .pretrained = weights);
  cn_tree_free(config);
  if (l->net) l->tokenizer = find_tokenizer(folder);
  return cn_err();
}

static int open_trained(language *l, const char *what)
{
  model m;
  if (!model_open(&m, what, NULL)) {
    l->net = cn_module_keep(m.net);
    if (model_is_text(m.description)) l->tokenizer = cn_description_tokenizer(m.description);
    else cn_err_set(CN_ERR_VALUE, "%s: this network was not trained on text", what);
  }
  model_close(&m);
  return cn_err();
}

int language_open(language *l, const char *what, const char *name)
{
  char folder[COMMAND_PATH];
  cn_path_kind kind = cn_path_kind_of(what);
  *l = (language){NULL, NULL};
  snprintf(folder, sizeof folder, "%s", what);
  if (kind == CN_PATH_NONE) return cn_err_set(CN_ERR_IO, "there is no folder or file '%s'", what);
  if (kind == CN_PATH_FILE) {
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    else snprintf(folder, sizeof folder, ".");
  }
  int status = command_is_file(folder, MODEL_FILE) ? open_trained(l, what) : open_folder(l, folder, what, name);
  if (l->net) cn_module_train(l->net, false);
  return status;
}

void language_close(language *l)
{
  cn_tokenizer_free(l->tokenizer);
  cn_module_release(l->net);
}
