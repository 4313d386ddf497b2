/* ops.c: `cairn ops`: the op table for people: a line per op, or everything about one; for all backends, or, with
 * --device, how each op runs on one of them. */
#include "ops.h"

#include <cairn/ext/op.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

const char *ops_kind(cn_op_kind kind)
{
  static const char *const names[] = {"composite", "pointwise", "view", "structural"};
  return names[kind];
}

static const char *only; /* the backend of --device; NULL: all */

/* On one backend: what runs the op there. The host stands behind a decomposition, which stays on the device. */
static void print_way(const cn_op_info *info, const cn_op *op)
{
  const char *names[OPS_KERNELS];
  size_t n = cn_op_kernels(names, OPS_KERNELS, op, only);
  bool parts = info->kind == CN_KIND_COMPOSITE || (op->decompose && (!n || !strcmp(names[0], "host")));
  if (info->kind == CN_KIND_VIEW) printf("needs none");
  else if (parts) printf("by its decomposition");
  else if (!n) printf("does not run there");
  for (size_t k = 0; !parts && k < n && k < OPS_KERNELS; k++) printf("%s%s", k ? ", " : "", names[k]);
}

/* "cpu: blas, reference; cuda: cublaslt", or how the op runs without a kernel. */
static void print_kernels(const cn_op_info *info, const cn_op *op)
{
  const char *backend, *between = "";
  if (only) {
    print_way(info, op);
    return;
  }
  for (int b = 0; (backend = command_backend(b)); b++) {
    const char *names[OPS_KERNELS];
    size_t n = cn_op_kernels(names, OPS_KERNELS, op, backend);
    if (!n) continue;
    printf("%s%s: ", between, backend);
    for (size_t k = 0; k < n && k < OPS_KERNELS; k++) printf("%s%s", k ? ", " : "", names[k]);
    between = "; ";
  }
  if (!*between) printf("%s", info->kind == CN_KIND_VIEW ? "needs none" : "by its decomposition");
}

static void print_line(const cn_op_info *info, const cn_op *op)
{
  printf("%-28s %-11s %-9s ", info->name, ops_kind(info->kind), info->gradient ? "yes" : "no");
  print_kernels(info, op);
  printf("\n");
}

static void print_dtypes(uint32_t dtypes)
{
  if (!dtypes) return;
  printf("  types     ");
  for (int d = 1; d < CN_DTYPE_COUNT; d++)
    if (dtypes >> d & 1) printf("%s%s", cn_dtype_name((cn_dtype)d), dtypes >> d > 1 ? " " : "\n");
}

static void print_whole(const cn_op_info *info, const cn_op *op)
{
  printf("%s\n  %s\n\n  kind      %s\n  gradient  %s\n", info->sig, info->doc, ops_kind(info->kind),
         info->gradient ? "yes" : "no");
  if (info->inplace) printf("  in place  cn_%s_\n", info->name);
  printf("  kernels   ");
  print_kernels(info, op);
  printf("\n");
  print_dtypes(ops_dtypes(info, op));
}

static int by_name(const void *a, const void *b)
{
  cn_op_info x, y;
  cn_op_describe(&x, *(const cn_op *const *)a);
  cn_op_describe(&y, *(const cn_op *const *)b);
  return strcmp(x.name, y.name);
}

/* Calls print for each op, with what stands before the first, between two and after the last. */
static void print_all(const cn_op *const *ops, size_t n, void (*print)(const cn_op_info *, const cn_op *),
                      const char *first, const char *between, const char *last)
{
  cn_op_info info;
  for (size_t i = 0; i < n; i++) {
    cn_op_describe(&info, ops[i]);
    printf("%s", i ? between : first);
    print(&info, ops[i]);
  }
  printf("%s", last);
}

/* Fills ops (capacity cn_op_count()) with those named, or all of them by name. Returns the exit status. */
static int choose(const cn_op **ops, size_t *n, int argc, char **argv)
{
  *n = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--device")) i++;
    if (argv[i][0] == '-' || argv[i] == only) continue;
    const cn_op *op = cn_op_find(strncmp(argv[i], "cn_", 3) ? argv[i] : argv[i] + 3);
    if (!op) {
      fprintf(stderr, "cairn ops: there is no op '%s'\n", argv[i]);
      return 1;
    }
    if (*n < (size_t)cn_op_count()) ops[(*n)++] = op;
  }
  if (*n) return 0;
  for (int i = 0; i < cn_op_count(); i++)
    if (cn_op_at(i)) ops[(*n)++] = cn_op_at(i);
  qsort(ops, *n, sizeof *ops, by_name);
  return 0;
}

static bool is_backend(const char *name)
{
  const char *backend;
  for (int b = 0; (backend = command_backend(b)); b++)
    if (!strcmp(backend, name)) return true;
  return false;
}

int command_ops(int argc, char **argv)
{
  bool json = false;
  int named = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) json = true;
    else if (!strcmp(argv[i], "--device") && i + 1 < argc) only = argv[++i];
    else if (argv[i][0] == '-') return command_usage(argv[0], argv[i]);
    else named++;
  }
  if (only && !is_backend(only)) {
    fprintf(stderr, "cairn ops: there is no backend '%s'\n", only);
    return 1;
  }
  size_t n;
  const cn_op **ops = calloc((size_t)cn_op_count() + 1, sizeof *ops);
  if (!ops || cn_err()) {
    free(ops);
    return command_failed();
  }
  int status = choose(ops, &n, argc, argv);
  if (!status && json) {
    print_all(ops, n, ops_json, "[\n", ",\n", "\n]\n");
  } else if (!status && named) {
    print_all(ops, n, print_whole, "", "\n", "");
  } else if (!status) {
    printf("%-28s %-11s %-9s %s\n", "op", "kind", "gradient", "kernels");
    print_all(ops, n, print_line, "", "", "");
    printf("%zu ops\n", n);
  }
  free(ops);
  return status;
}
