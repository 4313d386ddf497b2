"""cairn.tokenizers beside Hugging Face's `tokenizers`, on small vocabularies made here."""
import json
import pathlib
import tempfile
import unittest

import cairn
from cairn import tokenizers as T

try:
    import tokenizers as theirs
except ImportError:
    theirs = None

TEXTS = ["", "Hello, world!", "low lower lowest", "a naïve café", "it's 3.14 o'clock", "你好 😀", "two  spaces\n"]
WORDS = ["low lower lowest new newer newest wide wider widest hello world the cat sat on the mat"] * 4


GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "data" / "golden" / "tokenizer"


class Golden(unittest.TestCase):
    """What the packages made of texts, in files (tests/data/tokenizer_golden.py)."""

    def test_kinds(self):
        rows = json.loads((GOLDEN / "kinds.json").read_text(encoding="utf-8"))
        for name in ("xlm_roberta", "llama2", "clip", "mapped", "llama"):
            t = (T.sentencepiece(GOLDEN / (name + ".model")) if name in ("mapped", "llama")
                 else T.from_file(GOLDEN / (name + ".json")))
            for row in rows:
                plain, marked, text = row[name]
                self.assertEqual(t.encode(row["text"], False), plain, (name, row["text"]))
                self.assertEqual(t.encode(row["text"]), marked, (name, row["text"]))
                self.assertEqual(t.decode(marked, skip_special_tokens=True), text, (name, row["text"]))

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "spiece.model").write_bytes((GOLDEN / "llama.model").read_bytes())
            self.assertEqual(T.from_pretrained(folder).encode("the x"), T.sentencepiece(GOLDEN / "llama.model").encode(
                "the x"))


class Plain(unittest.TestCase):
    def test_bytes(self):
        t = T.bytes()
        self.assertEqual((len(t), t.vocab_size, t.encode("aé")), (256, 256, [97, 195, 169]))
        for text in TEXTS + ["\0zero"]:
            self.assertEqual(t.decode(t.encode(text)), text)
        self.assertEqual(t.encode(b"\xff\x00"), [255, 0])
        self.assertEqual((t.decode_bytes([255, 0]), t.decode([255])), (b"\xff\x00", "\ufffd"))

    def test_chars(self):
        t = T.chars("hello wörld")
        self.assertEqual(len(t), len(set("hello wörld")))
        self.assertEqual(t.decode(t.encode("low")), "low")
        self.assertEqual(t.encode("höd"), [sorted(set("hello wörld")).index(c) for c in "höd"])
        row = t.encode_tensor("hello")
        self.assertEqual((row.dtype, tuple(row.shape), t.decode(row)), (cairn.int64, (5,), "hello"))
        with self.assertRaises((ValueError, RuntimeError, IndexError)):
            t.encode("x")
        self.assertEqual((t.id_to_token(t.token_to_id("h")), t.token_to_id("?"), t.id_to_token(99)), ("h", None, None))

    def test_missing_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(FileNotFoundError):
                T.from_pretrained(folder)
            with self.assertRaises(OSError):
                T.from_file(folder + "/tokenizer.json")


