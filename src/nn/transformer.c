/* transformer.c: encoder and decoder layers, stacks of them, and the whole Transformer.
 *
 * Place in the flow: over MultiheadAttention, Linear, LayerNorm and Dropout as children under PyTorch's names.
 * Invariant: a value between two parts is used by the next ones only, so parts may be replaced by the program. */
#include <cairn/nn.h>
#include <math.h>
#include <string.h>

#include "nn.h"

cn_tensor *cn_nn_square_subsequent_mask(int64_t size, cn_dtype dtype, cn_device device)
{
  if (size < 0) {
    cn_err_set(CN_ERR_VALUE, "square_subsequent_mask: the size cannot be negative");
    return NULL;
  }
  return cn_triu(cn_full(CN_SHAPE(size, size), -HUGE_VAL, .dtype = dtype, .device = device), .diagonal = 1);
}

/* ---- layers: what both have in common ---- */

enum { D_MODEL, NHEAD, FEEDFORWARD, DROPOUT, ACTIVATION, EPS, BATCH_FIRST, NORM_FIRST, BIAS, DEVICE, DTYPE };

static void add_attention(cn_module *m, const char *name, const cn_value *a)
{
  cn_value args[] = {a[D_MODEL], a[NHEAD], a[DROPOUT], a[BIAS], cn_v_bool(false), cn_v_bool(false), cn_v_none(),
                     cn_v_none(), a[BATCH_FIRST], a[DEVICE], a[DTYPE]};
  cn_module_add(m, name, cn_module_make("MultiheadAttention", args, 11));
}

static void add_linear(cn_module *m, const char *name, const cn_value *a, int64_t in, int64_t out)
{
  cn_value args[] = {cn_v_int(in), cn_v_int(out), a[BIAS], a[DEVICE], a[DTYPE]};
  cn_module_add(m, name, cn_module_make("Linear", args, 5));
}

static cn_module *make_norm(const cn_value *size, const cn_value *eps, const cn_value *bias, const cn_value *place)
{
  cn_value args[] = {cn_v_ints(&size->u.i, 1), *eps, cn_v_bool(true), *bias, place[0], place[1]};
  return cn_module_make("LayerNorm", args, 6);
}

static void add_norm(cn_module *m, const char *name, const cn_value *a)
{
  cn_module_add(m, name, make_norm(&a[D_MODEL], &a[EPS], &a[BIAS], &a[DEVICE]));
}

static void add_dropout(cn_module *m, const char *name, const cn_value *a)
{
  cn_module_add(m, name, cn_module_make("Dropout", &a[DROPOUT], 1));
}

static int check_activation(const cn_module *m, const char *name)
{
  if (!strcmp(name, "relu") || !strcmp(name, "gelu")) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: activation is 'relu' or 'gelu', not '%s'", m->cls->name, name);
}

static cn_tensor *child(cn_module *m, size_t i, cn_tensor *x) { return cn_forward(cn_module_child(m, i), x); }

/* dropout(attention(query, memory, memory)). mask, padding: may be NULL. */
static cn_tensor *attend(cn_module *attention, cn_module *dropout, cn_tensor *query, cn_tensor *memory,
                         const cn_value *mask, const cn_value *padding, bool causal)
{
  cn_tensor *y;
  cn_value args[] = {cn_v_tensor(query), cn_v_tensor(memory), cn_v_tensor(memory), *padding, cn_v_bool(false), *mask,
                     cn_v_bool(true), cn_v_bool(causal)};
  if (cn_err() || cn_forward_values(&y, 1, attention, args, 8)) return NULL;
  return cn_forward(dropout, y);
}

/* dropout(linear2(dropout(activation(linear1(x))))): children i, i + 1, i + 2 are linear1, dropout, linear2. */
static cn_tensor *feed_forward(cn_module *m, size_t i, cn_tensor *x, cn_module *dropout)
{
  bool gelu = *cni_args(m)[ACTIVATION].u.s == 'g';
  x = child(m, i, x);
  x = child(m, i + 1, gelu ? cn_gelu(x) : cn_relu(x));
  return cn_forward(dropout, child(m, i + 2, x));
}

