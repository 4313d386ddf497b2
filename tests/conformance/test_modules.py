"""PyTorch's database of modules as a test: float32, and with CAIRN_LONG=1 float64 as well."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = ["float32", "float64"] if os.environ.get("CAIRN_LONG") == "1" else ["float32"]

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, str(HERE / "modules.py"), "--dtypes", *DTYPES])
