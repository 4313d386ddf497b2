"""What PyTorch answers for a sample: results, and gradients of the sum of the results times fixed weights.

An op is found by its name (torch, torch.nn.functional by its tag, Tensor's methods); SPECIAL holds those that PyTorch
names or orders differently. Where PyTorch has no kernel for an unsigned type the sample is worked out in int64 and the
results carry no type to compare.
"""
import re

import torch
import torch.nn.functional as F

from samples import DTYPES, UNSIGNED, Bad, Literal, Word, make, weights

VALUES, SHAPES, NOTHING = 0, 2, 3  # what a golden record holds
UNKNOWN = "unknown"


class Answer:
    def __init__(self, status=VALUES):
        self.status, self.outputs, self.gradients, self.any_dtype = status, [], [], False


# ---- ops that PyTorch spells differently ----
def slice_(input, dim, start=None, end=None, step=1):
    picked = range(input.shape[dim])[slice(start, end, step)]
    return input.index_select(dim, torch.tensor(list(picked), dtype=torch.int64))


def as_number(input, x):
    return x if isinstance(x, torch.Tensor) else torch.tensor(x).to(torch.result_type(input, x))


def copy(input, src):
    return as_number(input, src).to(input.dtype).expand_as(input)


def hardsigmoid(input):
    """PyTorch's own divides by a float32 6 even in float64."""
    return (input + 3).clamp(0, 6) / 6 if input.dtype == torch.float64 else F.hardsigmoid(input)


def pointwise(inputs, program, consts):
    """Runs a program's text: inputs|constants|steps|results; a step names registers, inputs first."""
    count, numbers, steps, results = program.split("|")
    values = list(inputs)
    if int(count) != len(values):
        raise ValueError("inputs do not match")
    for n in filter(None, numbers.split(",")):
        values.append(torch.tensor(consts[int(n[1:])] if n[0] == "@" else float(n), dtype=inputs[0].dtype))
    for step in filter(None, steps.split(";")):
        name, *at = step.split()
        values.append(getattr(torch, name)(*[values[int(i)] for i in at]))
    return [torch.broadcast_to(values[int(i)], torch.broadcast_shapes(*[t.shape for t in inputs]))
            for i in results.split(",")]


def cross_entropy_rows(input, target, ignore_index, reduction):
    return F.cross_entropy(input, target, ignore_index=ignore_index, reduction=reduction), input.logsumexp(1)


def cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction):
    keep = (target != ignore_index).to(input.dtype)
    share = grad * keep / (keep.sum() if reduction == "mean" else 1)
    return (torch.exp(input - lse[:, None]) - F.one_hot(target, input.shape[1])) * share[:, None]


def max_pool2d_backward(grad, indices, input_size):
    flat = torch.zeros(*input_size[:-2], input_size[-2] * input_size[-1], dtype=grad.dtype)
    return flat.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).reshape(input_size)


def backward_of(function):
    """The gradient of a linear function of an image, as an op that can be differentiated again."""
    def run(grad, input_size, *args):
        x = torch.zeros(input_size, dtype=grad.dtype, requires_grad=True)
        return torch.autograd.grad(function(x, *args), x, grad, create_graph=True)[0]
    return run


def channels_last(input):
    return input.contiguous(memory_format=torch.channels_last if input.dim() == 4 else torch.channels_last_3d)


def embedding_grad(grad, input, num_weights, padding_idx=None):
    keep = torch.ones_like(input, dtype=grad.dtype) if padding_idx is None else (input != padding_idx).to(grad.dtype)
    zeros = torch.zeros(num_weights, grad.shape[-1], dtype=grad.dtype)
    return zeros.index_add(0, input.reshape(-1).long(), (grad * keep[..., None]).reshape(-1, grad.shape[-1]))


def conv2d_grad_input(grad, weight, input_size, stride, padding, dilation, groups):
    return torch.nn.grad.conv2d_input(input_size, weight, grad, stride, padding, dilation, groups)


def conv2d_grad_weight(grad, input, weight_size, stride, padding, dilation, groups):
    return torch.nn.grad.conv2d_weight(input, weight_size, grad, stride, padding, dilation, groups)


