/* roofline_svg.c: what the ops of a network reach of what this machine lets them, as a picture.
 *
 * Place in the flow: report.c gives layers (an op in a module) with their times, operations and bytes. Both axes are
 * logarithms: operations for each byte moved, and operations a second. Under the slope memory is the limit, under the
 * flat roof arithmetic. Invariant: labels overlap neither each other nor the larger circles; names may hold any
 * characters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "text.h"

enum { WIDTH = 1000, HEIGHT = 690, LEFT = 74, TOP = 74, PLOT_W = 670, PLOT_H = 430, STRIP = 582, STRIP_H = 70 };
enum { LEGEND = LEFT + PLOT_W + 24, COLOURS = 8, LABELS = 14, CIRCLES = 400 };
static const double least_share = 2e-4; /* of the time, to be drawn */

typedef struct box {
  double x, y, w, h;
} box;

typedef struct circle {
  const report_row *row;
  double x, y, r;
} circle;

typedef struct label {
  box at;
  const char *name; /* NULL: only taken */
  double x, y; /* of a line to its circle, where it is not beside it */
  const circle *of;
  bool line;
} label;

typedef struct drawing {
  cn_text *t;
  const report *r;
  double x_from, x_to, y_from, y_to; /* logarithms */
  circle circles[CIRCLES];
  size_t ncircles;
  label labels[LABELS];
  size_t nlabels;
} drawing;

/* ---- where things are ---- */

static double place_x(const drawing *d, double intensity)
{
  return LEFT + PLOT_W * (log10(intensity) - d->x_from) / (d->x_to - d->x_from);
}
static double place_y(const drawing *d, double rate)
{
  return TOP + PLOT_H * (d->y_to - log10(rate)) / (d->y_to - d->y_from);
}

static double intensity(const report_row *row) { return row->flops / row->bytes; }
static double rate(const report_row *row) { return row->flops / row->time / 1e9; }

static bool is_drawn(const report *r, const report_row *row)
{
  return row->flops > 0 && row->bytes > 0 && row->time > least_share * r->all.time;
}

/* Ranges that hold the corner of the roof and all circles. */
static void find_ranges(drawing *d)
{
  const report *r = d->r;
  double ridge = log10(r->gflops / r->gbps), top = log10(r->gflops);
  d->x_from = ridge - 1, d->x_to = ridge + 1, d->y_from = top - 2, d->y_to = top;
  for (size_t i = 0; i < r->layers.n; i++) {
    const report_row *row = &r->layers.v[i];
    if (!is_drawn(r, row)) continue;
    d->x_from = fmin(d->x_from, log10(intensity(row)));
    d->x_to = fmax(d->x_to, log10(intensity(row)));
    d->y_from = fmin(d->y_from, log10(rate(row)));
    d->y_to = fmax(d->y_to, log10(rate(row)));
  }
  d->x_from -= 0.25, d->x_to += 0.25, d->y_from -= 0.2, d->y_to += 0.3;
}

static void place_circles(drawing *d)
{
  const report *r = d->r;
  for (size_t i = 0; i < r->layers.n && d->ncircles < CIRCLES; i++) {
    const report_row *row = &r->layers.v[i];
    if (!is_drawn(r, row)) continue;
    d->circles[d->ncircles++] = (circle){row, place_x(d, intensity(row)), place_y(d, rate(row)),
                                         fmin(fmax(60 * sqrt(row->time / r->all.time), 2.5), 26)};
  }
}

/* ---- axes and roof ---- */

static void put_head(const drawing *d)
{
  static const char *const light[COLOURS + 1] = {"#2a6fb5", "#d9822b", "#3c9a5f", "#b5446e",
                                                 "#7a5cc0", "#1f9aa5", "#a8862a", "#c2503c", "#8a949e"};
  static const char *const dark[COLOURS + 1] = {"#6fb1f0", "#f2ab5e", "#74d096", "#ee86ab",
                                                "#b59cf0", "#5fd0da", "#dfbf62", "#f08872", "#9aa5af"};
  cn_text *t = d->t;
  text_putf(t,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
               WIDTH, HEIGHT, WIDTH, HEIGHT);
  svg_escaped(t, d->r->what);
  cn_text_put(t, ": roofline</title>\n<style>\ntext{font-family:sans-serif;font-size:12px;fill:#333d47}"
                 ".b{fill:#fff}.h{font-size:17px;font-weight:bold}.s{fill:#5c6873}.e{text-anchor:end}"
                 ".m{text-anchor:middle}.l{font-size:11px}.g{stroke:#e3e7eb}.f{stroke:#c3cad1;fill:none}"
                 ".r{stroke:#333d47;stroke-width:2;fill:none}.u{fill:#2a6fb5;fill-opacity:.05}"
                 ".k{fill:#2a6fb5;fill-opacity:.25;stroke:#2a6fb5}circle{fill-opacity:.55}\n");
  for (int i = 0; i <= COLOURS; i++) text_putf(t, ".c%d{fill:%s;stroke:%s}", i, light[i], light[i]);
  cn_text_put(t, "\n@media(prefers-color-scheme:dark){text{fill:#d5dbe1}.b{fill:#15191e}.s{fill:#98a4af}"
                 ".g{stroke:#2a3138}.f{stroke:#48525c}.r{stroke:#d5dbe1}.u{fill:#6fb1f0;fill-opacity:.07}"
                 ".k{fill:#6fb1f0;stroke:#6fb1f0}");
  for (int i = 0; i <= COLOURS; i++) text_putf(t, ".c%d{fill:%s;stroke:%s}", i, dark[i], dark[i]);
  cn_text_put(t, "}\n</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n");
}

