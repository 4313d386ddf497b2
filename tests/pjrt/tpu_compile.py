"""Compiles what cairn gives a TPU by libtpu's own compiler, without a TPU: shows what that compiler takes.

    python tests/pjrt/tpu_compile.py [TOPOLOGY] [TEXT...]

libtpu comes from PyPI (`pip install libtpu`). Without texts, those of tests/pjrt/test_pjrt_training are taken: it is run
with the plugin for tests, which writes each text that it is given into the folder PJRT_TEST_DUMP. Not part of `make test`.
"""

import glob
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", "build/default")).resolve()


def find_library():
    asked = os.environ.get("TPU_LIBRARY_PATH")
    spec = None if asked else importlib.util.find_spec("libtpu")
    return asked or (spec and os.path.join(os.path.dirname(spec.origin), "libtpu.so"))


def dump(folder):
    env = dict(os.environ, PJRT_TEST_DUMP=folder, PJRT_TEST_PYTHON=os.environ.get("PJRT_TEST_PYTHON", sys.executable))
    subprocess.run([str(BUILD / "tests" / "pjrt" / "test_pjrt_training")], env=env, stdout=subprocess.DEVNULL,
                   check=False)
    return sorted(glob.glob(os.path.join(folder, "*.mlir")))


def main():
    library = find_library()
    if not library:
        print("no libtpu: pip install libtpu, or set TPU_LIBRARY_PATH")
        return 2
    topology = sys.argv[1] if len(sys.argv) > 1 else "v5e:2x2"
    with tempfile.TemporaryDirectory() as folder:
        texts = sys.argv[2:] or dump(folder)
        program = os.path.join(folder, "compile")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-o", program,
                        str(HERE / "tpu" / "compile.c"), "-ldl"], check=True)
        env = dict(os.environ, TPU_SKIP_MDS_QUERY="1", TPU_LOG_DIR=folder)
        return subprocess.run([program, library, topology] + texts, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
