#!/usr/bin/env python3
"""Drops the result of every function that bears CN_MUST_USE, as C99 and as C++17, with gcc and, where installed, clang:
with -Werror each one must stop the compiler, and with its result used none may.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lint_headers  # pylint: disable=wrong-import-position

MODES = [("gcc", "c99"), ("g++", "c++17"), ("clang", "c99"), ("clang++", "c++17")]


class Headers:
    """The public headers, in the form that tools/lint has them."""
    text = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").split("\n")
            for p in sorted((ROOT / "include").rglob("*.h"))}


FIRST = len(Headers.text) + 1


def marked():
    """(name, result type, parameters as declared, their names) of each function with the mark."""
    for _, m in lint_headers.declarations(Headers):
        if not m["must"]:
            continue
        params = " ".join(m["params"].split())
        flat = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"\1", params)  # a function's pointer: its name
        names = [] if params == "void" else [re.search(r"(\w+)(?:\[\d*\])?$", p.strip())[1] for p in flat.split(",")]
        yield m["name"], m["type"].strip(), params, names


def program(functions, used):
    """One function a line, from line FIRST on."""
    lines = [f"#include <{path[len('include/'):]}>" for path in Headers.text]
    for name, result, params, names in functions:
        call = f"{name}({', '.join(names)});"
        kind, body = (result, "return " + call) if used else ("void", call)
        lines.append(f"{kind} of_{name}({params}); {kind} of_{name}({params}) {{ {body} }}")
    return "\n".join(lines) + "\n"


def compiler_says(compiler, standard, text):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / ("x.cpp" if "++" in standard else "x.c")
        source.write_text(text, encoding="utf-8")
        limit = "-fmax-errors=0" if compiler.startswith("g") else "-ferror-limit=0"
        # gcc finds dropped results behind the syntax: -fsyntax-only would not do
        return subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", limit, "-S", "-o", os.devnull,
                               f"-I{ROOT / 'include'}", str(source)], capture_output=True, text=True, check=False)


def problems(compiler, standard, functions):
    said = compiler_says(compiler, standard, program(functions, used=False))
    stopped = {int(line) for line in re.findall(r":(\d+):\d+: error: ignoring return value", said.stderr)}
    for line, (name, *_) in enumerate(functions, FIRST):
        if said.returncode == 0 or line not in stopped:
            yield f"{name}: its result can be dropped"
    said = compiler_says(compiler, standard, program(functions, used=True))
    if said.returncode:
        yield "not with used results: " + said.stderr[:1000]


def main():
    functions = list(marked())
    passed = failed = skipped = 0
    for compiler, standard in MODES:
        if shutil.which(compiler) is None:
            print(f"skipped 1: {compiler} is not installed")
            skipped += 1
            continue
        wrong = list(problems(compiler, standard, functions))
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f"FAILED: {compiler} -std={standard}\n" + "\n".join(wrong))
    kept = {name for name, *_ in functions}
    if len(functions) < 200 or not {"cn_keep", "cn_module_make", "cn_nn_linear_with", "cn_loader_next"} <= kept:
        failed += 1
        print(f"FAILED: {len(functions)} functions bear the mark: are the headers read?")
    else:
        passed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
