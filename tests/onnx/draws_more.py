"""Random calls, continued from draws.py: quantised numbers, pictures, signals, losses, attention, ai.onnx.ml and
com.microsoft."""
import numpy as np
from draws import BOOL, F32, F64, I8, I32, I64, U8, family, ints


# ---- quantised numbers ----

def small(d, shape, dtype):
    info = np.iinfo(dtype)
    return d.rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(d, shape=()):
    return d.values(shape, F32, 0.01, 0.3)


@family("QuantizeLinear com.microsoft:QuantizeLinear")
def quantize(d):
    x = d.values(d.shape(1, empty=0), F32)
    t = d.one(U8, I8, *([np.dtype("i2"), np.dtype("u2")] if d.opset >= 21 else []))
    if d.opset >= 13 and d.chance(0.4):
        axis = d.axis(x.ndim)
        return d.says(x, scale(d, (x.shape[axis],)), small(d, (x.shape[axis],), t), axis=axis)
    return d.says(x, scale(d), small(d, (), t))


@family("DequantizeLinear com.microsoft:DequantizeLinear")
def dequantize(d):
    t = d.one(U8, I8, *([np.dtype("i2"), np.dtype("u2")] if d.opset >= 21 else []))
    x = small(d, d.shape(1), t)
    if d.opset >= 13 and d.chance(0.4):
        axis = d.axis(x.ndim)
        return d.says(x, scale(d, (x.shape[axis],)), small(d, (x.shape[axis],), t), axis=axis)
    return d.says(x, scale(d), d.maybe(small(d, (), t)))


@family("DynamicQuantizeLinear")
def dynamic_quantize(d):
    d.says(d.values(d.shape(1, empty=0), F32, d.one(-3, 0, 1), 3), outputs=3)


@family("MatMulInteger")
def matmul_integer(d):
    a, b, k = d.one(U8, I8), d.one(U8, I8), d.int(1, 6)
    lead = d.shape(0, 2, empty=0)
    n = d.int(1, 4)
    zero = d.one((), (n,))
    d.says(small(d, (*lead, d.int(1, 4), k), a), small(d, (k, n), b), d.maybe(small(d, (), a)), d.maybe(small(d, zero, b)))


@family("QLinearMatMul")
def qlinear_matmul(d):
    a, b, k, n = d.one(U8, I8), d.one(U8, I8), d.int(1, 6), d.int(1, 4)
    y = a
    by = d.one((), (n,))
    d.says(small(d, (d.int(1, 4), k), a), scale(d), small(d, (), a), small(d, (k, n), b), scale(d, by), small(d, by, b),
           scale(d), small(d, (), y))


@family("ConvInteger QLinearConv")
def conv_integer(d):
    a = U8 if d.name == "ConvInteger" else d.one(U8, I8)
    w, m, c, group = d.one(U8, I8) if a == U8 else I8, d.int(1, 3), d.int(1, 3), d.int(1, 2)
    x, k = small(d, (1, c * group, 5, 4), a), small(d, (m * group, c, 3, 2), w)
    attrs = {"group": group, "pads": d.maybe([1, 0, 1, 1]), "strides": d.maybe([2, 1]), "dilations": d.maybe([1, 2])}
    if d.name == "ConvInteger":
        return d.says(x, k, d.maybe(small(d, (), a)), d.maybe(small(d, (), w)), **attrs)
    by = d.one((), (m * group,))
    return d.says(x, scale(d), small(d, (), a), k, scale(d, by), np.zeros(by, w) if w == I8 else small(d, (), w) + np.zeros(by, w),
                  scale(d), small(d, (), a), d.maybe(d.rng.integers(-99, 99, m * group).astype(I32)), **attrs)


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
    attrs = {"mode": mode, "coordinate_transformation_mode": d.maybe(
        d.one("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
              if d.opset >= 19 else "half_pixel"))}
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
        return d.says(x, None if d.opset >= 13 else np.zeros(0, F32), None if d.opset >= 13 else np.zeros(0, F32), sizes, **attrs)
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
    d.says(d.values((n, c, *[d.int(1, 5) for _ in range(dims)]), x), grid, mode=d.maybe(mode) if mode != "x" else None,
           padding_mode=d.maybe(d.one("zeros", "border", "reflection")), align_corners=d.maybe(d.int(0, 1)))


