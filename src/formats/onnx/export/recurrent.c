/* recurrent.c: recurrent networks as LSTM, GRU and RNN. See row.h.
 *
 * Invariant: weights keep their initialisers; ONNX's order of gates, and its stacking of directions, is made of them by
 * nodes, which runtimes compute once. onnxruntime has none of these operators for float64, which goes by parts. */
#include <string.h>

#include "row.h"

typedef struct network {
  cni_oxcall *c;
  const char *op, *activation;
  int gates, order[4]; /* the gate of PyTorch that stands at each place of ONNX's */
  int type;
  int64_t hidden;
} network;

/* A slice of the first dim. */
static cni_oxval rows(cni_ox *x, cni_oxval v, int64_t from, int64_t n)
{
  return cni_ox_slice(x, v, 0, cni_ox_whole(from), cni_ox_whole(from + n), 1);
}

static cni_oxval reordered(const network *n, cni_oxval v)
{
  cni_oxval parts[4];
  v = cni_ox_cast(n->c->x, v, n->type);
  if (n->gates == 1) return v;
  for (int g = 0; g < n->gates; g++) parts[g] = rows(n->c->x, v, n->order[g] * n->hidden, n->hidden);
  return cni_ox_concat(n->c->x, n->gates, parts, 0);
}

/* What each direction has, as one: (directions, ...). */
static cni_oxval stacked(const network *n, const cni_oxval *each, int directions)
{
  cni_oxval parts[2];
  for (int d = 0; d < directions; d++) parts[d] = cni_ox_unsqueeze(n->c->x, each[d], 0);
  return cni_ox_concat(n->c->x, directions, parts, 0);
}

static network network_of(cni_oxcall *c, const char *mode)
{
  network n = {.c = c, .op = "RNN", .gates = 1, .type = cni_ox_wide(c->out[0].dtype)};
  if (strstr(mode, "lstm")) n = (network){c, "LSTM", NULL, 4, {0, 3, 1, 2}, n.type, 0};
  else if (strstr(mode, "gru")) n = (network){c, "GRU", NULL, 3, {1, 0, 2}, n.type, 0};
  else n.activation = strstr(mode, "relu") ? "Relu" : "Tanh";
  return n;
}

static void put_activations(cni_ox *x, const char *name, int n)
{
  const char *all[2] = {name, name};
  if (name) cni_ox_texts(x, "activations", all, n);
}

/* One layer over v (T, B, n): w: for each direction its weights (w_ih, w_hh, b_ih, b_hh), of which biases may be
 * absent. out: (T, directions, B, H), last states (directions, B, H). */
static void layer(const network *n, cni_oxval v, const cni_oxval (*w)[4], int directions, const char *direction,
                  cni_oxval h, cni_oxval s, cni_oxval *out)
{
  cni_ox *x = n->c->x;
  cni_oxval each[3][2], in[8];
  bool biased = cni_ox_there(&w[0][2]);
  for (int d = 0; d < directions; d++) {
    for (int k = 0; k < 2; k++) each[k][d] = reordered(n, w[d][k]);
    if (!biased) continue;
    cni_oxval b[2] = {reordered(n, w[d][2]), reordered(n, w[d][3])};
    each[2][d] = cni_ox_concat(x, 2, b, 0);
  }
  in[0] = v;
  for (int k = 0; k < 3; k++) in[1 + k] = k < 2 || biased ? stacked(n, each[k], directions) : cni_ox_absent();
  in[4] = cni_ox_absent(), in[5] = h, in[6] = s;
  cni_ox_int(x, "hidden_size", n->hidden);
  cni_ox_text(x, "direction", direction);
  if (!strcmp(n->op, "GRU")) cni_ox_int(x, "linear_before_reset", 1);
  put_activations(x, n->activation, directions);
  out[0] = (cni_oxval){.id = -1, .dtype = n->type, .ndim = 4, .open = (v.open & 1) | (v.open & 2) << 1};
  out[0].shape[0] = v.shape[0], out[0].shape[1] = directions, out[0].shape[2] = v.shape[1],
  out[0].shape[3] = n->hidden;
  out[1] = out[2] = h;
  cni_ox_node(x, n->op, 7, in, n->gates == 4 ? 3 : 2, out);
}

/* (T, directions, B, H) as (T, B, directions * H) */
static cni_oxval side_by_side(const network *n, cni_oxval y, int directions)
{
  cni_ox *x = n->c->x;
  if (directions == 1) return cni_ox_squeeze(x, y, 1);
  cni_oxval v = cni_ox_swap(x, y, 1, 2);
  int64_t sizes[3] = {0, 0, directions * n->hidden}; /* 0: as it is */
  cni_oxval out = CNI_OX_EMIT(x, "Reshape", v, cni_ox_list(x, sizes, 3));
  sizes[0] = v.shape[0], sizes[1] = v.shape[1];
  return cni_ox_shaped(out, 3, sizes, v.open & 3);
}

