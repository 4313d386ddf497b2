/* test_codegen.c: loops rendered as C, compiled by the system's compiler and run, give what eager gives,
 * bit for bit.
 *
 * The compiler gets the instruction set that eager runs on, because whether multiply-adds are fused decides
 * last bits. Skipped, with a message, where there is no compiler. The CUDA form is compiled and run by
 * tests/backends. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/common/registry.h"
#include "backends/cpu/isa.h"
#include "codegen/loop.h"

typedef void (*loop_fn)(const cn_loop *loop, long long begin, long long end);

enum { TENSORS = 4 };

static char folder[256];
static int compiled;

static bool has_compiler(void) { return system(CN_TEST_CC " --version >/dev/null 2>&1") == 0; }

static int set_up(void **state)
{
  (void)state;
  const char *tmp = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/cairn-codegen-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
  char command[300];
  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

/* Fused multiply-adds where the kernels have them; on other architectures the compiler needs no telling. */
static const char *fused_flags(void)
{
#if defined(__x86_64__)
  if (cni_cpu_isa() >= CNI_ISA_AVX2) return "-mavx2 -mfma";
#endif
  return "";
}

/* Renders, compiles and loads; the library stays open until the process ends. */
static loop_fn compile(const cn_source *source)
{
  char path[300], command[1000];
  size_t size;
  char *text = cni_source_text(source, &size);
  assert_non_null(text);
  snprintf(path, sizeof path, "%s/l%d", folder, compiled++);
  snprintf(command, sizeof command, "%s.c", path);
  FILE *f = fopen(command, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  cni_host.free_memory(text, size);
  snprintf(command, sizeof command,
           CN_TEST_CC " -std=c11 -O1 -shared -fPIC -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall "
           "-Werror "
           "-Wno-unused-function -Wno-unknown-pragmas -Wno-pass-failed %s -o %s.so %s.c",
           fused_flags(), path, path);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "%s.so", path);
  void *library = dlopen(command, RTLD_NOW), *symbol = library ? dlsym(library, source->entry) : NULL;
  loop_fn fn;
  if (!symbol) print_error("%s\n", dlerror());
  assert_non_null(symbol);
  memcpy(&fn, &symbol, sizeof fn);
  return fn;
}

static void same_bits(cn_tensor *a, cn_tensor *b)
{
  size_t size = cn_tensor_nbytes(a);
  char *x = malloc(size), *y = malloc(size);
  assert_int_equal(cn_tensor_nbytes(b), size);
  assert_int_equal(cn_to_data(x, size, a), 0);
  assert_int_equal(cn_to_data(y, size, b), 0);
  assert_memory_equal(x, y, size);
  free(x);
  free(y);
}

/* Runs the loop in pieces of uneven length, so that walks begin anywhere. */
static int32_t run_loop(cn_source *source)
{
  int32_t fault = 0;
  loop_fn fn = compile(source);
  source->loop->fault = &fault;
  source->loop->fault_code = 7;
  for (int64_t at = 0, step = 1; at < source->loop->n; at += step, step = step * 3 + 1)
    fn(source->loop, at, at + step < source->loop->n ? at + step : source->loop->n);
  cni_source_end(source);
  return fault;
}

/* The op by its rendered loop against eager's result. Returns the fault code. */
static int32_t check(const char *name, const cn_value *args, int nargs, cn_tensor *expected)
{
  cn_tensor *in[TENSORS], *out[1];
  cn_spec spec[1] = {{0}};
  const cn_op *op = cn_op_find(name);
  cn_source source = {.size = sizeof source};
  int nin = 0;
  if (!expected) print_error("%s\n", cn_err_message());
  assert_non_null(expected);
  assert_non_null(op);
  for (int i = 0; i < nargs; i++)
    if (args[i].tag == CN_V_TENSOR) in[nin++] = args[i].u.t;
  out[0] = cn_empty_like(expected);
  cn_call call = {.op = op,
                  .args = args,
                  .in = in,
                  .out = out,
                  .spec = spec,
                  .nargs = nargs,
                  .nin = nin,
                  .nout = 1,
                  .device = CN_CPU};
  assert_int_equal(op->infer(&call), 0);
  assert_int_equal(cni_pointwise_source(&source, &call, CN_LANG_C), 0);
  int32_t fault = run_loop(&source);
  if (!fault) same_bits(out[0], expected);
  return fault;
}

static cn_tensor *values(cn_dtype dtype, int64_t rows, int64_t cols)
{
  cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(rows, cols)), cn_num(4));
  return dtype == CN_F32 ? x : cn_cast(x, dtype);
}

