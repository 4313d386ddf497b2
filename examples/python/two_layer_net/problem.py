"""What the programs of this folder have in common: data, first parameters and settings. Not a program itself.

The network is  h = sigmoid(x W1 + b1),  y' = h W2 + b2  and learns y = sin(3 a) + a b of points (a, b) by gradient
descent with momentum on the mean squared error. The programs differ in how they get the gradients, and print the same
losses; so do the programs in C of examples/two_layer_net.
"""
import cairn

POINTS, INPUTS, HIDDEN, OUTPUTS, STEPS = 128, 2, 32, 1, 400
RATE, MOMENTUM = 0.1, 0.9


class Problem:
    """x (POINTS, INPUTS), y (POINTS, OUTPUTS), the parameters and the running sum of gradients of each."""

    def __init__(self, requires_grad: bool) -> None:
        cairn.manual_seed(3)
        self.x = cairn.rand(POINTS, INPUTS) * 2 - 1
        a, b = self.x[:, 0:1], self.x[:, 1:2]
        self.y = (a * 3).sin() + a * b
        self.w1 = cairn.randn(INPUTS, HIDDEN) * 2
        self.b1 = cairn.randn(HIDDEN)
        self.w2 = cairn.randn(HIDDEN, OUTPUTS) * 0.2
        self.b2 = cairn.zeros(OUTPUTS)
        self.parameters = [self.w1, self.b1, self.w2, self.b2]
        self.velocity = [cairn.zeros_like(p) for p in self.parameters]
        for p in self.parameters:
            p.requires_grad_(requires_grad)

    def update(self, gradients: list[cairn.Tensor]) -> None:
        """One step of gradient descent with momentum, not recorded."""
        with cairn.no_grad():
            for p, v, g in zip(self.parameters, self.velocity, gradients):
                v.mul_(MOMENTUM).add_(g)
                p.sub_(v, alpha=RATE)


def report(step: int, loss: float) -> None:
    if step % 100 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss {loss:.6f}")


def status(loss: float) -> int:
    """The exit status: did it learn?"""
    return 0 if loss < 0.01 else 1
