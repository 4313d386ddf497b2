"""Sparse tensors from Python: how they are made, printed and changed, arithmetic, products and their gradients, sparse
gradients of embeddings and the optimisers that take them, files. Ops themselves are compared by
tests/ops/sparse.samples and tests/conformance/sparse_ops.py.
"""
import copy
import io
import pickle
import unittest
import warnings

import cairn
from cases import Case, torch

warnings.filterwarnings("ignore", message="Sparse")     # torch's, of layouts that may change


def flat(t):
    """What a sparse tensor holds, as lists."""
    if t.layout == (cairn.strided if isinstance(t, cairn.Tensor) else torch.strided):
        return t.tolist()
    if t.is_sparse:
        t = t.coalesce()
        return [t.indices().tolist(), t.values().tolist(), list(t.shape)]
    rows = "sr" in str(t.layout)
    parts = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
    return [p.tolist() for p in (*parts, t.values())] + [list(t.shape)]


def matrix(m, coalesced=True):
    """3 x 4 with five values, or with two of them in two parts."""
    places = m.tensor([[0, 0, 1, 2, 2], [0, 3, 1, 0, 2]])
    values = m.tensor([1.5, -2.0, 3.0, 0.5, 4.0], dtype=m.float64)
    if coalesced:
        return m.sparse_coo_tensor(places, values, (3, 4)).coalesce()
    places, values = m.cat([places.flip(1), places[:, 1:3]], 1), m.cat([values.flip(0), values[1:3]])
    return m.sparse_coo_tensor(places, values, (3, 4))


def dense(m, *shape):
    n = 1
    for size in shape:
        n *= size
    return (m.arange(n, dtype=m.float64) * 0.7 + 0.3).sin().reshape(shape)


def at_places(m, g):
    """A gradient of matrix() at its places: torch's is dense behind some ops, cairn's never."""
    if m is cairn:
        assert g.layout != m.strided
    return (g.to_dense() * (matrix(m).to_dense() != 0)).tolist()