#define NEEDS_COMPILER()                                                                                     \
  do {                                                                                                       \
    (void)state;                                                                                             \
    if (!has_compiler()) SKIP_TEST("no C compiler");                                                         \
  } while (0)

static void activations(void **state)
{
  NEEDS_COMPILER();
  static const cn_dtype dtypes[] = {CN_F32, CN_F64, CN_BF16, CN_F16};
  cn_seed(1);
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = values(dtypes[i], 37, 29);
    cn_value gelu[] = {cn_v_tensor(x), cn_v_str("none")};
    check("gelu", gelu, 2, cn_gelu(x));
    cn_value silu[] = {cn_v_tensor(x)};
    check("silu", silu, 1, cn_silu(x));
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = values(CN_F32, 100, 3);
  cn_value tanh_form[] = {cn_v_tensor(x), cn_v_str("tanh")};
  check("gelu", tanh_form, 2, cn_gelu(x, .approximate = "tanh"));
  cn_value softplus[] = {cn_v_tensor(x), cn_v_float(0.7), cn_v_float(3)};
  check("softplus", softplus, 3, cn_softplus(x, .beta = 0.7, .threshold = 3));
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

static void broadcasts(void **state)
{
  NEEDS_COMPILER();
  cn_scope *s = cn_scope_begin();
  cn_seed(2);
  cn_tensor *x = values(CN_F32, 31, 17), *row = cn_select(values(CN_F32, 2, 17), 0, 1);
  cn_tensor *transposed = cn_transpose(values(CN_F32, 17, 31), 0, 1);
  cn_tensor *each[] = {row, transposed, cn_num(1.25), cn_unsqueeze(cn_select(x, 1, 3), 1)};
  for (int i = 0; i < 4; i++) {
    cn_value args[] = {cn_v_tensor(x), cn_v_tensor(each[i]), cn_v_float(1)};
    check("add", args, 3, cn_add(x, each[i]));
    cn_value scaled[] = {cn_v_tensor(each[i]), cn_v_tensor(x), cn_v_float(0.3)};
    check("add", scaled, 3, cn_add(each[i], x, .alpha = 0.3));
  }
  cn_value where[] = {cn_v_tensor(cn_gt(row, cn_num(0))), cn_v_tensor(x), cn_v_tensor(transposed)};
  check("where", where, 3, cn_where(where[0].u.t, x, transposed));
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void integers(void **state)
{
  NEEDS_COMPILER();
  static const cn_dtype dtypes[] = {CN_I64, CN_U64, CN_I8, CN_U8};
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *a = cn_cast(cn_randint(-1000, 1000, CN_SHAPE(64, 5)), dtypes[i]);
    cn_tensor *b = cn_cast(cn_randint(1, 9, CN_SHAPE(5)), dtypes[i]);
    cn_value args[] = {cn_v_tensor(a), cn_v_tensor(b), cn_v_float(1)};
    check("mul", args, 2, cn_mul(a, b));
    check("pow", args, 2, cn_pow(a, b));
    assert_int_equal(check("floor_divide", args, 2, cn_floor_divide(a, b)), 0);
    cn_value less[] = {cn_v_tensor(a), cn_v_tensor(cn_int(3))};
    check("lt", less, 2, cn_lt(a, less[1].u.t));
    cn_value zero[] = {cn_v_tensor(a), cn_v_tensor(cn_int(0))}; /* says so instead of trapping */
    assert_int_equal(check("remainder", zero, 2, a), 7);
    cn_scope_end(s);
  }
  assert_int_equal(cn_err(), 0);
}

/* Every pair of types: what a copy converts. */
static void casts(void **state)
{
  NEEDS_COMPILER();
  static const cn_dtype from[] = {CN_F32, CN_F64, CN_I64, CN_BF16, CN_BOOL};
  static const cn_dtype to[] = {CN_F16, CN_I8, CN_F64, CN_U32, CN_F8E4M3};
  for (int i = 0; i < 5; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_transpose(cn_cast(cn_mul(values(CN_F64, 13, 11), cn_num(40)), from[i]), 0, 1);
    cn_tensor *expected = cn_contiguous_copy(cn_cast(x, to[i])), *y = cn_empty_like(expected);
    cn_source source = {.size = sizeof source};
    assert_int_equal(cni_copy_source(&source, cn_desc_of(y), cn_desc_of(x), CN_LANG_C), 0);
    run_loop(&source);
    same_bits(y, expected);
    cn_scope_end(s);
  }
  assert_int_equal(cn_err(), 0);
}

/* What changes from call to call must not change the key, and what changes the text must. */
static void keys(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  const cn_op *op = cn_op_find("softplus");
  cn_source a = {.size = sizeof a}, b = {.size = sizeof b};
  uint64_t key[3];
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_ones(CN_SHAPE(4, 4 + i), .dtype = i == 2 ? CN_F64 : CN_F32), *y = cn_empty_like(x);
    cn_value args[] = {cn_v_tensor(x), cn_v_float(1 + i), cn_v_float(20)};
    cn_call c = {.op = op,
                 .args = args,
                 .in = &x,
                 .out = &y,
                 .nargs = 3,
                 .nin = 1,
                 .nout = 1,
                 .device = CN_CPU,
                 .compute = i == 2 ? CN_F64 : CN_F32};
    assert_int_equal(cni_pointwise_source(&a, &c, CN_LANG_CUDA), 0);
    assert_int_equal(cni_pointwise_source(&b, &c, CN_LANG_C), 0);
    assert_true(a.key != b.key);
    assert_true(a.flat);
    assert_int_equal(a.vector, i == 2 ? 2 : 4);
    assert_float_equal(cni_loop_scalars(&a)[0].f, 1 + i, 0);
    key[i] = a.key;
  }
  assert_true(key[0] == key[1]);
  assert_true(key[1] != key[2]);
  cn_scope_end(s);
}