def sdpa_forward(query, key, value, attn_mask=None, is_causal=False, scale=None):
    """Output and the logarithm of the sums of exponentials, by the definition."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril().logical_not(), -torch.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, eps):
    dims = [d for d in range(input.dim()) if d != 1]
    mean, var = input.detach().mean(dims), input.detach().var(dims, correction=0)
    output = F.batch_norm(input, running_mean, running_var, weight, bias, training, 0.0, eps)
    return output, mean, (var + eps) ** -0.5, input.detach().var(dims)


def native_rms_norm(input, normalized_shape, weight, eps):
    dims = list(range(-len(normalized_shape), 0))
    rstd = (input.detach().square().mean(dims, keepdim=True) + eps).rsqrt()
    return F.rms_norm(input, normalized_shape, weight, eps), rstd


SPECIAL = {
    "native_batch_norm": native_batch_norm,
    "native_layer_norm": torch.native_layer_norm,
    "native_rms_norm": native_rms_norm,
    "norm": lambda input, p=2, dim=None, keepdim=False, dtype=None: torch.linalg.vector_norm(
        input, p, dim, keepdim, dtype=dtype),
    "relu6": F.relu6,
    "absolute_difference": lambda input, target: (input - target).abs(),
    "squared_difference": lambda input, target: (input - target) ** 2,
    "smooth_l1_terms": lambda input, target, beta: F.smooth_l1_loss(input, target, reduction="none", beta=beta),
    "huber_terms": lambda input, target, delta: F.huber_loss(input, target, reduction="none", delta=delta),
    "bce_terms": lambda input, target: F.binary_cross_entropy(input, target, reduction="none"),
    "bce_logits_terms": lambda input, target: F.binary_cross_entropy_with_logits(input, target, reduction="none"),
    "bce_logits_weighted_terms": lambda input, target, pos_weight: F.binary_cross_entropy_with_logits(
        input, target, reduction="none", pos_weight=pos_weight),
    "kl_terms": lambda input, target, log_target: F.kl_div(input, target, reduction="none", log_target=log_target),
    "adaptive_avg_pool2d_backward": lambda grad, input_size: backward_of(
        lambda x: F.adaptive_avg_pool2d(x, list(grad.shape[-2:])))(grad, input_size),
    "avg_pool2d_backward": backward_of(F.avg_pool2d),
    "cross_entropy_rows": cross_entropy_rows,
    "cross_entropy_rows_grad": cross_entropy_rows_grad,
    "log_softmax_backward": lambda grad, output, dim: grad - output.exp() * grad.sum(dim, keepdim=True),
    "max_pool2d_backward": max_pool2d_backward,
    "max_pool2d_with_indices": lambda *a, **k: F.max_pool2d(*a, **k, return_indices=True),
    "pointwise": pointwise,
    "softmax_backward": lambda grad, output, dim: (grad - (grad * output).sum(dim, keepdim=True)) * output,
    "conv2d_grad_input": conv2d_grad_input,
    "conv2d_grad_weight": conv2d_grad_weight,
    "embedding_grad": embedding_grad,
    "index": lambda input, indices: input[tuple(slice(None) if i is None else i for i in indices)],
    "index_put": lambda input, indices, values, accumulate=False: torch.ops.aten.index_put(
        input, indices, values, accumulate),
    "native_dropout": lambda input, p: torch.native_dropout(input, p, True),
    "max_dim": lambda input, dim, keepdim=False: torch.max(input, dim, keepdim),
    "min_dim": lambda input, dim, keepdim=False: torch.min(input, dim, keepdim),
    "prod_dim": lambda input, dim, keepdim=False, dtype=None: torch.prod(input, dim, keepdim, dtype=dtype),
    "scatter_fold": lambda input, dim, index, src, reduce: input.scatter_reduce(dim, index, src, reduce),
    "sdpa_forward": sdpa_forward,
    "cast": lambda input, dtype: input.to(dtype),
    "channels_last": channels_last,
    "clamp_both": lambda input, min, max: torch.clamp(input, min, max),
    "invert": torch.bitwise_not,
    "contiguous_copy": lambda input: input.clone(memory_format=torch.contiguous_format),
    "contiguous": lambda input: input.contiguous(),
    "copy": copy,
    "elu": lambda input, alpha=1.0, scale=1.0, input_scale=1.0: torch._C._nn.elu(input, alpha, scale, input_scale),
    "eye": lambda n, m=None, dtype=None, device=None: torch.eye(n, n if m is None else m, dtype=dtype),
    "floor_divide": lambda input, other: torch.div(input, other, rounding_mode="floor"),
    "hardsigmoid": hardsigmoid,
    "slice": slice_,
    "split": lambda input, split_size, dim=0: torch.split(input, split_size, dim),
    "split_with_sizes": lambda input, split_sizes, dim=0: torch.split(input, split_sizes, dim),
    "to_device": lambda input, device: input.clone(),
    "trunc_divide": lambda input, other: torch.div(input, other, rounding_mode="trunc"),
    "unfold": torch.Tensor.unfold,
}
# Random or unset: only shapes and types can be compared.
SHAPE_ONLY = {"empty", "empty_like", "rand", "randn", "rand_like", "randn_like", "randint", "randperm", "bernoulli",
              "native_dropout", "dropout"}
# Cairn's own: PyTorch has nothing to say.
NO_ORACLE = {"sdpa_backward", "native_layer_norm_backward", "native_rms_norm_backward", "native_batch_norm_backward"}


def find(op):
    name = op.name
    if name in SPECIAL:
        return SPECIAL[name]
    places = [torch, torch.Tensor, F]
    if "nn" in op.tags:
        places = [F, torch._C._nn, torch]
    elif "linalg" in op.tags:
        places = [torch.linalg, torch]
        name = name[len("linalg_"):] if name.startswith("linalg_") else name
    elif "special" in op.tags:
        places = [torch.special, torch]
    for place in places:
        if hasattr(place, name):
            return getattr(place, name)
    raise SystemExit("no PyTorch function for %s: add it to SPECIAL in tests/golden/oracle.py" % op.name)


# ---- arguments ----
def bind(sample, op):
    """Parameter name -> value. A value without a name goes to the first parameter that has none yet."""
    given = {}
    for name, value in sample.args:
        free = [p.name for p in op.params if p.name not in given]
        if name is None:
            if not free:
                raise Bad("too many arguments")
            name = free[0]
        if name not in free:
            raise Bad("no parameter %s, or twice" % name)
        given[name] = value
    return given


def convert(sample, param, value, narrow):
    if isinstance(value, list):
        return [convert(sample, param, v, narrow) for v in value]
    if isinstance(value, Literal):
        t = make(sample.hash, value)
        if narrow and value.dtype in UNSIGNED[:3]:
            t = t.to(torch.int64)
        wanted = t.dtype in FLOATS and not sample.large and not value.constant
        return t.requires_grad_() if wanted else t
    if isinstance(value, Word):
        return DTYPES[value] if param.base == "dtype" else str(value)
    return value


def spread(param, value):
    """[2] stands for [2, 2] where the signature says int[2]."""
    return value * param.list if param.list and isinstance(value, list) and len(value) == 1 else value


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def flat_inputs(op, values):
    """The tensor arguments in the signature's order, lists laid flat; None and numbers keep their place."""
    out = []
    for p in op.params:
        if p.base != "Tensor":
            continue
        v = values.get(p.name)
        out += v if isinstance(v, list) else [v]
    return out


