#!/usr/bin/env python3
"""Tests tools/opgen.py on a small made-up op tree.

The tree is generated and compiled with the strictest flags, in C99, C11 and C++17, and linked with a stub of
apply's door that prints the values it is given, so that every rule about zeros, CN_ZERO, None and defaults is
checked as a program sees it. That a list of one stands for several is apply's rule: tests/ops/lists.c.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
OPGEN = os.path.join(REPO, "tools", "opgen.py")
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")

ROWS = r'''
/* { .sig = "hidden(Tensor input) -> Tensor", .doc = "in a comment" } */
#define PW1(name, ...) {.sig = #name "(Tensor input) -> Tensor ; method inplace", \
                        .doc = "from the list"},
static const cn_op rows[] = {
  { .sig = "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
           "int[2] padding=0, int[2] dilation=[1, 2], int groups=1) -> Tensor ; nn",
    .doc = "2-D \"cross-correlation\" of a/*b. " /* a comment */
           "Second sentence, which is long enough that it has to be wrapped somewhere on the way here.\n"
           "A second paragraph.",
    .flags = 0 },
  { .sig = "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor ; method",
    .doc = "Sum." },
  { .sig = "zeros(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor", .doc = "Zeros." },
  { .sig = "reshape(Tensor input, int[] shape) -> Tensor ; method", .doc = "Reshape." },
  { .sig = "sort(Tensor input, int dim=-1, bool descending=False, bool stable=True) "
           "-> (Tensor values, Tensor indices) ; method", .doc = "Sort." },
  { .sig = "aminmax(Tensor input) -> (Tensor, Tensor)", .doc = "Both." },
  { .sig = "split(Tensor input, int[] sizes, int dim=0) -> Tensor[] ; method", .doc = "Split." },
  { .sig = "unbind(Tensor input) -> Tensor[]", .doc = "Unbind." },
  { .sig = "cat(Tensor[] tensors, int dim=0) -> Tensor", .doc = "Cat." },
  { .sig = "index(Tensor input, Tensor?[] indices) -> Tensor", .doc = "Index." },
  { .sig = "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor ; method", .doc = "Argmax." },
  { .sig = "axpy(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor ; method inplace",
    .doc = "Scaled addition." },
  { .sig = "clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor ; inplace", .doc = "Clamp." },
  { .sig = "resize(Tensor input, int[]? size=None, float[]? scale=None, str mode='nearest', "
           "bool? corners=None, int[2]? pad=None, str? note=None) -> Tensor", .doc = "Resize." },
  { .sig = "mix(float p, Scalar s, bool on, str name, dtype dt, int n, int[2] k, float[] w, bool default, "
           "device? device) -> Tensor", .doc = "Every positional kind." },
  { .sig = "odd(float a=inf, float[] b=[1, 2.5], int[] c=[], dtype d=float32, bool? e=True, "
           "int big=9223372036854775807, float z=0.0, int[1] one=3, int[]? maybe) -> Tensor",
    .doc = "Odd defaults." },
  { .sig = "seedless(int n=5) -> Tensor", .doc = "No positional argument." },
  { .sig = "entropy_of_a_thing_with_a_very_long_name(Tensor input, Tensor target, Tensor? weight=None, "
           "Tensor? pos_weight=None, str reduction='mean') -> Tensor ; nn inplace", .doc = "Long." },
  { .sig = "nothing() -> Tensor", .doc = "No argument." },
  { .sig = "scale(Tensor|Scalar input, Tensor|Scalar? by=None, *, Tensor|Scalar? more=None) -> Tensor ; inplace "
           "opt_more alias_rescale", .doc = "Numbers, which C wraps, and a second name, which C has not." },
};
'''
DEF = r'''/* pointwise.def: the formulas. */
#ifndef PW1
#define PW1(...)
#endif
#define PW_OPERANDS_1 "Tensor input"
#define PW_OPERANDS_2 "Tensor input, Tensor other"
#define PW_OPERANDS_2S "Tensor input, Tensor|Scalar other"
/* ---- section ---- */
/*  name  kind  formula */
/* e to the power
 * of input. */
PW1(exp, FLT, M(exp)(a), MUL(G, Y))
/* Sum of input and other. */
PW2(add, NUM, a + b,
    G, G)
/* Greater. */
PW2S(gt, CMP, a > b, NO_GRAD, NO_GRAD,
     "alias_greater")
PWP1(recip_, FLT, 1 / a, G)
PWP3(fma_, FLT, a * b + c, G)
#undef PW1
'''
APPLY_H = r'''
#ifndef FAKE_APPLY_H
#define FAKE_APPLY_H
#include "cairn/ext/op.h"
cn_tensor *cni_apply1(int op_id, cn_value *args, int nargs, cn_tensor *dest);
int cni_applyn(int op_id, cn_value *args, int nargs, cn_tensor **out, int nout);
int cni_apply_list(int op_id, cn_value *args, int nargs, cn_tensor **out, size_t capacity);
int cni_apply_over(int op_id, cn_value *args, int nargs);
typedef union cni_few { int64_t i[6]; double f[6]; } cni_few;
int cni_fit_lists(int op_id, cn_value *args, cni_few *room);
#endif
'''
STUB = r'''
#include <stdarg.h>
#include <stdio.h>
#include "apply.h"
#include "api.gen.h"
static char tensors[16]; /* tensor number i is the address of tensors[i] */
static cn_tensor *tensor(int i) { return (cn_tensor *)(void *)&tensors[i]; }
cn_tensor *stub_tensor(int i);
cn_tensor *stub_tensor(int i) { return tensor(i); }
static int number(cn_tensor *t) { return (int)((char *)t - tensors); }
static void show(const cn_value *v)
{
  int i;
  switch (v->tag) {
  case CN_V_NONE: printf(" none"); break;
  case CN_V_TENSOR: printf(" t%d", number(v->u.t)); break;
  case CN_V_TENSORS:
    printf(" [");
    for (i = 0; i < v->n; i++) v->u.ts[i] ? printf("t%d,", number(v->u.ts[i])) : printf("none,");
    printf("]");
    break;
  case CN_V_INT: printf(" %lld", (long long)v->u.i); break;
  case CN_V_FLOAT: printf(" %gf", v->u.f); break;
  case CN_V_BOOL: printf(v->u.i ? " true" : " false"); break;
  case CN_V_INTS:
    printf(" (");
    for (i = 0; i < v->n; i++) printf("%lld,", (long long)v->u.is[i]);
    printf(")");
    break;
  case CN_V_FLOATS:
    printf(" (");
    for (i = 0; i < v->n; i++) printf("%gf,", v->u.fs[i]);
    printf(")");
    break;
  case CN_V_STR: printf(" '%s'", v->u.s); break;
  default: printf(" ?");
  }
}
static void call(int id, cn_value *args, int n)
{
  int i;
  printf("%s", cni_op_names[id]);
  for (i = 0; i < n; i++) show(&args[i]);
}
cn_tensor *cni_apply1(int op_id, cn_value *args, int nargs, cn_tensor *dest)
{
  call(op_id, args, nargs);
  if (dest) printf(" -> t%d", number(dest));
  printf("\n");
  return dest ? dest : tensor(9);
}
int cni_applyn(int op_id, cn_value *args, int nargs, cn_tensor **out, int nout)
{
  int i;
  call(op_id, args, nargs);
  printf("\n");
  for (i = 0; i < nout; i++) out[i] = tensor(10 + i);
  return 0;
}
int cni_apply_list(int op_id, cn_value *args, int nargs, cn_tensor **out, size_t capacity)
{
  call(op_id, args, nargs);
  printf(" cap %d\n", (int)capacity);
  if (capacity) out[0] = tensor(12);
  return 1;
}
int cni_fit_lists(int op_id, cn_value *args, cni_few *room)
{
  (void)args;
  room[0].i[0] = 0;
  printf("fit ");
  return op_id < 0;
}
int cn_err_set(int code, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  printf("error %d ", code);
  vprintf(format, ap);
  printf("\n");
  va_end(ap);
  return code;
}
'''
MAIN = r'''
#include "cairn/kw.h"
#include <stdio.h>
#include <string.h>
cn_tensor *stub_tensor(int i);
int main(void)
{
  cn_tensor *x = stub_tensor(1), *w = stub_tensor(2), *b = stub_tensor(3), *y = NULL, *z = NULL;
  cn_tensor *list[2];
%s
  (void)y; (void)z; (void)list; (void)x; (void)w; (void)b;
  return 0;
}
'''
# (statement, what the stub prints)
CASES = [
    ("cn_exp(x);", "exp t1"),
    ("cn_exp_(x);", "exp t1 -> t1"),
    ("cn_add(x, w);", "add t1 t2"),
    ("cn_add_(x, w);", "add t1 t2 -> t1"),
    ("cn_nothing();", "nothing"),
    ("cn_entropy_of_a_thing_with_a_very_long_name(x, w, NULL, b, .reduction = \"sum\");",
     "entropy_of_a_thing_with_a_very_long_name t1 t2 none t3 'sum'"),
    ("cn_seedless();", "seedless 5"),
    ("cn_seedless(.n = CN_ZERO);", "seedless 0"),
    ("cn_seedless(.n = 7);", "seedless 7"),
    ("cn_gt_(x, w);", "gt t1 t2 -> t1"),
    ("cn_scale(x, NULL);", "scale t1 none none"),
    ("cn_scale_(x, w, .more = b);", "scale t1 t2 t3 -> t1"),
    # fixed lists
    ("cn_conv2d(x, w, b);", "fit conv2d t1 t2 t3 (1,1,) (0,0,) (1,2,) 1"),
    ("cn_conv2d(x, w, NULL, .stride = CN_INTS(2), .padding = CN_INTS(1, 2), .groups = 4);",
     "fit conv2d t1 t2 none (2,) (1,2,) (1,2,) 4"),
    ("cn_conv2d(x, w, b, .dilation = CN_INTS(0), .stride = CN_INTS(0, 0), .groups = CN_ZERO);",
     "fit conv2d t1 t2 t3 (0,0,) (0,0,) (0,) 0"),
    ("cn_conv2d(x, w, b, .padding = CN_INTS(3, 0), .stride = CN_INTS(0, 3), .dilation = {NULL, 0});",
     "fit conv2d t1 t2 t3 (0,3,) (3,0,) (1,2,) 1"),
    ("cn_conv2d(x, w, b, .padding = {cn_shape_of_two, 2}, .groups = 0);",
     "fit conv2d t1 t2 t3 (1,1,) (5,6,) (1,2,) 1"),
    ("cn_conv2d_with(x, w, b, NULL);", "fit conv2d t1 t2 t3 (1,1,) (0,0,) (1,2,) 1"),
    # free lists, nesting, dtypes, devices
    ("cn_sum(x);", "sum t1 none false none"),
    ("cn_sum(cn_sum(x));", "sum t1 none false none\nsum t9 none false none"),
    ("cn_sum(cn_sum(x, .keepdim = true), .dim = CN_INTS(0, -1), .dtype = CN_F64);",
     "sum t1 none true none\nsum t9 (0,-1,) false 13"),
    ("cn_sum(cn_zeros(CN_SHAPE(2, 3), .dtype = CN_I64), .dim = {NULL, 0}, .keepdim = false);",
     "zeros (2,3,) 6 none\nsum t9 none false none"),
    ("cn_zeros(CN_SHAPE(2, 3));", "zeros (2,3,) none none"),
    ("cn_zeros(CN_SHAPE(4), .dtype = CN_F64, .device = CN_CPU);", "zeros (4,) 13 256"),
    ("cn_zeros(CN_SCALAR_SHAPE, .dtype = CN_DTYPE_NONE, .device = 0);", "zeros () none none"),
    ("cn_zeros(cn_shape_of_two, 2);", "zeros (5,6,) none none"),
    ("cn_reshape(x, CN_SHAPE(2, 3, 4));", "reshape t1 (2,3,4,)"),
    ("cn_reshape(cn_sum(x), CN_SHAPE(1));", "sum t1 none false none\nreshape t9 (1,)"),
    ("cn_cat(CN_TENSORS(x, w), .dim = 1);", "cat [t1,t2,] 1"),
    ("cn_cat(CN_TENSORS(cn_sum(x), cn_cat(CN_TENSORS(w))));",
     "sum t1 none false none\ncat [t2,] 0\ncat [t9,t9,] 0"),
    ("list[0] = x; list[1] = NULL; cn_index(w, list, 2);", "index t2 [t1,none,]"),
    ("cn_cat(list, 1, .dim = CN_ZERO);", "cat [t1,] 0"),
    # optional int
    ("cn_argmax(x, CN_NONE);", "argmax t1 none false"),
    ("cn_argmax(x, 0, .keepdim = true);", "argmax t1 0 true"),
    ("cn_argmax(x, -1);", "argmax t1 -1 false"),
    # numbers, in place
    ("cn_axpy(x, w);", "axpy t1 t2 1f"),
    ("cn_axpy(x, w, .alpha = CN_ZERO);", "axpy t1 t2 0f"),
    ("cn_axpy(x, w, .alpha = 0);", "axpy t1 t2 1f"),
    ("cn_axpy_(x, w, .alpha = 2.5);", "axpy t1 t2 2.5f -> t1"),
    ("cn_axpy_(x, w);", "axpy t1 t2 1f -> t1"),
    ("cn_axpy_inplace_with(x, w, NULL);", "axpy t1 t2 1f -> t1"),
    ("cn_clamp(x);", "clamp t1 none none"),
    ("cn_clamp(x, .min = CN_ZERO, .max = 6);", "clamp t1 0f 6f"),
    ("cn_clamp_(x, .min = 0, .max = -1.5);", "clamp t1 none -1.5f -> t1"),
    # several results
    ("printf(\"%d \", cn_sort(&y, &z, x)); printf(\"%d %d\\n\", y == stub_tensor(10), z == stub_tensor(11));",
     "sort t1 -1 false true\n0 1 1"),
    ("cn_sort(NULL, NULL, x, .dim = CN_ZERO, .descending = true, .no_stable = true);",
     "sort t1 0 true false"),
    ("cn_aminmax(NULL, &z, w);", "aminmax t2"),
    ("printf(\"%d\\n\", cn_split(list, 2, x, CN_SHAPE(1, 2), .dim = 1));", "split t1 (1,2,) 1 cap 2\n1"),
    ("cn_unbind(NULL, 0, x);", "unbind t1 cap 0"),
    # the rest of the kinds
    ("cn_resize(x);", "fit resize t1 none none 'nearest' none none none"),
    ("cn_resize(x, .size_ = CN_INTS(7), .scale = CN_DOUBLES(0.5, 0), .mode = \"cubic\", .corners = CN_ZERO, "
     ".pad = CN_INTS(0), .note = \"n\");",
     "fit resize t1 (7,) (0.5f,0f,) 'cubic' false (0,) 'n'"),
    ("cn_resize(x, .corners = 1, .pad = CN_INTS(1, 0));", "fit resize t1 none none 'nearest' true (1,0,) none"),
    ("cn_mix(0, 0, false, \"\", CN_F32, 0, CN_SHAPE(0), half, 2, true, 0);",
     "fit mix 0f 0f false '' 12 0 (0,) (0.5f,0.25f,) true none"),
    ("cn_mix(1.5, 2, true, NULL, CN_I8, -3, CN_SHAPE(4, 0), half, 1, false, CN_CPU);",
     "fit mix 1.5f 2f true none 3 -3 (4,0,) (0.5f,) false 256"),
    ("cn_odd(NULL, 0);", "fit odd inff (1f,2.5f,) () 12 true 9223372036854775807 0f (3,) none"),
    ("cn_odd(CN_SHAPE(1), .a = CN_ZERO, .b = {half, 0}, .c = CN_INTS(1), .d = CN_I64, .e = CN_ZERO, "
     ".big = CN_ZERO, .z = CN_ZERO, .one = CN_INTS(0));",
     "fit odd 0f () (1,) 6 false 0 0f (0,) (1,)"),
    # growth of the options struct
    ("{ cn_sum_opts o; memset(&o, 0, sizeof o); o.size = sizeof o; o.keepdim = true; cn_sum_with(x, &o); }",
     "sum t1 none true none"),
    ("{ cn_sum_opts o; memset(&o, 0, sizeof o); o.size = offsetof(cn_sum_opts, dtype); o.keepdim = true; "
     "o.dtype = CN_F64; cn_sum_with(x, &o); }", "sum t1 none true none"),
    ("{ cn_sum_opts o; memset(&o, 0, sizeof o); o.size = 2 * sizeof(size_t); o.keepdim = true; "
     "cn_sum_with(x, &o); }", "sum t1 none false none"),
    ("{ struct { cn_sum_opts o; int64_t more; } n; memset(&n, 0, sizeof n); n.o.size = sizeof n; "
     "n.o.keepdim = true; cn_sum_with(x, &n.o); n.more = 1; "
     "printf(\"%d\\n\", cn_sum_with(x, &n.o) == NULL); }",
     "sum t1 none true none\n"
     "error -2 sum: options of a newer cairn are set, which this library does not have\n1"),
    ("{ cn_sort_opts o; memset(&o, 0, sizeof o); y = x; "
     "printf(\"%d\\n\", cn_sort_with(&y, NULL, x, &o)); printf(\"%d\\n\", y == NULL); }",
     "error -2 sort: options.size is 0, must be the size of the options struct\n-2\n1"),
    ("cn_sum(x, (const struct cn_guard *)(void *)x);", "error -2 sum: an option was given without its name"),
]
CXX_MAIN = r'''
#include "cairn/kw.h"
int main()
{
  cn_sum_opts o = cn_sum_opts();
  o.size = sizeof o;
  cn_sum_with(cn_exp(nullptr), &o);
  cn_zeros_with(nullptr, 0, nullptr);
  return 0;
}
'''


def run(*cmd, **kw):
    return subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)


class Tree(unittest.TestCase):
    rows = ROWS

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="opgen")
        self.addCleanup(shutil.rmtree, self.root)
        for f in ("base.h", "tensor.h", "ext/op.h", "ext/options.h", "ext/signature.h"):
            with open(os.path.join(REPO, "include/cairn", f), encoding="utf-8") as h:
                self.put("include/cairn/" + f, h.read())
        self.put("src/ops/apply.h", APPLY_H)
        self.put("src/ops/family/rows.c", self.rows)
        self.put("src/ops/pointwise.def", DEF)

    def put(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def get(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as f:
            return f.read()

    def opgen(self, *flags):
        return run(sys.executable, OPGEN, "--root", self.root, *flags)

    def compile(self, source, *flags, cc=CC, std="-std=c99"):
        return run(cc, std, "-pedantic", "-Wall", "-Wextra", "-Werror", "-I" + self.root + "/include",
                   "-I" + self.root + "/src/ops", *flags, source)


class Generated(Tree):
    def setUp(self):
        super().setUp()
        r = self.opgen()
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_values(self):
        prelude = "  const int64_t cn_shape_of_two[2] = {5, 6}; const double half[2] = {0.5, 0.25};\n"
        body = "".join("  puts(\"#%d\");\n  %s\n" % (i, c[0]) for i, c in enumerate(CASES))
        main = self.put("main.c", MAIN % (prelude + body))
        stub = self.put("stub.c", STUB)
        api = os.path.join(self.root, "src/ops/api.gen.c")
        with open(os.path.join(REPO, "src/ops/options.c"), encoding="utf-8") as f:
            options = self.put("options.c", f.read())
        for src, std, extra in ((stub, "-std=c11", ["-Wno-format-nonliteral"]), (main, "-std=c99", []),
                                (options, "-std=c11", []),
                                (api, "-std=c11", ["-O2", "-Wshadow", "-Wconversion", "-Wstrict-prototypes",
                                                   "-Wmissing-prototypes", "-Wvla"])):
            r = self.compile(src, "-c", "-o", src + ".o", *extra, std=std)
            self.assertEqual(r.returncode, 0, r.stdout)
        exe = os.path.join(self.root, "main")
        r = run(CC, "-o", exe, main + ".o", stub + ".o", options + ".o", api + ".o")
        self.assertEqual(r.returncode, 0, r.stdout)
        r = run(exe)
        self.assertEqual(r.returncode, 0, r.stdout)
        got = dict(p.split("\n", 1) for p in r.stdout.split("#")[1:])
        self.assertEqual(len(got), len(CASES))
        for i, (statement, want) in enumerate(CASES):
            with self.subTest(statement):
                self.assertEqual(got[str(i)].rstrip("\n"), want)

    def test_headers_in_cxx(self):
        r = self.compile(self.put("main.cc", CXX_MAIN), "-fsyntax-only", cc=CXX, std="-std=c++17")
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_stray_positional_option_is_diagnosed(self):
        for call in ("cn_sum(x, 1)", "cn_sum(x, x)", "cn_conv2d(x, x, x, 2)", "cn_zeros(CN_SHAPE(2), 3)",
                     "cn_seedless(4)", "cn_axpy_(x, x, 2.0)"):
            src = ('#include "cairn/kw.h"\nvoid f(cn_tensor *x);\n'
                   "void f(cn_tensor *x) { (void)x; %s; }\n" % call)
            r = self.compile(self.put("stray.c", src), "-fsyntax-only")
            self.assertNotEqual(r.returncode, 0, call)

    def test_check(self):
        self.assertEqual(self.opgen("--check").returncode, 0)
        self.put("src/ops/more.c", '{ .sig = "late(Tensor input) -> Tensor", .doc = "Late." },')
        before = self.get("include/cairn/ops.h")
        r = self.opgen("--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn("+CN_API cn_tensor *cn_late(cn_tensor *input);", r.stdout)
        self.assertEqual(before, self.get("include/cairn/ops.h"))
        self.assertEqual(self.opgen().returncode, 0)
        self.assertEqual(self.opgen("--check").returncode, 0)

    def test_order_and_layout(self):
        gen = self.get("src/ops/api.gen.h")
        names = [l.strip(" ,")[7:] for l in gen.splitlines() if l.startswith("  CNI_OP_")][:-1]
        self.assertEqual(names, sorted(names))
        self.assertEqual(len(names), 23)
        self.assertNotIn("hidden", gen)
        self.assertNotIn("recip", gen)
        for f in ("include/cairn/ops.h", "include/cairn/kw.h", "src/ops/api.gen.h", "src/ops/api.gen.c"):
            text = self.get(f)
            self.assertIn("Generated by tools/opgen.py", text)
            for l in text.splitlines():
                self.assertLessEqual(len(l), 110, l)
        ops = self.get("include/cairn/ops.h")
        self.assertIn("/* e to the power of input. */\nCN_API cn_tensor *cn_exp(cn_tensor *input);", ops)
        self.assertIn('/* 2-D "cross-correlation" of a/ *b. Second', ops)
        self.assertIn("bool no_stable; /* stable: bool, default True; set this one for False */", ops)
        self.assertIn("\n * bias may be NULL. */", ops)
        self.assertIn("cn_tensor *more; /* Tensor?, default None */", ops)
        self.assertNotIn("greater", ops + gen)
        self.assertNotIn("rescale", ops + gen)


class Committed(unittest.TestCase):
    def test_regenerating_changes_nothing(self):
        if not os.path.exists(os.path.join(REPO, "src/ops/api.gen.c")):
            self.skipTest("not generated yet")
        r = run(sys.executable, OPGEN, "--check")
        self.assertEqual(r.returncode, 0, r.stdout)


class Refused(Tree):
    rows = ""

    def refuse(self, sig, why, doc=".doc = \"D.\""):
        self.put("src/ops/bad.c", '{ .sig = "%s", %s },' % (sig, doc))
        r = self.opgen()
        self.assertEqual(r.returncode, 1)
        self.assertIn(why, r.stdout)
        self.assertIn("src/ops/bad.c:1", r.stdout)

    def test_refusals(self):
        self.refuse("f(Tensor input) -> Tensor", "has no .doc", ".flags = 0")
        self.refuse("f(Tensor input -> Tensor", "cannot read signature")
        self.refuse("f(Matrix input) -> Tensor", "cannot read parameter")
        self.refuse("f(Tensor input) -> int", "cannot read result")
        self.refuse("f(Tensor input, int k=None) -> Tensor", "bad default")
        self.refuse("f(Tensor input, int[2] k=[1,2,3]) -> Tensor", "bad default")
        self.refuse("f(Tensor input, float? p) -> Tensor", "needs a default")
        self.refuse("f(Tensor a, Tensor a) -> Tensor", "two things are called a")
        self.refuse("f(Tensor values) -> (Tensor values, Tensor indices)", "two things are called values")
        self.refuse("f_(Tensor input) -> Tensor", "cannot read signature")
        self.refuse("f(int n) -> Tensor ; inplace", "in-place needs")
        self.refuse("exp(Tensor input) -> Tensor", "stands already at")
        self.refuse("item(Tensor input) -> Tensor", "already the name of something in tensor.h")
        self.refuse("f(%s) -> Tensor" % ", ".join("int a%d" % i for i in range(17)), "more than 16")
        self.refuse("f(Tensor|int x) -> Tensor", "cannot read parameter")
        self.refuse("f(Tensor|Scalar[] x) -> Tensor", "no such list type")
        self.refuse("f(Tensor|Scalar? x) -> Tensor ; inplace", "in-place needs")
        self.refuse("f(Tensor x) -> Tensor ; alias_exp", "alias_exp: that is the name of the op at")
        self.refuse("f(Tensor x) -> Tensor ; alias_a alias_b alias_c alias_d alias_e", "more than 4 aliases")


if __name__ == "__main__":
    unittest.main()