/* ---- CUDA: no device is needed to compile ---- */

typedef struct nvrtc {
  int (*create)(void **program, const char *text, const char *name, int n, const char *const *headers,
                const char *const *names);
  int (*compile)(void *program, int n, const char *const *options);
  int (*log_size)(void *program, size_t *size);
  int (*log)(void *program, char *text);
  int (*destroy)(void **program);
} nvrtc;

static bool open_nvrtc(nvrtc *rtc)
{
  static const char *const files[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                      "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"};
  static const char *const names[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLogSize",
                                      "nvrtcGetProgramLog", "nvrtcDestroyProgram"};
  void *library = NULL;
  for (int i = 0; i < 4 && !library; i++) library = dlopen(files[i], RTLD_NOW);
  for (int i = 0; i < 5; i++) {
    void *symbol = library ? dlsym(library, names[i]) : NULL;
    if (!symbol) return false;
    memcpy((char *)rtc + (size_t)i * sizeof symbol, &symbol, sizeof symbol);
  }
  return true;
}

static void cuda_compiles(const nvrtc *rtc, const cn_source *source)
{
  static const char *const options[] = {"--gpu-architecture=sm_90", "--fmad=false", "-w",
                                        "--device-as-default-execution-space"};
  size_t size, length = 0;
  char *text = cni_source_text(source, &size), message[4000] = "";
  void *program;
  assert_non_null(text);
  assert_int_equal(rtc->create(&program, text, "loop.cu", 0, NULL, NULL), 0);
  int status = rtc->compile(program, 4, options);
  if (status && !rtc->log_size(program, &length) && length < sizeof message) rtc->log(program, message);
  if (status) print_error("%s\n", message);
  rtc->destroy(&program);
  cni_host.free_memory(text, size);
  assert_int_equal(status, 0);
}

/* out (3, 4, 16) = x + y, y a slice of wider rows that begins at element `from`, or a row, or a column. */
static void strided_add(cn_source *source, cn_dtype dtype, int from, char kind)
{
  cn_tensor *x = cn_ones(CN_SHAPE(3, 4, 16), .dtype = dtype), *out = cn_empty_like(x);
  cn_tensor *wide = cn_ones(CN_SHAPE(3, 4, 64), .dtype = dtype), *y = cn_slice(wide, 2, from, from + 16);
  if (kind == 'r') y = cn_ones(CN_SHAPE(16), .dtype = dtype);
  if (kind == 'c') y = cn_ones(CN_SHAPE(3, 4, 1), .dtype = dtype);
  cn_tensor *in[] = {x, y};
  cn_value args[] = {cn_v_tensor(x), cn_v_tensor(y), cn_v_float(1)};
  cn_call c = {.op = cn_op_find("add"), .args = args, .in = in, .out = &out, .nargs = 3, .nin = 2, .nout = 1,
               .device = CN_CPU, .compute = (int32_t)dtype};
  assert_int_equal(cni_pointwise_source(source, &c, CN_LANG_CUDA), 0);
}

