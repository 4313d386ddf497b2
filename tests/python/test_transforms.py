"""cairn.transforms beside torchvision.transforms: each function on the same pixels, the classes' arguments and draws,
images of Pillow and numpy, files, and transforms that the library runs by itself."""
import os
import tempfile
import unittest

import cairn
from cairn import datasets
from cairn import transforms as T
from cairn.transforms import functional as F
from cairn.transforms import io
from cairn.transforms._plain import native_of
from cairn.utils.data import DataLoader
from cases import Case, torch

try:
    import numpy as np
except ImportError:
    np = None
try:
    from PIL import Image
except ImportError:
    Image = None
try:
    import torchvision
    from torchvision.transforms import functional as TF
except ImportError:
    torchvision = None

needs_torchvision = unittest.skipUnless(torchvision and np, "torchvision is not installed")


def pixels(c=3, h=13, w=17, seed=0):
    return cairn.randint(0, 256, (c, h, w), dtype=cairn.uint8, generator=cairn.Generator().manual_seed(seed))


def theirs(t):
    return torch.from_numpy(t.contiguous().numpy().copy())


class Both(Case):
    def close(self, have, want, tolerance, most=1.0):
        """Within the tolerance; `most`: the part of the pixels that must be."""
        self.assertEqual(tuple(have.shape), tuple(want.shape))
        self.assertEqual(str(have.dtype).split(".")[1], str(want.dtype).split(".")[1])
        a, b = have.contiguous().numpy().astype("float64"), want.numpy().astype("float64")
        self.assertGreaterEqual((np.abs(a - b) <= tolerance).mean(), most)

    def on_all(self, program, bytes_off=1.0, most=1.0, kinds=("bytes", "floats", "batch", "grey")):
        """program(functional, image) in both, for bytes, floats, a batch and one channel."""
        images = {"bytes": pixels(), "floats": pixels().float() / 255, "batch": cairn.stack([pixels(), pixels(seed=1)]),
                  "grey": pixels(c=1)}
        for kind in kinds:
            with self.subTest(kind=kind):
                image = images[kind]
                whole = image.dtype == cairn.uint8
                self.close(program(F, image), program(TF, theirs(image)), bytes_off if whole else 2e-6, most)


