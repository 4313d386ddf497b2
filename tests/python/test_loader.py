"""cairn.utils.data beside torch.utils.data: data sets, samplers, collating, the loader with and without threads, and
going on in the middle of an epoch."""
import collections
import gc
import itertools
import pickle
import threading
import time
import unittest

import cairn
from cairn import datasets, transforms
from cairn.utils import data as D
from cases import Case, plain, torch

try:
    import numpy as np
except ImportError:
    np = None

LIBRARIES = [cairn] + ([torch] if torch else [])
if torch:
    import torch.utils.data  # noqa: F401  (as m.utils.data)


def squares(m):
    class Squares(m.utils.data.Dataset):
        def __init__(self, n=10, bad=()):
            self.n, self.bad = n, bad

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if i in self.bad:
                raise ValueError("cannot make it")
            return m.tensor([float(i), float(i * i)]), i

    return Squares


def stream(m):
    class Stream(m.utils.data.IterableDataset):
        def __init__(self, start, end):
            self.start, self.end = start, end

        def __iter__(self):
            info = m.utils.data.get_worker_info()
            step, first = (1, 0) if info is None else (info.num_workers, info.id)
            return iter(range(self.start + first, self.end, step))

    return Stream


class Noise(D.Dataset):
    """Draws for each sample."""

    def __len__(self):
        return 23

    def __getitem__(self, i):
        return cairn.rand(2), i


def batches(loader):
    return [plain(b) for b in loader]


def names():
    return [t.name for t in threading.enumerate() if t.name.startswith("cairn-loader")]


def no_threads():
    """Threads that end as soon as they can."""
    for _ in range(100):
        if not names():
            return True
        time.sleep(0.05)
    return False


class Sets(Case):
    def test_tensors(self):
        def program(m):
            x, y = m.arange(12.0).reshape(6, 2), m.arange(6)
            s = m.utils.data.TensorDataset(x, y)
            return [len(s), s[2], s[-1], [t.tolist() for t in s[1:3]]]
        self.same(program)
        self.fails(lambda m: m.utils.data.TensorDataset(m.ones(3), m.ones(4)), AssertionError)

    def test_made_of_others(self):
        def program(m):
            d, squares_of = m.utils.data, squares(m)
            a, b = squares_of(3), squares_of(4)
            both = a + b
            part = d.Subset(both, [6, 0, 3])
            stacked, named = d.StackDataset(a, a), d.StackDataset(x=a, y=a)
            return [len(both), [s[1] for s in (both[0], both[3], both[-1])], len(part), part[0][1], part[[1, 2][0]][1],
                    len(stacked), stacked[2][1][1], sorted(named[1]), both.cumulative_sizes]
        self.same(program)
        self.fails(lambda m: m.utils.data.ConcatDataset([]), AssertionError)
        self.fails(lambda m: m.utils.data.StackDataset(squares(m)(2), squares(m)(3)), ValueError)
        self.fails(lambda m: (squares(m)(2) + squares(m)(2))[4], IndexError)
        self.fails(lambda m: m.utils.data.Dataset()[0], NotImplementedError)

    def test_streams(self):
        def program(m):
            s = stream(m)
            chain = m.utils.data.ChainDataset([s(0, 3), s(7, 9)])
            return [list(chain), list(s(0, 2) + s(5, 6))]
        self.same(program, [[0, 1, 2, 7, 8], [0, 1, 5]])

    def test_split(self):
        def program(m):
            s = m.utils.data.TensorDataset(m.arange(11))
            g = m.Generator().manual_seed(3)
            a, b = m.utils.data.random_split(s, [8, 3], generator=g)
            again = m.utils.data.random_split(s, [8, 3], generator=m.Generator().manual_seed(3))
            parts = m.utils.data.random_split(s, [0.5, 0.25, 0.25])
            return [sorted([int(v[0]) for v in a] + [int(v[0]) for v in b]), list(a.indices) == list(again[0].indices),
                    [len(p) for p in parts], sorted(i for p in parts for i in p.indices)]
        self.same(program)
        for wrong in ([5, 5], [0.5, 0.6], [0.5, 0.4]):
            self.fails(lambda m, w=wrong: m.utils.data.random_split(squares(m)(11), w), ValueError)


