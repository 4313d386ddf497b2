/* packed.c: sequences of several lengths in one tensor without padding. See nn.h.
 *
 * Place in the flow: before and behind recurrent layers. A packed tensor is one selection of rows of the padded one,
 * and back one copy of rows, so gradients are single ops too. Invariant: lengths never grow from one sequence to the
 * next in packed order; equal ones keep their order. */
#include <cairn/nn.h>
#include <string.h>

#include "nn.h"

/* Lengths on the host, and the order that sorts them. */
typedef struct lengths {
  int64_t *length, *order, *place; /* of each sequence; of each place; of each sequence */
  int64_t n, longest, rows;
} lengths;

static void lengths_free(lengths *l) { cn_free(l->length, 3 * (size_t)l->n * sizeof *l->length); }

static int lengths_room(lengths *l, int64_t n)
{
  *l = (lengths){.n = n};
  l->length = cn_alloc_zero(3 * (size_t)n * sizeof *l->length);
  if (!l->length) return CN_ERR_MEMORY;
  l->order = l->length + n;
  l->place = l->order + n;
  return CN_OK;
}

/* Sorts by falling length: each length's first place is known from how many are longer. */
static int lengths_sort(lengths *l, bool sorted, int64_t most)
{
  for (int64_t i = 0; i < l->n; i++) {
    int64_t length = l->length[i];
    if (length < 1 || length > most)
      return cn_err_set(CN_ERR_VALUE, "pack: lengths must lie between 1 and %lld, one is %lld", (long long)most,
                        (long long)length);
    if (sorted && i && length > l->length[i - 1])
      return cn_err_set(CN_ERR_VALUE, "pack: lengths must fall; pass .no_enforce_sorted where they do not");
    l->rows += length;
    if (length > l->longest) l->longest = length;
  }
  size_t bytes = (size_t)(l->longest + 1) * sizeof(int64_t);
  int64_t *next = cn_alloc_zero(bytes); /* of a length: the place of the next sequence that has it */
  if (!next) return CN_ERR_MEMORY;
  for (int64_t i = 0; i < l->n; i++) next[l->length[i] - 1]++;
  for (int64_t k = l->longest - 1; k >= 0; k--) next[k] += next[k + 1]; /* those longer than k */
  for (int64_t i = 0; i < l->n; i++) {
    l->place[i] = next[l->length[i]]++;
    l->order[l->place[i]] = i;
  }
  cn_free(next, bytes);
  return CN_OK;
}

static int lengths_read(lengths *l, cn_tensor *t, bool sorted, int64_t most)
{
  if (cn_ndim(t) != 1 || !cn_dtype_is_int(cn_dtype_of(t)) || !cn_numel(t))
    return cn_err_set(CN_ERR_SHAPE, "pack: lengths must be whole numbers, one for each sequence");
  cn_tensor *wide = cn_cast(t, CN_I64);
  if (!wide || lengths_room(l, cn_numel(t))) return cn_err();
  int status = cn_to_data(l->length, (size_t)l->n * sizeof *l->length, wide);
  if (!status) status = lengths_sort(l, sorted, most);
  if (status) lengths_free(l);
  return status;
}

static cn_tensor *ints(const int64_t *v, int64_t n, cn_device device)
{
  cn_tensor *t = cn_from_data(v, &n, 1, CN_I64);
  return t && device != cn_device_of(t) ? cn_to_device(t, device) : t;
}

/* Fills batch_sizes and the two orders. */
static int describe(cn_packed *p, const lengths *l, bool sorted, cn_device device)
{
  size_t bytes = (size_t)l->longest * sizeof(int64_t);
  int64_t *sizes = cn_alloc(bytes), have = l->n;
  if (!sizes) return CN_ERR_MEMORY;
  for (int64_t t = 0; t < l->longest; t++) {
    while (l->length[l->order[have - 1]] <= t) have--;
    sizes[t] = have;
  }
  p->batch_sizes = ints(sizes, l->longest, CN_CPU);
  cn_free(sizes, bytes);
  if (!sorted) {
    p->sorted_indices = ints(l->order, l->n, device);
    p->unsorted_indices = ints(l->place, l->n, device);
  }
  return cn_err();
}

