/* model.c: see model.h. Invariant: what is needed to use a checkpoint lies in its folder; nothing is guessed. */
#include "model.h"

#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/zoo.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

static bool in_zoo(const char *name)
{
  const char *other, *doc;
  for (size_t i = 0; cn_zoo_at(i, &other, &doc); i++)
    if (!strcmp(name, other)) return true;
  return false;
}

static bool ends(const char *s, const char *with)
{
  size_t n = strlen(s), k = strlen(with);
  return n >= k && !strcmp(s + n - k, with);
}

/* A network of the zoo as a description: images as its weights want them. */
static cn_description *from_zoo(const char *name)
{
  char text[512];
  int n = snprintf(text, sizeof text, "[net]\nzoo = %s\n", name);
  if (cn_zoo_takes(name, "channels") && !strcmp(name, "lenet"))
    n += snprintf(text + n, sizeof text - (size_t)n, "input = 1, 28, 28\n");
  else if (cn_zoo_takes(name, "channels"))
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "input = 3, 224, 224\n[test]\nResize = 256\nCenterCrop = 224\n"
                  "[transform]\nNormalize = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]\n");
  return cn_description_read(text, (size_t)n, name);
}

static int unknown(const char *what)
{
  return cn_err_set(CN_ERR_IO, "there is no file, folder or network of the zoo called '%s'", what);
}

int model_find(model *m, char *weights, const char *what)
{
  char folder[COMMAND_PATH], path[COMMAND_PATH];
  cn_path_kind kind = cn_path_kind_of(what);
  *m = (model){NULL, NULL, false};
  *weights = 0;
  if (kind == CN_PATH_NONE) {
    m->description = in_zoo(what) ? from_zoo(what) : NULL;
    return m->description ? CN_OK : cn_err() ? cn_err() : unknown(what);
  }
  if (kind == CN_PATH_FILE && ends(what, ".cfg")) {
    m->description = cn_description_open(what);
    return cn_err();
  }
  snprintf(folder, sizeof folder, "%s", what);
  if (kind == CN_PATH_FILE) { /* a checkpoint: the description lies beside it */
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    else snprintf(folder, sizeof folder, ".");
    snprintf(weights, COMMAND_PATH, "%s", what);
  } else {
    command_join(weights, folder, command_is_file(folder, MODEL_BEST) ? MODEL_BEST : MODEL_LAST);
  }
  if (!command_is_file(folder, MODEL_FILE))
    return cn_err_set(CN_ERR_IO, "%s: there is no %s beside it to say what network it is", what, MODEL_FILE);
  m->description = cn_description_open(command_join(path, folder, MODEL_FILE));
  if (m->description && command_is_file(folder, MODEL_CHARACTERS)) /* wherever the folder lies by now */
    model_set_text(m->description, "data", "tokens", command_join(path, folder, MODEL_CHARACTERS));
  if (m->description && command_is_file(folder, MODEL_CONFIG))
    model_set_text(m->description, "net", "config", command_join(path, folder, MODEL_CONFIG));
  return cn_err();
}

/* Loads weights: of a checkpoint their average, where the run kept one, as its validation did. */
static int load(model *m, const char *path)
{
  double decay = cn_tree_as_float(cn_description_get(m->description, "solver", "average"), 0);
  int status = cn_module_load_file(m->net, path);
  if (status || decay <= 0) return status;
  cn_average *average = cn_average_new(m->net, decay, false);
  if (average && !cn_run_load(path, &(cn_run){.net = m->net, .average = average}, NULL)) {
    cn_module_release(m->net);
    m->net = cn_module_keep(cn_average_module(average));
  }
  cn_err_clear(); /* plain weights, which have no average, are loaded already */
  cn_average_free(average);
  return CN_OK;
}

int model_open(model *m, const char *what, const char *weights)
{
  char found[COMMAND_PATH];
  int status = model_find(m, found, what);
  if (status) return status;
  if (!weights && *found) weights = found;
  if (weights && model_word(m->description, "net", "zoo", NULL) && !*found) {
    /* the zoo knows the names that such files use */
    status = model_set_text(m->description, "net", "pretrained", weights);
    weights = NULL;
    m->trained = true;
  }
  if (!status) m->net = cn_description_net(m->description);
  if (m->net && weights) status = weights == found ? load(m, weights) : cn_module_load_file(m->net, weights);
  m->trained |= weights != NULL;
  if (m->net) cn_module_train(m->net, false);
  return status ? status : cn_err();
}

