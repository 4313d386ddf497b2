"""Decides whether a result equals torch's, and says in one line why not.

The measure is torch's own result of the same dtype. Tolerances are those of torch.testing.assert_close per dtype,
widened by what the OpInfo entry says of itself. A NaN equals a NaN; dtype, shape and requires_grad must agree,
strides need not. Names that may differ from torch, and why, are listed in allowances.py: there the same call in
float64 is the judge, and a result within tolerance of the truth, or no farther from it than torch's own, passes.
"""
import unittest

import torch
from torch.testing._comparison import default_tolerances

import allowances
import translate

# Tests of PyTorch whose tolerances speak of the op itself.
TOLERANCE_TESTS = [("TestCommon", name) for name in
                   ("test_noncontiguous_samples", "test_variant_consistency_eager", "test_out", "test_numpy_ref",
                    "test_compare_cpu", "test_python_ref", "test_dtypes")]
TOLERANCE_TESTS += [("TestUnaryUfuncs", "test_reference_numerics_normal"),
                    ("TestUnaryUfuncs", "test_reference_numerics_small"),
                    ("TestBinaryUfuncs", "test_reference_numerics"), ("TestReductions", "test_ref_small_input"),
                    ("TestJit", "test_variant_consistency_jit")]


def marks(op, test_class, test, dtype):
    """What the entry's decorators say of one of PyTorch's tests on the CPU: (skip it?, {dtype: tolerance})."""
    skip, tolerances = False, {}
    for decorate in op.get_decorators(test_class, test, "cpu", dtype, {}):
        def probe(self):      # what the decorator leaves on a function tells what it means
            return self
        try:
            done = decorate(probe)
        except Exception:  # pylint: disable=broad-exception-caught
            continue
        skip = skip or bool(getattr(done, "__unittest_skip__", False)) \
            or bool(getattr(done, "__unittest_expecting_failure__", False)) \
            or decorate is unittest.expectedFailure
        tolerances.update(getattr(done, "tolerance_overrides", None) or {})
    return skip, tolerances


def tolerances_of(op, dtype):
    """(rtol, atol) of a dtype: the default, or what the entry widens it to."""
    rtol, atol = default_tolerances(dtype)
    for test_class, test in TOLERANCE_TESTS:
        own = marks(op, test_class, test, dtype)[1].get(dtype)
        if own is not None:
            rtol, atol = max(rtol, own.rtol), max(atol, own.atol)
    return rtol, atol


class Tolerance:
    """The tolerances of one op, looked up once per dtype."""

    def __init__(self, op):
        self.op = op
        self.known = {}

    def __call__(self, dtype):
        if dtype not in self.known:
            rtol, atol = tolerances_of(self.op, dtype)
            self.known[dtype] = rtol, atol + allowances.OWN_ERROR.get(self.op.name, (0.0, ""))[0]
        return self.known[dtype]

    def factor(self, dtype, gradient):
        return allowances.factor(self.op.name, dtype, gradient)


# ---- tensors ----
def wide(tensor):
    """In float64, or complex128."""
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor.double()


def wide_type(tensor):
    return torch.complex128 if tensor.is_complex() else torch.float64


def bad_places(actual, expected, rtol, atol):
    """Where two float64 (complex128) tensors differ beyond tolerance."""
    return ~torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def error(values, truth):
    """Distance to the truth; equal infinities and NaNs are at distance 0, others infinitely far."""
    same = (values == truth) | (values.isnan() & truth.isnan())
    return torch.where(same, 0.0, torch.nan_to_num((values - truth).abs(), nan=float("inf")))


def near_truth(actual, expected, truth, dtype, rtol, atol):
    """Whether values that differ from torch's are at least as good by the float64 call."""
    if truth is None or truth.shape != actual.shape:
        return False
    rounded = wide(truth.to(dtype))
    if not bad_places(actual, rounded, rtol, atol).any():
        return True
    mine, theirs = error(actual, wide(truth)), error(expected, wide(truth))
    fine = (mine <= theirs) | (mine <= atol + rtol * wide(truth).abs())
    return bool(fine.all()) or bool(mine.max() <= theirs.max())


def comparable(actual, expected, truth, dtype, factor):
    """Whether the error is at most so many times torch's, by the float64 call, or one rounding of a half type."""
    if not factor or truth is None or truth.shape != actual.shape:
        return False
    truth = wide(truth)
    mine, theirs = error(actual, truth), error(expected, truth)
    half = torch.finfo(dtype).eps if dtype in allowances.HALF else 0.0
    return bool(mine.square().sum() <= factor ** 2 * theirs.square().sum()) or \
        bool(mine.max() <= half * truth.abs().max())


