/* transform.c: changes of images, at random or not, that stand in a data set. See data.h.
 *
 * Place in the flow: parameters are drawn here as torchvision draws them; image loops are called below.
 * Invariant: a transform never changes once made, and uses the draws it is given alone: any thread gives the same. */
#include <math.h>
#include <string.h>

#include "pixels.h"

enum { NUMBERS = 8, TRIES = 10 };

struct cn_transform {
  cn_tensor *(*apply)(const cn_transform *t, cn_tensor *image, cn_draws *draws);
  int64_t height, width;
  double v[NUMBERS]; /* what each kind says */
  cn_transform **list; /* of cn_transform_all */
  size_t n;
  double *mean, *std; /* n of each */
  cn_transform_fn fn;
  void *payload;
  void (*free)(void *);
};

typedef cn_tensor *apply_fn(const cn_transform *t, cn_tensor *image, cn_draws *draws);

static cn_transform *make(apply_fn *apply)
{
  cn_transform *t = cn_err() ? NULL : cn_alloc_zero(sizeof *t);
  if (t) t->apply = apply;
  return t;
}

void cn_transform_free(cn_transform *t)
{
  if (!t) return;
  for (size_t i = 0; t->list && i < t->n; i++) cn_transform_free(t->list[i]);
  cn_free(t->list, t->n * sizeof(cn_transform *));
  cn_free(t->mean, t->n * sizeof *t->mean);
  cn_free(t->std, t->n * sizeof *t->std);
  if (t->free) t->free(t->payload);
  cn_free(t, sizeof *t);
}

cn_tensor *cn_transform_apply(cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  cn_draws fixed = {0, 0, 0};
  if (cn_err()) return NULL;
  if (!t) {
    cn_err_set(CN_ERR_TYPE, "transform: it is missing (NULL)");
    return NULL;
  }
  cn_scope *s = cn_scope_begin();
  image = t->apply(t, image, draws ? draws : &fixed);
  return cn_scope_return(s, image);
}

static double between(cn_draws *d, double low, double high) { return low + (high - low) * cn_draw_uniform(d); }

static cn_transform *refused(const char *what)
{
  cn_err_set(CN_ERR_VALUE, "transform: %s", what);
  return NULL;
}

/* ---- several, a program's own, and on a data set ---- */

static cn_tensor *apply_all(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  for (size_t i = 0; i < t->n && image; i++) image = t->list[i]->apply(t->list[i], image, draws);
  return image;
}

cn_transform *cn_transform_all(cn_transform *const *list, size_t n)
{
  cn_transform *t = make(apply_all);
  bool whole = t != NULL;
  for (size_t i = 0; i < n && whole; i++) whole = list[i] != NULL;
  if (t && whole) t->list = cn_alloc(n * sizeof *t->list);
  if (t && t->list) {
    memcpy(t->list, list, n * sizeof *t->list);
    t->n = n;
    return t;
  }
  for (size_t i = 0; i < n; i++) cn_transform_free(list[i]);
  cn_transform_free(t);
  cn_err_set(CN_ERR_TYPE, "transform: one of a list is missing (NULL)");
  return NULL;
}

static cn_tensor *apply_own(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  return t->fn(image, draws, t->payload);
}

cn_transform *cn_transform_new(cn_transform_fn fn, void *payload, void (*drop)(void *))
{
  cn_transform *t = make(apply_own);
  if (!t && drop) drop(payload);
  if (!t) return NULL;
  t->fn = fn;
  t->payload = payload;
  t->free = drop;
  return t;
}

static int map_image(cn_sample *sample, cn_draws *draws, void *payload)
{
  cn_transform *t = payload;
  if (!sample->n) return cn_err_set(CN_ERR_VALUE, "transform: the sample has no image");
  return cn_set(&sample->v[0], t->apply(t, sample->v[0], draws));
}

static void free_transform(void *payload) { cn_transform_free(payload); }

cn_dataset *cn_dataset_transform(cn_dataset *set, cn_transform *t)
{
  if (!t) {
    cn_err_set(CN_ERR_TYPE, "transform: it is missing (NULL)");
    cn_dataset_release(set);
    return NULL;
  }
  return cn_dataset_map(set, map_image, t, free_transform);
}

/* ---- without chance ---- */

static cn_tensor *apply_float(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  (void)t, (void)draws;
  return cn_image_float(image);
}

cn_transform *cn_transform_float(void) { return make(apply_float); }

static cn_transform *sized(apply_fn *apply, int64_t height, int64_t width)
{
  if (height < 1 || width < 1) return refused("sizes must be positive");
  cn_transform *t = make(apply);
  if (t) t->height = height, t->width = width;
  return t;
}

/* The shorter side gets the size, the longer one what keeps the proportions, cut off. */
static cn_tensor *apply_resize(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  (void)draws;
  int64_t h = cn_size(image, -2), w = cn_size(image, -1), height = t->height, width = t->width;
  if (cn_ndim(image) == 3 && width == 0 && h > 0 && w > 0) {
    width = h <= w ? height * w / h : height;
    height = h <= w ? t->height : t->height * h / w;
  }
  return h == height && w == width ? image : cn_image_resize(image, height, width);
}

