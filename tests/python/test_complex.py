"""Complex numbers from Python: scalars, promotion, printing, properties, gradients and optimisers as in torch, arrays,
files, transforms. Ops themselves are compared by tests/ops/complex.samples and tests/conformance.
"""
import cmath
import io
import os
import pickle
import tempfile
import unittest

import cairn
from cases import Case, torch

try:
    import numpy
except ImportError:
    numpy = None


def flat(m, t):
    """Complex results as pairs, which a golden file can hold."""
    return (m.view_as_real(t.resolve_conj()) if t.is_complex() else t).tolist()


def numbers(m, n, dtype="complex128"):
    """n different numbers."""
    k = m.arange(n, dtype=m.float64)
    return m.complex((k * 1.3 + 0.2).sin() * 2, (k * 0.7 - 0.4).cos() * 1.5).to(getattr(m, dtype))


class Numbers(Case):
    def test_made(self):
        self.same(lambda m: [str(m.tensor(x).dtype)[6:] for x in (1j, [1, 2j], [[1.5, 1j]], [True, 1j])])
        self.same(lambda m: flat(m, m.tensor([1, 2.5, 3 - 1j])))
        self.same(lambda m: flat(m, m.full((2,), 1 - 2j)))
        self.same(lambda m: flat(m, m.full_like(m.zeros(2, dtype=m.complex64), 2j)))
        self.same(lambda m: flat(m, m.zeros(2, dtype=m.complex64).new_full((2,), 3j)))
        self.same(lambda m: flat(m, m.linspace(0, 1 + 1j, 3)))
        self.same(lambda m: flat(m, m.tensor([1, 2], dtype=complex)))
        self.same(lambda m: [str(m.randn(3, dtype=m.complex64).dtype)[6:], list(m.rand(2, 3, dtype=m.cdouble).shape)])

    def test_default_type(self):
        def program(m):
            before = m.get_default_dtype()
            m.set_default_dtype(m.float64)
            found = [str(m.tensor(1j).dtype)[6:], str((m.ones(2) * 1j).dtype)[6:], repr(m.tensor([1j]))[:20]]
            m.set_default_dtype(before)
            return found
        self.same(program)

    def test_promotion(self):
        kinds = "bool uint8 int64 float16 float32 float64 complex64 complex128".split()

        def program(m):
            made = {k: m.ones(2, dtype=getattr(m, k)) for k in kinds}
            pairs = [str((a * b).dtype)[6:] for a in made.values() for b in made.values()]
            scalars = [str((a * b).dtype)[6:] for a in made.values() for b in (made[k].sum() for k in kinds[4:])]
            python = [str((a + 1j).dtype)[6:] for a in made.values()]
            return [pairs, scalars, python, str(m.promote_types(m.float64, m.complex64))[6:],
                    str(m.result_type(made["float32"], 1j))[6:]]
        self.same(program)

    def test_python_operators(self):
        self.same(lambda m: [flat(m, f(numbers(m, 4))) for f in (
            lambda x: x + 1j, lambda x: 1j - x, lambda x: x * (2 - 1j), lambda x: (1 + 1j) / x, lambda x: x ** 2,
            lambda x: x ** (0.5 + 1j), lambda x: -x, lambda x: x @ x, lambda x: x[1:3], lambda x: x == x[0])])

    def test_complex_alpha(self):
        self.same(lambda m: flat(m, m.add(numbers(m, 3), numbers(m, 3), alpha=1 + 2j)))
        self.same(lambda m: flat(m, m.addmm(numbers(m, 4).view(2, 2), numbers(m, 4).view(2, 2),
                                            numbers(m, 4).view(2, 2), beta=1j, alpha=2 - 1j)))
        self.assertRaises(TypeError, cairn.add, cairn.ones(2), cairn.ones(2), alpha=1j)

    def test_item_and_conversions(self):
        z = cairn.tensor([1 + 2j, 3])
        self.assertEqual((z[0].item(), complex(z[0]), z.tolist()), (1 + 2j, 1 + 2j, [1 + 2j, 3]))
        self.assertEqual((float(z[1]), int(z[1]), bool(z[0])), (3.0, 3, True))
        self.assertRaises(RuntimeError, float, z[0])
        self.assertRaises(RuntimeError, cairn.tensor, [1j], dtype=cairn.float32)
        self.assertEqual(z.to(cairn.complex32).to(cairn.complex64).tolist(), z.tolist())
        self.assertTrue(1 + 2j in z and 5j not in z)

    def test_printed(self):
        def program(m):
            return [repr(t).replace("cairn.", "torch.") for t in (
                m.tensor(1 + 2j), m.tensor([1 + 2j, 3.5 - 1e-5j]), m.zeros(2, dtype=m.complex128),
                m.tensor([1e10 + 1j, 1]), m.tensor([], dtype=m.complex64), numbers(m, 400, "complex64").view(20, 20),
                m.tensor([complex("nan"), complex(float("inf"), -1)]))]
        self.same(program)

    def test_properties(self):
        def program(m):
            x = numbers(m, 6).view(2, 3)
            y = x.clone()
            y.real = m.zeros(2, 3, dtype=m.float64)
            y.imag[0] = 7
            y[1, 2] = 5j
            return [flat(m, t) for t in (x.real, x.imag, x.conj(), x.H, x.mH, x.adjoint(), x.angle(), x.abs(), y)]
        self.same(program)
        z = numbers(cairn, 3)
        self.assertEqual((z.is_complex(), z.is_conj(), z.conj().is_conj(), z.is_floating_point()),
                         (True, False, False, False))
        self.assertEqual(z.type(), "cairn.ComplexDoubleTensor")
        self.assertRaises(TypeError, lambda: cairn.ones(2).imag)

    def test_what_has_no_order(self):
        z = numbers(cairn, 3)
        for wrong in (lambda: z < z, lambda: z > 1, z.max, z.argmax, z.sort, lambda: z.clamp(0), lambda: z % 2,
                      z.floor, lambda: cairn.maximum(z, z), lambda: z.relu(), lambda: cairn.sign(z)):
            self.assertRaises(NotImplementedError, wrong)


