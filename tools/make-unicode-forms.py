#!/usr/bin/env python3
"""Writes src/data/unicode_forms.gen.h: Unicode's normal forms, and what else the steps of a tokenizer.json must know of
each character.

usage: tools/make-unicode-forms.py        (needs Python's `tokenizers` package; only to make the tables anew)

As in make-unicode.py the library is asked about every character, because token numbers are those of its version of
Unicode. Python's unicodedata adds the classes by which combining marks are put in order; each is checked with the
library.
"""
import base64
import json
import pathlib
import struct
import unicodedata

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[1] / "src" / "data" / "unicode_forms.gen.h"
WORD, COMBINING, NUMERIC, ATTACHES, PREPENDS, BREAKS, PICTURE = (1 << i for i in range(7))  # as in unicode_forms.h
HANGUL = range(0xAC00, 0xD7A4)
NFD, NFKD, NFC = (getattr(normalizers, name)().normalize_str for name in ("NFD", "NFKD", "NFC"))
STRIP = normalizers.StripAccents().normalize_str
WORDS = pre_tokenizers.Whitespace().pre_tokenize_str
DIGITS = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str
TONE = "\u302e"     # class 224
OVERLAY = "\u0334"  # class 1


def one_for_each_cluster():
    """A normaliser that makes an X of each grapheme cluster of less than 6 bytes: a map that has every first byte."""
    units = [0] * 1024
    units[0] = 256 << 10
    for byte in range(1, 256):
        units[256 + byte] = byte | 1 << 8 | 512 << 10
        units[768 + byte] = 1 << 31
    blob = struct.pack("<I", 4 * len(units)) + struct.pack("<1024I", *units) + b"X\0"
    t = json.loads(Tokenizer(models.BPE()).to_str())
    t["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}
    return Tokenizer.from_str(json.dumps(t)).normalizer.normalize_str


CLUSTERS = one_for_each_cluster()


def bits_of(c):
    bits = 0
    if len(WORDS("a" + c)) == 1 and WORDS("a" + c)[0][0] == "a" + c:
        bits |= WORD
    if STRIP(c) == "":
        bits |= COMBINING
    if len(DIGITS("a" + c + "b")) == 3:
        bits |= NUMERIC
    if CLUSTERS("a" + c) == "X":
        bits |= ATTACHES
    if CLUSTERS(c + "a") == "X":
        bits |= PREPENDS
    if CLUSTERS(c + "\u0301\u0301") == "XX":  # else one cluster, of few bytes or of three X
        bits |= BREAKS
    if len(CLUSTERS("\u00a9\u200d" + c)) == 3:  # one cluster of 6 bytes and more: an X a character
        bits |= PICTURE
    return bits


def order(c):
    """The class by which a mark is put in order, 0: it stays where it is."""
    value = unicodedata.combining(c)
    if value >= 224:
        return value if NFD(c + OVERLAY) == OVERLAY + c else 0
    moves = NFD(TONE + c) == c + TONE
    if moves and not value:
        raise SystemExit(f"U+{ord(c):04X}: a mark that Python does not know")
    return value if moves else 0


def table(name, kind, values, note):
    lines, line = [], " "
    for v in values:
        if len(line) + len(v) > 116:
            lines.append(line)
            line = " "
        line += f" {v},"
    lines.append(line)
    return f"/* {note} */\nstatic const {kind} {name}[{len(values)}] = {{\n" + "\n".join(lines) + "\n};\n"


def mapped(name, parts, note):
    """Characters, where the texts of each begin, and the texts."""
    pool, starts, at = [], [], 0
    for _, text in parts:
        starts.append(at)
        at += len(text)
        pool += [hex(ord(x)) for x in text]
    return [table(name, "uint32_t", [hex(c) for c, _ in parts], note),
            table(name + "_starts", "uint16_t", [str(s) for s in [*starts, at]], "Where in the pool each begins."),
            table(name + "_pool", "uint32_t", pool, "The texts.")]


def main():
    ranges, canonical, compatible, orders, pairs = [], [], [], [], []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        text = chr(c)
        bits = bits_of(text)
        if not ranges or ranges[-1][1] != bits:
            ranges.append((c, bits))
        if c in HANGUL:
            continue
        d, k = NFD(text), NFKD(text)
        if d != text:
            canonical.append((c, d))
            if NFC(text) == text:
                first = NFC(d[:-1])
                if len(first) != 1 or NFC(first + d[-1]) != text:
                    raise SystemExit(f"U+{c:04X}: not made of two")
                pairs.append((ord(first), ord(d[-1]), c))
        elif order(text):
            orders.append((c, order(text)))
        if k != d:
            compatible.append((c, k))
    head = f"""/* unicode_forms.gen.h: Unicode's normal forms and classes of characters, made by
 * tools/make-unicode-forms.py with version {tokenizers.__version__} of the tokenizers library. Do not edit. Included by
 * unicode_forms.c alone. */
#ifndef CNI_DATA_UNICODE_FORMS_GEN_H
#define CNI_DATA_UNICODE_FORMS_GEN_H

#include <stdint.h>

"""
    body = [table("more_classes", "uint32_t", [hex(c << 8 | bits) for c, bits in ranges],
                  "A character from which on others have the bits in the low byte."),
            *mapped("canonical", canonical, "Characters that NFD takes apart."),
            *mapped("compatible", compatible, "Characters that NFKD makes something else of than NFD."),
            table("all_orders", "uint32_t", [hex(c << 8 | o) for c, o in orders],
                  "Marks that are put in order: character, class."),
            table("pairs", "uint32_t", [hex(x) for p in sorted(pairs) for x in p],
                  "What NFC puts together: first, second, both.")]
    OUT.write_text(head + "\n".join(body) + "\n#endif\n", encoding="utf-8")
    print(len(ranges), len(canonical), len(compatible), len(orders), len(pairs))


if __name__ == "__main__":
    main()
