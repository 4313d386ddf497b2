"""The numbers that README.md gives, beside what the library, its tables and the generated pages say."""
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))


def text(name):
    """A page with its line breaks as spaces."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def cairn(*arguments):
    return subprocess.run([BUILD / "cairn", *arguments], check=True, capture_output=True, text=True).stdout


class Claims(unittest.TestCase):
    def said(self, pattern, page="README.md"):
        found = re.search(pattern, text(page))
        self.assertIsNotNone(found, f"{page} does not say: {pattern}")
        return tuple(int(n) for n in found.groups())

    def classes(self, kind):
        part = re.search(rf"^{kind}\n((?:  .*\n)+)", cairn("classes"), re.M).group(1)
        return part.count("\n")

    def test_ops(self):
        every, parts = self.said(r"(\d+) ops, of which (\d+) are parts of others", "docs/OPS.md")
        self.assertEqual(self.said(r"\[(\d+)\]\(docs/OPS\.md\)"), (every - parts,))

    def test_optimisers_and_schedules(self):
        self.assertEqual(self.said(r"(\d+) optimisers"), (self.classes("optimisers"),))
        headers = " ".join(p.read_text(encoding="utf-8") for p in (ROOT / "include/cairn").glob("*.h"))
        # Of functions and of other schedules, which no table has; cn_lr_by is the common form of the first two.
        functions = set(re.findall(r"CN_API CN_MUST_USE cn_schedule \*(cn_lr_(?!by\(|\w+_with\()\w+)\(", headers))
        self.assertEqual(self.said(r"(\d+) schedules"), (self.classes("schedules") + len(functions),))

    def test_types(self):
        enum = re.search(r"CN_DTYPE_NONE = 0,(.*?)CN_F8E4M3,", text("include/cairn/base.h")).group(1)
        self.assertEqual(self.said(r"of (\d+) computing types"), (enum.count("CN_"),))

    def test_conformance(self):
        page = "docs/CONFORMANCE.md"
        names, entries, ours, our_entries, others = self.said(
            r"has (\d+) names in (\d+) entries; (\d+) names \((\d+) entries\) are tried here, (\d+) are not", page)
        self.assertEqual(names, ours + others)
        self.assertEqual(self.said(r"has (\d+) names in (\d+) entries\. cairn aims at (\d+) of these names \((\d+) entries\)"),
                         (names, entries, ours, our_entries))
        self.assertEqual(self.said(r"the other (\d+) are named"), (others,))
        _, passed, failed = self.said(r"calls compared \|[-| ]*(\d+) \| (\d+) \| (\d+) \|", page)
        self.assertEqual(ours, passed + failed)
        self.assertEqual(self.said(r"(\d+) of them pass PyTorch's own samples, (\d+) differ"), (passed, failed))

    def test_size(self):
        """The size of the stripped library, as tools/lint demands."""
        self.assertEqual(self.said(r"one library of (\d+) MB"),
                         (int(re.search(r"LIBRARY_MAX = ([\d_]+)", text("tools/lint")).group(1)) // 10**6,))


if __name__ == "__main__":
    unittest.main()
