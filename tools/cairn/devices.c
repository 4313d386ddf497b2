/* devices.c: `cairn devices`: what cairn can run on here, and on request what each device reaches. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

static void print_size(const char *label, uint64_t bytes)
{
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1024 && unit < 4; unit++) size /= 1024;
  printf("%s%.*f %s", label, size < 10 && unit > 2 ? 1 : 0, size, units[unit]);
}

static void print_caches(const cn_device_info *info)
{
  const char *before = "  caches    ";
  for (int level = 0; level < 3; level++) {
    char label[32];
    if (!info->cache[level]) continue;
    snprintf(label, sizeof label, "%sL%d ", before, level + 1);
    print_size(label, info->cache[level]);
    before = ", ";
  }
  if (*before == ',') printf("\n");
}

static int print_measured(cn_device device)
{
  double gflops, gbps;
  printf("  measured  ");
  fflush(stdout);
  if (cn_device_measure(&gflops, &gbps, device)) {
    printf("failed: %s\n", cn_err_message());
    cn_err_clear();
    return 1;
  }
  printf("%.0f GFLOP/s (float32 matrix product), %.1f GB/s (copy, read + write)\n", gflops, gbps);
  return 0;
}

/* Types of products that cairn computes in, by the names that devices have for them. */
static cn_dtype dtype_of(const char *type)
{
  if (!strcmp(type, "f64")) return CN_F64;
  return !strcmp(type, "bf16") ? CN_BF16 : !strcmp(type, "f16") ? CN_F16 : CN_DTYPE_NONE;
}

static int print_products(const cn_device_info *info, cn_device device, bool measure)
{
  int status = 0;
  for (int i = 0; i < CN_DEVICE_PRODUCTS && info->products[i].peak_gflops > 0; i++) {
    double gflops;
    cn_dtype dtype = measure ? dtype_of(info->products[i].type) : CN_DTYPE_NONE;
    printf("  %-9s %-4s %.0f TFLOP/s at most", i ? "" : "products", info->products[i].type,
           info->products[i].peak_gflops / 1e3);
    if (dtype != CN_DTYPE_NONE && cn_device_measure_product(&gflops, dtype, device)) {
      printf(", measured: %s", cn_err_message());
      cn_err_clear();
      status = 1;
    } else if (dtype != CN_DTYPE_NONE) printf(", measured %.0f", gflops / 1e3);
    printf("\n");
  }
  return status;
}

static int print_device(cn_device device, bool measure)
{
  cn_device_info info;
  char name[64];
  if (cn_device_info_get(&info, device)) return command_failed();
  bool cpu = device == CN_CPU;
  printf("%-11s %s\n", cn_device_name(name, sizeof name, device), info.name);
  if (info.units) printf("  %-9s %d\n", cpu ? "cores" : "units", info.units);
  if (info.threads) printf("  threads   %d\n", info.threads);
  if (*info.arch) printf("  %-9s %s\n", cpu ? "isa" : "arch", info.arch);
  print_caches(&info);
  if (info.memory_total) {
    print_size("  memory    ", info.memory_total);
    if (info.memory_free) print_size(", free ", info.memory_free);
    if (info.peak_gbps > 0) printf(", %.0f GB/s", info.peak_gbps);
    printf("\n");
  }
  if (info.clock_mhz > 0) printf("  clocks    %.0f MHz, memory %.0f MHz\n", info.clock_mhz, info.memory_mhz);
  if (info.peak_gflops > 0) printf("  peak      %.0f GFLOP/s by its clock\n", info.peak_gflops);
  int status = print_products(&info, device, measure);
  return measure ? print_measured(device) | status : status;
}

int command_devices(int argc, char **argv)
{
  bool measure = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--measure")) return command_usage(argv[0], argv[i]);
    measure = true;
  }
  int status = 0;
  const char *backend;
  for (int b = 0; (backend = command_backend(b)); b++)
    for (int i = 0; i < cn_device_count(backend); i++) {
      char name[64];
      snprintf(name, sizeof name, "%s:%d", backend, i);
      cn_device device = cn_device_find(name);
      status |= device ? print_device(device, measure) : command_failed();
    }
  return status;
}
