/* systolic.c: `cairn systolic`: what a systolic array, the unit of TPUs, makes of a network's layers, or of one
 * product, which it simulates cycle by cycle.
 *
 * Place in the flow: work.c lists a network's products, array_form.c counts their cycles; one product goes through
 * array.c, and both counts and the numbers are compared. Invariant: what is printed of a product was simulated. */
#include <cairn/cairn.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "command.h"
#include "subject.h"
#include "text.h"
#include "work.h"

const char help_systolic[] =
    SUBJECT_HELP_NETWORK
    "Without options the array is that of the first TPU.\n"
    "\n"
    "  --rows N, --cols N  cells; 256 by 256\n"
    "  --dataflow F        what stays in the cells: weights (as on TPUs) or outputs\n"
    "  --type T            int8 or bf16; int8\n"
    "  --single            one set of weights in each cell: none are loaded while others are in use\n"
    "  --clock MHZ         700\n"
    "  --bandwidth GB      a second, of the memory with the weights; 0: without limit; 34\n"
    "  --buffer MIB        beside the array, for activations; 0: without limit; 24\n"
    "  --accumulators N    rows of sums below the array; 0: without limit; 4096\n"
    SUBJECT_HELP_SIZES
    "  --product M,K,N     instead of a network: simulate (M x K) times (K x N), of random numbers\n"
    "  --a FILE, --b FILE  ... of these arrays (.npy)\n"
    "  --result FILE       ... and write what the array gives (.npy)\n"
    "  -o FILE.svg         a picture: of a network's layers; of a product on its way, a frame a cycle\n"
    "  --animated          one frame after another in one place\n"
    "  --json              all numbers\n";

typedef struct wanted {
  array a;
  subject_wanted subject;
  const char *left, *right, *result, *picture;
  int64_t product[3];
  bool simulate, animated, json;
} wanted;

static const char *const bounds[] = {"compute", "memory", "loading"};

static const char *flow_name(const array *a) { return a->flow == ARRAY_WEIGHTS_STAY ? "weights" : "outputs"; }
static const char *type_name(const array *a) { return a->type == ARRAY_BF16 ? "bf16" : "int8"; }

static cn_tree *tree_of_array(const array *a)
{
  cn_tree *t = cn_tree_dict();
  json_number(t, "rows", (double)a->rows);
  json_number(t, "cols", (double)a->cols);
  json_text(t, "dataflow", flow_name(a));
  json_text(t, "type", type_name(a));
  cn_tree_put(t, "double_buffered", cn_tree_bool(!a->single));
  json_number(t, "hertz", a->clock);
  json_number(t, "bytes_per_second", a->bandwidth);
  return t;
}

static void put_cost(cn_tree *t, const array_product *p, const array_cost *c)
{
  json_number(t, "count", (double)p->count);
  json_number(t, "m", (double)p->m);
  json_number(t, "k", (double)p->k);
  json_number(t, "n", (double)p->n);
  json_number(t, "tiles", c->tiles);
  json_number(t, "cycles", c->cycles);
  json_number(t, "multiply_adds", c->useful);
  json_number(t, "utilisation", c->useful / c->offered);
  json_number(t, "bytes", c->fetched);
  json_text(t, "bound", bounds[c->bound]);
}

/* ---- one product ---- */

typedef struct factors {
  cn_tensor *left, *right; /* (m, k), (k, n): float32, of whole numbers for int8 */
  array_product p;
} factors;

/* The same numbers every time: whole ones from -9 to 9, or fractions that bfloat16 has. */
static cn_tensor *random_factor(const array *a, int64_t rows, int64_t cols, uint64_t stream)
{
  cn_tensor *t = cn_empty(CN_SHAPE(rows, cols), .dtype = CN_F32);
  float *data = t ? cn_data(t) : NULL;
  for (int64_t i = 0; data && i < rows * cols; i++) {
    uint32_t bits[4];
    cn_random_block(bits, 1, stream, (uint64_t)i);
    data[i] = (float)((int)(bits[0] % 19) - 9);
    if (a->type == ARRAY_BF16) data[i] = (float)((int)(bits[0] % 511) - 255) / 128;
  }
  return t;
}

static cn_tensor *load_factor(const array *a, const char *path)
{
  cn_tree *tree = cn_load(path);
  cn_tensor *t = cn_tree_as_tensor(tree);
  if (!t || cn_ndim(t) != 2) {
    if (!cn_err()) cn_err_set(CN_ERR_SHAPE, "%s: the array is no matrix", path);
    t = NULL;
  } else t = cn_cast(a->type == ARRAY_BF16 ? cn_cast(t, CN_BF16) : t, CN_F32);
  t = t ? cn_contiguous(cn_clone(t)) : NULL; /* what the file holds goes with its tree */
  const float *data = t ? cn_data(t) : NULL;
  for (int64_t i = 0; data && a->type == ARRAY_INT8 && i < cn_numel(t); i++)
    if (!(data[i] >= -128 && data[i] <= 127) || data[i] != floorf(data[i])) {
      cn_err_set(CN_ERR_TYPE, "%s: %g is no int8; --type bf16 takes fractions", path, (double)data[i]);
      break;
    }
  cn_tree_free(tree);
  return cn_err() ? NULL : t;
}

