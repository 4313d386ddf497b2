/* plugin.c: a PJRT plugin for tests: buffers in the host's memory, events, refusals, late errors, and no compiler.
 *
 * It takes any text with a @main, reads the types of its arguments and results, and which arguments are given away.
 * Without a server a run gives each result the bytes of the argument of its number, else zeros; with one
 * (PJRT_TEST_PYTHON and PJRT_TEST_SERVER, see server.py) a run gives what XLA's compiler for CPUs makes of the text.
 * Like real plugins it is strict: structs that are too small, buffers that were given away and sizes that do not fit
 * are errors; options without replicas end the process. PJRT_TEST_VERSION, PJRT_TEST_TABLE and PJRT_TEST_CLIENT make
 * it one that cannot be used. */
#define _DEFAULT_SOURCE
#include "plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../src/backends/pjrt/api.h"

enum { DEVICES = 2, MOST = 512, DIMS = 8, MEMORY = 1 << 30 };

struct pjrt_error {
  int code;
  char text[4096];
};
struct pjrt_event {
  int code; /* of the error that came late; 0: none */
};
struct pjrt_client {
  int unused;
};
struct pjrt_description {
  int id;
};
struct pjrt_device {
  pjrt_description description;
};
typedef struct array_type {
  int type, ndims;
  int64_t dims[DIMS];
  size_t bytes;
} array_type;
struct pjrt_buffer {
  array_type type;
  char *data;
  bool deleted;
  int late; /* the program that made it failed */
};
struct pjrt_loaded {
  int refs;
  char *text;
  size_t text_size;
  array_type in[MOST], out[MOST];
  int alias[MOST]; /* of an argument: the result that takes its memory; -1: none */
  size_t nin, nout;
  long number; /* the server's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pjrt_client the_client;
static pjrt_device devices[DEVICES] = {{{0}}, {{300}}}; /* an id that takes two bytes */
static pjrt_device *device_list[DEVICES] = {&devices[0], &devices[1]};
static char failing[32];
static fake_counts counts;

__attribute__((visibility("default"))) void fake_fail(const char *what);
__attribute__((visibility("default"))) void fake_get_counts(fake_counts *out);
__attribute__((visibility("default"))) const pjrt_api *GetPjrtApi(void);

void fake_fail(const char *what) { snprintf(failing, sizeof failing, "%s", what); }
void fake_get_counts(fake_counts *out) { *out = counts; }

static bool fails(const char *what) { return !strcmp(failing, what); }

/* ---- errors and events ---- */

static pjrt_error *error(int code, const char *text)
{
  pjrt_error *e = calloc(1, sizeof *e);
  e->code = code;
  snprintf(e->text, sizeof e->text, "%s", text);
  counts.errors++;
  return e;
}

#define CHECK_SIZE(args)                                                                             \
  do {                                                                                               \
    char message[100];                                                                               \
    if ((args)->size >= sizeof *(args)) break;                                                       \
    snprintf(message, sizeof message, "expected %zu, got %zu", sizeof *(args), (args)->size);        \
    return error(PJRT_INVALID, message);                                                             \
  } while (0)

static void destroy_error(pjrt_error_destroy *args)
{
  counts.errors -= args->error != NULL;
  free(args->error);
}
static void message_of(pjrt_error_message *args)
{
  args->text = args->error->text;
  args->text_size = strlen(args->text);
}
static pjrt_error *code_of(pjrt_error_code *args)
{
  CHECK_SIZE(args);
  args->code = args->error->code;
  return NULL;
}

static pjrt_event *event(int code)
{
  pjrt_event *e = calloc(1, sizeof *e);
  e->code = code;
  counts.events++;
  return e;
}
static pjrt_error *late(int code)
{
  if (!code) return NULL;
  bool memory = code == PJRT_EXHAUSTED;
  return error(code, memory ? "Out of memory while trying to allocate 1.00TiB" : "it failed while it ran");
}
static pjrt_error *destroy_event(pjrt_event_destroy *args)
{
  CHECK_SIZE(args);
  counts.events -= args->event != NULL;
  free(args->event);
  return NULL;
}
static pjrt_error *is_ready(pjrt_event_is_ready *args)
{
  args->ready = true;
  return NULL;
}
static pjrt_error *await(pjrt_event_await *args)
{
  CHECK_SIZE(args);
  return late(args->event->code);
}

/* ---- client and devices ---- */

static pjrt_error *initialize(pjrt_plugin_initialize *args)
{
  CHECK_SIZE(args);
  return NULL;
}
static pjrt_error *create_client(pjrt_client_create *args)
{
  const char *asked = getenv("PJRT_TEST_CLIENT");
  CHECK_SIZE(args);
  for (size_t i = 0; i < args->noptions; i++) {
    const pjrt_named *o = &args->options[i];
    bool known = (!strncmp(o->name, "memory_fraction", o->name_size) && o->type == PJRT_FLOAT) ||
                 (!strncmp(o->name, "preallocate", o->name_size) && o->type == PJRT_BOOL) ||
                 (!strncmp(o->name, "devices", o->name_size) && o->type == PJRT_INT) ||
                 (!strncmp(o->name, "allocator", o->name_size) && o->type == PJRT_STRING);
    if (!known) return error(PJRT_INVALID, "Unexpected option name passed to PJRT_Client_Create");
  }
  if (asked) return error(9, asked);
  args->client = &the_client;
  return NULL;
}
static pjrt_error *destroy_client(pjrt_client_destroy *args)
{
  CHECK_SIZE(args);
  return NULL;
}
static pjrt_error *platform_name(pjrt_client_platform *args)
{
  CHECK_SIZE(args);
  args->text = "fake";
  args->text_size = 4;
  return NULL;
}
static pjrt_error *platform_version(pjrt_client_platform *args)
{
  CHECK_SIZE(args);
  args->text = getenv("PJRT_TEST_PYTHON") ? "by jaxlib" : "1.0";
  args->text_size = strlen(args->text);
  return NULL;
}
static pjrt_error *list_devices(pjrt_client_devices *args)
{
  CHECK_SIZE(args);
  args->devices = device_list;
  args->ndevices = DEVICES;
  return NULL;
}
static pjrt_error *describe(pjrt_device_description *args)
{
  CHECK_SIZE(args);
  args->description = &args->device->description;
  return NULL;
}
static pjrt_error *id_of(pjrt_description_id *args)
{
  CHECK_SIZE(args);
  args->id = args->description->id;
  return NULL;
}
static pjrt_error *kind_of(pjrt_description_kind *args)
{
  CHECK_SIZE(args);
  args->text = "a device for tests";
  args->text_size = strlen(args->text);
  return NULL;
}
static pjrt_error *memory_of(pjrt_device_memory *args)
{
  CHECK_SIZE(args);
  args->in_use = 1 << 20;
  args->limit = MEMORY;
  args->has_limit = true;
  return NULL;
}

/* ---- buffers ---- */

static size_t type_bytes(int type)
{
  static const unsigned char bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 1, 1};
  return type > 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}