static bool is_empty(const cni_oxval *v)
{
  for (int k = 0; k < v->ndim; k++)
    if (!v->shape[k]) return true;
  return false;
}

/* NAME(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static bool networks(cni_oxcall *c)
{
  cni_ox *x = c->x;
  network n = network_of(c, c->name);
  int states = n.gates == 4 ? 2 : 1, layers = (int)cni_oxarg_int(c, 4), directions = cni_oxarg_int(c, 7) ? 2 : 1;
  int per = cni_oxarg_int(c, 3) ? 4 : 2, first = 1 + states;
  const cni_oxval *p = c->in + first;
  cni_oxval last[2][64], w[2][4], out[3];
  if ((cni_oxarg_int(c, 6) && cni_oxarg_float(c, 5) > 0) || c->nin - first != layers * directions * per) return false;
  if (layers > 64 || is_empty(&c->in[0]) || n.type == CN_F64) return false; /* projections, dropout: by parts */
  n.hidden = p[1].shape[1];
  cni_oxval v = cni_ox_cast(x, c->in[0], n.type);
  if (cni_oxarg_int(c, 8)) v = cni_ox_swap(x, v, 0, 1);
  for (int k = 0; k < layers && !x->failed; k++) {
    cni_oxval start[2] = {cni_ox_absent(), cni_ox_absent()};
    for (int s = 0; s < states; s++) {
      cni_oxval all = cni_ox_cast(x, c->in[1 + s], n.type);
      start[s] = layers > 1 ? rows(x, all, (int64_t)k * directions, directions) : all;
    }
    for (int d = 0; d < directions; d++)
      for (int i = 0; i < 4; i++) w[d][i] = i < per ? p[(k * directions + d) * per + i] : cni_ox_absent();
    layer(&n, v, w, directions, directions == 2 ? "bidirectional" : "forward", start[0], start[1], out);
    v = side_by_side(&n, out[0], directions);
    for (int s = 0; s < states; s++) last[s][k] = out[1 + s];
  }
  if (x->failed) return true;
  cni_ox_give(c, 0, cni_oxarg_int(c, 8) ? cni_ox_swap(x, v, 0, 1) : v);
  for (int s = 0; s < states; s++) cni_ox_give(c, 1 + s, cni_ox_concat(x, layers, last[s], 0));
  return true;
}

/* Does anything read result k? */
static bool is_read(const cni_oxcall *c, int k)
{
  cn_graph_node n = {sizeof n};
  return k < c->nout && !cn_graph_node_at(&n, c->graph, c->node) && cni_ox_reads(c, n.out[k]);
}

/* recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse, keep, batch_sizes): one direction */
static bool sequence(cni_oxcall *c)
{
  cni_ox *x = c->x;
  network n = network_of(c, cni_oxarg_text(c, 7));
  cni_oxval w[1][4] = {{c->in[1], c->in[2], c->in[4], c->in[5]}}, out[3];
  if (!cni_oxarg_none(c, 10) || n.type == CN_F64 || is_empty(&c->in[0]) || c->in[0].ndim != 3) return false;
  if (cni_ox_there(&c->in[4]) != cni_ox_there(&c->in[5]) || is_read(c, 3)) return false;
  if (n.gates != 4 && is_read(c, 2)) return false;
  n.hidden = c->in[2].shape[1];
  cni_oxval v = cni_ox_cast(x, c->in[0], n.type), h = cni_ox_unsqueeze(x, cni_ox_cast(x, c->in[3], n.type), 0);
  cni_oxval s = n.gates == 4 ? cni_ox_unsqueeze(x, cni_ox_cast(x, c->in[6], n.type), 0) : cni_ox_absent();
  layer(&n, v, w, 1, cni_oxarg_int(c, 8) ? "reverse" : "forward", h, s, out);
  cni_ox_give(c, 0, cni_ox_squeeze(x, out[0], 1));
  cni_ox_give(c, 1, cni_ox_squeeze(x, out[1], 0));
  if (n.gates == 4) cni_ox_give(c, 2, cni_ox_squeeze(x, out[2], 0));
  return true;
}

const cni_oxrow cni_ox_recurrent_rows[] = {
    BUILD("lstm", 14, networks),
    BUILD("gru", 14, networks),
    BUILD("rnn_tanh", 14, networks),
    BUILD("rnn_relu", 14, networks),
    BUILD("recurrent_sequence", 14, sequence),
    {NULL, NULL, NULL, 0},
};
