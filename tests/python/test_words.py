"""Words and forms that torch takes besides those of its signatures: numpy's words for parameters (axis, keepdims, x,
x2), and factors by position as older programs write them."""
import unittest
import warnings

import cairn
from cases import Case, plain

NUMPY = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


def calls(m):
    """Name -> arguments by torch's names."""
    x, y = m.arange(6.0).reshape(2, 3) + 1, m.arange(6.0).reshape(2, 3) * 2 + 0.5
    index = m.zeros(2, 3, dtype=m.int64)
    reduced = {n: {"input": x, "dim": 1, "keepdim": True} for n in (
        "sum mean prod amax amin logsumexp var std var_mean std_mean all any median nanmedian mode norm argmax argmin "
        "max min nansum nanmean count_nonzero quantile aminmax").split()}
    reduced["norm"]["p"] = 2
    reduced["quantile"]["q"] = 0.5
    del reduced["count_nonzero"]["keepdim"]
    along = {n: {"input": x, "dim": 1} for n in (
        "softmax log_softmax cumsum cumprod cummax cummin logcumsumexp sort argsort unbind squeeze unsqueeze diff flip "
        "unique_consecutive trapezoid gradient").split()}
    along["flip"] = {"input": x, "dims": (1,)}
    along["trapezoid"] = {"y": x, "dim": 1}
    pairs = {n: {"input": x, "other": y} for n in (
        "add sub mul div true_divide floor_divide fmod remainder maximum minimum fmax fmin atan2 eq ne lt le gt ge "
        "logical_and isclose allclose equal copysign hypot nextafter dot kron outer xlogy logaddexp").split()}
    pairs["dot"] = {"input": x[0], "tensor": y[0]}
    pairs["outer"] = {"input": x[0], "vec2": y[0]}
    one = {n: {"input": x} for n in (
        "exp log sqrt abs neg relu sigmoid tanh floor isnan sign clone nonzero square erf reciprocal tril triu "
        "t").split()}
    more = {
        "cat": {"tensors": (x, y), "dim": 1}, "stack": {"tensors": (x, y), "dim": 1},
        "concat": {"tensors": (x, y), "dim": 1}, "gather": {"input": x, "dim": 1, "index": index},
        "scatter": {"input": x, "dim": 1, "index": index, "src": y}, "chunk": {"input": x, "chunks": 3, "dim": 1},
        "index_select": {"input": x, "dim": 1, "index": index[0]}, "select": {"input": x, "dim": 1, "index": 0},
        "narrow": {"input": x, "dim": 1, "start": 0, "length": 2}, "topk": {"input": x, "k": 2, "dim": 1},
        "kthvalue": {"input": x, "k": 2, "dim": 1, "keepdim": True}, "roll": {"input": x, "shifts": 1, "dims": 1},
        "tensor_split": {"input": x, "indices_or_sections": 3, "dim": 1}, "where": {"condition": x > 2, "input": x,
                                                                                    "other": y},
        "repeat_interleave": {"input": x, "repeats": 2, "dim": 1}, "masked_select": {"input": x, "mask": x > 2},
        "take_along_dim": {"input": x, "indices": index, "dim": 1}, "renorm": {"input": x, "p": 2, "dim": 0,
                                                                              "maxnorm": 1.0},
        "index_add": {"input": x, "dim": 1, "index": index[0], "source": y}, "clamp": {"input": x, "min": 2.0},
        "pow": {"input": x, "exponent": 2}, "lerp": {"input": x, "end": y, "weight": 0.5},
        "bucketize": {"input": x, "boundaries": y[0]}, "cov": {"input": x}, "unflatten": {"input": x, "dim": 1,
                                                                                         "sizes": (3, 1)},
        "cumulative_trapezoid": {"y": x, "dim": 1}, "full_like": {"input": x, "fill_value": 2.0},
        "split": {"tensor": x, "split_size_or_sections": 2, "dim": 1}, "flatten": {"input": x, "start_dim": 0}}
    return {**reduced, **along, **pairs, **one, **more}


def outcome(act):
    """What a call returns, in lists; "no" where it takes no such words."""
    try:
        made = act()
    except TypeError:
        return "no"
    return [plain(r) for r in made] if isinstance(made, tuple) else plain(made)


def renamed(arguments, word, new):
    return {new if name == word else name: value for name, value in arguments.items()}


