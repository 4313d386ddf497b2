"""Several processes train one network at once, without locks (Hogwild): its parameters lie in shared memory.

    python3 hogwild.py [PROCESSES]
"""
import sys

import cairn
import cairn.multiprocessing as mp
import cairn.nn.functional as F
from cairn import datasets, nn
from cairn.utils.data import DataLoader


def train(rank: int, net: nn.Module, epochs: cairn.Tensor) -> None:
    """One process: its own order of the images and its own optimiser, over the parameters of all."""
    cairn.set_num_threads(1)
    cairn.manual_seed(rank)
    optimizer = cairn.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(10):
        for x, y in DataLoader(datasets.digits(train=True), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        epochs[rank] += 1


def accuracy(net: nn.Module) -> float:
    x, y = next(iter(DataLoader(datasets.digits(train=False), batch_size=1000)))
    with cairn.no_grad():
        return float((net(x).argmax(1) == y).float().mean())


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    cairn.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).share_memory()
    epochs = cairn.zeros(processes, dtype=cairn.int64).share_memory_()
    mp.spawn(train, args=(net, epochs), nprocs=processes)
    print("epochs that each process has run:", epochs.tolist())
    print("more than 85 of 100 digits are read correctly:", accuracy(net) > 0.85)


if __name__ == "__main__":
    main()
