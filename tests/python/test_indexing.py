"""t[...] and t[...] = v. Where torch is installed random index expressions run in both."""
import random
import threading
import unittest
import warnings

import cairn

try:
    import torch
except ImportError:
    torch = None
try:
    import numpy
except ImportError:
    numpy = None


def counting(*shape):
    n = 1
    for s in shape:
        n *= s
    return cairn.arange(0, n).reshape(*shape)


def is_tensor(x):
    return isinstance(x, cairn.Tensor) or bool(torch) and isinstance(x, torch.Tensor)


class TestBasic(unittest.TestCase):
    def setUp(self):
        self.x = counting(2, 3, 4)

    def test_integers(self):
        self.assertEqual(self.x[0, 1, 2].item(), 6)
        self.assertEqual(self.x[-1, -1, -1].item(), 23)
        self.assertEqual(self.x[1].shape, (3, 4))
        for bad in (2, -3, (0, 3), (0, 0, -5), (0, 0, 0, 0), 10**30):
            self.assertRaises((IndexError, ValueError), lambda: self.x[bad])
        self.assertRaises(IndexError, lambda: cairn.tensor(1)[0])

    def test_slices(self):
        self.assertEqual(self.x[:, 1:, ::2].tolist(), [[[4, 6], [8, 10]], [[16, 18], [20, 22]]])
        self.assertEqual(self.x[5:].shape, (0, 3, 4))
        self.assertEqual(self.x[1:0].shape, (0, 3, 4))
        self.assertEqual(self.x[-1:, -2:].shape, (1, 2, 4))
        self.assertEqual(self.x[cairn.tensor(1):].shape, (1, 3, 4))
        for bad in (slice(None, None, -1), slice(None, None, 0)):
            self.assertRaises(ValueError, lambda: self.x[bad])
        self.assertRaises(TypeError, lambda: self.x[1.0:])
        self.assertRaises(IndexError, lambda: cairn.tensor(1)[:])

    def test_none_and_ellipsis(self):
        self.assertEqual(self.x[None].shape, (1, 2, 3, 4))
        self.assertEqual(self.x[..., None].shape, (2, 3, 4, 1))
        self.assertEqual(self.x[0, ..., None, 1].shape, (3, 1))
        self.assertEqual(self.x[..., 0].tolist(), [[0, 4, 8], [12, 16, 20]])
        self.assertEqual(self.x[0, 0, 0, ...].shape, ())
        self.assertEqual(cairn.tensor(7)[...].item(), 7)
        self.assertEqual(cairn.tensor(7)[()].item(), 7)
        self.assertEqual(cairn.tensor(7)[None, None].shape, (1, 1))

    def test_views_share(self):
        for index in (0, slice(1, None), ..., None, (slice(None), 1), (0, ..., slice(None, None, 2)), (), slice(None)):
            x = cairn.zeros(2, 3, 4)
            view = x[index]
            self.assertIsNot(view, x)
            view.fill_(1)
            self.assertEqual(x.sum().item(), view.numel())

    def test_truths(self):
        x = counting(3)
        self.assertEqual(x[True].shape, (1, 3))
        self.assertEqual(x[False].shape, (0, 3))
        self.assertEqual(cairn.tensor(1)[True].tolist(), [1])
        self.assertEqual(counting(2, 3)[:, True].shape, (2, 1, 3))
        self.assertEqual(x[cairn.tensor(True)].shape, (1, 3))

    def test_what_is_no_index(self):
        for bad in (1.0, {}, {1}, cairn.tensor([1.0]), cairn.tensor(1.0), object()):
            self.assertRaises(IndexError, lambda: self.x[bad])
        self.assertRaises(TypeError, lambda: self.x["a"])
        self.assertRaises(IndexError, lambda: self.x[(None,) * 100])

    def test_iteration(self):
        self.assertEqual([row.tolist() for row in counting(2, 2)], [[0, 1], [2, 3]])
        self.assertRaises(TypeError, lambda: list(cairn.tensor(1)))


