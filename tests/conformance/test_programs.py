#!/usr/bin/env python3
"""Runs the programs beside it (programs/) with torch and with cairn in its place; what they print must be
the same: words exactly, numbers within a tolerance. Where PyTorch is not installed, what it printed is read from
programs.golden.

usage: test_programs.py [--record] [PROGRAM...]      --record: write that file (with PyTorch 2.15)
"""
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = HERE / "programs.golden"
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\.\d+|\d+(?:e[-+]?\d+)?)(?![\w])")
# Programs print four digits: the last may be rounded the other way, by one of 5000 at most where they are small.
RELATIVE, ABSOLUTE = 2e-4, 1e-5
NEEDS_NUMPY = {"numpy_interchange"}


def interpreter():
    """A Python that has torch, or this one: (path, has torch, has numpy)."""
    peers = ROOT / "build" / "peers" / "bin" / "python"
    for path in (sys.executable, str(peers)):
        if os.access(path, os.X_OK) and has(path, "torch"):
            return path, True, has(path, "numpy")
    return sys.executable, False, has(sys.executable, "numpy")


def has(path, module):
    return subprocess.run([path, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def run(python, module, programs):
    """(exit status, {program: what it printed}, what was complained)."""
    done = subprocess.run([python, str(HERE / "run_program.py"), module, *map(str, programs)], capture_output=True,
                          text=True, timeout=600, check=False, cwd=ROOT)
    printed = {}
    for part in done.stdout.split("\f")[1:]:
        name, _, text = part.partition("\n")
        printed[name] = text
    return done.returncode, printed, "\n".join(done.stderr.strip().split("\n")[-12:])


def split(line):
    """The words of a line between its numbers, and the numbers."""
    words = [" ".join(w.split()) for w in NUMBER.split(line)]
    return [w.replace(" ", "") for w in words], [float(n) for n in NUMBER.findall(line)]


def differs(mine, theirs):
    """None, or the first place where two outputs differ."""
    mine = re.sub(r"\bcairn\b", "torch", mine).split("\n")
    theirs = theirs.split("\n")
    for i, (a, e) in enumerate(zip(mine, theirs)):
        (words, numbers), (their_words, their_numbers) = split(a), split(e)
        close = len(numbers) == len(their_numbers) and all(
            abs(x - y) <= ABSOLUTE + RELATIVE * abs(y) or x != x and y != y
            for x, y in zip(numbers, their_numbers))
        if words != their_words or not close:
            return f"line {i + 1}:\n    cairn: {a}\n    torch: {e}"
    return None if len(mine) == len(theirs) else f"{len(mine)} lines instead of {len(theirs)}"


def judge(python, program, expected):
    """None, or why the program fails with cairn or prints other things than torch."""
    status, printed, complained = run(python, "cairn", [program])
    if status:
        return f"exit status {status}\n{complained}"
    if program.stem not in expected:
        return f"{GOLDEN.name} has no {program.stem}: run test_programs.py --record with PyTorch installed"
    return differs(printed[program.stem], expected[program.stem])


def main():
    python, torch, numpy = interpreter()
    record = "--record" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--record"]
    programs = [p for p in sorted((HERE / "programs").glob("*.py")) if not names or p.stem in names]
    skipped = [p for p in programs if p.stem in NEEDS_NUMPY and not numpy]
    programs = [p for p in programs if p not in skipped]
    if torch:      # one process for all: importing torch takes longer than the programs
        status, expected, complained = run(python, "torch", programs)
        if status:
            print(f"a program fails with torch itself:\n{complained}\n0 passed, 1 failed, 0 skipped")
            return 1
        if record:
            lines = {name: text.split("\n") for name, text in sorted(expected.items())}
            GOLDEN.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    else:
        kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
        expected = {name: "\n".join(lines) for name, lines in kept.items()}
    if skipped:
        print(f"skipped {len(skipped)}: numpy is not installed")
    reasons = {p.stem: judge(python, p, expected) for p in programs}
    for name, reason in reasons.items():
        if reason:
            print(f"FAIL {name}: {reason}", flush=True)
    failed = sum(reason is not None for reason in reasons.values())
    print(f"{len(reasons) - failed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
