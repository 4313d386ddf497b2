"""Writes tests/python/golden/SUITE.golden: what torch returns in the suites that compare with it through cases.py, for
machines without PyTorch. Made with PyTorch 2.15.

    build/peers/bin/python tests/python/record.py [SUITE...]       SUITE: test_optim, ...; default: all
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main():
    suites = [p for p in sorted(HERE.glob("test_*.py")) if "from cases import" in p.read_text(encoding="utf-8")
              and (not sys.argv[1:] or p.stem in sys.argv[1:])]
    build = os.environ.get("CAIRN_BUILD_DIR", str(ROOT / "build" / "default"))
    env = dict(os.environ, CAIRN_RECORD="1", CAIRN_BUILD_DIR=build, CAIRN_SOURCE_DIR=str(ROOT),
               PYTHONPATH=f"{build}/python", PYTHONDONTWRITEBYTECODE="1")
    failed = [p.stem for p in suites
              if subprocess.run([sys.executable, str(p)], cwd=ROOT, env=env, check=False).returncode]
    print("recorded: " + " ".join(p.stem for p in suites) + (f"; failed: {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
