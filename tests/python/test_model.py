"""cairn.Model and its callbacks: training of modules by names, all kinds of data, figures, files, errors."""
import contextlib
import csv
import io
import math
import os
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import cairn
from cairn import callbacks, nn
from cairn.utils.data import DataLoader, Dataset, TensorDataset

import hand


def lines(n=64):
    """Points of a plane with noise: x (n, 3), y (n, 1)."""
    g = cairn.Generator().manual_seed(0)
    x = cairn.randn(n, 3, generator=g)
    return x, x @ cairn.tensor([[1.0], [-2.0], [0.5]]) + 0.3


def classes(n=96):
    g = cairn.Generator().manual_seed(1)
    x = cairn.randn(n, 2, generator=g)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def net(out=1, into=3):
    cairn.manual_seed(0)
    return cairn.Model(nn.Linear(into, 16), nn.Tanh(), nn.Linear(16, out))


class Fitting(unittest.TestCase):
    def test_like_a_loop_by_hand(self):
        """fit computes what the loop computes, to the last bit."""
        x, y = lines()
        model = net()
        model.compile(lambda p: cairn.optim.SGD(p, lr=0.1, momentum=0.9), "mse")
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        other = net()
        optimizer = cairn.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            for i in range(0, 64, 16):
                optimizer.zero_grad()
                nn.functional.mse_loss(other(x[i:i + 16]), y[i:i + 16]).backward()
                optimizer.step()
        for a, b in zip(model.parameters(), other.parameters()):
            self.assertTrue(cairn.allclose(a, b, rtol=1e-6, atol=1e-7))

    def test_names(self):
        x, y = classes()
        for optimizer in ("sgd", "adam", "rmsprop", cairn.optim.AdamW):
            for loss in ("cross_entropy", nn.CrossEntropyLoss(), nn.functional.cross_entropy,
                         lambda output, target: nn.functional.cross_entropy(output, target)):
                model = net(2, 2)
                model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
                logs = model.fit(x, y, epochs=2, verbose=0).history
                self.assertEqual(set(logs), {"loss", "accuracy"})
                self.assertTrue(all(math.isfinite(v) for v in logs["loss"]))
        for loss, last in (("mse", 1), ("mae", 1), ("huber", 1), ("smooth_l1", 1), ("bce_with_logits", 1)):
            model = net(last, 2)
            model.compile("adam", loss, metrics=["accuracy"] if "bce" in loss else None)
            model.fit(x, y, epochs=1, verbose=0)
        with self.assertRaisesRegex(ValueError, "unknown loss 'no_such'"):
            net().compile("adam", "no_such")
        with self.assertRaisesRegex(ValueError, "unknown optimizer"):
            net().compile("no_such", "mse")
        with self.assertRaisesRegex(ValueError, "unknown metric"):
            net().compile("adam", "mse", metrics=["no_such"])

    def test_instances(self):
        x, y = classes()
        model = net(2, 2)
        model.compile(cairn.optim.Adam(model.parameters(), lr=0.05), nn.CrossEntropyLoss(),
                      metrics=[cairn.metrics.Accuracy(), "f1"])
        logs = model.fit(x, y, epochs=15, verbose=0).history
        self.assertGreater(logs["accuracy"][-1], 0.9)
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        right = (model.predict(x).argmax(1) == y).float().mean().item()
        self.assertAlmostEqual(found["accuracy"], right, places=5)
        self.assertEqual(list(found), ["accuracy", "f1", "loss"])

    def test_data(self):
        x, y = lines()

        class Pairs(Dataset):
            def __len__(self):
                return 10

            def __getitem__(self, i):
                return x[i], y[i]

        def forever():
            while True:
                yield x[:8], y[:8]
        kinds = {"tensors": (x, y), "arrays": (x.numpy().astype("float64"), y.numpy()),
                 "lists": (x.tolist(), y.tolist()),
                 "dataset": (Pairs(), None), "tensor dataset": (TensorDataset(x, y), None),
                 "loader": (DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True), None),
                 "batches": ([(x[:8], y[:8]), (x[8:16], y[8:16])], None)}
        for name, (a, b) in kinds.items():
            with self.subTest(data=name):
                model = net()
                model.compile("adam", "mse")
                model.fit(a, b, epochs=2, verbose=0)
                self.assertIsInstance(model.evaluate(a, b, verbose=0), float)
        model = net()
        model.compile("adam", "mse")
        history = model.fit(forever(), steps_per_epoch=3, epochs=2, verbose=0, validation_data=(x, y))
        self.assertEqual(len(history.history["val_loss"]), 2)

    def test_several_inputs_and_outputs(self):
        class Two(cairn.Model):
            def __init__(self):
                super().__init__()
                self.left, self.right = nn.Linear(3, 2), nn.Linear(2, 2)

            def forward(self, a, b):
                h = self.left(a) + self.right(b)
                return {"sum": h.sum(1, keepdim=True), "all": h}
        a, b = cairn.randn(12, 3), cairn.randn(12, 2)
        model = Two()
        model.compile("sgd", {"sum": "mse", "all": "mae"}, metrics={"all": ["mse"]})
        goal = {"sum": cairn.zeros(12, 1), "all": cairn.zeros(12, 2)}
        logs = model.fit([a, b], goal, epochs=1, verbose=0).history
        self.assertEqual(set(logs), {"loss", "sum_loss", "all_loss", "all_mse"})
        out = model.predict({"a": a, "b": b}, batch_size=5)
        self.assertEqual(tuple(out["all"].shape), (12, 2))

    def test_weights_of_samples(self):
        x, y = classes()
        model = net(2, 2)
        model.compile("sgd", "cross_entropy")
        plain = model.test_on_batch(x, y)
        ones = model.test_on_batch(x, y, sample_weight=cairn.ones(96)) if model.reset_metrics() is None else 0
        self.assertAlmostEqual(plain, ones, places=5)
        model.reset_metrics()
        none = model.test_on_batch(x, y, sample_weight=cairn.zeros(96))
        self.assertEqual(none, 0.0)
        model.fit(x, y, class_weight={0: 0.0, 1: 2.0}, epochs=3, verbose=0)
        model.compile("sgd", nn.CrossEntropyLoss())
        with self.assertRaisesRegex(ValueError, "each sample"):
            model.fit(x, y, class_weight={0: 1.0, 1: 2.0}, verbose=0)

    def test_validation(self):
        x, y = lines()
        model = net()
        model.compile("adam", "mse", metrics=["mae"])
        logs = model.fit(x, y, epochs=4, validation_split=0.25, validation_freq=2, verbose=0).history
        self.assertEqual(len(logs["val_mae"]), 2)
        self.assertAlmostEqual(logs["val_loss"][-1], model.evaluate(x[48:], y[48:], verbose=0)[0], places=5)
        self.assertEqual(model.fit(x, y, epochs=5, initial_epoch=3, verbose=0).epoch, [3, 4])

    def test_modes(self):
        model = cairn.Model(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        x, y = lines()
        model.compile("sgd", "mse")
        model.fit(x, y, epochs=1, verbose=0)
        self.assertFalse(model.training)
        self.assertTrue(cairn.equal(model.predict(x), model.predict(x)))

    def test_steps_by_hand(self):
        x, y = lines()
        model = net()
        model.compile(lambda p: cairn.optim.SGD(p, lr=0.05), "mse", metrics=["mae"])
        weights = hand.copies([w.T if w.ndim == 2 else w for w in model.parameters()])
        want = hand.losses(hand.dense(weights, cairn.tanh), weights, (x, y), nn.functional.mse_loss,
                           hand.sgd(weights, 0.05), 22, len(x))
        first = model.train_on_batch(x, y, return_dict=True)
        self.assertAlmostEqual(first["loss"], want[0], places=5)
        alone = model.test_on_batch(x, y)
        self.assertEqual(model.test_on_batch(x, y), alone)  # a batch's figures, not those of all since
        for _ in range(20):
            model.train_on_batch(x, y)
        model.reset_metrics()
        self.assertAlmostEqual(model.test_on_batch(x, y)[0], want[21], places=5)
        self.assertEqual(tuple(model.predict_on_batch(x).shape), (64, 1))

    def test_train_step(self):
        class Odd(cairn.Model):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 1)

            def call(self, x):
                return self.layer(x)

            def train_step(self, data):
                return {"loss": cairn.tensor(2.0), "half": 1.0}
        model = Odd()
        model.compile("sgd")
        self.assertEqual(model.fit(*lines(), verbose=0).history, {"loss": [2.0], "half": [1.0]})

    def test_errors(self):
        x, y = lines()
        with self.assertRaisesRegex(ValueError, "compile"):
            net().fit(x, y)
        model = net()
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(ValueError, "same number of samples"):
            model.fit(x, y[:5], verbose=0)
        with self.assertRaisesRegex(ValueError, "targets"):
            model.fit(x, verbose=0)
        with self.assertRaisesRegex(ValueError, "no batches"):
            model.fit(iter([]), verbose=0)
        with self.assertRaisesRegex(TypeError, "modules"):
            cairn.Model(3)
        with self.assertRaisesRegex(NotImplementedError, "forward or call"):
            cairn.Model()(x)
        model.compile("sgd", "cross_entropy")
        with self.assertRaisesRegex((RuntimeError, ValueError, IndexError), r"\(64, 1\)|\(32, 1\)"):
            model.fit(x, cairn.zeros(64, 5).long(), verbose=0)


