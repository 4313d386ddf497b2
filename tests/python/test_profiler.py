"""cairn.profiler: entries, averages, tables, traces, schedules; times on a device, which the mirror stands for."""
import gzip
import json
import os
import tempfile
import unittest
import warnings

import cairn
from cairn.profiler import (ProfilerAction, ProfilerActivity, profile, record_function, schedule,
                            tensorboard_trace_handler)

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
        self.assertIn("Device total", p.key_averages().table())
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
        self.assertRaises(NotImplementedError, profile, with_stack=True)
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
        self.assertEqual(ready, [["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#7", "ProfilerStep#8"]])
        self.assertEqual(len([f for f in os.listdir(self.folder.name) if f.endswith(".pt.trace.json")]), 2)
        self.assertRaises(ValueError, schedule, wait=0, warmup=0, active=0)

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
