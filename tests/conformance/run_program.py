#!/usr/bin/env python3
"""Runs programs that import torch with another package in its place.

usage: run_program.py MODULE PROGRAM...      MODULE: torch, or cairn as if it were torch

Before the output of each program comes a form feed and its name on a line; a program that fails ends the run.
"""
import importlib
import os
import pathlib
import runpy
import sys


def main():
    name, *programs = sys.argv[1:]
    if name != "torch":
        root = pathlib.Path(__file__).resolve().parents[2]
        sys.path.append(str(pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", root / "build" / "default")) / "python"))
        importlib.import_module(name).as_torch()
    sys.path.pop(0)
    for program in programs:
        print(f"\f{pathlib.Path(program).stem}", flush=True)
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
