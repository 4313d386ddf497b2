"""Module: its tree, state, copies, calls and hooks, in cairn and in torch."""
import collections
import copy
import gc
import pickle
import unittest
import weakref

import cairn
from cairn import nn
from cases import Case, plain, torch


def net(m, seed=0):
    """A small network of a program's own, the same in both libraries."""
    class Block(m.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.linear = m.nn.Linear(n, n)
            self.scale = m.nn.Parameter(m.ones(n))
            self.register_buffer("count", m.zeros((), dtype=m.int64))
            self.register_buffer("scratch", m.ones(2), persistent=False)

        def forward(self, x, gain=1.0):
            self.count += 1
            return self.linear(x) * self.scale * gain

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block(3)
            self.blocks = m.nn.ModuleList([Block(3), m.nn.ReLU()])
            self.norm = m.nn.BatchNorm1d(3)
            self.drop = m.nn.Dropout(0.5)
            self.none = None
            self.shift = m.nn.Parameter(m.zeros(3))

        def forward(self, x):
            x = self.first(x, gain=2.0)
            for block in self.blocks:
                x = block(x)
            return self.drop(self.norm(x)) + self.shift

    made = Net()
    k = 0
    with m.no_grad():
        for p in made.parameters():
            p.copy_(m.arange(k, k + p.numel(), dtype=m.float32).reshape(p.shape).sin())
            k += p.numel()
    return made


def data(m):
    return m.arange(12, dtype=m.float32).reshape(4, 3) / 10


class Tree(Case):
    def test_names(self):
        def program(m):
            n = net(m)
            return [[k for k, _ in n.named_parameters()], [k for k, _ in n.named_buffers()],
                    [k for k, _ in n.named_modules()], [k for k, _ in n.named_children()], list(n.state_dict()),
                    [k for k, _ in n.named_parameters(recurse=False)],
                    [k for k, _ in n.blocks.named_parameters(prefix="p")], len(list(n.modules())), repr(n),
                    sum(p.numel() for p in n.parameters())]
        self.same(program)

    def test_forward_backward(self):
        def program(m):
            n = net(m).eval()
            x = data(m).requires_grad_()
            y = n(x)
            y.sum().backward()
            return [y, x.grad, [p.grad for p in n.parameters()], n.first.count.item()]
        self.same(program)

    def test_shared(self):
        def program(m):
            n = m.nn.Module()
            n.a, n.b = m.nn.Linear(2, 2), m.nn.Linear(2, 2)
            n.b.weight = n.a.weight
            n.c = n.a
            c = copy.deepcopy(n)
            return [[k for k, _ in n.named_parameters()], [k for k, _ in n.named_parameters(remove_duplicate=False)],
                    [k for k, _ in n.named_modules()], [k for k, _ in n.named_modules(remove_duplicate=False)],
                    list(n.state_dict()), c.b.weight is c.a.weight, c.c is c.a, c.a.weight is n.a.weight,
                    len(list(n.children()))]
        self.same(program)

    def test_attributes(self):
        def program(m):
            n = m.nn.Module()
            n.p = m.nn.Parameter(m.ones(2))
            n.register_parameter("absent", None)
            n.register_buffer("b", m.ones(1))
            n.child = m.nn.ReLU()
            n.plain = [1, 2]
            seen = [n.absent is None, "p" in n._parameters, "b" in n._buffers, "child" in n._modules,
                    n.p is n._parameters["p"]]
            n.b = m.zeros(1)  # stays a buffer
            seen.append(list(n._buffers))
            n.absent = m.nn.Parameter(m.zeros(1))
            n.child = None
            seen += [list(n._parameters), n.child is None, list(n._modules)]
            n.p = None
            seen += [n.p is None, [k for k, _ in n.named_parameters()]]
            del n.p, n.b, n.child
            seen += [hasattr(n, "p"), hasattr(n, "b"), hasattr(n, "child"), list(n._parameters)]
            n.plain = m.nn.Parameter(m.ones(1))
            seen.append(list(n._parameters))
            del n.plain
            n.plain = m.nn.ReLU()
            return seen + [list(n._parameters), list(n._modules)]
        self.same(program)

    def test_attribute_errors(self):
        def wrong(act):
            def program(m):
                n = m.nn.Module()
                n.p = m.nn.Parameter(m.ones(2))
                n.c = m.nn.ReLU()
                n.register_buffer("b", m.ones(1))
                n.x = 3
                act(m, n)
            return program
        for kinds, act in [
                (TypeError, lambda m, n: setattr(n, "p", m.ones(2))),
                (TypeError, lambda m, n: setattr(n, "p", m.nn.ReLU())), (TypeError, lambda m, n: setattr(n, "c", 3)),
                (TypeError, lambda m, n: setattr(n, "b", 3)), (AttributeError, lambda m, n: n.nothing),
                (KeyError, lambda m, n: n.register_buffer("x", m.ones(1))),
                (KeyError, lambda m, n: n.register_parameter("a.b", None)),
                (KeyError, lambda m, n: n.add_module("", m.nn.ReLU())),
                (TypeError, lambda m, n: n.register_parameter("q", m.ones(1))),
                (TypeError, lambda m, n: n.add_module("q", 3)),
                (ValueError, lambda m, n: n.register_parameter("q", make_result(m))),
                (AttributeError, lambda m, n: n.get_parameter("c")), (AttributeError, lambda m, n: n.get_buffer("p")),
                (AttributeError, lambda m, n: n.get_submodule("c.d")), (ValueError, lambda m, n: n.train(1)),
                (NotImplementedError, lambda m, n: n(3)), (AttributeError, lambda m, n: delattr(n, "nothing"))]:
            self.fails(wrong(act), kinds)

    def test_before_init(self):
        def program(m):
            class Bad(m.nn.Module):
                def __init__(self):
                    self.linear = m.nn.Linear(2, 2)
            Bad()
        self.fails(program, AttributeError)

    def test_paths(self):
        def program(m):
            n = net(m)
            n.set_submodule("blocks.1", m.nn.Tanh())
            return [type(n.get_submodule("blocks.0.linear")).__name__, n.get_parameter("first.scale") is n.first.scale,
                    n.get_buffer("norm.running_mean") is n.norm.running_mean, n.get_submodule("") is n,
                    repr(n.blocks[1])]
        self.same(program)

    def test_dictionaries_write_through(self):
        n = net(cairn)
        n._modules["extra"] = nn.Linear(1, 1)
        self.assertIs(n.extra, n._modules["extra"])
        self.assertIn("extra.weight", n.state_dict())
        del n._modules["extra"]
        self.assertFalse(hasattr(n, "extra"))
        layer = nn.Linear(2, 2)
        layer._parameters["weight"] = nn.Parameter(cairn.zeros(2, 2))
        self.assertEqual(plain(layer(cairn.ones(1, 2))), [plain(layer.bias)])

    def test_replaced_parameter(self):
        def program(m):
            n = m.nn.Linear(2, 2)
            n.weight = m.nn.Parameter(m.eye(2))
            n.bias = None
            y = n(m.tensor([[1.0, 2.0]]))
            n.weight.data = 2 * m.eye(2)
            n.weight.data[0, 0] = 5
            return [y, n(m.tensor([[1.0, 2.0]])), repr(n), list(n.state_dict())]
        self.same(program)

    def test_removed_weight(self):
        """weight computed anew for each call, as weight norm does: the parameter goes, a tensor takes its name."""
        def program(m):
            n = m.nn.Linear(2, 2)
            w = n.weight
            del n._parameters["weight"]
            n.register_parameter("weight_v", m.nn.Parameter(m.eye(2)))
            n.bias.data.zero_()
            n.weight = n.weight_v * 3
            y = n(m.ones(1, 2))
            y.sum().backward()
            return [y, n.weight_v.grad, [k for k, _ in n.named_parameters()], w is not None]
        self.same(program)

    def test_settings_reach_the_layer(self):
        def program(m):
            drop = m.nn.Dropout(0.5)
            drop.p = 0.0
            norm = m.nn.BatchNorm1d(2, momentum=0.1)
            norm.momentum = 1.0
            norm.eps = 1.0
            norm(m.tensor([[1.0, 2.0], [3.0, 6.0]]))
            leaky = m.nn.LeakyReLU(0.1)
            leaky.negative_slope = 0.5
            conv = m.nn.Conv2d(1, 1, 3)
            conv.padding = (1, 1)
            conv.stride = (2, 2)
            return [drop(m.ones(3)), norm.running_mean, leaky(m.tensor([-1.0])), conv(m.ones(1, 1, 4, 4)).shape[2],
                    repr(drop), repr(norm)]
        self.same(program)

    def test_apply_and_modes(self):
        def program(m):
            n = net(m)
            names = []
            n.apply(lambda x: names.append(type(x).__name__))
            n.requires_grad_(False)
            n.first.requires_grad_(True)
            n.eval()
            modes = [x.training for x in n.modules()]
            n.blocks.train()
            return [names, [p.requires_grad for p in n.parameters()], modes, [x.training for x in n.modules()]]
        self.same(program)

    def test_zero_grad(self):
        def program(m):
            n = m.nn.Linear(2, 1)
            n(m.ones(1, 2)).sum().backward()
            n.zero_grad(set_to_none=False)
            zeros = [p.grad for p in n.parameters()]
            n.zero_grad()
            return [zeros, [p.grad is None for p in n.parameters()]]
        self.same(program)

    def test_types(self):
        def program(m):
            n = net(m)
            p = n.first.scale
            n(data(m)).sum().backward()
            n.double()
            out = [p is n.first.scale, str(p.dtype)[6:], str(p.grad.dtype)[6:], str(n.first.count.dtype)[6:],
                   str(n.norm.running_mean.dtype)[6:]]
            n.to(m.float16)
            out.append(str(p.dtype)[6:])
            n.to("cpu", m.float32)
            return out + [str(p.dtype)[6:], n.to(device="cpu") is n]
        def strip(m):
            return [str(v).split(".")[-1] if isinstance(v, str) else v for v in program(m)]
        self.same(strip)
        with self.assertRaises(TypeError):
            nn.Linear(1, 1).to(cairn.int32)


def make_result(m):
    p = m.nn.Parameter(m.ones(1)) * 2
    p.__class__ = m.nn.Parameter
    return p


class State(Case):
    def test_round_trip(self):
        def program(m):
            a, b = net(m), net(m)
            with m.no_grad():
                for p in a.parameters():
                    p.add_(1)
            keys = b.load_state_dict(a.state_dict())
            same = all(m.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values()))
            return [same, repr(keys), keys.missing_keys, a.state_dict()["shift"].requires_grad,
                    a.state_dict(keep_vars=True)["shift"] is a.shift]
        self.same(program)

    def test_mismatches(self):
        def program(m):
            n = net(m)
            state = n.state_dict()
            state["more"] = state.pop("shift")
            loose = n.load_state_dict(state, strict=False)
            texts = []
            try:
                n.load_state_dict(state)
            except RuntimeError as e:
                texts += ["Missing key(s)" in str(e), '"shift"' in str(e), "Unexpected key(s)" in str(e),
                          '"more"' in str(e), "Net" in str(e)]
            state = n.state_dict()
            state["shift"] = m.ones(5)
            try:
                n.load_state_dict(state, strict=False)
            except RuntimeError as e:
                texts += ["size mismatch for shift" in str(e)]
            return [loose.missing_keys, loose.unexpected_keys, texts]
        self.same(program)

    def test_assign_and_prefix(self):
        def program(m):
            n = m.nn.Linear(2, 2)
            n.load_state_dict({"weight": m.zeros(2, 2), "bias": m.ones(2)}, assign=True)
            held = collections.OrderedDict()
            n.state_dict(destination=held, prefix="x.")
            return [n(m.ones(1, 2)), list(held), isinstance(n.weight, m.nn.Parameter), n.weight.requires_grad]
        self.same(program)

    def test_extra_state(self):
        def program(m):
            class Counting(m.nn.Module):
                n = 3

                def get_extra_state(self):
                    return {"n": self.n}

                def set_extra_state(self, state):
                    self.n = state["n"]
            a, b = m.nn.Sequential(Counting()), m.nn.Sequential(Counting())
            a[0].n = 7
            b.load_state_dict(a.state_dict())
            return [list(a.state_dict()), b[0].n]
        self.same(program)

    def test_hooks(self):
        def program(m):
            n = m.nn.Linear(1, 1)
            seen = []
            n.register_state_dict_pre_hook(lambda *a: seen.append("pre"))
            n.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update(more=1) or None)
            n.register_load_state_dict_post_hook(lambda mod, keys: keys.unexpected_keys.clear())
            n._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append("load" + prefix))
            state = n.state_dict()
            n.load_state_dict(state)
            return [list(state), seen]
        self.same(program)

    def test_copies(self):
        def program(m):
            n = net(m).eval()
            n.note = ["kept"]
            n.first.linear.weight.requires_grad_(False)
            x = data(m)
            want = n(x)
            c = copy.deepcopy(n)
            with m.no_grad():
                c.shift += 1
            flat = copy.copy(n)
            return [want, c(x), c.note, c.note is n.note, c.first.linear.weight.requires_grad, flat.shift is n.shift,
                    flat(x), [k for k, _ in c.named_buffers()], list(c.state_dict()), c.training]
        self.same(program)

    def test_pickle(self):
        for made in (nn.Linear(3, 2), nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU()),
                     nn.LSTM(3, 4, 2, bidirectional=True), nn.Transformer(4, 2, 1, 1, 8), nn.Embedding(4, 3, 0),
                     nn.MultiheadAttention(4, 2), nn.CrossEntropyLoss(weight=cairn.ones(3)), Pickled(),
                     nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, nn.LayerNorm(4)),
                     nn.ParameterList([cairn.ones(2)]), nn.ParameterDict({"a": cairn.ones(2)}),
                     nn.ModuleDict({"a": nn.ReLU()}), nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3])):
            made.eval()
            again = pickle.loads(pickle.dumps(made))
            self.assertEqual(repr(again), repr(made))
            self.assertIs(type(again), type(made))
            self.assertFalse(again.training)
            for (k, a), (j, b) in zip(made.state_dict().items(), again.state_dict().items()):
                self.assertEqual(k, j)
                self.assertTrue(cairn.equal(a, b))
            if isinstance(made, (nn.Linear, nn.Sequential)):
                x = cairn.randn(2, 3) if isinstance(made, nn.Linear) else cairn.randn(2, 1, 5)
                self.assertTrue(cairn.equal(made(x), again(x)))

    def test_memory(self):
        """A module is gone with the last reference; no cycle waits for the collector."""
        gc.disable()
        try:
            n = net(cairn)
            gone, layer = weakref.ref(n), weakref.ref(n.first.linear)
            handle = n.register_forward_hook(lambda *a: None)
            n(data(cairn))
            handle.remove()
            del n, handle
            self.assertIsNone(gone())
            self.assertIsNone(layer())
        finally:
            gc.enable()


