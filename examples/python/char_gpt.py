"""A small GPT that learns a text character by character and then writes some of its own.

    python3 char_gpt.py [TEXT] [--steps 2000] [--width 128] [--layers 4] [--heads 4] [--context 64] [--batch 16]

Without a text a little net learns sentences that are made up here, in seconds. With tiny-shakespeare the validation
loss comes down to 1.7 in a few minutes on two cores.
"""
import argparse
import math
import pathlib

import cairn
import cairn.nn.functional as F
from cairn import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: cairn.Tensor) -> cairn.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: cairn.Tensor = self.out(y.transpose(1, 2).reshape(b, t, c))
        return out


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: cairn.Tensor) -> cairn.Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class GPT(nn.Module):
    def __init__(self, vocab: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens: cairn.Tensor) -> cairn.Tensor:
        places = cairn.arange(tokens.shape[1])
        scores: cairn.Tensor = self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))
        return scores

    @cairn.no_grad()
    def write(self, tokens: cairn.Tensor, n: int) -> cairn.Tensor:
        for _ in range(n):
            scores = self(tokens[:, -self.context:])[:, -1]
            tokens = cairn.cat([tokens, cairn.multinomial(scores.softmax(-1), 1)], dim=1)
        return tokens


def made_up() -> str:
    subjects, verbs, objects = ("the cat", "a bird", "the old man"), ("sees", "likes", "finds"), ("a fish", "the sea")
    return "".join(f"{s} {v} {o}. " for s in subjects for v in verbs for o in objects) * 6


def windows(data: cairn.Tensor, starts: cairn.Tensor, context: int) -> tuple[cairn.Tensor, cairn.Tensor]:
    index = starts[:, None] + cairn.arange(context + 1)
    chosen = data[index]
    return chosen[:, :-1], chosen[:, 1:]


def validation(net: GPT, data: cairn.Tensor, context: int) -> float:
    net.eval()
    with cairn.no_grad():
        losses = []
        starts = cairn.arange(0, len(data) - context - 1, context)
        for part in starts.split(64):
            x, y = windows(data, part, context)
            losses.append(F.cross_entropy(net(x).flatten(0, 1), y.flatten()).item() * len(part))
    net.train()
    return sum(losses) / len(starts)


def main() -> None:
    parser = argparse.ArgumentParser(description="A small GPT over characters.")
    parser.add_argument("text", nargs="?")
    for name, value in (("steps", 0), ("width", 0), ("layers", 0), ("heads", 4), ("context", 0), ("batch", 16)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    large = args.text is not None
    text = pathlib.Path(args.text).read_text(encoding="utf-8") if large else made_up()
    steps, width = args.steps or (2000 if large else 60), args.width or (128 if large else 32)
    layers, context = args.layers or (4 if large else 2), args.context or (64 if large else 16)
    cairn.manual_seed(1)
    letters = sorted(set(text))
    data = cairn.tensor([letters.index(c) for c in text])
    train, held_out = data[:len(data) * 9 // 10], data[len(data) * 9 // 10:]
    net = GPT(len(letters), width, layers, args.heads, context)
    decayed = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() < 2]
    optimizer = cairn.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=3e-3, betas=(0.9, 0.99))
    warm, floor = steps // 10, 0.1
    rate = cairn.optim.lr_scheduler.LambdaLR(optimizer, lambda i: (i + 1) / warm if i < warm else floor + (
        1 - floor) * 0.5 * (1 + math.cos(math.pi * (i - warm) / (steps - warm))))
    for step in range(steps):
        x, y = windows(train, cairn.randint(0, len(train) - context - 1, (args.batch,)), context)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if step % (steps // 6) == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"validation loss {validation(net, held_out, context):.4f}")
    written = net.eval().write(data[:1].view(1, 1), 300 if large else 60)
    print("".join(letters[i] for i in written[0].tolist()))


if __name__ == "__main__":
    main()
