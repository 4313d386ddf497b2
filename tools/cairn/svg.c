/* svg.c: a picture as SVG, or as text for Graphviz. See picture.h.
 *
 * Invariant: labels may hold any characters; the files are well-formed all the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "picture.h"
#include "text.h"

enum { MARGIN = 12, LEGEND = 46 };

/* From pale over yellow to red, by the logarithm of the share: a thousandth and less is pale. */
static void colour(char *out, size_t size, double share)
{
  static const double pale[3] = {238, 242, 247}, warm[3] = {255, 221, 128}, hot[3] = {232, 96, 64};
  double t = share > 0 ? fmin(fmax(log10(share * 1000) / 3, 0), 1) : 0;
  int rgb[3];
  for (int i = 0; i < 3; i++)
    rgb[i] = (int)(t < 0.5 ? pale[i] + (warm[i] - pale[i]) * 2 * t : warm[i] + (hot[i] - warm[i]) * (2 * t - 1));
  snprintf(out, size, "#%02x%02x%02x", (unsigned)rgb[0] & 255, (unsigned)rgb[1] & 255, (unsigned)rgb[2] & 255);
}

/* 1.8 G, 25 M, 300. */
static void put_amount(cn_text *t, double x, const char *unit)
{
  static const char *const prefix[] = {"", " k ", " M ", " G ", " T "};
  int k = 0;
  for (; k < 4 && x >= 1000; k++) x /= 1000;
  char text[64];
  snprintf(text, sizeof text, "%.*f%s%s", k && x < 10 ? 2 : k && x < 100 ? 1 : 0, x, prefix[k], k ? "" : " ");
  cn_text_put(t, text);
  cn_text_put(t, unit);
}

static int px(double x) { return (int)lround(x); }

static void put_text(cn_text *t, double x, double y, const char *how, const char *s)
{
  cn_text_putf(t, "<text x=\"%d\" y=\"%d\" %s>", px(x), px(y), how);
  svg_escaped(t, s);
  cn_text_put(t, "</text>\n");
}

static void put_group(cn_text *t, const picture_group *g)
{
  cn_text_putf(t, "<rect class=\"g\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", px(g->x), px(g->y),
               px(g->w), px(g->h));
  put_text(t, g->x + 10, g->y + 16, "class=\"n\"", g->label);
}

static void put_box(cn_text *t, const picture *p, const picture_box *b)
{
  char fill[16];
  bool end = b->kind == BOX_INPUT || b->kind == BOX_OUTPUT;
  double share = picture_share(p, b), middle = b->x + b->w / 2;
  colour(fill, sizeof fill, end ? 0 : share);
  cn_text_putf(t, "<g><title>");
  svg_escaped(t, b->label);
  if (!end) {
    cn_text_put(t, ": ");
    put_amount(t, b->work, "multiply-adds, ");
    put_amount(t, b->bytes, "bytes, ");
    char part[32];
    snprintf(part, sizeof part, "%.1f %% of all", 100 * share);
    cn_text_put(t, part);
  }
  cn_text_putf(t, "</title><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/>\n",
               b->kind == BOX_FOLDED ? "f" : "b", px(b->x), px(b->y), px(b->w), px(b->h), end ? 13 : 4,
               end ? "#ffffff" : fill);
  put_text(t, middle, b->y + 17, "class=\"o\"", b->label);
  if (*b->detail) put_text(t, middle, b->y + 31, "class=\"d\"", b->detail);
  cn_text_put(t, "</g>\n");
}

static void put_stroke(cn_text *t, const picture_stroke *s)
{
  double bend = (s->to.y - s->from.y) / 2, tip = s->arrow ? 5 : 0;
  cn_text_putf(t, "<path d=\"M%d %dC%d %d %d %d %d %d\"%s/>\n", px(s->from.x), px(s->from.y), px(s->from.x),
               px(s->from.y + bend), px(s->to.x), px(s->to.y - bend), px(s->to.x), px(s->to.y - tip),
               s->arrow ? " marker-end=\"url(#a)\"" : "");
}

