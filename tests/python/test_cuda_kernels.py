"""Kernels of a program's own on the emulated driver: compile_kernel, also inside of a captured graph, and
cairn.cuda.jiterator."""
import unittest

import emulated

OWN = """
    import ctypes
    import cairn
    c = cairn.cuda
    text = '''
    extern "C" __global__ void scale(float *x, int n, float by, const double *to, long long far)
    {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) x[i] = x[i] * by + (float)*to + ADDED + (far > 1ll << 40);
    }
    extern "C" __global__ void who(int *x)
    {
      x[blockIdx.x] = (int)gridDim.x - (int)blockIdx.x;
    }'''
    try:
        c.compile_kernel(text, "scale")
    except RuntimeError as error:
        assert "ADDED" in str(error), error
    else:
        raise AssertionError
    scale = c.compile_kernel(text, "scale", options=["-DADDED=1"])
    x, to = cairn.arange(1000.0).to("cuda"), cairn.tensor(0.5, dtype=cairn.float64).to("cuda")
    arguments = [x, 1000, 2.0, to, 1 << 41]
    scale(grid=(4,), block=(256,), args=arguments)
    assert bool((x.cpu() == cairn.arange(1000.0) * 2 + 2.5).all())
    y = cairn.zeros(7, dtype=cairn.int32, device="cuda")
    c.compile_kernel(text, "who", options=["-DADDED=1"])(grid=(7,), args=[y])
    assert y.tolist() == [7, 6, 5, 4, 3, 2, 1]

    g = c.CUDAGraph()
    with c.graph(g):
        scale(grid=(4,), block=(256,), args=arguments)
    arguments.clear()
    x.copy_(cairn.ones(1000))
    for _ in range(3):
        g.replay()
    assert bool((x.cpu() == 8 + 7 * 2.5).all())
    for wrong, error in ((lambda: scale(args=[x.cpu()]), ValueError), (lambda: scale(args=["x"]), TypeError),
                         (lambda: c.compile_kernel(text, "none", options=["-DADDED=1"]), RuntimeError)):
        try:
            wrong()
        except error:
            pass
        else:
            raise AssertionError(wrong)
    print("done")
"""

JITERATED = """
    import cairn
    from cairn.cuda.jiterator import _create_jit_fn, _create_multi_output_jit_fn
    code = "template <typename T> T twice(T x) { return x + x; }"
    code += "template <typename T> T f(T x, T y, T alpha) { return -twice(x) + alpha * y; }"
    f = _create_jit_fn(code, alpha=1.0)
    a, b = cairn.randn(5, 1, 3), cairn.randn(4, 3).t()[:3].t()
    got = f(a.to("cuda"), b.to("cuda"), alpha=3.5)
    assert got.shape == (5, 4, 3) and got.dtype == cairn.float32
    assert float((got.cpu() - (-2 * a + 3.5 * b)).abs().max()) < 1e-5
    assert float((f(a.to("cuda"), b.to("cuda")).cpu() - (-2 * a + b)).abs().max()) < 1e-5
    i = cairn.arange(6).to("cuda")
    assert f(i, i).tolist() == [0, -1, -2, -3, -4, -5] and f(i, i).dtype == cairn.int64
    low = f(a.half().to("cuda"), a.half().to("cuda"))
    assert low.dtype == cairn.float16 and bool((low.cpu() == -a.half()).all())
    assert f(i[:0], i[:0]).shape == (0,)
    both = _create_multi_output_jit_fn(
        "template <typename T> void both(T x, T k, T &s, T &p) { s = x + k; p = x * k; }", 2, k=3)
    s, p = both(i)
    assert s.tolist() == [3, 4, 5, 6, 7, 8] and p.tolist() == [0, 3, 6, 9, 12, 15]
    for wrong, error in ((lambda: f(a), RuntimeError), (lambda: f(i, beta=1), KeyError), (lambda: f(), ValueError),
                         (lambda: _create_jit_fn("no template"), ValueError),
                         (lambda: f(i.to(cairn.complex64)), TypeError),
                         (lambda: _create_multi_output_jit_fn(code, 9), ValueError)):
        try:
            wrong()
        except error as e:
            assert str(e)
        else:
            raise AssertionError(wrong)
    print("done")
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestKernels(unittest.TestCase):
    def test_own(self):
        self.assertEqual(emulated.run(OWN), "done\n")

    def test_jiterator(self):
        self.assertEqual(emulated.run(JITERATED), "done\n")


if __name__ == "__main__":
    unittest.main()
