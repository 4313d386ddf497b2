"""The networks of torch_train.py, torch_infer.py and ort_infer.py, in PyTorch, and their first values and inputs.

Place in the flow: imported by those. Invariant: they are those of networks.h and of cairn's zoo, parameter by parameter
in the same order; parameters start with the numbers of bench_fill, the i-th of a network with seed 100 + i.
"""
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch_side import fill

VOCAB, DIM, DEPTH, HEADS, SEQ = 512, 256, 4, 4, 128


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 12 * 12, 128), nn.ReLU(), nn.Linear(128, 10))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(128, 256, batch_first=True), nn.Linear(256, 128)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).flatten(0, 1)


class Layer(nn.Module):
    """A pre-norm transformer layer; with a cache it takes one token at position `at`."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, cache=None, at=0):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, at:at + t], cache[1][:, :, at:at + t] = k, v
            k, v = cache[0][:, :, :at + t], cache[1][:, :, :at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, caches=None, at=0):
        x = self.tok(ids) + self.pos.weight[at:at + ids.shape[1]]
        for i, layer in enumerate(self.layers):
            x = layer(x, caches[i] if caches else None, at)
        return self.head(self.norm(x)).flatten(0, 1)


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + (x if self.down is None else self.down(x)), inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    for channels, out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(channels, out, stride), Block(out, out, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class BertLayer(nn.Module):
    """A post-norm layer of BERT."""

    def __init__(self, dim, heads, inner):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out, self.norm1 = nn.Linear(dim, dim), nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, inner), nn.Linear(inner, dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-12)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)
        x = self.norm1(self.out(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    """The token vectors of a BERT of MiniLM's size. The pooler, which this does not use, counts among the parameters."""

    def __init__(self, dim=384, heads=12, layers=6, inner=1536, vocab=30522, context=512):
        super().__init__()
        self.words, self.positions, self.kinds = nn.Embedding(vocab, dim), nn.Embedding(context, dim), nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(dim, heads, inner) for _ in range(layers))
        self.pooler = nn.Linear(dim, dim)

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.kinds.weight[0] + self.positions.weight[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x


class Alone(nn.Module):
    """A network that takes one argument: the exporter makes inputs of others, though they have defaults."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


def of_zoo(name):
    """One of torchvision's, which is not needed for anything else."""
    import torchvision
    return torchvision.models.get_model(name)


def filled(net):
    """The same numbers as fill_parameters of networks.h."""
    for i, (name, p) in enumerate(net.named_parameters()):
        fan = p.numel() // p.shape[0] if p.dim() > 1 else 100
        values = fill(p.shape, 100 + i, fan ** -0.5)
        p.data.copy_(values + 1 if p.dim() == 1 and name.endswith(".weight") else values)
    return net


def labels(n, classes):
    return (torch.arange(n) * 7 + 3) % classes


def images(batch):
    return fill((batch, 3, 224, 224), 1, 1.7)


def tokens(vocab):
    return labels(SEQ, vocab).view(1, SEQ)


LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
# name: (network, input, what a call amounts to, its unit); infer.c has the same table
INFER = {
    "resnet18_infer_b1": (resnet18, partial(images, 1), 1, "image"),
    "resnet18_infer_b8": (resnet18, partial(images, 8), 8, "image"),
    "resnet50_infer_b1": (partial(of_zoo, "resnet50"), partial(images, 1), 1, "image"),
    "resnet50_infer_b8": (partial(of_zoo, "resnet50"), partial(images, 8), 8, "image"),
    "mobilenet_v2_infer_b1": (partial(of_zoo, "mobilenet_v2"), partial(images, 1), 1, "image"),
    "minilm_infer": (Bert, partial(tokens, 30522), SEQ, "token"),
    "vit_b16_infer": (partial(of_zoo, "vit_b_16"), partial(images, 1), 1, "image"),
    "gpt_infer": (GPT, partial(tokens, VOCAB), SEQ, "token"),
}
