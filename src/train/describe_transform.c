/* describe_transform.c: what a description file does to images: [augment], [test] and [transform]. See describe.h.
 *
 * Place in the flow: a line is a transform of torchvision with its arguments in order. Training images go through
 * [augment], others through [test], all of them then through [transform]. Invariant: what comes out has the channels,
 * height and width of the net's input, and is float32. */
#include <string.h>

#include "describe.h"

/* ---- the transforms ---- */

static cn_transform *resize(const cn_value *a) { return cn_transform_resize(a[0].u.i, a[1].u.i); }
static int64_t or_square(const cn_value *a) { return a[1].u.i ? a[1].u.i : a[0].u.i; }
static cn_transform *center_crop(const cn_value *a) { return cn_transform_center_crop(a[0].u.i, or_square(a)); }
static cn_transform *random_crop(const cn_value *a) { return cn_transform_random_crop(a[0].u.i, a[0].u.i, a[1].u.i); }
static cn_transform *resized_crop(const cn_value *a)
{
  return cn_transform_random_resized_crop(a[0].u.i, a[0].u.i, a[1].u.f, a[2].u.f);
}
static cn_transform *flip_across(const cn_value *a) { return cn_transform_random_flip(a[0].u.f, 0); }
static cn_transform *flip_down(const cn_value *a) { return cn_transform_random_flip(0, a[0].u.f); }
static cn_transform *rotation(const cn_value *a) { return cn_transform_random_rotation(a[0].u.f); }
static cn_transform *affine(const cn_value *a)
{
  return cn_transform_random_affine(a[0].u.f, a[1].u.f, a[2].u.f, a[3].u.f, a[4].u.f);
}
static cn_transform *jitter(const cn_value *a)
{
  return cn_transform_color_jitter(a[0].u.f, a[1].u.f, a[2].u.f, a[3].u.f);
}
static cn_transform *erasing(const cn_value *a) { return cn_transform_random_erasing(a[0].u.f); }
static cn_transform *grayscale(const cn_value *a) { return cn_transform_grayscale((int)a[0].u.i); }
static cn_transform *normalize(const cn_value *a)
{
  if (a[0].n == a[1].n) return cn_transform_normalize(a[0].u.fs, a[1].u.fs, (size_t)a[0].n);
  cn_err_set(CN_ERR_VALUE, "Normalize needs a mean and a deviation for each channel, it has %d and %d", a[0].n, a[1].n);
  return NULL;
}

static const struct transform {
  const char *name, *sig;
  cn_transform *(*make)(const cn_value *args);
} transforms[] = {
  {"Resize", "Resize(int height, int width=0) -> Transform", resize},
  {"CenterCrop", "CenterCrop(int height, int width=0) -> Transform", center_crop},
  {"RandomCrop", "RandomCrop(int size, int padding=0) -> Transform", random_crop},
  {"RandomResizedCrop", "RandomResizedCrop(int size, float min_scale=0.08, float max_scale=1.0) -> Transform",
   resized_crop},
  {"RandomHorizontalFlip", "RandomHorizontalFlip(float p=0.5) -> Transform", flip_across},
  {"RandomVerticalFlip", "RandomVerticalFlip(float p=0.5) -> Transform", flip_down},
  {"RandomRotation", "RandomRotation(float degrees) -> Transform", rotation},
  {"RandomAffine",
   "RandomAffine(float degrees, float translate=0.0, float min_scale=0.0, float max_scale=0.0, float shear=0.0) "
   "-> Transform",
   affine},
  {"ColorJitter",
   "ColorJitter(float brightness=0.0, float contrast=0.0, float saturation=0.0, float hue=0.0) -> Transform", jitter},
  {"RandomErasing", "RandomErasing(float p=0.5) -> Transform", erasing},
  {"Grayscale", "Grayscale(int channels=1) -> Transform", grayscale},
  {"Normalize", "Normalize(float[] mean, float[] std) -> Transform", normalize},
};
enum { TRANSFORMS = sizeof transforms / sizeof *transforms };

static const char *name_at(size_t i, const void *payload)
{
  (void)payload;
  return i < TRANSFORMS ? transforms[i].name : NULL;
}

static const struct transform *find(const char *name)
{
  for (size_t i = 0; i < TRANSFORMS; i++)
    if (!strcmp(transforms[i].name, name)) return &transforms[i];
  return NULL;
}

