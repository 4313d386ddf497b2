/* run.c: `cairn run`: an ONNX model on files: arrays and images in, arrays out.
 *
 * Place in the flow: onnx.c loads and runs; here are results. Invariant: a failure is said on stderr and is the exit
 * status; a file is written whole or not at all. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "onnx.h"

const char help_run[] = ONNX_HELP_INPUT
    "  --output-dir DIR    a .npy file for each output there, by its name, with _ for each character but letters,\n"
    "                      digits, '.', '_' and '-'; a sequence is several, NAME.0.npy and so on, texts are lines\n"
    "                      of a .txt file. Without it outputs are printed\n"
    "  --eager             node by node; otherwise the model is compiled\n" ONNX_HELP_IMAGE ONNX_HELP_WHERE;

/* ---- files ---- */

/* DIR/NAME + ending; owned. NULL with the error set. */
static char *path_of(const char *folder, const char *name, const char *ending)
{
  cn_text t = {0};
  for (const char *c = name; *c; c++) {
    bool fine = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("._-", *c);
    bool inside = ((unsigned char)*c & 0xC0) == 0x80; /* of a character of several bytes, which is one _ */
    if (!inside) cn_text_put_bytes(&t, fine ? c : "_", 1);
  }
  cn_text_put(&t, ending);
  char *path = t.failed ? NULL : cn_path_join(folder, t.s);
  cn_text_free(&t);
  return path;
}

static int write_text(const char *path, const cn_strings *strings)
{
  cn_writer *out = cn_writer_open(path);
  if (!out) return cn_err();
  for (int64_t i = 0; i < cn_numel(strings->lengths) && !cn_err(); i++) {
    char *line = cn_strings_get(strings, i);
    if (line && !cn_writer_put(out, line, strlen(line))) cn_writer_put(out, "\n", 1);
    cn_string_free(line);
  }
  if (!cn_err()) return cn_writer_commit(out);
  cn_writer_abandon(out);
  return cn_err();
}

static int write_value(const char *folder, const char *name, const cn_onnx_value *v)
{
  static const char *const parts[] = {".keys", ".values"};
  cn_strings strings;
  cn_tensor *t = cn_onnx_value_as_tensor(v);
  bool text = cn_onnx_value_as_strings(&strings, v), map = cn_onnx_value_kind(v) == CN_ONNX_MAP;
  for (size_t i = 0; i < cn_onnx_value_size(v) && !cn_err(); i++) {
    cn_text part = {0};
    cn_text_put(&part, name);
    if (map) cn_text_put(&part, parts[i]);
    else cn_text_putf(&part, ".%zu", i);
    if (!part.failed) write_value(folder, part.s, cn_onnx_value_at(v, i));
    cn_text_free(&part);
  }
  if (cn_err() || (!t && !text)) return cn_err();
  char *path = path_of(folder, name, text ? ".txt" : ".npy");
  if (path && text) write_text(path, &strings);
  else if (path) cn_save_npy(path, cn_to_device(t, CN_CPU));
  cn_string_free(path);
  return cn_err();
}

/* Two outputs must not become one file. */
static int names_differ(const cn_onnx *m)
{
  cn_onnx_info a, b;
  for (size_t i = 0; i < cn_onnx_outputs(m) && !cn_err(); i++)
    for (size_t k = 0; k < i && !cn_err(); k++) {
      if (cn_onnx_output_at(&a, m, i) || cn_onnx_output_at(&b, m, k)) break;
      char *x = path_of("", a.name, ""), *y = path_of("", b.name, "");
      if (x && y && !strcmp(x, y))
        cn_err_set(CN_ERR_VALUE, "outputs '%s' and '%s' would both be the file '%s.npy'", b.name, a.name, x);
      cn_string_free(x);
      cn_string_free(y);
    }
  return cn_err();
}

static int write_all(const onnx_subject *s, const char *folder)
{
  cn_onnx_info info;
  if (cn_folder_make(folder)) return cn_err();
  for (size_t i = 0; i < cn_onnx_outputs(s->model) && !cn_err(); i++)
    if (!cn_onnx_output_at(&info, s->model, i)) write_value(folder, info.name, s->made[i]);
  return cn_err();
}

/* ---- on the screen ---- */

static int print_value(const char *name, const cn_onnx_value *v)
{
  cn_strings strings;
  cn_tensor *t = cn_onnx_value_as_tensor(v);
  if (t) {
    printf("%s ", name);
    return cn_print(cn_to_device(t, CN_CPU));
  }
  if (!cn_onnx_value_as_strings(&strings, v)) {
    printf("%s: %zu values\n", name, cn_onnx_value_size(v));
    for (size_t i = 0; i < cn_onnx_value_size(v) && !cn_err(); i++) print_value(" ", cn_onnx_value_at(v, i));
    return cn_err();
  }
  printf("%s\n", name);
  for (int64_t i = 0; i < cn_numel(strings.lengths) && !cn_err(); i++) {
    char *line = cn_strings_get(&strings, i);
    if (line) printf("  %s\n", line);
    cn_string_free(line);
  }
  return cn_err();
}

static int print_all(const onnx_subject *s)
{
  cn_onnx_info info;
  for (size_t i = 0; i < cn_onnx_outputs(s->model) && !cn_err(); i++)
    if (!cn_onnx_output_at(&info, s->model, i)) print_value(info.name, s->made[i]);
  return cn_err();
}

int command_run(int argc, char **argv)
{
  const char *path = NULL, *folder = NULL;
  bool eager = false;
  onnx_options o = {.random = false};
  onnx_subject s = {NULL};
  const command_flag flags[] = {{"--output-dir", &folder, NULL},
                                {"--eager", NULL, &eager},
                                {"--device", &o.device, NULL},
                                {"--threads", &o.threads, NULL},
                                {"--mean", &o.mean, NULL},
                                {"--std", &o.std, NULL},
                                {NULL, NULL, NULL}};
  if (!onnx_take_options(&o, &argc, argv)) return 2;
  int n = command_parse(argc, argv, flags, &path, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which model?");
  int status = onnx_place(&o);
  if (!status) status = onnx_open(&s, path, &o, !eager);
  if (!status && folder) status = names_differ(s.model);
  if (!status) status = onnx_run(&s);
  cn_scope *scope = cn_scope_begin();
  if (!status) status = folder ? write_all(&s, folder) : print_all(&s);
  cn_scope_end(scope);
  onnx_close(&s);
  return status || cn_err() ? command_failed() : 0;
}
