"""A loop with everything of one's own: data set, collate function, layer, loss, hooks, schedule, early stop, resume."""
import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset, Subset, random_split

rng = random.Random(6)


class Sequences(Dataset):
    """Lists of several lengths; the target is whether their sum is positive."""

    def __init__(self, n):
        self.items = [[rng.gauss(0, 1) for _ in range(rng.randrange(2, 7))] for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        values = torch.tensor(self.items[idx])
        return {"x": values, "y": float(values.sum() > 0), "id": idx}


def collate(samples):
    lengths = torch.tensor([len(s["x"]) for s in samples])
    padded = nn.utils.rnn.pad_sequence([s["x"] for s in samples], batch_first=True)
    return padded, lengths, torch.tensor([s["y"] for s in samples])


class MaskedMean(nn.Module):
    """Scales its input by a learned number and averages what is not padding."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x, lengths, *, power=1):
        self.calls += 1
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        return (self.scale * x.pow(power) * mask).sum(1, keepdim=True) / lengths[:, None]

    def extra_repr(self):
        return f"scale={self.scale.item():.2f}"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = MaskedMean()
        self.hidden = nn.ModuleList([nn.Linear(2, 8), nn.Linear(8, 8)])
        self.norm = nn.LayerNorm(8)
        self.gates = nn.ParameterList([nn.Parameter(torch.ones(8)) for _ in range(2)])
        self.head = nn.Linear(8, 1)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}["tanh"]

    def forward(self, x, lengths):
        h = torch.cat([self.mean(x, lengths), self.mean(x, lengths, power=2)], dim=1)
        for layer, gate in zip(self.hidden, self.gates):
            h = self.activation(layer(h)) * gate
        return self.head(self.norm(h)).squeeze(-1)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, input, target):
        bce = nn.functional.binary_cross_entropy_with_logits(input, target, reduction="none")
        p = torch.exp(-bce)
        return ((1 - p) ** self.gamma * bce).mean()


net = Net()
with torch.no_grad():
    for name, p in net.named_parameters():
        if p.dim() > 1:
            p.copy_(torch.tensor([rng.gauss(0, 0.5) for _ in range(p.numel())]).view_as(p))
        elif "bias" in name:
            p.zero_()
print(net)
print([(n, tuple(p.shape)) for n, p in net.named_parameters()])
print([n for n, _ in net.named_buffers()], [type(m).__name__ for m in net.modules()])
seen = []
handle = net.hidden[0].register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)))
net.head.register_full_backward_hook(lambda module, gin, gout: seen.append(("grad", tuple(gout[0].shape))))
data = Sequences(40)
train, held_out = Subset(data, range(32)), Subset(data, list(range(32, 40)))
loader = DataLoader(train, batch_size=8, collate_fn=collate, num_workers=2)
held_loader = DataLoader(held_out, batch_size=8, collate_fn=collate)
criterion = FocalLoss()
optimizer = optim.RMSprop([{"params": net.hidden.parameters()}, {"params": [*net.mean.parameters(), *net.gates,
                                                                           *net.norm.parameters()], "lr": 1e-3},
                           {"params": net.head.parameters(), "weight_decay": 0.01}], lr=5e-3, momentum=0.5)
scheduler = optim.lr_scheduler.SequentialLR(optimizer, [
    optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
    optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)], milestones=[4])


def evaluate():
    net.eval()
    with torch.inference_mode():
        return sum(criterion(net(x, n), y).item() for x, n, y in held_loader)


def run(epochs):
    for epoch in epochs:
        net.train()
        for x, lengths, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x, lengths), y)
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
        print(epoch, round(loss.item(), 5), round(evaluate(), 5), [round(g["lr"], 6) for g in optimizer.param_groups])


run(range(2))
handle.remove()
print(len(seen), seen[:2], net.mean.calls.item())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict()}, path)
    run(range(2, 4))
    checkpoint = torch.load(path)
    net.load_state_dict(checkpoint["net"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    run(range(2, 4))
a, b = random_split(data, [30, 10], generator=torch.Generator().manual_seed(0))
print(len(a), len(b), len({*a.indices, *b.indices}))
