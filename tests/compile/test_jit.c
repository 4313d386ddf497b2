/* test_jit.c: groups as machine code give the bits that their programs give block by block: every primitive in every
 * type, conversions, broadcast, strided, empty and overlapping operands, several results, faults; and what runs while
 * code is made. */
#define _POSIX_C_SOURCE 200809L /* setenv, mkdtemp, fork */
#include <cairn/cairn.h>
#include <cairn/compile.h>
#include <cairn/ext/parts.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/jit/jit.h"
#include "base/os_program.h"
#include "test.h"

enum { N = 2500, EACH = 8, MOST = 64 };

static char folder[64];

static int set_up(void **state)
{
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/cairn-test-jit-XXXXXX");
  setenv("CAIRN_JIT", "wait", 1);
  return mkdtemp(folder) ? setenv("CAIRN_CACHE", folder, 1) : -1;
}

static int tear_down(void **state)
{
  (void)state;
  cni_os_remove(folder);
  return 0;
}

#define NEEDS_COMPILER()                                                                                             \
  do {                                                                                                               \
    char path_[1024];                                                                                                \
    (void)state;                                                                                                     \
    if (!cni_os_program_find(path_, sizeof path_, "cc")) SKIP_TEST("no C compiler");                                 \
  } while (0)

static bool same_float(double a, double b, const void *x, const void *y, size_t size)
{
  return !memcmp(x, y, size) || (a != a && b != b);
}

/* The same bits; a NaN may be any. */
static void assert_same_bits(cn_tensor *have, cn_tensor *want, const char *what)
{
  size_t n = (size_t)cn_numel(want), size = cn_tensor_nbytes(want), each = n ? size / n : 1;
  char *x = malloc(size + 1), *y = malloc(size + 1);
  cn_tensor *wide[] = {cn_contiguous_copy(cn_cast(have, CN_F64)), cn_contiguous_copy(cn_cast(want, CN_F64))};
  assert_int_equal(cn_tensor_nbytes(have), size);
  assert_int_equal(cn_to_data(x, size, have), 0);
  assert_int_equal(cn_to_data(y, size, want), 0);
  const double *a = cn_desc_of(wide[0])->data, *b = cn_desc_of(wide[1])->data;
  for (size_t i = 0; i < n; i++) {
    if (same_float(a[i], b[i], x + i * each, y + i * each, each)) continue;
    print_error("%s: element %zu is %.17g, not %.17g\n", what, i, a[i], b[i]);
    fail();
  }
  free(x);
  free(y);
}

static const cni_program *parsed(const char *text)
{
  const cni_program *p = cni_program_parse(text);
  if (!p) print_error("%s: %s\n", text, cn_err_message());
  assert_non_null(p);
  return p;
}

/* ---- every primitive ---- */

/* What a primitive may meet, and random numbers. */
static cn_tensor *numbers(cn_dtype dtype, int which)
{
  static const double odd[] = {0.0,  -0.0,   1,      -1,     0.5,  -0.5,    2,
                               -3,   1e-45,  -1e-40, 1e-310, 3e38, -3e38,   1e300,
                               88.7, -103.9, 710,    1e6,    -1e7, 0.99999, 4503599627370497.0,
                               1e-8, 20.5,   -20.5,  33,     170.6};
  cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(N), .dtype = CN_F64), cn_num(which == 1 ? 3 : 20));
  double *at = cn_desc_of(x)->data;
  bool floats = dtype == CN_F32 || dtype == CN_F64;
  for (size_t i = 0; floats && i < 10 * sizeof odd / sizeof *odd; i++)
    at[i * 3 + (size_t)which] = odd[(i * (size_t)(which + 1)) % (sizeof odd / sizeof *odd)];
  if (floats) at[1700] = INFINITY, at[1800 + which] = -INFINITY, at[1900] = NAN;
  if (floats) return cn_cast(x, dtype);
  cn_tensor *y = cn_cast(cn_round(x), dtype);
  return which == 1 ? cn_where(cn_eq(y, cn_num(0)), cn_cast(cn_num(7), dtype), y) : y; /* nothing is divided by 0 */
}

