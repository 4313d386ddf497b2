"""utils.cpp_extension: ops in C and C++ that a program compiles and loads, and Python extensions."""
import os
import pathlib
import shutil
import tempfile
import unittest

import cairn
from cairn.utils import cpp_extension

TWICE = """
#include <cairn/cairn.h>
#include <cairn/ext/op.h>

static int twice(cn_call *call)
{
  call->out[0] = cn_mul(call->in[0], cn_num(FACTOR));
  return call->out[0] ? CN_OK : cn_err();
}

int cn_extension_init(void);

int cn_extension_init(void)
{
  static cn_op rows[1];
  rows[0].sig = "NAME(Tensor input, bool more=False) -> Tensor";
  rows[0].doc = "FACTOR x.";
  rows[0].flags = CN_OP_COMPOSITE;
  rows[0].decompose = twice;
  return cn_op_register(rows, 1);
}
"""
PLAIN = """
#include <Python.h>
static PyObject *nine(PyObject *m, PyObject *n) { (void)m, (void)n; return PyLong_FromLong(9); }
static PyMethodDef methods[] = {{"nine", nine, METH_NOARGS, "9"}, {0, 0, 0, 0}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "plain_ext", "", -1, methods, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_plain_ext(void) { return PyModule_Create(&def); }
"""


@unittest.skipUnless(shutil.which("cc") and shutil.which("c++"), "no compiler")
class Extensions(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def source(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_an_op_in_c(self):
        source = self.source("twice.c", TWICE.replace("NAME", "ext_test_twice").replace("FACTOR", "2"))
        ops = cpp_extension.load("ext_test", source, build_directory=str(self.folder / "build"))
        x = cairn.ones(3, requires_grad=True)
        y = ops.ext_test_twice(x, more=True)
        y.sum().backward()
        self.assertEqual((y.tolist(), x.grad.tolist()), ([2.0] * 3, [2.0] * 3))
        self.assertEqual(cairn.compile(ops.ext_test_twice)(cairn.ones(2)).tolist(), [2.0, 2.0])
        again = cpp_extension.load("ext_test", [source], build_directory=str(self.folder / "build"))
        self.assertIs(again, ops)  # nothing changed: nothing is compiled or loaded twice
        from cairn._ops import namespace
        self.assertEqual(namespace("ext_test").ext_test_twice(cairn.ones(1)).tolist(), [2.0])
        for wrong in (lambda: ops.ext_test_twice(1, 2, 3), lambda: ops.ext_test_twice("x")):
            self.assertRaises(TypeError, wrong)
        self.assertRaises(AttributeError, lambda: cairn._C._call_registered("no_such_op_at_all"))

    def test_cpp_in_a_string(self):
        text = TWICE.replace("NAME", "ext_test_thrice").replace("FACTOR", "3").replace(
            "int cn_extension_init(void);", 'extern "C" int cn_extension_init(void);').replace("#include", "//")
        text = text.replace("cn_num(3)", "cn_num(3.0)")
        made = cpp_extension.load_inline("ext_inline", text, build_directory=str(self.folder), is_python_module=False)
        self.assertTrue(os.path.exists(made))
        from cairn._ops import namespace
        self.assertEqual(namespace("ext_inline").ext_test_thrice(cairn.ones(2)).tolist(), [3.0, 3.0])

    def test_a_python_extension(self):
        made = cpp_extension.load("plain_ext", self.source("plain.c", PLAIN), build_directory=str(self.folder))
        self.assertEqual(made.nine(), 9)

    def test_what_is_refused(self):
        wrong = self.source("wrong.c", "int f(void) { return no_such_thing; }\n")
        with self.assertRaisesRegex(RuntimeError, "no_such_thing"):
            cpp_extension.load("wrong_ext", wrong, build_directory=str(self.folder))
        with self.assertRaisesRegex(NotImplementedError, "CUDA"):
            cpp_extension.load("cuda_ext", self.source("a.cu", ""), build_directory=str(self.folder))
        self.assertRaises(NotImplementedError, lambda: cpp_extension.CUDAExtension("a", ["a.cu"]))
        self.assertRaises(NotImplementedError, lambda: cpp_extension.load_inline("a", "", functions=["f"]))
        with self.assertRaisesRegex(OSError, "cn_extension_init"):
            cpp_extension.load_library(pathlib.Path(cairn._C.__file__))

    def test_for_setup(self):
        try:
            import setuptools  # noqa: F401
        except ImportError:
            self.skipTest("setuptools is not installed")
        made = cpp_extension.CppExtension("a", ["a.cpp"], include_dirs=["here"])
        self.assertEqual(made.include_dirs, ["here", *cpp_extension.include_paths()])
        self.assertTrue(issubclass(cpp_extension.BuildExtension, setuptools.Command))


if __name__ == "__main__":
    unittest.main()