static void count_bytes(array_type *t)
{
  t->bytes = type_bytes(t->type);
  for (int i = 0; i < t->ndims; i++) t->bytes *= (size_t)t->dims[i];
}
static pjrt_buffer *new_buffer(const array_type *type)
{
  pjrt_buffer *b = calloc(1, sizeof *b);
  b->type = *type;
  b->data = calloc(1, type->bytes + 1);
  counts.buffers++;
  if (counts.buffers > counts.most_buffers) counts.most_buffers = counts.buffers;
  return b;
}
static pjrt_error *upload(pjrt_client_upload *args)
{
  CHECK_SIZE(args);
  array_type type = {.type = args->type, .ndims = (int)args->ndims};
  if (args->ndims > DIMS || !type_bytes(args->type) || !args->device) return error(PJRT_INVALID, "no such array");
  memcpy(type.dims, args->dims, args->ndims * sizeof *args->dims);
  count_bytes(&type);
  if (fails("upload")) return error(PJRT_EXHAUSTED, "Out of memory while trying to allocate 1.00TiB");
  args->buffer = new_buffer(&type);
  args->done = event(fails("upload-late") ? PJRT_INTERNAL : 0);
  memcpy(args->buffer->data, args->data, type.bytes);
  counts.uploads++;
  return NULL;
}
static pjrt_error *destroy_buffer(pjrt_buffer_destroy *args)
{
  CHECK_SIZE(args);
  free(args->buffer->data);
  free(args->buffer);
  counts.buffers--;
  return NULL;
}
static pjrt_error *download(pjrt_buffer_download *args)
{
  CHECK_SIZE(args);
  if (args->buffer->deleted) return error(PJRT_INVALID, "the buffer was deleted or donated");
  if (args->to_size < args->buffer->type.bytes) return error(PJRT_INVALID, "the host buffer is too small");
  if (fails("download")) return error(PJRT_INTERNAL, "no transfer");
  args->done = event(fails("download-late") ? PJRT_INTERNAL : args->buffer->late);
  memcpy(args->to, args->buffer->data, args->buffer->type.bytes);
  counts.downloads++;
  return NULL;
}
static pjrt_error *ready_event(pjrt_buffer_ready *args)
{
  CHECK_SIZE(args);
  args->event = event(args->buffer->late);
  return NULL;
}

