"""Doors of torch that few programs go through: quasirandom, fx's folders, data pipes, checks, files that only show
names of others."""
import importlib
import operator
import pathlib
import sys
import tempfile
import unittest

import cairn
import cairn.fx
import cairn.quasirandom
import cairn.utils.data.graph_settings
from cases import Case, torch

if torch:
    import torch.fx
    import torch.quasirandom
    import torch.utils.data.graph_settings


def _minus(x):
    return -x


def _more(x):
    return x + 1


def _twice(x):
    return x * 2


def _fourth(x):
    return x % 4 == 0


class Sobol(Case):
    def test_points(self):
        def program(m):
            found = []
            for dimension in (1, 2, 7, 40):
                engine = m.quasirandom.SobolEngine(dimension)
                found += [engine.draw(3), engine.fast_forward(5).draw(2), engine.num_generated, engine.reset().draw(1),
                          engine.draw_base2(0), engine.draw(4, dtype=m.float64)]
            out = m.empty(0)
            m.quasirandom.SobolEngine(3).draw(5, out=out)
            last = m.quasirandom.SobolEngine(21201).draw(20)[:, ::977]
            return [*found, out, last, repr(engine), engine.MAXDIM, engine.MAXBIT]
        self.same(program)

    def test_scrambled(self):
        engine = cairn.quasirandom.SobolEngine(5, scramble=True, seed=3)
        x = engine.draw(256)
        self.assertTrue(cairn.equal(x, cairn.quasirandom.SobolEngine(5, True, 3).draw(256)))
        self.assertFalse(cairn.equal(x, cairn.quasirandom.SobolEngine(5, True, 4).draw(256)))
        for column in x.T:  # each of 256 equal parts of an axis has one point
            self.assertEqual(sorted((column * 256).long().tolist()), list(range(256)))

    def test_scrambling_with_given_bits(self):
        def program(m):
            draw = m.randint
            numbers = iter(range(100))

            def given(*args, **more):  # unused: more (devices and generators)
                high, size = args[-2:]
                count = m.Size(size).numel()
                start = next(numbers) + 3
                return (m.arange(count) * start % 7 % high).reshape(size)
            places = [m] if m is torch else [m, sys.modules["cairn._C"]]
            for place in places:
                setattr(place, "randint", given)
            try:
                return m.quasirandom.SobolEngine(3, scramble=True).draw(16)
            finally:
                for place in places:
                    setattr(place, "randint", draw)
        self.same(program)

    def test_what_is_refused(self):
        self.fails(lambda m: m.quasirandom.SobolEngine(21202), ValueError)
        self.fails(lambda m: m.quasirandom.SobolEngine(0), ValueError)

        def odd(m):
            engine = m.quasirandom.SobolEngine(2)
            engine.draw(3)
            engine.draw_base2(2)
        self.fails(odd, ValueError)


class Folder(Case):
    def test_a_graph_as_a_package(self):
        class Net(cairn.nn.Module):
            def __init__(self):
                super().__init__()
                self.body = cairn.nn.Sequential(cairn.nn.Linear(4, 6), cairn.nn.BatchNorm1d(6), cairn.nn.GELU())
                self.scale = cairn.nn.Parameter(cairn.rand(6))
                self.register_buffer("shift", cairn.rand(6))

            def forward(self, x):
                return cairn.clamp(self.body(x) * self.scale + self.shift, max=float("inf"))
        module = cairn.fx.symbolic_trace(Net().eval())
        x = cairn.rand(3, 4)
        with tempfile.TemporaryDirectory() as folder:
            module.to_folder(pathlib.Path(folder) / "made_by_fx", "Made")
            sys.path.insert(0, folder)
            try:
                from made_by_fx import Made
                made = Made().eval()
            finally:
                sys.path.remove(folder)
        self.assertTrue(cairn.equal(made(x), module(x)))
        self.assertEqual(list(made.state_dict()), list(module.state_dict()))

    def test_what_has_no_text_is_refused(self):
        class Own(cairn.nn.Module):
            def forward(self, x):
                return x

        class Leaf(cairn.fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):  # unused: m, module_qualified_name (all are)
                return True
        net = cairn.nn.Sequential(Own())
        module = cairn.fx.GraphModule(net, Leaf().trace(net))
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(NotImplementedError, "Own"):
                module.to_folder(folder)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


