"""DataLoader with processes: the batches of threads and of none, workers that fail or die, and nothing left behind."""
import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import cairn
from cairn.utils import data as D
from cases import plain

try:
    import numpy as np
except ImportError:
    np = None

METHODS = multiprocessing.get_all_start_methods()


class Noise(D.Dataset):
    """Draws for each sample; tensors of several kinds, and what is none."""

    def __len__(self):
        return 23

    def __getitem__(self, i):
        return cairn.rand(2, 3), i, cairn.full((2,), i, dtype=cairn.float16), "n%d" % i, cairn.zeros(0, 2)


class Stream(D.IterableDataset):
    def __init__(self, n):
        self.n, self.limit = n, None

    def __iter__(self):
        info = D.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n if self.limit is None else self.limit, step))


class Bad(D.Dataset):
    """Sample 5 does what it is told to do."""

    def __init__(self, what):
        self.what = what

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            self.what(i)
        return i


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def raise_key(i):
    raise KeyError("no\nsuch key")


def raise_odd(i):
    raise Odd(1, 2)


def raise_local(i):
    class Local(Exception):
        pass
    raise Local("of this function")


def leave(i):
    sys.exit(3)


def leave_at_once(i):
    os._exit(3)


def kill(i):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(i):
    time.sleep(60)


class Processes(D.Dataset):
    """Says who makes a sample."""

    def __init__(self):
        self.drawn = 0

    def __len__(self):
        return 12

    def __getitem__(self, i):
        info = D.get_worker_info()
        return info.id, info.num_workers, os.getpid(), self.drawn


def draw(worker):
    info = D.get_worker_info()
    assert info.id == worker and info.seed == cairn.initial_seed()
    info.dataset.drawn = random.getrandbits(40)


def fail(worker):
    raise ValueError("not today")


def limit(worker):
    D.get_worker_info().dataset.limit = 10 * worker + 4


def unpicklable(batch):
    return lambda: batch


def as_pairs(batch):
    x = cairn.tensor(batch)
    return x, x, x.reshape(2, -1).t()


def batches(loader):
    return [plain(b) for b in loader]


def left_behind():
    """The loader's processes that are there, and files of shared memory."""
    gc.collect()
    return ([p.name for p in multiprocessing.active_children() if p.name.startswith("cairn-loader")],
            sorted(n for n in os.listdir("/dev/shm") if "cairn" in n) if os.path.isdir("/dev/shm") else [])


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


