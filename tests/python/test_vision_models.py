"""cairn.models.detection and .segmentation beside torchvision's: names and shapes of weights, results, losses and
gradients, with the same weights. Where torchvision is not installed its results are read.

The networks are small, and draw all there is in training, because the two libraries have other random numbers. Boxes
are compared in hundreds of pixels, losses by their logarithms: their last digits are those of numbers near 100 in
float32.
"""
import hashlib
import math
import unittest
from collections import OrderedDict

import cairn
import cairn.models.detection
import cairn.models.resnet
import cairn.models.segmentation
import cairn.models.segmentation.lraspp
import cairn.ops
from cairn.models.detection import _utils as cairn_utils
from cairn.models.detection.backbone_utils import BackboneWithFPN
from cases import Case, torch

if torch:
    import torchvision


def models(m):
    return cairn.models if m is cairn else torchvision.models


def ops(m):
    return cairn.ops if m is cairn else torchvision.ops


def wave(m, n, step):
    x = m.arange(0, n, dtype=m.float64)
    return m.sin(x * (step + x * 1e-5)).float()


def filled(m, net, gain=1.0):
    """The network with weights that look like noise, the same in both libraries."""
    state = OrderedDict()
    for i, (name, t) in enumerate(net.state_dict().items()):
        if name.endswith("num_batches_tracked"):
            state[name] = t
            continue
        each = t.numel() // t.shape[0] if t.ndim > 1 else 1
        made = wave(m, t.numel(), 0.7 + 0.013 * i).reshape(t.shape)
        if t.ndim > 1:
            made = made * (gain * math.sqrt(3.0 / each))
        elif name.endswith("running_var") or (name.endswith("weight") and t.ndim == 1):
            made = 1 + 0.2 * made
        else:
            made = 0.1 * made
        state[name] = made
    net.load_state_dict(state)
    return net


def images(m):
    return [wave(m, 3 * 60 * 80, 0.37).reshape(3, 60, 80) * 0.5 + 0.5,
            wave(m, 3 * 64 * 50, 0.53).reshape(3, 64, 50) * 0.5 + 0.5]


def targets(m, masks=False, points=False):
    found = []
    for i, boxes in enumerate(([[5.0, 6.0, 40.0, 50.0], [20.0, 10.0, 70.0, 55.0]], [[3.0, 4.0, 40.0, 50.0]])):
        one = {"boxes": m.tensor(boxes), "labels": m.arange(1, len(boxes) + 1)}
        high, wide = ((60, 80), (64, 50))[i]
        if masks:
            one["masks"] = (wave(m, len(boxes) * high * wide, 0.11).reshape(len(boxes), high, wide) > 0).to(m.uint8)
        if points:
            one["labels"] = m.ones(len(boxes), dtype=m.int64)
            at = (wave(m, len(boxes) * 10, 1.3).reshape(len(boxes), 5, 2) + 1) * 20 + 5
            one["keypoints"] = m.cat((at, m.ones(len(boxes), 5, 1)), 2)
        found.append(one)
    return found


class Scores(dict):
    """Results as lists, boxes and points in hundreds of pixels."""

    def listed(self):
        scale = {"boxes": 0.01, "keypoints": 0.01}
        return [[k, (v * scale[k] if k in scale else v).reshape(-1)[:400]] for k, v in sorted(self.items())]


