"""Writes dtype_cases.inc: what PyTorch's casts and promote_types answer.

    python tests/golden/dtype_cases.py > tests/golden/dtype_cases.inc

For each pair of types it converts the same made-up bit patterns that tests/unit/test_dtype.c makes up and
keeps one number per pair: a sum over mixed results, in which all NaNs count as one.
"""
import numpy as np
import torch

NAMES = ("BOOL U8 I8 I16 I32 I64 U16 U32 U64 F16 BF16 F32 F64 "
         "F8E4M3 F8E5M2 F8E4M3FNUZ F8E5M2FNUZ F8E8M0").split()
TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
         torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
         torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
         torch.float8_e8m0fnu]
COUNT = 65536
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def patterns(dtype):
    """All patterns of narrow types, mixed ones of wide types; the upper half of those is shifted to
    make small integers (and small floats) common."""
    i = np.arange(COUNT, dtype=np.uint64)
    size = dtype.itemsize
    if dtype == torch.bool:
        x = i & np.uint64(1)
    elif size <= 2:
        x = i
    else:
        x = mix(i + np.uint64(1)) >> np.uint64(64 - 8 * size)
        half = i >= COUNT // 2
        x = np.where(half & (not dtype.is_floating_point), x >> (i % np.uint64(8 * size)), x)
    return torch.from_numpy(x.astype(BITS[size]).view(np.uint8)).view(dtype)


def tame(x, to):
    """Float to integer is defined by the language in a range only; leave that range to the C tests."""
    if not x.dtype.is_floating_point or to.is_floating_point or to == torch.bool:
        return x
    wide = x.double()
    bad = ~torch.isfinite(wide) | (wide.abs() >= 2.0**31)
    return torch.where(bad, torch.full_like(wide, 1.0), wide).to(x.dtype)


def checksum(x):
    bits = torch.empty(0) if x.numel() == 0 else x.contiguous().view(torch.uint8).numpy()
    token = bits.view(BITS[x.dtype.itemsize]).astype(np.uint64)
    if x.dtype.is_floating_point:
        token = np.where(torch.isnan(x.double()).numpy(), np.uint64(0xFFFFFFFFFFFFFFFF), token)
    i = np.arange(COUNT, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return int(mix(token ^ i).sum(dtype=np.uint64))


def main():
    version = torch.__version__.split("+")[0]
    print("/* Made by tests/golden/dtype_cases.py with PyTorch %s; do not edit. */" % version)
    print("static const struct cast_case {\n  cn_dtype from, to;\n  uint64_t sum;\n} cast_cases[] = {")
    for a, ta in zip(NAMES, TYPES):
        for b, tb in zip(NAMES, TYPES):
            try:
                result = tame(patterns(ta), tb).to(tb)
            except (RuntimeError, NotImplementedError):
                continue
            print("    {CN_%s, CN_%s, UINT64_C(0x%016x)}," % (a, b, checksum(result)))
    print("};\n")
    print("static const struct promote_case {\n  cn_dtype a, b, result;\n} promote_cases[] = {")
    for a, ta in zip(NAMES, TYPES):
        for b, tb in zip(NAMES, TYPES):
            try:
                result = NAMES[TYPES.index(torch.promote_types(ta, tb))]
            except (RuntimeError, ValueError):
                continue
            print("    {CN_%s, CN_%s, CN_%s}," % (a, b, result))
    print("};")


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        main()
