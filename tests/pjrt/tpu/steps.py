"""Writes whole training steps as StableHLO: steps.py FOLDER [NAME...] makes NAME.1.mlir for one device and NAME.4.mlir
for four, rows of the batch split over them.

Place in the flow: started by tests/pjrt/tpu_compile.py with the built package in the path. A step is forward, loss,
backward and the update of the parameters, which are given away. Convolutions are computed in bfloat16, as they are on
TPUs: of those in float32 the compiler looks for a form for minutes.
"""

import pathlib
import sys

import cairn
import cairn.nn.functional as F
from cairn import nn

DEVICES = 4


class LSTM(nn.Module):
    """Classes of sequences."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256, num_layers=2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Tokens(nn.Module):
    """A language model's scores of all tokens as rows."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        scores = self.net(x)
        return (scores if isinstance(scores, cairn.Tensor) else scores[0]).flatten(0, 1)


def mlp():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return net, lambda n: (cairn.zeros(n, 784), cairn.zeros(n, dtype=cairn.int64)), 128, "float32"


def cnn():
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Dropout(0.25), nn.Linear(4096, 10))
    return net, lambda n: (cairn.zeros(n, 3, 32, 32), cairn.zeros(n, dtype=cairn.int64)), 128, "bfloat16"


def lstm():
    return LSTM(), lambda n: (cairn.zeros(n, 16, 128), cairn.zeros(n, dtype=cairn.int64)), 64, "float32"


def gpt2(length=1024):
    def data(n):
        size = length if n > 1 else 8
        return cairn.zeros(n, size, dtype=cairn.int64), cairn.zeros(n * size, dtype=cairn.int64)
    return Tokens(cairn.zoo.create("gpt2")), data, 8, "bfloat16"


def resnet50():
    def data(n):
        side = 224 if n > 1 else 32
        return cairn.zeros(n, 3, side, side), cairn.zeros(n, dtype=cairn.int64)
    return cairn.zoo.create("resnet50"), data, 64, "bfloat16"


NETWORKS = {"MLP": mlp, "CNN": cnn, "LSTM": lstm, "GPT-2": gpt2, "ResNet-50": resnet50}


def optimiser_of(name, net):
    if name in ("CNN", "ResNet-50"):
        return cairn.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return cairn.optim.AdamW(net.parameters(), lr=1e-3)


def write(name, folder):
    net, data, batch, kind = NETWORKS[name]()
    optimiser = optimiser_of(name, net)

    def step(x, target):
        optimiser.zero_grad()
        with cairn.autocast("cpu", dtype=cairn.bfloat16, enabled=kind == "bfloat16"):
            loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimiser.step()
        return loss.detach()
    net.eval()  # one row has no variance
    step(*data(1))  # what an optimiser keeps is there from now on
    net.train()
    x, target = data(batch)
    mesh = cairn.Mesh({"data": DEVICES})
    shardings = {"args": [("data",), ("data",)]}
    for count, options in ((1, {}), (DEVICES, {"mesh": mesh, "shardings": shardings})):
        text = cairn.stablehlo.export(step, x, target, donate=True, **options)
        (folder / f"{name}.{count}.mlir").write_text(text)
    parameters = sum(p.numel() for p in net.parameters())
    print("%s\t%d\t%s\t%d" % (name, parameters, "x".join(map(str, x.shape)) + " " + kind, batch), flush=True)


if __name__ == "__main__":
    for each in sys.argv[2:] or NETWORKS:
        write(each, pathlib.Path(sys.argv[1]))
