/* devices.c: `cairn devices`: what cairn can run on here, and on request what each device reaches; beside processors
 * that are not here. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "compare.h"
#include "text.h"

const char help_devices[] =
    "  --measure        what each device reaches; of the CPU multiply-adds, caches, memory and products\n"
    "  --json           all numbers\n"
    "\n"
    "  --compare        processors side by side: CPUs, GPUs, TPUs, and this machine as measured\n"
    "  --compare NET    ... and what a network would take on each: a FILE.cfg, a name of the zoo, a graph\n"
    "  --only A,B       those whose names have such a part\n"
    "  --facts          this machine is not measured\n"
    "  --run            ... is measured, and runs the network, too\n"
    "  --train          whole steps: forward, backward, SGD\n"
    SUBJECT_HELP_SIZES
    "  --type T         fp64, fp32, tf32, bf16, fp8, int8, fp4; 16 bits where there are, or fp32, or int8\n"
    "  --price USD      an hour of a processor; the launch price over three years\n"
    "  --launch US      before each op; 0.5 on CPUs, 4 on GPUs, 1 on TPUs\n"
    "  --threads N      so many threads here; all\n";

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

static cn_tree *tree_of_device(cn_device device, bool measure)
{
  cn_device_info info;
  char name[64];
  double gflops = 0, gbps = 0;
  if (cn_device_info_get(&info, device) || (measure && cn_device_measure(&gflops, &gbps, device))) return NULL;
  cn_tree *t = cn_tree_dict();
  json_text(t, "device", cn_device_name(name, sizeof name, device));
  json_text(t, "name", info.name);
  json_text(t, "arch", info.arch);
  json_number(t, "units", info.units);
  json_number(t, "threads", info.threads);
  json_number(t, "memory_bytes", (double)info.memory_total);
  if (measure) json_number(t, "product_flops_per_second", gflops * 1e9);
  if (measure) json_number(t, "copied_bytes_per_second", gbps * 1e9);
  return t;
}

static int print_tree(bool measure, machine *m)
{
  cn_tree *all = cn_tree_dict(), *list = cn_tree_list();
  const char *backend;
  for (int b = 0; (backend = command_backend(b)); b++)
    for (int i = 0; i < cn_device_count(backend); i++) {
      char name[64];
      snprintf(name, sizeof name, "%s:%d", backend, i);
      cn_device device = cn_device_find(name);
      cn_tree_push(list, device ? tree_of_device(device, measure) : NULL);
    }
  cn_tree_put(all, "devices", list);
  if (measure) cn_tree_put(all, "this_machine", machine_measure(m) ? NULL : machine_tree(m));
  return text_print_json(all) ? command_failed() : 0;
}

static int list_devices(bool measure, machine *m)
{
  int status = 0;
  const char *backend;
  for (int b = 0; (backend = command_backend(b)); b++) {
    const char *why = cn_device_absent(backend);
    if (why) printf("%-11s no device: %s\n", backend, why);
    for (int i = 0; i < cn_device_count(backend); i++) {
      char name[64];
      snprintf(name, sizeof name, "%s:%d", backend, i);
      cn_device device = cn_device_find(name);
      status |= device ? print_device(device, measure) : command_failed();
    }
  }
  if (measure && machine_measure(m)) return command_failed();
  if (measure) machine_print(m);
  return status;
}

static int list(bool measure, bool json)
{
  machine *m = cn_alloc(sizeof *m);
  int status = !m ? command_failed() : json ? print_tree(measure, m) : list_devices(measure, m);
  cn_free(m, sizeof *m);
  return status;
}

typedef struct texts {
  const char *batch, *type, *price, *launch, *threads;
} texts;

static bool at_least(double *value, const char *text, double least)
{
  return command_number(value, text) && (!text || *value >= least);
}

/* What is wrong with the values of options; false: nothing. */
static bool is_wrong(const char **wrong, compare_options *o, const texts *t)
{
  int64_t threads = 0;
  o->how = (estimate_options){.type = t->type ? processor_type(t->type) : -1, .launch = -1};
  if (!subject_sizes(&o->subject, t->batch, wrong)) return true;
  if ((*wrong = t->type) && o->how.type < 0) return true;
  if (*wrong = t->price, !at_least(&o->how.price, t->price, 0)) return true;
  if (*wrong = t->launch, !at_least(&o->how.launch, t->launch, 0)) return true;
  if (t->launch) o->how.launch *= 1e-6;
  if (*wrong = t->threads, !command_whole(&threads, t->threads) || threads < 0 || threads > 4096) return true;
  if (threads) cn_set_num_threads((int)threads);
  return false;
}

int command_devices(int argc, char **argv)
{
  bool measure = false, compare = false;
  compare_options o = {.only = NULL};
  texts t = {NULL};
  const char *wrong;
  const command_flag flags[] = {
    {"--measure", NULL, &measure}, {"--compare", NULL, &compare}, {"--json", NULL, &o.json}, {"--only", &o.only, NULL},
    {"--facts", NULL, &o.facts}, {"--run", NULL, &o.run}, {"--train", NULL, &o.subject.train},
    {"--input", &o.subject.sizes, NULL}, {"--batch", &t.batch, NULL}, {"--type", &t.type, NULL},
    {"--price", &t.price, NULL}, {"--launch", &t.launch, NULL}, {"--threads", &t.threads, NULL}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &o.subject.what, 1);
  if (n < 0) return 2;
  if (is_wrong(&wrong, &o, &t)) return command_usage(argv[0], wrong);
  bool network = o.run || o.subject.train || o.subject.sizes || t.batch || t.type || t.price || t.launch;
  if (n && !compare) return command_usage(argv[0], o.subject.what);
  if (!n && network) return command_missing(argv[0], "these options are of --compare with a network");
  if (!compare && (o.only || o.facts)) return command_missing(argv[0], "--only and --facts are of --compare");
  if (compare && (measure || (o.facts && o.run)))
    return command_missing(argv[0], measure ? "--compare measures by itself" : "--facts does not run anything");
  if (!compare) return list(measure, o.json);
  return compare_run(&o) || cn_err() ? command_failed() : 0;
}
