"""Moving weights between networks: state dictionaries, freezing, a new head, copies, checkpoints in memory."""
import copy
import io
import random
from collections import OrderedDict

import torch
from torch import nn, optim

rng = random.Random(11)


class Block(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.stem = nn.Sequential(OrderedDict([("conv", nn.Conv2d(3, 4, 3, padding=1, bias=False)),
                                               ("bn", nn.BatchNorm2d(4)), ("relu", nn.ReLU(inplace=True))]))
        self.layer1 = self._make_layer(4, 4, 2)
        self.layer2 = self._make_layer(4, 8, 2, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, inplanes, planes, blocks, stride=1):
        downsample = None
        if stride != 1:
            downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        layers = [Block(inplanes, planes, stride, downsample)]
        layers += [Block(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


model = ResNet()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.tensor([rng.gauss(0.1, 0.2) for _ in range(p.numel())]).view_as(p))
state = model.state_dict()
print(len(state), [k for k in state if "layer2.0" in k])
other = ResNet(num_classes=3)
partial = {k: v for k, v in state.items() if not k.startswith("fc")}
print(other.load_state_dict(partial, strict=False))
try:
    other.load_state_dict(state)
except RuntimeError as error:
    print("refused:", "fc.weight" in str(error), "size mismatch" in str(error))
for name, param in other.named_parameters():
    if not name.startswith("fc"):
        param.requires_grad = False
num_ftrs = other.fc.in_features
other.fc = nn.Linear(num_ftrs, 2)
with torch.no_grad():
    other.fc.weight.copy_(torch.tensor([[rng.gauss(0, 1) for _ in range(num_ftrs)] for _ in range(2)]))
    other.fc.bias.zero_()
x = torch.tensor([rng.random() for _ in range(6 * 3 * 8 * 8)]).view(6, 3, 8, 8)
y = torch.tensor([0, 1, 0, 1, 1, 0])
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = optim.SGD(filter(lambda p: p.requires_grad, other.parameters()), lr=0.1, momentum=0.9, weight_decay=1e-3)
best, best_loss = copy.deepcopy(other.state_dict()), 1e9
for epoch in range(4):
    for phase in ("train", "val"):
        other.train() if phase == "train" else other.eval()
        optimizer.zero_grad()
        with torch.set_grad_enabled(phase == "train"):
            outputs = other(x)
            _, preds = torch.max(outputs, 1)
            loss = criterion(outputs, y)
            if phase == "train":
                loss.backward()
                optimizer.step()
        print(phase, round(loss.item(), 4), int(torch.sum(preds == y.data)))
        if phase == "val" and loss.item() < best_loss:
            best_loss, best = loss.item(), copy.deepcopy(other.state_dict())
other.load_state_dict(best)
buffer = io.BytesIO()
torch.save({"epoch": 4, "model": other.state_dict(), "optimizer": optimizer.state_dict(), "loss": best_loss}, buffer)
buffer.seek(0)
checkpoint = torch.load(buffer, weights_only=True)
fresh = ResNet(num_classes=2)
fresh.load_state_dict(checkpoint["model"])
fresh.eval()
other.eval()
print(torch.equal(fresh(x), other(x)), checkpoint["epoch"], sorted(checkpoint))
clone = copy.deepcopy(fresh)
clone.fc.bias.data += 1
print((clone(x) - fresh(x)).mean().item(), clone.fc.weight is fresh.fc.weight)
print(model.layer2[0].downsample)
print([n for n, _ in model.named_children()], model.layer1[-1].conv1.weight.shape)
