"""The part of the PJRT C API that the plugin declares itself is laid out as in the vendor's header.

The header is looked for in CAIRN_PJRT_HEADER, and in an installed TensorFlow, whose package has it; without one the
test is skipped. Nothing of TensorFlow is imported.
"""

import glob
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def find_header():
    asked = os.environ.get("CAIRN_PJRT_HEADER")
    if asked:
        return asked
    for folder in sys.path:
        for found in glob.glob(os.path.join(folder, "tensorflow", "include", "**", "pjrt_c_api.h"), recursive=True):
            return found
    return None


def main():
    header = find_header()
    if not header:
        print("skipped: no pjrt_c_api.h (tensorflow-cpu has it, or set CAIRN_PJRT_HEADER)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "offsets")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-w", "-I", os.path.dirname(header), "-o", program,
                        str(HERE / "header" / "offsets.c")], check=True)
        run = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    print(run.stdout, end="")
    print("%d passed, %d failed" % (run.returncode == 0, run.returncode != 0))
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
