/* file.c: the bytes of a file that may be gzipped, the file formats of small data sets on top of it: IDX, CIFAR and
 * whatever cn_load reads. See data.h.
 *
 * Place in the flow: these readers end in rows.c. Invariant: sizes in a file are checked against the bytes that are
 * there before anything is allocated by them. */
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "data.h"

int cni_file_open(cni_file *f, const char *path)
{
  *f = (cni_file){0};
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "data: the path is missing (NULL)");
  int status = cn_map_open(&f->mapping, path);
  if (status) return status;
  f->data = f->mapping.data;
  f->size = f->mapping.size;
  if (!cn_is_gzip(f->data, f->size)) return CN_OK;
  status = cn_gunzip(&f->unpacked, &f->size, f->mapping.data, f->mapping.size);
  f->data = f->unpacked;
  cn_map_close(&f->mapping);
  if (!status) return CN_OK;
  char message[512];
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  *f = (cni_file){0};
  return cn_err_set(status, "%s: %s", path, message);
}

void cni_file_close(cni_file *f)
{
  cn_free(f->unpacked, f->unpacked ? f->size : 0);
  cn_map_close(&f->mapping);
  *f = (cni_file){0};
}

/* ---- IDX ---- */

/* Types of the format by their number. */
static const struct idx_type {
  unsigned char number;
  cn_dtype dtype;
} idx_types[] = {{0x08, CN_U8}, {0x09, CN_I8}, {0x0B, CN_I16}, {0x0C, CN_I32}, {0x0D, CN_F32}, {0x0E, CN_F64}};

static cn_dtype idx_dtype(unsigned char number)
{
  for (size_t i = 0; i < sizeof idx_types / sizeof *idx_types; i++)
    if (idx_types[i].number == number) return idx_types[i].dtype;
  return CN_DTYPE_NONE;
}

/* The format stores the high byte first. */
static void copy_swapped(unsigned char *to, const unsigned char *from, size_t size, size_t element)
{
  uint16_t probe = 1;
  unsigned char low;
  memcpy(&low, &probe, 1);
  if (element == 1 || !low) {
    memcpy(to, from, size);
    return;
  }
  for (size_t i = 0; i < size; i += element)
    for (size_t k = 0; k < element; k++) to[i + k] = from[i + element - 1 - k];
}

static cn_tensor *read_idx(const cni_file *f, const char *path)
{
  const unsigned char *p = f->data;
  cn_dtype dtype = f->size >= 4 && !p[0] && !p[1] ? idx_dtype(p[2]) : CN_DTYPE_NONE;
  size_t ndim = dtype ? p[3] : 0, head = 4 + 4 * ndim;
  if (!dtype || ndim < 1 || ndim > CN_MAX_DIMS || f->size < head) {
    cn_err_set(CN_ERR_IO, "%s: is not an IDX file", path);
    return NULL;
  }
  int64_t shape[CN_MAX_DIMS];
  size_t left = (f->size - head) / cn_dtype_size(dtype), numel = 1;
  bool fits = true;
  for (size_t d = 0; d < ndim; d++) {
    const unsigned char *s = p + 4 + 4 * d;
    shape[d] = (int64_t)s[0] << 24 | (int64_t)s[1] << 16 | (int64_t)s[2] << 8 | s[3];
    if (shape[d] && numel > left / (size_t)shape[d]) fits = false;
    numel = fits ? numel * (size_t)shape[d] : 0;
  }
  if (!fits || cn_dtype_bytes(dtype, (int64_t)numel) != f->size - head) {
    cn_err_set(CN_ERR_IO, "%s: has %zu bytes behind its head, which is not what its shape needs", path, f->size - head);
    return NULL;
  }
  cn_tensor *t = cn_empty(shape, ndim, .dtype = dtype, .device = CN_CPU);
  unsigned char *to = t && numel ? cn_data(t) : NULL;
  if (to) copy_swapped(to, p + head, f->size - head, cn_dtype_size(dtype));
  return t;
}

cn_tensor *cn_load_idx(const char *path)
{
  cni_file f;
  if (cni_file_open(&f, path)) return NULL;
  cn_tensor *t = read_idx(&f, path);
  cni_file_close(&f);
  return t;
}

