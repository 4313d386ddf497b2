"""USPS: hand-written digits of 16 x 16 pixels."""
from __future__ import annotations

import bz2
import os

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _fetch, _Images, _Path

__all__ = ["USPS"]


class USPS(_Images):
    """7,291 to train with, 2,007 to test with: root/usps.bz2 and usps.t.bz2, text as LIBSVM has it. `data` is
    (n, 16, 16) of uint8."""

    url = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
    classes = [str(i) for i in range(10)]

    def __init__(self, root: _Path, train: bool = True, transform: _Change = None, target_transform: _Change = None,
                 download: bool = False) -> None:
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.train = train
        name = "usps.bz2" if train else "usps.t.bz2"
        path = os.path.join(self.root, name)
        if download and not os.path.isfile(path):
            _fetch(self.url + name, "datasets/USPS", self.root, None)
        if not os.path.isfile(path):
            raise RuntimeError("USPS is not in %s: download=True fetches it" % self.root)
        rows, self.targets = [], []
        with bz2.open(path, "rt", encoding="ascii") as file:
            for line in file:  # "class 1:value ... 256:value", classes from 1 on, values from -1 to 1
                label, *values = line.split()
                self.targets.append(int(label) - 1)
                rows.append([float(v.partition(":")[2]) for v in values])
        self.data: Tensor = ((_C.tensor(rows, dtype=_C.float64) + 1) / 2 * 255).to(_C.uint8).view(-1, 16, 16)

    def _pixels(self) -> Tensor:
        return self.data.unsqueeze(1)
