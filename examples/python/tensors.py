"""Tensors: making them, looking at them, views and what shares memory, broadcasting, types, reading results.

    python3 tensors.py
"""
import cairn


def making() -> None:
    x = cairn.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # copies the numbers
    print(x)
    print(x.shape, x.dtype, x.device, x.numel())
    print(cairn.arange(0, 10, 2), cairn.linspace(0, 1, 5))
    print(cairn.zeros(2, 3).shape, cairn.full((2, 2), 7.0).tolist(), cairn.eye(2).tolist())


def views() -> None:
    x = cairn.arange(12).reshape(3, 4)
    print(x[1], x[:, 2], x[..., -1], sep="\n")
    row = x[0]
    row[0] = 100  # a view: this writes into x
    print(x[0, 0].item(), x.T.shape, x.T.is_contiguous())
    x[x > 9] = -1  # a mask
    print(x)


def arithmetic() -> None:
    a = cairn.tensor([1.0, 2.0, 3.0])
    column = cairn.tensor([[10.0], [20.0]])
    print(a + column)  # shapes (3) and (2, 1) become (2, 3)
    print((a * a).sum(), a @ a, a.mean().item())
    a += 1  # in place
    a.mul_(2)
    print(a)


def types() -> None:
    i = cairn.tensor([1, 2, 3])
    print(i.dtype, (i + 1).dtype, (i + 1.5).dtype, (i / 2).dtype)
    print(i.to(cairn.float64).dtype, i.float().dtype, (i > 1).tolist())
    best = cairn.tensor([3.0, 9.0, 4.0]).max(0)  # several results: a named tuple
    print(best.values.item(), best.indices.item())


def errors() -> None:
    try:
        cairn.ones(2, 3) @ cairn.ones(2, 3)
    except RuntimeError as error:
        print("RuntimeError:", error)


def main() -> None:
    making()
    views()
    arithmetic()
    types()
    errors()


if __name__ == "__main__":
    main()
