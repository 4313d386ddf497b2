"""Model: a module that trains itself, the way Keras's users know it.

    model = cairn.Model(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    model.compile(optimizer="adam", loss="cross_entropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=5, batch_size=32, validation_split=0.1)
    model.evaluate(x_test, y_test)

Training is that of a loop by hand: the optimisers are cairn.optim's, gradients come from backward(). What is here says
which batches come when, which figures are kept, and who is told. cairn.keras.Model trains with the same class.
"""
from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from . import nn
from ._arguments import note_once, only_speed
from ._modes import no_grad

if TYPE_CHECKING:
    from .callbacks import CallbackList, History
    from ._training.compiled import Compiled

__all__ = ["Model", "Trainer"]


class _Phase(threading.local):
    """Whether the call under way trains: what layers of cairn.keras ask. None: nobody has said."""

    training: bool | None = None


phase = _Phase()


class in_phase:
    """with in_phase(True): calls inside train."""

    def __init__(self, training: bool | None) -> None:
        self.training = training
        self.before: bool | None = None

    def __enter__(self) -> None:
        self.before, phase.training = phase.training, self.training

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        phase.training = self.before


class Trainer:  # unused: x, training (Keras's signature, for overriding)
    """compile, fit, evaluate and predict, for a class that is a Module as well."""

    stop_training = False
    _compiled: Compiled | None = None
    _history: History | None = None
    _target_first = False  # whether plain functions as losses and metrics take (target, output)
    _numpy_results = False  # whether predict returns numpy's arrays

    # ---- how to train ----
    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, loss_weights: Any = None,
                weighted_metrics: Any = None, run_eagerly: bool | None = None, steps_per_execution: int | None = None,
                jit_compile: Any = None, auto_scale_loss: bool | None = None) -> Any:
        """Says how to train.

        optimizer: a name ("adam", "sgd", "rmsprop", ...), with Keras's default rates; an Optimizer; or what takes
        parameters and returns an optimiser (`lambda p: cairn.optim.SGD(p, lr=0.1)`).
        loss: a name ("cross_entropy" takes scores and classes as torch does, "mse", ...; "categorical_crossentropy" and
        the others of Keras take probabilities), a module or function of (output, target), a loss of cairn.keras.
        metrics: a list of names, of objects of cairn.metrics or cairn.keras.metrics, of functions.
        With several outputs loss and metrics are lists or dictionaries of them. auto_scale_loss=False: no scaling of
        the loss where layers compute in float16. jit_compile=True: forward, loss and backward pass are captured and run
        as graphs (cairn.compile), with the same results. Returns the model itself."""
        only_speed("compile", steps_per_execution=None if steps_per_execution == 1 else steps_per_execution,
                   run_eagerly=None if run_eagerly else run_eagerly)
        given = metrics.values() if isinstance(metrics, dict) else metrics or ()
        numbers = [isinstance(v, (int, float)) for v in given]
        if numbers and all(numbers):  # Keras 3 has loss_weights in the third place, Keras 2 metrics
            metrics, loss_weights = loss_weights, metrics
        own = self._compiled_kind()(self, optimizer, loss, metrics, loss_weights, weighted_metrics,
                                    auto_scale_loss is not False)
        own.jit = self._jit(own, jit_compile, run_eagerly)
        self.__dict__["_compiled"] = own
        self.__dict__["stop_training"] = False
        return self

    def _jit(self, own: Compiled, jit_compile: Any, run_eagerly: bool | None) -> Any:
        """What runs the steps as compiled functions; None: they run as they are."""
        from ._training.jit import Jit
        if jit_compile not in (None, False, True, "auto"):
            raise ValueError('compile: jit_compile is True, False or "auto", not %r' % (jit_compile,))
        if jit_compile is not True:
            return None
        if run_eagerly:
            note_once("compile: run_eagerly=True and jit_compile=True exclude each other; steps run as they are")
            return None
        for name in ("train_step", "test_step", "predict_step"):
            if getattr(type(self), name) is not getattr(Trainer, name):
                note_once("compile: %s.%s is the program's own, and runs as it is with jit_compile=True"
                          % (type(self).__name__, name))
        return Jit(self, own)

    def _compiled_kind(self) -> type[Compiled]:
        """What keeps what compile() is told; cairn.keras has another, with Keras's names."""
        from ._training.compiled import Compiled
        return Compiled

    def _need_compiled(self, what: str) -> Compiled:
        if self._compiled is None:
            raise ValueError("%s.%s() needs a compiled model: call compile(optimizer=..., loss=...) first"
                             % (type(self).__name__, what))
        return self._compiled

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    @property
    def optimizer(self) -> Any:
        """The optimiser that compile() was given; None before."""
        return None if self._compiled is None else self._compiled.optimizer

    @optimizer.setter
    def optimizer(self, value: Any) -> None:
        self._need_compiled("optimizer").set_optimizer(value)

    @property
    def loss(self) -> Any:
        return None if self._compiled is None else self._compiled.loss_given

    @property
    def history(self) -> Any:
        """What the last fit() returned."""
        return self._history

    @history.setter
    def history(self, value: Any) -> None:
        self.__dict__["_history"] = value

    @property
    def metrics(self) -> list[Any]:
        """The mean loss first, then those of compile(), then those that are attributes."""
        from ._training.metrics import Metric
        own = [v for v in vars(self).values() if isinstance(v, Metric)]
        return (self._compiled.metrics(as_one=True) if self._compiled is not None else []) + own

    @property
    def metrics_names(self) -> list[str]:
        """Of the figures that evaluate() returns, in its order."""
        names: list[str] = []
        for metric in self.metrics:
            if metric.name == "compile_metrics":
                continue
            names.append(metric.name)
            if self._compiled is not None and metric is self._compiled.loss_mean:
                names += [m.name for m in self._compiled.metrics()[1:]]
        return list(dict.fromkeys(names))

    def reset_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    # ---- one batch ----
    def _predictions(self, x: Any, training: bool) -> Any:
        """What the net makes of a batch: several inputs are arguments, a dictionary's are arguments by name."""
        net: Any = self
        with in_phase(training):
            if isinstance(x, (list, tuple)):
                return net(*x)
            return net(**x) if isinstance(x, dict) else net(x)

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
                     training: bool = True) -> Any:
        """The loss of a batch, with what layers add to it; a scalar tensor. May be overridden."""
        total = self._need_compiled("compute_loss").loss(y, y_pred, sample_weight)
        for extra in getattr(self, "losses", ()):
            total = extra if total is None else total + extra
        if total is None:
            raise ValueError("there is no loss to train with: give compile() a loss, or call add_loss() in a layer")
        return total

    def _loss_of(self, x: Any, y: Any, y_pred: Any, weight: Any, training: bool) -> Any:
        """compute_loss(), which in a subclass may not take all there is."""
        given = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": weight, "training": training}
        if type(self).compute_loss is not Trainer.compute_loss:
            from inspect import signature
            takes = signature(self.compute_loss).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
                given = {k: v for k, v in given.items() if k in takes}
        return self.compute_loss(**given)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Counts a batch and returns all figures so far. May be overridden."""
        self._need_compiled("compute_metrics").update(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def compiled_loss(self, y: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None) -> Any:
        """The loss of compile(), and what is given beside it: for a train_step() in the manner of Keras 2."""
        from ._training.batches import count
        own = self._need_compiled("compiled_loss")
        total = own.loss(y, y_pred, sample_weight)
        for extra in regularization_losses or ():
            total = total + extra
        own.loss_mean.update_state(total.detach(), sample_weight=count(y_pred))
        return total

    @property
    def compiled_metrics(self) -> Any:
        """The metrics of compile() as one, with update_state(y, y_pred)."""
        from ._training.compiled import Together
        return Together(self._need_compiled("compiled_metrics"))

    def get_metrics_result(self) -> dict[str, Any]:
        """All figures so far by name."""
        figures: dict[str, Any] = {}
        for metric in self.metrics:
            value = metric.result()
            figures.update(value) if isinstance(value, dict) else figures.__setitem__(metric.name, value)
        return figures

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step of training on a batch: figures by name. To train otherwise, override it."""
        from ._training.batches import count, unpack
        x, y, weight = unpack(data)
        own = self._need_compiled("fit")
        own.prepare()
        if own.jit is not None:
            y_pred, loss, trains = own.jit.learn(x, y, weight)
        else:
            y_pred = self._predictions(x, True)
            loss = self._loss_of(x, y, y_pred, weight, True)
            trains = own.gradients(loss)
        if trains:
            own.prepare()  # the first batch may have made the weights
            own.step()
        own.loss_mean.update_state(loss.detach(), sample_weight=count(x))
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Looks at a batch without learning from it. May be overridden."""
        from ._training.batches import count, unpack
        x, y, weight = unpack(data)
        own = self._need_compiled("evaluate")
        with_loss = own.has_loss or type(self).compute_loss is not Trainer.compute_loss
        if own.jit is not None and with_loss:
            y_pred, loss = own.jit.look(x, y, weight)
        else:
            y_pred, loss = self._predictions(x, False), None
            if with_loss or len(getattr(self, "losses", ())):
                loss = self._loss_of(x, y, y_pred, weight, False)
        if loss is not None:
            own.loss_mean.update_state(loss.detach(), sample_weight=count(x))
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def predict_step(self, data: Any) -> Any:
        from ._training.batches import unpack
        x = unpack(data)[0]
        jit = None if self._compiled is None else self._compiled.jit
        return self._predictions(x, False) if jit is None else jit.predict(x)

    # ---- fitting ----
    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1,
            verbose: Any = "auto", callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None,
            shuffle: bool = True, class_weight: dict[int, float] | None = None, sample_weight: Any = None,
            initial_epoch: int = 0, steps_per_epoch: int | None = None, validation_steps: int | None = None,
            validation_batch_size: int | None = None, validation_freq: int | Sequence[int] = 1) -> History:
        """Trains for `epochs` passes over the data and returns the History of all figures.

        x and y: tensors, numpy's arrays, lists or dictionaries of them for several inputs or outputs; or x alone: a
        Dataset, a DataLoader, or any iterable of batches (x, y) or (x, y, sample_weight).
        batch_size: 32 if it is not given; what comes in batches has its own.
        verbose: 0 nothing, 1 a bar, 2 a line an epoch. validation_split: the part at the end of x and y that is only
        looked at. class_weight: how much samples of a class count."""
        from .callbacks import CallbackList
        from ._training.batches import Feed, split
        self._need_compiled("fit").prepare()
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split(x, y, sample_weight, validation_split)
        data = Feed(x, y, sample_weight, batch_size, shuffle, steps_per_epoch, class_weight, self)
        looked = None
        if validation_data is not None:
            looked = self._validation_feed(validation_data, validation_batch_size, batch_size, validation_steps)
        tell = CallbackList(callbacks, model=self, add_history=True, add_progbar=verbose not in (0, False),
                            verbose=_verbose(verbose), epochs=epochs, steps=data.steps)
        self.__dict__["stop_training"] = False
        self._with_modes(True)
        tell.on_train_begin()
        first = max([initial_epoch] + [int(getattr(c, "first_epoch", 0)) for c in tell.callbacks])
        try:
            for epoch in range(first, epochs):
                self._fit_epoch(epoch, data, looked, tell, validation_freq)
                if self.stop_training:
                    break
        finally:
            self._with_modes(False)
        if hasattr(self.optimizer, "finalize_variable_values"):
            self.optimizer.finalize_variable_values([p for p in self._weights_owner().parameters() if p.requires_grad])
        tell.on_train_end(self.__dict__.pop("_last_logs", None))
        history: History = tell.history
        self.__dict__["_history"] = history
        return history

    def _fit_epoch(self, epoch: int, data: Any, looked: Any, tell: CallbackList, freq: int | Sequence[int]) -> None:
        self.reset_metrics()
        tell.on_epoch_begin(epoch)
        logs: dict[str, float] = {}
        for i, batch in enumerate(data.epoch()):
            tell.on_train_batch_begin(i)
            logs = _numbers(self.train_step(_packed(batch)))
            tell.on_train_batch_end(i, logs)
            if self.stop_training:
                break
        if not logs:
            raise ValueError("fit() got no batches in epoch %d: the data are empty, or an iterator is used up (give a "
                             "list, a DataLoader, or steps_per_epoch)" % (epoch + 1))
        logs = dict(logs)
        due = (epoch + 1) % freq == 0 if isinstance(freq, int) else epoch + 1 in freq
        if looked is not None and due:
            self._with_modes(False)
            found = self._look(looked, tell)
            self._with_modes(True)
            logs.update({"val_" + name: value for name, value in found.items()})
        tell.on_epoch_end(epoch, logs)
        self.__dict__["_last_logs"] = logs

    def _validation_feed(self, data: Any, batch_size: int | None, of_fit: int | None, steps: int | None) -> Any:
        from ._training.batches import Feed, is_arrays
        if isinstance(data, (tuple, list)) and 2 <= len(data) <= 3 and is_arrays(data):
            size, weight = batch_size or of_fit, data[2] if len(data) == 3 else None
            return Feed(data[0], data[1], weight, size, False, steps, None, self)
        return Feed(data, None, None, batch_size, False, steps, None, self)

    def _with_modes(self, training: bool) -> None:
        module: Any = self
        module.train(training)

    def _look(self, data: Any, tell: CallbackList) -> dict[str, float]:
        """Figures over all batches of the data."""
        self.reset_metrics()
        tell.on_test_begin()
        logs: dict[str, float] = {}
        with no_grad():
            for i, batch in enumerate(data.epoch()):
                tell.on_test_batch_begin(i)
                logs = _numbers(self.test_step(_packed(batch)))
                tell.on_test_batch_end(i, logs)
        if not logs:
            raise ValueError("there are no batches to evaluate: the data are empty")
        tell.on_test_end(logs)
        return logs

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
                 sample_weight: Any = None, steps: int | None = None, callbacks: Any = None,
                 return_dict: bool = False) -> Any:
        """The loss, or a list of it and the metrics, or all by name with return_dict, over the data."""
        from .callbacks import CallbackList
        from ._training.batches import Feed
        self._need_compiled("evaluate")
        data = Feed(x, y, sample_weight, batch_size, False, steps, None, self)
        tell = CallbackList(callbacks, model=self, add_history=False, add_progbar=verbose not in (0, False),
                            verbose=_verbose(verbose), epochs=1, steps=data.steps)
        self._with_modes(False)
        found = self._look(data, tell)
        return found if return_dict else self._listed(found)

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None,
                callbacks: Any = None) -> Any:
        """Outputs for all samples, one after the other along dimension 0."""
        from .callbacks import CallbackList
        from ._training.batches import Feed, joined
        data = Feed(x, None, None, batch_size, False, steps, None, self)
        tell = CallbackList(callbacks, model=self, add_history=False, add_progbar=verbose not in (0, False),
                            verbose=_verbose(verbose), epochs=1, steps=data.steps)
        self._with_modes(False)
        tell.on_predict_begin()
        parts = []
        with no_grad():
            for i, batch in enumerate(data.epoch()):
                tell.on_predict_batch_begin(i)
                parts.append(self.predict_step(_packed(batch)))
                tell.on_predict_batch_end(i, {"outputs": parts[-1]})
        tell.on_predict_end()
        if not parts:
            raise ValueError("there is nothing to predict: the data are empty")
        return joined(parts, self._numpy_results)

    # ---- batches by hand ----
    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None,
                       class_weight: dict[int, float] | None = None, return_dict: bool = False) -> Any:
        """One step on this batch, and its figures."""
        self._need_compiled("train_on_batch")
        self.reset_metrics()
        self._with_modes(True)
        logs = _numbers(self.train_step(self._batch(x, y, sample_weight, class_weight)))
        self._with_modes(False)
        return logs if return_dict else self._listed(logs)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """The figures of this batch."""
        self._need_compiled("test_on_batch")
        self.reset_metrics()
        self._with_modes(False)
        with no_grad():
            logs = _numbers(self.test_step(self._batch(x, y, sample_weight, None)))
        return logs if return_dict else self._listed(logs)

    def predict_on_batch(self, x: Any) -> Any:
        from ._training.batches import joined
        self._with_modes(False)
        with no_grad():
            return joined([self.predict_step(self._batch(x, None, None, None))], self._numpy_results)

    def _listed(self, logs: dict[str, float]) -> Any:
        """Figures in the order of the metrics; one alone is itself."""
        order = self.metrics_names
        known = [name for name in order if name in logs]
        values = [logs[name] for name in known + [k for k in logs if k not in known]]
        return values[0] if len(values) == 1 else values

    def _batch(self, x: Any, y: Any, sample_weight: Any, class_weight: dict[int, float] | None) -> Any:
        from ._training.batches import Feed
        whole = Feed(x, y, sample_weight, 1 << 62, False, None, class_weight, self)
        return _packed(next(iter(whole.epoch())))

    # ---- files ----
    def _weights_owner(self) -> Any:
        return self

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        """The state dict, in a file that cairn.load opens."""
        import os
        from . import save
        if not overwrite and os.path.exists(filepath):
            raise FileExistsError("%s exists; overwrite=True replaces it" % filepath)
        save(self._weights_owner().state_dict(), filepath)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False) -> None:
        """Sets the weights that save_weights wrote; with skip_mismatch, those that fit."""
        from . import load
        state, owner = load(filepath), self._weights_owner()
        if skip_mismatch:
            have = owner.state_dict()
            state = {k: v for k, v in state.items() if k in have and tuple(have[k].shape) == tuple(v.shape)}
        owner.load_state_dict(state, strict=not skip_mismatch)

    def _state_for_restore(self) -> dict[str, Any]:
        """A copy of all weights, for callbacks that go back to them."""
        module: Any = self
        return {name: value.detach().clone() for name, value in module.state_dict().items()}

    # ---- looking ----
    def count_params(self) -> int:
        module: Any = self
        return sum(p.numel() for p in module.parameters())

    def summary(self, input_size: Any = None, print_fn: Callable[[str], Any] | None = None,
                line_length: int | None = None, positions: Any = None, expand_nested: bool = False,
                show_trainable: bool = False, layer_range: Any = None) -> None:
        """Prints the layers, the shapes of their outputs and how many parameters they have. Shapes need the size of a
        batch of inputs, as in summary((1, 28, 28)) with the 1 left out: one sample's."""
        from ._training.summary import text
        if isinstance(input_size, int):  # Keras's first argument is the length of lines
            input_size, line_length = None, input_size
        (print_fn or print)(text(self, input_size, line_length, positions, expand_nested, show_trainable, layer_range))