/* Where each packed row stands in rows laid flat: that of step t of sequence i is at[i] + t * step. */
static cn_tensor *row_index(const lengths *l, const int64_t *at, int64_t each, int64_t step, cn_device device)
{
  size_t bytes = (size_t)l->rows * sizeof(int64_t);
  int64_t *index = cn_alloc(bytes), n = 0;
  if (!index) return NULL;
  for (int64_t t = 0; t < l->longest; t++)
    for (int64_t k = 0; k < l->n && l->length[l->order[k]] > t; k++) {
      int64_t i = l->order[k];
      index[n++] = (at ? at[i] : i * each) + t * step;
    }
  cn_tensor *result = ints(index, n, device);
  cn_free(index, bytes);
  return result;
}

int cn_pack_padded_with(cn_packed *packed, cn_tensor *input, cn_tensor *lengths_given, const cn_pack_opts *opts)
{
  cn_pack_opts room;
  const cn_pack_opts *o = cn_opts_read(&room, sizeof room, opts, "pack_padded");
  lengths l = {0};
  memset(packed, 0, sizeof *packed);
  if (!o || cn_err()) return cn_err();
  if (cn_ndim(input) < 2) return cn_err_set(CN_ERR_SHAPE, "pack: the input must have 2 or more dimensions");
  int64_t steps = cn_size(input, o->batch_first ? 1 : 0), batch = cn_size(input, o->batch_first ? 0 : 1);
  if (cn_numel(lengths_given) != batch)
    return cn_err_set(CN_ERR_SHAPE, "pack: %lld lengths for %lld sequences", (long long)cn_numel(lengths_given),
                      (long long)batch);
  bool sorted = !o->no_enforce_sorted;
  if (lengths_read(&l, lengths_given, sorted, steps)) return cn_err();
  cn_tensor *flat = cn_flatten(input, .end_dim = 1);
  cn_tensor *index = row_index(&l, NULL, o->batch_first ? steps : 1, o->batch_first ? 1 : batch, cn_device_of(input));
  packed->data = index ? cn_index_select(flat, 0, index) : NULL;
  int status = packed->data ? describe(packed, &l, sorted, cn_device_of(input)) : cn_err();
  lengths_free(&l);
  return status;
}

int cn_pack_sequence_with(cn_packed *packed, cn_tensor *const *sequences, size_t n, const cn_pack_opts *opts)
{
  cn_pack_opts room;
  const cn_pack_opts *o = cn_opts_read(&room, sizeof room, opts, "pack_sequence");
  lengths l = {0};
  memset(packed, 0, sizeof *packed);
  if (!o || cn_err()) return cn_err();
  if (!n) return cn_err_set(CN_ERR_VALUE, "pack: there are no sequences");
  if (lengths_room(&l, (int64_t)n)) return cn_err();
  size_t bytes = n * sizeof(int64_t);
  int64_t *at = cn_alloc(bytes), sum = 0; /* where each begins in all of them joined */
  for (size_t i = 0; at && i < n; i++) {
    l.length[i] = cn_ndim(sequences[i]) ? cn_size(sequences[i], 0) : 0;
    at[i] = sum;
    sum += l.length[i];
  }
  bool sorted = !o->no_enforce_sorted;
  int status = at ? lengths_sort(&l, sorted, INT64_MAX - 1) : CN_ERR_MEMORY;
  cn_device device = cn_device_of(sequences[0]);
  cn_tensor *index = status ? NULL : row_index(&l, at, 0, 1, device);
  packed->data = index ? cn_index_select(cn_cat(sequences, n), 0, index) : NULL;
  if (!status) status = packed->data ? describe(packed, &l, sorted, device) : cn_err();
  cn_free(at, bytes);
  lengths_free(&l);
  return status;
}

/* ---- back ---- */

