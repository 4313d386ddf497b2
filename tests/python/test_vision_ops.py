"""cairn.ops beside torchvision.ops: overlaps of boxes and their losses, regions of feature maps, convolutions at moved
points, and the layers around them; results and gradients. Where torchvision is not installed its results are read."""
import unittest
from collections import OrderedDict

import cairn
import cairn.ops
import cairn.ops.feature_pyramid_network  # noqa: F401
from cases import Case, torch

if torch:
    import torchvision.ops


def ops(m):
    return cairn.ops if m is cairn else torchvision.ops


def wave(m, *shape, step=0.7, grad=False):
    """Numbers between -1 and 1 that look like noise, the same in both libraries."""
    n = 1
    for s in shape:
        n *= s
    x = m.sin(m.arange(0, n, dtype=m.float64) * step * (1 + m.arange(0, n, dtype=m.float64) / 97)).float()
    return x.reshape(shape).requires_grad_(grad)


def boxes(m, n, step=0.9, grad=False):
    """Some reach out of an image of 60 x 40, and one is small."""
    corner = (wave(m, n, 2, step=step) + 0.7) * m.tensor([25.0, 18.0])
    size = (wave(m, n, 2, step=step * 1.3) + 1.05) * m.tensor([14.0, 11.0])
    return m.cat((corner, corner + size), 1).requires_grad_(grad)


def regions(m):
    return m.cat((m.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]), boxes(m, 6)), 1)


def with_gradients(m, f, *inputs):
    """The result, and what its sum, weighted, gives each input that wants a gradient: of many numbers every 17th."""
    made = f(*inputs)
    (made * wave(m, *made.shape, step=0.3)).sum().backward()
    return [list(made.shape), made.reshape(-1),
            *[x.grad.reshape(-1)[::1 if x.numel() < 500 else 17] for x in inputs if x.grad is not None]]


class Boxes(Case):
    def test_overlaps(self):
        for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
            self.same(lambda m, name=name: with_gradients(m, getattr(ops(m), name), boxes(m, 5, grad=True),
                                                          boxes(m, 7, 1.7, grad=True)))
        self.same(lambda m: ops(m).box_iou(boxes(m, 3), boxes(m, 4, 1.1), "cxcywh"))

    def test_losses(self):
        for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
            for how in ("none", "mean", "sum"):
                self.same(lambda m, name=name, how=how: with_gradients(
                    m, lambda a, b: getattr(ops(m), name)(a, b, how), boxes(m, 6, grad=True),
                    boxes(m, 6, 1.7, grad=True)))
            self.same(lambda m, name=name: getattr(ops(m), name)(m.zeros(0, 4), m.zeros(0, 4), "mean"))
            self.fails(lambda m, name=name: getattr(ops(m), name)(boxes(m, 2), boxes(m, 2), "most"), ValueError)

    def test_masks(self):
        self.same(lambda m: ops(m).masks_to_boxes(wave(m, 4, 9, 7) > 0.9))
        self.assertEqual(tuple(cairn.ops.masks_to_boxes(cairn.zeros(0, 3, 3)).shape), (0, 4))

    def test_those_that_stay(self):
        for t in (0.1, 0.4, 0.9):
            self.same(lambda m, t=t: ops(m).nms(boxes(m, 40), wave(m, 40, step=1.9), t))
            self.same(lambda m, t=t: ops(m).batched_nms(boxes(m, 40), wave(m, 40, step=1.9), m.arange(0, 40) % 3, t))
        self.assertEqual(cairn.ops.nms(cairn.zeros(0, 4), cairn.zeros(0), 0.5).tolist(), [])


