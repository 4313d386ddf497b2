"""Training on a CUDA device, or, where there is none, on the one that the processor stands for: the losses and
parameters of 30 steps are PyTorch's and the CPU's, a step fetches nothing and waits for nothing, recorded steps are
eager ones to the bit. Programs run in processes of their own, with cairn in torch's place."""
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

import cairn
import emulated

TESTS = pathlib.Path(__file__).resolve().parents[1]
DEVICE = cairn.cuda.is_available()
# A device adds up in another order than the CPU and PyTorch's CPU, and Adam divides by gradients that are nearly zero.
BOUND = 1e-4 if DEVICE else 1e-5

HEAD = """
    import runpy, sys, cairn
    cairn.as_torch()
    want = cairn.load(%r)
    cairn.set_default_device("cuda")
    curves = runpy.run_path(%r)
""" % (str(TESTS / "train/golden/curves.safetensors"), str(TESTS / "train/curves.py"))

PARITY = HEAD + """
    have = curves["curves"]()
    assert sorted(have) == sorted(want) and have["mlp/losses"].numel() == 30
    for name, tensor in want.items():
        off = (have[name].cpu() - tensor.cpu()).norm().item()
        assert off <= %g * tensor.norm().item(), (name, off / tensor.norm().item())
    print(len(want))
""" % BOUND

# What the emulated driver counts: the beginning of simt_counts_t (tests/simt/simt_driver.h).
COUNTED = HEAD + """
    import ctypes

    class Counts(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in (
            "memory", "held", "allocs", "frees", "host_frees", "waits", "copies_in", "bytes_in", "copies_out",
            "bytes_out")]

    counts = Counts.in_dll(ctypes.CDLL("libcuda.so.1"), "simt_counts")
    F = cairn.nn.functional

    def steps(build, optimiser, low):
        net = build()
        opt = optimiser(net.parameters())
        scaler = cairn.amp.GradScaler("cuda", enabled=low is cairn.float16)

        def step(x, y):
            opt.zero_grad()
            with cairn.autocast("cuda", low or cairn.float16, enabled=low is not None):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            cairn.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            return loss.detach()
        return step

    def check(name, compiled, low=None):
        build, x, y, optimiser = curves["RUNS"][name]
        x, y = x.cpu(), y.cpu()
        step = steps(build, optimiser, low)
        step = cairn.compile(step) if compiled else step
        for i in range(6):
            before = counts.waits, counts.bytes_out, counts.copies_in
            loss = step(x.to("cuda"), y.to("cuda"))
            if i >= 3:  # kernels are there, states of optimisers are made, the step is recorded
                assert (counts.waits, counts.bytes_out) == before[:2], (name, compiled, low, counts.waits - before[0],
                                                                        counts.bytes_out - before[1])
                # the batch; rates and step counts go with launches
                assert counts.copies_in - before[2] <= 2, (name, compiled, low, counts.copies_in - before[2])
        before = counts.bytes_out
        assert loss.item() > 0 and counts.bytes_out - before == loss.element_size()

    for compiled in (False, True):
        for name in curves["RUNS"]:
            check(name, compiled)
        for low in (cairn.bfloat16, cairn.float16):
            check("mlp", compiled, low)
    print("done")
"""

HOOKED = """
    import cairn
    p = cairn.tensor([1.0], device="cuda", requires_grad=True)
    opt, scaler, called = cairn.optim.SGD([p], 0.5), cairn.amp.GradScaler("cuda", init_scale=8.0), []
    opt.register_step_post_hook(lambda *_: called.append(p.item()))
    for factor in (1.0, float("inf"), 1.0):
        opt.zero_grad()
        scaler.scale(p.sum() * factor).backward()
        scaler.step(opt)
        scaler.update()
    print(called, scaler.get_scale())
"""


def run(program):
    if not DEVICE:
        return emulated.run(program)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def part_of_tests(name):
    """A program of tests/backends, on the device; what it printed."""
    program = os.path.join(emulated.BUILD, "tests", "backends", name)
    environment = os.environ if DEVICE else emulated.environment()
    done = subprocess.run([program], env={**environment, "CAIRN_TEST_DEVICE": "cuda"}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=800)
    if done.returncode:
        raise AssertionError((done.stdout + done.stderr)[-4000:])
    return done.stdout


@unittest.skipIf(not DEVICE and emulated.missing(), emulated.REASON)
class TestTraining(unittest.TestCase):
    def test_curves_are_those_of_the_cpu_and_of_pytorch(self):
        self.assertEqual(run(PARITY), "%d\n" % len(cairn.load(str(TESTS / "train/golden/curves.safetensors"))))

    @unittest.skipIf(DEVICE, "there is a CUDA device")
    def test_a_step_fetches_nothing_and_waits_for_nothing(self):
        self.assertEqual(emulated.run(COUNTED), "done\n")

    def test_hooks_are_not_called_for_steps_that_are_skipped(self):
        self.assertEqual(run(HOOKED), "[0.5, 0.0] 4.0\n")

    @unittest.skipIf(DEVICE, "there is a CUDA device")  # it runs by itself there
    def test_loss_scaling(self):
        done = subprocess.run([sys.executable, str(TESTS / "python/test_amp.py")], env=emulated.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_recorded_steps_are_eager_ones(self):
        """20 steps of a one-cycle rate, dropout, fresh batches, freed memory full of NaN: see test_recorded.c."""
        said = part_of_tests("test_recorded")
        self.assertIn("OK ] test_training_steps", said)
        self.assertIn("OK ] test_schedules_in_the_step", said)

    def test_streams(self):
        self.assertIn("OK ] events_order_streams", part_of_tests("test_streams"))


if __name__ == "__main__":
    unittest.main()
