"""A straight-through rounding and a hand-written exponential, as autograd Functions."""
import torch


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.0, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


x = torch.tensor([0.12, 0.57, -0.33, 0.9], requires_grad=True)
y = Round.apply(x, 4)
print(y.tolist())
(y * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
print(x.grad.tolist())

z = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
print(Exp.apply(z).tolist(), torch.autograd.gradcheck(Exp.apply, (z,)))
g, = torch.autograd.grad(Exp.apply(z).sum(), z, create_graph=True)
gg, = torch.autograd.grad(g.sum(), z)
print(g.tolist(), gg.tolist())
print(type(Exp.apply(z).grad_fn).__name__ != "NoneType", Exp.apply(z).requires_grad)