@needs_torchvision
class Functions(Both):
    def test_windows(self):
        self.on_all(lambda f, x: f.crop(x, 2, 3, 5, 7), 0)
        self.on_all(lambda f, x: f.crop(x, -2, 10, 9, 12), 0)
        self.on_all(lambda f, x: f.center_crop(x, 6), 0)
        self.on_all(lambda f, x: f.center_crop(x, [20, 9]), 0)
        self.on_all(lambda f, x: f.hflip(x), 0)
        self.on_all(lambda f, x: f.vflip(x), 0)
        self.on_all(lambda f, x: f.pad(x, 3), 0)
        self.on_all(lambda f, x: f.pad(x, [1, 2], fill=1), 0)
        for mode in ("edge", "reflect", "symmetric"):
            self.on_all(lambda f, x, m=mode: f.pad(x, [1, 2, 3, 4], padding_mode=m), 0)
        self.on_all(lambda f, x: f.five_crop(x, 5)[3], 0)
        self.on_all(lambda f, x: f.ten_crop(x, 5)[6], 0)

    def test_sizes(self):
        for size in (7, [7], [9, 21], 30, [13, 17]):
            self.on_all(lambda f, x, s=size: f.resize(x, s, antialias=True))
        self.on_all(lambda f, x: f.resize(x, 10, max_size=12, antialias=True))
        self.on_all(lambda f, x: f.resized_crop(x, 1, 2, 8, 9, [5, 6], antialias=True))
        for mode in ("NEAREST", "BICUBIC", "NEAREST_EXACT", "BILINEAR"):
            ours, other = T.InterpolationMode[mode], torchvision.transforms.InterpolationMode[mode]
            self.on_all(lambda f, x: f.resize(x, [20, 9], ours if f is F else other, antialias=False), 1)

    def test_rotations(self):
        for angle in (30, -100, 90):
            self.on_all(lambda f, x, a=angle: f.rotate(x, a), 0, 0.99)
            self.on_all(lambda f, x, a=angle: f.rotate(x, a, expand=True), 0, 0.98)
        self.on_all(lambda f, x: f.rotate(x, 20, center=[3, 4], fill=[1.0]), 0, 0.99)
        bilinear = {F: T.InterpolationMode.BILINEAR, TF: torchvision.transforms.InterpolationMode.BILINEAR}
        self.on_all(lambda f, x: f.rotate(x, 20, bilinear[f]), 1)
        self.on_all(lambda f, x: f.affine(x, 10, [2, -3], 1.2, [5.0, 3.0]), 0, 0.99)
        self.on_all(lambda f, x: f.affine(x, 10, [2, -3], 0.8, [5.0, 0.0], bilinear[f], fill=[0.5]), 1)

    def test_colours(self):
        for factor in (0.0, 0.4, 1.0, 1.7):
            self.on_all(lambda f, x, v=factor: f.adjust_brightness(x, v))
            self.on_all(lambda f, x, v=factor: f.adjust_contrast(x, v))
            self.on_all(lambda f, x, v=factor: f.adjust_saturation(x, v))
        for turn in (-0.5, -0.1, 0.0, 0.3):
            self.on_all(lambda f, x, v=turn: f.adjust_hue(x, v))
        self.on_all(lambda f, x: f.adjust_gamma(x, 0.7, 1.1), 1)
        self.on_all(lambda f, x: f.invert(x), 0)
        self.on_all(lambda f, x: f.rgb_to_grayscale(x, 1), 1)
        self.on_all(lambda f, x: f.rgb_to_grayscale(x, 3), 1, kinds=("bytes", "floats", "batch"))
        self.on_all(lambda f, x: f.gaussian_blur(x, [5, 3], [0.8, 1.2]), 1)

    def test_types(self):
        def program(m, f, name):
            made = f.convert_image_dtype(name(m), m.float32)
            back = f.convert_image_dtype(made, m.uint8)
            return [made.tolist(), back.tolist(), f.convert_image_dtype(name(m), m.int16).tolist()]

        def image(m):
            return m.tensor([[[0, 1, 127, 200, 255]]], dtype=m.uint8)

        self.near(program(cairn, F, image), program(torch, TF, image))
        self.on_all(lambda f, x: f.normalize(f.convert_image_dtype(x, cairn.float32 if f is F else torch.float32),
                                             [0.5], [0.25]), 1e-5)
        self.on_all(lambda f, x: f.normalize(x, [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]), kinds=["floats"])
        self.on_all(lambda f, x: f.erase(x, 1, 2, 4, 5, 3), 0)

    def test_other_types(self):
        image = pixels().double() / 255
        self.close(F.adjust_contrast(image, 0.5), TF.adjust_contrast(theirs(image), 0.5), 1e-6)
        self.assertEqual(F.resize(image.half(), 5).dtype, cairn.float16)


