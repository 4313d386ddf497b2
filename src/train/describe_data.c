/* describe_data.c: the data of a description file: which set it is, its test part, its tokens. See describe.h.
 *
 * Place in the flow: [data] names a set, a folder or a file; what it holds is seen from its files. Invariant: training
 * and test data are the same whenever they are asked for, so that a checkpoint is never tested on what it learnt. */
#include <cairn/kw.h>
#include <cairn/zoo.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"

enum { PATH = 4096 };

/* folder/name, or the same gzipped, if it is there. */
static bool there(char *path, const char *folder, const char *name)
{
  static const char *const endings[] = {"", ".gz"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, PATH, "%s/%s%s", folder, name, endings[i]);
    if (cn_path_kind_of(path) != CN_PATH_NONE) return true;
  }
  return false;
}

/* ---- kinds of sets: each returns NULL without error when the folder is not of its kind ---- */

typedef struct source {
  const cn_description *d;
  const char *path;
  cn_part part; /* CN_TRAIN or CN_TEST */
  bool whole; /* out: it has no test part of its own: the part is still to be taken */
} source;

static cn_dataset *open_idx(source *s)
{
  static const char *const names[][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                         {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
  char images[PATH], labels[PATH];
  bool has[2];
  for (int i = 0; i < 2; i++) has[i] = there(images, s->path, names[i][0]) && there(labels, s->path, names[i][1]);
  if (!has[0] && !has[1]) return NULL;
  int which = has[0] && has[1] ? s->part == CN_TEST : has[1];
  s->whole = !has[0] || !has[1];
  there(images, s->path, names[which][0]);
  there(labels, s->path, names[which][1]);
  return cn_idx(images, labels);
}

static cn_dataset *open_cifar(source *s)
{
  char paths[6][PATH];
  const char *files[6];
  size_t n = 0;
  bool hundred = there(paths[0], s->path, "train.bin");
  if (!hundred && !there(paths[0], s->path, "data_batch_1.bin")) return NULL;
  if (s->part == CN_TEST) n = there(paths[0], s->path, hundred ? "test.bin" : "test_batch.bin");
  else if (hundred) n = 1;
  for (char name[32]; s->part != CN_TEST && !hundred && n < 5; n++) {
    snprintf(name, sizeof name, "data_batch_%zu.bin", n + 1);
    if (!there(paths[n], s->path, name)) break;
  }
  for (size_t i = 0; i < n; i++) files[i] = paths[i];
  if (n) return cn_cifar(files, n, hundred ? 100 : 10);
  cn_err_set(CN_ERR_IO, "%s: its test file is missing", s->path);
  return NULL;
}

/* train/CLASS/... and val/CLASS/..., or CLASS/... alone. */
static cn_dataset *open_folder(source *s)
{
  static const char *const tests[] = {"val", "test", "valid"};
  char train[PATH], test[PATH];
  snprintf(train, sizeof train, "%s/train", s->path);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    snprintf(test, sizeof test, "%s/%s", s->path, tests[i]);
    if (cn_path_kind_of(train) == CN_PATH_FOLDER && cn_path_kind_of(test) == CN_PATH_FOLDER)
      return cn_image_folder(s->part == CN_TEST ? test : train);
  }
  s->whole = true;
  return cn_image_folder(s->path);
}

static cn_dataset *open_csv(source *s)
{
  char number[32];
  const cn_tree *target = cn_description_get(s->d, "data", "target");
  const char *loss = cni_describe_word(s->d, "solver", "loss", "CrossEntropyLoss");
  snprintf(number, sizeof number, "%lld", (long long)cn_tree_as_int(target, 0));
  const char *column = cn_tree_kind_of(target) == CN_TREE_INT ? number : cn_tree_as_str(target, NULL);
  s->whole = true;
  return cn_csv(s->path, .header = cn_tree_as_bool(cn_description_get(s->d, "data", "header"), false), .target = column,
                .target_classes = !strcmp(loss, "CrossEntropyLoss") || !strcmp(loss, "NLLLoss"));
}

/* ---- text ---- */

bool cni_data_is_text(const cn_description *d)
{
  const char *set = cni_describe_word(d, "data", "set", "");
  return cn_description_get(d, "data", "tokens") || cn_string_ends(set, ".txt");
}

cn_tokenizer *cn_description_tokenizer(const cn_description *d)
{
  const char *path = cni_describe_word(d, "data", "set", ""), *kind = cni_describe_word(d, "data", "tokens", "chars");
  cn_tokenizer *made = NULL;
  cn_mapping file;
  if (!cni_described(d)) return NULL;
  if (!strcmp(kind, "bytes")) return cn_tokenizer_bytes();
  if (cn_string_ends(kind, ".json")) return cn_tokenizer_json(kind);
  if (strcmp(kind, "chars")) { /* the characters of another text than the data's */
    path = kind;
    if (cn_path_kind_of(kind) == CN_PATH_NONE) {
      cni_describe_fail(d, cni_entry_find(cni_section_find(d, "data"), "tokens")->line,
                        "[data]: tokens are chars, bytes, a tokenizer.json or a text with all characters, not '%s'",
                        kind);
      return NULL;
    }
  }
  if (cn_map_open(&file, path)) return NULL;
  made = cn_tokenizer_chars((const char *)file.data, file.size);
  cn_map_close(&file);
  return made;
}

/* The part of a text: its end is for testing. */
static cn_dataset *open_text(source *s, double test)
{
  int64_t length = cni_describe_number(s->d, "data", "length", 64),
          stride = cni_describe_number(s->d, "data", "stride", length);
  cn_tokenizer *tokenizer = cn_description_tokenizer(s->d);
  cn_dataset *set = NULL;
  cn_mapping file;
  if (!tokenizer) return NULL;
  cn_scope *scope = cn_scope_begin();
  if (!cn_map_open(&file, s->path)) {
    cn_tensor *all = cn_tokenizer_encode(tokenizer, (const char *)file.data, file.size, false);
    int64_t n = cn_numel(all), cut = n - (int64_t)((double)n * test);
    if (all) all = s->part == CN_TRAIN ? cn_narrow(all, 0, 0, cut) : cn_narrow(all, 0, cut, n - cut);
    if (all) set = cn_token_tensor(all, length, stride);
    cn_map_close(&file);
  }
  cn_scope_end(scope);
  cn_tokenizer_free(tokenizer);
  return set;
}

/* ---- the set ---- */

static cn_dataset *open_path(source *s, double test)
{
  cn_dataset *set = NULL;
  if (!strcmp(s->path, "digits")) return cn_digits(s->part);
  switch (cn_path_kind_of(s->path)) {
  case CN_PATH_NONE:
    cn_err_set(CN_ERR_IO, "there is no data set, folder or file '%s'", s->path);
    return NULL;
  case CN_PATH_FOLDER:
    set = open_idx(s);
    if (!set && !cn_err()) set = open_cifar(s);
    return set || cn_err() ? set : open_folder(s);
  default: break;
  }
  if (cni_data_is_text(s->d)) return open_text(s, test);
  if (cn_string_ends(s->path, ".csv") || cn_string_ends(s->path, ".csv.gz")) return open_csv(s);
  s->whole = true;
  return cn_dataset_load(s->path);
}

/* Takes the whole set over and gives a part of it, drawn at random but always the same. */
static cn_dataset *part_of(cn_dataset *whole, cn_part part, double test)
{
  cn_dataset *parts[2] = {NULL, NULL};
  int64_t n = cn_dataset_length(whole), sizes[2];
  sizes[1] = (int64_t)((double)n * test);
  if (!sizes[1] && n > 1) sizes[1] = 1;
  sizes[0] = n - sizes[1];
  cn_dataset_split(parts, whole, sizes, 2, 1);
  cn_dataset_release(whole);
  cn_dataset_release(parts[part == CN_TEST ? 0 : 1]);
  return parts[part == CN_TEST ? 1 : 0];
}

static cn_dataset *open_part(const cn_description *d, cn_part part)
{
  const cn_tree *test = cn_description_get(d, "data", "test");
  double fraction = cn_tree_as_float(test, 0.1);
  const char *other = cn_tree_as_str(test, NULL);
  source s = {d, cni_describe_word(d, "data", "set", NULL), part, false};
  if (!s.path) {
    cni_describe_fail(d, 0, "names no data: give set = NAME, FOLDER or FILE in [data]");
    return NULL;
  }
  if (!(fraction > 0) || !(fraction < 1)) {
    cni_describe_fail(d, 0, "[data]: test is another set, or a part between 0 and 1");
    return NULL;
  }
  if (other) s.path = part == CN_TEST ? other : s.path, fraction = part == CN_TEST ? 1 : 0; /* nothing is cut off */
  cn_dataset *set = open_path(&s, fraction);
  if (!set || (other && s.whole)) return set;
  return s.whole ? part_of(set, part, fraction) : set;
}

/* Both parts together, where they lie apart. */
static cn_dataset *open_all(const cn_description *d)
{
  cn_dataset *parts[2] = {open_part(d, CN_TRAIN), NULL};
  if (parts[0]) parts[1] = open_part(d, CN_TEST);
  if (parts[1]) return cn_dataset_concat(parts, 2);
  cn_dataset_release(parts[0]);
  return NULL;
}

static int set_labels(cn_dataset *set, const cn_tree *labels)
{
  enum { MOST = 2048 };
  const char *names[MOST];
  char numbers[MOST][24];
  size_t n = cn_tree_size(labels);
  if (!n) return CN_OK;
  if (n > MOST) return cn_err_set(CN_ERR_VALUE, "labels names %zu classes; up to %d can be named", n, MOST);
  for (size_t i = 0; i < n; i++) {
    snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)cn_tree_as_int(cn_tree_at(labels, i), 0));
    names[i] = cn_tree_as_str(cn_tree_at(labels, i), numbers[i]);
  }
  return cn_dataset_set_labels(set, names, n);
}

