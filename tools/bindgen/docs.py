"""OPS.md, the list of all ops: signature, what it computes, types, gradient."""

HEAD = """# Ops

Generated from the op table (`python3 tools/bindgen docs --json build/default/ops.json --out docs`); do not edit.

Signatures are PyTorch's. In C an op is `cn_NAME`: tensors and arguments without a default are positional, the others
are named options (`cn_sum(x, .dim = CN_INTS(1))`); `cn_NAME_` writes into its first argument where "in place" is said.
A `Tensor|Scalar` may be a number, in C `cn_num(2)`.
In Python it is `cairn.NAME`, and `t.NAME` and `t.NAME_` where "method" and "in place" are said; ops of a namespace are
`cairn.linalg.NAME`, `cairn.special.NAME`, `cairn.nn.functional.NAME`. "Also" are its other names outside C, as in
PyTorch: one that it shares with other forms (`max` of `max_dim`), or a second one (`absolute` of `abs`).

%d ops, of which %d are parts of others.
"""

SPACES = (("", "Tensors"), ("nn", "Networks (nn.functional)"), ("linalg", "Linear algebra"),
          ("special", "Special functions"), ("fft", "Fourier transforms"))


def escaped(text):
    return text.replace("|", "\\|").replace("\n", " ")


def dotted(name, spaces):
    """special_expit as special.expit"""
    space, _, rest = name.partition("_")
    return "%s.%s" % (space, rest) if space in spaces else name


def traits(op, spaces):
    words = [w for w, on in (("method", op.method), ("in place", op.inplace), ("random", op.random),
                             ("no gradient", not op.gradient)) if on]
    others = ([op.overload] if op.overload else []) + op.aliases
    if others:
        words.append("also " + ", ".join("`%s`" % dotted(n, spaces) for n in others))
    return ", ".join(words)


def rows(ops, spaces):
    lines = ["| op | computes | |", "|---|---|---|"]
    lines += ["| `%s` | %s | %s |" % (escaped(op.sig.split(" ;")[0]), escaped(op.doc), traits(op, spaces))
              for op in ops]
    return lines


def files(table):
    lines = [HEAD % (len(table.ops), sum(op.internal for op in table.ops))]
    known = {space for space, _ in SPACES}
    spaces = SPACES + tuple((s, s) for s in sorted({op.space for op in table.ops} - known))
    for space, title in spaces:
        ops = [op for op in table.ops if op.space == space and not op.internal]
        if ops:
            lines += ["## " + title, "", *rows(ops, table.spaces), ""]
    parts = [op for op in table.ops if op.internal]
    if parts:
        lines += ["## Parts of other ops", "", "Gradients and inner steps: rows of the table like all others, so that",
                  "graphs and backends know them, but nothing that a program calls.", "",
                  *rows(parts, table.spaces), ""]
    return {"OPS.md": "\n".join(lines)}
