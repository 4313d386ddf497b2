"""What PyTorch returns for a sample: results, and gradients of the sum of the results times fixed weights.

An op is found by its name (torch, torch.nn.functional by its tag, Tensor's methods); SPECIAL holds those that PyTorch
names or orders differently. Where PyTorch has no kernel for an unsigned type the sample is worked out in int64 and the
results carry no type to compare.
"""
import math
import re

import mpmath
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


def vision():
    import torchvision.ops
    return torchvision.ops


def roi_pool(input, boxes, output_size, spatial_scale):
    vision()
    values, indices = torch.ops.torchvision.roi_pool(input, boxes, spatial_scale, *output_size)
    return values, indices.long()


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


def cross_entropy_rows(input, target, ignore_index, reduction, wide=False):
    scores = input.float() if wide and input.dtype in (torch.bfloat16, torch.float16) else input
    return F.cross_entropy(scores, target, ignore_index=ignore_index, reduction=reduction), input.logsumexp(1)


def linear_cross_entropy_rows(input, linear_weight, target, linear_bias, weight, each, ignore_index, reduction,
                              label_smoothing, rows, wanted):
    """The gradients of the sum are results, too; `rows` at a time says nothing about them."""
    def losses(*leaves):
        w = None if weight is None else weight.detach().to(input.dtype)
        of_rows = F.cross_entropy(F.linear(*leaves), target.long(), weight=w, ignore_index=ignore_index,
                                  reduction="none", label_smoothing=label_smoothing)
        return of_rows if each is None else of_rows * each.detach()
    leaves = [t if t is None else t.detach().requires_grad_() for t in (input, linear_weight, linear_bias)]
    with torch.enable_grad():
        total = losses(*leaves).sum()
        made = [torch.autograd.grad(total, t, retain_graph=True)[0] if want else torch.empty(0, dtype=input.dtype)
                for t, want in zip(leaves, wanted)]
    loss, share = losses(input, linear_weight, linear_bias), torch.ones([]).to(input)
    if reduction == "mean":
        counts = (target != ignore_index).to(input.dtype)
        share = 1 / (counts if weight is None else counts * weight.detach()[target.clamp(min=0).long()].to(input.dtype)).sum()
    return loss if reduction == "none" else loss.sum() * share, *made, share


def cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction):
    keep = (target != ignore_index).to(input.dtype)
    share = grad * keep / (keep.sum() if reduction == "mean" else 1)
    return (torch.exp(input - lse[:, None]) - F.one_hot(target, input.shape[1])) * share[:, None]


def max_pool2d_backward(grad, indices, input_size, windows=None):
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


def bag_sum(weight, input, offsets, factors, padding=-1, mean=False):
    return F.embedding_bag(input, weight, offsets, mode="mean" if mean else "sum", per_sample_weights=factors,
                           padding_idx=padding if padding >= 0 else None)


def bag_sum_grad(grad, input, offsets, factors, rows, padding=-1, mean=False):
    """In parts, which PyTorch can differentiate again; its own backward it cannot."""
    if offsets is None:
        offsets = torch.arange(0, input.numel(), input.shape[1])
    places = torch.arange(input.numel())
    bag = torch.searchsorted(offsets, places, right=True) - 1
    each = (input.reshape(-1) != padding).to(grad.dtype)
    if mean:
        each = each / torch.zeros(len(offsets), dtype=grad.dtype).index_add(0, bag, each).clamp(min=1)[bag]
    if factors is not None:
        each = each * factors.reshape(-1)
    zeros = torch.zeros(rows, grad.shape[-1], dtype=grad.dtype)
    return zeros.index_add(0, input.reshape(-1), grad[bag] * each[:, None])


def bag_max(weight, input, offsets, padding=-1):
    """The rows as PyTorch keeps them for the gradient, which say nothing of empty bags."""
    if offsets is None:
        offsets = torch.arange(0, input.numel(), max(input.shape[1], 1))[:input.shape[0]]
    values, _, _, rows = torch._embedding_bag(weight, input.reshape(-1), offsets, False, 2, False, None, False, padding)
    return values, rows


def conv2d_grad_input(grad, weight, input_size, stride, padding, dilation, groups):
    return torch.nn.grad.conv2d_input(input_size, weight, grad, stride, padding, dilation, groups)


def conv2d_grad_weight(grad, input, weight_size, stride, padding, dilation, groups):
    return torch.nn.grad.conv2d_weight(input, weight_size, grad, stride, padding, dilation, groups)