static int find_factors(factors *f, const wanted *w)
{
  f->left = w->left ? load_factor(&w->a, w->left) : random_factor(&w->a, w->product[0], w->product[1], 0);
  f->right = !f->left  ? NULL
             : w->right ? load_factor(&w->a, w->right)
                        : random_factor(&w->a, w->product[1], w->product[2], 1);
  if (!f->right) return cn_err();
  if (cn_size(f->left, 1) != cn_size(f->right, 0) || !cn_numel(f->left) || !cn_numel(f->right))
    return cn_err_set(CN_ERR_SHAPE, "matrices of %lld columns and of %lld rows have no product",
                      (long long)cn_size(f->left, 1), (long long)cn_size(f->right, 0));
  f->p = (array_product){1, cn_size(f->left, 0), cn_size(f->left, 1), cn_size(f->right, 1), 0};
  return CN_OK;
}

static double dot(const factors *f, int64_t i, int64_t j)
{
  const float *x = cn_data(f->left), *y = cn_data(f->right);
  double sum = 0;
  for (int64_t k = 0; k < f->p.k; k++) sum += (double)x[i * f->p.k + k] * (double)y[k * f->p.n + j];
  return sum;
}

/* The largest distance from the sum in float64, of the largest result. */
static double error_of(const factors *f, const array_run *run)
{
  double far = 0, largest = 0;
  for (int64_t i = 0; i < f->p.m; i++)
    for (int64_t j = 0; j < f->p.n; j++) {
      double sum = dot(f, i, j), got = run->result ? (double)run->result[i * f->p.n + j] : run->sums[i * f->p.n + j];
      far = fmax(far, fabs(got - sum));
      largest = fmax(largest, fabs(sum));
    }
  return largest > 0 ? far / largest : 0;
}

static int report_product(const wanted *w, const array_run *run, bool same, double error)
{
  array_cost c;
  array_cost_of(&c, &w->a, run->p);
  if (w->json) {
    cn_tree *t = tree_of_array(&w->a);
    put_cost(t, run->p, &c);
    json_number(t, "simulated_cycles", (double)run->cycles);
    cn_tree_put(t, "is_the_product", cn_tree_bool(same));
    json_number(t, "error", error);
    return text_print_json(t);
  }
  printf("%lld x %lld times %lld x %lld, %s, on %lld x %lld cells, %s stay\n", (long long)run->p->m,
         (long long)run->p->k, (long long)run->p->k, (long long)run->p->n, type_name(&w->a), (long long)w->a.rows,
         (long long)w->a.cols, flow_name(&w->a));
  printf("  cycles    %lld simulated, %.0f by the closed form\n", (long long)run->cycles, c.cycles);
  printf("  used      %.1f %% of the cells' cycles; %.0f tiles; bound by %s\n", 100 * c.useful / c.offered, c.tiles,
         bounds[c.bound]);
  printf("  numbers   %s; %.2g from float64, of the largest\n",
         same ? "those of the product in the array's order" : "WRONG", error);
  return CN_OK;
}

static int save_result(const char *path, cn_tensor *t)
{
  cn_tree *tree = cn_tree_tensor(t);
  int status = tree ? cn_save(path, tree) : cn_err();
  cn_tree_free(tree);
  return status;
}

static int draw_product(const wanted *w, array_run *run)
{
  cn_text t = {0};
  int status = array_frames_svg(&t, run, w->animated);
  if (!status) status = text_write(w->picture, &t);
  cn_text_free(&t);
  return status;
}

static int simulate(const wanted *w)
{
  factors f;
  int status = find_factors(&f, w);
  if (status) return status;
  bool whole = w->a.type == ARRAY_INT8;
  cn_tensor *got = cn_empty(CN_SHAPE(f.p.m, f.p.n), .dtype = whole ? CN_I32 : CN_F32);
  cn_tensor *want = cn_empty_like(got);
  if (!want) return cn_err();
  array_run run = {.a = &w->a, .p = &f.p, .left = cn_data(f.left), .right = cn_data(f.right)};
  array_run other = run;
  if (whole) run.sums = cn_data(got), other.sums = cn_data(want);
  else run.result = cn_data(got), other.result = cn_data(want);
  status = w->picture ? draw_product(w, &run) : array_simulate(&run);
  if (status) return status;
  array_reference(&other);
  bool same = !memcmp(cn_data(got), cn_data(want), cn_tensor_nbytes(got));
  if (w->result) status = save_result(w->result, got);
  return status ? status : report_product(w, &run, same, error_of(&f, &run));
}

