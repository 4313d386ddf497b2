/* projector.c: points with labels and pictures for TensorBoard's projector. See events.h.
 *
 * Place in the flow: plain files beside the events: STEP/TAG/tensors.tsv, metadata.tsv and sprite.png, and an entry in
 * projector_config.pbtxt that names them. Invariant: the entry is written last, when what it names is there. */
#include <math.h>
#include <string.h>

#include "tfrecord.h"

enum { SPRITE_MOST = 8192 }; /* what browsers take */

/* A tag as the name of a folder. */
static char *folder_name(const char *tag, int64_t step)
{
  cn_text t = {0};
  cn_text_putf(&t, "%05lld/", (long long)step);
  for (const char *c = tag; *c; c++)
    cn_text_put_bytes(&t, strchr("/\\:*?\"<>|%", *c) || (unsigned char)*c < 32 ? "_" : c, 1);
  return cn_text_take(&t);
}

static int write_file(const char *folder, const char *name, const cn_text *content)
{
  char *path = content->failed ? NULL : cn_path_join(folder, name);
  cn_writer *w = path ? cn_writer_open(path) : NULL;
  if (w && content->n) cn_writer_put(w, content->s, content->n);
  int status = w ? cn_writer_commit(w) : cn_err();
  cn_string_free(path);
  return status;
}

static int write_points(const char *folder, const double *v, size_t rows, size_t columns)
{
  cn_text t = {0};
  char number[CN_NUMBER_TEXT];
  for (size_t i = 0; i < rows * columns && !t.failed; i++) {
    cn_text_put(&t, cn_number_write(number, v[i], false));
    cn_text_put(&t, (i + 1) % columns ? "\t" : "\n");
  }
  int status = write_file(folder, "tensors.tsv", &t);
  cn_text_free(&t);
  return status;
}

/* A line each; tabs and line ends in a label would make columns and lines. */
static int write_labels(const char *folder, const char *const *labels, size_t n)
{
  cn_text t = {0};
  for (size_t i = 0; i < n && !t.failed; i++) {
    for (const char *c = labels[i] ? labels[i] : ""; *c; c++) cn_text_put_bytes(&t, strchr("\t\r\n", *c) ? " " : c, 1);
    cn_text_put(&t, "\n");
  }
  int status = write_file(folder, "metadata.tsv", &t);
  cn_text_free(&t);
  return status;
}

static int write_sprite(const char *folder, cn_tensor *images)
{
  cni_picture p;
  cn_text png = {0};
  int status = cni_picture_of(&p, images, 0, "events_embedding");
  if (!status && (p.height > SPRITE_MOST || p.width > SPRITE_MOST))
    status = cn_err_set(CN_ERR_SHAPE, "events_embedding: the images take %zu x %zu pixels together; the projector "
                        "shows up to %d each way", p.height, p.width, SPRITE_MOST);
  if (!status) {
    status = cni_picture_png(&png, &p);
    if (!status) status = write_file(folder, "sprite.png", &png);
  }
  cn_text_free(&png);
  cni_picture_free(&p);
  return status;
}

/* A quoted string of the text form of Protocol Buffers. */
static void put_quoted(cn_text *t, const char *s)
{
  cn_text_put(t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') cn_text_put(t, "\\");
    if ((unsigned char)*s < 32) cn_text_putf(t, "\\%03o", (unsigned)*s);
    else cn_text_put_bytes(t, s, 1);
  }
  cn_text_put(t, "\"\n");
}

static void put_file(cn_text *t, const char *key, const char *folder, const char *file)
{
  char *path = cn_path_join(folder, file);
  cn_text_putf(t, "  %s: ", key);
  put_quoted(t, path ? path : "");
  t->failed = t->failed || !path;
  cn_string_free(path);
}

static int write_config(cn_events *e, const char *name, const char *folder, bool labels, cn_tensor *images)
{
  cn_text t = {0};
  char *path = cn_path_join(e->folder, "projector_config.pbtxt");
  cn_text_put(&t, "embeddings {\n  tensor_name: ");
  put_quoted(&t, name);
  put_file(&t, "tensor_path", folder, "tensors.tsv");
  if (labels) put_file(&t, "metadata_path", folder, "metadata.tsv");
  if (images) {
    cn_text_put(&t, "  sprite {\n  ");
    put_file(&t, "image_path", folder, "sprite.png");
    cn_text_putf(&t, "    single_image_dim: %lld\n    single_image_dim: %lld\n  }\n", (long long)cn_size(images, 3),
                 (long long)cn_size(images, 2));
  }
  cn_text_put(&t, "}\n");
  int status = t.failed || !path ? CN_ERR_MEMORY : cn_file_append(path, t.s, t.n);
  cn_text_free(&t);
  cn_string_free(path);
  return status;
}

static int check(cn_tensor *points, cn_tensor *images)
{
  if (cn_ndim(points) != 2 || !cn_dtype_is_float(cn_dtype_of(points)) || !cn_numel(points))
    return cn_err_set(CN_ERR_SHAPE, "events_embedding: points are a float tensor (N, D) that is not empty");
  if (images && (cn_ndim(images) != 4 || cn_size(images, 0) != cn_size(points, 0)))
    return cn_err_set(CN_ERR_SHAPE, "events_embedding: images of %lld points are (%lld, C, H, W)",
                      (long long)cn_size(points, 0), (long long)cn_size(points, 0));
  return CN_OK;
}

int cn_events_embedding(cn_events *events, const char *tag, cn_tensor *points, const char *const *labels,
                        cn_tensor *images, int64_t step)
{
  cn_text name = {0};
  size_t n = 0, rows = (size_t)cn_size(points, 0);
  int status = cni_events_check(events, "events_embedding", tag);
  if (!status) status = check(points, images);
  if (status) return status;
  char *below = folder_name(tag, step);
  double *v = below ? cni_events_numbers(points, &n) : NULL;
  char *folder = v ? cn_path_join(events->folder, below) : NULL;
  if (v) cn_text_putf(&name, "%s:%05lld", tag, (long long)step);
  status = !folder || name.failed ? cn_err() : cn_folder_make(folder);
  if (!status) status = write_points(folder, v, rows, n / rows);
  if (!status && labels) status = write_labels(folder, labels, rows);
  if (!status && images) status = write_sprite(folder, images);
  if (!status) status = write_config(events, name.s, below, labels != NULL, images);
  if (v) cn_free(v, n * sizeof *v);
  cn_string_free(below);
  cn_string_free(folder);
  cn_text_free(&name);
  return status;
}
