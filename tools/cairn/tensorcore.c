/* tensorcore.c: `cairn tensorcore`: a product as Tensor Cores take it: its fragments, what its sizes cost, and what the
 * type of its sums does to the result.
 *
 * Place in the flow: fragments.c counts and adds up; with --measure a CUDA device runs the product at sizes around the
 * one asked for. Invariant: without --measure no device is needed, or looked for. */
#include <cairn/cairn.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "fragments.h"
#include "processors.h"
#include "text.h"

const char help_tensorcore[] =
    "M,K,N: (M x K) times (K x N), of random numbers of variance 1, always the same.\n"
    "\n"
    "  --a FILE, --b FILE  instead: these arrays (.npy)\n"
    "  --type T            of the factors: bf16, f16, tf32, fp8; bf16\n"
    "  --fragment NAME     mma.m16n8k16, wgmma.m64n128k16, ...; mma\n"
    "  --on PROCESSOR      whose multiprocessors share the tiles; H200\n"
    "  -o FILE.svg         a picture\n"
    "  --measure           what sizes around this one take on the CUDA device here\n"
    "  --json              all numbers\n";

typedef struct wanted {
  const char *left, *right, *type, *name, *on, *picture;
  int64_t product[3];
  bool measure, json;
} wanted;

/* ---- factors ---- */

static cn_tensor *load_factor(const char *path)
{
  cn_tree *tree = cn_load(path);
  cn_tensor *t = cn_tree_as_tensor(tree);
  if (t && cn_ndim(t) == 2) t = cn_contiguous(cn_clone(cn_cast(t, CN_F64)));
  else if (!cn_err()) cn_err_set(CN_ERR_SHAPE, "%s: the array is no matrix", path);
  cn_tree_free(tree);
  return cn_err() ? NULL : t;
}

/* Sums of four uniform numbers, of variance 1: the same everywhere, bit for bit. */
static cn_tensor *random_factor(int64_t rows, int64_t columns, uint64_t stream)
{
  cn_tensor *t = cn_empty(CN_SHAPE(rows, columns), .dtype = CN_F64);
  double *data = t ? cn_data(t) : NULL;
  for (int64_t i = 0; data && i < rows * columns; i++) {
    uint32_t bits[4];
    cn_random_block(bits, 1, stream, (uint64_t)i);
    double sum = (double)bits[0] + (double)bits[1] + (double)bits[2] + (double)bits[3];
    data[i] = (sum / 4294967296.0 - 2) * 1.7320508075688772;
  }
  return t;
}

static int find_factors(cn_tensor **left, cn_tensor **right, const wanted *w)
{
  *left = w->left ? load_factor(w->left) : random_factor(w->product[0], w->product[1], 0);
  *right = !*left ? NULL : w->right ? load_factor(w->right) : random_factor(w->product[1], w->product[2], 1);
  if (!*right) return cn_err();
  if (cn_size(*left, 1) != cn_size(*right, 0) || !cn_numel(*left) || !cn_numel(*right))
    return cn_err_set(CN_ERR_SHAPE, "matrices of %lld columns and of %lld rows have no product",
                      (long long)cn_size(*left, 1), (long long)cn_size(*right, 0));
  return CN_OK;
}

/* ---- measured ---- */

enum { SIZES = 7 };

typedef struct measured {
  int64_t k[SIZES];
  double seconds[SIZES]; /* of one product */
  int n;
} measured;

static double time_product(cn_device device, cn_dtype type, int64_t m, int64_t k, int64_t n)
{
  enum { ROUNDS = 20 };
  double best = 0;
  cn_scope *all = cn_scope_begin();
  cn_tensor *a = cn_full(CN_SHAPE(m, k), 0.5, .dtype = type, .device = device);
  cn_tensor *b = cn_full(CN_SHAPE(k, n), 0.5, .dtype = type, .device = device);
  for (int i = 0; i < ROUNDS && !cn_err(); i++) {
    cn_scope *s = cn_scope_begin();
    cn_device_sync(device);
    double begin = cn_clock();
    for (int q = 0; q < 10; q++) cn_matmul(a, b);
    cn_device_sync(device);
    double took = (cn_clock() - begin) / 10;
    cn_scope_end(s);
    if (i && (best <= 0 || took < best)) best = took;
  }
  cn_scope_end(all);
  return best;
}