class Pipes(Case):
    def test_streams(self):
        def program(m):
            wrapper = m.utils.data.datapipes.iter.IterableWrapper
            rows = wrapper([(1, 2, 3), (4, 5, 6)])
            numbers = wrapper(range(10))
            batches = numbers.batch(3)
            return [list(numbers.map(_twice).filter(_fourth)), list(batches), len(batches),
                    list(numbers.batch(4, drop_last=True)), len(numbers.batch(4, drop_last=True)),
                    [list(t) for t in rows.map(_minus, input_col=1)],
                    [list(t) for t in rows.map(operator.add, input_col=[0, 2])],
                    [list(t) for t in rows.map(_minus, input_col=0, output_col=-1)],
                    [list(t) for t in numbers.zip(wrapper("abc"))], list(numbers.concat(wrapper([7]))),
                    list(numbers.batch(2).batch(2).unbatch(2)), list(numbers.batch(2).batch(3).unbatch(-1)),
                    sorted(numbers.shuffle()), list(numbers.shuffle().set_shuffle(False)), len(numbers.shuffle()),
                    [b.tolist() for b in batches.collate()], list(numbers.sharding_filter())]
        self.same(program)

    def test_keys(self):
        def program(m):
            pipe = m.utils.data.datapipes.map.SequenceWrapper(list(range(7)))
            batches = pipe.map(_more).batch(3)
            return [[batches[i] for i in range(len(batches))], len(pipe.batch(3, drop_last=True)),
                    [list(pipe.zip(pipe)[i]) for i in range(2)], pipe.concat(pipe)[9], len(pipe.concat(pipe))]
        self.same(program)
        self.fails(lambda m: m.utils.data.datapipes.map.SequenceWrapper([1]).batch(1)[1], IndexError)

    def test_own_pipes(self):
        def program(m):
            data = m.utils.data
            name = "tests_twice_" + m.__name__

            @data.functional_datapipe(name)
            class Twice(data.IterDataPipe):
                def __init__(self, source):
                    self.source = source

                def __iter__(self):
                    for x in self.source:
                        yield x
                        yield x
            pipe = getattr(data.datapipes.iter.IterableWrapper([1, 2]), name)()
            graph = data.graph.traverse_dps(data.datapipes.iter.IterableWrapper([1]).batch(2).shuffle())
            found = [type(p).__name__[:7] for p in data.graph_settings.get_all_graph_pipes(graph)]
            plain = data.datapipes.iter.IterableWrapper([1])
            shuffled = data.graph_settings.apply_shuffle_settings(plain, shuffle=True)
            loader = data.DataLoader(data.datapipes.iter.IterableWrapper([1, 1, 2, 2]), batch_size=3)
            return [list(pipe), found, type(shuffled).__name__[:8], [b.tolist() for b in loader]]
        self.same(program)
        self.fails(lambda m: m.utils.data.datapipes.iter.IterableWrapper([1]).no_such_pipe(), AttributeError)


class Small(Case):
    def test_checks(self):
        for kind, call in ((RuntimeError, lambda m: m._check(False)), (IndexError, lambda m: m._check_index(False)),
                           (ValueError, lambda m: m._check_with(ValueError, False, lambda: "why")),
                           (TypeError, lambda m: m._check(m.tensor(True))),
                           (RuntimeError, lambda m: m._check_tensor_all(m.tensor([True, False]))),
                           (RuntimeError, lambda m: m._assert_async(m.tensor(0))),
                           (RuntimeError, lambda m: m.solve(m.eye(2), m.eye(2)))):
            self.fails(call, kind)

        def program(m):
            m._check(True, lambda: 1 / 0)
            m._check_tensor_all(m.tensor([True]))
            m._assert_async(m.tensor(True))
            x = m.ones(2, 3)
            return [m._shape_as_tensor(x), str(m._cast_Long(x).dtype).split(".")[1], x.name,
                    m.while_loop(lambda i: i.sum() < 9, lambda i: (i + x,), (x,))[0]]
        self.same(program)

    def test_swapping(self):
        def program(m):
            a, b = m.nn.Parameter(m.ones(2)), m.zeros(3)
            a.note = "a's"
            (a * 3).sum().backward()
            m.utils.swap_tensors(a, b)
            return [isinstance(a, m.nn.Parameter), isinstance(b, m.nn.Parameter), a, b.detach(), b.grad, b.note,
                    hasattr(a, "note"), a.requires_grad, b.requires_grad]
        self.same(program)

    def test_norms_made_synchronous(self):
        def program(m):
            net = m.nn.Sequential(m.nn.Linear(2, 3), m.nn.Sequential(m.nn.BatchNorm1d(3, affine=False))).eval()
            made = m.nn.SyncBatchNorm.convert_sync_batchnorm(net)
            norm = made[1][0]
            return [type(norm).__name__, norm.affine, norm.training, list(made.state_dict()), made is net,
                    norm.running_var]
        self.same(program)

    def test_complex_modules(self):
        self.same(lambda m: str(m.nn.Linear(2, 2).to(m.complex64).weight.dtype).split(".")[1])
        self.fails(lambda m: m.nn.Linear(2, 2).to(m.int32), TypeError)

    def test_parts_of_optimisers(self):
        def program(m):
            o = importlib.import_module(m.__name__ + ".optim.optimizer")

            class Own(o.Optimizer):
                def __init__(self, params):
                    super().__init__(params, {"differentiable": False})

                @o._use_grad_for_differentiable
                def step(self, closure=None):  # unused: closure (none is given)
                    return m.is_grad_enabled()
            a, b = m.ones(1), m.ones(1, dtype=m.float64)
            groups = o.Optimizer._group_tensors_by_device_and_dtype([[a, b, a], [b, b, b]], with_indices=True)
            return [Own([m.nn.Parameter(a)]).step(), o._get_value(m.tensor(2)),
                    sorted(found[1] for found in groups.values()), [len(x) for x in groups[(a.device, a.dtype)][0]]]
        self.same(program)