class Pickled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("b", cairn.ones(2), persistent=False)
        self.settings = {"a": 1}

    def forward(self, x):
        return self.fc(x)


class Calls(Case):
    def test_forward_hooks(self):
        def program(m):
            n = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU())
            with m.no_grad():
                for p in n.parameters():
                    p.fill_(0.5)
            seen = []
            handles = [n[0].register_forward_pre_hook(lambda mod, args: (args[0] * 2,)),
                       n[0].register_forward_hook(lambda mod, args, out: out + 1),
                       n[1].register_forward_hook(lambda mod, args, out: seen.append(plain(args[0]))),
                       n.register_forward_hook(lambda mod, args, kwargs, out: seen.append(len(kwargs)),
                                               with_kwargs=True),
                       n[0].register_forward_hook(lambda mod, args, out: seen.append("first"), prepend=True)]
            y = n(m.ones(1, 2))
            for h in handles:
                h.remove()
            return [y, n(m.ones(1, 2)), seen]
        self.same(program)

    def test_pre_hook_kwargs(self):
        def program(m):
            class Add(m.nn.Module):
                def forward(self, x, *, by=0):
                    return x + by
            n = Add()
            n.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"by": kwargs["by"] * 10}), with_kwargs=True)
            return n(m.ones(1), by=2)
        self.same(program)

    def test_backward_hooks(self):
        def program(m):
            n = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.Tanh())
            with m.no_grad():
                for p in n.parameters():
                    p.fill_(0.25)
            seen = []
            n[1].register_full_backward_hook(lambda mod, gi, go: seen.append([plain(gi[0]), plain(go[0])]))
            n[0].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 3,))
            n.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
            x = m.ones(1, 2, requires_grad=True)
            n(x).sum().backward()
            y = m.nn.Linear(2, 1)
            y.register_full_backward_hook(lambda mod, gi, go: seen.append([gi[0] is None, plain(go[0])]))
            y(m.ones(1, 2)).sum().backward()
            return [x.grad, n[0].weight.grad, seen]
        self.same(program)

    def test_instance_forward(self):
        def program(m):
            n = m.nn.Linear(2, 2)
            old = n.forward
            n.forward = lambda x: old(x) * 0 + 7
            return [n(m.ones(1, 2)), m.nn.Sequential(n)(m.ones(1, 2))]
        self.same(program)

    def test_derived_layers(self):
        def program(m):
            class Doubled(m.nn.Linear):
                def forward(self, x):
                    return 2 * super().forward(x)

            class Zeroed(m.nn.Linear):
                def reset_parameters(self):
                    m.nn.init.zeros_(self.weight)
                    m.nn.init.ones_(self.bias)

            class Same(m.nn.Conv2d):
                def __init__(self, n, k):
                    super().__init__(n, n, k, padding=k // 2)
            d = Doubled(2, 2)
            plain_layer = m.nn.Linear(2, 2)
            plain_layer.load_state_dict(d.state_dict())
            x = m.ones(1, 2)
            return [m.equal(d(x), 2 * plain_layer(x)), Zeroed(2, 3)(x), Same(2, 3)(m.ones(1, 2, 4, 4)).shape[3],
                    repr(Doubled(1, 1))]
        self.same(program)

    def test_c_calls_python(self):
        """Layers of C that hold modules of a program's own call them, their hooks and their overridden forward."""
        calls = []

        class Norm(nn.LayerNorm):
            def forward(self, x):
                calls.append("norm")
                return super().forward(x)

        class Gate(nn.Module):
            def forward(self, x):
                calls.append("gate")
                return x * 0.5
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
        layer.norm1 = Norm(4)
        layer.dropout1 = Gate()
        layer.linear2.register_forward_hook(lambda *a: calls.append("hook"))
        layer(cairn.randn(3, 2, 4))
        self.assertEqual(calls, ["gate", "norm", "hook"])
        layer.norm1.forward = lambda x: calls.append("patched") or x
        calls.clear()
        layer(cairn.randn(3, 2, 4))
        self.assertEqual(calls, ["gate", "patched", "hook"])

        class Bad(nn.Module):
            def forward(self, x):
                raise KeyError("from Python")
        layer.dropout1 = Bad()
        with self.assertRaises(KeyError):
            layer(cairn.randn(3, 2, 4))

    def test_any_values(self):
        def program(m):
            class Two(m.nn.Module):
                def forward(self, pair, *, scale=1, **more):
                    a, b = pair["a"], pair["b"]
                    return {"sum": (a + b) * scale, "more": sorted(more)}

            class One(m.nn.Module):
                def forward(self, d):
                    return d["sum"]
            out = Two()({"a": m.ones(1), "b": m.ones(1)}, scale=3, x=1, y=2)
            chain = m.nn.Sequential(Two(), One())
            return [out["sum"], out["more"], chain({"a": m.ones(1), "b": m.ones(1)}), m.nn.Identity(3, x=4)("text")]
        self.same(program)

    def test_same_object(self):
        def program(m):
            x = m.ones(2)
            return [m.nn.Identity()(x) is x, m.nn.ReLU(inplace=True)(x) is x, m.nn.Dropout(0.5).eval()(x) is x]
        self.same(program)

    def test_call_errors(self):
        self.fails(lambda m: m.nn.Linear(2, 2)(), TypeError)
        self.fails(lambda m: m.nn.Linear(2, 2)(m.ones(1, 2), 3), TypeError)
        self.fails(lambda m: m.nn.Linear(2, 2)(m.ones(1, 3)))
        self.fails(lambda m: m.nn.Linear(), TypeError)
        self.fails(lambda m: m.nn.Linear(2, 2, nothing=1), TypeError)
        self.fails(lambda m: m.nn.Conv2d(3, 4, 3, groups=2), ValueError)

    def test_keywords(self):
        def program(m):
            x = m.ones(2, 2)
            return [m.nn.MSELoss()(input=x, target=x * 2), m.nn.Bilinear(2, 2, 1)(input1=x, input2=x).shape[0],
                    m.nn.Linear(in_features=2, out_features=3, bias=False)(input=x).shape[1]]
        self.same(program)


if __name__ == "__main__":
    unittest.main()
