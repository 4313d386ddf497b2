"""Arguments that once were accepted and dropped: each is honoured, or raises, or (where only speed depends on it) warns
once."""
import io
import os
import subprocess
import struct
import sys
import tempfile
import unittest
import warnings

import cairn
from cairn import _arguments, nn
from cairn.autograd import gradcheck, gradgradcheck
from cairn.autograd.gradcheck import GradcheckError
from cairn.transforms import io as image_io
from emulated import BUILD

try:
    import torch
except ImportError:
    torch = None
PLUGIN = os.path.join(os.path.abspath(BUILD), "libcairn_cuda.so")


class Case(unittest.TestCase):
    def warns(self, work, text):
        """work() warns with that text, and once."""
        _arguments._noted.clear()
        with self.assertWarnsRegex(UserWarning, text):
            result = work()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            work()
        self.assertFalse([w for w in found if text in str(w.message)])
        return result


class Helpers(Case):
    def test_refused(self):
        _arguments.refused("f", "why", 1, a=1, b=True)
        for kind in (NotImplementedError, ValueError):
            with self.assertRaisesRegex(kind, "f: a=2 is not supported: why"):
                _arguments.refused("f", "why", 1, a=2)
        with self.assertRaises(NotImplementedError):
            _arguments.refused("f", "why", a=cairn.zeros(2))

    def test_warnings_repeat(self):
        self.addCleanup(cairn.set_warn_always, False)
        self.warns(lambda: _arguments.only_speed("f", 0, a=1), "f: a=1 has no effect")
        cairn.set_warn_always(True)
        self.assertTrue(cairn.is_warn_always_enabled())
        for _ in range(2):
            with self.assertWarns(UserWarning):
                _arguments.only_speed("f", 0, a=1)


class Seeds(unittest.TestCase):
    def numbers(self, code="print(cairn.initial_seed(), cairn.rand(3).tolist())", **more):
        env = {k: v for k, v in os.environ.items() if k != "CAIRN_SEED"}
        done = subprocess.run([sys.executable, "-c", "import cairn\n" + code], env={**env, **more}, check=True,
                              capture_output=True, text=True)
        return done.stdout

    def test_processes(self):
        self.assertNotEqual(self.numbers(), self.numbers())
        self.assertEqual(self.numbers(CAIRN_SEED="7"), self.numbers(CAIRN_SEED="7"))
        self.assertEqual(self.numbers(CAIRN_SEED="7"),
                         self.numbers("cairn.manual_seed(7)\nprint(cairn.initial_seed(), cairn.rand(3).tolist())"))

    def test_layers_and_orders(self):
        code = ("print(cairn.nn.Linear(2, 2).weight.tolist())\n"
                "loader = cairn.utils.data.DataLoader(list(range(50)), shuffle=True, num_workers=2)\n"
                "print([int(b) for b in loader])")
        self.assertNotEqual(self.numbers(code), self.numbers(code))
        self.assertEqual(self.numbers(code, CAIRN_SEED="3"), self.numbers(code, CAIRN_SEED="3"))


class LibraryWarnings(unittest.TestCase):
    """What the library warns of is a warning of Python."""

    def warned(self, code, **more):
        return subprocess.run([sys.executable, "-c", code], env={**os.environ, **more}, check=True, capture_output=True,
                              text=True).stderr

    def test_settings_that_make_no_sense(self):
        said = self.warned("import cairn", CAIRN_KERNEL="nonsense")
        self.assertIn("UserWarning: CAIRN_KERNEL: 'nonsense' is not", said)
        said = self.warned("import cairn\ncairn.rand(2)\npass", CAIRN_SEED="abc")
        self.assertRegex(said, r"<string>:[23]: UserWarning: CAIRN_SEED=abc is not an integer")

    def test_implementations(self):
        code = "import cairn\ncairn.rand(2)"
        said = self.warned(code, CAIRN_KERNEL="conv2d=direct,conv2d=nonsense")
        self.assertIn("UserWarning: CAIRN_KERNEL: there is no implementation nonsense of conv2d", said)
        self.assertNotIn("direct", said)

    @unittest.skipUnless(os.path.exists(PLUGIN), "no CUDA plugin to emulate, or no C++ compiler")
    def test_implementations_of_plugins(self):
        code, folder = "import cairn\ncairn.rand(2)", os.path.dirname(PLUGIN)
        said = self.warned(code, CAIRN_KERNEL="linear_gelu=cublaslt,linear_gelu=nonsense", CAIRN_PLUGIN_PATH=folder)
        self.assertNotIn("cublaslt", said)
        self.assertIn("there is no implementation nonsense of linear_gelu", said)

    def test_of_another_thread(self):
        code = "import cairn, threading\nt = threading.Thread(target=lambda: cairn.rand(2))\nt.start()\nt.join()\npass"
        self.assertIn("UserWarning: CAIRN_SEED=abc", self.warned(code, CAIRN_SEED="abc"))


