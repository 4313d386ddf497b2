/* fragments_svg.c: a product's result cut into fragments and tiles, what of them is lost, and what sums lose. See
 * fragments.h. Invariant: the same arguments give the same bytes. */
#include <math.h>
#include <stdio.h>

#include "fragments.h"
#include "text.h"

enum { WIDTH = 900, HEIGHT = 470, LEFT = 40, TOP = 92, PLANE = 330, RIGHT = 430, BAR = 420, LINES = 48 };

static void put_lines(cn_text *t, const char *cls, int64_t step, int64_t size, double scale, double wide, double high)
{
  bool rows = step > 0;
  int64_t each = rows ? step : -step;
  for (int64_t at = each; at < size; at += each) {
    double p = (double)at * scale;
    if (rows) svg_line(t, cls, LEFT, TOP + p, LEFT + wide, TOP + p);
    else svg_line(t, cls, LEFT + p, TOP, LEFT + p, TOP + high);
  }
}

/* The result, with what fragments compute beyond it. */
static void put_plane(cn_text *out, const tiling *t)
{
  int64_t rows = t->down * t->f->m, columns = t->across * t->f->n;
  double scale = PLANE / (double)(rows > columns ? rows : columns);
  double wide = (double)columns * scale, high = (double)rows * scale;
  char text[120];
  svg_rect(out, "lost", LEFT, TOP, wide, high);
  svg_rect(out, "used", LEFT, TOP, (double)t->n * scale, (double)t->m * scale);
  if (t->down <= LINES) put_lines(out, "q", t->f->m, rows, scale, wide, high);
  if (t->across <= LINES) put_lines(out, "q", -t->f->n, columns, scale, wide, high);
  if (rows / t->tile_m <= LINES) put_lines(out, "w", t->tile_m, rows, scale, wide, high);
  if (columns / t->tile_n <= LINES) put_lines(out, "w", -t->tile_n, columns, scale, wide, high);
  svg_rect(out, "f", LEFT, TOP, wide, high);
  snprintf(text, sizeof text, "%lld \u00d7 %lld fragments, %lld deep; thick: tiles of %lld \u00d7 %lld",
           (long long)t->down, (long long)t->across, (long long)t->along, (long long)t->tile_m, (long long)t->tile_n);
  svg_text(out, LEFT, TOP + PLANE + 22, "s", text);
}

static void put_part(cn_text *out, int *y, const char *what, double part, const char *more)
{
  char text[160];
  svg_text(out, RIGHT, *y, "", what);
  svg_rect(out, "g", RIGHT, *y + 6, BAR, 10);
  svg_rect(out, "c0", RIGHT, *y + 6, BAR * part, 10);
  snprintf(text, sizeof text, "%.1f %%%s", 100 * part, more);
  svg_text(out, RIGHT + BAR, *y, "e s", text);
  *y += 40;
}

/* Errors by their logarithm, from 1e-9 to 1. */
static void put_error(cn_text *out, int *y, const sum_error *e)
{
  char text[96];
  double part = e->largest > 0 ? fmin(fmax((log10(e->largest) + 9) / 9, 0.01), 1) : 0;
  svg_text(out, RIGHT, *y, "", e->sum);
  svg_rect(out, "g", RIGHT, *y + 6, BAR, 8);
  svg_rect(out, e->overflow ? "c3" : "c1", RIGHT, *y + 6, e->overflow ? BAR : BAR * part, 8);
  snprintf(text, sizeof text, e->overflow ? "overflow" : "largest %.1e, mean %.1e", e->largest, e->mean);
  svg_text(out, RIGHT + BAR, *y, "e s", text);
  *y += 36;
}

int fragments_svg(cn_text *out, const tiling *t, const sum_error *errors)
{
  char text[160];
  int y = TOP + 12;
  snprintf(text, sizeof text, "(%lld \u00d7 %lld) times (%lld \u00d7 %lld), %s, by %s", (long long)t->m,
           (long long)t->k, (long long)t->k, (long long)t->n, t->f->type, t->f->name);
  svg_head(out, WIDTH, HEIGHT, text,
           ".used{fill:#cfe2f7}.lost{fill:#f6d3b0}.q{stroke:#9db4cc;stroke-width:.6}.w{stroke:#333d47;stroke-width:1.4}"
           ".g{fill:#eef1f4}",
           ".used{fill:#1f3a57}.lost{fill:#6b4219}.q{stroke:#4a6076}.w{stroke:#d5dbe1}.g{fill:#22292f}");
  svg_text(out, LEFT, 32, "h", text);
  svg_text(out, LEFT, 56, "s", "blue: the result; orange: computed beyond it, and thrown away");
  put_plane(out, t);
  put_part(out, &y, "of what fragments compute is wanted", t->by_fragments, "");
  if (t->units) {
    snprintf(text, sizeof text, ": %lld tiles, %lld units, %lld wave%s", (long long)t->tiles, (long long)t->units,
             (long long)t->waves, t->waves == 1 ? "" : "s");
    put_part(out, &y, "of multiprocessors have a tile", t->by_waves, text);
  }
  snprintf(text, sizeof text, "rows can be loaded %d bytes at a time%s", t->load, t->load < 16 ? ", not 16" : "");
  svg_text(out, RIGHT, y, t->load < 16 ? "bad" : "s", text);
  y += 40;
  svg_text(out, RIGHT, y - 6, "s", "error of sums, of the largest result; bars from 1e-9 to 1 by logarithm");
  y += 18;
  for (int i = 0; i < FRAGMENT_SUMS; i++) put_error(out, &y, &errors[i]);
  cn_text_put(out, "</svg>\n");
  return out->failed ? CN_ERR_MEMORY : CN_OK;
}