def call(op, values):
    """Leading parameters by position, the others by name."""
    f, positional, named, gap = find(op), [], {}, False
    for p in op.params:
        if p.name not in values:
            gap = True
        elif gap or p.base in ("dtype", "device"):
            named[p.name] = values[p.name]
        else:
            positional.append(values[p.name])
    try:
        if "nn" in op.tags and op.name not in SPECIAL and hasattr(f, "__code__"):
            return f(**values)  # these have more parameters in between
        return f(*positional, **named)
    except TypeError:
        tensors = [v for v in positional if isinstance(v, torch.Tensor)]
        changed = [as_number(tensors[0], v) if tensors and isinstance(v, (int, float)) and p.base == "Tensor" else v
                   for p, v in zip(op.params, positional)]
        try:
            return f(*changed, **named)
        except TypeError:
            return f(*changed[:1], **dict(zip([p.name for p in op.params][1:], changed[1:])), **named)


def unsupported(error):
    return "not implemented for 'UInt" in str(error) or "Promotion for uint" in str(error)


# ---- the answer ----
def evaluate(sample, op):
    if op.name in NO_ORACLE or sample.large:
        return Answer(NOTHING)
    given = bind(sample, op)
    params = {p.name: p for p in op.params}
    narrow, constant = False, set()  # constant: arguments that PyTorch has no gradient for
    while True:
        values = {n: spread(params[n], convert(sample, params[n], v, narrow)) for n, v in given.items()}
        for n in constant:
            values[n] = values[n].detach()
        try:
            result = call(op, values)
            break
        except (RuntimeError, NotImplementedError) as e:
            frozen = re.search(r"not differentiable with respect to argument '(\w+)'", str(e))
            if frozen:
                constant.add(frozen.group(1))
            elif unsupported(e) and not narrow:
                narrow = True
            else:
                raise
    answer = Answer(SHAPES if op.name in SHAPE_ONLY else VALUES)
    answer.any_dtype = narrow
    answer.outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    if answer.status == VALUES and not has_specials(sample) and not sample.forward_only:
        unknown = [values[n] for n in constant]
        answer.gradients = gradients(sample, answer.outputs, flat_inputs(op, values), unknown)
    return answer


def has_specials(sample):
    return any(t.range == "!" for t in sample.literals)


def gradients(sample, outputs, inputs, unknown):
    """One per input: a tensor, None where none flows, UNKNOWN where PyTorch does not say."""
    roots = [(i, o) for i, o in enumerate(outputs) if o is not None and o.requires_grad and o.dtype in FLOATS]
    leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
    if not roots or not leaves:
        return []
    found = iter(torch.autograd.grad([o for _, o in roots], leaves, [weights(sample.hash, i, o) for i, o in roots],
                                     allow_unused=True))
    out = []
    for t in inputs:
        wanted = isinstance(t, torch.Tensor) and t.requires_grad
        g = next(found) if wanted else None
        if any(t is u for u in unknown):
            g = UNKNOWN
        out.append(torch.zeros_like(t) if wanted and g is None else g)
    return out