/* The depth, and those around it that are aligned to 2, 4, 8, ... elements more or less. */
static int measure_around(measured *out, const tiling *t, cn_dtype type)
{
  static const int off[SIZES] = {0, 1, 2, 4, 8, 16, 64};
  cn_device device = cn_device_find("cuda");
  for (int i = 0; i < SIZES && !cn_err(); i++) {
    int64_t k = (t->k + 63) / 64 * 64 + off[i];
    out->k[out->n] = k;
    out->seconds[out->n++] = time_product(device, type, t->m, k, t->n);
  }
  return cn_err();
}

static cn_dtype dtype_of(const char *type)
{
  return !strcmp(type, "bf16") ? CN_BF16 : !strcmp(type, "f16") ? CN_F16 : CN_DTYPE_NONE;
}

/* 1: measured; 0: there is nothing to measure with, and why has been told. */
static int measure(measured *out, const tiling *t)
{
  cn_dtype type = dtype_of(t->f->type);
  bool device = cn_device_count("cuda") > 0;
  if (!device) fprintf(stderr, "cairn: no CUDA device here: nothing is measured\n");
  else if (type == CN_DTYPE_NONE) fprintf(stderr, "cairn: products of %s are not measured\n", t->f->type);
  if (!device || type == CN_DTYPE_NONE) return 0;
  return measure_around(out, t, type) ? cn_err() : 1;
}

/* ---- what is said ---- */

static double rate(const tiling *t, const measured *m, int i)
{
  return 2.0 * (double)t->m * (double)m->k[i] * (double)t->n / m->seconds[i];
}

static void print(const tiling *t, const processor *p, const sum_error *e, int64_t looked, const measured *m)
{
  double part = t->by_fragments * t->by_waves;
  int type = processor_type(t->f->type);
  printf("%lld x %lld times %lld x %lld, %s, by %s\n", (long long)t->m, (long long)t->k, (long long)t->k,
         (long long)t->n, t->f->type, t->f->name);
  printf("  fragments  %lld x %lld x %lld; %.1f %% of what they compute is wanted\n", (long long)t->down,
         (long long)t->across, (long long)t->along, 100 * t->by_fragments);
  printf("  tiles      %lld of %lld x %lld on %lld units of %s: %lld wave%s, %.1f %% busy\n", (long long)t->tiles,
         (long long)t->tile_m, (long long)t->tile_n, (long long)t->units, p->name, (long long)t->waves,
         t->waves == 1 ? "" : "s", 100 * t->by_waves);
  printf("  loads      %d bytes at a time%s\n", t->load, t->load < 16 ? ": rows are not aligned to 16" : "");
  printf("  at most    %.1f %% of the peak", 100 * part);
  if (type >= 0 && p->peak[type] > 0) printf(", %.1f TFLOP/s", part * p->peak[type] / 1e12);
  printf("\n\n%-32s %10s %10s %12s\n", "sums (of the largest result)", "mean", "largest", "with factors");
  for (int i = 0; i < FRAGMENT_SUMS; i++)
    printf("%-32s %10.2g %10.2g %12.2g%s\n", e[i].sum, e[i].mean, e[i].largest, e[i].whole,
           e[i].overflow ? "  some overflow" : "");
  printf("of %lld results; with factors: their rounding to %s counts, too\n", (long long)looked, t->f->type);
  for (int i = 0; i < m->n; i++)
    printf("measured: depth %6lld  %8.2f us  %7.1f TFLOP/s\n", (long long)m->k[i], 1e6 * m->seconds[i],
           rate(t, m, i) / 1e12);
}

