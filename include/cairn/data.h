/* data.h: data sets, samplers, loaders, transforms and tokenizers.
 *
 * A data set is a small table: how many samples, and how to get one. A loader puts samples together to batches, in
 * threads of its own, ahead of the program:
 *
 *     cn_loader *train = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .workers = 2);
 *     cn_batch b;
 *     while (cn_loader_next(&b, train) == 1) { ... b.x, b.y ... }
 *
 * All randomness (order, augmentation) is a function of a seed, the epoch and the sample's number, so that results do
 * not depend on the number of workers and a loader can go on from any place.
 */
#ifndef CAIRN_DATA_H
#define CAIRN_DATA_H

#include "kw.h"
#include "tree.h"

CN_BEGIN_DECLS

/* ---- data sets ---- */
typedef struct cn_dataset cn_dataset;
struct cn_batch; /* see the loader */

enum { CN_SAMPLE_FIELDS = 8 };
/* One sample: its fields as tensors that the caller owns (cn_sample_clear). By convention x, then y. */
typedef struct cn_sample {
  cn_tensor *v[CN_SAMPLE_FIELDS];
  size_t n;
} cn_sample;
CN_API void cn_sample_clear(cn_sample *sample);

/* Random numbers of one sample in one epoch, for augmentation: the same whoever asks. {seed, stream, 0} begins a
 * sequence; each pair of numbers has its own. */
typedef struct cn_draws {
  uint64_t seed, stream, next;
} cn_draws;
CN_API double cn_draw_uniform(cn_draws *draws);               /* [0, 1) */
CN_API int64_t cn_draw_below(cn_draws *draws, int64_t n);      /* 0 .. n - 1 */
CN_API double cn_draw_normal(cn_draws *draws);

typedef struct cn_dataset_class {
  size_t size; /* sizeof(cn_dataset_class): fields may be added at the end */
  const char *name;
  int64_t (*length)(void *data);
  /* Fills *sample; may be called by several threads at once. 0 or a negative status. */
  int (*get)(cn_sample *sample, void *data, int64_t index, cn_draws *draws);
  void (*free)(void *data);
  /* Optional, for sets whose samples lie ready in memory: samples indices[0..n), each in range, stacked at once into
   * fields of the batch that its caller owns. It may return 1: one by one, please. */
  int (*batch)(struct cn_batch *batch, void *data, const int64_t *indices, size_t n);
} cn_dataset_class;
CN_API CN_MUST_USE cn_dataset *cn_dataset_new(const cn_dataset_class *cls, void *data); /* takes data over. Owned */
CN_API CN_MUST_USE cn_dataset *cn_dataset_keep(cn_dataset *set); /* one more reference, owned; returns set */
CN_API void cn_dataset_release(cn_dataset *set);                 /* gives one back; the last frees it. NULL is fine */
CN_API int64_t cn_dataset_length(cn_dataset *set);
/* One sample; `sample` need not be cleared before. get takes the draws of epoch 0 and seed 0. */
CN_API int cn_dataset_get(cn_sample *sample, cn_dataset *set, int64_t index);
CN_API int cn_dataset_sample(cn_sample *sample, cn_dataset *set, int64_t index, cn_draws *draws);
CN_API const char *cn_dataset_name(const cn_dataset *set);
/* Names of classes, where the set knows them: "0" .. "9", folders; NULL past the last or when unknown. */
CN_API const char *cn_dataset_label(const cn_dataset *set, size_t i);
CN_API int cn_dataset_set_labels(cn_dataset *set, const char *const *labels, size_t n);

/* Row i of each; keeps the tensors. */
CN_API CN_MUST_USE cn_dataset *cn_dataset_tensors(cn_tensor *const *tensors, size_t n);
/* The tensors of a file that cn_load reads: x, y or in order. */
CN_API CN_MUST_USE cn_dataset *cn_dataset_load(const char *path);

