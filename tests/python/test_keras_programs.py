"""Programs as Keras's tutorials write them, with the import changed and in small: each must run and learn."""
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import cairn
from cairn import keras
from cairn.keras import layers, ops

import hand


def digits():
    (x, y), _ = keras.datasets.digits.load_data()
    return x[:600, ..., None].astype("float32"), y[:600]


class Programs(unittest.TestCase):
    def setUp(self):
        keras.utils.set_random_seed(3)

    def test_convnet_with_classes_as_places(self):
        x, y = digits()
        y = keras.utils.to_categorical(y, 10)
        model = keras.Sequential([
            keras.Input(shape=(8, 8, 1)),
            layers.Conv2D(16, kernel_size=(3, 3), activation="relu"),
            layers.MaxPooling2D(pool_size=(2, 2)),
            layers.Flatten(), layers.Dropout(0.2), layers.Dense(10, activation="softmax")])
        model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
        logs = model.fit(x, y, batch_size=32, epochs=6, validation_split=0.1, verbose=0).history
        self.assertGreater(logs["val_accuracy"][-1], 0.5)

    def test_variational_autoencoder(self):
        class Sampling(layers.Layer):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.seed_generator = keras.random.SeedGenerator(1337)

            def call(self, inputs):
                z_mean, z_log_var = inputs
                epsilon = keras.random.normal(shape=(ops.shape(z_mean)[0], ops.shape(z_mean)[1]),
                                              seed=self.seed_generator)
                return z_mean + ops.exp(0.5 * z_log_var) * epsilon
        encoder_inputs = keras.Input(shape=(8, 8, 1))
        x = layers.Conv2D(8, 3, activation="relu", strides=2, padding="same")(encoder_inputs)
        x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
        z_mean, z_log_var = layers.Dense(2, name="z_mean")(x), layers.Dense(2, name="z_log_var")(x)
        encoder = keras.Model(encoder_inputs, [z_mean, z_log_var, Sampling()([z_mean, z_log_var])], name="encoder")
        latent = keras.Input(shape=(2,))
        x = layers.Reshape((4, 4, 8))(layers.Dense(4 * 4 * 8, activation="relu")(latent))
        x = layers.Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(x)
        decoder = keras.Model(latent, layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x))

        class VAE(keras.Model):
            def __init__(self, encoder, decoder, **kwargs):
                super().__init__(**kwargs)
                self.encoder, self.decoder = encoder, decoder
                self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
                self.kl_loss_tracker = keras.metrics.Mean(name="kl_loss")

            @property
            def metrics(self):
                return [self.total_loss_tracker, self.kl_loss_tracker]

            def train_step(self, data):
                if isinstance(data, (list, tuple)):
                    data = data[0]
                z_mean, z_log_var, z = self.encoder(data, training=True)
                reconstruction = self.decoder(z, training=True)
                reconstruction_loss = ops.mean(ops.sum(
                    keras.losses.binary_crossentropy(data, reconstruction), axis=(1, 2)))
                kl_loss = -0.5 * (1 + z_log_var - ops.square(z_mean) - ops.exp(z_log_var))
                kl_loss = ops.mean(ops.sum(kl_loss, axis=1))
                total_loss = reconstruction_loss + kl_loss
                self.zero_grad()
                total_loss.backward()
                self.optimizer.apply([v.value.grad for v in self.trainable_weights], self.trainable_weights)
                self.total_loss_tracker.update_state(total_loss)
                self.kl_loss_tracker.update_state(kl_loss)
                return {m.name: m.result() for m in self.metrics}
        vae = VAE(encoder, decoder)
        vae.compile(optimizer=keras.optimizers.Adam(learning_rate=0.01))
        logs = vae.fit(digits()[0], epochs=4, batch_size=64, verbose=0).history
        self.assertLess(logs["total_loss"][-1], 0.9 * logs["total_loss"][0])
        self.assertEqual(vae.decoder.predict(np.zeros((3, 2), "float32")).shape, (3, 8, 8, 1))

    def test_gan(self):
        discriminator = keras.Sequential([keras.Input((2,)), layers.Dense(16), layers.LeakyReLU(negative_slope=0.2),
                                          layers.Dense(1)])
        generator = keras.Sequential([keras.Input((4,)), layers.Dense(16, activation="relu"), layers.Dense(2)])

        class GAN(keras.Model):
            def __init__(self, discriminator, generator, latent_dim):
                super().__init__()
                self.discriminator, self.generator, self.latent_dim = discriminator, generator, latent_dim
                self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
                self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
                self.built = True

            def compile(self, d_optimizer, g_optimizer, loss_fn):
                super().compile()
                self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

            @property
            def metrics(self):
                return [self.d_loss_tracker, self.g_loss_tracker]

            def train_step(self, data):
                real = data[0] if isinstance(data, tuple) else data
                n = ops.shape(real)[0]
                fake = self.generator(keras.random.normal(shape=(n, self.latent_dim)))
                labels = ops.concatenate([ops.ones((n, 1)), ops.zeros((n, 1))], axis=0)
                d_loss = self.loss_fn(labels, self.discriminator(ops.concatenate([fake.detach(), real], axis=0)))
                self.discriminator.zero_grad()
                d_loss.backward()
                self.d_optimizer.apply([v.value.grad for v in self.discriminator.trainable_weights],
                                       self.discriminator.trainable_weights)
                fake = self.generator(keras.random.normal(shape=(n, self.latent_dim)))
                g_loss = self.loss_fn(ops.zeros((n, 1)), self.discriminator(fake))
                self.generator.zero_grad()
                g_loss.backward()
                self.g_optimizer.apply([v.value.grad for v in self.generator.trainable_weights],
                                       self.generator.trainable_weights)
                self.d_loss_tracker.update_state(d_loss)
                self.g_loss_tracker.update_state(g_loss)
                return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}
        gan = GAN(discriminator, generator, 4)
        gan.compile(keras.optimizers.Adam(3e-3), keras.optimizers.Adam(3e-3),
                    keras.losses.BinaryCrossentropy(from_logits=True))
        points = np.random.default_rng(0).normal(2.0, 0.1, (256, 2)).astype("float32")
        logs = gan.fit(points, epochs=20, batch_size=32, verbose=0).history
        self.assertEqual(set(logs), {"d_loss", "g_loss"})
        self.assertGreater(generator.predict(np.random.normal(size=(64, 4)).astype("float32")).mean(), 0.7)

    def test_sequence_to_sequence(self):
        n, length, letters, units = 64, 4, 5, 24
        rng = np.random.default_rng(0)
        words = rng.integers(1, letters, (n, length))
        hot = np.eye(letters, dtype="float32")
        source, goal = hot[words], hot[words[:, ::-1]]
        shifted = np.concatenate([np.zeros_like(goal[:, :1]), goal[:, :-1]], axis=1)
        encoder_inputs = keras.Input(shape=(None, letters))
        _, state_h, state_c = layers.LSTM(units, return_state=True)(encoder_inputs)
        decoder_inputs = keras.Input(shape=(None, letters))
        decoder_lstm = layers.LSTM(units, return_sequences=True, return_state=True)
        outputs, _, _ = decoder_lstm(decoder_inputs, initial_state=[state_h, state_c])
        outputs = layers.Dense(letters, activation="softmax")(outputs)
        model = keras.Model([encoder_inputs, decoder_inputs], outputs)
        model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="categorical_crossentropy", metrics=["accuracy"])
        logs = model.fit([source, shifted], goal, batch_size=16, epochs=15, verbose=0).history
        self.assertGreater(logs["accuracy"][-1], logs["accuracy"][0] + 0.15)
        encoder = keras.Model(encoder_inputs, [state_h, state_c])
        self.assertEqual([s.shape for s in encoder.predict(source[:2])], [(2, units)] * 2)

    def test_transformer_classifier(self):
        class TransformerBlock(layers.Layer):
            def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
                super().__init__()
                self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
                self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
                self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
                self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
                self.dropout1, self.dropout2 = layers.Dropout(rate), layers.Dropout(rate)

            def call(self, inputs):
                out1 = self.layernorm1(inputs + self.dropout1(self.att(inputs, inputs)))
                return self.layernorm2(out1 + self.dropout2(self.ffn(out1)))

        class TokenAndPositionEmbedding(layers.Layer):
            def __init__(self, maxlen, vocab_size, embed_dim):
                super().__init__()
                self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
                self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

            def call(self, x):
                positions = ops.arange(start=0, stop=ops.shape(x)[-1], step=1)
                return self.token_emb(x) + self.pos_emb(positions)
        rng = np.random.default_rng(1)
        x = rng.integers(1, 20, (200, 10))
        y = (x == 7).any(1).astype("int64")
        inputs = layers.Input(shape=(10,))
        z = TransformerBlock(16, 2, 16)(TokenAndPositionEmbedding(10, 20, 16)(inputs))
        z = layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(z))
        model = keras.Model(inputs=inputs, outputs=layers.Dense(2, activation="softmax")(z))
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy",
                      metrics=["accuracy"])
        logs = model.fit(x, y, batch_size=32, epochs=12, validation_data=(x, y), verbose=0).history
        self.assertGreater(logs["val_accuracy"][-1], 0.9)

    def test_text_with_lstm(self):
        rng = np.random.default_rng(2)
        texts = [rng.integers(1, 30, rng.integers(3, 12)).tolist() for _ in range(150)]
        y = np.array([float(5 in t or 6 in t) for t in texts])
        x = keras.utils.pad_sequences(texts, maxlen=12)
        model = keras.Sequential([
            layers.Embedding(30, 16, mask_zero=True), layers.Bidirectional(layers.LSTM(16)),
            layers.Dense(16, activation="relu"), layers.Dense(1, activation="sigmoid")])
        model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.01),
                      metrics=["accuracy", keras.metrics.AUC(name="area")])
        logs = model.fit(x, y, epochs=12, batch_size=16, verbose=0).history
        self.assertGreater(logs["area"][-1], 0.9)

    def test_residual_network_and_transfer(self):
        inputs = keras.Input(shape=(8, 8, 1), name="img")
        x = layers.Conv2D(8, 3, padding="same", use_bias=False)(inputs)
        x = layers.Activation("relu")(layers.BatchNormalization()(x))
        y = layers.SeparableConv2D(8, 3, activation="relu", padding="same")(x)
        x = layers.GlobalAveragePooling2D()(layers.add([x, y]))
        base = keras.Model(inputs, x, name="base")
        data, goal = digits()
        first = keras.Sequential([base, layers.Dense(10)])
        first.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        first.fit(data, goal, epochs=2, batch_size=32, verbose=0)
        base.trainable = False
        again = keras.Input(shape=(8, 8, 1))
        outputs = layers.Dense(1)(layers.Dropout(0.1)(base(again, training=False)))
        model = keras.Model(again, outputs)
        model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True),
                      metrics=[keras.metrics.BinaryAccuracy()])
        kept = base.get_weights()
        model.fit(data, goal % 2, epochs=1, verbose=0)
        for a, b in zip(kept, base.get_weights()):
            np.testing.assert_array_equal(a, b)
        self.assertEqual(len(model.trainable_weights), 2)

    def test_gradient_tape(self):
        x, y = digits()
        model = keras.Sequential([layers.Flatten(), layers.Dense(10)])
        optimizer, losses = keras.optimizers.SGD(learning_rate=0.5), []
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model(x[:1])
        weights = hand.copies(model.get_weights())
        want = hand.losses(lambda t: hand.dense(weights)(t.reshape(len(t), -1)), weights, (x, y),
                           cairn.nn.functional.cross_entropy, hand.sgd(weights, 0.5), 8, len(x))
        for _ in range(8):
            with keras.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            grads = tape.gradient(loss, model.trainable_weights)
            optimizer.apply_gradients(zip(grads, model.trainable_weights))
            losses.append(float(loss))
        np.testing.assert_allclose(losses, want, rtol=1e-5)

    def test_time_series(self):
        wave = np.sin(np.arange(300) * 0.2).astype("float32")[:, None]
        data = keras.utils.timeseries_dataset_from_array(wave[:-5], wave[5:, 0], sequence_length=6, batch_size=32)
        model = keras.Sequential([keras.Input((6, 1)), layers.GRU(8), layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
        stop = keras.callbacks.EarlyStopping(monitor="loss", patience=3)
        logs = model.fit(data, epochs=5, validation_data=data, callbacks=[stop], verbose=0).history
        seen = np.stack([wave[i:i + 6] for i in range(290)])
        off = model.predict(seen, verbose=0)[:, 0] - wave[5:295, 0]
        np.testing.assert_allclose((logs["val_loss"][-1], logs["val_mae"][-1]),
                                   (np.square(off).mean(), abs(off).mean()), rtol=1e-4)
        self.assertLess(logs["val_loss"][-1], 0.5 * wave.var())

    def test_mixture_of_both_styles(self):
        class Net(cairn.Model):
            def __init__(self):
                super().__init__()
                self.body = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(),
                                              layers.Dense(32, activation="relu"), layers.Dropout(0.2)])
                self.head = cairn.nn.Linear(32, 10)

            def forward(self, x):
                return self.head(self.body(x))
        x, y = digits()
        model = Net()
        model.compile("adam", "cross_entropy", metrics=["accuracy"])
        model.fit(x, y, epochs=12, verbose=0)
        loss, accuracy = model.evaluate(x, y, verbose=0)
        out = model.eval()(cairn.as_tensor(x)).detach()
        np.testing.assert_allclose(loss, cairn.nn.functional.cross_entropy(out, cairn.as_tensor(y)).item(), rtol=1e-5)
        self.assertAlmostEqual(accuracy, float((out.argmax(1) == cairn.as_tensor(y)).float().mean()), places=6)
        self.assertGreater(accuracy, 0.8)


if __name__ == "__main__":
    unittest.main()
