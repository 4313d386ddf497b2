"""cairn.datasets: what is inside the library, its readers, and torchvision's classes, from files made here."""
import bz2
import gzip
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

import cairn
from cairn import datasets, transforms
from cairn.transforms import io
from cairn.utils.data import DataLoader, random_split
from cases import Case

try:
    import PIL
except ImportError:
    PIL = None
try:
    import torchvision
except ImportError:
    torchvision = None


def idx_bytes(t):
    """A uint8 tensor in MNIST's format."""
    return struct.pack(">HBB", 0, 8, t.ndim) + struct.pack(">%dI" % t.ndim, *t.shape) + bytes(t.flatten().tolist())


ARRAY = b"numpy.core.multiarray\n_reconstruct"


class Pixels:
    """Pickles as numpy's arrays do, without numpy: its name is put in the place of this one's."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return Pixels, (0,), (1, (len(self.data) // 3072, 3072), None, False, self.data)


PIXELS = (Pixels.__module__ + "\nPixels").encode()


class Folder(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.source = cairn.Generator().manual_seed(0)

    def bytes(self, *shape, below=256):
        return cairn.randint(0, below, shape, dtype=cairn.uint8, generator=self.source)


class Inside(Case):
    def test_digits(self):
        train, test, everything = datasets.digits(), datasets.digits(False), datasets.digits(None)
        self.assertEqual((len(train), len(test), len(everything)), (1437, 360, 1797))
        x, y = train[0]
        self.assertEqual((tuple(x.shape), x.dtype, type(y)), ((1, 8, 8), cairn.float32, int))
        self.assertEqual((train.classes, train.class_to_idx["3"]), ([str(i) for i in range(10)], 3))
        self.assertEqual(everything[-1][1], test[len(test) - 1][1])
        with self.assertRaises(IndexError):
            train[1437]
        self.assertEqual(len(list(iter(test))), 360)  # IndexError ends it

    def test_a_program(self):
        """A network of one layer learns them."""
        cairn.manual_seed(0)
        train, held = random_split(datasets.digits(), [0.9, 0.1])
        w, b = cairn.zeros(64, 10, requires_grad=True), cairn.zeros(10, requires_grad=True)
        for _ in range(8):
            for x, y in DataLoader(train, batch_size=32, shuffle=True, num_workers=2):
                loss = cairn.nn.functional.cross_entropy(x.flatten(1) @ w + b, y)
                loss.backward()
                with cairn.no_grad():
                    for p in (w, b):
                        p -= 0.5 * p.grad
                        p.grad = None
        x, y = next(iter(DataLoader(held, batch_size=len(held))))
        self.assertGreater(((x.flatten(1) @ w + b).argmax(1) == y).float().mean().item(), 0.9)

    def test_fake(self):
        s = datasets.FakeData(5, (3, 8, 9), 4, transform=transforms.ToTensor())
        self.assertEqual(s[2][0].tolist(), s[2][0].tolist())
        self.assertEqual([tuple(x.shape) for x, _ in DataLoader(s, batch_size=3)], [(3, 3, 8, 9), (2, 3, 8, 9)])


class Readers(Folder):
    def test_idx(self):
        x, y = self.bytes(5, 4, 3), self.bytes(5, below=10)
        (self.path / "x").write_bytes(gzip.compress(idx_bytes(x)))
        (self.path / "y").write_bytes(idx_bytes(y))
        s = datasets.idx(self.path / "x", self.path / "y")
        self.assertEqual((len(s), tuple(s[0][0].shape), s[3][1]), (5, (1, 4, 3), int(y[3])))
        self.near(s[2][0][0], x[2].float() / 255)

    def test_csv(self):
        path = self.path / "t.csv"
        path.write_text("a,b,kind\n1,2,cat\n3,4.5,dog\n5,6,cat\n")
        s = datasets.csv(path, header=True, target="kind", target_classes=True)
        self.assertEqual((len(s), s[1][0].tolist(), [y for _, y in s], s.classes),
                         (3, [3.0, 4.5], [0, 1, 0], ["cat", "dog"]))
        path.write_text("1;2\n3;4\n")
        s = datasets.csv(path, delimiter=";", target=0)
        self.assertEqual([s[1][0].tolist(), s[1][1].tolist()], [[4.0], 3.0])
        x, y = next(iter(DataLoader(s, batch_size=2)))
        self.assertEqual((x.tolist(), y.tolist(), y.dtype), ([[2.0], [4.0]], [1.0, 3.0], cairn.float32))
        path.write_text("1;x\n")
        with self.assertRaises((OSError, ValueError)):
            datasets.csv(path, delimiter=";")

    def test_tokens(self):
        row = cairn.arange(20)
        s = datasets.tokens(row, 4)
        self.assertEqual((len(s), [t.tolist() for t in s[1]]), (4, [[4, 5, 6, 7], [5, 6, 7, 8]]))
        path = self.path / "t.bin"
        path.write_bytes(struct.pack("<20H", *range(20)))
        s = datasets.tokens(path, 4, stride=2)
        x, y = next(iter(DataLoader(s, batch_size=3)))
        self.assertEqual((x.tolist()[1], y.tolist()[1], x.dtype), ([2, 3, 4, 5], [3, 4, 5, 6], cairn.int64))


class Mnist(Folder):
    def write(self, zipped):
        raw = self.path / "MNIST" / "raw"
        raw.mkdir(parents=True)
        made = {}
        for part, n in (("train", 12), ("t10k", 5)):
            made[part] = self.bytes(n, 28, 28), self.bytes(n, below=10)
            for name, t in zip(("images-idx3", "labels-idx1"), made[part]):
                data = idx_bytes(t)
                name = "%s-%s-ubyte" % (part, name)
                (raw / (name + ".gz" * zipped)).write_bytes(gzip.compress(data) if zipped else data)
        return made

    def test_files(self):
        made = self.write(zipped=False)
        s = datasets.MNIST(self.path, train=True, transform=transforms.ToTensor())
        self.assertEqual((len(s), tuple(s.data.shape), s.data.dtype, s.targets.tolist()),
                         (12, (12, 28, 28), cairn.uint8, made["train"][1].tolist()))
        self.assertEqual((s.classes[3], s.class_to_idx["3 - three"]), ("3 - three", 3))
        x, y = s[4]
        self.assertEqual((tuple(x.shape), y), ((1, 28, 28), int(made["train"][1][4])))
        self.near(x[0], made["train"][0][4].float() / 255)
        loader = DataLoader(s, batch_size=5, num_workers=2)
        self.assertTrue(loader._runs_natively())
        self.assertEqual([tuple(x.shape) for x, _ in loader], [(5, 1, 28, 28), (5, 1, 28, 28), (2, 1, 28, 28)])
        if torchvision:
            other = torchvision.datasets.MNIST(self.path, transform=torchvision.transforms.ToTensor())
            self.assertEqual((other[4][0].tolist(), other[4][1], other.classes), (x.tolist(), y, s.classes))
        s.targets[0] = 9
        s.data = s.data[:3]
        s.targets = s.targets[:3]
        self.assertEqual((len(s), s[0][1], len(next(iter(DataLoader(s, batch_size=9)))[1])), (3, 9, 3))
        with self.assertRaises(IndexError):
            s[3]

    def test_zipped(self):
        made = self.write(zipped=True)
        s = datasets.MNIST(str(self.path), train=False, target_transform=lambda y: -y)
        self.assertEqual((len(s), s[1][1], s[1][0].dtype), (5, -int(made["t10k"][1][1]), cairn.uint8))

    def test_missing(self):
        for m in [datasets] + ([torchvision.datasets] if torchvision else []):
            with self.assertRaises(RuntimeError):
                m.MNIST(self.path)
            with self.assertRaises(RuntimeError):
                m.CIFAR10(self.path)

    def test_offline(self):
        code = ("from cairn import datasets\ntry:\n  datasets.MNIST(%r, download=True)\n"
                "except OSError as e:\n  print(e)" % str(self.path / "none"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                              env={**os.environ, "CAIRN_OFFLINE": "1", "CAIRN_HOME": str(self.path / "home")})
        self.assertIn("CAIRN_OFFLINE is set", done.stdout, done.stderr)

    def test_download(self):
        self.write(zipped=True)
        (self.path / "MNIST").rename(self.path / "server")

        class Local(datasets.MNIST):
            mirrors = [(self.path / "server" / "raw").as_uri() + "/"]
            _sums = {}

        code = os.environ.get("CAIRN_HOME")
        os.environ["CAIRN_HOME"] = str(self.path / "home")
        try:
            s = Local(self.path / "root", download=True)
        except NotImplementedError as error:
            self.skipTest(str(error))
        finally:
            os.environ.pop("CAIRN_HOME")
            if code is not None:
                os.environ["CAIRN_HOME"] = code
        self.assertEqual(len(s), 12)
        self.assertEqual(len(os.listdir(self.path / "root" / "Local" / "raw")), 4)


class Cifar(Folder):
    def records(self, n, head):
        return cairn.cat([self.bytes(n, head, below=10), self.bytes(n, 3072)], 1)

    def test_ten(self):
        folder = self.path / "cifar-10-batches-bin"
        folder.mkdir()
        rows = [self.records(4, 1) for _ in range(6)]
        for i, r in enumerate(rows):
            name = "test_batch.bin" if i == 5 else "data_batch_%d.bin" % (i + 1)
            (folder / name).write_bytes(bytes(r.flatten().tolist()))
        (folder / "batches.meta.txt").write_text("\n".join("kind%d" % i for i in range(10)) + "\n\n")
        s = datasets.CIFAR10(self.path, train=True)
        self.assertEqual((len(s), tuple(s.data.shape), s.classes[2], len(s.targets)),
                         (20, (20, 32, 32, 3), "kind2", 20))
        x, y = s[5]
        self.assertEqual((x.flatten().tolist(), y), (rows[1][1, 1:].tolist(), int(rows[1][1, 0])))
        test = datasets.CIFAR10(self.path, train=False, transform=transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))]))
        loader = DataLoader(test, batch_size=4, shuffle=True, num_workers=2)
        self.assertTrue(loader._runs_natively())
        self.assertEqual(tuple(next(iter(loader))[0].shape), (4, 3, 32, 32))
        plain = datasets.cifar([folder / "test_batch.bin"])
        self.assertEqual((len(plain), plain[0][0].dtype), (4, cairn.float32))
        with tarfile.open(self.path / "c.tar.gz", "w:gz") as archive:
            archive.add(folder, "cifar-10-batches-bin")

        class Local(datasets.CIFAR10):
            url = (self.path / "c.tar.gz").as_uri()

        home = os.environ.get("CAIRN_HOME")
        os.environ["CAIRN_HOME"] = str(self.path / "home")
        try:
            self.assertEqual(len(Local(self.path / "other", download=True)), 20)
        except NotImplementedError as error:
            self.skipTest(str(error))
        finally:
            os.environ.pop("CAIRN_HOME")
            if home is not None:
                os.environ["CAIRN_HOME"] = home

    def test_hundred(self):
        folder = self.path / "cifar-100-binary"
        folder.mkdir()
        rows = self.records(3, 2)
        (folder / "train.bin").write_bytes(bytes(rows.flatten().tolist()))
        self.assertEqual(datasets.CIFAR100(self.path).targets, rows[:, 1].tolist())


    def test_pickles(self):
        folder = self.path / "cifar-10-batches-py"
        folder.mkdir()
        rows = [self.records(2, 1) for _ in range(6)]
        for i, r in enumerate(rows):
            batch = {"data": Pixels(bytes(r[:, 1:].flatten().tolist())), "labels": r[:, 0].tolist()}
            name = "test_batch" if i == 5 else "data_batch_%d" % (i + 1)
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2).replace(PIXELS, ARRAY))
        (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["kind%d" % i for i in range(10)]}))
        s = datasets.CIFAR10(self.path, train=True)
        self.assertEqual((len(s), s.classes[3], tuple(s.data.shape)), (10, "kind3", (10, 32, 32, 3)))
        self.assertEqual((s[3][0].flatten().tolist(), s[3][1]), (rows[1][1, 1:].tolist(), int(rows[1][1, 0])))
        (folder / "test_batch").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
        with self.assertRaisesRegex(pickle.UnpicklingError, "os.system"):
            datasets.CIFAR10(self.path, train=False)


class Others(Folder):
    """Sets whose files are simple enough to be made here."""

    def test_emnist(self):
        raw = self.path / "EMNIST" / "raw"
        raw.mkdir(parents=True)
        x, y = self.bytes(4, 28, 28), self.bytes(4, below=26) + 1
        (raw / "emnist-letters-train-images-idx3-ubyte").write_bytes(idx_bytes(x))
        (raw / "emnist-letters-train-labels-idx1-ubyte").write_bytes(idx_bytes(y))
        s = datasets.EMNIST(self.path, split="letters", transform=transforms.ToTensor())
        self.assertEqual((len(s), s.classes[1], len(s.classes), s[2][1]), (4, "a", 27, int(y[2])))
        self.near(s[1][0][0], x[1].float() / 255)
        self.assertEqual(len(datasets.EMNIST.classes_split_dict["balanced"]), 47)
        with self.assertRaises(ValueError):
            datasets.EMNIST(self.path, split="none")

    def test_qmnist(self):
        raw = self.path / "QMNIST" / "raw"
        raw.mkdir(parents=True)
        x, y = self.bytes(3, 28, 28), [[7, 1, 2, 3, 4, 5, 6, 7], [2] * 8, [9] * 8]
        (raw / "qmnist-train-images-idx3-ubyte").write_bytes(idx_bytes(x))
        (raw / "qmnist-train-labels-idx2-int").write_bytes(
            struct.pack(">HBB2I", 0, 12, 2, 3, 8) + struct.pack(">24i", *sum(y, [])))
        self.assertEqual([label for _, label in datasets.QMNIST(self.path)], [7, 2, 9])
        self.assertEqual(datasets.QMNIST(self.path, compat=False)[0][1].tolist(), y[0])

    def test_usps(self):
        rows = [(3, -1.0, 1.0), (10, 0.0, 0.5)]
        text = "".join("%d %s\n" % (c, " ".join("%d:%.3f" % (k + 1, a if k % 2 else b) for k in range(256)))
                       for c, a, b in rows)
        (self.path / "usps.t.bz2").write_bytes(bz2.compress(text.encode()))
        s = datasets.USPS(self.path, train=False)
        self.assertEqual((s.targets, s[0][0].shape, s[0][0].flatten()[:2].tolist()), ([2, 9], (1, 16, 16), [255, 0]))

    def test_stl10(self):
        folder = self.path / "stl10_binary"
        folder.mkdir()
        x, y = self.bytes(2, 3, 96, 96), self.bytes(2, below=10) + 1
        for name in ("train_X", "unlabeled_X"):
            (folder / (name + ".bin")).write_bytes(bytes(x.flatten().tolist()))
        (folder / "train_y.bin").write_bytes(bytes(y.tolist()))
        (folder / "class_names.txt").write_text("\n".join("abcdefghij"))
        s = datasets.STL10(self.path, split="train+unlabeled")
        self.assertEqual((len(s), s[1][1], s[3][1], s.classes[1]), (4, int(y[1]) - 1, -1, "b"))
        self.assertTrue(cairn.equal(s[2][0], x[0].transpose(1, 2)))

    def test_own(self):
        class Own(datasets.VisionDataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                image, label = cairn.full((1, 2, 2), index, dtype=cairn.uint8), index
                return self.transforms(image, label) if self.transforms is not None else (image, label)

            def extra_repr(self):
                return "Kind: own"

        s = Own("somewhere", transform=transforms.ToTensor(), target_transform=lambda label: -label)
        self.assertEqual((s[2][0].dtype, s[2][1]), (cairn.float32, -2))
        self.assertIn("Dataset Own\n    Number of datapoints: 3\n    Root location: somewhere\n    Kind: own\n"
                      "    StandardTransform\nTransform: ToTensor()\nTarget transform: ", repr(s))
        with self.assertRaises(ValueError):
            Own("x", transforms=lambda a, b: (a, b), transform=transforms.ToTensor())

    def test_any_files(self):
        for kind, names in (("b", ["2.txt", "1.txt"]), ("a", ["x.txt", "skip.bin"])):
            (self.path / kind).mkdir()
            for name in names:
                (self.path / kind / name).write_text(name)
        s = datasets.DatasetFolder(self.path, lambda path: pathlib.Path(path).read_text(), extensions=(".txt",))
        self.assertEqual((list(s), s.classes, s.targets), ([("x.txt", 0), ("1.txt", 1), ("2.txt", 1)], ["a", "b"],
                                                           [0, 1, 1]))
        (self.path / "c").mkdir()
        with self.assertRaisesRegex(FileNotFoundError, "c"):
            datasets.DatasetFolder(self.path, str, extensions=(".txt",))

        class Only(datasets.DatasetFolder):
            def find_classes(self, directory):
                return ["b"], {"b": 5}

        self.assertEqual(Only(self.path, str, extensions=(".txt",)).targets, [5, 5])


class Images(Folder):
    def setUp(self):
        super().setUp()
        for kind, count in (("cat", 3), ("dog", 2)):
            (self.path / "set" / kind).mkdir(parents=True)
            for i in range(count):
                io.write_png(self.bytes(3, 10 + i, 12), self.path / "set" / kind / ("%d.png" % i))
        try:
            io.read_image(self.path / "set" / "cat" / "0.png")
        except NotImplementedError as error:
            self.skipTest(str(error))

    def test_folder(self):
        s = datasets.ImageFolder(self.path / "set")
        self.assertEqual((len(s), s.classes, s.targets), (5, ["cat", "dog"], [0, 0, 0, 1, 1]))
        self.assertEqual((tuple(s[1][0].shape), s[4][1], s[0][0].dtype), ((3, 11, 12), 1, cairn.uint8))
        if torchvision:
            other = torchvision.datasets.ImageFolder(self.path / "set", torchvision.transforms.PILToTensor())
            self.assertEqual((other.classes, other.class_to_idx, other.samples), (s.classes, s.class_to_idx, s.samples))
            self.assertEqual([(x.tolist(), y) for x, y in other], [(x.tolist(), y) for x, y in s])
        chain = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
        s = datasets.ImageFolder(self.path / "set", chain)
        loader = DataLoader(s, batch_size=5, num_workers=2)
        self.assertTrue(loader._runs_natively())
        self.near(next(iter(loader))[0], cairn.stack([x for x, _ in s]))

    def test_choices(self):
        s = datasets.ImageFolder(self.path / "set", is_valid_file=lambda p: not p.endswith("0.png"))
        self.assertEqual((len(s), s.targets, s[2][1]), (3, [0, 0, 1], 1))
        s = datasets.ImageFolder(self.path / "set", loader=lambda p: cairn.tensor(len(p)))
        self.assertEqual(next(iter(DataLoader(s, batch_size=5)))[0].tolist(), [len(p) for p, _ in s.samples])

    def test_own_functions(self):
        """They get what torchvision's sets give them; without Pillow, tensors."""
        kinds = []
        for first in (lambda t: t, transforms.Lambda(lambda t: t), transforms.RandomApply([lambda t: t], p=1)):
            chain = transforms.Compose([transforms.Resize((4, 4)), first, lambda t: kinds.append(type(t)) or t,
                                        transforms.ToTensor(), lambda t: t * 2])
            x, _ = datasets.ImageFolder(self.path / "set", chain)[0]
            self.assertEqual((tuple(x.shape), x.dtype), ((3, 4, 4), cairn.float32))
        self.assertEqual([issubclass(kind, cairn.Tensor) for kind in kinds], [PIL is None] * 3)
        after = transforms.Compose([transforms.ToTensor(), lambda t: kinds.append(type(t)) or t])
        datasets.ImageFolder(self.path / "set", after)[0]
        self.assertIs(kinds[-1], cairn.Tensor)

    def test_own_items(self):
        class WithPaths(datasets.ImageFolder):
            def __getitem__(self, index):
                return (*super().__getitem__(index), os.path.basename(self.imgs[index][0]))

        s = WithPaths(self.path / "set", transforms.Resize((4, 4)))
        self.assertEqual(next(iter(DataLoader(s, batch_size=5)))[2], ("0.png", "1.png", "2.png", "0.png", "1.png"))

    def test_faults(self):
        loader = DataLoader(datasets.ImageFolder(self.path / "set"), batch_size=2, num_workers=1)
        with self.assertRaisesRegex(RuntimeError, "sample 1"):
            list(loader)  # of different sizes
        with self.assertRaises(OSError):
            datasets.ImageFolder(self.path / "nowhere")
        (self.path / "set" / "cat" / "1.png").write_bytes(b"no image")
        with self.assertRaisesRegex(OSError, "1.png"):
            datasets.ImageFolder(self.path / "set")[1]


if __name__ == "__main__":
    unittest.main()