@family("AffineGrid")
def affine_grid(d):
    dims = d.int(2, 3)
    n = d.int(1, 2)
    d.says(d.values((n, dims, dims + 1), F32), ints(n, 2, *[d.int(2, 4) for _ in range(dims)]), align_corners=d.maybe(d.int(0, 1)))


@family("RoiAlign")
def roi_align(d):
    n = d.int(1, 2)
    rois = d.int(1, 3)
    a = d.values((rois, 2), F32, 0, 3)
    boxes = np.concatenate([a, a + d.values((rois, 2), F32, 0.5, 4)], 1).astype(F32)
    attrs = d.only(coordinate_transformation_mode=d.maybe(d.one("half_pixel", "output_half_pixel")))
    d.says(d.values((n, d.int(1, 2), 6, 7), F32), boxes, d.rng.integers(0, n, rois).astype(I64), mode=d.maybe("avg"),
           output_height=d.int(1, 3), output_width=d.int(1, 3), sampling_ratio=d.maybe(d.int(0, 2)),
           spatial_scale=d.maybe(0.5), **attrs)


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
    d.says(boxes, scores, d.maybe(ints(d.int(0, 4)), 0.8), d.maybe(np.array([0.4], F32)), d.maybe(np.array([0.2], F32)),
           center_point_box=d.maybe(d.int(0, 1)))


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
    d.says(d.values((d.int(1, 2), c * kernel[0] * kernel[1], blocks[0] * blocks[1]), F32), ints(*image), ints(*kernel),
           strides=strides, pads=pads)


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
    d.says(d.values((n, c * group, h, w), F32), d.values((m * group, c, k, k), F32), d.values((n, 2 * k * k, *out), F32, -1, 1),
           d.maybe(d.values((m * group,), F32)), d.maybe(d.values((n, k * k, *out), F32)), group=group)


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
    x = d.values((d.int(1, 2), 20, 1), d.one(F32, F64))
    win = d.maybe(d.values((size,), x.dtype))
    d.says(x, np.array(step, I64), win, np.array(size, I64) if win is None or d.chance() else None, onesided=d.maybe(d.int(0, 1)))


@family("HannWindow HammingWindow BlackmanWindow")
def windows(d):
    d.says(np.array(d.int(2, 9), d.one(I32, I64)), periodic=d.maybe(d.int(0, 1)), output_datatype=d.maybe(d.one(1, 11)))


@family("MelWeightMatrix")
def mel(d):
    d.says(np.array(d.int(2, 5), I64), np.array(d.one(16, 32), I64), np.array(8192, I64), np.array(0.0, F32), np.array(4096.0, F32))


# ---- losses ----

