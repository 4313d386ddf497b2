"""usage: compiled_program.py modules|steps PROGRAM: runs a program written for torch with cairn in its place and parts
of it compiled: every outermost call of a module, or the training steps, see compiled_steps.py. The counts go to the
error output. For test_compile_programs.py."""
import os
import sys
import types

import cairn
import compiled_steps
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


def main():
    parts, program = sys.argv[1:3]
    cairn.as_torch()
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(program))
    with open(program, encoding="utf-8") as file:
        code = compile(file.read(), program, "exec", dont_inherit=True, flags=compiled_steps.AS_TREE)
    if parts == "modules":
        Module.__call__ = call
    else:
        code = compiled_steps.changed(code)
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")  # where pickle looks for the program's classes
    vars(main_module).update(__file__=program, compiled_step=cairn.compile)
    exec(compile(code, program, "exec", dont_inherit=True), vars(main_module))  # pylint: disable=exec-used
    print(compiler.stats(), file=sys.stderr)


if __name__ == "__main__":
    main()
