#!python
"""The `cairn` command of an installed package: finds the package without importing it and becomes the program in it.

bindings/python/backend.py puts this file into the wheel as a script; pip writes the interpreter into its first line.
"""
import importlib.util
import os
import sys


def main():
    spec = importlib.util.find_spec("cairn")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"cairn: {sys.executable} has no package cairn")
    program = os.path.join(spec.submodule_search_locations[0], "bin", "cairn")
    os.execv(program, [program, *sys.argv[1:]])


main()