/* These take the data sets they are made of over, also when they fail. */
/* Changes the sample's tensors: cn_set(&sample->v[0], cn_mul(sample->v[0], ...)). Called in a scope of its own. */
typedef int (*cn_map_fn)(cn_sample *sample, cn_draws *draws, void *payload);
CN_API CN_MUST_USE cn_dataset *cn_dataset_map(cn_dataset *set, cn_map_fn fn, void *payload, void (*free)(void *));
CN_API CN_MUST_USE cn_dataset *cn_dataset_concat(cn_dataset *const *sets, size_t n);
CN_API CN_MUST_USE cn_dataset *cn_dataset_subset(cn_dataset *set, const int64_t *indices, size_t n);
CN_API CN_MUST_USE cn_dataset *cn_dataset_range(cn_dataset *set, int64_t begin, int64_t end);
/* Splits at random into n sets of these sizes, which must add up. parts get owned sets; each keeps `set`,
 * which stays the caller's. */
CN_API int cn_dataset_split(cn_dataset **parts, cn_dataset *set, const int64_t *sizes, size_t n, uint64_t seed);

/* ---- readers ---- */
typedef enum cn_part { CN_TRAIN, CN_TEST, CN_ALL } cn_part;
/* 1,797 hand-written digits of 8 x 8 pixels, compiled in: x (1, 8, 8) float32 in [0, 1], y an int64. The last 360, by
 * other writers, are for testing. */
CN_API CN_MUST_USE cn_dataset *cn_digits(cn_part part);
/* IDX files (MNIST), plain or gzipped: x (1, H, W) float32 in [0, 1] and y int64. */
CN_API CN_MUST_USE cn_dataset *cn_idx(const char *images, const char *labels);
CN_API cn_tensor *cn_load_idx(const char *path); /* one file as it is */
/* 10 or 100; binary version. */
CN_API CN_MUST_USE cn_dataset *cn_cifar(const char *const *files, size_t n, int classes);
/* The same as tensors: x (images, 3, 32, 32) uint8 and y int64; borrowed from the scope. */
CN_API int cn_load_cifar(cn_tensor **x, cn_tensor **y, const char *const *files, size_t n, int classes);
typedef struct cn_csv_opts {
  size_t size;
  const struct cn_guard *guard;
  char delimiter;        /* ',' */
  bool header;           /* the first line names the columns */
  const char *target;    /* the column that is y, by name or number from 0; NULL: the last. "" : none */
  bool target_classes;   /* y is text or numbers that name classes: int64 numbers of them, in sorted order */
} cn_csv_opts;
CN_API CN_MUST_USE cn_dataset *cn_csv_with(const char *path, const cn_csv_opts *opts); /* x (columns) float32, y */
/* A folder with a folder of images for each class, as torchvision's ImageFolder: x (3, H, W) uint8, y int64. */
CN_API CN_MUST_USE cn_dataset *cn_image_folder(const char *path);
/* The file of sample i of such a folder, and its class; NULL past the last, or when the set is something else. */
CN_API const char *cn_image_folder_file(const cn_dataset *set, int64_t i, int64_t *label);
/* A file of tokens (uint16 or uint32 numbers, mapped): sample i is length tokens from i * stride on, and the same one
 * token further. stride 0: as long as the windows. */
CN_API CN_MUST_USE cn_dataset *cn_token_file(const char *path, cn_dtype dtype, int64_t length, int64_t stride);
CN_API CN_MUST_USE cn_dataset *cn_token_tensor(cn_tensor *tokens, int64_t length, int64_t stride);

/* Images as (C, H, W) uint8 tensors; PNG and JPEG. channels: 1 grey, 3 colour, 4 with alpha, 0 as in the file. In
 * memory the channels of a pixel lie side by side, as decoders write them (see the strides); cn_contiguous makes
 * planes. */
CN_API cn_tensor *cn_image_load(const char *path, int channels);
CN_API cn_tensor *cn_image_decode(const void *bytes, size_t size, int channels);
/* uint8, or floats in [0, 1]. By the name's ending; JPEG at quality 90. */
CN_API int cn_image_save(const char *path, cn_tensor *image);
/* A PNG file in memory (works without libpng too, then unpacked): cn_free(bytes, size). */
CN_API int cn_image_encode_png(void **bytes, size_t *size, cn_tensor *image);
CN_API int cn_image_encode_jpeg(void **bytes, size_t *size, cn_tensor *image, int quality); /* 1 to 100 */
/* Sound as (channels, samples) float32 in [-1, 1]: WAV of 8 to 32 bits and floats. */
CN_API cn_tensor *cn_wav_load(const char *path, int *rate);
CN_API int cn_wav_save(const char *path, cn_tensor *sound, int rate); /* 16 bits */

