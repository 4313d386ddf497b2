#!/usr/bin/env python3
"""The documentation site: it builds without a warning, no link is dead, and what its reference names exists in Python.

The checker of links is itself checked first. Building wants mkdocs (`make docs` installs it into build/docs-env) and is
skipped without. Each step is one test; the last line is `N passed, N failed[, N skipped]`.
"""
import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
sys.path.insert(0, str(ROOT / "tools" / "docs"))
links = importlib.import_module("links")
MISSING = 2  # what tools/docs --no-install returns where mkdocs is not installed
GOOD = "<a href='b.html#here'>b</a><a href='b.html'>b</a><a href='#top'>up</a><a href='https://example.org/x'>out</a>"
BAD = ("<a href='c.html'>gone</a><a href='b.html#nowhere'>b</a><img src='no.png'><a href='../out.html'>out</a>"
       "<a href='#nothing'>here</a>")
# Prints the names of a list that the package does not have. A method of a tensor is written t.NAME.
NAMES = """
import cairn, sys
t = cairn.zeros(2)
def there(name):
    value = {"cairn": cairn, "t": t}[name.split(".")[0]]
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
print(" ".join(n for n in sys.stdin.read().split() if not there(n)))
"""


class Steps:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def report(self, name, problem):
        self.passed += problem is None
        self.failed += problem is not None
        print(f"{'ok  ' if problem is None else 'FAIL'}  {name}" + (f"\n{problem}" if problem else ""), flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip  {name}\nskipped: {why}")


def checker_sees(folder):
    """What is wrong with the checker; None when it finds all of BAD and nothing of GOOD."""
    (folder / "b.html").write_text("<h1 id='here'>b</h1>", encoding="utf-8")
    (folder / "a.html").write_text(GOOD, encoding="utf-8")
    problems, outside, followed, count = links.check(folder)
    if problems or outside != {"https://example.org/x"} or (followed, count) != (3, 2):
        return f"good links: {problems}, {outside}, {followed} of {count} pages"
    (folder / "a.html").write_text(BAD, encoding="utf-8")
    problems = links.check(folder)[0]
    return None if len(problems) == 5 else f"of 5 dead links it found {problems}"


def run(*command, **more):
    return subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)


def names(steps, pages):
    """Every Python name of the reference is in the package."""
    if not (BUILD / "python" / "cairn" / "_C.abi3.so").is_file():
        steps.skip("names of the reference in Python", "the Python package is not built")
        return
    text = "\n".join(p.read_text(encoding="utf-8") for p in sorted((pages / "reference").rglob("*.md")))
    rows = re.findall(r"^\| Python \| (.*) \|$", text, re.M)
    said = [n for row in rows for n in re.findall(r"`((?:cairn|t)\.[\w.]+)`", row)]
    done = run(sys.executable, "-B", "-c", NAMES, input="\n".join(said),
               env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    missing = done.stdout.strip()
    in_cpp = len(re.findall(r"^\| C\+\+ \| `cn::", text, re.M))  # those that its headers declare: nearly all
    steps.report(f"{in_cpp} names of the reference are in C++", None if in_cpp > 650 else "few")
    steps.report(f"{len(said)} names of the reference are in Python",
                 None if len(said) > 900 and not missing and not done.returncode else f"missing: {missing}")


def main():
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="cairn-site-") as name:
        folder = pathlib.Path(name)
        (folder / "small").mkdir()
        steps.report("the checker of links", checker_sees(folder / "small"))
        drawn = run(sys.executable, "-B", "tools/docs/architecture.py", "--check")
        steps.report("docs/images/architecture.svg is up to date",
                     f"run tools/docs/architecture.py\n{drawn.stdout}" if drawn.returncode else None)
        table = BUILD / "ops.json"
        if not table.is_file():
            steps.skip("the site", f"{table} is not built")
        else:
            done = run(sys.executable, "-B", "tools/docs", "--no-install", "--json", str(table), "--site",
                       str(folder / "site"))
            if done.returncode == MISSING:
                steps.skip("the site", "mkdocs is not installed (make docs)")
                run(sys.executable, "-B", "tools/bindgen", "reference", "--json", str(table), "--out",
                    str(folder / "site-pages"))
            else:
                steps.report("the site builds and has no dead link", done.stdout if done.returncode else None)
            names(steps, folder / "site-pages")
    print(f"{steps.passed} passed, {steps.failed} failed" + (f", {steps.skipped} skipped" if steps.skipped else ""))
    return 1 if steps.failed else 0


if __name__ == "__main__":
    sys.exit(main())