class Gradients(Case):
    def test_convention(self):
        losses = (lambda z: (z.abs() ** 2).sum(), lambda z: (z * z.conj() * (1 + 2j)).real.sum(),
                  lambda z: (z.exp() / (z + 3)).imag.sum(), lambda z: z.prod().abs(), lambda z: (z @ z).angle(),
                  lambda z: (z.real * 3 - z.imag.square()).sum(), lambda z: z.norm(), lambda z: z.std())

        def program(m):
            found = []
            for loss in losses:
                z = numbers(m, 4).requires_grad_()
                loss(z).backward()
                found.append(flat(m, z.grad))
            return found
        self.same(program)

    def test_real_parameters(self):
        def program(m):
            w = m.arange(1.0, 5.0, dtype=m.float64).requires_grad_()
            (w * numbers(m, 4)).sum().abs().backward()
            return w.grad.tolist()
        self.same(program)

    def test_given_gradient(self):
        def program(m):
            z = numbers(m, 3).requires_grad_()
            (z * z).backward(gradient=numbers(m, 3))
            return flat(m, z.grad)
        self.same(program)
        self.assertRaises(RuntimeError, lambda: numbers(cairn, 1).requires_grad_().sum().backward())

    def test_optimisers(self):
        def program(m):
            found = []
            for make in (lambda p: m.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: m.optim.Adam(p, lr=0.1),
                         lambda p: m.optim.AdamW(p, lr=0.1, weight_decay=0.1)):
                z = numbers(m, 3).requires_grad_()
                opt = make([z])
                for _ in range(4):
                    opt.zero_grad()
                    (z - (1 + 1j)).abs().square().sum().backward()
                    opt.step()
                found.append(flat(m, z.detach()))
            return found
        self.same(program)

    def test_gradcheck(self):
        check = cairn.autograd.gradcheck
        x, y = (numbers(cairn, 4).view(2, 2).requires_grad_() for _ in range(2))
        self.assertTrue(check(lambda a, b: a @ b / (b + 3), (x, y)))
        self.assertTrue(check(cairn.fft.fft2, (x,)))
        self.assertTrue(check(lambda a: cairn.linalg.solve(a, a.sin()), (x,)))
        self.assertFalse(check(lambda a: a.detach() * a, (x,), raise_exception=False))
        self.assertTrue(cairn.autograd.gradgradcheck(lambda a: a.exp().abs(), (x,)))

    def test_eigenvectors(self):
        a = (numbers(cairn, 9).view(3, 3) + cairn.eye(3)).requires_grad_()
        self.assertTrue(cairn.autograd.gradcheck(lambda t: cairn.linalg.eig(t).eigenvectors.abs(), (a,)))
        values, vectors = cairn.linalg.eig(a)
        self.near(flat(cairn, a @ vectors), flat(cairn, vectors * values), 12)
        real = cairn.linalg.eigvals(cairn.tensor([[0.0, 1.0], [-4.0, 0.0]])).tolist()
        self.near(sorted(round(v.imag, 6) for v in real), [-2, 2])


