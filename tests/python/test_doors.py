"""Names of torch that programs import: torch.ops, library, _foreach_, futures, flex_attention, distributed and what is
not there, compared with torch where it has the same."""
import datetime
import os
import subprocess
import sys
import tempfile
import unittest

import cairn
import cairn.futures
import cairn.library
import cairn.monitor
import cairn.nn.attention.flex_attention
from cases import Case, torch

if torch:
    import torch.autograd.forward_ad
    import torch.futures
    import torch.library
    import torch.monitor
    import torch.nn.attention.flex_attention


class Ops(Case):
    def test_aten(self):
        def program(m):
            a, x = m.ops.aten, m.arange(6.0).view(2, 3)
            return [a.add.Tensor(x, x, alpha=2), a.sum.dim_IntList(x, [1], True), a.slice.Tensor(x, 1, 1, 3, 2),
                    a._softmax(x, 1, False), a.mse_loss(x, m.zeros(2, 3), 2), a.max.dim(x, 1)[0],
                    a.index.Tensor(x, [None, m.tensor([0, 2])]), a.native_layer_norm(x, [3], None, None, 1e-5)[2],
                    a.upsample_nearest2d.vec(x[None, None], None, [2.0, 2.0]), a._to_copy(x, dtype=m.float64),
                    a.convolution(x[None], m.ones(1, 2, 2), None, [1], [0], [1], False, [0], 1), a.t.default(x),
                    a.upsample_bilinear2d(x[None, None], [4, 4], False), str(a.add.Tensor), str(a.add),
                    a.add.Tensor.name(), "Scalar" in a.add.overloads()]
        self.same(program)
        self.fails(lambda m: m.ops.aten.add.NoSuch, AttributeError)
        self.fails(lambda m: m.ops.aten.no_such_op, AttributeError)
        with self.assertRaisesRegex(NotImplementedError, "no counterpart"):
            cairn.ops.aten.quantize_per_tensor_dynamic(1)

    def test_foreach(self):
        def program(m):
            def two():
                return [m.arange(3.0) + 1, m.ones(2, 2) * 4]
            f, found = (lambda name, *a, **k: list(getattr(m, "_foreach_" + name)(*a, **k))), []
            for name in ("abs", "exp", "neg", "sqrt", "reciprocal", "round", "sigmoid", "max", "norm", "clone"):
                found += f(name, two())
            for name in ("add", "mul", "sub", "div", "maximum", "clamp_max", "pow"):
                found += f(name, two(), 2.0) + f(name, two(), [2.0, 3.0]) + f(name, two(), two())
            found += f("add", two(), two(), alpha=0.5) + f("lerp", two(), two(), 0.25) + f("pow", 2.0, two())
            found += f("addcmul", two(), two(), two(), 0.5) + f("addcdiv", two(), two(), two(), [1.0, 2.0])
            for name, rest in (("add_", (1.0,)), ("mul_", ([2.0, 3.0],)), ("sqrt_", ()), ("addcdiv_", (two(), two())),
                               ("zero_", ()), ("copy_", (two(),)), ("lerp_", (two(), 0.5))):
                given = two()
                found.append(getattr(m, "_foreach_" + name)(given, *rest) is given)
                found += given
            return found
        self.same(program)
        for wrong in (lambda m: m._foreach_add([], 1), lambda m: m._foreach_add([m.ones(1)], [m.ones(1)] * 2)):
            self.fails(wrong)
        self.fails(lambda m: m._foreach_no_such, AttributeError)


