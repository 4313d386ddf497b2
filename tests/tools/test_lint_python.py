#!/usr/bin/env python3
"""tools/lint_python.py: what it finds, what it excuses."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lint_python  # noqa: E402


def found(text):
    """What it says of a file, without where."""
    return [problem.split(": ", 1)[1] for problem in lint_python.Reader("x.py", text).problems]


class Findings(unittest.TestCase):
    def dropped(self, *names):
        return ["f: '%s' is accepted and dropped" % name for name in names]

    def test_parameters(self):
        self.assertEqual(found("def f(a, b, *, c=1):\n    return b\n"), self.dropped("a", "c"))
        self.assertEqual(found("def f(a):\n    def g():\n        return a\n    return g\n"), [])
        self.assertEqual(found("def f(a):\n    '''Text of a.'''\n"), self.dropped("a"))
        self.assertEqual(found("def f(a):\n    a = 1\n"), self.dropped("a"))
        self.assertEqual(found("def f(a):\n    return locals()\n"), [])

    def test_rests(self):
        self.assertEqual(found("def f(*args, **kwargs):\n    return 1\n"), self.dropped("args", "kwargs"))
        self.assertEqual(found("def f(*_args, **_ignored):\n    return 1\n"), self.dropped("_args", "_ignored"))
        self.assertEqual(found("def f(*args, **kwargs):\n    return g(*args, **kwargs)\n"), [])

    def test_mentioned_only(self):
        for body in ("del a", "a", "a, a", "_ = a"):
            self.assertEqual(found("def f(a):\n    %s\n    return 1\n" % body), self.dropped("a"), body)

    def test_excused_by_kind(self):
        for text in ("def f(_a):\n    return 1\n", "def f(a):\n    raise ValueError\n", "def f(a): ...\n",
                     "@overload\ndef f(a):\n    pass\n", "@abc.abstractmethod\ndef f(a):\n    pass\n",
                     "class A:\n    def __exit__(self, *rest):\n        pass\n",
                     "class A:\n    def f(self):\n        pass\n"):
            self.assertEqual(found(text), [], text)
        self.assertEqual(found("class A:\n    def __init__(self, a):\n        pass\n"),
                         ["__init__: 'a' is accepted and dropped"])

    def test_excused_by_comment(self):
        self.assertEqual(found("def f(a, b):  # unused: a (why)\n    return b\n"), [])
        self.assertEqual(found("def f(a,\n      b):  # unused: a, b (why)\n    return 1\n"), [])
        self.assertEqual(found("class A:  # unused: a (why)\n    def f(self, a):\n        pass\n"), [])

    def test_comments_are_checked(self):
        self.assertEqual(found("def f(a):  # unused: a (why)\n    return a\n"),
                         ["f: the comment excuses 'a', which is no unused parameter"])
        self.assertEqual(found("class A:  # unused: b (why)\n    def f(self):\n        pass\n"),
                         ["A: the comment excuses 'b', which no method drops"])
        self.assertEqual(len(found("def f(a):  # unused: a\n    return 1\n")), 2)


if __name__ == "__main__":
    unittest.main()
