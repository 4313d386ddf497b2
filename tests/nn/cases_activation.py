"""Activations."""
import torch

from golden import Case, T

# Values around every corner that the formulas have, away from the corners themselves.
X = torch.tensor([[-30.0, -7.0, -3.5, -2.9, -1.2, -0.6], [-0.4, -0.1, 0.1, 0.4, 0.6, 1.2],
                  [2.9, 3.5, 5.9, 6.5, 21.0, 30.0]])


def on_x(cls, *variants):
    return [Case(cls, make, {"input": X}) for make in variants]


CASES = [
    *on_x("ELU", {}, {"alpha": 0.5}, {"alpha": 2.0, "inplace": True}),
    *on_x("Hardshrink", {}, {"lambd": 1.0}, {"lambd": 0.0}),
    *on_x("Hardsigmoid", {}, {"inplace": True}),
    *on_x("Hardtanh", {}, {"min_val": -2.0, "max_val": 0.5}, {"inplace": True}, {"min_val": 0.0, "max_val": 3.0}),
    *on_x("Hardswish", {}, {"inplace": True}),
    *on_x("LeakyReLU", {}, {"negative_slope": 0.2, "inplace": True}, {"negative_slope": 0.0}),
    *on_x("LogSigmoid", {}),
    *on_x("ReLU", {}, {"inplace": True}),
    *on_x("ReLU6", {}, {"inplace": True}),
    *on_x("SELU", {}, {"inplace": True}),
    *on_x("CELU", {}, {"alpha": 0.5}, {"alpha": 2.0, "inplace": True}),
    *on_x("GELU", {}, {"approximate": "tanh"}),
    *on_x("Sigmoid", {}),
    *on_x("SiLU", {}, {"inplace": True}),
    *on_x("Mish", {}, {"inplace": True}),
    *on_x("Softplus", {}, {"beta": 2.0, "threshold": 5.0}, {"beta": 0.5}, {"threshold": 0.0}),
    *on_x("Softshrink", {}, {"lambd": 1.0}, {"lambd": 0.0}),
    *on_x("Softsign", {}),
    *on_x("Tanh", {}),
    *on_x("Tanhshrink", {}),
    *on_x("Threshold", {"threshold": 0.5, "value": -3.0}, {"threshold": -1.0, "value": 7.5, "inplace": True}),
    *on_x("PReLU", {}, {"init": 0.1}, {"init": 0.0}),
    Case("PReLU", {"num_parameters": 4}, {"input": T(2, 4, 3)}),
    Case("PReLU", {"num_parameters": 4, "init": 0.5}, {"input": T(3, 4)}),
    Case("RReLU", {}, {"input": T(2, 6)}, random=True),
    Case("RReLU", {"lower": 0.1, "upper": 0.9, "inplace": True}, {"input": T(2, 6)}, random=True),
    *[Case("GLU", make, {"input": T(2, 4, 6)}) for make in ({}, {"dim": 1}, {"dim": 0})],
    *[Case(cls, {"dim": dim}, {"input": T(2, 4, 3)}) for cls in ("Softmin", "Softmax", "LogSoftmax")
      for dim in (0, 1, -1)],
    *[Case(cls, {}, {"input": T(*shape)}) for cls in ("Softmin", "Softmax", "LogSoftmax")
      for shape in ((4,), (3, 4), (2, 3, 2), (1, 3, 2, 2))],
    Case("Softmax2d", {}, {"input": T(2, 3, 2, 2)}),
    Case("Softmax2d", {}, {"input": T(3, 2, 2)}),
    Case("Softmax2d", {}, {"input": T(3, 2)}, error="call"),
    Case("Hardtanh", {"min_val": 1.0, "max_val": -1.0}, {"input": X}, error="make"),
    Case("GLU", {}, {"input": T(2, 3)}, error="call"),
    Case("Softmax", {"dim": 5}, {"input": T(2, 3)}, error="call"),
    Case("PReLU", {"num_parameters": 3}, {"input": T(2, 4)}, error="call"),
]
