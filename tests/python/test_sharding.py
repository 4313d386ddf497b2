"""cairn.sharding: meshes of the PJRT plugin for tests, which has eight devices. What needs no compiler runs
everywhere: splits, their texts, what lies where, errors. With jax behind the plugin (as for
tests/pjrt/test_pjrt_training) whole training steps run as one program for several devices, and give what the CPU
gives."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("CAIRN_BUILD_DIR", os.path.join(HERE, "..", "..", "build", "default")))
PLUGIN = os.path.join(BUILD, "tests", "pjrt", "libfake_pjrt.so")
HAS_JAX = importlib.util.find_spec("jax") is not None
CACHE = tempfile.TemporaryDirectory()
os.environ.update({"CAIRN_PJRT": PLUGIN, "CAIRN_PLUGIN_PATH": BUILD, "PJRT_TEST_DEVICES": "8",
                   "CAIRN_CACHE": CACHE.name, "TF_CPP_MIN_LOG_LEVEL": "3"})
if HAS_JAX:
    os.environ.update({"PJRT_TEST_SERVER": os.path.join(HERE, "..", "pjrt", "plugin", "server.py"),
                       "PJRT_TEST_PYTHON": sys.executable})

import cairn  # noqa: E402 (the plugin is looked for when a device is)
import cairn.nn.functional as F  # noqa: E402
from cairn import nn, sharding  # noqa: E402

HAS_PLUGIN = os.path.exists(PLUGIN) and os.path.exists(os.path.join(BUILD, "libcairn_pjrt.so"))
NEEDS_PLUGIN = "the PJRT backend or its plugin for tests was not built"
NEEDS_JAX = "jax is not installed: build/test-env/bin/pip install jax"
TILES = re.compile(r"\{devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?( last_tile_dim_replicate)?\}")


def numbers(text):
    return [int(n) for n in text.split(",")]


def places(text, shape):
    """What each device has of an array, as (from, size) for each dim, of a text for XLA's partitioner."""
    found = TILES.fullmatch(text)
    order = transposed(numbers(found[2]), numbers(found[3]) if found[3] else None)
    tiles = numbers(found[1])
    made = {}
    for at, device in enumerate(order):
        coordinates = []
        for tile in reversed(tiles):
            at, rest = divmod(at, tile)
            coordinates.insert(0, rest)
        made[device] = [(c * (n // t), n // t) for c, t, n in zip(coordinates, tiles, shape)]
    return [made[device] for device in range(len(order))]


def transposed(sizes, order):
    """The elements of an array of these sizes that counts up, with its dims in another order."""
    grid = cairn.arange(cairn.Size(sizes).numel()).reshape(sizes)
    return (grid.permute(order) if order else grid).flatten().tolist()


def exported(shape, mesh, *dims):
    text = cairn.stablehlo.export(lambda x: x * 2, cairn.zeros(*shape), mesh=mesh, shardings={"args": [dims]})
    return re.search(r'%0: tensor<\S+> \{mhlo.sharding = "(.*?)"\}', text)[1]


class TextTest(unittest.TestCase):
    def test_each_device_has_its_part(self):
        two = {"a": 2, "b": 3}
        cases = [({"a": 2}, ("a",)), (two, ("a",)), (two, ("b",)), (two, ("b", "a")), (two, (None, "a")),
                 (two, (("a", "b"),)), ({"a": 2, "b": 1, "c": 2}, ("a", "c")),
                 ({"a": 2, "b": 2, "c": 2}, ("c", None, "a")), ({"a": 2, "b": 2, "c": 2}, (("a", "c"), "b")),
                 ({"a": 2, "b": 2, "c": 2}, ("b", ("a", "c"))), ({"a": 1, "b": 4}, ("b",))]
        for axes, dims in cases:
            shape = (12, 12, 12)
            for device, boxes in enumerate(places(exported(shape, cairn.Mesh(axes), *dims), shape)):
                rest, at = device, {}
                for name in reversed(axes):
                    rest, at[name] = divmod(rest, axes[name])
                for d, box in enumerate(boxes):
                    names = dims[d] if d < len(dims) and dims[d] else ()
                    place, parts = 0, 1
                    for name in [names] if isinstance(names, str) else names:
                        place, parts = place * axes[name] + at[name], parts * axes[name]
                    self.assertEqual(box, (place * (12 // parts), 12 // parts), (axes, dims, device))

    def test_what_is_not_named_is_whole(self):
        mesh = cairn.Mesh({"data": 4})
        self.assertEqual(exported((4, 3), mesh), "{replicated}")
        text = cairn.stablehlo.export(nn.Linear(3, 2), cairn.zeros(4, 3), mesh=mesh, shardings={"args": [("data",)]})
        self.assertEqual(re.findall(r'mhlo.sharding = "(.*?)"', text),
                         ["{replicated}", "{replicated}", "{devices=[4,1]<=[4]}", "{replicated}"])
        self.assertNotIn("sharding", cairn.stablehlo.export(lambda x: cairn.shard(x, "data"), cairn.zeros(4)))

    def test_states_by_name_or_by_tensor(self):
        mesh, net = cairn.Mesh({"model": 2}), nn.Linear(4, 6)

        def step(x):
            net(x).sum().backward()
            with cairn.no_grad():
                for p in net.parameters():
                    p -= p.grad
            net.zero_grad()
        split = '{mhlo.sharding = "{devices=[2,1]<=[2]}"'
        named = cairn.stablehlo.export(net, cairn.zeros(3, 4), mesh=mesh, shardings={"weight": ("model",)})
        self.assertEqual(named.count(split), 1)
        text = cairn.stablehlo.export(step, cairn.zeros(3, 4), mesh=mesh, donate=True,
                                      shardings={net.weight: ("model",)})
        self.assertEqual(text.count(split), 2)  # its new value lies as the old one
        self.assertIn(split + ", tf.aliasing_output = ", text)

    def test_results_lie_as_shard_says(self):
        mesh = cairn.Mesh({"b": 2})
        text = cairn.stablehlo.export(lambda x: cairn.shard(x + 1, "*, b"), cairn.zeros(4, 4), mesh=mesh)
        self.assertIn('-> (tensor<4x4xf32> {mhlo.sharding = "{devices=[1,2]<=[2]}"})', text)
        self.assertIn('call_target_name = "Sharding"', text)

    def test_in_the_words_of_shardy(self):
        mesh = cairn.Mesh({"data": 4, "model": 2})
        text = cairn.stablehlo.export(lambda x, y: (cairn.shard(x + y, "*, data+model"), y.sum()), cairn.zeros(8, 8),
                                      cairn.zeros(8, 8), mesh=mesh, partitioner="shardy",
                                      shardings={"args": [("model", "data"), None]})
        self.assertIn('sdy.mesh @mesh = <["data"=4, "model"=2]>', text)
        self.assertEqual(re.findall(r"sdy.sharding = #sdy.sharding(<.*?>)[,}]", text),
                         ['<@mesh, [{"model"}, {"data"}]>', "<@mesh, [{}, {}]>", '<@mesh, [{}, {"data", "model"}]>',
                          "<@mesh, []>"])
        self.assertRegex(text, r'sdy.sharding_constraint %\d+ <@mesh, \[\{\}, \{"data", "model"\}\]>')
        self.assertNotIn("mhlo.sharding", text)
        with self.assertRaisesRegex(ValueError, "must be 'gspmd' or 'shardy', not 'alpa'"):
            cairn.stablehlo.export(lambda x: x, cairn.zeros(4), mesh=mesh, partitioner="alpa")

    def test_what_does_not_fit_is_an_error(self):
        mesh = cairn.Mesh({"data": 4, "model": 2})
        for shape, dims, why in (((6,), ("data",), "dim 0 of size 6 cannot be split in 4"),
                                 ((8,), ("rows",), "no axis 'rows'; it has data, model"),
                                 ((8, 8), ("data", "data"), "data is named twice"),
                                 ((8,), (None, "data"), "more parts than the tensor has dims: 1"),
                                 ((8,), (("model", "data"),), "data before model")):
            with self.assertRaisesRegex((ValueError, RuntimeError), why):
                exported(shape, mesh, *dims)
        with self.assertRaisesRegex(TypeError, "a dim is split by"):
            exported((8,), mesh, 3)
        with self.assertRaisesRegex(ValueError, "shardings need a mesh"):
            cairn.stablehlo.export(lambda x: x, cairn.zeros(4), shardings={"args": [("data",)]})
        with self.assertRaisesRegex(ValueError, "there is no state 'weights'; there are weight, bias"):
            cairn.stablehlo.export(nn.Linear(2, 2), cairn.zeros(1, 2), mesh=mesh, shardings={"weights": ("data",)})
        for axes in ({"": 2}, {"1a": 2}, {"a": 0}, {}, {"a" * 40: 2}):
            with self.assertRaises((ValueError, RuntimeError)):
                exported((4,), cairn.Mesh(axes))


@unittest.skipUnless(HAS_PLUGIN, NEEDS_PLUGIN)
class MeshTest(unittest.TestCase):
    """No program runs: tensors go to the devices in parts, and come back."""

    def test_parts_come_back_whole(self):
        for axes, dims in (({"a": 4}, ("a",)), ({"a": 2, "b": 4}, ("b", "a")), ({"a": 2, "b": 2}, (None, "b")),
                           ({"a": 2, "b": 2}, (("a", "b"),)), ({"a": 3}, ())):
            x = cairn.arange(8 * 4 * 3, dtype=cairn.float32).reshape(8, 4, 3)
            y = cairn.Mesh(axes).shard(x, *dims)
            self.assertEqual(sharding.of(y), tuple(dims) + (None,) * (3 - len(dims)))
            self.assertTrue(cairn.equal(y.cpu(), x))

    def test_the_same_mesh_is_the_same_device(self):
        a, b = cairn.Mesh({"a": 2}), cairn.Mesh({"a": 2})
        self.assertEqual(a.device, b.device)
        self.assertNotEqual(a.device, cairn.Mesh({"b": 2}).device)
        self.assertNotEqual(a.device, cairn.Mesh({"a": 2}, ["pjrt:2", "pjrt:3"]).device)
        self.assertEqual(str(cairn.zeros(2, device=a.device).device), str(a.device))

    def test_devices_that_do_not_fit(self):
        for axes, devices, why in (({"a": 16}, None, "is not there"), ({"a": 2}, ["pjrt:0", "cpu"], "two kinds"),
                                   ({"a": 2}, ["cpu", "pjrt:0"], "two kinds"),
                                   ({"a": 1}, ["cpu"], "cannot run one program"),
                                   ({"a": 2}, ["pjrt:1", "pjrt:1"], "there twice"),
                                   ({"a": 1}, [cairn.Mesh({"z": 2}).device], "is a mesh itself")):
            with self.assertRaisesRegex(RuntimeError, why):
                cairn.Mesh(axes, devices).device
        with self.assertRaisesRegex(ValueError, "2 places, and there are 1 devices"):
            cairn.Mesh({"a": 2}, ["pjrt:0"])
        with self.assertRaisesRegex(RuntimeError, "on no mesh"):
            sharding.of(cairn.zeros(2))

    def test_tensors_of_two_meshes_do_not_mix(self):
        a, b = cairn.Mesh({"a": 2}), cairn.Mesh({"a": 2}, ["pjrt:2", "pjrt:3"])
        with self.assertRaisesRegex(RuntimeError, "device"):
            a.shard(cairn.zeros(4), "a") + b.shard(cairn.zeros(4), "a")

    def test_a_module_is_placed_by_patterns(self):
        net = cairn.Mesh({"model": 2}).place(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), {"0.*": ("model",)})
        self.assertEqual([sharding.of(p) for p in net.parameters()],
                         [("model", None), ("model",), (None,), (None,)])
        with self.assertRaisesRegex(ValueError, "no parameter or buffer has a name like '1.weigth'"):
            cairn.Mesh({"model": 2}).place(nn.Linear(2, 2), {"1.weigth": ("model",)})


class Block(nn.Module):
    """A small GPT."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.qkv, self.out, self.norm = nn.Linear(8, 24, bias=False), nn.Linear(8, 8), nn.LayerNorm(8)
        self.up, self.down, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 12)

    def forward(self, tokens):
        n, length = tokens.shape
        x = self.embed(tokens) + self.place(cairn.arange(length, device=tokens.device))
        q, k, v = self.qkv(self.norm(x)).view(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(n, length, 8)), 0.1, self.training)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(x)


def cnn():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(36, 4))


@unittest.skipUnless(HAS_PLUGIN, NEEDS_PLUGIN)
@unittest.skipUnless(HAS_JAX, NEEDS_JAX)
class StepsTest(unittest.TestCase):
    """Four training steps on a mesh and on the CPU. Devices add up parts of sums, and XLA in another order than the
    CPU: 2e-4 after four steps, as in test_stablehlo."""

    def losses(self, make, data, mesh=None, splits=None, compiled=True):
        cairn.manual_seed(3)
        net = make()
        x, target = data()
        if mesh is not None:
            mesh.place(net, splits)
            x, target = mesh.shard(x, "data"), mesh.shard(target, "data")
        optimiser = cairn.optim.Adam(net.parameters(), lr=1e-2, eps=1e-4)

        def step(x, target):
            loss = F.cross_entropy(net(x).flatten(0, -2), target.flatten())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss.detach()
        cairn.manual_seed(4)
        run = cairn.compile(step) if compiled else step
        return [run(x, target).item() for _ in range(4)], net

    def same(self, make, data, **how):
        want, alone = self.losses(make, data)
        have, net = self.losses(make, data, **how)
        for a, b in zip(have, want):
            self.assertAlmostEqual(a, b, delta=2e-4)
        for p, q in zip(net.parameters(), alone.parameters()):
            self.assertTrue(cairn.allclose(p.detach().cpu(), q.detach(), rtol=2e-4, atol=2e-4))
        return net

    @staticmethod
    def rows():
        return cairn.randn(8, 6), cairn.randint(0, 4, (8,))

    @staticmethod
    def images():
        return cairn.randn(8, 2, 6, 6), cairn.randint(0, 4, (8,))

    @staticmethod
    def tokens():
        return cairn.randint(0, 12, (4, 6)), cairn.randint(0, 12, (4, 6))

    @staticmethod
    def mlp():
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 4))

    def test_mlp_by_rows(self):
        self.same(self.mlp, self.rows, mesh=cairn.Mesh({"data": 8}))

    def test_mlp_with_split_weights(self):
        net = self.same(self.mlp, self.rows, mesh=cairn.Mesh({"data": 2, "model": 2}),
                        splits={"0.weight": ("model",), "3.weight": (None, "model")})
        self.assertEqual([sharding.of(p) for p in net.parameters()],
                         [("model", None), (None,), (None, "model"), (None,)])

    def test_shardy_gives_the_same(self):
        names = ["test_mlp_with_split_weights", "test_gpt_with_split_weights", "test_results_that_stay_split"]
        env = dict(os.environ, CAIRN_PJRT_PARTITIONER="shardy", PYTHONPATH=os.pathsep.join(sys.path))
        run = subprocess.run([sys.executable, os.path.abspath(__file__), *("StepsTest." + name for name in names)],
                             env=env, stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("Ran 3 tests", run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_mlp_eager(self):
        self.same(self.mlp, self.rows, mesh=cairn.Mesh({"data": 2, "model": 2}), splits={"0.*": ("model",)},
                  compiled=False)

    def test_cnn_by_rows(self):
        self.same(cnn, self.images, mesh=cairn.Mesh({"data": 4}))

    def test_gpt_by_rows(self):
        self.same(Block, self.tokens, mesh=cairn.Mesh({"data": 4}))

    def test_gpt_with_split_weights(self):
        self.same(Block, self.tokens, mesh=cairn.Mesh({"data": 2, "model": 4}),
                  splits={"up.*": ("model",), "down.weight": (None, "model"), "embed.weight": ("model",)})

    def test_results_that_stay_split(self):
        mesh = cairn.Mesh({"data": 4})
        x = cairn.randn(8, 4)
        fn = cairn.compile(lambda a: (cairn.shard(a * 2, "data"), (a * 3).sum()))
        y, total = fn(mesh.shard(x, "data"))
        self.assertEqual(sharding.of(y), ("data", None))
        self.assertTrue(cairn.equal(y.cpu(), x * 2))
        self.assertTrue(cairn.allclose(total.cpu(), (x * 3).sum(), rtol=1e-5))
        y.copy_(cairn.ones(8, 4))
        self.assertEqual(sharding.of(y), ("data", None))  # what is written over it lies like it
        self.assertTrue(cairn.equal(y.cpu(), cairn.ones(8, 4)))

    def test_gradients_through_shard(self):
        mesh = cairn.Mesh({"data": 2})
        x = mesh.shard(cairn.ones(4), "data").requires_grad_()
        (cairn.shard(x * 3, "") * 2).sum().backward()
        self.assertTrue(cairn.equal(x.grad.cpu(), cairn.full((4,), 6.0)))


if __name__ == "__main__":
    unittest.main()
