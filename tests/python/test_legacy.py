"""Older names that torch's programs still use: FloatTensor and its kin, Variable, storages, apply_, resize_as_, names
without an underscore; and hooks after gradients were added up."""
import copy
import unittest
import warnings

import cairn
from cairn import nn
from cairn.autograd import Variable


class TensorTypes(unittest.TestCase):
    def test_made_of_sizes_and_data(self):
        self.assertEqual(cairn.FloatTensor(2, 3).shape, (2, 3))
        self.assertEqual(cairn.FloatTensor(cairn.Size([2, 3])).shape, (2, 3))
        self.assertEqual(cairn.Tensor(cairn.Size([2, 3])).shape, (2, 3))
        self.assertEqual(cairn.LongTensor([1, 2]).tolist(), [1, 2])
        self.assertEqual(cairn.LongTensor(range(3)).tolist(), [0, 1, 2])
        self.assertEqual(cairn.FloatTensor().shape, (0,))
        kinds = {"FloatTensor": cairn.float32, "DoubleTensor": cairn.float64, "HalfTensor": cairn.float16,
                 "BFloat16Tensor": cairn.bfloat16, "LongTensor": cairn.int64, "IntTensor": cairn.int32,
                 "ShortTensor": cairn.int16, "CharTensor": cairn.int8, "ByteTensor": cairn.uint8,
                 "BoolTensor": cairn.bool}
        for name, dtype in kinds.items():
            made = getattr(cairn, name)([1, 0])
            self.assertIs(made.dtype, dtype)
            self.assertIs(type(made), cairn.Tensor)
            self.assertEqual(made.type(), "cairn." + name)

    def test_instances(self):
        x = cairn.ones(2)
        self.assertIsInstance(x, cairn.FloatTensor)
        self.assertNotIsInstance(x, cairn.LongTensor)
        self.assertNotIsInstance(x, cairn.cuda.FloatTensor)
        self.assertNotIsInstance(3.0, cairn.FloatTensor)
        self.assertRaises(TypeError, cairn.LongTensor, x)

    def test_type(self):
        x = cairn.tensor([1.5])
        self.assertEqual(x.type(cairn.LongTensor).tolist(), [1])
        self.assertIs(x.type("torch.DoubleTensor").dtype, cairn.float64)
        self.assertIs(x.type(cairn.int32).dtype, cairn.int32)
        self.assertRaises(ValueError, x.type, "NoTensor")
        self.assertRaises(TypeError, x.type, str)

    def test_default_type(self):
        try:
            cairn.set_default_tensor_type(cairn.DoubleTensor)
            self.assertIs(cairn.ones(1).dtype, cairn.float64)
            cairn.set_default_tensor_type("torch.FloatTensor")
            self.assertIs(cairn.ones(1).dtype, cairn.float32)
            self.assertRaises(TypeError, cairn.set_default_tensor_type, cairn.LongTensor)
        finally:
            cairn.set_default_dtype(cairn.float32)

    def test_new(self):
        x = cairn.ones(2, dtype=cairn.float64)
        self.assertEqual(x.new(2, 1).shape, (2, 1))
        self.assertEqual(x.new([1, 2]).tolist(), [1.0, 2.0])
        self.assertIs(x.new([1]).dtype, cairn.float64)
        self.assertEqual(x.new().numel(), 0)


