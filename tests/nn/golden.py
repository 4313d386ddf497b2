"""Writes tests/nn/golden/FAMILY.safetensors: what torch.nn's modules compute for the cases in cases_FAMILY.py.

    python tests/nn/golden.py [FAMILY...]          (needs torch)
    python tests/nn/golden.py --missing            (lists classes of torch.nn that no case makes)

test_layers.c reads the files, makes each module anew from its arguments and compares. README.md says how a case is
written. In a file, case i has these tensors, of which only those that apply are there:

    i.make.NAME                  a tensor among the arguments of the constructor, unless an earlier one equals it
    i.call.NAME                  a tensor among those of the call, likewise
    i.state.NAME                 the state dictionary before the call
    i.MODE.out.K                 results (MODE: train or eval), tuples laid flat
    i.MODE.cot.K                 the gradient of the result that backward begins with
    i.MODE.gin.NAME              the gradients of the tensors of the call
    i.MODE.grad.NAME             the gradients of parameters
    i.MODE.after.NAME            what the call changed of the state
    i.MODE.moment.out.K          of random cases instead of out and gin: mean, standard deviation of it, of its square
    i.MODE.moment.gin.NAME

The rest is JSON under "cases" in the file's metadata: a list of dictionaries. A tensor among arguments stands there as
{"tensor": its name}, a module as {"module": class, "make": {...}}, and numbers that JSON cannot write as
{"float": "inf"}.
"""
import copy
import importlib
import json
import pathlib
import struct
import sys
import warnings
import zlib

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

HERE = pathlib.Path(__file__).resolve().parent
REPEATS = 10000  # of random cases: their moments are known to about 1 %
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32", torch.bool: "BOOL",
         torch.uint8: "U8", torch.bfloat16: "BF16", torch.float16: "F16"}


# ---- what cases are written with ----

class T:
    """A tensor of a case: random normal numbers of that shape; with low and high uniform ones between them; whole
    numbers from low below high with ints=True. Its values depend only on the case and the argument's name."""

    def __init__(self, *shape, low=None, high=None, ints=False, dtype=torch.float32):
        self.shape, self.low, self.high, self.ints, self.dtype = shape, low, high, ints, dtype

    def make(self, seed):
        g = torch.Generator().manual_seed(seed)
        if self.ints:
            return torch.randint(self.low, self.high, self.shape, generator=g)
        if self.low is None:
            return torch.randn(self.shape, generator=g, dtype=self.dtype)
        return torch.rand(self.shape, generator=g, dtype=self.dtype) * (self.high - self.low) + self.low

    def __repr__(self):
        return "T" + str(self.shape)


class M:
    """A module among the arguments of a constructor: M("Linear", in_features=3, out_features=4)."""

    def __init__(self, cls, **make):
        self.cls, self.make = cls, make

    def __repr__(self):
        return "%s(%s)" % (self.cls, words(self.make))


def words(args):
    return ", ".join("%s=%s" % (k, list(v.shape) if isinstance(v, torch.Tensor) else v) for k, v in args.items())


class Case:
    """One module and one call of it.

    cls    name of the class in torch.nn, and in cairn
    make   arguments of the constructor by name
    call   arguments of the call by the names in cairn's call signature; tensors, T(...), numbers, lists, text, None
    run    how PyTorch is called with them where its call looks otherwise: run(module, v) with v the values of `call`
    fixed  names of float tensors of the call that get no gradient
    modes  what is compared: "train" and "eval"
    tol    tolerance, relative to the largest magnitude; say why where it is not the default
    random train mode draws random numbers: moments of many runs are compared
    move   False: leave parameters as the constructor made them (else all floats are moved, so that none is constant)
    work   compare multiply-adds with PyTorch's counter, or with this number where it does not see them
    error  "make" or "call": PyTorch raises an error there, and cairn must too, or earlier
    text   compare what printing gives
    """

    def __init__(self, cls, make=None, call=None, run=None, fixed=(), modes=("train", "eval"), tol=1e-5, random=False,
                 move=True, work=False, error=None, text=True, note=""):
        self.cls, self.make, self.call = cls, make or {}, call or {}
        self.run = run or (lambda m, v: m(**v))
        self.fixed, self.modes, self.tol, self.random = set(fixed), modes, tol, random
        self.move, self.work, self.error, self.text = move, work, error, text
        self.label = "%s(%s)(%s)%s" % (cls, words(self.make), words(self.call), " " + note if note else "")

    def seed(self, what):
        return zlib.crc32((self.label + "/" + what).encode())


# ---- running one ----

