"""A sentence encoder learns a task: is a sentence about food, about machines or about the weather?

    python3 finetune_minilm.py [FOLDER]

FOLDER holds MiniLM (or another BERT) as transformers writes it: config.json, model.safetensors and vocab.txt. A new
head learns on top of the pretrained encoder, whose last layers learn with it at a smaller rate. Without a folder a
small encoder that was never trained takes its place, with a vocabulary made of the sentences themselves.
"""
import pathlib
import random
import sys
import tempfile

import cairn
import cairn.nn.functional as F
from cairn import nn, tokenizers, zoo
from cairn.utils.data import DataLoader, Dataset

SUBJECTS = {"food": ("the soup", "fresh bread", "this cheese", "her pasta"),
            "machines": ("the engine", "an old printer", "this robot", "the pump"),
            "weather": ("the storm", "morning fog", "this wind", "the rain")}
ENDINGS = {"food": ("tastes of garlic", "needs more salt", "smells delicious"),
           "machines": ("is out of order", "needs a new cable", "runs on steam"),
           "weather": ("comes from the west", "will last till noon", "keeps us indoors")}
LABELS = list(SUBJECTS)


def sentences() -> list[tuple[str, int]]:
    made = [(f"{s} {e}", LABELS.index(label)) for label in LABELS for s in SUBJECTS[label] for e in ENDINGS[label]]
    random.Random(0).shuffle(made)
    return made


class Sentences(Dataset[tuple[str, int]]):
    def __init__(self, rows: list[tuple[str, int]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self.rows[index]


class Classifier(nn.Module):
    """An encoder, the mean over its tokens, and a head."""

    def __init__(self, encoder: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: cairn.Tensor, mask: cairn.Tensor) -> cairn.Tensor:
        states = self.encoder(tokens, mask)[0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        scores: cairn.Tensor = self.head(self.dropout((states * weights).sum(1) / weights.sum(1)))
        return scores


def small_encoder(texts: list[str]) -> tuple[nn.Module, tokenizers.Tokenizer, int]:
    words = sorted({w for t in texts for w in t.split()})
    with tempfile.TemporaryDirectory() as folder:
        vocab = pathlib.Path(folder) / "vocab.txt"
        vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n", encoding="utf-8")
        tokenizer = tokenizers.wordpiece(vocab)
    config = {"vocab_size": len(words) + 5, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 64, "max_position_embeddings": 32}
    return zoo.create("minilm", config=config), tokenizer, 32


def main() -> None:
    cairn.manual_seed(0)
    data = sentences()
    train, test = data[:24], data[24:]
    if len(sys.argv) > 1:
        encoder, tokenizer = zoo.create("minilm", pretrained=sys.argv[1]), tokenizers.from_pretrained(sys.argv[1])
        width = 384
    else:
        encoder, tokenizer, width = small_encoder([t for t, _ in data])
    net = Classifier(encoder, width, len(LABELS))
    pretrained = len(sys.argv) > 1
    for p in encoder.parameters():
        p.requires_grad_(not pretrained)
    last = [p for name, p in encoder.named_parameters() if "layer.5" in name or not pretrained]
    for p in last:
        p.requires_grad_(True)
    optimizer = cairn.optim.AdamW([{"params": net.head.parameters(), "lr": 5e-3},
                                   {"params": last, "lr": 1e-4 if pretrained else 2e-3}])
    loader = DataLoader(Sentences(train), batch_size=8, shuffle=True, generator=cairn.Generator().manual_seed(1),
                        collate_fn=lambda rows: (tokenizer([t for t, _ in rows], padding=True),
                                                 cairn.tensor([y for _, y in rows])))
    for epoch in range(12):
        net.train()
        for batch, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(batch["input_ids"], batch["attention_mask"]), y)
            loss.backward()
            optimizer.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    net.eval()
    with cairn.no_grad():
        batch = tokenizer([t for t, _ in test], padding=True)
        chosen = net(batch["input_ids"], batch["attention_mask"]).argmax(1).tolist()
    right = sum(c == y for c, (_, y) in zip(chosen, test))
    print(f"{right} of {len(test)} sentences that it was not trained on are put where they belong")
    for (text, _), c in list(zip(test, chosen))[:3]:
        print(f"  {text}: {LABELS[c]}")


if __name__ == "__main__":
    main()
