/* onnx.c: cairn's side of runs of ONNX models, as they are and compiled, to the bit and fast: those that
 * peers/onnx_models.py left in the folder that BENCH_ONNX names, NAME.onnx and its inputs NAME.0.npy and so on.
 *
 * Place in the flow: the peer is ort_onnx.py. Invariant: a model that is not there is no work; inference mode is on
 * around a call.
 */
#include "side.h"

#include <cairn/compile.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>

#define ROW "onnx_" /* in front of the names of models */

enum { MOST = 96, ENDS = 16 };

static struct side_case works[MOST];
static cn_onnx *model;
static cn_compiled *programs[2]; /* to the bit, and fast; NULL: not captured yet */
static cn_tensor *inputs[ENDS], *outputs[ENDS];

static const char *folder(void)
{
  const char *named = cn_env("BENCH_ONNX");
  return named ? named : "build/bench/onnx";
}

/* A file of the row's model; in static storage. */
static const char *file_of(const char *row, const char *ending)
{
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s%s", folder(), row + strlen(ROW), ending);
  return path;
}

static const char *file(const char *ending) { return file_of(now->name, ending); }

/* One that cairn cannot load is no work, and is said. */
static bool loads(const char *row)
{
  cn_onnx *m = cn_onnx_load(file_of(row, ".onnx"));
  if (!m) fprintf(stderr, "%s\n", cn_err_message());
  cn_err_clear();
  bool good = m != NULL;
  cn_onnx_free(m);
  return good;
}

static void prepare(void)
{
  char ending[32];
  for (int fast = 0; fast < 2; fast++) {
    cn_compiled_free(programs[fast]);
    programs[fast] = NULL;
  }
  cn_onnx_free(model);
  model = cn_onnx_load(file(".onnx"));
  bench_require(!model || (cn_onnx_inputs(model) <= ENDS && cn_onnx_outputs(model) <= ENDS), "more ends than ENDS");
  for (size_t i = 0; model && i < cn_onnx_inputs(model); i++) {
    snprintf(ending, sizeof ending, ".%zu.npy", i);
    cn_set(&inputs[i], cn_load_npy(file(ending)));
  }
}

static void run(void)
{
  int saved = cn_inference_begin();
  if (!cn_onnx_run(outputs, model, inputs)) result[0] = outputs[0];
  cn_inference_end(saved);
}

static int captured(cn_compile_call *k)
{
  k->noutputs = cn_onnx_outputs(model);
  return cn_onnx_run(k->outputs, model, k->inputs);
}

static void run_compiled(bool fast)
{
  cn_compiled **program = &programs[fast];
  int saved = cn_inference_begin();
  if (!*program) *program = cn_compile(captured, .name = now->name, .fast = fast);
  cn_compile_call call = {.inputs = inputs, .ninputs = cn_onnx_inputs(model), .outputs = outputs, .noutputs = ENDS};
  if (!cn_compiled_call(*program, &call)) result[0] = outputs[0];
  cn_inference_end(saved);
}

static void compiled(void) { run_compiled(false); }
static void compiled_fast(void) { run_compiled(true); }

int main(int argc, char **argv)
{
  cn_names names = {NULL, 0, 0};
  size_t n = 0;
  if (cn_folder_list(&names, folder())) cn_err_clear();
  for (size_t i = 0; i < names.n && n + 3 <= MOST; i++) {
    if (!cn_string_ends(names.v[i], ".onnx")) continue;
    cn_text row = {0}; /* as long as the program */
    cn_text_put(&row, ROW);
    cn_text_put_bytes(&row, names.v[i], strlen(names.v[i]) - strlen(".onnx"));
    bench_require(!row.failed, "out of memory");
    if (!loads(row.s)) continue;
    works[n++] = (struct side_case){row.s, "", "run", 1, prepare, run, {0}, false};
    works[n++] = (struct side_case){row.s, "compiled", "run", 1, prepare, compiled, {0}, false};
    works[n++] = (struct side_case){row.s, "compiled_fast", "run", 1, prepare, compiled_fast, {0}, false};
  }
  return side_serve(argc, argv, works, n);
}