class Library(Case):
    def test_custom_op(self):
        def program(m):
            @m.library.custom_op("doors::twice", mutates_args=())
            def twice(x: m.Tensor, n: int = 2) -> m.Tensor:
                return x.detach() * n
            x = m.tensor([1.0, 2.0], requires_grad=True)
            found = [m.ops.doors.twice(x.detach()), twice(x).requires_grad]
            with self.assertRaisesRegex(RuntimeError, "no autograd formula was registered"):
                twice(x).sum().backward()
            twice.register_autograd(lambda ctx, g: (g * ctx.n, None),
                                    setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]))
            m.ops.doors.twice(x, 3).sum().backward()

            @twice.register_fake
            def _(x, n=2):
                return m.empty_like(x)
            return [*found, x.grad, list(m.ops.doors.twice(m.empty(3, device="meta")).shape)]
        self.same(program)

    def test_library(self):
        def program(m):
            lib = m.library.Library("doors_lib", "DEF")
            lib.define("times(Tensor a, Tensor b, *, float s=1.0) -> Tensor")
            lib.impl("times", lambda a, b, *, s=1.0: a * b * s, "CompositeImplicitAutograd")
            m.library.define("doors_lib::two", "(Tensor x) -> (Tensor, Tensor)")
            m.library.impl("doors_lib::two", "cpu")(lambda x: (x + 1, x * 2))
            y = m.ones(2, requires_grad=True)
            m.ops.doors_lib.times(y, m.tensor([2.0, 3.0]), s=2.0).sum().backward()
            out = m.zeros(2)

            @m.library.custom_op("doors_lib::into", mutates_args={"to"})
            def into(x: m.Tensor, to: m.Tensor) -> None:
                to.add_(x)
            return [y.grad, list(m.ops.doors_lib.two(m.ones(2))), into(m.ones(2), out) is None, out]
        self.same(program)
        self.fails(lambda m: m.ops.doors_lib.into(m.ones(1)))
        self.fails(lambda m: m.ops.doors_lib.nothing, AttributeError)

    def test_overloads(self):
        def program(m):
            space = "tests_overloads_" + m.__name__
            made = m.library.Library(space, "DEF")
            for schema in ("f(Tensor x) -> Tensor", "f.two(Tensor x, Tensor y) -> Tensor",
                           "f.out(Tensor x, *, Tensor(a!) out) -> ()"):
                made.define(schema)
            m.library.impl(space + "::f", "cpu", lambda x: x + 1)
            m.library.impl(space + "::f.two", "cpu", lambda x, y: x + y)
            made.impl("f.out", lambda x, out: out.copy_(x) is None or None, "CPU")
            m.library.register_fake(space + "::f.out")(lambda x, out: None)
            f, x, out = getattr(m.ops, space).f, m.ones(2), m.zeros(2)
            f.out(x, out=out)
            return [f(x), f(x, x), f.default(x), f.two(x, x * 3), out, f.overloads(), f.two.name().split("::")[1]]
        self.same(program)

    def test_schema_of_what_is_written_to(self):
        def program(m):
            made = m.library.Library("tests_written_" + m.__name__, "DEF")
            made.define("fill_(Tensor! x, int n) -> ()")
            made.impl("fill_", lambda x, n: x.fill_(n) is None or None, "CPU")
            x = m.zeros(2)
            getattr(m.ops, "tests_written_" + m.__name__).fill_(x, 3)
            return x
        self.same(program)

    def test_schema(self):
        def program(m):
            def f(x: m.Tensor, y: "m.Tensor | None", z: list[int], s: bool = False, *, w: float = 1.5) -> m.Tensor:
                return x
            f.__annotations__["y"] = m.Tensor | None
            return [m.library.infer_schema(f, mutates_args=()), m.library.infer_schema(f, mutates_args={"x"})]
        self.same(program)

    def test_opcheck(self):
        @cairn.library.custom_op("doors::liar", mutates_args=())
        def liar(x: cairn.Tensor) -> cairn.Tensor:
            x.add_(1)
            return x.clone()
        with self.assertRaisesRegex(RuntimeError, "mutated"):
            cairn.library.opcheck(liar, (cairn.ones(2),), test_utils="test_schema")


