"""Writes print_cases.inc: tensors and what PyTorch prints for them.

    python tests/golden/print_cases.py > tests/golden/print_cases.inc

A tensor is given by its values, or by start and step when `n` is 0. The only change made to PyTorch's text is
the name of types: cairn.float64 where it writes torch.float64.
"""
import math

import torch

inf, nan = math.inf, math.nan
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I64, I32, U8, I8 = torch.int64, torch.int32, torch.uint8, torch.int8

# dtype, shape, values or (start, step), print options
CASES = [
    (F32, [], [1.0], {}),
    (F32, [], [3.14159], {}),
    (F32, [], [-0.0], {}),
    (F32, [], [nan], {}),
    (F32, [], [1e-7], {}),
    (F64, [], [2.5], {}),
    (I64, [], [-7], {}),
    (torch.bool, [], [1], {}),
    (F32, [3], [1.0, 2.0, 3.0], {}),
    (F32, [3], [1.0, 2.5, -3.0], {}),
    (F32, [2], [0.0, 0.0], {}),
    (F32, [4], [nan, inf, -inf, 1.0], {}),
    (F32, [4], [nan, inf, -inf, 0.5], {}),
    (F32, [3], [nan, -inf, inf], {}),
    (F32, [2], [1e-5, 1.0], {}),
    (F32, [3], [1e9, 1.0, 0.0], {}),
    (F32, [2], [1e8, 2e8], {}),
    (F32, [2], [100.5, 0.1], {}),
    (F32, [2], [1000.5, 0.1], {}),
    (F32, [3], [1e-4, 2e-4, 0.0], {}),
    (F32, [3], [nan, 1e-9, inf], {}),
    (F32, [3], [3.4028235e38, 1e-45, -1.0], {}),
    (F64, [2], [0.1, 123456.789], {}),
    (F16, [3], [0.1, 65504.0, -2.0], {}),
    (BF16, [3], [0.1, 3.0, -2.0], {}),
    (I64, [4], [1, -20, 300, 0], {}),
    (I32, [2, 2], [1, 2, 3, 4], {}),
    (U8, [3], [0, 255, 7], {}),
    (I8, [2], [-128, 127], {}),
    (torch.uint16, [2], [65535, 1], {}),
    (torch.bool, [3], [1, 0, 1], {}),
    (torch.bool, [2, 2], [1, 1, 1, 1], {}),
    (torch.float8_e4m3fn, [3], [1.0, 448.0, 0.5], {}),
    (torch.float8_e5m2, [3], [inf, 1.5, nan], {}),
    (torch.float8_e8m0fnu, [2], [4.0, 0.5], {}),
    (F32, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.5], {}),
    (F32, [2, 2, 2], (0.0, 1.0), {}),
    (F32, [2, 1, 2, 2], (-1.5, 0.25), {}),
    (F32, [1, 1], [5.0], {}),
    (F32, [0], (0, 1), {}),
    (F32, [0, 3], (0, 1), {}),
    (F32, [2, 0, 4], (0, 1), {}),
    (I64, [0], (0, 1), {}),
    (F64, [3, 0], (0, 1), {}),
    (torch.bool, [0], (0, 1), {}),
    (F32, [40], (0.5, 1.25), {}),
    (I64, [30], (0, 1), {}),
    (I64, [30], (-100000, 7777), {}),
    (F32, [3, 12], (-3.25, 0.5), {}),
    (F32, [2, 3, 14], (0.1, 0.1), {}),
    (F32, [100], (0.0, 1.0), {}),
    (F32, [1001], (0.0, 1.0), {}),
    (I64, [2000], (-5, 1), {}),
    (F64, [40, 40], (0.0, 0.5), {}),
    (F32, [8, 3, 50], (0.0, 1.0), {}),
    (F32, [5, 300], (0.0, 1.0), {}),
    (F32, [2, 2, 7, 50], (-100.5, 0.125), {}),
    (torch.bool, [1200], (0, 1), {}),
    (F64, [7], (100.123, 1000.0), {}),
    (F64, [10], (1.5, 1.0), {}),
    (F64, [9], (100.5, 1.0), {}),
    (F64, [8], (1000.25, 1.0), {}),
    (F32, [3], [1.123456789, 2.0, 3.0], {"precision": 8}),
    (F32, [3], [1.123456789, 2e7, 3.0], {"precision": 2}),
    (I64, [20], (0, 1), {"threshold": 10}),
    (F32, [6, 6], (0.0, 1.0), {"threshold": 10, "edgeitems": 1}),
    (F32, [20], (0.0, 0.5), {"threshold": 5, "edgeitems": 9}),
    (F32, [6], (0.5, 1.0), {"linewidth": 20}),
    (F64, [2, 6], (0.5, 1.0), {"linewidth": 1}),
    (F32, [2], [1e-5, 12345.678], {"sci_mode": False}),
    (F32, [3], [0.5, 1.0, 2.0], {"sci_mode": True, "precision": 2}),
    (F32, [2], [1.0, 1e9], {"sci_mode": False}),
]


def value(x):
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    return repr(float(x))


def c_name(dtype):
    short = {F32: "F32", F64: "F64", F16: "F16", BF16: "BF16", I64: "I64", I32: "I32", U8: "U8", I8: "I8",
             torch.uint16: "U16", torch.bool: "BOOL", torch.float8_e4m3fn: "F8E4M3",
             torch.float8_e5m2: "F8E5M2", torch.float8_e8m0fnu: "F8E8M0"}
    return "CN_" + short[dtype]


def quoted(text):
    lines = text.split("\n")
    return "\n     ".join('"%s%s"' % (s, "\\n" if i + 1 < len(lines) else "") for i, s in enumerate(lines))


def main():
    version = torch.__version__.split("+")[0]
    print("/* Made by tests/golden/print_cases.py with PyTorch %s; do not edit. */" % version)
    print("static const struct print_case {\n  cn_dtype dtype;\n  int ndim;\n  int64_t shape[4];\n  int n;\n"
          "  double values[6], start, step;\n"
          "  cn_print_options options; /* precision, threshold, edge items, width, scientific */\n"
          "  const char *text;\n} print_cases[] = {")
    for dtype, shape, values, options in CASES:
        numel = math.prod(shape)
        start, step, listed = 0.0, 0.0, []
        if isinstance(values, tuple):
            start, step = values
            wide = torch.arange(numel, dtype=F64) * step + start
        else:
            listed = values
            wide = torch.tensor(values, dtype=F64)
        t = wide.to(dtype).reshape(shape)
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        text = str(t).replace("torch.", "cairn.")
        print("    {%s, %d, {%s}, %d, {%s}, %s, %s, {%d, %d, %d, %d, %d},\n     %s}," % (
            c_name(dtype), len(shape), ", ".join(map(str, shape)) or "0", len(listed),
            ", ".join(value(v) for v in listed) or "0", value(start), value(step),
            options.get("precision", 0), options.get("threshold", 0), options.get("edgeitems", 0),
            options.get("linewidth", 0), {None: 0, True: 1, False: -1}[options.get("sci_mode")], quoted(text)))
    print("};")


if __name__ == "__main__":
    main()