/* What differs between layers is not printed; the children say it. */
static void print_nothing(const cn_module *m, cn_text *t)
{
  (void)m;
  (void)t;
}

/* ---- TransformerEncoderLayer ---- */

static int encoder_layer_init(cn_module *m, const cn_value *a)
{
  int64_t width = a[D_MODEL].u.i, inner = a[FEEDFORWARD].u.i;
  if (check_activation(m, a[ACTIVATION].u.s)) return cn_err();
  add_attention(m, "self_attn", a);
  add_linear(m, "linear1", a, width, inner);
  add_dropout(m, "dropout", a);
  add_linear(m, "linear2", a, inner, width);
  add_norm(m, "norm1", a);
  add_norm(m, "norm2", a);
  add_dropout(m, "dropout1", a);
  add_dropout(m, "dropout2", a);
  return cn_err();
}

static int encoder_layer_forward(cn_module *m, cn_module_call *call)
{
  enum { SELF, LINEAR1, INNER_DROPOUT, LINEAR2, NORM1, NORM2, DROPOUT1, DROPOUT2 };
  const cn_value *mask = &call->args[1], *padding = &call->args[2];
  cn_module *self = cn_module_child(m, SELF), *drop1 = cn_module_child(m, DROPOUT1),
            *drop2 = cn_module_child(m, DROPOUT2);
  cn_tensor *x = call->args[0].u.t, *y;
  bool causal = call->args[3].u.i;
  if (cni_args(m)[NORM_FIRST].u.i) {
    y = child(m, NORM1, x);
    x = cn_add(x, attend(self, drop1, y, y, mask, padding, causal));
    x = cn_add(x, feed_forward(m, LINEAR1, child(m, NORM2, x), drop2));
  } else {
    x = child(m, NORM1, cn_add(x, attend(self, drop1, x, x, mask, padding, causal)));
    x = child(m, NORM2, cn_add(x, feed_forward(m, LINEAR1, x, drop2)));
  }
  call->out[0] = x;
  return cn_err();
}

static const cn_module_class encoder_layer = {
  CN_MODULE_CLASS,
  .name = "TransformerEncoderLayer",
  .sig = "TransformerEncoderLayer(int d_model, int nhead, int dim_feedforward=2048, float dropout=0.1, "
         "str activation='relu', float layer_norm_eps=1e-5, bool batch_first=False, bool norm_first=False, "
         "bool bias=True, device? device=None, dtype? dtype=None) -> Module ; transformer_encoder_layer",
  .doc = "Attention of a sequence to itself, then two linear layers, each around a shortcut with a norm.",
  .call = "(Tensor src, Tensor? src_mask=None, Tensor? src_key_padding_mask=None, bool is_causal=False) -> Tensor",
  .init = encoder_layer_init,
  .forward = encoder_layer_forward,
  .print = print_nothing,
};

/* ---- TransformerDecoderLayer ---- */

static int decoder_layer_init(cn_module *m, const cn_value *a)
{
  int64_t width = a[D_MODEL].u.i, inner = a[FEEDFORWARD].u.i;
  if (check_activation(m, a[ACTIVATION].u.s)) return cn_err();
  add_attention(m, "self_attn", a);
  add_attention(m, "multihead_attn", a);
  add_linear(m, "linear1", a, width, inner);
  add_dropout(m, "dropout", a);
  add_linear(m, "linear2", a, inner, width);
  add_norm(m, "norm1", a);
  add_norm(m, "norm2", a);
  add_norm(m, "norm3", a);
  add_dropout(m, "dropout1", a);
  add_dropout(m, "dropout2", a);
  add_dropout(m, "dropout3", a);
  return cn_err();
}