class Writer:
    """Collects the tensors of a file and puts JSON in their place."""

    def __init__(self):
        self.tensors, self.names = {}, {}

    def put(self, name, t):
        self.tensors[name] = t.detach().clone().contiguous()

    def json(self, value, name):
        if isinstance(value, torch.Tensor):
            key = (value.dtype, tuple(value.shape), value.contiguous().numpy().tobytes())
            if key not in self.names:  # many cases have the same input
                self.put(name, value)
            return {"tensor": self.names.setdefault(key, name)}
        if isinstance(value, M):
            return {"module": value.cls, "make": {k: self.json(v, "%s.%s" % (name, k)) for k, v in value.make.items()}}
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return {"float": str(value)}
        if isinstance(value, (list, tuple)):
            return [self.json(v, name) for v in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).replace("torch.", "")}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError("%s: cannot store %r" % (name, value))


def build(value):
    """What the constructor of torch gets for a value of a case."""
    if isinstance(value, M):
        return getattr(torch.nn, value.cls)(**{k: build(v) for k, v in value.make.items()})
    if isinstance(value, list):
        return tuple(value)  # as programs write them, and as they are printed
    return value.clone() if isinstance(value, torch.Tensor) else value


def drawn(case, args, kind):
    return {k: v.make(case.seed(kind + k)) if isinstance(v, T) else v for k, v in args.items()}


def flat(result):
    if isinstance(result, PackedSequence):
        return [result.data, result.batch_sizes]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return [result]


def moved(module, case):
    """Adds something to every float of the state: running variances stay positive, and nothing stays constant."""
    g = torch.Generator().manual_seed(case.seed("state"))
    with torch.no_grad():
        for t in module.state_dict().values():
            if t.is_floating_point():
                t += 0.3 * torch.rand(t.shape, generator=g)