/* ---- a network ---- */

typedef struct layers {
  array_layer *v;
  size_t n, cap;
  array_cost all;
  double missed; /* operations of products that are not mapped */
} layers;

static int add_layer(layers *l, const array *a, const work_node *n, const array_product *p)
{
  if (cn_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v)) return CN_ERR_MEMORY;
  array_layer *layer = &l->v[l->n++];
  *layer = (array_layer){.op = n->op, .product = *p};
  memcpy(layer->name, n->name, sizeof layer->name);
  array_cost_of(&layer->cost, a, p);
  l->all.tiles += layer->cost.tiles;
  l->all.cycles += layer->cost.cycles;
  l->all.useful += layer->cost.useful;
  l->all.offered += layer->cost.offered;
  l->all.fetched += layer->cost.fetched;
  l->all.streaming += layer->cost.streaming;
  return CN_OK;
}

static int find_layers(layers *l, const array *a, const work *k)
{
  for (size_t i = 0; i < k->n; i++) {
    const work_node *n = &k->v[i];
    bool any = false;
    for (int j = 0; j < 2; j++) {
      const array_product *p = &n->as[j];
      if (p->count < 1 || p->m < 1 || p->k < 1 || p->n < 1) continue;
      if (add_layer(l, a, n, p)) return CN_ERR_MEMORY;
      any = true;
    }
    if (!any) l->missed += n->products;
  }
  return CN_OK;
}

static void print_layers(const layers *l, const wanted *w)
{
  const array *a = &w->a;
  printf("%s, batch %lld, on %lld x %lld cells, %s stay, %s, %.4g MHz, %.4g GB/s\n\n", w->subject.what,
         (long long)w->subject.batch, (long long)a->rows, (long long)a->cols, flow_name(a), type_name(a),
         a->clock / 1e6, a->bandwidth / 1e9);
  printf("%-30s %6s %8s %7s %7s %12s %7s  %s\n", "layer", "times", "m", "k", "n", "cycles", "used", "bound by");
  for (size_t i = 0; i < l->n; i++) {
    const array_layer *v = &l->v[i];
    printf("%-30.30s %6lld %8lld %7lld %7lld %12.0f %6.1f%%  %s\n", *v->name ? v->name : v->op,
           (long long)v->product.count, (long long)v->product.m, (long long)v->product.k, (long long)v->product.n,
           v->cost.cycles, 100 * v->cost.useful / v->cost.offered, bounds[v->cost.bound]);
  }
  double time = l->all.cycles / a->clock;
  printf("%-30s %6s %8s %7s %7s %12.0f %6.1f%%\n\n", "all", "", "", "", "", l->all.cycles,
         100 * l->all.useful / l->all.offered);
  printf("%.3f ms, %.1f TOPS of %.1f, %.1f MB from memory; other ops and their time are not in it\n", 1e3 * time,
         2 * l->all.useful / time / 1e12, 2 * (double)(a->rows * a->cols) * a->clock / 1e12, l->all.fetched / 1e6);
  if (l->missed > 0) printf("%.3g operations of products that no array computes here are not in it\n", l->missed);
}

static int json_layers(const layers *l, const wanted *w)
{
  cn_tree *t = tree_of_array(&w->a), *list = cn_tree_list();
  json_text(t, "network", w->subject.what);
  json_number(t, "batch", (double)w->subject.batch);
  json_number(t, "cycles", l->all.cycles);
  json_number(t, "seconds", l->all.cycles / w->a.clock);
  json_number(t, "streaming_cycles", l->all.streaming);
  json_number(t, "multiply_adds", l->all.useful);
  json_number(t, "utilisation", l->all.useful / l->all.offered);
  json_number(t, "bytes", l->all.fetched);
  json_number(t, "operations_not_mapped", l->missed);
  for (size_t i = 0; i < l->n; i++) {
    cn_tree *row = cn_tree_dict();
    json_text(row, "layer", l->v[i].name);
    json_text(row, "op", l->v[i].op);
    put_cost(row, &l->v[i].product, &l->v[i].cost);
    cn_tree_push(list, row);
  }
  cn_tree_put(t, "layers", list);
  return text_print_json(t);
}

static int draw_layers(const layers *l, const wanted *w)
{
  cn_text t = {0};
  char title[200];
  snprintf(title, sizeof title, "%.120s on a systolic array, batch %lld: %.1f %% used", w->subject.what,
           (long long)w->subject.batch, 100 * l->all.useful / l->all.offered);
  int status = array_layers_svg(&t, &w->a, l->v, l->n, title);
  if (!status) status = text_write(w->picture, &t);
  cn_text_free(&t);
  return status;
}

