"""Random calls of every op against PyTorch: a few of each; many with CAIRN_LONG=1."""
import os
import pathlib
import sys

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)
if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 15):
    print(f"skipped: details are those of PyTorch 2.15, not {torch.__version__}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
DRAWS = "60" if os.environ.get("CAIRN_LONG") == "1" else "5"

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, str(HERE / "random_calls.py"), "--draws", DRAWS])