class Regions(Case):
    def test_align(self):
        for aligned in (False, True):
            for ratio in (-1, 2):
                self.same(lambda m, a=aligned, r=ratio: with_gradients(
                    m, lambda x: ops(m).roi_align(x, regions(m), (3, 5), 0.5, r, a), wave(m, 2, 3, 20, 30, grad=True)))
        self.same(lambda m: ops(m).roi_align(wave(m, 2, 3, 9, 9), [boxes(m, 2) / 6, boxes(m, 3) / 6], 4))

    def test_pool(self):
        self.same(lambda m: with_gradients(m, lambda x: ops(m).roi_pool(x, regions(m), (3, 4), 0.5),
                                           wave(m, 2, 3, 20, 30, grad=True)))

    def test_by_places(self):
        for ratio in (-1, 2):
            self.same(lambda m, r=ratio: with_gradients(
                m, lambda x: ops(m).ps_roi_align(x, regions(m), (2, 3), 0.5, r), wave(m, 2, 12, 20, 30, grad=True)))
        self.same(lambda m: ops(m).ps_roi_pool(wave(m, 2, 12, 20, 30), regions(m), (2, 3), 0.5))
        # At the sides torchvision's gradient is not that of its result, which leaves out the last pixels.
        self.same(lambda m: with_gradients(m, lambda x: ops(m).ps_roi_pool(x, regions(m), (2, 3), 0.25),
                                           wave(m, 2, 12, 20, 30, grad=True)))

    def test_layers(self):
        self.same(lambda m: [layer(wave(m, 2, 4, 20, 30), regions(m)) for layer in (
            ops(m).RoIAlign((2, 2), 0.5, 2), ops(m).RoIPool((2, 2), 0.5), ops(m).PSRoIAlign(2, 0.5, -1),
            ops(m).PSRoIPool(2, 0.5))])
        self.same(lambda m: [repr(v) for v in (ops(m).RoIAlign((7, 7), 0.25, 2, True), ops(m).RoIPool(3, 1.0))])

    def test_none_and_wrong(self):
        x = cairn.ones(2, 4, 5, 5, requires_grad=True)
        for f in (cairn.ops.roi_align, cairn.ops.roi_pool, cairn.ops.ps_roi_align, cairn.ops.ps_roi_pool):
            made = f(x, cairn.zeros(0, 5), 2)
            self.assertEqual(made.shape[0], 0)
            made.sum().backward()
            with self.assertRaisesRegex(ValueError, "boxes"):
                f(x, cairn.zeros(3, 4), 2)
            with self.assertRaisesRegex(ValueError, "image 2 of 2"):
                f(x, cairn.tensor([[2.0, 0, 0, 1, 1]]), 2)
        with self.assertRaisesRegex(ValueError, "channels"):
            cairn.ops.ps_roi_align(x, cairn.zeros(1, 5), 3)

    def test_half(self):
        x = wave(cairn, 2, 3, 20, 30)
        made = cairn.ops.roi_align(x.half(), regions(cairn).half(), 3, 0.5)
        self.assertEqual(made.dtype, cairn.float16)
        # Half's boxes lie up to 1/64 of a pixel beside those of single, and the result has 11 bits.
        self.near(made.float(), cairn.ops.roi_align(x, regions(cairn), 3, 0.5), 1)

    def test_maps_of_several_sizes(self):
        def program(m):
            maps = OrderedDict([("a", wave(m, 2, 3, 64, 64)), ("no", wave(m, 2, 3, 5, 5)),
                                ("b", wave(m, 2, 3, 32, 32))])
            pooler = ops(m).MultiScaleRoIAlign(["a", "b"], 2, 2)
            return [pooler(maps, [boxes(m, 5) * 4, boxes(m, 4) * 7], [(256, 256)] * 2), repr(pooler)]
        self.same(program)