def sdpa_forward(query, key, value, attn_mask=None, dropped=None, is_causal=False, scale=None, dropout_p=0,
                 draws=None):
    """Output and the logarithm of the sums of exponentials, by the definition."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril().logical_not(), -torch.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1) if dropped is None else scores.softmax(-1) * (dropped != 0) / (1 - dropout_p)
    return weights @ value, scores.logsumexp(-1)


def recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse=False, keep=False, batch_sizes=None):
    """One direction of one layer, step by step; of each step also what cairn keeps for the gradient."""
    steps = list(input.unbind(0)) if batch_sizes is None else list(input.split(batch_sizes))
    outs, kept, h, c = [None] * len(steps), [None] * len(steps), h0, c0
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        n = len(steps[t])
        x, y = F.linear(steps[t], w_ih, b_ih), F.linear(h[:n], w_hh, b_hh)
        if mode == "lstm":
            i, f, g, o = (x + y).chunk(4, 1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            m = f * c[:n] + i * g
            new, kept[t] = o * m.tanh(), torch.cat([i, f, g, o, m], 1)
            c = torch.cat([m, c[n:]])
        elif mode == "gru":
            (xr, xz, xn), (yr, yz, yn) = x.chunk(3, 1), y.chunk(3, 1)
            r, z = (xr + yr).sigmoid(), (xz + yz).sigmoid()
            m = (xn + r * yn).tanh()
            new, kept[t] = m + z * (h[:n] - m), torch.cat([r, z, m, yn], 1)
        else:
            new = (x + y).tanh() if mode == "tanh" else (x + y).relu()
        outs[t], h = new, torch.cat([new, h[n:]])
    join = torch.stack if batch_sizes is None else torch.cat
    none = input.new_zeros(0)
    keep = keep and mode in ("lstm", "gru")
    return join(outs), h, c if mode == "lstm" else none, join(kept) if keep else none


def native_batch_norm(input, weight, bias, running_mean, running_var, training, eps):
    dims = [d for d in range(input.dim()) if d != 1]
    mean, var = input.detach().mean(dims), input.detach().var(dims, correction=0)
    output = F.batch_norm(input, running_mean, running_var, weight, bias, training, 0.0, eps)
    return output, mean, (var + eps) ** -0.5, input.detach().var(dims)


def native_group_norm(input, weight, bias, num_groups, eps):
    n, c = input.shape[:2]
    output, mean, rstd = torch.native_group_norm(input.contiguous(), weight, bias, n, c, input.numel() // (n * c),
                                                 num_groups, eps)
    return output, mean.detach(), rstd.detach()


def batch_norm_stats(input, eps):
    return native_batch_norm(input.detach(), None, None, None, None, True, eps)[1:]


def batch_norm_apply(input, weight, bias, mean, var, residual, eps, inverted, relu):
    one = [1, -1] + [1] * (input.dim() - 2)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    y = (input.to(wide) - mean.to(wide).view(one)) * (var if inverted else (var.to(wide) + eps) ** -0.5).view(one)
    y = y if weight is None else y * weight.to(wide).view(one)
    y = y if bias is None else y + bias.to(wide).view(one)
    y = y if residual is None else y + residual
    return (y.relu() if relu else y).to(input.dtype).detach()


def conv2d_fused(input, weight, bias, stride, padding, dilation, groups, residual, relu):
    y = F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    y = y if residual is None else y + residual
    return (y.relu() if relu else y).detach()


def conv2d_clamped(input, weight, bias, stride, padding, dilation, groups, low, high):
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups).clamp(low, high).detach()


def native_rms_norm(input, normalized_shape, weight, eps):
    dims = list(range(-len(normalized_shape), 0))
    rstd = (input.detach().square().mean(dims, keepdim=True) + eps).rsqrt()
    return F.rms_norm(input, normalized_shape, weight, eps), rstd


def resample(input, dim, size, mode, align_corners, scale, antialias):
    """Along one dim, by images of height one."""
    x = input.movedim(dim, -1)
    flat = x.reshape(1, -1, 1, x.shape[-1])
    named = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    corners = {} if mode.startswith("nearest") else {"align_corners": align_corners}
    made = F.interpolate(flat, [1, size], mode=named, antialias=antialias, **corners)
    return made.reshape(*x.shape[:-1], size).movedim(-1, dim)


def resample_backward(grad, dim, input_size, mode, align_corners, scale, antialias):
    shape = list(grad.shape)
    shape[dim] = input_size
    x = torch.zeros(shape, dtype=grad.dtype, requires_grad=True)
    y = resample(x, dim, grad.shape[dim], mode, align_corners, scale, antialias)
    return torch.autograd.grad(y, x, grad, create_graph=True)[0]


def weighted_gather(input, index, weight):
    size = input.shape[1], index.shape[1], index.shape[2]
    taken = input[:, :, None].expand(-1, -1, size[1], -1).gather(3, index[:, None].clamp(min=0).expand(-1, *size))
    return (taken * (weight * (index >= 0))[:, None]).sum(2)


def weighted_scatter(grad, index, weight, size):
    x = torch.zeros(*grad.shape[:2], size, dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(weighted_gather(x, index, weight), x, grad, create_graph=True)[0]


def weighted_dot(grad, input, index):
    weight = torch.zeros(index.shape, dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(weighted_gather(input, index, weight), weight, grad, create_graph=True)[0]


def with_indices(pool):
    return lambda *a, **k: pool(*a, **k, return_indices=True)


def drawn(name):
    """An in-place draw as an op of its own."""
    def run(input, *args, **named):
        return getattr(torch.empty_like(input), name)(*args, **named)
    return run


def random_integers(input, low=None, high=None):
    return torch.empty_like(input).random_(low or 0, high) if high else torch.empty_like(input).random_()


def gradient(input, spacing=None, dim=None, edge_order=1):
    if spacing is not None and len(spacing) == 1:
        spacing = spacing[0]
    return torch.gradient(input, **{k: v for k, v in (("spacing", spacing), ("dim", dim)) if v is not None},
                          edge_order=edge_order)


def gradient_at(input, spacing, dim=None, edge_order=1):
    dims = {} if dim is None else {"dim": dim}
    return torch.gradient(input, spacing=tuple(spacing), edge_order=edge_order, **dims)


def grad_scaled(input, scale):
    made = input.clone()
    made.register_hook(lambda g: g * scale)
    return made


def signs(u):
    """What turns each column so that its largest element, or the first of those nearly as large, is positive."""
    if u.numel() == 0:
        return u.new_ones(u.shape[:-2] + u.shape[-1:])
    size = u.detach().abs()
    at = (size >= 0.999 * size.amax(-2, keepdim=True)).int().argmax(-2, keepdim=True)
    return torch.where(u.detach().gather(-2, at) < 0, -1.0, 1.0).to(u.dtype).squeeze(-2)


def linalg_svd(A, full_matrices=True):
    """PyTorch leaves the signs of singular vectors open; cairn does not."""
    u, s, vh = torch.linalg.svd(A, full_matrices=full_matrices)
    k = s.shape[-1]
    turn = signs(u[..., :k])
    left = torch.cat([u[..., :k] * turn.unsqueeze(-2), u[..., k:]], -1)
    return left, s, torch.cat([vh[..., :k, :] * turn.unsqueeze(-1), vh[..., k:, :]], -2)


def svd(input, some=True, compute_uv=True):
    if not compute_uv:
        return torch.svd(input, some, False)
    u, s, vh = linalg_svd(input, not some)
    return u, s, vh.mT


def linalg_eigh(A, UPLO="L"):
    values, vectors = torch.linalg.eigh(A, UPLO)
    return values, vectors * signs(vectors).unsqueeze(-2)


def lu_permutation(pivots, rows):
    order = torch.arange(rows).expand(*pivots.shape[:-1], rows).clone().reshape(-1, rows)
    for row, swaps in zip(order, pivots.reshape(-1, pivots.shape[-1])):
        for i, other in enumerate(swaps.tolist()):
            row[[i, other - 1]] = row[[other - 1, i]]
    return order.reshape(*pivots.shape[:-1], rows)


def ctc_rows_grad(grad, log_probs, *args):
    x = log_probs.detach().requires_grad_()
    return torch.autograd.grad(SPECIAL["ctc_rows"](x, *args), x, grad)[0].detach()


def asked(results, inverse, counts):
    """The results of unique that were asked for, nothing for the others."""
    nothing = torch.zeros(0, dtype=torch.int64)
    return results[0], results[1] if inverse else nothing, results[2] if counts else nothing


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return asked(torch.unique(input.detach(), True, True, True, dim), return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    return asked(torch.unique_consecutive(input.detach(), True, True, dim), return_inverse, return_counts)


def string_format(input):
    texts = [("%.9g" % v if isinstance(v, float) else str(v)).encode() for v in input.flatten().tolist()]
    joined = torch.tensor(list(b"".join(texts)), dtype=torch.uint8)
    return joined, torch.tensor([len(text) for text in texts], dtype=torch.int64).reshape(input.shape)


def string_parse(bytes, lengths, dtype):
    data, found = bytearray(bytes.tolist()), []
    for n in lengths.flatten().tolist():
        if n > len(data):
            raise ValueError("too few bytes")
        found.append(float(data[:n]) if dtype.is_floating_point else int(data[:n]))
        del data[:n]
    return torch.tensor(found, dtype=dtype).reshape(lengths.shape)


def shard(input, partition):
    return input.clone()  # on one device


def check_within(input, low, high, why):
    return torch.tensor(bool(((input >= low) & (input <= high)).all()))


SCATTERED = {"add": "sum", "multiply": "prod"}


def lexsort_rows(input):
    """Python's sort is stable, too."""
    rows = [[(v != v, 0 if v != v else v) for v in row] for row in input.tolist()]
    return torch.tensor(sorted(range(len(rows)), key=lambda i: rows[i]), dtype=torch.int64)


