"""Cases of src/nn/attention.c and transformer.c. See README.md."""
import torch
from torch.nn import Transformer

from golden import Case, M, T

# torch.nn does not list it, but attention is made of it
torch.nn.NonDynamicallyQuantizableLinear = torch.nn.modules.linear.NonDynamicallyQuantizableLinear

CASES = [Case("NonDynamicallyQuantizableLinear", {"in_features": 3, "out_features": 4}, {"input": T(2, 3)}, work=True)]
SELF = {"query": T(5, 2, 4), "key": T(5, 2, 4), "value": T(5, 2, 4)}
CROSS = {"query": T(3, 2, 4), "key": T(5, 2, 4), "value": T(5, 2, 4)}
PADDING = torch.tensor([[False, False, False, True, True], [False, False, False, False, True]])
HIDDEN = torch.tensor([[i % 3 == 1 for i in range(5)], [False] * 5, [i > 2 for i in range(5)]])
HEADS = {"embed_dim": 4, "num_heads": 2}


def attend(make, call, **more):
    CASES.append(Case("MultiheadAttention", {**HEADS, **make}, call, **{"modes": ("train",), **more}))


attend({}, SELF, modes=("train", "eval"), work=True)
attend({}, {**CROSS, "need_weights": False})
attend({}, {**CROSS, "average_attn_weights": False})
attend({"batch_first": True}, {"query": T(2, 3, 4), "key": T(2, 5, 4), "value": T(2, 5, 4)})
attend({"batch_first": True}, {"query": T(2, 3, 4), "key": T(2, 5, 4), "value": T(2, 5, 4), "need_weights": False})
attend({"bias": False}, {"query": T(3, 4), "key": T(5, 4), "value": T(5, 4)})
attend({"batch_first": True}, {"query": T(3, 4), "key": T(5, 4), "value": T(5, 4), "need_weights": False})
attend({"kdim": 3, "vdim": 5}, {"query": T(3, 2, 4), "key": T(5, 2, 3), "value": T(5, 2, 5)})
attend({"vdim": 5, "bias": False}, {"query": T(3, 2, 4), "key": T(5, 2, 4), "value": T(5, 2, 5), "need_weights": False})
for more in ({"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}):
    attend(more, CROSS)
    attend(more, {**CROSS, "need_weights": False, "key_padding_mask": PADDING, "attn_mask": HIDDEN})
for weights in (True, False):
    call = {**CROSS, "need_weights": weights}
    attend({}, {**call, "key_padding_mask": PADDING})
    attend({}, {**call, "attn_mask": HIDDEN})
    attend({}, {**call, "attn_mask": T(3, 5)}, fixed=("attn_mask",))
    attend({}, {**call, "attn_mask": T(4, 3, 5)}, fixed=("attn_mask",))
    attend({}, {**call, "attn_mask": T(3, 5), "key_padding_mask": T(2, 5)}, fixed=("attn_mask", "key_padding_mask"))
    attend({}, {**SELF, "need_weights": weights, "attn_mask": Transformer.generate_square_subsequent_mask(5),
                "is_causal": True}, fixed=("attn_mask",))
attend({}, {"query": T(3, 4), "key": T(5, 4), "value": T(5, 4), "attn_mask": T(2, 3, 5),
            "key_padding_mask": PADDING[0]}, fixed=("attn_mask",))
attend({"dropout": 0.3}, SELF, modes=("eval",))
for weights in (True, False):
    attend({"dropout": 0.3}, {"query": T(2, 4), "key": T(3, 4), "value": T(3, 4), "need_weights": weights}, random=True,
           run=lambda m, v: m(**v)[0])
attend({"num_heads": 3}, {}, error="make")
attend({"embed_dim": 0}, {}, error="make")
attend({}, {"query": T(3, 2, 6), "key": T(5, 2, 6), "value": T(5, 2, 6)}, error="call")
attend({}, {**CROSS, "is_causal": True}, error="call")
attend({}, {**CROSS, "attn_mask": T(5, 3)}, error="call")
attend({}, {**CROSS, "attn_mask": T(3, 3, 5)}, error="call")
attend({}, {**CROSS, "key_padding_mask": PADDING[:1]}, error="call")
attend({}, {"query": T(3, 4), "key": T(5, 2, 4), "value": T(5, 2, 4)}, error="call")

LAYER = {"d_model": 4, "nhead": 2, "dim_feedforward": 6, "dropout": 0.0}
CAUSAL = Transformer.generate_square_subsequent_mask(5)
SRC = {"src": T(5, 2, 4)}
TGT = {"tgt": T(3, 2, 4), "memory": T(5, 2, 4)}


def layer(cls, make, call, **more):
    CASES.append(Case(cls, {**LAYER, **make}, call, **{"modes": ("train",), **more}))


layer("TransformerEncoderLayer", {}, SRC, modes=("train", "eval"))
layer("TransformerEncoderLayer", {"norm_first": True, "activation": "gelu"}, {**SRC, "src_mask": CAUSAL,
                                                                              "is_causal": True}, fixed=("src_mask",))
layer("TransformerEncoderLayer", {"batch_first": True, "bias": False, "layer_norm_eps": 0.1},
      {"src": T(2, 5, 4), "src_key_padding_mask": PADDING})
layer("TransformerEncoderLayer", {"dropout": 0.2}, SRC, modes=("eval",))
layer("TransformerEncoderLayer", {"dropout": 0.2, "dim_feedforward": 3}, {"src": T(2, 4)}, random=True)
layer("TransformerEncoderLayer", {"activation": "tanh"}, {}, error="make")
layer("TransformerDecoderLayer", {}, TGT, modes=("train", "eval"))
layer("TransformerDecoderLayer", {"norm_first": True, "activation": "gelu"},
      {**TGT, "tgt_mask": CAUSAL[:3, :3], "memory_mask": T(3, 5), "memory_key_padding_mask": T(2, 5),
       "tgt_is_causal": True}, fixed=("tgt_mask", "memory_mask", "memory_key_padding_mask"))
layer("TransformerDecoderLayer", {"batch_first": True, "bias": False},
      {"tgt": T(2, 3, 4), "memory": T(2, 5, 4), "tgt_key_padding_mask": PADDING[:, 1:4]})

CASES += [
    Case("TransformerEncoder", {"encoder_layer": M("TransformerEncoderLayer", **LAYER), "num_layers": 2},
         {"src": T(3, 2, 4)}, modes=("train",)),
    Case("TransformerEncoder", {"encoder_layer": M("TransformerEncoderLayer", **LAYER), "num_layers": 2,
                                "norm": M("LayerNorm", normalized_shape=4)},
         {"src": T(5, 2, 4), "mask": CAUSAL, "src_key_padding_mask": T(2, 5)}, modes=("train",),
         fixed=("mask", "src_key_padding_mask")),
    Case("TransformerDecoder", {"decoder_layer": M("TransformerDecoderLayer", **LAYER), "num_layers": 2},
         {"tgt": T(3, 2, 4), "memory": T(2, 2, 4)}, modes=("train",)),
    Case("TransformerDecoder", {"decoder_layer": M("TransformerDecoderLayer", **LAYER), "num_layers": 1,
                                "norm": M("LayerNorm", normalized_shape=4)},
         {"tgt": T(5, 2, 4), "memory": T(2, 2, 4), "tgt_mask": CAUSAL}, modes=("train",), fixed=("tgt_mask",)),
    Case("Transformer", {**LAYER, "num_encoder_layers": 1, "num_decoder_layers": 1},
         {"src": T(3, 2, 4), "tgt": T(2, 2, 4)}, modes=("train", "eval")),
    Case("Transformer", {**LAYER, "num_encoder_layers": 2, "num_decoder_layers": 1, "batch_first": True,
                         "norm_first": True, "bias": False, "activation": "gelu"},
         {"src": T(2, 5, 4), "tgt": T(2, 3, 4), "tgt_mask": CAUSAL[:3, :3], "src_key_padding_mask": T(2, 5),
          "memory_key_padding_mask": T(2, 5)}, modes=("train",),
         fixed=("tgt_mask", "src_key_padding_mask", "memory_key_padding_mask")),
    Case("Transformer", {**LAYER, "num_encoder_layers": 1, "num_decoder_layers": 1},
         {"src": T(3, 2, 4), "tgt": T(2, 3, 4)}, modes=("train",), error="call"),
]
