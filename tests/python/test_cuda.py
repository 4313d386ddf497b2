"""Tensors on a CUDA device, shared with other libraries without a copy, in order with their work."""
import gc
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None
try:
    import cupy
except ImportError:
    cupy = None


def load_jax():
    """jax with a CUDA device, or None. Asked late: it would take the device's memory otherwise."""
    import os
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
        jax.devices("cuda")
        return jax
    except (ImportError, RuntimeError):
        return None


@unittest.skipUnless(cairn.cuda.is_available(), "no CUDA device")
class TestShared(unittest.TestCase):
    def setUp(self):
        self.x = cairn.arange(4096.0).reshape(64, 64).to("cuda")

    def check_in(self, theirs, address, values):
        """A tensor over `theirs`: same memory, same values; writes are seen by the owner."""
        t = cairn.from_dlpack(theirs)
        self.assertEqual((t.device.type, t.data_ptr()), ("cuda", address))
        self.assertEqual(t.tolist(), values)
        y = (t * 2 + 1).cpu()
        self.assertEqual(y.flatten()[0].item(), t.flatten()[0].item() * 2 + 1)
        return t

    def test_loader_pins(self):
        from cairn.utils.data import DataLoader, TensorDataset
        rows = TensorDataset(self.x.cpu(), cairn.arange(64))
        for sets, workers in ((rows, 0), (rows, 2), ([(r, {"n": 1}) for r in self.x.cpu()], 2)):
            for batch in DataLoader(sets, 16, num_workers=workers, pin_memory=True):
                self.assertTrue(batch[0].is_pinned())
                self.assertEqual(batch[0].to("cuda", non_blocking=True).sum().item(), batch[0].sum().item())
            self.assertFalse(next(iter(DataLoader(sets, 16, num_workers=workers)))[0].is_pinned())

    @unittest.skipUnless(torch and torch.cuda.is_available(), "torch with CUDA is not installed")
    def test_torch_in(self):
        for theirs in (torch.arange(12.0, device="cuda").reshape(3, 4), torch.arange(24.0, device="cuda")[::2],
                       torch.arange(6, device="cuda").reshape(2, 3).t(), torch.tensor(3.5, device="cuda"),
                       torch.arange(8, device="cuda", dtype=torch.bfloat16)[1:]):
            t = self.check_in(theirs, theirs.data_ptr(), theirs.tolist())
            self.assertEqual(t.stride(), theirs.stride())
            t.fill_(7)
            cairn.cuda.synchronize()
            self.assertTrue((theirs == 7).all().item())
        copied = cairn.from_dlpack(theirs, copy=True)
        self.assertNotEqual(copied.data_ptr(), theirs.data_ptr())
        self.assertEqual(cairn.from_dlpack(torch.zeros(0, 3, device="cuda")).shape, (0, 3))

    @unittest.skipUnless(torch and torch.cuda.is_available(), "torch with CUDA is not installed")
    def test_torch_out(self):
        for mine in (self.x, self.x.t(), self.x[3:, 2], self.x[0, 0], self.x.to(cairn.float16)):
            theirs = torch.from_dlpack(mine)
            self.assertEqual((theirs.data_ptr(), theirs.tolist()), (mine.data_ptr(), mine.tolist()))
        theirs = torch.from_dlpack(self.x)
        theirs += 1
        torch.cuda.synchronize()
        self.assertEqual(self.x[0, 1].item(), 2)

    @unittest.skipUnless(torch and torch.cuda.is_available(), "torch with CUDA is not installed")
    def test_order(self):
        """What torch has queued on a stream of its own is seen, without waiting for it."""
        stream = torch.cuda.Stream()
        a = torch.ones(3000, 3000, device="cuda") / 3000
        torch.cuda.synchronize()
        for _ in range(10):
            with torch.cuda.stream(stream):
                b = a
                for _ in range(20):
                    b = b @ a
                c = cairn.from_dlpack(b)
            total = c.sum()
            del b, c
            garbage = torch.full((3000, 3000), 9.0, device="cuda")  # may get memory that was given back too early
            self.assertAlmostEqual(total.item() / 3000, 1, places=3)
            del garbage

    @unittest.skipUnless(torch and torch.cuda.is_available(), "torch with CUDA is not installed")
    def test_lifetime(self):
        gc.collect()
        before = torch.cuda.memory_allocated(), cairn.cuda.memory_allocated()
        theirs = torch.zeros(1 << 20, device="cuda")
        view = cairn.from_dlpack(theirs)[5:]
        del theirs
        gc.collect()
        self.assertGreaterEqual(torch.cuda.memory_allocated() - before[0], 4 << 20)
        del view
        mine = torch.from_dlpack(cairn.zeros(1 << 20, device="cuda"))
        self.assertGreaterEqual(cairn.cuda.memory_allocated() - before[1], 4 << 20)
        del mine
        gc.collect()
        self.assertEqual((torch.cuda.memory_allocated(), cairn.cuda.memory_allocated()), before)

    def test_jax(self):
        jax = load_jax()
        if not jax:
            self.skipTest("jax with CUDA is not installed")
        theirs = jax.device_put(jax.numpy.arange(12.0).reshape(3, 4), jax.devices("cuda")[0])
        self.check_in(theirs, theirs.unsafe_buffer_pointer(), theirs.tolist())
        back = jax.dlpack.from_dlpack(self.x)
        self.assertEqual((back.unsafe_buffer_pointer(), back.tolist()), (self.x.data_ptr(), self.x.tolist()))

    @unittest.skipUnless(cupy, "cupy is not installed")
    def test_cupy(self):
        theirs = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)[1:, ::2]
        t = self.check_in(theirs, theirs.data.ptr, theirs.tolist())
        t.mul_(2)
        cairn.cuda.synchronize()
        self.assertEqual(theirs.tolist(), t.tolist())
        back = cupy.from_dlpack(self.x)
        self.assertEqual((back.data.ptr, back.tolist()), (self.x.data_ptr(), self.x.tolist()))


if __name__ == "__main__":
    unittest.main()
