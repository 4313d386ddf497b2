"""A typed program that uses much of the package, as its users' programs do: test_typing.py lets mypy read it strictly,
and runs it. assert_type() holds the type that the stubs give against the one that is useful; at run time it does
nothing.
"""
from collections.abc import Callable, Iterator
from typing import Any, assert_type

import cairn
import cairn.nn.functional as F
import cairn.utils.checkpoint
from cairn import Tensor

Number = int | float | bool


# ---- tensors ----
def making() -> None:
    assert_type(cairn.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=cairn.float64), Tensor)
    assert_type(cairn.zeros(2, 3), Tensor)
    assert_type(cairn.zeros((2, 3), dtype=cairn.int64, device="cpu"), Tensor)
    assert_type(cairn.ones([2], requires_grad=True), Tensor)
    assert_type(cairn.full((2, 2), 7.0), Tensor)
    assert_type(cairn.arange(5), Tensor)
    assert_type(cairn.arange(0, 1, 0.25, dtype=cairn.float32), Tensor)
    assert_type(cairn.linspace(0, 1, steps=5), Tensor)
    assert_type(cairn.eye(3), Tensor)
    assert_type(cairn.randn(2, 3), Tensor)
    assert_type(cairn.randint(0, 10, (3,)), Tensor)
    assert_type(cairn.randint(10, size=(3,), dtype=cairn.int32), Tensor)
    assert_type(cairn.zeros_like(cairn.ones(3)), Tensor)
    assert_type(cairn.as_tensor([1, 2]), Tensor)
    assert_type(cairn.zeros(1, dtype=float), Tensor)
    assert_type(cairn.from_dlpack(cairn.ones(2)), Tensor)


def looking() -> None:
    x = cairn.ones(2, 3)
    assert_type(x.shape, cairn.Size)
    assert_type(x.shape[0], int)
    assert_type(x.shape[1:], cairn.Size)
    assert_type(x.shape.numel(), int)
    assert_type(x.size(), cairn.Size)
    assert_type(x.size(-1), int)
    assert_type(x.stride(), tuple[int, ...])
    assert_type(x.dtype, cairn.dtype)
    assert_type(x.dtype.is_floating_point, bool)
    assert_type(x.device, cairn.device)
    assert_type(x.device.type, str)
    assert_type(x.device.index, int | None)
    assert_type(x.ndim, int)
    assert_type(x.numel(), int)
    assert_type(len(x), int)
    assert_type(x.sum().item(), Number)
    assert_type(float(x.sum()), float)
    assert_type(int(x.sum()), int)
    assert_type(bool(x.all()), bool)
    assert_type(x.is_contiguous(), bool)
    assert_type(x.T, Tensor)
    assert_type(x.type(), str)
    assert_type(cairn.finfo(cairn.float32).eps, float)
    assert_type(cairn.iinfo(cairn.int8).max, int)
    rows: list[Tensor] = list(x)
    nested: list[list[float]] = x.tolist()
    assert (len(rows), len(nested)) == (2, 2)


def converting() -> None:
    x = cairn.ones(2)
    assert_type(x.to(cairn.float64), Tensor)
    assert_type(x.to("cpu", cairn.float16, copy=True), Tensor)
    assert_type(x.to(x), Tensor)
    assert_type(x.to(device=cairn.device("cpu"), dtype=cairn.int32), Tensor)
    assert_type(x.float().long().bool(), Tensor)
    assert_type(x.cpu(), Tensor)
    assert_type(x.contiguous(memory_format=cairn.contiguous_format), Tensor)
    assert_type(x.detach().clone().requires_grad_(), Tensor)


def indexing() -> None:
    x = cairn.arange(12).reshape(3, 4)
    assert_type(x[0], Tensor)
    assert_type(x[:, 1], Tensor)
    assert_type(x[..., -1], Tensor)
    assert_type(x[None], Tensor)
    assert_type(x[x > 3], Tensor)
    assert_type(x[[0, 2]], Tensor)
    assert_type(x[cairn.tensor([0, 1]), 2], Tensor)
    assert_type(x[0, 1:3].sum(), Tensor)
    x[0] = 1
    x[1, :] = cairn.zeros(4, dtype=cairn.int64)
    for row in x:
        assert_type(row, Tensor)


# ---- arithmetic ----
def operators() -> None:
    x, y = cairn.ones(3), cairn.ones(3)
    for value in (x + y, x + 1, 1 + x, x - 1.5, 1.5 - x, x * 2, 2 * x, x / 2, 2 / x, x // 2, 2 // x, x % 2, 2 % x,
                  x ** 2, 2 ** x, -x, +x, abs(x), x @ y):
        assert_type(value, Tensor)
    for mask in (x < 1, 1 < x, x <= y, x > 1, x >= 1, x == 1, x != y, ~(x > 0), (x > 0) & (y > 0), (x > 0) | (y < 0)):
        assert_type(mask, Tensor)
    x += 1
    x *= y
    assert_type(x, Tensor)
    assert_type(x.add_(1).mul_(y).clamp_(min=0.0), Tensor)
    assert_type(cairn.add(x, 1, alpha=2), Tensor)
    assert_type(x.clamp(0.0, 1.0), Tensor)
    assert_type(cairn.where(x > 0, x, 0.0), Tensor)
    assert_type(cairn.where(x > 0), tuple[Tensor, ...])
    assert_type(x.where(x > 0, 0), Tensor)
    assert_type(cairn.exp(x, out=cairn.empty(3)), Tensor)
    assert_type(x.pow(2).lerp(y, 0.5), Tensor)


