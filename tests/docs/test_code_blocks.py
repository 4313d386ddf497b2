#!/usr/bin/env python3
"""Compiles every C and C++ block of README.md and docs/, runs those that are programs, runs every Python block where
the Python package is built, and follows every link between pages.

Blocks that name a file are parts of a larger whole and are tested by the script of their page. Each block and each page's
links are one test; the last line is `N passed, N failed`. A block finds "model.onnx" in its folder, a small network of images
of 2 channels and 5x5 pixels.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import blocks

BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", blocks.ROOT / "build" / "default"))
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", f"-I{blocks.ROOT}/include"]
FLAGS_CPP = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{blocks.ROOT}/include",
             f"-I{blocks.ROOT}/bindings/cpp/include"]
LINK = [f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-lcairn", "-lm"]


def check(command, folder):
    """What went wrong; None when nothing did."""
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=300)
    return None if done.returncode == 0 else f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}"


def compile_and_run(block, folder):
    source = pathlib.Path(folder) / "block.c"
    text = block.text
    if not text.startswith("#include") and "\n#include" not in text:
        text = "#include <cairn/cairn.h>\n" + text
    source.write_text(text, encoding="utf-8")
    compiler = os.environ.get("CC", "cc")
    if not re.search(r"^int main\(", text, re.M):
        return check([compiler, *FLAGS, "-fsyntax-only", str(source)], folder)
    return check([compiler, *FLAGS, str(source), "-o", "block", *LINK], folder) or check(["./block"], folder)


def compile_and_run_cpp(block, folder):
    source = pathlib.Path(folder) / "block.cpp"
    source.write_text(block.text, encoding="utf-8")
    compiler = os.environ.get("CXX", "c++")
    if not re.search(r"^int main\(", block.text, re.M):
        return check([compiler, *FLAGS_CPP, "-fsyntax-only", str(source)], folder)
    return check([compiler, *FLAGS_CPP, str(source), "-o", "block", *LINK], folder) or check(["./block"], folder)


def run_python(block, folder):
    source = pathlib.Path(folder) / "block.py"
    source.write_text(block.text, encoding="utf-8")
    return check(["env", f"PYTHONPATH={BUILD}/python", sys.executable, str(source)], folder)


def broken_links(page):
    """Links to files that do not exist, and names of files of the tree in code quotes that do not."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not (page.parent / target).exists():
            yield f"{page.name}: no such file: {target}"
    if page.name == "CONTRIBUTING.md":
        return  # its table names files that one may add
    for name in re.findall(r"`((?:src|include|tests|tools|docs|examples|bench|cmake|bindings)/[\w./-]+\.\w+)`", text):
        if not (blocks.ROOT / name).exists() and "FAMILY" not in name:
            yield f"{page.name}: no such file: {name}"


def main():
    results = []

    def report(name, problem):
        results.append(problem is None)
        print(f"{'ok  ' if problem is None else 'FAIL'}  {name}" + (f"\n{problem}" if problem else ""), flush=True)

    with tempfile.TemporaryDirectory(prefix="cairn-docs-") as folder:
        shutil.copy(blocks.ROOT / "tests" / "fuzz" / "seeds" / "onnx" / "network.onnx", f"{folder}/model.onnx")
        for page in blocks.pages():
            for block in blocks.read(page):
                if block.language == "c" and not block.file:
                    report(block.name(), compile_and_run(block, folder))
                elif block.language == "cpp" and not block.file and shutil.which(os.environ.get("CXX", "c++")):
                    report(block.name(), compile_and_run_cpp(block, folder))
                elif block.language == "python" and not block.file and (BUILD / "python" / "cairn").is_dir():
                    report(block.name(), run_python(block, folder))
            problems = list(broken_links(page))
            report(f"links of {page.name}", "\n".join(problems) if problems else None)
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
