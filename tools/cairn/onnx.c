/* onnx.c: see onnx.h. Invariant: every input that the options name is one of the model's, and is given once. */
#include "onnx.h"

#include <cairn/data.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

/* ---- options ---- */

bool onnx_take_options(onnx_options *o, int *argc, char **argv)
{
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    char *word = argv[i];
    const char *input = command_option(*argc, argv, &i, "--input"),
               *size = input ? NULL : command_option(*argc, argv, &i, "--size");
    if (!input && !size) argv[kept++] = word;
    else if (o->ninputs == ONNX_MOST || o->nsizes == ONNX_MOST) return command_usage(argv[0], word), false;
    else if (input) o->inputs[o->ninputs++] = input;
    else o->sizes[o->nsizes++] = size;
  }
  *argc = kept;
  return true;
}

int onnx_place(const onnx_options *o)
{
  int64_t threads = 0;
  if (!command_whole(&threads, o->threads) || threads < 0 || threads > 4096)
    return cn_err_set(CN_ERR_VALUE, "--threads is '%s'", o->threads);
  if (threads) cn_set_num_threads((int)threads);
  if (o->device) cn_set_default_device(cn_device_find(o->device));
  return cn_err();
}

const char *onnx_type(char *text, size_t size, const cn_onnx_info *info)
{
  static const char *const kinds[] = {"none", "tensor", "strings", "sequence of", "map"};
  bool tensor = info->kind == CN_ONNX_TENSOR && info->dtype;
  size_t n = (size_t)snprintf(text, size, "%s%s%s", info->optional ? "optional " : "",
                              tensor ? cn_dtype_name(info->dtype) : kinds[info->kind], info->ndim >= 0 ? " [" : "");
  if (info->kind == CN_ONNX_SEQUENCE && info->dtype && n < size)
    n += (size_t)snprintf(text + n, size - n, " %s", cn_dtype_name(info->dtype));
  for (int d = 0; d < info->ndim && n < size; d++) {
    const char *before = d ? ", " : "";
    if (info->shape[d] >= 0) n += (size_t)snprintf(text + n, size - n, "%s%lld", before, (long long)info->shape[d]);
    else n += (size_t)snprintf(text + n, size - n, "%s%s", before, info->symbols[d] ? info->symbols[d] : "?");
  }
  if (info->ndim >= 0 && n < size) snprintf(text + n, size - n, "]");
  return text;
}

/* ---- one input ---- */

/* Numbers that --mean and --std give, at most 4; 0: they are no such list. */
static size_t numbers(double *v, const char *text)
{
  size_t n = 0;
  for (const char *s = text, *end; n < 4; s = end + 1) {
    v[n] = cn_number_read(s, &end);
    if (end == s || (*end && *end != ',')) return 0;
    n++;
    if (!*end) return n;
  }
  return 0;
}

/* (x - mean) / std by channel, of numbers in [0, 1]. */
static cn_tensor *normalised(cn_tensor *image, const onnx_options *o)
{
  double mean[4] = {0}, std[4] = {1, 1, 1, 1};
  size_t channels = (size_t)cn_size(image, 0), n = o->mean ? numbers(mean, o->mean) : 1,
         k = o->std ? numbers(std, o->std) : 1;
  if ((n != 1 && n != channels) || (k != 1 && k != channels)) {
    cn_err_set(CN_ERR_VALUE, "--mean and --std take one number, or one for each of %zu channels", channels);
    return NULL;
  }
  for (size_t i = 1; i < channels; i++) {
    if (n == 1) mean[i] = mean[0];
    if (k == 1) std[i] = std[0];
  }
  return cn_image_normalize(image, mean, std, channels);
}

/* Where an input that is an image has its channels and sizes. */
typedef struct layout {
  int channel, height, width;
} layout;

static bool is_channels(int64_t n) { return n == 1 || n == 3 || n == 4; }

static bool layout_of(layout *l, const cn_onnx_info *info)
{
  int first = info->ndim - 3;
  if (info->kind != CN_ONNX_TENSOR || first < 0 || first > 1) return false;
  if (is_channels(info->shape[first])) *l = (layout){first, first + 1, first + 2};
  else if (is_channels(info->shape[first + 2])) *l = (layout){first + 2, first, first + 1};
  else if (info->shape[first] < 0) *l = (layout){first, first + 1, first + 2};
  else return false;
  return true;
}

