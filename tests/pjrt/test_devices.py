"""`cairn devices` with a PJRT plugin, and what is said of plugins that cannot be used: their path, and why.

Each case is a process of its own, because a plugin is opened once.
"""

import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", "build/default")).resolve()
PLUGIN = BUILD / "tests" / "pjrt" / "libfake_pjrt.so"

# What the environment has besides CAIRN_PJRT; what is printed.
CASES = [
    ({}, ["pjrt:0      a device for tests", "  arch      fake 1.0", "  memory    1.0 GB", "pjrt:1      a device"]),
    ({"CAIRN_PJRT": "/nowhere/libtpu.so"}, ["pjrt", "no device: /nowhere/libtpu.so: ", "No such file"]),
    ({"CAIRN_PJRT": str(BUILD / "libcairn.so")}, ["no device: " + str(BUILD / "libcairn.so"), "GetPjrtApi"]),
    ({"PJRT_TEST_VERSION": "12"},
     ["libfake_pjrt.so: it has version 0.12 of the PJRT C API; 0.40 or a later 0.x is needed"]),
    ({"PJRT_TEST_TABLE": "short"}, ["libfake_pjrt.so: functions are missing from its table"]),
    ({"PJRT_TEST_TABLE": "holes"}, ["libfake_pjrt.so: functions are missing from its table"]),
    ({"PJRT_TEST_CLIENT": "No jellyfish device found."},
     ["libfake_pjrt.so: no device can be opened: No jellyfish device found. (code 9)"]),
    ({"CAIRN_PJRT_OPTIONS": "bogus=1"}, ["Unexpected option name passed to PJRT_Client_Create (code 3)"]),
    ({"CAIRN_PJRT_OPTIONS": "preallocate"}, ["is name=value, not preallocate"]),
    ({"CAIRN_PJRT_OPTIONS": ",".join("o%d=1" % i for i in range(17))}, ["more than 16 options, at o16"]),
    ({"CAIRN_PJRT_PARTITIONER": "alpa"}, ["CAIRN_PJRT_PARTITIONER is gspmd or shardy, not alpa"]),
    ({"CAIRN_PJRT_OPTIONS": "memory_fraction=1"}, ["Unexpected option"]),  # an int, where a float is wanted
    ({"CAIRN_PJRT_OPTIONS": "memory_fraction=0.5,preallocate=false,devices=2,allocator=bfc"}, ["a device for tests"]),
]


def run(extra):
    env = dict(os.environ, CAIRN_PJRT=str(PLUGIN), CAIRN_PLUGIN_PATH=str(BUILD))
    for name in ("PJRT_TEST_VERSION", "PJRT_TEST_TABLE", "PJRT_TEST_CLIENT", "PJRT_TEST_PYTHON", "CAIRN_PJRT_OPTIONS"):
        env.pop(name, None)
    env.update(extra)
    return subprocess.run([str(BUILD / "cairn"), "devices"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False).stdout


def main():
    if not PLUGIN.exists():
        print("skipped: the PJRT backend or its plugin for tests was not built")
        return 0
    failed = 0
    for extra, wanted in CASES:
        text = run(extra)
        missing = [w for w in wanted if w not in text]
        if missing:
            failed += 1
            print("%s: %s not in\n%s" % (extra, missing, text))
    print("%d passed, %d failed" % (len(CASES) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