class Samplers(Case):
    def test_orders(self):
        def program(m):
            d, source = m.utils.data, range(10)
            weighted = list(d.WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 50))
            return [list(d.SequentialSampler(source)), sorted(d.RandomSampler(source)),
                    len(list(d.RandomSampler(source, replacement=True, num_samples=25))),
                    len(set(d.RandomSampler(source, num_samples=4))),
                    sorted(collections.Counter(d.RandomSampler(source, num_samples=23)).values()),
                    sorted(d.SubsetRandomSampler([4, 7, 1])), sorted(set(weighted)), len(weighted),
                    sorted(d.WeightedRandomSampler(m.ones(4), 4, replacement=False)),
                    list(d.BatchSampler(d.SequentialSampler(source), 4, False)),
                    list(d.BatchSampler(range(10), 4, True)), len(d.BatchSampler(range(10), 4, True)),
                    len(d.BatchSampler(range(10), 4, False)), len(d.RandomSampler(source))]
        self.same(program)
        for options in ({"replacement": True}, {}):  # more than memory holds: they are drawn as they are asked for
            many = iter(D.RandomSampler(range(5), num_samples=10 ** 10, **options))
            self.assertLessEqual(set(itertools.islice(many, 10000)), set(range(5)))
            self.assertEqual(len(D.RandomSampler(range(5), num_samples=10 ** 10, **options)), 10 ** 10)
            rows = iter(D.DataLoader(D.TensorDataset(cairn.arange(5)), 4, sampler=D.RandomSampler(
                range(5), num_samples=10 ** 10, **options)))
            self.assertEqual(next(rows)[0].shape, (4,))
        for wrong in (lambda d: d.RandomSampler(range(3), num_samples=0), lambda d: d.BatchSampler(range(3), 0, False),
                      lambda d: d.BatchSampler(range(3), 2, 1), lambda d: d.WeightedRandomSampler([1.0], 0),
                      lambda d: d.WeightedRandomSampler([[1.0]], 1)):
            self.fails(lambda m, w=wrong: w(m.utils.data), ValueError)

    def test_seeds(self):
        for m in LIBRARIES:
            sampler = m.utils.data.RandomSampler(range(100))
            m.manual_seed(1)
            a, b = list(sampler), list(sampler)
            m.manual_seed(1)
            self.assertEqual((a, b), (list(sampler), list(sampler)))
            self.assertNotEqual(a, b)
            own = m.utils.data.RandomSampler(range(100), generator=m.Generator().manual_seed(4))
            self.assertNotEqual(list(own), list(own))

    def test_shares(self):
        def program(m):
            d = m.utils.data
            shares = [list(d.DistributedSampler(range(10), 3, r, shuffle=False)) for r in range(3)]
            short = [list(d.DistributedSampler(range(10), 3, r, shuffle=False, drop_last=True)) for r in range(3)]
            mixed = [d.DistributedSampler(range(10), 3, r, seed=5) for r in range(3)]
            seen = [list(s) for s in mixed]
            for s in mixed:
                s.set_epoch(1)
            return [shares, short, sorted({i for s in seen for i in s}), [len(s) for s in mixed],
                    seen == [list(s) for s in mixed]]
        self.same(program)
        self.fails(lambda m: m.utils.data.DistributedSampler(range(3), 2, 2), ValueError)


Pair = collections.namedtuple("Pair", "x label")


class Collate(Case):
    def test_pinned(self):
        from cairn.utils.data._collate import pinned

        class Own:
            def pin_memory(self):
                return "pinned"

        Pair = collections.namedtuple("Pair", "a b")
        made = pinned({"x": [Own(), 1], "y": (Own(), "text"), "z": Pair(Own(), None)})
        self.assertEqual(made, {"x": ["pinned", 1], "y": ("pinned", "text"), "z": Pair("pinned", None)})

    def test_kinds(self):
        def program(m):
            c, t = m.utils.data.default_collate, m.tensor
            numbers = c([1, 2]), c([1.5, 2.5]), c([True, False])
            nested = c([{"a": t([1.0]), "b": [1, t(2)]}, {"a": t([3.0]), "b": [4, t(5)]}])
            named = c([Pair(t(1), "u"), Pair(t(2), "v")])
            return [[plain(n) for n in numbers], [str(n.dtype).split(".")[1] for n in numbers], plain(nested["a"]),
                    plain(nested["b"]), type(named).__name__, plain(named.x), named.label, c(["a", "b"]),
                    plain(c([(t([1.0, 2.0]), 1), (t([3.0, 4.0]), 2)])), type(c([(1, 2)])).__name__,
                    type(c([collections.OrderedDict(a=1)])).__name__, c([b"x"])]
        self.same(program)

    def test_faults(self):
        self.fails(lambda m: m.utils.data.default_collate([[1, 2], [3]]), RuntimeError)
        self.fails(lambda m: m.utils.data.default_collate([m.ones(2), m.ones(3)]), RuntimeError)
        self.fails(lambda m: m.utils.data.default_collate([object()]), TypeError)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_numpy(self):
        def program(m):
            c, v = m.utils.data.default_collate, m.utils.data.default_convert
            made = [c([np.ones(2, np.float32), np.zeros(2, np.float32)]), c([np.int32(1), np.int32(2)]),
                    c([np.float64(1), np.float64(2)]), v(np.arange(3)), v(np.float32(2)), v([np.ones(1)])[0]]
            same = v({"a": "text", "b": (1, "x")})
            return [[str(t.dtype).split(".")[1], plain(t)] for t in made] + [same["a"], list(same["b"]), v(5)]
        self.same(program)
        self.fails(lambda m: m.utils.data.default_collate([np.array(["a"])]), TypeError)


