"""cairn.fx: graphs of modules, compared with torch's: their code, their nodes, what they compute; rewriting, copies."""
import copy
import operator
import pickle
import unittest

import cairn
import cairn.fx
from cases import Case, torch

if torch:
    import torch.fx
    import torch.fx.passes.shape_prop


def net(m):
    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = m.nn.Linear(2, 3)
            self.scale = m.nn.Parameter(m.ones(3))
            self.register_buffer("shift", m.zeros(3))
            self.inner = m.nn.Sequential(m.nn.Linear(3, 3), m.nn.ReLU())

        def forward(self, x, y=None, *, k: int = 3):
            z = self.inner(self.linear(x)) + self.scale
            z = m.cat([z, z.relu()], dim=1).size(0) * z[:, :2, None]
            return {"a": z, "b": (z.shape[0], self.shift.float()), "c": z.mT}
    made = Net()
    with m.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_((m.arange(p.numel()).float() * (i + 1)).sin().view(p.shape))
    return made


def text(value):
    """Names of the package as torch has them."""
    return str(value).replace("cairn.", "torch.").replace("torch._C.", "torch.")


class Graphs(Case):
    def test_code_and_nodes(self):
        def program(m):
            traced = m.fx.symbolic_trace(net(m))
            nodes = [[n.op, n.name, [u.name for u in n.users]] for n in traced.graph.nodes]
            return [text(traced.code), text(traced.graph), nodes]
        self.same(program)

    def test_computes_the_same(self):
        def program(m):
            module, x = net(m), m.arange(8.0).view(4, 2)
            traced = m.fx.symbolic_trace(module)
            traced.graph.lint()
            found = [traced(x)["a"], m.fx.Interpreter(traced).run(x, None, 3)["a"], copy.deepcopy(traced)(x)["a"],
                     m.fx.Transformer(traced).transform()(x)["a"], pickle.loads(pickle.dumps(traced.graph is None))]
            self.assertTrue(all(m.equal(f, module(x)["a"]) for f in found[:4]))
            return [f for f in found[:4]]
        self.same(program)

    def test_pickle(self):
        global Plain  # pickle finds classes by their names

        class Plain(cairn.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = cairn.nn.Linear(2, 2)

            def forward(self, x):
                return cairn.relu(self.layer(x)) * 2
        traced = cairn.fx.symbolic_trace(Plain())
        again = pickle.loads(pickle.dumps(traced))
        x = cairn.ones(1, 2)
        self.assertEqual(again.code, traced.code)
        self.assertEqual(again(x).tolist(), traced(x).tolist())

    def test_functions(self):
        """Functions in C, in Python, methods, operators, unpacking, constants."""
        def program(m):
            def several(x):
                a, b = x.chunk(2)
                c, d = m.split(x, 1)
                return (a + b + m.tensor([1.0, 2.0]) + m.zeros(2).to(x.device) + c * float("inf") + d.neg()
                        + m.ones_like(x[0], dtype=m.float32) - 2 ** m.nn.functional.softmax(x[:, -1:], dim=-1))
            traced = m.fx.symbolic_trace(several)
            targets = [n.name for n in traced.graph.nodes]
            return [targets, traced(m.ones(2, 2)).tolist()]
        self.same(program)

    def test_einsum_has_one_form(self):
        def program(m):
            def both(a, b):
                return (m.einsum("ij,jk->ik", a, b), m.einsum("ij,jk->ik", [a, b]),
                        m.einsum(a, [0, 1], b, [1, 2], [0, 2]))
            traced = m.fx.symbolic_trace(both)
            counts = [len(n.args) for n in traced.graph.nodes if n.op == "call_function"]
            return [counts, list(traced(m.ones(2, 3), m.ones(3, 2)))]
        self.same(program)

    def test_checks_are_nodes(self):
        def program(m):
            def checked(x):
                m._assert(x.shape[-1] == 3, "three columns")
                return x + 1
            traced = m.fx.symbolic_trace(checked)
            traced.graph.eliminate_dead_code()
            traced.recompile()
            try:
                traced(m.ones(2, 2))
            except AssertionError as error:
                said = str(error)
            return [[n.name for n in traced.graph.nodes], traced(m.ones(2, 3)), said]
        self.same(program)

    def test_arguments(self):
        def program(m):
            def all_kinds(x, *args, flag=True, **named):
                return x + args[0] * named["w"] if flag else x
            traced = m.fx.symbolic_trace(lambda x, n: x * n if n > 2 else x, concrete_args={"n": 3})
            return [[n.target for n in m.fx.symbolic_trace(all_kinds, concrete_args={"flag": True}).graph.nodes
                     if n.op == "placeholder"], traced(m.ones(2), 3)]
        self.same(program)

    def test_what_cannot_be_traced(self):
        def branch(m):
            m.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)

        def loop(m):
            m.fx.symbolic_trace(lambda x: [y + 1 for y in x])
        self.fails(branch, ValueError)
        self.fails(loop, ValueError)
        self.fails(lambda m: len(m.fx.symbolic_trace(lambda x: len(x))), RuntimeError)
        one = cairn.nn.Module.__call__, cairn.nn.Module.__getattribute__
        self.assertEqual(one, (cairn.nn.Module.__call__, cairn.nn.Module.__getattribute__))
        self.assertNotIn("__call__", vars(cairn.nn.Module))  # nothing stays patched after a failure

    def test_leaves(self):
        def program(m):
            class Own(m.fx.Tracer):
                def is_leaf_module(self, module, name):
                    return isinstance(module, m.nn.Sequential) or super().is_leaf_module(module, name)
            return [[n.op, str(n.target)] for n in Own().trace(net(m)).nodes if n.op == "call_module"]
        self.same(program)