class OldMethods(unittest.TestCase):
    def test_variable(self):
        x = Variable(cairn.ones(2), requires_grad=True)
        (x * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 3])
        self.assertIsInstance(x, Variable)
        self.assertFalse(Variable(cairn.ones(1), volatile=True).requires_grad)
        self.assertRaises(TypeError, Variable, [1.0])

    def test_element_by_element(self):
        x = cairn.zeros(2, 2)
        self.assertIs(x.apply_(lambda v: v + 2), x)
        x.map_(cairn.arange(4.0).view(2, 2), lambda a, b: a * 10 + b)
        self.assertEqual(x.tolist(), [[20, 21], [22, 23]])
        self.assertRaises(RuntimeError, cairn.ones(1, requires_grad=True).apply_, abs)

    def test_shapes(self):
        x = cairn.arange(4.0)
        self.assertEqual(x.resize_as_(cairn.ones(2, 2)).tolist(), [[0, 1], [2, 3]])
        self.assertEqual(x.narrow_copy(0, 0, 1).tolist(), [[0, 1]])
        self.assertEqual([t.tolist() for t in cairn.unsafe_chunk(cairn.arange(4), 2)], [[0, 1], [2, 3]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(cairn.range(1, 2, 0.5).tolist(), [1.0, 1.5, 2.0])

    def test_storage(self):
        x = cairn.arange(6.0)
        part = x[2:]
        self.assertEqual(len(part.storage()), 6)
        self.assertEqual(part.untyped_storage().nbytes(), 24)
        self.assertEqual(part.storage().data_ptr(), x.data_ptr())
        part.storage()[0] = 7.0
        self.assertEqual(x[0].item(), 7.0)
        part.untyped_storage().fill_(0)
        self.assertEqual(x.sum().item(), 0.0)
        y = cairn.ones(1)
        y.set_(x.storage(), 2, (2, 2))
        self.assertEqual(y.shape, (2, 2))
        y.fill_(5)
        self.assertEqual(x.tolist(), [0, 0, 5, 5, 5, 5])

    def test_real_numbers(self):
        x = cairn.arange(4.0).view(2, 2)
        self.assertIs(cairn.conj(x), x)
        self.assertEqual(cairn.adjoint(x).tolist(), x.T.tolist())
        self.assertRaises(TypeError, cairn.imag, x)
        self.assertFalse(x.is_conj() or cairn.is_complex(x))
        self.assertTrue(cairn.tensor([2]).is_nonzero())

    def test_functions_in_place(self):
        x = cairn.tensor([-1.0, 4.0])
        self.assertIs(cairn.relu_(x), x)
        cairn.sqrt_(x)
        cairn.clamp_(x, max=1.5)
        self.assertEqual(x.tolist(), [0.0, 1.5])
        self.assertEqual(cairn.zero_(x).tolist(), [0.0, 0.0])

    def test_binomial(self):
        cairn.manual_seed(0)
        drawn = cairn.binomial(cairn.full((2000,), 10.0), cairn.tensor(0.3))
        self.assertTrue(bool(((drawn >= 0) & (drawn <= 10)).all()))
        self.assertAlmostEqual(drawn.mean().item(), 3.0, delta=0.2)
        self.assertEqual(cairn.binomial(cairn.tensor([4.0, 4.0]), cairn.tensor([0.0, 1.0])).tolist(), [0, 4])

    def test_low_rank(self):
        cairn.manual_seed(0)
        a = cairn.randn(30, 3) @ cairn.randn(3, 8)
        u, s, v = cairn.svd_lowrank(a, 3)
        self.assertTrue(cairn.allclose(u @ cairn.diag(s) @ v.mT, a, atol=1e-5))
        self.assertTrue(cairn.allclose(cairn.pca_lowrank(a, 3)[1], cairn.linalg.svdvals(a - a.mean(0))[:3], atol=1e-5))


class AfterGradients(unittest.TestCase):
    def test_called_with_the_leaf(self):
        x = cairn.ones(2, requires_grad=True)
        seen = []
        handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
        (x * 2).sum().backward()
        (x * 3).sum().backward()
        handle.remove()
        x.sum().backward()
        self.assertEqual(seen, [(True, [2, 2]), (True, [5, 5])])
        self.assertRaises(RuntimeError, (x * 2).register_post_accumulate_grad_hook, print)
        self.assertRaises(RuntimeError, cairn.ones(1).register_post_accumulate_grad_hook, print)

    def test_steps_inside_backward(self):
        """The optimiser's step in the hook: as if taken after backward, and no gradients stay."""
        cairn.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        other = copy.deepcopy(net)
        usual = cairn.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
        each = {p: cairn.optim.SGD([p], lr=0.1, momentum=0.9) for p in net.parameters()}

        def step(p):
            each[p].step()
            each[p].zero_grad()

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(step)
        x = cairn.randn(5, 3)
        for _ in range(3):
            net(x).pow(2).mean().backward()
            usual.zero_grad()
            other(x).pow(2).mean().backward()
            usual.step()
        self.assertTrue(all(p.grad is None for p in net.parameters()))
        for p, q in zip(net.parameters(), other.parameters()):
            self.assertTrue(cairn.equal(p, q))

    def test_failure_is_raised(self):
        x = cairn.ones(1, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda t: 1 // 0)
        self.assertRaises(ZeroDivisionError, (x * 2).backward)


class Names(unittest.TestCase):
    def test_nodes_have_the_names_of_losses(self):
        x, y = cairn.ones(2, 3, requires_grad=True), cairn.tensor([0, 1])
        f = nn.functional
        for loss, name in ((f.mse_loss(x, x.detach()), "MseLoss"), (f.cross_entropy(x, y), "NllLoss"),
                           (nn.MSELoss()(x, x.detach()), "MseLoss"), (nn.CrossEntropyLoss()(x, y), "NllLoss"),
                           (f.binary_cross_entropy_with_logits(x, cairn.ones(2, 3)), "BinaryCrossEntropyWithLogits"),
                           (x / 2, "Div"), (cairn.stack([x, x]), "Stack")):
            self.assertEqual(loss.grad_fn.name(), name + "Backward0")
            self.assertIn("grad_fn=<%sBackward0>" % name, repr(loss))
        self.assertIn("SumBackward1", repr(x.sum(0)))
        self.assertIn("SumBackward0", repr(x.sum()))

    def test_init_without_underscore(self):
        w = cairn.empty(2, 2)
        with self.assertWarns(FutureWarning):
            nn.init.constant(w, 3)
        self.assertEqual(w.tolist(), [[3, 3], [3, 3]])


if __name__ == "__main__":
    unittest.main()