static int map_network(wanted *w)
{
  subject s = {.m = {NULL, NULL, false}};
  work k = {NULL};
  layers l = {NULL};
  w->subject.traced = true;
  int status = subject_open(&s, &w->subject);
  if (!status) status = work_of(&k, s.graph);
  if (!status) status = find_layers(&l, &w->a, &k);
  if (!status && !l.n) status = cn_err_set(CN_ERR_UNSUPPORTED, "%s has no products of matrices", w->subject.what);
  if (!status && w->picture) status = draw_layers(&l, w);
  if (!status && w->json) status = json_layers(&l, w);
  else if (!status) print_layers(&l, w);
  cn_free(l.v, l.cap * sizeof *l.v);
  work_free(&k);
  subject_close(&s);
  return status;
}

/* ---- the command ---- */

typedef struct texts {
  const char *rows, *cols, *flow, *type, *clock, *bandwidth, *buffer, *accumulators, *batch, *product;
} texts;

static bool at_least(double *value, const char *text, double least, double unit)
{
  double v = *value / unit;
  bool good = command_number(&v, text) && v >= least;
  *value = v * unit;
  return good;
}

static bool one_of(int *which, const char *text, const char *first, const char *second)
{
  *which = text && !strcmp(text, second);
  return !text || *which || !strcmp(text, first);
}

/* What is wrong with the numbers; NULL: nothing. */
static const char *read_array(array *a, const texts *t)
{
  int flow, type;
  if (!command_whole(&a->rows, t->rows) || a->rows < 1 || a->rows > 4096) return t->rows;
  if (!command_whole(&a->cols, t->cols) || a->cols < 1 || a->cols > 4096) return t->cols;
  if (!one_of(&flow, t->flow, "weights", "outputs")) return t->flow;
  if (!one_of(&type, t->type, "int8", "bf16")) return t->type;
  a->flow = flow ? ARRAY_OUTPUTS_STAY : ARRAY_WEIGHTS_STAY;
  a->type = type ? ARRAY_BF16 : ARRAY_INT8;
  if (!at_least(&a->clock, t->clock, 1e-6, 1e6)) return t->clock;
  if (!at_least(&a->bandwidth, t->bandwidth, 0, 1e9)) return t->bandwidth;
  if (!at_least(&a->buffer, t->buffer, 0, 1048576)) return t->buffer;
  if (!command_whole(&a->accumulators, t->accumulators) || a->accumulators < 0) return t->accumulators;
  return NULL;
}

static int run(wanted *w)
{
  if (!w->simulate) return map_network(w);
  w->a.accumulators = 0; /* one product passes in one part */
  w->a.buffer = 0;
  cn_scope *s = cn_scope_begin();
  int status = simulate(w);
  cn_scope_end(s);
  return status;
}

int command_systolic(int argc, char **argv)
{
  wanted w = {.a = {.rows = 256, .cols = 256, .clock = 700e6, .bandwidth = 34e9, .buffer = 24 * 1048576.0,
                    .accumulators = 4096}};
  texts t = {NULL};
  const char *wrong;
  const command_flag flags[] = {
    {"--rows", &t.rows, NULL}, {"--cols", &t.cols, NULL}, {"--dataflow", &t.flow, NULL}, {"--type", &t.type, NULL},
    {"--single", NULL, &w.a.single}, {"--clock", &t.clock, NULL}, {"--bandwidth", &t.bandwidth, NULL},
    {"--buffer", &t.buffer, NULL}, {"--accumulators", &t.accumulators, NULL}, {"--batch", &t.batch, NULL},
    {"--input", &w.subject.sizes, NULL}, {"--product", &t.product, NULL}, {"--a", &w.left, NULL},
    {"--b", &w.right, NULL}, {"--result", &w.result, NULL}, {"-o", &w.picture, NULL},
    {"--animated", NULL, &w.animated}, {"--json", NULL, &w.json}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.subject.what, 1);
  if (n < 0) return 2;
  if ((wrong = read_array(&w.a, &t))) return command_usage(argv[0], wrong);
  if (!subject_sizes(&w.subject, t.batch, &wrong)) return command_usage(argv[0], wrong);
  w.simulate = t.product || w.left || w.right;
  if (n && w.simulate) return command_usage(argv[0], w.subject.what);
  if (!n && !w.simulate) return command_missing(argv[0], "which network, or which --product?");
  if (t.product && command_sizes(w.product, 3, t.product) != 3) return command_usage(argv[0], t.product);
  if (!w.left != !w.right || (w.left && t.product))
    return command_missing(argv[0], "--a and --b belong together, without --product");
  if (!w.simulate && (w.result || w.animated))
    return command_missing(argv[0], "--result and --animated are of a product");
  return run(&w) || cn_err() ? command_failed() : 0;
}
