#!/usr/bin/env python3
"""GPT-2 124M writes 256 tokens behind 16, batch 1, bfloat16, always the likeliest token: cairn beside transformers, plain
and with a static cache under torch.compile, each in processes of its own, in turn.

usage: bench/gpu/generate.py [ROUNDS [WHO...]]
ROUNDS: how often each runs (1). WHO: cairn, transformers, transformers-static (all three).
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), torch with CUDA and transformers. Prints tokens a second
(the best of three, after one that warms up) and the first call's time.
"""
import subprocess
import sys
import time

NEW = 256


def cairn_writer():
    import cairn
    model = cairn.models.gpt2().to("cuda").to(cairn.bfloat16).eval()
    tokens = cairn.randint(0, 50257, (1, 16), device="cuda")

    def write():
        assert cairn.models.generate(model, tokens, max_new_tokens=NEW, do_sample=False).shape[1] == 16 + NEW
        cairn.cuda.synchronize()

    return write


def transformers_writer(static):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config()).to("cuda").to(torch.bfloat16).eval()
    tokens = torch.randint(0, 50257, (1, 16), device="cuda")
    more = {"cache_implementation": "static"} if static else {}  # transformers compiles its steps then

    def write():
        with torch.no_grad():
            model.generate(tokens, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0, **more)
        torch.cuda.synchronize()

    return write


def one(who):
    write = cairn_writer() if who == "cairn" else transformers_writer(who.endswith("-static"))
    took = []
    for _ in range(4):
        begin = time.perf_counter()
        write()
        took.append(time.perf_counter() - begin)
    print(f"{who:20s} {NEW / min(took[1:]):10,.0f} tokens/s   first call {took[0]:.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        for _ in range(int(sys.argv[1]) if sys.argv[1:] else 1):
            for framework in sys.argv[2:] or ("cairn", "transformers", "transformers-static"):
                subprocess.run([sys.executable, __file__, "--one", framework], check=False)