def multi_head_attention(query, key, value, num_heads, in_proj_weight, out_proj_weight, in_proj_bias=None,
                         out_proj_bias=None, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0,
                         key_padding_mask=None, attn_mask=None, weights="none", is_causal=False):
    several = in_proj_weight if len(in_proj_weight) == 3 else [None] * 3
    if is_causal:
        attn_mask = torch.ones(query.shape[0], key.shape[0], dtype=torch.bool).triu(1)
    return F.multi_head_attention_forward(
        query, key, value, query.shape[-1], num_heads, None if len(in_proj_weight) == 3 else in_proj_weight[0],
        in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, True, key_padding_mask,
        weights != "none", attn_mask, several[0] is not None, *several, average_attn_weights=weights == "mean",
        is_causal=is_causal)


def fft_c2c(input, inverse, scaling):
    """torch.fft over pairs; scaling: 0 none, 1 the root of n, 2 n."""
    norm = ("forward", "ortho", "backward") if inverse else ("backward", "ortho", "forward")
    f = torch.fft.ifft if inverse else torch.fft.fft
    x = torch.view_as_complex(input.clone(memory_format=torch.contiguous_format))
    return torch.view_as_real(f(x, dim=-1, norm=norm[scaling]))


def fft_r2c(input, scaling):
    return torch.view_as_real(torch.fft.rfft(input, norm=("backward", "ortho", "forward")[scaling]).contiguous())