/* ---- lines ---- */

/* Arguments in order: one value, or a list of them. */
static int gather(cni_given *given, const struct transform *t, const cn_signature *sig, const cn_tree *value)
{
  bool many = cn_tree_kind_of(value) == CN_TREE_LIST;
  size_t n = many ? cn_tree_size(value) : 1;
  if (n > (size_t)cn_signature_size(sig)) return cn_err_set(CN_ERR_VALUE, "too many arguments for %s", t->sig);
  for (size_t i = 0; i < n; i++)
    if (cni_given_set(given, sig, (int)i, many ? cn_tree_at(value, i) : value)) return cn_err();
  return CN_OK;
}

static cn_transform *make(const cni_entry *e)
{
  const struct transform *t = find(e->key);
  cn_signature *sig = cn_signature_parse(t->sig);
  cni_given *given = cni_given_new(sig);
  cn_args *args = NULL;
  cn_transform *made = NULL;
  if (given && !gather(given, t, sig, e->value))
    args = cn_args_new(sig, given->v, (size_t)cn_signature_size(sig));
  if (args) made = t->make(cn_args_values(args));
  cn_args_free(args);
  cni_given_free(given);
  cn_signature_free(sig);
  return made;
}

int cni_check_transforms(const cn_description *d)
{
  static const char *const sections[] = {"augment", "test", "transform"};
  for (size_t i = 0; i < 3; i++) {
    const cni_section *s = cni_section_find(d, sections[i]);
    for (size_t k = 0; s && k < s->n; k++) {
      if (!find(s->v[k].key)) return cni_describe_unknown(d, s->v[k].line, "transform", s->v[k].key, name_at, NULL);
      cn_transform *t = make(&s->v[k]);
      cn_transform_free(t);
      if (!t) return cni_describe_blame(d, s->v[k].line, s->v[k].key);
    }
  }
  return CN_OK;
}

/* ---- to the net's input ---- */

typedef struct wanted {
  int64_t channels, height, width; /* 0: as they are */
} wanted;

static void wanted_free(void *payload) { cn_free(payload, sizeof(wanted)); }

static cn_tensor *to_channels(cn_tensor *image, cn_draws *draws, void *payload)
{
  const wanted *w = payload;
  (void)draws;
  if (!w->channels || cn_size(image, 0) == w->channels) return image;
  return cn_image_grayscale(image, (int)w->channels);
}

static cn_tensor *to_size(cn_tensor *image, cn_draws *draws, void *payload)
{
  const wanted *w = payload;
  (void)draws;
  if (w->height && (cn_size(image, 1) != w->height || cn_size(image, 2) != w->width))
    image = cn_image_resize(image, w->height, w->width);
  return image && cn_dtype_of(image) == CN_U8 ? cn_image_float(image) : image;
}

static cn_transform *to_input(const cn_description *d, cn_transform_fn fn)
{
  const cn_tree *input = cn_description_get(d, "net", "input");
  wanted *w = cn_alloc_zero(sizeof *w);
  if (!w) return NULL;
  if (cn_tree_size(input) == 3) {
    w->channels = cn_tree_as_int(cn_tree_at(input, 0), 0);
    w->height = cn_tree_as_int(cn_tree_at(input, 1), 0);
    w->width = cn_tree_as_int(cn_tree_at(input, 2), 0);
  }
  return cn_transform_new(fn, w, wanted_free);
}

/* ---- all of it ---- */

enum { MOST = 64 };
typedef struct list {
  cn_transform *v[MOST];
  size_t n;
} list;

static void add_section(list *all, const cn_description *d, const char *name)
{
  const cni_section *s = cni_section_find(d, name);
  for (size_t i = 0; s && i < s->n && all->n < MOST - 2 && !cn_err(); i++) all->v[all->n++] = make(&s->v[i]);
}

cn_transform *cn_description_transform(const cn_description *d, cn_part part)
{
  list all = {{NULL}, 0};
  if (!cni_described(d)) return NULL;
  add_section(&all, d, part == CN_TRAIN ? "augment" : "test");
  all.v[all.n++] = to_input(d, to_channels);
  add_section(&all, d, "transform");
  all.v[all.n++] = to_input(d, to_size);
  return cn_transform_all(all.v, all.n);
}
