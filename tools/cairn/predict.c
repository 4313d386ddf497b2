/* predict.c: `cairn predict`: what a trained network takes images, rows of numbers or texts for, as a table.
 *
 * Place in the flow: an input becomes one sample as in testing, the net's scores become probabilities. Invariant: an
 * input that cannot be read is reported and the others are still looked at. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"

const char help_predict[] =
    "MODEL is a folder that `cairn train` made, a checkpoint in it, or a FILE.cfg or a network of the zoo with\n"
    "--weights. An INPUT is\n"
    "  an image           PNG or JPEG, brought to the network's size\n"
    "  a .npy file        one sample, or several one after the other\n"
    "  numbers            \"5.1, 3.5, 1.4, 0.2\", for networks that were trained on a CSV file\n"
    "  a text             for language models: what may come next\n"
    "\n"
    "  --weights FILE     safetensors, .pt, .pth, .npz\n"
    "  --labels FILE      names of the classes, one a line\n"
    "  --top N            so many classes; 5\n"
    "  --device D         cpu, cuda, cuda:1\n";

typedef struct request {
  model m;
  cn_transform *transform;
  cn_tokenizer *tokenizer; /* of language models */
  cn_names names;          /* of --labels */
  int64_t top;
} request;

/* ---- inputs ---- */

static bool is_numbers(const char *text)
{
  const char *end = text;
  cn_number_read(text, &end);
  return end != text && text[strspn(text, "0123456789+-.,;eE \t")] == 0;
}

/* "5.1, 3.5" as a batch of one row. */
static cn_tensor *read_numbers(const char *text)
{
  enum { MOST = 4096 };
  static float v[MOST];
  size_t n = 0;
  for (const char *s = text, *end; *s && n < MOST;) {
    double x = cn_number_read(s, &end);
    if (end == s) break;
    v[n++] = (float)x;
    s = end + strspn(end, ",; \t");
  }
  return cn_unsqueeze(cn_floats(v, n), 0);
}

static cn_tensor *read_image(const request *r, const char *path)
{
  cn_tensor *image = cn_image_load(path, 0);
  if (image && cn_size(image, 0) != 1 && cn_size(image, 0) != 3) image = cn_image_load(path, 3);
  return image ? cn_unsqueeze(cn_transform_apply(r->transform, image, NULL), 0) : NULL;
}

/* Several samples have one dimension more than the net's input. */
static cn_tensor *read_array(const request *r, const char *path)
{
  int64_t shape[CN_MAX_DIMS];
  size_t n = model_input(shape, &r->m);
  cn_tensor *x = cn_load_npy(path);
  if (x && cn_dtype_is_float(cn_dtype_of(x))) x = cn_cast(x, CN_F32);
  return x && (!n || (size_t)cn_ndim(x) == n) ? cn_unsqueeze(x, 0) : x;
}

static cn_tensor *read_input(const request *r, const char *input)
{
  size_t n = strlen(input);
  if (cn_path_kind_of(input) == CN_PATH_FILE)
    return n > 4 && !strcmp(input + n - 4, ".npy") ? read_array(r, input) : read_image(r, input);
  if (r->tokenizer) {
    cn_tensor *tokens = cn_tokenizer_encode(r->tokenizer, input, n, false);
    return tokens ? cn_unsqueeze(tokens, 0) : NULL;
  }
  if (is_numbers(input)) return read_numbers(input);
  cn_err_set(CN_ERR_IO, "there is no file '%s'", input);
  return NULL;
}

/* ---- predictions ---- */

/* A token as it can be printed. */
static const char *token_text(const request *r, int64_t token)
{
  static char text[64];
  cn_scope *s = cn_scope_begin();
  char *plain = cn_tokenizer_decode(r->tokenizer, cn_from_data(&token, CN_SHAPE(1), CN_I64), false);
  cn_scope_end(s);
  snprintf(text, sizeof text, "'%s'", !plain ? "?" : !strcmp(plain, "\n") ? "\\n" : plain);
  cn_string_free(plain);
  return text;
}

static const char *name_of(const request *r, int64_t i)
{
  if (r->tokenizer) return token_text(r, i);
  return (size_t)i < r->names.n ? r->names.v[i] : model_label(&r->m, i);
}

