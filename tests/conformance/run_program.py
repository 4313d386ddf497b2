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

PARTS = ["nn", "nn.functional", "nn.init", "nn.parameter", "nn.modules", "nn.utils", "nn.utils.rnn", "optim",
         "optim.lr_scheduler", "optim.swa_utils", "linalg", "special", "autograd", "autograd.functional", "testing",
         "random", "cuda", "cuda.amp", "amp", "utils", "utils.data", "utils.checkpoint", "utils.tensorboard",
         "utils.dlpack"]


def stand_in(name):
    """Makes `import torch`, and imports of its parts, give the package."""
    module = importlib.import_module(name)
    sys.modules["torch"] = module
    for part in PARTS:
        try:
            sys.modules[f"torch.{part}"] = importlib.import_module(f"{name}.{part}")
        except ImportError:
            continue


def main():
    name, *programs = sys.argv[1:]
    if name != "torch":
        root = pathlib.Path(__file__).resolve().parents[2]
        sys.path.append(str(pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", root / "build" / "default")) / "python"))
        stand_in(name)
    sys.path.pop(0)
    for program in programs:
        print(f"\f{pathlib.Path(program).stem}", flush=True)
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