class Flex(Case):
    def test_attention(self):
        def program(m):
            f = m.nn.attention.flex_attention
            q, k, v = ((m.arange(2 * 2 * 20 * 4).float() * s).sin().view(2, 2, 20, 4) for s in (0.3, 0.7, 1.1))
            slopes, doc = m.tensor([1.0, 0.5]), m.tensor([0] * 7 + [1] * 13)

            def causal(b, h, i, j):
                return i >= j
            masks = [None, causal, f.and_masks(causal, lambda b, h, i, j: (i - j) < 4),
                     f.or_masks(causal, lambda b, h, i, j: doc[i] == doc[j]), lambda b, h, i, j: i < 0]
            found = []
            for mask in masks:
                blocks = None if mask is None else f.create_block_mask(mask, None, None, 20, 20, device="cpu",
                                                                       BLOCK_SIZE=8)
                for score in (None, lambda s, b, h, i, j: s + slopes[h] * (j - i)):
                    out, aux = f.flex_attention(q, k, v, score, blocks, return_aux=f.AuxRequest(lse=True))
                    found += [out, aux.lse]
                if blocks is not None:
                    found += [blocks.to_dense(), blocks.kv_num_blocks, blocks.full_kv_num_blocks, blocks.q_num_blocks,
                              list(blocks.shape), blocks.sparsity()]
            found.append(f.flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True))
            found.append(f.create_mask(causal, 1, 1, 3, 3, device="cpu"))
            return found
        self.same(program)

    def test_gradient(self):
        """torch has none on the CPU; attention with a mask is the same."""
        f = cairn.nn.attention.flex_attention
        q, k, v = ((cairn.arange(48.0) * s).sin().view(1, 2, 6, 4).requires_grad_() for s in (0.3, 0.7, 1.1))
        blocks = f.create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 6, BLOCK_SIZE=4)
        one = cairn.autograd.grad(f.flex_attention(q, k, v, block_mask=blocks).square().sum(), (q, k, v))
        two = cairn.autograd.grad(cairn.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True).square().sum(), (q, k, v))
        self.near(list(one), list(two))

    def test_errors(self):
        def heads(m):
            q = m.ones(1, 4, 3, 2)
            m.nn.attention.flex_attention.flex_attention(q, q[:, :2], q[:, :2])

        def lengths(m):
            f, q = m.nn.attention.flex_attention, m.ones(1, 1, 4, 2)
            f.flex_attention(q, q, q, block_mask=f.create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8,
                                                                     device="cpu", BLOCK_SIZE=4))
        self.fails(heads, ValueError)
        self.fails(lengths)


class Forward(Case):
    """autograd.forward_ad."""

    def test_duals(self):
        def program(m):
            fwd = m.autograd.forward_ad
            x, t = m.tensor([0.5, 1.5]), m.tensor([1.0, -2.0])
            w = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            with fwd.dual_level():
                dual = fwd.make_dual(x, t)
                y = (w @ dual.sin()).exp() / dual
                primal, tangent = fwd.unpack_dual(y)
                plain = fwd.unpack_dual(x * 2).tangent is None
                back, = m.autograd.grad(tangent.sum(), w)
                free = fwd.unpack_dual(dual.exp()).tangent.requires_grad
                found = [primal, tangent, plain, free, back, fwd.unpack_dual(dual).tangent,
                         fwd.unpack_dual(dual * 3).tangent]
            return [*found, fwd.unpack_dual(y).tangent is None]
        self.same(program)

    def test_errors(self):
        self.fails(lambda m: m.autograd.forward_ad.make_dual(m.ones(1), m.ones(1)))

        def shapes(m):
            with m.autograd.forward_ad.dual_level():
                m.autograd.forward_ad.make_dual(m.ones(2), m.ones(3))

        def nested(m):
            with m.autograd.forward_ad.dual_level(), m.autograd.forward_ad.dual_level():
                pass
        self.fails(shapes)
        self.fails(nested)


