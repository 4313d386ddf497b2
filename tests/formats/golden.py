#!/usr/bin/env python3
"""Makes the files in tests/formats/golden with PyTorch, NumPy and safetensors: files that cairn must read, with what is
in them (NAME.expected, see listing.py), and hostile ones that it must refuse (bad/, with a part of the message for each
in bad.txt).

usage: tests/formats/golden.py      (with a Python that has torch, numpy, safetensors and ml_dtypes)
"""
import collections
import gzip
import io
import json
import pathlib
import pickle
import shutil
import struct
import tarfile
import warnings
import zipfile
import zlib

import ml_dtypes
import numpy as np
import safetensors.torch
import torch

import listing

OUT = pathlib.Path(__file__).parent / "golden"
BAD = OUT / "bad"
messages = {}
warnings.simplefilter("ignore")


def good(name, data, value):
    (OUT / name).write_bytes(data)
    (OUT / (name + ".expected")).write_text(listing.text(value), encoding="utf-8")


def bad(name, data, message):
    (BAD / name).write_bytes(data)
    messages[name] = message


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


# ---- safetensors ----
def header(entries, data=b""):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(1,), at=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}


def all_types():
    torch.manual_seed(0)
    floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
              torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
    ints = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
    tensors = {str(t)[6:]: torch.randn(2, 3).abs().to(t) for t in floats}
    tensors |= {str(t)[6:]: torch.arange(4).to(t) for t in ints}
    return tensors | {"bool": torch.tensor([True, False, True]), "scalar": torch.tensor(1.5), "empty": torch.zeros(0, 3),
                      "names/ä \"quoted\"\n": torch.ones(1)}