static void put_title(const drawing *d)
{
  const report *r = d->r;
  cn_text line = {0};
  cn_text_putf(&line, "%s, %s", r->what, r->how);
  svg_text(d->t, LEFT, 30, "h", line.s ? line.s : "");
  cn_text_free(&line);
  line = (cn_text){0};
  cn_text_put(&line, "input ");
  cn_text_put_sizes(&line, r->shape, r->ndim);
  text_putf(&line, ", %d thread%s, ", r->threads, r->threads == 1 ? "" : "s");
  text_putf(&line, "%.2f ms a run, %.1f GFLOP/s; ", r->time * 1e3, r->time > 0 ? r->all.flops / r->time / 1e9 : 0);
  cn_text_put(&line, "a circle is an op in a module, its area the time it takes");
  svg_text(d->t, LEFT, 52, "s", line.s ? line.s : "");
  cn_text_free(&line);
}

static void put_power(char *text, size_t size, double exponent)
{
  snprintf(text, size, "%.*f", exponent < 0 ? (int)-exponent : 0, pow(10, exponent));
}

static void put_axes(const drawing *d)
{
  char text[32];
  cn_text *t = d->t;
  for (double e = ceil(d->x_from); e <= d->x_to; e++) {
    double x = place_x(d, pow(10, e));
    svg_line(t, "g", x, TOP, x, TOP + PLOT_H);
    put_power(text, sizeof text, e);
    svg_text(t, x, TOP + PLOT_H + 17, "m", text);
  }
  for (double e = ceil(d->y_from); e <= d->y_to; e++) {
    double y = place_y(d, pow(10, e));
    svg_line(t, "g", LEFT, y, LEFT + PLOT_W, y);
    put_power(text, sizeof text, e);
    svg_text(t, LEFT - 8, y + 4, "e", text);
  }
  text_putf(t, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP, PLOT_W, PLOT_H);
  svg_text(t, LEFT + PLOT_W / 2.0, TOP + PLOT_H + 38, "m s", "operations for each byte moved (FLOP/B)");
  text_putf(t, "<text class=\"m s\" transform=\"translate(20 %d) rotate(-90)\">GFLOP/s</text>\n", TOP + PLOT_H / 2);
}

/* Slopes of caches, above that of memory: as far as they are below the flat roof. */
static void put_caches(const drawing *d)
{
  for (int i = 0; i < 3; i++) {
    double gbps = d->r->cache_gbps[i], floor = pow(10, d->y_from), from = fmax(pow(10, d->x_from), floor / gbps);
    char text[48];
    if (gbps <= d->r->gbps) continue;
    double to = d->r->gflops / gbps;
    if (to <= from) continue;
    svg_line(d->t, "f", place_x(d, from), place_y(d, from * gbps), place_x(d, to), place_y(d, d->r->gflops));
    snprintf(text, sizeof text, "L%d %.0f", i + 1, gbps);
    svg_text(d->t, place_x(d, to) + 2, place_y(d, d->r->gflops) - 6 - 12 * i, "l", text);
  }
}