class Run:
    """One call in one mode, forward and backward."""

    def __init__(self, case, module, values, mode, cots=None):
        self.module = copy.deepcopy(module).train(mode == "train")
        # Given as copies, because some layers write into their input.
        leaves = {k: v.clone().requires_grad_(k not in case.fixed)
                  for k, v in values.items() if isinstance(v, torch.Tensor) and v.is_floating_point()}
        given = {k: leaves[k].clone() if k in leaves else v for k, v in values.items()}
        self.out = flat(case.run(self.module, given))
        self.cots = cots if cots is not None else [self.cotangent(case, k, t) for k, t in enumerate(self.out)]
        pairs = [(t, c) for t, c in zip(self.out, self.cots) if c is not None]
        if pairs:
            torch.autograd.backward([t for t, _ in pairs], [c for _, c in pairs])
        self.gin = {k: t.grad for k, t in leaves.items() if t.grad is not None}
        self.grad = {k: p.grad.to_dense() if p.grad.is_sparse else p.grad
                     for k, p in self.module.named_parameters() if p.grad is not None}

    @staticmethod
    def cotangent(case, k, t):
        if t is None or not t.requires_grad:
            return None
        g = torch.Generator().manual_seed(case.seed("cot%d" % k))
        return torch.randn(t.shape, generator=g).to(t.dtype)

    def equals(self, other):
        same = [(a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in zip(self.out, other.out)]
        return all(same) and all(torch.equal(v, other.gin[k]) for k, v in self.gin.items()) and \
            all(torch.equal(v, other.grad[k]) for k, v in self.grad.items()) and not self.changed() and \
            not other.changed()

    before = None

    def changed(self):
        return {k: v for k, v in self.module.state_dict().items() if not torch.equal(v, self.before[k])}


def moments(samples):
    """(4, shape): mean and deviation of the samples, then of their squares."""
    s = torch.stack(samples).double()
    return torch.stack([s.mean(0), s.std(0), (s * s).mean(0), (s * s).std(0)]).float()


def put_random(writer, case, module, values, name):
    torch.manual_seed(case.seed("draws"))
    first = Run(case, module, values, "train")
    runs = [Run(case, module, values, "train", first.cots) for _ in range(REPEATS)]
    for k, c in enumerate(first.cots):
        if c is not None:
            writer.put("%s.cot.%d" % (name, k), c)
            writer.put("%s.moment.out.%d" % (name, k), moments([r.out[k].detach() for r in runs]))
    for k in first.gin:
        writer.put("%s.moment.gin.%s" % (name, k), moments([r.gin[k] for r in runs]))
    return len(first.out)


def put_run(writer, run, name):
    for k, t in enumerate(run.out):
        if t is not None:
            writer.put("%s.out.%d" % (name, k), t)
        if run.cots[k] is not None:
            writer.put("%s.cot.%d" % (name, k), run.cots[k])
    for kind, tensors in (("gin", run.gin), ("grad", run.grad), ("after", run.changed())):
        for k, t in tensors.items():
            writer.put("%s.%s.%s" % (name, kind, k), t)


def check_error(case, make, values):
    stage = "make"
    try:
        module = getattr(torch.nn, case.cls)(**{k: build(v) for k, v in make.items()})
        stage = "call"
        case.run(module, values)
    except Exception:  # any kind of error will do: cairn has its own kinds
        if stage == case.error:
            return
        raise
    raise RuntimeError("%s: PyTorch takes it" % case.label)


def counted(case, module, values):
    with FlopCounterMode(display=False) as counter:
        case.run(copy.deepcopy(module).eval(), values)
    return counter.get_total_flops() // 2


def put_case(writer, case, number):
    make, values = drawn(case, case.make, "make"), drawn(case, case.call, "call")
    name = str(number)
    entry = {"label": case.label, "class": case.cls,
             "make": {k: writer.json(v, "%s.make.%s" % (name, k)) for k, v in make.items()},
             "call": {k: writer.json(v, "%s.call.%s" % (name, k)) for k, v in values.items()}}
    if case.error:
        check_error(case, make, values)
        return {**entry, "error": case.error}
    torch.manual_seed(case.seed("init"))
    module = getattr(torch.nn, case.cls)(**{k: build(v) for k, v in make.items()})
    if case.move:
        moved(module, case)
    state = module.state_dict()
    for k, v in state.items():
        writer.put("%s.state.%s" % (name, k), v)
    Run.before = {k: v.clone() for k, v in state.items()}
    entry.update(state=list(state), parameters=[k for k, _ in module.named_parameters()])
    usual = {"fixed": [], "tol": 1e-5, "modes": ["train", "eval"], "random": False}
    entry.update({k: v for k, v in (("fixed", sorted(case.fixed)), ("tol", case.tol), ("modes", list(case.modes)),
                                    ("random", case.random)) if v != usual[k]})
    if case.text:
        entry["text"] = repr(module)
    if case.work:
        entry["work"] = counted(case, module, values) if case.work is True else case.work
    put_modes(writer, case, entry, module, values, name)
    return entry


def put_modes(writer, case, entry, module, values, name):
    runs = {mode: Run(case, module, values, mode) for mode in case.modes if not (case.random and mode == "train")}
    results = max([len(r.out) for r in runs.values()] or [0])
    if len(runs) == 2 and runs["train"].equals(runs["eval"]):
        entry["same"] = True  # eval mode is compared with train mode's values
        del runs["eval"]
    for mode, run in runs.items():
        put_run(writer, run, "%s.%s" % (name, mode))
    if case.random and "train" in case.modes:
        results = max(results, put_random(writer, case, module, values, name + ".train"))
    if results > 1:
        entry["results"] = results


# ---- files ----

def write(path, tensors, metadata):
    """A safetensors file; the format is simple enough to need no library."""
    header, data = {"__metadata__": metadata}, bytearray()
    for name, t in tensors.items():
        raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        header[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_family(family):
    cases = importlib.import_module("cases_" + family).CASES
    writer, entries, seen = Writer(), [], set()
    for i, case in enumerate(cases):
        if case.label in seen:
            raise RuntimeError("%s: stands twice" % case.label)
        seen.add(case.label)
        try:
            entries.append(put_case(writer, case, i))
        except Exception as e:
            raise RuntimeError("%s: %s" % (case.label, e)) from e
    # Wide tensors first, so that all of them are aligned.
    tensors = dict(sorted(writer.tensors.items(), key=lambda x: -x[1].element_size()))
    path = HERE / "golden" / (family + ".safetensors")
    write(path, tensors, {"cases": json.dumps(entries, separators=(",", ":")), "torch": torch.__version__})
    print("%s: %d cases, %d tensors, %d bytes" % (path.name, len(entries), len(tensors), path.stat().st_size))


def families():
    return sorted(p.stem[len("cases_"):] for p in HERE.glob("cases_*.py"))


def missing():
    made = {c.cls for f in families() for c in importlib.import_module("cases_" + f).CASES}
    for name in sorted(set(torch.nn.modules.__all__) - made):
        print(name)


def main():
    sys.path[:0] = [str(HERE)]
    sys.modules["golden"] = sys.modules["__main__"]  # the cases import from here
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--missing"]:
        return missing()
    for family in sys.argv[1:] or families():
        make_family(family)


if __name__ == "__main__":
    main()
