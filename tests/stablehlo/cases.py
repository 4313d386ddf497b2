"""Cases that the drivers "stablehlo" and "onnx" of test_ops wrote (tests/ops/stablehlo.c, onnx.c): read; those of
StableHLO joined into one module, compiled and run on the CPU by jaxlib, and compared with what cairn gave. The others
are run by tests/onnx/exported.py."""
import os
import re
from dataclasses import dataclass, field

import numpy as np

SIZES = {"bool": "?", "float32": "f4", "float64": "f8", "float16": "f2", "int8": "i1", "int16": "i2", "int32": "i4",
         "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "complex64": "c8",
         "complex128": "c16"}


def numpy_type(name):
    if name in SIZES:
        return np.dtype(SIZES[name])
    import ml_dtypes
    names = {"float8_e4m3fn": "float8_e4m3fn", "float4_e2m1fn_x2": "float4_e2m1fn"}
    return np.dtype(getattr(ml_dtypes, names.get(name, name)))


@dataclass
class Case:
    sample: str
    program: bytes = b""                            # text of StableHLO, or a model
    inputs: list = field(default_factory=list)
    wanted: list = field(default_factory=list)
    random: list = field(default_factory=list)      # of each that is wanted: whether type and sizes alone count
    tolerances: list = field(default_factory=list)

    @property
    def text(self):
        return self.program.decode()


def read(path):
    """All cases of a file."""
    with open(path, "rb") as file:
        data = file.read()
    at, cases = 0, []
    while at < len(data):
        case, described, size = Case(""), [], 0
        while True:
            end = data.index(b"\n", at)
            what, _, rest = data[at:end].decode().partition(" ")
            at = end + 1
            if what == "end":
                break
            if what == "sample":
                case.sample = rest
            elif what == "module":
                size = int(rest)
            else:
                words = rest.split()
                ndim = int(words[1])
                described.append((what, numpy_type(words[0]), [int(n) for n in words[2:2 + ndim]]))
                if what != "in":
                    case.random.append(what == "random")
                    case.tolerances.append((float(words[-2]), float(words[-1])))
        case.program = data[at:at + size]
        at += size
        for what, dtype, shape in described:
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(data, dtype, count, at).reshape(shape)
            at += count * dtype.itemsize
            (case.inputs if what == "in" else case.wanted).append(array)
        cases.append(case)
    return cases


HEAD = re.compile(r"func\.func public @main\((.*?)\) -> \((.*?)\) \{\n", re.S)


def split_types(text):
    """"tensor<2xf32>, tensor<f32>" as a list."""
    return re.findall(r"tensor<[^<>]*(?:<[^>]*>)?[^<>]*>", text)


def join(cases):
    """One module that computes all of them: the function of each, and a main that calls them."""
    functions, arguments, calls, results, at = [], [], [], [], 0
    for i, case in enumerate(cases):
        head = HEAD.search(case.text)
        body = case.text.replace("func.func public @main(", f"func.func private @case{i}(", 1)
        functions.append(body[len("module {\n"):body.rindex("}")])
        given, made = split_types(head[1]), split_types(head[2])
        names = [f"%a{at + k}" for k in range(len(given))]
        at += len(given)
        arguments += [f"{n}: {t}" for n, t in zip(names, given)]
        calls.append(f"    %c{i}:{len(made)} = func.call @case{i}({', '.join(names)}) : ({', '.join(given)}) -> "
                     f"({', '.join(made)})\n" if made else "")
        results += [(f"%c{i}#{k}", t) for k, t in enumerate(made)]
    types = ", ".join(t for _, t in results)
    main = f"  func.func public @main({', '.join(arguments)}) -> ({types}) {{\n{''.join(calls)}"
    main += f"    return {', '.join(n for n, _ in results)} : {types}\n  }}\n"
    return "module {\n" + "".join(functions) + main + "}\n"


def close(have, want, tolerance):
    """"" or what differs."""
    if have.dtype != want.dtype or have.shape != want.shape:
        return f"{have.dtype}{list(have.shape)} should be {want.dtype}{list(want.shape)}"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    if want.dtype.kind in "iub":
        bad = have != want
    else:
        a, b = have.astype(wide), want.astype(wide)
        with np.errstate(all="ignore"):
            good = (a == b) | (np.abs(a - b) <= tolerance[1] + tolerance[0] * np.abs(b)) | (np.isnan(a) & np.isnan(b))
        bad = ~(good & (np.isfinite(b) | (a == b) | np.isnan(b)))
    if not bad.any():
        return ""
    i = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
    return f"{int(bad.sum())} of {bad.size} differ, first element {i}: {have[i]} should be {want[i]}"


class Runner:
    """Compiles and runs texts on the CPU."""

    def __init__(self):
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import jax
        from jaxlib import xla_client
        jax.config.update("jax_enable_x64", True)
        self.jax, self.xla = jax, xla_client
        self.device = jax.devices("cpu")[0]

    def parse(self, text):
        """"" or what the verifier says."""
        from jax._src.interpreters import mlir
        from jaxlib.mlir import ir
        with mlir.make_ir_context():
            try:
                ir.Module.parse(text)
            except Exception as error:  # noqa: BLE001 (MLIRError, whose place differs between versions)
                return str(error)
        return ""

    def run(self, text, arguments):
        made = self.device.client.compile_and_load(text, (self.device,), self.xla.CompileOptions())
        out = made.execute_sharded([self.jax.device_put(a, self.device) for a in arguments])
        return [np.asarray(o[0]) for o in out.disassemble_into_single_device_arrays()]

    def run_cases(self, cases):
        """For each case its results, or a message."""
        try:
            flat = self.run(join(cases), [a for c in cases for a in c.inputs])
        except Exception as error:  # noqa: BLE001
            if len(cases) == 1:
                return [str(error)]
            half = len(cases) // 2
            return self.run_cases(cases[:half]) + self.run_cases(cases[half:])
        made = []
        for case in cases:  # behind what is wanted stand new values of states
            made.append(flat[:len(case.wanted)])
            flat = flat[len(split_types(HEAD.search(case.text)[2])):]
        return made


def check(runner, cases, batch=100):
    """What is wrong with each case: a list of (sample, why)."""
    wrong, good = [], []
    for case in cases:
        why = runner.parse(case.text)
        (wrong.append((case.sample, why.strip().split("\n")[0] + why[-300:])) if why else good.append(case))
    for i in range(0, len(good), batch):
        part = good[i:i + batch]
        for case, results in zip(part, runner.run_cases(part)):
            if isinstance(results, str):
                wrong.append((case.sample, results[:400]))
                continue
            for k, (have, want, tolerance) in enumerate(zip(results, case.wanted, case.tolerances)):
                why = close(have, want, tolerance)
                if why:
                    wrong.append((case.sample, f"result {k}: {why}"))
                    break
    return wrong