class Looking(unittest.TestCase):
    def test_summary_and_names(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            net().summary((3,))
        self.assertIn("Total params: 81", text.getvalue())
        self.assertIn("(None, 16)", text.getvalue())
        self.assertEqual(sorted(net().state_dict()), ["0.bias", "0.weight", "2.bias", "2.weight"])

    def test_bar(self):
        x, y = lines()
        model = net()
        model.compile("sgd", "mse")
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            model.fit(x, y, epochs=2, batch_size=16)
            model.evaluate(x, y)
        rows = text.getvalue().splitlines()
        self.assertEqual((len(rows), rows[0], rows[2]), (5, "Epoch 1/2", "Epoch 2/2"))
        self.assertRegex(rows[1], r"^4/4 .* - loss: \d")
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        with contextlib.redirect_stdout(terminal):
            model.fit(x, y, epochs=1, batch_size=16)
        self.assertIn("\r", terminal.getvalue())

    def test_history(self):
        x, y = lines()
        model = net()
        model.compile("sgd", "mse", metrics=["mae"])
        history = model.fit(x, y, epochs=3, validation_split=0.2, verbose=0)
        self.assertIs(model.history, history)
        picture = history._repr_html_()
        self.assertTrue(picture.startswith("<svg") and picture.count("<polyline") == 4)
        with tempfile.TemporaryDirectory() as folder:
            history.plot(os.path.join(folder, "a.svg"))
            self.assertIn("val_mae", pathlib.Path(folder, "a.svg").read_text(encoding="utf-8"))


class Callbacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.x, self.y = lines()
        self.model = net()
        self.model.compile("sgd", "mse")

    def fit(self, *given, **kwargs):
        return self.model.fit(self.x, self.y, callbacks=list(given), verbose=0, **{"epochs": 3, **kwargs})

    def test_order(self):
        seen = []

        class Note(callbacks.Callback):
            def on_train_begin(self, logs=None): seen.append("begin")
            def on_epoch_begin(self, epoch, logs=None): seen.append("epoch %d" % epoch)
            def on_train_batch_end(self, batch, logs=None): seen.append("batch %d" % batch)
            def on_test_end(self, logs=None): seen.append("looked")
            def on_epoch_end(self, epoch, logs=None): seen.append(sorted(logs))
            def on_train_end(self, logs=None): seen.append(self.params["epochs"])
        self.fit(Note(), epochs=1, validation_data=(self.x, self.y))
        self.assertEqual(seen, ["begin", "epoch 0", "batch 0", "batch 1", "looked", ["loss", "val_loss"], 1])

    def test_early_stopping(self):
        values = iter([3.0, 2.0, 2.5, 2.4, 9.0, 9.0])
        kept = []

        class Fake(callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                logs["val_loss"] = next(values)
                kept.append([p.detach().clone() for p in self.model.parameters()])
        stop = callbacks.EarlyStopping(patience=2, restore_best_weights=True)
        history = self.fit(Fake(), stop, epochs=6)
        self.assertEqual((len(history.epoch), stop.best, stop.best_epoch), (4, 2.0, 1))
        for a, b in zip(kept[1], self.model.parameters()):
            self.assertTrue(cairn.equal(a, b))

    def test_files(self):
        log, best = self.folder / "log.csv", str(self.folder / "w-{epoch}.pt")
        self.fit(callbacks.CSVLogger(log), callbacks.ModelCheckpoint(best, monitor="loss", save_best_only=True))
        with open(log, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([r["epoch"] for r in rows], ["0", "1", "2"])
        self.assertTrue((self.folder / "w-3.pt").is_file())
        other = net()
        other.load_weights(self.folder / "w-3.pt")
        self.assertTrue(cairn.equal(other(self.x), self.model(self.x)))

    def test_tensorboard(self):
        self.fit(callbacks.TensorBoard(self.folder / "logs", histogram_freq=1), validation_split=0.25)
        for part in ("train", "validation"):
            self.assertTrue(list((self.folder / "logs" / part).glob("events*")), part)

    def test_rates(self):
        logs = self.fit(callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)).history
        np.testing.assert_allclose(logs["learning_rate"], [0.005, 0.0025, 0.00125])
        self.model.compile(cairn.optim.SGD(self.model.parameters(), lr=0.0), "mse")
        self.model.optimizer.param_groups[0]["lr"] = 1e-9
        logs = self.fit(callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1), epochs=4).history
        self.assertLess(logs["learning_rate"][-1], 1e-9)

    def test_nan_and_lambda(self):
        seen = []
        bad = cairn.full_like(self.y, float("nan"))
        with contextlib.redirect_stdout(io.StringIO()):
            history = self.model.fit(self.x, bad, epochs=5, verbose=0, callbacks=[
                callbacks.TerminateOnNaN(), callbacks.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(e))])
        self.assertEqual((len(history.epoch), seen), (1, [0]))

    def test_backup(self):
        class Break(callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 2:
                    raise KeyboardInterrupt
        self.model.compile("adam", "mse")
        with self.assertRaises(KeyboardInterrupt):
            self.fit(callbacks.BackupAndRestore(self.folder / "b"), Break(), epochs=4, shuffle=False)
        other = net()
        other.compile("adam", "mse")
        history = other.fit(self.x, self.y, epochs=4, shuffle=False, verbose=0,
                            callbacks=[callbacks.BackupAndRestore(self.folder / "b")])
        self.assertEqual(history.epoch, [2, 3])
        straight = net()
        straight.compile("adam", "mse")
        straight.fit(self.x, self.y, epochs=4, shuffle=False, verbose=0)
        self.assertTrue(cairn.allclose(straight(self.x), other(self.x), atol=1e-6))


if __name__ == "__main__":
    unittest.main()