class Making(Case):
    def test_coo(self):
        self.same(lambda m: flat(m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4, 5], (2, 4))))
        self.same(lambda m: flat(m.sparse_coo_tensor(m.tensor([[0, 1, 1], [2, 0, 2]]), m.tensor([3, 4, 5]))))
        self.same(lambda m: flat(m.sparse_coo_tensor([[1, 0, 1]], [[1.0, 2], [3, 4], [5, 6]], (3, 2))))
        self.same(lambda m: flat(m.sparse_coo_tensor((2, 3))))
        self.same(lambda m: [str(m.sparse_coo_tensor([[0]], [1], (2,), dtype=m.float64).dtype)[6:]])

        def shape(m):
            s = matrix(m, False)
            return [s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.is_sparse, s.numel(), s.ndim,
                    str(s.layout)[6:], s.coalesce().is_coalesced(), s.coalesce()._nnz(), s.is_sparse_csr]
        self.same(shape)
        self.same(lambda m: [matrix(m, False)._indices().tolist(), matrix(m, False)._values().tolist()])

    def test_compressed(self):
        def made(m, name, *args, **more):
            return flat(getattr(m, "sparse_%s_tensor" % name)(*args, **more))
        for name, values in (("csr", [1.0, 2, 3]), ("csc", [1.0, 2, 3])):
            self.same(lambda m: made(m, name, [0, 1, 3], [2, 0, 1], m.tensor(values)))
        for name in ("bsr", "bsc"):
            self.same(lambda m: made(m, name, [0, 1, 2], [1, 0], m.arange(12.0).reshape(2, 2, 3), (4, 6)))
        self.same(lambda m: made(m, "compressed", [0, 1, 3], [2, 0, 1], [1.0, 2, 3], (2, 4), layout=m.sparse_csr))

    def test_layouts(self):
        for layout in ("sparse_coo", "sparse_csr", "sparse_csc"):
            self.same(lambda m: flat(matrix(m).to_dense().to_sparse(layout=getattr(m, layout))))
            self.same(lambda m: matrix(m).to_sparse(layout=getattr(m, layout)).to_dense().tolist())
            self.same(lambda m: flat(matrix(m).to_sparse_csr().to_sparse(layout=getattr(m, layout))))
        self.same(lambda m: flat(matrix(m).to_dense().to_sparse_bsr((3, 2))))
        self.same(lambda m: flat(matrix(m).to_dense().to_sparse_bsc((1, 2))))
        self.same(lambda m: matrix(m).to_dense().to_sparse_bsr((3, 2)).to_dense().tolist())
        self.same(lambda m: flat(dense(m, 2, 3, 2).to_sparse(2)))
        self.same(lambda m: flat(m.zeros(2, 3, layout=m.sparse_coo)))
        self.same(lambda m: flat(m.zeros_like(matrix(m))))
        self.same(lambda m: [m.ones(2).to_dense().tolist(), m.ones(2).layout == m.strided])

    def test_refused(self):
        for wrong in (lambda m: m.sparse_coo_tensor([[0, 5]], [1.0, 2], (2,), check_invariants=True),
                      lambda m: m.sparse_coo_tensor([[0, -1]], [1.0, 2], (2,), check_invariants=True),
                      lambda m: m.sparse_coo_tensor([[0, 1]], [1.0], (2,)),
                      lambda m: m.sparse_csr_tensor([0, 3, 1], [0, 1, 0], [1.0, 2, 3], (2, 2), check_invariants=True),
                      lambda m: matrix(m, False).indices(), lambda m: m.ones(2).values(),
                      lambda m: matrix(m).crow_indices(), lambda m: matrix(m).exp(), lambda m: matrix(m) + 1,
                      lambda m: matrix(m).numpy(), lambda m: matrix(m).tolist(), lambda m: matrix(m).view(4, 3),
                      lambda m: matrix(m) / matrix(m), lambda m: m.sparse.mm(matrix(m), dense(m, 3, 2))):
            self.fails(wrong)
        for name in ("spsolve", "to_sparse_semi_structured"):
            with self.assertRaises(NotImplementedError):
                getattr(cairn.sparse, name)(None)
        # an index out of range is an error also where nobody asked for checks
        with self.assertRaisesRegex(RuntimeError, "size is inconsistent with indices"):
            cairn.sparse_coo_tensor([[0, 5]], [1.0, 2], (2,))
        with self.assertRaisesRegex(NotImplementedError, "exp: is not implemented for sparse tensors"):
            matrix(cairn).exp()

    def fails(self, wrong):
        with self.assertRaises((RuntimeError, ValueError, TypeError, NotImplementedError, IndexError)):
            wrong(cairn)
        if torch:
            with self.assertRaises((RuntimeError, ValueError, TypeError, NotImplementedError, IndexError)):
                wrong(torch)

    def test_printed(self):
        for make in (matrix, lambda m: matrix(m, False).float(), lambda m: matrix(m).to_sparse_csr(),
                     lambda m: matrix(m).to_sparse_csc().float(), lambda m: matrix(m).requires_grad_(),
                     lambda m: m.sparse_coo_tensor((2, 3)), lambda m: matrix(m).float().to_dense().to_sparse(1),
                     lambda m: matrix(m).to_dense().to_sparse_bsr((1, 2)),
                     lambda m: m.arange(2000.0).to_sparse()):
            self.same(lambda m: repr(make(m)).replace(m.__name__ + ".", "M."))