@family("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def losses(d):
    n, c, more = d.int(1, 3), d.int(2, 4), d.shape(0, 2, empty=0)
    x = d.values((n, c, *more), F32)
    target = d.rng.integers(0, c, (n, *more)).astype(d.one(I32, I64))
    ignore = d.maybe(d.one(0, 1, -1), 0.4)
    if ignore == -1 and target.size > 1:
        target.flat[0] = -1
    d.says(x, target, d.maybe(d.values((c,), F32, 0.1, 2)), reduction=d.maybe(d.one("none", "mean", "sum")), ignore_index=ignore,
           outputs=d.int(1, 2) if d.name.startswith("Softmax") else 1)


# ---- attention ----

@family("Attention")
def attention(d):
    b, h, groups, l, s, e, v = d.int(1, 2), d.int(1, 2), d.int(1, 2), d.int(1, 4), d.int(1, 4), 2 * d.int(1, 3), d.int(1, 4)
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
    d.says(*inputs, is_causal=d.maybe(d.int(0, 1)), scale=d.maybe(0.3), softcap=d.maybe(2.0, 0.2),
           outputs=3 if past else 1, **sizes)


@family("RotaryEmbedding")
def rotary(d):
    b, h, s, e = d.int(1, 2), d.int(1, 2), d.int(1, 4), 2 * d.int(1, 3)
    flat, at = d.chance(), d.maybe(d.rng.integers(0, 8, (b, s)).astype(I64))
    table = (8, e // 2) if at is not None else (b, s, e // 2)
    d.says(d.values((b, s, h * e) if flat else (b, h, s, e), F32), d.values(table, F32), d.values(table, F32), at,
           interleaved=d.maybe(d.int(0, 1)), num_heads=h if flat else None)


# ---- strings ----

@family("StringNormalizer")
def normalizer(d):
    words = np.array([d.one("Monday", "tuesday", "WEDNESDAY", "ärger") for _ in range(d.int(1, 5))], object)
    d.says(words if d.chance(0.7) else words[None], case_change_action=d.maybe(d.one("LOWER", "UPPER", "NONE")),
           is_case_sensitive=d.maybe(d.int(0, 1)), stopwords=d.maybe(["monday", "tuesday"]))


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
    d.says(d.rng.integers(0, 5, d.one((6,), (2, 5))).astype(d.one(I32, I64)), mode=d.one("TF", "IDF", "TFIDF"),
           min_gram_length=d.int(1, 2), max_gram_length=2, max_skip_count=d.int(0, 2), ngram_counts=[0, 3],
           ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[2, 3, 4, 1, 2, 3, 4], weights=d.maybe([0.5, 1.0, 2.0, 1.5, 0.1]))


# ---- ai.onnx.ml ----

@family("ai.onnx.ml:Binarizer ai.onnx.ml:Normalizer ai.onnx.ml:Scaler ai.onnx.ml:Imputer ai.onnx.ml:LinearRegressor "
        "ai.onnx.ml:LinearClassifier ai.onnx.ml:ArrayFeatureExtractor")
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
        d.says(d.values((n, c), F32), coefficients=[float(v) for v in d.values((targets * c,), F32)], targets=targets,
               intercepts=d.maybe([0.5] * targets), post_transform=d.maybe("NONE"))
    elif name == "LinearClassifier":
        k = d.int(2, 4)
        d.says(d.values((n, c), F32), coefficients=[float(v) for v in d.values((k * c,), F32)], intercepts=[0.1] * k,
               classlabels_ints=list(range(k)), post_transform=d.maybe(d.one("NONE", "SOFTMAX", "LOGISTIC")), outputs=2)
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
    attrs = {key: [] for key in ("nodes_treeids nodes_nodeids nodes_featureids nodes_values nodes_modes nodes_truenodeids "
                                 "nodes_falsenodeids").split()}
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
        attrs.update(n_targets=k, aggregate_function=d.maybe(d.one("SUM", "AVERAGE", "MIN", "MAX")),
                     base_values=d.maybe([0.5] * k))
    d.says(d.values((n, 3), F32), outputs=2 if classify else 1, **attrs)


@family("ai.onnx.ml:SVMRegressor ai.onnx.ml:SVMClassifier")
def svm(d):
    n, c, k = d.int(1, 3), d.int(1, 3), d.int(2, 4)
    kernel = {"kernel_type": d.one("LINEAR", "RBF", "POLY", "SIGMOID"), "kernel_params": [0.3, 0.1, 2.0]}
    if d.name.endswith("Regressor"):
        return d.says(d.values((n, c), F32), coefficients=[float(x) for x in d.values((k,), F32)], n_supports=k, rho=[0.2],
                      support_vectors=[float(x) for x in d.values((k * c,), F32)], **kernel)
    classes = d.int(2, 3)
    pairs = classes * (classes - 1) // 2
    per = [d.int(1, 2) for _ in range(classes)]
    return d.says(d.values((n, c), F32), coefficients=[float(x) for x in d.values((sum(per) * (classes - 1),), F32)],
                  vectors_per_class=per, support_vectors=[float(x) for x in d.values((sum(per) * c,), F32)],
                  rho=[0.1] * pairs, classlabels_ints=list(range(classes)), outputs=2, **kernel)


# ---- com.microsoft ----

@family("com.microsoft:BiasGelu com.microsoft:FastGelu com.microsoft:BiasSplitGelu com.microsoft:SkipLayerNormalization "
        "com.microsoft:SkipSimplifiedLayerNormalization")
def fused_rows(d):
    x = d.values((d.int(1, 2), d.int(1, 3), d.int(1, 3) * 2), F32)
    row = d.values((x.shape[-1],), F32)
    if "Skip" not in d.name:
        return d.says(x, row if d.name.endswith("BiasGelu") else d.maybe(row))
    more = [d.maybe(d.values(row.shape, F32)) for _ in range(1 if "Simplified" in d.name else 2)]
    return d.says(x, d.values(x.shape, F32), row, *more, epsilon=d.maybe(1e-3), outputs=1)


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
        return d.says(small(d, (b, s, 4), U8), small(d, (4, 12), t), heads(d, 1, 1, 12)[0, 0], scale(d), scale(d, wide) / 20,
                      mask, small(d, (), U8), np.zeros(wide, t), **attrs)
    past = d.maybe(d.values((2, b, h, 2, n // h), F32), 0.3) if mask is None else None
    return d.says(heads(d, b, s, n), d.values((4, 12), F32, -1, 1), d.values((12,), F32), mask, past, outputs=2 if past is not None else 1,
                  **attrs)


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
    inputs = [heads(d, b, s, h * g * e), heads(d, b, s, g * e), heads(d, b, s, g * e), d.values((b, g, past, e), F32),
              d.values((b, g, past, e), F32), np.full((b,), past + s - 1, I32), np.array(past + s, I32)]
    if rotary_on:
        inputs += [d.values((8, e // 2), F32, -1, 1), d.values((8, e // 2), F32, -1, 1)]
    d.says(*inputs, num_heads=h * g, kv_num_heads=g, do_rotary=rotary_on, local_window_size=d.maybe(d.int(1, 3)),
           softcap=d.maybe(2.0, 0.3), outputs=3)


@family("com.microsoft:RotaryEmbedding")
def ms_rotary(d):
    b, h, s, e = d.int(1, 2), d.int(1, 2), d.int(1, 4), 8
    at = d.one(ints(d.int(0, 3)), d.rng.integers(0, 8, (b, s)).astype(I64))
    d.says(heads(d, b, s, h * e), at, d.values((8, e // 2), F32), d.values((8, e // 2), F32), interleaved=d.maybe(d.int(0, 1)),
           scale=None)


@family("com.microsoft:QLinearAdd com.microsoft:QLinearMul com.microsoft:QLinearSigmoid com.microsoft:QLinearLeakyRelu")
def qlinear(d):
    t, shape = d.one(U8, I8), d.shape(1, empty=0)
    two = d.name.endswith(("Add", "Mul"))
    other = [small(d, d.like(shape), t), scale(d), small(d, (), t)] if two else []
    d.says(small(d, shape, t), scale(d), small(d, (), t), *other, scale(d), small(d, (), t))


@family("com.microsoft:QLinearWhere")
def qlinear_where(d):
    t, shape = d.one(U8, I8), d.shape(1, empty=0)
    d.says(d.values(d.like(shape), BOOL), small(d, shape, t), scale(d), small(d, (), t), small(d, d.like(shape), t), scale(d),
           small(d, (), t), scale(d), small(d, (), t))


@family("com.microsoft:QLinearConcat com.microsoft:QLinearSoftmax com.microsoft:QLinearGlobalAveragePool "
        "com.microsoft:QLinearAveragePool")
def qlinear_more(d):
    t, name = d.one(U8, I8), d.name.split(":")[1]
    x = small(d, (1, 2, d.int(2, 4), d.int(2, 4)), t)
    ends = [scale(d), small(d, (), t)]
    if name == "QLinearConcat":
        return d.says(*ends, x, scale(d), small(d, (), t), x, scale(d), small(d, (), t), axis=d.int(0, 3))
    if name == "QLinearSoftmax":
        t = U8
        return d.says(small(d, x.shape, t), scale(d), small(d, (), t), np.array(1 / 256, F32), np.array(0, t), axis=3, opset=13)
    if name == "QLinearAveragePool":
        return d.says(x, scale(d), small(d, (), t), *ends, kernel_shape=[2, 2], strides=d.maybe([2, 1]), pads=d.maybe([0, 1, 1, 0]),
                      count_include_pad=d.maybe(d.int(0, 1)))
    return d.says(x, scale(d), small(d, (), t), *ends, channels_last=0)


@family("com.microsoft:MatMulIntegerToFloat com.microsoft:DynamicQuantizeMatMul")
def to_float(d):
    k, n = d.int(1, 5), d.int(1, 4)
    b, by = d.one(U8, I8), d.one((1,), (n,))
    w, zero = small(d, (k, n), b), d.maybe(small(d, by, b))
    if d.name.endswith("ToFloat"):
        return d.says(small(d, (3, k), U8), w, scale(d), scale(d, by), d.maybe(small(d, (), U8)), zero, d.maybe(d.values((n,), F32)))
    return d.says(d.values((3, k), F32), w, scale(d, by), zero, d.maybe(d.values((n,), F32)))


@family("com.microsoft:MatMulNBits")
def n_bits(d):
    k, n, block = d.one(16, 32, 40), d.int(1, 5), d.one(16, 32)
    blocks = -(-k // block)
    d.says(d.values((d.int(1, 3), k), F32, -1, 1), small(d, (n, blocks, block // 2), U8), scale(d, (n * blocks,)),
           d.maybe(small(d, (n * (-(-blocks // 2)),), U8)), K=k, N=n, bits=4, block_size=block)


@family("com.microsoft:NhwcMaxPool")
def nhwc_max_pool(d):
    d.says(small(d, (1, d.int(3, 5), d.int(3, 5), 2), d.one(U8, I8)), kernel_shape=[2, 2], strides=d.maybe([2, 1]),
           pads=d.maybe([0, 1, 1, 0]))


@family("com.microsoft:DynamicQuantizeLSTM")
def quantised_lstm(d):
    steps, batch, size, hidden, ways, t = d.int(1, 4), d.int(1, 2), d.int(1, 3), d.int(1, 3), d.int(1, 2), d.one(U8, I8)
    by = d.one((ways,), (ways, 4 * hidden))
    zero = np.zeros(by, t) if t == I8 else np.full(by, 128, t)
    d.says(d.values((steps, batch, size), F32), small(d, (ways, size, 4 * hidden), t), small(d, (ways, hidden, 4 * hidden), t),
           d.maybe(d.values((ways, 8 * hidden), F32)), None, d.maybe(d.values((ways, batch, hidden), F32)),
           d.maybe(d.values((ways, batch, hidden), F32)), None, scale(d, by) / 10, zero, scale(d, by) / 10, zero,
           direction="bidirectional" if ways == 2 else d.one("forward", "reverse"), hidden_size=hidden, outputs=3)


@family("com.microsoft:CDist com.microsoft:BiasSoftmax com.microsoft:ExpandDims com.microsoft:CropAndResize "
        "com.microsoft:Inverse")
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
    d.says(d.values((d.int(1, 3), k), F32, -1, 1), small(d, (n * k // 2,), U8), d.values((n * k // block,), F32, 0.1, 1), K=k,
           N=n, block_size=block, quant_type=d.int(0, 1))


@family("com.microsoft:GatherBlockQuantized")
def gather_block_quantized(d):
    rows, blocks = d.int(2, 4), d.int(1, 3)
    zero = d.maybe(small(d, (rows, -(-blocks // 2)), U8))
    d.says(small(d, (rows, blocks * 8), U8), d.rng.integers(0, rows, d.shape(1, 2, empty=0)).astype(I64),
           d.values((rows, blocks), F32, 0.1, 1), zero, gather_axis=0, quantize_axis=1, block_size=16, bits=4)


@family("com.microsoft:MatMulInteger16")
def matmul_integer16(d):
    t, k = np.dtype("i2"), d.int(1, 4)
    d.says(d.values((d.int(1, 3), k), t), d.values((k, d.int(1, 3)), t))


@family("com.microsoft:QLinearConv")
def ms_qlinear_conv(d):
    x, w, m = small(d, (1, 5, 4, 2), U8), small(d, (3, 2, 3, 2), d.one(U8, I8)), 3
    d.says(x, scale(d), small(d, (), U8), w, scale(d), np.zeros((), w.dtype), scale(d), small(d, (), U8),
           d.maybe(d.rng.integers(-99, 99, m).astype(I32)), channels_last=1)


@family("com.microsoft:DecoderMaskedMultiHeadAttention")
def decoder_masked(d):
    b, h, e, past, most = 1, d.int(1, 2), 8, d.int(1, 3), 5
    row = d.values((b, 1, h * e), F32, -1, 1)
    d.says(row, d.values(row.shape, F32), d.values(row.shape, F32), None, None, d.values((b, h, most, e), F32),
           d.values((b, h, most, e), F32), np.array([past], I32), num_heads=h, past_present_share_buffer=1, outputs=3)


@family("com.microsoft:MoE com.microsoft:QMoE")
def experts(d):
    tokens, n, size, inner, k = d.int(1, 4), d.int(2, 4), 16, 16, d.int(1, 2)
    kind = d.one("relu", "gelu", "silu", "identity", "swiglu")
    wide = 2 * inner if kind == "swiglu" else inner
    x, scores = d.values((tokens, size), F32, -1, 1), d.values((tokens, n), F32)
    attrs = {"k": k, "activation_type": kind, "normalize_routing_weights": d.int(0, 1),
             "swiglu_fusion": 1 if kind == "swiglu" else None}
    if kind == "swiglu":
        attrs.update(activation_alpha=1.7, activation_beta=1.0, swiglu_limit=d.maybe(0.5))
    if d.name.endswith(":MoE"):
        return d.says(x, scores, d.values((n, wide, size), F32, -1, 1), d.maybe(d.values((n, wide), F32)),
                      d.values((n, size, inner), F32, -1, 1), d.maybe(d.values((n, size), F32)), **attrs)
    attrs.update(expert_weight_bits=4)
    return d.says(x, scores, small(d, (n, wide, size // 2), U8), d.values((n, wide), F32, 0.01, 0.1),
                  d.maybe(d.values((n, wide), F32)), small(d, (n, size, inner // 2), U8), d.values((n, size), F32, 0.01, 0.1),
                  d.maybe(d.values((n, size), F32)), None, None, None, None, None, None,
                  d.maybe(d.values((tokens, n), F32, 0.1, 1), 0.3), **attrs)


@family("com.microsoft:QEmbedLayerNormalization com.microsoft:EmbedLayerNormalization")
def embed(d):
    b, s, n, words = d.int(1, 2), d.int(1, 3), 4, 5
    ids, kinds = [d.rng.integers(0, k, (b, s)).astype(I32) for k in (words, 2)]
    mask = d.maybe((d.rng.random((b, s)) < 0.7).astype(I32))
    shapes = [(words, n), (6, n), (2, n), (n,), (n,)]
    if d.name.endswith(":EmbedLayerNormalization"):
        return d.says(ids, kinds, *[d.values(shape, F32) for shape in shapes], mask, outputs=2)
    return d.says(ids, kinds, *[small(d, shape, U8) for shape in shapes], mask, *[scale(d) for _ in shapes],
                  *[small(d, (), U8) for _ in shapes], outputs=2)


@family("com.microsoft:GatedRMSNorm com.microsoft:BranchwiseRMSNorm com.microsoft:ScaledSiLU com.microsoft:UnfoldTensor "
        "com.microsoft:GatedAdd")
def rows_again(d):
    name, x = d.name.split(":")[1], d.values((2, d.int(1, 3), 8), F32)
    if name == "GatedRMSNorm":
        return d.says(x, d.values((d.one(4, 8),), F32), d.values(x.shape, F32), activation=d.maybe(d.one("silu", "sigmoid")))
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
    d.says(d.values((b, s, h * e), F32), d.rng.integers(0, 8, (3, b, s)).astype(I64), d.values((8, e // 2), F32),
           d.values((8, e // 2), F32), mrope_section=[2, 2, 2], mrope_layout=d.int(0, 1), num_heads=h, rotary_embedding_dim=0,
           interleaved=d.maybe(d.int(0, 1)))


# ---- operators that onnx has given up, and onnxruntime has not ----

@family("Affine ParametricSoftplus ScaledTanh ImageScaler Crop")
def old(d):
    x, f = d.values((1, 2, 5, 6), F32), {"alpha": 0.5, "beta": d.one(1.0, 2.0)}
    attrs = {"ImageScaler": {"scale": d.maybe(0.5), "bias": [1.0, 2.0]},
             "Crop": {"border": [1, 0, 2, 1], "scale": d.maybe([2, 3])}}.get(d.name, f)
    d.says(x, **attrs)
