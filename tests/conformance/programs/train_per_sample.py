"""Networks as functions of their parameters: gradients of each example, ensembles, meta-learning, checkpoints."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint


def fill(module, shift=0.0):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) * (0.37 + i + shift)).view(p.shape) * 0.5)
    return module


class MLP(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.fc1 = nn.Linear(6, hidden)
        self.fc2 = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


data = torch.cos(torch.arange(30.0)).view(5, 6)
targets = torch.tensor([0, 1, 2, 1, 0])
model = fill(MLP())
params = {name: p.detach() for name, p in model.named_parameters()}


def compute_loss(params, sample, target):
    return F.cross_entropy(functional_call(model, params, (sample.unsqueeze(0),)), target.unsqueeze(0))


each = vmap(grad(compute_loss), in_dims=(None, 0, 0))(params, data, targets)
print({name: tuple(g.shape) for name, g in each.items()})
norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
print("norms:", norms.tolist())
clipped = {name: (g * (1 / norms).clamp(max=1).view(-1, *[1] * (g.ndim - 1))).mean(0) for name, g in each.items()}
print("clipped:", clipped["fc2.bias"].tolist())

models = [fill(MLP(), shift) for shift in (0.0, 1.0, 2.0)]
stacked, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
predictions = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(stacked, buffers, data)
print(predictions.shape, torch.allclose(predictions, torch.stack([m(data) for m in models]), atol=1e-5))
predictions.square().sum().backward()
print("ensemble:", stacked["fc2.bias"].grad.sum(1).tolist())

print("jacobian:", jacrev(torch.tanh)(data[0]).diagonal().tolist())
print("hessians:", vmap(hessian(lambda x: x.pow(3).sum()))(data[:2, :2]).tolist())

meta = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(3):
    meta.zero_grad()
    outer = 0.0
    for task in range(2):
        fast = dict(model.named_parameters())
        inner = F.cross_entropy(functional_call(model, fast, data), targets.roll(task))
        grads = torch.autograd.grad(inner, tuple(fast.values()), create_graph=True)
        fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
        outer = outer + F.cross_entropy(functional_call(model, fast, data), targets.roll(task))
    outer.backward()
    meta.step()
    print(f"step {step}: {outer.item():.4f}")

x = data.clone().requires_grad_()
hidden = checkpoint(model.fc1, x, use_reentrant=False)
out = checkpoint(lambda h: model.fc2(torch.tanh(h)), hidden, use_reentrant=False)
first, = torch.autograd.grad(F.cross_entropy(out, targets), x, create_graph=True)
first.square().sum().backward()
print("second:", x.grad[0].tolist())
