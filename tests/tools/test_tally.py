"""How a run is counted (tools/tally.py), and what tests/required.txt demands of a whole one: the fewest tests of each
suite, and the reasons for which tests may be skipped."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import tally  # noqa: E402

UNITTEST = """test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b) ... skipped 'PyTorch is not installed'
test_c (__main__.A.test_c)
It says so. ... skipped "numpy isn't installed"
test_d (__main__.A.test_d) ... FAIL

----------------------------------------------------------------------
Ran 4 tests in 0.001s

FAILED (failures=1, skipped=2)
"""
CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
[ RUN      ] b
skipped: no CUDA device
[  SKIPPED ] b
[ RUN      ] c
[  SKIPPED ] c
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] tests: 2 test(s), listed below:
[  SKIPPED ] b
[  SKIPPED ] c
"""
TABLE = """
# suites
suite  unit          10    8
suite  minimal:unit   5    5     # built twice
suite  asan:unit      5    5
skip   3   3   no CUDA device
skip   0  40   * is not installed
"""


def sums(r):
    return r.passed, r.failed, r.skipped


class Count(unittest.TestCase):
    def test_unittest(self):
        r = tally.count(UNITTEST, 1)
        self.assertEqual(sums(r), (1, 1, 2))
        self.assertEqual(r.reasons, {"PyTorch is not installed": 1, "numpy isn't installed": 1})

    def test_what_failed_comes_without_what_passed(self):
        self.assertEqual(tally.failures(UNITTEST)[:2], UNITTEST.splitlines()[1:3])
        self.assertEqual(tally.failures("ok    a with g++\nFAIL  b\n      why\nok    c\n2 passed, 1 failed\n"),
                         ["FAIL  b", "      why", "2 passed, 1 failed"])
        self.assertEqual(tally.failures("a\nb\nc\n", most=2), ["(1 lines left out)", "b", "c"])

    def test_cmocka(self):
        r = tally.count(CMOCKA, 0)
        self.assertEqual(sums(r), (1, 0, 2))
        self.assertEqual(r.reasons, {"no CUDA device": 1, tally.NO_REASON: 1})

    def test_own_line(self):
        r = tally.count("skipped 3: g++ is not installed\nskipped: no valgrind\n5 passed, 0 failed, 4 skipped\n", 0)
        self.assertEqual((sums(r), r.reasons), ((5, 0, 4), {"g++ is not installed": 3, "no valgrind": 1}))
        self.assertEqual(sums(tally.count("1 passed, 0 failed\n9 passed, 0 failed\n", 0)), (9, 0, 0))

    def test_status(self):
        self.assertEqual(sums(tally.count("", 0)), (1, 0, 0))
        skipped = tally.count("skipped: no CUDA device\n", tally.SKIPPED)
        self.assertEqual((sums(skipped), skipped.reasons), ((0, 0, 1), {"no CUDA device": 1}))
        for status, why in ((3, "exit status 3"), (-11, "killed by signal 11")):
            r = tally.count("2 passed, 0 failed\n", status)
            self.assertEqual((sums(r), r.why), ((2, 1, 0), why))

    def test_nothing_ran(self):
        for said in ("0 passed, 0 failed\n", "\nRan 0 tests in 0.000s\n\nNO TESTS RAN\n", "[  PASSED  ] 0 test(s).\n"):
            r = tally.count(said, 0)
            self.assertEqual((sums(r), r.why), ((0, 1, 0), "ran no test"))


class Demands(unittest.TestCase):
    def missing(self, offline=False, presets=("default", "minimal"), **ran):
        suites = {name.replace("_", ":"): tally.Result(passed=n) for name, n in ran.items()}
        return list(tally.Required(TABLE, offline).missing(suites, presets))

    def test_suites(self):
        self.assertEqual(self.missing(unit=10, minimal_unit=5), [])
        self.assertEqual(self.missing(unit=9, minimal_unit=5), ["suite unit ran 9 of at least 10 tests"])
        self.assertEqual(self.missing(offline=True, unit=8, minimal_unit=5), [])
        self.assertEqual(self.missing(unit=10), ["suite minimal:unit ran 0 of at least 5 tests"])
        self.assertEqual(self.missing(presets=["default", "minimal", "asan"], unit=10, minimal_unit=5),
                         ["suite asan:unit ran 0 of at least 5 tests"])

    def test_a_skipped_suite_says_so(self):
        suites = {"unit": tally.Result(skipped=12), "minimal:unit": tally.Result(passed=3, failed=2)}
        self.assertEqual(list(tally.Required(TABLE).missing(suites, ["default", "minimal"])),
                         ["suite unit ran 0 of at least 10 tests and skipped 12"])

    def test_reasons(self):
        given = {"no CUDA device": 4, "numpy is not installed": 30, "mypy is not installed": 1, "it is Monday": 1}
        self.assertEqual(tally.Required(TABLE).bounds(given),
                         {"no CUDA device": (4, 3), "* is not installed": (31, 0), "it is Monday": (1, 0)})
        self.assertEqual(tally.Required(TABLE, offline=True).bounds(given)["* is not installed"], (31, 40))

    def test_a_line_that_is_neither(self):
        with self.assertRaisesRegex(ValueError, "suites unit"):
            tally.Required("suites unit 1 1")


class TheTable(unittest.TestCase):
    def test_every_folder_is_in_it(self):
        """A new folder of tests cannot be forgotten, nor one that is gone stay."""
        text = (ROOT / "tests" / "required.txt").read_text(encoding="utf-8")
        required = tally.Required(text)
        folders = {p.parent.name for p in ROOT.glob("tests/*/test_*")}
        self.assertEqual({s for s in required.fewest if ":" not in s} - {"examples", "check-install", "lint"}, folders)
        self.assertEqual([s for s, n in required.fewest.items() if n <= 0], [])
        offline = tally.Required(text, offline=True)
        self.assertTrue(all(offline.fewest[s] <= n for s, n in required.fewest.items()))
        self.assertNotIn(tally.NO_REASON, re.findall(r"\S.*", text))


if __name__ == "__main__":
    unittest.main()
