/* image.c: images from files and back, through the plugin of image formats, and folders of them. See data.h.
 *
 * Place in the flow: ext/codec.h is the seam to libcairn_image.so, which is loaded with the first image. Pixels lie
 * as the decoder writes them, all channels of one beside each other; the tensor is a (C, H, W) view of that, so that
 * nothing is moved before a transform wants it. Invariant: any bytes give an image or an error. */
#include <cairn/ext/codec.h>
#include <cairn/io.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "data.h"

enum { PIXELS_MAX = 178956970, QUALITY = 90 }; /* a picture of more pixels is taken for an attack, as in Pillow */

/* ---- the plugin ---- */

static const cn_codec_table *plugin;
static pthread_once_t plugin_once = PTHREAD_ONCE_INIT;

static void load_plugin(void)
{
  cn_codec_init_fn start;
  void *symbol = cn_library_symbol(cn_plugin_open("image"), "cn_codec_init");
  if (!symbol) return;
  memcpy(&start, &symbol, sizeof start);
  plugin = start(CN_CODEC_ABI);
}

static bool have_plugin(void)
{
  pthread_once(&plugin_once, load_plugin);
  return plugin != NULL;
}

static int find_plugin(void)
{
  if (have_plugin()) return CN_OK;
  return cn_err_set(CN_ERR_UNSUPPORTED,
                    "images: libcairn_image.so was not found. It is built with cairn where libpng and libjpeg are "
                    "there (Debian: libpng-dev, libjpeg-dev); CAIRN_PLUGIN_PATH names its folder");
}

static const cn_codec *codec_named(const char *name)
{
  for (size_t i = 0; have_plugin() && i < plugin->n; i++)
    if (!strcmp(plugin->codecs[i]->name, name)) return plugin->codecs[i];
  return NULL;
}

static const cn_codec *codec_of_bytes(const unsigned char *bytes, size_t size)
{
  for (size_t i = 0; i < plugin->n; i++)
    if (plugin->codecs[i]->knows(bytes, size)) return plugin->codecs[i];
  return NULL;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    char x = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] + 32) : a[i];
    if (x != b[i]) return false;
  }
  return true;
}

/* Whether a list of words ("jpg jpeg") has the ending of a path. */
static bool has_ending(const char *path, const char *words)
{
  const char *dot = strrchr(path, '.');
  size_t n = dot && !strchr(dot, '/') ? strlen(++dot) : 0;
  for (const char *word = words; n && *word;) {
    size_t length = strcspn(word, " ");
    if (length == n && same_letters(dot, word, n)) return true;
    word += length + (word[length] == ' ');
  }
  return false;
}

/* ---- reading ---- */

static unsigned char *room(void *payload, int64_t width, int64_t height, int channels)
{
  cn_tensor **t = payload;
  *t = cn_empty(CN_SHAPE(height, width, channels), .dtype = CN_U8, .device = CN_CPU);
  return *t ? cn_data(*t) : NULL;
}

static cn_tensor *decode(const void *bytes, size_t size, int channels, const char *who)
{
  if (cn_err()) return NULL;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    cn_err_set(CN_ERR_VALUE, "%s: %d channels; 0, 1, 3 or 4 are possible", who, channels);
    return NULL;
  }
  if (find_plugin()) return NULL;
  const cn_codec *codec = bytes ? codec_of_bytes(bytes, size) : NULL;
  if (!codec) {
    cn_err_set(CN_ERR_IO, "%s: is neither a PNG nor a JPEG image", who);
    return NULL;
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = NULL;
  cn_codec_read call = {.bytes = bytes, .size = size, .channels = channels, .pixels = PIXELS_MAX, .room = room,
                        .payload = &t};
  if (!codec->read(&call)) {
    cn_err_set(CN_ERR_IO, "%s: is a broken %s image: %s", who, codec->name, call.message);
    t = NULL;
  }
  return cn_scope_return(s, t ? cn_permute(t, CN_SHAPE(2, 0, 1)) : NULL);
}

cn_tensor *cn_image_decode(const void *bytes, size_t size, int channels)
{
  return decode(bytes, size, channels, "image");
}

