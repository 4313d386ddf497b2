"""What the Python files of the package say themselves, so that what is generated leaves it to them: read from their
text, since the package cannot be imported before it is built.
"""
import ast
import glob
import os

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bindings", "python", "cairn")


def parsed(pattern):
    for path in sorted(glob.glob(os.path.join(PACKAGE, pattern))):
        with open(path, encoding="utf-8") as f:
            yield ast.parse(f.read(), path)


def bound(statements):
    """The names that statements bind, also those under `if`: definitions and assignments."""
    for s in statements:
        if isinstance(s, (ast.FunctionDef, ast.ClassDef)):
            yield s.name
        elif isinstance(s, (ast.Assign, ast.AnnAssign)):
            for target in s.targets if isinstance(s, ast.Assign) else [s.target]:
                if isinstance(target, ast.Name):
                    yield target.id
        elif isinstance(s, ast.If):
            yield from bound(s.body + s.orelse)


def constant(tree, name):
    """The value of NAME = literal."""
    for s in tree.body:
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets):
            return ast.literal_eval(s.value)
    raise LookupError(name)


def exported(pattern):
    """The names in __all__ of these files."""
    return {name for tree in parsed(pattern) for name in constant(tree, "__all__")}


def methods():
    """What the class Tensor has of its own."""
    for tree in parsed("_tensor.py"):
        for s in tree.body:
            if isinstance(s, ast.ClassDef) and s.name == "Tensor":
                return set(bound(s.body))
    raise LookupError("class Tensor")
