/* image.c: cairn's side of preparing a photograph for training: JPEG decoded, a window of it at 224 x 224, turned
 * over, normalised. One image after the other on one thread, as a worker of a loader does it.
 *
 * Invariant: the photograph is that of peers/torch_image.py, made by the same formula and compressed alike.
 */
#include "side.h"

#include <cairn/data.h>
#include <math.h>
#include <unistd.h>

enum { HEIGHT = 375, WIDTH = 500 };

static unsigned char *file; /* the photograph */
static size_t file_size;

/* (3, HEIGHT, WIDTH) uint8: waves of several lengths, and noise. */
static cn_tensor *picture(void)
{
  cn_tensor *noise = side_fill(CN_SHAPE(3, HEIGHT, WIDTH), 1, 10);
  cn_tensor *t = cn_empty(CN_SHAPE(3, HEIGHT, WIDTH), .dtype = CN_U8);
  const float *more = cn_data(noise);
  unsigned char *p = cn_data(t);
  for (int c = 0; c < 3; c++)
    for (int y = 0; y < HEIGHT; y++)
      for (int x = 0; x < WIDTH; x++) {
        double v = 128 + 60 * sin(x / (7.0 + 3 * c) + y / 11.0) + 40 * sin(x * y / (900.0 + 100 * c)) + (double)*more++;
        *p++ = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
      }
  return t;
}

static void prepare(void)
{
  char path[256];
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cairn-bench-image-%ld.jpg", tmp ? tmp : "/tmp", (long)getpid());
  if (cn_image_save(path, picture())) return;
  FILE *f = fopen(path, "rb");
  bench_require(f != NULL, "the photograph cannot be read");
  file = malloc(1 << 20);
  file_size = file ? fread(file, 1, 1 << 20, f) : 0;
  fclose(f);
  remove(path);
}

static void augment(void)
{
  static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
  cn_tensor *image = cn_image_decode(file, file_size, 3);
  image = cn_image_resized_crop(image, (const int64_t[]){30, 60, 300, 350}, 224, 224);
  result[0] = cn_image_normalize(cn_image_flip(image, true, false), mean, std, 3);
}

static void decode(void) { result[0] = cn_image_decode(file, file_size, 3); }

static const struct side_case images[] = {
    {"jpeg_decode", "", "image", 1, prepare, decode, {0}},
    {"jpeg_augment", "", "image", 1, prepare, augment, {0}},
};

int main(int argc, char **argv) { return side_serve(argc, argv, images, sizeof images / sizeof *images); }