/* Programs of EACH primitives of a type, with a result each. */
static int programs_of(enum cni_compute class, const cni_program **programs)
{
  const char *type = cn_dtype_name((cn_dtype)cni_compute_dtype(class)), *name = cni_compute_names[class];
  bool floats = class == CNI_C_F32 || class == CNI_C_F64;
  int count = 0;
  for (int prim = 0; prim < CNI_PRIM_COUNT;) {
    char steps[1024] = "", results[1024] = "", text[2400];
    size_t s = 0, r = 0;
    for (int n = 0; prim < CNI_PRIM_COUNT && n < EACH; prim++) {
      const cni_prim_info *info = &cni_prims[prim];
      if (info->kind == (floats ? CNI_BIT : CNI_FLT)) continue;
      s += (size_t)snprintf(steps + s, sizeof steps - s, "%s%s:%s%s%s", n ? ";" : "", info->name, name,
                            !floats && info->kind == CNI_QUO ? "@it" : "",
                            info->arity == 1   ? " 0"
                            : info->arity == 2 ? " 0 1"
                                               : " 0 1 2");
      r += (size_t)snprintf(results + r, sizeof results - r, "%s%d:%s", n ? "," : "", 3 + n, type);
      n++;
    }
    if (!s) break;
    snprintf(text, sizeof text, "%s:%s,%s:%s,%s:%s||%s|%s", type, name, type, name, type, name, steps, results);
    programs[count++] = parsed(text);
  }
  return count;
}

static void every_primitive(void **state)
{
  NEEDS_COMPILER();
  for (int class = 0; class < CNI_COMPUTES; class ++) {
    const cni_program *programs[MOST];
    cn_tensor *want[MOST][EACH] = {{NULL}}, *have[EACH];
    cn_scope *s = cn_scope_begin();
    cn_seed(1);
    cn_dtype dtype = (cn_dtype)cni_compute_dtype((enum cni_compute) class);
    cn_tensor *in[] = {numbers(dtype, 0), numbers(dtype, 1), numbers(dtype, 2)};
    int count = programs_of((enum cni_compute) class, programs);
    for (int i = 0; i < count; i++) {
      int nout = cn_pointwise(want[i], EACH, in, 3, programs[i]->text, NULL, 0);
      if (nout < 0) print_error("%s: %s\n", programs[i]->text, cn_err_message());
      assert_int_equal(nout, programs[i]->nout);
    }
    cni_jit_want(programs, (size_t)count);
    for (int i = 0; i < count; i++) {
      assert_true(cni_jit_has(programs[i]));
      assert_int_equal(cn_pointwise(have, EACH, in, 3, programs[i]->text, NULL, 0), programs[i]->nout);
      for (int k = 0; k < programs[i]->nout; k++)
        assert_same_bits(have[k], want[i][k], cni_prims[programs[i]->steps[k].prim].name);
    }
    cn_scope_end(s);
  }
  assert_int_equal(cn_err(), 0);
}

/* ---- types, shapes, results ---- */

enum { OPERANDS = 3, RESULTS = 5, CASES = 24 };

/* A call of the op "pointwise" whose results before and after its program has code are to be the same. */
typedef struct one_case {
  const char *text;
  cn_tensor *in[OPERANDS], *want[RESULTS];
} one_case;

static void check_cases(one_case *cases, int n)
{
  const cni_program *programs[CASES];
  cn_tensor *have[RESULTS];
  for (int i = 0; i < n; i++) {
    one_case *c = &cases[i];
    programs[i] = parsed(c->text);
    assert_false(cni_jit_has(programs[i]) && i == 0);
    int nout = cn_pointwise(c->want, RESULTS, c->in, (size_t)programs[i]->nin, c->text, NULL, 0);
    if (nout < 0) print_error("%s: %s\n", c->text, cn_err_message());
    assert_int_equal(nout, programs[i]->nout);
  }
  cni_jit_want(programs, (size_t)n);
  for (int i = 0; i < n; i++) {
    one_case *c = &cases[i];
    assert_true(cni_jit_has(programs[i]));
    assert_int_equal(cn_pointwise(have, RESULTS, c->in, (size_t)programs[i]->nin, c->text, NULL, 0),
                     programs[i]->nout);
    for (int k = 0; k < programs[i]->nout; k++) {
      assert_int_equal(cn_dtype_of(have[k]), cn_dtype_of(c->want[k]));
      assert_same_bits(have[k], c->want[k], c->text);
    }
  }
}

