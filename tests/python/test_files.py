"""save and load: torch's files both ways, safetensors, NumPy's files, Python objects, checkpoints of runs."""
import collections
import io
import os
import pickle
import tempfile
import threading
import unittest

import cairn
from cairn import nn, serialization

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None
try:
    import safetensors.numpy
except ImportError:
    safetensors = None

needs_numpy = unittest.skipUnless(numpy, "numpy is not installed")
needs_torch = unittest.skipUnless(torch, "PyTorch is not installed")


class Thing:
    """A class that a pickle names."""

    def __init__(self):
        self.t = cairn.arange(6.0)
        self.part = self.t[2:4]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.factor = 2

    def forward(self, x):
        return self.norm(self.fc(x)) * self.factor


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def same(self, a, b):
        """Equal trees; of cairn's tensors or torch's."""
        if hasattr(a, "tolist") and hasattr(b, "tolist"):
            self.assertEqual(str(a.dtype).split(".")[1], str(b.dtype).split(".")[1])
            self.assertEqual(tuple(a.shape), tuple(b.shape))
            self.assertEqual(a.tolist(), b.tolist())
        elif isinstance(a, dict):
            self.assertEqual(list(a), list(b))
            for key in a:
                self.same(a[key], b[key])
        elif isinstance(a, (list, tuple)):
            self.assertEqual((type(a), len(a)), (type(b), len(b)))
            for x, y in zip(a, b):
                self.same(x, y)
        else:
            self.assertEqual((type(a), a), (type(b), b))


def tree():
    t = cairn.arange(12.0).reshape(3, 4)
    return {"weights": collections.OrderedDict(a=t, b=t[1:, ::2], turned=t.T), "half": t.half(), "bf": t.bfloat16(),
            "ints": cairn.tensor([[1, -2]]), "flags": cairn.tensor([True, False]), "empty": cairn.empty(0, 3),
            "scalar": cairn.tensor(2.5, dtype=cairn.float64), "epoch": 3, "loss": 0.5, "name": "größe", "none": None,
            "yes": True, "list": [1, (2, "x"), {}], "state": {0: {"step": cairn.tensor(1.0)}, 1: {}}}