def run(m, net, with_masks=False, with_points=False, most=12):
    """What a detector finds, its losses, and a few of its gradients."""
    net.eval()
    with m.no_grad():
        found = [Scores({k: v[:most] for k, v in one.items()}).listed() for one in net(images(m))]
    net.train()
    losses = net(images(m), targets(m, with_masks, with_points))
    sum(losses.values()).backward()
    grads = [p.grad.reshape(-1)[::max(1, p.numel() // 5)] / (1 + p.grad.abs().max()) for p in net.parameters()]
    return [found, [[k, m.log1p(losses[k])] for k in sorted(losses)], grads[:4] + grads[-4:]]


def backbone(m):
    """One map, an eighth of the image."""
    nn = m.nn
    made = nn.Sequential(nn.Conv2d(3, 16, 3, 4, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
    made.out_channels = 32
    return made


def pyramid(m, extra=True):
    """Two maps and a pyramid over them, with further maps."""
    nn = m.nn
    body = nn.Sequential(OrderedDict([("a", nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.ReLU())),
                                      ("b", nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()))]))
    if m is cairn:
        whole, last = BackboneWithFPN, cairn.ops.feature_pyramid_network.LastLevelP6P7
    else:
        from torchvision.models.detection.backbone_utils import BackboneWithFPN as whole
        from torchvision.ops.feature_pyramid_network import LastLevelP6P7 as last
    return whole(body, {"a": "0", "b": "1"}, [8, 16], 32, last(32, 32) if extra else None)


def anchors(m, sizes, ratios):
    if m is cairn:
        from cairn.models.detection.anchor_utils import AnchorGenerator
    else:
        from torchvision.models.detection.anchor_utils import AnchorGenerator
    return AnchorGenerator(sizes, ratios)


def proposals_of(m):
    return dict(min_size=64, max_size=96, rpn_anchor_generator=anchors(m, ((16, 32),), ((0.5, 1.0, 2.0),)),
                box_roi_pool=ops(m).MultiScaleRoIAlign(["0"], 5, 2), rpn_batch_size_per_image=100000,
                box_batch_size_per_image=100000, box_positive_fraction=1.0, rpn_pre_nms_top_n_train=60,
                rpn_post_nms_top_n_train=20, rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=20)


class Names(Case):
    """The weights of whole networks: their names, in their order, and shapes."""

    def digest(self, m, part, name, **more):
        net = getattr(getattr(models(m), part), name)(weights=None, weights_backbone=None, num_classes=7, **more)
        text = "\n".join("%s %s" % (k, list(v.shape)) for k, v in net.state_dict().items())
        return [name, len(text), hashlib.sha256(text.encode()).hexdigest(), sum(p.requires_grad for p in
                                                                             net.parameters())]

    def test_segmentation(self):
        for name in ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large"):
            self.same(lambda m, name=name: self.digest(m, "segmentation", name, aux_loss=True))
        self.same(lambda m: self.digest(m, "segmentation", "lraspp_mobilenet_v3_large"))

    def test_detection(self):
        for name in ("fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn",
                     "fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2",
                     "keypointrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2",
                     "fcos_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large"):
            self.same(lambda m, name=name: self.digest(m, "detection", name))

    def test_frozen_backbone(self):
        """With weights the norms do not learn, and only the last parts do."""
        resnet = cairn.models.resnet.build("resnet18", norm_layer=cairn.ops.FrozenBatchNorm2d)
        made = cairn.models.detection.backbone_utils._resnet_fpn_extractor(resnet, 2)
        trained = {name.split(".")[1] for name, p in made.body.named_parameters(prefix="body") if p.requires_grad}
        self.assertEqual(trained, {"layer3", "layer4"})
        self.assertEqual([tuple(x.shape) for x in made(cairn.zeros(1, 3, 64, 64)).values()],
                         [(1, 256, 16, 16), (1, 256, 8, 8), (1, 256, 4, 4), (1, 256, 2, 2), (1, 256, 1, 1)])


class Segmentation(Case):
    def parts(self, m):
        if m is cairn:
            from cairn.models._utils import IntermediateLayerGetter
            from cairn.models.segmentation import deeplabv3, fcn, lraspp
        else:
            from torchvision.models._utils import IntermediateLayerGetter
            from torchvision.models.segmentation import deeplabv3, fcn, lraspp
        return IntermediateLayerGetter, deeplabv3, fcn, lraspp

    def body(self, m, take, **layers):
        blocks = models(m).resnet
        made = blocks.ResNet(blocks.Bottleneck, [1, 1, 1, 1], replace_stride_with_dilation=[False, True, True],
                             width_per_group=16)
        return take(made, layers)

    def outputs(self, m, net):
        filled(m, net).eval()
        found = net(wave(m, 3 * 40 * 40, 0.3).reshape(1, 3, 40, 40))
        found["out"].sum().backward()
        first = next(iter(net.parameters())).grad
        return [[k, list(v.shape), v.reshape(-1)[::37]] for k, v in found.items()] + [
            first.reshape(-1)[::97] / first.abs().max()]

    def test_fcn(self):
        def program(m):
            take, _, fcn, _ = self.parts(m)
            return self.outputs(m, fcn.FCN(self.body(m, take, layer3="aux", layer4="out"), fcn.FCNHead(2048, 3),
                                           fcn.FCNHead(1024, 3)))
        self.same(program)

    def test_deeplab(self):
        def program(m):
            take, deeplab, _, _ = self.parts(m)
            head = deeplab.DeepLabHead(256, 3, (2, 4))
            return self.outputs(m, deeplab.DeepLabV3(self.body(m, take, layer1="out"), head))
        self.same(program)

    def test_lraspp(self):
        def program(m):
            take, _, _, lraspp = self.parts(m)
            return self.outputs(m, lraspp.LRASPP(self.body(m, take, layer1="low", layer3="high"), 256, 1024, 3, 16))
        self.same(program)

    def test_on_mobilenet(self):
        for name in ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"):
            def program(m, name=name):
                net = getattr(models(m).segmentation, name)(weights=None, weights_backbone=None, num_classes=2)
                filled(m, net).eval()
                with m.no_grad():
                    return net(wave(m, 3 * 48 * 48, 0.3).reshape(1, 3, 48, 48))["out"].reshape(-1)[::41]
            self.same(program)

    def test_wrong(self):
        take = self.parts(cairn)[0]
        with self.assertRaisesRegex(ValueError, "return_layers"):
            self.body(cairn, take, layer9="out")
        with self.assertRaisesRegex(NotImplementedError, "load_state_dict"):
            cairn.models.segmentation.fcn_resnet50(weights="DEFAULT")


class Proposals(Case):
    """Faster, Mask and Keypoint R-CNN."""

    def test_faster(self):
        self.same(lambda m: run(m, filled(m, models(m).detection.FasterRCNN(backbone(m), 3, **proposals_of(m)))))

    def test_mask(self):
        def program(m):
            pool = ops(m).MultiScaleRoIAlign(["0"], 6, 2)
            net = models(m).detection.MaskRCNN(backbone(m), 3, mask_roi_pool=pool, **proposals_of(m))
            return run(m, filled(m, net, 0.8), with_masks=True, most=3)
        self.same(program)

    def test_keypoint(self):
        def program(m):
            pool = ops(m).MultiScaleRoIAlign(["0"], 6, 2)
            head = models(m).detection.keypoint_rcnn.KeypointRCNNHeads(32, (16,))
            predictor = models(m).detection.keypoint_rcnn.KeypointRCNNPredictor(16, 5)
            net = models(m).detection.KeypointRCNN(backbone(m), 2, keypoint_roi_pool=pool, keypoint_head=head,
                                                   keypoint_predictor=predictor, **proposals_of(m))
            return run(m, filled(m, net), with_points=True, most=4)
        self.same(program)

    def test_nothing_to_find(self):
        net = filled(cairn, cairn.models.detection.FasterRCNN(backbone(cairn), 3, **proposals_of(cairn)))
        none = [{"boxes": cairn.zeros(0, 4), "labels": cairn.zeros(0, dtype=cairn.int64)} for _ in range(2)]
        losses = net(images(cairn), none)
        self.assertEqual(losses["loss_box_reg"].item(), 0)
        self.assertTrue(all(math.isfinite(v.item()) for v in losses.values()))

    def test_wrong(self):
        net = cairn.models.detection.FasterRCNN(backbone(cairn), 3, **proposals_of(cairn))
        flat = [{"boxes": cairn.tensor([[5.0, 5.0, 5.0, 9.0]]), "labels": cairn.ones(1, dtype=cairn.int64)}] * 2
        for given, message in ((None, "should not be none"), (flat, "positive height and width")):
            with self.assertRaisesRegex(AssertionError, message):
                net(images(cairn), given)
        with self.assertRaisesRegex(ValueError, "out_channels"):
            cairn.models.detection.FasterRCNN(cairn.nn.ReLU(), 3)
        with self.assertRaisesRegex(ValueError, "num_classes"):
            cairn.models.detection.FasterRCNN(backbone(cairn))
        with self.assertRaisesRegex(TypeError, "floating"):
            net.eval()([cairn.ones(3, 8, 8, dtype=cairn.uint8)])


class Dense(Case):
    """RetinaNet, FCOS and SSD."""

    def test_retinanet(self):
        for loss in ("l1", "smooth_l1", "giou"):
            def program(m, loss=loss):
                sizes = ((16, 20), (32, 40), (64, 80), (128, 160))
                net = models(m).detection.RetinaNet(
                    pyramid(m), 3, min_size=64, max_size=96, score_thresh=0.1,
                    anchor_generator=anchors(m, sizes, ((0.5, 1.0, 2.0),) * 4))
                net.head.regression_head._loss_type = loss
                return run(m, filled(m, net, 0.7))
            self.same(program)

    def test_fcos(self):
        def program(m):
            net = models(m).detection.FCOS(pyramid(m), 3, min_size=64, max_size=96, score_thresh=0.1,
                                           anchor_generator=anchors(m, ((8,), (16,), (32,), (64,)), ((1.0,),) * 4))
            return run(m, filled(m, net, 0.7))
        self.same(program)

    def test_ssd(self):
        def program(m):
            if m is cairn:
                from cairn.models.detection.anchor_utils import DefaultBoxGenerator
            else:
                from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
            net = models(m).detection.ssd.SSD(pyramid(m, False), DefaultBoxGenerator([[2], [2, 3], [2]]), (64, 64), 3,
                                              head=models(m).detection.ssd.SSDHead([32] * 3, [4, 6, 4], 3))
            return run(m, filled(m, net))
        self.same(program)

    def test_ssdlite(self):
        def program(m):
            net = models(m).detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
            filled(m, net, 0.9).eval()
            with m.no_grad():
                maps = net.backbone(wave(m, 3 * 96 * 96, 0.3).reshape(1, 3, 96, 96))
            return [[k, list(v.shape), v.reshape(-1)[::53]] for k, v in maps.items()]
        self.same(program)


class Parts(Case):
    """What detectors are made of."""

    def utils(self, m):
        if m is cairn:
            return cairn_utils
        from torchvision.models.detection import _utils
        return _utils

    def test_matchers(self):
        def program(m):
            overlap = (wave(m, 5 * 40, 0.9).reshape(5, 40) + 1) / 2
            u = self.utils(m)
            return [u.Matcher(0.7, 0.3)(overlap), u.Matcher(0.9, 0.3, True)(overlap), u.SSDMatcher(0.8)(overlap)]
        self.same(program)

    def test_coders(self):
        def program(m):
            corner, size = wave(m, 20, 0.4).reshape(10, 2), wave(m, 20, 1.1).reshape(10, 2) + 2
            a = m.cat((corner, corner + size), 1)
            b = m.cat((corner * 0.5, corner * 0.5 + size.flip(1)), 1)
            code, line = self.utils(m).BoxCoder((10.0, 10.0, 5.0, 5.0)), self.utils(m).BoxLinearCoder()
            codes, lines = code.encode_single(a, b), line.encode(a, b)
            return [codes, code.decode_single(codes, b), lines, line.decode(lines, a)]
        self.same(program)

    def test_sampler(self):
        draw = cairn_utils.BalancedPositiveNegativeSampler(10, 0.4)
        (few,), (others,) = draw([cairn.tensor([1] * 3 + [0] * 20 + [-1] * 9)])
        self.assertEqual((int(few.sum()), int(others.sum())), (3, 7))
        self.assertEqual(int(others[:3].sum()) + int(others[23:].sum()), 0)

    def test_found_without_imports(self):
        import subprocess
        import sys
        program = ("import cairn; cairn.as_torch(); import torchvision;"
                   "print(torchvision.models.detection.FCOS.__name__);"
                   "import torchvision.models.segmentation as s; from torchvision.models.detection.rpn import RPNHead;"
                   "from torchvision.models.resnet import Bottleneck; print(s.FCN.__name__, Bottleneck.expansion)")
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual(said.stdout.split(), ["FCOS", "FCN", "4"], said.stderr)

    def test_classes(self):
        """Classes to derive from, and the zoo's network, give the same with the same weights."""
        x = wave(cairn, 3 * 64 * 64, 0.3).reshape(1, 3, 64, 64)
        vgg = cairn.models.vgg.make_layers([64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"], True)
        for one, name in ((cairn.models.resnet.resnet18(), "resnet18"), (cairn.models.VGG(vgg), "vgg11_bn"),
                          (cairn.models.DenseNet(memory_efficient=True), "densenet121"),
                          (cairn.models.MobileNetV2(), "mobilenet_v2")):
            other = cairn.models.get_model(name)
            self.assertEqual(list(one.state_dict()), list(other.state_dict()))
            filled(cairn, one)
            other.load_state_dict(one.state_dict())
            one.eval(), other.eval()
            self.near(one(x) / 10, other(x) / 10, 4)  # scores of some tens

        class Mine(cairn.models.resnet.ResNet):
            def forward(self, x):
                return self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        self.assertEqual(tuple(Mine(cairn.models.resnet.BasicBlock, [1, 1, 1, 1])(x).shape), (1, 64, 16, 16))


if __name__ == "__main__":
    unittest.main()