def tensors(actual, expected, tolerance, truth=None, gradient=False):
    """None, or why the torch copy of a result is not torch's result. truth() gives the float64 result, where the
    name may differ from torch's."""
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype} instead of {expected.dtype}"
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)} instead of {tuple(expected.shape)}"
    if expected.numel() == 0:
        return None
    if expected.dtype in translate.EIGHT_BITS:      # nothing computes with them: all bits are to be the same
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    if expected.dtype == torch.complex32:    # PyTorch does not compare these
        actual, expected = actual.to(torch.complex64), expected.to(torch.complex64)
    if torch.equal(actual, expected):
        return None
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        where = actual != expected
    else:
        rtol, atol = tolerance(expected.dtype)
        dtype, actual, expected = expected.dtype, wide(actual), wide(expected)
        where = bad_places(actual, expected, rtol, atol)
        if not where.any() or (truth and near_truth(actual, expected, truth(), dtype, rtol, atol)):
            return None
        if truth and comparable(actual, expected, truth(), dtype, tolerance.factor(dtype, gradient)):
            return None
    place = tuple(where.nonzero()[0].tolist())
    return (f"{int(where.sum())} of {where.numel()} values differ, first at {list(place)}: "
            f"{actual[place].item()!r} instead of {expected[place].item()!r}")