class TestTrees(Case):
    def test_back(self):
        cairn.save(tree(), self.path("x.pt"))
        for how in ({}, {"mmap": True}, {"mmap": False}, {"map_location": "cpu"}, {"weights_only": False},
                    {"map_location": cairn.device("cpu")}):
            found = cairn.load(self.path("x.pt"), **how)
            self.same(tree(), found)
            a, b = found["weights"]["a"], found["weights"]["b"]
            self.assertEqual(b.data_ptr() - a.data_ptr(), 16)
            a[1, 0] = 50.0
            self.assertEqual(b[0, 0].item(), 50.0)
        self.same(tree(), cairn.load(self.path("x.pt")))  # the file has not changed

    @needs_torch
    def test_torch_opens_ours(self):
        cairn.save(tree(), self.path("x.pt"))
        found = torch.load(self.path("x.pt"), weights_only=True)
        self.same(tree(), found)
        self.assertEqual(found["weights"]["b"].data_ptr() - found["weights"]["a"].data_ptr(), 16)

    def test_names_and_file_objects(self):
        for name in ("x.pt", "x.pth", "x.bin", "x", "x.json.tar"):
            cairn.save({"a": 1}, self.path(name))
            self.assertEqual(cairn.load(self.path(name)), {"a": 1})
        for data in (tree(), {"t": cairn.ones(2, requires_grad=True)}):
            file = io.BytesIO()
            cairn.save(data, file)
            file.seek(0)
            self.same(data, cairn.load(file))
            with self.assertRaises(EOFError):
                cairn.load(file)
        with open(self.path("open"), "wb") as file:
            cairn.save(cairn.ones(3), file)
        with open(self.path("open"), "rb") as file:
            self.assertEqual(cairn.load(file).tolist(), [1, 1, 1])

    def test_file_object_that_fails(self):
        class Full:
            def write(self, data):
                raise OverflowError("full")

        with self.assertRaisesRegex(OverflowError, "full"):
            cairn.save(cairn.ones(100000), Full())
        self.assertEqual(cairn.ones(2).sum().item(), 2)

    def test_other_formats(self):
        t = cairn.arange(6.0).reshape(2, 3)
        for name in ("w.safetensors", "w.npz"):
            cairn.save({"a": t, "b.c": t[1]}, self.path(name))
            self.same(cairn.load(self.path(name)), {"a": t, "b.c": t[1]})
        cairn.save(t.T, self.path("w.npy"))
        self.same(cairn.load(self.path("w.npy")), t.T)
        cairn.save({"a": t, "__metadata__": {"format": "pt"}}, self.path("m.safetensors"))
        self.assertEqual(list(cairn.load(self.path("m.safetensors"))), ["a"])
        cairn.save({"a": t.requires_grad_()}, self.path("w.safetensors"))
        if numpy:
            self.assertEqual(numpy.load(self.path("w.npz"))["b.c"].tolist(), [3, 4, 5])
        if safetensors:
            self.assertEqual(safetensors.numpy.load_file(self.path("m.safetensors"))["a"].tolist(), t.tolist())

    def test_what_does_not_fit(self):
        t = cairn.ones(2)
        file = open(os.devnull)
        self.addCleanup(file.close)
        for name, data, message in (("x.safetensors", {"a": t, "b": 3}, r"\['b'\] is a int"),
                                    ("x.npz", {1: t}, r"\[1\]"), ("x.npz", [t], "not a list"),
                                    ("x.npy", {"a": t}, "one tensor"),
                                    ("x.safetensors", nn.Linear(1, 1), "state_dict"),
                                    ("x.pt", {"a": {"f": file}}, r"obj\['a'\]\['f'\] cannot be saved")):
            with self.assertRaisesRegex(TypeError, message):
                cairn.save(data, self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))
        with self.assertRaisesRegex(Exception, r"obj\['x'\]\[1\]"):
            cairn.save({"x": [1, lambda: 0]}, self.path("x.pt"))
        with self.assertRaisesRegex(RuntimeError, "Parent directory"):
            cairn.save(t, self.path("no/x.pt"))
        with self.assertRaises(FileNotFoundError):
            cairn.load(self.path("no.pt"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_damaged_files(self):
        cairn.save(tree(), self.path("x.pt"))
        with open(self.path("x.pt"), "rb") as file:
            whole = file.read()
        for cut in (5, 100, len(whole) // 2, len(whole) - 10):
            with self.assertRaises((OSError, RuntimeError, pickle.UnpicklingError)):
                cairn.load(io.BytesIO(whole[:cut]))
        with self.assertRaises(OSError):
            cairn.load(io.BytesIO(b"not a file of weights"))
        with self.assertRaises(EOFError):
            cairn.load(io.BytesIO(b""))

    def test_threads(self):
        data = {"a": cairn.arange(10000.0)}
        failures = []

        def work(k):
            try:
                for i in range(5):
                    cairn.save(data, self.path("t%d.pt" % k))
                    self.same(cairn.load(self.path("t%d.pt" % k)), data)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class TestObjects(Case):
    def data(self):
        t = cairn.arange(12.0).reshape(3, 4)
        return {"parameter": nn.Parameter(t[0]), "needs": t.clone().requires_grad_(), "size": t.shape,
                "dtype": cairn.bfloat16, "device": cairn.device("cuda", 1), "set": {1, 2}, "bytes": b"\0\xff",
                "complex": 1j, "big": 1 << 80, "a": t[1:], "b": t[:1], "empty": cairn.empty(0, 2),
                "f8": t.to(cairn.float8_e4m3fn), "counter": collections.Counter("abca"), (1, 2): "tuple key"}

    def check(self, found, library):
        self.assertIsInstance(found["parameter"], library.nn.Parameter)
        self.assertTrue(found["parameter"].requires_grad and found["needs"].requires_grad)
        self.assertEqual((found["dtype"], found["device"]), (library.bfloat16, library.device("cuda:1")))
        self.assertIsInstance(found["size"], library.Size)
        self.assertEqual(found["a"].data_ptr() - found["b"].data_ptr(), 16)
        self.assertEqual(found["parameter"].data_ptr(), found["b"].data_ptr())
        self.assertEqual((found["bytes"], found["big"], found["set"], found[1, 2]), (b"\0\xff", 1 << 80, {1, 2},
                                                                                    "tuple key"))
        self.assertEqual(found["a"].tolist(), self.data()["a"].tolist())
        self.assertEqual((tuple(found["empty"].shape), found["f8"].dtype), ((0, 2), library.float8_e4m3fn))

    def test_back(self):
        cairn.save(self.data(), self.path("x.pt"))
        for weights_only in (True, False):
            self.check(cairn.load(self.path("x.pt"), weights_only=weights_only), cairn)

    @needs_torch
    def test_torch_opens_ours(self):
        cairn.save(self.data(), self.path("x.pt"))
        self.check(torch.load(self.path("x.pt"), weights_only=True), torch)

    def test_classes(self):
        cairn.save({"thing": Thing()}, self.path("x.pt"))
        with self.assertRaisesRegex(pickle.UnpicklingError, r"Thing"):
            cairn.load(self.path("x.pt"))
        found = cairn.load(self.path("x.pt"), weights_only=False)["thing"]
        self.assertEqual(found.part.data_ptr() - found.t.data_ptr(), 8)
        self.assertEqual(found.part.tolist(), [2, 3])
        with serialization.safe_globals([Thing]):
            self.assertIsInstance(cairn.load(self.path("x.pt"))["thing"], Thing)
        self.assertEqual(serialization.get_safe_globals(), [])

    def test_nothing_runs(self):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (self_path,)

        self_path = self.path("made")
        cairn.save([Evil()], self.path("x.pt"))
        with self.assertRaises(pickle.UnpicklingError):
            cairn.load(self.path("x.pt"))
        self.assertFalse(os.path.exists(self_path))

    def test_modules(self):
        net = Net().eval()
        cairn.save(net, self.path("net.pt"))
        found = cairn.load(self.path("net.pt"), weights_only=False)
        x = cairn.randn(5, 4)
        self.assertEqual(found(x).tolist(), net(x).tolist())
        self.assertEqual((found.factor, found.training), (2, False))
        cairn.save(net.state_dict(), self.path("w.pt"))
        other = Net().eval()
        other.load_state_dict(cairn.load(self.path("w.pt")))
        self.assertEqual(other(x).tolist(), net(x).tolist())
        for name in ("w.safetensors", "w.npz"):
            cairn.save(net.state_dict(), self.path(name))
            other = Net().eval()
            other.load_state_dict(cairn.load(self.path(name)))
            self.assertEqual(other(x).tolist(), net(x).tolist())

    def test_holds_itself(self):
        data = {"t": cairn.ones(2)}
        data["self"] = data
        cairn.save(data, self.path("x.pt"))
        found = cairn.load(self.path("x.pt"))
        self.assertIs(found["self"], found)


@needs_torch
class TestTorchFiles(Case):
    def checkpoint(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        net(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
        t = torch.arange(12.0).reshape(3, 4)
        return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2, "text": "x",
                "views": [t, t[1:], t.T], "bf16": t.bfloat16(), "bool": t > 3, "nothing": None}

    def test_both_forms(self):
        want = self.checkpoint()
        for new in (True, False):
            torch.save(want, self.path("t.pt"), _use_new_zipfile_serialization=new)
            for how in ({}, {"weights_only": False}, {"map_location": lambda storage, place: storage},
                        {"map_location": {"cuda:0": "cpu"}}, {"mmap": True}):
                found = cairn.load(self.path("t.pt"), **how)
                self.same(found["model"], dict(want["model"]))
                self.same(found["optimizer"], want["optimizer"])
                self.same([found[k] for k in ("epoch", "text", "bf16", "bool", "nothing")],
                          [want[k] for k in ("epoch", "text", "bf16", "bool", "nothing")])
                a, b, c = found["views"]
                self.same(found["views"], want["views"])
                self.assertEqual((b.data_ptr() - a.data_ptr(), c.data_ptr(), c.stride()), (16, a.data_ptr(), (1, 4)))

    def test_more_than_trees(self):
        t = torch.arange(6.0)
        want = {"p": torch.nn.Parameter(t), "g": t.clone().requires_grad_(), "size": t.shape, "dtype": torch.int8,
                "device": torch.device("cpu"), "set": {1}, "f8": t.to(torch.float8_e5m2)}
        torch.save(want, self.path("t.pt"))
        found = cairn.load(self.path("t.pt"))
        self.assertIsInstance(found["p"], nn.Parameter)
        self.assertTrue(found["g"].requires_grad)
        self.assertEqual((found["size"], found["dtype"], found["set"]), (cairn.Size([6]), cairn.int8, {1}))
        self.assertEqual(found["f8"].float().tolist(), want["f8"].float().tolist())

    def test_state_of_a_network(self):
        torch.save(self.checkpoint(), self.path("t.pt"))
        found = cairn.load(self.path("t.pt"))
        net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        net.load_state_dict(found["model"])
        optimizer = cairn.optim.Adam(net.parameters())
        optimizer.load_state_dict(found["optimizer"])
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        cairn.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, self.path("c.pt"))
        back = torch.load(self.path("c.pt"), weights_only=True)
        other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        other.load_state_dict(back["model"])
        again = torch.optim.Adam(other.parameters())
        again.load_state_dict(back["optimizer"])
        self.same(again.state_dict()["state"], self.checkpoint()["optimizer"]["state"])

    def test_their_classes(self):
        torch.save(torch.nn.Linear(2, 2), self.path("t.pt"))
        with self.assertRaisesRegex(pickle.UnpicklingError, "torch.nn.modules.linear.Linear"):
            cairn.load(self.path("t.pt"))


class TestCheckpoints(Case):
    def parts(self):
        cairn.manual_seed(7)
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = cairn.optim.AdamW(net.parameters(), lr=0.01)
        return net, optimizer, cairn.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def run_steps(self, parts, n):
        net, optimizer, scheduler = parts
        losses = []
        for _ in range(n):
            loss = net(cairn.randn(6, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        return losses

    def test_goes_on(self):
        first = self.parts()
        self.run_steps(first, 3)
        serialization.save_checkpoint(self.path("run.ckpt"), *first, epoch=1, step=3, best=0.25, names=["a"],
                                      table=cairn.ones(2))
        rest = self.run_steps(first, 5)
        second = self.parts()
        found = serialization.load_checkpoint(self.path("run.ckpt"), *second)
        self.assertEqual((found["epoch"], found["step"], found["best"], found["names"]), (1, 3, 0.25, ["a"]))
        self.assertEqual(found["table"].tolist(), [1, 1])
        self.assertEqual(second[1].param_groups[0]["lr"], 0.005)
        self.assertEqual(self.run_steps(second, 5), rest)
        self.assertIn("net.0.weight", cairn.load(self.path("run.ckpt")))  # a safetensors file

    def test_all_parts(self):
        data = cairn.utils.data.TensorDataset(cairn.arange(12.0))

        def make():
            net, optimizer, scheduler = self.parts()
            loader = cairn.utils.data.DataLoader(data, 2, shuffle=True)
            return net, optimizer, scheduler, loader, cairn.amp.GradScaler("cpu")

        first = make()
        batches = iter(first[3])
        next(batches)
        next(batches)
        serialization.save_checkpoint(self.path("x"), *first)
        rest = [batch[0].tolist() for batch in batches]
        second = make()
        serialization.load_checkpoint(self.path("x"), *second)
        self.assertEqual([batch[0].tolist() for batch in second[3]], rest)
        self.assertEqual(second[4].state_dict(), first[4].state_dict())

    def test_optimiser_in_python(self):
        class Plain(cairn.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})

        net = nn.Linear(2, 1)
        serialization.save_checkpoint(self.path("x"), net, Plain(net.parameters(), 0.5))
        other = Plain(net.parameters(), 0.1)
        serialization.load_checkpoint(self.path("x"), net, other)
        self.assertEqual(other.param_groups[0]["lr"], 0.5)

    def test_faults(self):
        net, optimizer, scheduler = self.parts()
        with self.assertRaisesRegex(TypeError, r"\['extra'\]\['bad'\] is a object"):
            serialization.save_checkpoint(self.path("x"), net, bad=object())
        serialization.save_checkpoint(self.path("x"), net)
        with self.assertRaisesRegex(ValueError, "no optim"):
            serialization.load_checkpoint(self.path("x"), net, optimizer)
        with self.assertRaisesRegex(KeyError, "scheduler"):
            serialization.load_checkpoint(self.path("x"), net, scheduler=scheduler)
        with open(self.path("x"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
        with self.assertRaisesRegex(OSError, "damaged"):
            serialization.load_checkpoint(self.path("x"), net)


if __name__ == "__main__":
    unittest.main()
