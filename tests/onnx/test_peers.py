#!/usr/bin/env python3
"""The table of operators in docs is up to date; and where the packages are installed: all of ONNX's own cases, and
random calls beside onnxruntime."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", HERE.parents[1] / "build" / "default"))
RUNS = [
    (("onnx", "numpy", "ml_dtypes"), ["conformance.py"]),
    (("onnx", "onnxruntime"), ["differ.py", "--count", "20" if os.environ.get("CAIRN_LONG") == "1" else "4"]),
]


def run(command):
    """(passed, failed) of a script's last line."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(BUILD / "python"), os.environ.get("PYTHONPATH")))),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.search(r"(\d+) passed, (\d+) failed\s*$", done.stdout)
    if said is None or said[2] != "0":
        print(done.stdout[-4000:], done.stderr[-2000:])
    return (int(said[1]), int(said[2])) if said else (0, 1)


def main():
    table = subprocess.run([sys.executable, str(HERE / "table.py"), "--check"], check=False)
    passed, failed = int(table.returncode == 0), int(table.returncode != 0)
    skipped = 0
    for packages, command in RUNS:
        missing = next((name for name in packages if importlib.util.find_spec(name) is None), None)
        if missing:
            print("skipped: the package %s is not installed" % missing)
            skipped += 1
            continue
        p, f = run(command)
        passed, failed = passed + p, failed + f
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