class Results(Case):
    def test_classes_of_results(self):
        def program(m):
            kinds = importlib.import_module(m.__name__ + ".return_types")
            x = m.tensor([[3.0, 1.0], [2.0, 4.0]])
            made = kinds.topk((x[0], m.tensor([1, 0])))
            return [type(x.max(0)) is kinds.max, type(x.sort(0)) is kinds.sort, type(m.linalg.qr(x)) is kinds.linalg_qr,
                    type(m.linalg.eigh(x)) is kinds.linalg_eigh, made.values, made.indices, isinstance(made, tuple)]
        self.same(program)
        with self.assertRaises(AttributeError):
            cairn.return_types.no_such_op

    def test_memory_of_a_file(self):
        def program(m):
            with tempfile.TemporaryDirectory() as folder:
                path = str(pathlib.Path(folder) / "numbers")
                m.from_file(path, shared=True, size=4, dtype=m.int32).copy_(m.arange(4))
                return [m.from_file(path, size=3, dtype=m.int32), m.from_file(path, False, 2, dtype=m.int64)]
        self.same(program)

    def test_masks_of_attention(self):
        def program(m):
            f = m.nn.functional
            mask = m.tensor([True, False])
            return [f._canonical_mask(mask, "mask", None, "", m.float32), f._none_or_dtype(None),
                    f._canonical_mask(None, "mask", None, "", m.float32), f._none_or_dtype(mask) == m.bool]
        self.same(program)


class Names(unittest.TestCase):
    def test_files_that_show_names_of_others(self):
        import cairn.accelerator.memory
        import cairn.cuda.amp.autocast_mode
        import cairn.optim.adam
        import cairn.signal.windows.windows
        self.assertIs(cairn.optim.adam.Adam, cairn.optim.Adam)
        self.assertIs(cairn.cuda.amp.autocast_mode.autocast, cairn.cuda.amp.autocast)
        self.assertIs(cairn.accelerator.memory.empty_cache, cairn.accelerator.empty_cache)
        self.assertIs(cairn.signal.windows.windows.hann, cairn.signal.windows.hann)
        with self.assertRaises(AttributeError):
            cairn.optim.adam.SGD

    def test_types_that_are_only_named(self):
        self.assertEqual(repr(cairn.quint8), "torch.quint8")
        self.assertIs(cairn.GradScaler, cairn.amp.GradScaler)
        self.assertIs(cairn.legacy_contiguous_format, cairn.contiguous_format)
        self.assertFalse(isinstance(cairn.ones(1), cairn.TensorType))
        self.assertRaises(AttributeError, lambda: cairn.classes.mine)
        self.assertIsNone(cairn._guards.detect_fake_mode())

    def test_layers_of_quantised_numbers_can_be_named(self):
        from cairn.nn.quantized import Linear, dynamic
        for kind in (Linear, dynamic.LSTM):
            with self.assertRaisesRegex(NotImplementedError, "quantises no modules"):
                kind(2, 2)
        self.assertIs(cairn.nn.modules.CrossMapLRN2d, cairn.nn.CrossMapLRN2d)

    def test_settings_can_be_read(self):
        self.assertEqual(cairn._dynamo.config.cache_size_limit, 8)
        self.assertFalse(cairn._C._jit_set_profiling_mode(False))
        with self.assertRaises(NotImplementedError):
            cairn.xpu.current_device()


if __name__ == "__main__":
    unittest.main()
