"""What programs do with modules besides training them."""
import copy
import pickle
import random

import torch
import torch.nn as nn

rng = random.Random(8)


def fill(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([rng.uniform(-0.4, 0.4) for _ in range(p.numel())]).view_as(p))
    return module


net = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh()),
                         nn.Dropout(0.3), nn.Linear(8, 2)))
print(net, len(net), net[0], net[-1].out_features)
print(net[1:3])
print([n for n, _ in net.named_modules()])
print([k for k in net.state_dict()])
net.append(nn.Identity())
net.insert(1, nn.Flatten())
del net[1]
print(len(net), isinstance(net[-1], nn.Identity), [type(m).__name__ for m in net])
x = torch.tensor([[rng.gauss(0, 1) for _ in range(4)] for _ in range(5)])
net.eval()
y = net(x)
print(y.sum().item(), net.training, all(not m.training for m in net.modules()))
double = copy.deepcopy(net).double()
print(double[0].weight.dtype, net[0].weight.dtype, (double(x.double()) - y.double()).abs().max().item() < 1e-5)
print(net.get_submodule("2.1"), net.get_parameter("0.weight").shape)
net.requires_grad_(False)
print(any(p.requires_grad for p in net.parameters()))
net[0].requires_grad_(True)
print(sum(p.numel() for p in net.parameters() if p.requires_grad))
again = pickle.loads(pickle.dumps(net))
print(torch.equal(again(x), y), list(again.state_dict()) == list(net.state_dict()))


class Scaled(nn.Linear):
    """A layer derived from another one."""

    def __init__(self, in_features, out_features, factor=2.0):
        super().__init__(in_features, out_features)
        self.factor = factor

    def forward(self, input):
        return super().forward(input) * self.factor


scaled = fill(Scaled(4, 3))
print(scaled, torch.allclose(scaled(x), 2 * nn.functional.linear(x, scaled.weight, scaled.bias)))
print(nn.Sequential(scaled, nn.ReLU())(x).shape, isinstance(scaled, nn.Linear))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4, padding_idx=0)
        self.decoder = nn.Linear(4, 6)
        self.decoder.weight = self.embedding.weight
        self.blocks = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.register_parameter("absent", None)
        self.temperature = 1.5

    def forward(self, tokens, which="a"):
        return self.decoder(self.blocks[which](self.embedding(tokens))) / self.temperature


tied = fill(Tied())
print(tied)
print([n for n, _ in tied.named_parameters()], [k for k in tied.state_dict()])
print(tied(torch.tensor([1, 2]), which="b").shape, tied.absent, tied.decoder.weight is tied.embedding.weight)
tied.blocks["c"] = nn.Linear(4, 4)
print(list(tied.blocks.keys()), "a" in tied.blocks, len(tied.blocks))
out = tied(torch.tensor([[1, 2, 3]]))
out.sum().backward()
print(tied.embedding.weight.grad.shape, tied.blocks["b"].weight.grad)
tied.zero_grad()
print(tied.embedding.weight.grad)
try:
    tied.missing
except AttributeError as error:
    print("'Tied' object has no attribute 'missing'" == str(error))
try:
    nn.Linear(3, 2)(torch.ones(1, 4))
except RuntimeError:
    print("shapes do not fit")
conv = nn.Conv2d(3, 6, (3, 5), stride=(2, 1), padding="valid", groups=3, bias=False, padding_mode="zeros")
print(conv, conv.weight.shape, conv.stride, conv.kernel_size, conv.groups, conv.bias)
bn = nn.BatchNorm2d(3, momentum=0.2)
for _ in range(3):
    bn(torch.tensor([rng.random() for _ in range(2 * 3 * 2 * 2)]).view(2, 3, 2, 2))
print(bn.running_mean, bn.running_var, bn.num_batches_tracked)
pool, idx = nn.MaxPool2d(2, return_indices=True)(torch.arange(16.).view(1, 1, 4, 4))
print(nn.MaxUnpool2d(2)(pool, idx)[0, 0, 1])
lstm = fill(nn.LSTM(3, 5, num_layers=2, batch_first=True, dropout=0.0, bidirectional=True))
output, (h, c) = lstm(torch.ones(2, 4, 3))
print(output.shape, h.shape, c.shape, [n for n, _ in lstm.named_parameters()][:4], output.mean().item())
cell = fill(nn.GRUCell(3, 4))
print(cell(torch.ones(2, 3), torch.zeros(2, 4)).shape)
print(nn.CrossEntropyLoss(weight=torch.tensor([1., 2.]), reduction="sum")(torch.tensor([[0.2, 0.4]]),
                                                                         torch.tensor([1])).item())
print(nn.init.calculate_gain("leaky_relu", 0.2), nn.init._calculate_fan_in_and_fan_out(conv.weight))
