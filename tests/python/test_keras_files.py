"""Models in files: HDF5 without its library, files of Keras's, and round trips of what programs save."""
import base64
import json
import os
import pathlib
import tempfile
import unittest
import zipfile
import zlib

import cairn
from cairn import keras
from cairn.keras import _hdf5, layers, ops
from keras_files import H5, KERAS

try:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras as peer
except ImportError:
    peer = None


def rows(n=4, columns=3):
    return cairn.linspace(-1, 1, n * columns).reshape(n, columns)


def same(a, b):
    return cairn.allclose(cairn.as_tensor(a), cairn.as_tensor(b), atol=1e-6)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.folder / name)


class Hdf5(unittest.TestCase):
    def tree(self):
        root = _hdf5.Group({"text": "ä" * 70000, "number": 3, "part": 0.5, "list": ["a", "bc"], "none": []})
        for i in range(40):
            root.at("many/g%d" % i, make=True).attrs["name"] = "n%d" % i
        held = root.at("a/b", make=True).items
        for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8"):
            held[name] = cairn.arange(6).reshape(2, 3).to(getattr(cairn, name))
        held["scalar"], held["empty"] = cairn.tensor(2.5), cairn.zeros(0, 4)
        return root

    def test_round_trip(self):
        root = self.tree()
        back = _hdf5.read(_hdf5.write(root))
        self.assertEqual(back.attrs, root.attrs)
        self.assertEqual(back.at("many/g39").attrs, {"name": "n39"})
        want = dict(root.walk())
        for name, value in back.walk():
            self.assertEqual((value.dtype, tuple(value.shape)), (want[name].dtype, tuple(want[name].shape)))
            self.assertTrue(cairn.equal(value, want[name]))
        self.assertIsNone(back.at("a/c"))

    def test_damage(self):
        data = _hdf5.write(self.tree())
        with self.assertRaisesRegex(ValueError, "no HDF5"):
            _hdf5.read(b"something else")
        for cut in range(100, len(data), len(data) // 37):
            with self.subTest(cut=cut):
                try:
                    _hdf5.read(data[:cut])
                except ValueError:
                    pass
        with self.assertRaisesRegex(ValueError, "superblock"):
            _hdf5.read(data[:8] + b"\2" + data[9:])


class OfKeras(Folder):
    """Files that Keras wrote."""

    def kept(self, name, text):
        path = self.path(name)
        pathlib.Path(path).write_bytes(zlib.decompress(base64.b85decode(text)))
        return path

    def test_keras(self):
        model = keras.models.load_model(self.kept("small.keras", KERAS))
        x = rows()
        self.assertEqual([k.name for k in model.layers],
                         ["img", "first", "norm", "second", "multiply", "add", "last"])
        want = [-0.22494605, -0.09286703, -0.0326606, -0.02788556]
        self.assertTrue(same(model(x).reshape(-1), cairn.tensor(want)))
        logs = model.fit(x, x[:, :1] * 2, epochs=2, verbose=0, shuffle=False).history["loss"]
        self.assertTrue(all(abs(a - b) < 1e-5 for a, b in zip(logs, [0.63505769, 0.52531862])), logs)  # Adam goes on

    def test_h5(self):
        model = keras.models.load_model(self.kept("small.h5", H5))
        want = [0.0291183, 0.07101265, 0.12668443, 0.19229412]
        self.assertTrue(same(model(rows()).reshape(-1), cairn.tensor(want)))
        self.assertEqual(type(model.optimizer).__name__, "SGD")
        other = keras.Sequential([keras.Input((3,)), layers.Dense(2, activation="tanh"), layers.Dense(1)])
        other.load_weights(self.path("small.h5"))
        self.assertTrue(same(other(rows()).reshape(-1), cairn.tensor(want)))


@keras.saving.register_keras_serializable(package="tests")
class Scale(layers.Layer):
    def __init__(self, factor=2.0, **options):
        super().__init__(**options)
        self.factor = factor

    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="w")
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, inputs):
        return inputs * self.w * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable(package="tests")
class Blocks(keras.Model):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = units
        self.blocks = [layers.Dense(units, activation="relu"), layers.Dense(units)]
        self.named = {"last": layers.Dense(1)}
        self.scale = Scale(3.0)

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x)
        return self.named["last"](self.scale(x))

    def get_config(self):
        return {"units": self.units, "name": self.name}


def functional():
    a = keras.Input((3,), name="a")
    x = layers.BatchNormalization()(layers.Dense(4, activation="tanh", kernel_regularizer="l2")(a))
    shared = layers.Dense(4, kernel_initializer=keras.initializers.HeNormal(seed=1))
    x = ops.maximum(shared(x), 0.0) + shared(shared(x)) * 0.5
    return keras.Model(a, [Scale(1.5)(x), layers.Dense(2, name="b")(x[:, 1:])])


def sequential():
    return keras.Sequential([keras.Input((6, 3)), layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
                             layers.GRU(5), layers.Dropout(0.2),
                             layers.Dense(2, activation="softmax", kernel_constraint="max_norm")])


