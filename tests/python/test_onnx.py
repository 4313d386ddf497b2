"""cairn.onnx: models from bytes and files, values of each kind, compiled, with gradients, and onnx's backend."""
import copy
import importlib.util
import os
import tempfile
import unittest

import cairn
from cairn import export
from cairn.onnx import backend
from onnx_files import FLOAT, STRING, info, model, node, sequence, weight

SOFTMAX = model(node("Mul", "x x", "square"), node("Softmax", "square", "y", axis=-1),
                info(11, "x", FLOAT, ("N", 3)), info(12, "y", FLOAT, ("N", 3)))


LINEAR = model(node("Gemm", "x fc.w fc.b", "a"), node("Mul", "a half", "y"),
               weight("fc.w", [1, 2, 3, 4, 5, 6], 3, 2), weight("fc.b", [0.5, -0.5], 2), weight("half", [0.5], 1),
               info(11, "x", FLOAT, ("N", 3)), info(12, "y", FLOAT, ("N", 2)))


class Onnx(unittest.TestCase):
    def test_names_types_and_shapes(self):
        m = cairn.onnx.load_model_from_string(SOFTMAX)
        self.assertEqual(m.input_names, ["x"])
        self.assertEqual(m.output_names, ["y"])
        self.assertEqual(m.inputs[0].dtype, cairn.float32)
        self.assertEqual(m.inputs[0].shape, ("N", 3))
        self.assertEqual(m.opset(), 17)
        self.assertIn("x -> y", repr(m))

    def test_runs_by_name_and_in_order(self):
        m = cairn.onnx.load_model_from_string(SOFTMAX)
        x = cairn.tensor([[1.0, -2.0, 0.5]])
        want = cairn.softmax(x * x, -1)
        self.assertTrue(cairn.equal(m(x), want))
        self.assertTrue(cairn.equal(m.run({"x": x})[0], want))
        self.assertTrue(cairn.equal(m.run({"x": [[1.0, -2.0, 0.5]]})[0], want))
        self.assertTrue(cairn.equal(m.run({"x": x}, ["square"])[0], x * x))

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            with open(path, "wb") as file:
                file.write(SOFTMAX)
            self.assertEqual(tuple(cairn.onnx.load(path)(cairn.ones(2, 3)).shape), (2, 3))

    def test_compiled_gives_the_same_bits(self):
        m = cairn.onnx.load_model_from_string(SOFTMAX)
        fast = cairn.compile(lambda x: m(x), fullgraph=True)
        for n in (1, 5):
            x = cairn.randn(n, 3)
            self.assertTrue(cairn.equal(fast(x), m(x)))

    def test_gradients_flow(self):
        m = cairn.onnx.load_model_from_string(SOFTMAX)
        x = cairn.randn(2, 3, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        m(x)[:, 0].sum().backward()
        cairn.softmax(z * z, -1)[:, 0].sum().backward()
        self.assertTrue(cairn.equal(x.grad, z.grad))

    def test_a_model_is_trained_further(self):
        cairn.manual_seed(0)
        m = cairn.onnx.load_model_from_string(LINEAR)
        net = m.module()
        self.assertEqual(list(net.state_dict()), ["fc.w", "fc.b"])
        optimiser = cairn.optim.SGD(net.parameters(), lr=0.1)
        x, before = cairn.randn(8, 3), m(cairn.ones(1, 3))
        target = cairn.zeros(8, 2)
        losses = []
        for _ in range(100):
            optimiser.zero_grad()
            loss = ((net(x) - target) ** 2).mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.assertTrue(cairn.equal(m(cairn.ones(1, 3)), before))
        other = m.module()
        other.load_state_dict(net.state_dict())
        self.assertTrue(cairn.equal(other(x), net(x)))
        self.assertTrue(cairn.equal(copy.deepcopy(net)(x), net(x)))
        self.assertTrue(cairn.equal(cairn.compile(net, fullgraph=True)(x), net(x)))
        with self.assertRaises(TypeError):
            net(x, x)

    def test_a_program_for_all_sizes(self):
        m = cairn.onnx.load_model_from_string(LINEAR)
        program = m.export(cairn.ones(4, 3))
        self.assertIn("fc.w", program.state_dict)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            program.save(path)
            loaded = export.load(path)
            for n in (1, 7):
                x = cairn.randn(n, 3)
                self.assertTrue(cairn.equal(loaded(x), m(x)))
        with self.assertRaises(TypeError):
            m.export()

    def test_strings_and_sequences(self):
        m = cairn.onnx.load_model_from_string(model(
            node("Identity", "s", "t"), node("SequenceConstruct", "x x", "q"), info(11, "s", STRING, (2,)),
            info(11, "x", FLOAT, (2,)), info(12, "t", STRING, (2,)), sequence(12, "q", FLOAT)))
        texts, two = m.run({"s": ["a", "\u00fc"], "x": [1.0, 2.0]})
        self.assertEqual(texts.tolist(), ["a", "\u00fc"])
        self.assertEqual([t.tolist() for t in two], [[1.0, 2.0], [1.0, 2.0]])

    def test_wrong_use_is_said(self):
        m = cairn.onnx.load_model_from_string(SOFTMAX)
        for values, words in (({}, "input 'x' is missing"), ({"z": cairn.ones(1, 3)}, "no input 'z'"),
                              ({"x": cairn.ones(1, 3, dtype=cairn.int64)}, "must be of float32, it is of int64"),
                              ({"x": cairn.ones(1, 4)}, "dimension 1 of input 'x' must be 3, it is 4"),
                              ({"x": cairn.ones(3)}, "input 'x' must have 2 dimensions, it has 1")):
            with self.assertRaisesRegex(Exception, words):
                m.run(values)
        with self.assertRaises(TypeError):
            m(1, 2)
        with self.assertRaisesRegex(RuntimeError, "no output 'z'"):
            m.run({"x": cairn.ones(1, 3)}, ["z"])
        with self.assertRaisesRegex(Exception, "no ONNX model"):
            cairn.onnx.load_model_from_string(b"")
        broken = model(node("MatMul", "x x", "y"), info(11, "x", FLOAT), info(12, "y", FLOAT))
        with self.assertRaisesRegex(Exception, r"node 'y' \(MatMul, opset 17\)"):
            cairn.onnx.load_model_from_string(broken)(cairn.ones(2, 3))

    def test_backend(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("TPU"))
        rep = backend.prepare(SOFTMAX)
        if importlib.util.find_spec("numpy"):
            out, = rep.run([cairn.ones(1, 3)])
            self.assertEqual(out.shape, (1, 3))
        self.assertFalse(backend.is_compatible(model(node("Nothing", "", "y"))))
        with self.assertRaises(TypeError):
            backend.prepare(SOFTMAX, "CPU", speed=2)

    def test_operators_are_listed(self):
        self.assertIn(("", "LeakyRelu", 1), cairn.onnx.operators())


if __name__ == "__main__":
    unittest.main()
