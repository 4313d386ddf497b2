#!/usr/bin/env python3
"""Compiles every public header alone: as C99 -pedantic, C11 and C++17, with gcc and, where installed,
clang. A header that leans on another one being included first, or warns in a user's program, fails here.
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror", "-fsyntax-only"]
MODES = [
    ("gcc", ["-x", "c", "-std=c99", "-Wstrict-prototypes"]),
    ("gcc", ["-x", "c", "-std=c11", "-Wstrict-prototypes"]),
    ("g++", ["-x", "c++", "-std=c++17"]),
    ("clang", ["-x", "c", "-std=c99", "-Wstrict-prototypes"]),
    ("clang++", ["-x", "c++", "-std=c++17"]),
]


def compile_one(header, compiler, flags):
    """None when it compiles cleanly, else what the compiler said."""
    text = f"#include <{header}>\n#include <{header}>\nint main(void);\nint main(void) {{ return 0; }}\n"
    if "c++" in flags:
        text = f"#include <{header}>\n#include <{header}>\nint main() {{ return 0; }}\n"
    done = subprocess.run([compiler, *flags, *WARN, f"-I{INCLUDE}", "-"], input=text,
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def main():
    headers = sorted(str(p.relative_to(INCLUDE)) for p in INCLUDE.rglob("*.h"))
    jobs, skipped = [], 0
    for compiler, flags in MODES:
        if shutil.which(compiler) is None:
            print(f"skipped {len(headers)}: {compiler} is not installed")
            skipped += len(headers)
            continue
        jobs += [(header, compiler, flags) for header in headers]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, said in zip(jobs, pool.map(lambda j: compile_one(*j), jobs)):
            if said is not None:
                failed += 1
                print(f"FAILED: <{job[0]}> with {job[1]} {' '.join(job[2])}\n{said}")
    line = f"{len(jobs) - failed} passed, {failed} failed"
    print(line + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