@unittest.skipUnless(Image and np, "Pillow and numpy are needed")
class OtherImages(Both):
    def test_to_tensor(self):
        array = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
        for pic in (array, array[..., 0], Image.fromarray(array), Image.fromarray(array[..., 0]),
                    array[::-1], array.astype(np.float32)):
            have = T.ToTensor()(pic)
            if torchvision:
                self.close(have, torchvision.transforms.ToTensor()(pic.copy()), 0)
        self.assertEqual(T.ToTensor()(cairn.full((1, 2, 2), 255, dtype=cairn.uint8)).tolist(), [[[1.0, 1.0]] * 2])
        self.assertEqual(T.PILToTensor()(Image.fromarray(array)).shape, (3, 4, 5))
        with self.assertRaises(TypeError):
            T.ToTensor()("image")
        with self.assertRaises(ValueError):
            T.ToTensor()(np.zeros((1, 2, 3, 4), np.uint8))

    def test_there_and_back(self):
        for c in (1, 3, 4):
            image = pixels(c)
            pic = T.ToPILImage()(image)
            self.assertEqual(pic.size, (17, 13))
            self.assertTrue(bool((T.PILToTensor()(pic) == image).all()))
        self.assertEqual(T.ToPILImage()(np.zeros((4, 5, 3), np.uint8)).mode, "RGB")
        self.assertEqual(T.ToPILImage()(cairn.rand(3, 4, 5)).mode, "RGB")

    def test_the_usual_chain(self):
        pic = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8))

        def chain(t):
            return t.Compose([t.Resize(32), t.CenterCrop(24), t.ToTensor(),
                              t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

        have = chain(T)(pic)
        self.assertEqual(have.shape, (3, 24, 24))
        if torchvision:
            self.close(have, chain(torchvision.transforms)(pic), 0.02)
        self.assertEqual(T.RandomHorizontalFlip(1.0)(pic).getpixel((0, 0)), pic.getpixel((39, 0)))
        self.assertEqual(T.Grayscale()(pic).mode, "L")


class Classes(Case):
    def test_shapes(self):
        image = pixels(3, 20, 30)
        for t, shape in ((T.RandomCrop(12), (3, 12, 12)), (T.RandomCrop((25, 20), padding=4), (3, 25, 20)),
                         (T.RandomCrop(40, pad_if_needed=True), (3, 40, 40)), (T.RandomResizedCrop(9), (3, 9, 9)),
                         (T.RandomRotation(20), (3, 20, 30)),
                         (T.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5), (3, 20, 30)),
                         (T.ColorJitter(0.4, 0.4, 0.4, 0.1), (3, 20, 30)), (T.RandomErasing(1.0), (3, 20, 30)),
                         (T.RandomErasing(1.0, value="random"), (3, 20, 30)), (T.RandomGrayscale(1.0), (3, 20, 30)),
                         (T.RandomApply([T.CenterCrop(5)], 1.0), (3, 5, 5)),
                         (T.RandomChoice([T.CenterCrop(5)]), (3, 5, 5)),
                         (T.RandomOrder([T.CenterCrop(9), T.CenterCrop(5)]), None), (T.Pad(2), (3, 24, 34)),
                         (T.GaussianBlur(3), (3, 20, 30)), (T.Lambda(lambda x: x[0]), (20, 30)),
                         (T.Grayscale(), (1, 20, 30)),
                         (T.ConvertImageDtype(cairn.float32), (3, 20, 30)), (T.RandomInvert(1.0), (3, 20, 30))):
            with self.subTest(transform=t):
                made = t(image)
                if shape:
                    self.assertEqual(tuple(made.shape), shape)
                self.assertEqual(made.dtype == cairn.float32, isinstance(t, T.ConvertImageDtype))

    def test_draws(self):
        image = pixels(3, 20, 30)
        t = T.Compose([T.RandomResizedCrop(10), T.RandomHorizontalFlip(), T.ColorJitter(0.5), T.RandomRotation(30)])
        cairn.manual_seed(3)
        a, b = t(image), t(image)
        cairn.manual_seed(3)
        self.assertTrue(bool((t(image) == a).all()))
        self.assertFalse(bool((a == b).all()))
        flips = sum(bool((T.RandomHorizontalFlip(0.25)(image) != image).any()) for _ in range(400))
        self.assertTrue(60 < flips < 140, flips)

    def test_params(self):
        image = pixels(3, 20, 30)
        for _ in range(50):
            top, left, h, w = T.RandomResizedCrop.get_params(image, (0.1, 0.5), (0.5, 2.0))
            self.assertTrue(0 <= top <= 20 - h and 0 <= left <= 30 - w and 0.07 < h * w / 600 < 0.55)
            self.assertLessEqual(abs(T.RandomRotation.get_params((-5.0, 5.0))), 5)
            angle, move, scale, shear = T.RandomAffine.get_params((-1.0, 1.0), (0.1, 0.1), (1, 2), (-3, 3), (30, 20))
            self.assertTrue(abs(move[0]) <= 3 and abs(move[1]) <= 2 and 1 <= scale <= 2 and shear[1] == 0)
        order, b, c, s, h = T.ColorJitter.get_params((0.5, 1.5), None, (1.0, 2.0), None)
        self.assertEqual(sorted(order.tolist()), [0, 1, 2, 3])
        self.assertTrue(0.5 <= b <= 1.5 and c is None and 1 <= s <= 2 and h is None)
        self.assertEqual(T.RandomCrop.get_params(image, (20, 30)), (0, 0, 20, 30))

    def test_text(self):
        text = repr(T.Compose([T.Resize(4), T.ToTensor(), T.Normalize((0.5,), (0.5,)), T.RandomHorizontalFlip()]))
        self.assertEqual(text, "Compose(\n    Resize(size=4, interpolation=bilinear, max_size=None, antialias=True)\n"
                               "    ToTensor()\n    Normalize(mean=(0.5,), std=(0.5,))\n"
                               "    RandomHorizontalFlip(p=0.5)\n)")
        if torchvision:
            tv = torchvision.transforms
            self.assertEqual(text, repr(tv.Compose([tv.Resize(4), tv.ToTensor(), tv.Normalize((0.5,), (0.5,)),
                                                    tv.RandomHorizontalFlip()])))

    def test_faults(self):
        image = pixels()
        for wrong in (lambda: T.RandomCrop(40)(image), lambda: T.ColorJitter(-1), lambda: T.ColorJitter(hue=0.6),
                      lambda: T.RandomRotation(-1), lambda: T.Pad((1, 2, 3)), lambda: T.RandomAffine(1, (2, 0)),
                      lambda: T.RandomErasing(value="no"), lambda: T.GaussianBlur(4), lambda: F.adjust_hue(image, 1),
                      lambda: T.Normalize([0.5], [0.0])(image.float()), lambda: F.affine(image, 0, [0, 0], 0, 0),
                      lambda: F.resize(image, [1, 2, 3])):
            with self.assertRaises((ValueError, RuntimeError)):
                wrong()
        for wrong in (lambda: T.Resize("x"), lambda: T.Normalize([0.5], [0.5])(image), lambda: T.Lambda(5),
                      lambda: F.adjust_brightness("x", 1)):
            with self.assertRaises(TypeError):
                wrong()

    def test_gradients(self):
        x = cairn.rand(3, 6, 6, requires_grad=True)
        y = F.normalize(F.hflip(F.crop(F.resize(x, [8, 8], antialias=False), -1, 0, 4, 4)), [0.5], [0.5])
        y.sum().backward()
        self.assertGreater(float(x.grad.abs().sum()), 0)


class Mixed(Case):
    def test_mixup(self):
        x, y = cairn.arange(4.0).view(4, 1, 1, 1).expand(4, 1, 2, 2).contiguous(), cairn.tensor([0, 1, 2, 1])
        mixed, labels = T.MixUp(alpha=0.8, num_classes=3)(x, y)
        self.assertEqual((tuple(mixed.shape), tuple(labels.shape)), ((4, 1, 2, 2), (4, 3)))
        self.near(labels.sum(1), [1.0] * 4)
        part = labels[1][1].item()
        self.near(mixed[1], x[1] * part + x[0] * (1 - part))
        cut, labels = T.CutMix(num_classes=3)((x, y))
        self.near(labels.sum(1), [1.0] * 4)
        self.assertTrue(set(cut[1].flatten().tolist()) <= {0.0, 1.0})
        with self.assertRaises(ValueError):
            T.MixUp()(x, y)


class Files(Case):
    def test_images(self):
        image = pixels(3, 16, 24)
        with tempfile.TemporaryDirectory() as folder:
            png, jpeg = os.path.join(folder, "a.png"), os.path.join(folder, "a.jpg")
            io.write_png(image, png)
            try:
                self.assertTrue(bool((io.read_image(png) == image).all()))
            except NotImplementedError as error:
                self.skipTest(str(error))
            smooth = (cairn.arange(16).view(1, 16, 1) * 8 + cairn.arange(24).view(1, 1, 24)).expand(3, 16, 24)
            smooth = smooth.to(cairn.uint8).contiguous()
            io.write_jpeg(smooth, jpeg, quality=95)
            self.assertLess(float((io.read_image(jpeg).float() - smooth.float()).abs().max()), 8)
            self.assertEqual(io.read_image(png, io.ImageReadMode.GRAY).shape, (1, 16, 24))
            self.assertEqual(io.read_image(png, mode="RGB").shape, (3, 16, 24))
            data = io.read_file(png)
            self.assertTrue(bool((io.decode_image(data) == image).all()))
            self.assertLess(len(io.encode_jpeg(image, 10)), len(io.encode_jpeg(image, 95)))
            if torchvision:
                theirs_ = torchvision.io.decode_image(torch.tensor(data.tolist(), dtype=torch.uint8))
                self.assertEqual(theirs_.tolist(), image.tolist())
        with self.assertRaises(ValueError):
            io.encode_jpeg(image, 0)
        with self.assertRaises(OSError):
            io.decode_image(b"nothing")
        with self.assertRaises(OSError):
            io.read_image("nowhere.png")


class Native(Case):
    """Transforms that the library runs by itself in a loader."""

    def test_which(self):
        for t in (T.ToTensor(), T.Resize(5), T.Resize((4, 5)), T.CenterCrop(4), T.RandomCrop(8, 2),
                  T.RandomResizedCrop(6),
                  T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.RandomRotation(10), T.RandomAffine(5, (0.1, 0.1)),
                  T.ColorJitter(0.2), T.RandomErasing(), T.Grayscale(), T.Normalize([0.5], [0.5]),
                  T.ConvertImageDtype(cairn.float32), T.Compose([T.ToTensor()])):
            self.assertIsNotNone(native_of(t), t)

        class Mine(T.Resize):
            def forward(self, img):
                return img

        for t in (Mine(5), T.Lambda(abs), abs, T.Resize(5, T.InterpolationMode.NEAREST), T.RandomRotation((0, 10)),
                  T.RandomCrop(8, fill=1), T.Compose([T.Lambda(abs)]), T.RandomErasing(value=1), T.RandomInvert(),
                  T.ColorJitter((0.5, 0.7)), T.RandomResizedCrop(6, ratio=(1, 1)), T.RandomAffine(5, shear=(1, 2))):
            self.assertIsNone(native_of(t), t)

    def test_same_as_python(self):
        image = pixels(3, 30, 40)
        for t in (T.ToTensor(), T.Resize(15), T.Resize((9, 11)), T.CenterCrop(20), T.Grayscale(3),
                  T.Compose([T.Resize(16), T.CenterCrop(12), T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)])):
            self.assertTrue(bool((native_of(t).apply(image) == t(image)).all()), t)

    def test_draws_in_a_loader(self):
        s = datasets.digits(transform=T.Compose([T.RandomCrop(8, 2), T.RandomRotation(15), T.RandomErasing()]))
        found = []
        for workers in (0, 2):
            cairn.manual_seed(6)
            loader = DataLoader(s, batch_size=200, num_workers=workers)
            self.assertTrue(loader._runs_natively())
            found.append([[x.sum().item() for x, _ in loader] for _ in range(2)])
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0][0], found[0][1])


if __name__ == "__main__":
    unittest.main()