class Changes(Case):
    def test_replace_pattern(self):
        def program(m):
            def code(x, y):
                return m.add(x, y).neg().relu() + m.add(y, x).neg() + m.relu(x)
            traced = m.fx.symbolic_trace(code)
            found = m.fx.replace_pattern(traced, lambda a, b: m.add(a, b).neg(), lambda a, b: m.sub(a, b))
            traced.graph.lint()
            return [len(found), text(traced.code), traced(m.arange(3.0), m.ones(3))]
        self.same(program)

    def test_by_hand(self):
        def program(m):
            graph = m.fx.Graph()
            x = graph.placeholder("x")
            graph.output(graph.call_method("add", (graph.call_function(m.relu, (x,)), 1)))
            made = m.fx.GraphModule(m.nn.Module(), graph)
            before = made(m.tensor([-1.0, 2.0]))
            for node in made.graph.nodes:
                if node.target is m.relu:
                    with made.graph.inserting_after(node):
                        other = made.graph.call_function(m.sigmoid, node.args)
                    node.replace_all_uses_with(other)
                    made.graph.erase_node(node)
            made.recompile()
            return [before, made(m.tensor([-1.0, 2.0])), text(made.code)]
        self.same(program)

    def test_dead_code(self):
        def program(m):
            graph = m.fx.symbolic_trace(lambda x: (x.exp(), x + 1)[1]).graph
            return [graph.eliminate_dead_code(), [n.name for n in graph.nodes], graph.eliminate_dead_code()]
        self.same(program)
        graph = cairn.fx.Graph()
        x = graph.placeholder("x")
        y = graph.call_function(operator.neg, (x,))
        graph.output(y)
        with self.assertRaisesRegex(RuntimeError, "still had 1 users"):
            graph.erase_node(y)

    def test_lint(self):
        def program(m):
            graph = m.fx.Graph()
            x = graph.placeholder("x")
            y = graph.call_function(m.relu, (x,))
            graph.output(y)
            y.append(x)
            graph.lint()
        self.fails(program)

    def test_shapes(self):
        def program(m):
            if m is cairn:
                from cairn.fx.passes.shape_prop import ShapeProp
            else:
                from torch.fx.passes.shape_prop import ShapeProp
            traced = m.fx.symbolic_trace(net(m))
            ShapeProp(traced).propagate(m.ones(4, 2))
            return [[n.name, list(n.meta["tensor_meta"].shape)] for n in traced.graph.nodes
                    if hasattr(n.meta.get("tensor_meta"), "shape")]
        self.same(program)

    def test_fused(self):
        from cairn.fx.experimental.optimization import fuse
        module = cairn.nn.Sequential(cairn.nn.Conv2d(1, 2, 3), cairn.nn.BatchNorm2d(2), cairn.nn.ReLU()).eval()
        module[1].running_mean.add_(0.3)
        x = cairn.arange(25.0).view(1, 1, 5, 5) / 10
        fused = fuse(module)
        self.assertFalse([n for n in fused.graph.nodes if "1" == n.target])
        self.near(fused(x), module(x))


class Dispatch(Case):
    """__torch_function__ of classes that are no tensors, and modes."""

    def test_other_classes(self):
        def program(m):
            class Named:
                def __init__(self, value):
                    self.value = value

                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    return [func.__name__, [a.value if isinstance(a, cls) else a for a in args], kwargs or {}]
            return [m.add(Named(1), 2), m.mean(Named(3), dim=1), m.cat([Named(1)])[0]]
        self.same(program)

    def test_modes(self):
        def program(m):
            names = []

            class Note(m.overrides.TorchFunctionMode):
                def __torch_function__(self, func, types, args=(), kwargs=None):
                    names.append(func.__name__)
                    return func(*args, **(kwargs or {}))
            with Note(), Note():
                x = m.ones(2).exp()
            x.neg()
            return [names, x]
        self.same(program)

    def test_handle(self):
        def program(m):
            class Loud:
                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    return "loud " + func.__name__

            def quiet(x):
                if m.overrides.has_torch_function_unary(x):
                    return m.overrides.handle_torch_function(quiet, (x,), x)
                return "quiet"
            return [quiet(m.ones(1)), quiet(Loud()), m.overrides.is_tensor_like(Loud())]
        self.same(program)


if __name__ == "__main__":
    unittest.main()
