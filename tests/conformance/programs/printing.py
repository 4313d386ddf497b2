"""What tensors look like when printed, and how their parts are asked for."""
import torch

x = torch.arange(6.0).reshape(2, 3)
print(x)
print(x.to(torch.int64), x > 2)
print(torch.tensor(3.5), torch.tensor([]), torch.tensor([True, False]))
print(torch.tensor([1e-8, 1.0, 1e8]), torch.tensor([float("nan"), float("inf"), -1.0]))
print(torch.linspace(0, 1, 5, dtype=torch.float64))
print(torch.zeros(2, 2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16))
print(torch.arange(2000))
print(x.shape, x.shape == (2, 3), x.shape[0], len(x), x.size(), x.size(1), x.dim(), x.ndim, x.numel())
print(x.dtype, x.device, x.stride(), x.t().is_contiguous(), x.T.shape, x.is_leaf, x.requires_grad)
print([row.tolist() for row in x], x[1, 2].item(), float(x[0, 1]), int(x[1, 1]), bool(x[0, 0]))
print(repr(torch.tensor([1, 2, 3])), str(torch.tensor(7)), f"{torch.tensor(2.5):.3f}", f"{x.mean().item():.2f}")
print(x.max(dim=1))
values, indices = x.max(dim=1)
result = x.sort(dim=1, descending=True)
print(result.values.tolist(), result.indices.tolist(), values.tolist(), indices.tolist())
try:
    x @ x
except RuntimeError:
    print("a RuntimeError for shapes that do not fit")
try:
    x[5]
except IndexError:
    print("an IndexError")
try:
    torch.zeros(2, requires_grad=True).numpy()
except RuntimeError:
    print("a RuntimeError for numpy with gradients")
