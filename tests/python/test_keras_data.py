"""cairn.keras on its way to numbers: texts, categories, data sets of files and series, and the known nets. Needs no
numpy: what has to do with arrays is in test_keras_layers.py."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest

import cairn
from cairn import keras
from cairn.keras import layers
from cairn.keras.preprocessing import sequence, text
from cairn.transforms import io as files


def quiet(f, *args, **kwargs):
    """What a function returns, and what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = f(*args, **kwargs)
    return made, said.getvalue().splitlines()


class Texts(unittest.TestCase):
    corpus = ["foo bar Baz!", "bar foo, bar qux"]

    def adapted(self, **options):
        layer = layers.TextVectorization(**options)
        layer.adapt(self.corpus)
        return layer

    def test_numbers(self):
        layer = self.adapted(max_tokens=10, output_sequence_length=5)
        self.assertEqual(layer.get_vocabulary(), ["", "[UNK]", "bar", "foo", "qux", "baz"])
        self.assertEqual(layer(["bar zzz baz"]).tolist(), [[2, 1, 5, 0, 0]])
        self.assertEqual(layer([["foo"], ["bar qux qux bar bar bar"]]).tolist(), [[3, 0, 0, 0, 0], [2, 4, 4, 2, 2]])
        self.assertEqual(self.adapted()(["bar", "foo bar"]).tolist(), [[2, 0], [3, 2]])
        self.assertEqual(self.adapted(max_tokens=4).get_vocabulary(), ["", "[UNK]", "bar", "foo"])
        self.assertEqual(layer.vocabulary_size(), 6)

    def test_bags(self):
        for mode, want in (("multi_hot", [1, 1, 0, 0, 1]), ("count", [1, 2, 0, 0, 1])):
            layer = self.adapted(output_mode=mode)
            self.assertEqual(layer.get_vocabulary(), ["[UNK]", "bar", "foo", "qux", "baz"])
            self.assertEqual(layer(["bar bar zzz baz"]).tolist(), [want])
        row = self.adapted(output_mode="tf_idf")(["bar bar zzz baz"]).tolist()[0]
        for got, want in zip(row, [0.601986, 1.021651, 0.0, 0.0, 0.693147]):
            self.assertAlmostEqual(got, want, places=5)

    def test_how_tokens_come_about(self):
        self.assertEqual(self.adapted(ngrams=2).tokens(["a b c"]), [["a", "b", "c", "a b", "b c"]])
        self.assertEqual(self.adapted(ngrams=(2,)).tokens(["a b c"]), [["a b", "b c"]])
        self.assertEqual(self.adapted(split="character").tokens(["A-b"]), [["a", "b"]])
        self.assertEqual(self.adapted(standardize="lower").tokens(["A, b"]), [["a,", "b"]])
        own = layers.TextVectorization(standardize=lambda t: [s.replace("<br />", " ").lower() for s in t],
                                       split=lambda t: [str(s).split("|") for s in t])
        self.assertEqual(own.tokens(["A|b<br />C"]), [["a", "b c"]])
        known = layers.TextVectorization(vocabulary=["earth", "wind", "and", "fire"])
        self.assertEqual(known(["earth wind water"]).tolist(), [[2, 3, 1]])
        again = layers.TextVectorization.from_config(self.adapted().get_config())
        self.assertEqual(again.get_vocabulary(), ["", "[UNK]", "bar", "foo", "qux", "baz"])

    def test_lookups(self):
        layer = layers.StringLookup(vocabulary=["a", "b", "c"])
        self.assertEqual(layer(["a", "c", "d"]).tolist(), [1, 3, 0])
        back = layers.StringLookup(vocabulary=layer.get_vocabulary(), invert=True)
        self.assertEqual(back([1, 3, 0]).tolist(), ["a", "c", "[UNK]"])
        masked = layers.StringLookup(vocabulary=["a", "b"], mask_token="", num_oov_indices=2)
        self.assertEqual(masked.get_vocabulary(), ["", "[UNK]", "[UNK]", "a", "b"])
        self.assertEqual(masked(["", "a", "b"]).tolist(), [0, 3, 4])
        hot = layers.StringLookup(output_mode="one_hot")
        hot.adapt(["x", "y", "x"])
        self.assertEqual(hot([["x"], ["q"]]).tolist(), [[0, 1, 0], [1, 0, 0]])
        numbers = layers.IntegerLookup()
        numbers.adapt([[12, 1138, 42], [42, 1000, 36]])
        self.assertEqual(numbers.get_vocabulary(), [-1, 42, 1138, 1000, 36, 12])
        many = layers.IntegerLookup(vocabulary=[12, 36, 1138, 42], num_oov_indices=2, output_mode="multi_hot")
        self.assertEqual(many([[12, 1138, 42, 42], [42, 7, 36, 7]]).tolist(), [[0, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 1]])
        with self.assertRaisesRegex(ValueError, "more than once"):
            layers.StringLookup(vocabulary=["a", "a"])
        with self.assertRaisesRegex(ValueError, "not in the vocabulary"):
            layers.StringLookup(vocabulary=["a"], num_oov_indices=0)(["b"])

    def test_hashes(self):
        rows = [["A"], ["B"], ["C"], ["D"], ["E"]]
        self.assertEqual(layers.Hashing(3)(rows).tolist(), [[1], [0], [1], [1], [2]])
        self.assertEqual(layers.Hashing(3, salt=[133, 137])(rows).tolist(), [[1], [2], [1], [0], [2]])
        self.assertEqual(layers.Hashing(3, salt=133)(rows).tolist(), [[0], [0], [2], [1], [0]])
        self.assertEqual(layers.Hashing(3, mask_value="")([["A"], ["B"], [""], ["C"], ["D"]]).tolist(),
                         [[1], [1], [0], [2], [2]])
        self.assertEqual(layers.Hashing(3)([0, 1, 2, 3, 4]).tolist(), [1, 0, 1, 0, 2])
        words = ["omar", "stringer", "marlo", "wire", "skywalker"]
        self.assertEqual(layers.Hashing(2)(words).tolist(), [0, 0, 1, 0, 0])
        cross = layers.HashedCrossing(5)((["A", "B", "A", "B", "A"], [101, 101, 101, 102, 102]))
        self.assertEqual(cross.tolist(), [1, 4, 1, 1, 3])

    def test_discretization(self):
        layer = layers.Discretization(num_bins=4)
        layer.adapt(cairn.arange(0.0, 100.0))
        self.assertEqual([round(b) for b in layer.bin_boundaries], [24, 49, 74])
        self.assertEqual(layer(cairn.tensor([[1.0], [50.0], [99.0]])).tolist(), [[0], [2], [3]])
        self.assertEqual(layers.Discretization([0.0, 1.0])(cairn.tensor([-1.0, 0.0, 0.5, 2.0])).tolist(), [0, 1, 1, 2])

    def test_normalization_of_batches(self):
        layer = layers.Normalization()
        data = cairn.arange(24.0).reshape(8, 3)
        layer.adapt([data[:3], data[3:7], data[7:]])
        self.assertTrue(cairn.allclose(layer.adapt_mean.detach(), data.mean(0)))
        self.assertTrue(cairn.allclose(layer.adapt_variance.detach(), data.var(0, correction=0)))
        self.assertEqual([w.name for w in layer.weights], ["mean", "variance", "count"])

    def test_in_models(self):
        keras.utils.set_random_seed(0)
        texts, y = ["good film", "bad film", "great good movie", "awful bad movie"] * 8, [1, 0, 1, 0] * 8
        words = layers.TextVectorization(max_tokens=50, output_sequence_length=6)
        words.adapt(texts)
        model = keras.Sequential([keras.Input(shape=(1,), dtype="string"), words,
                                  layers.Embedding(50, 8, mask_zero=True), layers.GlobalAveragePooling1D(),
                                  layers.Dense(1, activation="sigmoid")])
        self.assertEqual(model.output_shape, (None, 1))
        model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy")
        model.fit(texts, cairn.tensor(y), epochs=8, verbose=0)
        good, bad = (float(v) for v in model(["good", "bad"]).reshape(-1).tolist())
        self.assertGreater(good, bad)
        place = keras.Input(shape=(1,), dtype="string", name="text")
        self.assertEqual((words(place).shape, words(place).dtype), ((None, 6), "int64"))
        open_length = layers.TextVectorization(vocabulary=["a"])(place)
        self.assertEqual(open_length.shape, (None, None))

    def test_older_tokenizer(self):
        words = text.Tokenizer(num_words=5, oov_token="<OOV>")
        words.fit_on_texts(["The cat sat on the mat.", "The dog ate my homework!"])
        self.assertEqual(words.word_index["<OOV>"], 1)
        self.assertEqual(words.texts_to_sequences(["the cat barks"]), [[2, 3, 1]])
        self.assertEqual(words.sequences_to_texts([[2, 3]]), ["the cat"])
        again = text.tokenizer_from_json(words.to_json())
        self.assertEqual(again.texts_to_sequences(["the cat barks"]), [[2, 3, 1]])
        self.assertEqual(text.text_to_word_sequence("Hi, you!"), ["hi", "you"])
        pairs, labels = sequence.skipgrams([1, 2, 3], 10, window_size=1, seed=0)
        self.assertEqual((len(pairs), sum(labels)), (8, 4))


