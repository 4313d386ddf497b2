"""Functions beyond the lists of ops: what PyTorch's own documentation shows, against torch where it is there."""
import unittest

import cairn
import cairn.nn.functional as F

try:
    import torch
except ImportError:
    torch = None


class TestDocumented(unittest.TestCase):
    def test_layout(self):
        x = cairn.empty_strided((2, 3), (1, 2))
        self.assertEqual((x.shape, x.stride()), ((2, 3), (1, 2)))
        self.assertEqual(cairn.empty_permuted((2, 3, 5), (0, 2, 1)).stride(), (15, 1, 3))
        self.assertEqual(x.new_empty_strided((2, 2), (2, 1), dtype=cairn.int64).dtype, cairn.int64)
        self.assertEqual(cairn.zeros(2, 3, 4).permute(2, 0, 1).dim_order(), (1, 2, 0))
        self.assertEqual(cairn.arange(10)[3:][2:].storage_offset(), 5)

    def test_notebooks(self):
        text = cairn.arange(200.0).view(20, 10)._repr_html_()
        self.assertEqual((text.count("<tr>"), text.count("<td")), (7, 49))
        for part in (">0<", ">199<", "(20, 10), cairn.float32, cpu"):
            self.assertIn(part, text)
        self.assertIn("requires a gradient", cairn.ones(2, requires_grad=True)._repr_html_())
        for shape in ((), (0,), (2, 3, 4), (0, 3)):
            self.assertIn("<pre>tensor(", cairn.zeros(shape)._repr_html_())

    def test_pinned_memory(self):
        x = cairn.ones(3)
        self.assertFalse(x.is_pinned())
        self.assertEqual(x.pin_memory().tolist(), [1, 1, 1])
        self.assertIs(x.pin_memory("cpu"), x)

    def test_places(self):
        x = cairn.tensor([[0, 1], [2, 0]])
        self.assertEqual(cairn.nonzero_static(x, size=3, fill_value=9).tolist(), [[0, 1], [1, 0], [9, 9]])
        tall = cairn.zeros(5, 2)
        tall.fill_diagonal_(1)
        self.assertEqual(tall.tolist(), [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
        self.assertEqual(cairn.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist(),
                         [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]])

    def test_values(self):
        x = cairn.tensor([-1.0, 0.0, 2.0, float("nan")])
        self.assertEqual(cairn.angle(x)[:3].tolist(), cairn.tensor([3.14159265358979, 0, 0]).tolist())
        self.assertTrue(cairn.isreal(x).all())
        self.assertTrue(cairn.equal(cairn.tensor([1, 2]), cairn.tensor([1.0, 2.0])))
        a, b, c = cairn.ones(2, 3), cairn.ones(3, 4), cairn.ones(4, 5)
        self.assertEqual(cairn.chain_matmul(a, b, c).tolist(), [[12.0] * 5] * 2)

    def test_draws(self):
        cairn.manual_seed(3)
        for rate in (0.5, 4.0, 200.0):
            x = cairn.poisson(cairn.full((20000,), rate))
            self.assertTrue((x == x.round()).all() and (x >= 0).all())
            self.assertLess(abs(x.mean().item() - rate), 5 * (rate / 20000) ** 0.5)
            self.assertLess(abs(x.var().item() / rate - 1), 0.06)
        logits = cairn.tensor([0.0, 1.0, 2.0]).expand(30000, 3).clone().requires_grad_()
        hard = F.gumbel_softmax(logits, hard=True)
        self.assertEqual(hard.sum(1).unique().tolist(), [1.0])
        for got, wanted in zip(hard.mean(0).tolist(), cairn.softmax(cairn.tensor([0.0, 1.0, 2.0]), 0).tolist()):
            self.assertAlmostEqual(got, wanted, delta=0.015)
        hard[:, 0].sum().backward()
        self.assertGreater(logits.grad.abs().sum().item(), 0)

    def test_fractional_pools(self):
        x = cairn.rand(2, 3, 12, 10)
        self.assertEqual(F.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.5)).shape, (2, 3, 6, 5))
        y, index = F.fractional_max_pool2d(x, 2, output_size=(5, 4), return_indices=True)
        self.assertEqual(x.flatten(2).gather(2, index.flatten(2)).tolist(), y.flatten(2).tolist())
        self.assertRaises(ValueError, F.fractional_max_pool2d, x, 3)
        self.assertEqual(F.fractional_max_pool3d(cairn.rand(1, 2, 6, 6, 6), 2, output_size=3).shape, (1, 2, 3, 3, 3))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_fractional_pools_against_torch(self):
        samples = torch.rand(2, 3, 2)
        x = torch.randn(2, 3, 13, 9, requires_grad=True)
        mine = cairn.from_dlpack(x.detach().clone()).requires_grad_()
        theirs = torch.nn.functional.fractional_max_pool2d(x, (2, 3), (6, 4), None, True, samples)
        got = F.fractional_max_pool2d(mine, (2, 3), (6, 4), None, True, cairn.from_dlpack(samples))
        theirs[0].square().sum().backward()
        got[0].square().sum().backward()
        for a, b in ((theirs[0], got[0]), (theirs[1], got[1]), (x.grad, mine.grad)):
            self.assertEqual(a.tolist(), b.tolist())


if __name__ == "__main__":
    unittest.main()
