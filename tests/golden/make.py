"""Writes tests/golden/FAMILY.golden: what PyTorch returns for every sample in tests/ops/FAMILY.samples.

    python tests/golden/make.py [FAMILY...]          (needs torch and numpy)

Lines that begin with "! " must fail in PyTorch too, and are not stored. Layout of a golden file, little-endian:

    "CNGOLD02", u32 record count
    record: u64 hash of the line, u8 status (0 values, 2 shapes and types only, 3 nothing), u8 flags (1: any dtype),
            u8 results, u8 gradients, then that many tensors
    tensor: u8 dtype (enum cn_dtype; 0: absent, 255: not known), u8 ndim, u8 flags (1: channels-last), u8 0, u32 per dim,
            elements in row-major order (left out where the status is 2)
"""
import pathlib
import struct
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tools")]

import oracle  # noqa: E402
import samples  # noqa: E402
from opsig import read_ops  # noqa: E402

# The order of enum cn_dtype.
CODES = ["none", "bool", "u8", "i8", "i16", "i32", "i64", "u16", "u32", "u64", "f16", "bf16", "f32", "f64",
         "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2", "c64", "c128"]
CODE_OF = {samples.DTYPES[n]: i for i, n in enumerate(CODES) if n in samples.DTYPES}


def tensor_bytes(t, with_values):
    if t is None or t is oracle.UNKNOWN:
        return bytes([0 if t is None else 255, 0, 0, 0])
    t = t.detach()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = t.dim() in formats and t.is_contiguous(memory_format=formats[t.dim()]) and not t.is_contiguous()
    out = struct.pack("<BBBB%dI" % t.dim(), CODE_OF[t.dtype], t.dim(), int(last), 0, *t.shape)
    if with_values and t.numel():
        flat = torch.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1))
        out += flat.view(torch.uint8).numpy().tobytes()
    return out


def record_bytes(sample, result):
    with_values = result.status == oracle.VALUES
    head = struct.pack("<QBBBB", sample.hash, result.status, int(result.any_dtype), len(result.outputs),
                       len(result.gradients))
    return head + b"".join(tensor_bytes(t, with_values) for t in result.outputs + result.gradients)


def make_family(path, ops):
    family = path.name.split(".")[0]
    records, bad, seen = [], [], {}
    for s in samples.read(path, family):
        where = "%s:%d: %s" % (path.name, s.number, s.text)
        if s.text in seen:
            bad.append("%s: stands already in line %d" % (where, seen[s.text]))
        seen[s.text] = s.number
        if s.name not in ops:
            bad.append("%s: no such op" % where)
            continue
        try:
            result = oracle.evaluate(s, ops[s.name])
            if s.must_fail and not s.torch_accepts:
                bad.append("%s: PyTorch accepts it" % where)
            if not s.must_fail:
                records.append(record_bytes(s, result))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError, AttributeError,
                samples.Bad) as e:
            if not s.must_fail:
                bad.append("%s: %s: %s" % (where, type(e).__name__, str(e).split("\n")[0]))
    data = b"CNGOLD02" + struct.pack("<I", len(records)) + b"".join(records)
    (HERE / (family + ".golden")).write_bytes(data)
    print("%-12s %4d records, %7d bytes" % (family, len(records), len(data)))
    return bad


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.sparse.check_sparse_tensor_invariants.enable()  # an index that points outside is an error here, no crash
    ops = {op.name: op for op in read_ops(str(ROOT))}
    wanted = sys.argv[1:]
    bad = []
    for path in sorted((ROOT / "tests" / "ops").glob("*.samples")):
        if not wanted or path.name.split(".")[0] in wanted:
            bad += make_family(path, ops)
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