class Loader(Case):
    def test_batches(self):
        def program(m):
            loader, s = m.utils.data.DataLoader, squares(m)()
            rows = m.utils.data.TensorDataset(m.arange(7.0), m.arange(7))
            two = [[0, 1], [5], [2, 3, 4]]
            return [batches(loader(s)), batches(loader(s, batch_size=4)),
                    batches(loader(s, batch_size=4, drop_last=True)),
                    batches(loader(s, batch_size=None)), batches(loader(s, batch_sampler=two)),
                    batches(loader(s, batch_size=3, sampler=[9, 1, 1, 5])), batches(loader(rows, batch_size=3)),
                    [len(loader(s, batch_size=4)), len(loader(s, batch_size=4, drop_last=True)),
                     len(loader(s, batch_size=None)), len(loader(s, batch_sampler=two))],
                    batches(loader(s, batch_size=5, collate_fn=len)), batches(loader([1.5, 2.5, 3.5], batch_size=2)),
                    batches(loader({0: 5, 1: 6}, batch_size=2)),
                    [type(b).__name__ for b in loader(rows, batch_size=7)]]
        self.same(program)

    def test_shuffled(self):
        for m in LIBRARIES:
            for s in (squares(m)(), m.utils.data.TensorDataset(m.arange(10), m.arange(10))):
                loader = m.utils.data.DataLoader(s, batch_size=3, shuffle=True)
                m.manual_seed(2)
                a, b = [[y for _, ys in loader for y in ys.tolist()] for _ in range(2)]
                m.manual_seed(2)
                again = [y for _, ys in loader for y in ys.tolist()]
                self.assertEqual(sorted(a), list(range(10)))
                self.assertEqual(a, again)
                self.assertNotEqual(a, b)

    def test_wrong_arguments(self):
        s = {m: squares(m)() for m in LIBRARIES}
        it = {m: stream(m)(0, 4) for m in LIBRARIES}
        for wrong in (lambda m, load: load(s[m], num_workers=-1), lambda m, load: load(s[m], timeout=-1),
                      lambda m, load: load(s[m], sampler=[1], shuffle=True), lambda m, load: load(s[m], batch_size=0),
                      lambda m, load: load(s[m], batch_sampler=[[1]], batch_size=2),
                      lambda m, load: load(s[m], batch_size=None, drop_last=True),
                      lambda m, load: load(s[m], prefetch_factor=2),
                      lambda m, load: load(s[m], persistent_workers=True),
                      lambda m, load: load(it[m], shuffle=True), lambda m, load: load(it[m], sampler=[1]),
                      lambda m, load: load(it[m], batch_sampler=[[1]]),
                      lambda m, load: setattr(load(s[m]), "batch_size", 5)):
            self.fails(lambda m, w=wrong: w(m, m.utils.data.DataLoader), ValueError)
        self.fails(lambda m: len(m.utils.data.DataLoader(it[m])), TypeError)

    def test_streams(self):
        def program(m):
            loader, s = m.utils.data.DataLoader, stream(m)(0, 10)
            return [batches(loader(s, batch_size=4)), batches(loader(s, batch_size=4, drop_last=True)),
                    batches(loader(s, batch_size=None)), list(loader(s, batch_size=4, collate_fn=list))]
        self.same(program)
        for workers, expected in ((2, [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]),
                                  (3, [[0, 3, 6], [1, 4, 7], [2, 5, 8], [9]])):
            loader = D.DataLoader(stream(cairn)(0, 10), batch_size=3, num_workers=workers)
            self.assertEqual(batches(loader), expected)