cn_tensor *cn_image_load(const char *path, int channels)
{
  cn_mapping m;
  if (cn_err() || cn_map_open(&m, path)) return NULL;
  cn_tensor *t = decode(m.data, m.size, channels, path);
  cn_map_close(&m);
  return t;
}

/* ---- writing ---- */

/* (C, H, W) of bytes, or of floats in [0, 1], as (H, W, C) bytes in one piece. */
static cn_tensor *as_bytes(cn_tensor *image, const char *who)
{
  if (!image || cn_ndim(image) != 3 || !cn_numel(image)) {
    cn_err_set(CN_ERR_SHAPE, "%s: an image is (channels, height, width), of one pixel at least", who);
    return NULL;
  }
  int64_t channels = cn_size(image, 0);
  cn_dtype dtype = cn_dtype_of(image);
  if ((channels != 1 && channels != 3 && channels != 4) || (dtype != CN_U8 && !cn_dtype_is_float(dtype))) {
    cn_err_set(CN_ERR_VALUE, "%s: an image has 1, 3 or 4 channels of uint8, or of floats in [0, 1]", who);
    return NULL;
  }
  image = cn_to_device(image, CN_CPU);
  if (dtype != CN_U8) {
    image = cn_add(cn_mul(cn_cast(image, CN_F32), cn_num(255)), cn_num(0.5));
    image = cn_cast(cn_clamp(image, cn_num(0), cn_num(255)), CN_U8);
  }
  return cn_contiguous(cn_permute(image, CN_SHAPE(1, 2, 0)));
}

static bool put_to_text(void *payload, const void *bytes, size_t size)
{
  cn_text_put_bytes(payload, bytes, size);
  return !((cn_text *)payload)->failed;
}

/* The file of an image. Without a codec: PNG by our own, plain means. */
static int encode(cn_text *out, const cn_codec *codec, cn_tensor *image, int quality, const char *who)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = as_bytes(image, who); /* (H, W, C) */
  unsigned char *pixels = t ? cn_data(t) : NULL;
  if (pixels && codec) {
    cn_codec_write call = {.pixels = pixels, .height = cn_size(t, 0), .width = cn_size(t, 1),
                           .channels = (int)cn_size(t, 2), .quality = quality, .put = put_to_text, .payload = out};
    if (!codec->write(&call))
      cn_err_set(CN_ERR_IO, "%s: could not be written as %s: %s", who, codec->name, call.message);
  } else if (pixels) cn_png_write(out, pixels, cn_size(t, 0), cn_size(t, 1), (int)cn_size(t, 2));
  cn_scope_end(s);
  return cn_err();
}

int cn_image_save(const char *path, cn_tensor *image)
{
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "image_save: the path is missing (NULL)");
  bool png = has_ending(path, "png");
  const cn_codec *codec = png ? codec_named("png") : NULL;
  if (!png) {
    if (find_plugin()) return cn_err();
    for (size_t i = 0; i < plugin->n && !codec; i++)
      if (has_ending(path, plugin->codecs[i]->endings)) codec = plugin->codecs[i];
    if (!codec) return cn_err_set(CN_ERR_VALUE, "%s: images are written as .png, .jpg or .jpeg", path);
  }
  cn_text text = {0};
  cn_writer *w = encode(&text, codec, image, QUALITY, path) ? NULL : cn_writer_open(path);
  if (w) {
    cn_writer_put(w, text.s, text.n);
    cn_writer_commit(w);
  }
  cn_text_free(&text);
  return cn_err();
}

static int encode_bytes(void **bytes, size_t *size, const cn_codec *codec, cn_tensor *image, int quality)
{
  cn_text text = {0};
  if (!encode(&text, codec, image, quality, "image")) {
    *bytes = cn_alloc(text.n);
    if (*bytes) memcpy(*bytes, text.s, *size = text.n);
  }
  cn_text_free(&text);
  return cn_err();
}

int cn_image_encode_png(void **bytes, size_t *size, cn_tensor *image)
{
  *bytes = NULL;
  *size = 0;
  return cn_err() ? cn_err() : encode_bytes(bytes, size, codec_named("png"), image, QUALITY);
}

