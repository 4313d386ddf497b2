"""Derivatives of Python functions: products with vectors, Jacobians and Hessians.

Each takes a function of tensors and its inputs (a tensor or a tuple) and answers in the same form. With create_graph
the answers are recorded, so that they can be differentiated again. With strict, an input that an output does not
depend on is an error instead of zeros. Products from the left walk backward once; those from the right walk backward
twice, through the gradient as a function of the vector.
"""

from .. import _C
from .._modes import enable_grad
from . import grad as _grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

_Tensor = _C.TensorBase


def _tuple(value, what):
    """The value as a tuple of tensors, and whether it was a single one."""
    if isinstance(value, _Tensor):
        return (value,), True
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, _Tensor) for v in value):
        raise TypeError(f"{what}: expected a Tensor or a tuple of tensors, not {type(value).__name__}")
    return tuple(value), False


def _single(values, alone):
    return values[0] if alone else tuple(values)


def _fresh(tensors, create_graph):
    """Inputs that can be differentiated by, cut off from what was before unless the answer is to be recorded."""
    if not create_graph:
        return tuple(t.detach().requires_grad_() for t in tensors)
    return tuple(t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in tensors)


def _plain(values, create_graph):
    return tuple(values) if create_graph else tuple(v.detach() for v in values)


def _vector(v, like, what):
    """The vector of a product, checked against the tensors it belongs to; ones when it may be left out."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{what}: v can be left out only for a single tensor of one element")
        return (_C.ones_like(like[0]),)
    v, _ = _tuple(v, f"{what}: v")
    if len(v) != len(like):
        raise RuntimeError(f"{what}: v has {len(v)} tensors, expected {len(like)}")
    for i, (a, b) in enumerate(zip(v, like)):
        if tuple(a.shape) != tuple(b.shape):
            raise RuntimeError(f"{what}: v {i} has shape {tuple(a.shape)}, expected {tuple(b.shape)}")
    return v


def _derive(outputs, inputs, seeds, create_graph, strict, what):
    """Gradients with zeros for what does not take part (an error when strict)."""
    linked = [(o, s) for o, s in zip(outputs, seeds) if o.requires_grad]
    if strict and len(linked) < len(outputs):
        raise RuntimeError(f"{what}: an output does not depend on the inputs")
    answer = (None,) * len(inputs)
    if linked:
        answer = _grad([o for o, _ in linked], inputs, [s for _, s in linked], retain_graph=True,
                       create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in answer):
        raise RuntimeError(f"{what}: the outputs do not depend on input {answer.index(None)}")
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(answer, inputs))


def _scalar(outputs, alone, what):
    if not alone or outputs[0].numel() != 1:
        raise RuntimeError(f"{what}: the function must return a single tensor of one element")


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, v^T J): the product of a vector with the Jacobian, from the left."""
    with enable_grad():
        given, alone = _tuple(inputs, "vjp: inputs")
        inputs = _fresh(given, create_graph)
        outputs, out_alone = _tuple(func(*inputs), "vjp: outputs")
        v = _vector(v, outputs, "vjp")
        answer = _derive(outputs, inputs, v, create_graph, strict, "vjp")
    return _single(_plain(outputs, create_graph), out_alone), _single(_plain(answer, create_graph), alone)


def _twice(outputs, inputs, v, create_graph, strict, what):
    """J v by double backward: the gradient is linear in its seed; its derivative by the seed is J."""
    seeds = tuple(_C.zeros_like(o).requires_grad_() for o in outputs)
    back = _derive(outputs, inputs, seeds, True, strict, what)
    return _derive(back, seeds, v, create_graph, False, what)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, J v): the product of the Jacobian with a vector, from the right."""
    with enable_grad():
        given, _ = _tuple(inputs, "jvp: inputs")
        v = _vector(v, given, "jvp")
        inputs = _fresh(given, create_graph)
        outputs, alone = _tuple(func(*inputs), "jvp: outputs")
        answer = _twice(outputs, inputs, v, create_graph, strict, "jvp")
    return _single(_plain(outputs, create_graph), alone), _single(_plain(answer, create_graph), alone)


def _rows(output, inputs, create_graph, strict):
    """The Jacobian of one output: per input a tensor of shape output.shape + input.shape."""
    flat, rows = output.reshape(-1), []
    for i in range(flat.numel()):
        seed = _C.ones_like(flat[i])
        rows.append(_derive((flat[i],), inputs, (seed,), create_graph, strict, "jacobian"))
    shape = tuple(output.shape)
    if not rows:
        return tuple(_C.zeros(shape + tuple(x.shape), dtype=x.dtype, device=x.device) for x in inputs)
    return tuple(_C.stack(list(column)).reshape(shape + tuple(x.shape)) for column, x in zip(zip(*rows), inputs))


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All derivatives of the outputs by the inputs: a tensor of shape output.shape + input.shape; tuples of them for
    several inputs, tuples of those for several outputs. vectorize and strategy are accepted for torch's sake."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError("jacobian: strategy is 'reverse-mode' or 'forward-mode'")
    with enable_grad():
        given, alone = _tuple(inputs, "jacobian: inputs")
        inputs = _fresh(given, create_graph)
        outputs, out_alone = _tuple(func(*inputs), "jacobian: outputs")
        answer = tuple(_plain(_rows(o, inputs, create_graph, strict), create_graph) for o in outputs)
    return _single(tuple(_single(row, alone) for row in answer), out_alone)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """Second derivatives of a function with one result of one element: input.shape + input.shape; tuples of tuples for
    several inputs."""
    given, alone = _tuple(inputs, "hessian: inputs")

    def gradient(*xs):
        outputs, out_alone = _tuple(func(*xs), "hessian: outputs")
        _scalar(outputs, out_alone, "hessian")
        return _derive((outputs[0].reshape(()),), xs, (_C.ones_like(outputs[0].reshape(())),), True, strict, "hessian")

    answer = jacobian(gradient, given, create_graph=create_graph, strict=strict)
    return answer[0][0] if alone else answer


def _gradient(func, given, create_graph, strict, what):
    inputs = _fresh(given, create_graph)
    outputs, alone = _tuple(func(*inputs), f"{what}: outputs")
    _scalar(outputs, alone, what)
    return inputs, outputs, _derive(outputs, inputs, (_C.ones_like(outputs[0]),), True, strict, what)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v^T H): the product of a vector with the Hessian, from the left; faster than hvp."""
    with enable_grad():
        given, alone = _tuple(inputs, "vhp: inputs")
        v = _vector(v, given, "vhp")
        inputs, outputs, first = _gradient(func, given, create_graph, strict, "vhp")
        answer = _derive(first, inputs, v, create_graph, strict, "vhp")
    return _plain(outputs, create_graph)[0], _single(_plain(answer, create_graph), alone)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, H v): the product of the Hessian with a vector, from the right."""
    with enable_grad():
        given, alone = _tuple(inputs, "hvp: inputs")
        v = _vector(v, given, "hvp")
        inputs, outputs, first = _gradient(func, given, create_graph, strict, "hvp")
        answer = _twice(first, inputs, v, create_graph, strict, "hvp")
    return _plain(outputs, create_graph)[0], _single(_plain(answer, create_graph), alone)
