"""A convolutional network that learns hand-written digits.

    python3 mnist.py [IMAGES LABELS [TEST_IMAGES TEST_LABELS]] [--epochs 8] [--train-on 9000]

IMAGES and LABELS are MNIST's files, gzipped or not. With one pair of files the first --train-on images are for
training and the rest for testing. Without files it learns the 8 x 8 digits that are compiled in, in seconds.
"""
import argparse
from typing import Any

import cairn
import cairn.nn.functional as F
from cairn import datasets, nn
from cairn.optim.lr_scheduler import OneCycleLR
from cairn.utils.data import DataLoader, Dataset, Subset


class Net(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(64 * (side // 4) ** 2, 10)

    def forward(self, x: cairn.Tensor) -> cairn.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        scores: cairn.Tensor = self.fc(self.dropout(x.flatten(1)))
        return scores


def data(args: argparse.Namespace) -> tuple[Dataset[Any], Dataset[Any]]:
    if not args.files:
        return datasets.digits(train=True), datasets.digits(train=False)
    first = datasets.idx(args.files[0], args.files[1])
    if len(args.files) == 4:
        return first, datasets.idx(args.files[2], args.files[3])
    return Subset(first, range(args.train_on)), Subset(first, range(args.train_on, len(first)))


def accuracy(net: Net, loader: DataLoader[Any]) -> float:
    net.eval()
    right = seen = 0
    with cairn.inference_mode():
        for x, y in loader:
            right += int((net(x).argmax(1) == y).sum())
            seen += len(y)
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns hand-written digits.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train-on", type=int, default=9000)
    args = parser.parse_args()
    cairn.manual_seed(1)
    train, test = data(args)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    held_out = DataLoader(test, batch_size=256)
    net = Net(train[0][0].shape[-1])
    optimizer = cairn.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = OneCycleLR(optimizer, max_lr=5e-3, epochs=args.epochs, steps_per_epoch=len(loader))
    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, accuracy {accuracy(net, held_out):.4f}")


if __name__ == "__main__":
    main()