class Files(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        for i, name in enumerate(("cats", "dogs")):
            (self.folder / "images" / name).mkdir(parents=True)
            (self.folder / "texts" / name).mkdir(parents=True)
            for k in range(5):
                image = cairn.full((3, 6, 8), 100 * i + 10 * k, dtype=cairn.uint8)
                files.write_png(image, os.fspath(self.folder / "images" / name / ("%d.png" % k)))
                (self.folder / "texts" / name / ("%d.txt" % k)).write_text("%s %d" % (name, k), encoding="utf-8")

    def test_images(self):
        data, said = quiet(keras.utils.image_dataset_from_directory, self.folder / "images", image_size=(4, 4),
                           batch_size=4, shuffle=False)
        self.assertEqual(said, ["Found 10 files belonging to 2 classes."])
        self.assertEqual((data.class_names, len(data), len(data.file_paths)), (["cats", "dogs"], 3, 10))
        x, y = next(iter(data))
        self.assertEqual((tuple(x.shape), x.dtype, y.tolist()), ((4, 4, 4, 3), cairn.float32, [0, 0, 0, 0]))
        self.assertEqual([round(float(v)) for v in x.mean((1, 2, 3)).tolist()], [0, 10, 20, 30])
        for mode, want in (("categorical", [[1, 0]]), ("binary", [[0]])):
            data, _ = quiet(keras.utils.image_dataset_from_directory, self.folder / "images", image_size=(4, 4),
                            shuffle=False, label_mode=mode, color_mode="grayscale")
            x, y = next(iter(data))
            self.assertEqual((tuple(x.shape), y[:1].tolist()), ((10, 4, 4, 1), want))
        data, said = quiet(keras.utils.image_dataset_from_directory, self.folder / "images", labels=None)
        self.assertEqual(said, ["Found 10 files."])
        self.assertEqual(tuple(next(iter(data)).shape), (10, 256, 256, 3))

    def test_parts(self):
        (train, test), said = quiet(keras.utils.image_dataset_from_directory, self.folder / "images", image_size=(2, 2),
                                    batch_size=None, validation_split=0.2, subset="both", seed=7)
        self.assertEqual(said[1:], ["Using 8 files for training.", "Using 2 files for validation."])
        seen = {int(float(x.mean())) for part in (train, test) for x, _ in part}
        self.assertEqual(len(seen), 10)
        one, _ = quiet(keras.utils.image_dataset_from_directory, self.folder / "images", image_size=(2, 2),
                       validation_split=0.2, subset="validation", seed=7)
        self.assertEqual(sorted(one.file_paths), sorted(test.file_paths))
        with self.assertRaisesRegex(ValueError, "seed"):
            keras.utils.image_dataset_from_directory(self.folder / "images", validation_split=0.2, subset="training")

    def test_texts(self):
        data, _ = quiet(keras.utils.text_dataset_from_directory, self.folder / "texts", batch_size=5, shuffle=False)
        x, y = next(iter(data))
        self.assertEqual(x.tolist()[:2], ["cats 0", "cats 1"])
        self.assertEqual(y.tolist(), [0] * 5)
        words = layers.TextVectorization(output_mode="multi_hot")
        words.adapt(data.map(lambda x, y: x))
        ready = data.map(lambda x, y: (words(x), y)).cache().prefetch(2)
        x, y = next(iter(ready))
        self.assertEqual(tuple(x.shape), (5, 8))
        model = keras.Sequential([layers.Dense(1, activation="sigmoid")])
        model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
        model.fit(ready, validation_data=ready, epochs=1, verbose=0)

    def test_streams(self):
        data = keras.utils.timeseries_dataset_from_array(cairn.arange(10.0), cairn.arange(10.0) + 3, 3, batch_size=4)
        self.assertEqual([(x.tolist()[0], y.tolist()) for x, y in data],
                         [([0, 1, 2], [3, 4, 5, 6]), ([4, 5, 6], [7, 8, 9, 10])])
        whole = keras.utils.timeseries_dataset_from_array(cairn.arange(10), None, 3, 2, 2, batch_size=None)
        self.assertEqual([x.tolist() for x in whole], [[0, 2, 4], [2, 4, 6], [4, 6, 8]])
        self.assertEqual((len(data), len(data.take(1)), len(data.skip(1)), len(data.repeat(2))), (2, 1, 1, 4))
        rows = [int(y) for _, y in data.unbatch().filter(lambda x, y: int(y) % 2 == 0)]
        self.assertEqual(rows, [4, 6, 8, 10])
        self.assertEqual(sorted(int(y) for _, y in data.unbatch().shuffle(4, seed=1)), list(range(3, 11)))
        again = data.unbatch().batch(3, drop_remainder=True).map(lambda x, y: x.sum())
        self.assertEqual([float(v) for v in again], [18.0, 45.0])
        self.assertEqual([i for i, _ in data.enumerate()], [0, 1])


class Nets(unittest.TestCase):
    def test_sizes(self):
        known = {"VGG16": (20, 14714688), "ResNet50": (176, 23587712), "MobileNetV2": (155, 2257984),
                 "EfficientNetB0": (238, 4049571), "Xception": (133, 20861480)}
        for name, (many, size) in known.items():
            with self.subTest(net=name):
                make = getattr(keras.applications, name)
                net = make(weights=None, include_top=False, pooling="avg", input_shape=(72, 72, 3))
                self.assertEqual((len(net.layers), net.count_params()), (many, size))
        self.assertEqual(keras.applications.MobileNetV2(weights=None, classes=3, input_shape=(32, 32, 3)).output_shape,
                         (None, 3))

    def test_names(self):
        net = keras.applications.ResNet50(weights=None, include_top=False, input_shape=(64, 64, 3))
        self.assertEqual(net.name, "resnet50")
        names = [layer.name for layer in net.layers]
        self.assertEqual(names[1:5], ["conv1_pad", "conv1_conv", "conv1_bn", "conv1_relu"])
        self.assertEqual(names[-1], "conv5_block3_out")
        self.assertEqual(net.get_layer("conv4_block6_out").output.shape, (None, 4, 4, 1024))

    def test_transfer(self):
        base = keras.applications.MobileNetV2(weights=None, include_top=False, pooling="avg", input_shape=(32, 32, 3))
        base.trainable = False
        place = keras.Input((32, 32, 3))
        x = keras.applications.mobilenet_v2.preprocess_input(place)
        model = keras.Model(place, layers.Dense(2)(base(x, training=False)))
        self.assertEqual(len(model.trainable_weights), 2)
        before = [w.clone() for w in base.weights]
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(cairn.rand(8, 32, 32, 3) * 255, cairn.randint(0, 2, (8,)), epochs=1, verbose=0)
        self.assertTrue(all(cairn.equal(a, b.detach()) for a, b in zip(before, base.weights)))

    def test_pixels(self):
        x = cairn.tensor([[[[0.0, 127.5, 255.0]]]])
        self.assertEqual(keras.applications.mobilenet_v2.preprocess_input(x).tolist(), [[[[-1.0, 0.0, 1.0]]]])
        blue = keras.applications.vgg16.preprocess_input(x).reshape(-1).tolist()
        for got, want in zip(blue, (255 - 103.939, 127.5 - 116.779, -123.68)):
            self.assertAlmostEqual(got, want, places=4)

    def test_nothing_is_fetched(self):
        with self.assertRaisesRegex(ValueError, "fetched"):
            keras.applications.VGG16()
        with self.assertRaisesRegex(ValueError, "no file"):
            keras.applications.VGG16(weights="nowhere.h5")


if __name__ == "__main__":
    unittest.main()