class Exchange(Case):
    def test_pickle_and_files(self):
        z = numbers(cairn, 4, "complex64")
        self.assertEqual(pickle.loads(pickle.dumps(z)).tolist(), z.tolist())
        memory = io.BytesIO()
        cairn.save({"z": z, "wide": z.to(cairn.complex128), "half": z.to(cairn.complex32)}, memory)
        memory.seek(0)
        back = cairn.load(memory)
        self.assertEqual((back["z"].tolist(), back["wide"].dtype, back["half"].dtype),
                         (z.tolist(), cairn.complex128, cairn.complex32))

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy(self):
        a = numpy.array([1 + 2j, 3], numpy.complex64)
        t = cairn.from_numpy(a)
        a[0] = 7j
        self.assertEqual((t.tolist(), t.dtype), ([7j, 3], cairn.complex64))
        self.assertEqual((t.numpy().dtype, numpy.asarray(t * 2).tolist()), (numpy.complex64, [14j, 6]))
        self.assertEqual(cairn.tensor(numpy.complex128(1j)).dtype, cairn.complex128)
        self.assertEqual(cairn.from_dlpack(numpy.array([1j])).tolist(), [1j])

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_files_of_torch(self):
        z = torch.tensor([1 + 2j, -3j])
        memory = io.BytesIO()
        torch.save({"z": z}, memory)
        memory.seek(0)
        self.assertEqual(cairn.load(memory)["z"].tolist(), z.tolist())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "z.pt")
            cairn.save({"z": cairn.from_dlpack(z)}, path)
            self.assertEqual(torch.load(path)["z"].tolist(), z.tolist())


class Transforms(Case):
    def test_known(self):
        x = cairn.fft.fft(cairn.tensor([1.0, 0, 0, 0]))
        self.assertEqual((x.tolist(), x.dtype), ([1, 1, 1, 1], cairn.complex64))
        wave = cairn.polar(cairn.ones(8), cairn.arange(8.0) * (2 * cmath.pi * 3 / 8))
        self.near([abs(v) for v in cairn.fft.fft(wave).tolist()], [0.0] * 3 + [8.0] + [0.0] * 4)

    def test_lengths(self):
        for n in (1, 2, 3, 64, 97, 120, 509, 1024):
            x = numbers(cairn, n)
            self.near(flat(cairn, cairn.fft.ifft(cairn.fft.fft(x))), flat(cairn, x), 11)
            self.near(cairn.fft.irfft(cairn.fft.rfft(x.real), n).tolist(), x.real.tolist(), 11)

    def test_stft(self):
        def program(m):
            x, window = numbers(m, 64).real, m.hann_window(16, dtype=m.float64)
            y = m.stft(x, 16, hop_length=4, window=window, return_complex=True)
            return [list(y.shape), flat(m, y[:, 3]), m.istft(y, 16, hop_length=4, window=window, length=64).tolist()]
        self.same(program)


class Compiled(Case):
    def test_compiled(self):
        def f(x, y):
            return (cairn.fft.fft(x * y) + x.conj()).abs().sum()
        x, y = numbers(cairn, 8), numbers(cairn, 8)
        self.near(cairn.compile(f)(x, y).item(), f(x, y).item(), 12)


if __name__ == "__main__":
    unittest.main()