def reductions() -> None:
    x = cairn.randn(3, 4)
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(1, keepdim=True), Tensor)
    assert_type(x.sum(dim=(0, 1)), Tensor)
    assert_type(x.mean(0), Tensor)
    assert_type(x.max(), Tensor)
    best = x.max(1)
    assert_type(best.values, Tensor)
    assert_type(best.indices, Tensor)
    values, places = cairn.min(x, dim=0)
    assert_type(values, Tensor)
    assert_type(places, Tensor)
    assert_type(cairn.max(x, x), Tensor)
    assert_type(x.argmax(), Tensor)
    top = x.topk(2)
    assert_type(top.values + top[0], Tensor)
    assert_type(x.sort(descending=True).indices, Tensor)
    assert_type(x.var(unbiased=False), Tensor)
    assert_type(cairn.std_mean(x, 0), tuple[Tensor, Tensor])
    assert_type(x.norm(p=1, dim=0), Tensor)
    assert_type(x.any(), Tensor)
    assert_type(cairn.allclose(x, x), bool)
    assert_type(cairn.equal(x, x), bool)
    assert_type(x.nonzero(), Tensor)
    assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
    assert_type(x.unique(), Tensor)
    assert_type(x.unique(return_counts=True), tuple[Tensor, ...])
    assert_type(cairn.numel(x), int)


def shapes() -> None:
    x = cairn.randn(3, 4)
    assert_type(x.view(4, 3), Tensor)
    assert_type(x.reshape((2, 6)), Tensor)
    assert_type(x.permute(1, 0).transpose(0, 1).unsqueeze(0).squeeze(), Tensor)
    assert_type(x.expand(2, 3, 4), Tensor)
    assert_type(cairn.cat([x, x], dim=1), Tensor)
    assert_type(cairn.concat((x, x)), Tensor)
    assert_type(cairn.stack((x, x)), Tensor)
    assert_type(x.split(2), tuple[Tensor, ...])
    assert_type(x.chunk(2, dim=1), tuple[Tensor, ...])
    assert_type(x.unbind(), tuple[Tensor, ...])
    assert_type(cairn.meshgrid(x[0], x[1], indexing="ij"), tuple[Tensor, ...])
    assert_type(cairn.broadcast_shapes((3, 1), (4,)), cairn.Size)
    assert_type(x.gather(1, cairn.zeros(3, 1, dtype=cairn.int64)), Tensor)
    assert_type(cairn.einsum("ij,kj->ik", x, x), Tensor)
    assert_type(cairn.absolute(x).multiply(2), Tensor)


# ---- gradients ----
class Scale(cairn.autograd.Function):
    """Its forward has ctx as the first argument."""

    @staticmethod
    def forward(ctx: cairn.autograd.FunctionCtx, x: Tensor, factor: float = 2.0) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: cairn.autograd.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


