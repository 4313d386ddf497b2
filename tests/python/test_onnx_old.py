"""cairn.onnx: operators as they were before opset 7, and those that ONNX has given up since: broadcasting by an axis,
settings that became inputs, types by name."""

import unittest

import cairn
from onnx_node import run

X = cairn.arange(24, dtype=cairn.float32).reshape(2, 3, 4)
ROW = cairn.tensor([1.0, 2.0, 3.0])


class Old(unittest.TestCase):
    def same(self, want, op, inputs, opset=1, near=False, outputs=1, **attrs):
        made = run(op, inputs, outputs, opset=opset, **attrs)[0]
        self.assertEqual(made.dtype, want.dtype)
        self.assertTrue(cairn.allclose(made, want, atol=2e-6) if near else cairn.equal(made, want), (op, made, want))

    def test_broadcasting_by_an_axis(self):
        self.same(X + ROW[:, None], "Add", [X, ROW], broadcast=1, axis=1)
        self.same(X * ROW[:, None], "Mul", [X, ROW], opset=6, broadcast=1, axis=-2)
        self.same(X + ROW[2], "Add", [X, ROW[2]], opset=6, broadcast=1)
        self.same(X > X[1], "Greater", [X, X[1]], broadcast=1)
        self.same(cairn.where(X - 9 < 0, (X - 9) * ROW[:, None], X - 9), "PRelu", [X - 9, ROW])
        self.same(X[0] @ X[0].T + ROW, "Gemm", [X[0], X[0].T.contiguous(), ROW], opset=6, broadcast=1)

    def test_settings_that_became_inputs(self):
        self.same(X.reshape(2, 12), "Reshape", [X], shape=[0, -1])
        self.same(X[:, 1:, 2:3], "Slice", [X], starts=[1, -2], ends=[9, -1], axes=[1, 2])
        self.same(cairn.nn.functional.pad(X, (0, 2, 1, 0)), "Pad", [X], paddings=[0, 1, 0, 0, 0, 2])
        self.same(X.clamp(2, 5), "Clip", [X], min=2.0, max=5.0)
        self.same(X.tile(1, 2, 1), "Tile", [X, cairn.tensor(2.0), cairn.tensor(1.0)])
        self.same(X[:, :, :1], "Split", [X], outputs=2, axis=2, split=[1, 3])
        self.same(X[:, :, :1], "Split", [X, cairn.tensor([1.0, 3.0])], outputs=2, axis=2)
        self.same(X.flip(1)[:, :2], "TopK", [X], axis=1, k=2)
        self.same(cairn.cat([X, X], 1), "Concat", [X, X])
        self.same(X[None].repeat_interleave(2, 2), "Upsample", [X[None]], height_scale=2.0, width_scale=1.0)
        self.same(X.to(cairn.int32), "Cast", [X], to="INT32")
        self.same((X**2).sum(2, keepdim=True).sqrt(), "GlobalLpPool", [X], near=True, p=2.0)

    def test_norms(self):
        mean, var = X.mean(2, keepdim=True), X.var(2, keepdim=True, correction=0)
        scale, shift = cairn.full([3], 2.0), cairn.zeros(3)
        self.same((X - mean) / (var + 1e-5).sqrt() * 2, "InstanceNormalization", [X, scale, shift], near=True)
        each = [cairn.full([3, 4], k) for k in (2.0, 1.0, 3.0, 4.0)]
        self.same(
            (X - 3) / 4.00001**0.5 * 2 + 1, "BatchNormalization", [X, *each], opset=6, near=True, spatial=0, is_test=1
        )
        groups = [cairn.tensor([2.0]), cairn.tensor([1.0])]
        m, v = X.mean((1, 2), keepdim=True), X.var((1, 2), keepdim=True, correction=0)
        self.same(
            (X - m) / (v + 1e-5).sqrt() * 2 + 1, "GroupNormalization", [X, *groups], opset=18, near=True, num_groups=1
        )
        self.same(cairn.zeros(2, 3, 1), "InstanceNormalization", [X[:, :, :1], scale, shift], opset=22)

    def test_given_up(self):
        self.same(X * 2 + 1, "Affine", [X], alpha=2.0, beta=1.0)
        self.same(X * 3, "Scale", [X], scale=3.0)
        self.same((X * 0.5).tanh() * 2, "ScaledTanh", [X], near=True, alpha=2.0, beta=0.5)
        self.same(
            cairn.nn.functional.softplus(X * 0.5) * 2, "ParametricSoftplus", [X], near=True, alpha=2.0, beta=0.5
        )
        self.same(
            X[:1, :, None] * 2 + ROW[:, None, None], "ImageScaler", [X[:1, :, None]], scale=2.0, bias=[1.0, 2.0, 3.0]
        )
        self.same(X[None][:, :, 1:, :2], "Crop", [X[None]], border=[0, 1, 2, 0])


if __name__ == "__main__":
    unittest.main()
