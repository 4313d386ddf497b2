#!/usr/bin/env python3
"""Draws docs/images/architecture.svg: the levels of cairn, the way of a graph, what the op table feeds, the backends.

usage: tools/docs/architecture.py [--check]      --check: write nothing, fail where the picture would change
"""
import pathlib
import sys

sys.dont_write_bytecode = True
from svg import Drawing  # noqa: E402

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "images" / "architecture.svg"
PROGRAMS, TRAINING, CORE, MIDDLE, DEVICES, TABLE = "#e8eaf6", "#e0f2f1", "#fff3e0", "#f3e5f5", "#eceff1", "#fbe9e7"
LINE = "#90a4ae"


def row(d, x, y, w, h, fill, title, boxes):
    """A level: a band with its name, and boxes of the same width in it. A box: (name, below it)."""
    d.box(x, y, w, h, fill, LINE)
    d.text(x + 14, y + 22, title, 14, anchor="start", weight="bold")
    gap = 10
    width = (w - gap) / len(boxes) - gap
    for i, (name, below) in enumerate(boxes):
        left = x + gap + i * (width + gap)
        d.box(round(left, 1), y + 34, round(width, 1), h - 46, "#ffffff", LINE)
        middle = round(left + width / 2, 1)
        d.text(middle, y + 34 + (h - 46) / 2 - 2, name, 13, weight="bold")
        d.text(middle, y + 34 + (h - 46) / 2 + 15, below, 11, "#555")


def arrow(d, *points):
    d.line(points, end=True)


def picture():
    d = Drawing(980, 752, "How cairn is built: programs, training stack, core, graphs, backends; the op table")
    row(d, 20, 20, 640, 96, PROGRAMS, "Programs", [
        ("C", "cairn/cairn.h"), ("Python", "import cairn"), ("C++", "cairn.hpp"), ("cairn", "the command")])
    row(d, 20, 152, 640, 96, TRAINING, "Training: made of the public API alone", [
        ("nn", "layers, losses"), ("optim", "optimisers, rates"), ("data", "sets, loaders"),
        ("formats", "files both ways"), ("train, zoo", "loops, networks")])
    core(d)
    middle(d)
    row(d, 20, 586, 640, 96, DEVICES, "Backends: memory, order of work, kernels by op name", [
        ("CPU", "AVX2, AVX-512, NEON"), ("CUDA", "a plugin"), ("mirror", "a device for tests"), ("yours", "a plugin")])
    d.text(340, 716, "libc, libm, threads: nothing else is linked", 12, "#555")
    for top, bottom in ((116, 152), (248, 284), (418, 454), (550, 586)):
        arrow(d, (340, top), (340, bottom))
    table(d)
    return d.svg()


def core(d):
    d.box(20, 284, 640, 134, CORE, LINE)
    d.text(34, 306, "Core: every op goes through one door", 14, anchor="start", weight="bold")
    steps = (("apply", "infer shape, type", 30, 118), ("modes", "autocast, autograd,", 168, 150),
             ("dispatch", "who takes it, in order", 338, 150), ("kernel", "or a recorded node", 508, 142))
    for i, (name, below, x, w) in enumerate(steps):
        d.box(x, 318, w, 62, "#ffffff", LINE)
        d.text(x + w / 2, 342, name, 13, weight="bold")
        d.text(x + w / 2, 359, below, 11, "#555")
        if name == "modes":
            d.text(x + w / 2, 373, "check, capture", 11, "#555")
        if i:
            before = steps[i - 1]
            arrow(d, (before[2] + before[3], 349), (x, 349))
    d.text(340, 404, "autograd: each gradient is made of ops again, recorded and captured like all others", 12, "#555")


def middle(d):
    """Eager calls go straight to a kernel; captured ones come here."""
    boxes = (("capture", "infer, no data"), ("graph", "text, files, replay"), ("passes", "fewer nodes, groups"),
             ("plan", "sizes, memory"), ("run", "the same kernels"))
    row(d, 20, 454, 640, 96, MIDDLE, "The middle: one graph for whatever is captured", boxes)
    for i in range(1, len(boxes)):
        right = 30 + 126 * i
        arrow(d, (right - 10, 513), (right, 513))


def table(d):
    d.box(720, 284, 240, 134, TABLE, "#ff8a65")
    d.text(840, 310, "The op table", 15, weight="bold")
    for i, text in enumerate(("one row an op: signature, doc,", "shapes, gradient, decomposition;",
                              "layers and optimisers are", "described by signatures too")):
        d.text(840, 336 + 19 * i, text, 12, "#444")
    arrow(d, (720, 361), (660, 361))
    outputs = (("tools/opgen", "C functions, options by name"), ("tools/bindgen python", "functions, methods, stubs"),
               ("tools/bindgen cpp", "C++ functions"), ("tools/bindgen reference", "pages of this site"))
    for i, (name, what) in enumerate(outputs):
        y = 20 + 58 * i
        d.box(720, y, 240, 48, "#ffffff", "#ff8a65")
        d.text(840, y + 20, name, 13, weight="bold")
        d.text(840, y + 37, what, 11, "#555")
    arrow(d, (840, 284), (840, 244))
    d.box(720, 454, 240, 96, "#ffffff", "#ff8a65")
    d.text(840, 480, "Tests", 13, weight="bold")
    said = ("samples in PyTorch's words,", "PyTorch's own samples,", "gradients, layouts, threads, memory")
    for i, text in enumerate(said):
        d.text(840, 500 + 17 * i, text, 11, "#555")
    arrow(d, (840, 418), (840, 454))


def main():
    text = picture()
    if "--check" in sys.argv:
        return 0 if PATH.is_file() and PATH.read_text(encoding="utf-8") == text else 1
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