class Arithmetic(Case):
    def both(self, program):
        for coalesced in (True, False):
            self.same(lambda m: flat(program(m, matrix(m, coalesced))))

    def test_elements(self):
        for name in ("neg", "abs", "sin", "relu", "sign", "floor", "expm1", "tanh", "atan", "isnan"):
            self.both(lambda m, s: getattr(m, name)(s))
        self.both(lambda m, s: s.abs().sqrt())
        self.both(lambda m, s: s.pow(2))
        self.both(lambda m, s: s ** 3)
        self.both(lambda m, s: s.float())

    def test_numbers_and_dense(self):
        self.both(lambda m, s: s * 2)
        self.both(lambda m, s: 2 * s)
        self.both(lambda m, s: s / 4)
        self.both(lambda m, s: s * dense(m, 3, 4))
        self.both(lambda m, s: s * dense(m, 4))
        self.both(lambda m, s: dense(m, 3, 4) + s)
        self.both(lambda m, s: dense(m, 3, 4).add(s, alpha=2))
        self.both(lambda m, s: dense(m, 3, 4).add_(s, alpha=-0.5))
        self.both(lambda m, s: m.sparse_coo_tensor([[0, 1]], [1.0, 2], (3,)) * m.tensor(2.0))

    def test_sparse_and_sparse(self):
        other = lambda m: m.sparse_coo_tensor([[0, 1, 2], [3, 2, 2]], m.tensor([10.0, 20, 30], dtype=m.float64), (3, 4))
        self.both(lambda m, s: s + other(m))
        self.both(lambda m, s: s - other(m))
        self.both(lambda m, s: (s * other(m).coalesce()).to_dense())  # torch keeps places of one, too
        self.both(lambda m, s: s.to_sparse_csr() + other(m).to_sparse_csr())
        self.both(lambda m, s: m.sparse.mm(s, other(m).t()))

    def test_in_place(self):
        def changed(m, s):
            kept = s.coalesce().clone()
            kept.mul_(2)
            return [flat(kept), flat(s.clone().zero_()), flat(s.clone().add_(kept)), flat(kept.neg_())]
        self.same(lambda m: changed(m, matrix(m)))
        self.same(lambda m: flat(matrix(m).copy_(matrix(m) * 2)))
        self.same(lambda m: flat(matrix(m).sparse_resize_((5, 4), 2, 0)))
        self.same(lambda m: flat(matrix(m).sparse_resize_and_clear_((2, 4, 2), 1, 2)))

    def test_shapes(self):
        for program in (lambda m, s: s.t(), lambda m, s: s.transpose(0, 1), lambda m, s: s.unsqueeze(1),
                        lambda m, s: s[1], lambda m, s: s[:, 1], lambda m, s: s.select(1, -1),
                        lambda m, s: s.narrow_copy(1, 1, 2),
                        lambda m, s: s.index_select(1, m.tensor([3, 0, 0])), lambda m, s: m.cat([s, s], 0),
                        lambda m, s: m.cat([s, s], 1), lambda m, s: m.stack([s, s]), lambda m, s: s.permute(1, 0),
                        lambda m, s: s.unsqueeze(0)[0]):
            self.both(program)
        self.same(lambda m: flat(matrix(m).to_sparse_csr().t()))
        hybrid = lambda m: dense(m, 3, 2, 2).to_sparse(1)
        self.near(hybrid(cairn).transpose(1, 2).to_dense(), dense(cairn, 3, 2, 2).transpose(1, 2))  # torch has none
        self.same(lambda m: flat(m.cat([hybrid(m), hybrid(m)], 2)))
        self.same(lambda m: flat(hybrid(m)[1]))

    def test_reduced(self):
        for program in (lambda m, s: s.sum(), lambda m, s: m.sparse.sum(s), lambda m, s: m.sparse.sum(s, 0),
                        lambda m, s: m.sparse.sum(s, (0, 1)), lambda m, s: m.sparse.sum(s, 1, dtype=m.float32),
                        lambda m, s: s.norm(), lambda m, s: m.sparse.softmax(s, 1),
                        lambda m, s: m.sparse.log_softmax(s, 0)):
            self.both(program)
        self.same(lambda m: flat(m.sparse.softmax(dense(m, 3, 2, 2).to_sparse(1), 2)))

    def test_masked(self):
        self.same(lambda m: flat(dense(m, 3, 4).sparse_mask(matrix(m))))
        self.same(lambda m: flat((matrix(m) * 2).sparse_mask(m.eye(3, 4, dtype=m.float64).to_sparse())))
        self.same(lambda m: flat(m.sparse.spdiags(dense(m, 2, 3), m.tensor([0, -1]), (3, 3))))


