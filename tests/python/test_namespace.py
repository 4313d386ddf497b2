"""The namespace as torch's programs use it: devices, backends, settings, modules by the paths they are imported from,
timers, the hub, other processes. Everything must work on a machine without a GPU."""
import importlib
import os
import tempfile
import unittest
import warnings

import cairn
from cairn import nn

GPU = cairn.cuda.is_available()


class Devices(unittest.TestCase):
    def test_accelerator(self):
        a = cairn.accelerator
        self.assertEqual(a.is_available(), GPU)
        self.assertEqual(a.device_count(), cairn.cuda.device_count())
        device = a.current_accelerator().type if a.is_available() else "cpu"
        self.assertEqual(cairn.ones(1).to(device).device.type, device)
        if not GPU:
            self.assertIsNone(a.current_accelerator())
            self.assertRaises(RuntimeError, a.synchronize)
            self.assertRaises(RuntimeError, a.current_device_index)

    def test_parts_of_the_accelerator(self):
        a = importlib.import_module("cairn.accelerator")
        self.assertIs(a.memory.memory_stats, cairn.cuda.memory_stats)
        self.assertIs(importlib.import_module("cairn.accelerator.graphs").Graph, a.Graph)
        self.assertEqual(a.memory_allocated(), cairn.cuda.memory_allocated())
        a.empty_host_cache()
        if not GPU:
            self.assertRaises(RuntimeError, a.get_device_capability)
            self.assertRaises(RuntimeError, a.Graph().instantiate)

    def test_parts_of_cuda(self):
        c = cairn.cuda
        self.assertFalse(c.nccl.is_available([]) or c.gds.is_available() or c.tunable.is_enabled())
        self.assertEqual((c.tunable.get_results(), c.amp.amp_definitely_not_available()), ((), not GPU))
        for absent in (c.nccl.version, c.nccl.all_reduce, c.gds.GdsFile, c.GreenContext, c.sparse.FloatTensor,
                       c.tunable.read_file):
            self.assertRaises(NotImplementedError, absent)
        with self.assertWarns(UserWarning):
            c.tunable.enable()
        self.assertIs(c.AcceleratorError, cairn.AcceleratorError)
        stream = cairn.Stream("mirror:1")
        self.assertEqual((stream.device_type, stream.device_index, stream.stream_id), ("mirror", 1,
                                                                                       stream.native_handle))
        self.assertFalse(stream.is_capturing() or cairn.Stream("cpu").is_capturing())
        self.assertRaises(NotImplementedError, cairn.Event("mirror").ipc_handle)
        self.assertRaises(NotImplementedError, cairn.Event.from_ipc_handle, "cuda", b"")
        with self.assertRaises(cairn.AcceleratorError):
            cairn.ones(1, device="cuda:99")
        self.assertRaises(AttributeError, lambda: c.nothing)

    def test_comm(self):
        comm = importlib.import_module("cairn.cuda.comm")
        self.assertIs(cairn.cuda.comm.broadcast, cairn.nn.parallel.comm.broadcast)
        x = cairn.arange(10.0).view(5, 2)
        copies = comm.broadcast(x, ["cpu", "mirror", "mirror:1"])
        self.assertIs(copies[0].data_ptr() == x.data_ptr(), True)
        self.assertEqual([str(t.device) for t in copies], ["cpu", "mirror:0", "mirror:1"])
        self.assertTrue(all(bool((t.cpu() == x).all()) for t in copies))
        out = [cairn.zeros(5, 2), cairn.zeros(5, 2, device="mirror")]
        self.assertTrue(bool((comm.broadcast(x, out=out)[1].cpu() == x).all()))
        self.assertRaises(RuntimeError, comm.broadcast, x)
        self.assertRaises(RuntimeError, comm.broadcast, x, ["cpu"], out=out)
        self.assertRaises(RuntimeError, comm.broadcast, x, out=[cairn.zeros(3)])
        rows = comm.broadcast_coalesced([x, x[0]], ["mirror", "cpu"])
        self.assertEqual([len(r) for r in rows], [2, 2])
        pieces = comm.scatter(x, ["mirror", "cpu"], chunk_sizes=[4, 1])
        self.assertEqual([t.shape[0] for t in pieces], [4, 1])
        self.assertEqual([t.shape for t in comm.scatter(x, ["mirror", "cpu"], dim=1)], [(5, 1), (5, 1)])
        self.assertTrue(bool((comm.gather(pieces, destination="cpu") == x).all()))
        self.assertTrue(bool((comm.gather(pieces, out=cairn.empty(5, 2)) == x).all()))
        self.assertRaises(RuntimeError, comm.gather, pieces, destination="cpu", out=cairn.empty(5, 2))
        self.assertRaises(ValueError, comm.scatter, x, ["cpu"], chunk_sizes=[4, 1])
        total = comm.reduce_add([copies[1], x, copies[2]], "mirror")
        self.assertEqual((str(total.device), total.sum().item(), x.sum().item()), ("mirror:0", 135.0, 45.0))
        self.assertRaises(ValueError, comm.reduce_add, [x, x[0]], "cpu")
        sums = comm.reduce_add_coalesced([[x, x[0]], [x, x[0]]], "cpu")
        self.assertEqual([t.sum().item() for t in sums], [90.0, 2.0])

    def test_others_are_not_there(self):
        self.assertFalse(cairn.backends.mps.is_available() or cairn.backends.mps.is_built())
        self.assertFalse(cairn.mps.is_available() or cairn.xpu.is_available())
        self.assertEqual(cairn.device("mps").type, "mps")
        self.assertRaises(RuntimeError, cairn.ones, 1, device="mps")

    def test_with_device(self):
        with cairn.device("cpu") as device:
            self.assertEqual(nn.Linear(1, 1).weight.device, device)
            with cairn.device("mirror"):
                self.assertEqual(cairn.ones(1).device.type, "mirror")
            self.assertEqual(cairn.ones(1).device.type, "cpu")

    def test_like_on_another_device(self):
        none = cairn.empty(2, 3, dtype=cairn.float64, device="meta")
        calls = [cairn.zeros_like, cairn.ones_like, cairn.empty_like, cairn.rand_like, cairn.randn_like,
                 lambda t, **more: cairn.full_like(t, 2, **more), lambda t, **more: cairn.randint_like(t, 5, **more)]
        for device in ("cpu", "mirror", "meta"):
            for call in calls:
                made = call(none, device=device, requires_grad=True)
                self.assertEqual((made.device.type, made.dtype, tuple(made.shape), made.requires_grad),
                                 (device, cairn.float64, (2, 3), True))
        self.assertEqual(cairn.full_like(none, 2, device="cpu", dtype=cairn.int32).tolist(), [[2] * 3] * 2)

    def test_int_mm(self):
        a, b = cairn.full((17, 8), -128, dtype=cairn.int8), cairn.full((8, 16), 127, dtype=cairn.int8)
        product = cairn._int_mm(a, b)
        self.assertEqual((product.dtype, product.unique().tolist()), (cairn.int32, [-128 * 127 * 8]))

    def test_scaled_mm(self):
        a = cairn.tensor([[1.0, 2.0], [-0.5, 448.0]]).to(cairn.float8_e4m3fn)
        b = cairn.tensor([[1.0, 0.25], [2.0, 1.0], [3.0, -1.0]]).to(cairn.float8_e5m2).t()
        half = cairn.tensor(0.5)
        y = cairn._scaled_mm(a, b, half, half, bias=cairn.ones(3, dtype=cairn.bfloat16), out_dtype=cairn.float32)
        self.assertEqual(y.tolist(), [[1.375, 2.0, 1.25], [28.875, 112.75, -111.375]])
        rows, cols = cairn.tensor([[1.0], [0.5]]), cairn.tensor([[1.0, 2.0, 0.0]])
        y = cairn._scaled_mm(a, b, rows, cols, None, None, cairn.bfloat16, True)
        self.assertEqual((y.dtype, y.tolist()), (cairn.bfloat16, [[1.5, 8.0, 0.0], [55.75, 448.0, 0.0]]))
        y = cairn._scaled_mm(a, b, half, half, scale_result=cairn.tensor(2.0))
        self.assertEqual((y.dtype, y.tolist()), (cairn.float8_e4m3fn, [[0.75, 2.0, 0.5], [56.0, 224.0, -224.0]]))
        for scales, what in (((rows, half), r"\[2, 1\] and \[1, 3\]"), ((half.double(), half), "float32")):
            with self.assertRaisesRegex((ValueError, RuntimeError, TypeError), what):
                cairn._scaled_mm(a, b, *scales, out_dtype=cairn.bfloat16)

    def test_grouped_mm(self):
        a, b = cairn.ones(3, 2), cairn.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])
        ends = cairn.tensor([1, 3], dtype=cairn.int32)
        for fn in (cairn._grouped_mm, cairn.nn.functional.grouped_mm):
            self.assertEqual(fn(a, b, offs=ends).tolist(), [[3.0], [7.0], [7.0]])

    def test_cuda_answers_without_a_device(self):
        c = cairn.cuda
        c.empty_cache()
        c.manual_seed_all(1)
        c.reset_peak_memory_stats()
        self.assertEqual(len(c.get_rng_state_all()), c.device_count())
        self.assertIsInstance(c.memory_summary(), str)
        self.assertIsInstance(c.is_bf16_supported(), bool)
        self.assertEqual(c.get_arch_list() == [], not GPU)
        self.assertTrue(issubclass(c.OutOfMemoryError, RuntimeError))
        with c.device(None), c.stream(None):
            pass
        if not GPU:
            self.assertEqual((c.memory_allocated(), c.memory_reserved(), c.memory_stats()["allocated_bytes.all.peak"]),
                             (0, 0, 0))
            for call in (c.init, c.current_device, c.current_stream, lambda: c.set_device(0), c.synchronize):
                self.assertRaises(RuntimeError, call)

    @unittest.skipUnless(GPU, "no CUDA device")
    def test_cuda_with_a_device(self):
        c = cairn.cuda
        c.set_device(0)
        begin, end = c.Event(enable_timing=True), c.Event(enable_timing=True)
        begin.record()
        with c.stream(c.Stream()), c.device(0):
            x = cairn.ones(64, 64, device="cuda")
            (x @ x).sum().item()
        end.record()
        self.assertGreater(begin.elapsed_time(end), 0)
        c.current_stream().synchronize()
        self.assertGreater(c.memory_allocated(), 0)
        self.assertEqual(c.current_device(), 0)


