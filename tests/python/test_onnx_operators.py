"""cairn.onnx: operators of pictures, places, windows and signals: numbers, bits compiled, gradients, wrong use.

The numbers are those of ONNX's definitions, as onnxruntime and ONNX's reference compute them.
"""
import struct
import unittest

import cairn
from onnx_files import field, info, node

FLOAT, UINT8, INT64, STRING, BOOL = 1, 2, 7, 8, 9
FORMATS = {FLOAT: "f", UINT8: "B", INT64: "q", BOOL: "?"}


def attribute(name, value):
    """An attribute: a number, a text, or a list of numbers."""
    if isinstance(value, str):
        return field(5, field(1, name) + field(4, value) + field(20, 3))
    if isinstance(value, (int, float)):
        whole = isinstance(value, int)
        return field(5, field(1, name) + field(3 if whole else 2, value) + field(20, 2 if whole else 1))
    whole = isinstance(value[0], int)
    values = b"".join(field(8 if whole else 7, v) for v in value)
    return field(5, field(1, name) + values + field(20, 7 if whole else 6))


def shape_of(values):
    return [len(values), *shape_of(values[0])] if isinstance(values, list) and values else \
        [0] if isinstance(values, list) else []


def flat(values):
    return [x for part in values for x in flat(part)] if isinstance(values, list) else [values]


def kind_of(values):
    first = (flat(values) or [0])[0]
    return {bool: BOOL, int: INT64, float: FLOAT, str: STRING, bytes: UINT8}[type(first)]


def one_node(op, opset, values, outputs=1, **attrs):
    """A model of one node: its first input is the model's, the others are stored in it; None: left out."""
    parts, names = b"", []
    for i, value in enumerate(values):
        names.append("" if value is None else "i%d" % i)
        if value is None:
            continue
        kind = kind_of(value)
        if i == 0:
            shape = [len(value)] if kind == UINT8 else shape_of(value)
            parts += info(11, names[0], kind, shape)
            continue
        raw = [struct.pack("<" + FORMATS[kind], x) for x in flat(value)] if kind != STRING else []
        body = b"".join(field(1, n) for n in shape_of(value)) + field(2, kind) + field(8, names[i])
        body += b"".join(field(6, x) for x in flat(value)) if kind == STRING else field(9, b"".join(raw))
        parts += field(5, body)
    outs = ["o%d" % i for i in range(outputs)]
    made = b"".join(field(1, name) for name in names) + b"".join(field(2, name) for name in outs) + field(4, op)
    made += b"".join(attribute(name, value) for name, value in attrs.items())
    parts = field(1, made) + parts + b"".join(field(12, field(1, name)) for name in outs)
    return cairn.onnx.load_model_from_string(field(1, 8) + field(8, field(1, "") + field(2, opset)) + field(7, parts))


def first(values):
    return values if kind_of(values) == STRING else \
        cairn.tensor(list(values), dtype=cairn.uint8) if isinstance(values, bytes) else cairn.tensor(values)


def numbers(values):
    return [flat(v.tolist()) for v in values]


SQUARES = [[[[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]]]]
PLANE = [[[[float(6 * y + x) for x in range(6)] for y in range(5)]]]
DIGITS = [[[[3.0, 1.0, 4.0, 1.0], [5.0, 9.0, 2.0, 6.0], [5.0, 3.0, 5.0, 8.0]]]]
TEXTS = [["a", "b", "c"], ["d", "e", ""]]

