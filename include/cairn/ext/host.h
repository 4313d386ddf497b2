/* ext/host.h: the services cairn gives a backend plugin. A plugin is a shared library that exports
 *
 *     const cn_backend *cn_plugin_init(const cn_host *host);
 *
 * and links against nothing of cairn: all it may use is this table and the ext headers. New services are
 * added at the end; `size` tells how many there are. */
#ifndef CAIRN_EXT_HOST_H
#define CAIRN_EXT_HOST_H

#include "../device.h"
#include "backend.h"
#include "dtypes.h"
#include "graph.h"
#include "stablehlo.h"
#include "system.h"

CN_BEGIN_DECLS

/* ---- generated loops ---- */
typedef enum cn_lang { CN_LANG_C, CN_LANG_CUDA } cn_lang;

/* The arguments of one run of a generated loop begin with this; the text declares what follows, of the loop's own
 * numbers of operands and scalars:
 *
 *     void *ptr[operands];     results, then inputs; NULL where one is passed by value
 *     8-byte scalar[scalars];  doubles or integers: attributes, and inputs that are one number in host memory
 *     int64_t dim[CN_MAX_DIMS][1 + operands];  strided loops: the size of each dim, and strides in elements
 *
 * C: `void ENTRY(const cn_loop *loop, long long begin, long long end)`, elements in walk order. CUDA: a kernel that
 * takes the arguments by value, or, where they are more than fit, their address on the device; any grid of blocks of
 * CN_LOOP_THREADS threads will do. */
typedef struct cn_loop {
  int64_t n;      /* elements; do not run a loop over none */
  int32_t *fault; /* the backend's: gets fault_code when an integer is divided by zero; may not be NULL */
  int32_t fault_code;
  int32_t ndim; /* flat: 1 when the pointers allow vector access, else 0 */
  const uint8_t *skip; /* the backend's, for CUDA: nothing is done where it is not zero there; or NULL */
} cn_loop;

enum { CN_LOOP_THREADS = 256 };
enum { CN_LOOP_FEW = 18, CN_LOOP_WORDS = 192 }; /* operands, and words of arguments, that need no memory */
enum { CN_LOOP_BY_VALUE = 4000 };               /* bytes of arguments that a CUDA kernel takes by value */

/* One loop: how to find its compiled code, how to render it, and what to run it on. It points into itself: it is not
 * copied. cn_host.source_free gives back what it holds. */
typedef struct cn_source {
  size_t size;    /* sizeof(cn_source), set by the caller */
  uint64_t key;   /* same key, same text: what compiled code is cached by */
  char entry[32]; /* name of the function or kernel */
  cn_lang lang;
  bool flat;       /* operands are dense along the walk, or one element */
  bool wide;       /* positions need 64 bits */
  bool fast;       /* CUDA: all results have 16 bits, so that last bits of the arithmetic do not show */
  bool by_pointer; /* CUDA: the kernel takes the arguments' address */
  bool divides;    /* integers: it may write a fault */
  int32_t vector;  /* elements a CUDA thread takes at a time */
  int32_t group;   /* CUDA, flat, set by whoever wants it: the kernel's argument is an array of so many loops, and
                    * blockIdx.y says which; 0: one loop */
  int32_t compute; /* the type it computes in: CN_F32, CN_F64, CN_I64 or CN_U64; 0: registers have types of their own */
  int32_t nout, nin, nscalar;
  const void *program;
  cn_loop *loop; /* the arguments, ... */
  size_t loop_size; /* ... and their bytes */
  uint8_t *dtype; /* of results, then inputs */
  char *form;     /* 'v' dense, 'x' strided, 'w' strided by vectors, 's' one element, 'p' by value */
  size_t heap;    /* the host's */
  uint8_t few_dtype[CN_LOOP_FEW];
  char few_form[CN_LOOP_FEW];
  int64_t words[CN_LOOP_WORDS];
} cn_source;

/* The functions of ext/graph.h that read graphs, for backends that take them whole. */
typedef struct cn_graph_reader {
  size_t size;
  size_t (*values)(const cn_graph *graph);
  size_t (*nodes)(const cn_graph *graph);
  size_t (*inputs)(const cn_graph *graph);
  size_t (*states)(const cn_graph *graph);
  size_t (*draws)(const cn_graph *graph);
  int (*value_at)(cn_value_info *value, const cn_graph *graph, int i);
  int (*node_at)(cn_graph_node *node, const cn_graph *graph, int i);
  int (*input)(const cn_graph *graph, size_t i);
  int (*state_value)(const cn_graph *graph, size_t i);
  /* Puts the tensors of a node, in its order, into the places of its arguments; NULL where one is absent. */
  void (*fill)(cn_value *args, const cn_op *op, cn_tensor *const *in);
  int (*state_final)(const cn_graph *graph, size_t i);
  int (*input_final)(const cn_graph *graph, size_t i);
} cn_graph_reader;