cn_transform *cn_transform_resize(int64_t height, int64_t width)
{
  cn_transform *t = sized(apply_resize, height, width ? width : 1);
  if (t) t->width = width;
  return t;
}

/* An odd pixel goes to the far side when cut off and to the near one when added, by rounding half to even. */
static cn_tensor *apply_center_crop(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  (void)draws;
  double h = (double)cn_size(image, -2), w = (double)cn_size(image, -1);
  double top = (h - (double)t->height) / 2, left = (w - (double)t->width) / 2;
  top = top >= 0 ? rint(top) : ceil(top);
  left = left >= 0 ? rint(left) : ceil(left);
  return cn_image_crop(image, (int64_t)top, (int64_t)left, t->height, t->width);
}

cn_transform *cn_transform_center_crop(int64_t height, int64_t width)
{
  return sized(apply_center_crop, height, width);
}

static cn_tensor *apply_grayscale(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  (void)draws;
  return cn_image_grayscale(image, (int)t->v[0]);
}

cn_transform *cn_transform_grayscale(int channels)
{
  if (channels != 1 && channels != 3) return refused("grayscale has 1 or 3 channels");
  cn_transform *t = make(apply_grayscale);
  if (t) t->v[0] = channels;
  return t;
}

static cn_tensor *apply_normalize(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  (void)draws;
  return cn_image_normalize(image, t->mean, t->std, t->n);
}

cn_transform *cn_transform_normalize(const double *mean, const double *std, size_t channels)
{
  if (channels < 1) return refused("normalize needs a mean and a deviation for each channel");
  cn_transform *t = make(apply_normalize);
  if (!t) return NULL;
  t->n = channels;
  t->mean = cn_alloc(channels * sizeof *mean);
  t->std = cn_alloc(channels * sizeof *std);
  if (!t->mean || !t->std) {
    cn_transform_free(t);
    return NULL;
  }
  memcpy(t->mean, mean, channels * sizeof *mean);
  memcpy(t->std, std, channels * sizeof *std);
  return t;
}

/* ---- at random ---- */

static cn_tensor *apply_random_crop(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  int64_t padding = (int64_t)t->v[0], h = cn_size(image, -2) + 2 * padding, w = cn_size(image, -1) + 2 * padding;
  if (cn_ndim(image) == 3 && (h < t->height || w < t->width)) {
    cn_err_set(CN_ERR_SHAPE, "random crop: %lld x %lld pixels from %lld x %lld with the padding", (long long)t->height,
               (long long)t->width, (long long)h, (long long)w);
    return NULL;
  }
  int64_t top = cn_draw_below(draws, h - t->height + 1), left = cn_draw_below(draws, w - t->width + 1);
  return cn_image_crop(image, top - padding, left - padding, t->height, t->width);
}

cn_transform *cn_transform_random_crop(int64_t height, int64_t width, int64_t padding)
{
  if (padding < 0) return refused("padding cannot be negative");
  cn_transform *t = sized(apply_random_crop, height, width);
  if (t) t->v[0] = (double)padding;
  return t;
}

/* A window whose area and proportions were drawn; after ten that did not fit, the largest in the middle that has an
 * allowed shape. v: least and greatest part of the area, least and greatest logarithm of width : height. */
static void draw_window(int64_t window[4], const double *v, int64_t h, int64_t w, cn_draws *draws)
{
  double area = (double)h * (double)w;
  for (int i = 0; i < TRIES; i++) {
    double part = area * between(draws, v[0], v[1]), ratio = exp(between(draws, v[2], v[3]));
    int64_t width = (int64_t)rint(sqrt(part * ratio)), height = (int64_t)rint(sqrt(part / ratio));
    if (width < 1 || width > w || height < 1 || height > h) continue;
    window[0] = cn_draw_below(draws, h - height + 1);
    window[1] = cn_draw_below(draws, w - width + 1);
    window[2] = height;
    window[3] = width;
    return;
  }
  double ratio = (double)w / (double)h, least = exp(v[2]), most = exp(v[3]);
  window[2] = ratio < least ? (int64_t)rint((double)w / least) : h;
  window[3] = ratio > most ? (int64_t)rint((double)h * most) : w;
  window[0] = (h - window[2]) / 2;
  window[1] = (w - window[3]) / 2;
}

static cn_tensor *apply_random_resized_crop(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  int64_t window[4];
  draw_window(window, t->v, cn_size(image, -2), cn_size(image, -1), draws);
  return cn_image_resized_crop(image, window, t->height, t->width);
}

