#!/usr/bin/env python3
"""Writes docs/ONNX_OPERATORS.md: every operator that cairn runs, from the tables in src/formats/onnx/ops, and how many
of ONNX's own cases pass, from a conformance run.

usage: tests/onnx/table.py [--cases FILE]        FILE: what tests/onnx/conformance.py --json wrote
       tests/onnx/table.py --check               fails where operators, opsets or ways are not those of the page

Without --cases the figures of the page stay. Needs nothing but Python.
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ONNX_OPERATORS.md"
SOURCES = ROOT / "src" / "formats" / "onnx"
ROW = re.compile(r'ONNX_(TEXT|BUILD|FRESH)\("(\w+)",\s*(\d+),\s*(?:"([^"]*)")?')
TITLES = {"": "ONNX (ai.onnx)", "ai.onnx.ml": "ai.onnx.ml", "ai.onnx.preview.training": "ai.onnx.preview.training",
          "ai.onnx.preview": "ai.onnx.preview", "com.microsoft": "com.microsoft"}

HEAD = """# ONNX's operators

Written by `tests/onnx/table.py` from the tables of operators and a run of `tests/onnx/conformance.py`.

*From opset*: where an operator means something else from some opset on, it has a row of the table for each meaning; the
first is the oldest opset that is taken. *How*: the ops that it is, where words say it
([ONNX.md](ONNX.md#adding-an-operator)); otherwise it is a function of code. *Cases*: how many of ONNX's own backend cases
about it pass; operators without cases, and all of com.microsoft, are held against onnxruntime by `tests/onnx/differ.py`.
"""


def rows():
    """domain -> name -> [(since, words or None)], from the sources."""
    found = {}
    for name, domain in re.findall(r'^FAMILY\((\w+), "([^"]*)"\)', (SOURCES / "families.def").read_text(), re.M):
        for _, op, since, words in ROW.findall((SOURCES / "ops" / (name + ".c")).read_text()):
            found.setdefault(domain, {}).setdefault(op, []).append((int(since), words or None))
    return found


def figures(path):
    """operator with its domain -> (passed, cases), and how many of all."""
    said = json.loads(pathlib.Path(path).read_text())
    counted = {}
    for case in said.values():
        for operator in case["operators"]:
            passed, cases = counted.get(operator, (0, 0))
            counted[operator] = (passed + (case["wrong"] is None), cases + 1)
    return counted, (sum(case["wrong"] is None for case in said.values()), len(said))


def figures_of_page():
    """What the page says now."""
    text = PAGE.read_text() if PAGE.is_file() else ""
    counted, domain = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            domain = next((key for key, title in TITLES.items() if title == line[3:]), "")
        hit = re.match(r"\| (\w+) \|.*\| (?:(\d+) of (\d+))? \|$", line)
        if hit and hit[2]:
            counted[(domain + "." if domain else "") + hit[1]] = (int(hit[2]), int(hit[3]))
    all_of = re.search(r"^(\d+) of (\d+) cases", text, re.M)
    return counted, (int(all_of[1]), int(all_of[2])) if all_of else (0, 0)


def page(counted, total):
    parts = [HEAD, "%d of %d cases pass; the run lists the others, each with a reason.\n" % total]
    for domain, operators in rows().items():
        parts.append("## %s\n\n| operator | from opset | how | cases |\n|---|---|---|---|\n" % TITLES[domain] + "".join(
            line(domain, name, operators[name], counted) for name in sorted(operators)))
    return "\n".join(parts)


def line(domain, name, versions, counted):
    versions = sorted(versions)
    ways = dict.fromkeys("`%s`" % words if words else "code" for _, words in versions)
    passed = counted.get((domain + "." if domain else "") + name)
    return "| %s | %s | %s | %s |\n" % (name, ", ".join(str(since) for since, _ in versions), "; ".join(ways),
                                        "%d of %d" % passed if passed else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cases")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = page(*(figures(args.cases) if args.cases else figures_of_page()))
    if args.check:
        if made == PAGE.read_text():
            return 0
        print("docs/ONNX_OPERATORS.md is not what the tables say: run tests/onnx/table.py")
        return 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