def fft_c2r(input, n, scaling):
    x = torch.view_as_complex(input.clone(memory_format=torch.contiguous_format))
    return torch.fft.irfft(x, n, norm=("forward", "ortho", "backward")[scaling])


def quantization_parameter(input, v, axis, dtype):
    """A scale or a zero point that broadcasts with input."""
    if not isinstance(v, torch.Tensor):
        return torch.tensor(v, dtype=dtype)
    if not v.dim() or not input.dim():
        return v.reshape(()).to(dtype)
    return v.reshape([-1 if i == axis % input.dim() else 1 for i in range(input.dim())]).to(dtype)


def quantize_linear(input, scale, zero_point=None, axis=1, dtype=None):
    limits = torch.iinfo(dtype or torch.int8)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    q = torch.round(input.to(wide) / quantization_parameter(input, scale, axis, wide))
    if zero_point is not None:
        q = q + quantization_parameter(input, zero_point, axis, wide)
    return q.clamp(limits.min, limits.max).to(dtype or torch.int8)


def dequantize_linear(input, scale, zero_point=None, axis=1, dtype=None):
    of_scale = scale.dtype if isinstance(scale, torch.Tensor) else torch.float32
    wide = torch.float64 if (dtype or of_scale) == torch.float64 else torch.float32
    y = input.to(wide)
    if zero_point is not None:
        y = y - quantization_parameter(input, zero_point, axis, wide)
    return (y * quantization_parameter(input, scale, axis, wide)).to(dtype or of_scale)


def scaled_mm(input, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    """torch._scaled_mm, whose CPU kernel does not look at scale_result; its CUDA one multiplies 8-bit results by it."""
    dtype = out_dtype or input.dtype
    scaled = scale_result is not None and dtype.itemsize == 1
    y = torch._scaled_mm(input, mat2, scale_a, scale_b, bias=bias, out_dtype=torch.float32 if scaled else out_dtype,
                         use_fast_accum=use_fast_accum)
    return (y * scale_result).to(dtype) if scaled else y


def grouped_mm(mat_a, mat_b, offs=None, bias=None, out_dtype=None):
    """torch.nn.functional.grouped_mm, which takes neither float64 nor a bias, nor sizes that are not aligned."""
    dtype = out_dtype or mat_a.dtype
    a, b = mat_a.to(dtype), mat_b.to(dtype)
    if (a.dim() == 3 and b.dim() == 3) != (offs is None):
        raise ValueError("offs")
    if offs is None:
        return a @ b
    groups = offs.tolist()
    if a.dim() == 3 or b.dim() == 3:
        assert len(groups) == (a if a.dim() == 3 else b).shape[0]
    cuts = list(zip([0] + groups[:-1], groups))
    last = groups[-1] if groups else 0
    if b.dim() == 3:
        y = torch.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(cuts)] + [a.new_zeros(a.shape[0] - last, b.shape[2])])
    elif a.dim() == 3:
        parts = [a[g] @ b[:, i:j] for g, (i, j) in enumerate(cuts)]
        y = torch.cat(parts + [a.new_zeros(a.shape[1], b.shape[1] - last)], 1)
    else:
        y = torch.stack([a[:, i:j] @ b[i:j] for i, j in cuts])
    return y if bias is None else y + bias


def bessel(kind, order):
    """J or Y by mpmath, which comes with PyTorch: PyTorch's own are off by up to 9e-7, float64 too."""
    def at(x, n):
        values = [float(getattr(mpmath, "bessel" + kind)(n, v)) if kind == "j" or v > 0 else
                  -math.inf if v == 0 else math.nan for v in x.detach().double().flatten().tolist()]
        return torch.tensor(values, dtype=torch.float64).reshape(x.shape).to(x.dtype)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return at(x, order)

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * (-at(x, 1) if order == 0 else torch.where(x == 0, 0.5, at(x, 0) - at(x, 1) / x))
    return lambda input: Function.apply(input if input.is_floating_point() else input.to(torch.get_default_dtype()))


