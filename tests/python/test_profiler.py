"""cairn.profiler: entries, averages, tables, traces, schedules; times on a device, which the mirror stands for."""
import gzip
import json
import os
import tempfile
import threading
import unittest
import warnings

import cairn
from cairn.profiler import (ProfilerAction, ProfilerActivity, profile, record_function, schedule,
                            tensorboard_trace_handler)
from cairn.utils.checkpoint import checkpoint
from cairn.utils.flop_counter import FlopCounterMode

CPU = [ProfilerActivity.CPU]


def both():
    """The activities CPU and CUDA; the latter means every device, and warns where there is none of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True)


class TestProfile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_averages(self):
        x = cairn.ones(3, 4)
        with profile(activities=CPU, record_shapes=True) as p:
            with record_function("part"):
                (x + x).exp()
            x + x[:1]
        names = [e.name for e in p.events()]
        self.assertEqual([names[0], names.count("add"), names.count("exp")], ["part", 2, 1])
        averages = {e.key: e for e in p.key_averages()}
        self.assertEqual(averages["add"].count, 2)
        self.assertGreater(averages["add"].cpu_time_total, 0)
        self.assertAlmostEqual(averages["add"].cpu_time * 2, averages["add"].cpu_time_total)
        self.assertLess(averages["part"].self_cpu_time_total, averages["part"].cpu_time_total)
        self.assertEqual(averages["add"].device_time_total, 0)
        shapes = [e.input_shapes for e in p.key_averages(group_by_input_shape=True) if e.key == "add"]
        self.assertCountEqual(shapes, [[[3, 4], [3, 4]], [[3, 4], [1, 4]]])
        table = p.key_averages().table(sort_by="count", row_limit=1)
        self.assertIn("add", table)
        self.assertNotIn("exp", table)
        self.assertRaises(AttributeError, p.key_averages().table, sort_by="nothing")

    def test_device_rows(self):
        x = cairn.ones(8, 8).to("mirror")
        with both() as p:
            y = (x @ x).sum()
        self.assertEqual(y.item(), 512)
        product = [e for e in p.key_averages() if e.key in ("matmul", "mm")][0]
        self.assertGreater(product.device_time_total, 0)
        self.assertEqual(product.device_time_total, product.cuda_time_total)
        self.assertIn("CUDA total", p.key_averages().table())
        path = os.path.join(self.folder.name, "trace.json.gz")
        p.add_metadata("run", "one")
        p.export_chrome_trace(path)
        trace = json.load(gzip.open(path))
        self.assertEqual(trace["run"], "one")
        kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
        calls = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
        self.assertTrue(kernels and all(e["pid"].startswith("mirror") and e["dur"] >= 0 for e in kernels))
        self.assertIn("sum", [e["name"] for e in calls])
        self.assertIn([[8, 8], [8, 8]], [e["args"]["Input Dims"] for e in kernels])

    def test_activities(self):
        x = cairn.ones(4).to("mirror")
        with profile(activities=CPU) as p:
            x.exp()
        self.assertEqual(p.key_averages()[0].device_time_total, 0)
        self.assertRaises(AssertionError, profile, activities=[])
        self.assertRaises(NotImplementedError, profile, experimental_config=1)
        with profile(activities=CPU):
            self.assertRaises(ValueError, profile(activities=CPU).start)

    def test_schedule(self):
        ready = []
        steps = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
        kinds = [steps(i) for i in range(10)]
        none, warm, record, save = (ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD,
                                    ProfilerAction.RECORD_AND_SAVE)
        self.assertEqual(kinds, [none, none, warm, record, save, none, warm, record, save, none])

        def done(p):
            ready.append([e.name for e in p.events() if e.name != "mul"])
            tensorboard_trace_handler(self.folder.name, "worker")(p)

        x = cairn.ones(2)
        with profile(activities=CPU, schedule=steps, on_trace_ready=done) as p:
            for _ in range(10):
                x * x
                p.step()
        self.assertEqual(ready, [["ProfilerStep*"] * 2, ["ProfilerStep*"] * 2])
        self.assertEqual(len([f for f in os.listdir(self.folder.name) if f.endswith(".pt.trace.json")]), 2)
        self.assertRaises(AssertionError, schedule, wait=0, warmup=0, active=0)

    def test_compiled_and_decorated(self):
        @record_function("named")
        def square(x):
            return x * x

        program = cairn.compile(lambda x: (x * x).sum())
        x = cairn.ones(5)
        program(x)
        with profile(activities=CPU) as p:
            program(x)
            self.assertEqual(square(x).tolist(), [1.0] * 5)
        self.assertEqual([e.name for e in p.events()], ["graph", "named", "mul"])


    def test_options(self):
        """What with_... add: modules, lines, operations, memory; steps of backward passes know whose they are."""
        net = cairn.nn.Sequential(cairn.nn.Linear(4, 8), cairn.nn.ReLU())
        x = cairn.randn(3, 4)
        with profile(activities=CPU, with_stack=True, with_flops=True, profile_memory=True, with_modules=True) as p:
            net(x).sum().backward()
        events = {e.name: e for e in p.events()}
        linear, back = events["linear"], events["AddmmBackward0"]
        self.assertEqual((linear.flops, linear.bytes_read, linear.bytes_written), (192, 208, 96))
        self.assertEqual((linear.module, back.module, events["mm"].module), ("Sequential.0",) * 3)
        self.assertEqual((back.sequence_nr, back.fwd_thread), (linear.sequence_nr, linear.thread))
        self.assertIn("test_profiler.py", linear.stack[0])
        self.assertTrue(linear.stack[0].endswith(": test_options"))
        self.assertEqual(linear.cpu_memory_usage, 96)
        self.assertTrue(linear.implementation)
        self.assertEqual(events["nn.Module: Sequential.0"].module_class, "Linear")
        averages = p.key_averages()
        self.assertNotIn("nn.Module: Sequential", [e.key for e in averages])
        self.assertIn("nn.Module: Sequential", [e.key for e in p.key_averages(include_python_functions=True)])
        table = averages.table(sort_by="flops", row_limit=1)
        for head in ("CPU Mem", "Self CPU Mem", "Total FLOPs"):
            self.assertIn(head, table)
        self.assertIn("Source Location", p.key_averages(group_by_stack_n=1).table())
        path = os.path.join(self.folder.name, "stacks.txt")
        p.export_stacks(path)
        with open(path) as file:
            self.assertRegex(file.read().splitlines()[0], r"test_options \d+$")
        self.assertRaises(ValueError, p.export_stacks, path, "nothing")

    def test_trace(self):
        """Rows of events with what is known of them, arrows to backward steps, a curve of memory."""
        x = cairn.randn(3, 4, requires_grad=True)
        with profile(activities=CPU, record_shapes=True, with_flops=True, profile_memory=True) as p:
            with record_function("part"):
                (x @ x.t()).sum().backward()
        path = os.path.join(self.folder.name, "trace.json")
        p.export_chrome_trace(path)
        with open(path) as file:
            trace = json.load(file)
        self.assertEqual((trace["schemaVersion"], trace["with_flops"], trace["displayTimeUnit"]), (1, 1, "ms"))
        events = trace["traceEvents"]
        for e in events:
            self.assertIn(e["ph"], "MXsfiC")
            self.assertTrue({"name", "pid", "tid", "ts"} <= set(e), e)
        product = next(e for e in events if e["name"] == "mm")
        self.assertEqual((product["cat"], product["args"]["Input Dims"]), ("cpu_op", [[3, 4], [4, 3]]))
        self.assertEqual(product["args"]["flops"], 2 * 3 * 4 * 3)
        self.assertEqual(next(e for e in events if e["name"] == "part")["cat"], "user_annotation")
        starts = {e["id"] for e in events if e["ph"] == "s"}
        self.assertTrue(starts)
        self.assertEqual(starts, {e["id"] for e in events if e["ph"] == "f"})
        held = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
        self.assertEqual([e["args"]["Total Allocated"] for e in events if e["name"] == "[memory]"], held)
        self.assertGreater(max(held), 0)
        timeline = os.path.join(self.folder.name, "memory.json")
        p.export_memory_timeline(timeline)
        with open(timeline) as file:
            times, sizes = json.load(file)
        self.assertEqual([each[0] for each in sizes], held)
        self.assertEqual(times, sorted(times))

    def test_ended_inside(self):
        """A profile may end, and another begin, inside of what it has an entry of."""
        class Ends(cairn.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                profiles[-1].stop()
                if again:
                    profiles.append(profile(activities=CPU))
                    profiles[-1].start()
                return g * 2

        for again in (False, True):
            profiles = [profile(activities=CPU, with_modules=True, with_flops=True, profile_memory=True)]
            profiles[0].start()
            x = cairn.ones(3, requires_grad=True)
            Ends.apply(x).exp().sum().backward()
            self.assertAlmostEqual(x.grad[0].item(), 2 * 7.38905609893065, places=5)
            self.assertIn("exp", [e.name for e in profiles[0].events()])
            if again:
                profiles[1].stop()
                self.assertIn("mul", [e.name for e in profiles[1].events()])

    def test_end_that_comes_too_early(self):
        """While another thread takes part a profile goes on, with all that it has."""
        inside, done = threading.Event(), threading.Event()

        def work():
            with p.thread():
                x.exp()
                inside.set()
                done.wait()

        x = cairn.ones(2)
        p = profile(activities=CPU)
        p.start()
        x.sin()
        other = threading.Thread(target=work)
        other.start()
        inside.wait()
        self.assertRaises(ValueError, p.stop)
        x.cos()
        done.set()
        other.join()
        p.stop()
        self.assertCountEqual([e.name for e in p.events()], ["sin", "cos", "exp"])

    def test_threads(self):
        """Other threads take part where they say so."""
        names = {}

        def work():
            with p.thread():
                cairn.ones(3).exp()

        with profile(activities=CPU) as p:
            cairn.ones(2).neg()
            other = threading.Thread(target=work)
            other.start()
            other.join()
        for e in p.events():
            names.setdefault(e.thread, []).append(e.name)
        self.assertEqual(sorted(names.values()), [["ones", "full", "exp"], ["ones", "full", "neg"]])
        self.assertRaises(RuntimeError, p.thread().__enter__)

    def test_before_it_began(self):
        p = profile(activities=CPU)
        for method in (p.events, p.key_averages):
            self.assertRaises(AssertionError, method)
        self.assertRaises(AssertionError, p.export_chrome_trace, "x")

    def test_older_interface(self):
        with cairn.autograd.profiler.profile(record_shapes=True) as p:
            self.assertRaises(RuntimeError, lambda: p.function_events)
            cairn.ones(3).exp()
        self.assertIn("exp", p.key_averages().table(sort_by="self_cpu_time_total"))
        self.assertEqual(p.total_average().key, "Total")
        self.assertEqual(p.total_average().count, len(p.function_events))
        with cairn.autograd.profiler.profile(enabled=False):
            cairn.ones(3)


class TestFlops(unittest.TestCase):
    def test_modules(self):
        net = cairn.nn.Sequential(cairn.nn.Conv2d(2, 4, 3), cairn.nn.Flatten(), cairn.nn.Linear(4 * 36, 10))
        x = cairn.randn(5, 2, 8, 8)
        with FlopCounterMode(display=False) as counter:
            y = net(x)
            forward = counter.get_total_flops()
            y.sum().backward()
        conv, linear = 2 * 5 * 4 * 36 * 18, 2 * 5 * 144 * 10
        self.assertEqual(forward, conv + linear)
        self.assertEqual(counter.get_total_flops(), 2 * conv + 3 * linear)  # the input needs no gradient
        counts = counter.get_flop_counts()
        self.assertEqual(counts["Sequential.0"], {"conv2d": conv, "conv2d_grad_weight": conv})
        self.assertEqual(counts["Sequential.2"], {"linear": linear, "mm": 2 * linear})
        self.assertEqual(sum(counts["Global"].values()), sum(counts["Sequential"].values()))
        table = counter.get_table(depth=1)
        self.assertIn("Sequential", table)
        self.assertNotIn("Sequential.0", table)
        self.assertIn("100.00%", table)
        self.assertRaises(NotImplementedError, FlopCounterMode, custom_mapping={1: 2})

    def test_computed_again(self):
        """What saves tensors by hooks counts as well, and what is too deep to be kept is said."""
        net = cairn.nn.Sequential(cairn.nn.Linear(3, 4), cairn.nn.ReLU(), cairn.nn.Linear(4, 2))
        x = cairn.randn(2, 3, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            checkpoint(net, x, use_reentrant=True).sum().backward()
        self.assertEqual(counter.get_flop_counts()["Global"], {"linear": 80 + 48, "mm": 160})  # not the last
        for _ in range(300):
            net = cairn.nn.Sequential(net)
        with self.assertWarnsRegex(UserWarning, "not counted"):
            with FlopCounterMode(display=False):
                net(x)

    def test_compiled(self):
        """A compiled function counts what it computes."""
        program = cairn.compile(lambda x: (x @ x).relu())
        x = cairn.randn(4, 4)
        program(x)
        with FlopCounterMode(display=False) as counter:
            program(x)
        self.assertEqual(counter.get_total_flops(), 128)


class TestNVTX(unittest.TestCase):
    def test_ranges(self):
        """They work, or say what is missing."""
        nvtx = cairn.cuda.nvtx
        try:
            nvtx.mark("here")
        except RuntimeError as error:
            self.assertIn("libnvtx3interop", str(error))
            self.assertRaises(RuntimeError, nvtx.range_push, "a")
            self.assertRaises(RuntimeError, cairn.autograd.profiler.emit_nvtx().__enter__)
            return
        self.assertEqual((type(nvtx.range_push("a")), type(nvtx.range_pop())), (int, int))
        nvtx.range_end(nvtx.range_start("b"))

        @nvtx.range("c {}", 3)
        def function():
            return 1

        self.assertEqual(function(), 1)
        with nvtx.range("d"), cairn.autograd.profiler.emit_nvtx():
            self.assertEqual((cairn.ones(3) + 1).tolist(), [2.0] * 3)


if __name__ == "__main__":
    unittest.main()
