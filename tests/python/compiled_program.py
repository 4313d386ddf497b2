"""usage: compiled_program.py PROGRAM: runs a program written for torch with cairn in its place and every outermost call
of a module compiled. The counts go to the error output. For test_compile_programs.py."""
import os
import runpy
import sys

import cairn
from cairn import compiler
from cairn.nn.module import Module

plain = Module.__call__
inside = False
outermost = {}


def call(self, *args, **kwargs):
    global inside
    if inside or compiler.is_compiling():
        return plain(self, *args, **kwargs)
    compiled = outermost.get(id(self))
    if compiled is None:
        compiled = outermost[id(self)] = cairn.compile(Plain(self))  # which keeps the module, and its number, alive
    inside = True
    try:
        return compiled(*args, **kwargs)
    finally:
        inside = False


class Plain:
    """A module's call as it is."""

    def __init__(self, module):
        self.module = module

    def __call__(self, *args, **kwargs):
        return plain(self.module, *args, **kwargs)


cairn.as_torch()
Module.__call__ = call
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
print(compiler.stats(), file=sys.stderr)