class Small(Case):
    def test_futures(self):
        def program(m):
            one, two, seen = m.futures.Future(), m.futures.Future(), []
            then = one.then(lambda f: f.value() + 1)
            one.add_done_callback(lambda f: seen.append(f.value()))
            both = m.futures.collect_all([one, two])
            before = [one.done(), both.done()]
            one.set_result(4)
            two.set_result(5)
            return [before, then.wait(), seen, m.futures.wait_all([one, two]), both.done()]
        self.same(program)

        def twice(m):
            one = m.futures.Future()
            one.set_result(1)
            one.set_result(2)

        def failed(m):
            one = m.futures.Future()
            one.set_exception(RuntimeError("told"))
            one.wait()
        self.fails(twice)
        self.fails(failed)

    def test_monitor(self):
        def program(m):
            seen = []
            handle = m.monitor.register_event_handler(seen.append)
            kinds = m.monitor.Aggregation
            hour = datetime.timedelta(hours=1)
            stat = m.monitor.Stat("asked", [kinds.SUM, kinds.MEAN, kinds.MAX, kinds.COUNT], hour, 3)
            for value in (1.0, 2.0, 6.0):
                stat.add(value)
            m.monitor.unregister_event_handler(handle)
            return [[e.name for e in seen], sorted(stat.get().values()), stat.count]
        self.same(program)

    def test_float8(self):
        def program(m):
            return [[i.bits, i.eps, i.max, i.min, i.tiny] for i in (m.finfo(getattr(m, "float8_" + name)) for name in (
                "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"))]
        self.same(program)

    def test_storage_from_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bytes")
            shared = cairn.UntypedStorage.from_file(path, shared=True, size=4)
            shared.fill_(7)
            del shared
            self.assertEqual(cairn.UntypedStorage.from_file(path, size=4).tolist(), [7] * 4)
            with self.assertRaisesRegex(RuntimeError, "fewer than 9"):
                cairn.UntypedStorage.from_file(path, size=9)

    def test_subclasses(self):
        def program(m):
            class Own(m.Tensor):
                @staticmethod
                def __new__(cls, data):
                    return m.Tensor._make_subclass(cls, data, True)
            made = Own(m.ones(2))
            return [type(made * 2).__name__, made.requires_grad, made.is_leaf]
        self.same(program)


class NotThere(unittest.TestCase):
    def test_distributed(self):
        import cairn.distributed as dist
        from cairn.distributed.fsdp.wrap import ModuleWrapPolicy
        self.assertFalse(dist.is_available() or dist.is_initialized() or dist.is_nccl_available())
        self.assertIs(dist.ReduceOp, dist.distributed_c10d.ReduceOp)
        self.assertEqual(repr(dist.fsdp.ShardingStrategy.FULL_SHARD), "ShardingStrategy.FULL_SHARD")
        self.assertNotIsInstance(cairn.nn.Linear(1, 1), dist.fsdp.FullyShardedDataParallel)
        for call in (lambda: dist.init_process_group("gloo"), dist.get_rank, lambda: ModuleWrapPolicy(set()),
                     lambda: cairn.nn.parallel.DistributedDataParallel(cairn.nn.Linear(1, 1))):
            with self.assertRaisesRegex(NotImplementedError, "process groups"):
                call()
        with self.assertRaisesRegex(AttributeError, "no_such_name"):
            dist.no_such_name

    def test_others(self):
        import cairn._dynamo
        import cairn._inductor.config
        import cairn.ao.quantization as quantization
        import cairn.package
        for call in (lambda: quantization.prepare_qat(None), lambda: quantization.MinMaxObserver(),
                     lambda: cairn.package.PackageExporter("x"), lambda: cairn._C.DispatchKey("CPU"),
                     lambda: cairn.SymInt(1)):
            with self.assertRaises(NotImplementedError):
                call()
        with self.assertWarnsRegex(UserWarning, "no effect"):
            cairn._dynamo.config.suppress_errors = True
        self.assertFalse(isinstance(3, cairn.SymInt))
        with self.assertRaises(AttributeError):
            cairn._C.no_such_name

    def test_as_torch(self):
        """The release that is followed, for packages that ask."""
        code = ("import cairn; cairn.as_torch(); import importlib.metadata as m, torch, torchvision\n"
                "assert m.version('torch') == torch.__version__ > '2.4' and torch.__version__ >= (2, 10), torch\n"
                "assert 'cairn' in torch.__version__ and m.version('torchvision') == torchvision.__version__\n"
                "import torch.distributed.fsdp, torch._C._functorch, torch.jit.annotations\n"
                "import torch.fx.passes.shape_prop\n"
                "import torchvision.ops.misc, torch._subclasses.fake_tensor, torch.utils.data._utils.collate\n"
                "from torch._C import _disabled_torch_function_impl, _log_api_usage_once\n"
                "from torch.utils.checkpoint import get_device_states; from torch.serialization import MAP_LOCATION\n"
                "from torch.nn.parallel.scatter_gather import gather, scatter\n"
                "assert torch.ones(4).equal(gather(scatter(torch.ones(4), ['cpu', 'cpu']), 'cpu'))\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
