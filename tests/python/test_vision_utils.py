"""cairn.utils' pictures (make_grid, save_image, boxes, masks) and cairn.ops, against torchvision where it is there."""
import io
import os
import tempfile
import unittest

import cairn
from cairn import ops, utils
from cairn.transforms import io as images

try:
    import torch
    import torchvision
except ImportError:
    torch = torchvision = None
try:
    import PIL
except ImportError:
    PIL = None

needs_pillow = unittest.skipUnless(PIL, "Pillow is not installed")


def pictures(*shape, dtype=cairn.float32):
    cairn.manual_seed(0)
    made = cairn.rand(*shape)
    return made if dtype == cairn.float32 else (made * 255).to(dtype)


class TestGrid(unittest.TestCase):
    def near(self, mine, theirs):
        self.assertEqual(tuple(mine.shape), tuple(theirs.shape))
        self.assertLess((mine.float() - cairn.from_dlpack(theirs.contiguous()).float()).abs().max().item(), 1e-6)

    def test_places(self):
        x = pictures(5, 3, 4, 6)
        grid = utils.make_grid(x, nrow=3, padding=1, pad_value=0.5)
        self.assertEqual(grid.shape, (3, 2 * 5 + 1, 3 * 7 + 1))
        self.assertTrue(cairn.equal(grid[:, 6:10, 8:14], x[4]))
        self.assertEqual(grid[:, 0].unique().tolist(), [0.5])
        self.assertEqual(grid[:, 6:, 15:].unique().tolist(), [0.5])

    def test_shapes(self):
        x = pictures(1, 3, 4, 6)
        self.assertTrue(cairn.equal(utils.make_grid(x), x[0]))
        self.assertEqual(utils.make_grid(x[0, 0]).shape, (3, 4, 6))
        self.assertEqual(utils.make_grid([x[0], x[0]], padding=0).shape, (3, 4, 12))
        with self.assertRaises(TypeError):
            utils.make_grid(3)

    def test_normalised(self):
        x = pictures(2, 1, 3, 3) * 4 - 1
        grid = utils.make_grid(x, normalize=True, padding=0)
        self.assertEqual((grid.min().item(), grid.max().item()), (0.0, 1.0))
        each = utils.make_grid(x, normalize=True, scale_each=True, padding=0)
        self.assertEqual([each[:, :, i:i + 3].max().item() for i in (0, 3)], [1.0, 1.0])
        clipped = utils.make_grid(x, normalize=True, value_range=(0, 1), padding=0)
        self.assertTrue(cairn.equal(clipped[0, :, :3], x[0, 0].clamp(0, 1)))
        self.assertLess(x.min().item(), 0)  # the images stay as they were

    @unittest.skipUnless(torchvision, "torchvision is not installed")
    def test_torchvision(self):
        x = pictures(5, 3, 4, 6)
        other = torch.from_dlpack(x)
        for settings in ({}, {"nrow": 2}, {"normalize": True}, {"normalize": True, "value_range": (0.2, 0.7)},
                         {"normalize": True, "scale_each": True, "padding": 3, "pad_value": 1.0}):
            self.near(utils.make_grid(x, **settings), torchvision.utils.make_grid(other, **settings))
            self.near(utils.make_grid(x[:, :1], **settings), torchvision.utils.make_grid(other[:, :1], **settings))

    def test_files(self):
        x = pictures(4, 3, 5, 5)
        want = (utils.make_grid(x, nrow=2) * 255 + 0.5).to(cairn.uint8)
        try:
            images.decode_image(images.encode_png(want))
        except NotImplementedError as error:
            self.skipTest(str(error))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            utils.save_image(x, path, nrow=2)
            self.assertTrue(cairn.equal(images.read_image(path), want))
            utils.save_image(x, os.path.join(folder, "a.jpg"))
            self.assertEqual(images.read_image(os.path.join(folder, "a.jpg")).shape, (3, 9, 30))
        data = io.BytesIO()
        utils.save_image(x, data, format="png", nrow=2)
        self.assertTrue(cairn.equal(images.decode_image(data.getvalue()), want))


