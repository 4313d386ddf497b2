/* api.h: the part of the PJRT C API that the plugin calls: structs as PJRT plugins lay them out since version 0.40 or
 * so, with names of our own.
 *
 * Place in the flow: open.c gets the table of functions from a PJRT plugin; all other files call through it.
 * Invariant: fields and their order are those of the vendor's pjrt_c_api.h; tests/pjrt/test_header.py compares offsets
 * and sizes with one that is installed. Each struct of arguments begins with its size, which tells a plugin what its
 * caller knows. / */
#ifndef CNI_PJRT_API_H
#define CNI_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_description pjrt_description;
typedef struct pjrt_executable pjrt_executable;
typedef struct pjrt_loaded pjrt_loaded;
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_topology pjrt_topology;

/* Codes of errors that mean something of their own here. */
enum { PJRT_INVALID = 3, PJRT_EXHAUSTED = 8, PJRT_UNIMPLEMENTED = 12, PJRT_INTERNAL = 13 };

/* Types of elements, by the vendor's numbers. */
enum {
  PJRT_NO_TYPE, PJRT_PRED, PJRT_S8, PJRT_S16, PJRT_S32, PJRT_S64, PJRT_U8, PJRT_U16, PJRT_U32, PJRT_U64, PJRT_F16,
  PJRT_F32, PJRT_F64, PJRT_BF16, PJRT_C64, PJRT_C128, PJRT_F8E5M2, PJRT_F8E4M3FN
};

/* When the host's memory may change again after an upload: at once, or when an event has come. */
enum { PJRT_DURING_CALL, PJRT_UNTIL_TRANSFERRED };

enum { PJRT_STRING, PJRT_INT, PJRT_INTS, PJRT_FLOAT, PJRT_BOOL };
typedef struct pjrt_named {
  size_t size;
  void *extension;
  const char *name;
  size_t name_size;
  int type;
  union {
    const char *s;
    int64_t i;
    const int64_t *is;
    float f;
    bool b;
  } u;
  size_t value_size; /* of strings and lists; else 1 */
} pjrt_named;

typedef struct pjrt_program {
  size_t size;
  void *extension;
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} pjrt_program;

typedef struct pjrt_execute_options {
  size_t size;
  void *extension, *send, *receive;
  size_t nsend, nreceive;
  int launch;
  const int64_t *kept; /* arguments that are not given away */
  size_t nkept;
  void *context;
  const char *location;
  size_t ntasks;
  int *tasks;
  int64_t *incarnations;
} pjrt_execute_options;

/* ---- arguments, one struct a function ---- */
#define PJRT_ARGS(name, ...)     \
  typedef struct pjrt_##name {   \
    size_t size;                 \
    void *extension;             \
    __VA_ARGS__                  \
  } pjrt_##name

PJRT_ARGS(error_destroy, pjrt_error *error;);
PJRT_ARGS(error_message, const pjrt_error *error; const char *text; size_t text_size;);
PJRT_ARGS(error_code, const pjrt_error *error; int code;);
PJRT_ARGS(plugin_initialize, );
PJRT_ARGS(event_destroy, pjrt_event *event;);
PJRT_ARGS(event_is_ready, pjrt_event *event; bool ready;);
PJRT_ARGS(event_await, pjrt_event *event;);
PJRT_ARGS(client_create, const pjrt_named *options; size_t noptions; void *get; void *get_payload; void *put;
          void *put_payload; pjrt_client *client; void *try_get; void *try_get_payload;);
PJRT_ARGS(client_destroy, pjrt_client *client;);
PJRT_ARGS(client_platform, pjrt_client *client; const char *text; size_t text_size;); /* its name, its version */
PJRT_ARGS(client_devices, pjrt_client *client; pjrt_device *const *devices; size_t ndevices;);
PJRT_ARGS(client_compile, pjrt_client *client; const pjrt_program *program; const char *options; size_t options_size;
          pjrt_loaded *loaded;);
PJRT_ARGS(client_upload, pjrt_client *client; const void *data; int type; const int64_t *dims; size_t ndims;
          const int64_t *strides; size_t nstrides; int keep; pjrt_device *device; void *memory; void *layout;
          pjrt_event *done; pjrt_buffer *buffer;);
PJRT_ARGS(description_id, pjrt_description *description; int id;);
PJRT_ARGS(description_kind, pjrt_description *description; const char *text; size_t text_size;);
PJRT_ARGS(device_description, pjrt_device *device; pjrt_description *description;);
PJRT_ARGS(device_memory, pjrt_device *device; int64_t in_use; int64_t peak; bool has_peak; int64_t allocations;
          bool has_allocations; int64_t largest; bool has_largest; int64_t limit; bool has_limit; int64_t reserved;
          bool has_reserved; int64_t peak_reserved; bool has_peak_reserved; int64_t reservable; bool has_reservable;
          int64_t largest_free; bool has_largest_free; int64_t pool; bool has_pool; int64_t peak_pool;
          bool has_peak_pool;);
PJRT_ARGS(executable_destroy, pjrt_executable *executable;);
PJRT_ARGS(executable_outputs, pjrt_executable *executable; size_t count;);
PJRT_ARGS(executable_serialize, const pjrt_executable *executable; const char *bytes; size_t bytes_size; void *owner;
          void (*release)(void *owner););