class Settings(unittest.TestCase):
    def test_determinism(self):
        cairn.use_deterministic_algorithms(True, warn_only=True)
        self.assertTrue(cairn.are_deterministic_algorithms_enabled())
        self.assertTrue(cairn.is_deterministic_algorithms_warn_only_enabled())
        self.assertEqual(cairn.get_deterministic_debug_mode(), 1)
        cairn.backends.cudnn.deterministic = True
        self.assertEqual(cairn.get_deterministic_debug_mode(), 1)     # what was asked for is more
        cairn.use_deterministic_algorithms(True)
        self.assertEqual(cairn.get_deterministic_debug_mode(), 2)
        cairn.use_deterministic_algorithms(False)
        self.assertFalse(cairn.are_deterministic_algorithms_enabled())
        self.assertEqual(cairn._C._numerics()[2], 1)                  # convolutions still
        cairn.backends.cudnn.deterministic = False
        self.assertEqual(cairn._C._numerics()[2], 0)

    def test_precision(self):
        matmul = cairn.backends.cuda.matmul
        cairn.set_float32_matmul_precision("high")
        self.assertEqual((cairn.get_float32_matmul_precision(), matmul.allow_tf32, matmul.fp32_precision),
                         ("high", True, "tf32"))
        cairn.set_float32_matmul_precision("medium")
        self.assertEqual(cairn._C._numerics()[0], 2)
        matmul.allow_tf32 = False
        self.assertEqual(cairn.get_float32_matmul_precision(), "highest")
        matmul.fp32_precision = "tf32"
        self.assertEqual(cairn.get_float32_matmul_precision(), "high")
        cairn.set_float32_matmul_precision("highest")
        self.assertEqual(matmul.fp32_precision, "ieee")
        self.assertRaises(RuntimeError, setattr, matmul, "fp32_precision", "bf16x9")
        self.assertEqual(cairn._C._numerics()[1], 0)
        with cairn.backends.cudnn.flags(enabled=True, allow_tf32=False):
            self.assertEqual(cairn._C._numerics()[1], 0)
        cairn.backends.cudnn.allow_tf32 = True
        self.assertEqual(cairn._C._numerics()[1], 1)
        cairn.backends.cudnn.allow_tf32 = False

    def test_precision_is_part_of_a_program(self):
        f = cairn.compile(lambda x: x @ x)
        f(cairn.ones(2, 2))
        before = cairn.compiler.stats()["executables"]
        cairn.set_float32_matmul_precision("high")
        f(cairn.ones(2, 2))
        cairn.set_float32_matmul_precision("highest")
        f(cairn.ones(2, 2))
        self.assertEqual(cairn.compiler.stats()["executables"], before + 1)

    def test_no_such_precision(self):
        self.assertRaises(RuntimeError, cairn.set_float32_matmul_precision, "low")

    def test_backends_keep_hints(self):
        b = cairn.backends
        b.cudnn.benchmark, b.cudnn.deterministic = True, True
        self.assertTrue(b.cudnn.benchmark)
        with b.cudnn.flags(enabled=False, benchmark=False):
            self.assertFalse(b.cudnn.enabled or b.cudnn.benchmark)
        self.assertTrue(b.cudnn.enabled and b.cudnn.benchmark)
        b.cudnn.benchmark = b.cudnn.deterministic = False
        b.cuda.matmul.allow_tf32 = True
        self.assertIsNone(b.cudnn.version())
        self.assertIsInstance(b.cuda.is_built(), bool)
        self.assertIsInstance(b.cpu.get_cpu_capability(), str)
        for flags in ({"allow_tf32": True}, {"deterministic": True}, {}):
            with b.cudnn.flags(**flags):
                self.assertEqual(cairn._C._numerics()[1:], (int("allow_tf32" in flags), int("deterministic" in flags)))
        self.assertEqual(cairn._C._numerics()[1:], (0, 0))

    def test_rounding_by_newer_names(self):
        b = cairn.backends
        try:
            b.cudnn.conv.fp32_precision = "tf32"
            self.assertEqual((cairn._C._numerics()[:2], b.cudnn.allow_tf32, b.fp32_precision), ((0, 1), True, "ieee"))
            b.cudnn.rnn.fp32_precision = "tf32"
            self.assertEqual((cairn._C._numerics()[:2], b.cuda.matmul.allow_tf32), ((1, 1), True))
            b.cudnn.fp32_precision = "ieee"
            self.assertEqual((cairn._C._numerics()[:2], b.cudnn.conv.fp32_precision), ((0, 0), "ieee"))
            b.fp32_precision = "tf32"
            self.assertEqual((cairn._C._numerics()[:2], b.cudnn.rnn.fp32_precision), ((1, 1), "tf32"))
        finally:
            b.fp32_precision = "ieee"
        self.assertEqual(cairn._C._numerics()[:2], (0, 0))
        self.assertRaises(RuntimeError, setattr, b.cudnn.conv, "fp32_precision", "float32")
        for owner in (b.cudnn, b.cudnn.rnn, b.cuda.matmul):
            self.assertRaises(AttributeError, setattr, owner, "no_such_setting", True)

    def test_switches_of_attention(self):
        """They are what sdpa_kernel chooses from: without plain products and the CPU's kernel there is no way."""
        b, F = cairn.backends.cuda, cairn.nn.functional
        q = cairn.rand(1, 2, 5, 8)
        want = F.scaled_dot_product_attention(q, q, q)
        with b.sdp_kernel(enable_flash=False):
            self.assertEqual((b.flash_sdp_enabled(), b.math_sdp_enabled()), (False, True))
            self.assertEqual(cairn._C._attention_ways(5), 5)
        self.assertTrue(b.flash_sdp_enabled())
        try:
            b.enable_math_sdp(False)
            b.enable_flash_sdp(False)
            self.assertEqual((b.math_sdp_enabled(), b.cudnn_sdp_enabled()), (False, True))
            with self.assertRaisesRegex(RuntimeError, "attention"):
                F.scaled_dot_product_attention(q, q, q)
            with cairn.nn.attention.sdpa_kernel(cairn.nn.attention.SDPBackend.MATH):
                self.assertEqual((b.math_sdp_enabled(), b.mem_efficient_sdp_enabled()), (True, False))
                self.assertTrue(cairn.allclose(F.scaled_dot_product_attention(q, q, q), want))
            self.assertFalse(b.math_sdp_enabled())
        finally:
            b.enable_math_sdp(True)
            b.enable_flash_sdp(True)
        self.assertEqual(cairn._C._attention_ways(0), 0)

    def test_preferences(self):
        b = cairn.backends.cuda
        self.assertEqual((b.preferred_linalg_library(), b.preferred_blas_library("default")), ("default", "default"))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertEqual(b.preferred_linalg_library("magma"), "magma")
            b.allow_fp16_bf16_reduction_math_sdp(True)
        self.assertEqual((len(seen), b.fp16_bf16_reduction_math_sdp_allowed()), (2, True))
        self.assertRaises(RuntimeError, b.preferred_blas_library, "mkl")
        b.preferred_linalg_library("default")
        b.allow_fp16_bf16_reduction_math_sdp(False)


