/* nn.h: layers, containers and initialisers: the modules of torch.nn.
 *
 * The constructors of single layers stand in layers.h, which is generated from the classes in src/nn:
 * cn_nn_conv2d(3, 64, 7, .stride = CN_INTS(2), .padding = CN_INTS(3), .no_bias = true).
 */
#ifndef CAIRN_NN_H
#define CAIRN_NN_H

#include "layers.h"
#include "module.h"

CN_BEGIN_DECLS

/* ---- containers; they take their children over ---- */
CN_API CN_MUST_USE cn_module *cn_nn_sequential_of(cn_module *const *children, size_t n);
CN_API CN_MUST_USE cn_module *cn_nn_module_list_of(cn_module *const *children, size_t n);
CN_API CN_MUST_USE cn_module *cn_nn_module_dict_of(const char *const *names, cn_module *const *children, size_t n);
CN_API CN_MUST_USE cn_module *cn_nn_residual_of(cn_module *const *children, size_t n); /* x + children(x) */
/* All children on the same input; join: "cat" along dim, or "sum". */
CN_API CN_MUST_USE cn_module *cn_nn_parallel_of(cn_module *const *children, size_t n, int64_t dim, const char *join);

/* ---- initialisers: the distributions of torch.nn.init, written into t ---- */
CN_API int cn_init_uniform(cn_tensor *t, double a, double b); /* from a up to b */
CN_API int cn_init_normal(cn_tensor *t, double mean, double std);
CN_API int cn_init_constant(cn_tensor *t, double value);
CN_API int cn_init_ones(cn_tensor *t);
CN_API int cn_init_zeros(cn_tensor *t);
CN_API int cn_init_eye(cn_tensor *t);                     /* t: (n, m); ones on the diagonal */
CN_API int cn_init_dirac(cn_tensor *t, int64_t groups);   /* a convolution's weight that changes nothing */
/* Variance 2 / (inputs + outputs), times gain^2. t: (outputs, inputs, ...). */
CN_API int cn_init_xavier_uniform(cn_tensor *t, double gain);
CN_API int cn_init_xavier_normal(cn_tensor *t, double gain);
/* Variance gain^2 / inputs, or outputs. */
typedef struct cn_init_kaiming_opts {
  size_t size;
  const struct cn_guard *guard;
  double a;                 /* the slope of leaky_relu below zero; default 0 */
  const char *mode;         /* "fan_in" (default) or "fan_out" */
  const char *nonlinearity; /* what comes behind: default "leaky_relu" */
} cn_init_kaiming_opts;
CN_API int cn_init_kaiming_uniform_with(cn_tensor *t, const cn_init_kaiming_opts *opts);
CN_API int cn_init_kaiming_normal_with(cn_tensor *t, const cn_init_kaiming_opts *opts);
CN_API int cn_init_trunc_normal(cn_tensor *t, double mean, double std, double a, double b); /* within [a, b] */
CN_API int cn_init_orthogonal(cn_tensor *t, double gain); /* rows or columns at right angles, those that are fewer */
CN_API int cn_init_sparse(cn_tensor *t, double sparsity, double std); /* that part of each column is zero */
/* What a nonlinearity ("relu", "tanh", ...) wants its inputs' deviation multiplied by. param: the slope of leaky_relu,
 * NAN for its default. 0 with the error set for a name that is not known. */
CN_API double cn_init_gain(const char *nonlinearity, double param);

/* ---- sequences of several lengths, packed: torch.nn.utils.rnn ---- */
/* The rows of all first steps, then of all second steps, and so on; longer sequences come first. Tensors belong to the
 * innermost scope. */
