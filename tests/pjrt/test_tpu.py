"""libtpu's own compiler takes what cairn gives a TPU: every op sample's program, forward and gradient, and whole
training steps, on one device and split over four. Runs in `make check` (CAIRN_LONG=1) where libtpu is installed; no TPU
is needed."""

import importlib.util
import os
import sys

import tpu_compile

SKIPPED = 77  # tools/tally.py


def why_not():
    if not tpu_compile.find_library():
        return "libtpu is not installed"
    if not os.environ.get("CAIRN_LONG"):
        return "programs for TPUs are compiled by make check alone"
    if not (tpu_compile.BUILD / "tests" / "ops" / "test_ops").exists():
        return "the tests of ops are not built"
    if importlib.util.find_spec("numpy") is None:
        return "numpy is not installed"
    return None


def main():
    why = why_not()
    if why:
        print("skipped: " + why)
        return SKIPPED
    library = tpu_compile.find_library()
    count, wrong = tpu_compile.samples(library)
    for sample, reason in wrong:
        print("%s: %s" % (sample, reason))
    left_out = 0 if tpu_compile.has_room() else len(tpu_compile.LARGE)
    rows = tpu_compile.steps(library, ("MLP", "CNN", "LSTM") if left_out else ())
    made = [figures for row in rows for figures in row[3].values()]
    bad = sum(isinstance(figures, str) for figures in made)
    for _ in range(left_out):
        print("skipped: a TPU's compiler needs 32 GB of memory for large steps")
    print("%d passed, %d failed, %d skipped" % (count - len(wrong) + len(made) - bad, len(wrong) + bad, left_out))
    return len(wrong) + bad > 0


if __name__ == "__main__":
    sys.exit(main())