/* scores: (classes) of one sample. */
static int print_top(const request *r, const char *input, cn_tensor *scores)
{
  enum { MOST = 100 };
  float p[MOST];
  int64_t k = r->top < cn_size(scores, 0) ? r->top : cn_size(scores, 0), which[MOST];
  cn_tensor *values, *indices;
  if (k > MOST) k = MOST;
  cn_tensor *probabilities = cn_softmax(cn_cast(scores, CN_F32), 0);
  cn_tensor *of = cn_to_device(probabilities, CN_CPU);
  indices = cn_argsort(of, .descending = true);
  indices = indices ? cn_narrow(indices, 0, 0, k) : NULL;
  values = indices ? cn_index_select(of, 0, indices) : NULL;
  if (!values || cn_to_data(p, sizeof p, values) || cn_to_data(which, sizeof which, indices)) return cn_err();
  printf("%s\n", input);
  for (int64_t i = 0; i < k; i++) printf("  %6.2f %%  %s\n", 100 * (double)p[i], name_of(r, which[i]));
  return CN_OK;
}

/* Networks that give numbers, not classes. */
static int print_values(const char *input, cn_tensor *values)
{
  enum { MOST = 64 };
  double v[MOST];
  int64_t n = cn_numel(values);
  if (n > MOST) {
    printf("%s\n", input);
    return cn_print(values);
  }
  if (cn_to_data(v, sizeof v, cn_cast(cn_to_device(values, CN_CPU), CN_F64))) return cn_err();
  printf("%s\n ", input);
  for (int64_t i = 0; i < n; i++) printf(" %.6g", v[i]);
  printf("\n");
  return CN_OK;
}

static int predict_one(const request *r, const char *input)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_inference_begin();
  cn_tensor *x = read_input(r, input);
  cn_tensor *y = x ? cn_forward(r->m.net, cn_to_device(x, cn_default_device())) : NULL;
  if (y && r->tokenizer && cn_ndim(y) == 3) y = cn_select(y, 1, -1); /* what follows the last token */
  for (int64_t i = 0; y && !cn_err() && i < cn_size(y, 0); i++) {
    char name[COMMAND_PATH];
    cn_tensor *row = cn_select(y, 0, i);
    snprintf(name, sizeof name, cn_size(y, 0) > 1 ? "%s[%lld]" : "%s", input, (long long)i);
    if (cn_ndim(row) == 1 && (r->tokenizer || model_classifies(r->m.description))) print_top(r, name, row);
    else print_values(name, row);
  }
  cn_inference_end(saved);
  cn_scope_end(s);
  return cn_err();
}

/* ---- the command ---- */

static int read_labels(cn_names *names, const char *path)
{
  cn_mapping file;
  int status = cn_map_open(&file, path);
  if (status) return status;
  const char *s = (const char *)file.data, *stop = s + file.size;
  while (!status && s < stop) {
    const char *end = memchr(s, '\n', (size_t)(stop - s));
    size_t n = (size_t)((end ? end : stop) - s);
    if (n && s[n - 1] == '\r') n--;
    char *line = cn_string_copy_bytes(s, n);
    status = line ? cn_names_add(names, line) : cn_err();
    cn_string_free(line);
    s = end ? end + 1 : stop;
  }
  cn_map_close(&file);
  return status;
}

static int prepare(request *r, const char *what, const char *weights, const char *labels, const char *device)
{
  if (device) cn_set_default_device(cn_device_find(device));
  if (cn_err() || model_open(&r->m, what, weights)) return cn_err();
  if (!r->m.trained) return cn_err_set(CN_ERR_VALUE, "%s has no weights: give --weights FILE", what);
  if (labels && read_labels(&r->names, labels)) return cn_err();
  if (device) cn_module_to(r->m.net, cn_default_device(), CN_DTYPE_NONE);
  r->transform = cn_description_transform(r->m.description, CN_TEST);
  if (model_is_text(r->m.description)) r->tokenizer = cn_description_tokenizer(r->m.description);
  return cn_err();
}

int command_predict(int argc, char **argv)
{
  enum { MOST = 1024 };
  static const char *words[MOST];
  const char *weights = NULL, *labels = NULL, *top = NULL, *device = NULL;
  const command_flag flags[] = {{"--weights", &weights, NULL}, {"--labels", &labels, NULL}, {"--top", &top, NULL},
                                {"--device", &device, NULL}, {NULL, NULL, NULL}};
  request r = {.top = 5};
  int n = command_parse(argc, argv, flags, words, MOST), failures = 0;
  if (n < 0) return 2;
  if (n < 2) return command_missing(argv[0], n ? "an input is missing" : "a model is missing");
  if (!command_whole(&r.top, top) || r.top < 1) return command_usage(argv[0], top);
  int status = prepare(&r, words[0], weights, labels, device) ? command_failed() : 0;
  for (int i = 1; i < n && !status; i++)
    if (predict_one(&r, words[i])) {
      command_failed();
      cn_err_clear();
      failures = 1;
    }
  cn_tokenizer_free(r.tokenizer);
  cn_transform_free(r.transform);
  cn_names_free(&r.names);
  model_close(&r.m);
  return status ? status : failures;
}
