#!/usr/bin/env python3
"""Writes src/data/unicode.gen.h: what tokenizers must know of each Unicode character.

usage: tools/make-unicode.py        (needs Python's `tokenizers` package; only to make the tables anew)

The published token numbers of GPT-2 and BERT are those of one implementation, the `tokenizers` library, and it takes
letters from one version of Unicode, accents and punctuation from another, much older one. So the tables are made by
asking that library about every character; Python's unicodedata adds the order of combining marks, which can only be
seen in sequences, and each value it gives is checked with the library as well.
"""
import pathlib
import unicodedata

import tokenizers
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

OUT = pathlib.Path(__file__).resolve().parents[1] / "src" / "data" / "unicode.gen.h"
LETTER, NUMBER, SPACE, CONTROL, MARK, STARTER, PUNCTUATION, CJK = (1 << i for i in range(8))  # as in unicode.h
HANGUL = range(0xAC00, 0xD7A4)
TONE = "\u302e"    # a mark that stays and stands behind nearly all others (class 224)
VIRAMA = "\u1b44"  # one that stays and stands before nearly all others (class 9)


def normalizer(**on):
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return BertNormalizer(**{name: on.get(name, False) for name in names}).normalize_str


CLEAN, CHINESE = normalizer(clean_text=True), normalizer(handle_chinese_chars=True)
STRIP, LOWER = normalizer(strip_accents=True), normalizer(lowercase=True)
WORDS = BertPreTokenizer().pre_tokenize_str
PIECES = ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str


def one_piece(text):
    return len(PIECES(text)) == 1


def classes(c):
    """The bits of one character."""
    bits = 0
    if one_piece("a" + c):
        bits |= LETTER
    elif one_piece("1" + c):
        bits |= NUMBER
    elif not one_piece("!" + c):
        bits |= SPACE
    if CLEAN("a" + c + "b") == "ab":
        bits |= CONTROL
    if STRIP(c) == "":
        bits |= MARK
        if STRIP(TONE + c + VIRAMA)[0] == TONE:
            bits |= STARTER
    if len(WORDS("a" + c + "b")) == 3:
        bits |= PUNCTUATION
    if CHINESE(c) != c:
        bits |= CJK
    return bits


def order(c):
    """The class by which a mark that stays is put in order; 0: it stays where it is."""
    value = unicodedata.combining(c)
    moves = STRIP(TONE + c) == c + TONE if value < 224 else STRIP(c + VIRAMA) == VIRAMA + c
    return value if moves else 0


def case_runs(lower):
    """Runs of capitals whose small letters are equally far away: (first, count, step, distance)."""
    runs = []
    for c, to in sorted(lower.items()):
        first, count, step, distance = runs[-1] if runs else (0, 0, 0, 0)
        gap = c - (first + (count - 1) * step)
        if count and to - c == distance and (gap == step or (count == 1 and gap in (1, 2))):
            runs[-1] = (first, count + 1, gap, distance)
        else:
            runs.append((c, 1, 1, to - c))
    return runs


def table(name, kind, values, note):
    lines, line = [], " "
    for v in values:
        if len(line) + len(v) > 116:
            lines.append(line)
            line = " "
        line += f" {v},"
    lines.append(line)
    return f"/* {note} */\nstatic const {kind} {name}[{len(values)}] = {{\n" + "\n".join(lines) + "\n};\n"


def main():
    ranges, lower, parts, orders = [], {}, [], []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        text = chr(c)
        bits = classes(text)
        if not ranges or ranges[-1][1] != bits:
            ranges.append((c, bits))
        low = LOWER(text)
        if low != text and len(low) == 1:
            lower[c] = ord(low)
        if low != text and len(low) > 1 and c != 0x130:
            raise SystemExit(f"U+{c:04X}: a lower case of {len(low)} characters, which unicode.c does not know")
        rest = STRIP(text)
        if rest not in ("", text) and c not in HANGUL:
            parts.append((c, rest))
        if rest == text and unicodedata.combining(text) and order(text):
            orders.append((c, order(text)))
    runs = case_runs(lower)
    pool = [ord(x) for _, rest in parts for x in rest]
    starts, at = [], 0
    for _, rest in parts:
        starts.append(at)
        at += len(rest)
    head = f"""/* unicode.gen.h: what tokenizers must know of each character, made by tools/make-unicode.py with version
 * {tokenizers.__version__} of the tokenizers library. Do not edit. Included by unicode.c alone. */
#ifndef CNI_DATA_UNICODE_GEN_H
#define CNI_DATA_UNICODE_GEN_H

#include <stdint.h>

typedef struct letter_case {{
  uint32_t first;
  uint16_t count, step;
  int32_t distance;
}} letter_case;

"""
    body = [
        table("classes", "uint32_t", [hex(c << 8 | bits) for c, bits in ranges],
              "A character from which on others have the bits in the low byte."),
        table("cases", "letter_case", [f"{{{a:#x}, {b}, {c}, {d}}}" for a, b, c, d in runs],
              "Capital letters: first, count, step, how far away the small one is."),
        table("composed", "uint32_t", [hex(c) for c, _ in parts],
              "Characters that are a base and accents, without Hangul syllables."),
        table("bases", "uint16_t", [str(s) for s in [*starts, at]],
              "Where in the next table what is left of each without accents begins; one more for the end."),
        table("base_pool", "uint32_t", [hex(c) for c in pool], "See above."),
        table("orders", "uint32_t", [hex(c << 8 | o) for c, o in orders],
              "Marks that stay and are put in order: character, class."),
    ]
    sizes = [("CLASSES", len(ranges)), ("CASES", len(runs)), ("COMPOSED", len(parts)), ("ORDERS", len(orders))]
    text = head + "\n".join(body) + "\n#endif\n"
    OUT.write_text(text, encoding="utf-8")
    bytes_used = 4 * (len(ranges) + len(parts) + len(pool) + len(orders)) + 12 * len(runs) + 2 * len(starts)
    print(f"{OUT.name}: {bytes_used} bytes of tables;", ", ".join(f"{n} {name.lower()}" for name, n in sizes))


if __name__ == "__main__":
    main()