static int decoder_layer_forward(cn_module *m, cn_module_call *call)
{
  enum { SELF, CROSS, LINEAR1, INNER_DROPOUT, LINEAR2, NORM1, NORM2, NORM3, DROPOUT1, DROPOUT2, DROPOUT3 };
  enum { TGT, MEMORY, TGT_MASK, MEMORY_MASK, TGT_PADDING, MEMORY_PADDING, TGT_CAUSAL, MEMORY_CAUSAL };
  const cn_value *a = call->args;
  cn_module *self = cn_module_child(m, SELF), *cross = cn_module_child(m, CROSS);
  cn_module *drop[] = {cn_module_child(m, DROPOUT1), cn_module_child(m, DROPOUT2), cn_module_child(m, DROPOUT3)};
  cn_tensor *x = a[TGT].u.t, *memory = a[MEMORY].u.t, *y;
  bool causal = a[TGT_CAUSAL].u.i, memory_causal = a[MEMORY_CAUSAL].u.i;
  if (cni_args(m)[NORM_FIRST].u.i) {
    y = child(m, NORM1, x);
    x = cn_add(x, attend(self, drop[0], y, y, &a[TGT_MASK], &a[TGT_PADDING], causal));
    y = child(m, NORM2, x);
    x = cn_add(x, attend(cross, drop[1], y, memory, &a[MEMORY_MASK], &a[MEMORY_PADDING], memory_causal));
    x = cn_add(x, feed_forward(m, LINEAR1, child(m, NORM3, x), drop[2]));
  } else {
    x = child(m, NORM1, cn_add(x, attend(self, drop[0], x, x, &a[TGT_MASK], &a[TGT_PADDING], causal)));
    y = attend(cross, drop[1], x, memory, &a[MEMORY_MASK], &a[MEMORY_PADDING], memory_causal);
    x = child(m, NORM2, cn_add(x, y));
    x = child(m, NORM3, cn_add(x, feed_forward(m, LINEAR1, x, drop[2])));
  }
  call->out[0] = x;
  return cn_err();
}

#define DECODER_CALL                                                                                                  \
  "(Tensor tgt, Tensor memory, Tensor? tgt_mask=None, Tensor? memory_mask=None, "                                     \
  "Tensor? tgt_key_padding_mask=None, Tensor? memory_key_padding_mask=None, bool tgt_is_causal=False, "               \
  "bool memory_is_causal=False) -> Tensor"

static const cn_module_class decoder_layer = {
  CN_MODULE_CLASS,
  .name = "TransformerDecoderLayer",
  .sig = "TransformerDecoderLayer(int d_model, int nhead, int dim_feedforward=2048, float dropout=0.1, "
         "str activation='relu', float layer_norm_eps=1e-5, bool batch_first=False, bool norm_first=False, "
         "bool bias=True, device? device=None, dtype? dtype=None) -> Module ; transformer_decoder_layer",
  .doc = "Attention of a sequence to itself and to an encoder's memory, then two linear layers, each around a shortcut "
         "with a norm.",
  .call = DECODER_CALL,
  .init = decoder_layer_init,
  .forward = decoder_layer_forward,
  .print = print_nothing,
};

/* ---- stacks ---- */

/* n deep copies of the layer in a list "layers", and the norm if any. */
static int stack_init(cn_module *m, const cn_value *a)
{
  if (a[1].u.i < 0) return cn_err_set(CN_ERR_VALUE, "%s: num_layers cannot be negative", m->cls->name);
  cn_module *list = cn_nn_module_list_of(NULL, 0);
  for (int64_t i = 0; i < a[1].u.i && !cn_err(); i++) cn_module_add(list, NULL, cn_module_copy(a[0].u.m));
  cn_module_add(m, "layers", list);
  if (a[2].tag == CN_V_MODULE) cn_module_add(m, "norm", cn_module_keep(a[2].u.m));
  return cn_err();
}