class Products(Case):
    def test_values(self):
        for layout in ("sparse_coo", "sparse_csr", "sparse_csc"):
            for program in (lambda m, s: s @ dense(m, 4, 3), lambda m, s: m.sparse.mm(s, dense(m, 4, 1)),
                            lambda m, s: s @ dense(m, 4), lambda m, s: s.mv(dense(m, 4)),
                            lambda m, s: m.addmm(dense(m, 3, 2), s, dense(m, 4, 2), beta=0.5, alpha=2)):
                self.same(lambda m: flat(program(m, matrix(m).to_sparse(layout=getattr(m, layout)))))
        self.same(lambda m: (matrix(m, False) @ dense(m, 4, 5)).tolist())
        self.same(lambda m: m.sparse.addmm(dense(m, 3, 2), matrix(m), dense(m, 4, 2)).tolist())
        self.same(lambda m: m.bmm(m.stack([matrix(m), matrix(m) * 2]), dense(m, 2, 4, 3)).tolist())
        self.same(lambda m: flat(m.sparse.sampled_addmm(matrix(m).to_sparse_csr(), dense(m, 3, 2), dense(m, 2, 4),
                                                        beta=0.5, alpha=2)))
        self.same(lambda m: flat(m.hspmm(matrix(m), dense(m, 4, 2))))
        self.same(lambda m: flat(m.smm(matrix(m), dense(m, 4, 2))))
        for how in ("sum", "mean", "amax", "amin"):
            self.same(lambda m: m.sparse.mm(matrix(m).to_sparse_csr(), dense(m, 4, 3), how).tolist())

    def test_every_thread_count(self):
        """One result, whatever the number of threads."""
        cairn.manual_seed(0)
        places = cairn.randint(0, 500, (2, 20000))
        s = cairn.sparse_coo_tensor(places, cairn.randn(20000), (500, 500))
        x, before, found = cairn.randn(500, 33), cairn.get_num_threads(), []
        try:
            for threads in (1, 2, 3):
                cairn.set_num_threads(threads)
                found.append([(s @ x), (s.to_sparse_csr() @ x), s.coalesce().values()])
        finally:
            cairn.set_num_threads(before)
        for other in found[1:]:
            for a, b in zip(found[0], other):
                self.assertTrue(cairn.equal(a, b))

    def test_gradients(self):
        def slopes(m, program, layout="sparse_coo", coalesced=True):
            s = matrix(m, coalesced).to_sparse(layout=getattr(m, layout)).detach().requires_grad_()
            x = dense(m, 4, 3).requires_grad_()
            y = program(m, s, x)
            (y if y.layout == m.strided else y.to_dense()).sin().sum().backward()
            return [at_places(m, s.grad), None if x.grad is None else x.grad.tolist()]
        for program in (lambda m, s, x: m.sparse.mm(s, x), lambda m, s, x: s @ x, lambda m, s, x: s.to_dense() @ x,
                        lambda m, s, x: (s * 3) @ x, lambda m, s, x: (s * s) @ x,
                        lambda m, s, x: m.sparse.softmax(s, 1), lambda m, s, x: m.sparse.sum(s, 0)):
            self.same(lambda m: slopes(m, program))
        self.same(lambda m: slopes(m, lambda m, s, x: s @ x, "sparse_csr"))
        self.same(lambda m: slopes(m, lambda m, s, x: m.sparse.mm(s, x), coalesced=False))

    def test_values_of(self):
        """Gradients reach the values that a tensor was made of."""
        def slopes(m):
            v = m.tensor([1.0, 2, 3, 4], requires_grad=True)
            s = m.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], v, (2, 3))
            (s.coalesce().values() ** 2).sum().backward()
            return v.grad.tolist()
        self.same(slopes)

        def leaf(m):
            s = matrix(m).requires_grad_()
            y = s @ dense(m, 4, 2)
            return [s.is_leaf, s.requires_grad, y.requires_grad, y.is_leaf, s.detach().requires_grad,
                    [at_places(m, g) for g in m.autograd.grad(y.sum(), [s])]]
        self.same(leaf)

    def test_checked(self):
        """Second derivatives, by finite differences."""
        check = cairn.sparse.as_sparse_gradcheck(cairn.autograd.gradcheck)
        s, x = matrix(cairn).requires_grad_(), dense(cairn, 4, 2).requires_grad_()
        for program in (lambda s, x: cairn.sparse.mm(s, x), lambda s, x: s.coalesce() * 2,
                        lambda s, x: cairn.sparse.softmax(s, 0), lambda s, x: (s * s) @ x):
            self.assertTrue(check(program, (s, x)))
        places = matrix(cairn).indices()
        product = lambda v, x: cairn.sparse_coo_tensor(places, v, (3, 4)) @ x
        self.assertTrue(cairn.autograd.gradgradcheck(product, (s.detach().values().requires_grad_(), x)))


