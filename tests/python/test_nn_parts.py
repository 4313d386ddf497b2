"""Containers, recurrent layers, initialisers and utilities of cairn.nn, in cairn and in torch."""
import collections
import copy
import math
import pickle
import unittest
import warnings

import cairn
from cairn import nn
from cases import Case, torch
from test_nn_module import net


class Containers(Case):
    def test_sequential(self):
        def program(m):
            n = m.nn
            s = n.Sequential(collections.OrderedDict([("a", n.ReLU()), ("b", n.Tanh())]))
            seen = [repr(s), len(s), repr(s[1]), repr(s.a), repr(s[-1]), repr(s[:1]), [type(x).__name__ for x in s]]
            t = n.Sequential(n.ReLU(), n.Tanh(), n.Sigmoid())
            t.append(n.ELU()).insert(1, n.GELU())
            seen.append(repr(t))
            del t[0]
            seen.append(repr(t))
            t[0] = n.SELU()
            t.extend([n.Softplus()])
            seen += [repr(t.pop(1)), repr(t), repr(t + n.Sequential(n.ReLU())), repr(2 * n.Sequential(n.ReLU()))]
            t += n.Sequential(n.Mish())
            return seen + [repr(t), repr(t[1:3]), list(t._modules)]
        self.same(program)
        self.fails(lambda m: m.nn.Sequential(m.nn.ReLU())[3], IndexError)
        self.fails(lambda m: m.nn.Sequential(3), TypeError)

    def test_module_list(self):
        def program(m):
            n = m.nn
            x = n.ModuleList([n.Linear(1, 1) for _ in range(3)] + [n.ReLU()])
            seen = [repr(x), len(x), repr(x[1:3]), list(x.state_dict()), repr(x[-1])]
            x.append(n.Tanh())
            x.insert(0, n.ELU())
            x.extend(n.ModuleList([n.GELU()]))
            x += [n.SELU()]
            del x[1]
            x[1] = n.Sigmoid()
            seen += [repr(x), repr(x.pop(0)), repr(x + [n.ReLU()]), [type(v).__name__ for v in x], repr(n.ModuleList())]
            return seen
        self.same(program)

    def test_module_dict(self):
        def program(m):
            n = m.nn
            d = n.ModuleDict({"a": n.ReLU(), "b": n.Linear(1, 1)})
            d["c"] = n.Tanh()
            d.update([("e", n.ELU())])
            seen = [repr(d), list(d), "a" in d, len(d), list(d.keys()), [k for k, _ in d.items()], repr(d.pop("a")),
                    [type(v).__name__ for v in d.values()], list(d.state_dict())]
            del d["c"]
            seen.append(repr(d))
            d.clear()
            return seen + [repr(d)]
        self.same(program)

    def test_parameters(self):
        def program(m):
            n = m.nn
            x = n.ParameterList([n.Parameter(m.ones(2)), m.zeros(3)])
            x.append(m.ones(1))
            x[0] = m.ones(4)
            x += [m.ones(5)]
            seen = [len(x), [p.shape[0] for p in x], list(x.state_dict()), [isinstance(p, n.Parameter) for p in x],
                    x[-1].shape[0], len(x[1:])]
            d = n.ParameterDict({"a": m.ones(1), "b": n.Parameter(m.ones(2))})
            d["c"] = m.ones(3)
            seen += [list(d), list(d.state_dict()), d["c"].shape[0], "a" in d, len(d), [k for k, _ in d.items()]]
            del d["a"]
            d.update({"z": m.ones(1)})
            return seen + [list(d.keys()), [v.numel() for v in d.values()], repr(n.ParameterList())]
        self.same(program)
        if torch:
            def text(m):
                x = m.nn.ParameterList([m.nn.Parameter(m.ones(2)), m.nn.Parameter(m.ones(3, 4))])
                d = m.nn.ParameterDict({"a": m.nn.Parameter(m.ones(2))})
                return [repr(v).replace("cairn", "torch") for v in (x, x[:1], d)]
            self.same(text)

    def test_recurrent(self):
        def program(m):
            r = m.nn.utils.rnn
            lstm = m.nn.LSTM(2, 3, batch_first=True)
            with m.no_grad():
                for p in lstm.parameters():
                    p.copy_(m.arange(p.numel(), dtype=m.float32).reshape(p.shape).cos() / 3)
            lstm.flatten_parameters()
            x = m.arange(12, dtype=m.float32).reshape(2, 3, 2) / 12
            packed = r.pack_padded_sequence(x, m.tensor([2, 3]), batch_first=True, enforce_sorted=False)
            out, (h, c) = lstm(packed)
            padded, lengths = r.pad_packed_sequence(out, batch_first=True)
            hx = (m.ones(1, 2, 3), m.zeros(1, 2, 3))
            cell = m.nn.LSTMCell(2, 3)
            h1, c1 = cell(x[:, 0], (m.ones(2, 3), m.ones(2, 3)))
            return [padded, lengths, h, c, lstm(x, hx)[0], lstm(x)[1][1], list(h1.shape), len(lstm.all_weights[0]),
                    list(packed.batch_sizes), packed.data.shape[0], isinstance(out, r.PackedSequence)]
        self.same(program)

    def test_embedding_from_pretrained(self):
        def program(m):
            table = m.arange(6, dtype=m.float32).reshape(3, 2)
            e = m.nn.Embedding.from_pretrained(table)
            f = m.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=0)
            b = m.nn.EmbeddingBag.from_pretrained(table, mode="sum")
            i = m.tensor([[0, 2]])
            return [e(i), e.weight.requires_grad, f.weight.requires_grad, repr(f), b(i), b.weight.requires_grad]
        self.same(program)

    def test_functions_as_parts(self):
        def program(m):
            loss = m.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=2.0)
            a, b, c = (m.tensor([[1.0, 2.0]]), m.tensor([[1.5, 2.5]]), m.tensor([[3.0, 1.0]]))
            soft = m.nn.AdaptiveLogSoftmaxWithLoss(2, 5, [2])
            with m.no_grad():
                for p in soft.parameters():
                    p.fill_(0.5)
            return [loss(a, b, c), soft(a, m.tensor([3])).loss, soft.log_prob(a), soft.predict(a)]
        self.same(program)

    def test_custom_activation(self):
        def program(m):
            made = []
            for act in (m.tanh, "gelu", m.nn.functional.relu):
                layer = m.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=act, norm_first=True)
                stack = m.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
                dec = m.nn.TransformerDecoder(m.nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, activation=act), 1)
                with m.no_grad():
                    for p in [*stack.parameters(), *dec.parameters()]:
                        p.copy_(m.arange(p.numel(), dtype=m.float32).reshape(p.shape).sin() / 2)
                x = m.arange(24, dtype=m.float32).reshape(3, 2, 4).cos()
                made += [stack(x), dec(x, x)]
            return made
        self.same(program)