# ---- whole results ----
def flatten(value):
    """The leaves of nested lists and tuples, in order."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def fields(value):
    """The field names of a named tuple of torch (a structure sequence) or of Python."""
    if hasattr(value, "_fields"):
        return tuple(value._fields)
    return tuple(getattr(type(value), "__match_args__", ())) if hasattr(value, "n_fields") else ()


class Results:
    """Compares what the package returned with what torch returned."""

    def __init__(self, translator, tolerance, grads=True, ties=None):
        self.translator = translator
        self.tolerance = tolerance
        self.grads = grads
        self.ties = ties      # the torch input of an op whose last result is an index that ties leave open
        self.open = False     # such an index was met

    def structure(self, actual, expected):
        if isinstance(expected, torch.Size):
            ok = tuple(actual) == tuple(expected)
            return None if ok else f"{actual!r} instead of {expected!r}"
        if isinstance(expected, (list, tuple)):
            if not isinstance(actual, (list, tuple)):
                return f"a {type(actual).__name__} instead of {len(expected)} results"
            if len(actual) != len(expected):
                return f"{len(actual)} results instead of {len(expected)}"
            for name in fields(expected):
                if not hasattr(actual, name):
                    return f"the result has no field {name}"
        return None

    def leaf(self, actual, expected, truth):
        if isinstance(expected, torch.Tensor):
            if not self.translator.is_tensor(actual):
                return f"a {type(actual).__name__} instead of a tensor"
            if self.grads and bool(actual.requires_grad) != expected.requires_grad:
                return f"requires_grad is {actual.requires_grad} instead of {expected.requires_grad}"
            return tensors(self.translator.back(actual), expected.detach(), self.tolerance, truth)
        if expected is None or isinstance(expected, bool):
            same = actual is expected or (isinstance(expected, bool) and actual == expected)
            return None if same and isinstance(actual, type(expected)) else f"{actual!r} instead of {expected!r}"
        if isinstance(expected, (int, float, complex)):
            if not isinstance(actual, type(expected)):
                return f"a {type(actual).__name__} instead of a {type(expected).__name__}"
            ok = actual == expected or actual != actual or abs(actual - expected) <= 1e-5 * abs(expected)
            return None if ok else f"{actual!r} instead of {expected!r}"
        return None

    def whole(self, actual, expected, truth=None):
        """None or a reason. truth: a function that gives the same results from float64 inputs."""
        reason = self.structure(actual, expected)
        if reason or isinstance(expected, torch.Size):
            return reason
        if isinstance(expected, (list, tuple)):
            mine, theirs = list(actual), list(expected)
        else:
            mine, theirs = [actual], [expected]
        nested = [i for i, item in enumerate(theirs) if isinstance(item, (list, tuple))]
        for i in nested:
            reason = self.structure(mine[i], theirs[i])
            if reason:
                return f"result {i}: {reason}"
        mine, theirs = flatten(mine), flatten(theirs)
        if len(mine) != len(theirs):
            return f"{len(mine)} results instead of {len(theirs)}"
        for i, (a, e) in enumerate(zip(mine, theirs)):
            leaf_truth = None if truth is None else lambda i=i: pick(truth(), i)
            reason = self.leaf(a, e, leaf_truth)
            if reason and self.ties is not None and self.tied(mine, theirs):
                self.open = True
                continue
            if reason:
                return reason if len(theirs) == 1 else f"result {i}: {reason}"
        return None


    def tied(self, mine, theirs):
        """Whether the indices, though others than torch's, point at the very values that torch's point at."""
        actual, expected, given = self.translator.back(mine[-1]), theirs[-1].detach(), self.ties.detach()
        if actual.dtype != expected.dtype or actual.shape != expected.shape or given.dim() == 0:
            return False
        for dim in range(given.dim()):
            drop = actual.dim() < given.dim()
            at, was = (v.unsqueeze(dim) if drop else v for v in (actual, expected))
            fits = all(at.shape[d] <= given.shape[d] for d in range(given.dim()) if d != dim)
            if fits and bool(((at >= 0) & (at < given.shape[dim]) & (was < given.shape[dim])).all()):
                mine_at, theirs_at = given.gather(dim, at), given.gather(dim, was)
                if bool(((mine_at == theirs_at) | (mine_at.isnan() & theirs_at.isnan())).all()):
                    return True
        return False


def pick(values, i):
    """Leaf i of the float64 results, if it is a tensor of floats."""
    values = flatten(values) if values is not None else []
    if i < len(values) and isinstance(values[i], torch.Tensor) and \
            (values[i].dtype.is_floating_point or values[i].is_complex()):
        return wide(values[i].detach())
    return None


def widened(sample):
    """The sample in float64: tensors of floats and dtypes of floats alike."""
    def widen(value):
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else torch.complex128 if value.is_complex else value
        if isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.is_complex()):
            return wide(translate.twin(value)).requires_grad_(value.requires_grad)
        return value
    return sample.transform(widen)


def equals(given):
    """Whether values occur twice, so that the order of a sort without indices, and its gradient, is open."""
    return given.detach().unique().numel() < given.numel()


# Ops whose index of several equal values is open: PyTorch selects and sorts by algorithms that are not stable, and its
# documentation says so. (median, nanmedian and all that is asked to be stable must point where torch does.)
TIES = {"kthvalue", "mode", "topk", "sort", "argsort"}


# ---- decompositions that are unique up to signs ----
def signs_fixed(matrix):
    """Columns scaled so that the entry of largest magnitude is positive."""
    if matrix.numel() == 0:
        return matrix
    place = matrix.abs().argmax(dim=-2, keepdim=True)
    if matrix.is_complex():
        return matrix * matrix.gather(-2, place).sgn().conj()
    return matrix * torch.where(matrix.gather(-2, place) < 0, -1.0, 1.0).to(matrix.dtype)


def vectors_fixed(u, s, v):
    """Of singular vectors in columns: those of values up to signs; of the rest, which only has to be a basis of what
    is left, the projection on it."""
    k = s.shape[-1]
    rest = [m[..., k:] @ m[..., k:].mH for m in (u, v) if m.shape[-1] > k]
    return (signs_fixed(u[..., :k]), s, signs_fixed(v[..., :k]), *rest)


def by_value(values, vectors=None):
    """Eigenvalues, which come in no order, by their real and then imaginary parts, to few digits."""
    if values.numel() == 0:
        return values, vectors
    digits = torch.view_as_real(values.detach().to(torch.complex128)).div(values.abs().max() + 1e-30).mul(1e3).round()
    order = (digits[..., 0] * 1e5 + digits[..., 1]).argsort(-1)
    moved = None if vectors is None else vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape))
    return values.gather(-1, order), moved


UP_TO_SIGNS = {
    "linalg.eigh": lambda r: (r[0], signs_fixed(r[1])),
    "linalg.svd": lambda r: vectors_fixed(r[0], r[1], r[2].mH),
    "svd": lambda r: vectors_fixed(*r),
    "svd_lowrank": lambda r: vectors_fixed(*r),
    "pca_lowrank": lambda r: vectors_fixed(*r),
    "linalg.eig": lambda r: by_value(r[0], signs_fixed(r[1])),
    "linalg.eigvals": lambda r: by_value(r)[0],
    "linalg.qr": lambda r: (signs_fixed(r[0]), signs_fixed(r[1].mT).mT),
}