cn_transform *cn_transform_random_resized_crop(int64_t height, int64_t width, double min_scale, double max_scale)
{
  if (min_scale == 0 && max_scale == 0) min_scale = 0.08, max_scale = 1;
  if (!(min_scale > 0 && max_scale >= min_scale)) return refused("scales go from a positive number to a larger one");
  cn_transform *t = sized(apply_random_resized_crop, height, width);
  if (t) t->v[0] = min_scale, t->v[1] = max_scale, t->v[2] = log(3.0 / 4), t->v[3] = log(4.0 / 3);
  return t;
}

static cn_tensor *apply_random_flip(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  bool horizontal = cn_draw_uniform(draws) < t->v[0], vertical = cn_draw_uniform(draws) < t->v[1];
  return cn_image_flip(image, horizontal, vertical);
}

static bool is_probability(double p) { return p >= 0 && p <= 1; }

cn_transform *cn_transform_random_flip(double horizontal, double vertical)
{
  if (!is_probability(horizontal) || !is_probability(vertical)) return refused("probabilities lie between 0 and 1");
  cn_transform *t = make(apply_random_flip);
  if (t) t->v[0] = horizontal, t->v[1] = vertical;
  return t;
}

static cn_tensor *apply_random_rotation(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  return cn_image_rotate(image, between(draws, -t->v[0], t->v[0]));
}

cn_transform *cn_transform_random_rotation(double degrees)
{
  if (!(degrees >= 0)) return refused("degrees go from 0 on");
  cn_transform *t = make(apply_random_rotation);
  if (t) t->v[0] = degrees;
  return t;
}

static cn_tensor *apply_random_affine(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  double most_x = t->v[1] * (double)cn_size(image, -1), most_y = t->v[1] * (double)cn_size(image, -2);
  double angle = between(draws, -t->v[0], t->v[0]);
  double x = rint(between(draws, -most_x, most_x)), y = rint(between(draws, -most_y, most_y));
  double scale = between(draws, t->v[2], t->v[3]), shear = between(draws, -t->v[4], t->v[4]);
  return cn_image_affine(image, angle, x, y, scale, shear, 0);
}

cn_transform *cn_transform_random_affine(double degrees, double translate, double min_scale, double max_scale,
                                         double shear)
{
  if (min_scale == 0 && max_scale == 0) min_scale = max_scale = 1;
  if (!(degrees >= 0 && is_probability(translate) && min_scale > 0 && max_scale >= min_scale && shear >= 0))
    return refused("affine wants degrees and shear from 0 on, translate in [0, 1] and positive scales");
  cn_transform *t = make(apply_random_affine);
  if (t) t->v[0] = degrees, t->v[1] = translate, t->v[2] = min_scale, t->v[3] = max_scale, t->v[4] = shear;
  return t;
}

/* The four changes in random order. */
static cn_tensor *apply_color_jitter(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  cn_tensor *(*const change[4])(cn_tensor *, double) = {cn_image_brightness, cn_image_contrast, cn_image_saturation,
                                                        cn_image_hue};
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; i--) {
    int j = (int)cn_draw_below(draws, i + 1), k = order[i];
    order[i] = order[j];
    order[j] = k;
  }
  for (int i = 0; i < 4 && image; i++) {
    int k = order[i];
    double by = t->v[k], least = k == 3 ? -by : fmax(0, 1 - by), most = k == 3 ? by : 1 + by;
    double factor = between(draws, least, most);
    if (by > 0) image = change[k](image, factor);
  }
  return image;
}

cn_transform *cn_transform_color_jitter(double brightness, double contrast, double saturation, double hue)
{
  if (!(brightness >= 0 && contrast >= 0 && saturation >= 0 && hue >= 0 && hue <= 0.5))
    return refused("jitter goes from 0 on, and that of the hue to 0.5");
  cn_transform *t = make(apply_color_jitter);
  if (t) t->v[0] = brightness, t->v[1] = contrast, t->v[2] = saturation, t->v[3] = hue;
  return t;
}

/* Of 2 to 33 % of the area, and of a shape between 3 : 10 and 33 : 10; smaller than the image each way. */
static cn_tensor *apply_random_erasing(const cn_transform *t, cn_tensor *image, cn_draws *draws)
{
  if (cn_draw_uniform(draws) >= t->v[0]) return image;
  int64_t h = cn_size(image, -2), w = cn_size(image, -1);
  for (int i = 0; i < TRIES; i++) {
    double part = (double)h * (double)w * between(draws, 0.02, 0.33), ratio = exp(between(draws, log(0.3), log(3.3)));
    int64_t height = (int64_t)rint(sqrt(part * ratio)), width = (int64_t)rint(sqrt(part / ratio));
    if (height >= h || width >= w) continue;
    int64_t top = cn_draw_below(draws, h - height + 1), left = cn_draw_below(draws, w - width + 1);
    return cn_image_erase(image, top, left, height, width);
  }
  return image;
}

cn_transform *cn_transform_random_erasing(double probability)
{
  if (!is_probability(probability)) return refused("probabilities lie between 0 and 1");
  cn_transform *t = make(apply_random_erasing);
  if (t) t->v[0] = probability;
  return t;
}
