"""Python data into tensors and back: tensor, as_tensor, asarray, item, tolist, pickling and copying."""
import array
import copy
import math
import pickle
import random
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


def quiet(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f()


def random_nest(rng, depth):
    """A nested list with all rows of one length, of random kinds of numbers."""
    kinds = rng.choice([(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
    sizes = [rng.randint(1, 4) for _ in range(depth)]

    def number():
        kind = rng.choice(kinds)
        return (rng.random() < 0.5, rng.randint(-9, 9), rng.uniform(-9, 9))[kind]

    def level(d):
        if d == depth:
            return number()
        made = [level(d + 1) for _ in range(sizes[d])]
        return tuple(made) if rng.random() < 0.3 else made
    return level(0)


class TestTensor(unittest.TestCase):
    def test_inference(self):
        for data, dtype, shape in [(1, cairn.int64, ()), (1.5, cairn.float32, ()), (True, cairn.bool, ()),
                                   ([1, 2], cairn.int64, (2,)), ([1, 2.5], cairn.float32, (2,)),
                                   ([True, False], cairn.bool, (2,)), ([True, 2], cairn.int64, (2,)),
                                   ([True, 2.5, 3], cairn.float32, (3,)), ([], cairn.float32, (0,)),
                                   ([[], []], cairn.float32, (2, 0)), (((1,), [2]), cairn.int64, (2, 1)),
                                   (range(3), cairn.int64, (3,)), (bytearray(b"ab"), cairn.int64, (2,)),
                                   (memoryview(b"ab"), cairn.int64, (2,)), (cairn.Size([2, 3]), cairn.int64, (2,)),
                                   (array.array("d", [1, 2]), cairn.float32, (2,)),
                                   ([2**64, 1.0], cairn.float32, (2,))]:
            t = cairn.tensor(data)
            self.assertIs(t.dtype, dtype, data)
            self.assertEqual(t.shape, shape)

    def test_default_dtype_decides_floats(self):
        before = cairn.get_default_dtype()
        try:
            for dtype in (cairn.float64, cairn.float16, cairn.bfloat16):
                cairn.set_default_dtype(dtype)
                self.assertIs(cairn.tensor([1.5]).dtype, dtype)
                self.assertEqual(cairn.tensor([1, 1.5]).tolist(), [1.0, 1.5])
        finally:
            cairn.set_default_dtype(before)

    def test_tensors_inside_sequences(self):
        self.assertEqual(cairn.tensor([cairn.tensor(1), cairn.tensor(2.5)]).tolist(), [1.0, 2.5])
        self.assertIs(cairn.tensor([cairn.tensor(1, dtype=cairn.int8)]).dtype, cairn.int8)
        self.assertEqual(cairn.tensor([cairn.tensor([1]), cairn.tensor([3])]).tolist(), [1, 3])
        with self.assertRaises((TypeError, ValueError, RuntimeError)):
            cairn.tensor([cairn.tensor([1, 2]), cairn.tensor([3, 4])])

    def test_of_a_tensor_copies(self):
        x = cairn.tensor([1.0, 2.0], requires_grad=True)
        with self.assertWarns(UserWarning):
            y = cairn.tensor(x)
        self.assertFalse(y.requires_grad)
        self.assertNotEqual(x.data_ptr(), y.data_ptr())

    def test_ragged(self):
        with self.assertRaisesRegex(ValueError, "expected sequence of length 2 at dim 1"):
            cairn.tensor([[1, 2], [3]])
        with self.assertRaisesRegex(ValueError, "length 3 at dim 2"):
            cairn.tensor([[[1, 2, 3]], [[1, 2, 3, 4]]])
        for bad in ([[1, 2], 3], [1, [2, 3]], [[1.0], 2.0]):
            self.assertRaises(TypeError, cairn.tensor, bad)

    def test_not_numbers(self):
        for bad, error in [("a", TypeError), (b"a", TypeError), (["a"], ValueError), (None, RuntimeError),
                           ([None], RuntimeError), ({1}, RuntimeError), (object(), RuntimeError)]:
            self.assertRaises(error, cairn.tensor, bad)
        deep = 1
        for _ in range(40):
            deep = [deep]
        self.assertRaises(ValueError, cairn.tensor, deep)
        loop = []
        loop.append(loop)
        self.assertRaises(ValueError, cairn.tensor, loop)

    def test_arguments(self):
        self.assertRaises(TypeError, cairn.tensor)
        self.assertRaises(TypeError, cairn.tensor, [1], cairn.float32)
        self.assertRaises(TypeError, lambda: cairn.tensor([1], foo=1))
        self.assertRaises(TypeError, lambda: cairn.tensor([1], dtype="float32"))
        self.assertRaises(RuntimeError, lambda: cairn.tensor([1], requires_grad=True))
        t = cairn.tensor(data=[1], dtype=cairn.float64, device="cpu", requires_grad=True, pin_memory=False)
        self.assertTrue(t.requires_grad and t.is_leaf)

    def test_overflow(self):
        for value, dtype, error in [(300, "uint8", RuntimeError), (-256, "uint8", RuntimeError),
                                    (128, "int8", RuntimeError), (-129, "int8", RuntimeError),
                                    (2**31, "int32", RuntimeError), (2**63, "int64", ValueError),
                                    (-1, "uint64", OverflowError), (300.7, "uint8", RuntimeError),
                                    (math.nan, "int64", RuntimeError), (math.inf, "int32", RuntimeError)]:
            for data in (value, [value], [[value]]):
                with self.assertRaises(error, msg=(value, dtype)):
                    cairn.tensor(data, dtype=getattr(cairn, dtype))
        self.assertRaises(ValueError, cairn.tensor, [2**63])
        self.assertEqual(cairn.tensor([-1], dtype=cairn.uint8).tolist(), [255])
        self.assertEqual(cairn.tensor([2**63], dtype=cairn.uint64).tolist(), [2**63])
        self.assertEqual(cairn.tensor([1.7, -1.7], dtype=cairn.int64).tolist(), [1, -1])
        self.assertEqual(cairn.tensor([1e39]).item(), math.inf)
        self.assertEqual(cairn.tensor([2, 0], dtype=cairn.bool).tolist(), [True, False])

    def test_all_dtypes(self):
        for name in ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
                     "float8_e4m3fn float8_e5m2 int4 uint4").split():
            dtype = getattr(cairn, name)
            t = cairn.tensor([[1, 0], [0, 1]], dtype=dtype)
            self.assertIs(t.dtype, dtype)
            self.assertEqual(t.tolist(), [[1, 0], [0, 1]])
            self.assertEqual(t[0, 0].item(), 1)

    def test_hostile_sequences(self):
        class Shrinks(list):
            pass
        data = Shrinks([1, 2, 3])

        class Number:
            def __float__(self):
                data.clear()
                return 1.0
        data[0] = Number()
        self.assertRaises((IndexError, RuntimeError, ValueError), cairn.tensor, data, dtype=cairn.float32)

        class Fails:
            def __len__(self):
                return 2

            def __getitem__(self, i):
                raise KeyError(i)
        self.assertRaises((KeyError, RuntimeError), cairn.tensor, Fails())

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_as_torch(self):
        rng = random.Random(1)
        for _ in range(300):
            data = random_nest(rng, rng.randint(0, 4))
            want, have = torch.tensor(data), cairn.tensor(data)
            self.assertEqual(str(have.dtype)[6:], str(want.dtype)[6:], data)
            self.assertEqual(have.tolist(), want.tolist(), data)
            for name in ("float32", "float64", "int64", "bool", "float16", "int32"):
                want = torch.tensor(data, dtype=getattr(torch, name))
                self.assertEqual(cairn.tensor(data, dtype=getattr(cairn, name)).tolist(), want.tolist())

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_numpy_numbers(self):
        for data, name in [(numpy.float64(1), "float64"), ([numpy.float64(1)], "float64"),
                           ([numpy.float32(1), 2.0], "float32"), ([numpy.int8(1)], "int8"),
                           ([numpy.int8(1), 1], "int64"), ([numpy.bool_(1)], "bool"), (numpy.int16(4), "int16"),
                           ([numpy.array([1.0, 2]), [3, 4]], "float64"),
                           ([numpy.array([1, 2]), numpy.array([3, 4])], "int64")]:
            self.assertEqual(str(quiet(lambda: cairn.tensor(data)).dtype), "cairn." + name, data)
        self.assertEqual(cairn.tensor([numpy.array([1.0, 2]), [3, 4]]).tolist(), [[1, 2], [3, 4]])

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_arrays_are_copied(self):
        a = numpy.arange(6.0).reshape(2, 3)
        t = cairn.tensor(a)
        a[0, 0] = 9
        self.assertEqual(t[0, 0].item(), 0)
        self.assertEqual(cairn.tensor(a.T).tolist(), a.T.tolist())
        self.assertEqual(cairn.tensor(a[:, ::2], dtype=cairn.int32).tolist(), [[9, 2], [3, 5]])
        self.assertRaises(ValueError, cairn.tensor, a[::-1])
        self.assertRaises(TypeError, cairn.tensor, numpy.array(["a"]))

        class Wrapped:
            def __array__(self, dtype=None, copy=None):
                return a
        self.assertEqual(cairn.tensor(Wrapped()).tolist(), a.tolist())


class TestSharing(unittest.TestCase):
    def test_as_tensor(self):
        x = cairn.ones(2, requires_grad=True)
        self.assertIs(cairn.as_tensor(x), x)
        self.assertIs(cairn.as_tensor(x, dtype=cairn.float32, device="cpu"), x)
        y = cairn.as_tensor(x, dtype=cairn.float64)
        self.assertTrue(y.requires_grad)
        self.assertEqual(cairn.as_tensor([1, 2]).tolist(), [1, 2])
        self.assertEqual(cairn.as_tensor([1, 2], cairn.float32).dtype, cairn.float32)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_as_tensor_shares_arrays(self):
        a = numpy.zeros(3)
        t = cairn.as_tensor(a)
        t[0] = 5
        self.assertEqual(a[0], 5)
        self.assertEqual(cairn.as_tensor(numpy.float32(3)).item(), 3)

    def test_asarray(self):
        b = bytearray(b"ab")
        t = cairn.asarray(b)
        self.assertIs(t.dtype, cairn.uint8)
        b[0] = 7
        self.assertEqual(t[0].item(), 7)
        self.assertRaises(ValueError, lambda: cairn.asarray([1, 2], copy=False))
        x = cairn.ones(2)
        self.assertIs(cairn.asarray(x), x)
        self.assertNotEqual(cairn.asarray(x, copy=True).data_ptr(), x.data_ptr())
        self.assertRaises(ValueError, lambda: cairn.asarray(x, dtype=cairn.float64, copy=False))
        self.assertTrue(cairn.asarray(x, requires_grad=True).requires_grad)
        self.assertEqual(cairn.asarray(1.5).item(), 1.5)

    def test_frombuffer(self):
        b = bytearray(range(8))
        t = cairn.frombuffer(b, dtype=cairn.int16)
        self.assertEqual(t.tolist(), [0x0100, 0x0302, 0x0504, 0x0706])
        t[0] = -1
        self.assertEqual(b[:2], b"\xff\xff")
        self.assertEqual(cairn.frombuffer(b, dtype=cairn.uint8, offset=6).tolist(), [6, 7])
        self.assertEqual(cairn.frombuffer(b, dtype=cairn.uint8, count=1, offset=6).tolist(), [6])
        for more in ({"offset": 1}, {"offset": 8}, {"offset": -1}, {"count": 0}, {"count": 5}):
            self.assertRaises(ValueError, lambda: cairn.frombuffer(b, dtype=cairn.int16, **more))
        self.assertRaises(ValueError, lambda: cairn.frombuffer(bytearray(), dtype=cairn.int16))
        self.assertRaises(ValueError, lambda: cairn.frombuffer(3, dtype=cairn.int16))
        self.assertRaises(TypeError, lambda: cairn.frombuffer(b))
        with self.assertWarns(UserWarning):
            cairn.frombuffer(b"abcd", dtype=cairn.uint8)
        with self.assertRaises(BufferError):  # its memory is held
            b.extend(b"more")


class TestToPython(unittest.TestCase):
    def test_item(self):
        self.assertEqual(cairn.tensor([[2.5]]).item(), 2.5)
        self.assertIs(cairn.tensor(True).item(), True)
        self.assertEqual(cairn.tensor(2**64 - 1, dtype=cairn.uint64).item(), 2**64 - 1)
        for n in (0, 2):
            self.assertRaises(RuntimeError, cairn.ones(n).item)

    def test_tolist(self):
        self.assertEqual(cairn.tensor(1.5).tolist(), 1.5)
        self.assertEqual(cairn.zeros(0).tolist(), [])
        self.assertEqual(cairn.zeros(2, 0).tolist(), [[], []])
        t = cairn.arange(0, 6, dtype=cairn.int16).reshape(2, 3)
        self.assertEqual(t.t().tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(t[:, ::2].tolist(), [[0, 2], [3, 5]])
        self.assertEqual(cairn.tensor([1.5], dtype=cairn.bfloat16, requires_grad=True).tolist(), [1.5])
        self.assertEqual(cairn.ones(1).expand(3).tolist(), [1.0] * 3)

    def test_data_ptr(self):
        x = cairn.ones(4)
        self.assertEqual(x[1:].data_ptr(), x.data_ptr() + 4)
        self.assertEqual(cairn.ones(0).data_ptr(), 0)


class Named(cairn.Tensor):
    pass


class TestCopies(unittest.TestCase):
    def test_pickle(self):
        for t in (cairn.tensor(1.5), cairn.zeros(2, 0, 3), cairn.arange(0, 24).reshape(2, 3, 4),
                  cairn.tensor([1.5, -2], dtype=cairn.bfloat16), cairn.tensor([True, False]),
                  cairn.tensor([1, 2], dtype=cairn.float8_e5m2), cairn.ones(3, requires_grad=True)):
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                u = pickle.loads(pickle.dumps(t, protocol))
                self.assertIs(u.dtype, t.dtype)
                self.assertEqual(u.tolist(), t.tolist())
                self.assertEqual(u.shape, t.shape)
                self.assertEqual(u.requires_grad, t.requires_grad)
                self.assertTrue(u.is_leaf)

    def test_pickle_keeps_the_order_of_memory(self):
        x = cairn.arange(0, 24).reshape(2, 3, 4)
        for t in (x.permute(2, 0, 1), x.transpose(0, 1), x.permute(0, 2, 1)):
            u = pickle.loads(pickle.dumps(t))
            self.assertEqual(u.stride(), t.stride())
            self.assertEqual(u.tolist(), t.tolist())
        u = pickle.loads(pickle.dumps(x[:, :2]))  # with gaps: packed
        self.assertEqual(u.tolist(), x[:, :2].tolist())
        self.assertTrue(u.is_contiguous())
        e = cairn.ones(1, 2).expand(3, 2)
        self.assertEqual(pickle.loads(pickle.dumps(e)).tolist(), e.tolist())

    def test_pickle_of_results(self):
        x = cairn.ones(2, requires_grad=True)
        u = pickle.loads(pickle.dumps(x * 2))
        self.assertTrue(u.requires_grad and u.is_leaf)
        self.assertEqual(pickle.loads(pickle.dumps(cairn.float16)), cairn.float16)

    def test_subclass(self):
        t = Named(cairn.arange(0, 3))
        t.label = "x"
        for u in (pickle.loads(pickle.dumps(t)), copy.copy(t), copy.deepcopy(t)):
            self.assertIs(type(u), Named)
            self.assertEqual(u.label, "x")
            self.assertEqual(u.tolist(), [0, 1, 2])

    def test_copy_shares(self):
        x = cairn.ones(2, requires_grad=True)
        y = copy.copy(x)
        self.assertIsNot(x, y)
        self.assertEqual(x.data_ptr(), y.data_ptr())
        self.assertTrue(y.requires_grad and y.is_leaf)

    def test_deepcopy(self):
        x = cairn.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        y, z = copy.deepcopy([x, x])
        self.assertIs(y, z)
        self.assertNotEqual(x.data_ptr(), y.data_ptr())
        self.assertTrue(y.requires_grad and y.is_leaf)
        self.assertEqual(y.grad.tolist(), [3, 3])
        with self.assertRaisesRegex(RuntimeError, "leaves"):
            copy.deepcopy(x * 2)
        t = cairn.arange(0, 6).reshape(2, 3).t()
        self.assertEqual(copy.deepcopy(t).stride(), t.stride())


if __name__ == "__main__":
    unittest.main()