cn_dataset *cn_idx(const char *images, const char *labels)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_load_idx(images), *y = labels ? cn_load_idx(labels) : NULL;
  cn_dataset *set = NULL;
  if (x && cn_ndim(x) == 3) x = cn_unsqueeze(x, 1);
  if (y && cn_ndim(y) != 1) cn_err_set(CN_ERR_SHAPE, "%s: holds no labels (one dimension)", labels);
  if (y) y = cn_cast(y, CN_I64);
  if (!cn_err()) set = cni_dataset_rows("idx", (cn_tensor *const[]){x, y}, y ? 2 : 1, 255);
  cn_scope_end(s);
  return set;
}

/* ---- CIFAR ---- */

enum { PIXELS = 3 * 32 * 32 };
static const char *const cifar_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};

/* Appends the records of one file. room: how many images there is room for. */
static int64_t add_cifar(unsigned char *x, int64_t *y, int64_t room, const char *path, size_t head)
{
  cni_file f;
  if (cni_file_open(&f, path)) return -1;
  size_t record = head + PIXELS;
  int64_t n = (int64_t)(f.size / record), most = head == 1 ? 9 : 99;
  if (f.size % record)
    n = cn_err_set(CN_ERR_IO, "%s: is not a whole number of CIFAR records of %zu bytes", path, record);
  for (int64_t i = 0; x && i < n; i++) {
    const unsigned char *from = f.data + (size_t)i * record;
    if (i >= room || from[head - 1] > most) {
      n = cn_err_set(CN_ERR_IO, "%s: image %lld has no class of CIFAR", path, (long long)i);
      break;
    }
    y[i] = from[head - 1]; /* of CIFAR-100's two the fine one */
    memcpy(x + (size_t)i * PIXELS, from + head, PIXELS);
  }
  cni_file_close(&f);
  return n;
}

int cn_load_cifar(cn_tensor **x, cn_tensor **y, const char *const *files, size_t n, int classes)
{
  *x = *y = NULL;
  if (cn_err()) return cn_err();
  size_t head = classes == 100 ? 2 : 1;
  if (classes != 10 && classes != 100) cn_err_set(CN_ERR_VALUE, "cifar: %d classes; there are 10 or 100", classes);
  int64_t total = 0, at = 0;
  for (size_t i = 0; i < n && !cn_err(); i++) total += add_cifar(NULL, NULL, 0, files[i], head);
  if (cn_err()) return cn_err();
  cn_tensor *tx = cn_empty(CN_SHAPE(total, 3, 32, 32), .dtype = CN_U8, .device = CN_CPU);
  cn_tensor *ty = cn_empty(CN_SHAPE(total), .dtype = CN_I64, .device = CN_CPU);
  unsigned char *px = tx && total ? cn_data(tx) : NULL;
  int64_t *py = ty && total ? cn_data(ty) : NULL;
  for (size_t i = 0; i < n && px && py && !cn_err(); i++) {
    int64_t count = add_cifar(px + (size_t)at * PIXELS, py + at, total - at, files[i], head);
    at += count > 0 ? count : 0;
  }
  if (cn_err()) return cn_err();
  *x = tx;
  *y = ty;
  return CN_OK;
}

cn_dataset *cn_cifar(const char *const *files, size_t n, int classes)
{
  cn_tensor *xy[2];
  cn_dataset *set = NULL;
  cn_scope *s = cn_scope_begin();
  if (!cn_load_cifar(&xy[0], &xy[1], files, n, classes)) set = cni_dataset_rows("cifar", xy, 2, 255);
  if (set && classes == 10) cn_dataset_set_labels(set, cifar_names, 10);
  cn_scope_end(s);
  return set;
}

/* ---- what cn_load reads ---- */

cn_dataset *cn_dataset_load(const char *path)
{
  cn_tree *tree = cn_load(path);
  if (!tree) return NULL;
  cn_tensor *fields[CN_SAMPLE_FIELDS] = {cn_tree_as_tensor(tree)};
  size_t n = fields[0] ? 1 : 0;
  cn_tensor *x = cn_tree_as_tensor(cn_tree_get(tree, "x")), *y = cn_tree_as_tensor(cn_tree_get(tree, "y"));
  if (x) fields[n++] = x;
  if (x && y) fields[n++] = y;
  for (size_t i = 0; i < cn_tree_size(tree) && !x; i++) {
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(tree, i));
    if (t && n < CN_SAMPLE_FIELDS) fields[n++] = t;
  }
  cn_dataset *set = NULL;
  if (!n) cn_err_set(CN_ERR_IO, "%s: holds no tensors", path);
  else set = cn_dataset_tensors(fields, n);
  cn_tree_free(tree);
  return set;
}
