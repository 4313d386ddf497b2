"""Random calls, continued from draws.py: pictures, signals, losses, attention, strings, ai.onnx.ml."""

import numpy as np
from draws import BOOL, F32, F64, I32, I64, family, ints

# ---- pictures ----


@family("Resize")
def resize(d):
    dims = d.int(1, 2)
    x = d.values((1, d.int(1, 2), *[d.int(1, 5) for _ in range(dims)]), F32)
    mode = d.one("nearest", "linear", *(["cubic"] if dims == 2 and d.opset >= 11 else []))
    scales = np.array([1, 1, *[d.one(0.5, 1, 1.5, 2, 0.7, 2.3) for _ in range(dims)]], F32)
    sizes = ints(*x.shape[:2], *[d.int(1, 7) for _ in range(dims)])
    if any(int(n * s) == 0 for n, s in zip(x.shape, scales)):
        scales = np.maximum(scales, 1)
    if d.opset < 11:
        return d.says(x, scales, mode=mode)
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": d.maybe(
            d.one(
                "half_pixel",
                "asymmetric",
                "align_corners",
                "pytorch_half_pixel",
                "half_pixel_symmetric" if d.opset >= 19 else "half_pixel",
            )
        ),
    }
    if mode == "nearest":
        attrs["nearest_mode"] = d.maybe(d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attrs.update(cubic_coeff_a=d.maybe(-0.5), exclude_outside=d.maybe(d.int(0, 1)))
    if d.opset >= 18 and mode != "nearest":
        attrs["antialias"] = d.maybe(d.int(0, 1))
    if d.chance():
        if d.opset >= 18 and d.chance():
            axes = list(range(2, 2 + dims))
            policy = d.maybe(d.one("stretch", "not_larger", "not_smaller"))
            return d.says(x, None, None, sizes[2:], axes=axes, keep_aspect_ratio_policy=policy, **attrs)
        return d.says(
            x,
            None if d.opset >= 13 else np.zeros(0, F32),
            None if d.opset >= 13 else np.zeros(0, F32),
            sizes,
            **attrs,
        )
    return d.says(x, None if d.opset >= 13 else np.zeros(0, F32), scales, **attrs)


@family("Upsample")
def upsample(d):
    x = d.values((1, d.int(1, 2), d.int(1, 4), d.int(1, 4)), F32)
    scales = [1.0, 1.0, d.one(1.0, 2.0, 3.0), d.one(1.0, 2.0, 1.5)]
    if d.opset < 9:
        return d.says(x, mode=d.maybe(d.one("nearest", "linear")), scales=scales)
    return d.says(x, np.array(scales, F32), mode=d.maybe(d.one("nearest", "linear")))


@family("GridSample com.microsoft:GridSample")
def grid_sample(d):
    x, n, c = d.type(floats=True), d.int(1, 2), d.int(1, 2)
    old = d.opset < 20
    mode = d.one("bilinear", "nearest", "bicubic") if old else d.one("linear", "nearest", "cubic")
    dims = 2 if old or d.chance(0.7) or mode == "cubic" else 3
    grid = d.values((n, *[d.int(1, 4) for _ in range(dims)], dims), x if ":" not in d.name else F32, -1.3, 1.3)
    if ":" in d.name:
        x = F32
    d.says(
        d.values((n, c, *[d.int(1, 5) for _ in range(dims)]), x),
        grid,
        mode=d.maybe(mode) if mode != "x" else None,
        padding_mode=d.maybe(d.one("zeros", "border", "reflection")),
        align_corners=d.maybe(d.int(0, 1)),
    )


@family("AffineGrid")
def affine_grid(d):
    dims = d.int(2, 3)
    n = d.int(1, 2)
    d.says(
        d.values((n, dims, dims + 1), F32),
        ints(n, 2, *[d.int(2, 4) for _ in range(dims)]),
        align_corners=d.maybe(d.int(0, 1)),
    )


@family("RoiAlign")
def roi_align(d):
    n = d.int(1, 2)
    rois = d.int(1, 3)
    a = d.values((rois, 2), F32, 0, 3)
    boxes = np.concatenate([a, a + d.values((rois, 2), F32, 0.5, 4)], 1).astype(F32)
    attrs = d.only(coordinate_transformation_mode=d.maybe(d.one("half_pixel", "output_half_pixel")))
    d.says(
        d.values((n, d.int(1, 2), 6, 7), F32),
        boxes,
        d.rng.integers(0, n, rois).astype(I64),
        mode=d.maybe("avg"),
        output_height=d.int(1, 3),
        output_width=d.int(1, 3),
        sampling_ratio=d.maybe(d.int(0, 2)),
        spatial_scale=d.maybe(0.5),
        **attrs,
    )


@family("MaxRoiPool")
def max_roi_pool(d):
    n = d.int(1, 3)
    a = d.rng.integers(0, 4, (n, 2))
    rois = np.concatenate([np.zeros((n, 1)), a, a + d.rng.integers(1, 4, (n, 2))], 1).astype(F32)
    d.says(d.values((1, 2, 8, 8), F32), rois, pooled_shape=[d.int(1, 3), d.int(1, 3)])


@family("NonMaxSuppression")
def nms(d):
    batch, classes, n = d.int(1, 2), d.int(1, 2), d.int(1, 6)
    a = d.values((batch, n, 2), F32, 0, 3)
    boxes = np.concatenate([a, a + d.values((batch, n, 2), F32, 0.2, 3)], 2).astype(F32)
    scores = (d.rng.permutation(batch * classes * n) / (batch * classes * n)).reshape(batch, classes, n).astype(F32)
    d.says(
        boxes,
        scores,
        d.maybe(ints(d.int(0, 4)), 0.8),
        d.maybe(np.array([0.4], F32)),
        d.maybe(np.array([0.2], F32)),
        center_point_box=d.maybe(d.int(0, 1)),
    )


@family("CenterCropPad")
def center_crop_pad(d):
    x = d.values(d.shape(1, empty=0), d.type())
    axes = d.axes(x.ndim, 1) if d.chance() else None
    d.says(x, ints(*[d.int(1, 6) for _ in (axes or range(x.ndim))]), axes=axes)


@family("Col2Im")
def col2im(d):
    c, kernel, image = d.int(1, 2), [d.int(1, 2), d.int(1, 3)], [d.int(3, 5), d.int(3, 5)]
    strides, pads = d.one([1, 1], [2, 1]), d.one([0, 0, 0, 0], [1, 0, 1, 0])
    blocks = [(s + pads[i] + pads[i + 2] - k) // t + 1 for i, (s, k, t) in enumerate(zip(image, kernel, strides))]
    d.says(
        d.values((d.int(1, 2), c * kernel[0] * kernel[1], blocks[0] * blocks[1]), F32),
        ints(*image),
        ints(*kernel),
        strides=strides,
        pads=pads,
    )


@family("MaxUnpool")
def max_unpool(d):
    x = d.values((1, 1, 2, 2), F32)
    at = np.array([d.int(0, 1), 2 + d.int(0, 1), 8 + d.int(0, 1), 10 + d.int(0, 1)], I64).reshape(1, 1, 2, 2)
    d.says(x, at, kernel_shape=[2, 2], strides=[2, 2])


@family("DeformConv")
def deform_conv(d):
    c, m, k, group = d.int(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 2)
    n, h, w = 1, 5, 4
    out = (h - k + 1, w - k + 1)
    d.says(
        d.values((n, c * group, h, w), F32),
        d.values((m * group, c, k, k), F32),
        d.values((n, 2 * k * k, *out), F32, -1, 1),
        d.maybe(d.values((m * group,), F32)),
        d.maybe(d.values((n, k * k, *out), F32)),
        group=group,
    )


# ---- signals ----


@family("DFT")
def dft(d):
    t, complex_in = d.type(0), d.chance(0.4)
    x = d.values((d.int(1, 2), d.int(2, 7), d.int(2, 4), 2 if complex_in else 1), t)
    axis = d.one(1, 2, -2, -3)
    n = d.maybe(np.array(d.int(1, 8), I64))
    back = d.chance(0.3) and complex_in
    attrs = {"inverse": int(back), "onesided": int(not complex_in and not back and d.chance())}
    if d.opset < 20:
        return d.says(x, n, axis=axis % 4, **attrs)
    return d.says(x, n, d.maybe(np.array(axis, I64)), **attrs)


@family("STFT")
def stft(d):
    size, step = d.int(4, 8), d.int(1, 3)
    x = d.values((d.int(1, 2), 20, *d.one((1,), ())), d.one(F32, F64))
    win = d.maybe(d.values((size,), x.dtype))
    d.says(
        x,
        np.array(step, I64),
        win,
        np.array(size, I64) if win is None or d.chance() else None,
        onesided=d.maybe(d.int(0, 1)),
    )


@family("HannWindow HammingWindow BlackmanWindow")
def windows(d):
    d.says(
        np.array(d.int(2, 9), d.one(I32, I64)), periodic=d.maybe(d.int(0, 1)), output_datatype=d.maybe(d.one(1, 11))
    )


@family("MelWeightMatrix")
def mel(d):
    d.says(
        np.array(d.int(2, 5), I64),
        np.array(d.one(16, 32), I64),
        np.array(8192, I64),
        np.array(0.0, F32),
        np.array(4096.0, F32),
    )


# ---- losses ----


@family("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def losses(d):
    n, c, more = d.int(1, 3), d.int(2, 4), d.shape(0, 2, empty=0)
    x = d.values((n, c, *more), F32)
    target = d.rng.integers(0, c, (n, *more)).astype(d.one(I32, I64))
    ignore = d.maybe(d.one(0, 1, -1), 0.4)
    if ignore == -1 and target.size > 1:
        target.flat[0] = -1
    d.says(
        x,
        target,
        d.maybe(d.values((c,), F32, 0.1, 2)),
        reduction=d.maybe(d.one("none", "mean", "sum")),
        ignore_index=ignore,
        outputs=d.int(1, 2) if d.name.startswith("Softmax") else 1,
    )


# ---- attention ----


@family("Attention")
def attention(d):
    b, h, groups, l, s, e, v = (
        d.int(1, 2),
        d.int(1, 2),
        d.int(1, 2),
        d.int(1, 4),
        d.int(1, 4),
        2 * d.int(1, 3),
        d.int(1, 4),
    )
    flat = d.chance()

    def heads(n, length, size):
        return d.values((b, length, n * size) if flat else (b, n, length, size), F32, -1, 1)

    sizes = {"q_num_heads": h * groups, "kv_num_heads": h} if flat else {}
    past = d.maybe(d.int(1, 3), 0.3)
    total = s + (past or 0)
    mask = d.one(None, d.values((l, total), BOOL), d.values((b, 1, l, total), F32), d.values((l, total), F32))
    if mask is not None and mask.dtype == BOOL:
        mask[..., 0] = True
    inputs = [heads(h * groups, l, e), heads(h, s, e), heads(h, s, v), mask]
    if past:
        inputs += [d.values((b, h, past, e), F32, -1, 1), d.values((b, h, past, v), F32, -1, 1)]
    d.says(
        *inputs,
        is_causal=d.maybe(d.int(0, 1)),
        scale=d.maybe(0.3),
        softcap=d.maybe(2.0, 0.2),
        outputs=3 if past else 1,
        **sizes,
    )


@family("RotaryEmbedding")
def rotary(d):
    b, h, s, e = d.int(1, 2), d.int(1, 2), d.int(1, 4), 2 * d.int(1, 3)
    flat, at = d.chance(), d.maybe(d.rng.integers(0, 8, (b, s)).astype(I64))
    table = (8, e // 2) if at is not None else (b, s, e // 2)
    d.says(
        d.values((b, s, h * e) if flat else (b, h, s, e), F32),
        d.values(table, F32),
        d.values(table, F32),
        at,
        interleaved=d.maybe(d.int(0, 1)),
        num_heads=h if flat else None,
    )


# ---- strings ----


@family("StringNormalizer")
def normalizer(d):
    words = np.array([d.one("Monday", "tuesday", "WEDNESDAY", "ärger") for _ in range(d.int(1, 5))], object)
    d.says(
        words if d.chance(0.7) else words[None],
        case_change_action=d.maybe(d.one("LOWER", "UPPER", "NONE")),
        is_case_sensitive=d.maybe(d.int(0, 1)),
        stopwords=d.maybe(["monday", "tuesday"]),
    )


@family("StringSplit")
def string_split(d):
    x = np.array([d.one("a b  c", "", "a,b", " x ", "one") for _ in range(d.int(1, 4))], object)
    d.says(x, delimiter=d.maybe(d.one(" ", ",", "")), maxsplit=d.maybe(d.int(1, 2)), outputs=2)


@family("RegexFullMatch")
def regex(d):
    x = np.array([d.one("abc", "", "a1", "foo@bar.de") for _ in range(d.int(1, 4))], object)
    d.says(x, pattern=d.one("[a-z]+", r"\w+@\w+\.de", "a.*", "(abc|a1)?"))


@family("TfIdfVectorizer")
def tf_idf(d):
    d.says(
        d.rng.integers(0, 5, d.one((6,), (2, 5))).astype(d.one(I32, I64)),
        mode=d.one("TF", "IDF", "TFIDF"),
        min_gram_length=d.int(1, 2),
        max_gram_length=2,
        max_skip_count=d.int(0, 2),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3, 4],
        pool_int64s=[2, 3, 4, 1, 2, 3, 4],
        weights=d.maybe([0.5, 1.0, 2.0, 1.5, 0.1]),
    )


# ---- ai.onnx.ml ----


@family(
    "ai.onnx.ml:Binarizer ai.onnx.ml:Normalizer ai.onnx.ml:Scaler ai.onnx.ml:Imputer ai.onnx.ml:LinearRegressor "
    "ai.onnx.ml:LinearClassifier ai.onnx.ml:ArrayFeatureExtractor"
)
def features(d):
    n, c, name = d.int(1, 3), d.int(1, 4), d.name.split(":")[1]
    x = d.values((n, c), d.type(0) if name != "Imputer" else d.one(F32, I64))
    if name == "Binarizer":
        d.says(d.values((n, c), F32), threshold=d.maybe(0.3))
    elif name == "Normalizer":
        d.says(x, norm=d.maybe(d.one("MAX", "L1", "L2")))
    elif name == "Scaler":
        d.says(x.astype(F32), offset=[0.5] * d.one(1, c), scale=[2.0] * d.one(1, c))
    elif name == "Imputer":
        if x.dtype == F32:
            x.flat[0] = np.nan
            d.says(x, imputed_value_floats=[0.5] * d.one(1, c), replaced_value_float=float("nan"))
        else:
            d.says(x, imputed_value_int64s=[7] * d.one(1, c), replaced_value_int64=int(x.flat[0]))
    elif name == "LinearRegressor":
        targets = d.int(1, 3)
        d.says(
            d.values((n, c), F32),
            coefficients=[float(v) for v in d.values((targets * c,), F32)],
            targets=targets,
            intercepts=d.maybe([0.5] * targets),
            post_transform=d.maybe("NONE"),
        )
    elif name == "LinearClassifier":
        k = d.int(2, 4)
        d.says(
            d.values((n, c), F32),
            coefficients=[float(v) for v in d.values((k * c,), F32)],
            intercepts=[0.1] * k,
            classlabels_ints=list(range(k)),
            post_transform=d.maybe(d.one("NONE", "SOFTMAX", "LOGISTIC")),
            outputs=2,
        )
    else:
        d.says(x, ints(*[d.int(0, c - 1) for _ in range(d.int(1, 3))]))


@family("ai.onnx.ml:LabelEncoder ai.onnx.ml:OneHotEncoder ai.onnx.ml:CategoryMapper")
def labels(d):
    name = d.name.split(":")[1]
    x = d.rng.integers(0, 5, d.shape(1, 2, empty=0)).astype(I64)
    if name == "OneHotEncoder":
        d.says(x.astype(d.one(I64, F32)), cats_int64s=[0, 1, 3], zeros=d.maybe(1))
    elif name == "CategoryMapper":
        d.says(x, cats_int64s=[0, 1, 2], cats_strings=["a", "b", "c"], default_string=d.maybe("?"))
    elif d.opset == 1:
        d.says(x, classes_strings=["a", "b", "c", "d", "e"], default_string="?")
    elif d.chance():
        d.says(x, keys_int64s=[0, 1, 3], values_strings=["a", "b", "c"], default_string=d.maybe("?"))
    else:
        d.says(x.astype(F32), keys_floats=[0.0, 1.0, 3.0], values_int64s=[5, 6, 7], default_int64=d.maybe(-9))


@family("ai.onnx.ml:TreeEnsembleRegressor ai.onnx.ml:TreeEnsembleClassifier")
def trees(d):
    n, roots, classify = d.int(1, 4), d.int(1, 3), d.name.endswith("Classifier")
    k = d.int(2, 3) if classify else d.int(1, 2)
    attrs = {
        key: []
        for key in (
            "nodes_treeids nodes_nodeids nodes_featureids nodes_values nodes_modes nodes_truenodeids "
            "nodes_falsenodeids"
        ).split()
    }
    leaves = []

    def add(tree, count, depth):
        me, mode = count[0], d.one("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT") if depth else "LEAF"
        count[0] += 1
        row = len(attrs["nodes_treeids"])
        for key, value in zip(attrs, (tree, me, d.int(0, 2), float(np.float32(d.rng.random() * 4 - 2)), mode, 0, 0)):
            attrs[key].append(value)
        if depth:
            attrs["nodes_truenodeids"][row] = add(tree, count, d.int(0, depth - 1))
            attrs["nodes_falsenodeids"][row] = add(tree, count, depth - 1)
        else:
            leaves.extend((tree, me, i, float(np.float32(d.rng.random()))) for i in range(k))
        return me

    for tree in range(roots):
        add(tree, [0], d.int(1, 3))
    word = "class" if classify else "target"
    for key, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*leaves)):
        attrs["%s_%s" % (word, key)] = list(column)
    if classify:
        attrs.update(classlabels_int64s=list(range(k)), post_transform=d.maybe(d.one("NONE", "SOFTMAX")))
    else:
        attrs.update(
            n_targets=k,
            aggregate_function=d.maybe(d.one("SUM", "AVERAGE", "MIN", "MAX")),
            base_values=d.maybe([0.5] * k),
        )
    d.says(d.values((n, 3), F32), outputs=2 if classify else 1, **attrs)


@family("ai.onnx.ml:SVMRegressor ai.onnx.ml:SVMClassifier")
def svm(d):
    n, c, k = d.int(1, 3), d.int(1, 3), d.int(2, 4)
    kernel = {"kernel_type": d.one("LINEAR", "RBF", "POLY", "SIGMOID"), "kernel_params": [0.3, 0.1, 2.0]}
    if d.name.endswith("Regressor"):
        return d.says(
            d.values((n, c), F32),
            coefficients=[float(x) for x in d.values((k,), F32)],
            n_supports=k,
            rho=[0.2],
            support_vectors=[float(x) for x in d.values((k * c,), F32)],
            **kernel,
        )
    classes = d.int(2, 3)
    pairs = classes * (classes - 1) // 2
    per = [d.int(1, 2) for _ in range(classes)]
    return d.says(
        d.values((n, c), F32),
        coefficients=[float(x) for x in d.values((sum(per) * (classes - 1),), F32)],
        vectors_per_class=per,
        support_vectors=[float(x) for x in d.values((sum(per) * c,), F32)],
        rho=[0.1] * pairs,
        classlabels_ints=list(range(classes)),
        outputs=2,
        **kernel,
    )
