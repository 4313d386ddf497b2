#!/usr/bin/env python3
"""Writes golden/tokenizer/: small vocabularies and what the `tokenizers` library makes of texts with them, for
test_tokenizer.c. Needs that library.

usage: tests/data/tokenizer_golden.py
"""
import json
import os
import pathlib

import tokenizer_cases as cases

FOLDER = pathlib.Path(__file__).resolve().parent / "golden" / "tokenizer"
TEXTS = 200


def row(t, text):
    """Numbers, numbers with marks around, and the text that comes back from those, marks left out."""
    marked = t.encode(text).ids
    return [t.encode(text, add_special_tokens=False).ids, marked, t.decode(marked)]


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
    for path in FOLDER.glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").strip() + "\n", encoding="utf-8")
    rows = [{"text": text, "bpe": a, "added": row(bpe, text), "wordpiece": row(wordpiece, text)}
            for text, a in zip(texts, plain)]
    lines = ",\n".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) for r in rows)
    (FOLDER / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="ascii")
    print(f"{len(rows)} texts, {sum(os.path.getsize(p) for p in FOLDER.iterdir()) // 1000} KB")


if __name__ == "__main__":
    main()
