#!/usr/bin/env python3
"""Writes golden/tokenizer/: small vocabularies and what the `tokenizers` library and sentencepiece make of texts with
them, for test_tokenizer.c. Needs both.

usage: tests/data/tokenizer_golden.py
"""
import json
import os
import pathlib

import sentencepiece_kinds
import tokenizer_cases as cases
import tokenizer_kinds

FOLDER = pathlib.Path(__file__).resolve().parent / "golden" / "tokenizer"
TEXTS = 200
KINDS, KIND_TEXTS = ("xlm_roberta", "albert", "unigram_bytes", "llama2", "clip", "electra", "words"), 90
MODELS = ("mapped", "llama")


def row(t, text):
    """Numbers, numbers with marks around, and the text that comes back from those, marks left out."""
    marked = t.encode(text).ids
    return [t.encode(text, add_special_tokens=False).ids, marked, t.decode(marked)]


def kinds():
    """The other kinds: tokenizer.json and .model files, and a file of fewer texts."""
    texts = cases.texts(KIND_TEXTS, seed=6)
    rows = [{"text": text} for text in texts]
    for name in KINDS:
        t = tokenizer_kinds.KINDS[name]()
        t.save(str(FOLDER / (name + ".json")), pretty=False)
        for line, text in zip(rows, texts):
            line[name] = row(t, text)
    for name in MODELS:
        data = sentencepiece_kinds.train(name)
        (FOLDER / (name + ".model")).write_bytes(data)
        t = sentencepiece_kinds.load(data)
        for line, text in zip(rows, texts):
            line[name] = [t.encode(text), t.encode(text), t.decode(t.encode(text))]
    write("kinds.json", rows)


def write(name, rows):
    lines = ",\n".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) for r in rows)
    (FOLDER / name).write_text(f"[\n{lines}\n]\n", encoding="ascii")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    bpe, added = cases.train_bpe()
    bpe.model.save(str(FOLDER))
    texts = cases.texts(TEXTS, seed=5)
    plain = [row(bpe, text) for text in texts]
    bpe.add_tokens(added)
    bpe.save(str(FOLDER / "bpe.json"), pretty=False)
    wordpiece = cases.train_wordpiece()
    wordpiece.model.save(str(FOLDER))
    wordpiece.save(str(FOLDER / "wordpiece.json"), pretty=False)
    kinds()
    for path in FOLDER.glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").strip() + "\n", encoding="utf-8")
    rows = [{"text": text, "bpe": a, "added": row(bpe, text), "wordpiece": row(wordpiece, text)}
            for text, a in zip(texts, plain)]
    write("cases.json", rows)
    print(f"{len(rows)} texts, {sum(os.path.getsize(p) for p in FOLDER.iterdir()) // 1000} KB")


if __name__ == "__main__":
    main()