static void put_head(cn_text *t, const picture *p, const char *title, double width, double height)
{
  cn_text_putf(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
               px(width), px(height), px(width), px(height));
  cn_text_put(t, "<title>");
  svg_escaped(t, title);
  cn_text_put(t, "</title>\n<style>text{font-family:sans-serif}.o{font-size:13px;text-anchor:middle}"
                 ".d,.s{font-size:10px;fill:#555}.d{text-anchor:middle}.n{font-size:12px;fill:#345;font-weight:bold}"
                 ".g{fill:#4a6a8a;fill-opacity:.06;stroke:#9ab}.b,.f{stroke:#678}.f{stroke-width:2;"
                 "stroke-dasharray:5 2}path{fill:none;stroke:#789;stroke-width:1.2}.h{font-size:15px}</style>\n"
                 "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"6\" "
                 "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
                 "style=\"fill:#789;stroke:none\"/></marker></defs>\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  put_text(t, MARGIN, 20, "class=\"h\"", title);
  cn_text sums = {0};
  put_amount(&sums, (double)p->parameters, "parameters, ");
  put_amount(&sums, p->work, "multiply-adds, ");
  put_amount(&sums, p->bytes, "bytes moved; the warmer a box, the larger its part");
  put_text(t, MARGIN, 36, "class=\"s\"", sums.s ? sums.s : "");
  cn_text_free(&sums);
}

int picture_svg(cn_text *t, const picture *p, const char *title)
{
  double width = fmax(p->groups[0].w + 2 * MARGIN, 560), height = p->groups[0].h + LEGEND + MARGIN;
  put_head(t, p, title, width, height);
  cn_text_putf(t, "<g transform=\"translate(%d %d)\">\n", px((width - p->groups[0].w) / 2), LEGEND - 16);
  for (size_t i = 1; i < p->ngroups; i++) put_group(t, &p->groups[i]);
  for (size_t i = 0; i < p->nstrokes; i++) put_stroke(t, &p->strokes[i]);
  for (size_t i = 0; i < p->nboxes; i++) put_box(t, p, &p->boxes[i]);
  for (size_t i = 0; i < p->nstrokes; i++)
    if (p->strokes[i].label)
      put_text(t, p->strokes[i].from.x + 5, p->strokes[i].from.y + 13, "class=\"s\"", p->strokes[i].label);
  cn_text_put(t, "</g>\n</svg>\n");
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- for Graphviz ---- */

static void put_quoted(cn_text *t, const char *s)
{
  cn_text_put(t, "\"");
  for (; *s; s++) cn_text_putf(t, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
  cn_text_put(t, "\"");
}

static void put_cluster(cn_text *t, const picture *p, int g)
{
  if (g) {
    cn_text_putf(t, "subgraph cluster_%d {\nlabel=", g);
    put_quoted(t, p->groups[g].label);
    cn_text_put(t, ";\n");
  }
  for (size_t i = 0; i < p->nboxes; i++) {
    char fill[16];
    if (p->boxes[i].group != g) continue;
    colour(fill, sizeof fill, picture_share(p, &p->boxes[i]));
    cn_text_putf(t, "n%zu [fillcolor=\"%s\", label=", i, fill);
    put_quoted(t, p->boxes[i].label);
    cn_text_put(t, ", tooltip=");
    put_quoted(t, p->boxes[i].detail);
    cn_text_put(t, "];\n");
  }
  for (size_t i = 1; i < p->ngroups; i++)
    if (p->groups[i].parent == g) put_cluster(t, p, (int)i);
  if (g) cn_text_put(t, "}\n");
}

int picture_dot(cn_text *t, const picture *p, const char *title)
{
  cn_text_put(t, "digraph ");
  put_quoted(t, title);
  cn_text_put(t, " {\nnode [shape=box, style=\"filled,rounded\"];\n");
  put_cluster(t, p, 0);
  for (size_t i = 0; i < p->nlines; i++) {
    cn_text_putf(t, "n%d -> n%d [label=", p->lines[i].from, p->lines[i].to);
    put_quoted(t, p->lines[i].label);
    cn_text_put(t, "];\n");
  }
  cn_text_put(t, "}\n");
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}
