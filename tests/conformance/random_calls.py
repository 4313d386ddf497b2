#!/usr/bin/env python3
"""Compares random calls of every op with PyTorch's: whatever the signature allows, sensible or not.

usage: build/peers/bin/python tests/conformance/random_calls.py [--draws N] [--seed N] [--ops NAME...] [--all]

Arguments are drawn by the types of the op table: tensors of any dtype, empty, without dims, strided, broadcast,
Python numbers in their place, dims that may lie outside, options left out. The call takes one of its forms: function,
method or in-place method. A result must be torch's (values as torch.testing.assert_close compares them), an error an
exception of torch's kinds, and nothing may crash: each op runs in a process of its own. Calls that only one of the two
refuses are shown by --all and are no failures: torch's kernels leave out types, and let much pass for empty tensors.
Last line: `N passed, N failed, N skipped`.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MAY_RAISE = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
SHAPES = [(), (), (0,), (1,), (5,), (6,), (3, 4), (4, 3), (1, 4), (3, 1), (4, 4), (4, 4), (2, 3, 4), (0, 3), (2, 0, 4),
          (2, 4, 4), (2, 1, 4, 4), (2, 3, 5, 5)]
DTYPES = ["float32"] * 6 + ["float64"] * 2 + ["int64"] * 2 + ["float16", "bfloat16", "int32", "int16", "int8", "uint8",
                                                              "bool"]
WORDS = {"reduction": ["none", "mean", "sum"], "mode": ["constant", "nearest", "reflect", "bilinear"],
         "reduce": ["sum", "prod", "mean", "amax", "amin"], "UPLO": ["L", "U"], "ord": ["fro", "nuc"],
         "interpolation": ["linear", "lower", "nearest"], "approximate": ["none", "tanh"], "side": ["left", "right"],
         "rounding_mode": ["floor", "trunc"], "indexing": ["ij", "xy"], "padding": ["same", "valid"]}
FAILURES = {"differs", "exception", "crash"}
DRAWN = "results are drawn, or not defined"
MATRIX = "matrices without a good inverse, vectors up to their signs"
TIED = "another one of equal values"
QUIRK = "torch itself: a type that it casts in place, or an argument that it changes"
HALVES = "float32 left of 0, or steps that torch stores in half types: see allowances.py"
# Ops that are not compared: of these, OpInfo's samples tell.
SKIPPED = {
    **dict.fromkeys("""alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout feature_dropout empty
                    empty_like empty_permuted empty_strided rrelu""".split(), DRAWN),
    **dict.fromkeys("""inverse logdet linalg_inv linalg_inv_ex linalg_cholesky_ex linalg_eigh linalg_lstsq
                    linalg_solve_ex linalg_solve linalg_svd svd matrix_exp linalg_matrix_exp matrix_power
                    linalg_matrix_power linalg_qr qr linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_pinv
                    pinverse linalg_det det slogdet
                    linalg_slogdet linalg_cond linalg_tensorinv linalg_tensorsolve linalg_lu_solve linalg_cholesky
                    cholesky linalg_solve_triangular cholesky_inverse cholesky_solve""".split(), MATRIX),
    **dict.fromkeys("kthvalue topk median nanmedian mode".split(), TIED),
    **dict.fromkeys("""cov isin soft_margin_loss hinge_embedding_loss margin_ranking_loss gaussian_nll_loss
                    multilabel_soft_margin_loss pixel_unshuffle unique_consecutive cosine_similarity
                    addcdiv as_strided_scatter""".split(), QUIRK),
    **dict.fromkeys("lp_pool1d lp_pool2d lp_pool3d special_i0e polygamma log_softmax".split(), HALVES),
    **dict.fromkeys("blackman_window hamming_window hann_window kaiser_window".split(), HALVES),
}
INDICES = {"index", "indices", "target", "offsets"}
MODULES = {"": "", "nn": "nn.functional", "linalg": "linalg", "special": "special", "fft": "fft"}


class Draw:
    """Draws the arguments of one call."""

    def __init__(self, seed):
        import torch  # pylint: disable=import-outside-toplevel
        self.torch = torch
        self.r = random.Random(seed)
        self.make = torch.Generator().manual_seed(self.r.randrange(1 << 30))
        self.shape, self.dtype = self.r.choice(SHAPES), self.r.choice(DTYPES)

    def near(self):
        """The shape of one more tensor: mostly one that goes with the first."""
        way = self.r.random()
        if way < 0.6:
            return self.shape
        if way < 0.75:
            return tuple(self.r.choice((1, s)) for s in self.shape[self.r.randrange(len(self.shape) + 1):])
        return self.r.choice(SHAPES)

    def values(self, shape, dtype):
        torch = self.torch
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self.make).bool()
        if dtype.is_floating_point:
            drawn = torch.randn(shape, generator=self.make, dtype=torch.float64) * self.r.choice((1, 1, 3))
            return (drawn.abs() if self.r.random() < 0.2 else drawn).to(dtype)
        low = 0 if dtype == torch.uint8 or self.r.random() < 0.5 else -4
        return torch.randint(low, 5, shape, generator=self.make).to(dtype)

    def tensor(self, name=""):
        r, torch = self.r, self.torch
        shape = self.near()
        dtype = getattr(torch, self.dtype if r.random() < 0.7 else r.choice(DTYPES))
        if name in INDICES and r.random() < 0.8:
            return torch.randint(0, 3, shape, generator=self.make)
        way = r.random()
        if way < 0.15 and len(shape) > 1:
            return self.values(shape[::-1], dtype).permute(*range(len(shape))[::-1])
        if way < 0.3 and shape:
            return self.values((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
        if way < 0.35 and shape:
            return self.values((1, *shape[1:]), dtype).expand(shape)
        return self.values(shape, dtype)

    def number(self):
        return self.r.choice((0, 1, 2, -1, 3, 0.5, 2.5, -1.5, True))

    def value(self, name, kind):  # pylint: disable=too-many-return-statements
        """A value for a parameter of this type."""
        r = self.r
        if kind in ("Tensor", "Tensor?"):
            return self.number() if name == "other" and r.random() < 0.25 else self.tensor(name)
        if kind in ("Tensor[]", "Tensor?[]"):
            return [self.tensor(name) for _ in range(r.choice((1, 2, 2, 3)))]
        if kind in ("Scalar", "Scalar?"):
            return self.number()
        if kind in ("int", "int?"):
            return r.choice((0, 1, -1, -2, 2, 3, -4)) if "dim" in name else r.choice((0, 1, 2, 3, 4, -1))
        if kind in ("float", "float?"):
            return r.choice((0.0, 0.5, 1.0, 2.0, 1e-5, -1.0))
        if kind in ("bool", "bool?"):
            return r.random() < 0.5
        if kind.startswith("int["):
            few = int(kind[4]) if kind[4].isdigit() else r.choice((1, 1, 2))
            if "dim" in name:
                return r.sample((0, 1, -1, 2, -2), few) if r.random() < 0.7 else r.choice((0, -1))
            return [r.choice((1, 2, 3, 0)) for _ in range(few)] if r.random() < 0.7 else r.choice((1, 2))
        if kind.startswith("float["):
            return [r.choice((0.5, 1.0, 2.0)) for _ in range(2)]
        if kind.startswith("dtype"):
            return getattr(self.torch, r.choice(DTYPES))
        if kind.startswith("str"):
            return r.choice(WORDS.get(name, ["none"]))
        return "cpu"

    def call(self, parameters):
        """(args, kwargs): leading ones by position, options mostly left out."""
        args, kwargs, positional = [], {}, True
        for p in parameters:
            needed = not p["optional"] and "default" not in p
            if not needed and self.r.random() < 0.65:
                positional = False
                continue
            value = self.value(p["name"], p["type"])
            if p["keyword_only"] or not positional:
                kwargs[p["name"]] = value
            else:
                args.append(value)
        return args, kwargs


class Case:
    """One op in both packages."""

    def __init__(self, module, op):
        import torch  # pylint: disable=import-outside-toplevel
        import translate  # pylint: disable=import-outside-toplevel
        self.torch, self.translate, self.module, self.op = torch, translate, module, op
        self.name = op["name"].removeprefix("linalg_").removeprefix("special_").removeprefix("fft_")
        self.theirs = self.find(torch)
        self.mine = self.find(module)

    def find(self, package):
        at = package
        for part in [*filter(None, MODULES[self.op["namespace"]].split(".")), self.name]:
            at = getattr(at, part, None)
        return at

    def forms(self, args):
        """The ways to call: (name, call) by package."""
        yield "function", lambda package: self.find(package)
        if args and isinstance(args[0], self.torch.Tensor) and not self.op["namespace"]:
            for name in (self.name, self.name + "_"):
                if hasattr(self.torch.Tensor, name) and callable(getattr(self.torch.Tensor, name)):
                    form = "method" if name == self.name else "in place"
                    yield form, lambda package, name=name: getattr(package.Tensor, name)

    def run(self, package, call, args, kwargs):
        """(translator of the arguments, result), or an exception."""
        t = self.translate.Translator(package)
        given, options = t.value(args), t.value(kwargs)
        return t, call(package)(*given, **options)

    def draw(self, seed):
        """None, or (kind, text) of a difference."""
        drawn = Draw(f"{self.op['name']} {seed}")
        args, kwargs = drawn.call(self.op["parameters"])
        form, call = drawn.r.choice(list(self.forms(args)))
        where = f"{form} {shown(args)} {shown(kwargs)}"
        if form == "in place" and self.translate.overlaps(args[0]):
            return None
        try:
            there, expected = self.run(self.torch, call, args, kwargs)
        except Exception as error:  # pylint: disable=broad-exception-caught
            return self.refused(call, args, kwargs, error, where)
        try:
            here, actual = self.run(self.module, call, args, kwargs)
        except self.translate.Untranslatable:
            return None
        except MAY_RAISE as error:
            return "refused", f"{where}: {said(error)}"
        except Exception as error:  # pylint: disable=broad-exception-caught
            return "exception", f"{where}: {said(error)}"
        reason = self.compare(here, actual, expected) or self.left(here, there)
        return reason and ("differs", f"{where}: {reason}")

    def compare(self, here, actual, expected):
        import compare  # pylint: disable=import-outside-toplevel
        results = compare.Results(here, compare.default_tolerances, grads=False)
        return results.whole(actual, expected)

    def left(self, here, there):
        import compare  # pylint: disable=import-outside-toplevel
        for (_, mine), (_, theirs) in zip(here.pairs, there.pairs):
            reason = compare.tensors(here.back(mine), theirs.detach(), compare.default_tolerances)
            if reason:
                return f"an argument was left different: {reason}"
        return None

    def refused(self, call, args, kwargs, theirs, where):
        """torch raised this error."""
        text = f"{where}: torch raises {said(theirs)}"
        try:
            self.run(self.module, call, args, kwargs)
        except self.translate.Untranslatable:
            return None
        except (*MAY_RAISE, type(theirs)):
            return None
        except Exception as error:  # pylint: disable=broad-exception-caught
            return "exception", f"{text}; here {said(error)}"
        return "accepts", text


def said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def shown(value):
    """A value in few words."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        text = f"{str(value.dtype).split('.')[-1]}{list(value.shape)}"
        text += "" if value.is_contiguous() else f"/{list(value.stride())}"
        return text if value.numel() > 6 else f"{text}={value.tolist()}"
    return repr(value)