int cn_image_encode_jpeg(void **bytes, size_t *size, cn_tensor *image, int quality)
{
  *bytes = NULL;
  *size = 0;
  if (cn_err() || find_plugin()) return cn_err();
  if (quality < 1 || quality > 100)
    return cn_err_set(CN_ERR_VALUE, "image: the quality of a JPEG goes from 1 to 100, not %d", quality);
  const cn_codec *codec = codec_named("jpeg");
  if (!codec) return cn_err_set(CN_ERR_UNSUPPORTED, "image: libcairn_image.so was built without libjpeg");
  return encode_bytes(bytes, size, codec, image, quality);
}

/* ---- folders ---- */

typedef struct folder {
  cn_names files;  /* their paths */
  int64_t *labels; /* one for each */
  size_t labels_cap;
} folder;

static int64_t folder_length(void *data) { return (int64_t)((folder *)data)->files.n; }

static void folder_free(void *data)
{
  folder *f = data;
  cn_names_free(&f->files);
  cn_free(f->labels, f->labels_cap * sizeof *f->labels);
  cn_free(f, sizeof *f);
}

static int folder_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  const folder *f = data;
  (void)draws;
  cn_tensor *x = cn_image_load(f->files.v[index], 3);
  cn_tensor *y = x ? cn_from_data(&f->labels[index], CN_SCALAR_SHAPE, CN_I64) : NULL;
  if (!y) return cn_err();
  *sample = (cn_sample){.v = {cn_keep(x), cn_keep(y)}, .n = 2};
  return CN_OK;
}

static const cn_dataset_class folder_class = {
  .size = sizeof(cn_dataset_class),
  .name = "image folder", .length = folder_length, .get = folder_get, .free = folder_free};

const char *cn_image_folder_file(const cn_dataset *set, int64_t i, int64_t *label)
{
  const folder *f = cni_dataset_data(set, &folder_class);
  if (!f || i < 0 || i >= (int64_t)f->files.n) return NULL;
  if (label) *label = f->labels[i];
  return f->files.v[i];
}

enum { DEPTH_MAX = 32 };

/* Adds the images below a folder, in the order of their names. */
static int add_images(folder *f, const char *path, int64_t label, int depth)
{
  cn_names list;
  if (depth > DEPTH_MAX) return cn_err_set(CN_ERR_IO, "%s: folders are too deep", path);
  if (cn_folder_list(&list, path)) return cn_err();
  for (size_t i = 0; i < list.n && !cn_err(); i++) {
    char *full = cn_path_join(path, list.v[i]);
    if (full && has_ending(list.v[i], "jpg jpeg png")) {
      if (!cn_grow((void **)&f->labels, &f->labels_cap, f->files.n + 1, sizeof *f->labels)) {
        f->labels[f->files.n] = label;
        cn_names_add(&f->files, full);
      }
    } else if (full && cn_path_kind_of(full) == CN_PATH_FOLDER) add_images(f, full, label, depth + 1);
    cn_string_free(full);
  }
  cn_names_free(&list);
  return cn_err();
}

/* Folders with their classes' names. */
static int add_classes(folder *f, cn_names *classes, const char *path)
{
  cn_names list;
  if (cn_folder_list(&list, path)) return cn_err();
  for (size_t i = 0; i < list.n && !cn_err(); i++) {
    char *full = cn_path_join(path, list.v[i]);
    if (full && cn_path_kind_of(full) == CN_PATH_FOLDER) {
      size_t before = f->files.n;
      add_images(f, full, (int64_t)classes->n, 0);
      if (!cn_err() && f->files.n == before) cn_err_set(CN_ERR_IO, "%s: has no images", full);
      cn_names_add(classes, list.v[i]);
    }
    cn_string_free(full);
  }
  cn_names_free(&list);
  if (!cn_err() && !classes->n) cn_err_set(CN_ERR_IO, "%s: has no folders, one for each class", path);
  return cn_err();
}

cn_dataset *cn_image_folder(const char *path)
{
  cn_names classes = {0};
  folder *f = cn_err() ? NULL : cn_alloc_zero(sizeof *f);
  if (!f) return NULL;
  cn_dataset *set = NULL;
  if (add_classes(f, &classes, path)) folder_free(f);
  else set = cn_dataset_new(&folder_class, f);
  if (set && cn_dataset_set_labels(set, (const char *const *)classes.v, classes.n)) {
    cn_dataset_release(set);
    set = NULL;
  }
  cn_names_free(&classes);
  return set;
}