/* An image brought to what the input says: its sizes, its order of dimensions, its type. */
static cn_tensor *read_image(const cn_onnx_info *info, const char *path, const onnx_options *o)
{
  layout l;
  char type[256];
  if (!layout_of(&l, info)) {
    cn_err_set(CN_ERR_VALUE, "input '%s' is %s, no image", info->name, onnx_type(type, sizeof type, info));
    return NULL;
  }
  int64_t channels = info->shape[l.channel] < 0 ? 3 : info->shape[l.channel];
  cn_tensor *image = cn_image_load(path, (int)channels);
  if (!image) return NULL;
  int64_t height = info->shape[l.height] < 0 ? cn_size(image, 1) : info->shape[l.height],
          width = info->shape[l.width] < 0 ? cn_size(image, 2) : info->shape[l.width];
  if (height != cn_size(image, 1) || width != cn_size(image, 2)) image = cn_image_resize(image, height, width);
  if (!image) return NULL;
  if (!info->dtype || cn_dtype_is_float(info->dtype)) image = normalised(cn_image_float(image), o);
  if (image && info->dtype) image = cn_cast(image, info->dtype);
  if (image && l.channel > l.height) image = cn_permute(image, CN_SHAPE(1, 2, 0));
  image = image ? cn_contiguous(image) : NULL;
  return image && info->ndim == 4 ? cn_unsqueeze(image, 0) : image;
}

static cn_onnx_value *read_proto(const char *path)
{
  cn_mapping file;
  if (cn_map_open(&file, path)) return NULL;
  cn_onnx_value *v = cn_onnx_value_read(file.data, file.size);
  cn_map_close(&file);
  return v;
}

/* The lines of a file, in the shape that the input says, or in a row. */
static cn_onnx_value *read_lines(const cn_onnx_info *info, const char *path)
{
  cn_mapping file;
  cn_names lines = {NULL, 0, 0};
  cn_strings made = {NULL, NULL};
  int64_t shape[CN_MAX_DIMS], all = 1;
  if (cn_map_open(&file, path)) return NULL;
  const char *s = (const char *)file.data, *stop = s + file.size;
  for (const char *end; s < stop && !cn_err(); s = end + 1) {
    if (!(end = memchr(s, '\n', (size_t)(stop - s)))) end = stop;
    char *line = cn_string_copy_bytes(s, (size_t)(end - s) - (end > s && end[-1] == '\r'));
    if (line) cn_names_add(&lines, line);
    cn_string_free(line);
  }
  cn_map_close(&file);
  size_t ndim = info->ndim > 0 ? (size_t)info->ndim : 1;
  for (size_t d = 0; d < ndim; d++) {
    shape[d] = info->ndim > 0 && info->shape[d] > 0 && d ? info->shape[d] : 1;
    all *= shape[d];
  }
  shape[0] = (int64_t)lines.n / all;
  int status = cn_err() ? cn_err() : cn_strings_from(&made, (const char *const *)lines.v, shape, ndim);
  cn_names_free(&lines);
  return status ? NULL : cn_onnx_value_strings(&made);
}

static cn_onnx_value *random_input(const cn_onnx_info *info, const int64_t *shape, size_t ndim)
{
  cn_dtype dtype = info->dtype ? info->dtype : CN_F32;
  cn_tensor *t = cn_dtype_is_float(dtype) ? cn_randn(shape, ndim) : cn_randint(0, 2, shape, ndim);
  return t ? cn_onnx_value_tensor(cn_cast(t, dtype)) : NULL;
}

static cn_onnx_value *read_input(const cn_onnx_info *info, const char *what, const onnx_options *o)
{
  int64_t sizes[CN_MAX_DIMS];
  size_t n = o->random && cn_path_kind_of(what) != CN_PATH_FILE ? command_sizes(sizes, CN_MAX_DIMS, what) : 0;
  if (n) return random_input(info, sizes, n);
  if (cn_path_kind_of(what) != CN_PATH_FILE) {
    cn_err_set(CN_ERR_IO, "input '%s': there is no file '%s'", info->name, what);
    return NULL;
  }
  if (cn_string_ends(what, ".pb")) return read_proto(what);
  if (cn_string_ends(what, ".txt")) return read_lines(info, what);
  cn_tensor *t = cn_string_ends(what, ".npy") ? cn_load_npy(what) : read_image(info, what, o);
  return t ? cn_onnx_value_tensor(cn_to_device(t, cn_default_device())) : NULL;
}

/* ---- all of them ---- */

/* Input that an option `NAME=...` is about, and what is behind the name: names may have a '=' in them. NULL with the
 * error set. */
