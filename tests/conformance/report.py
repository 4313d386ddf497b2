"""Gathers the outcomes of a conformance run: lines while it runs, the JSON, the page docs/CONFORMANCE.md.

A name of names.txt covers all OpInfo entries of that name (`div` has three). It failed when any check of any
entry failed, is missing when no entry is in the package, and passed otherwise.
"""
import json
import pathlib
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDER = ["float32", "float64", "float16", "bfloat16", "int64", "bool", "int32", "int16", "int8", "uint8", "uint16",
         "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
         "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "uint16": "u16", "uint32": "u32", "uint64": "u64",
         "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3uz",
         "float8_e5m2fnuz": "f8e5m2uz"}


def shown(text, length=230):
    """Text fit for a cell of a table."""
    text = " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= length else text[:length - 1] + "…"


def allowed():
    """The lines about names that may differ from PyTorch's result."""
    import allowances  # pylint: disable=import-outside-toplevel
    lines = ["## May differ", "",
             "These are compared with the float64 call: within tolerance of it, or no farther from it than PyTorch's "
             "own result. "
             f"So are all gradients of f16 and bf16: {allowances.HALF_GRADIENT}.", "",
             "| name | of | dtypes | why |", "|---|---|---|---|"]
    for kind, table in (("result", allowances.FORWARD), ("gradient", allowances.GRADIENT)):
        for name, (dtypes, why) in sorted(table.items()):
            short = " ".join(SHORT[d] for d in ORDER if f"torch.{d}" in map(str, dtypes))
            lines.append(f"| `{name}` | {kind} | {short} | {why} |")
    lines += ["", "PyTorch's own error is added to the tolerance of " +
              ", ".join(f"`{name}` ({more:g}: {why})" for name, (more, why) in allowances.OWN_ERROR.items()) + ".", "",
              "Not compared: " + "; ".join(f"`{name}`, {check}: {why}" for (name, check), why in
                                           allowances.WRONG.items()) + ".",
              "", "Of equal values, another index than PyTorch's may be given where its sort is not stable: "
              "`kthvalue`, `mode`, `topk`, `sort`, `argsort`.", ""]
    return lines


class Name:
    """What is known of one name."""

    def __init__(self):
        self.dtypes, self.checks = set(), {}
        self.samples = self.passed = self.failed = self.skipped = 0
        self.failures, self.missing = [], set()
        self.entries = set()

    def state(self):
        if self.failures:
            return "failed"
        if not self.passed:
            return "missing" if self.missing or not self.entries else "passed"
        return "passed"