/* Runs the layers, the first argument of each being what the one before gave. A value between two layers is dropped as
 * soon as the next one has used it. */
static int stack_forward(cn_module *m, cn_module_call *call)
{
  cn_module *list = cn_module_child(m, 0);
  cn_value args[CN_MAX_ARGS];
  memcpy(args, call->args, call->nargs * sizeof *args);
  cn_tensor *x = cn_keep(args[0].u.t), *y;
  size_t n = cn_module_nchildren(list), norm = cn_module_nchildren(m) > 1;
  for (size_t i = 0; i < n + norm && x; i++) {
    cn_scope *s = cn_scope_begin();
    args[0] = cn_v_tensor(x);
    cn_forward_values(&y, 1, i < n ? cn_module_child(list, i) : cn_module_child(m, 1), args, i < n ? call->nargs : 1);
    y = cn_keep(y);
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  call->out[0] = x ? cn_scope_give(x) : NULL;
  return cn_err();
}

static const cn_module_class encoder = {
  CN_MODULE_CLASS,
  .name = "TransformerEncoder",
  .sig = "TransformerEncoder(Module encoder_layer, int num_layers, Module? norm=None, bool enable_nested_tensor=True, "
         "bool mask_check=True) -> Module ; transformer_encoder",
  .doc = "num_layers copies of a layer, and a norm behind them. enable_nested_tensor and mask_check change nothing "
         "here.",
  .call = "(Tensor src, Tensor? mask=None, Tensor? src_key_padding_mask=None, bool? is_causal=None) -> Tensor",
  .init = stack_init,
  .forward = stack_forward,
  .print = print_nothing,
};

static const cn_module_class decoder = {
  CN_MODULE_CLASS,
  .name = "TransformerDecoder",
  .sig = "TransformerDecoder(Module decoder_layer, int num_layers, Module? norm=None) -> Module ; transformer_decoder",
  .doc = "num_layers copies of a layer, and a norm behind them.",
  .call = "(Tensor tgt, Tensor memory, Tensor? tgt_mask=None, Tensor? memory_mask=None, "
          "Tensor? tgt_key_padding_mask=None, Tensor? memory_key_padding_mask=None, bool? tgt_is_causal=None, "
          "bool memory_is_causal=False) -> Tensor",
  .init = stack_init,
  .forward = stack_forward,
  .print = print_nothing,
};

/* ---- Transformer ---- */

enum { T_MODEL, T_HEAD, T_ENCODERS, T_DECODERS, T_FEEDFORWARD, T_DROPOUT, T_ACTIVATION, T_ENCODER, T_DECODER, T_EPS,
       T_BATCH_FIRST, T_NORM_FIRST, T_BIAS, T_DEVICE, T_DTYPE };

/* A stack of layers of that class with a norm. */
static cn_module *make_stack(const char *stack, const char *layer, const cn_value *count, const cn_value *a)
{
  cn_value args[] = {a[T_MODEL], a[T_HEAD], a[T_FEEDFORWARD], a[T_DROPOUT], a[T_ACTIVATION], a[T_EPS],
                     a[T_BATCH_FIRST], a[T_NORM_FIRST], a[T_BIAS], a[T_DEVICE], a[T_DTYPE]};
  cn_module *one = cn_module_make(layer, args, 11), *made = NULL;
  cn_module *norm = one ? make_norm(&a[T_MODEL], &a[T_EPS], &a[T_BIAS], &a[T_DEVICE]) : NULL;
  cn_value parts[] = {cn_v_module(one), *count, cn_v_module(norm)};
  if (norm) made = cn_module_make(stack, parts, 3);
  cn_module_release(one);
  cn_module_release(norm);
  return made;
}

static int draw_matrices(cn_module *m)
{
  cn_named_list list;
  int status = cn_module_named(&list, m, CN_PARAMETERS);
  for (size_t i = 0; !status && i < list.n; i++)
    if (cn_ndim(list.v[i].tensor) > 1) status = cn_init_xavier_uniform(list.v[i].tensor, 1);
  cn_named_free(&list);
  return status;
}

static int transformer_init(cn_module *m, const cn_value *a)
{
  if (a[T_ENCODER].tag == CN_V_MODULE) cn_module_add(m, "encoder", cn_module_keep(a[T_ENCODER].u.m));
  else cn_module_add(m, "encoder", make_stack("TransformerEncoder", "TransformerEncoderLayer", &a[T_ENCODERS], a));
  if (a[T_DECODER].tag == CN_V_MODULE) cn_module_add(m, "decoder", cn_module_keep(a[T_DECODER].u.m));
  else cn_module_add(m, "decoder", make_stack("TransformerDecoder", "TransformerDecoderLayer", &a[T_DECODERS], a));
  return cn_err() ? cn_err() : draw_matrices(m);
}

static int transformer_forward(cn_module *m, cn_module_call *call)
{
  enum { SRC, TGT, SRC_MASK, TGT_MASK, MEMORY_MASK, SRC_PADDING, TGT_PADDING, MEMORY_PADDING, SRC_CAUSAL, TGT_CAUSAL,
         MEMORY_CAUSAL };
  const cn_value *a = call->args, *made = cni_args(m);
  cn_tensor *src = a[SRC].u.t, *tgt = a[TGT].u.t, *memory;
  int ndim = cn_ndim(src), batch = made[T_BATCH_FIRST].u.i ? 0 : 1;
  if (ndim != cn_ndim(tgt) || (ndim == 3 && cn_size(src, batch) != cn_size(tgt, batch)))
    return cn_err_set(CN_ERR_SHAPE, "Transformer: src and tgt must have the same batch");
  if (cn_size(src, -1) != made[T_MODEL].u.i || cn_size(tgt, -1) != made[T_MODEL].u.i)
    return cn_err_set(CN_ERR_SHAPE, "Transformer: src and tgt must have d_model = %lld columns",
                      (long long)made[T_MODEL].u.i);
  cn_value encode[] = {a[SRC], a[SRC_MASK], a[SRC_PADDING], a[SRC_CAUSAL]};
  if (cn_forward_values(&memory, 1, cn_module_child(m, 0), encode, 4)) return cn_err();
  cn_value decode[] = {a[TGT], cn_v_tensor(memory), a[TGT_MASK], a[MEMORY_MASK], a[TGT_PADDING], a[MEMORY_PADDING],
                       a[TGT_CAUSAL], a[MEMORY_CAUSAL]};
  return cn_forward_values(call->out, 1, cn_module_child(m, 1), decode, 8);
}

static const cn_module_class transformer = {
  CN_MODULE_CLASS,
  .name = "Transformer",
  .sig = "Transformer(int d_model=512, int nhead=8, int num_encoder_layers=6, int num_decoder_layers=6, "
         "int dim_feedforward=2048, float dropout=0.1, str activation='relu', Module? custom_encoder=None, "
         "Module? custom_decoder=None, float layer_norm_eps=1e-5, bool batch_first=False, bool norm_first=False, "
         "bool bias=True, device? device=None, dtype? dtype=None) -> Module ; transformer",
  .doc = "An encoder of src and a decoder from tgt and the encoder's memory.",
  .call = "(Tensor src, Tensor tgt, Tensor? src_mask=None, Tensor? tgt_mask=None, Tensor? memory_mask=None, "
          "Tensor? src_key_padding_mask=None, Tensor? tgt_key_padding_mask=None, "
          "Tensor? memory_key_padding_mask=None, bool? src_is_causal=None, bool? tgt_is_causal=None, "
          "bool memory_is_causal=False) -> Tensor",
  .init = transformer_init,
  .forward = transformer_forward,
  .print = print_nothing,
};

const cn_module_class *const cni_nn_transformer_classes[] = {&encoder_layer, &decoder_layer, &encoder,
                                                             &decoder,       &transformer,   NULL};