/* The slope of memory up to the corner, and the flat roof of arithmetic. */
static void put_roof(drawing *d)
{
  const report *r = d->r;
  cn_text *t = d->t;
  double floor = pow(10, d->y_from), from = fmax(pow(10, d->x_from), floor / r->gbps);
  double x1 = place_x(d, from), y1 = place_y(d, from * r->gbps);
  double x2 = place_x(d, r->gflops / r->gbps), y2 = place_y(d, r->gflops), end = LEFT + PLOT_W;
  char path[200], text[80];
  snprintf(path, sizeof path, "M%.1f %.1fL%.1f %.1fL%.1f %.1f", x1, y1, x2, y2, end, y2);
  text_putf(t, "<path class=\"u\" d=\"%s", path);
  text_putf(t, "L%.1f %.1f", end, (double)TOP + PLOT_H);
  text_putf(t, "L%.1f %.1fz\"/>\n", x1, (double)TOP + PLOT_H);
  text_putf(t, "<path class=\"r\" d=\"%s\"/>\n", path);
  snprintf(text, sizeof text, "%.0f GFLOP/s: float32 product", r->gflops);
  svg_text(t, end - 8, y2 - 8, "e", text);
  double wide = 6.8 * (double)strlen(text);
  d->labels[d->nlabels++] = (label){.at = {end - 8 - wide, y2 - 20, wide, 16}};
  snprintf(text, sizeof text, "%.1f GB/s: copy", r->gbps);
  double angle = atan2(y2 - y1, x2 - x1) * 57.29578, x = x1 + (x2 - x1) * 0.45, y = y1 + (y2 - y1) * 0.45;
  d->labels[d->nlabels++] = (label){.at = {x - 50, y - 50, 90, 90}};
  text_putf(t, "<text class=\"m\" transform=\"translate(%.1f %.1f)", x, y);
  text_putf(t, " rotate(%.1f)\" dy=\"%.0f\">", angle, -8.0);
  svg_escaped(t, text);
  cn_text_put(t, "</text>\n");
}

/* ---- circles and labels ---- */

static int colour_of(const report *r, const char *op)
{
  for (int i = 0, k = 0; i < (int)r->ops.n && k < COLOURS; i++) {
    if (r->ops.v[i].flops <= 0) continue;
    if (!strcmp(r->ops.v[i].op, op)) return k;
    k++;
  }
  return COLOURS;
}

/* A module without the network's own name: "layer1.0.conv1". */
static const char *short_name(const report_row *row)
{
  const char *dot = strchr(row->name, '.');
  return !*row->name ? row->op : dot ? dot + 1 : row->name;
}

static void put_circle(const drawing *d, const circle *c)
{
  cn_text *t = d->t;
  text_putf(t, "<circle class=\"c%d\" ", colour_of(d->r, c->row->op));
  text_putf(t, "cx=\"%.1f\" cy=\"%.1f\" ", c->x, c->y);
  text_putf(t, "r=\"%.1f\"><title>", c->r);
  svg_escaped(t, *c->row->name ? c->row->name : "outside of modules");
  cn_text_put(t, ": ");
  svg_escaped(t, c->row->op);
  text_putf(t, ", %.3f ms (%.1f %%), ", c->row->time * 1e3, 100 * c->row->time / d->r->all.time);
  text_putf(t, "%.1f GFLOP/s, %.1f GB/s, ", rate(c->row), c->row->bytes / c->row->time / 1e9);
  text_putf(t, "%.0f %% of the roof</title></circle>\n", 100 * rate(c->row) / report_roof(d->r, c->row));
}

static bool apart(const box *a, const box *b)
{
  return a->x + a->w < b->x || b->x + b->w < a->x || a->y + a->h < b->y || b->y + b->h < a->y;
}

static bool is_free(const drawing *d, const box *b, const circle *own)
{
  if (b->x < LEFT + 2 || b->x + b->w > LEFT + PLOT_W - 2 || b->y < TOP + 2 || b->y + b->h > TOP + PLOT_H - 2)
    return false;
  for (size_t i = 0; i < d->nlabels; i++)
    if (!apart(b, &d->labels[i].at)) return false;
  for (size_t i = 0; i < d->ncircles; i++) {
    const circle *c = &d->circles[i];
    double r = c->r * 0.9;
    box around = {c->x - r, c->y - r, 2 * r, 2 * r};
    if (c != own && c->r > 3.5 && !apart(b, &around)) return false;
  }
  return true;
}

/* Is one like it labelled already? Blocks that repeat lie in one place. */
static bool is_told(const drawing *d, const circle *c)
{
  for (size_t i = 0; i < d->nlabels; i++) {
    const circle *o = d->labels[i].of;
    if (o && !strcmp(o->row->op, c->row->op) && hypot(o->x - c->x, o->y - c->y) < 12) return true;
  }
  return false;
}

/* Beside its circle, above or below, as near as there is room. */
static void place_label(drawing *d, const circle *c)
{
  const char *name = short_name(c->row);
  double w = 6.3 * (double)strlen(name), h = 12;
  for (int step = 0; step < 6; step++) {
    double far = c->r + 4 + 14 * step;
    const box ways[] = {{c->x + far, c->y - h / 2, w, h}, {c->x - far - w, c->y - h / 2, w, h},
                        {c->x - w / 2, c->y - far - h, w, h}, {c->x - w / 2, c->y + far, w, h},
                        {c->x + far * 0.7, c->y - far * 0.7 - h, w, h}, {c->x + far * 0.7, c->y + far * 0.7, w, h}};
    for (int i = 0; i < 6; i++) {
      const box *b = &ways[i];
      if (!is_free(d, b, c)) continue;
      d->labels[d->nlabels++] = (label){*b, name, fmin(fmax(c->x, b->x), b->x + w), b->y + (b->y < c->y ? h : 0), c,
                                        step > 0};
      return;
    }
  }
}