/* Each type is loaded as each class, rounded to on the way, and stored. */
static void conversions(void **state)
{
  NEEDS_COMPILER();
  static const cn_dtype dtypes[] = {CN_BOOL, CN_U8,  CN_I8,   CN_I16, CN_I32, CN_I64, CN_U16,
                                    CN_U32,  CN_U64, CN_BF16, CN_F16, CN_F32, CN_F64};
  enum { TYPES = sizeof dtypes / sizeof *dtypes };
  char texts[TYPES][400];
  one_case cases[TYPES];
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(37, 61)), cn_num(300)), *odd = cn_cast(numbers(CN_F32, 0), CN_F32);
  cn_tensor *f = cn_reshape(cn_slice(odd, 0, 0, 37 * 61), CN_SHAPE(37, 61));
  for (int i = 0; i < TYPES; i++) {
    const char *t = cn_dtype_name(dtypes[i]), *class = cni_compute_names[cni_compute_class((int)dtypes[i])];
    snprintf(
        texts[i], sizeof texts[i],
        "%s:%s,float32:f32|2:f32|to:f32 0;mul:f32 3 1;to:f32:%s 4;add:f32 5 2;to:%s 6;add:%s 7 0;to:f64 8|5:%s,8:%s,"
        "9:float64,6:float16",
        t, class, t, class, class, t, t);
    cases[i] = (one_case){texts[i], {cn_cast(x, dtypes[i]), f}, {NULL}};
  }
  check_cases(cases, TYPES);
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

