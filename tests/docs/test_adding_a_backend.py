#!/usr/bin/env python3
"""Builds the plugin of docs/ADDING_A_BACKEND.md against the public headers and runs the page's program on its device.

Each step is one test; the last line is `N passed, N failed`.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import blocks

BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", blocks.ROOT / "build" / "default"))
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{blocks.ROOT}/include"]


def run(name, command, folder, env=None, expect=()):
    """Whether the command works and prints all of `expect`."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **(env or {})}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    ok = done.returncode == 0 and all(text in done.stdout for text in expect)
    print(f"{'ok  ' if ok else 'FAIL'}  {name}")
    if not ok:
        print(f"exit status {done.returncode}\n{done.stdout}")
    return ok


def main():
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory(prefix="cairn-backend-") as folder:
        for block in blocks.read(blocks.ROOT / "docs" / "ADDING_A_BACKEND.md"):
            if block.file:
                blocks.apply(block, pathlib.Path(folder))
        link = [f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-lcairn"]
        here = {"CAIRN_PLUGIN_PATH": folder}
        results = [
            run("the plugin builds", [compiler, *FLAGS, "-fPIC", "-shared", "toy.c", "-o", "libcairn_toy.so"], folder),
            run("the program builds", [compiler, *FLAGS, "try.c", "-o", "try", *link], folder),
            run("it runs", ["./try"], folder, here, ["gelu(1) = 0.8413"]),
            run("own kernel and fallback are picked", ["./try"], folder, {**here, "CAIRN_VERBOSE": "dispatch"},
                ["add: toy/toy", "gelu: toy/cpu"]),
        ]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