/* ---- reading texts: the types of @main ---- */

static const struct {
  const char *name;
  int type;
} names[] = {{"i1", PJRT_PRED}, {"i8", PJRT_S8}, {"i16", PJRT_S16}, {"i32", PJRT_S32}, {"i64", PJRT_S64},
             {"ui8", PJRT_U8}, {"ui16", PJRT_U16}, {"ui32", PJRT_U32}, {"ui64", PJRT_U64}, {"f16", PJRT_F16},
             {"f32", PJRT_F32}, {"f64", PJRT_F64}, {"bf16", PJRT_BF16}};

/* "tensor<2x3xf32>" behind `s`; where it ends, or NULL. */
static const char *read_type(array_type *t, const char *s)
{
  char name[16];
  *t = (array_type){0};
  s += strlen("tensor<");
  while (*s >= '0' && *s <= '9' && t->ndims < DIMS) {
    char *end;
    t->dims[t->ndims++] = strtoll(s, &end, 10);
    s = end + 1; /* the x */
  }
  size_t n = strcspn(s, ">");
  snprintf(name, sizeof name, "%.*s", (int)n, s);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, name)) t->type = names[i].type;
  count_bytes(t);
  return t->type ? s + n + 1 : NULL;
}

/* All types between two places; attributes of arguments say what is given away. */
static bool read_types(array_type *types, size_t *n, int *alias, const char *s, const char *end)
{
  while ((s = strstr(s, "tensor<")) && s < end) {
    if (*n == MOST || !(s = read_type(&types[*n], s))) return false;
    static const char word[] = "tf.aliasing_output = ";
    const char *next = strstr(s, "tensor<"), *mark = alias ? strstr(s, word) : NULL;
    bool marked = mark && mark < end && (!next || mark < next);
    if (alias) alias[*n] = marked ? atoi(mark + strlen(word)) : -1;
    (*n)++;
  }
  return true;
}

static bool read_text(pjrt_loaded *p)
{
  const char *main = strstr(p->text, "@main("), *arrow = main ? strstr(main, "->") : NULL;
  const char *body = main ? strstr(main, "{\n") : NULL;
  if (!main || !body) return false;
  if (!arrow || arrow > body) arrow = body;
  return read_types(p->in, &p->nin, p->alias, main, arrow) && read_types(p->out, &p->nout, NULL, arrow, body);
}

/* ---- the server ---- */

static int server = -1;

