"""Programs written for torch print the same with parts of them compiled: every outermost call of a module, and the
training steps of their loops."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "conformance" / "programs"
LONG = os.environ.get("CAIRN_LONG") == "1"
# Lines that differ, and why; all others are the same, and here what is left of them is. What Python does besides
# computing with tensors happens when a call is captured, as in jax.jit; a compiled call is one record for autograd.
OTHER = {
    "train_custom_loop": ("its hooks count calls", r"(?m)^\d+ (?=\[\(8, 8\))"),
    "train_tagger_crf": ("it prints grad_fn", r", grad_fn=<\w+>"),
    "train_vae": ("it draws numbers in Python, see test_draws_in_python", r"(?<=loss: )[\d.]+"),
}
# Gradients of several calls that meet in one weight are added up call by call, which rounds otherwise: the numbers of
# such a line, and how far they may be apart.
ROUNDED = {"train_per_sample": (r"(?m)^second: (.*)$", 3e-5)}
# Programs of which nothing is compiled: without a module, or without a loop that goes backward; or all of whose steps
# read values, keep tensors outside, or go backward through what was computed outside.
NOTHING = {
    "modules": set("""attention cnn custom_function gather_scatter gumbel kalman kmeans linear_regression
        logistic_regression newton normalisation numpy_interchange optimizers printing rnn tensor_subclasses transformer
        views""".split()),
    "steps": set("""attention custom_function gather_scatter kalman kmeans legacy_names normalisation numpy_interchange
        printing rnn tensor_subclasses train_char_rnn train_chatbot train_distributions train_gpt train_modules
        train_policy train_word_lm views""".split()),
}


class ProgramsTest(unittest.TestCase):
    plain = {}  # what programs print as they are

    def printed(self, *command):
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout, done.stderr

    def assertAlike(self, program, want, have):
        """Equal, but for what the tables above say."""
        if program in ROUNDED:
            pattern, bound = ROUNDED[program]
            numbers = [ast.literal_eval(re.search(pattern, text).group(1)) for text in (want, have)]
            self.assertEqual(len(numbers[0]), len(numbers[1]))
            for a, b in zip(*numbers):
                self.assertLessEqual(abs(a - b), bound * abs(a))
            want, have = (re.sub(pattern, "", text) for text in (want, have))
        if program in OTHER:
            want, have = (re.sub(OTHER[program][1], "", text) for text in (want, have))
        self.assertEqual(want, have)

    def compare(self, parts):
        only = os.environ.get("CAIRN_TEST_CASE", "")
        for program in sorted(PROGRAMS.glob("*.py")):
            if program.stem in NOTHING[parts] and not LONG or only not in program.stem:
                continue
            with self.subTest(program.stem):
                if program not in self.plain:
                    self.plain[program], _ = self.printed("-m", "cairn.as_torch", program)
                want = self.plain[program]
                have, counts = self.printed(HERE / "compiled_program.py", parts, program)
                self.assertAlike(program.stem, want, have)
                runs = ast.literal_eval(counts.strip().splitlines()[-1])["runs"]
                self.assertEqual(runs == 0, program.stem in NOTHING[parts], runs)

    def test_draws_in_python(self):
        """What was baked in and is another now is found, and named, where one asks for it."""
        done = subprocess.run([sys.executable, HERE / "compiled_program.py", "modules", PROGRAMS / "train_vae.py"],
                              capture_output=True, text=True, timeout=300, env={**os.environ, "CAIRN_COMPILE": "check"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not compute what was captured", done.stderr)
        self.assertIn("it reads another tensor", done.stderr)

    def test_modules(self):
        self.compare("modules")

    def test_steps(self):
        self.compare("steps")


if __name__ == "__main__":
    unittest.main()
