"""cairn.onnx.export: torch.onnx.export's arguments, which operators are written, quantised graphs, branches and loops,
the zoo; each read again by cairn. What needs onnx and onnxruntime is left out where those are missing: the checker with
full shape inference, and outputs compared, of op samples (every twelfth; CAIRN_ONNX_ALL=1 runs them all) and of
networks."""
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zlib

import cairn
import cairn.nn.functional as F
from cairn import nn
from cairn.export import Dim

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "onnx"))
BUILD = os.environ.get("CAIRN_BUILD_DIR", os.path.join(HERE, "..", "..", "build", "default"))
DRIVER = os.path.join(BUILD, "tests", "ops", "test_ops")
HAS_PEERS = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime", "ml_dtypes"))
NEEDS_PEERS = "onnx and onnxruntime are not installed"


def fields(data):
    """The fields of a message: number, value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 5:
            at += 4
        else:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size


def operators(program):
    """The operators of a model, in order."""
    graph = dict(fields(program.SerializeToString()))[7]
    nodes = [dict(fields(value)) for number, value in fields(graph) if number == 1]
    return [node[4].decode() for node in nodes]


class Exported(unittest.TestCase):
    def agrees(self, fn, *args, others=(), tolerance=1e-5, **how):
        """The program; what it computes, read again and by onnxruntime, is what fn does."""
        program = cairn.onnx.export(fn, args, **how)
        for given in (args, *others):
            with cairn.no_grad():
                want = fn(*given)
            want = want if isinstance(want, (tuple, list)) else (want,)
            made = [program(*given)]
            if HAS_PEERS:
                made.append(self.by_peers(program, given))
            for results in made:
                self.assertEqual(len(results), len(want))
                for have, right in zip(results, want):
                    self.assertEqual((have.shape, have.dtype), (right.shape, right.dtype))
                    self.assertTrue(cairn.allclose(have.double(), right.detach().double(), rtol=tolerance,
                                                   atol=tolerance, equal_nan=True))
        return program

    def by_peers(self, program, given):
        import onnx
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        onnx.checker.check_model(program.model_proto, full_check=True)
        session = ort.InferenceSession(program.SerializeToString(), providers=["CPUExecutionProvider"])
        values = {i.name: t.detach().numpy() for i, t in zip(session.get_inputs(), given)}
        return [cairn.tensor(value) for value in session.run(None, values)]

    def setUp(self):
        cairn.manual_seed(3)


class ArgumentsTest(Exported):
    def net(self):
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))

    def test_names_and_open_sizes(self):
        net = self.net().eval()
        program = self.agrees(net, cairn.randn(5, 3), others=[(cairn.randn(9, 3),)], input_names=["image"],
                              output_names=["scores"], dynamic_axes={"image": {0: "batch"}, "scores": [0]})
        model = cairn.onnx.load_model_from_string(program.SerializeToString())
        self.assertEqual([(i.name, i.shape) for i in model.inputs + model.outputs],
                         [("image", ("batch", 3)), ("scores", ("batch", 2))])

    def test_names_follow_parameters(self):
        program = self.agrees(lambda left, right: (left @ right, left.sum()), cairn.randn(2, 3), cairn.randn(3, 2))
        model = cairn.onnx.load_model_from_string(program.SerializeToString())
        self.assertEqual([i.name for i in model.inputs], ["left", "right"])
        self.assertEqual([i.name for i in model.outputs], ["output_0", "output_1"])

    def test_dynamic_shapes(self):
        def fn(a, b):
            return cairn.cat([a, b.expand(a.shape[0], 2)], 1).reshape(-1)
        args, other = (cairn.randn(4, 3), cairn.randn(1, 2)), (cairn.randn(7, 3), cairn.randn(1, 2))
        for spec in ({"a": {0: Dim("rows")}, "b": None}, ({0: "rows"}, None), [{0: Dim.DYNAMIC}, None]):
            self.agrees(fn, *args, others=[other], dynamic_shapes=spec)
        with self.assertRaisesRegex(ValueError, "no parameter 'c'"):
            cairn.onnx.export(fn, args, dynamic_shapes={"c": {0: "rows"}})
        with self.assertRaisesRegex(ValueError, "give one of them"):
            cairn.onnx.export(fn, args, dynamic_shapes=({0: "n"}, None), dynamic_axes={"a": [0]})

    def test_axes_that_are_not_there(self):
        net = self.net()
        with self.assertRaisesRegex(ValueError, "no input or output 'y'"):
            cairn.onnx.export(net, (cairn.randn(2, 3),), dynamic_axes={"y": [0]})
        with self.assertRaisesRegex(ValueError, "no axis 5"):
            cairn.onnx.export(net, (cairn.randn(2, 3),), input_names=["x"], dynamic_axes={"x": [5]})
        with self.assertRaisesRegex(ValueError, "2 input_names for 1 inputs"):
            cairn.onnx.export(net, (cairn.randn(2, 3),), input_names=["x", "y"])
        with self.assertRaisesRegex(ValueError, "2 output_names for 1 outputs"):
            cairn.onnx.export(net, (cairn.randn(2, 3),), output_names=["x", "y"])

    def test_modes(self):
        net, x = self.net(), cairn.randn(5, 3)
        self.assertNotIn("Dropout", operators(cairn.onnx.export(net, x)))
        self.assertTrue(net.training)
        program = cairn.onnx.export(net, x, training=cairn.onnx.TrainingMode.TRAINING)
        self.assertIn("Dropout", operators(program))
        model = cairn.onnx.load_model_from_string(program.SerializeToString())
        self.assertIn("1.running_mean.next", [o.name for o in model.outputs])
        self.assertIn("Dropout", operators(cairn.onnx.export(net, x, training=cairn.onnx.TrainingMode.PRESERVE)))

    def test_files(self):
        net, x = nn.Linear(40, 30), cairn.randn(2, 40)
        with tempfile.TemporaryDirectory() as folder:
            path, beside = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.onnx.data")
            self.assertIsNone(cairn.onnx.export(net, x, path, dynamo=False))
            self.assertFalse(os.path.exists(beside))
            program = cairn.onnx.export(net, x, path, external_data=True)
            self.assertEqual(os.path.getsize(beside), 40 * 30 * 4)
            self.assertTrue(cairn.allclose(cairn.onnx.load(path)(x), net(x)))
            again = io.BytesIO()
            program.save(again)
            self.assertEqual(again.getvalue(), program.SerializeToString())

    def test_weights_left_out_or_given(self):
        net, x = nn.Linear(3, 2), cairn.randn(4, 3)
        without = cairn.onnx.export(net, x, export_params=False, input_names=["x"])
        model = cairn.onnx.load_model_from_string(without.SerializeToString())
        self.assertEqual([i.name for i in model.inputs], ["x", "weight", "bias"])
        self.assertTrue(cairn.allclose(model(x, net.weight, net.bias), net(x)))
        both = cairn.onnx.export(net, x, keep_initializers_as_inputs=True, input_names=["x"])
        model = cairn.onnx.load_model_from_string(both.SerializeToString())
        self.assertTrue(cairn.allclose(model(x), net(x)))
        self.assertTrue(cairn.allclose(model.run({"x": x, "weight": net.weight * 2})[0], net(x) * 2 - net.bias))

    def test_keywords(self):
        def fn(x, scale=None, shift=0.0):
            return x * scale + shift
        x, scale = cairn.randn(3), cairn.randn(3)
        program = cairn.onnx.export(fn, (x,), kwargs={"scale": scale, "shift": 2.0})
        self.assertTrue(cairn.allclose(program(x, scale)[0], x * scale + 2))
        buffer = io.BytesIO()
        cairn.onnx.export(fn, (x, {"scale": scale}), buffer, dynamo=False)
        self.assertTrue(cairn.allclose(cairn.onnx.load_model_from_string(buffer.getvalue())(x, scale), x * scale))

    def test_programs_and_other_models(self):
        net, x = nn.Linear(3, 2), cairn.randn(4, 3)
        program = cairn.export.export(net, (x,), dynamic_shapes=({0: Dim("n")},))
        made = cairn.onnx.export(program, (x,), input_names=["x"])
        self.assertTrue(cairn.allclose(made(cairn.ones(6, 3))[0], net(cairn.ones(6, 3))))
        with self.assertRaisesRegex(ValueError, "open sizes already"):
            cairn.onnx.export(program, (x,), input_names=["x"], dynamic_axes={"x": [0]})
        traced = cairn.jit.trace(net, x)
        self.assertTrue(cairn.allclose(cairn.onnx.export(traced, x)(x)[0], net(x)))
        from cairn import keras
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
        self.agrees(model, x)
        with self.assertRaisesRegex(TypeError, "expected a module"):
            cairn.onnx.export(3, x)

    def test_the_model_can_tell(self):
        program = cairn.onnx.export(lambda x: x + 1 if cairn.onnx.is_in_onnx_export() else x, cairn.zeros(2))
        self.assertEqual(program(cairn.zeros(2))[0].tolist(), [1, 1])
        self.assertFalse(cairn.onnx.is_in_onnx_export())

    def test_what_is_refused_or_noted(self):
        net, x = nn.Linear(3, 2), cairn.randn(4, 3)
        for how in ({"report": True}, {"profile": True}, {"custom_opsets": {"a": 1}}, {"autograd_inlining": False},
                    {"export_modules_as_functions": True}, {"custom_translation_table": {}}, {"artifacts_dir": "x"},
                    {"operator_export_type": cairn.onnx.OperatorExportTypes.ONNX_ATEN}):
            with self.assertRaises(NotImplementedError, msg=how):
                cairn.onnx.export(net, x, **how)
        with self.assertRaisesRegex(ValueError, "opset 12"):
            cairn.onnx.export(net, x, opset_version=12)
        with self.assertRaisesRegex(NotImplementedError, "linalg_qr: ONNX has no operators for factors"):
            cairn.onnx.export(lambda a: cairn.linalg.qr(a)[0], cairn.randn(3, 3))
        self.assertIsInstance(cairn.onnx.export(net, x, verify=True), cairn.onnx.ONNXProgram)

    def test_as_torch(self):
        code = ("import cairn; cairn.as_torch()\nimport torch, io\nb = io.BytesIO()\n"
                "torch.onnx.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),), b, dynamo=False,\n"
                "                  training=torch.onnx.TrainingMode.EVAL)\nprint(len(b.getvalue()) > 100)")
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(made.stdout, "True\n", made.stderr)


class OperatorsTest(Exported):
    """Composite ops are ONNX's own operators where the opset has them."""

    def test_own_operators(self):
        q = cairn.randn(2, 4, 5, 8)
        for fn, args, own, tolerance in (
                (nn.LayerNorm(6), (cairn.randn(2, 6),), "LayerNormalization", 1e-5),
                (nn.RMSNorm(6), (cairn.randn(2, 6),), "RMSNormalization", 1e-5),
                (nn.GroupNorm(2, 4), (cairn.randn(2, 4, 3, 3),), "GroupNormalization", 1e-5),
                (nn.InstanceNorm2d(4), (cairn.randn(2, 4, 3, 3),), "InstanceNormalization", 1e-5),
                (nn.GELU(), (cairn.randn(2, 6),), "Gelu", 1e-5),
                (nn.Hardswish(), (cairn.randn(2, 6),), "HardSwish", 1e-5),
                (lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True), (q,), "Attention", 1e-5),
                (nn.LSTM(3, 4, 2, bidirectional=True), (cairn.randn(5, 2, 3),), "LSTM", 1e-5),
                (nn.GRU(3, 4, batch_first=True), (cairn.randn(2, 5, 3),), "GRU", 1e-5),
                (nn.RNN(3, 4, nonlinearity="relu"), (cairn.randn(5, 2, 3),), "RNN", 1e-5),
                (nn.PixelShuffle(2), (cairn.randn(1, 8, 3, 3),), "DepthToSpace", 1e-5),
                (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), (cairn.randn(1, 2, 4, 4),), "Resize",
                 1e-5),
                (lambda a, b: cairn.einsum("ij,kj->ik", a, b), (cairn.randn(2, 3), cairn.randn(4, 3)), "Einsum", 1e-5)):
            with self.subTest(own):
                net = fn.eval() if isinstance(fn, nn.Module) else fn
                flat = (lambda *a: flatten(net(*a))) if own in ("LSTM", "GRU", "RNN") else net
                self.assertIn(own, operators(self.agrees(flat, *args, tolerance=tolerance)))

    def test_older_opsets(self):
        net = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.RMSNorm(6), nn.Softmax(-1)).eval()
        for opset in (13, 15, 17, 18, 20, 21, 23):
            program = self.agrees(lambda x: net(x).amax(0), cairn.randn(3, 4), opset_version=opset)
            have = operators(program)
            self.assertEqual("LayerNormalization" in have, opset >= 17)
            self.assertEqual("Gelu" in have, opset >= 20)
            self.assertEqual("RMSNormalization" in have, opset >= 23)

    def test_quantised(self):
        class Quantised(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(cairn.randn(4, 3))

            def forward(self, x):
                scale, zero = cairn.full((4,), 0.02), cairn.zeros(4, dtype=cairn.int32)
                w = cairn.fake_quantize_per_channel_affine(self.weight, scale, zero, 0, -127, 127)
                return F.linear(cairn.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), w)
        have = operators(self.agrees(Quantised(), cairn.randn(5, 3)))
        self.assertEqual(have.count("QuantizeLinear"), 2)
        self.assertEqual(have.count("DequantizeLinear"), 2)
        self.assertIn("Clip", have)

    def test_branches_and_loops(self):
        def fn(x):
            y = cairn.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
            carry, rows = cairn.func.scan(lambda c, row: (c + row, c * row), cairn.zeros(3), y)
            return y, carry, rows
        program = self.agrees(fn, cairn.ones(4, 3), others=[(-cairn.ones(4, 3),)])
        self.assertLessEqual({"If", "Scan"}, set(operators(program)))

    def test_every_op_has_a_way_and_the_page_lists_the_others(self):
        page = os.path.join(HERE, "..", "..", "docs", "ONNX.md")
        with open(page, encoding="utf-8") as file:
            listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", file.read(), re.M))
        self.assertEqual(listed, cairn.onnx.refused_ops())


