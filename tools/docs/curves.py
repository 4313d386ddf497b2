#!/usr/bin/env python3
"""Draws docs/images/loss.svg: a GPT over characters trained by cairn and by PyTorch, same start, same batches.

usage: tools/docs/curves.py TEXT [STEPS]      TEXT: tinyshakespeare.txt or any other, also .gz; STEPS: 300

Runs build/default/tests/train/test_char_gpt (examples/char_gpt.c) and repeats it in PyTorch as
tests/train/test_char_gpt_live.py does. Wants a Python with torch, NumPy and safetensors (build/peers).
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "train"))
import test_char_gpt_live as live  # noqa: E402  (starts again with build/peers where torch is missing)
from svg import Drawing  # noqa: E402

OURS, THEIRS, GRID = "#e64a19", "#37474f", "#dddddd"
LEFT, TOP, WIDTH, HIGH, LOW, GAP = 70, 50, 640, 260, 90, 60


def run(text, steps):
    """The losses of each step: cairn's, PyTorch's."""
    program = live.BUILD / "tests" / "train" / "test_char_gpt"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, text, str(steps)], check=True)
        with live.numpy.load(pathlib.Path(folder) / "run.npz") as file:
            told = dict(file)
        weights = live.load_file(pathlib.Path(folder) / "start.safetensors")
    return [float(x) for x in told["losses"]], list(live.losses_of(weights, told))


def axes(d, top, height, ticks, label, place):
    for value, text in ticks:
        y = place(value)
        d.line([(LEFT, y), (LEFT + WIDTH, y)], GRID, 1)
        d.text(LEFT - 8, y + 4, text, 11, "#555", "end")
    d.text(LEFT, top - 10, label, 12, "#222", "start", "bold")
    d.line([(LEFT, top), (LEFT, top + height), (LEFT + WIDTH, top + height)], "#999", 1)


def draw(ours, theirs):
    n = len(ours)
    d = Drawing(LEFT + WIDTH + 30, TOP + HIGH + GAP + LOW + 50, "Training losses of cairn and PyTorch")

    def across(step):
        return LEFT + WIDTH * step / (n - 1)

    low, high = int(min(ours) * 2) / 2, int(max(ours) * 2 + 1) / 2

    def loss_y(v):
        return TOP + HIGH * (high - v) / (high - low)

    halves = [low + i / 2 for i in range(int((high - low) * 2) + 1)]
    d.text(LEFT, 17, "A GPT over characters, the same start and the same batches", 14, "#222", "start", "bold")
    axes(d, TOP, HIGH, [(v, f"{v:.1f}") for v in halves], "loss of each step, nats a character", loss_y)
    d.line([(across(i), loss_y(v)) for i, v in enumerate(ours)], OURS, 3.5)
    d.line([(across(i), loss_y(v)) for i, v in enumerate(theirs)], THEIRS, 1.2, "5 3")
    for i, (name, colour, dash, width) in enumerate((("cairn", OURS, "", 3.5), ("PyTorch", THEIRS, "5 3", 1.2))):
        y = TOP + 18 + 20 * i
        d.line([(LEFT + WIDTH - 110, y), (LEFT + WIDTH - 75, y)], colour, width, dash)
        d.text(LEFT + WIDTH - 68, y + 4, name, 12, "#222", "start")
    off = [abs(a - b) / b for a, b in zip(ours, theirs)]
    below = TOP + HIGH + GAP

    def off_y(v):
        power = max(-8.0, min(-2.0, live.math.log10(max(v, 1e-8))))
        return below + LOW * (-2 - power) / 6

    axes(d, below, LOW, [(10.0 ** p, f"1e{p}") for p in (-8, -6, -4, -2)], "relative difference", off_y)
    d.line([(across(i), off_y(v)) for i, v in enumerate(off)], "#1565c0", 1.5)
    for step in range(0, n + 1, max(1, n // 6)):
        d.text(across(min(step, n - 1)), below + LOW + 18, str(step), 11, "#555")
    d.text(LEFT + WIDTH / 2, below + LOW + 38, "step", 12, "#555")
    return d.svg()


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    began = time.monotonic()
    ours, theirs = run(os.path.abspath(sys.argv[1]), steps)
    (ROOT / "docs" / "images" / "loss.svg").write_text(draw(ours, theirs), encoding="utf-8")
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"{len(ours)} steps, {time.monotonic() - began:.0f} s; last losses {ours[-1]:.4f} and {theirs[-1]:.4f}; "
          f"largest relative difference {worst:.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
