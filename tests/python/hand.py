"""Training written out with tensors and gradients alone: what the layers above them must agree with."""
import cairn


def losses(forward, weights, data, loss, step, epochs, batch=32):
    """The mean loss of each epoch: batches in order, gradients of `weights`, then step(gradients) changes them."""
    x, y = (cairn.as_tensor(t) for t in data)
    seen = []
    for _ in range(epochs):
        total = 0.0
        for i in range(0, len(x), batch):
            value = loss(forward(x[i:i + batch]), y[i:i + batch])
            gradients = cairn.autograd.grad(value, weights)
            with cairn.no_grad():
                step(gradients)
            total += value.item() * len(x[i:i + batch])
        seen.append(total / len(x))
    return seen


def copies(weights):
    """Leaves with the same numbers, which training changes by itself."""
    return [cairn.as_tensor(w).detach().clone().requires_grad_() for w in weights]


def sgd(weights, rate):
    def step(gradients):
        for w, g in zip(weights, gradients):
            w -= rate * g
    return step


def adam(weights, rate=0.001, beta1=0.9, beta2=0.999, eps=1e-7):
    """Keras's form of it: eps beside the square root of the uncorrected average, the correction in the rate."""
    first = [cairn.zeros_like(w) for w in weights]
    second = [cairn.zeros_like(w) for w in weights]
    count = [0]

    def step(gradients):
        count[0] += 1
        scale = rate * (1 - beta2 ** count[0]) ** 0.5 / (1 - beta1 ** count[0])
        for w, g, m, v in zip(weights, gradients, first, second):
            m += (1 - beta1) * (g - m)
            v += (1 - beta2) * (g * g - v)
            w -= scale * m / (v.sqrt() + eps)
    return step


def dense(weights, activation=cairn.relu):
    """A network of dense layers as Keras keeps them: kernel and bias in turns, an activation between two."""
    def forward(x):
        for i in range(0, len(weights), 2):
            x = x @ weights[i] + weights[i + 1]
            x = activation(x) if i + 2 < len(weights) else x
        return x
    return forward