class Both(cairn.autograd.Function):
    """Its forward has none: setup_context comes after it."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a * b, a + b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return first * b + second, first * a + second


def gradients() -> None:
    x = cairn.ones(3, requires_grad=True)
    y = (x ** 2).sum()
    y.backward(retain_graph=True)
    assert_type(x.grad, Tensor | None)
    assert_type(x.requires_grad, bool)
    assert_type(cairn.autograd.grad(y, x, retain_graph=True), tuple[Tensor, ...])
    (unused,) = cairn.autograd.grad(y, [x], allow_unused=True)
    assert_type(unused, Tensor | None)
    assert_type(Scale.apply(x), Tensor)
    assert_type(Scale.apply(x, 3.0), Tensor)
    assert_type(Both.apply(x, x), tuple[Tensor, Tensor])
    assert_type(cairn.autograd.gradcheck(Scale.apply, (x.double().detach().requires_grad_(),)), bool)
    assert_type(cairn.autograd.functional.jacobian(square, x.detach()), Tensor)
    assert_type(cairn.autograd.functional.hessian(energy, x.detach()), Tensor)
    assert_type(cairn.autograd.functional.vjp(energy, x.detach()), tuple[Tensor, Tensor])
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()
    node = (x * 2).grad_fn
    assert node is not None
    assert_type(node.name(), str)
    slope: Callable[[Tensor], Any] = cairn.func.grad(energy)
    assert isinstance(slope(x), Tensor)
    with cairn.autograd.GradientTape() as tape:
        z = energy(x)
    assert isinstance(tape.gradient(z, x), Tensor)
    assert_type(cairn.utils.checkpoint.checkpoint(energy, x), Tensor)


def square(x: Tensor) -> Tensor:
    return x * x


def energy(x: Tensor) -> Tensor:
    return square(x).sum()


@cairn.no_grad()
def with_parentheses(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@cairn.no_grad
def without(x: Tensor) -> float:
    return float(x.sum())


@cairn.inference_mode()
def steps(x: Tensor) -> Iterator[Tensor]:
    yield x
    yield x + 1


@cairn.set_grad_enabled(True)
def recorded(x: Tensor) -> Tensor:
    return x * 2


def modes() -> None:
    x = cairn.ones(2, requires_grad=True)
    with cairn.no_grad():
        assert_type(x * 2, Tensor)
    with cairn.enable_grad(), cairn.set_grad_enabled(False), cairn.inference_mode():
        assert_type(cairn.is_grad_enabled(), bool)
    assert_type(with_parentheses(x, times=3), Tensor)
    assert_type(without(x), float)
    assert_type(recorded(x), Tensor)
    for step in steps(x.detach()):
        assert_type(step, Tensor)


# ---- the rest ----
def random_numbers() -> None:
    g = cairn.Generator()
    assert_type(g.manual_seed(3), cairn.Generator)
    assert_type(g.initial_seed(), int)
    assert_type(g.get_state(), Tensor)
    assert_type(cairn.rand(2, generator=g), Tensor)
    assert_type(cairn.randperm(4, generator=g), Tensor)
    assert_type(cairn.empty(3).normal_(0, 1, generator=g), Tensor)
    assert_type(cairn.manual_seed(1), cairn.Generator)
    state = cairn.get_rng_state()
    cairn.set_rng_state(state)
    with cairn.random.fork_rng():
        assert_type(cairn.bernoulli(cairn.full((2,), 0.5)), Tensor)


def devices() -> None:
    assert_type(cairn.cuda.is_available(), bool)
    assert_type(cairn.cuda.device_count(), int)
    assert_type(cairn.cuda.memory_allocated(), int)
    if cairn.cuda.is_available():
        assert_type(cairn.cuda.get_device_name(0), str)
        assert_type(cairn.cuda.get_device_capability("cuda:0"), tuple[int, int])
        assert_type(cairn.cuda.get_device_properties().total_memory, int)
        assert_type(cairn.cuda.mem_get_info(cairn.device("cuda")), tuple[int, int])
        cairn.cuda.synchronize()


def networks() -> None:
    images, targets = cairn.randn(2, 3, 8, 8), cairn.tensor([0, 1])
    features = F.relu(F.conv2d(images, cairn.randn(4, 3, 3, 3), bias=cairn.zeros(4), padding=1), inplace=True)
    assert_type(features, Tensor)
    assert_type(F.max_pool2d(features, 2), Tensor)
    assert_type(F.max_pool2d(features, 2, return_indices=True), tuple[Tensor, Tensor])
    assert_type(F.adaptive_avg_pool2d(features, (1, None)), Tensor)
    assert_type(F.batch_norm(features, cairn.zeros(4), cairn.ones(4), training=True), Tensor)
    scores = F.linear(features.flatten(1), cairn.randn(5, 256))
    assert_type(F.cross_entropy(scores, targets, reduction="sum"), Tensor)
    assert_type(F.softmax(scores, dim=-1), Tensor)
    assert_type(F.dropout(F.gelu(F.layer_norm(scores, (5,))), p=0.1, training=False), Tensor)
    assert_type(F.embedding(targets, cairn.randn(3, 2)), Tensor)
    assert_type(F.interpolate(images, scale_factor=2.0, mode="nearest"), Tensor)
    q = cairn.randn(1, 2, 4, 8)
    assert_type(F.scaled_dot_product_attention(q, q, q, is_causal=True), Tensor)


def mathematics() -> None:
    a = cairn.eye(3) * 2
    assert_type(cairn.linalg.inv(a), Tensor)
    assert_type(cairn.linalg.det(a), Tensor)
    decomposed = cairn.linalg.svd(a)
    assert_type(decomposed.S, Tensor)
    q, r = cairn.linalg.qr(a)
    assert_type(q @ r, Tensor)
    assert_type(cairn.linalg.eigh(a).eigenvalues, Tensor)
    assert_type(cairn.linalg.solve(a, cairn.ones(3)), Tensor)
    assert_type(cairn.linalg.norm(a), Tensor)
    assert_type(cairn.special.expit(a), Tensor)
    assert_type(cairn.special.zeta(a + 1, 2.0), Tensor)
    assert_type(cairn.signal.windows.hann(8), Tensor)


def tests() -> None:
    cairn.testing.assert_close([cairn.ones(2), 1.0], [cairn.ones(2), 1.0], rtol=1e-3, atol=0.0, msg="other")
    assert_type(cairn.testing.make_tensor(2, 3, dtype=cairn.float32, low=0, high=1), Tensor)


def main() -> None:
    for part in (making, looking, converting, indexing, operators, reductions, shapes, gradients, modes,
                 random_numbers, devices, networks, mathematics, tests):
        part()


if __name__ == "__main__":
    main()