static bool send_all(const void *bytes, size_t n)
{
  for (const char *at = bytes; n;) {
    ssize_t sent = send(server, at, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    n -= (size_t)sent;
  }
  return true;
}
static bool receive_all(void *bytes, size_t n)
{
  for (char *at = bytes; n;) {
    ssize_t got = recv(server, at, n, 0);
    if (got <= 0) return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}
static bool send_number(int64_t n) { return send_all(&n, sizeof n); }
static int64_t receive_number(void)
{
  int64_t n = -1;
  return receive_all(&n, sizeof n) ? n : -1;
}

static bool has_server(void)
{
  const char *python = getenv("PJRT_TEST_PYTHON"), *script = getenv("PJRT_TEST_SERVER");
  int ends[2];
  if (server >= 0 || !python || !script) return server >= 0;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return false;
  if (!fork()) {
    char number[16];
    close(ends[0]);
    snprintf(number, sizeof number, "%d", ends[1]);
    unsetenv("LD_PRELOAD");
    execlp(python, python, script, number, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  server = ends[0];
  return true;
}

/* What the server says it is, after a request: 0, or an error with its text. */
static pjrt_error *answer(void)
{
  char text[3000];
  int64_t n = receive_number();
  if (n == 0) return NULL;
  if (n < 0 || (size_t)n >= sizeof text || !receive_all(text, (size_t)n))
    return error(PJRT_INTERNAL, "the server is gone");
  text[n] = 0;
  return error(2, text);
}

static pjrt_error *compile_there(pjrt_loaded *p)
{
  if (!send_number('C') || !send_number((int64_t)p->text_size) || !send_all(p->text, p->text_size))
    return error(PJRT_INTERNAL, "the server is gone");
  pjrt_error *failed = answer();
  if (!failed) p->number = (long)receive_number();
  return failed;
}

static pjrt_error *run_there(const pjrt_loaded *p, pjrt_buffer *const *in, pjrt_buffer **out)
{
  bool sent = send_number('X') && send_number(p->number) && send_number((int64_t)p->nin);
  for (size_t i = 0; i < p->nin && sent; i++) {
    const array_type *t = &p->in[i];
    sent = send_number(t->type) && send_number(t->ndims) && send_all(t->dims, (size_t)t->ndims * sizeof *t->dims) &&
           send_number((int64_t)t->bytes) && send_all(in[i]->data, t->bytes);
  }
  if (!sent) return error(PJRT_INTERNAL, "the server is gone");
  pjrt_error *failed = answer();
  for (size_t i = 0; i < p->nout && !failed; i++)
    if (receive_number() != (int64_t)p->out[i].bytes || !receive_all(out[i]->data, p->out[i].bytes))
      failed = error(PJRT_INTERNAL, "a result has another size than its text says");
  return failed;
}

/* ---- programs ---- */

static void release_program(pjrt_loaded *p)
{
  if (--p->refs) return;
  counts.executables--;
  free(p->text);
  free(p);
}

static pjrt_error *make_program(pjrt_loaded **made, const char *text, size_t n)
{
  pjrt_loaded *p = calloc(1, sizeof *p);
  p->refs = 1;
  p->text = calloc(1, n + 1);
  p->text_size = n;
  memcpy(p->text, text, n);
  counts.executables++;
  pjrt_error *failed = read_text(p) ? NULL : error(2, "-:1:1: error: there is no @main whose types are known");
  if (!failed && has_server()) failed = compile_there(p);
  if (failed) release_program(p);
  else *made = p;
  return failed;
}

/* PJRT_TEST_DUMP: a folder for texts, numbered. */
static void dump(const pjrt_program *program)
{
  static int number;
  char path[1200];
  const char *folder = getenv("PJRT_TEST_DUMP");
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%04d.mlir", folder, number++);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(program->code, 1, program->code_size, f);
  if (f) fclose(f);
}

/* Real plugins end the process when options name no replica. */
static pjrt_error *compile(pjrt_client_compile *args)
{
  CHECK_SIZE(args);
  static const char least[] = {0x20, 0x01, 0x28, 0x01};
  if (args->options_size < 6 || args->options[0] != 0x1a || memcmp(args->options + 2, least, 4)) abort();
  if ((size_t)args->options[1] + 2 != args->options_size) abort();
  static const char second[] = {0x4a, 0x0a, 0x08, 0x01, 0x10, 0x01, 0x1a, 0x04, 0x0a, 0x02, (char)0xac, 0x02};
  if (args->options_size > 6 && memcmp(args->options + 6, second, sizeof second)) abort(); /* device 300 */
  counts.elsewhere += args->options_size > 6;
  if (strncmp(args->program->format, "mlir", args->program->format_size)) return error(PJRT_INVALID, "unknown format");
  if (fails("compile")) return error(2, "-:2:7: error: custom op 'stablehlo.frobnicate' is unknown");
  dump(args->program);
  pjrt_error *failed = make_program(&args->loaded, args->program->code, args->program->code_size);
  counts.compiled += !failed;
  return failed;
}

static pjrt_error *destroy_loaded(pjrt_loaded_destroy *args)
{
  CHECK_SIZE(args);
  release_program(args->loaded);
  return NULL;
}
static pjrt_error *get_executable(pjrt_loaded_executable *args)
{
  CHECK_SIZE(args);
  args->loaded->refs++;
  args->executable = (pjrt_executable *)(void *)args->loaded;
  return NULL;
}
static pjrt_error *destroy_executable(pjrt_executable_destroy *args)
{
  CHECK_SIZE(args);
  release_program((pjrt_loaded *)(void *)args->executable);
  return NULL;
}
static pjrt_error *count_outputs(pjrt_executable_outputs *args)
{
  CHECK_SIZE(args);
  args->count = ((pjrt_loaded *)(void *)args->executable)->nout;
  return NULL;
}

static void nothing(void *owner) { (void)owner; }

/* What is stored is the text behind a word. */
static const char magic[8] = "FAKEPJRT";

static pjrt_error *serialize(pjrt_executable_serialize *args)
{
  CHECK_SIZE(args);
  static char *kept;
  const pjrt_loaded *p = (const pjrt_loaded *)(const void *)args->executable;
  kept = realloc(kept, sizeof magic + p->text_size);
  memcpy(kept, magic, sizeof magic);
  memcpy(kept + sizeof magic, p->text, p->text_size);
  args->bytes = kept;
  args->bytes_size = sizeof magic + p->text_size;
  args->release = nothing;
  return NULL;
}
static pjrt_error *load(pjrt_load *args)
{
  CHECK_SIZE(args);
  if (fails("load") || args->bytes_size < sizeof magic || memcmp(args->bytes, magic, sizeof magic))
    return error(PJRT_INVALID, "damaged");
  pjrt_error *failed = make_program(&args->loaded, args->bytes + sizeof magic, args->bytes_size - sizeof magic);
  counts.loaded += !failed;
  return failed;
}

static bool is_kept(const pjrt_execute_options *o, size_t i)
{
  for (size_t k = 0; k < o->nkept; k++)
    if (o->kept[k] == (int64_t)i) return true;
  return false;
}

/* Sizes alone are checked, as real plugins do; but this one looks at types and dims, too, to catch who relies on that.
 */
static pjrt_error *check_arguments(const pjrt_loaded *p, const pjrt_loaded_execute *args)
{
  char text[200];
  if (args->narguments != p->nin) return error(PJRT_INVALID, "another number of arguments than the program expects");
  for (size_t i = 0; i < p->nin; i++) {
    const pjrt_buffer *b = args->arguments[0][i];
    if (b->deleted) return error(PJRT_INVALID, "Donation requested for invalid buffer");
    bool same = b->type.type == p->in[i].type && b->type.ndims == p->in[i].ndims &&
                !memcmp(b->type.dims, p->in[i].dims, (size_t)b->type.ndims * sizeof *b->type.dims);
    snprintf(text, sizeof text, "argument %zu has another type than the program expects", i);
    if (!same) return error(PJRT_INVALID, text);
    for (size_t k = 0; k < i; k++)
      if (args->arguments[0][k] == b && ((p->alias[i] >= 0 && !is_kept(args->options, i)) ||
                                         (p->alias[k] >= 0 && !is_kept(args->options, k))))
        return error(PJRT_INVALID, "the same buffer twice, and donated");
  }
  return NULL;
}

static pjrt_error *execute(pjrt_loaded_execute *args)
{
  CHECK_SIZE(args);
  const pjrt_loaded *p = args->loaded;
  int code = fails("execute-late") ? PJRT_INTERNAL : fails("memory") ? PJRT_EXHAUSTED : 0;
  pjrt_error *failed = check_arguments(p, args);
  if (!failed && fails("execute")) failed = error(PJRT_INTERNAL, "no execution");
  if (failed) return failed;
  pjrt_buffer **out = args->results[0], *const *in = args->arguments[0];
  for (size_t i = 0; i < p->nout; i++) {
    out[i] = new_buffer(&p->out[i]);
    out[i]->late = code;
    if (i < p->nin && in[i]->type.bytes == out[i]->type.bytes) memcpy(out[i]->data, in[i]->data, out[i]->type.bytes);
  }
  for (size_t i = 0; i < p->nin; i++) code = code ? code : in[i]->late;
  if (!code && has_server()) failed = run_there(p, in, out);
  for (size_t i = 0; i < p->nout && failed; i++) {
    pjrt_buffer_destroy end = {.size = sizeof end, .buffer = out[i]};
    destroy_buffer(&end);
  }
  if (failed) return failed;
  for (size_t i = 0; i < p->nin; i++) {
    bool given = p->alias[i] >= 0 && !is_kept(args->options, i);
    in[i]->deleted = given;
    counts.given += given;
    counts.kept += p->alias[i] >= 0 && !given;
  }
  if (args->done) *args->done = event(code);
  counts.executed++;
  return NULL;
}

/* ---- the table ---- */

/* One call at a time, since counts are shared. */
#define GUARDED(name, function, type)     \
  static pjrt_error *name(type *args)     \
  {                                       \
    pthread_mutex_lock(&lock);            \
    pjrt_error *failed = function(args);  \
    pthread_mutex_unlock(&lock);          \
    return failed;                        \
  }
GUARDED(guarded_execute, execute, pjrt_loaded_execute)
GUARDED(guarded_compile, compile, pjrt_client_compile)
GUARDED(guarded_upload, upload, pjrt_client_upload)
GUARDED(guarded_download, download, pjrt_buffer_download)
GUARDED(guarded_destroy_buffer, destroy_buffer, pjrt_buffer_destroy)
GUARDED(guarded_await, await, pjrt_event_await)
GUARDED(guarded_destroy_event, destroy_event, pjrt_event_destroy)
GUARDED(guarded_load, load, pjrt_load)

const pjrt_api *GetPjrtApi(void)
{
  static pjrt_api api = {
      .size = sizeof api, .version = {.size = sizeof api.version, .minor = 90},
      .error_destroy = destroy_error, .error_message = message_of, .error_code = code_of,
      .plugin_initialize = initialize, .event_destroy = guarded_destroy_event, .event_is_ready = is_ready,
      .event_await = guarded_await, .client_create = create_client, .client_destroy = destroy_client,
      .client_platform_name = platform_name, .client_platform_version = platform_version,
      .client_devices = list_devices, .client_compile = guarded_compile, .client_upload = guarded_upload,
      .description_id = id_of, .description_kind = kind_of, .device_description = describe, .device_memory = memory_of,
      .executable_destroy = destroy_executable, .executable_outputs = count_outputs, .executable_serialize = serialize,
      .loaded_destroy = destroy_loaded, .loaded_executable = get_executable, .loaded_execute = guarded_execute,
      .load = guarded_load, .buffer_destroy = guarded_destroy_buffer, .buffer_download = guarded_download,
      .buffer_ready = ready_event,
  };
  const char *version = getenv("PJRT_TEST_VERSION"), *table = getenv("PJRT_TEST_TABLE");
  if (version) api.version.minor = atoi(version);
  if (table && !strcmp(table, "short")) api.size = offsetof(pjrt_api, loaded_execute);
  if (table && !strcmp(table, "holes")) api.client_compile = NULL;
  return &api;
}