/* Lengths and order of what was packed. */
static int lengths_of(lengths *l, const cn_packed *p)
{
  int64_t steps = cn_numel(p->batch_sizes), batch = 0;
  size_t bytes = (size_t)steps * sizeof(int64_t);
  int64_t *sizes = steps ? cn_alloc(bytes) : NULL;
  if (!steps) return cn_err_set(CN_ERR_VALUE, "pad_packed: there are no steps");
  if (!sizes) return CN_ERR_MEMORY;
  int status = cn_to_data(sizes, bytes, p->batch_sizes);
  for (int64_t t = 0; !status && t < steps; t++)
    if (sizes[t] < 1 || (t && sizes[t] > sizes[t - 1]))
      status = cn_err_set(CN_ERR_VALUE, "pad_packed: batch_sizes must be positive and never grow");
  if (!status) status = lengths_room(l, batch = sizes[0]);
  if (status) {
    cn_free(sizes, bytes);
    return status;
  }
  cn_tensor *order = p->sorted_indices ? cn_to_device(p->sorted_indices, CN_CPU) : NULL;
  if (order && (cn_numel(order) != batch || cn_dtype_of(order) != CN_I64))
    status = cn_err_set(CN_ERR_SHAPE, "pad_packed: sorted_indices must name each of %lld sequences", (long long)batch);
  else if (order) status = cn_to_data(l->order, (size_t)batch * sizeof *l->order, order);
  else status = cn_err();
  for (int64_t k = 0, t = steps; !status && k < batch; k++) {
    while (sizes[t - 1] <= k) t--;
    if (!order) l->order[k] = k;
    if (l->order[k] < 0 || l->order[k] >= batch || l->length[l->order[k]]) {
      status = cn_err_set(CN_ERR_INDEX, "pad_packed: sorted_indices must name each of %lld sequences",
                          (long long)batch);
      break;
    }
    l->length[l->order[k]] = t;
    l->rows += t;
  }
  l->longest = steps;
  cn_free(sizes, bytes);
  if (status) lengths_free(l);
  return status;
}

int cn_pad_packed_with(cn_tensor **output, cn_tensor **lengths_out, const cn_packed *packed,
                       const cn_pad_sequence_opts *opts)
{
  cn_pad_sequence_opts room;
  const cn_pad_sequence_opts *o = cn_opts_read(&room, sizeof room, opts, "pad_packed");
  lengths l = {0};
  int64_t shape[CN_MAX_DIMS + 1];
  cn_tensor *x = packed->data;
  if (output) *output = NULL;
  if (lengths_out) *lengths_out = NULL;
  if (!o || cn_err() || lengths_of(&l, packed)) return cn_err();
  int64_t steps = o->total_length ? o->total_length : l.longest;
  int status = CN_OK, ndim = cn_ndim(x);
  if (steps < l.longest)
    status = cn_err_set(CN_ERR_VALUE, "pad_packed: total_length %lld is below the longest sequence's %lld",
                        (long long)steps, (long long)l.longest);
  else if (ndim < 1 || ndim >= CN_MAX_DIMS || cn_size(x, 0) != l.rows)
    status = cn_err_set(CN_ERR_SHAPE, "pad_packed: data must have %lld rows", (long long)l.rows);
  if (!status && output) {
    shape[0] = steps * l.n;
    for (int d = 1; d < ndim; d++) shape[d] = shape[d + 1] = cn_size(x, d);
    cn_tensor *index = row_index(&l, NULL, o->batch_first ? steps : 1, o->batch_first ? 1 : l.n, cn_device_of(x));
    cn_tensor *base = cn_full(shape, (size_t)ndim, o->padding_value, .dtype = cn_dtype_of(x),
                              .device = cn_device_of(x));
    shape[0] = o->batch_first ? l.n : steps;
    shape[1] = o->batch_first ? steps : l.n;
    for (int d = 1; d < ndim; d++) shape[d + 1] = cn_size(x, d);
    if (index) *output = cn_reshape(cn_index_copy(base, 0, index, x), shape, (size_t)ndim + 1);
  }
  if (!status && lengths_out) *lengths_out = ints(l.length, l.n, CN_CPU);
  lengths_free(&l);
  return status ? status : cn_err();
}

