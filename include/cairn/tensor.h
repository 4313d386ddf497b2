/* tensor.h: tensors themselves: making them from host memory, looking into them, copying out.
 *
 * Everything that computes, creation by formula and views included, is an op and stands in ops.h.
 */
#ifndef CAIRN_TENSOR_H
#define CAIRN_TENSOR_H

#include "base.h"

/* Lists of numbers. CN_SHAPE(2, 3) gives the two arguments (list, count) of a function that takes a list of integers;
 * CN_INTS(1, 0) and CN_DOUBLES(0.9, 0.99) are lists as options: .padding = CN_INTS(1, 0). Each number means what it
 * says, 0 too. Where a fixed count is wanted, as for the two strides of an image, a list of one stands for all. */
#define CN_SHAPE(...) \
  ((const int64_t[]){__VA_ARGS__}), (sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define CN_SCALAR_SHAPE NULL, 0
#define CN_INTS(...) \
  {(const int64_t[]){__VA_ARGS__}, (sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))}
#define CN_DOUBLES(...) \
  {(const double[]){__VA_ARGS__}, (sizeof((const double[]){__VA_ARGS__}) / sizeof(double))}

CN_BEGIN_DECLS

/* Lists in an options struct. v NULL: not given. */
typedef struct cn_ints {
  const int64_t *v;
  size_t n;
} cn_ints;
typedef struct cn_doubles {
  const double *v;
  size_t n;
} cn_doubles;

/* How a tensor holds its elements. */
typedef enum cn_layout {
  CN_LAYOUT_STRIDED, /* memory, sizes and strides */
  CN_LAYOUT_COO,     /* indices (sparse_dim, n) and values (n, ...) of what is there; all else is zero */
  CN_LAYOUT_CSR,     /* the same by rows: where each begins, the column of each value */
  CN_LAYOUT_CSC,     /* by columns */
  CN_LAYOUT_BSR,     /* rows of blocks */
  CN_LAYOUT_BSC      /* columns of blocks */
} cn_layout;

/* ---- from host memory ---- */
/* Copies numel elements of `dtype`, row-major. */
CN_API cn_tensor *cn_from_data(const void *data, const int64_t *shape, size_t ndim, cn_dtype dtype);
/* Uses the memory in place. strides (in elements) may be NULL for row-major. `free` (may be NULL) is
 * called once with payload when the last tensor over the memory is gone, or at once on failure. */
CN_API cn_tensor *cn_from_borrowed(void *data, const int64_t *shape, const int64_t *strides, size_t ndim,
                                   cn_dtype dtype, void (*free)(void *payload), void *payload);
/* As cn_from_borrowed, row-major, of memory that nobody else has the address of, a mapped file's say: compiled
 * functions keep what they make of such weights, where they look at borrowed ones in every run. */
CN_API cn_tensor *cn_from_taken(void *data, const int64_t *shape, size_t ndim, cn_dtype dtype,
                                void (*free)(void *payload), void *payload);
/* Weak scalars: zero-dimensional, and they do not raise the type of the tensor they meet within its
 * category (PyTorch's rule for Python numbers). */
CN_API cn_tensor *cn_num(double value);
CN_API cn_tensor *cn_int(int64_t value);
CN_API cn_tensor *cn_bool(bool value);
CN_API cn_tensor *cn_complex_num(double real, double imag);
/* A strong one-dimensional float32 tensor from an array; the shortest way to write data down. */
CN_API cn_tensor *cn_floats(const float *values, size_t n);

/* A copy of a CPU tensor, without history, in pinned memory: host memory that `device` reads by itself. cn_to_device
 * from it only queues the copy and returns; writing to the tensor by ops, and cn_data, wait until it is done, so ask
 * cn_data anew before writing through its pointer. t itself where it is such a tensor already, and where the device
 * has no such memory (the CPU) or no more of it. Freed blocks are kept for the next tensor of about their size. */
CN_API cn_tensor *cn_pin_memory(cn_tensor *t, cn_device device);

/* Moves a CPU tensor into memory that processes share: what one writes, a child that is forked later sees, so does a
 * process that was given cn_shared_fd and made its own tensor over it. t stays the same handle; an error when other
 * tensors lie in its memory (views), because they would stay behind. Processes that write at the same time race. */
CN_API int cn_share_memory(cn_tensor *t);
CN_API int cn_shared_fd(const cn_tensor *t); /* the descriptor of that memory, borrowed; -1 when it is not shared */
/* A tensor over memory that another process shares: fd is that process's, passed on; it stays the caller's. offset
 * counts elements, strides NULL: contiguous. */
CN_API cn_tensor *cn_from_shared(int fd, int64_t offset, const int64_t *shape, const int64_t *strides, size_t ndim,
                                 cn_dtype dtype);
/* The same for what was handed over rather than shared: no descriptor stays open, and cn_is_shared is false. */
CN_API cn_tensor *cn_take_shared(int fd, int64_t offset, const int64_t *shape, const int64_t *strides, size_t ndim,
                                 cn_dtype dtype);
CN_API cn_tensor *cn_zeros_shared(const int64_t *shape, size_t ndim, cn_dtype dtype); /* in such memory at once */