class Results:
    def __init__(self, wanted, names, options, database=()):
        """names: entry -> name of those that are tried. database: the name of every entry that PyTorch has."""
        self.names = {name: Name() for name in wanted}
        self.database = database
        self.name_of = names
        self.options = options
        self.began = time.monotonic()
        self.seconds = {}

    def add(self, entry, dtype, answer):
        """One entry and dtype, as a worker answered."""
        name = self.names[self.name_of[entry]]
        name.entries.add(entry)
        self.seconds[entry] = self.seconds.get(entry, 0.0) + answer.get("seconds", 0.0)
        if "missing" in answer:
            name.missing.add(answer["missing"])
            return
        for outcome in answer["outcomes"]:
            self.outcome(name, entry, dtype, outcome)

    def outcome(self, name, entry, dtype, outcome):
        if outcome["skipped"] or not outcome["samples"]:
            name.skipped += bool(outcome["skipped"])
            return
        name.samples += outcome["samples"]
        name.dtypes.add(dtype)
        name.checks[outcome["check"]] = name.checks.get(outcome["check"], 0) + outcome["samples"]
        if not outcome["failed"]:
            name.passed += 1
            return
        name.failed += 1
        failure = {"entry": entry, "dtype": dtype, **outcome}
        if not (self.options.first_reason and name.failures):
            print(f"FAIL {entry} {dtype} {outcome['check']} ({outcome['failed']} of {outcome['samples']}): "
                  f"{outcome['reason']}\n     {outcome['sample']}", flush=True)
        name.failures.append(failure)

    # ---- the end ----
    def finish(self):
        """Writes what was asked for, prints the summary and gives the exit status."""
        options = self.options
        full = not (options.ops or options.sample or options.dtypes or options.checks)
        target = options.json or (ROOT / "build" / "conformance.json" if full else None)
        if target:
            pathlib.Path(target).write_text(json.dumps(self.plain(), indent=1) + "\n", encoding="utf-8")
        if options.report:
            pathlib.Path(options.report).write_text(self.page(), encoding="utf-8")
        states = self.states()
        missing = states["missing"]
        print(f"names: {len(states['passed'])} passed, {len(states['failed'])} failed, {len(missing)} missing; "
              f"{time.monotonic() - self.began:.0f} s")
        if states["failed"]:
            print("failed: " + " ".join(states["failed"]))
        passed = sum(n.passed for n in self.names.values())
        failed = sum(n.failed for n in self.names.values())
        skipped = sum(n.skipped for n in self.names.values())
        for n, why in ((skipped, "PyTorch's own tests skip them"), (len(missing), "the package has no such op")):
            if n:
                print(f"skipped {n}: {why}")
        print(f"{passed} passed, {failed} failed, {skipped + len(missing)} skipped")
        return 1 if failed or not passed else 0

    def states(self):
        found = {"passed": [], "failed": [], "missing": []}
        for name, known in self.names.items():
            found[known.state()].append(name)
        return found

    def plain(self):
        return {name: {"state": known.state(), "samples": known.samples, "checks": known.checks,
                       "dtypes": [d for d in ORDER if d in known.dtypes], "failures": known.failures,
                       "missing": sorted(known.missing),
                       "seconds": round(sum(self.seconds.get(e, 0.0) for e in known.entries), 2)}
                for name, known in self.names.items()}

    def denominator(self):
        """How much of PyTorch's database is tried at all."""
        import names  # pylint: disable=import-outside-toplevel
        every, tried = set(self.database), set(self.names)
        entries = sum(name in tried for name in self.database)
        rest = sorted(every - tried)
        lines = [f"PyTorch's database has {len(every)} names in {len(self.database)} entries; {len(every & tried)} "
                 f"names ({entries} entries) are tried here, {len(rest)} are not.", ""]
        for why in sorted(set(names.UNTRIED.values())):
            here = " ".join(f"`{name}`" for name in rest if names.UNTRIED.get(name) == why)
            lines += [f"Nothing to compare with, {why}: {here}.", ""]
        open_names = [name for name in rest if name not in names.UNTRIED]
        return lines + (["Not tried: " + " ".join(f"`{name}`" for name in open_names) + ".", ""] if open_names else [])

    def page(self):
        states = self.states()
        exist = len(states["passed"]) + len(states["failed"])
        samples = sum(n.samples for n in self.names.values())
        share = 100.0 * len(states["passed"]) / exist if exist else 0.0
        lines = [
            "# Conformance with PyTorch's OpInfo", "",
            "Generated by `build/peers/bin/python tests/conformance/opinfo.py --report docs/CONFORMANCE.md`; do not "
            "edit.", "",
            "Every op of the Python package is called with the samples of PyTorch's own op database and compared "
            "with PyTorch on the CPU: results, first and second gradients, non-contiguous inputs, method, "
            "in-place, operator and `out=` forms, inputs that must be refused, and distributions of what is "
            "random. Values are compared with PyTorch's own result of the same dtype, with the tolerances of "
            "`torch.testing.assert_close` or of the entry; the names that may differ are listed at the end.", "",
            "| names | passed | failed | missing | calls compared |", "|---|---|---|---|---|",
            f"| {len(self.names)} | {len(states['passed'])} | {len(states['failed'])} | {len(states['missing'])} | "
            f"{samples} |", "",
            f"Of the {exist} names that exist, {share:.1f} % pass.", "", *self.denominator()]
        if states["failed"]:
            lines += ["## Failed", "", "| name | where | first reason | sample |", "|---|---|---|---|"]
            for name in states["failed"]:
                first = self.names[name].failures[0]
                where = f"{first['check']} {SHORT.get(first['dtype'], first['dtype'])}"
                lines.append(f"| `{name}` | {where} | {shown(first['reason'])} | {shown(first['sample'], 120)} |")
            lines.append("")
        lines += ["## Passed", "", "| name | calls | dtypes | checks |", "|---|---|---|---|"]
        for name in states["passed"]:
            known = self.names[name]
            dtypes = " ".join(SHORT[d] for d in ORDER if d in known.dtypes)
            lines.append(f"| `{name}` | {known.samples} | {dtypes} | {', '.join(known.checks)} |")
        lines += ["", "## Missing", "", " ".join(f"`{name}`" for name in states["missing"]) or "None.", ""]
        return "\n".join(lines + allowed())