typedef struct cn_packed {
  cn_tensor *data;             /* (rows of all steps, ...) */
  cn_tensor *batch_sizes;      /* (steps), int64 on the CPU: how many sequences have such a step */
  cn_tensor *sorted_indices;   /* (batch): which sequence stands where; NULL: they were in order */
  cn_tensor *unsorted_indices; /* (batch): where a sequence stands */
} cn_packed;
typedef struct cn_pack_opts {
  size_t size;
  const struct cn_guard *guard;
  bool batch_first;       /* input is (batch, steps, ...), not (steps, batch, ...) */
  bool no_enforce_sorted; /* lengths may come in any order */
} cn_pack_opts;
/* lengths: (batch), whole numbers from 1 up to the steps. */
CN_API int cn_pack_padded_with(cn_packed *packed, cn_tensor *input, cn_tensor *lengths, const cn_pack_opts *opts);
/* Of n sequences (length, ...). */
CN_API int cn_pack_sequence_with(cn_packed *packed, cn_tensor *const *sequences, size_t n, const cn_pack_opts *opts);
typedef struct cn_pad_sequence_opts {
  size_t size;
  const struct cn_guard *guard;
  bool batch_first;
  double padding_value;
  int64_t total_length; /* steps of the result; default: those of the longest sequence */
  const char *padding_side; /* of cn_pad_sequence: "right" (default) or "left" */
} cn_pad_sequence_opts;
/* The inverse; lengths (may be NULL) receives (batch) int64, in the sequences' first order as output is. */
CN_API int cn_pad_packed_with(cn_tensor **output, cn_tensor **lengths, const cn_packed *packed,
                              const cn_pad_sequence_opts *opts);
CN_API cn_tensor *cn_pad_sequence_with(cn_tensor *const *sequences, size_t n, const cn_pad_sequence_opts *opts);
/* The n sequences in a padded tensor, or a packed one. */
CN_API int cn_unpad_sequence(cn_tensor **sequences, size_t n, cn_tensor *padded, cn_tensor *lengths, bool batch_first);
CN_API int cn_unpack_sequence(cn_tensor **sequences, size_t n, const cn_packed *packed);
/* Runs an RNN, LSTM or GRU over packed sequences. States h_0, c_0 (may be NULL) and h_n, c_n (may be NULL) are in the
 * sequences' first order. */
CN_API int cn_forward_packed(cn_packed *output, cn_tensor **h_n, cn_tensor **c_n, cn_module *rnn,
                             const cn_packed *input, cn_tensor *h_0, cn_tensor *c_0);

/* ---- transformers ---- */
/* (size, size): 0 on and below the diagonal, -inf above it: no place sees a later one. */
CN_API cn_tensor *cn_nn_square_subsequent_mask(int64_t size, cn_dtype dtype, cn_device device);

/* ---- adaptive softmax ---- */
/* Of an AdaptiveLogSoftmaxWithLoss: log probabilities of all classes (N, n_classes), and the likeliest class (N). */
CN_API cn_tensor *cn_nn_adaptive_log_prob(cn_module *m, cn_tensor *input);
CN_API cn_tensor *cn_nn_adaptive_predict(cn_module *m, cn_tensor *input);

CN_END_DECLS

#ifndef __cplusplus
#define cn_nn_sequential(...) cn_nn_sequential_of(CN_MODULES(__VA_ARGS__))
#define cn_nn_module_list(...) cn_nn_module_list_of(CN_MODULES(__VA_ARGS__))
#define cn_init_kaiming_uniform(...) \
  cn_init_kaiming_uniform_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_init_kaiming_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_init_kaiming_normal(...) \
  cn_init_kaiming_normal_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_init_kaiming_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_pack_padded(packed, input, ...) \
  cn_pack_padded_with(packed, input, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_pack_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_pack_sequence(packed, sequences, ...) \
  cn_pack_sequence_with(packed, sequences, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_pack_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_pad_packed(output, lengths, ...) \
  cn_pad_packed_with(output, lengths, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_pad_sequence_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_pad_sequence(sequences, ...) \
  cn_pad_sequence_with(sequences, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_pad_sequence_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_nn_residual(...) cn_nn_residual_of(CN_MODULES(__VA_ARGS__))
#endif

#endif
