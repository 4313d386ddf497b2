"""Numbers of texts that are the same everywhere: FarmHash's 64-bit fingerprint, SipHash-2-4 with a key, crosses."""
from __future__ import annotations

__all__ = ["crossed", "fingerprint", "siphash"]

_ALL = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _turned(v: int, by: int) -> int:
    """To the right."""
    v &= _ALL
    return ((v >> by) | (v << (64 - by))) & _ALL


def _mixed(v: int) -> int:
    v &= _ALL
    return v ^ (v >> 47)


def _joined(u: int, v: int, by: int) -> int:
    a = _mixed((u ^ v) * by)
    b = _mixed(((v & _ALL) ^ a) * by)
    return b * by & _ALL


def _word(s: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(s[at:at + size], "little")


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes with two seeds."""
    w, x, y, z = (_word(s, at + 8 * i) for i in range(4))
    a = (a + w) & _ALL
    b = _turned(b + a + z, 21)
    c = a
    a = (a + x + y) & _ALL
    return (a + z) & _ALL, (b + _turned(a, 44) + c) & _ALL


def fingerprint(s: bytes) -> int:
    n = len(s)
    by = (_K2 + n * 2) & _ALL
    if n > 64:
        return _long(s)
    if n > 16:
        a, b = _word(s, 0) * (_K1 if n <= 32 else _K2) & _ALL, _word(s, 8)
        c, d = _word(s, n - 8) * by & _ALL, _word(s, n - 16) * _K2 & _ALL
        y = _turned(a + b, 43) + _turned(c, 30) + d & _ALL
        z = _joined(y, a + _turned(b + _K2, 18) + c & _ALL, by)
        if n <= 32:
            return z
        e, f = _word(s, 16) * by & _ALL, _word(s, 24)
        g, h = (y + _word(s, n - 32)) * by & _ALL, (z + _word(s, n - 24)) * by & _ALL
        return _joined(_turned(e + f, 43) + _turned(g, 30) + h & _ALL, e + _turned(f + a, 18) + g & _ALL, by)
    if n >= 8:
        a, b = (_word(s, 0) + _K2) & _ALL, _word(s, n - 8)
        return _joined(_turned(b, 37) * by + a & _ALL, (_turned(a, 25) + b) * by & _ALL, by)
    if n >= 4:
        return _joined(n + (_word(s, 0, 4) << 3), _word(s, n - 4, 4), by)
    if n:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[n - 1] << 2)
        return _mixed(y * _K2 & _ALL ^ z * _K0 & _ALL) * _K2 & _ALL
    return _K2


def _long(s: bytes) -> int:
    """More than 64 bytes, in blocks of 64; the last block overlaps the one before."""
    n = len(s)
    x, y = 81, (81 * _K1 + 113) & _ALL
    z = _mixed(y * _K2 + 113) * _K2 & _ALL
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _word(s, 0)) & _ALL
    end = (n - 1) // 64 * 64
    by, extra = _K1, 1
    for at in [*range(0, end, 64), n - 64]:
        if at == n - 64:
            by, extra = (_K1 + ((z & 0xFF) << 1)) & _ALL, 9
            w = ((w[0] + (n - 1 & 63)) & _ALL, w[1])
            v = ((v[0] + w[0]) & _ALL, v[1])
            w = ((w[0] + v[0]) & _ALL, w[1])
        x = _turned(x + y + v[0] + _word(s, at + 8), 37) * by & _ALL
        y = _turned(y + v[1] + _word(s, at + 48), 42) * by & _ALL
        x ^= w[1] * extra & _ALL
        y = (y + v[0] * extra + _word(s, at + 40)) & _ALL
        z = _turned(z + w[0], 33) * by & _ALL
        v = _weak(s, at, v[1] * by & _ALL, (x + w[0]) & _ALL)
        w = _weak(s, at + 32, (z + w[1]) & _ALL, (y + _word(s, at + 16)) & _ALL)
        z, x = x, z
    return _joined(_joined(v[0], w[0], by) + _mixed(y) * _K0 + z & _ALL, _joined(v[1], w[1], by) + x & _ALL, by)


def siphash(s: bytes, key: tuple[int, int]) -> int:
    """Two rounds for each word, four at the end."""
    a, b = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D
    c, d = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def rounds(many: int) -> None:
        nonlocal a, b, c, d
        for _ in range(many):
            a, c = (a + b) & _ALL, (c + d) & _ALL
            b, d = _turned(b, 51) ^ a, _turned(d, 48) ^ c
            a = _turned(a, 32)
            c, a = (c + b) & _ALL, (a + d) & _ALL
            b, d = _turned(b, 47) ^ c, _turned(d, 43) ^ a
            c = _turned(c, 32)
    whole = s + bytes(7 - len(s) % 8) + bytes([len(s) & 0xFF])
    for at in range(0, len(whole), 8):
        m = _word(whole, at)
        d ^= m
        rounds(2)
        a ^= m
    c ^= 0xFF
    rounds(4)
    return a ^ b ^ c ^ d


def crossed(values: list[int]) -> int:
    """One number of several, in this order."""
    by, made = 0xC6A4A7935BD1E995, 0xDECAFCAFFE
    for value in values:
        made = (made ^ by ^ _mixed(value * by) * by & _ALL) * by & _ALL
        made = _mixed(_mixed(made) * by)
    return made