class Paths(unittest.TestCase):
    def test_imports(self):
        names = {
            "nn.parameter": "Parameter UninitializedParameter UninitializedBuffer is_lazy",
            "nn.modules.activation": "ReLU", "nn.modules.batchnorm": "_BatchNorm LazyBatchNorm2d",
            "nn.modules.container": "Sequential", "nn.modules.conv": "_ConvNd LazyConv2d",
            "nn.modules.dropout": "Dropout", "nn.modules.flatten": "Flatten", "nn.modules.linear": "Linear LazyLinear",
            "nn.modules.loss": "_Loss", "nn.modules.module": "Module", "nn.modules.normalization": "LayerNorm",
            "nn.modules.pooling": "MaxPool2d", "nn.modules.rnn": "LSTM", "nn.modules.sparse": "Embedding",
            "nn.modules.transformer": "TransformerEncoder", "nn.common_types": "_size_2_t", "nn.grad": "conv2d_input",
            "nn.modules.utils": "_pair consume_prefix_in_state_dict_if_present", "nn.parallel": "DataParallel",
            "autograd.variable": "Variable", "autograd.grad_mode": "no_grad", "types": "Device Number",
            "cuda.random": "manual_seed", "cuda.memory": "empty_cache", "cuda.streams": "Stream",
            "utils.benchmark": "Timer", "utils.collect_env": "main", "backends.cudnn": "benchmark",
            "multiprocessing": "Process Queue spawn", "hub": "load", "storage": "UntypedStorage"}
        for module, members in names.items():
            found = importlib.import_module("cairn." + module)
            for member in members.split():
                self.assertTrue(hasattr(found, member), "%s.%s" % (module, member))

    def test_prefix(self):
        state = {"module.weight": 1, "bias": 2}
        importlib.import_module("cairn.nn.modules.utils").consume_prefix_in_state_dict_if_present(state, "module.")
        self.assertEqual(state, {"weight": 1, "bias": 2})

    def test_uninitialized(self):
        p = nn.parameter.UninitializedParameter()
        self.assertTrue(nn.parameter.is_lazy(p))
        p.materialize((2, 3))
        self.assertIs(type(p), nn.Parameter)
        self.assertEqual(p.shape, (2, 3))
        self.assertTrue(p.requires_grad)

    def test_fused_layers(self):
        cairn.manual_seed(0)
        conv, bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
        with cairn.no_grad():
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.5, 2)
            bn.weight.normal_()
        x = cairn.randn(1, 2, 5, 5)
        conv.eval(), bn.eval()
        self.assertTrue(cairn.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5))
        self.assertRaises(AssertionError, nn.utils.fuse_conv_bn_eval, conv.train(), bn)

    def test_gradients_of_convolutions(self):
        x, w = cairn.arange(16.0).view(1, 1, 4, 4), cairn.ones(1, 1, 2, 2)
        g = cairn.ones(1, 1, 3, 3)
        self.assertEqual(nn.grad.conv2d_input(x.shape, w, g)[0, 0, 1].tolist(), [2, 4, 4, 2])
        self.assertEqual(nn.grad.conv2d_weight(x, w.shape, g).flatten().tolist(), [45, 54, 81, 90])