/* ---- images at work: torchvision.transforms.functional ---- */
/* Each makes a new image of a (C, H, W) one, uint8 or float32 in [0, 1]; borrowed from the scope. Pixels from outside
 * the image are 0, and rotations take the nearest pixel. */
CN_API cn_tensor *cn_image_resize(cn_tensor *image, int64_t height, int64_t width); /* bilinear with antialiasing */
CN_API cn_tensor *cn_image_crop(cn_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width);
/* The window (top, left, height, width) at another size. */
CN_API cn_tensor *cn_image_resized_crop(cn_tensor *image, const int64_t window[4], int64_t height, int64_t width);
CN_API cn_tensor *cn_image_flip(cn_tensor *image, bool horizontal, bool vertical);
CN_API cn_tensor *cn_image_rotate(cn_tensor *image, double degrees); /* against the clock */
/* Rotated with the clock, moved by x and y pixels, scaled and sheared (degrees), all around the middle. */
CN_API cn_tensor *cn_image_affine(cn_tensor *image, double degrees, double x, double y, double scale, double shear_x,
                                  double shear_y);
CN_API cn_tensor *cn_image_brightness(cn_tensor *image, double factor);
CN_API cn_tensor *cn_image_contrast(cn_tensor *image, double factor);
CN_API cn_tensor *cn_image_saturation(cn_tensor *image, double factor);
CN_API cn_tensor *cn_image_hue(cn_tensor *image, double factor); /* added to the hue, of a circle of 1: -0.5 to 0.5 */
CN_API cn_tensor *cn_image_grayscale(cn_tensor *image, int channels); /* 1 or 3 */
CN_API cn_tensor *cn_image_erase(cn_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width);
CN_API cn_tensor *cn_image_float(cn_tensor *image); /* uint8 to float32 in [0, 1] */
/* (x - mean) / std by channel; uint8 becomes float32 in [0, 1] before. */
CN_API cn_tensor *cn_image_normalize(cn_tensor *image, const double *mean, const double *std, size_t channels);

/* ---- transforms: of the image in field 0 of each sample, as in torchvision ---- */
/* Each is owned and freed with the data set it is put on; cn_transform_all puts several one after the other. A NULL
 * (its making failed) goes through cn_transform_all and cn_dataset_transform as an error. */
typedef struct cn_transform cn_transform;
CN_API CN_MUST_USE cn_dataset *cn_dataset_transform(cn_dataset *set, cn_transform *t); /* takes both over */
/* draws NULL: those of seed 0. Borrowed from the scope. */
CN_API cn_tensor *cn_transform_apply(cn_transform *t, cn_tensor *image, cn_draws *draws);
CN_API void cn_transform_free(cn_transform *t);
CN_API CN_MUST_USE cn_transform *cn_transform_all(cn_transform *const *list, size_t n); /* takes them over */
/* One of a program's own; payload is freed with it, also when this fails. */
typedef cn_tensor *(*cn_transform_fn)(cn_tensor *image, cn_draws *draws, void *payload);
CN_API CN_MUST_USE cn_transform *cn_transform_new(cn_transform_fn fn, void *payload, void (*free)(void *));
CN_API CN_MUST_USE cn_transform *cn_transform_float(void); /* uint8 to float32 in [0, 1] */
/* Width 0: height is of the shorter side. */
CN_API CN_MUST_USE cn_transform *cn_transform_resize(int64_t height, int64_t width);
CN_API CN_MUST_USE cn_transform *cn_transform_center_crop(int64_t height, int64_t width);
CN_API CN_MUST_USE cn_transform *cn_transform_random_crop(int64_t height, int64_t width, int64_t padding);
/* A window of min to max times the area (0, 0: 0.08 and 1) and of a shape between 3 : 4 and 4 : 3. */
CN_API CN_MUST_USE cn_transform *cn_transform_random_resized_crop(int64_t height, int64_t width, double min_scale,
                                                                  double max_scale);