class TestAdvanced(unittest.TestCase):
    def setUp(self):
        self.x = counting(2, 3, 4)

    def test_integer_tensors(self):
        i = cairn.tensor([1, 0, -1])
        self.assertEqual(self.x[i].shape, (3, 3, 4))
        self.assertEqual(self.x[0, i].tolist(), [[4, 5, 6, 7], [0, 1, 2, 3], [8, 9, 10, 11]])
        for name in ("int8", "int16", "int32", "int64"):
            self.assertEqual(self.x[i.to(getattr(cairn, name))].tolist(), self.x[i].tolist())
            self.assertEqual(self.x[cairn.tensor(1, dtype=getattr(cairn, name))].shape, (3, 4))
        for bad in (cairn.tensor([2]), cairn.tensor([0, -3])):
            self.assertRaises(IndexError, lambda: self.x[bad])
        self.assertRaises(IndexError, lambda: self.x[cairn.tensor([0, 1]), cairn.tensor([0, 1, 2])])

    def test_lists(self):
        self.assertEqual(self.x[[0, 1, 1]].shape, (3, 3, 4))
        self.assertEqual(self.x[:, [0, 2]].shape, (2, 2, 4))
        self.assertEqual(self.x[:, [[0, 2], [1, 1]]].shape, (2, 2, 2, 4))
        self.assertEqual(self.x[[]].shape, (0, 3, 4))
        self.assertEqual(self.x[range(1)].shape, (1, 3, 4))
        self.assertEqual(self.x[[True, False]].shape, (1, 3, 4))
        with self.assertWarns(UserWarning):
            self.assertEqual(self.x[[[0, 1], [1, 0]]].tolist(), [self.x[0, 1].tolist(), self.x[1, 0].tolist()])

    def test_placement(self):
        i, j = cairn.tensor([0, 1]), cairn.tensor([[0], [1], [0]])
        self.assertEqual(self.x[:, i].shape, (2, 2, 4))
        self.assertEqual(self.x[:, i, j].shape, (2, 3, 2))
        self.assertEqual(self.x[i, :, j].shape, (3, 2, 3))
        self.assertEqual(self.x[0, :, i].shape, (3, 2))
        self.assertEqual(self.x[None, i, :, i].shape, (2, 1, 3))

    def test_masks(self):
        mask = self.x > 20
        self.assertEqual(self.x[mask].tolist(), [21, 22, 23])
        rows = cairn.tensor([[True, False, True], [False, False, True]])
        self.assertEqual(self.x[rows].shape, (3, 4))
        self.assertEqual(self.x[rows, 0].tolist(), [0, 8, 20])
        self.assertEqual(self.x[rows, 1:3].shape, (3, 2))
        self.assertEqual(self.x[..., cairn.tensor([True, False, True, False])].shape, (2, 3, 2))
        with self.assertWarns(UserWarning):
            self.assertEqual(counting(3)[cairn.tensor([1, 0, 1], dtype=cairn.uint8)].tolist(), [0, 2])
        for bad in (cairn.ones(3, 2, dtype=cairn.bool), cairn.ones(2, 3, 4, 1, dtype=cairn.bool)):
            self.assertRaises(IndexError, lambda: self.x[bad])

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_indices(self):
        x = counting(3)
        self.assertEqual(x[numpy.array([0, 2])].tolist(), [0, 2])
        self.assertEqual(x[numpy.array([True, False, True])].tolist(), [0, 2])
        self.assertEqual(x[numpy.int64(1)].item(), 1)
        self.assertEqual(x[numpy.array(1)].item(), 1)
        self.assertEqual(self.x[numpy.array([0, 1]), numpy.array([1, 2]), 0].tolist(), [4, 20])

    def test_gradient(self):
        x = cairn.zeros(3, 2, requires_grad=True)
        i = cairn.tensor([0, 0, 2])
        (x[i] * cairn.tensor([[1.0], [2.0], [4.0]])).sum().backward()
        self.assertEqual(x.grad.tolist(), [[3, 3], [0, 0], [4, 4]])
        x = cairn.ones(2, 3, requires_grad=True)
        (x[0, 1:] * 2 + x[:, 0].sum()).sum().backward()
        self.assertEqual(x.grad.tolist(), [[2, 2, 2], [2, 0, 0]])