class TestDrawing(unittest.TestCase):
    def test_masks(self):
        image = cairn.zeros(3, 2, 3, dtype=cairn.uint8)
        masks = cairn.zeros(2, 2, 3, dtype=cairn.bool)
        masks[0, 0, 0] = masks[1, 1, 2] = masks[0, 1, 1] = masks[1, 1, 1] = True
        drawn = utils.draw_segmentation_masks(image, masks, alpha=0.5, colors=[(200, 0, 0), (0, 100, 50)])
        self.assertEqual([drawn[:, 0, 0].tolist(), drawn[:, 1, 2].tolist(), drawn[:, 1, 1].tolist()],
                         [[100, 0, 0], [0, 50, 25], [0, 0, 0]])
        with self.assertRaises(ValueError):
            utils.draw_segmentation_masks(image, masks.float())
        with self.assertRaises(ValueError):
            utils.draw_segmentation_masks(image[:1], masks)

    @needs_pillow
    def test_boxes(self):
        image = cairn.zeros(3, 20, 20, dtype=cairn.uint8)
        boxes = cairn.tensor([[2, 3, 10, 12], [5.0, 5, 18, 18]])
        drawn = utils.draw_bounding_boxes(image, boxes, colors=["red", (0, 0, 255)], labels=["a", None])
        self.assertEqual([drawn[:, 3, 2].tolist(), drawn[:, 18, 9].tolist()], [[255, 0, 0], [0, 0, 255]])
        self.assertEqual(image.sum().item(), 0)
        self.assertEqual(utils.draw_bounding_boxes(image[:1].float(), boxes).dtype, cairn.float32)
        with self.assertRaises(ValueError):
            utils.draw_bounding_boxes(image, cairn.tensor([[5, 5, 1, 8]]))
        points = utils.draw_keypoints(image, cairn.tensor([[[4, 4], [15, 15]]]), [(0, 1)], colors="lime")
        self.assertEqual(points[:, 4, 4].tolist(), [0, 255, 0] if points[0, 4, 4] == 0 else [255, 255, 255])

    @needs_pillow
    @unittest.skipUnless(torchvision, "torchvision is not installed")
    def test_torchvision(self):
        image = pictures(3, 40, 50, dtype=cairn.uint8)
        boxes = cairn.tensor([[2, 3, 10, 12], [5.0, 5, 38, 28]])
        masks = pictures(2, 40, 50) > 0.7
        theirs = [torch.from_dlpack(t) for t in (image, boxes, masks.to(cairn.uint8))]
        for settings in ({}, {"labels": ["one", "two"], "width": 2}, {"fill": True, "colors": "green"}):
            self.assertEqual(utils.draw_bounding_boxes(image, boxes, **settings).tolist(),
                             torchvision.utils.draw_bounding_boxes(theirs[0], theirs[1], **settings).tolist())
        self.assertEqual(utils.draw_segmentation_masks(image, masks, 0.4).tolist(),
                         torchvision.utils.draw_segmentation_masks(theirs[0], theirs[2].bool(), 0.4).tolist())


class TestOps(unittest.TestCase):
    def setUp(self):
        self.boxes = cairn.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 5, 5]])
        self.scores = cairn.tensor([0.9, 0.8, 0.7, 0.95])

    def test_boxes(self):
        self.assertEqual(ops.box_area(self.boxes).tolist(), [100, 100, 100, 25])
        iou = ops.box_iou(self.boxes, self.boxes)
        self.assertAlmostEqual(iou[0, 1].item(), 81 / 119, places=6)
        self.assertEqual((iou[0, 0].item(), iou[0, 2].item(), iou[0, 3].item()), (1.0, 0.0, 0.25))
        self.assertEqual(ops.nms(self.boxes, self.scores, 0.5).tolist(), [3, 0, 2])
        self.assertEqual(ops.batched_nms(self.boxes, self.scores, cairn.tensor([0, 1, 0, 0]), 0.2).tolist(), [3, 1, 2])
        for form in ("xywh", "cxcywh", "xyxy"):
            there = ops.box_convert(self.boxes, "xyxy", form)
            self.assertEqual(ops.box_convert(there, form, "xyxy").tolist(), self.boxes.tolist())
        self.assertEqual(ops.clip_boxes_to_image(self.boxes, (8, 6))[1].tolist(), [1, 1, 6, 8])
        self.assertEqual(ops.remove_small_boxes(self.boxes, 6).tolist(), [0, 1, 2])

    @unittest.skipUnless(torchvision, "torchvision is not installed")
    def test_torchvision(self):
        cairn.manual_seed(1)
        boxes = cairn.rand(30, 4)
        boxes[:, 2:] += boxes[:, :2]
        scores, theirs = cairn.rand(30), torchvision.ops
        b, s = torch.from_dlpack(boxes), torch.from_dlpack(scores)
        for level in (0.1, 0.5):
            self.assertEqual(ops.nms(boxes, scores, level).tolist(), theirs.nms(b, s, level).tolist())
        for name in ("box_iou", "generalized_box_iou"):
            mine = getattr(ops, name)(boxes[:4], boxes[4:9])
            self.assertLess(abs(mine.numpy() - getattr(theirs, name)(b[:4], b[4:9]).numpy()).max(), 1e-6)
        x, t = cairn.randn(6), (cairn.rand(6) > 0.5).float()
        mine = ops.sigmoid_focal_loss(x, t, reduction="mean").item()
        want = theirs.sigmoid_focal_loss(torch.from_dlpack(x), torch.from_dlpack(t), reduction="mean").item()
        self.assertAlmostEqual(mine, want, places=6)

    def test_depth(self):
        x = cairn.ones(200, 2, 1)
        layer = ops.StochasticDepth(0.25, "row")
        made = layer(x)
        self.assertEqual(sorted(set(round(v, 4) for v in made.flatten().tolist())), [0.0, round(4 / 3, 4)])
        self.assertTrue(cairn.equal(made[:, 0], made[:, 1]))
        self.assertIs(layer.eval()(x), x)


if __name__ == "__main__":
    unittest.main()