static cn_tree *tree_of_measured(const tiling *t, const measured *m)
{
  cn_tree *list = cn_tree_list();
  for (int i = 0; i < m->n; i++) {
    cn_tree *one = cn_tree_dict();
    json_number(one, "k", (double)m->k[i]);
    json_number(one, "seconds", m->seconds[i]);
    json_number(one, "flops_per_second", rate(t, m, i));
    cn_tree_push(list, one);
  }
  return list;
}

static int print_json(const tiling *t, const processor *p, const sum_error *e, const measured *m)
{
  cn_tree *all = cn_tree_dict(), *sums = cn_tree_list();
  json_text(all, "fragment", t->f->name);
  json_text(all, "type", t->f->type);
  json_text(all, "processor", p->name);
  json_number(all, "m", (double)t->m);
  json_number(all, "k", (double)t->k);
  json_number(all, "n", (double)t->n);
  json_number(all, "fragments", (double)t->down * (double)t->across * (double)t->along);
  json_number(all, "wanted_part", t->by_fragments);
  json_number(all, "tiles", (double)t->tiles);
  json_number(all, "waves", (double)t->waves);
  json_number(all, "busy_part", t->by_waves);
  json_number(all, "bytes_of_a_load", t->load);
  for (int i = 0; i < FRAGMENT_SUMS; i++) {
    cn_tree *one = cn_tree_dict();
    json_text(one, "sum", e[i].sum);
    json_number(one, "mean", e[i].mean);
    json_number(one, "largest", e[i].largest);
    json_number(one, "largest_with_factors", e[i].whole);
    cn_tree_put(one, "overflow", cn_tree_bool(e[i].overflow));
    cn_tree_push(sums, one);
  }
  cn_tree_put(all, "sums", sums);
  cn_tree_put(all, "measured", tree_of_measured(t, m));
  return text_print_json(all);
}

/* ---- the command ---- */

static int draw(const char *path, const tiling *t, const sum_error *e)
{
  cn_text out = {0};
  int status = fragments_svg(&out, t, e);
  if (!status) status = text_write(path, &out);
  cn_text_free(&out);
  return status;
}

static int show(const wanted *w, const fragment *f, const processor *p)
{
  cn_tensor *left, *right;
  tiling t;
  measured m = {.n = 0};
  sum_error errors[FRAGMENT_SUMS];
  int64_t looked;
  int status = find_factors(&left, &right, w);
  if (status) return status;
  fragments_of(&t, f, cn_size(left, 0), cn_size(left, 1), cn_size(right, 1), p->units);
  fragments_errors(errors, &looked, &t, cn_data(left), cn_data(right));
  if (w->picture) status = draw(w->picture, &t, errors);
  if (!status && w->measure && measure(&m, &t) < 0) status = cn_err();
  if (status) return status;
  if (w->json) return print_json(&t, p, errors, &m);
  print(&t, p, errors, looked, &m);
  return CN_OK;
}

int command_tensorcore(int argc, char **argv)
{
  wanted w = {.type = "bf16", .name = "mma", .on = "H200"};
  const char *product = NULL;
  const command_flag flags[] = {
    {"--a", &w.left, NULL}, {"--b", &w.right, NULL}, {"--type", &w.type, NULL}, {"--fragment", &w.name, NULL},
    {"--on", &w.on, NULL}, {"-o", &w.picture, NULL}, {"--measure", NULL, &w.measure}, {"--json", NULL, &w.json},
    {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &product, 1);
  if (n < 0) return 2;
  if (!n && !w.left && !w.right) return command_missing(argv[0], "which product?");
  if (n && (w.left || w.right)) return command_usage(argv[0], product);
  if (!w.left != !w.right) return command_missing(argv[0], "--a and --b belong together");
  if (n && command_sizes(w.product, 3, product) != 3) return command_usage(argv[0], product);
  const fragment *f = fragment_find(w.name, w.type);
  const processor *p = processor_find(w.on);
  if (!f) return command_usage(argv[0], fragment_find(NULL, w.type) ? w.name : w.type);
  if (!p) return command_usage(argv[0], w.on);
  cn_scope *s = cn_scope_begin();
  int status = show(&w, f, p);
  cn_scope_end(s);
  return status || cn_err() ? command_failed() : 0;
}
