"""Memory shared with other libraries: the buffer protocol, numpy, DLPack.

TestDLPack asks of tensors what numpy's own DLPack tests ask of arrays.
"""
import ctypes
import gc
import hashlib
import os
import sys
import threading
import unittest
import warnings

import cairn
from cairn.utils import dlpack

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

needs_numpy = unittest.skipUnless(numpy, "numpy is not installed")
needs_torch = unittest.skipUnless(torch, "PyTorch is not installed")
PLAIN = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64".split()
FORMATS = dict(zip(PLAIN, "?BbhilHILefd"))


def counting(*shape, dtype=None):
    n = 1
    for s in shape:
        n *= s
    return cairn.arange(0, n, dtype=dtype or cairn.float32).reshape(*shape)


class TestBuffer(unittest.TestCase):
    def test_formats(self):
        for name in PLAIN:
            t = cairn.tensor([1, 0, 1], dtype=getattr(cairn, name))
            m = memoryview(t)
            self.assertEqual(m.format, FORMATS[name])
            self.assertEqual((m.shape, m.itemsize, m.readonly), ((3,), t.itemsize, False))
            if name != "float16" or sys.version_info >= (3, 12):  # which memoryview does not read
                self.assertEqual(m.tolist(), [1, 0, 1])

    def test_layouts(self):
        x = counting(2, 3, 4)
        self.assertEqual(memoryview(x).tolist(), x.tolist())
        v = x[:, ::2, 1]
        m = memoryview(v)
        self.assertEqual((m.shape, m.strides), ((2, 2), (48, 32)))
        self.assertEqual(m.tolist(), v.tolist())
        self.assertFalse(m.c_contiguous)
        self.assertTrue(memoryview(counting(2, 3).t()).f_contiguous)
        zero = memoryview(cairn.tensor(2.5))
        self.assertEqual((zero.ndim, zero.shape, zero[()]), (0, (), 2.5))
        self.assertEqual(memoryview(cairn.zeros(2, 0)).shape, (2, 0))

    def test_bytes(self):
        x = cairn.tensor([1, 2], dtype=cairn.int16)
        self.assertEqual(bytes(x), b"\x01\x00\x02\x00")
        self.assertRaises(BufferError, hashlib.sha256, counting(4)[::2])  # takes packed memory only

    def test_writes_go_through(self):
        x = cairn.zeros(3)
        memoryview(x)[1] = 5.0
        self.assertEqual(x.tolist(), [0, 5, 0])

    def test_refusals(self):
        for t in (cairn.ones(2, requires_grad=True), cairn.ones(2, requires_grad=True) * 2,
                  cairn.ones(2, dtype=cairn.bfloat16)):
            self.assertRaises(BufferError, memoryview, t)

    def test_memory_outlives_the_tensor(self):
        x = counting(1000)
        m = memoryview(x)
        del x
        gc.collect()
        for _ in range(20):
            cairn.zeros(1000)
        self.assertEqual(m[999], 999.0)
        x = counting(4)
        m = memoryview(x)
        x.data = cairn.zeros(2)
        self.assertEqual(m.tolist(), [0, 1, 2, 3])