def airy(input):
    """Ai by mpmath, likewise: PyTorch's is off by 2e-7 at -2.5."""
    x = input if input.is_floating_point() else input.to(torch.get_default_dtype())
    values = [float(mpmath.airyai(v)) if math.isfinite(v) else math.nan for v in x.double().flatten().tolist()]
    return torch.tensor(values, dtype=torch.float64).reshape(x.shape).to(x.dtype)


def coo(row, col, values, size):
    return torch.sparse_coo_tensor(torch.stack([row, col]), values, size)


SPARSE = {
    "coo_mm": lambda row, col, values, dense, rows: coo(row, col, values, (rows, dense.shape[0])).to_dense() @ dense,
    "csr_mm": lambda crow, col, values, dense: coo(
        torch.arange(len(crow) - 1).repeat_interleave(crow.diff()), col, values,
        (len(crow) - 1, dense.shape[0])).to_dense() @ dense,
    "sampled_mm": lambda a, b, row, col: (a @ b.T)[row, col],
    "embedding_sparse": lambda input, weight, padding_idx=None: F.embedding(input, weight, padding_idx),
    "embedding_rows": lambda input, weight, padding_idx=None: F.embedding(input, weight, padding_idx),
    "sparse_parts": lambda input: (input._indices(), input._values()),
    "sparse_sampled_addmm": lambda input, mat1, mat2, *, beta=1, alpha=1: torch.where(
        torch.arange(input.numel()).reshape(input.shape) % 3 != 1,
        beta * input.to_dense() + alpha * (mat1 @ mat2), torch.zeros((), dtype=mat1.dtype)),
    "sparse_sum": lambda input, dim=None, *, dtype=None: torch.sparse.sum(input, dim, dtype) if dtype
    else torch.sparse.sum(input, dim) if dim else torch.sparse.sum(input),
    "sparse_softmax": torch.sparse.softmax,
    "sparse_log_softmax": torch.sparse.log_softmax,
    "sparse_spdiags": lambda diagonals, offsets, shape, layout=None: torch.sparse.spdiags(
        diagonals, offsets, tuple(shape), layout and getattr(torch, "sparse_" + layout)),
    "sparse_mm_reduce": lambda input, mat2, reduce: torch.sparse.mm(input, mat2, reduce),
    "sparse_compressed_tensor": lambda compressed_indices, plain_indices, values, size=None, *, layout="csr":
    torch.sparse_compressed_tensor(compressed_indices, plain_indices, values, size,
                                   layout=getattr(torch, "sparse_" + layout)),
    "to_sparse": lambda input, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None: input.to_sparse(
        sparse_dim) if sparse_dim else input.to_sparse(layout=layout and getattr(torch, "sparse_" + layout),
                                                       blocksize=blocksize, dense_dim=dense_dim),
}