static const char *input_named(cn_onnx_info *info, const cn_onnx *m, const char *option)
{
  size_t best = 0;
  cn_onnx_info one;
  for (size_t i = 0; i < cn_onnx_inputs(m); i++) {
    if (cn_onnx_input_at(&one, m, i)) return NULL;
    size_t n = strlen(one.name);
    if (strncmp(option, one.name, n) != 0 || option[n] != '=' || n + 1 <= best) continue;
    best = n + 1;
    *info = one;
  }
  if (best) return option + best;
  if (cn_onnx_inputs(m) == 1 && (!strchr(option, '=') || cn_path_kind_of(option) == CN_PATH_FILE))
    return cn_onnx_input_at(info, m, 0) ? NULL : option;
  cn_text has = {0};
  for (size_t i = 0; i < cn_onnx_inputs(m) && !cn_onnx_input_at(&one, m, i); i++)
    cn_text_putf(&has, "%s'%s'", i ? ", " : "", one.name);
  cn_err_set(CN_ERR_VALUE, "the model has no input '%.*s'; it has %s", (int)strcspn(option, "="), option,
             has.s ? has.s : "none");
  cn_text_free(&has);
  return NULL;
}

static const cn_onnx_feed *feed_of(const onnx_subject *s, const char *name)
{
  for (size_t i = 0; i < s->nfeeds; i++)
    if (!strcmp(s->feeds[i].name, name)) return &s->feeds[i];
  return NULL;
}

static int add_feed(onnx_subject *s, const cn_onnx_info *info, cn_onnx_value *value)
{
  if (!value) return cn_err();
  s->feeds[s->nfeeds++] = (cn_onnx_feed){info->name, value};
  return CN_OK;
}

static int64_t size_named(const char *symbol, const onnx_options *o)
{
  int64_t size = 1;
  size_t n = symbol ? strlen(symbol) : 0;
  for (int i = 0; symbol && i < o->nsizes; i++)
    if (!strncmp(o->sizes[i], symbol, n) && o->sizes[i][n] == '=') command_whole(&size, o->sizes[i] + n + 1);
  return size;
}

/* Random numbers in the sizes that the model says. */
static int feed_random(onnx_subject *s, const cn_onnx_info *info, const onnx_options *o)
{
  int64_t shape[CN_MAX_DIMS];
  char type[256];
  if (info->kind != CN_ONNX_TENSOR)
    return cn_err_set(CN_ERR_VALUE, "input '%s' is %s: give it with --input", info->name,
                      onnx_type(type, sizeof type, info));
  for (int d = 0; d < info->ndim; d++)
    shape[d] = info->shape[d] < 0 ? size_named(info->symbols[d], o) : info->shape[d];
  return add_feed(s, info, random_input(info, shape, info->ndim < 0 ? 0 : (size_t)info->ndim));
}

/* Those that no option gave: random ones, or all of them in one error. */
static int feed_others(onnx_subject *s, const onnx_options *o)
{
  cn_text missing = {0};
  char type[256];
  for (size_t i = 0; i < cn_onnx_inputs(s->model) && !cn_err(); i++) {
    cn_onnx_info info;
    if (cn_onnx_input_at(&info, s->model, i) || feed_of(s, info.name) || info.optional) continue;
    if (o->random) feed_random(s, &info, o);
    else cn_text_putf(&missing, "%s'%s' (%s)", missing.n ? ", " : "", info.name, onnx_type(type, sizeof type, &info));
  }
  if (missing.n) cn_err_set(CN_ERR_VALUE, "inputs are missing: %s", missing.s);
  cn_text_free(&missing);
  return cn_err();
}

static int feed_all(onnx_subject *s, const onnx_options *o)
{
  for (int i = 0; i < o->ninputs; i++) {
    cn_onnx_info info;
    const char *what = input_named(&info, s->model, o->inputs[i]);
    if (!what) return cn_err();
    if (feed_of(s, info.name)) return cn_err_set(CN_ERR_VALUE, "input '%s' is given twice", info.name);
    if (add_feed(s, &info, read_input(&info, what, o))) return cn_err();
  }
  return feed_others(s, o);
}

/* ---- running ---- */

static int run_named(onnx_subject *s, const cn_onnx_feed *feeds, cn_onnx_value **made)
{
  return cn_onnx_run_named(made, NULL, 0, s->model, feeds, s->nfeeds);
}

/* The model as a function of tensors. */
static int run_tensors(cn_compile_call *call)
{
  onnx_subject *s = call->payload;
  cn_onnx_feed feeds[ONNX_MOST];
  size_t n = cn_onnx_outputs(s->model);
  cn_onnx_value **made = cn_alloc_zero((n + 1) * sizeof *made);
  int status = made ? CN_OK : cn_err();
  for (size_t i = 0; i < s->nfeeds; i++)
    feeds[i] = (cn_onnx_feed){s->feeds[i].name, status ? NULL : cn_onnx_value_tensor(call->inputs[i])};
  if (!status) status = cn_err() ? cn_err() : run_named(s, feeds, made);
  for (size_t i = 0; i < n && !status; i++) {
    cn_tensor *t = cn_onnx_value_as_tensor(made[i]);
    call->outputs[i] = t ? cn_scope_give(cn_keep(t)) : NULL;
    if (!t) status = cn_err_set(CN_ERR_CAPTURE, "capture: an output is no tensor");
  }
  call->noutputs = n;
  for (size_t i = 0; made && i < n; i++) cn_onnx_value_release(made[i]);
  for (size_t i = 0; i < s->nfeeds; i++) cn_onnx_value_release(feeds[i].value);
  cn_free(made, (n + 1) * sizeof *made);
  return status;
}