# operator, opset, inputs, attributes, outputs; those that are captured whole
CAPTURED = [
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 1.5]],
     dict(mode="linear", coordinate_transformation_mode="asymmetric"),
     [[0, 0.666667, 2, 4, 7.333333, 11.333333, 16, 22, 25]]),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 0.5]], dict(mode="cubic", exclude_outside=1),
     [[0.2, 6.125, 21.485716]]),
    ("Resize", 19, [SQUARES, [0.0, 0.0, 0.0, 0.2, 1.0, 1.0, 1.0, 1.1], None, [1, 1, 1, 4]],
     dict(mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=-1.0),
     [[1, 6.5, 16, -1]]),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 0.5]], dict(mode="linear", antialias=1), [[0.875, 7, 19.625]]),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 1.5]], dict(nearest_mode="round_prefer_ceil"),
     [[0, 1, 1, 4, 9, 9, 16, 25, 25]]),
    ("Resize", 19, [SQUARES, None, None, [2, 3]], dict(axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
     [[0, 4, 16]]),
    ("Resize", 10, [SQUARES, [1.0, 1.0, 1.0, 0.6]], dict(mode="nearest"), [[0, 4, 16]]),
    ("Upsample", 7, [[[[[1.0, 3.0]]]]], dict(scales=[1.0, 1.0, 2.0, 2.0]), [[1, 1, 3, 3, 1, 1, 3, 3]]),
    ("GridSample", 20, [[[[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]]], [[[-1.2], [-0.5], [0.0], [0.3], [1.0]]]], {},
     [[0, 1, 6.5, 11.8, 12.5]]),
    ("GridSample", 20, [[[[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]]], [[[-1.2], [-0.5], [0.0], [0.3], [1.0]]]],
     dict(mode="cubic", padding_mode="reflection"), [[0.06175, 1, 6.125, 11.608009, 26.6875]]),
    ("RoiAlign", 16, [PLANE, [[0.5, 1.0, 4.2, 3.8], [-1.0, -1.0, 9.0, 9.0]], [0, 0]],
     dict(output_height=2, output_width=1, mode="max", sampling_ratio=2), [[6.613748, 16.696245, 12.75, 29]]),
    ("MaxPool", 12, [DIGITS], dict(kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 0, 1], storage_order=1),
     [[3, 4, 9, 8], [0, 6, 4, 11]]),
    ("AveragePool", 19, [DIGITS], dict(kernel_shape=[2, 2], dilations=[1, 2], pads=[0, 0, 1, 0]),
     [[3.5, 4.25, 4.25, 6.5, 5, 5.5]]),
    ("LpPool", 18, [DIGITS], dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, p=1), [[18, 13, 8, 13]]),
    ("MaxUnpool", 11, [[[[[1.0, 2.0]]]], [[[[5, 2]]]], [1, 1, 3, 5]], dict(kernel_shape=[2, 2], strides=[2, 2]),
     [[0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]]),
    ("Col2Im", 18, [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]], [4], [2]], {}, [[1, 6, 8, 6]]),
    ("DFT", 20, [[[[1.0], [2.0], [3.0], [4.0], [5.0]]], 4], {}, [[10, 0, -2, 2, -2, 0, -2, -2]]),
    ("STFT", 17, [[[[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]], 2, [1.0, 0.5, 0.5, 1.0]], {},
     [[7.5, 0, -0.5, 3, -2.5, 0, 13.5, 0, 0.5, 4, -2.5, 0]]),
    ("ScatterND", 18, [[1.0, 2.0, 3.0], [[1], [1]], [4.0, 5.0]], dict(reduction="mul"), [[1, 40, 3]]),
    ("ScatterND", 18, [[1.0, 2.0, 3.0], [[1], [-2]], [4.0, 5.0]], dict(reduction="add"), [[1, 11, 3]]),
    ("GatherND", 13, [[[1.0, 2.0], [3.0, 4.0]], [[-1], [0]]], dict(batch_dims=1), [[2, 3]]),
    ("OneHot", 11, [[1, -1, 7], 3, [2.0, 5.0]], dict(axis=0), [[2, 2, 2, 5, 2, 2, 2, 5, 2]]),
    ("ReverseSequence", 10, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [2, 3]], dict(batch_axis=0, time_axis=1),
     [[2, 1, 3, 6, 5, 4]]),
    ("TensorScatter", 24, [[[[1.0], [2.0], [3.0]]], [[[8.0], [9.0]]], [2]], dict(mode="circular"), [[9, 2, 8]]),
    ("CumProd", 26, [[2.0, 3.0, 4.0], 0], dict(exclusive=1, reverse=1), [[12, 4, 1]]),
    ("CenterCropPad", 18, [[[1.0, 2.0, 3.0, 4.0]], [2, 3]], {}, [[1, 2, 3, 0, 0, 0]]),
]
# whose results have as many elements as the data says, or that read it
EAGER = [
    ("RoiAlign", 16, [PLANE, [[0.5, 1.0, 4.2, 3.8], [-1.0, -1.0, 9.0, 9.0]], [0, 0]],
     dict(output_height=2, output_width=2), [[8.125, 9.975, 16.525, 18.375, 8.4, 7.12, 10.08, 6.88]]),
    ("MaxRoiPool", 19, [PLANE, [[0.0, 1.0, 1.0, 4.0, 3.0], [0.0, 3.0, 3.0, 9.0, 9.0], [0.0, 20.0, 20.0, 30.0, 30.0]]],
     dict(pooled_shape=[2, 2]), [[14, 16, 20, 22, 29, 0, 0, 0, 0, 0, 0, 0]]),
    ("NonMaxSuppression", 11,
     [[[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [0.0, 2.0, 1.0, 3.0], [1.0, 3.0, 0.0, 2.0]]],
      [[[0.5, 0.9, 0.3, 0.9]]], [5], [0.5], [0.2]], {}, [[0, 0, 1, 0, 0, 3]]),
    ("Unique", 11, [[2.0, 1.0, 1.0, 3.0, 4.0, 3.0]], dict(sorted=0),
     [[2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1]]),
    ("Compress", 11, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [False, True]], dict(axis=1), [[2, 5]]),
    ("HannWindow", 17, [4], {}, [[0, 0.5, 1, 0.5]]),
    ("HammingWindow", 17, [1], dict(periodic=0), [[1]]),
    ("BlackmanWindow", 17, [3], dict(periodic=0, output_datatype=11), [[0, 1, 0]]),
    ("MelWeightMatrix", 17, [3, 16, 8000, 0.0, 4000.0], {},
     [[1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0, 0.5] + 12 * [0]]),
    ("ImageDecoder", 20, [b"P6 2 1 255\n\x01\x02\x03\x04\x05\x06"], dict(pixel_format="BGR"), [[3, 2, 1, 6, 5, 4]]),
    ("ImageDecoder", 20, [b"P1 # bits\n2 2\n0 1 10"], dict(pixel_format="Grayscale"), [[255, 0, 0, 255]]),
    ("ImageDecoder", 20, [b"BM" + struct.pack("<IIIIiiHHIIiiII", 62, 0, 54, 40, 1, 2, 1, 24, 0, 8, 0, 0, 0, 0) +
                          b"\x01\x02\x03\x00\x04\x05\x06\x00"], {}, [[6, 5, 4, 3, 2, 1]]),
    ("Gather", 13, [TEXTS, [1, 0]], {}, [["d", "e", "", "a", "b", "c"]]),
    ("GatherND", 13, [TEXTS, [[1, 0], [0, 2]]], {}, [["d", "c"]]),
    ("Compress", 11, [TEXTS, [True, False, True]], dict(axis=1), [["a", "c", "d", ""]]),
    ("OneHot", 11, [[1, 0], 2, ["off", "on"]], {}, [["off", "on", "on", "off"]]),
    ("Concat", 13, [TEXTS, [["x"], ["yz"]]], dict(axis=1), [["a", "b", "c", "x", "d", "e", "", "yz"]]),
    ("Transpose", 13, [TEXTS], {}, [["a", "d", "b", "e", "c", ""]]),
    ("Slice", 13, [TEXTS, [-1], [-9], [1], [-2]], {}, [["c", "a", "", "d"]]),
    ("Split", 18, [TEXTS], dict(axis=0, num_outputs=2), [["a", "b", "c"], ["d", "e", ""]]),
    ("Expand", 13, [[["a"]], [2, 2]], {}, [4 * ["a"]]),
    ("Reshape", 13, [TEXTS, [-1]], {}, [["a", "b", "c", "d", "e", ""]]),
]
WRONG = [
    ("Resize", 19, [SQUARES, None, [1.0, 2.0]], {}, "2 scales for 4 axes"),
    ("Resize", 19, [SQUARES], {}, "scales or sizes"),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, -2.0]], dict(mode="linear"), "cannot become"),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 2.0]], dict(mode="quadratic"), "mode is 'quadratic'"),
    ("Resize", 19, [SQUARES, None, [1.0, 1.0, 1.0, 2.0]], dict(antialias=1), "antialias"),
    ("GatherND", 13, [[[1.0, 2.0]], [[0, 0, 0]]], {}, "places in 3 dimensions"),
    ("GatherND", 13, [[[1.0, 2.0]], [[7, 0]]], {}, "GatherND"),
    ("TensorScatter", 24, [[[[1.0], [2.0]]], [[[8.0], [9.0]]], [1]], {}, "TensorScatter"),
    ("RoiAlign", 16, [PLANE, [[0.0, 1.0, 2.0]], [0]], {}, "boxes"),
    ("RoiAlign", 16, [PLANE, [[0.0, 0.0, 1e30, 1e30]], [0]], {}, "samples in a cell"),
    ("MaxUnpool", 11, [[[[[1.0, 2.0]]]], [[[[5, 99]]]]], dict(kernel_shape=[2, 2], strides=[2, 2]), "MaxUnpool"),
    ("Col2Im", 18, [[[[1.0, 2.0]]], [4], [2]], {}, "columns must be"),
    ("DFT", 20, [[[[1.0], [2.0]]], -4], {}, "transform of -4 points"),
    ("DFT", 20, [[[[1.0, 2.0, 3.0]]]], {}, "real numbers"),
    ("BitCast", 26, [[1.0]], dict(to=11), "bits"),
    ("ImageDecoder", 20, [b"BM" + 60 * b"\xff"], {}, "BMP"),
    ("ImageDecoder", 20, [b"P6 60000 60000 255\n\x01"], {}, "too short"),
    ("ImageDecoder", 20, [b"no picture"], {}, "neither"),
    ("MelWeightMatrix", 17, [3, 16, 0, 0.0, 4000.0], {}, "no filters"),
]