SPECIAL = {
    "nms": lambda boxes, scores, iou_threshold: vision().nms(boxes, scores, iou_threshold),
    "batched_nms": lambda boxes, scores, idxs, iou_threshold: vision().batched_nms(boxes, scores, idxs, iou_threshold),
    "roi_align": lambda input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False:
        vision().roi_align(input, boxes, output_size, spatial_scale, sampling_ratio, aligned),
    "ps_roi_align": lambda input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1:
        vision().ps_roi_align(input, boxes, output_size, spatial_scale, sampling_ratio),
    "ps_roi_pool": lambda input, boxes, output_size, spatial_scale=1.0:
        vision().ps_roi_pool(input, boxes, output_size, spatial_scale),
    "roi_pool": lambda input, boxes, output_size, spatial_scale=1.0: roi_pool(input, boxes, output_size, spatial_scale),
    "deform_conv2d": lambda input, offset, weight, bias=None, stride=1, padding=0, dilation=1, mask=None:
        vision().deform_conv2d(input, offset, weight, bias, stride, padding, dilation, mask),
    **SPARSE,
    "special_airy_ai": airy,
    **{f"special_bessel_{kind}{order}": bessel(kind, order) for kind in "jy" for order in (0, 1)},
    "safe_softmax": torch._safe_softmax,
    "softmax_backward_data": torch._softmax_backward_data,
    "native_dropout_backward": torch.ops.aten.native_dropout_backward,
    "max_pool2d_with_indices_backward": lambda grad_output, input, kernel_size, stride, padding, dilation, ceil_mode,
    indices: torch.ops.aten.max_pool2d_with_indices_backward(grad_output, input, kernel_size, stride or kernel_size,
                                                             padding, dilation, ceil_mode, indices),
    "upsample_bilinear2d_aa": torch.ops.aten._upsample_bilinear2d_aa,
    "unsafe_masked_index": torch.ops.aten._unsafe_masked_index,
    "unsafe_masked_index_put_accumulate": torch.ops.aten._unsafe_masked_index_put_accumulate,
    "chunk_cat": torch._chunk_cat,
    "squeeze_copy": lambda input, dim=None: torch.squeeze_copy(*[input] + ([] if dim is None else [dim])),
    "hash_tensor": lambda input, dim=None, keepdim=False, mode=0: torch.hash_tensor(input, dim or [], keepdim=keepdim,
                                                                                   mode=mode),
    "scaled_mm": scaled_mm,
    "grouped_mm": grouped_mm,
    "grouped_product": lambda input, mat2, offs, dtype=None: grouped_mm(input, mat2, offs, out_dtype=dtype),
    "quantize_linear": quantize_linear,
    "dequantize_linear": dequantize_linear,
    "mm_dtype": lambda input, mat2, out_dtype: input.to(out_dtype) @ mat2.to(out_dtype),
    "bmm_dtype": lambda input, mat2, out_dtype: input.to(out_dtype) @ mat2.to(out_dtype),
    "int_mm": lambda input, mat2: input.int() @ mat2.int(),
    "fft_c2c": fft_c2c,
    "fft_r2c": fft_r2c,
    "fft_c2r": fft_c2r,
    "conj_complex": torch.conj_physical,
    "mul_complex": lambda input, other, conj: input * (other.conj_physical() if conj else other),
    "abs_complex": lambda real, imag: torch.complex(real, imag).abs(),
    "resolve_conj": lambda input: input, "resolve_neg": lambda input: input,
    "recurrent_sequence": recurrent_sequence,
    "split_copy": lambda input, sizes, dim: torch.split(input, sizes, dim),
    "gated_tanh": lambda gate, input: gate.sigmoid() * input.tanh(),
    "gated_sum": lambda gate, input, other: gate.sigmoid() * input + other,
    "sigmoid_sum": lambda input, other: (input + other).sigmoid(),
    "tanh_addcmul": lambda input, gate, other: (input + gate * other).tanh(),
    "lstm": torch._VF.lstm,
    "gru": torch._VF.gru,
    "rnn_tanh": torch._VF.rnn_tanh,
    "rnn_relu": torch._VF.rnn_relu,
    "multi_head_attention": multi_head_attention,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
    "check_within": check_within, "shard": shard,
    "string_format": string_format,
    "string_parse": string_parse,
    "lexsort_rows": lexsort_rows,
    "histogram_edges": lambda input, bins, weight=None, density=False: torch.histogram(
        input.detach(), bins.detach(), weight=weight if weight is None else weight.detach(), density=density),
    "histogram": lambda input, bins, range=None, weight=None, density=False: torch.histogram(
        input.detach(), bins, range=range, weight=weight if weight is None else weight.detach(), density=density),
    "histogramdd_edges": lambda input, bins, weight=None, density=False: torch.histogramdd(
        input.detach(), [b.detach() for b in bins], weight=weight if weight is None else weight.detach(),
        density=density).hist,
    "histc": lambda input, bins=100, min=0, max=0: torch.histc(input.detach(), bins, min, max),
    "median_dim": lambda input, dim, keepdim=False: torch.median(input, dim, keepdim),
    "nanmedian_dim": lambda input, dim, keepdim=False: torch.nanmedian(input, dim, keepdim),
    "aminmax": lambda input, dim=None, keepdim=False: torch.aminmax(input, dim=dim, keepdim=keepdim),
    "scatter_value": lambda input, dim, index, value: torch.scatter(input, dim, index, value),
    "scatter_reduced": lambda input, dim, index, src, reduce: torch.scatter_reduce(
        input, dim, index, src, SCATTERED.get(reduce, reduce + "?")),
    "scatter_value_reduced": lambda input, dim, index, value, reduce: torch.scatter_reduce(
        input, dim, index, torch.full(index.shape, value, dtype=input.dtype), SCATTERED.get(reduce, reduce + "?")),
    "bincount": lambda input, weights=None, minlength=0: torch.bincount(
        input, weights if weights is None else weights.detach(), minlength),
    "polygamma": lambda n, input: torch.special.zeta(2, input) if n == 1 and input.dtype == torch.float64 and bool(
        (input > 0).all()) else torch.polygamma(n, input),  # its trigamma is good to 1e-12 only
    "allclose": lambda *a, **k: torch.tensor(torch.allclose(*a, **k)),
    "celu": F.celu,
    "ctc_rows": lambda log_probs, targets, input_lengths, target_lengths, blank, zero_infinity: F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, "none", zero_infinity),
    "ctc_rows_grad": ctc_rows_grad,
    "frexp_exponent": lambda input: torch.frexp(input)[1].to(input.dtype),
    "frexp_mantissa": lambda input: torch.frexp(input)[0],
    "gaussian_terms": lambda input, target, var, full, eps: F.gaussian_nll_loss(
        input, target, var, full, eps, reduction="none"),
    "glu_terms": lambda input, gate: input * torch.sigmoid(gate),
    "hinge_terms": lambda input, target, margin: F.hinge_embedding_loss(input, target, margin, reduction="none"),
    "isclose_terms": torch.isclose,
    "margin_terms": lambda input, other, margin: (margin + input - other).clamp_min(0),
    "nextafter_step": lambda input, other, drop: torch.nextafter(input, other),
    "poisson_terms": lambda input, target, log_input, full, eps: F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction="none"),
    "prelu_terms": lambda input, weight: torch.where(input > 0, input, weight * input),
    "ranking_terms": lambda input1, input2, target, margin: F.margin_ranking_loss(
        input1, input2, target, margin, reduction="none"),
    "replace_nonfinite": torch.nan_to_num,
    "rrelu": F.rrelu,
    "selu": F.selu,
    "soft_margin_terms": lambda input, target: F.soft_margin_loss(input, target, reduction="none"),
    "threshold": F.threshold,
    "linalg_svd": linalg_svd,
    "svd": svd,
    "linalg_eigh": linalg_eigh,
    "lu_permutation": lu_permutation,
    "linalg_matrix_norm_ord": torch.linalg.matrix_norm,
    "linalg_norm_named": torch.linalg.norm,
    "linalg_cond_named": torch.linalg.cond,
    "linalg_matrix_rank_tol": lambda A, tol, hermitian=False: torch.linalg.matrix_rank(A, tol, hermitian),
    "linalg_pinv_rcond": lambda A, rcond, hermitian=False: torch.linalg.pinv(A, rcond, hermitian),
    "pinv_within": lambda A, atol, rtol, hermitian: torch.linalg.pinv(A, atol=atol, rtol=rtol, hermitian=hermitian),
    "matrix_trace": torch.trace,
    "cdist_forward": torch.cdist,
    "cdist_backward": lambda grad, x1, x2, cdist, p: torch.ops.aten._cdist_backward(
        grad.contiguous(), x1.contiguous(), x2.contiguous(), p, cdist.contiguous()),
    "pdist": F.pdist,
    "as_strided_from": lambda input, size, stride, storage_offset, own_stride, own_offset: torch.as_strided(
        input, size, stride, storage_offset),
    "bag_max": bag_max,
    "bag_sum": bag_sum,
    "bag_sum_grad": bag_sum_grad,
    "bernoulli_p": drawn("bernoulli_"),
    "block_diag": lambda tensors: torch.block_diag(*tensors),
    "broadcast_tensors": lambda tensors: torch.broadcast_tensors(*tensors),
    "cartesian_prod": lambda tensors: torch.cartesian_prod(*tensors),
    "cauchy": drawn("cauchy_"),
    "cross": lambda input, other, dim=None: torch.cross(input, other) if dim is None else torch.cross(input, other, dim),
    "dsplit_indices": lambda input, indices: torch.dsplit(input, indices),
    "embedding_renorm": lambda input, indices, max_norm, norm_type=2.0: torch.embedding_renorm_(
        input.detach().clone(), indices, max_norm, norm_type),
    "exponential": drawn("exponential_"),
    "geometric": drawn("geometric_"),
    "grad_scaled": grad_scaled,
    "gradient": gradient,
    "gradient_at": gradient_at,
    "hsplit_indices": lambda input, indices: torch.hsplit(input, indices),
    "log_normal": drawn("log_normal_"),
    "normal_fill": drawn("normal_"),
    "random_integers": random_integers,
    "repeat_interleave_counts": lambda input, repeats, dim=None, output_size=None: torch.repeat_interleave(
        input, repeats, dim, output_size=output_size),
    "repeat_interleave_indices": lambda repeats, output_size=None: torch.repeat_interleave(repeats, output_size=output_size),
    "tensor_split_indices": lambda input, indices, dim=0: torch.tensor_split(input, indices, dim),
    "tensordot": lambda input, other, dims_self, dims_other: torch.tensordot(input, other, (dims_self, dims_other)),
    "uniform": drawn("uniform_"),
    "view_dtype": lambda input, dtype: input.view(dtype),
    "vsplit_indices": lambda input, indices: torch.vsplit(input, indices),
    "im2col": F.unfold,
    "lp_pool1d": lambda input, norm_type, kernel_size, *a, **k: F.lp_pool1d(
        input, norm_type, kernel_size[0], *a, **k),
    "weighted_gather": weighted_gather,
    "weighted_scatter": weighted_scatter,
    "weighted_dot": weighted_dot,
    "col2im": F.fold,
    "conv1d_padding": F.conv1d,
    "conv2d_padding": F.conv2d,
    "conv3d_padding": F.conv3d,
    "max_pool1d_with_indices": with_indices(F.max_pool1d),
    "max_pool3d_with_indices": with_indices(F.max_pool3d),
    "adaptive_max_pool1d_with_indices": with_indices(F.adaptive_max_pool1d),
    "adaptive_max_pool2d_with_indices": with_indices(F.adaptive_max_pool2d),
    "adaptive_max_pool3d_with_indices": with_indices(F.adaptive_max_pool3d),
    "resample": resample,
    "resample_backward": resample_backward,
    "native_batch_norm": native_batch_norm,
    "native_group_norm": native_group_norm,
    "batch_norm_stats": batch_norm_stats,
    "batch_norm_apply": batch_norm_apply,
    "conv2d_fused": conv2d_fused,
    "conv2d_clamped": conv2d_clamped,
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
    "adaptive_avg_pool2d_backward": lambda grad, input_size, channels_last=False: backward_of(
        lambda x: F.adaptive_avg_pool2d(x, list(grad.shape[-2:])))(grad, input_size),
    "avg_pool2d_backward": backward_of(F.avg_pool2d),
    "cross_entropy_rows": cross_entropy_rows,
    "linear_cross_entropy_rows": linear_cross_entropy_rows,
    "cross_entropy_rows_grad": cross_entropy_rows_grad,
    "log_softmax_backward": lambda grad, output, dim: grad - output.exp() * grad.sum(dim, keepdim=True),
    "max_pool2d_backward": max_pool2d_backward,
    "max_pool2d_values": F.max_pool2d,
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
    "max_other": lambda input, other: torch.max(input, other),
    "min_other": lambda input, other: torch.min(input, other),
    "min_dim": lambda input, dim, keepdim=False: torch.min(input, dim, keepdim),
    "prod_dim": lambda input, dim, keepdim=False, dtype=None: torch.prod(input, dim, keepdim, dtype=dtype),
    "scatter_reduce_self": lambda input, dim, index, src, reduce: input.scatter_reduce(dim, index, src, reduce),
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
    "fill_diagonal": lambda input, fill_value, wrap=False: input.clone().fill_diagonal_(fill_value, wrap),
    "fractional_max_pool2d_with_indices": lambda input, kernel_size, output_size, random_samples:
        F.fractional_max_pool2d(input, kernel_size, output_size, None, True, random_samples),
    "fractional_max_pool3d_with_indices": lambda input, kernel_size, output_size, random_samples:
        F.fractional_max_pool3d(input, kernel_size, output_size, None, True, random_samples),
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
              "native_dropout", "dropout", "uniform", "normal_fill", "log_normal", "exponential", "cauchy", "geometric",
              "bernoulli_p", "randint_like", "random_integers", "normal", "multinomial", "poisson", "gumbel_softmax",
              "empty_strided", "empty_permuted"}
