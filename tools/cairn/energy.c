/* energy.c: see energy.h. */
#include "energy.h"

#include <cairn/ext/system.h>
#include <stdio.h>
#include <string.h>

/* ---- RAPL: folders with a name, a counter in microjoules, and where that begins again ---- */

static bool read_line(char *line, size_t size, const char *path)
{
  FILE *f = fopen(path, "r");
  if (!f) return false;
  bool read = fgets(line, (int)size, f) != NULL;
  fclose(f);
  line[read ? strcspn(line, "\n") : 0] = 0;
  return read;
}

static bool read_joules(double *joules, const char *path)
{
  char line[64];
  const char *end;
  if (!read_line(line, sizeof line, path)) return false;
  *joules = cn_number_read(line, &end) * 1e-6;
  return end != line;
}

/* Whole packages; the parts of one ("intel-rapl:0:1") are in it. */
static bool is_package(const char *name)
{
  const char *colon = strchr(name, ':');
  return colon && !strchr(colon + 1, ':');
}

static void add_package(energy *e, const char *folder, const char *name)
{
  energy_meter m = {.gpu = -1};
  char path[1024];
  snprintf(path, sizeof path, "%s/%s/name", folder, name);
  if (e->n == ENERGY_METERS || !read_line(m.name, sizeof m.name, path)) return;
  snprintf(path, sizeof path, "%s/%s/max_energy_range_uj", folder, name);
  if (!read_joules(&m.range, path)) m.range = 0;
  int n = snprintf(m.path, sizeof m.path, "%s/%s/energy_uj", folder, name);
  if (n > 0 && (size_t)n < sizeof m.path && read_joules(&m.at, m.path)) e->v[e->n++] = m;
}

static void add_packages(energy *e, const char *folder)
{
  cn_names names = {NULL};
  if (cn_path_kind_of(folder) != CN_PATH_FOLDER) return;
  if (cn_folder_list(&names, folder)) cn_err_clear();
  for (size_t i = 0; i < names.n; i++)
    if (is_package(names.v[i])) add_package(e, folder, names.v[i]);
  cn_names_free(&names);
}

/* ---- NVML ---- */

typedef int (*nvml_start)(void);
typedef int (*nvml_count)(unsigned *count);
typedef int (*nvml_handle)(unsigned index, void **device);
typedef int (*nvml_energy)(void *device, unsigned long long *millijoules);

typedef union symbol {
  void *pointer;
  nvml_start start;
  nvml_count count;
  nvml_handle handle;
  nvml_energy energy;
} symbol;

typedef struct nvml {
  symbol start, count, handle, energy;
} nvml;

static bool open_nvml(nvml *n)
{
  void *library = cn_library_open("libnvidia-ml.so.1");
  if (!library) return false;
  n->start.pointer = cn_library_symbol(library, "nvmlInit_v2");
  n->count.pointer = cn_library_symbol(library, "nvmlDeviceGetCount_v2");
  n->handle.pointer = cn_library_symbol(library, "nvmlDeviceGetHandleByIndex_v2");
  n->energy.pointer = cn_library_symbol(library, "nvmlDeviceGetTotalEnergyConsumption");
  return n->start.pointer && n->count.pointer && n->handle.pointer && n->energy.pointer && !n->start.start();
}

static bool gpu_joules(double *joules, const nvml *n, int gpu)
{
  void *device = NULL;
  unsigned long long used = 0;
  if (n->handle.handle((unsigned)gpu, &device) || n->energy.energy(device, &used)) return false;
  *joules = (double)used * 1e-3;
  return true;
}

static void add_gpus(energy *e)
{
  nvml n;
  unsigned count = 0;
  if (!open_nvml(&n) || n.count.count(&count)) return;
  for (unsigned i = 0; i < count && e->n < ENERGY_METERS; i++) {
    energy_meter m = {.gpu = (int)i};
    snprintf(m.name, sizeof m.name, "GPU %u", i);
    if (gpu_joules(&m.at, &n, m.gpu)) e->v[e->n++] = m;
  }
}

/* ---- both ---- */

void energy_begin(energy *e, const char *folder)
{
  *e = (energy){.n = 0};
  add_packages(e, folder ? folder : "/sys/class/powercap");
  add_gpus(e);
}

void energy_end(energy *e)
{
  nvml n;
  bool gpus = open_nvml(&n);
  int kept = 0;
  for (int i = 0; i < e->n; i++) {
    energy_meter m = e->v[i];
    double now = 0;
    if (m.gpu >= 0 ? !gpus || !gpu_joules(&now, &n, m.gpu) : !read_joules(&now, m.path)) continue;
    m.used = now - m.at + (now < m.at ? m.range : 0);
    e->v[kept++] = m;
  }
  e->n = kept;
}
