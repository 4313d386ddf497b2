"""Runs a program that imports torch with cairn in its place:

    python -m cairn.as_torch program.py arguments...

The program sees what it would see from `python program.py arguments...`: its name in sys.argv[0], its folder first in
sys.path, itself as __main__. Inside of a program cairn.as_torch() does the same from then on."""
from __future__ import annotations

import os
import sys

from ._alias import as_torch


def _run(program: str) -> None:
    """Executes a file as the module __main__, which it stays until the process ends."""
    from importlib.machinery import SourceFileLoader
    from types import ModuleType
    path = os.path.abspath(program)
    loader = SourceFileLoader("__main__", path)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __loader__=loader, __cached__=None)
    sys.modules["__main__"] = module
    exec(loader.source_to_code(loader.get_data(path), path), module.__dict__)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if len(sys.argv) > 1 else sys.stderr)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    program = sys.argv[1]
    if not os.path.isfile(program):
        sys.exit("%s: there is no such program" % program)
    del sys.argv[0]
    if not sys.flags.safe_path:  # `python -m` has put the working folder first
        sys.path[0] = os.path.dirname(os.path.realpath(program))
    as_torch()
    _run(program)


if __name__ == "__main__":
    main()
else:  # `import cairn.as_torch` leaves the name what it is: the function
    sys.modules[__name__] = as_torch  # type: ignore[assignment]