class Rows(Case):
    """Gradients that hold the rows of a table that were used."""

    def test_embedding(self):
        def slopes(m, **more):
            w = dense(m, 6, 2).requires_grad_()
            y = m.nn.functional.embedding(m.tensor([[1, 3], [3, 0]]), w, sparse=True, **more)
            y.sin().sum().backward()
            first = [w.grad.is_sparse, w.grad.is_coalesced(), flat(w.grad)]
            m.nn.functional.embedding(m.tensor([5]), w, sparse=True).sum().backward()
            second = flat(w.grad)
            (w * 2).sum().backward()
            return [*first, second, w.grad.to_dense().tolist()]
        self.same(slopes)
        self.same(lambda m: slopes(m, padding_idx=3))

        def bags(m, mode, **more):
            w = dense(m, 6, 2).requires_grad_()
            y = m.nn.functional.embedding_bag(m.tensor([1, 3, 3, 0]), w, m.tensor([0, 1, 1]), mode=mode, sparse=True,
                                              **more)
            y.sin().sum().backward()
            return flat(w.grad)
        self.same(lambda m: bags(m, "sum"))
        self.same(lambda m: bags(m, "mean"))
        self.same(lambda m: bags(m, "sum", per_sample_weights=dense(m, 4)))
        with self.assertRaisesRegex(ValueError, "max"):
            bags(cairn, "max")

    def train(self, m, name, **options):
        net = m.nn.Embedding(6, 2, sparse=True, dtype=m.float64)
        with m.no_grad():
            net.weight.copy_(dense(m, 6, 2))
        opt = getattr(m.optim, name)(net.parameters(), **options)
        for step in range(4):
            opt.zero_grad()
            (net(m.tensor([1, 3, 3, step])) ** 2).sum().backward()
            opt.step()
        return net.weight.tolist()

    def test_optimisers(self):
        for name, options in (("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"maximize": True, "betas": (0.8, 0.9)}),
                              ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
                              ("Adagrad", {"lr": 0.1}),
                              ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5})):
            with self.subTest(optimiser=name, **options):
                self.same(lambda m: self.train(m, name, **options))
        for name in ("Adam", "AdamW", "RMSprop"):
            with self.assertRaisesRegex(NotImplementedError, "sparse gradients"):
                self.train(cairn, name)
        with self.assertRaisesRegex(ValueError, "weight_decay option is not compatible with sparse gradients"):
            self.train(cairn, "Adagrad", weight_decay=0.1)

    def test_clipped(self):
        def clip(m):
            w = dense(m, 6, 2).requires_grad_()
            m.nn.functional.embedding(m.tensor([1, 3, 3]), w, sparse=True).sum().backward()
            norm = m.nn.utils.clip_grad_norm_([w], 1.0)
            return [norm.item(), flat(w.grad)]
        self.same(clip)

    def test_hooks_and_grad(self):
        seen = []
        w = dense(cairn, 6, 2).requires_grad_()
        w.register_hook(lambda g: seen.append(g.is_sparse))
        y = cairn.nn.functional.embedding(cairn.tensor([1, 1]), w, sparse=True).sum()
        self.assertTrue(cairn.autograd.grad(y, w, retain_graph=True)[0].is_sparse)
        y.backward()
        self.assertEqual(seen, [True, True])
        # on its way through another op it is dense
        v = dense(cairn, 6, 2).requires_grad_()
        cairn.nn.functional.embedding(cairn.tensor([1, 1]), v * 3, sparse=True).sum().backward()
        self.assertEqual(v.grad.tolist(), [[0, 0], [6, 6], [0, 0], [0, 0], [0, 0], [0, 0]])

    def test_compiled(self):
        """In programs gradients are dense."""
        net = cairn.nn.Embedding(6, 2, sparse=True)
        step = cairn.compile(lambda ids: net(ids).sin().sum())
        step(cairn.tensor([1, 3])).backward()
        want = net.weight.detach().cos() * cairn.tensor([0.0, 1, 0, 1, 0, 0]).reshape(6, 1)
        self.assertTrue(cairn.allclose(net.weight.grad.to_dense(), want))


class Files(Case):
    def test_pickled(self):
        for s in (matrix(cairn), matrix(cairn, False), matrix(cairn).to_sparse_csr(), matrix(cairn).to_sparse_csc(),
                  matrix(cairn).to_dense().to_sparse_bsr((1, 2)), matrix(cairn).requires_grad_()):
            for other in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s), self.saved(s)):
                self.assertEqual((other.layout, flat(other.detach())), (s.layout, flat(s.detach())))
        self.assertTrue(pickle.loads(pickle.dumps(matrix(cairn).requires_grad_())).requires_grad)

    @staticmethod
    def saved(s):
        file = io.BytesIO()
        cairn.save({"s": s.detach()}, file)
        file.seek(0)
        return cairn.load(file)["s"]

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_torch_files(self):
        for make in (matrix, lambda m: matrix(m, False), lambda m: matrix(m).to_sparse_csr(),
                     lambda m: matrix(m).to_dense().to_sparse_bsc((1, 2))):
            there, back = io.BytesIO(), io.BytesIO()
            torch.save({"s": make(torch)}, there)
            there.seek(0)
            self.assertEqual(flat(cairn.load(there)["s"]), flat(make(torch)))
            cairn.save({"s": make(cairn)}, back)
            back.seek(0)
            self.assertEqual(flat(torch.load(back)["s"]), flat(make(torch)))


if __name__ == "__main__":
    unittest.main()