/* ---- looking into a tensor; all safe on NULL ---- */
CN_API cn_dtype cn_dtype_of(const cn_tensor *t);
CN_API cn_device cn_device_of(const cn_tensor *t);
CN_API int64_t cn_numel(const cn_tensor *t);
CN_API int cn_ndim(const cn_tensor *t);
CN_API const int64_t *cn_shape(const cn_tensor *t);
CN_API const int64_t *cn_strides(const cn_tensor *t); /* in elements */
CN_API int64_t cn_size(const cn_tensor *t, int64_t dim); /* negative dims count from the end */
CN_API bool cn_same_shape(const cn_tensor *a, const cn_tensor *b);
CN_API bool cn_is_contiguous(const cn_tensor *t);
CN_API bool cn_is_channels_last(const cn_tensor *t); /* 4-D NHWC or 5-D NDHWC memory order */
CN_API bool cn_is_view(const cn_tensor *t);
CN_API bool cn_is_pinned(const cn_tensor *t); /* in memory of cn_pin_memory */
CN_API bool cn_is_shared(const cn_tensor *t); /* in memory that cn_shared_fd has a descriptor of */
CN_API uint64_t cn_tensor_version(const cn_tensor *t); /* writes so far, as autograd counts them */
CN_API size_t cn_tensor_nbytes(const cn_tensor *t);

/* ---- sparse tensors: ops.h makes them (cn_sparse_coo_tensor, cn_to_sparse) and gives their parts (cn_indices) ---- */
CN_API cn_layout cn_layout_of(const cn_tensor *t);
CN_API bool cn_is_sparse(const cn_tensor *t); /* of any layout but CN_LAYOUT_STRIDED */
CN_API int64_t cn_nnz(const cn_tensor *t);    /* how many values (blocks) it holds, in each batch */
CN_API int cn_sparse_dim(const cn_tensor *t); /* how many dimensions indices are for */
CN_API int cn_dense_dim(const cn_tensor *t);  /* how many each value has by itself */
CN_API bool cn_is_coalesced(const cn_tensor *t); /* COO: each place once, in order */

/* ---- to host memory ---- */
/* The one element of a one-element tensor. Errors (and 0) for others. */
CN_API double cn_item(cn_tensor *t);
CN_API int64_t cn_item_int(cn_tensor *t);
/* Copies all elements, row-major, in the tensor's own type; `size` bytes must be enough. */
CN_API int cn_to_data(void *data, size_t size, cn_tensor *t);
/* Overwrites all elements from row-major host memory in the tensor's own type. */
CN_API int cn_copy_from_data(cn_tensor *t, const void *data, size_t size);
/* The host memory of a CPU tensor, at its first element; NULL and an error for other devices.
 * Waits for pending work. Writing through it is the caller's responsibility. */
CN_API void *cn_data(cn_tensor *t);
/* The same, to read only. */
CN_API const void *cn_data_const(cn_tensor *t);
/* Of borrowed memory: nobody writes to it any more but by ops, as where a file is mapped for this tensor alone.
 * Compiled programs may then keep what they made of such a weight until it is written to, as they do with memory of
 * cairn's own that cn_data or DLPack gave nobody. Returns t. */
CN_API cn_tensor *cn_tensor_sole(cn_tensor *t);

/* ---- printing ---- */
/* As PyTorch prints it. Returns an owned string to be given to cn_string_free, NULL on failure. */
CN_API CN_MUST_USE char *cn_to_string(cn_tensor *t);
CN_API void cn_string_free(char *string);
CN_API int cn_print(cn_tensor *t); /* to standard output, with a newline */
typedef struct cn_print_options {
  int precision; /* digits after the point; 4 */
  int threshold; /* elements above which the middle is left out; 1000 */
  int edge_items; /* shown at each end then; 3 */
  int line_width; /* 80 */
  int scientific; /* floats as 1.0000e+00: 1 always, -1 never; 0 where the sizes ask for it */
} cn_print_options;
CN_API void cn_set_print_options(const cn_print_options *options); /* NULL restores; zero fields default */

/* How many elements behind the beginning of its memory a tensor's first one lies. */
CN_API int64_t cn_storage_offset(const cn_tensor *t);
CN_API size_t cn_storage_nbytes(const cn_tensor *t); /* of that memory, which other tensors may share */

/* ---- DLPack ---- */
/* `managed` is a DLManagedTensor* (or DLManagedTensorVersioned* for the versioned pair) of the published
 * layout: see ext/dlpack.h. Memory of the CPU and of CUDA devices is shared; read-only memory is copied. On CUDA the
 * giver's work must be in front of cn_device_stream's queue, or waited for (cn_device_sync).
 *
 * From: takes it over; its deleter runs when the last tensor over it is gone. */
CN_API cn_tensor *cn_from_dlpack(void *managed);
CN_API cn_tensor *cn_from_dlpack_versioned(void *managed);
/* To: owned by the caller, who calls its deleter. */
CN_API CN_MUST_USE void *cn_to_dlpack(cn_tensor *t);
CN_API CN_MUST_USE void *cn_to_dlpack_versioned(cn_tensor *t);

CN_END_DECLS
#endif