def safetensors_files():
    tensors = all_types()
    data = safetensors.torch.save(tensors, metadata={"format": "pt", "note": "a \"b\"\n\t\x01ü"})
    entries = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    good("types.safetensors", data, {k: v if k == "__metadata__" else tensors[k] for k, v in entries.items()})
    good("nothing.safetensors", header({}), {})
    odd = header(b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   ', struct.pack("<2f", 1, 2))
    good("unaligned.safetensors", odd, {"x": torch.tensor([1.0, 2.0])})
    good("oddbool.safetensors", header({"x": entry("BOOL", [4], [0, 4])}, b"\x00\x01\x02\xff"),
         {"x": torch.tensor([False, True, True, True])})
    four = b"\0" * 4
    bad("short.safetensors", b"\x01\0\0", "too short")
    bad("long_header.safetensors", struct.pack("<Q", 1 << 62) + b"{}", "header of more than")
    bad("cut_header.safetensors", struct.pack("<Q", 100) + b"{}", "header is cut short")
    bad("no_json.safetensors", header(b"{oops}"), "json")
    bad("list.safetensors", header(b"[{  }]"), "header is no dictionary")
    bad("twice.safetensors", header(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                                    b'"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', four), "stands twice")
    bad("overlap.safetensors", header({"x": entry(), "y": entry(at=(2, 6))}, b"\0" * 6), "overlaps another one")
    bad("gap.safetensors", header({"x": entry(), "y": entry(at=(6, 10))}, b"\0" * 10), "a gap in front")
    bad("cut.safetensors", header({"x": entry(shape=[2], at=(0, 8))}, four), "cut short")
    bad("behind.safetensors", header({"x": entry()}, four + b"x"), "something is behind")
    bad("mismatch.safetensors", header({"x": entry(shape=[2])}, four), "disagree")
    bad("overflow.safetensors", header({"x": entry(shape=[1 << 40, 1 << 40])}, four), "too large")
    bad("overflow0.safetensors", header({"x": entry(shape=[1 << 62, 1 << 62, 0], at=(0, 0))}), "too large")
    bad("negative.safetensors", header({"x": entry(shape=[-1])}, four), "no whole number")
    bad("fraction.safetensors", header({"x": entry(shape=[1.5])}, four), "no whole number")
    bad("backwards.safetensors", header({"x": entry(at=(4, 0))}, four), "not two places")
    bad("huge_offset.safetensors", header({"x": entry(at=(2 ** 64, 2 ** 64 + 4))}, four), "not two places")
    bad("dtype.safetensors", header({"x": entry("F33")}, four), "no such dtype")
    bad("dims.safetensors", header({"x": entry(shape=[1] * 17)}, four), "more dimensions")
    bad("metadata.safetensors", header({"__metadata__": {"a": 1}}), "dictionary of texts")
    bad("no_shape.safetensors", header({"x": {"dtype": "F32", "data_offsets": [0, 4]}}, four), "shape is missing")
    bad("utf8.safetensors", header(b'{"\xff":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', four), "bad key")


# ---- NumPy ----
def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def raw_npy(text, data=b"", version=1):
    text = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def zipped(entries, method=zipfile.ZIP_STORED, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in entries.items():
            with z.open(zipfile.ZipInfo(name) if method == zipfile.ZIP_STORED else name, "w", **options) as f:
                f.write(data)
    return out.getvalue()


def numpy_files():
    rng = np.random.default_rng(0)
    arrays = {t: rng.integers(0, 100, (2, 3)).astype(t) for t in
              ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
               "float64"]}
    arrays["scalar"] = np.array(2.5)
    arrays["row"] = np.arange(5)
    arrays["empty"] = np.zeros((0, 2), np.float32)
    arrays["fortran"] = np.asfortranarray(rng.normal(size=(3, 4, 2)))
    arrays["big"] = rng.normal(size=(2, 3)).astype(">f4")
    arrays["bigfortran"] = np.asfortranarray(rng.integers(0, 9999, (2, 3)).astype(">i8"))
    out = io.BytesIO()
    np.savez(out, **arrays)
    good("types.npz", out.getvalue(), arrays)
    out = io.BytesIO()
    np.savez_compressed(out, zeros=np.zeros(20000, np.float32), noise=rng.integers(0, 255, 700).astype(np.uint8), **arrays)
    good("packed.npz", out.getvalue(), dict(np.load(io.BytesIO(out.getvalue()))))
    for version in ((1, 0), (2, 0), (3, 0)):
        good(f"version{version[0]}.npy", npy(arrays["float32"], version), arrays["float32"])
    good("spaces.npy", raw_npy('{"shape":(2L,), "fortran_order" : False,"descr":"<i2"}', b"\1\0\2\0"),
         np.array([1, 2], np.int16))
    good("large.npz", zipped({"x.npy": npy(arrays["row"])}, force_zip64=True), {"x": arrays["row"]})
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n"
    four = b"\0" * 4
    bad("object.npy", npy(np.array([1, None], object)), "never read")
    bad("bfloat.npy", npy(np.ones(2, ml_dtypes.bfloat16)), "raw bytes")
    bad("text.npy", npy(np.array(["a"])), "text is not read")
    bad("records.npy", npy(np.zeros(2, [("a", "f4")])), "records")
    bad("cut.npy", npy(arrays["float32"])[:-1], "cut short")
    bad("behind.npy", npy(arrays["float32"]) + b"x", "something is behind")
    bad("huge.npy", raw_npy(head % "(4611686018427387904, 4)", four), "too large")
    bad("digits.npy", raw_npy(head % "(99999999999999999999,)", four), "shape is damaged")
    bad("negative.npy", raw_npy(head % "(-1,)", four), "shape is damaged")
    bad("dims.npy", raw_npy(head % str((1,) * 17), four), "shape is damaged")
    bad("call.npy", raw_npy("__import__('os').system('true')", four), "no dictionary")
    bad("keys.npy", raw_npy("{'descr': '<f4', 'descr': '<f4'}", four), "other keys")
    bad("lacks.npy", raw_npy("{'descr': '<f4'}", four), "lacks")
    bad("version.npy", raw_npy(head % "(1,)", four, 9), "version")
    bad("header.npy", b"\x93NUMPY\2\0\xff\xff\xff\xff{}", "too long")
    bad("other.npz", zipped({"x.txt": b"hello"}), "is no array")


# ---- zip ----
def zip_files():
    array = npy(np.arange(4))
    plain = zipped({"x.npy": array})
    packed = zipped({"x.npy": npy(np.zeros(1000))}, zipfile.ZIP_DEFLATED)

    def patched(data, at, new):
        return data[:at] + new + data[at + len(new):]
    end = plain.rindex(b"PK\5\6")
    central = plain.index(b"PK\1\2")
    bad("cut.npz", plain[:-30], "directory is missing")
    bad("crc.npz", patched(plain, central - 1, b"\x55"), "checksum is wrong")
    bad("local.npz", patched(plain, 30, b"y"), "another name")
    bad("encrypted.npz", patched(plain, central + 8, b"\1"), "encrypted")
    bad("outside.npz", patched(plain, end + 16, b"\xff\xff\xff\x7f"), "outside")
    bad("entry_outside.npz", patched(plain, central + 42, b"\xff\xff\xff\x7f"), "not where")
    bad("sizes.npz", patched(plain, central + 24, b"\xff\xff\xff\x7f"), "changes its size")
    bad("count.npz", patched(plain, end + 10, b"\xff\x7f"), "too short")
    bad("zip64.npz", patched(plain, end + 16, b"\xff\xff\xff\xff"), "outside")
    bad("disks.npz", patched(plain, end + 4, b"\1"), "several disks")
    size = packed.index(b"PK\1\2") + 24
    bad("claims.npz", patched(packed, size, b"\xff\xff\xff\x7f"), "more than it can")
    bad("smaller.npz", patched(packed, size, b"\x10\x00\x00\x00"), "more than it says")
    bad("larger.npz", patched(packed, size, struct.pack("<I", 9000)), "sizes are wrong")
    bad("deflate.npz", patched(packed, 40, b"\xff\xff\xff\xff"), "damaged")
    bad("bzip2.npz", zipped({"x.npy": array}, zipfile.ZIP_BZIP2), "method 12")
    two = zipped({"x.npy": array, "y.npy": array})
    second = two.rindex(b"PK\1\2")
    bad("overlap.npz", patched(two, second + 42, b"\0\0\0\0"), "another name")
    with warnings.catch_warnings():
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("x.npy", array)
            z.writestr("x.npy", array)
    bad("twice.npz", out.getvalue(), "stands twice")
    bad("bomb.npz", bomb(), "overlaps another one")
    # The end record in its larger form, though it need not be.
    begin = plain.index(b"PK\1\2")
    record = plain[begin:end]
    wide = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, len(record), begin)
    locator = struct.pack("<IIQI", 0x07064b50, 0, end, 1)
    tail = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
    good("zip64.npz", plain[:end] + wide + locator + tail, {"x": np.arange(4)})
    bad("locator.npz", plain[:end] + wide + struct.pack("<IIQI", 0x07064b50, 0, end + 7, 1) + tail, "zip64 end record")
    good("comment.npz", patched(plain, end + 20, b"\5\0") + b"hello", {"x": np.arange(4)})


