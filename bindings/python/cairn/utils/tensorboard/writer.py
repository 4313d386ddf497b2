"""SummaryWriter: what torch programs log with, on the library's writer of event files.

Invariant: nothing is put together here that a file holds: each method brings its arguments into the form the library
takes and hands them on.
"""
from __future__ import annotations

import array
import contextlib
import datetime
import importlib
import os
import socket
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from ... import _C
from ..._arguments import refused
from ..._tensor import Tensor

if TYPE_CHECKING:
    from typing import Self

    from ...nn import Module

__all__ = ["SummaryWriter"]


def _tensor(value: Any) -> Tensor:
    """Tensors of cairn's, of other libraries', arrays, lists."""
    if isinstance(value, Tensor):
        return value.detach()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return _C.as_tensor(value)


def _number(value: Any) -> float:
    return float(value.item() if hasattr(value, "item") else value)


def _arranged(image: Tensor, formats: str, wanted: str) -> Tensor:
    """An image whose dimensions are named, in another order: "HWC" as "CHW"."""
    formats = formats.upper()
    if len(formats) != image.ndim or len(set(formats)) != len(formats) or not set(formats) <= set("NCHW"):
        raise ValueError("an image of shape %s cannot be %r" % (tuple(image.shape), formats))
    order = [formats.index(name) for name in wanted if name in formats]
    made = image.permute(*order)
    return made if "C" in formats or made.ndim == 2 else made.unsqueeze(1)