/* For people: what the compiler thinks that a program takes. */
PJRT_ARGS(executable_costs, pjrt_executable *executable; size_t nproperties; const pjrt_named *properties;);
PJRT_ARGS(executable_memory, pjrt_executable *executable; int64_t code; int64_t arguments; int64_t results;
          int64_t shared; int64_t temporary; int64_t host[5]; int64_t peak; int64_t total;);
PJRT_ARGS(loaded_destroy, pjrt_loaded *loaded;);
PJRT_ARGS(loaded_executable, pjrt_loaded *loaded; pjrt_executable *executable;);
PJRT_ARGS(loaded_execute, pjrt_loaded *loaded; pjrt_execute_options *options; pjrt_buffer *const *const *arguments;
          size_t ndevices; size_t narguments; pjrt_buffer **const *results; pjrt_event **done; pjrt_device *device;);
PJRT_ARGS(load, pjrt_client *client; const char *bytes; size_t bytes_size; pjrt_loaded *loaded; const char *options;
          size_t options_size;);
PJRT_ARGS(buffer_destroy, pjrt_buffer *buffer;);
PJRT_ARGS(buffer_download, pjrt_buffer *buffer; void *layout; void *to; size_t to_size; pjrt_event *done;);
PJRT_ARGS(buffer_ready, pjrt_buffer *buffer; pjrt_event *event;);
PJRT_ARGS(topology_create, const char *name; size_t name_size; const pjrt_named *options; size_t noptions;
          pjrt_topology *topology;);
PJRT_ARGS(topology_destroy, pjrt_topology *topology;);
PJRT_ARGS(compile, const pjrt_topology *topology; const pjrt_program *program; const char *options;
          size_t options_size; pjrt_client *client; pjrt_executable *executable;);

/* ---- the table of functions; what is not called here is left out by its place ---- */
typedef struct pjrt_api {
  size_t size;
  void *extension;
  struct {
    size_t size;
    void *extension;
    int major, minor;
  } version;
  void (*error_destroy)(pjrt_error_destroy *args);
  void (*error_message)(pjrt_error_message *args);
  pjrt_error *(*error_code)(pjrt_error_code *args);
  pjrt_error *(*plugin_initialize)(pjrt_plugin_initialize *args);
  void *plugin_attributes;
  pjrt_error *(*event_destroy)(pjrt_event_destroy *args);
  pjrt_error *(*event_is_ready)(pjrt_event_is_ready *args);
  void *event_error;
  pjrt_error *(*event_await)(pjrt_event_await *args);
  void *event_on_ready;
  pjrt_error *(*client_create)(pjrt_client_create *args);
  pjrt_error *(*client_destroy)(pjrt_client_destroy *args);
  pjrt_error *(*client_platform_name)(pjrt_client_platform *args);
  void *client_process;
  pjrt_error *(*client_platform_version)(pjrt_client_platform *args);
  void *client_all_devices;
  pjrt_error *(*client_devices)(pjrt_client_devices *args);
  void *client_lookups[3];
  pjrt_error *(*client_compile)(pjrt_client_compile *args);
  void *client_assignment;
  pjrt_error *(*client_upload)(pjrt_client_upload *args);
  pjrt_error *(*description_id)(pjrt_description_id *args);
  void *description_process[2];
  pjrt_error *(*description_kind)(pjrt_description_kind *args);
  void *description_texts[2];
  pjrt_error *(*device_description)(pjrt_device_description *args);
  void *device_places[4];
  pjrt_error *(*device_memory)(pjrt_device_memory *args);
  void *memories[5];
  pjrt_error *(*executable_destroy)(pjrt_executable_destroy *args);
  void *executable_counts[3];
  pjrt_error *(*executable_outputs)(pjrt_executable_outputs *args);
  void *executable_code_size;
  pjrt_error *(*executable_costs)(pjrt_executable_costs *args);
  void *executable_texts[2];
  pjrt_error *(*executable_serialize)(pjrt_executable_serialize *args);
  pjrt_error *(*loaded_destroy)(pjrt_loaded_destroy *args);
  pjrt_error *(*loaded_executable)(pjrt_loaded_executable *args);
  void *loaded_devices[3];
  pjrt_error *(*loaded_execute)(pjrt_loaded_execute *args);
  pjrt_error *(*load)(pjrt_load *args);
  void *loaded_fingerprint;
  pjrt_error *(*buffer_destroy)(pjrt_buffer_destroy *args);
  void *buffer_properties[11];
  pjrt_error *(*buffer_download)(pjrt_buffer_download *args);
  void *buffer_on_cpu;
  pjrt_error *(*buffer_ready)(pjrt_buffer_ready *args);
  void *buffer_pointers[4];
  void *streams[5];
  pjrt_error *(*topology_create)(pjrt_topology_create *args);
  pjrt_error *(*topology_destroy)(pjrt_topology_destroy *args);
  void *topology_texts[5];
  pjrt_error *(*compile)(pjrt_compile *args);
  void *executable_results[2];
  void *buffer_copies[2];
  void *executable_fingerprint;
  void *client_topology;
  pjrt_error *(*executable_memory)(pjrt_executable_memory *args);
} pjrt_api;

#endif