class RoundTrips(Folder):
    def answers(self, model, x):
        out = model(x)
        return [out] if isinstance(out, cairn.Tensor) else list(out)

    def test_models(self):
        for make, x in ((functional, rows()), (sequential, rows(4, 18).reshape(4, 6, 3)), (lambda: Blocks(4), rows())):
            model = make()
            want = self.answers(model, x)
            for name in ("m.keras", "m.h5") if not isinstance(model, Blocks) else ("m.keras",):
                with self.subTest(model=type(model).__name__, name=name):
                    model.save(self.path(name))
                    back = keras.models.load_model(self.path(name))
                    self.assertIs(type(back), type(model))
                    self.assertTrue(all(map(same, self.answers(back, x), want)))
                    with self.assertRaises(FileExistsError):
                        model.save(self.path(name), overwrite=False)
            model.save_weights(self.path("w.weights.h5"))
            fresh = make()
            self.answers(fresh, x)
            fresh.load_weights(self.path("w.weights.h5"))
            self.assertTrue(all(map(same, self.answers(fresh, x), want)))
            fresh.load_weights(self.path("m.keras"))

    def test_inside(self):
        functional().save(self.path("m.keras"))
        with zipfile.ZipFile(self.path("m.keras")) as whole:
            self.assertEqual(sorted(whole.namelist()), ["config.json", "metadata.json", "model.weights.h5"])
            config = json.loads(whole.read("config.json"))
            tree = _hdf5.read(whole.read("model.weights.h5"))
        self.assertEqual(config["class_name"], "Functional")
        self.assertEqual(config["config"]["input_layers"], ["a", 0, 0])
        self.assertEqual(sorted(tree.at("layers").items)[:4], ["add", "batch_normalization", "dense", "dense_1"])
        self.assertEqual(tuple(tree.at("layers/dense/vars/0").shape), (3, 4))

    def test_optimizers(self):
        x, y = rows(8), rows(8)[:, :1]
        for optimizer in ("adam", "sgd", keras.optimizers.RMSprop(momentum=0.5)):
            model = keras.Sequential([keras.Input((3,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])
            model.compile(optimizer, "mse", metrics=["mae"])
            model.fit(x, y, epochs=2, verbose=0)
            model.save(self.path("o.keras"))
            back = keras.models.load_model(self.path("o.keras"))
            logs = [m.fit(x, y, epochs=3, verbose=0, shuffle=False).history for m in (model, back)]
            with self.subTest(optimizer=optimizer):
                self.assertTrue(all(abs(a - b) < 1e-6 for a, b in zip(logs[0]["loss"], logs[1]["loss"])), logs)
                self.assertEqual(sorted(logs[1]), ["loss", "mae"])
            self.assertIsNone(keras.models.load_model(self.path("o.keras"), compile=False).optimizer)

    def test_configurations(self):
        model = functional()
        x = rows()
        for copy in (keras.models.model_from_json(model.to_json()), keras.Model.from_config(model.get_config()),
                     keras.models.clone_model(model)):
            copy.set_weights(model.get_weights())
            self.assertTrue(all(map(same, self.answers(copy, x), self.answers(model, x))))
        wide = keras.models.clone_model(sequential(), clone_function=lambda layer: layers.Dense(7) if isinstance(
            layer, layers.Dense) else type(layer).from_config(layer.get_config()))
        self.assertEqual(wide.output_shape, (None, 7))

    def test_what_does_not_fit(self):
        model = sequential()
        model.save_weights(self.path("w.weights.h5"))
        other = keras.Sequential(model.layers[:-1] + [layers.Dense(3)])
        other(rows(4, 18).reshape(4, 6, 3))
        with self.assertRaisesRegex(ValueError, "do not fit"):
            other.load_weights(self.path("w.weights.h5"))
        with self.assertWarnsRegex(UserWarning, "left out"):
            other.load_weights(self.path("w.weights.h5"), skip_mismatch=True)
        with self.assertRaisesRegex(ValueError, "no weights yet"):
            keras.Sequential([layers.Dense(2)]).load_weights(self.path("w.weights.h5"))
        with self.assertRaisesRegex(ValueError, "no file"):
            keras.models.load_model(self.path("none.keras"))
        text = functional().to_json().replace('"tests>Scale"', '"tests>Unknown"').replace('"Scale"', '"Unknown"')
        with self.assertRaisesRegex(ValueError, "custom_objects"):
            keras.models.model_from_json(text)


@unittest.skipUnless(peer, "Keras is not installed")
class BothWays(Folder):
    def test_keras_opens_ours(self):
        a = keras.Input((3,))
        x = layers.BatchNormalization()(layers.Dense(4, activation="relu")(a))
        model = keras.Model(a, layers.Dense(2)(x * 2.0 + layers.Dense(4)(x)))
        model.compile("adam", keras.losses.MeanSquaredError())
        model.fit(rows(), rows()[:, :2], verbose=0)
        for name in ("m.keras", "m.h5"):
            model.save(self.path(name))
            found = peer.models.load_model(self.path(name)).predict(rows().numpy(), verbose=0)
            self.assertTrue(same(found, model(rows())))


if __name__ == "__main__":
    unittest.main()
