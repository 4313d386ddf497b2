"""Who imports whom inside of the package: the core stands without cairn.keras, which stands on it."""
import ast
import importlib.util
import pathlib
import subprocess
import sys
import unittest

import cairn

ROOT = pathlib.Path(cairn.__file__).parent


def files():
    """The package's Python files by the names of their modules."""
    made = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("cairn", *path.relative_to(ROOT).with_suffix("").parts)
        made[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return made


FILES = files()
CORE = [name for name in FILES if name != "cairn.keras" and not name.startswith("cairn.keras.")]


def imported(name):
    """The modules that the statements of a file name, wherever they stand, as (line, module)."""
    path = FILES[name]
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # what a type checker alone sees is imported by nobody
    unseen = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYP" in ast.dump(node.test)
              for part in node.body for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level \
                else node.module
            yield node.lineno, home
            yield from ((node.lineno, home + "." + alias.name) for alias in node.names)


class Imports(unittest.TestCase):
    def test_the_core_names_no_keras(self):
        self.assertGreater(len(CORE), 100)
        wrong = ["%s:%d imports %s" % (name, line, what) for name in CORE for line, what in imported(name)
                 if what == "cairn.keras" or what.startswith("cairn.keras.")]
        self.assertEqual(wrong, [])

    def test_the_reader_sees_imports(self):
        """The check above would see one: the files of cairn.keras name the core."""
        self.assertIn("cairn._training.batches", [what for _, what in imported("cairn.keras.models")])

    def test_the_core_loads_no_keras(self):
        code = ("import importlib, sys\n"
                "for name in sys.argv[1:]:\n"
                "    importlib.import_module(name)\n"
                "model = sys.modules['cairn'].Model(sys.modules['cairn'].nn.Linear(2, 2))\n"
                "model.compile('adam', 'cross_entropy', metrics=['accuracy', 'f1'])\n"
                "x = sys.modules['cairn'].ones(4, 2)\n"
                "model.fit(x, sys.modules['cairn'].zeros(4).long(), verbose=0)\n"
                "model.summary((2,), print_fn=lambda text: None)\n"
                "assert not [n for n in sys.modules if n.startswith('cairn.keras')]\n"
                "import cairn\n"
                "assert cairn.keras.layers.Dense\n")  # and there when it is asked for
        done = subprocess.run([sys.executable, "-c", code, *CORE], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
