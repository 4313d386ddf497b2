"""Gradients: backward, gradients of chosen inputs, higher orders, and parts that are not recorded.

    python3 autograd.py
"""
import cairn


def backward() -> None:
    x = cairn.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x ** 2).sum()
    y.backward()
    print(x.grad)  # 2 x
    (3 * x).sum().backward()
    print(x.grad)  # gradients add up until they are dropped: 2 x + 3
    x.grad = None


def chosen_inputs() -> None:
    a = cairn.tensor(2.0, requires_grad=True)
    b = cairn.tensor(5.0, requires_grad=True)
    da, db = cairn.autograd.grad(a * b + a.sin(), (a, b))
    print(f"{da.item():.4f} {db.item():.4f}")  # b + cos a, a; nothing is left in a.grad
    assert a.grad is None


def higher_orders() -> None:
    x = cairn.tensor(2.0, requires_grad=True)
    value = x ** 4
    for order in range(1, 5):
        (value,) = cairn.autograd.grad(value, x, create_graph=True)
        print(f"derivative {order} of x^4 at 2: {value.item():g}")


def control_flow() -> None:
    """Any Python code: what ran is what is differentiated."""
    x = cairn.tensor(0.7, requires_grad=True)
    y = x
    while y.item() < 10:
        y = y * 2
    y.backward()
    assert x.grad is not None
    print(f"{y.item():.1f} {x.grad.item():g}")


def not_recorded() -> None:
    w = cairn.ones(3, requires_grad=True)
    with cairn.no_grad():
        w -= 0.5  # an update: not part of any gradient
    print((w * 2).requires_grad, w.detach().requires_grad, w.tolist())


def main() -> None:
    backward()
    chosen_inputs()
    higher_orders()
    control_flow()
    not_recorded()


if __name__ == "__main__":
    main()