/* Numbers in (-1, 0) that become integers and floats again are 0, which has no sign: a product shows it. */
static void whole_numbers(void **state)
{
  NEEDS_COMPILER();
  static const char *const ints[] = {"int8", "int32", "int64"}, *const floats[] = {"f32", "f64"};
  enum { INTS = 3, FLOATS = 2 };
  char texts[INTS * FLOATS][200];
  one_case cases[INTS * FLOATS];
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_neg(cn_rand(CN_SHAPE(41)));
  for (int i = 0; i < INTS; i++)
    for (int k = 0; k < FLOATS; k++) {
      const char *f = floats[k], *dtype = k ? "float64" : "float32";
      char *text = texts[i * FLOATS + k];
      snprintf(text, sizeof texts[0], "%s:%s||to:i64:%s 0;to:%s 1;mul:%s 0 2|3:%s", dtype, f, ints[i], f, f, dtype);
      cases[i * FLOATS + k] = (one_case){text, {cn_cast(x, k ? CN_F64 : CN_F32)}, {NULL}};
    }
  check_cases(cases, INTS * FLOATS);
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

/* Results that are inputs, several of one register, and steps that branch between others. */
static void results(void **state)
{
  NEEDS_COMPILER();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(3000)), *y = cn_randn(CN_SHAPE(3000));
  one_case cases[] = {
      {"float32:f32|3:f32|exp:f32 0;add:f32 2 1|0:float32,3:float32,2:float16,3:float32", {x}, {NULL}},
      {"float32:f32,float32:f32||exp:f32 0;lgamma:f32 2;mul:f32 3 1;fmod:f32 4 2;add:f32 5 3;add:f32 6 "
       "0|7:float32,2:float32,"
       "5:float32",
       {x, y},
       {NULL}},
      {"float32:f32||digamma:f32 0;lgamma:f32 1|2:float32,1:float32", {x}, {NULL}},
      {"float32:f32|2:f32|mul:f32 0 1;exp:f32 2;exp:f32 3|4:float32,0:float32,4:float16,2:float32,1:float32",
       {x},
       {NULL}},
      {"float64:f64,float32:f32||sin:f64 0;cos:f64 2;to:f32 3;hypot:f32 4 1;mul:f32 5 "
       "1|6:float32,3:float64,2:float16",
       {cn_mul(cn_cast(x, CN_F64), cn_num(1e7)), y},
       {NULL}},
      {"float32:f32,bool:i64|0:i64,1:f32|ne:i64 1 2;to:f32 4;where:f32 5 0 3;narrow:f32 6 "
       "3|7:float32,4:bool,6:bfloat16",
       {x, cn_gt(y, cn_num(0))},
       {NULL}},
  };
  check_cases(cases, sizeof cases / sizeof *cases);
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

/* What a row, a column, a transposed or sparse operand is to the walk around it; short rows; much memory; none. */
static void shapes(void **state)
{
  NEEDS_COMPILER();
  static const char text[] =
      "float32:f32,float32:f32,bfloat16:f32|0.7:f32|mul:f32 0 1;exp:f32 4;add:f32 5 2;mul:f32 6 3|"
      "7:float32,5:bfloat16";
  static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {700, 7}, {64, 1100}, {300, 513}, {0, 4}, {2048, 3000}};
  enum { SIZES = sizeof sizes / sizeof *sizes, WAYS = 3 };
  one_case cases[SIZES * WAYS];
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  for (int i = 0; i < SIZES * WAYS; i++) {
    int64_t m = sizes[i / WAYS][0], n = sizes[i / WAYS][1];
    cn_tensor *x = cn_randn(CN_SHAPE(m, n)), *across = cn_transpose(cn_randn(CN_SHAPE(n, m)), 0, 1);
    cn_tensor *half = cn_cast(cn_randn(CN_SHAPE(m, 2 * n)), CN_BF16), *row = cn_cast(cn_randn(CN_SHAPE(n)), CN_BF16);
    cn_tensor *ways[WAYS][2] = {{across, row},
                                {cn_randn(CN_SHAPE(m, 1)), cn_slice(half, 1, 0, 2 * n, .step = 2)},
                                {cn_randn(CN_SHAPE(1)), cn_cast(x, CN_BF16)}};
    cases[i] = (one_case){text, {x, ways[i % WAYS][0], ways[i % WAYS][1]}, {NULL}};
  }
  for (int i = 0; i < SIZES * WAYS; i++) /* all of one program: what it gave before is asked for first */
    assert_int_equal(cn_pointwise(cases[i].want, RESULTS, cases[i].in, 3, text, NULL, 0), 2);
  const cni_program *p = parsed(text);
  assert_false(cni_jit_has(p));
  cni_jit_want(&p, 1);
  assert_true(cni_jit_has(p));
  for (int i = 0; i < SIZES * WAYS; i++) {
    cn_tensor *have[RESULTS];
    assert_int_equal(cn_pointwise(have, RESULTS, cases[i].in, 3, text, NULL, 0), 2);
    for (int k = 0; k < 2; k++) assert_same_bits(have[k], cases[i].want[k], "shapes");
  }
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

/* Steps along rows: several levels of them, some that branch between, results of all kinds; operands that are rows,
 * columns, strided and converted; short rows, long ones, few of them. */
static void rows(void **state)
{
  NEEDS_COMPILER();
  static const char text[] =
      "float32:f32,float32:f32,bfloat16:f32|0.5:f32|row_max:f32*1 0;row_first:f32*1 1;sub:f32 0 4;exp:f32 6;lgamma:f32 "
      "7;row_sum:f32*1 8;add:f32 9 5;mul:f32 10 3;div:f32 7 11;fmod:f32 12 2;row_mean:f32*1 13;sub:f32 13 14;"
      "row_min:f32*1 15|15:float32,0:float32,16:float64,7:bfloat16,11:float32,15:float16";
  static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {1, 520}, {700, 7}, {64, 1100}, {3, 50000}, {300, 513}, {0, 4}};
  enum { SIZES = sizeof sizes / sizeof *sizes, WAYS = 2, MADE = 6 };
  cn_tensor *in[SIZES * WAYS][3], *want[SIZES * WAYS][MADE], *have[MADE];
  const cni_program *p = parsed(text);
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  for (int i = 0; i < SIZES * WAYS; i++) {
    int64_t m = sizes[i / WAYS][0], n = sizes[i / WAYS][1];
    cn_tensor *wide = cn_cast(cn_randn(CN_SHAPE(m, 2 * n)), CN_BF16);
    in[i][0] = i % 2 ? cn_transpose(cn_randn(CN_SHAPE(n, m)), 0, 1) : cn_randn(CN_SHAPE(m, n));
    in[i][1] = i % 2 ? cn_randn(CN_SHAPE(1)) : cn_randn(CN_SHAPE(m, 1));
    in[i][2] = i % 2 ? cn_slice(wide, 1, 0, 2 * n, .step = 2) : cn_cast(cn_randn(CN_SHAPE(n)), CN_BF16);
    assert_int_equal(cn_pointwise(want[i], MADE, in[i], 3, text, NULL, 0), MADE);
  }
  assert_false(cni_jit_has(p));
  cni_jit_want(&p, 1);
  assert_true(cni_jit_has(p));
  for (int i = 0; i < SIZES * WAYS; i++) {
    assert_int_equal(cn_pointwise(have, MADE, in[i], 3, text, NULL, 0), MADE);
    for (int k = 0; k < MADE; k++) assert_same_bits(have[k], want[i][k], "rows");
  }
  cn_scope_end(s);
  assert_int_equal(cn_err(), 0);
}