def _verbose(given: Any) -> int:
    from ._training.settings import interactive
    if given == "auto":
        return 1 if interactive() else 2
    return int(given)


def _packed(batch: tuple[Any, Any, Any]) -> Any:
    """A batch as steps are given it: x, (x, y) or (x, y, sample_weight); several inputs alone are (x,)."""
    x, y, weight = batch
    if weight is not None:
        return x, y, weight
    return (x, y) if y is not None else (x,) if isinstance(x, (list, tuple)) else x


def _numbers(logs: dict[str, Any]) -> dict[str, float]:
    """Figures as numbers, in the order of their names; those of several metrics as one are figures of their own."""
    flat: dict[str, Any] = {}
    for name, value in (logs or {}).items():
        flat.update(value if isinstance(value, dict) else {name: value})
    return {name: float(flat[name]) for name in sorted(flat)}


class Model(Trainer, nn.Module):
    """A network that trains itself: of one module, of layers one after the other, or a subclass with forward (or call).

        model = cairn.Model(cairn.zoo.make("resnet18"))
        model = cairn.Model(nn.Flatten(), nn.Linear(784, 10))
        class Net(cairn.Model): def __init__(self): ...; def forward(self, x): ..."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            layers = tuple(layers[0])
        for layer in layers:
            if not isinstance(layer, nn.Module):
                raise TypeError("Model is made of modules, not of %s" % type(layer).__name__)
        self._wraps = len(layers) == 1
        self._chain = len(layers) > 1
        if self._wraps:
            self.module = layers[0]
        for i, layer in enumerate(layers if self._chain else ()):
            self.add_module(str(i), layer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._wraps:
            return self.module(*args, **kwargs)
        if self._chain:
            first, *rest = list(self._modules.values())
            x = first(*args, **kwargs)
            for layer in rest:
                x = layer(x)
            return x
        if callable(getattr(self, "call", None)):
            return self.call(*args, **kwargs)
        raise NotImplementedError("%s has neither layers nor a method forward or call" % type(self).__name__)

    def _weights_owner(self) -> Any:
        return self.module if self._wraps else self

    def save(self, filepath: Any, overwrite: bool = True) -> None:
        """The weights; the class itself is the program's. See save_weights."""
        self.save_weights(filepath, overwrite)

    @property
    def layers(self) -> Iterable[Any]:
        """The children, or those of the module that it is made of."""
        return list(self._weights_owner().children())
