/* test_cuda_code.c: every kernel file of the CUDA plugin compiles, for old and new architectures, within limits on
 * registers and spilled bytes. Needs NVRTC, no device; skipped, with the reason, where NVRTC or the plugin is not.
 *
 * The variants are those that decide: each file with its widest and its narrowest types, its registers and its shared
 * memory form. CAIRN_VERBOSE lists what each takes. */
#include "test.h"

#include <stdio.h>

#ifndef CNI_HAVE_CUDA
static void compiles(void **state)
{
  (void)state;
  SKIP_TEST("no CUDA device"); /* nor its plugin */
}
#else
#include <dlfcn.h>
#include <nvrtc.h>

#include "backends/cuda/code.h"

/* FORM of the halves of a decoder's layer: blocks of a cluster, heads that share a key or whether there is a gate,
 * fours of packs of the row that a warp has. */
#define DECODER(cluster, more, row) ((cluster) | (more) << 4 | (row) << 8)
/* FORM of linear_step.cu, with a norm: warps that share a result, results at a time, how often these are under way. */
#define TEAM_OF(team, at_once, slots) ((team) | (at_once) << 3 | (slots) << 5 | 1 << 8)

/* FORM of recurrent_chip.cu: blocks of a cluster, rows. */
#define CHIP(cluster, rows) ((cluster) | (rows) << 4)

/* N and FORM of depthwise.cu: a filter with both strides, a strip's results and a pack's channels. */
#define DEPTHWISE(high, wide, stride, strip, pack) \
  ((high) | (wide) << 6 | (stride) << 12 | (stride) << 16 | (strip) << 20 | (pack) << 24)
enum { DEPTHWISE_BACK = 1 + 16, DEPTHWISE_NEXT = 2, DEPTHWISE_ADDS_GATED = 64 + 128 };
/* FORM of grouped_core.cu: which operands are turned, rows of a tile. */
#define GROUPED(turned, rows) ((turned) | (rows) / 32 << 2)
/* FORM of conv_small.cu: blocks of a cluster, rows and columns of a tile. */
#define TILE(cluster, rows, cols) ((cluster) | (rows) / 32 << 4 | (cols) / 32 << 7)

/* sm_100: its compiler reads farther ahead, and takes registers and spills for that. No such device was timed. */
enum { MOST_SPILLED = 32, MOST_SPILLED_100 = 256, LOG = 1 << 16, AHEAD = 1 << 8 };
enum { LAID = 1 << 10, LEARNS = 1 << 11, SHARED_BY_8 = 3 << 12 };
/* AHEAD: of kernels/rows.cuh; the others of norm.cu */