static void check_faults(const char *text)
{
  cn_scope *s = cn_scope_begin();
  const cni_program *p = parsed(text);
  cn_tensor *out[2], *ones = cn_cast(cn_ones(CN_SHAPE(5000)), CN_I32),
                     *zeros = cn_cast(cn_zeros(CN_SHAPE(5000)), CN_I32);
  cn_tensor *in[3][2] = {{ones, zeros}, {zeros, ones}, {ones, ones}};
  static const char *const names[] = {"floor_divide: integer division by zero",
                                      "remainder: integer division by zero"};
  for (int code = 0; code < 2; code++) {
    assert_int_equal(cni_jit_has(p), code);
    for (int i = 0; i < 3; i++) {
      int status = cn_pointwise(out, 2, in[i], 2, text, NULL, 0);
      if (i == 2) assert_int_equal(status, 2);
      else {
        assert_true(status < 0);
        assert_string_equal(cn_err_message(), names[i]);
        cn_err_clear();
      }
    }
    cni_jit_want(&p, 1);
  }
  cn_scope_end(s);
}

/* The first step of the program that divides by zero gives the message its name. */
static void faults(void **state)
{
  NEEDS_COMPILER();
  check_faults("int32:i64,int32:i64||floor_div:i64@floor_divide 0 1;add:i64 2 0;remainder:i64@remainder 3 2|"
               "4:int32,2:int64");
  check_faults("int32:i64,int32:i64||floor_div:i64@floor_divide 0 1;add:i64 2 0;remainder:i64@remainder 3 2;"
               "to:f32 4;row_sum:f32*1 5|4:int32,6:float32");
}

/* ---- compiled functions ---- */

static int formula(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0];
  k->outputs[0] = cn_mul(cn_gelu(cn_add(cn_mul(x, cn_num(1.5)), cn_num(0.25))), cn_sigmoid(x));
  k->outputs[1] = cn_sub(cn_tanh(k->outputs[0]), x);
  k->noutputs = 2;
  return cn_err();
}

static void call(cn_compiled *f, cn_tensor *x, cn_tensor **out)
{
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = out, .noutputs = 2};
  int status = f ? cn_compiled_call(f, &k) : formula(&k);
  if (status) print_error("%s\n", cn_err_message());
  assert_int_equal(status, 0);
}

static size_t code_of(const cn_compiled *f)
{
  cn_compile_stats stats;
  cn_compile_stats_get(&stats, sizeof stats, f);
  return stats.code;
}

