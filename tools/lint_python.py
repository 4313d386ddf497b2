"""Reads the Python sources for arguments that are accepted and dropped: parameters that no statement of the function
uses, and *args or **kwargs that nobody looks at. A user who gives such an argument gets a wrong result in silence.

usage: tools/lint_python.py [FOLDER...]      (default: bindings/python); tools/lint runs it too

Not counted: parameters whose name begins with an underscore (but *_args and **_kwargs are), self and cls, functions
that only raise, stubs (a body of `...`), overloads and abstract methods, and methods of Python's protocols (__exit__
and such, not __init__, __new__ and __call__). Where somebody else dictates a signature, a comment in the head of the
function or of its class says so, with the reason:

    def on_epoch_end(self, epoch, logs=None):  # unused: logs (the callback's signature)
    class Recorder(Callback):  # unused: epoch, logs (the callbacks' signature)

A comment that names no parameter, or one that is used, is a problem as well.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ["bindings/python"]
MARKER = re.compile(r"#\s*unused:\s*([\w\s,]+?)\s*\((.+)\)\s*$")
CALLED = {"__init__", "__new__", "__call__", "__init_subclass__"}  # the dunder methods that users give arguments
ABSTRACT = {"overload", "abstractmethod"}


def is_docstring(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(
        statement.value.value, str)


def only_names(node):
    """Is the expression made of bare names alone, so that evaluating it does nothing?"""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Tuple) and all(only_names(e) for e in node.elts))


def drops(node):
    """A statement that mentions names without using them: `x`, `x, y`, `_ = x`."""
    if isinstance(node, ast.Expr):
        return only_names(node.value)
    return (isinstance(node, ast.Assign) and only_names(node.value)
            and all(isinstance(t, ast.Name) and t.id == "_" for t in node.targets))


def used_names(function):
    """Names that a statement of the body reads; None: all of them, by locals()."""
    names, waiting = set(), list(function.body)
    while waiting:
        node = waiting.pop()
        if drops(node):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
            if node.id == "locals":
                return None
        waiting.extend(ast.iter_child_nodes(node))
    return names


def exempt(function):
    """Does its kind excuse it?"""
    name = function.name
    if name.startswith("__") and name.endswith("__") and name not in CALLED:
        return True
    for decorator in function.decorator_list:
        last = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if last in ABSTRACT:
            return True
    body = [s for s in function.body if not is_docstring(s)]
    return len(body) == 1 and (isinstance(body[0], ast.Raise) or (
        isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and body[0].value.value is ...))


def parameters(function):
    a = function.args
    plain = [p.arg for p in a.posonlyargs + a.args]
    if plain and plain[0] in ("self", "cls", "mcs"):
        plain = plain[1:]
    plain = [p for p in plain + [p.arg for p in a.kwonlyargs] if not p.startswith("_")]
    return plain + [p.arg for p in (a.vararg, a.kwarg) if p]


def marked(node, lines):
    """What comments in the head of a function or class name, and the text of the first of them that is no good."""
    end = node.body[0].lineno - (0 if node.body[0].lineno == node.lineno else 1)
    names = set()
    for line in lines[node.lineno - 1:end]:
        if "# unused" not in line:
            continue
        found = MARKER.search(line)
        if not found:
            return names, line.strip()
        names |= set(re.split(r"[\s,]+", found[1]))
    return names, None


class Reader:
    """One file: functions in order, with the classes that they stand in."""

    def __init__(self, path, text):
        self.path, self.lines, self.problems = path, text.splitlines(), []
        self.visit(ast.parse(text), set(), set())

    def say(self, node, text):
        self.problems.append(f"{self.path}:{node.lineno}: {node.name}: {text}")

    def head(self, node):
        names, bad = marked(node, self.lines)
        if bad:
            self.say(node, f"the comment gives no names or no reason: {bad}")
        return names

    def visit(self, node, excused, dropped):
        """excused: parameters that the comment of the class around names; dropped: collects those that it drops."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                names, found = self.head(child), set()
                self.visit(child, names, found)
                for name in sorted(names - found):
                    self.say(child, f"the comment excuses '{name}', which no method drops")
                continue
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                dropped |= self.function(child, excused)
            self.visit(child, excused, dropped)

    def function(self, f, excused):
        """Says what f drops without an excuse; returns all that it drops."""
        names, used = self.head(f), used_names(f)
        unused = [] if used is None or exempt(f) else [p for p in parameters(f) if p not in used]
        for name in sorted(names - set(unused)):
            self.say(f, f"the comment excuses '{name}', which is no unused parameter")
        for name in unused:
            if name not in names | excused:
                self.say(f, f"'{name}' is accepted and dropped")
        return set(unused)


def check_arguments(folders=FOLDERS):
    problems = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            problems += Reader(str(path.relative_to(ROOT)), path.read_text()).problems
    return problems


def main():
    problems = check_arguments(sys.argv[1:] or FOLDERS)
    print("\n".join(problems + [f"{len(problems)} arguments are accepted and dropped"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