/* Shape and type of the first field of a set's first sample. */
static int first_sample(cni_input *input, cn_dataset *set)
{
  cn_sample sample = {{NULL}, 0};
  *input = (cni_input){.dtype = CN_F32};
  if (!cn_dataset_length(set)) return cn_err_set(CN_ERR_VALUE, "the data set is empty");
  int status = cn_dataset_get(&sample, set, 0);
  if (!status) {
    input->ndim = (size_t)cn_ndim(sample.v[0]);
    input->dtype = cn_dtype_of(sample.v[0]);
    if (input->ndim >= CN_MAX_DIMS) input->ndim = CN_MAX_DIMS - 1;
    if (input->ndim) memcpy(input->shape, cn_shape(sample.v[0]), input->ndim * sizeof *input->shape);
    cn_sample_clear(&sample);
  }
  return status;
}

/* Are samples to go through transforms: images that are not floats of the net's size already? */
static bool wants_transforms(const cn_description *d, const cni_input *is)
{
  static const char *const sections[] = {"augment", "test", "transform"};
  const cn_tree *input = cn_description_get(d, "net", "input");
  for (size_t i = 0; i < 3; i++)
    if (cni_section_find(d, sections[i]) && cni_section_find(d, sections[i])->n) return true;
  if (is->ndim != 3) return false;
  bool same = true;
  for (size_t i = 0; i < 3; i++) same &= cn_tree_as_int(cn_tree_at(input, i), is->shape[i]) == is->shape[i];
  return !same || is->dtype == CN_U8;
}