static int run_compiled(onnx_subject *s)
{
  cn_tensor *inputs[ONNX_MOST];
  size_t n = cn_onnx_outputs(s->model);
  cn_tensor **outputs = cn_alloc_zero((n + 1) * sizeof *outputs);
  if (!outputs) return cn_err();
  for (size_t i = 0; i < s->nfeeds; i++) inputs[i] = cn_onnx_value_as_tensor(s->feeds[i].value);
  cn_compile_call call = {.inputs = inputs, .ninputs = s->nfeeds, .outputs = outputs, .noutputs = n, .payload = s};
  int status = cn_compiled_call(s->compiled, &call);
  for (size_t i = 0; i < n && !status; i++)
    if (!(s->made[i] = cn_onnx_value_tensor(outputs[i]))) status = cn_err();
  cn_free(outputs, (n + 1) * sizeof *outputs);
  return status;
}

int onnx_run(onnx_subject *s)
{
  cn_scope *scope = cn_scope_begin();
  int saved = cn_inference_begin();
  for (size_t i = 0; i < cn_onnx_outputs(s->model); i++) {
    cn_onnx_value_release(s->made[i]);
    s->made[i] = NULL;
  }
  int status = s->compiled ? run_compiled(s) : CN_OK;
  if (status == CN_ERR_CAPTURE) { /* a value decides what is computed */
    snprintf(s->why, sizeof s->why, "%s", cn_err_message());
    cn_err_clear();
    cn_compiled_free(s->compiled);
    s->compiled = NULL;
    status = CN_OK;
  }
  if (!s->compiled && !status) status = run_named(s, s->feeds, s->made);
  cn_inference_end(saved);
  cn_scope_end(scope);
  return status;
}

/* Whether all that goes in and comes out is tensors, as graphs take it. */
static bool can_be_compiled(const onnx_subject *s)
{
  cn_onnx_info info;
  for (size_t i = 0; i < s->nfeeds; i++)
    if (!cn_onnx_value_as_tensor(s->feeds[i].value)) return false;
  for (size_t i = 0; i < cn_onnx_outputs(s->model); i++)
    if (cn_onnx_output_at(&info, s->model, i) || info.kind != CN_ONNX_TENSOR || info.optional) return false;
  return true;
}

static int load(onnx_subject *s, const char *path)
{
  if ((s->model = cn_onnx_load(path))) s->made = cn_alloc_zero((cn_onnx_outputs(s->model) + 1) * sizeof *s->made);
  if (s->model && cn_onnx_inputs(s->model) > ONNX_MOST) cn_err_set(CN_ERR_VALUE, "%s has too many inputs", path);
  return cn_err();
}

static int finish(onnx_subject *s, const char *path, bool compiled)
{
  if (!cn_err() && compiled && can_be_compiled(s))
    s->compiled = cn_compile(run_tensors, .fullgraph = true, .name = path, .fast = true);
  return cn_err();
}

int onnx_open(onnx_subject *s, const char *path, const onnx_options *o, bool compiled)
{
  cn_scope *scope = cn_scope_begin();
  if (!load(s, path)) feed_all(s, o);
  cn_scope_end(scope);
  return finish(s, path, compiled);
}

int onnx_open_beside(onnx_subject *s, const char *path, const onnx_subject *other, bool compiled)
{
  cn_onnx_info info;
  if (load(s, path)) return cn_err();
  for (size_t i = 0; i < cn_onnx_inputs(s->model); i++) {
    if (cn_onnx_input_at(&info, s->model, i)) return cn_err();
    const cn_onnx_feed *from = feed_of(other, info.name);
    if (!from && i < other->nfeeds) from = &other->feeds[i];
    if (!from) return cn_err_set(CN_ERR_VALUE, "the first model has no input for '%s' of the second", info.name);
    add_feed(s, &info, cn_onnx_value_keep(from->value));
  }
  return finish(s, path, compiled);
}

void onnx_close(onnx_subject *s)
{
  size_t n = s->model ? cn_onnx_outputs(s->model) : 0;
  for (size_t i = 0; s->made && i < n; i++) cn_onnx_value_release(s->made[i]);
  for (size_t i = 0; i < s->nfeeds; i++) cn_onnx_value_release(s->feeds[i].value);
  cn_free(s->made, (n + 1) * sizeof *s->made);
  cn_compiled_free(s->compiled);
  cn_onnx_free(s->model);
}
