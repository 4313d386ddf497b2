#!/usr/bin/env python3
"""cairn's files against PyTorch's, NumPy's and safetensors' own code, through the program test_convert: what they write is
read as they read it, what cairn writes they read back, the rest is refused. CAIRN_REAL_WEIGHTS may name a folder of real
files (.safetensors, .pt, .pth, .npz) that are compared as well.

Each comparison is a test. Where the libraries or the program are missing everything is skipped (status 77).
"""
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
PROGRAM = pathlib.Path(os.environ.get("CAIRN_CONVERT", BUILD / "tests" / "formats" / "test_convert"))

sys.path.append(str(ROOT / "tests"))
import live  # noqa: E402

live.need("numpy", "torch", "safetensors")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import safetensors.torch  # noqa: E402

import golden  # noqa: E402
import listing  # noqa: E402

warnings.simplefilter("ignore")


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          encoding="utf-8", timeout=300)


def strides(value):
    """Of every tensor in nested values, and which of them lie in the same memory."""
    if isinstance(value, torch.Tensor):
        return [(value.stride() if value.numel() else None, value.storage_offset())]
    if isinstance(value, dict):
        value = list(value.values())
    return [s for below in value for s in strides(below)] if isinstance(value, (list, tuple)) else []


def storages(value, seen=None):
    """Numbers of the storages of nested tensors, in the order of their first use."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return [seen.setdefault(value.untyped_storage().data_ptr(), len(seen)) if value.numel() else -1]
    if isinstance(value, dict):
        value = list(value.values())
    return [n for below in value for n in storages(below, seen)] if isinstance(value, (list, tuple)) else []


class Live(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.maxDiff = 4000

    def listed(self, path):
        done = run("list", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def converted(self, source, name):
        done = run("convert", source, self.folder / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name

    def refused(self, path, *words):
        done = run("list", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)

    def save(self, value, name="in.pt", **options):
        torch.save(value, self.folder / name, **options)
        return self.folder / name

    # ---- safetensors ----
    def test_safetensors_files_are_the_librarys_byte_for_byte(self):
        tensors = golden.all_types() | {"layer.0.weight": torch.randn(3, 4, 5), "a" * 300: torch.zeros(2)}
        for metadata in (None, {"format": "pt"}):
            path = self.folder / "in.safetensors"
            safetensors.torch.save_file(tensors, path, metadata)
            out = self.converted(path, "out.safetensors")
            self.assertEqual(path.read_bytes(), out.read_bytes())

    def test_safetensors_from_pytorch(self):
        tensors = {"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.randn(4).half(), "n": torch.tensor(3)}
        back = safetensors.torch.load_file(self.converted(self.save(tensors), "out.safetensors"))
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(back[name], tensor))

    # ---- PyTorch ----
    def check_torch(self, value, **options):
        path = self.save(value, **options)
        self.assertEqual(self.listed(path), listing.text(value))
        if not options.get("_use_new_zipfile_serialization", True):
            return
        back = torch.load(self.converted(path, "out.pt"), weights_only=True)
        self.assertEqual(listing.text(back), listing.text(value))
        original = torch.load(path, weights_only=False)
        self.assertEqual(strides(back), strides(original))
        self.assertEqual(storages(back), storages(original))
        mapped = torch.load(self.folder / "out.pt", weights_only=True, mmap=True)
        self.assertEqual(listing.text(mapped), listing.text(value))

    def test_nested_values(self):
        value = golden.mixed()
        for name in ("dtype", "device", "cpu", "layout"):
            value[name] = str(value[name])
        self.check_torch(value)

    def test_protocols_and_forms(self):
        value = golden.training()
        for protocol in (1, 2, 3, 4, 5):
            self.check_torch(value, pickle_protocol=protocol)
            self.check_torch(value, pickle_protocol=protocol, _use_new_zipfile_serialization=False)

    def test_without_checksums(self):
        before = torch.serialization.get_crc32_options()
        torch.serialization.set_crc32_options(False)
        try:
            self.check_torch({"x": torch.randn(1000), "y": torch.arange(5)})
        finally:
            torch.serialization.set_crc32_options(before)

    def test_random_values(self):
        rng = np.random.default_rng(0)
        types = list(golden.all_types().values())

        def value(depth):
            kind = rng.integers(0, 9 if depth else 6)
            if kind < 2:
                return types[rng.integers(len(types))].clone()
            if kind < 6:
                return [None, bool(rng.integers(2)), int(rng.integers(-2**62, 2**62)), float(rng.normal())][kind - 2]
            items = [value(depth - 1) for _ in range(rng.integers(0, 6))]
            return [items, tuple(items), {f"k{i}" if i % 2 else i: v for i, v in enumerate(items)}][kind - 6]
        for _ in range(20):
            self.check_torch(value(4))

    def test_large_state(self):
        self.check_torch({f"layer.{i}.weight": torch.full((3,), float(i)) for i in range(3000)})

    def test_every_optimiser(self):
        net = torch.nn.Linear(3, 2)
        for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop",
                     "LBFGS", "Adafactor"):
            options = {"momentum": 0.9} if name == "SGD" else {}
            optimiser = getattr(torch.optim, name)(net.parameters(), lr=0.01, **options)

            def closure():
                optimiser.zero_grad()
                loss = net(torch.ones(1, 3)).pow(2).sum()
                loss.backward()
                return loss
            optimiser.step(closure)
            self.check_torch(optimiser.state_dict())

    def test_vision_models(self):
        try:
            import torchvision
        except ImportError:
            self.skipTest("torchvision is not installed")
        self.check_torch(torchvision.models.mobilenet_v2(weights=None).state_dict())

    def test_refused(self):
        class Foreign:
            pass
        globals()["Foreign"], Foreign.__qualname__, Foreign.__module__ = Foreign, "Foreign", "__main__"
        self.refused(self.save({"x": Foreign()}), "Foreign", "nothing is executed")
        self.refused(self.save({"x": np.float32(1)}), "NumPy")
        self.refused(self.save({"x": np.ones(3)}), "NumPy")
        out = io.BytesIO()
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), out)
        (self.folder / "s.pt").write_bytes(out.getvalue())
        self.refused(self.folder / "s.pt", "TorchScript")

    # ---- NumPy ----
    def test_arrays(self):
        rng = np.random.default_rng(1)
        path = self.folder / "in.npy"
        for dtype in "? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
            for shape in ((), (0,), (5,), (2, 3), (3, 1, 4)):
                for order in "<>":
                    array = rng.integers(0, 2 if dtype == "?" else 100, shape).astype(order + dtype if dtype != "?" else dtype)
                    for layout in (array, np.asfortranarray(array)):
                        np.save(path, layout)
                        self.assertEqual(self.listed(path), listing.text(layout))
            back = np.load(self.converted(path, "out.npy"))
            self.assertEqual(back.dtype.newbyteorder("<"), array.dtype.newbyteorder("<"))
            self.assertTrue(np.array_equal(back, array))

    def test_archives(self):
        rng = np.random.default_rng(2)
        arrays = {"x": rng.normal(size=(50, 40)), "a/b": rng.integers(0, 9, 1000), "zeros": np.zeros((300, 300), np.float32),
                  "noise": rng.integers(0, 256, 100000).astype(np.uint8), "one": np.array(1.5)}
        for save in (np.savez, np.savez_compressed):
            path = self.folder / "in.npz"
            save(path, **arrays)
            self.assertEqual(self.listed(path), listing.text(dict(np.load(path))))
            out = self.converted(path, "out.npz")
            self.assertIsNone(zipfile.ZipFile(out).testzip())
            back = np.load(out)
            self.assertEqual(list(back), list(np.load(path)))
            for name in arrays:
                self.assertTrue(np.array_equal(back[name], arrays[name]))

    # ---- gzip ----
    def test_gunzip(self):
        rng = np.random.default_rng(3)
        words = [bytes(rng.integers(97, 123, n).tolist()) for n in rng.integers(2, 9, 200)]
        inputs = [b"", b"x", bytes(100000), rng.bytes(70000), b" ".join(words[i] for i in rng.integers(0, 200, 30000)),
                  rng.integers(0, 4, 50000).astype(np.uint8).tobytes(), np.arange(20000).astype("<i4").tobytes()]
        for data in inputs:
            for level in (0, 1, 6, 9):
                for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED):
                    for memory in (1, 9) if strategy == zlib.Z_DEFAULT_STRATEGY else (8,):
                        c = zlib.compressobj(level, zlib.DEFLATED, 31, memory, strategy)
                        (self.folder / "in.gz").write_bytes(c.compress(data) + c.flush())
                        done = run("gunzip", self.folder / "in.gz", self.folder / "out")
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertEqual((self.folder / "out").read_bytes(), data)

    def test_many_entries(self):
        arrays = {f"x{i}": np.array(i) for i in range(3000)}
        np.savez(self.folder / "in.npz", **arrays)
        back = np.load(self.converted(self.folder / "in.npz", "out.npz"))
        self.assertEqual(int(back["x2999"]), 2999)


def read_real(path):
    """What the file's own library reads; an exception's name where it refuses."""
    if path.suffix == ".safetensors":
        with safetensors.safe_open(path, "pt") as f:
            metadata = {"__metadata__": f.metadata()} if f.metadata() else {}
            return metadata | {k: f.get_tensor(k) for k in f.keys()}
    if path.suffix in (".npz", ".npy"):
        return dict(np.load(path)) if path.suffix == ".npz" else np.load(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def add_real_files():
    folder = os.environ.get("CAIRN_REAL_WEIGHTS")
    for path in sorted(pathlib.Path(folder).rglob("*")) if folder else []:
        if path.suffix not in (".safetensors", ".pt", ".pth", ".npz", ".npy"):
            continue

        def test(self, path=path):
            try:
                value = read_real(path)
            except Exception as error:  # cairn must refuse it as well, and say why
                done = run("list", path)
                self.assertEqual(done.returncode, 1, f"{error}\n{done.stdout}")
                print(f"{path.name}: {done.stderr.strip()}")
                return
            mine = sorted(self.listed(path).splitlines())
            self.assertEqual(mine, sorted(listing.text(value).splitlines()))
            print(f"{path.name}: {len(mine)} lines equal")
        setattr(Live, f"test_real_{path.stem}_{path.suffix[1:]}", test)


if __name__ == "__main__":
    if not PROGRAM.is_file():
        print(f"skipped: {PROGRAM} is not built")
        sys.exit(live.SKIPPED)
    add_real_files()
    unittest.main()