static void settings(void **state)
{
  NEEDS_COMPILER();
  static const char *const values[] = {"0", "wait"};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(40, 50)), *want[2], *have[2];
  call(NULL, x, want);
  for (int i = 0; i < 2; i++) {
    setenv("CAIRN_JIT", values[i], 1);
    cn_compiled *f = cn_compile(formula, .name = "formula");
    for (int run = 0; run < 5; run++) {
      call(f, x, have);
      for (int k = 0; k < 2; k++) assert_same_bits(have[k], want[k], values[i]);
      assert_int_equal(code_of(f), i);
    }
    cn_compiled_free(f);
  }
  cn_scope_end(s);
}

enum { THREADS = 6, ROUNDS = 60 };

typedef struct worker {
  cn_compiled *f;
  size_t wrong;
} worker;

/* Another formula than those above: it has no code yet. */
static int other_formula(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0];
  k->outputs[0] = cn_mul(cn_silu(cn_add(cn_mul(x, x), cn_num(0.5))), cn_cos(x));
  k->outputs[1] = cn_sub(cn_exp(cn_neg(k->outputs[0])), x);
  k->noutputs = 2;
  return cn_err();
}

static void *run_often(void *payload)
{
  worker *w = payload;
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *x = cn_randn(CN_SHAPE(70, 1003)), *want[2], *have[2];
  cn_compile_call eager = {.inputs = &x, .ninputs = 1, .outputs = want, .noutputs = 2};
  w->wrong += other_formula(&eager) != 0;
  for (int i = 0; i < ROUNDS; i++) {
    cn_scope *inner = cn_scope_begin();
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = have, .noutputs = 2};
    w->wrong += cn_compiled_call(w->f, &k) != 0;
    for (int j = 0; j < 2 && !w->wrong; j++)
      w->wrong += memcmp(cn_desc_of(have[j])->data, cn_desc_of(want[j])->data, cn_tensor_nbytes(want[j])) != 0;
    cn_scope_end(inner);
  }
  cn_scope_end(s);
  return NULL;
}

static void while_code_is_made(void **state)
{
  NEEDS_COMPILER();
  pthread_t threads[THREADS];
  worker workers[THREADS];
  setenv("CAIRN_JIT", "1", 1);
  cn_compiled *f = cn_compile(other_formula, .name = "other");
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){f, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].wrong, 0);
  }
  cn_compiled_free(f);
}

static int third_formula(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0];
  k->outputs[0] = cn_mul(cn_silu(cn_add(cn_mul(x, x), cn_num(0.25))), cn_sin(x));
  k->outputs[1] = cn_add(cn_exp(cn_neg(k->outputs[0])), x);
  k->noutputs = 2;
  return cn_err();
}

/* A child that is forked while the thread works has its own, when it asks for code. */
static void forked(void **state)
{
  NEEDS_COMPILER();
  SKIP_IF_EMULATED();
  setenv("CAIRN_JIT", "1", 1);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(100)), *out[2], *want[2];
  cn_compiled *f = cn_compile(third_formula, .name = "third");
  for (int i = 0; i < 3; i++) call(f, x, out); /* code is asked for */
  pid_t child = fork();
  if (!child) {
    setenv("CAIRN_JIT", "wait", 1);
    cn_compiled *g = cn_compile(formula, .name = "again");
    call(NULL, x, want);
    call(g, x, out);
    bool same = !memcmp(cn_desc_of(out[0])->data, cn_desc_of(want[0])->data, cn_tensor_nbytes(want[0]));
    call(f, x, out);
    _exit(same && code_of(f) == 1 ? 0 : 1); /* what waited when the process was forked was made, too */
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  setenv("CAIRN_JIT", "wait", 1);
  cn_compiled_free(f);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_primitive),
      cmocka_unit_test(conversions),
      cmocka_unit_test(whole_numbers),
      cmocka_unit_test(results),
      cmocka_unit_test(shapes),
      cmocka_unit_test(rows), cmocka_unit_test(faults),
      cmocka_unit_test(settings),
      cmocka_unit_test(while_code_is_made),
      cmocka_unit_test(forked),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