# Cairn's own: PyTorch has nothing to say.
NO_ORACLE = {"sdpa_backward", "recurrent_sequence_grad", "native_layer_norm_backward", "native_rms_norm_backward",
             "native_batch_norm_backward", "native_group_norm_backward", "batch_norm_relu_backward",
             "batch_norm_add_relu_backward", "add_norm", "add_norm_backward", "linear_gelu", "mm_gelu_backward",
             "linear_step", "attend_step", "decoder_step", "kept_boxes", "region_means", "region_means_grad", "region_max",
             "choose_token", "reserve_draws", "dropped_ones", "linalg_eig", "linalg_eigvals"}  # in no order


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
    elif "fft" in op.tags:
        places, name = [torch.fft], name[len("fft_"):]
    elif "special" in op.tags:
        places = [torch.special, torch]
        name = name[len("special_"):] if name.startswith("special_") else name
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
        t = t.requires_grad_() if wanted else t
        t.wanted_layout = value.sparse
        return t
    if isinstance(value, Word):
        return DTYPES[value] if param.base == "dtype" else str(value)
    return value


def spread(param, value):
    """[2] stands for [2, 2] where the signature says int[2]."""
    return value * param.list if param.list and isinstance(value, list) and len(value) == 1 else value


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)


def flat_inputs(op, values):
    """The tensor arguments in the signature's order, lists laid flat; None and numbers keep their place."""
    out = []
    for p in op.params:
        if p.base != "Tensor":
            continue
        v = values.get(p.name)
        out += v if isinstance(v, list) else [v]
    return out