class Numpy(Case):
    def test_functions(self):
        """Every function takes the words that torch's takes."""
        def program(m):
            found = {}
            for name, arguments in calls(m).items():
                for word in arguments.keys() & NUMPY:
                    for new in NUMPY[word]:
                        found["%s %s" % (name, new)] = outcome(
                            lambda: getattr(m, name)(**renamed(arguments, word, new)))
            return [[k, v] for k, v in sorted(found.items())]

        self.agrees(program)

    def test_methods(self):
        def program(m):
            found = {}
            for name, arguments in calls(m).items():
                rest = {k: v for k, v in arguments.items() if k != "input"}
                if "input" not in arguments or not hasattr(m.Tensor, name):
                    continue
                for word in rest.keys() & NUMPY:
                    for new in NUMPY[word]:
                        found["%s %s" % (name, new)] = outcome(
                            lambda: getattr(arguments["input"], name)(**renamed(rest, word, new)))
            return [[k, v] for k, v in sorted(found.items())]

        self.agrees(program)

    def agrees(self, program):
        """What torch takes is taken, with its result; cairn may take more."""
        want = [[key, value] for key, value in self.theirs(program) if value != "no"]
        have = dict(map(tuple, program(cairn)))
        self.assertGreater(len(want), 100 if self._testMethodName == "test_functions" else 30)
        self.assertEqual([key for key, _ in want if have[key] == "no"], [])
        self.near([have[key] for key, _ in want], [value for _, value in want])

    def test_both_words(self):
        for act in (lambda: cairn.softmax(cairn.ones(2), dim=0, axis=0),
                    lambda: cairn.sum(cairn.ones(2), dim=0, axis=0),
                    lambda: cairn.cat([cairn.ones(2)], 0, axis=0)):
            self.assertRaises(TypeError, act)

    def test_splits(self):
        def program(m):
            x = m.arange(10.0).reshape(2, 5)
            return [[plain(p) for p in parts] for parts in (
                x.split(2, 1), x.split(split_size=2, dim=1), x.split([1, 4], dim=1), m.split(x, 1),
                m.split(x, split_size_or_sections=[2, 3], dim=1))]

        self.same(program)


class Older(Case):
    def test_factors_in_front(self):
        def program(m):
            x, y, z = (m.arange(6.0).reshape(2, 3) + k for k in (1, 2, 3))
            square, vector = m.arange(4.0).reshape(2, 2), m.arange(3.0)
            batches = m.arange(12.0).reshape(2, 2, 3), m.arange(12.0).reshape(2, 3, 2)
            two = m.tensor(2.0)
            made = [m.add(x, 2, y), x.add(2, y), x.clone().add_(0.5, y), x.clone().add_(two, y), m.sub(x, 2, y),
                    x.clone().sub_(0.5, y), m.addcmul(x, 2, y, z), x.addcmul(2, y, z), x.clone().addcmul_(0.5, y, z),
                    m.addcdiv(x, 2, y, z), x.addcdiv(2, y, z), x.clone().addcdiv_(0.5, y, z),
                    m.addmm(2, square, 3, x, y.t()), m.addmm(2, square, x, y.t()), square.addmm(2, 3, x, y.t()),
                    square.addmm(2, x, y.t()), square.clone().addmm_(2, 3, x, y.t()),
                    square.clone().addmm_(0.5, x, y.t()), m.addmv(2, vector[:2], 3, x, vector),
                    vector[:2].addmv(2, 3, x, vector), m.addr(2, x, 3, vector[:2], vector),
                    x.addr(2, vector[:2], vector),
                    m.addbmm(2, square, 3, *batches), square.addbmm(2, *batches),
                    m.baddbmm(2, batches[0] @ batches[1], 3, *batches), m.add(x, 2, y, out=m.empty(2, 3))]
            return [plain(t) for t in made]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program)

    def test_it_warns(self):
        with self.assertWarnsRegex(UserWarning, "older form.*alpha="):
            cairn.ones(2).add_(2, cairn.ones(2))

    def test_what_is_no_such_call(self):
        x = cairn.ones(2, 2)
        for act in (lambda: x.add(x, 2), lambda: cairn.addmm(2, 3, x, x, x), lambda: cairn.addmm("2", x, x, x),
                    lambda: x.addcmul(x, x, x), lambda: cairn.add(2, x, x)):
            self.assertRaises(TypeError, act)

    def test_positions(self):
        def program(m):
            x = m.arange(6.0).reshape(2, 3)
            return [plain(t) for t in (m.sum(x, (0, 1)), x.sum(0, True), m.mean(x, 1, True), m.norm(x, 2, 1),
                                       m.max(x, 1, True)[0], m.clamp(x, 1, 3), m.var(x, 1, False), m.std(x, False),
                                       m.transpose(x, 0, 1), m.logsumexp(x, 1, True), m.cumsum(x, 0))]

        self.same(program)


if __name__ == "__main__":
    unittest.main()
