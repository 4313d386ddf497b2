/* array_svg.c: pictures of systolic arrays: data on its way through a small grid, and the layers of a network by how
 * much of a grid they use. See array.h. Invariant: the same arguments give the same bytes. */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "text.h"

/* ---- frames of a run ---- */

enum { CELL = 44, GAP = 34, TOP = 66, SIDE = 18, FRAMES = 64, ACROSS = 900 };

typedef struct film {
  cn_text *t;
  int across, total;
  bool animated;
} film;

static int frame_wide(const array *a) { return (int)a->cols * CELL + GAP; }
static int frame_high(const array *a) { return (int)a->rows * CELL + GAP; }

static void put_cell(cn_text *t, const array_run *run, const array_cell *c, double x, double y)
{
  const array *a = run->a;
  bool stays = a->flow == ARRAY_WEIGHTS_STAY, works = c->row >= 0;
  char text[64];
  svg_rect(t, !works ? "i" : c->tile % 2 ? "w1" : "w0", x, y, CELL - 4, CELL - 4);
  if (works) {
    double sum = (double)(stays ? c->sum_above : c->sum_stay);
    if (a->type == ARRAY_BF16) sum = (double)(stays ? c->above : c->stay);
    snprintf(text, sizeof text, "%.3g", sum);
    svg_text(t, x + CELL / 2.0 - 2, y + 32, "m", text);
    snprintf(text, sizeof text, "%.2g\u00b7%.2g", (double)c->left, (double)(stays ? c->stay : c->above));
    svg_text(t, x + CELL / 2.0 - 2, y + 16, "m s", text);
  }
  if ((stays && c->target >= 0) || (!stays && c->drains))
    text_putf(t, "<circle class=\"c1\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x + CELL - 9, y + 5);
}

static void put_frame(const array_run *run, int64_t cycle, const array_cell *cells, void *payload)
{
  film *f = payload;
  const array *a = run->a;
  char text[64];
  if (cycle >= FRAMES) return;
  int i = f->animated ? 0 : (int)cycle % f->across, j = f->animated ? 0 : (int)cycle / f->across;
  double x = SIDE + i * frame_wide(a), y = TOP + j * frame_high(a) + 18;
  cn_text_put(f->t, "<g>\n");
  if (f->animated) {
    double second = 0.7, all = f->total * second, from = (double)cycle / f->total;
    double to = (double)(cycle + 1) / f->total;
    text_putf(f->t, "<animate attributeName=\"visibility\" values=\"hidden;visible;hidden\" keyTimes=\"0;%.5f;%.5f\" "
                    "calcMode=\"discrete\" dur=\"%.1fs\" repeatCount=\"indefinite\"/>\n", from, to < 1 ? to : 1, all);
  }
  snprintf(text, sizeof text, "cycle %lld", (long long)cycle);
  svg_text(f->t, x, y - 5, "s", text);
  for (int64_t r = 0; r < a->rows; r++)
    for (int64_t c = 0; c < a->cols; c++)
      put_cell(f->t, run, &cells[r * a->cols + c], x + (double)(c * CELL), y + (double)(r * CELL));
  cn_text_put(f->t, "</g>\n");
}

static void put_meaning(cn_text *t, const array_run *run)
{
  bool stays = run->a->flow == ARRAY_WEIGHTS_STAY;
  char text[200];
  snprintf(text, sizeof text, "(%lld \u00d7 %lld) times (%lld \u00d7 %lld) on a grid of %lld \u00d7 %lld, %s stay",
           (long long)run->p->m, (long long)run->p->k, (long long)run->p->k, (long long)run->p->n,
           (long long)run->a->rows, (long long)run->a->cols, stays ? "weights" : "outputs");
  svg_text(t, SIDE, 26, "h", text);
  svg_text(t, SIDE, 46, "s",
           stays ? "a cell: left factor \u00b7 weight, below the sum that goes down; dot: a weight of the next tile "
                   "passes; colours: tiles"
                 : "a cell: left factor \u00b7 upper factor, below the sum that stays; dot: a finished sum waits or "
                   "goes down; colours: tiles");
}

int array_frames_svg(cn_text *t, array_run *run, bool animated)
{
  const array *a = run->a;
  array_cost cost;
  array_cost_of(&cost, a, run->p);
  int most = (ACROSS - 2 * SIDE) / frame_wide(a);
  film f = {.t = t, .across = animated ? 1 : most > 0 ? most : 1, .animated = animated,
            .total = cost.cycles < FRAMES ? (int)cost.cycles : FRAMES};
  int rows = animated ? 1 : (f.total + f.across - 1) / f.across;
  int width = 2 * SIDE + f.across * frame_wide(a);
  svg_head(t, width > 640 ? width : 640, TOP + rows * frame_high(a) + 10, "systolic array",
           ".i{fill:#f3f5f7;stroke:#c3cad1}.w0{fill:#cfe2f7;stroke:#2a6fb5}.w1{fill:#d5f0dc;stroke:#3c9a5f}",
           ".i{fill:#1d2329;stroke:#48525c}.w0{fill:#1f3a57;stroke:#6fb1f0}.w1{fill:#1d4029;stroke:#74d096}");
  put_meaning(t, run);
  run->each = put_frame;
  run->payload = &f;
  int status = array_simulate(run);
  cn_text_put(t, "</svg>\n");
  return status ? status : t->failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- layers ---- */

enum { WIDE = 900, LEFT = 60, PLOT = 800, HIGH = 260, PLOT_TOP = 70, MARK = 40 };

static void put_layer(cn_text *t, const array_layer *l, double x, double w)
{
  static const char *const colours[] = {"c0", "c1", "c4"};
  static const char *const bounds[] = {"compute", "memory", "loading weights"};
  double part = l->cost.useful / l->cost.offered, h = HIGH * part;
  text_putf(t, "<g><title>");
  svg_escaped(t, *l->name ? l->name : l->op);
  text_putf(t, ": %lld x (%lld x %lld)(%lld x %lld), %.0f cycles, %.1f %% of the grid, bound by %s</title>\n",
            (long long)l->product.count, (long long)l->product.m, (long long)l->product.k, (long long)l->product.k,
            (long long)l->product.n, l->cost.cycles, 100 * part, bounds[l->cost.bound]);
  svg_rect(t, "g", x, PLOT_TOP, w, HIGH);
  svg_rect(t, colours[l->cost.bound], x, PLOT_TOP + HIGH - h, w, h);
  cn_text_put(t, "</g>\n");
  if (w < MARK) return;
  char name[40];
  snprintf(name, sizeof name, "%.*s", (int)(w / 6.5) < 39 ? (int)(w / 6.5) : 39, *l->name ? l->name : l->op);
  svg_text(t, x + w / 2, PLOT_TOP + HIGH + 15, "m s", name);
}

static void put_axes(cn_text *t, const array *a, double cycles)
{
  char text[96];
  for (int i = 0; i <= 4; i++) {
    double y = PLOT_TOP + HIGH * (1 - i / 4.0);
    svg_line(t, "g", LEFT, y, LEFT + PLOT, y);
    snprintf(text, sizeof text, "%d %%", 25 * i);
    svg_text(t, LEFT - 6, y + 4, "e s", text);
  }
  snprintf(text, sizeof text, "width: cycles, %.4g in all (%.4g ms at %.4g MHz); height: used cells", cycles,
           1e3 * cycles / a->clock, a->clock / 1e6);
  svg_text(t, LEFT, PLOT_TOP + HIGH + 38, "s", text);
  static const char *const words[] = {"c0", "bound by compute", "c1", "by memory", "c4", "by loading weights"};
  for (int i = 0; i < 3; i++) {
    svg_rect(t, words[2 * i], LEFT + 450 + 130 * i, PLOT_TOP + HIGH + 29, 10, 10);
    svg_text(t, LEFT + 465 + 130 * i, PLOT_TOP + HIGH + 38, "s", words[2 * i + 1]);
  }
}

int array_layers_svg(cn_text *t, const array *a, const array_layer *layers, size_t n, const char *title)
{
  double cycles = 0, x = LEFT;
  char text[160];
  for (size_t i = 0; i < n; i++) cycles += layers[i].cost.cycles;
  svg_head(t, WIDE, PLOT_TOP + HIGH + 56, title, ".g{fill:none}", "");
  svg_text(t, LEFT, 28, "h", title);
  snprintf(text, sizeof text, "%lld x %lld cells, %s stay, %s; %.4g GB/s", (long long)a->rows, (long long)a->cols,
           a->flow == ARRAY_WEIGHTS_STAY ? "weights" : "outputs", a->type == ARRAY_BF16 ? "bfloat16" : "int8",
           a->bandwidth / 1e9);
  svg_text(t, LEFT, 50, "s", text);
  put_axes(t, a, cycles);
  for (size_t i = 0; i < n && cycles > 0; i++) {
    double w = PLOT * layers[i].cost.cycles / cycles;
    put_layer(t, &layers[i], x, w);
    x += w;
  }
  cn_text_put(t, "</svg>\n");
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}