CN_API CN_MUST_USE cn_transform *cn_transform_random_flip(double horizontal, double vertical); /* probabilities */
CN_API CN_MUST_USE cn_transform *cn_transform_random_rotation(double degrees); /* up to that, either way */
/* translate: of the sides, at most; shear: degrees along x; scales 0, 0: none. */
CN_API CN_MUST_USE cn_transform *cn_transform_random_affine(double degrees, double translate, double min_scale,
                                                            double max_scale, double shear);
CN_API CN_MUST_USE cn_transform *cn_transform_color_jitter(double brightness, double contrast, double saturation,
                                                           double hue);
CN_API CN_MUST_USE cn_transform *cn_transform_normalize(const double *mean, const double *std, size_t channels);
CN_API CN_MUST_USE cn_transform *cn_transform_random_erasing(double probability);
CN_API CN_MUST_USE cn_transform *cn_transform_grayscale(int channels);
/* Mixes each sample of a batch with another, in a proportion drawn from the beta distribution of alpha, alpha: *x and
 * *y (n class numbers) are replaced by the mixed ones, y as (n, classes) float32; borrowed from the scope. */
CN_API int cn_mixup(cn_tensor **x, cn_tensor **y, int64_t classes, double alpha, cn_draws *draws);

/* ---- loader ---- */
typedef struct cn_loader cn_loader;
/* A batch: fields stacked along a new first dimension; borrowed until the next cn_loader_next. */
typedef struct cn_batch {
  cn_tensor *x, *y; /* fields 0 and 1 */
  cn_tensor *v[CN_SAMPLE_FIELDS];
  size_t n;
  int64_t size;   /* samples in it */
  int64_t number; /* of this batch in its epoch */
  int64_t epoch;
} cn_batch;
/* Puts n samples together; fields of the batch are owned by the caller afterwards. */
typedef int (*cn_collate_fn)(cn_batch *batch, const cn_sample *samples, size_t n, void *payload);
CN_API int cn_collate_stack(cn_batch *batch, const cn_sample *samples, size_t n, void *payload); /* the default */
/* Fields are padded at the end of each dimension to the longest of the batch, with zeros or *(const double *)payload;
 * one more field, int64, says how long (the first dimension of) field 0 of each sample is. */
CN_API int cn_collate_pad(cn_batch *batch, const cn_sample *samples, size_t n, void *payload);

/* The order of samples in an epoch: fills indices[0..length), and depends on its arguments alone. */
typedef struct cn_sampler {
  int64_t (*length)(void *data);
  int (*order)(int64_t *indices, void *data, uint64_t seed, int64_t epoch);
  void (*free)(void *data);
  void *data;
} cn_sampler;
CN_API CN_MUST_USE cn_sampler cn_sampler_weighted(const double *weights, size_t n, int64_t draws, bool replacement);
/* The part of each of `world` hosts, all of equal length (some samples come twice); give all hosts the same seed. */
CN_API CN_MUST_USE cn_sampler cn_sampler_shard(int64_t length, int rank, int world, bool shuffle);

typedef struct cn_loader_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t batch;      /* 1 */
  bool shuffle;
  bool drop_last;     /* leave out a last batch that is not full */
  int workers;        /* threads; 0: samples are made in cn_loader_next */
  int prefetch;       /* batches made ahead by each worker; 2 */
  uint64_t seed;      /* of order and augmentation; 0: drawn from this thread's random numbers */
  cn_device device;   /* batches are moved there */
  cn_collate_fn collate;
  void *payload;      /* of collate */
  const cn_sampler *sampler; /* copied and taken over; instead of shuffle */
  /* Batches for a device are made in memory that it reads by itself, where it has such (cn_pin_memory): workers put
   * them there, and cn_loader_next only queues the copy. true: ordinary memory, which it reads meanwhile. */
  bool no_pin;
} cn_loader_opts;
/* Takes the set over. Owned. */
CN_API CN_MUST_USE cn_loader *cn_loader_new_with(cn_dataset *set, const cn_loader_opts *opts);
CN_API void cn_loader_free(cn_loader *loader);
/* 1: a batch, 0: the epoch is over (the next call begins another one), negative: an error, which names the sample.
 * After cn_err_clear the call after an error goes on with the next batch. */
