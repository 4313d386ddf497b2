"""A convolutional network on hand-written digits (they are part of the library), as Keras's users write it.

    python3 keras_digits.py
"""
from cairn import keras
from cairn.keras import layers


def build() -> keras.Model:
    model = keras.Sequential([
        keras.Input(shape=(8, 8, 1)),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(10, activation="softmax"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=3e-3), loss="sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    return model


def main() -> None:
    keras.utils.set_random_seed(0)
    (x_train, y_train), (x_test, y_test) = keras.datasets.digits.load_data()
    x_train, x_test = x_train[..., None], x_test[..., None]
    model = build()
    model.summary()
    stop = keras.callbacks.EarlyStopping(monitor="val_accuracy", patience=4, restore_best_weights=True)
    history = model.fit(x_train, y_train, batch_size=64, epochs=12, validation_split=0.1, callbacks=[stop], verbose=0)
    for epoch, loss, right in zip(history.epoch, history.history["loss"], history.history["val_accuracy"]):
        print("epoch %2d  loss %.4f  right of the part that is only looked at %.4f" % (epoch + 1, loss, right))
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print("test: loss %.4f, accuracy %.4f" % (loss, accuracy))
    first = model.predict(x_test[:5], verbose=0).argmax(axis=1)
    print("the first five:", first.tolist(), "are", y_test[:5].tolist())


if __name__ == "__main__":
    main()
