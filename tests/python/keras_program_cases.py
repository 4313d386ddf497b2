"""Programs as Keras's tutorials write them, in small, with known numbers: each case trains from the same weights, with
the same noise, in the library that it is given (Keras or cairn.keras) and returns what came out. Dropout is left out:
two libraries draw different numbers. test_keras_programs.py has what Keras 3.15 returned; to record that again, with
Keras and PyTorch installed: `KERAS_BACKEND=torch python tests/python/keras_program_cases.py`."""
import math

import numpy as np

from keras_training_cases import classes, flat, set_weights, wave


def waves(*shape, step):
    return np.array(wave(math.prod(shape), 1, step), dtype="float32").reshape(shape)


def initialised(*models):
    for model in models:
        set_weights(model, lambda values: np.array(values, dtype="float32"))


def convnet(keras):
    layers = keras.layers
    x, y = waves(60, 8, 8, 1, step=0.9), keras.utils.to_categorical(classes(60, 4), 4)
    model = keras.Sequential([
        keras.Input(shape=(8, 8, 1)), layers.Conv2D(6, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)), layers.Flatten(), layers.Dense(4, activation="softmax")])
    initialised(model)
    model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    found = flat(model.fit(x, y, batch_size=16, epochs=3, validation_split=0.2, shuffle=False, verbose=0))
    found["predict"] = model.predict(x[:2], verbose=0).ravel().tolist()
    return found


def variational_autoencoder(keras):
    layers, ops = keras.layers, keras.ops

    class Sampling(layers.Layer):
        def call(self, inputs):
            z_mean, z_log_var, epsilon = inputs
            return z_mean + ops.exp(0.5 * z_log_var) * epsilon
    images, noise = keras.Input(shape=(8, 8, 1)), keras.Input(shape=(2,))
    x = layers.Conv2D(4, 3, activation="relu", strides=2, padding="same")(images)
    x = layers.Dense(8, activation="relu")(layers.Flatten()(x))
    z_mean, z_log_var = layers.Dense(2, name="z_mean")(x), layers.Dense(2, name="z_log_var")(x)
    encoder = keras.Model([images, noise], [z_mean, z_log_var, Sampling()([z_mean, z_log_var, noise])])
    latent = keras.Input(shape=(2,))
    x = layers.Reshape((4, 4, 4))(layers.Dense(4 * 4 * 4, activation="relu")(latent))
    x = layers.Conv2DTranspose(4, 3, activation="relu", strides=2, padding="same")(x)
    decoder = keras.Model(latent, layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x))
    initialised(encoder, decoder)

    class VAE(keras.Model):
        def __init__(self, encoder, decoder, **kwargs):
            super().__init__(**kwargs)
            self.encoder, self.decoder = encoder, decoder
            self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
            self.kl_loss_tracker = keras.metrics.Mean(name="kl_loss")
            self.built = True

        @property
        def metrics(self):
            return [self.total_loss_tracker, self.kl_loss_tracker]

        def train_step(self, data):
            seen, epsilon = data[0]
            z_mean, z_log_var, z = self.encoder([seen, epsilon], training=True)
            reconstruction = self.decoder(z, training=True)
            reconstruction_loss = ops.mean(ops.sum(
                keras.losses.binary_crossentropy(seen, reconstruction), axis=(1, 2)))
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
    seen = (waves(48, 8, 8, 1, step=0.9) > 0).astype("float32")
    found = flat(vae.fit([seen, waves(48, 2, step=0.4)], epochs=4, batch_size=16, shuffle=False, verbose=0))
    found["decoded"] = decoder.predict(waves(1, 2, step=0.3), verbose=0).ravel()[:8].tolist()
    return found