CN_API CN_MUST_USE int cn_loader_next(cn_batch *batch, cn_loader *loader);
CN_API int64_t cn_loader_length(cn_loader *loader); /* batches in an epoch */
CN_API cn_dataset *cn_loader_dataset(cn_loader *loader); /* borrowed */
CN_API int64_t cn_loader_epoch(cn_loader *loader);
CN_API int cn_loader_restart(cn_loader *loader, int64_t epoch); /* at the beginning of that epoch */
/* Where it is, also in mid-epoch: the batches after loading are those that would have come. */
CN_API CN_MUST_USE cn_tree *cn_loader_state(cn_loader *loader);
CN_API int cn_loader_load(cn_loader *loader, const cn_tree *state);

/* ---- text ---- */
/* Tokenizers that number texts as the `tokenizers` library of Hugging Face does. Several threads may use one at once.
 * Texts are UTF-8; BPE and bytes take and give back any bytes. */
typedef struct cn_tokenizer cn_tokenizer;
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_bytes(void); /* a token a byte */
/* The characters of a text, sorted. */
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_chars(const char *text, size_t size);
/* GPT-2: vocab.json, merges.txt. */
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_bpe(const char *vocab, const char *merges);
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_wordpiece(const char *vocab, bool lower); /* BERT: vocab.txt */
/* tokenizer.json: BPE of bytes or characters, WordPiece, Unigram, whole words, with all their steps but expressions
 * that are not known. What it says about cutting and padding is the caller's to do. */
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_json(const char *path);
/* SentencePiece: a .model of Unigram or BPE. No marks are put around texts, as sentencepiece does by itself. */
CN_API CN_MUST_USE cn_tokenizer *cn_tokenizer_sentencepiece(const char *path);
CN_API void cn_tokenizer_free(cn_tokenizer *tokenizer);
CN_API int64_t cn_tokenizer_size(const cn_tokenizer *tokenizer); /* one more than the highest number */
/* Tokens of a text as an int64 tensor (n); special: with the marks at beginning and end that the model wants. Special
 * tokens written out in the text ("<|endoftext|>", "[SEP]") are found either way. Characters without a token become
 * the unknown one; BPE without one leaves them out, and the tokenizer of characters refuses them. */
CN_API cn_tensor *cn_tokenizer_encode(cn_tokenizer *tokenizer, const char *text, size_t size, bool special);
/* Back to text. What has a zero in it cannot be a C string: zeros become U+FFFD, or use cn_tokenizer_decode_bytes.
 * Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_tokenizer_decode(cn_tokenizer *tokenizer, cn_tensor *tokens, bool skip_special);
CN_API int cn_tokenizer_decode_bytes(void **bytes, size_t *size, cn_tokenizer *tokenizer, cn_tensor *tokens,
                                     bool skip_special); /* cn_free(*bytes, *size) */
CN_API int64_t cn_tokenizer_id(const cn_tokenizer *tokenizer, const char *token); /* -1: none */
/* As the vocabulary writes it; NULL when there is none of that number. */
CN_API const char *cn_tokenizer_token(const cn_tokenizer *tokenizer, int64_t id);

/* ---- downloads ---- */
typedef struct cn_download_opts {
  size_t size;
  const struct cn_guard *guard;
  const char *sha256;  /* of the content, hexadecimal; NULL: not checked */
  const char *folder;  /* under the home (cn_home); "downloads" */
  const char *name;    /* of the file; the last part of the address */
  /* Called now and then with bytes so far and in all (0: unknown); what is not 0 stops the download. */
  int (*progress)(int64_t done, int64_t total, void *payload);
  void *payload;
} cn_download_opts;
/* The path of a local copy of an http, https or file address, fetched (with libcurl) when it is not there, or is not
 * what sha256 says; a part left by an earlier try is completed. Several processes may want the same file: one fetches
 * it. With CAIRN_OFFLINE=1 nothing is fetched. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_download_with(const char *url, const cn_download_opts *opts);

CN_END_DECLS

#ifndef __cplusplus
#define cn_loader_new(...) \
  cn_loader_new_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_loader_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_csv(...) cn_csv_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_csv_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_download(...) \
  cn_download_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_download_opts, CN_TAIL(__VA_ARGS__, )))
#define CN_TRANSFORMS(...) \
  cn_transform_all((cn_transform *const[]){__VA_ARGS__}, \
                sizeof((cn_transform *const[]){__VA_ARGS__}) / sizeof(cn_transform *))
#endif

#endif
