"""What inspect says of the package, and modules whose dictionaries programs assign to."""
import inspect
import unittest
from collections import OrderedDict

import cairn
from cairn import nn
from cases import Case, plain


def parameters(thing):
    return list(inspect.signature(thing).parameters)


class Signatures(unittest.TestCase):
    def test_of_layers(self):
        layer = nn.Linear(2, 3)
        self.assertEqual(parameters(nn.Linear), ["in_features", "out_features", "bias", "device", "dtype"])
        self.assertEqual(parameters(nn.Linear.forward), ["self", "input"])
        self.assertEqual(parameters(layer.forward), ["input"])
        self.assertEqual(parameters(layer), ["input"])
        self.assertEqual(parameters(nn.CosineSimilarity().forward), ["x1", "x2"])
        self.assertEqual(parameters(nn.CrossEntropyLoss.forward), ["self", "input", "target"])
        self.assertEqual(parameters(nn.Module.forward), ["self", "input"])

    def test_of_a_program_s_own(self):
        class Net(nn.Module):
            def forward(self, image, mask=None):
                return image if mask is None else image * mask

        self.assertEqual(parameters(Net()), ["image", "mask"])
        self.assertEqual(parameters(Net().forward), ["image", "mask"])

    def test_every_layer_has_one(self):
        classes = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module)]
        self.assertGreater(len(classes), 140)
        for cls in classes:
            with self.subTest(cls.__name__):
                self.assertEqual(parameters(cls.forward)[0], "self")
                inspect.signature(cls)

    def test_of_functions(self):
        self.assertEqual(parameters(cairn.add), ["input", "other", "alpha"])
        self.assertEqual(parameters(cairn.Tensor.add), ["self", "other", "alpha"])
        self.assertEqual(parameters(cairn.softmax), ["input", "dim", "dtype", "out"])
        self.assertEqual(parameters(cairn.Tensor.split), ["self", "split_size", "dim"])
        self.assertEqual(parameters(nn.functional.relu), ["input", "inplace"])


class Sources(unittest.TestCase):
    def test_of_layers(self):
        for cls in (nn.Linear, nn.Conv2d, nn.LSTM, nn.Sequential, nn.MultiheadAttention, nn.Embedding, nn.ReLU,
                    nn.Module, nn.Parameter):
            with self.subTest(cls.__name__):
                self.assertIn("class %s(" % cls.__name__, inspect.getsource(cls))
        self.assertIn("def forward(self, input: Tensor)", inspect.getsource(nn.Linear.forward))
        self.assertTrue(inspect.getsourcefile(nn.Linear).endswith(".py"))

    def test_of_functions(self):
        self.assertIn("def softmax(", inspect.getsource(cairn.softmax))
        with self.assertRaisesRegex(TypeError, "builtin"):  # as torch's: it is written in C
            inspect.getsource(cairn.add)


class Forwards(Case):
    def test_replaced_and_called(self):
        """The forward that a class shows is the one that runs."""
        def program(m):
            layer = m.nn.Linear(2, 2, bias=False)
            m.nn.init.ones_(layer.weight)
            x = m.ones(1, 2)

            class Twice(m.nn.Linear):
                def forward(self, input):
                    return super().forward(input) * 2

            twice = Twice(2, 2, bias=False)
            m.nn.init.ones_(twice.weight)
            results = [layer(x), layer.forward(x), layer.forward(input=x), twice(x), m.nn.Sequential(layer, twice)(x)]
            layer.forward = lambda input: input * 5
            results += [layer(x), m.nn.Sequential(layer, twice)(x)]
            return [plain(r) for r in results]

        self.same(program)


class Dictionaries(Case):
    def test_entries(self):
        def program(m):
            layer = m.nn.Linear(2, 2)
            layer._parameters["weight"] = m.nn.Parameter(m.ones(2, 2))
            layer._parameters.update(bias=m.nn.Parameter(m.zeros(2)))
            first = layer(m.ones(1, 2))
            del layer._parameters["bias"]
            layer._parameters["bias"] = None
            net = m.nn.Sequential(layer, m.nn.ReLU())
            net._modules["1"] = m.nn.Softmax(dim=1)
            net._modules["2"] = m.nn.Identity()
            norm = m.nn.BatchNorm1d(2).eval()
            norm._buffers["running_mean"] = m.ones(2)
            return [plain(first), plain(net(m.ones(1, 2))), len(net), list(net.state_dict()),
                    plain(norm(m.ones(1, 2)).detach())]

        self.same(program)

    def test_whole_dictionaries(self):
        def program(m):
            layer = m.nn.Linear(2, 2)
            layer._parameters = {"weight": m.nn.Parameter(m.ones(2, 2) * 3), "bias": None}
            first = layer(m.ones(1, 2))
            net = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU())
            net._modules = OrderedDict([("a", layer), ("b", m.nn.Tanh())])
            norm = m.nn.BatchNorm1d(2).eval()
            norm._buffers = {**norm._buffers, "running_mean": m.ones(2) * 2}
            order = OrderedDict(reversed(list(norm._parameters.items())))
            norm._parameters = order
            return [plain(first.detach()), plain(net(m.ones(1, 2)).detach()), [n for n, _ in net.named_children()],
                    plain(norm(m.ones(1, 2)).detach()), [n for n, _ in norm.named_parameters()],
                    list(norm.state_dict())]

        self.same(program)

    def test_in_a_class(self):
        def program(m):
            class Net(m.nn.Module):
                def __init__(self):
                    super().__init__()
                    self._parameters["w"] = m.nn.Parameter(m.ones(2))
                    self._modules = {"inner": m.nn.Linear(2, 1, bias=False)}
                    m.nn.init.ones_(self.inner.weight)

                def forward(self, x):
                    return self.inner(x * self.w)

            net = Net()
            net(m.ones(1, 2)).sum().backward()
            return list(net.state_dict()), plain(net.w.grad)

        self.same(program)

    def test_what_is_refused(self):
        layer = nn.Linear(2, 2)
        for wrong in (3, {"weight": 5}):
            with self.assertRaises(Exception):
                layer._parameters = wrong
        with self.assertRaises(AttributeError):
            del layer._parameters


if __name__ == "__main__":
    unittest.main()