def judge(module, op, options, target):
    """In a process of its own: writes one line per difference, and `end`."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    case = Case(module, op)
    with open(target, "w", encoding="utf-8") as out:
        if not callable(case.theirs) or case.mine is None:
            print(json.dumps(["absent", ""]), file=out)
        else:
            for i in range(options.draws):
                print(json.dumps(["at", i]), file=out, flush=True)
                found = case.draw(f"{options.seed} {i}")
                if found:
                    print(json.dumps([found[0], f"#{i} {found[1]}"]), file=out, flush=True)
        print(json.dumps(["end", ""]), file=out)


def outcome(module, op, options):
    """The differences of one op: [(kind, text)]."""
    with tempfile.NamedTemporaryFile() as target:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                judge(module, op, options, target.name)
                status = 0
            finally:
                os._exit(status)
        status = os.waitpid(pid, 0)[1]
        lines = [json.loads(line) for line in pathlib.Path(target.name).read_text(encoding="utf-8").splitlines()]
    found = [tuple(line) for line in lines if line[0] not in ("at", "end")]
    if status or not lines or lines[-1][0] != "end":
        last = [line[1] for line in lines if line[0] == "at"][-1:]
        found.append(("crash", f"status {status}, draw {last}"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--ops", nargs="+")
    parser.add_argument("--all", action="store_true", help="print what only one of the two refuses, too")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
    sys.path.insert(0, str(HERE))
    sys.path.append(str(build / "python"))
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import checks  # pylint: disable=import-outside-toplevel
    import opinfo  # pylint: disable=import-outside-toplevel
    checks.quiet()
    module = opinfo.load("cairn")
    passed = failed = left_out = absent = 0
    for op in json.loads((build / "ops.json").read_text(encoding="utf-8")):
        if (options.ops and op["name"] not in options.ops) or op["internal"] or op["random"]:
            continue
        if op["name"] in SKIPPED and not options.ops:
            left_out += 1
            continue
        found = outcome(module, op, options)
        if found and found[0][0] == "absent":
            absent += 1
            continue
        bad = {kind for kind, _ in found} & FAILURES
        for kind, text in found:
            if kind in FAILURES or options.all:
                print(f"{kind} {op['name']} {text}", flush=True)
        failed += bool(bad)
        passed += not bad
    for n, why in ((left_out, "random calls of them say nothing"), (absent, "PyTorch has no such op")):
        if n:
            print(f"skipped {n}: {why}")
    print(f"{passed} passed, {failed} failed, {left_out + absent} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
