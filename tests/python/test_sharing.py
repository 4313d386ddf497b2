"""Tensors and models in memory that processes share: forked, spawned, and sent through queues."""
import multiprocessing
import os
import unittest

import cairn
from cairn import nn

STEPS = 60


def _make():
    cairn.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def _loss(model):
    x = cairn.linspace(-1, 1, 40).reshape(10, 4)
    return ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()


def _train(rank, model):
    """What every process of a Hogwild does: its own optimiser over the parameters of all."""
    optimizer = cairn.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(model).backward()
        optimizer.step()


def _fill(rank, t):
    t[rank] = rank + 1.0


def _answer(queue, done):
    t = queue.get()
    t += 1
    done.put("done")


class Training(unittest.TestCase):
    def hogwild(self, method):
        model = _make().share_memory()
        before = _loss(model).item()
        cairn.multiprocessing.start_processes(_train, args=(model,), nprocs=2, start_method=method)
        self.assertLess(_loss(model).item(), 0.05 * before)

    def test_forked(self):
        self.hogwild("fork")

    def test_spawned(self):
        self.hogwild("spawn")

    def test_one_child_equals_own_training(self):
        model, own = _make().share_memory(), _make()
        cairn.multiprocessing.spawn(_train, args=(model,), start_method="fork")
        _train(0, own)
        for p, q in zip(model.parameters(), own.parameters()):
            self.assertEqual(p.tolist(), q.tolist())

    def test_without_sharing_parent_keeps_its_own(self):
        model, own = _make(), _make()
        cairn.multiprocessing.spawn(_train, args=(model,), start_method="fork")
        for p, q in zip(model.parameters(), own.parameters()):
            self.assertEqual(p.tolist(), q.tolist())


class Tensors(unittest.TestCase):
    def test_what_is_shared(self):
        t = cairn.arange(6.0)
        self.assertFalse(t.is_shared())
        self.assertFalse(t.untyped_storage().is_shared())
        address = t.data_ptr()
        self.assertIs(t.share_memory_(), t)
        self.assertNotEqual(t.data_ptr(), address)
        self.assertTrue(t.is_shared())
        self.assertTrue(t.untyped_storage().is_shared())
        self.assertTrue(t.storage().is_shared())
        self.assertTrue(t.reshape(2, 3)[1].is_shared())
        self.assertFalse(t.clone().is_shared())
        self.assertEqual(t.tolist(), [0, 1, 2, 3, 4, 5])

    def test_module(self):
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        net(cairn.ones(4, 2)).sum().backward()
        self.assertIs(net.share_memory(), net)
        for name, t in net.state_dict().items():
            self.assertTrue(t.is_shared(), name)
        self.assertTrue(all(p.grad.is_shared() for p in net.parameters()))

    def test_views_refuse(self):
        t = cairn.zeros(4)
        part = t[1:]
        with self.assertRaisesRegex(RuntimeError, "views"):
            t.share_memory_()
        with self.assertRaisesRegex(RuntimeError, "views"):
            part.share_memory_()
        del part
        t.share_memory_()
        self.assertTrue(t.is_shared())

    def test_every_start_method(self):
        for method in multiprocessing.get_all_start_methods():
            t = cairn.zeros(3).share_memory_()
            cairn.multiprocessing.start_processes(_fill, args=(t,), nprocs=3, start_method=method)
            self.assertEqual(t.tolist(), [1, 2, 3], method)

    def test_views_of_shared_memory_are_sent_as_such(self):
        t = cairn.zeros(2, 3).share_memory_()
        cairn.multiprocessing.start_processes(_fill, args=(t.t()[1],), nprocs=2)
        self.assertEqual(t.tolist(), [[0, 1, 0], [0, 2, 0]])

    def test_queue(self):
        made = multiprocessing.get_context("spawn")
        queue, done = made.Queue(), made.Queue()
        t, other = cairn.zeros(2).share_memory_(), cairn.zeros(2)
        for sent, want in ((t, [1, 1]), (other, [0, 0])):
            process = made.Process(target=_answer, args=(queue, done))
            process.start()
            queue.put(sent)
            self.assertEqual(done.get(timeout=60), "done")
            process.join()
            self.assertEqual(sent.tolist(), want)

    def test_own_queues_move_tensors(self):
        """What is put becomes shared; a tensor with views arrives as a copy; another object as it was when put."""
        for method in ("fork", "spawn"):
            made = cairn.multiprocessing.get_context(method)
            queue, done = made.Queue(), made.JoinableQueue()
            t, viewed, changed = cairn.zeros(2), cairn.zeros(2), [1]
            view = viewed[1:]
            for sent, want in ((t, [1, 1]), (viewed, [0, 0])):
                process = made.Process(target=_answer, args=(queue, done))
                process.start()
                queue.put(sent)
                self.assertEqual(done.get(timeout=60), "done")
                process.join()
                self.assertEqual((sent.tolist(), sent.is_shared()), (want, want == [1, 1]))
            self.assertEqual(view.tolist(), [0])
            queue.put(changed)
            changed.append(2)
            self.assertEqual(queue.get(timeout=60), [1])
            with self.assertRaisesRegex(RuntimeError, "leaves"):
                queue.put(cairn.ones(1, requires_grad=True) * 2)

    def test_arguments_of_spawned_processes_are_shared(self):
        t = cairn.zeros(3)
        cairn.multiprocessing.start_processes(_fill, args=(t,), nprocs=3, start_method="spawn")
        self.assertEqual(t.tolist(), [1, 2, 3])

    def test_no_names_stay_behind(self):
        """Others may have files there meanwhile; ours would bear our name."""
        queue = cairn.multiprocessing.Queue()
        queue.put([cairn.zeros(1000).share_memory_(), cairn.zeros(3)])
        kept = queue.get(timeout=60)
        self.assertEqual([v.sum().item() for v in kept], [0, 0])
        self.assertEqual([n for n in os.listdir("/dev/shm") if "cairn" in n] if os.path.isdir("/dev/shm") else [], [])

    def test_half_and_integers(self):
        for dtype in (cairn.float16, cairn.int64, cairn.bool):
            t = cairn.ones(5, dtype=dtype).share_memory_()
            self.assertEqual(t.dtype, dtype)
            self.assertEqual(t.tolist(), [1] * 5)

    def test_strategies(self):
        self.assertEqual(cairn.multiprocessing.get_sharing_strategy(), "file_descriptor")
        cairn.multiprocessing.set_sharing_strategy("file_descriptor")
        with self.assertRaises(ValueError):
            cairn.multiprocessing.set_sharing_strategy("carrier pigeon")

    def test_start_method_is_honoured(self):
        with self.assertRaisesRegex(ValueError, "no_such"):
            cairn.multiprocessing.spawn(_fill, args=(cairn.zeros(1),), start_method="no_such")


if __name__ == "__main__":
    unittest.main()