class Operators(unittest.TestCase):
    def run_case(self, op, opset, values, attrs, want):
        m = one_node(op, opset, values, len(want), **attrs)
        made = m.run({"i0": first(values[0])})
        for one, other in zip(numbers(made), want):
            self.assertEqual(len(one), len(other))
            for a, b in zip(one, other):
                if isinstance(b, str):
                    self.assertEqual(a, b)
                else:
                    self.assertAlmostEqual(a, b, delta=2e-6 * max(1, abs(b)))
        return m, made

    def test_numbers(self):
        for case in CAPTURED + EAGER:
            with self.subTest(op=case[0], attrs=case[3]):
                self.run_case(*case)

    def test_compiled_gives_the_same_bits(self):
        for case in CAPTURED:
            with self.subTest(op=case[0], attrs=case[3]):
                m, made = self.run_case(*case)
                fast = cairn.compile(lambda x, m=m: tuple(m.run({"i0": x})), fullgraph=True)
                for _ in range(2):
                    self.assertEqual(numbers(fast(first(case[2][0]))), numbers(made))

    def test_gradients_reach_pictures(self):
        for case in CAPTURED[:4] + CAPTURED[8:15]:
            with self.subTest(op=case[0], attrs=case[3]):
                x = first(case[2][0]).requires_grad_()
                one_node(*case[:3], **case[3]).run({"i0": x})[0].sum().backward()
                self.assertGreater(x.grad.abs().sum().item(), 0)

    def test_wrong_use_is_said(self):
        for op, opset, values, attrs, words in WRONG:
            with self.subTest(op=op, words=words), self.assertRaisesRegex(Exception, words):
                one_node(op, opset, values, **attrs).run({"i0": first(values[0])})

    def test_no_offsets_are_a_convolution(self):
        x, w = cairn.randn(2, 4, 7, 6), cairn.randn(6, 2, 3, 2)
        offset = cairn.zeros(2, 2 * 3 * 2 * 2, 4, 6)
        attrs = dict(group=2, offset_group=2, strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 1])
        m = one_node("DeformConv", 19, [x.tolist(), w.tolist(), offset.tolist()], **attrs)
        want = one_node("Conv", 19, [x.tolist(), w.tolist()],
                        **{k: v for k, v in attrs.items() if k != "offset_group"}).run({"i0": x})[0]
        self.assertTrue(cairn.allclose(m.run({"i0": x})[0], want, atol=1e-5))

    def test_transforms_and_back(self):
        x = cairn.randn(2, 9, 1)
        for one in (0, 1):
            there = one_node("DFT", 20, [x.tolist()], onesided=one).run({"i0": x})[0]
            self.assertEqual(tuple(there.shape), (2, 5 if one else 9, 2))
            values = [there.tolist(), 9] if one else [there.tolist()]
            back = one_node("DFT", 20, values, onesided=one, inverse=1).run({"i0": there})[0]
            self.assertTrue(cairn.allclose(back[..., :1], x, atol=1e-5))

    def test_types_without_arithmetic_are_moved(self):
        moves = (("Gather", "h i", {"axis": 1}, [[-2, 1], [4, 0.5]]),
                 ("Concat", "h h", {"axis": 1}, [[1, -2] * 2, [0.5, 4] * 2]),
                 ("Transpose", "h", {}, [[1, 0.5], [-2, 4]]), ("GatherElements", "h j", {}, [[0.5, 4]]))
        for kind in (17, 19, 23):  # float8_e4m3fn, float8_e5m2, float4_e2m1fn
            for op, names, attrs, want in moves:
                with self.subTest(op=op, kind=kind):
                    parts = node("Cast", "x", "h", to=kind) + node(op, names, "g", **attrs)
                    parts += node("Cast", "g", "y", to=FLOAT)
                    for name, values, shape in (("i", (1, 0), (2,)), ("j", (1, 1), (1, 2))):
                        parts += field(5, b"".join(field(1, n) for n in shape) + field(2, INT64) + field(8, name) +
                                       field(9, struct.pack("<2q", *values)))
                    parts += info(11, "x", FLOAT, (2, 2)) + info(12, "y", FLOAT)
                    m = cairn.onnx.load_model_from_string(field(1, 8) + field(8, field(1, "") + field(2, 25)) +
                                                          field(7, parts))
                    self.assertEqual(m(cairn.tensor([[1.0, -2.0], [0.5, 4.0]])).tolist(), want)

    def test_bits_stay(self):
        x = cairn.tensor([1.0, -0.0])
        self.assertEqual(one_node("BitCast", 26, [[1.0, 2.0]], to=6).run({"i0": x})[0].tolist(), [0x3f800000, -2 ** 31])


if __name__ == "__main__":
    unittest.main()