class Moved(Case):
    def program(self, m, masked, groups=3, biased=True):
        x, w = wave(m, 2, 6, 12, 14, grad=True), wave(m, 4, 3, 3, 2, step=1.1, grad=True)
        size = ((12 + 2 - 3) // 2 + 1, (14 + 4 - 2 - 1) // 2 + 1)
        offset = (wave(m, 2, 2 * groups * 6, *size, step=0.5) * 2).requires_grad_(True)
        mask = (wave(m, 2, groups * 6, *size, step=0.2) + 1).requires_grad_(True) if masked else None
        bias = wave(m, 4, grad=True) if biased else None
        given = [v for v in (x, offset, w, bias, mask) if v is not None]
        return with_gradients(m, lambda *_: ops(m).deform_conv2d(x, offset, w, bias, (2, 2), (1, 2), (1, 2), mask),
                              *given)

    def near(self, a, b, places=4):
        super().near(a, b, places)  # sums of some hundred products, in another order

    def test_against_torchvision(self):
        self.same(lambda m: self.program(m, True))
        self.same(lambda m: self.program(m, False, groups=1, biased=False))

    def test_layer(self):
        layer = cairn.ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
        x = cairn.rand(1, 4, 5, 5)
        plain = cairn.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1, groups=2)
        self.near(layer(x, cairn.zeros(1, 18, 5, 5)), plain)
        self.assertEqual(repr(layer),
                         "DeformConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)")
        with self.assertRaisesRegex(RuntimeError, "offset"):
            layer(x, cairn.zeros(1, 18, 4, 5))
        with self.assertRaises(ValueError):
            cairn.ops.DeformConv2d(3, 4, 3, groups=2)


class Layers(Case):
    def test_pyramid(self):
        def program(m, extra):
            part = ops(m).feature_pyramid_network
            more = None if extra == "none" else part.LastLevelMaxPool() if extra == "pool" else part.LastLevelP6P7(5, 5)
            net = ops(m).FeaturePyramidNetwork([2, 3, 4], 5, more)
            for i, p in enumerate(net.parameters()):
                p.data = wave(m, *p.shape, step=0.3 + 0.1 * i)
            made = net(OrderedDict([("a", wave(m, 1, 2, 16, 16)), ("b", wave(m, 1, 3, 8, 8)),
                                    ("c", wave(m, 1, 4, 4, 4))]))
            return [list(net.state_dict()), list(made), [v.reshape(-1) for v in made.values()]]
        for extra in ("none", "pool", "p6"):
            have = program(cairn, extra)
            want = self.theirs(lambda m, extra=extra: program(m, extra))
            self.near(have, want, 3)  # numbers up to a hundred, sums of 45 products behind sums of 45
        self.fails(lambda m: ops(m).FeaturePyramidNetwork([0], 5), ValueError)

    def test_frozen_norm(self):
        def program(m):
            net = ops(m).FrozenBatchNorm2d(3)
            state = m.nn.BatchNorm2d(3).state_dict()
            state["running_mean"], state["running_var"] = wave(m, 3), wave(m, 3) + 2
            net.load_state_dict(state)
            return [net(wave(m, 2, 3, 4, 4)), repr(net), len(list(net.parameters())), sorted(net.state_dict())]
        self.same(program)

    def test_conv3d(self):
        def program(m):
            made = ops(m).Conv3dNormActivation(2, 4, 3, stride=(1, 2, 2))(wave(m, 2, 2, 4, 6, 6))
            return [list(made.shape), str(ops(m).Conv3dNormActivation(2, 4, norm_layer=None))]
        self.same(program)

    def test_drop_block(self):
        cairn.manual_seed(1)
        x = cairn.ones(4, 8, 20, 20)
        for f, given in ((cairn.ops.drop_block2d, x), (cairn.ops.drop_block3d, x.reshape(4, 8, 4, 10, 10))):
            made = f(given, 0.2, 3)
            off = (made == 0).float().mean().item()
            self.assertTrue(0.05 < off < 0.35, off)
            self.assertAlmostEqual(made.mean().item(), 1, 4)
            self.assertIs(f(given, 0.2, 3, training=False), given)
            with self.assertRaises(ValueError):
                f(given[0], 0.2, 3)
            with self.assertRaises(ValueError):
                f(given, 1.5, 3)
        squares = cairn.nn.functional.max_pool2d((cairn.ops.drop_block2d(x, 0.05, 3) != 0).float(), 3, 1)
        self.assertTrue((squares == 0).any())  # whole squares go
        layer = cairn.ops.DropBlock2d(0.1, 3, inplace=True).eval()
        self.assertIs(layer(x), x)
        self.assertIs(layer.train()(x), x)
        self.same(lambda m: [repr(ops(m).DropBlock2d(0.1, 3)), repr(ops(m).DropBlock3d(0.1, 3, True))])


if __name__ == "__main__":
    unittest.main()