class Threads(Case):
    def test_order_never_depends_on_workers(self):
        for s in (squares(cairn)(31), Noise(), D.TensorDataset(cairn.arange(29)), datasets.digits(False)):
            found = []
            for workers, ahead in ((0, None), (1, 1), (2, 2), (5, 3)):
                cairn.manual_seed(8)
                loader = D.DataLoader(s, batch_size=4, shuffle=True, num_workers=workers, prefetch_factor=ahead)
                found.append([batches(loader), batches(loader)])
            self.assertTrue(all(f == found[0] for f in found))
            self.assertNotEqual(found[0][0], found[0][1])
        self.assertTrue(no_threads())

    def test_slow_samples_keep_their_place(self):
        class Slow(D.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, i):
                time.sleep(0.01 if i % 3 == 0 else 0)
                return i

        self.assertEqual(batches(D.DataLoader(Slow(), batch_size=2, num_workers=4)),
                         [[i, i + 1] for i in range(0, 12, 2)])

    def test_exceptions(self):
        s = squares(cairn)(10, bad=(7,))
        for workers in (0, 2):
            loader, seen = D.DataLoader(s, batch_size=2, num_workers=workers), []
            with self.assertRaises(ValueError) as caught:
                for _, y in loader:
                    seen += y.tolist()
            self.assertEqual(seen, list(range(6)))
            text = str(caught.exception) + "".join(getattr(caught.exception, "__notes__", []))
            self.assertIn("sample 7", text)
            self.assertIn("cannot make it", text)
            caught = None
        gc.collect()
        self.assertTrue(no_threads())

    def test_leaving_early(self):
        for m in (squares(cairn)(1000), Noise()):
            for _ in D.DataLoader(m, num_workers=3):
                break
            self.assertTrue(no_threads())
        it = iter(D.DataLoader(squares(cairn)(1000), num_workers=2))
        next(it)
        self.assertEqual(len(names()), 2)
        del it
        self.assertTrue(no_threads())

    def test_bounded(self):
        made = []

        class Counting(D.Dataset):
            def __len__(self):
                return 100

            def __getitem__(self, i):
                made.append(i)
                return i

        it = iter(D.DataLoader(Counting(), num_workers=2, prefetch_factor=3))
        next(it)
        time.sleep(0.1)
        self.assertLessEqual(len(made), 7)
        del it

    def test_timeout(self):
        class Stuck(D.Dataset):
            def __len__(self):
                return 2

            def __getitem__(self, i):
                time.sleep(0.6 * i)
                return i

        it = iter(D.DataLoader(Stuck(), num_workers=1, timeout=0.1))
        self.assertEqual(next(it).item(), 0)
        with self.assertRaisesRegex(RuntimeError, "timed out"):
            next(it)

    def test_worker_info(self):
        seen = []

        class Who(D.IterableDataset):
            limit = 0

            def __iter__(self):
                return iter([D.get_worker_info().id] * self.limit)

        def init(worker):
            info = D.get_worker_info()
            info.dataset.limit = worker + 1  # of this worker alone
            seen.append((worker, info.id, info.num_workers))

        s = Who()
        loader = D.DataLoader(s, batch_size=None, num_workers=3, worker_init_fn=init)
        self.assertEqual(sorted(loader), [0, 1, 1, 2, 2, 2])
        self.assertEqual(sorted(seen), [(0, 0, 3), (1, 1, 3), (2, 2, 3)])
        self.assertEqual(s.limit, 0)
        self.assertIsNone(D.get_worker_info())

        def fails(worker):
            raise KeyError("no")

        with self.assertRaises(KeyError):
            list(D.DataLoader(squares(cairn)(), num_workers=2, worker_init_fn=fails))

    def test_default_type_is_the_programs(self):
        cairn.set_default_dtype(cairn.float64)
        try:
            class Floats(D.Dataset):
                def __len__(self):
                    return 3

                def __getitem__(self, i):
                    return cairn.tensor([0.5 * i])

            self.assertEqual(next(iter(D.DataLoader(Floats(), num_workers=1))).dtype, cairn.float64)
        finally:
            cairn.set_default_dtype(cairn.float32)