def bomb():
    """Many directory entries that unpack the same bytes: each one's data begins inside the one before."""
    body = zlib.compress(b"\0" * 100000, 9)[2:-4]
    locals_, central = b"", b""
    count = 3
    kernel = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 8, 0, 33, 0, len(body), 100000, 5, 0)
    for i in range(count):
        name = f"{i}.npy".encode()
        at = len(locals_)
        locals_ += kernel + name
        rest = (count - 1 - i) * (len(kernel) + 5) + len(body)
        central += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 33, 0, rest, 100000, 5, 0, 0, 0, 0, 0,
                               at) + name
    at = len(locals_) + len(body)
    return locals_ + body + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(central), at, 0)


# ---- PyTorch ----
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.norm = torch.nn.BatchNorm2d(2)
        self.head = torch.nn.Linear(4, 3)


class Bare(torch.nn.Module):
    pass


def training():
    torch.manual_seed(1)
    net = Net()
    optimiser = torch.optim.Adam([{"params": net.conv.parameters()}, {"params": net.head.parameters(), "lr": 0.5}])
    sum(p.sum() for p in net.parameters()).backward()
    optimiser.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [2, 4, 4])
    return {"model": net.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict(), "epoch": 3}


def mixed():
    base = torch.arange(24.0).reshape(4, 6)
    state = all_types()
    state["names"] = {"a": state.pop("names/ä \"quoted\"\n")}
    return {"tensors": state, "base": base, "row": base[1], "column": base[:, 2], "turned": base.t(), "again": base,
            "expanded": torch.ones(1, 3).expand(2, 3), "parameter": torch.nn.Parameter(base[:2]),
            "last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
            "none": None, "yes": True, "no": False, "small": 7, "negative": -5, "large": 1 << 40, "least": -(1 << 63),
            "float": 0.1, "inf": float("-inf"), "text": "ä\n\"x\"", "list": [1, [2, (3,)], ()], "size": torch.Size([2, 3]),
            "dtype": torch.float16, "device": torch.device("cuda:1"), "cpu": torch.device("cpu"),
            "layout": torch.strided, "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
            "counter": collections.Counter([1, 1, 2]), "default": collections.defaultdict(list, {"a": [1]}),
            "numbers": {0: "zero", -3: "minus"}, "shared": [(1, 2)] * 2}


