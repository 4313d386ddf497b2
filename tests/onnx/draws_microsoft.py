"""Random calls, continued from draws.py: com.microsoft, and operators that ONNX has given up, onnxruntime not."""

import numpy as np
from draws import BOOL, F32, I8, I32, I64, U8, family, ints
from draws_nets import scale, small

# ---- com.microsoft ----


@family(
    "com.microsoft:BiasGelu com.microsoft:FastGelu com.microsoft:BiasSplitGelu com.microsoft:SkipLayerNormalization "
    "com.microsoft:SkipSimplifiedLayerNormalization"
)
def fused_rows(d):
    x = d.values((d.int(1, 2), d.int(1, 3), d.int(1, 3) * 2), F32)
    row = d.values((x.shape[-1],), F32)
    if "Skip" not in d.name:
        return d.says(x, row if d.name.endswith("BiasGelu") else d.maybe(row))
    more = [d.maybe(d.values(row.shape, F32)) for _ in range(1 if "Simplified" in d.name else 2)]
    return d.says(x, d.values(x.shape, F32), row, *more, epsilon=d.maybe(1e-3), outputs=1)


@family("com.microsoft:Tokenizer")
def tokenizer(d):
    texts = ["the quick brown fox", "", "a1 bb,ccc;dd", "Grüße über alles", "  two  blanks ", "aab-abab", "x"]
    shape = d.one((3,), (2, 2), (1, 4))
    x = np.array([d.one(*texts) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    how = d.one(
        {"tokenexp": d.one("[a-zA-Z0-9_]+", "a|ab|aba", "[a-z]*", r"\b\w", "[^ ]+")},
        {"separators": d.one([" "], [" ", ","], [",", ";| "], ["ab", "b-"], ["[ ,;]+"])},
        {"separators": [""]},
    )
    least = 1 if how.get("separators") == [""] else d.int(1, 3)
    d.says(x, mark=d.int(0, 1), pad_value=d.one("#", ""), mincharnum=least, **how)


def heads(d, b, s, n):
    return d.values((b, s, n), F32, -1, 1)


@family("com.microsoft:Attention com.microsoft:QAttention")
def ms_attention(d):
    b, s, n, h = d.int(1, 2), d.int(1, 4), 4, 2
    mask = d.one(None, d.rng.integers(1, s + 1, (b,)), (d.rng.random((b, s)) < 0.8).astype(I32))
    mask = None if mask is None else mask.astype(I32)
    attrs = {"num_heads": h, "unidirectional": d.maybe(d.int(0, 1))}
    if d.name.endswith("QAttention"):
        t = d.one(U8, I8)
        wide = d.one((), (12,))
        return d.says(
            small(d, (b, s, 4), U8),
            small(d, (4, 12), t),
            heads(d, 1, 1, 12)[0, 0],
            scale(d),
            scale(d, wide) / 20,
            mask,
            small(d, (), U8),
            np.zeros(wide, t),
            **attrs,
        )
    past = d.maybe(d.values((2, b, h, 2, n // h), F32), 0.3) if mask is None else None
    return d.says(
        heads(d, b, s, n),
        d.values((4, 12), F32, -1, 1),
        d.values((12,), F32),
        mask,
        past,
        outputs=2 if past is not None else 1,
        **attrs,
    )


@family("com.microsoft:MultiHeadAttention")
def multi_head(d):
    b, s, t, h, e = d.int(1, 2), d.int(1, 4), d.int(1, 4), d.int(1, 2), 2 * d.int(1, 2)
    bias = d.maybe(d.values((3 * h * e,), F32))
    mask = d.maybe((d.rng.random((b, t)) < 0.8).astype(I32))
    more = d.maybe(d.values((d.one(1, b), d.one(1, h), s, t), F32))
    d.says(heads(d, b, s, h * e), heads(d, b, t, h * e), heads(d, b, t, h * e), bias, mask, more, num_heads=h)


@family("com.microsoft:GroupQueryAttention")
def grouped(d):
    b, h, g, e, past = d.int(1, 2), d.int(1, 2), d.int(1, 2), 16, d.one(0, 3)
    s = 1 if past else d.int(1, 4)
    rotary_on = d.int(0, 1)
    inputs = [
        heads(d, b, s, h * g * e),
        heads(d, b, s, g * e),
        heads(d, b, s, g * e),
        d.values((b, g, past, e), F32),
        d.values((b, g, past, e), F32),
        np.full((b,), past + s - 1, I32),
        np.array(past + s, I32),
    ]
    if rotary_on:
        inputs += [d.values((8, e // 2), F32, -1, 1), d.values((8, e // 2), F32, -1, 1)]
    d.says(
        *inputs,
        num_heads=h * g,
        kv_num_heads=g,
        do_rotary=rotary_on,
        local_window_size=d.maybe(d.int(1, 3)),
        softcap=d.maybe(2.0, 0.3),
        outputs=3,
    )


@family("com.microsoft:RotaryEmbedding")
def ms_rotary(d):
    b, h, s, e = d.int(1, 2), d.int(1, 2), d.int(1, 4), 8
    at = d.one(ints(d.int(0, 3)), d.rng.integers(0, 8, (b, s)).astype(I64))
    d.says(
        heads(d, b, s, h * e),
        at,
        d.values((8, e // 2), F32),
        d.values((8, e // 2), F32),
        interleaved=d.maybe(d.int(0, 1)),
        scale=None,
    )


@family(
    "com.microsoft:QLinearAdd com.microsoft:QLinearMul com.microsoft:QLinearSigmoid com.microsoft:QLinearLeakyRelu"
)
def qlinear(d):
    t, shape = d.one(U8, I8), d.shape(1, empty=0)
    two = d.name.endswith(("Add", "Mul"))
    other = [small(d, d.like(shape), t), scale(d), small(d, (), t)] if two else []
    d.says(small(d, shape, t), scale(d), small(d, (), t), *other, scale(d), small(d, (), t))


@family("com.microsoft:QLinearWhere")
def qlinear_where(d):
    t, shape = d.one(U8, I8), d.shape(1, empty=0)
    d.says(
        d.values(d.like(shape), BOOL),
        small(d, shape, t),
        scale(d),
        small(d, (), t),
        small(d, d.like(shape), t),
        scale(d),
        small(d, (), t),
        scale(d),
        small(d, (), t),
    )


@family(
    "com.microsoft:QLinearConcat com.microsoft:QLinearSoftmax com.microsoft:QLinearGlobalAveragePool "
    "com.microsoft:QLinearAveragePool"
)
def qlinear_more(d):
    t, name = d.one(U8, I8), d.name.split(":")[1]
    x = small(d, (1, 2, d.int(2, 4), d.int(2, 4)), t)
    ends = [scale(d), small(d, (), t)]
    if name == "QLinearConcat":
        return d.says(*ends, x, scale(d), small(d, (), t), x, scale(d), small(d, (), t), axis=d.int(0, 3))
    if name == "QLinearSoftmax":
        t = U8
        return d.says(
            small(d, x.shape, t), scale(d), small(d, (), t), np.array(1 / 256, F32), np.array(0, t), axis=3, opset=13
        )
    if name == "QLinearAveragePool":
        return d.says(
            x,
            scale(d),
            small(d, (), t),
            *ends,
            kernel_shape=[2, 2],
            strides=d.maybe([2, 1]),
            pads=d.maybe([0, 1, 1, 0]),
            count_include_pad=d.maybe(d.int(0, 1)),
        )
    return d.says(x, scale(d), small(d, (), t), *ends, channels_last=0)


@family("com.microsoft:MatMulIntegerToFloat com.microsoft:DynamicQuantizeMatMul")
def to_float(d):
    k, n = d.int(1, 5), d.int(1, 4)
    b, by = d.one(U8, I8), d.one((1,), (n,))
    w, zero = small(d, (k, n), b), d.maybe(small(d, by, b))
    if d.name.endswith("ToFloat"):
        return d.says(
            small(d, (3, k), U8),
            w,
            scale(d),
            scale(d, by),
            d.maybe(small(d, (), U8)),
            zero,
            d.maybe(d.values((n,), F32)),
        )
    return d.says(d.values((3, k), F32), w, scale(d, by), zero, d.maybe(d.values((n,), F32)))


@family("com.microsoft:MatMulNBits")
def n_bits(d):
    k, n, block = d.one(16, 32, 40), d.int(1, 5), d.one(16, 32)
    blocks = -(-k // block)
    d.says(
        d.values((d.int(1, 3), k), F32, -1, 1),
        small(d, (n, blocks, block // 2), U8),
        scale(d, (n * blocks,)),
        d.maybe(small(d, (n * (-(-blocks // 2)),), U8)),
        K=k,
        N=n,
        bits=4,
        block_size=block,
    )


@family("com.microsoft:NhwcMaxPool")
def nhwc_max_pool(d):
    d.says(
        small(d, (1, d.int(3, 5), d.int(3, 5), 2), d.one(U8, I8)),
        kernel_shape=[2, 2],
        strides=d.maybe([2, 1]),
        pads=d.maybe([0, 1, 1, 0]),
    )


@family("com.microsoft:DynamicQuantizeLSTM")
def quantised_lstm(d):
    steps, batch, size, hidden, ways, t = (
        d.int(1, 4),
        d.int(1, 2),
        d.int(1, 3),
        d.int(1, 3),
        d.int(1, 2),
        d.one(U8, I8),
    )
    by = d.one((ways,), (ways, 4 * hidden))
    zero = np.zeros(by, t) if t == I8 else np.full(by, 128, t)
    d.says(
        d.values((steps, batch, size), F32),
        small(d, (ways, size, 4 * hidden), t),
        small(d, (ways, hidden, 4 * hidden), t),
        d.maybe(d.values((ways, 8 * hidden), F32)),
        None,
        d.maybe(d.values((ways, batch, hidden), F32)),
        d.maybe(d.values((ways, batch, hidden), F32)),
        None,
        scale(d, by) / 10,
        zero,
        scale(d, by) / 10,
        zero,
        direction="bidirectional" if ways == 2 else d.one("forward", "reverse"),
        hidden_size=hidden,
        outputs=3,
    )


@family(
    "com.microsoft:CDist com.microsoft:BiasSoftmax com.microsoft:ExpandDims com.microsoft:CropAndResize "
    "com.microsoft:Inverse"
)
def ms_more(d):
    name, n = d.name.split(":")[1], d.int(1, 4)
    if name == "CDist":
        d.says(d.values((n, 3), F32), d.values((d.int(1, 4), 3), F32), metric=d.one("euclidean", "sqeuclidean"))
    elif name == "BiasSoftmax":
        x = d.values((2, n, 3), F32)
        d.says(x, d.values((1, n, 3), F32), axis=2, is_inner_broadcast=0)
    elif name == "ExpandDims":
        x = d.values(d.shape(1), F32)
        d.says(x, np.array(d.int(-x.ndim - 1, x.ndim), I32))
    elif name == "Inverse":
        d.says((d.values((n, 3, 3), F32) + 5 * np.eye(3, dtype=F32)).astype(F32))
    else:
        d.says(d.values((1, 1, 5, 6), F32), d.values((n, 4), F32, 0, 1), np.zeros((n,), I32), ints(2, 3).astype(I32))


@family("com.microsoft:MatMulBnb4")
def bnb4(d):
    k, n, block = 16 * d.int(1, 3), d.int(1, 4), 16
    d.says(
        d.values((d.int(1, 3), k), F32, -1, 1),
        small(d, (n * k // 2,), U8),
        d.values((n * k // block,), F32, 0.1, 1),
        K=k,
        N=n,
        block_size=block,
        quant_type=d.int(0, 1),
    )


@family("com.microsoft:GatherBlockQuantized")
def gather_block_quantized(d):
    rows, blocks = d.int(2, 4), d.int(1, 3)
    zero = d.maybe(small(d, (rows, -(-blocks // 2)), U8))
    d.says(
        small(d, (rows, blocks * 8), U8),
        d.rng.integers(0, rows, d.shape(1, 2, empty=0)).astype(I64),
        d.values((rows, blocks), F32, 0.1, 1),
        zero,
        gather_axis=0,
        quantize_axis=1,
        block_size=16,
        bits=4,
    )


@family("com.microsoft:MatMulInteger16")
def matmul_integer16(d):
    t, k = np.dtype("i2"), d.int(1, 4)
    d.says(d.values((d.int(1, 3), k), t), d.values((k, d.int(1, 3)), t))


@family("com.microsoft:QLinearConv")
def ms_qlinear_conv(d):
    x, w, m = small(d, (1, 5, 4, 2), U8), small(d, (3, 2, 3, 2), d.one(U8, I8)), 3
    d.says(
        x,
        scale(d),
        small(d, (), U8),
        w,
        scale(d),
        np.zeros((), w.dtype),
        scale(d),
        small(d, (), U8),
        d.maybe(d.rng.integers(-99, 99, m).astype(I32)),
        channels_last=1,
    )


@family("com.microsoft:DecoderMaskedMultiHeadAttention")
def decoder_masked(d):
    b, h, e, past, most = 1, d.int(1, 2), 8, d.int(1, 3), 5
    row = d.values((b, 1, h * e), F32, -1, 1)
    d.says(
        row,
        d.values(row.shape, F32),
        d.values(row.shape, F32),
        None,
        None,
        d.values((b, h, most, e), F32),
        d.values((b, h, most, e), F32),
        np.array([past], I32),
        num_heads=h,
        past_present_share_buffer=1,
        outputs=3,
    )


@family("com.microsoft:MoE com.microsoft:QMoE")
def experts(d):
    tokens, n, size, inner, k = d.int(1, 4), d.int(2, 4), 16, 16, d.int(1, 2)
    kind = d.one("relu", "gelu", "silu", "identity", "swiglu")
    wide = 2 * inner if kind == "swiglu" else inner
    x, scores = d.values((tokens, size), F32, -1, 1), d.values((tokens, n), F32)
    attrs = {
        "k": k,
        "activation_type": kind,
        "normalize_routing_weights": d.int(0, 1),
        "swiglu_fusion": 1 if kind == "swiglu" else None,
    }
    if kind == "swiglu":
        attrs.update(activation_alpha=1.7, activation_beta=1.0, swiglu_limit=d.maybe(0.5))
    if d.name.endswith(":MoE"):
        return d.says(
            x,
            scores,
            d.values((n, wide, size), F32, -1, 1),
            d.maybe(d.values((n, wide), F32)),
            d.values((n, size, inner), F32, -1, 1),
            d.maybe(d.values((n, size), F32)),
            **attrs,
        )
    attrs.update(expert_weight_bits=4)
    return d.says(
        x,
        scores,
        small(d, (n, wide, size // 2), U8),
        d.values((n, wide), F32, 0.01, 0.1),
        d.maybe(d.values((n, wide), F32)),
        small(d, (n, size, inner // 2), U8),
        d.values((n, size), F32, 0.01, 0.1),
        d.maybe(d.values((n, size), F32)),
        None,
        None,
        None,
        None,
        None,
        None,
        d.maybe(d.values((tokens, n), F32, 0.1, 1), 0.3),
        **attrs,
    )


@family("com.microsoft:QEmbedLayerNormalization com.microsoft:EmbedLayerNormalization")
def embed(d):
    b, s, n, words = d.int(1, 2), d.int(1, 3), 4, 5
    ids, kinds = [d.rng.integers(0, k, (b, s)).astype(I32) for k in (words, 2)]
    mask = d.maybe((d.rng.random((b, s)) < 0.7).astype(I32))
    shapes = [(words, n), (6, n), (2, n), (n,), (n,)]
    if d.name.endswith(":EmbedLayerNormalization"):
        return d.says(ids, kinds, *[d.values(shape, F32) for shape in shapes], mask, outputs=2)
    return d.says(
        ids,
        kinds,
        *[small(d, shape, U8) for shape in shapes],
        mask,
        *[scale(d) for _ in shapes],
        *[small(d, (), U8) for _ in shapes],
        outputs=2,
    )


@family(
    "com.microsoft:GatedRMSNorm com.microsoft:BranchwiseRMSNorm com.microsoft:ScaledSiLU com.microsoft:UnfoldTensor "
    "com.microsoft:GatedAdd"
)
def rows_again(d):
    name, x = d.name.split(":")[1], d.values((2, d.int(1, 3), 8), F32)
    if name == "GatedRMSNorm":
        return d.says(
            x, d.values((d.one(4, 8),), F32), d.values(x.shape, F32), activation=d.maybe(d.one("silu", "sigmoid"))
        )
    if name == "BranchwiseRMSNorm":
        return d.says(x, d.maybe(d.values((8,), F32)), num_branches=d.maybe(2))
    if name == "ScaledSiLU":
        return d.says(x, d.maybe(d.values((), F32)), alpha=d.maybe(0.7))
    if name == "GatedAdd":
        return d.says(x, d.values(x.shape, F32), d.values((*x.shape[:2], 1), F32))
    return d.says(x, dim=d.maybe(d.one(-1, 2)), size=d.int(2, 4), step=d.int(1, 2))


@family("com.microsoft:MRotaryEmbedding")
def multimodal_rotary(d):
    b, s, h, e = d.int(1, 2), d.int(1, 3), d.int(1, 2), 12
    d.says(
        d.values((b, s, h * e), F32),
        d.rng.integers(0, 8, (3, b, s)).astype(I64),
        d.values((8, e // 2), F32),
        d.values((8, e // 2), F32),
        mrope_section=[2, 2, 2],
        mrope_layout=d.int(0, 1),
        num_heads=h,
        rotary_embedding_dim=0,
        interleaved=d.maybe(d.int(0, 1)),
    )


# ---- operators that onnx has given up, and onnxruntime has not ----


@family("Affine ParametricSoftplus ScaledTanh ImageScaler Crop")
def old(d):
    x, f = d.values((1, 2, 5, 6), F32), {"alpha": 0.5, "beta": d.one(1.0, 2.0)}
    attrs = {
        "ImageScaler": {"scale": d.maybe(0.5), "bias": [1.0, 2.0]},
        "Crop": {"border": [1, 0, 2, 1], "scale": d.maybe([2, 3])},
    }.get(d.name, f)
    d.says(x, **attrs)
