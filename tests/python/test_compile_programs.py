"""Programs written for torch print the same with every outermost call of a module compiled."""
import ast
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "conformance" / "programs"
# What Python does besides computing with tensors happens when a call is captured, as in jax.jit; and a compiled call is
# one record for autograd.
OTHER = {"train_custom_loop": "its hooks count calls", "train_vae": "it draws numbers in Python",
         "train_per_sample": "it takes gradients of gradients", "train_tagger_crf": "it prints grad_fn"}


class ProgramsTest(unittest.TestCase):
    def printed(self, *command):
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout, done.stderr

    def test_programs(self):
        programs = [p for p in sorted(PROGRAMS.glob("train_*.py")) if p.stem not in OTHER]
        self.assertGreater(len(programs), 15)
        for program in programs:
            with self.subTest(program.stem):
                want, _ = self.printed("-m", "cairn.as_torch", program)
                have, counts = self.printed(HERE / "compiled_program.py", program)
                self.assertEqual(want, have)
                self.assertGreater(ast.literal_eval(counts.strip().splitlines()[-1])["runs"], 0)


if __name__ == "__main__":
    unittest.main()