def torch_zip(pickled, storages=None, extra=None):
    entries = {"archive/data.pkl": pickled, "archive/byteorder": b"little"}
    entries |= {f"archive/data/{k}": v for k, v in (storages or {}).items()} | {"archive/version": b"3\n"}
    return zipped(entries | (extra or {}))


def tensor(numel=4, offset=0, size=(4,), stride=(1,), key="0", cls=b"ctorch\nFloatStorage\n", part=b""):
    """The pickle of one tensor with these numbers, right or wrong."""
    def number(n):
        return b"\x8a\x09" + n.to_bytes(9, "little", signed=True) if not -2**63 <= n < 2**63 else \
            b"\x8a\x08" + n.to_bytes(8, "little", signed=True)

    def sizes(values):
        return b"(" + b"".join(number(n) for n in values) + b"t"

    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s.encode()
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + cls + text(key) + text("cpu") +
            number(numel) + part + b"tQ" + number(offset) + sizes(size) + sizes(stride) + b"\x89ccollections\nOrderedDict\n)RtR.")


def torch_files():
    good("training.pt", saved(training()), training())
    good("mixed.pt", saved(mixed()), mixed())
    legacy = {k: v for k, v in mixed().items() if k != "tensors"}
    good("legacy.pt", saved(legacy, _use_new_zipfile_serialization=False), legacy)
    good("legacy4.pt", saved(legacy, _use_new_zipfile_serialization=False, pickle_protocol=4), legacy)
    for protocol in (1, 3, 4, 5):
        good(f"protocol{protocol}.pt", saved(legacy, pickle_protocol=protocol), legacy)
    packed = zipfile.ZipFile(io.BytesIO(saved({"x": torch.ones(300)})))
    good("packed.pt", zipped({n: packed.read(n) for n in packed.namelist()}, zipfile.ZIP_DEFLATED), {"x": torch.ones(300)})
    good("storage.pt", saved(torch.arange(3.0).untyped_storage()), torch.arange(3.0).view(torch.uint8))
    data = {"0": struct.pack("<4f", 1, 2, 3, 4)}
    good("tensor.pt", torch_zip(tensor(), data), torch.tensor([1.0, 2, 3, 4]))
    good("part.pt", torch_zip(tensor(4, 1, (2,), (2,)), data), torch.tensor([2.0, 4.0]))

    good("cuda.pt", torch_zip(tensor(cls=b"ctorch.cuda\nFloatStorage\n"), data), torch.tensor([1.0, 2, 3, 4]))

    # Before release 0.4 a storage could be a part of another.
    def parts(begin, count):
        part = b"(X\x01\0\0\0vK" + bytes([begin]) + b"K" + bytes([count]) + b"t"
        first = [pickle.dumps(v, 2) for v in (0x1950a86a20f9469cfc6c, 1001, {"little_endian": True})]
        return b"".join(first) + tensor(4, 0, (2,), (1,), part=part) + pickle.dumps(["0"], 2) + struct.pack("<q", 4) + data["0"]
    good("part_legacy.pt", parts(1, 2), torch.tensor([2.0, 3.0]))
    bad("part_short.pt", parts(1, 1), "outside of its storage")
    bad("part_outside.pt", parts(3, 2), "part of a storage lies outside")

    # What must not be read.
    bad("system.pt", torch_zip(b"cposix\nsystem\n(X\x04\0\0\0truetR."), "posix.system")
    bad("eval.pt", torch_zip(b"c__builtin__\neval\n(X\x01\0\0\x001tR."), "__builtin__.eval")
    bad("getattr.pt", torch_zip(b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93(K\1tR."), "builtins.getattr")
    bad("instance.pt", torch_zip(b"(iposix\nsystem\n."), "operation 0x69")
    bad("module.pt", saved(Net()), "Net")
    with_source = saved(Bare(), _use_new_zipfile_serialization=False)
    here = str(pathlib.Path(__file__).resolve()).encode()
    bad("module_legacy.pt", with_source.replace(here, b"x" * len(here)), "holds code")
    bad("fraction.pt", saved({"x": __import__("fractions").Fraction(1, 2)}), "fractions.Fraction")
    bad("numpy.pt", saved({"x": np.float64(1)}), "NumPy")
    good("set.pt", saved({"x": {1, 2}, "none": set()}), {"x": [1, 2], "none": []})
    bad("frozen.pt", saved({"x": frozenset([1])}), "frozenset")
    bad("sparse.pt", saved(torch.eye(2).to_sparse()), "_rebuild_sparse_tensor")
    bad("quantised.pt", saved(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)), "QUInt8Storage")
    bad("sign.pt", saved(torch.ones(2, dtype=torch.complex64).conj().imag), "sign or conjugate")
    bad("keys.pt", saved({(1, 2): 3}), "keys that are neither")
    bad("big.pt", saved({"x": 1 << 70}), "more than 64 bits")
    bad("function.pt", torch_zip(b"\x80\x02cos\nsystem\n."), "os.system")
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), out)
    bad("script.pt", out.getvalue(), "TorchScript")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("sys_info"), io.BytesIO())
    bad("tar.pt", out.getvalue(), "tar archive")
    bad("plain.pt", pickle.dumps({"a": 1}), "a pickle that PyTorch did not write")
    bad("endian.pt", zipped({"archive/data.pkl": tensor(), "archive/byteorder": b"big", "archive/data/0": data["0"]}),
        "big-endian")

    # Storages and tensors that do not fit.
    bad("missing.pt", torch_zip(tensor(key="1"), data), "storage is missing")
    bad("short.pt", torch_zip(tensor(numel=5), data), "shorter than")
    bad("offset.pt", torch_zip(tensor(offset=1), data), "outside of its storage")
    bad("far.pt", torch_zip(tensor(offset=5, size=(0,)), data), "outside of its storage")
    bad("negative_offset.pt", torch_zip(tensor(offset=-1), data), "description is damaged")
    bad("negative_stride.pt", torch_zip(tensor(stride=(-1,)), data), "description is damaged")
    bad("negative_size.pt", torch_zip(tensor(size=(-1,)), data), "description is damaged")
    bad("huge_size.pt", torch_zip(tensor(size=(1 << 62, 1 << 62), stride=(0, 0)), data), "too large")
    bad("huge_stride.pt", torch_zip(tensor(size=(2,), stride=((1 << 63) - 1,)), data), "outside of its storage")
    bad("huge_storage.pt", torch_zip(tensor(numel=(1 << 63) - 1), data), "too large")
    bad("wide_numel.pt", torch_zip(tensor(numel=1 << 66), data), "description is damaged")
    bad("strides.pt", torch_zip(tensor(stride=(1, 1)), data), "description is damaged")
    bad("dims.pt", torch_zip(tensor(size=(1,) * 17, stride=(1,) * 17), data), "more dimensions")

    # Pickles that are no programs of PyTorch's.
    bad("cycle.pt", torch_zip(b"\x80\x02]q\0h\0a."), "holds itself")
    bad("cycle_dict.pt", torch_zip(b"\x80\x02}q\0K\1h\0s."), "holds itself")
    bad("deep.pt", torch_zip(b"\x80\x02" + b"]" * 300 + b"a" * 299 + b"."), "nested too deeply")
    twice = b"".join(b"0](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60))
    bad("laughs.pt", torch_zip(b"\x80\x02]q\0" + twice + b"."), "more than it should")
    long = b"X" + struct.pack("<I", 50000) + b"x" * 50000 + b"q\0"
    bad("copies.pt", torch_zip(b"\x80\x02](" + long + b"h\0" * 5000 + b"e."), "more than it should")
    bad("encodes.pt", torch_zip(b"\x80\x02](" + long + b"X\x06\0\0\0latin1q\x01" +
                                b"c_codecs\nencode\nq\x02" + b"h\x02h\0h\x01\x86R" * 5000 + b"e."), "more than it should")
    bad("underflow.pt", torch_zip(b"\x80\x02a."), "missing")
    bad("marks.pt", torch_zip(b"\x80\x02((]."), "one value")
    bad("no_mark.pt", torch_zip(b"\x80\x02]e."), "mark is missing")
    bad("memo.pt", torch_zip(b"\x80\x02h\5."), "not remembered")
    bad("memo_huge.pt", torch_zip(b"\x80\x02Nr\xff\xff\xff\xff."), "memo number")
    bad("unended.pt", torch_zip(b"\x80\x02N"), "cut short")
    bad("length.pt", torch_zip(b"\x80\x02X\xff\xff\xff\xffabc."), "cut short")
    bad("length8.pt", torch_zip(b"\x80\x02\x8d" + b"\xff" * 8 + b"abc."), "cut short")
    bad("protocol.pt", torch_zip(b"\x80\x09N."), "protocol")
    bad("odd.pt", torch_zip(b"\x80\x02}(K\1u."), "key without a value")
    bad("extension.pt", torch_zip(b"\x80\x02\x82\1."), "operation 0x82")
    whole = saved({"x": torch.arange(3.0)}, _use_new_zipfile_serialization=False)
    bad("cut_legacy.pt", whole[:-4], "cut short")
    bad("cut_legacy2.pt", whole[:60], "cut short")


def other_files():
    good("plain.json", b'\xef\xbb\xbf{"a": [1, -2.5e3, null, true, "\\u00e4\\ud83d\\ude00"], "b": {}}\n',
         {"a": [1, -2500.0, None, True, "ä😀"], "b": {}})
    bad("empty.pt", b"", "an empty file")
    bad("text.txt", b"hello", "none of the formats")
    bad("packed.gz", gzip.compress(b"hello", mtime=0), "gzip file")
    bad("hdf5.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 64, "HDF5")
    bad("deep.json", b"[" * 1000 + b"\n", "too deeply")


def gzip_files():
    """The same bytes in every form of DEFLATE; test_gzip.c knows them by their formula."""
    data = bytes((i % 251) ^ (i >> 7 & 0x3f) for i in range(50000))
    (OUT / "gzip").mkdir()

    def packed(level, strategy):
        c = zlib.compressobj(level, zlib.DEFLATED, 31, 9, strategy)
        return c.compress(data) + c.flush()
    forms = {"stored": packed(0, zlib.Z_DEFAULT_STRATEGY), "fixed": packed(9, zlib.Z_FIXED),
             "dynamic": packed(9, zlib.Z_DEFAULT_STRATEGY), "huffman": packed(6, zlib.Z_HUFFMAN_ONLY),
             "two": gzip.compress(data[:20000], mtime=0) + gzip.compress(data[20000:], mtime=0) + bytes(5)}
    out = io.BytesIO()
    with gzip.GzipFile("a name", "wb", 9, out, 0) as f:
        f.write(data)
    forms["named"] = out.getvalue()
    for name, content in forms.items():
        (OUT / "gzip" / f"{name}.gz").write_bytes(content)


def seeds():
    """What the fuzzers begin with: a few small files of each kind, and the parts that their targets take alone."""
    folder = OUT.parents[1] / "fuzz" / "seeds"
    chosen = {"json": ["plain.json"], "safetensors": ["types.safetensors", "bad/overlap.safetensors"],
              "torch": ["tensor.pt", "part.pt", "bad/cut_legacy.pt", "packed.pt"],
              "npy": ["version1.npy", "version3.npy", "spaces.npy"],
              "zip": ["zip64.npz", "large.npz", "packed.pt", "bad/bomb.npz", "bad/packed.gz"]}
    for kind, names in chosen.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(OUT / name, folder / kind / pathlib.Path(name).name)
    for name in ("mixed.pt", "training.pt", "protocol4.pt", "bad/module.pt"):
        with zipfile.ZipFile(OUT / name) as z:
            inside = next(n for n in z.namelist() if n.endswith("/data.pkl"))
            (folder / "torch" / (pathlib.Path(name).stem + ".pkl")).write_bytes(z.read(inside))
    data = (OUT / "types.safetensors").read_bytes()
    (folder / "safetensors" / "header").write_bytes(data[8:])
    (folder / "npy" / "header").write_bytes((OUT / "version1.npy").read_bytes()[10:])
    (folder / "json" / "numbers").write_bytes(b'[0, -1, 1e5, 0.5, -9223372036854775808, 1E+2, NaN, -Infinity, "\\u00e4"]')


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    BAD.mkdir(parents=True)
    safetensors_files()
    numpy_files()
    zip_files()
    torch_files()
    other_files()
    gzip_files()
    seeds()
    text = "".join(f"{name}\t{message}\n" for name, message in messages.items())
    (OUT / "bad.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
