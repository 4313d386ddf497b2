"""Counts what tests say of themselves, and holds a whole run against tests/required.txt.

Place in the flow: tools/run-tests gives each program's output and exit status to count(), sums the results by suite,
and asks Required at the end of a full run what is missing. Invariant: a skipped test has a reason, and a run is
green only where every suite ran its fewest tests and no reason was given more often than the table allows.

How a test is counted: from its last line `N passed, N failed[, N skipped]`, else from cmocka's or unittest's summary,
else as one test by its exit status (77: skipped). A crash, a timeout, an exit status that its own count does not
explain and a program that ran nothing at all are one failure. Reasons are lines `skipped: WHY`, `skipped N: WHY`
where one line stands for several tests, and what `unittest -v` prints.
"""
import collections
import dataclasses
import fnmatch
import re

SKIPPED = 77
NO_REASON = "no reason given"
OWN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
SUITE = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED|NO TESTS RAN)(.*)$", re.M)
PASSED_ONE = re.compile(r"ok +\S|\[ RUN      \]|\[       OK \]|test\w* \(.*\.\.\. ok$")
PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
LISTED = r"^\[  %s \] .*?(\d+) test\(s\), listed"
REASON = re.compile(r"""^skipped(?: (\d+))?: (.+?)\s*$|\bskipped (?:'(.*)'|"(.*)")\s*$""", re.M)


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    output: str = ""
    why: str = ""                                                             # of a failure that no count explains
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # of what was skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def count(output, status):
    """What a program's output and exit status say."""
    r = Result(output=output)
    own, suite, groups = OWN.findall(output), SUITE.findall(output), PASSED.findall(output)
    if own:
        r.passed, r.failed, r.skipped = (int(n or 0) for n in own[-1])
    elif suite:
        said = {name: int(n) for name, n in re.findall(r"(\w[\w ]*)=(\d+)", suite[-1][1])}
        r.failed = sum(said.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
        r.skipped = said.get("skipped", 0)
        r.passed = max(0, int(suite[-1][0]) - r.failed - r.skipped)
    elif groups:
        r.passed = sum(int(n) for n in groups)
        r.failed = sum(int(n) for n in re.findall(LISTED % "FAILED ", output, re.M))
        r.skipped = sum(int(n) for n in re.findall(LISTED % "SKIPPED", output, re.M))
    elif status == SKIPPED:
        r.skipped = 1
    elif status == 0:
        r.passed = 1
    if status not in (0, SKIPPED) and r.failed == 0:
        r.failed = 1
        r.why = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    elif not r.passed + r.failed + r.skipped:
        r.failed, r.why = 1, "ran no test"
    r.reasons = reasons(output, r.skipped)
    return r


def failures(output, most=120):
    """The lines of an output that tell why it failed: without those of single tests that passed, the last ones if they
    are many. A reader who sees only the beginning of a long log sees the failure."""
    lines = [line for line in output.rstrip().splitlines() if not PASSED_ONE.match(line)]
    return lines if len(lines) <= most else [f"({len(lines) - most} lines left out)", *lines[-most:]]


def reasons(output, skipped):
    """reason -> how many tests gave it; what is skipped without one is counted as NO_REASON."""
    found = collections.Counter()
    for n, said, single, double in REASON.findall(output):
        if sum(found.values()) < skipped:
            found[said or single or double] += min(int(n or 1), skipped - sum(found.values()))
    if sum(found.values()) < skipped:
        found[NO_REASON] = skipped - sum(found.values())
    return found


class Required:
    """The two tables of a file like tests/required.txt, which says how it is read."""

    def __init__(self, text, offline=False):
        self.fewest = {}      # suite -> tests that must run
        self.most = []        # (pattern of reasons, how many tests may give one)
        for line in text.splitlines():
            words = line.split("#")[0].split(None, 3)
            if not words:
                continue
            kind, first, second, third = words
            if kind == "suite":
                self.fewest[first] = int(third if offline else second)
            elif kind == "skip":
                self.most.append((third.strip(), int(second if offline else first)))
            else:
                raise ValueError(f"neither suite nor skip: {line}")

    def missing(self, suites, presets):
        """Which suites ran too little in a run of these presets. suites: name -> Result."""
        for suite, fewest in self.fewest.items():
            r = suites.get(suite, Result())
            preset = suite.split(":")[0] if ":" in suite else "default"
            if preset in presets and r.passed + r.failed < fewest:
                yield (f"suite {suite} ran {r.passed + r.failed} of at least {fewest} tests"
                       + (f" and skipped {r.skipped}" if r.skipped else ""))

    def bounds(self, given):
        """reason -> (how often it was given, how often it may be); reasons that one pattern fits share its bound."""
        sums = collections.Counter()
        found = {}
        for reason, n in given.items():
            pattern, most = next((row for row in self.most if fnmatch.fnmatchcase(reason, row[0])), (reason, 0))
            sums[pattern] += n
            found[pattern] = (sums[pattern], most)
        return found
