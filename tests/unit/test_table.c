/* test_table.c: nothing about an op can be forgotten: every row has what apply, autograd, backends, tests and users
 * need of it. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <dirent.h>
#include <stdio.h>

#include "backends/common/dispatch.h"
#include "base/alloc.h"
#include "ops/families.h"
#include "ops/table.h"
#include "test.h"

static int complaints;

static void complain(const cni_opinfo *op, const char *what)
{
  print_error("%s: %s\n", op->name, what);
  complaints++;
}

/* Calls `check` for every row; a test fails once, after all complaints are printed. */
static void each_op(void (*check)(const cni_opinfo *op))
{
  cni_init();
  complaints = 0;
  assert_true(cni_nops > 80);
  for (int i = 0; i < cni_nops; i++) {
    assert_non_null(cni_ops[i]);
    check(cni_ops[i]);
  }
  assert_int_equal(complaints, 0);
}

static bool has(const cni_opinfo *op, uint32_t flags) { return (op->row->flags & flags) != 0; }

static void check_infer(const cni_opinfo *op)
{
  if (has(op, CN_OP_COMPOSITE) ? op->row->infer && !has(op, CN_OP_VIEW) : !op->row->infer)
    complain(op, "must have infer, or be composite and have none, unless it is a view where that can be");
  if (has(op, CN_OP_COMPOSITE) && !op->row->decompose) complain(op, "is composite but has no decompose");
}

static void check_gradient(const cni_opinfo *op)
{
  bool by_scatter = has(op, CN_OP_VIEW) && op->row->scatter;
  bool none = has(op, CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY);
  if (cni_is_composite(op->row)) {
    if (op->row->vjp || has(op, CN_OP_NO_GRAD)) complain(op, "is composite: its gradient comes by composition");
  } else if (!none && !op->row->vjp && !by_scatter) {
    complain(op, "has neither a gradient nor CN_OP_NO_GRAD");
  }
  if (none && op->row->vjp && !op->row->pointwise) complain(op, "says NO_GRAD and has a gradient");
  if (has(op, CN_OP_VIEW) && op->list_result) complain(op, "is a view with a list of results");
}

static void check_kernel(const cni_opinfo *op)
{
  if (has(op, CN_OP_VIEW | CN_OP_COMPOSITE) || op->row->decompose) return;
  const cni_kernel_list *list = cni_kernels_at(0, op);
  if (!list || !list->n) complain(op, "has no CPU kernel, no decompose, and is no view");
}

static void check_doc(const cni_opinfo *op)
{
  const char *doc = cni_op_doc(op);
  size_t n = doc ? strlen(doc) : 0;
  if (n < 4) complain(op, "has no documentation");
  else if (doc[n - 1] != '.') complain(op, "its documentation does not end with a full stop");
}

static void check_signature(const cni_opinfo *op)
{
  for (int i = 0; op->inplace && i < op->nresults; i++)
    if (op->list_result || i >= op->nparams || op->params[i].type != CNI_T_TENSOR || op->params[i].list)
      complain(op, "is in-place, but has not a tensor to write each result to");
  if (op->inplace && op->nresults > 1 && !has(op, CN_OP_NO_GRAD))
    complain(op, "writes several results in place, so it can carry no gradient");
  bool seen_default = false;
  for (int i = 0; i < op->nparams; i++) {
    const cni_param *p = &op->params[i];
    if (seen_default && !p->has_default && !p->keyword_only)
      complain(op, "a parameter without default after one with");
    seen_default = seen_default || (p->has_default && !p->keyword_only);
    for (int k = 0; k < i; k++)
      if (!strcmp(p->name, op->params[k].name)) complain(op, "two parameters of one name");
  }
}

/* An alias is a name of its own: of no op, and of one op alone. */
static void check_aliases(const cni_opinfo *op)
{
  for (int a = 0; a < op->naliases; a++) {
    int meant = 0;
    for (int i = 0; i < cni_nops; i++) {
      meant += !strcmp(cni_ops[i]->name, op->aliases[a]);
      for (int k = 0; k < cni_ops[i]->naliases; k++) meant += !strcmp(cni_ops[i]->aliases[k], op->aliases[a]);
    }
    if (meant != 1) complain(op, "one of its aliases is the name of another op, or an alias twice");
  }
}

