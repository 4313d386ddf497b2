"""Writes the generated half of a language's binding from the op table.

usage: python3 tools/bindgen LANGUAGE --json ops.json --out DIR [--check]

ops.json is what `cairn ops --json` prints; classes.json beside it, what `cairn classes --json` does. model.py reads
them into names, forms and parameters that every language asks about; one file per language (python.py, cpp.py; docs.py
and reference.py for people) turns them into text. A new op needs no edit here. With --check nothing is written: it
fails where a file would change.
"""
import argparse
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import model  # noqa: E402

LANGUAGES = ("python", "docs", "reference", "cpp")


def write(path, text):
    """Leaves a file alone whose text is the same, so that nothing is built anew for nothing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path) as f:
            if f.read() == text:
                return
    with open(path, "w") as f:
        f.write(text)


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("language", choices=LANGUAGES)
    args.add_argument("--json", required=True, help="the output of `cairn ops --json`")
    args.add_argument("--out", required=True, help="folder to write into")
    args.add_argument("--check", action="store_true", help="write nothing, fail where a file would change")
    asked = args.parse_args()
    table = model.load(asked.json)
    language = importlib.import_module(asked.language)
    stale = 0
    for name, text in language.files(table).items():
        path = os.path.join(asked.out, name)
        if not asked.check:
            write(path, text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            print("%s is stale: run tools/bindgen %s" % (path, asked.language))
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
