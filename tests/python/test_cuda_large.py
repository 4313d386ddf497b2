"""Tensors of more than 2^31 elements on a CUDA device: positions that need 33 bits are read and written."""
import unittest

import cairn

EDGE = 2**31
MORE = EDGE + 4099                                # elements; odd, so that the last pack is not full
PLACES = (0, 1, EDGE - 1, EDGE, EDGE + 1, MORE - 1)
NEEDED = 100 << 30                                # bytes: a sort's positions have 64 bits, and it keeps two of each


def enough_memory():
    return cairn.cuda.is_available() and cairn.cuda.mem_get_info()[1] >= NEEDED


@unittest.skipUnless(cairn.cuda.is_available(), "no CUDA device")
@unittest.skipUnless(enough_memory(), "too little device memory")
class TestLarge(unittest.TestCase):
    def setUp(self):
        """Zeros, but for a few places, each with a number of its own."""
        self.x = cairn.zeros(MORE, dtype=cairn.uint8, device="cuda")
        for i, place in enumerate(PLACES):
            self.x[place:place + 1].fill_(i + 1)

    def tearDown(self):
        del self.x
        cairn.cuda.empty_cache()

    def check(self, y, of=lambda x: x):
        """y has of(x) at the places, and of(0) next to them and in the middle."""
        for i, place in enumerate(PLACES):
            self.assertEqual(y[place].item(), of(i + 1), place)
        for place in (2, EDGE // 2, EDGE - 2, EDGE + 2, MORE - 2):
            self.assertEqual(y[place].item(), of(0), place)

    def test_copy(self):
        y = self.x.clone()
        self.check(y)
        self.assertEqual((y != self.x).sum().item(), 0)
        self.check(self.x.to(cairn.int16))

    def test_transposed_copy(self):
        half = self.x[1:].reshape(2, -1)
        y = half.t().contiguous()
        self.assertEqual(tuple(y.shape), (EDGE // 2 + 2049, 2))
        self.assertTrue((y.t() == half).all().item())
        self.assertEqual((y[0, 0].item(), y[-1, 1].item()), (2, len(PLACES)))

    def test_add(self):
        y = self.x + 7
        self.check(y, lambda x: x + 7)
        self.assertEqual(y.sum(dtype=cairn.int64).item(), 7 * MORE + sum(range(len(PLACES) + 1)))

    def test_sum(self):
        y = cairn.ones(MORE, dtype=cairn.float32, device="cuda")
        self.assertEqual(y.sum(dtype=cairn.float64).item(), MORE)
        self.assertEqual(self.x.argmax().item(), MORE - 1)
        rows = y[:2 * (MORE // 2)].reshape(2, -1).sum(dim=1, dtype=cairn.float64)
        self.assertEqual(rows.tolist(), [MORE // 2] * 2)

    def test_softmax(self):
        y = cairn.randn(EDGE // 65536 + 3, 65536, dtype=cairn.bfloat16, device="cuda")
        z = y.softmax(1)
        sums = z.sum(dim=1, dtype=cairn.float32)
        self.assertLess((sums - 1).abs().max().item(), 1e-2)
        for row in (0, EDGE // 65536 - 1, EDGE // 65536, len(y) - 1):
            self.assertLess((z[row] - y[row].softmax(0)).abs().max().item(), 1e-5, row)

    def test_index_select(self):
        y = self.x[:MORE // 64 * 64].reshape(-1, 64)
        rows = cairn.tensor([len(y) - 1, 0, EDGE // 64, EDGE // 64 - 1], device="cuda")
        z = y.index_select(0, rows)
        self.assertEqual(z[1, :2].tolist(), [1, 2])
        self.assertEqual(z[2, :2].tolist(), [4, 5])
        self.assertEqual(z[3, 63].item(), 3)
        backwards = cairn.arange(len(y), device="cuda").flip(0)
        self.assertEqual(y.index_select(0, backwards)[-1, :2].tolist(), [1, 2])

    def test_sort(self):
        y = cairn.randint(0, 200, (MORE,), device="cuda", dtype=cairn.uint8)
        counts = [(y == value).sum().item() for value in (0, 100, 199)]
        values, order = y.sort()
        self.assertTrue((values[1:] >= values[:-1]).all().item())
        self.assertEqual([(values == value).sum().item() for value in (0, 100, 199)], counts)
        for place in PLACES:
            self.assertEqual(y[order[place].item()].item(), values[place].item(), place)
        self.assertEqual(order.sum().item(), MORE * (MORE - 1) // 2)


if __name__ == "__main__":
    unittest.main()