/* All sample files as one text. */
static char *samples;

static void check_sample(const cni_opinfo *op)
{
  char text[CNI_NAME_MAX + 4];
  size_t n = (size_t)snprintf(text, sizeof text, "%s(", op->name);
  for (const char *at = samples; (at = strstr(at, text)); at += n) {
    bool start = at == samples || at[-1] == '\n' || (at[-1] == ' ' && at - samples > 1 && strchr("@~", at[-2]));
    if (start) return;
  }
  complain(op, "has no sample in tests/ops that must succeed");
}

static size_t append_file(const char *path, size_t size)
{
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0; size += n) {
    char *more = realloc(samples, size + n + 2);
    assert_non_null(more);
    samples = more;
    memcpy(samples + size, buffer, n);
  }
  fclose(f);
  return size;
}

static void every_op_has_a_sample(void **state)
{
  (void)state;
  size_t size = 0;
  DIR *dir = opendir(CN_TEST_SOURCE_DIR "/tests/ops");
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    char path[600];
    if (!strstr(e->d_name, ".samples")) continue;
    snprintf(path, sizeof path, "%s/tests/ops/%s", CN_TEST_SOURCE_DIR, e->d_name);
    size = append_file(path, size);
  }
  closedir(dir);
  assert_true(size > 0);
  samples[size] = 0;
  each_op(check_sample);
  free(samples);
}

static void every_op_has_infer(void **state) { (void)state, each_op(check_infer); }
static void every_op_has_a_gradient_or_none(void **state) { (void)state, each_op(check_gradient); }
static void every_op_runs_on_the_cpu(void **state) { (void)state, each_op(check_kernel); }
static void every_op_is_documented(void **state) { (void)state, each_op(check_doc); }
static void signatures_are_sound(void **state) { (void)state, each_op(check_signature); }
static void aliases_are_names_of_one_op(void **state) { (void)state, each_op(check_aliases); }

static void ops_are_found_by_name(void **state)
{
  (void)state;
  cni_init();
  for (int i = 0; i < cni_nops; i++) {
    assert_ptr_equal(cn_op_find(cni_ops[i]->name), cni_ops[i]->row);
    assert_ptr_equal(cni_op_info(cni_ops[i]->row), cni_ops[i]);
    assert_int_equal(cni_ops[i]->id, i);
  }
  assert_null(cn_op_find("no_such_op"));
  assert_null(cn_op_find(""));
  assert_null(cn_op_find(NULL));
}

/* ---- what a signature says ---- */

static void numbers_and_aliases_are_told(void **state)
{
  (void)state;
  cn_op_info mul, atan2, clamp;
  assert_int_equal(cn_op_describe(&mul, cn_op_find("mul")), CN_OK);
  assert_int_equal(cn_op_describe(&atan2, cn_op_find("atan2")), CN_OK);
  assert_int_equal(cn_op_describe(&clamp, cn_op_find("clamp")), CN_OK);
  assert_true(mul.params[0].number && mul.params[1].number && mul.numbers && !clamp.numbers);
  assert_string_equal(mul.params[1].type, "Tensor|Scalar");
  assert_int_equal(mul.naliases, 1);
  assert_string_equal(mul.aliases[0], "multiply");
  assert_false(atan2.params[0].number || atan2.params[1].number);
  assert_string_equal(atan2.params[1].type, "Tensor");
  assert_true(!clamp.params[0].number && clamp.params[1].number && clamp.params[1].optional);
  assert_string_equal(clamp.params[1].type, "Tensor|Scalar?");
}

static void tags_are_read(void **state)
{
  (void)state;
  cni_opinfo info;
  memset(&info, 0, sizeof info);
  const char *sig = "test_f(Tensor|Scalar? x=None, Tensor y) -> Tensor ; alias_test_g method linalg alias_test_h "
                    "exact_y tuple grad_fn_TestBackward1";
  assert_int_equal(cni_signature_parse(&info, sig), CN_OK);
  assert_true(info.params[0].number && info.params[0].optional && !info.params[1].number && info.method);
  assert_string_equal(info.space, "linalg");
  assert_int_equal(info.naliases, 2);
  assert_string_equal(info.aliases[0], "test_g");
  assert_string_equal(info.aliases[1], "test_h");
  assert_true(info.tuple && info.grad_fn && info.params[1].exact && !info.params[0].exact);
  assert_string_equal(info.grad_fn_name, "TestBackward1");
  cni_free(info.params, (size_t)info.nparams * sizeof *info.params);
}

