"""cairn.transforms: levels, perspective, rubber sheets, chosen changes (AutoAugment and its like) and v2, beside
torchvision's."""
import unittest

import cairn
from cairn import transforms as T
from cairn.transforms import autoaugment
from cairn.transforms import functional as F
from cairn.transforms import v2
from cases import Case, torch

try:
    import numpy as np
    import torchvision
    from torchvision.transforms import functional as TF
except ImportError:
    torchvision = None
try:
    from PIL import Image
except ImportError:
    Image = None

needs_torchvision = unittest.skipUnless(torchvision, "torchvision is not installed")
CORNERS, MOVED = [[0, 0], [22, 0], [22, 16], [0, 16]], [[2, 3], [19, 1], [20, 15], [1, 12]]


def pixels(c=3, h=17, w=23):
    return cairn.randint(0, 256, (c, h, w), dtype=cairn.uint8, generator=cairn.Generator().manual_seed(0))


class Levels(Case):
    def test_values(self):
        x = cairn.tensor([[[10, 20], [30, 110]]], dtype=cairn.uint8)
        self.assertEqual(F.autocontrast(x).flatten().tolist(), [0, 25, 51, 255])
        self.assertEqual(F.posterize(x, 3).flatten().tolist(), [0, 0, 0, 96])
        self.assertEqual(F.solarize(x, 30).flatten().tolist(), [10, 20, 225, 145])
        self.assertIs(F.adjust_sharpness(x, 2.0), x)  # too small to be blurred
        flat = cairn.full((3, 4, 4), 7, dtype=cairn.uint8)
        for change in (F.autocontrast, F.equalize, lambda t: F.adjust_sharpness(t, 3.0)):
            self.assertTrue(cairn.equal(change(flat), flat))
        wide = F.equalize(pixels(1, 40, 40) // 4)
        self.assertGreater(wide.max().item(), 240)
        for change in (F.equalize, lambda t: F.posterize(t, 2)):
            with self.assertRaises(TypeError):
                change(flat.float())

    def test_same_place(self):
        x = pixels()
        self.assertTrue(cairn.equal(F.perspective(x, CORNERS, CORNERS), x))
        self.assertTrue(cairn.equal(F.elastic_transform(x, cairn.zeros(1, 17, 23, 2)), x))
        with self.assertRaises(ValueError):
            F.elastic_transform(x, cairn.zeros(1, 2, 2, 2))

    @needs_torchvision
    def test_torchvision(self):
        moves = (cairn.rand(1, 17, 23, 2) - 0.5) * 0.2
        for name, mine, other in (
                ("sharp", lambda x: F.adjust_sharpness(x, 1.7), lambda x: TF.adjust_sharpness(x, 1.7)),
                ("contrast", F.autocontrast, TF.autocontrast), ("equal", F.equalize, TF.equalize),
                ("bits", lambda x: F.posterize(x, 3), lambda x: TF.posterize(x, 3)),
                ("sun", lambda x: F.solarize(x, 0.4), lambda x: TF.solarize(x, 0.4)),
                ("aside", lambda x: F.perspective(x, CORNERS, MOVED), lambda x: TF.perspective(x, CORNERS, MOVED)),
                ("filled", lambda x: F.perspective(x, CORNERS, MOVED, fill=0.5),
                 lambda x: TF.perspective(x, CORNERS, MOVED, fill=0.5)),
                ("rubber", lambda x: F.elastic_transform(x, moves),
                 lambda x: TF.elastic_transform(x, torch.from_numpy(moves.numpy())))):
            for x in [pixels(), pixels(1)] + ([] if name in ("equal", "bits") else [pixels() / 255]):
                have, want = mine(x), other(torch.from_numpy(x.numpy().copy()))
                self.assertEqual(str(have.dtype).split(".")[1], str(want.dtype).split(".")[1])
                self.assertLess(np.abs(have.numpy().astype("f8") - want.numpy().astype("f8")).max(), 1e-5, name)


class Drawn(Case):
    def test_shapes(self):
        cairn.manual_seed(0)
        x = pixels(3, 48, 52)
        kinds = [T.AutoAugment(p) for p in T.AutoAugmentPolicy] + [
            T.RandAugment(), T.TrivialAugmentWide(), T.AugMix(), T.AugMix(all_ops=False, chain_depth=2),
            T.RandomPerspective(p=1), T.ElasticTransform(), T.RandomAdjustSharpness(2, 1), T.RandomAutocontrast(1),
            T.RandomEqualize(1), T.RandomPosterize(2, 1), T.RandomSolarize(100, 1), v2.RandomPhotometricDistort(p=1),
            v2.RandomChannelPermutation(), v2.Identity(), v2.ToPureTensor(), v2.RGB(), v2.GaussianNoise()]
        for t in kinds:
            for _ in range(6):
                made = t(x)
                self.assertEqual((made.shape, made.dtype), (x.shape, x.dtype), t)
            if Image is not None and not isinstance(t, v2.GaussianNoise):
                self.assertEqual(t(F.to_pil_image(x)).size, (52, 48), t)

    def test_draws(self):
        x = pixels(3, 48, 52)
        for t in (T.RandAugment(), T.AugMix(), T.ElasticTransform(), T.RandomPerspective(p=1), T.TrivialAugmentWide()):
            found = []
            for seed in (1, 1, 2, 3, 4):
                cairn.manual_seed(seed)
                found.append(t(x))
            self.assertTrue(cairn.equal(found[0], found[1]), t)
            self.assertFalse(all(cairn.equal(found[0], other) for other in found[2:]), t)
        self.assertIs(T.RandomEqualize(0)(x), x)

    def test_sizes(self):
        x = pixels(3, 20, 30)
        self.assertIn(v2.RandomResize(10, 12)(x).shape[1], (10, 11))
        self.assertEqual(v2.RandomShortestSize([10], 12)(x).shape, (3, 8, 12))
        self.assertEqual(v2.ScaleJitter((40, 60), (1.0, 1.0))(x).shape[0], 3)
        out = v2.RandomZoomOut(fill=9, side_range=(2.0, 2.0), p=1)(x)
        self.assertEqual((out.shape, (out == 9).float().mean().item() > 0.7), ((3, 40, 60), True))
        white = T.LinearTransformation(cairn.eye(12) * 2, cairn.ones(12))
        self.assertEqual(white(cairn.ones(3, 2, 2) * 3).unique().tolist(), [4.0])

    @needs_torchvision
    def test_tables(self):
        for policy in T.AutoAugmentPolicy:
            there = torchvision.transforms.AutoAugment(torchvision.transforms.AutoAugmentPolicy[policy.name])
            self.assertEqual([tuple(pair) for pair in there.policies], T.AutoAugment(policy).policies)
        for space, mine in (
                (torchvision.transforms.AutoAugment()._augmentation_space(10, (50, 70)),
                 autoaugment._strengths(10, 0.3, 150 / 331 * 70, 150 / 331 * 50, 30.0, 0.9, 8, 4)),
                (torchvision.transforms.TrivialAugmentWide()._augmentation_space(31),
                 autoaugment._strengths(31, 0.99, 32.0, 32.0, 135.0, 0.99, 8, 6))):
            for name, strengths in mine.items():
                self.assertEqual((name in autoaugment._SIGNED), space[name][1])
                if strengths:
                    self.near(cairn.tensor([float(v) for v in strengths]), space[name][0].float().tolist(), 4)

    @needs_torchvision
    def test_text(self):
        theirs = torchvision.transforms
        for make in (lambda m: m.RandAugment(), lambda m: m.AutoAugment(), lambda m: m.AugMix(),
                     lambda m: m.ElasticTransform(), lambda m: m.RandomPosterize(3), lambda m: m.RandomAffine(10),
                     lambda m: m.RandomRotation(5), lambda m: m.RandomResizedCrop(9), lambda m: m.RandomPerspective(),
                     lambda m: m.RandomApply([m.Resize(3)]), lambda m: m.TrivialAugmentWide()):
            self.assertEqual(repr(make(T)), repr(make(theirs)))


class Second(Case):
    """v2: several inputs, and one's own."""

    def test_several(self):
        x = pixels()
        chain = v2.Compose([v2.ToImage(), v2.CenterCrop(8), v2.ToDtype(cairn.float32, scale=True)])
        image, label = chain(x, 4)
        self.assertEqual((image.shape, image.dtype, label), ((3, 8, 8), cairn.float32, 4))
        found = v2.CenterCrop(8)({"picture": x, "label": 4, "other": cairn.ones(2, 2)})
        self.assertEqual((found["picture"].shape, found["label"], found["other"].shape), ((3, 8, 8), 4, (2, 2)))
        mix = v2.RandomChoice([v2.MixUp(num_classes=3), v2.CutMix(num_classes=3)])
        a, b = mix(cairn.rand(4, 3, 8, 8), cairn.tensor([0, 1, 2, 0]))
        self.assertEqual((a.shape, b.shape), ((4, 3, 8, 8), (4, 3)))
        self.assertEqual(len(v2.RandomApply([v2.CenterCrop(8)], p=1)(x, 1)), 2)

    def test_own(self):
        class Scaled(v2.Transform):
            def make_params(self, flat_inputs):
                return {"by": 3}

            def transform(self, inpt, params):
                return inpt * params["by"]

        self.assertEqual(Scaled()(cairn.ones(1, 2, 2)).sum().item(), 12)

    def test_functions(self):
        x = pixels(1)
        self.assertEqual(v2.functional.grayscale_to_rgb(x).shape, (3, 17, 23))
        self.assertEqual(v2.functional.to_dtype(x, cairn.float32, scale=True).max().item() <= 1, True)
        self.assertEqual((v2.functional.get_size(x), v2.functional.get_num_channels(x)), ([17, 23], 1))
        self.assertTrue(cairn.equal(v2.functional.horizontal_flip(x), x.flip(-1)))
        noisy = v2.functional.gaussian_noise(cairn.full((1, 50, 50), 0.5), sigma=0.1)
        self.assertTrue(0.08 < noisy.std().item() < 0.12)

    def test_paths(self):
        import cairn.transforms.transforms as whole
        import cairn.transforms.v2.functional as second
        self.assertIs(whole.Compose, T.Compose)
        self.assertIs(second, v2.functional)


if __name__ == "__main__":
    unittest.main()