static const struct variant {
  cni_cuda_code code;
  int registers; /* at most; a quarter more for sm_100 */
} variants[] = {
    {{.file = "reduce.cu", .types = {CN_BF16, CN_BF16}, .op = "sum_op"}, 64},
    {{.file = "reduce.cu", .types = {CN_BF16, CN_BF16}, .op = "sum_op", .number = 8}, 128},
    {{.file = "reduce.cu", .types = {CN_U8, CN_U8}, .op = "max_op"}, 64},
    {{.file = "reduce.cu", .types = {CN_F64, CN_F64}, .op = "var_op"}, 80},
    {{.file = "reduce.cu", .types = {CN_F32, CN_F32}, .op = "logsumexp_op"}, 80},
    {{.file = "reduce.cu", .types = {CN_F16, CN_F16}, .op = "norm_op", .number = 2}, 64},
    {{.file = "reduce.cu", .types = {CN_BOOL, CN_BOOL}, .op = "any_op"}, 64},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_BF16}, .op = "softmax", .number = 4}, 96},
    {{.file = "softmax.cu", .types = {CN_F32, CN_F32}, .op = "log_softmax_grad", .threads = 512}, 64},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_F32}, .op = "log_softmax", .number = 8}, 96},
    {{.file = "softmax.cu", .types = {CN_F32, CN_F32}, .op = "softmax_grad", .number = -2, .threads = 512}, 128},
    {{.file = "mask.cu", .types = {CN_BOOL, CN_BF16, CN_BF16}}, 80},
    {{.file = "mask.cu", .types = {CN_F16, CN_F32, CN_F16}}, 80},
    {{.file = "transpose.cu", .types = {CN_U16, CN_U16}, .number = 8 + 16 * 8}, 64},
    {{.file = "transpose.cu", .types = {CN_F32, CN_BF16}, .number = 1 + 16 * 8}, 64},
    {{.file = "transpose.cu", .types = {CN_U64, CN_U64}, .number = 2 + 16 * 2}, 80},
    {{.file = "norm.cu", .types = {CN_BF16, CN_F32, CN_BF16, CN_BF16}, .op = "layer", .number = 3, .threads = 128},
     170},
    {{.file = "norm.cu", .types = {CN_F32, CN_F32, CN_F32, CN_F32}, .op = "layer", .number = 6, .threads = 128}, 170},
    {{.file = "norm.cu", .types = {CN_F32, CN_F32, CN_BF16, CN_BF16}, .op = "layer", .number = 6, .threads = 128}, 170},
    {{.file = "norm.cu", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer", .number = -2, .threads = 256},
     128},
    {{.file = "norm.cu", .types = {CN_F32, CN_F32, CN_BF16, CN_F16}, .op = "rms", .threads = 512}, 64},
    {{.file = "batch_norm.cu", .types = {CN_BF16, CN_F32}}, 128},
    {{.file = "batch_norm.cu", .types = {CN_BF16, CN_F32}, .number = 1}, 128},
    {{.file = "batch_norm.cu", .types = {CN_BF16, CN_F32}, .number = 2}, 168},
    {{.file = "batch_norm.cu", .types = {CN_F16, CN_F16}, .number = 3}, 128},
    {{.file = "batch_norm.cu", .entry = "channel_join", .types = {CN_F64, CN_F64}, .threads = 1024}, 64},
    {{.file = "loss.cu", .types = {CN_BF16, CN_F32}}, 64},
    {{.file = "loss.cu", .entry = "loss_grad", .types = {CN_BF16, CN_F32}, .threads = 512}, 64},
    {{.file = "loss.cu", .types = {CN_F32, CN_F32}, .number = 8}, 96},
    {{.file = "loss.cu", .types = {CN_F32, CN_F32}, .number = 8, .threads = 1024}, 64},
    {{.file = "scan.cu", .types = {CN_F32}, .op = "sum_op"}, 96},
    {{.file = "scan.cu", .types = {CN_BF16}, .op = "max_op"}, 96},
    {{.file = "sort.cu", .types = {CN_F32}}, 168},
    {{.file = "sort.cu", .types = {CN_I64}}, 168},
    {{.file = "index.cu", .number = 16}, 64},
    {{.file = "index.cu", .types = {CN_F32}, .op = "add_op", .number = 4}, 64},
    {{.file = "index.cu", .types = {CN_U64}, .op = "max_op", .number = 1}, 64},
    {{.file = "create.cu", .types = {CN_F16}, .exact = true}, 64},
    {{.file = "random.cu", .types = {CN_BF16}, .exact = true}, 80},
    {{.file = "replay.cu", .exact = true}, 40},
    {{.file = "window.cu", .types = {CN_BF16}, .number = 32}, 96},
    {{.file = "window.cu", .types = {CN_F64}, .number = 64}, 80},
    {{.file = "sample.cu", .types = {CN_F32}, .exact = true}, 80},
    {{.file = "search.cu", .types = {CN_F64, CN_I32}}, 64},
    {{.file = "pick.cu", .types = {CN_F32}, .exact = true}, 80},
    {{.file = "conv.cu", .types = {CN_F32}}, 96},
    {{.file = "gemm.cu", .types = {CN_F32, CN_F32}}, 128},
    {{.file = "gemm.cu", .types = {CN_BF16, CN_BF16}}, 128},
    {{.file = "gemm.cu", .entry = "gemm_small", .types = {CN_F64, CN_F64}}, 128},
    {{.file = "grouped.cu", .types = {CN_F32, CN_F32}}, 128},
    {{.file = "grouped_core.cu", .types = {CN_BF16, CN_BF16}, .form = GROUPED(2, 128)}, 168},
    {{.file = "grouped_core.cu", .types = {CN_F16, CN_F32}, .form = GROUPED(1, 32)}, 128},
    {{.file = "shuffle.cu", .types = {CN_U32}}, 40},
    {{.file = "shuffle.cu", .types = {CN_U64}}, 40},
    {{.file = "ctc.cu", .types = {CN_F32}}, 80},
    {{.file = "recurrent.cu", .types = {CN_F16}, .op = "lstm", .threads = 128}, 64},
    {{.file = "recurrent.cu", .types = {CN_F64}, .op = "gru", .threads = 128}, 96},
    {{.file = "recurrent.cu", .types = {CN_F32}, .op = "plain_tanh", .threads = 128}, 64},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_step", .types = {CN_F16}, .op = "lstm", .number = 32,
      .form = CHIP(8, 8)}, 192},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_back", .types = {CN_BF16}, .op = "lstm", .number = 32,
      .form = CHIP(8, 32)}, 255},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_step", .types = {CN_F32}, .op = "lstm", .number = 32,
      .threads = 512, .form = CHIP(8, 16)}, 128},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_back", .types = {CN_F32}, .op = "gru", .number = 16,
      .form = CHIP(8, 4)}, 128},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_step", .types = {CN_F16}, .op = "plain_tanh", .number = 64,
      .form = CHIP(1, 8)}, 80},
    {{.file = "recurrent_chip.cu", .entry = "recurrent_chip_back", .types = {CN_F16}, .op = "lstm", .number = 32,
      .form = CHIP(1, 8)}, 128},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_BF16}, .op = "softmax", .number = 4, .form = AHEAD + 1}, 64},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_BF16}, .op = "softmax_grad", .number = 4, .form = AHEAD}, 80},
    {{.file = "fft.cu", .types = {CN_F64}}, 64},
    {{.file = "factor.cu"}, 128},
    {{.file = "spectrum.cu"}, 85},
    {{.file = "spectrum.cu", .threads = 128}, 85},
    {{.file = "matrix_exp.cu"}, 128},
    {{.file = "solver.cu", .types = {CN_F32}}, 80},
    {{.file = "solver.cu", .types = {CN_F64}}, 80},
    {{.file = "linear_step.cu", .entry = "linear_row", .types = {CN_BF16}, .op = "1", .number = 3, .threads = 128,
      .form = TEAM_OF(1, 2, 2)}, 64},
    {{.file = "linear_step.cu", .entry = "linear_row", .types = {CN_BF16}, .op = "1", .number = 8, .threads = 128,
      .form = TEAM_OF(4, 2, 1)}, 128},
    {{.file = "linear_step.cu", .entry = "linear_rows", .types = {CN_F32}, .op = "4", .number = 8}, 128},
    {{.file = "attend_step.cu", .types = {CN_BF16}, .number = 64, .threads = 512}, 96},
    {{.file = "attend_step.cu", .types = {CN_F32}, .number = 256, .threads = 512}, 128},
    {{.file = "attend_one.cu", .types = {CN_BF16, CN_BF16}, .number = 128, .form = 9}, 128},
    {{.file = "attend_one.cu", .types = {CN_F32, CN_BOOL}, .number = 256, .form = 3}, 96},
    {{.file = "flash.cu", .types = {CN_BF16, CN_BF16}, .number = 64, .threads = 128, .form = 5}, 168},
    {{.file = "flash.cu", .types = {CN_F16, CN_F32}, .number = 64, .threads = 128, .form = 14}, 255},
    {{.file = "flash.cu", .types = {CN_BF16, CN_BF16}, .number = 128, .threads = 128, .form = 5}, 255},
    {{.file = "flash_grad.cu", .types = {CN_BF16, CN_BF16}, .number = 64, .threads = 128, .form = 5}, 168},
    {{.file = "flash_grad.cu", .types = {CN_F16, CN_F16}, .number = 128, .threads = 128, .form = 5}, 255},
    {{.file = "flash_grad.cu", .types = {CN_BF16, CN_BOOL}, .number = 128, .threads = 128, .form = 14}, 255},
    {{.file = "decoder_attend.cu", .types = {CN_BF16}, .number = 64, .form = DECODER(8, 1, 3)}, 128},
    {{.file = "decoder_attend.cu", .types = {CN_F32}, .number = 128, .form = DECODER(8, 4, 8)}, 255},
    {{.file = "decoder_feed.cu", .types = {CN_BF16}, .number = 24, .form = DECODER(8, 0, 3)}, 128},
    {{.file = "decoder_feed.cu", .types = {CN_F16}, .number = 40, .form = DECODER(8, 1, 8)}, 255},
    {{.file = "choose_token.cu", .types = {CN_BF16}, .threads = 1024}, 64},
    {{.file = "norm.cu", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer", .number = 3, .threads = 128,
      .form = AHEAD + LEARNS + 7},
     128},
    {{.file = "norm.cu", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer", .number = -4, .threads = 256,
      .form = AHEAD + LEARNS + 7},
     128},
    {{.file = "batch_norm.cu", .types = {CN_BF16, CN_F32}, .number = 4}, 168},
    {{.file = "conv_fold.cu", .types = {CN_U16}}, 80},
    {{.file = "conv_fold.cu", .types = {CN_U16}, .number = 1}, 80},
    {{.file = "loss.cu", .types = {CN_BF16, CN_F32}, .number = 4, .form = AHEAD + 1}, 64},
    {{.file = "loss.cu", .types = {CN_BF16, CN_F32}, .number = 5, .form = AHEAD}, 64},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_BF16}, .op = "softmax", .number = 5, .form = AHEAD}, 80},
    {{.file = "norm.cu", .entry = "norm_backward_all", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer",
      .number = 5, .threads = 128, .form = AHEAD + LEARNS + 2},
     168},
    {{.file = "softmax.cu", .types = {CN_BF16, CN_BF16}, .op = "log_softmax", .threads = 512}, 64},
    {{.file = "norm.cu", .entry = "norm_forward", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer",
      .number = -4, .form = AHEAD + LAID + SHARED_BY_8 + 6}, 64},
    {{.file = "norm.cu", .entry = "norm_backward_all", .types = {CN_BF16, CN_BF16, CN_BF16, CN_BF16}, .op = "layer",
      .number = -4, .form = AHEAD + LAID + LEARNS + SHARED_BY_8 + 2}, 128},
    {{.file = "loss.cu", .types = {CN_BF16, CN_F32}, .form = 128}, 64},
    {{.file = "sample.cu", .entry = "byte_weights", .types = {CN_F64}, .exact = true}, 80},
    {{.file = "sample.cu", .entry = "resample_bytes", .types = {CN_F64}, .exact = true}, 64},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_F16}, .threads = 128,
      .number = DEPTHWISE(3, 3, 1, 4, 2), .form = DEPTHWISE_ADDS_GATED}, 128},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_F32}, .threads = 128,
      .number = DEPTHWISE(3, 3, 2, 4, 2)}, 128},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_F16}, .threads = 128,
      .number = DEPTHWISE(3, 3, 2, 4, 2), .form = DEPTHWISE_BACK}, 112},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_BF16}, .threads = 128,
      .number = DEPTHWISE(3, 3, 1, 4, 1), .form = DEPTHWISE_NEXT}, 96},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_F16}, .threads = 128,
      .number = DEPTHWISE(5, 5, 1, 4, 2)}, 168},
    {{.file = "depthwise.cu", .entry = "depthwise", .types = {CN_BF16}, .threads = 128,
      .number = DEPTHWISE(7, 7, 1, 4, 2)}, 128},
    {{.file = "depthwise.cu", .entry = "depthwise_weight", .types = {CN_F16}, .threads = 128,
      .number = DEPTHWISE(3, 3, 2, 4, 2)}, 128},
    {{.file = "depthwise.cu", .entry = "depthwise_weight", .types = {CN_BF16}, .threads = 128,
      .number = DEPTHWISE(4, 7, 1, 4, 2)}, 168},
    {{.file = "depthwise.cu", .entry = "depthwise_join", .types = {CN_F32}, .threads = 1024,
      .number = DEPTHWISE(3, 3, 1, 4, 2)}, 40},
    {{.file = "conv_small.cu", .types = {CN_F16}, .number = 3, .form = TILE(1, 128, 64)}, 128},
    {{.file = "conv_small.cu", .types = {CN_F16}, .number = 6, .threads = 128, .form = TILE(8, 64, 64)}, 128},
    {{.file = "conv_small.cu", .types = {CN_BF16}, .number = 6, .threads = 128, .form = TILE(4, 64, 32)}, 128},
    {{.file = "conv_small.cu", .types = {CN_BF16}, .number = 6, .threads = 128, .form = TILE(2, 32, 64)}, 128},
    {{.file = "conv_small.cu", .types = {CN_F16}, .number = 2, .threads = 128, .form = TILE(1, 32, 32)}, 128},
};