/* A name is kept whole, or the signature is refused. */
static void names_are_not_cut_short(void **state)
{
  static const char *const tags[] = {"group_matmul_of_matrices", "a_space_of_more_than_forty_seven_characters_in_all",
                                     "grad_fn_ANameOfMoreThanFortySevenCharactersIsNobodysBackward0",
                                     "overload_a_name_of_more_than_forty_seven_characters_in_all",
                                     "alias_a_name_of_more_than_forty_seven_characters_in_all"};
  (void)state;
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    cni_opinfo info;
    char sig[200];
    memset(&info, 0, sizeof info);
    snprintf(sig, sizeof sig, "test_f(Tensor x) -> Tensor ; %s", tags[i]);
    REFUSED(cni_signature_parse(&info, sig), CN_ERR_VALUE);
  }
}

/* ---- ops from outside ---- */

static int twice_decompose(cn_call *c)
{
  c->out[0] = cn_add(c->in[0], c->in[0]);
  return cn_err();
}

static const cn_op own_ops[] = {
    {.sig = "test_twice(Tensor input) -> Tensor",
     .doc = "x + x.",
     .flags = CN_OP_COMPOSITE,
     .decompose = twice_decompose},
};
static const cn_op bad_ops[][1] = {
  {{.sig = "add(Tensor input) -> Tensor", .doc = "The name is taken.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor", .doc = "No bracket.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor x) -> Tensor ; exact_y", .doc = "No such parameter.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Thing x) -> Tensor", .doc = "No such type.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "", .doc = "Nothing.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor|Thing x) -> Tensor", .doc = "No such type.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor|Scalar[] x) -> Tensor", .doc = "No such list.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor x) -> Tensor ; alias_", .doc = "No name.", .flags = CN_OP_COMPOSITE}},
  {{.sig = "test_nonsense(Tensor x) -> Tensor ; alias_a alias_b alias_c alias_d alias_e", .doc = "Too many.",
    .flags = CN_OP_COMPOSITE}},
};

static void ops_can_be_registered(void **state)
{
  (void)state;
  assert_int_equal(cn_op_register(own_ops, 1), CN_OK);
  assert_ptr_equal(cn_op_find("test_twice"), &own_ops[0]);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_floats((const float[]){1, 2, 3}, 3), true), *y = NULL;
  size_t n = 1;
  cn_value args[1] = {cn_v_tensor(x)};
  assert_int_equal(cn_op_call(&y, &n, &own_ops[0], args, 1, NULL), CN_OK);
  assert_int_equal(cn_backward(cn_sum(y)), CN_OK);
  assert_float_equal(cn_item(cn_select(y, 0, 2)), 6, 0);
  assert_float_equal(cn_item(cn_select(cn_grad_of(x), 0, 0)), 2, 0); /* a composite's gradient comes by itself */
  cn_release(y);
  cn_scope_end(scope);
  int before = cni_nops;
  for (size_t i = 0; i < sizeof bad_ops / sizeof *bad_ops; i++) {
    assert_true(cn_op_register(bad_ops[i], 1) < 0);
    assert_true(cn_err() < 0);
    cn_err_clear();
  }
  assert_true(cn_op_register(own_ops, 1) < 0); /* twice */
  cn_err_clear();
  assert_int_equal(cni_nops, before);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_op_has_infer),      cmocka_unit_test(every_op_has_a_gradient_or_none),
    cmocka_unit_test(every_op_runs_on_the_cpu), cmocka_unit_test(every_op_is_documented),
    cmocka_unit_test(signatures_are_sound),    cmocka_unit_test(every_op_has_a_sample),
    cmocka_unit_test(aliases_are_names_of_one_op), cmocka_unit_test(numbers_and_aliases_are_told),
    cmocka_unit_test(tags_are_read), cmocka_unit_test(names_are_not_cut_short),
    cmocka_unit_test(ops_are_found_by_name),   cmocka_unit_test(ops_can_be_registered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
