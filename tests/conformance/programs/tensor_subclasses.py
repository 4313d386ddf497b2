"""Classes derived from Tensor, and __torch_function__."""
import torch
import torch.nn.functional as F


class LoggingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not func.__name__.startswith("__"):
            print(func.__name__, [t.__name__ for t in types])
        return super().__torch_function__(func, types, args, kwargs or {})


class Named(torch.Tensor):
    pass


class Tagged(torch.Tensor):
    def __new__(cls, x, tag=None):
        return super().__new__(cls, x)

    def __init__(self, x, tag=None):
        self.tag = tag


OWN = {torch.mean: lambda x: "a mean of its own"}


class Strict(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return OWN[func](*args, **(kwargs or {})) if func in OWN else NotImplemented


t = torch.ones(2).as_subclass(LoggingTensor)
total = torch.mul(t + 1, 3).sum()
print(type(total).__name__)

a = torch.arange(4.0).view(2, 2).as_subclass(Named)
print(a, a.shape)
for made in (a * 2, 2 * a, 1 - a, -a, a @ a, a[0], a.T, a.sum(), a.float(), a.detach(), torch.stack([a, a]), F.relu(a),
             a.max(0)[0], torch.cat((a, torch.ones(2, 2)))):
    print(type(made).__name__, end=" ")
print()
a += 1
b = a.clone().requires_grad_()
c = (b ** 2).sum()
c.backward()
print(type(a).__name__, type(c).__name__, b.grad is not None, type(torch.nn.Parameter(torch.ones(2)) + 1).__name__)

m = Tagged([1.0, 2.0], tag="first")
print(m.tag, type(m + m).__name__, m)

s = torch.ones(2).as_subclass(Strict)
print(torch.mean(s))
try:
    torch.add(s, s)
except TypeError:
    print("not added")
