/* compile.c: compiles texts by libtpu for a TPU that need not be there: compile LIBRARY TOPOLOGY FILE...
 *
 * Place in the flow: built and started by tests/pjrt/tpu_compile.py. TPU_SKIP_MDS_QUERY=1 has to be set, or libtpu
 * asks the network what kind of machine this is. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../src/backends/pjrt/api.h"

static const pjrt_api *api;

/* Prints an error; was there one? */
static int failed(const char *what, pjrt_error *error)
{
  if (!error) return 0;
  pjrt_error_message text = {.size = sizeof text, .error = error};
  api->error_message(&text);
  printf("%s: %.*s\n", what, (int)(text.text_size < 600 ? text.text_size : 600), text.text);
  pjrt_error_destroy end = {.size = sizeof end, .error = error};
  api->error_destroy(&end);
  return 1;
}

static char *read_file(size_t *size, const char *path)
{
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  if (!f || fseek(f, 0, SEEK_END)) return NULL;
  *size = (size_t)ftell(f);
  rewind(f);
  text = malloc(*size + 1);
  if (fread(text, 1, *size, f) != *size) *size = 0;
  fclose(f);
  return text;
}

static int compile(pjrt_topology *topology, const char *path)
{
  static const char options[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};
  size_t size = 0;
  char *text = read_file(&size, path);
  pjrt_program program = {.size = sizeof program, .code = text, .code_size = size, .format = "mlir", .format_size = 4};
  pjrt_compile args = {.size = sizeof args, .topology = topology, .program = &program, .options = options,
                       .options_size = sizeof options};
  int bad = !text || failed(path, api->compile(&args));
  free(text);
  pjrt_executable_destroy end = {.size = sizeof end, .executable = args.executable};
  return bad || failed(path, api->executable_destroy(&end));
}

int main(int argc, char **argv)
{
  const pjrt_api *(*get)(void);
  void *library = argc > 3 ? dlopen(argv[1], RTLD_NOW) : NULL, *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;
  if (!symbol) return printf("%s\n", argc > 3 ? dlerror() : "compile LIBRARY TOPOLOGY FILE..."), 2;
  memcpy(&get, &symbol, sizeof get);
  api = get();
  pjrt_plugin_initialize begin = {.size = sizeof begin};
  pjrt_topology_create topology = {.size = sizeof topology, .name = argv[2], .name_size = strlen(argv[2])};
  if (failed("initialize", api->plugin_initialize(&begin))) return 2;
  if (failed(argv[2], api->topology_create(&topology))) return 2;
  int bad = 0;
  for (int i = 3; i < argc; i++) bad += compile(topology.topology, argv[i]);
  printf("version 0.%d: %d of %d texts compiled for %s\n", api->version.minor, argc - 3 - bad, argc - 3, argv[2]);
  return bad != 0;
}
