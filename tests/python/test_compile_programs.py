"""Programs written for torch print the same with parts of them compiled: every outermost call of a module, and the
training steps of their loops."""
import ast
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "conformance" / "programs"
LONG = os.environ.get("CAIRN_LONG") == "1"
# What Python does besides computing with tensors happens when a call is captured, as in jax.jit; a compiled call is one
# record for autograd, whose gradients are added up before they meet others in a weight.
OTHER = {
    "modules": {"train_custom_loop": "its hooks count calls", "train_vae": "it draws numbers in Python",
                "train_per_sample": "it takes gradients of gradients", "train_tagger_crf": "it prints grad_fn"},
    "steps": {"train_custom_loop": "its hooks count calls", "train_vae": "it draws numbers in Python",
              "train_per_sample": "gradients of two calls meet in one weight", "train_tagger_crf": "it prints grad_fn"},
}
# Programs of which nothing is compiled: without a module, or without a loop that goes backward; or all of whose steps
# read values, keep tensors outside, or go backward through what was computed outside.
NOTHING = {
    "modules": set("""attention cnn custom_function gather_scatter gumbel kalman kmeans linear_regression
        logistic_regression newton normalisation numpy_interchange optimizers printing rnn tensor_subclasses transformer
        views""".split()),
    "steps": set("""attention custom_function gather_scatter kalman kmeans legacy_names normalisation numpy_interchange
        printing rnn tensor_subclasses train_char_rnn train_chatbot train_distributions train_gpt train_masked_ctc
        train_modules train_policy train_pruning train_transformer train_word_lm views""".split()),
}


class ProgramsTest(unittest.TestCase):
    plain = {}  # what programs print as they are

    def printed(self, *command):
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout, done.stderr

    def compare(self, parts):
        only = os.environ.get("CAIRN_TEST_CASE", "")
        for program in sorted(PROGRAMS.glob("*.py")):
            skip = program.stem in OTHER[parts] or program.stem in NOTHING[parts] and not LONG
            if skip or only not in program.stem:
                continue
            with self.subTest(program.stem):
                if program not in self.plain:
                    self.plain[program], _ = self.printed("-m", "cairn.as_torch", program)
                want = self.plain[program]
                have, counts = self.printed(HERE / "compiled_program.py", parts, program)
                self.assertEqual(want, have)
                runs = ast.literal_eval(counts.strip().splitlines()[-1])["runs"]
                self.assertEqual(runs == 0, program.stem in NOTHING[parts], runs)

    def test_modules(self):
        self.compare("modules")

    def test_steps(self):
        self.compare("steps")


if __name__ == "__main__":
    unittest.main()
