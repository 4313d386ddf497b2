"""From an OpInfo entry to the calls of the package under test: function, method, in-place form, operator.

Most entries are `module.NAME` by their own dotted name. The tables below hold the others: OpInfo's names whose
entry is a lambda (methods, properties, swapped arguments, fillers such as `uniform_`). A name that the package
does not have raises `Missing`. Entries are called as OpInfo calls them: f(input, *args, **kwargs).
"""
import operator

import torch


class Missing(Exception):
    """The package has no such name."""


# OpInfo names that are methods only.
METHODS = set("""contiguous sum_to_size expand expand_as to reshape_as view view_as bfloat16 bool byte char
    double float half int long short cfloat cdouble chalf new_zeros new_ones new_empty new_empty_strided new_full unfold
    repeat item""".split())
PROPERTIES = {"T", "mT", "H", "mH"}
# Fillers: the entry is the in-place method; (name, variant) or name.
FILLERS = {"cauchy", "exponential", "geometric", "log_normal", "uniform", ("normal", "in_place")}
# Operators written from the right: the method a class needs so that Python finds it.
REFLECTED = {"__rdiv__": ["__rdiv__", "__rtruediv__"]}
RANDOM = set("""bernoulli multinomial normal uniform exponential cauchy geometric log_normal randn rand_like
    randn_like randint randint_like nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.alpha_dropout nn.functional.feature_alpha_dropout nn.functional.rrelu""".split())
# Random unless the windows' places are given.
FRACTIONAL = {"nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"}
# Entries of PyTorch's database that nothing can be compared with here, and why.
UNTRIED = {name: why for why, names in {
    "its code is CUDA's, compiled by NVRTC": """jiterator_unary jiterator_binary jiterator_binary_return_by_ref
        jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args""",
    "PyTorch has it on GPUs alone": """torch.ops.aten._flash_attention_forward torch._scaled_mm_v2
        torch.ops.aten._efficient_attention_forward""",
}.items() for name in names.split()}
# Results whose contents are not defined.
UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}


def find(module, dotted):
    """module.a.b for "a.b", or Missing."""
    at = module
    for part in dotted.split("."):
        at = getattr(at, part, None)
        if at is None:
            raise Missing(dotted)
    return at


def slice_form(tensor, dim=0, start=None, end=None, step=1):
    """`slice` has no function in torch's Python: it is indexing along one dimension."""
    dim = dim + tensor.dim() if dim < 0 else dim
    return tensor[(slice(None),) * dim + (slice(start, end, step),)]


def swapped(name):
    """f(x, n, ...) for a function called as f(n, x, ...)."""
    def make(module):
        target = find(module, name)
        return lambda x, other, **kwargs: target(other, x, **kwargs)
    return make


def where_form(module):
    target = find(module, "where")
    return lambda self, condition, other, **kwargs: target(condition, self, other, **kwargs)


def max_pool2d_backward_form(module):
    """The entry is the gradient of a pool whose every result has the gradient 1."""
    pool = find(module, "nn.functional.max_pool2d_with_indices")
    back = find(module, "max_pool2d_with_indices_backward")

    def call(x, kernel_size=(), stride=(), padding=(0,), dilation=(1,), ceil_mode=False, **_):
        def numbers(value):
            return [value] if isinstance(value, int) else list(value)
        out, indices = pool(x, kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
                            return_indices=True)
        step = numbers(kernel_size if stride is None else stride)
        return back(module.ones_like(out), x, numbers(kernel_size), step, numbers(padding), numbers(dilation),
                    ceil_mode, indices)
    return call


def resized(module):
    tensor_method(module, "resize_")
    return lambda x, *args, **kwargs: x.clone().resize_(*args, **kwargs)


def resized_as(module):
    tensor_method(module, "resize_as_")
    return lambda x, other, **kwargs: x.clone().resize_as_(other, **kwargs)


def low_rank(name):
    """The entry gives the matrix by two factors."""
    def make(module):
        target = find(module, name)
        return lambda a, b, **kwargs: target(a @ b.mT, **kwargs)
    return make


def other_name(name):
    return lambda module: find(module, name)


def zero_form(module):
    tensor_method(module, "zero_")
    return lambda x: x.clone().zero_()


def normal_number_mean(module):
    target = find(module, "normal")
    return lambda std, mean, *args, **kwargs: target(mean, std, *args, **kwargs)


def lstsq_form(module):
    target = find(module, "linalg.lstsq")
    return lambda a, b, driver: target(a, b, driver=driver)[:2]