def flatten(results):
    """Nested tuples as one."""
    return [t for part in results for t in (flatten(part) if isinstance(part, (tuple, list)) else [part])]


class NetworksTest(Exported):
    """Networks of the zoo, each of a kind of its own, for any number of samples."""

    def test_networks(self):
        for name, shape in (("lenet", (1, 28, 28)), ("squeezenet1_1", (3, 64, 64)), ("resnet18", (3, 64, 64)),
                            ("mobilenet_v3_small", (3, 64, 64)), ("unet", (3, 32, 32)),
                            ("efficientnet_b0", (3, 64, 64)), ("minilm", None), ("char_lstm", None),
                            ("char_rnn", None)):
            with self.subTest(name):
                net = cairn.zoo.create(name).eval()
                one, three = ((cairn.randn(n, *shape) if shape else cairn.randint(0, 20, (n, 7)),) for n in (1, 3))
                self.agrees(net, *one, others=[three], input_names=["x"], dynamic_axes={"x": {0: "batch"}},
                            tolerance=1e-4)


@unittest.skipUnless(HAS_PEERS, NEEDS_PEERS)
class SamplesTest(unittest.TestCase):
    """tests/ops/*.samples by the driver "onnx" of test_ops."""

    def test_samples(self):
        import exported
        if not os.path.exists(DRIVER):
            self.skipTest("test_ops is not built")
        every = bool(os.environ.get("CAIRN_ONNX_ALL"))
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([DRIVER, "onnx"], env=dict(os.environ, CAIRN_ONNX_OUT=folder), check=True,
                           stdout=subprocess.DEVNULL)
            taken = []
            for name in sorted(os.listdir(folder)):
                taken += [c for c in exported.read(os.path.join(folder, name))
                          if every or zlib.crc32(c.sample.encode()) % 12 == 0]
        self.assertGreater(len(taken), 300)
        wrong = exported.check(taken)
        self.assertFalse(wrong, "\n".join(f"{sample}: {why}" for sample, why in wrong[:40]))


if __name__ == "__main__":
    unittest.main()