class Twice(cairn.autograd.Function):
    """Two results; backward cannot do without the gradients of both."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 + b * 3


class Double(cairn.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Gradcheck(Case):
    def setUp(self):
        cairn.manual_seed(1)
        self.x = cairn.randn(3, dtype=cairn.float64, requires_grad=True)

    def test_undefined_grad(self):
        with self.assertRaisesRegex(GradcheckError, "undefined"):
            gradcheck(Twice.apply, (self.x,))
        self.assertFalse(gradcheck(Twice.apply, (self.x,), raise_exception=False))
        self.assertTrue(gradcheck(Twice.apply, (self.x,), check_undefined_grad=False))
        self.assertTrue(gradcheck(lambda x: (x * 2, x.sin()), (self.x,)))

    def test_forward_and_batched(self):
        self.assertTrue(gradcheck(lambda x: (x.sin(), (x * x).sum()), (self.x,), check_forward_ad=True,
                                  check_batched_grad=True, check_grad_dtypes=True))
        self.assertTrue(gradcheck(lambda x: x.exp(), (self.x,), check_forward_ad=True, check_backward_ad=False))

        def wrong(x):  # its value jumps, so finite differences differ from every derivative
            return x + 1e-3 * (x.detach() * 1e6).round()
        for way in ({"check_forward_ad": True, "check_backward_ad": False}, {}):
            with self.assertRaises(GradcheckError):
                gradcheck(wrong, (self.x,), **way)

    def test_refused(self):
        for given in ({"check_batched_forward_grad": True}, {"masked": True}):
            with self.assertRaises(NotImplementedError):
                gradcheck(cairn.sin, (self.x,), **given)
        with self.assertRaises(ValueError):
            gradcheck(cairn.sin, (self.x,), check_backward_ad=False)
        self.assertTrue(self.warns(lambda: gradcheck(cairn.sin, (self.x,), fast_mode=True), "fast_mode"))

    def test_second_order(self):
        self.assertTrue(gradgradcheck(cairn.sin, (self.x,), check_fwd_over_rev=True, check_batched_grad=True,
                                      gen_non_contig_grad_outputs=True))
        with self.assertRaises(ValueError):
            gradgradcheck(cairn.sin, (self.x,), check_rev_over_rev=False)
        with self.assertRaises(NotImplementedError):
            gradgradcheck(cairn.sin, (self.x,), masked=True)
        seen = []

        class Watch(cairn.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()

            @staticmethod
            def backward(ctx, g):
                seen.append(g.is_contiguous())
                return g * ctx.saved_tensors[0].cos()

        self.assertTrue(gradgradcheck(Watch.apply, (self.x,), gen_non_contig_grad_outputs=True))
        self.assertFalse(all(seen))


def _jpeg(held, size=(2, 3)):
    """A JPEG file whose Exif data say how it was held; grey, brighter to the right and downwards."""
    image = (cairn.arange(size[0]).reshape(-1, 1) * 100 + cairn.arange(size[1]) * 40).to(cairn.uint8)
    big = image.repeat_interleave(8, 0).repeat_interleave(8, 1).unsqueeze(0)
    data = bytes(image_io.encode_jpeg(big.expand(3, -1, -1).contiguous(), 95).tolist())
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 1) + struct.pack(">HHIHH", 0x0112, 3, 1, held, 0)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]


class Exif(Case):
    def test_orientations(self):
        plain = image_io.decode_image(_jpeg(1)).tolist()
        cases = {1: lambda t: t, 2: lambda t: t.flip(-1), 3: lambda t: t.flip(-1).flip(-2), 4: lambda t: t.flip(-2),
                 5: lambda t: t.transpose(-1, -2), 6: lambda t: t.rot90(-1, (-2, -1)),
                 7: lambda t: t.transpose(-1, -2).flip(-1).flip(-2), 8: lambda t: t.rot90(1, (-2, -1))}
        with tempfile.TemporaryDirectory() as folder:
            for held, turn in cases.items():
                data, path = _jpeg(held), os.path.join(folder, "x.jpg")
                with open(path, "wb") as file:
                    file.write(data)
                self.assertEqual(image_io.decode_image(data).tolist(), plain)
                want = turn(cairn.tensor(plain, dtype=cairn.uint8)).tolist()
                self.assertEqual(image_io.decode_image(data, apply_exif_orientation=True).tolist(), want, held)
                self.assertEqual(image_io.read_image(path, apply_exif_orientation=True).tolist(), want, held)
                self.assertEqual(image_io.decode_image(path, apply_exif_orientation=True).tolist(), want, held)

    def test_png_and_nonsense(self):
        from cairn.transforms._exif import orientation
        tiff = b"II*\0" + struct.pack("<IH", 8, 1) + struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
        png = bytes(image_io.encode_png(cairn.zeros(1, 2, 3, dtype=cairn.uint8)).tolist())
        chunk = struct.pack(">I", len(tiff)) + b"eXIf" + tiff + b"\0\0\0\0"
        self.assertEqual(orientation(png[:33] + chunk + png[33:]), 6)
        self.assertEqual(orientation(png), 1)
        whole = _jpeg(6)
        for cut in range(64):
            self.assertIn(orientation(whole[:cut]), (1, 6))
        self.assertEqual(orientation(_jpeg(9)), 1)

    def test_compression_level(self):
        image = cairn.zeros(1, 2, 3, dtype=cairn.uint8)
        made = self.warns(lambda: image_io.encode_png(image, 9), "compression_level")
        self.assertEqual(image_io.decode_image(made).tolist(), image.tolist())
        with self.assertRaises(ValueError):
            image_io.encode_png(image, 10)


class Devices(Case):
    def test_data_parallel(self):
        net = nn.Linear(2, 1)
        self.assertEqual(nn.DataParallel(net)(cairn.ones(3, 2)).tolist(), net(cairn.ones(3, 2)).tolist())
        self.assertEqual(nn.DataParallel(net, device_ids=["cpu"])(cairn.ones(3, 2)).shape, (3, 1))
        with self.assertRaisesRegex(NotImplementedError, "one device"):
            nn.DataParallel(net, device_ids=[0, 1])
        with self.assertRaisesRegex(NotImplementedError, "one device"):
            nn.parallel.data_parallel(net, cairn.ones(3, 2), device_ids=[0, 1])
        with self.assertRaisesRegex(RuntimeError, "no device"):
            nn.DataParallel(net, device_ids=[99])
        with self.assertRaisesRegex(RuntimeError, "no device"):
            nn.DataParallel(net, output_device=99)

    def test_backends(self):
        cudnn, cuda = cairn.backends.cudnn, cairn.backends.cuda

        def benchmark():
            cudnn.benchmark = True
            self.assertTrue(cudnn.benchmark)
            cudnn.benchmark = False
        self.warns(benchmark, "benchmark")

        def flags():
            with cudnn.flags(benchmark=True, enabled=True):
                self.assertTrue(cudnn.benchmark)
            self.assertFalse(cudnn.benchmark)
        self.warns(flags, "benchmark")

        self.warns(lambda: (setattr(cudnn, "enabled", False), setattr(cudnn, "enabled", True)), "enabled")
        with self.assertRaises(AttributeError):
            cuda.matmul.alow_tf32 = True
        self.warns(lambda: (cuda.preferred_blas_library("cublas"), cuda.preferred_blas_library("default")), "blas")
        self.warns(lambda: cairn.set_num_interop_threads(4), "set_num_interop_threads")
        cairn.set_num_interop_threads(1)
        self.assertFalse(cairn.set_flush_denormal(True))
        self.assertTrue(cairn.set_flush_denormal(False))

    def test_without_a_device(self):
        for given in ({"interprocess": True}, {"external": True}):
            with self.assertRaises(NotImplementedError):
                cairn.cuda.Event(**given)
        with self.assertRaises(TypeError):
            cairn.cuda.Stream(stream_id=3)
        self.warns(lambda: cairn.cuda.Event(blocking=True), "blocking")
        event = cairn.cuda.Event()
        event.synchronize()  # not recorded: nothing to wait for
        self.assertTrue(event.query())

    def streams(self, device):
        """Work in a stream of its own, awaited by an event."""
        try:
            x = cairn.ones(64, 64).to(device)
        except RuntimeError as error:
            self.skipTest("no device: %s" % error)
        side, own = cairn.Stream(x.device), cairn._streams.Stream._own(x.device)
        self.assertNotEqual(side, own)
        self.assertEqual(own, cairn._streams.current(x.device))
        ready, begin, end = cairn.Event(), cairn.Event(enable_timing=True), cairn.Event(enable_timing=True)
        with self.assertRaisesRegex(RuntimeError, "recorded"):
            begin.elapsed_time(end)
        self.assertTrue(end.query())
        ready.record(own)
        with side:
            self.assertEqual(cairn._streams.current(x.device), side)
            side.wait_event(ready)
            x.record_stream(side)
            begin.record(side)
            y = x @ x
            end.record(side)
        self.assertEqual(cairn._streams.current(x.device), own)
        end.synchronize()
        self.assertTrue(end.query())
        self.assertTrue(side.query())
        self.assertGreaterEqual(begin.elapsed_time(end), 0)
        own.wait_stream(side)
        self.assertEqual(y.sum().item(), 64.0 ** 3)
        side.synchronize()
        with self.assertRaisesRegex(RuntimeError, "enable_timing"):
            ready.elapsed_time(end)

    def test_streams(self):
        for device in ("cpu", "mirror"):
            with self.subTest(device):
                self.streams(device)

    @unittest.skipUnless(cairn.cuda.is_available(), "no CUDA device")
    def test_cuda(self):
        self.streams("cuda")
        c = cairn.cuda
        c.empty_cache()
        before = c.memory_reserved()
        x = cairn.ones(1 << 22, device="cuda")
        held = c.memory_reserved()
        self.assertGreaterEqual(held, before + (1 << 24))
        del x
        self.assertEqual(c.memory_reserved(), held)  # kept for the next
        c.empty_cache()
        self.assertEqual(c.memory_reserved(), before)
        self.assertGreaterEqual(c.max_memory_reserved(), held)
        c.reset_peak_memory_stats()
        self.assertEqual(c.max_memory_reserved(), before)
        self.assertEqual(c.memory_stats()["reserved_bytes.all.current"], before)
        net = nn.DataParallel(nn.Linear(2, 1), device_ids=[0])
        self.assertEqual(net(cairn.ones(3, 2)).device.type, "cuda")


class Layers(Case):
    def test_sparse_embeddings(self):
        ids = cairn.tensor([1, 1, 3])
        layer = nn.Embedding(5, 2, sparse=True)
        if torch:  # the numbers are those of sparse gradients
            other = torch.nn.Embedding(5, 2, sparse=True)
            with torch.no_grad():
                other.weight.copy_(torch.tensor(layer.weight.tolist()))
            for m, net, index in ((cairn, layer, ids), (torch, other, torch.tensor([1, 1, 3]))):
                optimizer = m.optim.SparseAdam(net.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    (net(index) ** 2).sum().backward()
                    optimizer.step()
            self.assertTrue(cairn.allclose(layer.weight, cairn.tensor(other.weight.tolist()), atol=1e-6))

    def test_speed_only(self):
        p = nn.Parameter(cairn.ones(2))
        p.sum().backward()
        self.warns(lambda: nn.utils.clip_grad_norm_([p], 1.0, foreach=True), "foreach")
        self.warns(lambda: cairn.gather(cairn.ones(2), 0, cairn.tensor([0]), sparse_grad=True), "sparse_grad")
        self.warns(lambda: cairn.optim.SGD([p], lr=0.1, foreach=True), "foreach")
        self.warns(lambda: cairn.autocast("cpu", cache_enabled=False), "cache_enabled")
        self.warns(lambda: cairn.compile(nn.Linear(1, 1), mode="max-autotune"), "compile: mode")
        self.warns(lambda: nn.Linear(1, 1).compile(mode="max-autotune"), "compile: mode")

    def test_refused(self):
        optimizer = cairn.optim.SGD([nn.Parameter(cairn.ones(1))], lr=1.0)
        schedule = cairn.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        part = cairn.optim.lr_scheduler.ConstantLR(optimizer)
        for work in (lambda: schedule.step(1.0, epoch=3),
                     lambda: cairn.optim.lr_scheduler.SequentialLR(optimizer, [part], [], last_epoch=2),
                     lambda: cairn.save({}, io.BytesIO(), pickle_module=io),
                     lambda: cairn.load(io.BytesIO(b"x"), pickle_module=io),
                     lambda: cairn.func.jacfwd(cairn.sin, randomness="different"),
                     lambda: cairn.zoo.list_models(module=cairn)):
            with self.assertRaises(NotImplementedError):
                work()
        for make in (lambda: cairn.scalar_tensor(1.0, misspelt=1), lambda: cairn.ones(1).new_tensor([1], misspelt=1),
                     lambda: cairn.normal(0.0, 1.0, (2,), misspelt=1)):
            with self.assertRaises(TypeError):
                make()

    def test_memory_formats(self):
        t = cairn.arange(24.0)
        t.resize_(1, 2, 3, 4, memory_format=cairn.channels_last)
        self.assertTrue(t.is_contiguous(memory_format=cairn.channels_last))
        self.assertEqual(t.reshape(-1).tolist(), list(range(24)))


class Counting(cairn.utils.data.Dataset):
    """Each copy of it counts its calls."""

    def __init__(self):
        self.calls = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.calls += 1
        return self.calls


class Loaders(Case):
    def test_persistent_workers(self):
        for keep, second in ((False, [1, 2, 3, 4]), (True, [5, 6, 7, 8])):
            begun = []
            loader = cairn.utils.data.DataLoader(Counting(), num_workers=1, persistent_workers=keep,
                                                 worker_init_fn=begun.append)
            self.assertEqual([int(b) for b in loader], [1, 2, 3, 4])
            self.assertEqual([int(b) for b in loader], second)
            self.assertEqual(begun, [0] if keep else [0, 0])

    def test_left_early(self):
        loader = cairn.utils.data.DataLoader(list(range(20)), num_workers=2, persistent_workers=True,
                                             worker_init_fn=lambda worker: None)
        first = iter(loader)
        self.assertEqual([int(next(first)) for _ in range(3)], [0, 1, 2])
        self.assertEqual([int(b) for b in loader], list(range(20)))
        with self.assertRaisesRegex(RuntimeError, "new loop"):
            next(first)
        threads = list(loader._workers.threads)
        del loader, first
        for thread in threads:
            thread.join(5)
            self.assertFalse(thread.is_alive())

    def test_streams_begin_again(self):
        class Numbers(cairn.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(3))
        loader = cairn.utils.data.DataLoader(Numbers(), num_workers=1, persistent_workers=True)
        for _ in range(2):
            self.assertEqual([int(b) for b in loader], [0, 1, 2])

    def test_places(self):
        data = list(range(3))
        self.warns(lambda: cairn.utils.data.DataLoader(data, in_order=False), "in_order")
        with self.assertRaises(ValueError):
            cairn.utils.data.DataLoader(data, pin_memory_device="cpu")


class Tables(Case):
    def table(self, *times):
        from cairn.utils.benchmark import Compare, Measurement, TaskSpec
        return Compare([Measurement(1, list(t), TaskSpec("f()", "pass", description="c%d" % i))
                        for i, t in enumerate(times)])

    def test_colours_and_marks(self):
        compare = self.table([1.0, 1.0, 1.0], [3.0, 3.0, 3.0])
        self.assertNotIn("\033", str(compare))
        compare.colorize()
        self.assertIn("\033[32m", str(compare))
        self.assertIn("\033[31m", str(compare))
        unsteady = self.table([1.0, 2.0, 3.0])
        self.assertNotIn("!", str(unsteady))
        unsteady.highlight_warnings()
        self.assertIn("(! 50%)", str(unsteady))

    def test_digits(self):
        compare = self.table([10.1, 12.2, 14.3])
        self.assertIn("12.2", str(compare))
        compare.trim_significant_figures()
        self.assertNotIn("12.2", str(compare))
        self.assertIn("12", str(compare))


if __name__ == "__main__":
    unittest.main()