@needs_numpy
class TestNumpy(unittest.TestCase):
    def test_numpy_shares(self):
        for x in (counting(2, 3), counting(2, 3).t(), counting(4)[::2], cairn.tensor(1.5), cairn.zeros(0, 2)):
            a = x.numpy()
            self.assertIsInstance(a, numpy.ndarray)
            self.assertEqual(a.shape, tuple(x.shape))
            self.assertEqual(a.tolist(), x.tolist())
            if x.numel():
                a[...] = 7
                self.assertEqual(x.tolist(), a.tolist())
                self.assertEqual(a.ctypes.data, x.data_ptr())

    def test_dtypes(self):
        for name in PLAIN:
            t = cairn.tensor([0, 1], dtype=getattr(cairn, name))
            self.assertEqual(t.numpy().dtype, numpy.dtype(name))
            self.assertIs(cairn.from_numpy(t.numpy()).dtype, t.dtype)
            self.assertIs(cairn.tensor(t.numpy()).dtype, t.dtype)

    def test_gradients_do_not_leave(self):
        x = cairn.ones(2, requires_grad=True)
        self.assertRaises(RuntimeError, x.numpy)
        self.assertRaises(RuntimeError, numpy.asarray, x)
        self.assertEqual(x.numpy(force=True).tolist(), [1, 1])
        self.assertEqual(x.detach().numpy().tolist(), [1, 1])

    def test_array(self):
        x = counting(2, 2)
        self.assertEqual(numpy.asarray(x).ctypes.data, x.data_ptr())
        self.assertEqual(numpy.array(x, dtype=numpy.int64).tolist(), [[0, 1], [2, 3]])
        self.assertEqual(x.__array__(numpy.float64).dtype, numpy.float64)
        self.assertNotEqual(x.__array__(copy=True).ctypes.data, x.data_ptr())
        self.assertEqual((numpy.ones((2, 2), numpy.float32) + numpy.asarray(x)).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(numpy.stack([x, x]).shape, (2, 2, 2))

    def test_from_numpy(self):
        a = numpy.arange(12.0).reshape(3, 4)
        for view in (a, a.T, a[1:, ::2], a[0, 0:1], numpy.array(3.0), a[:0], numpy.zeros((2, 0))):
            t = cairn.from_numpy(view)
            self.assertEqual(t.tolist(), view.tolist())
            self.assertEqual(tuple(t.shape), view.shape)
        t = cairn.from_numpy(a.T)
        t[0, 1] = 50
        self.assertEqual(a[1, 0], 50)
        a[0, 0] = -1
        self.assertEqual(t[0, 0].item(), -1)
        self.assertEqual(t.stride(), (1, 4))

    def test_from_numpy_refuses(self):
        a = numpy.arange(4)
        self.assertRaises(TypeError, cairn.from_numpy, [1])
        self.assertRaises(ValueError, cairn.from_numpy, a[::-1])
        self.assertRaises(ValueError, cairn.from_numpy, a.astype(">i8"))
        for odd in (numpy.array(["a"]), numpy.array([object()]), numpy.array(["2020"], "M8[D]"),
                    numpy.zeros(2, [("a", "i4"), ("b", "i4")])):
            self.assertRaises(TypeError, cairn.from_numpy, odd)
        packed = numpy.zeros(5, [("i", "<i4"), ("c", "i1")])["i"]
        self.assertRaises(ValueError, cairn.from_numpy, packed)
        self.assertRaises(ValueError, cairn.from_numpy, numpy.zeros((1,) * 17))

    def test_read_only_warns(self):
        a = numpy.zeros(2)
        a.flags.writeable = False
        with self.assertWarns(UserWarning):
            cairn.from_numpy(a)
        with self.assertWarns(UserWarning):
            cairn.from_numpy(numpy.broadcast_to(numpy.ones(1), (3,)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cairn.tensor(a)

    def test_lifetimes(self):
        a = numpy.arange(1000.0)
        t = cairn.from_numpy(a)
        count = sys.getrefcount(a)
        u = t[10:]
        del t
        self.assertEqual(sys.getrefcount(a), count)
        self.assertEqual(u[0].item(), 10)
        del u
        self.assertEqual(sys.getrefcount(a), count - 1)
        x = counting(1000)
        b = x.numpy()
        del x
        gc.collect()
        self.assertEqual(b[999], 999)

    def test_last_reference_on_another_thread(self):
        a = numpy.zeros(10)
        count = sys.getrefcount(a)
        box = [cairn.from_numpy(a)]
        t = threading.Thread(target=box.clear)
        t.start()
        t.join()
        self.assertEqual(sys.getrefcount(a), count)

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_unusual_types(self):
        for name in ("bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
                     "float4_e2m1fn int4 uint4 int2 uint2").split():
            values = [0.5, 1, 2, 4] if name == "float8_e8m0fnu" else [0, 1, 1, 0]
            if name in ("bfloat16", "float8_e4m3fn", "float4_e2m1fn"):
                values = [0.5, -1, 2, 3]
            if name in ("int4", "int2"):
                values = [0, -1, 1, -2]
            t = cairn.tensor(values, dtype=getattr(cairn, name))
            a = t.numpy()
            self.assertEqual(a.dtype, numpy.dtype(getattr(ml_dtypes, name)))
            self.assertEqual(a.astype(numpy.float64).tolist(), values)
            b = numpy.array(values).astype(getattr(ml_dtypes, name))
            u = cairn.from_numpy(b)
            self.assertIs(u.dtype, t.dtype)
            self.assertEqual(u.tolist(), values)
            self.assertEqual(cairn.tensor(b).tolist(), values)
            b[0] = b[1]
            self.assertEqual(u[0].item(), values[1])
        self.assertEqual(numpy.asarray(cairn.ones(2, dtype=cairn.bfloat16)).dtype.name, "bfloat16")

    @unittest.skipIf(ml_dtypes, "ml_dtypes is installed")
    def test_unusual_types_without_ml_dtypes(self):
        self.assertRaises(TypeError, cairn.ones(2, dtype=cairn.bfloat16).numpy)


class OldStyle:
    """A producer from before DLPack 1.0: no keywords but stream."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def capsule_name(capsule):
    f = ctypes.pythonapi.PyCapsule_GetName
    f.restype, f.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return f(capsule).decode()


class TestDLPack(unittest.TestCase):
    def producers(self):
        return counting(5), OldStyle(counting(5))

    def test_refcount_of_a_capsule(self):
        for version in ((0, 0), None, (1, 0), (100, 3)):
            x = counting(5)
            y = x.__dlpack__(max_version=version)
            before = sys.getrefcount(x)
            del y
            self.assertEqual(before - sys.getrefcount(x), 1)

    def test_refcount_of_an_import(self):
        x = counting(5)
        y = cairn.from_dlpack(x)
        before = sys.getrefcount(x)
        del y
        self.assertEqual(before - sys.getrefcount(x), 1)

    def test_capsules(self):
        x = counting(5)
        self.assertEqual(capsule_name(x.__dlpack__()), "dltensor")
        self.assertEqual(capsule_name(x.__dlpack__(max_version=(0, 8))), "dltensor")
        self.assertEqual(capsule_name(x.__dlpack__(max_version=(1, 0))), "dltensor_versioned")
        for version, used in ((None, "used_dltensor"), ((1, 0), "used_dltensor_versioned")):
            c = x.__dlpack__(max_version=version)
            y = cairn.from_dlpack(c)
            self.assertEqual(y.data_ptr(), x.data_ptr())
            self.assertEqual(capsule_name(c), used)
            self.assertRaises(RuntimeError, cairn.from_dlpack, c)
        c = dlpack.to_dlpack(x)
        self.assertEqual(dlpack.from_dlpack(c).tolist(), x.tolist())

    def test_stream(self):
        x = counting(5)
        x.__dlpack__(stream=None)
        self.assertRaises(RuntimeError, lambda: x.__dlpack__(stream=1))

    def test_copy_argument(self):
        x = counting(5)
        for copy in (True, None, False):
            x.__dlpack__(copy=copy)
        if numpy:
            self.assertRaises(ValueError, lambda: x.__dlpack__(copy=numpy.array([1, 2, 3])))
        self.assertRaises(TypeError, lambda: x.__dlpack__(max_version=1))
        self.assertRaises(TypeError, lambda: x.__dlpack__(None))

    def test_dtypes(self):
        names = PLAIN + ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint2"]
        for name in names:
            x = cairn.tensor([0, 1, 1], dtype=getattr(cairn, name))
            y = cairn.from_dlpack(x)
            self.assertIs(y.dtype, x.dtype)
            self.assertEqual(y.tolist(), x.tolist())
            if name in PLAIN:
                self.assertEqual(cairn.from_dlpack(OldStyle(x)).tolist(), x.tolist())
        # types below a byte need the versioned form
        self.assertRaises(BufferError, lambda: cairn.ones(2).to(cairn.int4).__dlpack__())

    def test_non_contiguous(self):
        x = counting(5, 5)
        for v in (x[0], x[:, 0], x[1, :], x[1], x.diagonal(), x.t(), x[::2, 1::2]):
            y = cairn.from_dlpack(v)
            self.assertEqual(y.tolist(), v.tolist())
            self.assertEqual(y.data_ptr(), v.data_ptr())
            self.assertEqual(y.stride(), v.stride())

    def test_dims(self):
        for ndim in range(17):
            x = cairn.zeros((1,) * ndim)
            self.assertEqual(cairn.from_dlpack(x).shape, (1,) * ndim)
        self.assertEqual(cairn.from_dlpack(cairn.tensor(2.5)).item(), 2.5)
        self.assertEqual(cairn.from_dlpack(cairn.zeros(2, 0)).shape, (2, 0))

    def test_device(self):
        x = counting(5)
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        self.assertEqual(x[::2].__dlpack_device__(), (1, 0))
        x.__dlpack__(dl_device=(1, 0))
        cairn.from_dlpack(x, device="cpu")
        cairn.from_dlpack(x, device=None)
        for where in ((10, 0), (2, 0)):
            self.assertRaises(BufferError, lambda: x.__dlpack__(dl_device=where))
        self.assertRaises((RuntimeError, ValueError), lambda: cairn.from_dlpack(x, device="gpu"))

    def test_deleter_while_an_exception_is_set(self):
        for version in (None, (1, 0)):
            with self.assertRaises(RuntimeError):
                _ = counting(5).__dlpack__(max_version=version)
                raise RuntimeError

    def test_copy(self):
        for x in self.producers():
            own = getattr(x, "tensor", x)
            self.assertEqual(cairn.from_dlpack(x).data_ptr(), own.data_ptr())
        x = counting(5)
        self.assertEqual(cairn.from_dlpack(x, copy=False).data_ptr(), x.data_ptr())
        y = cairn.from_dlpack(x, copy=True)
        self.assertNotEqual(y.data_ptr(), x.data_ptr())
        self.assertEqual(y.tolist(), x.tolist())

    def test_gradients_do_not_leave(self):
        self.assertRaises(BufferError, cairn.ones(2, requires_grad=True).__dlpack__)

    def test_what_speaks_no_dlpack(self):
        self.assertRaises((AttributeError, TypeError), cairn.from_dlpack, 3)
        self.assertRaises(TypeError, cairn.from_dlpack)

    def test_memory_outlives_the_tensor(self):
        x = counting(1000)
        c = x.__dlpack__()
        del x
        gc.collect()
        self.assertEqual(cairn.from_dlpack(c)[999].item(), 999)

    def test_no_leak(self):
        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if not os.path.exists("/proc/self/statm"):
            self.skipTest("no /proc here")

        def work(n):
            for _ in range(n):
                x = cairn.zeros(1024)
                x.__dlpack__()
                x.__dlpack__(max_version=(1, 0), copy=True)
                cairn.from_dlpack(x)[0]
                memoryview(x)
        work(200)
        before = resident()
        work(3000)
        self.assertLess(resident() - before, 4 << 20)

    @needs_numpy
    def test_with_numpy(self):
        for name in PLAIN:
            a = numpy.arange(5).astype(name)
            t = cairn.from_dlpack(a)
            self.assertEqual(str(t.dtype), "cairn." + name)
            self.assertEqual(t.tolist(), a.tolist())
            self.assertEqual(t.data_ptr(), a.ctypes.data)
            b = numpy.from_dlpack(t)
            self.assertEqual(b.dtype, a.dtype)
            self.assertEqual(b.ctypes.data, a.ctypes.data)
            self.assertTrue(b.flags.writeable)
        x = counting(3)
        self.assertEqual(numpy.from_dlpack(x, copy=False).ctypes.data, x.data_ptr())
        self.assertNotEqual(numpy.from_dlpack(x, copy=True).ctypes.data, x.data_ptr())
        self.assertEqual(numpy.from_dlpack(cairn.tensor(1.5)).shape, ())

    @needs_numpy
    def test_numpy_refcounts(self):
        a = numpy.arange(5)
        y = cairn.from_dlpack(a)
        before = sys.getrefcount(a)
        del y
        self.assertEqual(before - sys.getrefcount(a), 1)
        x = counting(5)
        b = numpy.from_dlpack(x)
        before = sys.getrefcount(x)
        del b
        self.assertEqual(before - sys.getrefcount(x), 1)

    @needs_numpy
    def test_numpy_arrays_that_cannot_be_shared(self):
        packed = numpy.zeros(5, [("int", numpy.int32), ("char", numpy.int8)])["int"]
        swapped = numpy.arange(5, dtype=numpy.dtype("=i8").newbyteorder())
        for a in (packed, swapped, numpy.asarray(numpy.datetime64("2021-05-27"))):
            self.assertRaises(BufferError, cairn.from_dlpack, a)
        for a in (numpy.arange(5)[::-1], numpy.zeros((1,) * 20)):
            self.assertRaises((RuntimeError, ValueError, TypeError, BufferError), cairn.from_dlpack, a)

    @needs_numpy
    def test_complex_numbers(self):
        t = cairn.from_dlpack(numpy.array([1 + 2j, 3.5 - 1j], numpy.complex64))
        self.assertTrue(t.is_complex() and t.dtype.is_complex and t.dtype == cairn.cfloat)
        self.assertEqual(repr(t), "tensor([1.0000+2.j, 3.5000-1.j])")
        self.assertEqual(repr(cairn.zeros(1, dtype=cairn.complex128)), "tensor([0.+0.j], dtype=cairn.complex128)")
        self.assertEqual((t.itemsize, t.nbytes), (8, 16))
        self.assertEqual((t.tolist(), t[0].item()), ([1 + 2j, 3.5 - 1j], 1 + 2j))
        self.assertEqual(t.to(cairn.float32).tolist(), [1, 3.5])
        self.assertRaises(RuntimeError, lambda: cairn.arange(3, dtype=cairn.complex64))

    @needs_numpy
    def test_read_only(self):
        a = numpy.arange(5)
        a.flags.writeable = False
        t = cairn.from_dlpack(a)  # copied: tensors can be written to
        t[0] = 9
        self.assertEqual(a[0], 0)
        self.assertRaises(BufferError, lambda: cairn.from_dlpack(a, copy=False))

    @needs_numpy
    def test_strides_of_dims_of_size_one(self):
        a = numpy.ndarray(dtype="f8", shape=(10, 5, 1), strides=(8, 80, 4), buffer=numpy.ones(1000, numpy.uint8),
                          order="F")
        self.assertEqual(cairn.from_dlpack(a).tolist(), a.tolist())
        self.assertEqual(cairn.from_numpy(a).tolist(), a.tolist())

    @needs_torch
    def test_with_torch(self):
        for name in PLAIN[:6] + ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]:
            a = torch.tensor([0, 1, 1]).to(getattr(torch, name))
            t = cairn.from_dlpack(a)
            self.assertEqual(str(t.dtype)[6:], name)
            self.assertEqual(t.data_ptr(), a.data_ptr())
            b = torch.from_dlpack(t)
            self.assertEqual(b.data_ptr(), a.data_ptr())
            self.assertIs(b.dtype, a.dtype)
        x = counting(3, 4).t()
        self.assertEqual(torch.from_dlpack(x).stride(), x.stride())
        self.assertEqual(cairn.tensor(torch.ones(2)).tolist(), [1, 1])
        self.assertEqual(torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(x)).tolist(), x.tolist())


class TestJax(unittest.TestCase):
    def setUp(self):
        try:
            import jax
        except ImportError:
            self.skipTest("jax is not installed")
        self.jax = jax

    def test_both_ways_without_a_copy(self):
        for n in (1, 5, 16, 1000, 100000):  # small tensors too: their memory is aligned as JAX wants it
            x = cairn.arange(float(n))
            theirs = self.jax.dlpack.from_dlpack(x)
            self.assertEqual((theirs.unsafe_buffer_pointer(), theirs.tolist()), (x.data_ptr(), x.tolist()))
            theirs = self.jax.numpy.arange(n).reshape(1, n)
            x = cairn.from_dlpack(theirs)
            self.assertEqual((x.data_ptr(), x.tolist()), (theirs.unsafe_buffer_pointer(), theirs.tolist()))


class TestOtherDevices(unittest.TestCase):
    """The mirror device: memory of its own behind CPU kernels."""

    def test_lengths_of_ctc_loss(self):
        x = cairn.randn(6, 2, 4).log_softmax(-1)
        targets, given, targeted = cairn.tensor([[1, 2], [3, 1]]), [6, 5], [2, 1]
        want = cairn.nn.functional.ctc_loss(x, targets, given, targeted)
        for lengths in (list, cairn.tensor):
            made = cairn.nn.functional.ctc_loss(x.to("mirror"), targets.to("mirror"), lengths(given), lengths(targeted))
            self.assertEqual(made.device.type, "mirror")
            self.assertEqual(made.item(), want.item())
            module = cairn.nn.CTCLoss()
            self.assertEqual(module(x.to("mirror"), targets.to("mirror"), lengths(given), lengths(targeted)).item(),
                             want.item())


    def setUp(self):
        try:
            self.x = counting(2, 3).to("mirror")
        except RuntimeError as e:
            self.skipTest("no mirror device: %s" % e)

    def test_reading(self):
        self.assertEqual(self.x.tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(self.x[1, 2].item(), 5)
        self.assertRaises(BufferError, memoryview, self.x)
        self.assertEqual(self.x[cairn.tensor([1])].tolist(), [[3, 4, 5]])

    def test_writing(self):
        self.x[0] = 1
        self.x[1, 1:] = cairn.tensor([7.0, 8.0])
        self.x[self.x == 3] = 4.0
        self.assertEqual(self.x.tolist(), [[1, 1, 1], [4, 7, 8]])

    def test_making(self):
        t = cairn.tensor([[1.5], [2]], device="mirror", dtype=cairn.float16)
        self.assertEqual((t.device.type, t.tolist()), ("mirror", [[1.5], [2.0]]))
        self.assertEqual(t.cpu().tolist(), [[1.5], [2.0]])

    def test_dlpack(self):
        self.assertEqual(self.x.__dlpack_device__()[0], 12)
        y = cairn.from_dlpack(self.x.__dlpack__(dl_device=(1, 0)))
        self.assertEqual((y.device.type, y.tolist()), ("cpu", self.x.tolist()))
        self.assertRaises(BufferError, lambda: self.x.__dlpack__(dl_device=(1, 0), copy=False))
        self.assertRaises(BufferError, self.x.__dlpack__)  # nobody else could use that memory
        self.assertRaises(BufferError, cairn.from_dlpack, self.x)

    @needs_numpy
    def test_numpy(self):
        self.assertRaises(TypeError, self.x.numpy)
        self.assertEqual(self.x.numpy(force=True).tolist(), self.x.tolist())


if __name__ == "__main__":
    unittest.main()