class Derived(unittest.TestCase):
    """Classes derived from Tensor and __torch_function__."""

    def setUp(self):
        class Named(cairn.Tensor):
            pass
        self.named = Named

    def test_results_keep_the_class(self):
        a = cairn.arange(4.0).view(2, 2).as_subclass(self.named)
        for made in (a * 2, 2 * a, 1 - a, -a, a @ a, a[0], a.T, a.sum(), cairn.stack([a, a]), cairn.exp(a), a.long(),
                     a.max(0).values, a.unbind()[1], nn.functional.relu(a), a.clone()):
            self.assertIs(type(made), self.named)
        self.assertIs(type(a.max(0)), type(cairn.ones(2, 2).max(0)))
        self.assertEqual(repr(a), "Named([[0., 1.],\n       [2., 3.]])")
        a += 1
        self.assertEqual((type(a), a.tolist()), (self.named, [[1, 2], [3, 4]]))
        with cairn.overrides.DisableTorchFunctionSubclass():
            self.assertIs(type(a + 1), cairn.Tensor)
        self.assertIs(type(nn.Parameter(cairn.ones(1)) * 2), cairn.Tensor)

    def test_gradients_flow(self):
        x = cairn.ones(2, requires_grad=True)
        (x.as_subclass(self.named) * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 3])

    def test_a_class_has_its_say(self):
        seen = []

        class Logged(cairn.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                if func is cairn.mean:
                    return "mine"
                if func is cairn.exp:
                    return NotImplemented
                return super().__torch_function__(func, types, args, kwargs)

        x = cairn.ones(2).as_subclass(Logged)
        y = cairn.mul(x + 1, 3)
        self.assertEqual((seen, type(y), y.tolist()), (["add", "mul"], Logged, [6, 6]))
        self.assertEqual(cairn.mean(x), "mine")
        self.assertRaises(TypeError, cairn.exp, x)
        self.assertRaises(TypeError, lambda: x + cairn.ones(2).as_subclass(self.named))


class Helpers(unittest.TestCase):
    def test_timer(self):
        from cairn.utils import benchmark
        timer = benchmark.Timer("sleep(0.001)", setup="from time import sleep", label="nap", description="a")
        found = timer.timeit(3)
        self.assertGreater(found.median, 0.001)
        self.assertEqual((found.number_per_run, len(found.times)), (3, 1))
        clock = [0.0]       # its own, so that no other process decides

        def work():
            clock[0] += 1e-5
        other = benchmark.Timer("work()", globals={"work": work}, timer=lambda: clock[0], label="nap",
                                description="b").blocked_autorange(min_run_time=0.01)
        self.assertGreater(other.number_per_run, 1)
        self.assertAlmostEqual(other.median, 1e-5)
        table = str(benchmark.Compare([found, other]))
        self.assertIn("nap", table)
        self.assertIn("1 threads", table)
        self.assertIn("Median", repr(other))

    def test_environment(self):
        from cairn.utils import collect_env
        self.assertIn("cairn version: " + cairn.__version__, collect_env.get_pretty_env_info())

    def test_hub(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hubconf.py"), "w", encoding="utf-8") as file:
                file.write('dependencies = ["torch"]\nimport cairn\ndef small(n, bias=True):\n    "A layer."\n'
                           "    return cairn.nn.Linear(n, 1, bias=bias)\n")
            net = cairn.hub.load(folder, "small", 3, source="local", bias=False)
            self.assertEqual(list(net.state_dict()), ["weight"])
            self.assertIn("small", cairn.hub.list(folder))
            self.assertEqual(cairn.hub.help(folder, "small"), "A layer.")
            self.assertRaises(RuntimeError, cairn.hub.load, folder, "none", source="local")
        self.assertRaises(NotImplementedError, cairn.hub.load, "pytorch/vision", "resnet18")

    def test_processes(self):
        self.assertIn("file_descriptor", cairn.multiprocessing.get_all_sharing_strategies())
        queue = cairn.multiprocessing.Queue()
        queue.put(cairn.arange(3))
        self.assertEqual(queue.get(timeout=5).tolist(), [0, 1, 2])
        with self.assertRaises(cairn.multiprocessing.ProcessRaisedException):
            cairn.multiprocessing.start_processes(_fails, nprocs=1, start_method="fork")
        cairn.multiprocessing.start_processes(_works, args=(2,), nprocs=2, start_method="fork")


def _fails(index):
    raise ValueError("on purpose")


def _works(index, more):
    assert cairn.ones(2).sum().item() == more


if __name__ == "__main__":
    unittest.main()
