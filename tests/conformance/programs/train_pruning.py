"""Pruning a small network while it is trained, then for good; orthogonal and symmetric weights."""
import torch
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.nn.utils import parametrizations, prune


def fill(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) * (0.37 + i)).view(p.shape) * 0.5)
    return module


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 6, 3)
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.view(-1, int(x.nelement() / x.shape[0])))


model = fill(LeNet())
images = torch.cos(torch.arange(12 * 100.0)).view(12, 1, 10, 10)
labels = torch.arange(12) % 3
prune.l1_unstructured(model.conv1, name="weight", amount=0.3)
prune.l1_unstructured(model.conv1, name="bias", amount=1)
prune.ln_structured(model.conv1, name="weight", amount=0.5, n=2, dim=0)
for hook in model.conv1._forward_pre_hooks.values():
    if hook._tensor_name == "weight":
        print("history of the weight:", [type(method).__name__ for method in hook])
print(list(model.state_dict().keys()))

optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")

parts = ((model.conv1, "weight"), (model.conv2, "weight"), (model.fc, "weight"))
prune.global_unstructured(parts, pruning_method=prune.L1Unstructured, amount=0.4)
for module, name in parts:
    gone = 100.0 * float(torch.sum(getattr(module, name) == 0)) / getattr(module, name).nelement()
    print(f"{type(module).__name__}: {gone:.2f}% pruned")
for module, name in parts:
    prune.remove(module, name)
print("pruned:", prune.is_pruned(model), [name for name, _ in model.conv1.named_parameters()])
print(f"loss {F.cross_entropy(model(images), labels).item():.4f}")


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


layer = fill(nn.Linear(4, 4))
parametrize.register_parametrization(layer, "weight", Symmetric())
optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    layer(torch.ones(2, 4)).square().sum().backward()
    optimizer.step()
print(layer)
print("symmetric:", torch.allclose(layer.weight, layer.weight.T), layer.weight[0].tolist())
parametrize.remove_parametrizations(layer, "weight")
print(type(layer).__name__, [name for name, _ in layer.named_parameters()])
turned = parametrizations.orthogonal(fill(nn.Linear(3, 3)))
print("orthogonal:", torch.allclose(turned.weight.T @ turned.weight, torch.eye(3), atol=1e-5))
print(turned(torch.ones(1, 3)).tolist())
