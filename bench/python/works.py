"""The works of the Python rows, written once for both libraries: `python works.py cairn|torch THREADS`.

An add of 16 floats, with and without recording, and a training step of the small network of mlp_small_step (64-32-10,
ReLU, batch 32, cross entropy, SGD) on tensors. Since cairn follows torch's names, both sides run this very code; torch
also runs its own modules and optimiser. Invariant: results are dropped before the next call begins.
"""
import importlib
import sys
from itertools import repeat

import serve

N, IN, HIDDEN, OUT, BATCH, RATE = 16, 64, 32, 10, 32, 0.01


def small_adds(lib):
    state = {}

    def setup():
        state["a"] = lib.tensor(serve.fill(N, 1, 1.0))
        state["b"] = lib.tensor(serve.fill(N, 2, 1.0))
        state["g"] = lib.tensor(serve.fill(N, 1, 1.0), requires_grad=True)

    def add(n):
        a, b = state["a"], state["b"]
        for _ in repeat(None, n):
            a + b

    def add_no_grad(n):
        with lib.no_grad():
            add(n)

    def add_function(n):
        a, b, function = state["a"], state["b"], lib.add
        for _ in repeat(None, n):
            function(a, b)

    def add_grad(n):
        g, b = state["g"], state["b"]
        for _ in repeat(None, n):
            g + b

    def backward(n):
        g, b = state["g"], state["b"]
        for _ in repeat(None, n):
            (g + b).sum().backward()

    def total():
        return (state["a"] + state["b"]).sum().item()

    def grads():
        backward(3)
        return state["g"].grad.sum().item()

    return [serve.Work("py_small_add", "", "call", 1, setup, add, total),
            serve.Work("py_small_add", "no_grad", "call", 1, setup, add_no_grad, total),
            serve.Work("py_small_add", "function", "call", 1, setup, add_function, total),
            serve.Work("py_small_add_grad", "", "call", 1, setup, add_grad, total),
            serve.Work("py_add_sum_backward", "", "call", 1, setup, backward, grads)]


def parameters(lib):
    """(shape, seed, scale) of weights and biases, as on the other sides."""
    s1, s2 = 0.125, 0.176776695
    for shape, seed, scale in (((HIDDEN, IN), 11, s1), ((HIDDEN,), 12, s1), ((OUT, HIDDEN), 13, s2), ((OUT,), 14, s2)):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        yield lib.tensor(serve.fill(n, seed, scale)).reshape(shape)


def batch(lib):
    return (lib.tensor(serve.fill(BATCH * IN, 10, 1.0)).reshape(BATCH, IN),
            lib.tensor([serve.label(i, OUT) for i in range(BATCH)]))


def mlp(lib):
    state = {}
    functional = lib.nn.functional

    def setup():
        state["x"], state["y"] = batch(lib)
        state["p"] = [p.clone().requires_grad_() for p in parameters(lib)]
        if lib.__name__ == "cairn":
            state["fast"] = lib.compile(step_of, fullgraph=True)

    def step():
        return step_of(state["x"], state["y"])

    def step_of(x, y):
        w1, b1, w2, b2 = state["p"]
        h = functional.relu(functional.linear(x, w1, b1))
        loss = functional.cross_entropy(functional.linear(h, w2, b2), y)
        loss.backward()
        with lib.no_grad():
            for p in state["p"]:
                p.sub_(p.grad, alpha=RATE)
                p.grad = None
        return loss

    def works(variant, call):
        def run(n):
            for _ in repeat(None, n):
                call()

        def check():
            run(99)
            return call().item()
        return serve.Work("py_mlp_small_step", variant, "step", 1, setup, run, check)

    made = [works("by_hand", step)]
    if lib.__name__ == "cairn":
        made.append(works("compiled", lambda: state["fast"](state["x"], state["y"])))
    return made


def mlp_modules(torch):
    state = {}

    def setup():
        state["x"], state["y"] = batch(torch)
        net = torch.nn.Sequential(torch.nn.Linear(IN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUT))
        with torch.no_grad():
            for p, value in zip(net.parameters(), parameters(torch)):
                p.copy_(value)
        state["net"], state["loss"] = net, torch.nn.CrossEntropyLoss()
        state["sgd"] = torch.optim.SGD(net.parameters(), lr=RATE)

    def step():
        state["sgd"].zero_grad()
        loss = state["loss"](state["net"](state["x"]), state["y"])
        loss.backward()
        state["sgd"].step()
        return loss

    def run(n):
        for _ in repeat(None, n):
            step()

    def check():
        run(99)
        return step().item()

    return [serve.Work("py_mlp_small_step", "modules", "step", 1, setup, run, check)]


def main():
    name, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    lib = importlib.import_module(name)
    lib.set_num_threads(threads)
    works = small_adds(lib) + mlp(lib)
    if name == "torch":
        works += mlp_modules(lib)
    serve.serve(works)


if __name__ == "__main__":
    main()