cn_dataset *cn_description_data(const cn_description *d, cn_part part)
{
  cni_input is;
  if (!cni_described(d)) return NULL;
  cn_dataset *set = part == CN_ALL ? open_all(d) : open_part(d, part);
  if (set && !set_labels(set, cn_description_get(d, "data", "labels")) && !first_sample(&is, set) &&
      wants_transforms(d, &is))
    set = cn_dataset_transform(set, cn_description_transform(d, part));
  if (!cn_err()) return set;
  cn_dataset_release(set);
  const cni_entry *e = cni_entry_find(cni_section_find(d, "data"), "set");
  if (e) cni_describe_blame(d, e->line, "[data]");
  return NULL;
}

/* ---- what nets ask ---- */

int cni_data_input(cni_input *input, const cn_description *d)
{
  if (!cn_description_get(d, "data", "set"))
    return cni_describe_fail(d, 0, "says nothing of the net's input: give input = SIZES in [net], or set in [data]");
  cn_dataset *set = cn_description_data(d, CN_TEST);
  int status = set ? first_sample(input, set) : cn_err();
  cn_dataset_release(set);
  return status;
}

int64_t cni_data_classes(const cn_description *d)
{
  int64_t n = (int64_t)cn_tree_size(cn_description_get(d, "data", "labels"));
  if (n || !cn_description_get(d, "data", "set")) return n;
  cn_dataset *set = cn_description_data(d, CN_TEST);
  if (!set) return cn_err();
  while (cn_dataset_label(set, (size_t)n)) n++;
  cn_dataset_release(set);
  return n;
}