void model_close(model *m)
{
  cn_module_release(m->net);
  cn_description_free(m->description);
}

int64_t model_number(const cn_description *d, const char *section, const char *key, int64_t otherwise)
{
  return cn_tree_as_int(cn_description_get(d, section, key), otherwise);
}

const char *model_word(const cn_description *d, const char *section, const char *key, const char *otherwise)
{
  return cn_tree_as_str(cn_description_get(d, section, key), otherwise);
}

int model_set_text(cn_description *d, const char *section, const char *key, const char *text)
{
  cn_text quoted = {0};
  cn_text_putf(&quoted, "\"%s\"", text);
  int status = quoted.failed ? CN_ERR_MEMORY : cn_description_set(d, section, key, quoted.s);
  cn_text_free(&quoted);
  return status;
}

size_t model_input(int64_t *shape, const model *m)
{
  const cn_tree *input = cn_description_get(m->description, "net", "input");
  size_t n = cn_tree_size(input);
  for (size_t i = 0; i < n && i < CN_MAX_DIMS - 1; i++) shape[i] = cn_tree_as_int(cn_tree_at(input, i), 0);
  if (n || cn_tree_kind_of(input) != CN_TREE_INT) return n;
  shape[0] = cn_tree_as_int(input, 0);
  return 1;
}

/* A size that a network of the zoo makes sense of. */
static size_t usual_input(int64_t *shape, const cn_description *d)
{
  const char *zoo = model_word(d, "net", "zoo", "");
  if (!*zoo || cn_zoo_takes(zoo, "channels")) return 0;
  shape[0] = 64; /* tokens */
  return 1;
}

size_t model_sample(int64_t *shape, const model *m)
{
  cn_sample sample;
  size_t n = model_input(shape, m);
  if (!n) n = usual_input(shape, m->description);
  cn_dataset *set = n ? NULL : cn_description_data(m->description, CN_TEST);
  if (set && !cn_dataset_get(&sample, set, 0)) {
    n = (size_t)cn_ndim(sample.v[0]);
    memcpy(shape, cn_shape(sample.v[0]), n * sizeof *shape);
    cn_sample_clear(&sample);
  }
  cn_dataset_release(set);
  return n;
}

const char *model_label(const model *m, int64_t i)
{
  static char number[32];
  const cn_tree *labels = cn_description_get(m->description, "data", "labels");
  snprintf(number, sizeof number, "%lld", (long long)i);
  return cn_tree_as_str(cn_tree_at(labels, (size_t)i), number);
}

bool model_is_text(const cn_description *d)
{
  return cn_description_get(d, "data", "tokens") || ends(model_word(d, "data", "set", ""), ".txt");
}

bool model_classifies(const cn_description *d)
{
  const char *loss = model_word(d, "solver", "loss", "CrossEntropyLoss");
  return !model_is_text(d) && (!strcmp(loss, "CrossEntropyLoss") || !strcmp(loss, "NLLLoss"));
}

cn_tensor *model_loss(cn_tensor *output, const cn_batch *batch, void *loss)
{
  cn_tensor *y = batch->y;
  if (!y) {
    cn_err_set(CN_ERR_VALUE, "the data have no targets to learn");
    return NULL;
  }
  if (!cn_dtype_is_float(cn_dtype_of(y)) && cn_ndim(output) == 3 && cn_ndim(y) == 2) { /* (B, T, vocab), (B, T) */
    output = cn_reshape(output, CN_SHAPE(-1, cn_size(output, 2)));
    y = cn_reshape(y, CN_SHAPE(-1));
  } else if (cn_ndim(output) != cn_ndim(y) && cn_numel(output) == cn_numel(y)) { /* (B, 1), (B) */
    y = cn_cast(cn_reshape(y, cn_shape(output), (size_t)cn_ndim(output)), cn_dtype_of(output));
  }
  return cn_forward((cn_module *)loss, output, y);
}