static void put_circles(drawing *d)
{
  for (size_t i = 0; i < d->ncircles && i < 3 * LABELS && d->nlabels < LABELS; i++)
    if (!is_told(d, &d->circles[i])) place_label(d, &d->circles[i]);
  for (size_t i = 0; i < d->nlabels; i++) {
    const label *l = &d->labels[i];
    if (l->line) svg_line(d->t, "f", l->of->x, l->of->y, l->x, l->y);
  }
  for (size_t i = 0; i < d->ncircles; i++) put_circle(d, &d->circles[i]);
  for (size_t i = 0; i < d->nlabels; i++)
    if (d->labels[i].name) svg_text(d->t, d->labels[i].at.x, d->labels[i].at.y + 10, "l", d->labels[i].name);
}

/* ---- what stands beside ---- */

static void put_entry(const drawing *d, int *y, int colour, const char *name, double time)
{
  char text[64];
  if (colour >= 0)
    text_putf(d->t, "<circle class=\"c%d\" cx=\"%d\" cy=\"%d\" r=\"6\"/>\n", colour, LEGEND + 6, *y - 4);
  snprintf(text, sizeof text, "%.22s", name);
  svg_text(d->t, LEGEND + 20, *y, "", text);
  snprintf(text, sizeof text, "%.1f %%", d->r->time > 0 ? 100 * time / d->r->time : 0);
  svg_text(d->t, WIDTH - 12, *y, "e s", text);
  *y += 21;
}

static void put_legend(const drawing *d)
{
  const report *r = d->r;
  double drawn = 0, moves = 0;
  int y = TOP + 34;
  svg_text(d->t, LEGEND, TOP + 10, "s", "share of the time");
  for (size_t i = 0; i < r->ops.n; i++) {
    int colour = colour_of(r, r->ops.v[i].op);
    if (r->ops.v[i].flops <= 0) moves += r->ops.v[i].time;
    else if (colour < COLOURS) put_entry(d, &y, colour, r->ops.v[i].op, r->ops.v[i].time), drawn += r->ops.v[i].time;
  }
  if (r->all.time - drawn - moves > 0) put_entry(d, &y, COLOURS, "other ops", r->all.time - drawn - moves);
  if (moves > 0) put_entry(d, &y, -1, "moves alone", moves);
  put_entry(d, &y, -1, "between ops", fmax(r->time - r->all.time, 0));
}

/* What tensors held during a run. */
static void put_memory(const drawing *d)
{
  const report *r = d->r;
  cn_text *t = d->t;
  char text[96];
  double last = r->npoints ? r->memory[r->npoints - 1].time : 0, most = (double)r->most, y = 0;
  if (last <= 0 || most <= 0) return;
  snprintf(text, sizeof text, "memory of tensors during a run: %.2f MB at most", most / 1e6);
  svg_text(t, LEFT, STRIP - 8, "s", text);
  cn_text_put(t, "<path class=\"k\" d=\"");
  text_putf(t, "M%d.0 %d.0", LEFT, STRIP + STRIP_H);
  for (size_t i = 0; i < r->npoints; i++) {
    double x = LEFT + PLOT_W * r->memory[i].time / last;
    if (i) text_putf(t, "L%.1f %.1f", x, y);
    y = STRIP + STRIP_H * (1 - fmax((double)r->memory[i].held, 0) / most);
    text_putf(t, "L%.1f %.1f", x, y);
  }
  text_putf(t, "L%d.0 %d.0z\"/>\n", LEFT + PLOT_W, STRIP + STRIP_H);
  text_putf(t, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, STRIP, PLOT_W, STRIP_H);
  svg_text(t, LEFT, STRIP + STRIP_H + 17, "", "0");
  snprintf(text, sizeof text, "%.2f ms", last * 1e3);
  svg_text(t, LEFT + PLOT_W, STRIP + STRIP_H + 17, "e", text);
}

int roofline_svg(cn_text *t, const report *r)
{
  drawing *d = cn_alloc_zero(sizeof *d);
  if (!d) return cn_err();
  d->t = t;
  d->r = r;
  find_ranges(d);
  place_circles(d);
  put_head(d);
  put_title(d);
  put_axes(d);
  put_roof(d);
  put_caches(d);
  put_circles(d);
  put_legend(d);
  put_memory(d);
  cn_text_put(t, "</svg>\n");
  cn_free(d, sizeof *d);
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}