class Resume(Case):
    def sources(self):
        yield squares(cairn)(23), {}
        yield Noise(), {}
        yield D.TensorDataset(cairn.arange(23)), {}
        yield datasets.digits(False, transform=transforms.RandomCrop(8, 2)), {"drop_last": True}
        yield D.Subset(datasets.digits(False), list(range(5, 90, 3))), {}

    def test_in_mid_epoch(self):
        for s, more in self.sources():
            for workers in (0, 2):
                for own in (False, True):
                    def make(n):
                        g = cairn.Generator().manual_seed(9) if own else None
                        return D.DataLoader(s, batch_size=4, shuffle=True, generator=g, num_workers=n, **more)

                    loader = make(workers)
                    cairn.manual_seed(5)
                    it = iter(loader)
                    for _ in range(3):
                        next(it)
                    state = pickle.loads(pickle.dumps(loader.state_dict()))
                    rest, after = [plain(b) for b in it], batches(loader)
                    other = make(2 - workers)
                    cairn.rand(3)  # the thread's own numbers are elsewhere
                    other.load_state_dict(state)
                    self.assertEqual(other.state_dict()["batches"], 3)
                    self.assertEqual(rest, batches(other))
                    if own:  # the next epochs go on as well
                        self.assertEqual(after, batches(other))

    def test_between_epochs(self):
        s = squares(cairn)(20)
        g = cairn.Generator().manual_seed(1)
        loader = D.DataLoader(s, batch_size=3, shuffle=True, generator=g)
        batches(loader)
        state = loader.state_dict()
        self.assertEqual(state["batches"], 0)
        second = batches(loader)
        other = D.DataLoader(s, batch_size=3, shuffle=True, generator=cairn.Generator())
        other.load_state_dict(state)
        self.assertEqual(second, batches(other))

    def test_streams(self):
        for workers in (0, 2):
            loader = D.DataLoader(stream(cairn)(0, 20), batch_size=3, num_workers=workers)
            it = iter(loader)
            next(it), next(it)
            state = loader.state_dict()
            rest = [plain(b) for b in it]
            other = D.DataLoader(stream(cairn)(0, 20), batch_size=3, num_workers=workers)
            other.load_state_dict(state)
            self.assertEqual(rest, batches(other))
            self.assertEqual(len(batches(other)), len(rest) + 2)

    def test_the_threads_numbers_are_left_alone(self):
        loader = D.DataLoader(squares(cairn)(20), batch_size=3, shuffle=True)
        it = iter(loader)
        next(it)
        other = D.DataLoader(squares(cairn)(20), batch_size=3, shuffle=True)
        other.load_state_dict(loader.state_dict())
        cairn.manual_seed(77)
        expected = cairn.rand(2).tolist()
        cairn.manual_seed(77)
        list(other)
        self.assertEqual(cairn.rand(2).tolist(), expected)


class Native(Case):
    """What the library's own loader runs gives what Python's way gives."""

    def test_same_batches(self):
        d = datasets.digits(None)
        parts = [d, D.Subset(d, [3, 1, -1, 700]), d + datasets.digits(False), D.random_split(d, [0.9, 0.1])[1],
                 D.TensorDataset(cairn.randn(50, 3), cairn.arange(50), cairn.ones(50, dtype=cairn.bool)),
                 datasets.digits(True, transform=transforms.Compose([transforms.Resize(6), transforms.CenterCrop(4),
                                                                     transforms.Normalize([0.5], [0.25])]))]
        for s in parts:
            fast = D.DataLoader(s, batch_size=16)
            slow = D.DataLoader(s, batch_size=16, collate_fn=lambda b: D.default_collate(b))
            self.assertTrue(fast._runs_natively() and not slow._runs_natively())
            for a, b in zip(fast, slow, strict=True):
                self.assertEqual([t.dtype for t in a], [t.dtype for t in b])
                self.near(a, b)

    def test_left_to_python(self):
        class Mine(D.TensorDataset):
            def __getitem__(self, i):
                return super().__getitem__(i)[0] + 1

        x = cairn.arange(6.0)
        for s in (Mine(x), D.TensorDataset(x.reshape(2, 3).t()), D.TensorDataset(cairn.ones(3, requires_grad=True)),
                  datasets.digits(transform=lambda t: t), datasets.digits(target_transform=str)):
            loader = D.DataLoader(s, batch_size=2)
            self.assertFalse(loader._runs_natively())
            next(iter(loader))
        self.assertEqual(batches(D.DataLoader(Mine(x), batch_size=4)), [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0]])
        y = next(iter(D.DataLoader(D.TensorDataset(cairn.ones(3, requires_grad=True)), batch_size=2)))[0]
        self.assertTrue(y.requires_grad)

    def test_tensors_changed_in_place(self):
        x = cairn.zeros(4)
        loader = D.DataLoader(D.TensorDataset(x), batch_size=4)
        self.assertEqual(batches(loader), [[[0.0] * 4]])
        x.fill_(1)
        self.assertEqual(batches(loader), [[[1.0] * 4]])


if __name__ == "__main__":
    unittest.main()