@unittest.skipUnless(theirs, "Python's tokenizers package is not installed")
class Models(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def same(self, ours, other, special=True):
        for text in TEXTS:
            want = other.encode(text, add_special_tokens=special).ids
            self.assertEqual(ours.encode(text, special), want, text)
            self.assertEqual(ours.decode(want, skip_special_tokens=True), other.decode(want))

    def test_bpe(self):
        other = theirs.ByteLevelBPETokenizer()
        other.train_from_iterator(WORDS, vocab_size=300, min_frequency=1, show_progress=False)
        other.save_model(str(self.path))
        ours = T.bpe(self.path / "vocab.json", self.path / "merges.txt")
        self.same(ours, other)
        self.same(T.from_pretrained(self.path), other)
        self.assertEqual(len(ours), other.get_vocab_size())
        other.save(str(self.path / "tokenizer.json"))
        self.same(T.from_pretrained(self.path), other)

    def test_wordpiece(self):
        marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        other = theirs.BertWordPieceTokenizer(lowercase=True)
        other.train_from_iterator(WORDS, vocab_size=120, min_frequency=1, show_progress=False, special_tokens=marks)
        (self.path / "vocab.txt").write_text("\n".join(sorted(other.get_vocab(), key=other.get_vocab().get)))
        other = theirs.BertWordPieceTokenizer(str(self.path / "vocab.txt"), lowercase=True)
        ours = T.wordpiece(self.path / "vocab.txt")
        for special in (True, False):
            self.same(ours, other, special)
        self.assertEqual((ours.token_to_id("[SEP]"), ours.id_to_token(2), ours.pad_token_id), (3, "[CLS]", 0))
        self.batches(ours, other)

    def batches(self, ours, other):
        texts = ["low", "lower newest world"]
        other.enable_padding(pad_id=0)
        want = other.encode_batch(texts)
        made = ours(texts, padding=True)
        self.assertEqual(made["input_ids"].tolist(), [w.ids for w in want])
        self.assertEqual(made["attention_mask"].tolist(), [w.attention_mask for w in want])
        other.enable_truncation(4)
        want = other.encode_batch(texts)
        self.assertEqual(ours(texts, padding=True, truncation=True, max_length=4)["input_ids"].tolist(),
                         [w.ids for w in want])
        self.assertEqual(tuple(ours("low", padding="max_length", max_length=9)["input_ids"].shape), (1, 9))
        self.assertEqual(ours("low", return_tensors=None)["input_ids"], ours.encode("low"))
        with self.assertRaises(ValueError):
            ours(texts)
        self.assertEqual(ours.batch_decode(made["input_ids"], skip_special_tokens=True), texts)

    def test_cutting_and_padding_of_files(self):
        other = theirs.BertWordPieceTokenizer(lowercase=True)
        other.train_from_iterator(WORDS, vocab_size=120, min_frequency=1, show_progress=False,
                                  special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        other.post_processor = theirs.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        other = theirs.Tokenizer.from_str(other.to_str())
        texts = ["low", "", "the cat sat on the mat", "lower newest"]
        for cut in ({}, {"max_length": 4}, {"max_length": 5, "direction": "left", "stride": 2}):
            for pad in (None, {}, {"length": 7, "direction": "left", "pad_id": 4}, {"pad_to_multiple_of": 4}):
                other.no_truncation()
                other.no_padding()
                if cut:
                    other.enable_truncation(**cut)
                if pad is not None:
                    other.enable_padding(**pad)
                other.save(str(self.path / "tokenizer.json"))
                ours = T.from_file(self.path / "tokenizer.json")
                for special in (True, False):
                    self.assertEqual([ours.encode(t, special) for t in texts],
                                     [other.encode(t, add_special_tokens=special).ids for t in texts], (cut, pad))
                    self.assertEqual(ours.encode_batch(texts, special),
                                     [e.ids for e in other.encode_batch(texts, add_special_tokens=special)])
                self.assertEqual(ours.encode_tensor(texts[2]).tolist(), ours.encode(texts[2]))
        for wrong in (lambda t: t.enable_padding(direction="up"), lambda t: t.enable_truncation(-1),
                      lambda t: t.enable_truncation(1) or t.encode("low low")):
            with self.assertRaises(ValueError):
                wrong(ours)

    def test_json(self):
        vocab = {"<unk>": 0, "a": 1, "b": 2, "ab": 3}
        model = {"version": "1.0", "model": {"type": "BPE", "vocab": vocab, "merges": ["a b"], "unk_token": "<unk>"}}
        (self.path / "tokenizer.json").write_text(json.dumps({**model, "added_tokens": [], "normalizer": None,
                                                              "pre_tokenizer": None, "post_processor": None,
                                                              "decoder": None, "truncation": None, "padding": None}))
        try:
            ours = T.from_file(self.path / "tokenizer.json")
        except (NotImplementedError, OSError, ValueError) as error:
            self.assertIn("tokenizer.json", str(error))  # a kind it does not know is refused by name
        else:
            self.assertEqual(ours.encode("ab"), [3])


if __name__ == "__main__":
    unittest.main()