#define FUNCTIONS(X)                                                                                          \
  X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)
#define FIELD(f) __typeof__(&f) f;
static struct { FUNCTIONS(FIELD) } rtc;

/* False where the library or one of its functions is absent. */
static bool load(void)
{
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                      "/usr/local/cuda/lib64/libnvrtc.so.12"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) library = dlopen(names[i], RTLD_NOW);
#define FIND(f) \
  symbol = library ? dlsym(library, #f) : NULL; \
  if (!symbol) return false; \
  memcpy(&rtc.f, &symbol, sizeof symbol);
  void *symbol;
  FUNCTIONS(FIND)
  return true;
}

/* The largest number in front of `words` in the compiler's report. */
static int largest(const char *log, const char *words)
{
  int most = 0;
  for (const char *at = log; (at = strstr(at, words)); at++) {
    const char *digit = at;
    while (digit > log && (digit[-1] == ' ' || (digit[-1] >= '0' && digit[-1] <= '9'))) digit--;
    int n = atoi(digit);
    if (n > most) most = n;
  }
  return most;
}

static void compile(const struct variant *v, const char *arch)
{
  static char log[LOG];
  char option[40], head[CNI_CUDA_HEAD];
  const char *body = cni_cuda_file_text(v->code.file);
  if (!body) fail_msg("there is no %s", v->code.file);
  size_t n = cni_cuda_code_head(head, &v->code), size = 0;
  char *text = malloc(n + strlen(body) + 1);
  memcpy(text, head, n);
  strcpy(text + n, body);
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  const char *options[] = {option, v->code.exact ? "--fmad=false" : "--fmad=true",
                           "--device-as-default-execution-space", "-w", "--ptxas-options=-v"};
  nvrtcProgram program;
  assert_int_equal(rtc.nvrtcCreateProgram(&program, text, v->code.file, 0, NULL, NULL), NVRTC_SUCCESS);
  nvrtcResult result = rtc.nvrtcCompileProgram(program, 5, options);
  rtc.nvrtcGetProgramLogSize(program, &size);
  assert_true(size < LOG);
  rtc.nvrtcGetProgramLog(program, log);
  rtc.nvrtcDestroyProgram(&program);
  free(text);
  const char *op = v->code.op ? v->code.op : "";
  if (result != NVRTC_SUCCESS) fail_msg("%s %s for %s: %.2000s", v->code.file, op, arch, log);
  int registers = largest(log, " registers"), spilled = largest(log, " bytes spill stores");
  bool newer = !strcmp(arch, "sm_100");
  int most = newer ? v->registers * 5 / 4 : v->registers, most_spilled = newer ? MOST_SPILLED_100 : MOST_SPILLED;
  if (getenv("CAIRN_VERBOSE"))
    print_message("%s %s %s: %d registers, %d spilled\n", v->code.file, op, arch, registers, spilled);
  if (registers > most || spilled > most_spilled)
    fail_msg("%s %s for %s: %d registers (at most %d), %d bytes spilled (at most %d)", v->code.file, op, arch,
             registers, most, spilled, most_spilled);
}

/* A minute each: all of them in the long run, else every `step`th; a few under a sanitizer, where it takes many times
 * as long and NVRTC's work is what it is elsewhere. */
static void compiles_for(const char *arch, size_t step)
{
  if (!load()) SKIP_TEST("no NVRTC");
  if (getenv("CAIRN_LONG")) step = 1;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  step = 12;
#endif
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i += step) compile(&variants[i], arch);
}
static void sm_80(void **state) { (void)state, compiles_for("sm_80", 6); }
static void sm_90a(void **state) { (void)state, compiles_for("sm_90a", 1); }
static void sm_100(void **state) { (void)state, compiles_for("sm_100", 6); }

/* No file is forgotten above. */
static void every_file(void **state)
{
  (void)state;
  for (const cni_cuda_text *t = cni_cuda_texts; t->name; t++) {
    bool found = false;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
      found = found || !strcmp(variants[i].code.file, t->name);
    if (!found) fail_msg("%s is not compiled by this test", t->name);
  }
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {
#ifndef CNI_HAVE_CUDA
      cmocka_unit_test(compiles),
#else
      cmocka_unit_test(every_file), cmocka_unit_test(sm_80), cmocka_unit_test(sm_90a), cmocka_unit_test(sm_100),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
