"""Small tokenizers of the kinds that well-known models have, trained here with Python's `tokenizers` package, and every
step that a tokenizer.json may have by itself. Used by tokenizer_golden.py and test_tokenizer_live.py."""
import base64
import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

import tokenizer_cases as cases

MARK = "\u2581"
TEXT = cases.corpus() + ["ﬁne Ｆｕｌｌ ½ ① ㌔ e\u0301 Å ḍ̇ 각 ⅷ"] * 20


def charsmap(pairs):
    """A map of characters as SentencePiece writes it: a trie by bytes, and texts."""
    units, used, texts = [0] * 4096, {0}, b""
    tree = {}
    for key, text in pairs.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += text.encode() + b"\0"

    def place(node, at, base):
        """Children of a node lie at base ^ byte, its value at base."""
        units[at] |= (at ^ base) << 10
        used.update(base ^ (0 if b is None else b) for b in node)
        if None in node:
            units[at] |= 1 << 8
            units[base] = 1 << 31 | node[None]
        for byte in (b for b in node if b is not None):
            child = base ^ byte
            units[child] |= byte
            free = next(f for f in range(256, 4096) if not {f ^ (0 if b is None else b) for b in node[byte]} & used)
            place(node[byte], child, free)

    place(tree, 0, 256)
    count = max(used) // 256 * 256 + 256  # all bytes have a place
    blob = (4 * count).to_bytes(4, "little") + b"".join(u.to_bytes(4, "little") for u in units[:count]) + texts
    return base64.b64encode(blob).decode()


SOME = charsmap({"ﬁ": "fi", "½": "1/2", "\u3000": " ", "\t": " ", "e\u0301": "é", "A": "a", "Ⅷ": "VIII",
                 "\u200b": "", "É": "e", "\u0301": "'", "漢": "kan", "☃": "snow man", "x": "", "\r\n": "\n"})


def with_json(t, **parts):
    """The tokenizer with parts of its description replaced, for what the package has no constructor for."""
    described = json.loads(t.to_str())
    described.update(parts)
    return Tokenizer.from_str(json.dumps(described))


def unigram(**how):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace(**how)
    t.decoder = decoders.Metaspace(**how)
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(
        vocab_size=400, show_progress=False, unk_token="<unk>", special_tokens=["<s>", "<pad>", "</s>", "<unk>"]))
    return t


def template(t, first, last):
    ids = [(name, t.token_to_id(name)) for name in (first, last) if name]
    return processors.TemplateProcessing(single=" ".join(x for x in (first, "$A", last) if x), special_tokens=ids)


def t5():
    t = unigram(prepend_scheme="always")
    t.post_processor = template(t, None, "</s>")
    return with_json(t, normalizer={"type": "Precompiled", "precompiled_charsmap": SOME})


def xlm_roberta():
    t = unigram(prepend_scheme="always")
    t.post_processor = template(t, "<s>", "</s>")
    t = with_json(t, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": SOME},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]})
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return t


def albert():
    t = unigram(prepend_scheme="always")
    t.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
    return t


def unigram_bytes():
    t = unigram(prepend_scheme="first")
    described = json.loads(t.to_str())
    described["model"]["byte_fallback"] = True
    described["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
    described["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(described))


def bpe(initial=(), **how):
    trained = {k: v for k, v in how.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    t = Tokenizer(models.BPE(unk_token="<unk>", **how))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *initial], limit_alphabet=80,
        **trained))
    return t


def llama2():
    """Byte fallback; no cutting at all: spaces are marks for the whole text."""
    t = bpe(["<0x%02X>" % b for b in range(256)], byte_fallback=True, fuse_unk=True)
    for s in ("<0x%02X>" % b for b in range(256)):
        assert t.token_to_id(s) is not None
    described = json.loads(t.to_str())
    described["added_tokens"] = [a for a in described["added_tokens"] if not a["content"].startswith("<0x")]
    described.update(
        pre_tokenizer=None,
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]},
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    t = Tokenizer.from_str(json.dumps(described))
    t.post_processor = template(t, "<s>", None)
    return t


def gemma():
    t = llama2()
    t.normalizer = normalizers.Replace(" ", MARK)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return t


def clip():
    """Words with an end, as characters; unknown ones stand alone."""
    t = bpe(end_of_word_suffix="</w>")
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                         normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    return t


def prefixed():
    t = bpe(continuing_subword_prefix="##", fuse_unk=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def neox():
    t, _ = cases.train_bpe()
    t.normalizer = normalizers.NFC()
    return t


def bytes_in_steps():
    """What needs the general way: numbers digit by digit before GPT-2's words."""
    t, added = cases.train_bpe()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=True)])
    t.add_tokens(added)
    return t


def roberta():
    t, _ = cases.train_bpe()
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def electra():
    """WordPiece with other steps than BERT's."""
    t = cases.train_wordpiece()
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Punctuation("merged_with_next")])
    return t


def words():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(TEXT, trainers.WordLevelTrainer(vocab_size=200, show_progress=False,
                                                          special_tokens=["<unk>", "<pad>", "|"]))
    return t


def ctc():
    t = words()
    t.decoder = decoders.CTC(pad_token="<pad>", word_delimiter_token="|")
    return t


def of_steps(normalizer=None, cut=None):
    """Characters as tokens, so that the steps are seen."""
    t = bpe()
    t.normalizer, t.pre_tokenizer = normalizer, cut
    t.decoder = decoders.Fuse()
    return t


KINDS = {f.__name__: f for f in (t5, xlm_roberta, albert, unigram_bytes, llama2, gemma, clip, prefixed, neox,
                                 bytes_in_steps, roberta, electra, words, ctc)}
N, P = normalizers, pre_tokenizers
NORMALIZERS = {
    "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lowercase": N.Lowercase(),
    "accents": N.StripAccents(), "strip": N.Strip(), "left": N.Strip(True, False), "right": N.Strip(False, True),
    "nmt": N.Nmt(), "bert": N.BertNormalizer(), "prepend": N.Prepend("ab"), "replace": N.Replace("th", "TH "),
    "spaces": N.Replace(Regex(r"\s+"), "_"), "bytes": N.ByteLevel(),
    "all": N.Sequence([N.NFD(), N.StripAccents(), N.Sequence([N.Lowercase(), N.NFC()])])}
CUTS = {
    "whitespace": P.Whitespace(), "split": P.WhitespaceSplit(), "digits": P.Digits(), "each": P.Digits(True),
    "delimiter": P.CharDelimiterSplit("e"), "bert": P.BertPreTokenizer(), "bytes": P.ByteLevel(),
    "plain": P.ByteLevel(add_prefix_space=False, use_regex=False), "meta": P.Metaspace(),
    "first": P.Metaspace(prepend_scheme="first"), "never": P.Metaspace(prepend_scheme="never"),
    "whole": P.Metaspace(split=False), "inverted": P.Split("an", "removed", invert=True),
    **{b: P.Split("  ", b) for b in ("removed", "isolated", "merged_with_previous", "merged_with_next",
                                     "contiguous")},
    **{"p_" + b: P.Punctuation(b) for b in ("removed", "isolated", "merged_with_previous", "merged_with_next",
                                            "contiguous")}}
