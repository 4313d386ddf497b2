"""A layer, a loss and an activation of one's own, in a network with cairn's.

    python3 custom_layer.py
"""
import cairn
import cairn.nn.functional as F
from cairn import nn


class Swish(cairn.autograd.Function):
    """x sigmoid(b x) with a backward written by hand."""

    @staticmethod
    def forward(ctx: cairn.autograd.function.FunctionCtx, x: cairn.Tensor, b: cairn.Tensor) -> cairn.Tensor:
        s = cairn.sigmoid(b * x)
        ctx.save_for_backward(x, b, s)
        return x * s

    @staticmethod
    def backward(ctx: cairn.autograd.function.FunctionCtx, grad: cairn.Tensor) -> tuple[cairn.Tensor, cairn.Tensor]:
        x, b, s = ctx.saved_tensors
        slope = s * (1 - s)
        return grad * (s + b * x * slope), (grad * x * x * slope).sum()


class Gated(nn.Module):
    """A linear layer whose every output has a gate that learns how far it is open."""

    gate: nn.Parameter
    uses: cairn.Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.gate = nn.Parameter(cairn.zeros(outputs))
        self.sharpness = nn.Parameter(cairn.tensor(1.0))
        self.register_buffer("uses", cairn.zeros((), dtype=cairn.int64))

    def forward(self, x: cairn.Tensor) -> cairn.Tensor:
        self.uses += 1
        return Swish.apply(self.linear(x), self.sharpness) * cairn.sigmoid(self.gate)

    def extra_repr(self) -> str:
        return f"gates={self.gate.numel()}"


class Charbonnier(nn.Module):
    """A smooth form of the absolute error."""

    def __init__(self, eps: float = 1e-3) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, output: cairn.Tensor, target: cairn.Tensor) -> cairn.Tensor:
        return ((output - target).square() + self.eps ** 2).sqrt().mean()


def main() -> None:
    cairn.manual_seed(2)
    net = nn.Sequential(Gated(1, 32), Gated(32, 32), nn.Linear(32, 1))
    print(net)
    x = cairn.linspace(-3, 3, 128).view(-1, 1)
    y = cairn.sin(2 * x) + 0.3 * x
    optimizer = cairn.optim.Adam(net.parameters(), lr=0.01)
    loss_of = Charbonnier()
    first = loss_of(net(x), y).item()
    for _ in range(300):
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
    print(f"the error is {first / loss.item():.0f} times smaller after {int(net[0].uses)} calls")
    gates = cairn.sigmoid(net[0].gate)
    print(f"gates between {gates.min().item():.2f} and {gates.max().item():.2f}")
    a, b = cairn.randn(4, dtype=cairn.float64, requires_grad=True), cairn.ones((), dtype=cairn.float64,
                                                                             requires_grad=True)
    print("the gradient by hand agrees with finite differences:", cairn.autograd.gradcheck(Swish.apply, (a, b)))
    print("and with cairn's own:", cairn.allclose(Swish.apply(a, b), F.silu(a)))


if __name__ == "__main__":
    main()