class Case(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(left_behind(), ([], []))


class Same(Case):
    """What comes is what comes without workers."""

    def test_every_method(self):
        cairn.manual_seed(4)
        loader = D.DataLoader(Noise(), batch_size=4, shuffle=True)
        expected = [batches(loader), batches(loader)]
        for method in METHODS:
            for persistent in (False, True):
                cairn.manual_seed(4)
                loader = D.DataLoader(Noise(), batch_size=4, shuffle=True, num_workers=2,
                                      multiprocessing_context=method, persistent_workers=persistent)
                self.assertEqual([batches(loader), batches(loader)], expected, method)
                del loader

    def test_any_number_of_workers(self):
        found = []
        for workers, ahead in ((0, None), (1, 1), (3, 4)):
            cairn.manual_seed(8)
            context = {"multiprocessing_context": "fork"} if workers else {}
            found.append(batches(D.DataLoader(Noise(), batch_size=3, num_workers=workers, prefetch_factor=ahead,
                                              **context)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_kinds_of_data_sets(self):
        x = cairn.arange(24.0).reshape(12, 2)
        sets = [D.TensorDataset(x, cairn.arange(12)), D.Subset(D.TensorDataset(x), [3, 1, 7]), [1.5, 2.5, 3.5],
                D.TensorDataset(x) + D.TensorDataset(x)]
        for s in sets:
            for size in (None, 2):
                expected = batches(D.DataLoader(s, batch_size=size))
                loader = D.DataLoader(s, batch_size=size, num_workers=2, multiprocessing_context="fork")
                self.assertEqual(batches(loader), expected)

    def test_tensors_that_are_sent(self):
        loader = D.DataLoader([1.0, 2.0, 3.0, 4.0], batch_size=4, collate_fn=as_pairs, num_workers=1,
                              multiprocessing_context="fork")
        x, again, turned = next(iter(loader))
        self.assertIs(x, again)
        self.assertEqual(turned.tolist(), [[1, 3], [2, 4]])
        self.assertEqual(turned.stride(), (1, 2))
        self.assertFalse(x.is_shared())
        x += 1  # memory of its own, that lives on when the worker has ended
        self.assertEqual((x.tolist(), turned.tolist()), ([2, 3, 4, 5], [[1, 3], [2, 4]]))
        x.share_memory_()
        self.assertTrue(x.is_shared())

    def test_streams(self):
        expected = batches(D.DataLoader(Stream(11), batch_size=2, num_workers=3))
        for persistent in (False, True):
            loader = D.DataLoader(Stream(11), batch_size=2, num_workers=3, multiprocessing_context="fork",
                                  persistent_workers=persistent)
            self.assertEqual(batches(loader), expected)
            self.assertEqual(batches(loader), expected)
            del loader

    def test_resume_with_another_kind_of_workers(self):
        def make(**how):
            return D.DataLoader(Noise(), batch_size=4, shuffle=True, num_workers=2, **how)
        cairn.manual_seed(5)
        loader = make()
        it = iter(loader)
        next(it), next(it)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        rest = [plain(b) for b in it]
        other = make(multiprocessing_context="fork")
        other.load_state_dict(state)
        self.assertEqual(batches(other), rest)


class Workers(Case):
    def test_worker_info(self):
        for method in METHODS:
            loader = D.DataLoader(Processes(), batch_size=None, num_workers=3, multiprocessing_context=method,
                                  worker_init_fn=draw)
            seen = list(loader)
            self.assertEqual({s[0] for s in seen}, {0, 1, 2})
            self.assertEqual({s[1] for s in seen}, {3})
            self.assertEqual(len({(s[0], s[2], s[3]) for s in seen}), 3)  # a process and random numbers for each
            self.assertNotIn(os.getpid(), {s[2] for s in seen})
        self.assertIsNone(D.get_worker_info())

    def test_random_numbers_repeat(self):
        seen = []
        for _ in range(2):
            cairn.manual_seed(3)
            loader = D.DataLoader(Processes(), batch_size=None, num_workers=2, multiprocessing_context="fork",
                                  worker_init_fn=draw)
            seen.append({(s[0], s[3]) for s in loader})
        self.assertEqual(*seen)

    def test_persistent(self):
        loader = D.DataLoader(Processes(), batch_size=None, num_workers=2, multiprocessing_context="fork",
                              persistent_workers=True)
        first = {s[2] for s in loader}
        it = iter(loader)
        next(it)  # left in the middle
        self.assertEqual({s[2] for s in loader}, first)
        with self.assertRaisesRegex(RuntimeError, "new loop"):
            next(it)

    def test_own_copy_of_the_data_set(self):
        s = Stream(0)
        loader = D.DataLoader(s, batch_size=None, num_workers=2, multiprocessing_context="fork", worker_init_fn=limit)
        self.assertEqual(sorted(loader), sorted([0, 2, *range(1, 14, 2)]))
        self.assertIsNone(s.limit)

    def test_prefetch_is_bounded(self):
        counter = multiprocessing.Value("i", 0)

        class Counting(D.Dataset):
            def __len__(self):
                return 100

            def __getitem__(self, i):
                with counter.get_lock():
                    counter.value += 1
                return i

        it = iter(D.DataLoader(Counting(), num_workers=2, prefetch_factor=3, multiprocessing_context="fork"))
        next(it)
        time.sleep(0.2)
        self.assertLessEqual(counter.value, 7)
        del it

    def test_contexts(self):
        for context in (multiprocessing.get_context("fork"), cairn.multiprocessing.get_context("fork")):
            loader = D.DataLoader([1, 2], num_workers=1, multiprocessing_context=context)
            self.assertIs(loader.multiprocessing_context, context)
            self.assertEqual(batches(loader), [[1], [2]])
        with self.assertRaisesRegex(ValueError, "fork"):
            D.DataLoader([1], num_workers=1, multiprocessing_context="thread")
        with self.assertRaises(TypeError):
            D.DataLoader([1], num_workers=1, multiprocessing_context=7)
        with self.assertRaisesRegex(ValueError, "num_workers"):
            D.DataLoader([1], multiprocessing_context="fork")
        self.assertIsNone(D.DataLoader([1], num_workers=1).multiprocessing_context)

    def test_data_set_in_shared_memory(self):
        """A spawned worker has the data set's tensors, not a copy of them."""
        x = cairn.zeros(6)
        loader = D.DataLoader(D.TensorDataset(x), num_workers=1, multiprocessing_context="spawn", prefetch_factor=1)
        it = iter(loader)
        self.assertEqual(plain(next(it)), [[0]])
        self.assertTrue(x.is_shared())
        x.fill_(7)
        self.assertEqual([plain(b) for b in it][1:], [[[7]]] * 4)

    def test_default_type_is_the_programs(self):
        cairn.set_default_dtype(cairn.float64)
        try:
            loader = D.DataLoader(Noise(), num_workers=1, multiprocessing_context="spawn")
            self.assertEqual(next(iter(loader))[0].dtype, cairn.float64)
        finally:
            cairn.set_default_dtype(cairn.float32)


class Failures(Case):
    def caught(self, kind, what, **how):
        loader, seen = D.DataLoader(Bad(what), num_workers=2, multiprocessing_context="fork", **how), []
        with self.assertRaises(kind) as caught:
            for b in loader:
                seen += b.tolist()
        self.assertLessEqual(len(seen), 5)
        self.assertEqual(seen, list(range(len(seen))))
        return str(caught.exception)

    def test_exceptions(self):
        text = self.caught(KeyError, raise_key)
        self.assertIn("Caught KeyError in DataLoader worker process", text)
        self.assertIn("in raise_key\n", text)
        self.assertIn("at sample 5", text)
        self.assertIn("Caught Odd in", self.caught(RuntimeError, raise_odd))
        self.assertIn("of this function", self.caught(RuntimeError, raise_local))
        self.assertIn("SystemExit: 3", self.caught(RuntimeError, leave))

    def test_workers_that_die(self):
        self.assertRegex(self.caught(RuntimeError, kill), r"worker process \d \(pid \d+\) was killed by signal 9")
        self.assertRegex(self.caught(RuntimeError, leave_at_once), "exited unexpectedly with status 3")

    def test_after_a_death(self):
        loader = D.DataLoader(Bad(kill), num_workers=1, multiprocessing_context="fork", persistent_workers=True)
        it = iter(loader)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "killed"):
                for _ in it:
                    pass
        self.assertEqual(plain(next(iter(loader))), [0])  # another loop has other workers

    def test_timeout(self):
        self.assertIn("timed out after 0.5 seconds", self.caught(RuntimeError, hang, timeout=0.5))

    def test_initialisation(self):
        loader = D.DataLoader(Noise(), num_workers=2, multiprocessing_context="fork", worker_init_fn=fail)
        with self.assertRaisesRegex(ValueError, "not today"):
            next(iter(loader))

    def test_what_cannot_be_sent(self):
        for collate, text in ((unpicklable, "pickle"), (lambda b: cairn.ones(1, requires_grad=True) * 2, "leaves")):
            loader = D.DataLoader([1, 2], num_workers=1, multiprocessing_context="fork", collate_fn=collate)
            with self.assertRaisesRegex(Exception, text):
                next(iter(loader))
        loader = D.DataLoader([1, 2], num_workers=1, multiprocessing_context="spawn", collate_fn=lambda b: b)
        with self.assertRaisesRegex(Exception, "[pP]ickle"):
            next(iter(loader))


class Ends(Case):
    def test_leaving_early(self):
        before = descriptors()
        for _ in range(3):
            for _ in D.DataLoader(Noise(), num_workers=2, multiprocessing_context="fork"):
                break
            self.assertEqual(left_behind(), ([], []))
        it = iter(D.DataLoader(Noise(), num_workers=2, multiprocessing_context="fork"))
        next(it)
        self.assertEqual(len(left_behind()[0]), 2)
        del it
        self.assertEqual(descriptors(), before)

    def test_batches_keep_no_descriptors(self):
        before = descriptors()
        kept = list(D.DataLoader(Noise(), num_workers=2, multiprocessing_context="fork"))
        self.assertEqual(descriptors(), before)
        self.assertEqual(len(kept), 23)

    def test_program_that_ends_in_a_loop(self):
        program = """
import os, signal, sys
import cairn
from cairn.utils.data import DataLoader
it = iter(DataLoader(list(range(1000)), num_workers=2, multiprocessing_context="fork"))
next(it)
print(*[p.pid for p in it._pool.processes], flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
        for how in ("end", "kill"):
            ran = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.returncode, -signal.SIGKILL if how == "kill" else 0, ran.stderr)
            for pid in map(int, ran.stdout.split()):
                self.assertTrue(gone(pid), how)


def gone(pid):
    """It ends as soon as it can."""
    for _ in range(400):
        try:
            os.kill(pid, 0)
            with open("/proc/%d/stat" % pid, encoding="ascii") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":  # nobody has asked for its end
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


class Forks(Case):
    """cairn in a child of a program whose threads compute."""

    def test_while_threads_compute(self):
        over, x = threading.Event(), cairn.rand(300, 300)

        def work():
            while not over.is_set():
                (x @ x + cairn.rand(300, 300)).relu().sum().item()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            for _ in range(30):
                process = multiprocessing.get_context("fork").Process(target=compute, args=(x,))
                process.start()
                process.join(60)
                self.assertEqual(process.exitcode, 0)
        finally:
            over.set()
            for t in threads:
                t.join()

    @unittest.skipUnless(np, "numpy is not installed")
    def test_numpys_numbers_differ(self):
        loader = D.DataLoader(Numpys(), batch_size=None, num_workers=2, multiprocessing_context="fork")
        seen = [float(v) for v in loader]
        self.assertEqual(len(set(seen)), len(seen))


class Numpys(D.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return np.random.rand()


def compute(x):
    y = cairn.nn.functional.conv2d(x.reshape(1, 1, 300, 300), cairn.ones(2, 1, 3, 3)) @ cairn.ones(298, 4)
    assert cairn.compile(lambda t: (t * 2).sum())(y).item() > 0


if __name__ == "__main__":
    unittest.main()