def in_layout(t, dense):
    """A tensor as the call gets it: sparse ones without each second of three elements. dense: with zeros there, for
    ops that mean the same of both, since PyTorch does not have the gradients of all of them for sparse tensors."""
    if isinstance(t, list):
        return [in_layout(x, dense) for x in t]
    if not getattr(t, "wanted_layout", ""):
        return t
    there = torch.arange(t.numel()).reshape(t.shape) % 3 != 1
    if dense:
        return torch.where(there, t, torch.zeros((), dtype=t.dtype))
    sparse = t.sparse_mask(there.to(t.dtype).to_sparse())
    return getattr(sparse, {"coo": "coalesce", "csr": "to_sparse_csr", "csc": "to_sparse_csc"}[t.wanted_layout])()


def call(op, values):
    """Leading parameters by position, the others by name."""
    f, positional, named, gap = find(op), [], {}, False
    values = {n: in_layout(v, not op.place.startswith("src/ops/sparse_")) for n, v in values.items()}
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


# ---- the result ----
def evaluate(sample, op):
    own = op.name in NO_ORACLE or "draws=" in sample.text  # numbers of cairn's own
    if own or op.place.startswith("src/ops/update.c") or sample.large:
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
    answer.outputs = [o.to_dense() if isinstance(o, torch.Tensor) and o.layout != torch.strided else o
                      for o in (list(result) if isinstance(result, (tuple, list)) else [result])]
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
