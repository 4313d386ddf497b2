"""GraphModule.to_folder: a graph module as a Python package of its own.

Place in the flow: graph_module.py calls it. The package has module.py, whose class makes each part from the text that
the part shows itself by, and state_dict.pt, which its __init__ loads. Invariant: nothing is written where a part cannot
be made again from its text; files hold no code but the graph's.
"""
from __future__ import annotations

import pathlib
import sys
import types
from typing import Any

from .. import nn, serialization
from ._code import _WRAP
from .graph import PythonCode

__all__ = ["write"]


def _constructor(part: nn.Module, name: str) -> str:
    """Text that makes a module like part, but for its weights."""
    text = repr(part)
    try:
        made = eval(text, {"__builtins__": {}, "True": True, "False": False, "None": None}, vars(nn))
    except Exception:
        made = None
    if type(made) is not type(part) or list(made.state_dict()) != list(part.state_dict()):
        raise NotImplementedError("to_folder: the part %r (%s) cannot be made from what it shows of itself, and files "
                                  "of cairn hold no objects of classes; save the state_dict(), and `code` as text"
                                  % (name, type(part).__name__))
    return "torch.nn." + text


def _plain(part: nn.Module) -> bool:
    """Has it parts only because names of the graph have dots?"""
    return type(part) is nn.Module


def _parts(module: Any) -> list[str]:
    """Lines of __init__ that make what the module has."""
    lines: list[str] = []
    leaves: list[str] = []
    for name, part in module.named_modules():
        if not name or any(name.startswith(leaf + ".") for leaf in leaves):
            continue
        made = "torch.nn.Module()" if _plain(part) else _constructor(part, name)
        lines.append("self.%s = %s" % (name, made) if "." not in name and name.isidentifier()
                     else "self.get_submodule(%r).add_module(%r, %s)" % (*_split(name), made))
        if not _plain(part):
            leaves.append(name)
    for home, part in module.named_modules():
        if home and not _plain(part):
            continue
        at = "self" if not home else "self.get_submodule(%r)" % home
        for name, value in part._parameters.items():
            empty = "torch.empty(%r, dtype=%r)" % (list(value.shape), value.dtype) if value is not None else None
            lines.append("%s.register_parameter(%r, %s)" % (
                at, name, None if empty is None else "torch.nn.Parameter(%s, %r)" % (empty, value.requires_grad)))
        for name, value in part._buffers.items():
            empty = "torch.empty(%r, dtype=%r)" % (list(value.shape), value.dtype) if value is not None else None
            lines.append("%s.register_buffer(%r, %s)" % (at, name, empty))
    return lines


def _split(name: str) -> tuple[str, str]:
    home, _, last = name.rpartition(".")
    return home, last


def _imports(code: PythonCode) -> list[str]:
    """Lines that give the code the names it takes from outside."""
    lines = ["import %s as torch" % __name__.partition(".")[0]]
    for key, value in code.globals.items():
        home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if isinstance(value, float):
            lines.append("from math import %s" % key)
        elif isinstance(value, types.ModuleType):
            lines += ["import %s as %s" % (value.__name__, key)] if key != "torch" else []
        elif home in sys.modules and getattr(sys.modules[home], name, None) is value and home != "__main__":
            lines.append("from %s import %s as %s" % (home, name, key))
        elif key != _WRAP:
            raise NotImplementedError("to_folder: %r, which the graph calls, cannot be imported from a module" % key)
    return lines


def write(module: Any, code: PythonCode, folder: Any, name: str) -> None:
    """The package of a graph module, in a folder that is made."""
    body = ["super().__init__()", *_parts(module),
            "self.load_state_dict(torch.load(pathlib.Path(__file__).with_name('state_dict.pt')))"]
    forward = code.src[code.src.index("def "):].strip("\n").splitlines()
    text = "\n".join(["import pathlib", "", *_imports(code), "", "", "class %s(torch.nn.Module):" % name,
                      "    def __init__(self):", *("        " + line for line in body), "",
                      *("    " + line if line else "" for line in forward), ""])
    where = pathlib.Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    serialization.save(module.state_dict(), where / "state_dict.pt")
    (where / "module.py").write_text(text, encoding="utf-8")
    (where / "__init__.py").write_text("from .module import *\n", encoding="utf-8")
