"""Texts on which tokenizers are compared, and small vocabularies to do it with. Used by tokenizer_golden.py and
test_tokenizer_live.py; the vocabularies need Python's `tokenizers` package."""
import random
import string

HAND = [
    "", " ", "  ", "\n", "\t\t", " a", "a ", "  a  b   c ", "Hello, world!",
    "It's what we'll've done; they're 'tis, I'm I'd.", "can't CAN'T don'T", "' s 's ''s",
    "the quick brown fox jumps over the lazy dog", "1234567890 3.14159 ½ Ⅷ ٣",
    "a\u00a0b\u2003c\u3000d\u0085e\u200bf\u2028g", "tab\tand\r\nline\n\n\nends \n",
    "naïve café résumé Ångström Ǆ ǅ ß ẞ İ ı", "e\u0301 a\u0308\u0323 q\u0307\u0323 \u0301alone", "Ελληνικά ΣΊΣΥΦΟΣ",
    "Привет, мир! Ёжик", "שָׁלוֹם עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界。漢字仮名交じり文",
    "한국어 텍스트 각", "ᄀ\u1161\u11a8", "😀👩‍👩‍👧‍👦🏳️‍🌈 👍🏽", "\x00\x01\x02\x7f\x80\x9f",
    "\ufffd\ufeff\ue000\U0010ffff\U000e0001", "a" * 99, "b" * 100, "c" * 101, "ab" * 300, "é" * 101,
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> <|endoftext|><|endoftext|>",
    "[CLS] a [SEP] b[MASK]c [UNK] [PAD] [cls]", "don't do not . , ! ? n't 'm 's 've 're ' quoted '",
    "http://example.org/?q=a%20b&c=d#e", "def f(x):\n    return x ** 2\n", "x = {'a': [1, 2], \"b\": (3,)}",
    "$100 £5 €7 ^~`|<>=+", "A.B.C. e.g. U.S.A", "snake_case camelCase kebab-case", "\u302e\u1b44a\u302e\U00016ff0",
    "\u0344\u0958\u2126\uf900\ufb1d\U0001d15e\U0002f800", "\ud55c" * 5, "ﬁ ﬂ Ｆｕｌｌ", "  \u00a0 x",
]
RANGES = [
    (0x20, 0x7F), (0, 0x20), (0x80, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x530), (0x530, 0x700),
    (0x700, 0xE00), (0xE00, 0x1200), (0x1100, 0x1200), (0x1200, 0x2000), (0x2000, 0x2C00), (0x2C00, 0x3000),
    (0x3000, 0x3400), (0x3400, 0xA000), (0xA000, 0xABFF), (0xAC00, 0xD7A4), (0xE000, 0xFFFE), (0x10000, 0x12000),
    (0x12000, 0x17000), (0x17000, 0x1D000), (0x1D000, 0x20000), (0x1F300, 0x1FB00), (0x20000, 0x33000),
    (0xE0000, 0xE0200), (0x33000, 0x110000),
]
MARKS = ("\u0300\u0301\u0323\u0327\u0345\u05b0\u0651\u093c\u094d\u1b44"
         "\u302e\u302f\u3099\U00016ff0\U0001d165\U0001d16d\u20dd\u0488")
WORDS = """the of and to in is was for on that with as it be at by are this from which or have not had they but
one you were all there would their we him been has when who will no more if out so up said what its
about than into them can only other time new some could these two may first then do any like my now
over such our man even most made after also did many must through years where much your way well
down should because each just those people state little world neural network gradient training model
tokenization uncharacteristically antidisestablishmentarianism don't they're it's we'll I've I'm
she'd""".split()


def letter(rng, low, high):
    c = rng.randrange(low, high)
    return chr(c) if not 0xD800 <= c < 0xE000 else "x"


def one(rng):
    """One text at random, of one of several makes."""
    kind = rng.randrange(8)
    n = rng.choice([1, 2, 3, 5, 8, 13, 30])
    if kind == 0:  # all of Unicode
        return "".join(letter(rng, *rng.choice(RANGES)) for _ in range(n))
    if kind == 1:  # of one script, with spaces
        low, high = rng.choice(RANGES)
        return "".join(" " if rng.random() < 0.2 else letter(rng, low, high) for _ in range(n))
    if kind == 2:  # bases and marks
        return "".join(rng.choice(string.ascii_letters + "каяがはἀ") if rng.random() < 0.4 else rng.choice(MARKS)
                       for _ in range(n))
    if kind == 3:  # ASCII of all sorts
        return "".join(rng.choice(string.printable) for _ in range(4 * n))
    if kind == 4:  # white space
        return "".join(rng.choice(" \t\n\r\v\f\u0085\u00a0\u2003\u3000ab1'.") for _ in range(n))
    if kind == 5:  # long words
        return rng.choice("aZé漢1.") * rng.randrange(1, 260)
    words = [rng.choice(WORDS) for _ in range(n)]
    if kind == 6:
        words = [w if rng.random() < 0.7 else rng.choice([w.upper(), w.capitalize(), w + ",", w + ".", "(" + w + ")",
                                                           str(rng.randrange(100000)), w + w, "é" + w])
                 for w in words]
    else:
        words = [w if rng.random() < 0.8 else rng.choice(["<|endoftext|>", "[MASK]", "[SEP]", "<|x|>"]) for w in words]
    return rng.choice(["", " "]) + rng.choice([" ", " ", "  ", ""]).join(words) + rng.choice(["", " ", "\n"])


def texts(n, seed=1):
    rng = random.Random(seed)
    return HAND + [one(rng) for _ in range(n - len(HAND))]


def corpus():
    rng = random.Random(7)
    lines = [" ".join(rng.choice(WORDS) for _ in range(30)) for _ in range(200)]
    return lines + ["naïve café Привет мир 你好 世界 😀 1234 5678 don't (x + y) * z; é ü ß ¿qué?"] * 20


def train_bpe():
    """GPT-2's kind: bytes, and what their most frequent pairs make. The added tokens show every way of adding."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=600, show_progress=False, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t, [AddedToken("<|x|>", lstrip=True, rstrip=True, normalized=False), AddedToken("ther", single_word=True),
               AddedToken("they're it")]


def train_wordpiece():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=500, show_progress=False, special_tokens=special))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, t.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    return t
