"""What the Python sides have in common: the dialogue with bench/run, the clock and the data; serve.h in Python.

Place in the flow: bench/run starts `python works.py LIBRARY THREADS`, which hands its table of works to serve().
Invariant: both libraries get the same numbers and run the same loop; the garbage collector is off while it is timed.
"""
import gc
import json
import math
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Work(NamedTuple):
    name: str
    variant: str  # one of several ways to do it; "" when there is one
    unit: str  # of `amount`: "call", "step"
    amount: float  # what one call does
    setup: Callable[[], None]  # makes a fresh state, the same every time
    run: Callable[[int], object]  # n calls; the loop lies inside
    check: Callable[[], float]  # right after setup: a number on which all sides agree


def fill(n: int, seed: int, scale: float) -> list[float]:
    """n numbers evenly spread over (-scale, scale): those of bench_fill in serve.h."""
    x, out = (seed * 0x9E3779B97F4A7C15 + 1) % 2**64, []
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        signed = (x >> 32) - (2**32 if x >> 63 else 0)
        out.append(struct.unpack("f", struct.pack("f", scale * signed / 2147483648.0))[0])
    return out


def label(i: int, classes: int) -> int:
    return (i * 7 + 3) % classes


def timed(work: Work, n: int) -> float:
    gc.disable()
    start = time.perf_counter()
    work.run(n)
    took = time.perf_counter() - start
    gc.enable()
    return took


def calibrate(work: Work, seconds: float) -> int:
    """Warms up for at least `seconds`; answers how many calls last about that long."""
    begin, took, n = time.perf_counter(), timed(work, 1), 1
    while took < 0.7 * seconds or time.perf_counter() - begin < seconds:
        factor = min(10.0, seconds / took if took > 0 else 10.0)
        n = math.ceil(n * factor)  # up, or a call of half the time would never become two
        took = timed(work, n)
    return n


def answer(works: list[Work], words: list[str]) -> dict[str, object]:
    if words[:1] == ["list"]:
        return {"works": [dict(name=w.name, variant=w.variant, unit=w.unit, amount=w.amount) for w in works]}
    name, _, variant = words[1].partition(":")
    work = next((w for w in works if (w.name, w.variant) == (name, variant)), None)
    if work is None:
        return {"error": "no such work"}
    if words[0] in ("setup", "check"):
        work.setup()
        return {"value": work.check() if words[0] == "check" else 0}
    if words[0] == "warm":
        return {"calls": calibrate(work, float(words[2]))}
    if words[0] == "round":
        return {"seconds": timed(work, int(words[2])) / int(words[2])}
    return {"error": "not understood"}


def serve(works: list[Work]) -> None:
    """Answers requests on standard input with one JSON line each, until it ends."""
    for line in sys.stdin:
        try:
            said = answer(works, line.split())
        except Exception as error:  # the runner leaves this side out and names the reason
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)
