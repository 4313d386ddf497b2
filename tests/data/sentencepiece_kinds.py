"""Small SentencePiece models of several kinds, trained here with Python's `sentencepiece` package. Used by
tokenizer_golden.py and test_tokenizer_live.py."""
import io
import tempfile

import sentencepiece

import tokenizer_cases as cases

TEXT = cases.corpus() + ["ﬁne Ｆｕｌｌ ½ ① ㌔ e\u0301 Å 각"] * 20
KINDS = {
    "unigram": {}, "bpe": {"model_type": "bpe"},
    "unigram_bytes": {"byte_fallback": True, "vocab_size": 400},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 500},
    "unigram_user": {"user_defined_symbols": ["<sep>", "they", " the", "x+"], "control_symbols": ["<ctl>"]},
    "bpe_user": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "they", "é"], "control_symbols": ["<ctl>"]},
    "identity": {"normalization_rule_name": "identity"},
    "folded": {"normalization_rule_name": "nmt_nfkc_cf", "remove_extra_whitespaces": False},
    "plain": {"add_dummy_prefix": False, "unk_surface": "?"},
    "suffix": {"treat_whitespace_as_suffix": True},
    "mapped": {"user_defined_symbols": ["<sep>", "they", "x+"], "control_symbols": ["<ctl>"], "rules": {
        "ﬁ": "fi", "½": "1/2", "\t": " ", "\n": " ", "\u3000": " ", "e\u0301": "é", "é": "e", "a": "A", "aa": "b",
        "\u200b": "", "漢": "kan ji"}},
    "llama": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 500, "normalization_rule_name": "identity",
              "remove_extra_whitespaces": False, "split_digits": True, "allow_whitespace_only_pieces": True},
}


def train(name):
    """The bytes of such a model."""
    made = io.BytesIO()
    how = {"vocab_size": 260, "character_coverage": 0.98, "minloglevel": 2, "hard_vocab_limit": False, **KINDS[name]}
    if how.get("model_type") == "bpe":
        del how["hard_vocab_limit"]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for key, text in how.pop("rules", {}).items():
            rules.write("%s\t%s\n" % tuple(" ".join("%04X" % ord(c) for c in part) for part in (key, text)))
        rules.flush()
        if rules.tell():
            how["normalization_rule_tsv"] = rules.name
        return _train(how, made)


def _train(how, made):
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=made, **how)
    return made.getvalue()


def load(data):
    return sentencepiece.SentencePieceProcessor(model_proto=data)