/* Those that build graphs, and their text, for devices that run nothing but programs. */
typedef struct cn_graph_maker {
  size_t size;
  cn_graph *(*graph)(void); /* cn_graph_new, and so on */
  void (*free)(cn_graph *graph);
  int (*add_input)(cn_graph *graph, cn_device device, cn_dtype dtype, int ndim, const int64_t *shape);
  int (*add_number)(cn_graph *graph, cn_value number);
  int (*add_node)(int *out, size_t *nout, cn_graph *graph, const cn_op *op, const cn_value *args, size_t nargs,
                  const int *in, size_t nin);
  int (*add_output)(cn_graph *graph, int value);
  const cn_op *(*find)(const char *name);
  uint64_t (*draws)(const cn_call *call); /* of a random op: how many counters behind call->offset it takes */
  char *(*stablehlo)(const cn_graph *graph, const cn_stablehlo_opts *opts);
  void (*string_free)(char *text);
  const char *(*stablehlo_problem)(const cn_op *op);
  /* cn_partition_read of mesh.h; cn_stablehlo_sharding and cn_stablehlo_shardy. */
  int (*partition_read)(cn_partition *p, const cn_mesh *mesh, const char *text, int ndim, const int64_t *shape);
  const char *(*sharding)(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim);
  const char *(*shardy)(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim);
} cn_graph_maker;

typedef struct cn_host {
  size_t size;
  uint32_t abi;
  void *(*memory)(size_t size); /* host memory; NULL when out of memory, with the error set */
  void (*free_memory)(void *memory, size_t size);
  int (*fail)(int code, const char *format, ...) CN_PRINTF(2, 3);
  void (*log)(cn_log_level level, const char *format, ...) CN_PRINTF(2, 3);
  const char *(*op_name)(const cn_op *op);
  /* Describes the loop of a pointwise call, or of a copy of `from`, broadcast and cast, into `to`. Cheap: for
   * every call. Numbers in host memory (weak scalars, zero-dimensional CPU tensors) are passed by value. source_free
   * ends what succeeded. */
  int (*pointwise_source)(cn_source *source, const cn_call *call, cn_lang lang);
  int (*copy_source)(cn_source *source, const cn_desc *to, const cn_desc *from, cn_lang lang);
  /* Its text, for code that is not compiled yet; owned: free_memory(text, *size). Compile C with -fwrapv
   * -ffp-contract=off -fno-math-errno -fno-trapping-math, CUDA with --fmad=false (fast: --prec-div=false
   * --prec-sqrt=false instead) --device-as-default-execution-space: results are then those of the CPU kernels, and fast
   * ones within a rounding of them. NULL with the error set. */
  char *(*source_text)(const cn_source *source, size_t *size);
  /* Runs the CPU's kernel of call->op, else its decomposition, on tensors whose data is host memory.
   * Results that infer marked data-dependent come back as tensors the plugin owns (release_tensor). Any
   * thread may call it; errors are those of the calling thread. */
  int (*run_cpu)(cn_call *call);
  /* A tensor over memory the plugin owns, for run_cpu; owned, to be released with release_tensor. */
  cn_tensor *(*wrap)(const cn_desc *desc);
  void (*release_tensor)(cn_tensor *t);
  /* For results that infer marked data-dependent: allocates result i with this shape on call->device. */
  int (*out_alloc)(cn_call *call, int i, int ndim, const int64_t *shape);
  /* Can the CPU run this op itself (not by its decomposition)? */
  bool (*cpu_has_kernel)(const cn_op *op);
  /* A value of the environment; NULL when unset or empty. */
  const char *(*env)(const char *name);
  /* Takes the calling thread's pending error, for a worker that hands it on: its code (0: none) and
   * message. */
  int (*take_error)(char *message, size_t size);
  /* Files that can be made again (compiled code), by name, in the user's cache folder. load: owned, to be
   * given to free_memory, or NULL when it is not there; sets no error. */
  void *(*cache_load)(const char *name, size_t *size);
  void (*cache_store)(const char *name, const void *content, size_t size);
  double (*now)(void); /* seconds that only go forward */
  const cn_graph_reader *graph;
  void (*source_free)(cn_source *source); /* what pointwise_source and copy_source made */
  const char *(*library_folders)(void);   /* cn_library_folders of system.h */
  const char *(*op_running)(void);        /* the name of the op that the calling thread is in; NULL: none */
  /* Calls fn for ranges of [0, n), of `grain` at least, on several of cairn's threads; returns when all are done. */
  void (*parallel)(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *payload), void *payload);
  cn_precision (*matmul_precision)(void); /* cn_matmul_precision of device.h, and so on */
  cn_precision (*conv_precision)(void);
  cn_deterministic (*deterministic_mode)(void);
  /* For a kernel that adds in no fixed order, with a name that stays: 0, or the error where results must repeat. */
  int (*not_deterministic)(const char *op);
  /* Before the host waits for the device where a program did not ask for that: 0, or the error where it must not
   * (cn_set_wait_mode). */
  int (*waiting)(void);
  const cn_graph_maker *make;
  cn_path_kind (*path_kind)(const char *path); /* cn_path_kind_of of system.h */
} cn_host;

typedef const cn_backend *(*cn_plugin_init_fn)(const cn_host *host);

CN_END_DECLS
#endif