class TestAssignment(unittest.TestCase):
    def test_basic(self):
        x = cairn.zeros(2, 3)
        x[0] = 1
        x[:, 1] = cairn.tensor([5, 6])
        x[1, 2] = True
        x[..., 0] = 2.5
        self.assertEqual(x.tolist(), [[2.5, 5, 1], [2.5, 6, 1]])
        x[None] = cairn.ones(1, 1, 1, 1, 2, 3)
        x[0:1] = cairn.full((1, 1, 3), 3.0)
        self.assertEqual(x.tolist(), [[3, 3, 3], [1, 1, 1]])
        x[()] = 0
        x[:] = cairn.arange(0, 3)
        self.assertEqual(x.tolist(), [[0, 1, 2]] * 2)

    def test_advanced(self):
        x = cairn.zeros(3, 3)
        x[cairn.tensor([0, 2])] = cairn.tensor([1.0, 2, 3])
        x[[0, 1], [1, 1]] = 9
        self.assertEqual(x.tolist(), [[1, 9, 3], [0, 9, 0], [1, 2, 3]])
        x[x > 2] = -1
        self.assertEqual(x.tolist(), [[1, -1, -1], [0, -1, 0], [1, 2, -1]])
        x[1:, cairn.tensor([0])] = 7
        self.assertEqual(x[:, 0].tolist(), [1, 7, 7])
        x[x == 7] = cairn.tensor([10.0, 20.0])
        self.assertEqual(x[1:, 0].tolist(), [10, 20])
        x[:, [0, 1]] = cairn.zeros(1, 1, 3, 2)
        self.assertEqual(x[:, :2].sum().item(), 0)

    def test_truths(self):
        x = cairn.zeros(3)
        x[False] = 1
        self.assertEqual(x.tolist(), [0, 0, 0])
        x[True] = 1
        self.assertEqual(x.tolist(), [1, 1, 1])

    def test_types(self):
        x = cairn.zeros(3, dtype=cairn.int64)
        x[0] = 2.7
        x[1:] = cairn.tensor([1.5, -1.5])
        self.assertEqual(x.tolist(), [2, 1, -1])
        b = cairn.zeros(2, dtype=cairn.bool)
        b[0] = 2.5
        self.assertEqual(b.tolist(), [True, False])
        u = cairn.zeros(2, dtype=cairn.uint8)
        u[0] = -1
        self.assertEqual(u.tolist(), [255, 0])
        with self.assertRaises(RuntimeError):
            u[0] = 300
        with self.assertRaises(RuntimeError):
            x[cairn.tensor([0])] = cairn.tensor([1.5])
        h = cairn.zeros(2, dtype=cairn.bfloat16)
        h[1] = 1.5
        self.assertEqual(h.tolist(), [0, 1.5])

    def test_what_cannot_be_assigned(self):
        x = cairn.zeros(3)
        for index, value, error in [(0, [1], TypeError), (slice(None), (1, 2, 3), TypeError), (0, "a", TypeError),
                                    (0, None, TypeError), (5, 1, IndexError),
                                    (slice(0, 2), cairn.ones(3), RuntimeError),
                                    (0, cairn.ones(2), RuntimeError),
                                    (cairn.tensor([0, 1]), cairn.ones(3), RuntimeError),
                                    (cairn.tensor([5]), 1.0, IndexError),
                                    (slice(None, None, -1), 1, ValueError)]:
            with self.assertRaises(error, msg=(index, value)):
                x[index] = value
        self.assertEqual(x.tolist(), [0, 0, 0])
        with self.assertRaises(TypeError):
            del x[0]

    def test_overlap(self):
        x = counting(6)
        x[1:] = x[:-1]
        self.assertEqual(x.tolist(), [0, 0, 1, 2, 3, 4])
        x = counting(4)
        x[...] = x.flip(0)
        self.assertEqual(x.tolist(), [3, 2, 1, 0])

    def test_history(self):
        w = cairn.ones(2, requires_grad=True)
        x = cairn.zeros(3, 2)
        x[1] = w * 3
        x[0, 0] = w[1]
        (x * cairn.tensor([[5.0, 1], [1, 2], [1, 1]])).sum().backward()
        self.assertEqual(w.grad.tolist(), [3, 11])
        w = cairn.ones(3, requires_grad=True)
        y = w * 2
        y[cairn.tensor([0])] = 0.0
        y[1:2] = w[2:] * 10
        y.sum().backward()
        self.assertEqual(w.grad.tolist(), [0, 0, 12])
        leaf = cairn.zeros(3, requires_grad=True)
        with self.assertRaises(RuntimeError):
            leaf[0] = 1
        with cairn.no_grad():
            leaf[0] = 1
        self.assertEqual(leaf.tolist(), [1, 0, 0])

    def test_a_view_of_a_view(self):
        x = cairn.zeros(2, 3, 4)
        x[1][2][1:3] = 1
        self.assertEqual(x.sum().item(), 2)
        x.transpose(0, 2)[0] = 5
        self.assertEqual(x[:, :, 0].tolist(), [[5, 5, 5]] * 2)

    def test_threads(self):
        x = cairn.zeros(4, 1 << 16)
        i = cairn.arange(0, 1 << 16)

        def work(row):
            for k in range(20):
                x[row] = float(k)
                x[row, i] = x[row][i] + 1
        threads = [threading.Thread(target=work, args=(r,)) for r in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(x[:, 0].tolist(), [20.0] * 4)
        self.assertEqual(x.sum().item(), 20.0 * x.numel())


@unittest.skipUnless(torch, "PyTorch is not installed")
class TestAsTorch(unittest.TestCase):
    """Random tensors and index expressions; results, or the kind of error, must be the same."""

    def one_index(self, rng, size, dims):
        """An index for a dim of this size as (cairn's, torch's); dims: sizes from here on, for masks."""
        kind = rng.randrange(11)
        if kind <= 1:
            i = rng.randint(-size - (rng.random() < 0.05), size - (rng.random() > 0.05)) if size else 0
            return i, i
        if kind <= 3:
            s = slice(*(rng.choice([None, rng.randint(-size - 1, size + 1)]) for _ in range(2)),
                      rng.choice([None, None, 1, 2, 3]))
            return s, s
        if kind == 4:
            return None, None
        if kind == 5:
            b = rng.random() < 0.7
            return (b, b) if rng.random() < 0.5 else (cairn.tensor(b), torch.tensor(b))
        if kind == 6:
            i = rng.randint(-size, size - 1) if size else 0
            return cairn.tensor(i), torch.tensor(i)
        if kind == 7 and size:
            shape = [rng.choice([1, 2, 3]) for _ in range(rng.choice([1, 1, 2]))]
            t = torch.randint(-size, size, shape)
            return cairn.tensor(t.tolist()), t
        if kind == 8 and size:
            s = [rng.randint(-size, size - 1) for _ in range(rng.choice([1, 2, 3]))]
            return s, s
        if kind == 9:
            k = min(len(dims), rng.choice([1, 1, 2]))
            t = torch.rand(dims[:k]) < 0.5
            return cairn.tensor(t.tolist(), dtype=cairn.bool).reshape(t.shape), t
        s = [rng.random() < 0.5 for _ in range(size)]
        return (s, s) if size else (slice(None), slice(None))

    def expression(self, rng, shape):
        ours, theirs, dim, ellipsis = [], [], 0, False
        while dim < len(shape):
            if not ellipsis and rng.random() < 0.15:
                ellipsis = True
                ours.append(...)
                theirs.append(...)
                dim += rng.randint(0, len(shape) - dim)
                continue
            a, b = self.one_index(rng, shape[dim], shape[dim:])
            ours.append(a)
            theirs.append(b)
            if not (a is None or isinstance(a, bool) or is_tensor(a) and a.ndim == 0 and a.dtype is cairn.bool):
                dim += a.ndim if is_tensor(a) and a.dtype is cairn.bool else 1
            if rng.random() < 0.3:
                break
        if len(ours) == 1 and rng.random() < 0.5:
            return ours[0], theirs[0]
        return tuple(ours), tuple(theirs)

    def run_both(self, f, g):
        made = []
        for h in (f, g):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    made.append(h())
                except (IndexError, RuntimeError, ValueError, TypeError) as e:
                    made.append(e)
        return made

    def check(self, have, want, what):
        if isinstance(have, IndexError) and not isinstance(want, Exception) and want.numel() == 0:
            return  # torch looks at indices only where there is something to read
        if isinstance(want, Exception) or isinstance(have, Exception):
            self.assertIsInstance(want, Exception, what + (have,))
            self.assertIsInstance(have, Exception, what + (want,))
            if isinstance(want, IndexError):
                self.assertIsInstance(have, IndexError, what)
            return
        self.assertEqual(tuple(have.shape), tuple(want.shape), what)
        self.assertEqual(have.tolist(), want.tolist(), what)

    def tensors(self, rng):
        shape = [rng.choice([0, 1, 2, 3, 3, 4]) if rng.random() < 0.3 else rng.randint(1, 4)
                 for _ in range(rng.randint(0, 4))]
        y = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        x = cairn.tensor(y.tolist()).reshape(tuple(shape))
        if len(shape) > 1 and rng.random() < 0.3:
            x, y = x.transpose(0, -1), y.transpose(0, -1)
        return x, y

    def test_reading(self):
        rng = random.Random(2)
        torch.manual_seed(2)
        for _ in range(3000):
            x, y = self.tensors(rng)
            ours, theirs = self.expression(rng, list(y.shape))
            have, want = self.run_both(lambda: x[ours], lambda: y[theirs])
            self.check(have, want, (tuple(y.shape), theirs))

    def test_gradients(self):
        rng = random.Random(3)
        torch.manual_seed(3)
        for _ in range(700):
            x, y = self.tensors(rng)
            x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
            ours, theirs = self.expression(rng, list(y.shape))
            have, want = self.run_both(lambda: x[ours], lambda: y[theirs])
            if isinstance(want, Exception) or want.numel() == 0:
                continue
            (have * have).sum().backward()
            (want * want).sum().backward()
            self.check(x.grad, y.grad, (tuple(y.shape), theirs))

    def test_writing(self):
        rng = random.Random(4)
        torch.manual_seed(4)

        def put(t, index, value):
            t[index] = value
            return t
        for _ in range(3000):
            x, y = self.tensors(rng)
            ours, theirs = self.expression(rng, list(y.shape))
            (picked,) = self.run_both(lambda: y[theirs], lambda: None)[:1]
            if isinstance(picked, Exception) or rng.random() < 0.3:
                a = b = rng.choice([1, 2.5, True])
            else:
                shape = [s if rng.random() < 0.8 else 1 for s in picked.shape]
                shape = [1] * (rng.random() < 0.2) + shape[rng.randint(0, len(shape)):] if rng.random() < 0.3 else shape
                b = torch.rand(shape)
                a = cairn.tensor(b.tolist()).reshape(tuple(shape))
            # which of several equal positions wins is torch's own affair
            if isinstance(picked, Exception):
                continue
            places = torch.arange(y.numel()).reshape(y.shape)[theirs]
            if is_tensor(b) and torch.unique(places).numel() != places.numel():
                continue
            have, want = self.run_both(lambda: put(x, ours, a), lambda: put(y, theirs, b))
            if picked.numel() == 0 and isinstance(have, IndexError):
                continue
            if not isinstance(want, Exception):
                self.assertNotIsInstance(have, Exception, (tuple(y.shape), theirs, b))
                for p, q in zip(have.reshape(-1).tolist(), want.reshape(-1).tolist()):
                    self.assertAlmostEqual(p, q, 6)
            else:
                self.assertIsInstance(have, Exception, (tuple(y.shape), theirs, b, want))


if __name__ == "__main__":
    unittest.main()
