"""Views share memory, in-place writes go through them, and gradients follow."""
import torch

base = torch.zeros(4, 4)
base[1:3, 1:3] = 5
base.diagonal().fill_(1)
base[:, -1] += torch.arange(4.0)
print(base.tolist())
window = base.unfold(0, 2, 1)
print(window.shape, window.sum(dim=(1, 2)).tolist())
print(base[::2, None, 1:].shape, base[..., 0].tolist(), base[torch.tensor([0, 2])][:, [1, 3]].tolist())
print(base.view(2, 8).t().shape, base.view(-1)[5].item(), base.permute(1, 0).reshape(-1)[:5].tolist())
print([p.shape for p in base.split(3)], [p.tolist() for p in base[0].chunk(3)], len(base.unbind(1)))
print(base.expand(2, 4, 4).sum().item(), base.repeat(1, 2).shape, base.flip(0)[0].tolist(), base.roll(1, 1)[0].tolist())
x = torch.ones(3, 3, requires_grad=True)
y = x * 2
y[0] = 0
y[:, 1] *= 3
z = torch.where(y > 1, y, torch.zeros_like(y))
z.sum().backward()
print(x.grad.tolist())
w = torch.arange(1.0, 5.0, requires_grad=True)
a, b = w.split(2)
(a * b).sum().backward()
print(w.grad.tolist())
mask = torch.tensor([True, False, True, False])
v = torch.arange(4)
v[mask] = -1
print(v.tolist(), v[~mask].tolist(), torch.masked_select(v, mask).tolist(), torch.nonzero(mask).flatten().tolist())
print(torch.triu(torch.ones(3, 3)).tolist(), torch.eye(3).tril(-1).sum().item(), torch.stack([v, v], dim=1).shape)
print(torch.arange(10)[2:8:3].tolist(), torch.arange(24).reshape(2, 3, 4)[:, -1, ::2].tolist())
