/* model.h: networks that a command is given: a description file, a name of the zoo, or a checkpoint with what lies
 * beside it. */
#ifndef CAIRN_COMMAND_MODEL_H
#define CAIRN_COMMAND_MODEL_H

#include <cairn/train.h>

/* What `cairn train` leaves in its folder besides checkpoints. */
#define MODEL_FILE "net.cfg"
#define MODEL_BEST "best.safetensors"
#define MODEL_LAST "last.safetensors"
#define MODEL_CHARACTERS "characters.txt" /* of texts: all that it knows */
#define MODEL_CONFIG "settings.json"      /* of networks of the zoo */

typedef struct model {
  cn_description *description;
  cn_module *net; /* NULL until it is made */
  bool trained;   /* has weights of a file */
} model;

/* what: FILE.cfg, a name of the zoo, a folder that `cairn train` made, or a checkpoint in one. weights (may be NULL): a
 * file to load. 0 or a negative status; model_close in any case. */
int model_open(model *m, const char *what, const char *weights);
/* The description alone, and from where its weights come ("" : none). */
int model_find(model *m, char *weights, const char *what);
void model_close(model *m);
/* The shape of one sample; 0 dimensions when neither the description nor the data tell. */
size_t model_input(int64_t *shape, const model *m);
/* The same, or a usual one, or that of the first sample of its data; check the error. */
size_t model_sample(int64_t *shape, const model *m);
/* What class i is called: its label, or its number (static storage). */
const char *model_label(const model *m, int64_t i);
int64_t model_number(const cn_description *d, const char *section, const char *key, int64_t otherwise);
const char *model_word(const cn_description *d, const char *section, const char *key, const char *otherwise);
/* Sets a text of any characters, a path say. */
int model_set_text(cn_description *d, const char *section, const char *key, const char *text);
/* Does it learn classes (by cross entropy) of single things, not of texts? */
bool model_classifies(const cn_description *d);
bool model_is_text(const cn_description *d);
/* A loss for cn_fit and cn_evaluate whose payload is a loss module: puts tokens of texts in a row, and targets into the
 * shape of outputs. */
cn_tensor *model_loss(cn_tensor *output, const cn_batch *batch, void *loss);

#endif