def _limits(values: Tensor, bins: Any, max_bins: int | None) -> array.array[float] | None:
    """Where the classes of a histogram end: of TensorBoard's own ("tensorflow"), of numpy's rules by name ("auto",
    "fd", ...), so many of one width, or those given; neighbours taken together where there would be more than max_bins.
    None: what the library does by itself."""
    if isinstance(bins, str) and bins == "tensorflow":
        if max_bins is None:
            return None
        side = [1e-12 * 1.1 ** i for i in range(774)]
        edges = [-v for v in reversed(side)] + [0.0] + side
    elif isinstance(bins, str):
        numpy: Any = importlib.import_module("numpy")
        edges = [float(v) for v in numpy.histogram_bin_edges(values.cpu().numpy(), bins=bins)]
    elif isinstance(bins, int):
        low, high = (values.min().item(), values.max().item()) if values.numel() else (0.0, 1.0)
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges = [low + (high - low) * i / bins for i in range(bins)] + [high]
    else:
        edges = [float(v) for v in bins]
    if max_bins is not None and len(edges) - 1 > max_bins:
        together = -(-(len(edges) - 1) // max_bins)
        edges = edges[:-1:together] + edges[-1:]
    return array.array("d", edges)


class SummaryWriter:
    """Writes to log_dir (by default runs/DATE_HOST and the comment) what TensorBoard shows: tensorboard --logdir runs.

    purge_step: the run goes on from there: what earlier files of the folder say of later steps is void. What is logged
    gets into the files when max_queue entries wait, or flush_secs seconds after they last did, or by flush()."""

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None,
                 max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", now + "_" + socket.gethostname() + comment)
        self.log_dir = str(log_dir)
        self.purge_step, self.filename_suffix = purge_step, filename_suffix
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self._waiting, self._flushed = 0, time.monotonic()
        self._events: dict[str, _C.Events] = {}
        self._log()

    def _log(self, folder: str = "") -> _C.Events:
        """The log of the folder, or of one below it."""
        if folder not in self._events:
            log = _C.Events(os.path.join(self.log_dir, folder) if folder else self.log_dir, self.filename_suffix)
            if self.purge_step is not None:
                log.restart(self.purge_step)
            self._events[folder] = log
        return self._events[folder]

    @contextlib.contextmanager
    def _at(self, walltime: float | None, folder: str = "") -> Iterator[_C.Events]:
        log = self._log(folder)
        if walltime is not None:
            log.set_time(walltime)
        try:
            yield log
        finally:
            if walltime is not None:
                log.set_time(0)
        self._put()

    def _put(self) -> None:
        """An entry more: into the files, if it is time."""
        self._waiting += 1
        if self._waiting >= self.max_queue or time.monotonic() - self._flushed >= self.flush_secs:
            self.flush()

    def get_logdir(self) -> str:
        return self.log_dir

    # ---- numbers ----
    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:
        """A number. new_style: in the form of TensorBoard's newer writers; double_precision: with all digits, which
        only that form can hold."""
        kind = _C.float64 if double_precision else _C.float32 if new_style else None
        with self._at(walltime) as log:
            log.scalar(tag, _number(scalar_value), int(global_step or 0), kind)

    def add_scalars(self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
                    walltime: float | None = None) -> None:
        """Several numbers in one picture: each is a run of its own, in a folder below."""
        for tag, value in tag_scalar_dict.items():
            with self._at(walltime, main_tag.replace("/", "_") + "_" + tag) as log:
                log.scalar(main_tag, _number(value), int(global_step or 0))

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None,
                      bins: str | int | Sequence[float] = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:
        """How values are spread. bins: TensorBoard's classes, a rule of numpy's ("auto", "fd", ...), a number of them,
        or their limits."""
        data = _tensor(values)
        limits = _limits(data, bins, max_bins)
        with self._at(walltime) as log:
            log.histogram(tag, data, int(global_step or 0), limits)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None,
                     num_thresholds: int = 127, weights: Any = None, walltime: float | None = None) -> None:
        """Precision and recall of a yes-no classifier at so many thresholds."""
        if weights is not None:
            raise NotImplementedError("add_pr_curve: weights are not supported")
        with self._at(walltime) as log:
            log.pr_curve(tag, _tensor(labels), _tensor(predictions), int(global_step or 0), int(num_thresholds))

    # ---- pictures ----
    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:
        """One picture, of bytes or of floats in [0, 1]; dataformats says what its dimensions are: CHW, HWC, HW."""
        image = _tensor(img_tensor)
        with self._at(walltime) as log:
            log.image(tag, _as_pixels(_arranged(image, dataformats, "NCHW")), int(global_step or 0))

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:
        """Several pictures as a grid: NCHW, NHWC."""
        image = _tensor(img_tensor)
        with self._at(walltime) as log:
            log.image(tag, _as_pixels(_arranged(image, dataformats, "NCHW")), int(global_step or 0))

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
                   walltime: float | None = None) -> None:
        """A figure of matplotlib's, or a list of them."""
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
        agg: Any = importlib.import_module("matplotlib.backends.backend_agg")
        figures = [*figure] if isinstance(figure, (list, tuple)) else [figure]
        drawn = []
        for one in figures:
            canvas = agg.FigureCanvasAgg(one)
            canvas.draw()
            drawn.append(_C.frombuffer(bytearray(canvas.buffer_rgba()), dtype=_C.uint8).reshape(
                *canvas.get_width_height()[::-1], 4)[:, :, :3])
            if close:
                pyplot.close(one)
        self.add_images(tag, _C.stack(drawn), global_step, walltime, dataformats="NHWC")

    # ---- the rest ----
    def add_text(self, tag: str, text_string: str, global_step: int | None = None,
                 walltime: float | None = None) -> None:
        """A text in Markdown; torch shows it under TAG/text_summary."""
        with self._at(walltime) as log:
            log.text(tag + "/text_summary", text_string, int(global_step or 0))

    def add_graph(self, model: Module, input_to_model: Any = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:  # unused: use_strict_trace (nothing is traced in Python)
        """How the module computes on these inputs, with the modules' names as groups. verbose: prints the module too.
        """
        if verbose:
            print(model)
        if input_to_model is None:
            raise ValueError("add_graph: input_to_model must be given: the graph is what the module does with it")
        inputs = input_to_model if isinstance(input_to_model, (tuple, list)) else (input_to_model,)
        self._log().graph(model, tuple(inputs))

    def add_embedding(self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None,
                      global_step: int | None = None, tag: str = "default",
                      metadata_header: Sequence[str] | None = None) -> None:
        """Points (N, D) for the projector, with labels and pictures (N, C, H, W). Of metadata with several columns a
        label names them all."""
        labels = None
        if metadata is not None and metadata_header:
            labels = [", ".join("%s: %s" % pair for pair in zip(metadata_header, row)) for row in metadata]
        elif metadata is not None:
            labels = [str(label.item() if isinstance(label, Tensor) and label.numel() == 1 else label)
                      for label in metadata]
        points = _tensor(mat)
        self._log().embedding(tag, points if points.is_floating_point() else points.float(), labels,
                              None if label_img is None else _as_pixels(_tensor(label_img)), int(global_step or 0))

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
                    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:
        """Settings of a run and the figures it reached, for the table of runs; in a folder below, named run_name."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        refused("add_hparams", "the table shows the values that runs had",
                hparam_domain_discrete=hparam_domain_discrete or None)
        settings = {key: value if isinstance(value, (bool, int, float, str)) else
                    _number(value) if hasattr(value, "item") else str(value) for key, value in hparam_dict.items()}
        figures = {key: _number(value) for key, value in metric_dict.items()}
        folder = run_name or str(time.time())
        log = self._log(folder)
        log.hparams(settings, figures)
        if global_step:
            for key, value in figures.items():
                log.scalar(key, value, int(global_step))
        log.flush()

    # ---- its end ----
    def flush(self) -> None:
        """Writes what was logged so far, so that a running TensorBoard sees it."""
        self._waiting, self._flushed = 0, time.monotonic()
        for log in self._events.values():
            log.flush()

    def close(self) -> None:
        """Writes what is left. What is logged afterwards begins a new file."""
        logs, self._events = self._events, {}
        for log in logs.values():
            log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _as_pixels(image: Tensor) -> Tensor:
    """Floats in [0, 1] or bytes."""
    if image.dtype is _C.uint8 or image.is_floating_point():
        return image
    return image.float() if image.dtype is _C.bool else image.to(_C.uint8)
