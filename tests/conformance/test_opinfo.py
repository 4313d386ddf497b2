"""Conformance as a test: a few of PyTorch's OpInfo samples per op; all of them, and the report, with CAIRN_LONG=1."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
LONG = os.environ.get("CAIRN_LONG") == "1"
ARGUMENTS = ["--report", str(HERE.parents[1] / "docs" / "CONFORMANCE.md")] if LONG else ["--sample", "3"]

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, str(HERE / "opinfo.py"), "--first-reason", *ARGUMENTS])
