"""Models of one ONNX node, written field by field, for tests of operators."""
import cairn
from onnx_files import field

KINDS = {cairn.float32: 1, cairn.uint8: 2, cairn.int32: 6, cairn.int64: 7, cairn.bool: 9, cairn.float16: 10,
         cairn.float64: 11, cairn.bfloat16: 16}


def attribute(name, value):
    """AttributeProto: a number, a text, or a list of one of these."""
    many = isinstance(value, (list, tuple))
    of = type(value[0] if many else value)
    place, kind = {(float, False): (2, 1), (int, False): (3, 2), (str, False): (4, 3), (float, True): (7, 6),
                   (int, True): (8, 7), (str, True): (9, 8)}[(of, many)]
    return field(5, field(1, name) + b"".join(field(place, v) for v in (value if many else [value])) + field(20, kind))


def model(op, inputs, outputs, opset=22, domain="", **attrs):
    """Inputs: tensors, or None where one is left out; outputs: how many."""
    names = ["x%d" % i if t is not None else "" for i, t in enumerate(inputs)]
    made = b"".join(field(1, n) for n in names) + b"".join(field(2, "y%d" % i) for i in range(outputs))
    made += field(4, op) + field(7, domain) + b"".join(attribute(n, v) for n, v in attrs.items())
    graph = field(1, made)
    for name, t in zip(names, inputs):
        if t is not None:
            graph += field(11, field(1, name) + field(2, field(1, field(1, KINDS[t.dtype]))))
    graph += b"".join(field(12, field(1, "y%d" % i)) for i in range(outputs))
    versions = field(8, field(1, domain) + field(2, opset))
    return cairn.onnx.load_model_from_string(field(1, 10) + versions + field(7, graph))


def run(op, inputs, outputs=1, **options):
    """The node's results, as a list."""
    made = model(op, inputs, outputs, **options)(*[t for t in inputs if t is not None])
    return list(made) if outputs > 1 else [made]


def run_compiled(op, inputs, outputs=1, **options):
    """The same from a compiled function that took the whole call into its graph."""
    m, given = model(op, inputs, outputs, **options), [t for t in inputs if t is not None]
    made = cairn.compile(lambda *xs: m(*xs), fullgraph=True)(*given)
    return list(made) if outputs > 1 else [made]