def gan(keras):
    layers, ops = keras.layers, keras.ops
    discriminator = keras.Sequential([keras.Input((2,)), layers.Dense(8), layers.LeakyReLU(negative_slope=0.2),
                                      layers.Dense(1)])
    generator = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
    initialised(discriminator, generator)

    class GAN(keras.Model):
        def __init__(self, discriminator, generator):
            super().__init__()
            self.discriminator, self.generator = discriminator, generator
            self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
            self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
            self.built = True

        def compile(self, d_optimizer, g_optimizer, loss_fn):
            super().compile()
            self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

        @property
        def metrics(self):
            return [self.d_loss_tracker, self.g_loss_tracker]

        def descend(self, net, optimizer, loss):
            net.zero_grad()
            loss.backward()
            optimizer.apply([v.value.grad for v in net.trainable_weights], net.trainable_weights)

        def train_step(self, data):
            real, first, second = data[0]
            n = ops.shape(real)[0]
            labels = ops.concatenate([ops.ones((n, 1)), ops.zeros((n, 1))], axis=0)
            both = ops.concatenate([self.generator(first).detach(), real], axis=0)
            d_loss = self.loss_fn(labels, self.discriminator(both))
            self.descend(self.discriminator, self.d_optimizer, d_loss)
            g_loss = self.loss_fn(ops.zeros((n, 1)), self.discriminator(self.generator(second)))
            self.descend(self.generator, self.g_optimizer, g_loss)
            self.d_loss_tracker.update_state(d_loss)
            self.g_loss_tracker.update_state(g_loss)
            return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}
    model = GAN(discriminator, generator)
    model.compile(keras.optimizers.Adam(3e-3), keras.optimizers.Adam(3e-3),
                  keras.losses.BinaryCrossentropy(from_logits=True))
    inputs = [2 + 0.1 * waves(96, 2, step=0.9), waves(96, 4, step=0.4), waves(96, 4, step=0.6)]
    found = flat(model.fit(inputs, epochs=5, batch_size=32, shuffle=False, verbose=0))
    found["generated"] = generator.predict(waves(2, 4, step=0.3), verbose=0).ravel().tolist()
    return found


def sequence_to_sequence(keras):
    layers = keras.layers
    n, length, letters, units = 48, 4, 5, 8
    words = np.array(classes(n * length, letters)).reshape(n, length)
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
    initialised(model)
    model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="categorical_crossentropy", metrics=["accuracy"])
    found = flat(model.fit([source, shifted], goal, batch_size=16, epochs=4, shuffle=False, verbose=0))
    encoder = keras.Model(encoder_inputs, [state_h, state_c])
    found["states"] = np.stack(encoder.predict(source[:2], verbose=0)).ravel().tolist()
    return found


def transformer_classifier(keras):
    layers, ops = keras.layers, keras.ops

    class TransformerBlock(layers.Layer):
        def __init__(self, embed_dim, num_heads, ff_dim):
            super().__init__()
            self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
            self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
            self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
            self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)

        def call(self, inputs):
            out1 = self.layernorm1(inputs + self.att(inputs, inputs))
            return self.layernorm2(out1 + self.ffn(out1))

    class TokenAndPositionEmbedding(layers.Layer):
        def __init__(self, maxlen, vocab_size, embed_dim):
            super().__init__()
            self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
            self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

        def call(self, x):
            positions = ops.arange(start=0, stop=ops.shape(x)[-1], step=1)
            return self.token_emb(x) + self.pos_emb(positions)
    x = np.array(classes(60 * 6, 13)).reshape(60, 6)
    y = (x == 7).any(1).astype("int64")
    inputs = layers.Input(shape=(6,))
    z = TransformerBlock(8, 2, 8)(TokenAndPositionEmbedding(6, 13, 8)(inputs))
    model = keras.Model(inputs=inputs, outputs=layers.Dense(2, activation="softmax")(
        layers.GlobalAveragePooling1D()(z)))
    initialised(model)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return flat(model.fit(x, y, batch_size=16, epochs=4, validation_data=(x, y), shuffle=False, verbose=0))


def text_with_lstm(keras):
    layers = keras.layers
    texts = [classes(3 + i % 7 + i, 11)[i:] for i in range(45)]
    y = np.array([float(5 in t) for t in texts], dtype="float32")
    x = keras.utils.pad_sequences([[1 + v for v in t] for t in texts], maxlen=8)
    model = keras.Sequential([
        keras.Input((8,)), layers.Embedding(12, 5, mask_zero=True), layers.Bidirectional(layers.LSTM(4)),
        layers.Dense(6, activation="relu"), layers.Dense(1, activation="sigmoid")])
    initialised(model)
    model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.01),
                  metrics=["accuracy", keras.metrics.AUC(name="area")])
    return flat(model.fit(x, y, epochs=3, batch_size=15, shuffle=False, verbose=0))


CASES = [convnet, variational_autoencoder, gan, sequence_to_sequence, transformer_classifier, text_with_lstm]

if __name__ == "__main__":
    import keras as library
    for case in CASES:
        print("    %r: {" % case.__name__)
        for key, values in case(library).items():
            print("        %r: [%s]," % (key, ", ".join("%.8g" % v for v in values)))
        print("    },")
