"""Sound as pictures: spectra of frames (STFTSpectrogram, whose kernels are weights) and of bands of the mel scale."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from .windows import Windowed, padded, same_pads

__all__ = ["MelSpectrogram", "STFTSpectrogram"]


def _window(name: Any, size: int, periodic: bool) -> Any:
    """A window of its name, of an array, or ones."""
    if name is None:
        return None
    if not isinstance(name, str):
        return cairn.as_tensor(name).to(cairn.get_default_dtype())
    makers = {"hann": "hann_window", "hamming": "hamming_window", "blackman": "blackman_window",
              "bartlett": "bartlett_window"}
    if name not in makers:
        raise ValueError("window is %s, or an array, not %r" % (", ".join(makers), name))
    return getattr(cairn, makers[name])(size, periodic=periodic)


def _angles(frame: int, bins: int) -> Any:
    """Of the waves that a frame is compared with, (frame, bins)."""
    times = cairn.arange(frame, dtype=cairn.float64).unsqueeze(1)
    return times * cairn.arange(bins, dtype=cairn.float64) * (-math.pi / (bins - 1))


class STFTSpectrogram(Windowed):  # unused: input_shape (Keras's signature)
    """The spectrum of each frame of (N, T, C), by convolutions with waves. mode: log, magnitude, psd, real, imag, angle
    or stft (real and imag)."""

    ndim = 1

    def __init__(self, mode: str = "log", frame_length: int = 256, frame_step: int | None = None,
                 fft_length: int | None = None, window: Any = "hann", periodic: bool = False,
                 scaling: str | None = "density", padding: str = "valid", expand_dims: bool = False,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if mode not in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
            raise ValueError("mode is log, magnitude, psd, real, imag, angle or stft, not %r" % (mode,))
        if scaling not in (None, "density", "spectrum"):
            raise ValueError("scaling is None, density or spectrum, not %r" % (scaling,))
        if frame_step is not None and not 1 <= frame_step <= frame_length:
            raise ValueError("frame_step is between 1 and frame_length=%d, not %r" % (frame_length, frame_step))
        if fft_length is not None and fft_length < frame_length:
            raise ValueError("fft_length=%d is less than frame_length=%d" % (fft_length, frame_length))
        self._options(mode=mode, frame_length=frame_length, frame_step=frame_step, fft_length=fft_length,
                      window=window, periodic=periodic, scaling=scaling, expand_dims=expand_dims)
        self._padding(padding)
        self._format(data_format)
        self._step = frame_step or frame_length // 2
        self._bins = (fft_length or 1 << math.ceil(math.log2(frame_length))) // 2 + 1

    def _waves(self, side: str) -> Any:
        """(frame, 1, bins)."""
        angles = _angles(self.frame_length, self._bins).unsqueeze(1)
        made = angles.cos() if side == "real" else angles.sin()
        window = _window(self.window, self.frame_length, self.periodic)
        if window is not None:
            window = window.to(cairn.float64)
            size = 1.0 if self.scaling is None else \
                window.square().sum().sqrt() if self.scaling == "density" else window.abs().sum()
            made = made * window.reshape(-1, 1, 1) / size
        return made

    def build(self, input_shape: Any) -> None:
        shape = (self.frame_length, 1, self._bins)
        for side, without in (("real", "imag"), ("imag", "real")):
            if self.mode != without:
                setattr(self, side + "_kernel", self.add_weight(
                    shape, lambda shape, dtype, side=side: self._waves(side).to(dtype), name=side + "_kernel"))
        self.built = True

    def _side(self, x: Any, kernel: Any) -> Any:
        """x (N, C, T) as (N, C, bins, frames)."""
        n, c = int(x.shape[0]), int(x.shape[1])
        x = x.reshape(n * c, 1, -1)
        if self.padding == "same":
            x = padded(x, same_pads(x.shape[2:], (self.frame_length,), (self._step,), (1,)))
        out = F.conv1d(x, kernel.permute(2, 1, 0), None, self._step)
        return out.reshape(n, c, self._bins, -1)

    def _answer(self, out: Any) -> Any:
        """(N, C, bins, frames) in the layout asked for."""
        if self.expand_dims:
            return out.permute(0, 1, 3, 2) if self.channels_first else out.permute(0, 3, 2, 1)
        out = out.reshape(out.shape[0], -1, out.shape[-1])
        return out if self.channels_first else out.transpose(1, 2)

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else inputs.transpose(1, 2)
        real = None if self.mode == "imag" else self._side(x, self.real_kernel)
        imag = None if self.mode == "real" else self._side(x, self.imag_kernel)
        if real is None or imag is None:
            return self._answer(imag if real is None else real)
        if self.mode == "angle":
            return self._answer(cairn.atan2(imag, real))
        if self.mode == "stft":
            return self._answer(cairn.cat([real, imag], 2))
        power = real.square() + imag.square()
        if self.mode == "psd":
            return self._answer(power + F.pad(power[:, :, 1:-1], [0, 0, 1, 1]))
        size = self._answer(power.clamp(min=1e-7).sqrt())
        return size if self.mode == "magnitude" else size.clamp(min=1e-7).log()


class MelSpectrogram(Windowed):
    """Spectra of (..., T) in bands that are as wide as ears hear them: (..., num_mel_bins, frames)."""

    def __init__(self, fft_length: int = 2048, sequence_stride: int = 512, sequence_length: int | None = None,
                 window: Any = "hann", sampling_rate: int = 16000, num_mel_bins: int = 128, min_freq: float = 20.0,
                 max_freq: float | None = None, power_to_db: bool = True, top_db: float = 80.0, mag_exp: float = 2.0,
                 min_power: float = 1e-10, ref_power: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(fft_length=fft_length, sequence_stride=sequence_stride, window=window,
                      sequence_length=sequence_length or fft_length, sampling_rate=sampling_rate,
                      num_mel_bins=num_mel_bins, min_freq=min_freq, max_freq=max_freq or int(sampling_rate / 2),
                      power_to_db=power_to_db, top_db=top_db, mag_exp=mag_exp, min_power=min_power, ref_power=ref_power)
        if self.fft_length < self.sequence_length:
            raise ValueError("fft_length=%d is less than sequence_length=%d" % (fft_length, self.sequence_length))
        self.built = True

    def _bands(self, bins: int) -> Any:
        """(bins, num_mel_bins): triangles on the mel scale; the lowest bin counts nowhere."""
        def mel(hertz: Any) -> Any:
            return 1127.0 * (1.0 + hertz / 700.0).log()
        f64 = cairn.float64
        at = mel(cairn.linspace(0.0, self.sampling_rate / 2.0, bins, dtype=f64)[1:]).unsqueeze(1)
        ends = mel(cairn.tensor([float(self.min_freq), float(self.max_freq)], dtype=f64)).tolist()
        edges = cairn.linspace(ends[0], ends[1], self.num_mel_bins + 2, dtype=f64)
        low, middle, high = edges[:-2], edges[1:-1], edges[2:]
        bands = cairn.minimum((at - low) / (middle - low), (high - at) / (high - middle)).clamp(min=0.0)
        return F.pad(bands, [0, 0, 1, 0])

    def call(self, inputs: Any) -> Any:
        x = inputs.reshape(-1, 1, inputs.shape[-1])
        n, bins = self.sequence_length, self.fft_length // 2 + 1
        x = F.pad(x, [self.fft_length // 2, self.fft_length // 2], mode="reflect")
        before = (self.fft_length - n) // 2  # the window is in the middle of a frame
        x = x[..., before:int(x.shape[-1]) - (self.fft_length - n - before)]
        angles, window = _angles(n, bins), _window(self.window, n, True)
        waves = cairn.cat([angles.cos(), angles.sin()], 1)
        waves = waves if window is None else waves * window.to(cairn.float64).unsqueeze(1)
        both = F.conv1d(x, waves.t().unsqueeze(1).to(device=x.device, dtype=x.dtype), None, self.sequence_stride)
        real, imag = both.chunk(2, 1)
        size = (real.square() + imag.square()).sqrt().pow(self.mag_exp).transpose(1, 2)
        out = size @ self._bands(bins).to(device=x.device, dtype=x.dtype)
        if self.power_to_db:
            ref = 10.0 * math.log10(max(abs(self.ref_power), self.min_power))
            out = 10.0 * out.clamp(min=self.min_power).log10() - ref
            out = cairn.maximum(out, out.max() - self.top_db)
        out = out.transpose(-1, -2)
        return out.reshape(tuple(inputs.shape[:-1]) + tuple(out.shape[1:]))
