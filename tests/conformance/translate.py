"""Carries values between torch and the package under test, both ways.

A `Translator` belongs to one package (`cairn`, or torch itself when the harness is tested). It copies tensors
with their strides and offset, keeps one object for a tensor that occurs twice, and remembers which tensors ask
for a gradient. What has no counterpart (sparse layouts, other devices, modules) raises
`Untranslatable`, and the caller leaves that sample out.
"""
import numbers

import torch

EIGHT_BITS = {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
LARGEST = 1 << 28      # bytes of one storage; a sample beyond it is left out


class Untranslatable(Exception):
    """The value has no counterpart in the package under test."""


def twin(tensor):
    """A copy of a torch tensor over a storage of its own: same strides, offset and overlaps."""
    tensor = tensor.detach()
    tensor = tensor.resolve_neg().resolve_conj()
    storage = tensor.untyped_storage()
    if storage.nbytes() > LARGEST:
        raise Untranslatable("a tensor too large to copy")
    copy = torch.empty(0, dtype=tensor.dtype)
    return copy.set_(storage.clone(), tensor.storage_offset(), tensor.shape, tensor.stride())


def plain(tensor):
    """Whether a torch tensor is one that any package of dense tensors can hold."""
    return (tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
            and not tensor.is_nested)


def overlaps(tensor):
    """Whether two elements share one place, so that the result of writing depends on the order."""
    if tensor.numel() <= 1 or tensor.is_contiguous() or tensor.numel() > 100000:
        return False
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride()):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < tensor.numel()


def dtype_name(value):
    return str(value).rsplit(".", maxsplit=1)[-1]


class Translator:
    """Translates the values of one call; `pairs` lists (torch tensor, its translation) in the order met."""

    device = None      # where the package's tensors lie; None: on the CPU, as torch's

    def __init__(self, module):
        self.module = module
        self.pairs = []
        self.seen = {}

    # ---- there ----
    def tensor(self, value):
        if id(value) in self.seen:
            return self.seen[id(value)]
        if not plain(value) or not hasattr(self.module, dtype_name(value.dtype)):
            raise Untranslatable(f"a tensor of {value.dtype}, {value.layout} on {value.device}")
        copy = twin(value)
        made = copy if self.module is torch else self.carried(copy)
        if value.requires_grad:
            made.requires_grad_(True)
        self.seen[id(value)] = made
        self.pairs.append((value, made))
        return made

    def carried(self, copy):
        """The package's tensor over the memory of the copy; one that begins inside its storage stays so."""
        if copy.dtype in EIGHT_BITS:
            return self.carried(copy.view(torch.uint8)).view(getattr(self.module, dtype_name(copy.dtype)))
        if copy.storage_offset() == 0 and not self.device:
            return self.module.from_dlpack(copy)
        whole = torch.empty(0, dtype=copy.dtype).set_(copy.untyped_storage())
        whole = self.module.from_dlpack(whole)
        if self.device:
            whole = whole.to(self.device)
        return whole.as_strided(tuple(copy.shape), copy.stride(), copy.storage_offset()).detach()

    def callable(self, value):
        """A function of torch becomes the function of the same name; a class of Python stays."""
        if self.module is torch or value in (int, float, bool, complex):
            return value
        path = getattr(value, "__module__", "") or ""
        name = getattr(value, "__name__", "")
        if path.startswith("torch") and name.isidentifier():
            found = self.module
            for part in [*path.split(".")[1:], name]:
                found = getattr(found, part, None)
            if found is not None:
                return found
        raise Untranslatable(f"a callable, {name or type(value).__name__}")

    def value(self, value):
        module = self.module
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if value is None or isinstance(value, (str, bool, int, float, complex)) or value is Ellipsis:
            return value
        if isinstance(value, torch.dtype):
            return self.named(dtype_name(value), value)
        if isinstance(value, torch.memory_format):
            return self.named(dtype_name(value), value)
        if isinstance(value, torch.layout):
            if value is not torch.strided:
                raise Untranslatable(f"the layout {value}")
            return self.named("strided", value)
        if isinstance(value, torch.device):
            return module.device(str(value) if module is torch or not self.device else self.device)
        if isinstance(value, torch.Generator):
            made = module.Generator()
            made.manual_seed(value.initial_seed())
            return made
        if isinstance(value, slice):
            return slice(self.value(value.start), self.value(value.stop), self.value(value.step))
        if isinstance(value, torch.Size):
            return value if module is torch else tuple(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.value, value))
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.value, value)) if type(value) in (list, tuple) else tuple(
                map(self.value, value))
        if isinstance(value, dict):
            return {key: self.value(v) for key, v in value.items()}
        if isinstance(value, torch.nn.Module):
            if module is torch:
                return value
            raise Untranslatable("a module")
        if callable(value):
            return self.callable(value)
        if isinstance(value, (numbers.Number, range, set, frozenset)) or type(value).__module__ == "numpy":
            return value
        if module is torch:
            return value
        raise Untranslatable(f"a {type(value).__name__}")

    def named(self, name, value):
        if self.module is torch:
            return value
        found = getattr(self.module, name, None)
        if found is None:
            raise Untranslatable(str(value))
        return found

    def sample(self, sample):
        """(input, args, kwargs) of an OpInfo sample."""
        return self.value(sample.input), self.value(tuple(sample.args)), self.value(dict(sample.kwargs))

    # ---- and back ----
    def is_tensor(self, value):
        return isinstance(value, self.module.Tensor)

    def back(self, value):
        """The torch copy of a tensor of the package, without history."""
        value = value.detach()
        if self.module is torch:
            return value.clone()
        name = dtype_name(value.dtype)
        if name.startswith("float8"):
            return torch.from_dlpack(value.cpu().view(self.module.uint8)).clone().view(getattr(torch, name))
        return torch.from_dlpack(value.cpu()).clone()


class SparseTranslator(Translator):
    """The same, which knows sparse layouts: their parts are carried and put together again."""

    def tensor(self, value):
        if value.layout is torch.strided or id(value) in self.seen:
            return super().tensor(value)
        made = sparse_twin(self.module, value, lambda part: Translator.tensor(Translator(self.module), part.detach()))
        if value.requires_grad:
            made.requires_grad_(True)
        self.seen[id(value)] = made
        self.pairs.append((value, made))
        return made

    def value(self, value):
        if isinstance(value, torch.layout):
            return self.named(dtype_name(value), value)
        return super().value(value)


def sparse_twin(module, value, carry):
    """A sparse tensor of the module with the parts of torch's, each carried over."""
    shape = tuple(value.shape)
    if value.layout is torch.sparse_coo:
        return module.sparse_coo_tensor(carry(value._indices()), carry(value._values()), shape,
                                        is_coalesced=value.is_coalesced())
    rows = value.layout in (torch.sparse_csr, torch.sparse_bsr)
    index, plain = (value.crow_indices(), value.col_indices()) if rows else (value.ccol_indices(), value.row_indices())
    return module.sparse_compressed_tensor(carry(index), carry(plain), carry(value.values()), shape,
                                           layout=getattr(module, dtype_name(value.layout)))