cn_tensor *cn_pad_sequence_with(cn_tensor *const *sequences, size_t n, const cn_pad_sequence_opts *opts)
{
  cn_pad_sequence_opts room;
  const cn_pad_sequence_opts *o = cn_opts_read(&room, sizeof room, opts, "pad_sequence");
  if (!o || cn_err()) return NULL;
  const char *side = o->padding_side ? o->padding_side : "right";
  bool left = !strcmp(side, "left");
  int64_t longest = o->total_length;
  for (size_t i = 0; i < n; i++)
    if (cn_size(sequences[i], 0) > longest) longest = cn_size(sequences[i], 0);
  if (!n || (!left && strcmp(side, "right"))) {
    cn_err_set(CN_ERR_VALUE, "pad_sequence: needs sequences, and a padding_side of \"right\" or \"left\"");
    return NULL;
  }
  size_t bytes = n * sizeof(cn_tensor *);
  cn_tensor **padded = cn_alloc(bytes), *y = NULL;
  bool whole = padded != NULL;
  for (size_t i = 0; whole && i < n; i++) {
    int ndim = cn_ndim(sequences[i]);
    int64_t pad[2 * CN_MAX_DIMS] = {0}; /* two numbers a dimension, the last dimension first */
    if (ndim) pad[2 * ndim - (left ? 2 : 1)] = longest - cn_size(sequences[i], 0);
    padded[i] = cn_constant_pad_nd(sequences[i], pad, 2 * (size_t)ndim, .value = o->padding_value);
    whole = padded[i] != NULL;
  }
  if (whole) y = cn_stack(padded, n, .dim = o->batch_first ? CN_ZERO : 1);
  cn_free(padded, bytes);
  return y;
}

/* Views of the rows that belong to each sequence. */
int cn_unpad_sequence(cn_tensor **sequences, size_t n, cn_tensor *padded, cn_tensor *lengths_given, bool batch_first)
{
  lengths l = {0};
  int64_t batch = batch_first ? 0 : 1;
  for (size_t i = 0; i < n; i++) sequences[i] = NULL;
  if (cn_err()) return cn_err();
  if (cn_ndim(padded) < 2 || cn_size(padded, batch) != (int64_t)n || cn_numel(lengths_given) != (int64_t)n)
    return cn_err_set(CN_ERR_SHAPE, "unpad_sequence: needs the tensor and the lengths of %zu sequences", n);
  if (lengths_read(&l, lengths_given, false, cn_size(padded, 1 - batch))) return cn_err();
  for (size_t i = 0; i < n; i++)
    sequences[i] = cn_narrow(cn_select(padded, batch, (int64_t)i), 0, 0, l.length[i]);
  lengths_free(&l);
  return cn_err();
}

int cn_unpack_sequence(cn_tensor **sequences, size_t n, const cn_packed *packed)
{
  cn_tensor *padded, *lengths_found;
  for (size_t i = 0; i < n; i++) sequences[i] = NULL;
  int status = cn_pad_packed(&padded, &lengths_found, packed, .batch_first = true);
  return status ? status : cn_unpad_sequence(sequences, n, padded, lengths_found, true);
}

/* ---- through a recurrent layer ---- */

static cn_tensor *arranged(cn_tensor *state, cn_tensor *order)
{
  return state && order ? cn_index_select(state, 1, order) : state;
}

int cn_forward_packed(cn_packed *output, cn_tensor **h_n, cn_tensor **c_n, cn_module *rnn, const cn_packed *input,
                      cn_tensor *h_0, cn_tensor *c_0)
{
  const cn_signature *call = rnn ? cn_module_class_call(rnn->cls) : NULL;
  cn_tensor *out[3] = {NULL};
  memset(output, 0, sizeof *output);
  if (cn_err()) return cn_err();
  int sizes = call ? cn_signature_find(call, "batch_sizes") : -1;
  bool memory = sizes == 3;
  if (sizes < 0 || (c_0 && !memory))
    return cn_err_set(CN_ERR_TYPE, "forward_packed: needs an RNN, GRU or LSTM; only the last has a c_0");
  cn_value args[4] = {cn_v_tensor(input->data), cn_v_tensor(arranged(h_0, input->sorted_indices)),
                      cn_v_tensor(arranged(c_0, input->sorted_indices))};
  args[sizes] = cn_v_tensor(input->batch_sizes);
  int status = cn_forward_values(out, memory ? 3 : 2, rnn, args, (size_t)sizes + 1);
  if (status) return status;
  *output = *input;
  output->data = out[0];
  if (h_n) *h_n = arranged(out[1], input->unsorted_indices);
  if (c_n) *c_n = arranged(out[2], input->unsorted_indices);
  return cn_err();
}