/* Strided operands whose neighbours lie together are taken by whole words, as far as their places allow. */
static void vectors(void **state)
{
  (void)state;
  nvrtc rtc;
  bool compiles = open_nvrtc(&rtc);
  static const struct {
    cn_dtype dtype;
    int from;
    char kind;
    int vector;
    const char *form;
  } cases[] = {{CN_BF16, 0, 's', 8, "www"}, {CN_BF16, 4, 's', 4, "www"}, {CN_BF16, 1, 's', 1, "xxx"},
               {CN_F32, 0, 's', 4, "www"},  {CN_F64, 2, 's', 2, "www"},  {CN_BF16, 0, 'r', 8, "www"},
               {CN_BF16, 0, 'c', 8, "wwx"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_scope *s = cn_scope_begin();
    cn_source source = {.size = sizeof source};
    strided_add(&source, cases[i].dtype, cases[i].from, cases[i].kind);
    assert_int_equal(source.vector, cases[i].vector);
    assert_memory_equal(source.form, cases[i].form, 3);
    assert_int_equal(cni_loop_dim(&source, source.loop->ndim - 1)[0], 16 / cases[i].vector);
    assert_int_equal(source.fast, cases[i].dtype == CN_BF16);
    if (compiles) cuda_compiles(&rtc, &source);
    cn_scope_end(s);
  }
}

/* Registers of several types, in C and, where there is a compiler, in CUDA. */
static void types(void **state)
{
  (void)state;
  static const char text[] = "float32:f32,int32:i64,bool:f32|2:f32|to:f32 1;add:f32 0 4;lt:f32 5 3;mul:f32 5 2;"
                             "add:i64 1 1;to:i64:int8 8;to:f64 5;exp:f64 10;to:f32:bfloat16 5|"
                             "7:bfloat16,6:bool,9:int32,11:float64,12:float32";
  cn_scope *s = cn_scope_begin();
  nvrtc rtc;
  cn_tensor *x = values(CN_F32, 6, 8), *in[] = {x, cn_cast(values(CN_F32, 6, 8), CN_I32), cn_gt(x, cn_num(0))};
  cn_tensor *want[5], *out[5];
  assert_int_equal(cn_pointwise(want, 5, in, 3, text, NULL, 0), 5);
  for (int k = 0; k < 5; k++) out[k] = cn_empty_like(want[k]);
  cn_value args[] = {cn_v_tensors(in, 3), cn_v_str(text), cn_v_floats(NULL, 0)};
  cn_call c = {.op = cn_op_find("pointwise"), .args = args, .in = in, .out = out, .nargs = 3, .nin = 3, .nout = 5,
               .device = CN_CPU, .compute = CN_F32};
  cn_source source = {.size = sizeof source};
  assert_int_equal(cni_pointwise_source(&source, &c, CN_LANG_C), 0);
  run_loop(&source);
  for (int k = 0; k < 5; k++) same_bits(out[k], want[k]);
  assert_int_equal(cni_pointwise_source(&source, &c, CN_LANG_CUDA), 0);
  if (open_nvrtc(&rtc)) cuda_compiles(&rtc, &source);
  cn_scope_end(s);
}

static void cuda(void **state)
{
  (void)state;
  nvrtc rtc;
  if (!open_nvrtc(&rtc)) SKIP_TEST("no NVRTC");
  static const cn_dtype dtypes[] = {CN_F32, CN_BF16, CN_F16, CN_F64, CN_I32};
  static const char *const ops[] = {"gelu", "gelu", "silu", "lgamma", "floor_divide"};
  for (int i = 0; i < 5; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_ones(CN_SHAPE(8, 6), .dtype = dtypes[i]), *y = cn_empty_like(x),
              *row = cn_select(x, 0, 1);
    cn_tensor *in[] = {i == 1 ? cn_transpose(cn_ones(CN_SHAPE(6, 8), .dtype = CN_BF16), 0, 1) : x, row};
    cn_value args[] = {cn_v_tensor(in[0]), i < 2 ? cn_v_str("none") : cn_v_tensor(row)};
    cn_call c = {.op = cn_op_find(ops[i]),
                 .args = args,
                 .in = in,
                 .out = &y,
                 .nargs = 2,
                 .nin = i == 4 ? 2 : 1,
                 .nout = 1,
                 .device = CN_CPU,
                 .compute = (int32_t)dtypes[i]};
    cn_source source = {.size = sizeof source};
    assert_int_equal(cni_pointwise_source(&source, &c, CN_LANG_CUDA), 0);
    assert_int_equal(source.flat, i != 1 && i != 4);
    cuda_compiles(&rtc, &source);
    cn_scope_end(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys),     cmocka_unit_test(activations), cmocka_unit_test(broadcasts),
      cmocka_unit_test(integers), cmocka_unit_test(casts),       cmocka_unit_test(vectors),
      cmocka_unit_test(types),    cmocka_unit_test(cuda),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