class Utilities(Case):
    def test_clip(self):
        def program(m):
            n = m.nn.Linear(2, 2)
            def grads():
                for i, p in enumerate(n.parameters()):
                    p.grad = m.ones_like(p) * (i + 1)
            u = m.nn.utils
            grads()
            total = u.clip_grad_norm_(n.parameters(), 1.0)
            first = [p.grad for p in n.parameters()]
            grads()
            u.clip_grad_value_(n.parameters(), 1.5)
            norm = u.get_total_norm([p.grad for p in n.parameters()])
            grads()
            return [total, first, [p.grad for p in n.parameters()], norm,
                    u.clip_grad_norm_(n.parameters(), 1.0, norm_type=float("inf")), u.clip_grad_norm_([], 1.0)]
        self.same(program)

    def test_vectors(self):
        def program(m):
            n = m.nn.Linear(2, 1)
            v = m.arange(3, dtype=m.float32)
            m.nn.utils.vector_to_parameters(v, n.parameters())
            return [n.weight, n.bias, m.nn.utils.parameters_to_vector(n.parameters())]
        self.same(program)

    def test_sequences(self):
        def program(m):
            r = m.nn.utils.rnn
            parts = [m.tensor([1.0, 2.0, 3.0]), m.tensor([4.0])]
            padded = r.pad_sequence(parts, batch_first=True, padding_value=-1.0)
            packed = r.pack_sequence(parts)
            return [padded, r.pad_sequence(parts, padding_side="left"), packed.data, packed.batch_sizes,
                    r.unpad_sequence(padded, m.tensor([3, 1]), batch_first=True), r.unpack_sequence(packed)]
        self.same(program)

    def test_init(self):
        def program(m):
            i, t = m.nn.init, m.empty
            return [i.constant_(t(2), 3.0), i.ones_(t(2)), i.zeros_(t(2)), i.eye_(t(2, 3)), i.dirac_(t(2, 2, 3)),
                    i.calculate_gain("relu"), i.calculate_gain("leaky_relu", 0.2), i.calculate_gain("tanh")]
        self.same(program)
        cairn.manual_seed(0)
        i = nn.init
        for make, std in ((lambda t: i.normal_(t, 1.0, 0.5), 0.5), (lambda t: i.uniform_(t, -1, 1), 3 ** -0.5),
                          (i.xavier_uniform_, (2 / 200) ** 0.5), (i.xavier_normal_, (2 / 200) ** 0.5),
                          (i.kaiming_uniform_, (2 / 100) ** 0.5), (i.orthogonal_, 0.1),
                          (lambda t: i.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), (2 / 100) ** 0.5),
                          (lambda t: i.trunc_normal_(t, std=0.02), 0.02),
                          (lambda t: i.sparse_(t, 0.5, 1.0), 0.5 ** 0.5)):
            t = nn.Parameter(cairn.empty(100, 100))
            self.assertIs(make(t), t)
            self.assertTrue(t.requires_grad and t.is_leaf)
            self.assertLess(abs(t.std().item() / std - 1), 0.06)
        g = cairn.Generator().manual_seed(3)
        a = i.normal_(cairn.empty(4), generator=g)
        g.manual_seed(3)
        self.assertTrue(cairn.equal(a, i.normal_(cairn.empty(4), generator=g)))
        self.fails(lambda m: m.nn.init.xavier_uniform_(m.ones(3)), ValueError)

    def test_parameter(self):
        def program(m):
            p = m.nn.Parameter(m.ones(2), requires_grad=False)
            q = m.nn.Parameter(m.ones(2))
            c = copy.deepcopy(q)
            return [repr(p), repr(q), isinstance(q, m.Tensor), isinstance(q * 1, m.nn.Parameter), q.is_leaf,
                    isinstance(c, m.nn.Parameter), c is q, isinstance(q.data, m.nn.Parameter),
                    isinstance(pickle.loads(pickle.dumps(q)), m.nn.Parameter), p.requires_grad]
        self.same(program)

    def test_buffer_class(self):
        def program(m):
            n = m.nn.Module()
            n.b = m.nn.Buffer(m.ones(2))
            n.t = m.nn.Buffer(m.ones(2), persistent=False)
            return [[k for k, _ in n.named_buffers()], list(n.state_dict())]
        self.same(program)

    def test_weight_norms(self):
        def program(m):
            out = []
            for wrap in (m.nn.utils.weight_norm, m.nn.utils.parametrizations.weight_norm):
                n = m.nn.Linear(2, 3)
                with m.no_grad():
                    n.weight.copy_(m.arange(6, dtype=m.float32).reshape(3, 2) + 1)
                    n.bias.zero_()
                n = wrap(n)
                y = n(m.ones(1, 2))
                y.sum().backward()
                parts = dict(n.named_parameters())
                out += [y, sorted(parts), [parts[k].grad for k in sorted(parts)], list(n.state_dict())]
            m.nn.utils.parametrize.remove_parametrizations(n, "weight")
            return out + [n(m.ones(1, 2)), [k for k, _ in n.named_parameters()], type(n).__name__]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program)

    def test_only_probabilities_have_a_binary_cross_entropy(self):
        for value in (1.5, -0.1, math.nan):
            self.fails(lambda m: m.nn.functional.binary_cross_entropy(m.tensor([0.5, value]), m.ones(2)))
        self.same(lambda m: m.nn.functional.binary_cross_entropy(m.tensor([0.0, 1.0, 0.5]), m.tensor([0.0, 1.0, 1.0])))

    def test_spectral_norm(self):
        for wrap in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
            n = wrap(nn.Linear(4, 3))
            for _ in range(30):
                y = n(cairn.ones(1, 4))
            largest = cairn.linalg.svdvals(n.weight.detach())[0].item()
            self.assertAlmostEqual(largest, 1.0, 2)
            y.sum().backward()
        if torch:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.same(lambda m: [sorted(m.nn.utils.spectral_norm(m.nn.Conv2d(1, 2, 3)).state_dict()),
                                     sorted(m.nn.utils.parametrizations.spectral_norm(
                                         m.nn.Conv2d(1, 2, 3)).state_dict())])

    def test_spectral_norm_step_by_step(self):
        """From the same directions the same weights: the older form moves v first, the newer one u."""
        def program(m, new):
            n = m.nn.Linear(4, 3)
            n = m.nn.utils.parametrizations.spectral_norm(n) if new else m.nn.utils.spectral_norm(n)
            state = n.state_dict()
            for i, key in enumerate(sorted(state)):
                size = state[key].numel()
                values = (m.arange(size, dtype=m.float32) + 1 + i).sin().reshape(tuple(state[key].shape))
                state[key] = values / values.norm()
            n.load_state_dict(state)
            seen = [n(m.ones(2, 4)).tolist() for _ in range(3)]
            n.eval()
            n(m.ones(2, 4)).sum().backward()
            return seen, n(m.ones(1, 4)).tolist(), [p.grad.tolist() for _, p in sorted(n.named_parameters())]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for new in (False, True):
                self.same(lambda m: program(m, new))
        with self.assertRaises(RuntimeError):
            nn.utils.spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 2)))

    def test_parametrization(self):
        def program(m):
            class Symmetric(m.nn.Module):
                def forward(self, x):
                    return x.triu() + x.triu(1).transpose(-1, -2)
            n = m.nn.Linear(3, 3)
            with m.no_grad():
                n.weight.copy_(m.arange(9, dtype=m.float32).reshape(3, 3))
                n.bias.zero_()
            m.nn.utils.parametrize.register_parametrization(n, "weight", Symmetric())
            y = n(m.ones(1, 3))
            return [y, n.weight, list(n.state_dict()), m.nn.utils.parametrize.is_parametrized(n)]
        self.same(program)

    def test_functional_call(self):
        def program(m):
            from importlib import import_module
            call = import_module(m.__name__ + ".nn.utils.stateless").functional_call
            n = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU())
            w = m.eye(2, requires_grad=True)
            y = call(n, {"0.weight": w * 2, "0.bias": m.ones(2)}, (m.ones(1, 2),))
            y.sum().backward()
            return [y, w.grad, isinstance(n[0].weight, m.nn.Parameter)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program)

    def test_lazy(self):
        def program(m):
            n = m.nn.Sequential(m.nn.LazyConv2d(4, 3), m.nn.LazyBatchNorm2d(), m.nn.Flatten(), m.nn.LazyLinear(5))
            y = n(m.ones(2, 3, 5, 5))
            return [list(y.shape), [type(x).__name__ for x in n], list(n[3].weight.shape), list(n.state_dict())]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program)

    def test_summary(self):
        """C's table of layers sees modules written in Python, and each call once."""
        text = cairn._C._summary(net(cairn), (4, 3))
        lines = [line for line in text.split("\n") if ": " in line]
        rows = {line.split(":")[0].strip("│├└─ "): line.split()[-1] for line in lines}
        self.assertEqual(rows["first"], "48")
        self.assertIn("linear", rows)

    def test_html(self):
        text = net(cairn)._repr_html_()
        self.assertIn("BatchNorm1d", text)
        self.assertIn("39", text)

    def test_reset_parameters(self):
        for layer in (nn.Linear(3, 4), nn.Conv2d(1, 2, 3), nn.BatchNorm1d(3), nn.LayerNorm(3), nn.Embedding(3, 4),
                      nn.LSTM(2, 3), nn.GRUCell(2, 3), nn.PReLU(), nn.GroupNorm(1, 3)):
            with cairn.no_grad():
                for p in layer.parameters():
                    p.fill_(100.0)
            layer.reset_parameters()
            self.assertTrue(all(p.abs().max().item() < 50 for p in layer.parameters()), layer)

    def test_global_hooks(self):
        from cairn.nn.modules.module import register_module_forward_hook
        seen = []
        handle = register_module_forward_hook(lambda mod, args, out: seen.append(type(mod).__name__))
        nn.Sequential(nn.ReLU(), nn.Tanh())(cairn.ones(1))
        handle.remove()
        nn.ReLU()(cairn.ones(1))
        self.assertEqual(seen, ["ReLU", "Tanh", "Sequential"])

    def test_families(self):
        def program(m):
            x = m.nn.modules
            return [isinstance(m.nn.BatchNorm2d(1), x.batchnorm._BatchNorm),
                    isinstance(m.nn.Conv1d(1, 1, 1), x.conv._ConvNd),
                    isinstance(m.nn.MSELoss(), x.loss._Loss), isinstance(m.nn.Dropout(), x.dropout._DropoutNd),
                    issubclass(m.nn.LSTM, m.nn.RNNBase), x.Linear is m.nn.Linear, x.module.Module is m.nn.Module,
                    issubclass(m.nn.ReLU6, m.nn.Hardtanh), x.utils._pair(3)]
        self.same(program)


if __name__ == "__main__":
    unittest.main()