def pinv_singular(module):
    target = find(module, "linalg.pinv")
    return lambda a, b: target(a @ b.mT)


# (name) or (name, variant) -> a function of the module that gives the call.
FORMS = {
    "slice": lambda module: slice_form,
    "where": where_form,
    "einsum": swapped("einsum"),
    "polygamma": swapped("polygamma"),
    "special.polygamma": swapped("special.polygamma"),
    "nn.functional.embedding": swapped("nn.functional.embedding"),
    "nn.functional.embedding_bag": swapped("nn.functional.embedding_bag"),
    "zero_": zero_form,
    "max_pool2d_with_indices_backward": max_pool2d_backward_form,
    "resize_": resized,
    "resize_as_": resized_as,
    "svd_lowrank": low_rank("svd_lowrank"),
    "pca_lowrank": low_rank("pca_lowrank"),
    "_segment_reduce": other_name("segment_reduce"),
    "torch._scaled_mm": other_name("_scaled_mm"),
    "torch.ops.aten._safe_softmax.default": other_name("_safe_softmax"),
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu":
        other_name("_scaled_dot_product_flash_attention_for_cpu"),
    ("normal", "number_mean"): normal_number_mean,
    ("linalg.lstsq", "grad_oriented"): lstsq_form,
    ("linalg.pinv", "singular"): pinv_singular,
}


def tensor_method(module, name):
    """The unbound method, so that an absent one is found before any call."""
    return find(module.Tensor, name)


def function(module, op):
    """The call that the entry stands for."""
    name, key = op.name, (op.name, op.variant_test_name)
    make = FORMS.get(key) or FORMS.get(name)
    if make is not None:
        return make(module)
    if key in FILLERS or name in FILLERS:
        return tensor_method(module, name + "_")
    if name in PROPERTIES:
        tensor_method(module, name)
        return lambda x: getattr(x, name)
    if name in METHODS:
        return tensor_method(module, name)
    if name.startswith("__"):
        for candidate in REFLECTED.get(name, [name]):
            if hasattr(module.Tensor, candidate):
                return getattr(module.Tensor, candidate)
        raise Missing(name)
    return find(module, name)


def variant_name(variant, name):
    """The attribute of torch.Tensor that a variant of OpInfo is, or None."""
    if variant is None:
        return None
    own = getattr(variant, "__name__", "")
    if own and getattr(torch.Tensor, own, None) is variant:
        return own
    return name if hasattr(torch.Tensor, name) else None


def method(module, op):
    """(name, call) of the method variant; None where the entry has none beyond the function itself."""
    name = variant_name(op.method_variant, op.name)
    if name is None or name in METHODS or name.startswith("__") or op.name in PROPERTIES:
        return None
    return f"Tensor.{name}", tensor_method(module, name)


def inplace(module, op):
    """(name, call) of the in-place variant: a method, or a keyword for nn.functional."""
    if op.inplace_variant is None or op.name == "zero_":
        return None
    if op.name.startswith("nn.functional."):
        target = find(module, op.name)
        return f"{op.name}(inplace=True)", lambda x, *args, **kwargs: target(x, *args, inplace=True, **kwargs)
    name = variant_name(op.inplace_variant, op.name + "_")
    return None if name is None else (f"Tensor.{name}", tensor_method(module, name))


def torch_inplace(op):
    return op.inplace_variant


def operators(op):
    """The operators of Python that the entry names: [(name, call)], the in-place one last."""
    found = []
    for variant in (op.operator_variant, op.inplace_operator_variant):
        if variant is not None and getattr(operator, getattr(variant, "__name__", ""), None) is variant:
            found.append((f"operator.{variant.__name__}", variant))
    return found


def is_random(op, sample=None):
    """Whether results are drawn: such results are judged by shape, dtype and distribution."""
    name = op.name
    if name in RANDOM:
        return True
    if sample is not None and name in FRACTIONAL:
        return sample.kwargs.get("_random_samples") is None
    if sample is not None and name == "svd_lowrank":       # of full rank: what is left depends on what was drawn
        return sample.kwargs.get("M") is not None
    if sample is not None and name == "nn.functional.scaled_dot_product_attention":
        return float(sample.kwargs.get("dropout_p", 0.0)) > 0.0
    if sample is not None and name == "nn.functional.multi_head_attention_forward":
        return bool(sample.kwargs.get("training", True)) and float(sample.args[9]) > 0.0
    return False
