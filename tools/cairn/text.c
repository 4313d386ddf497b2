/* text.c: see text.h. */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_putf(cn_text *t, const char *format, ...)
{
  char text[1000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  cn_text_put(t, text);
}

void text_amount(cn_text *t, double x, const char *unit)
{
  static const char *const above[] = {"", "k", "M", "G", "T", "P", "E"}, *const below[] = {"", "m", "u", "n", "p"};
  int up = 0, down = 0;
  for (; up < 6 && fabs(x) >= 999.5; up++) x /= 1000;
  for (; down < 4 && x != 0 && fabs(x) < 0.9995 && !up; down++) x *= 1000;
  int digits = fabs(x) >= 99.95 || (x == floor(x) && !up && !down) ? 0 : fabs(x) >= 9.995 ? 1 : 2;
  text_putf(t, "%.*f %s%s", digits, x, up ? above[up] : below[down], unit);
}

int text_write(const char *path, const cn_text *t)
{
  if (t->failed) return CN_ERR_MEMORY;
  if (!strcmp(path, "-")) {
    fputs(t->s ? t->s : "", stdout);
    return CN_OK;
  }
  cn_writer *out = cn_writer_open(path);
  if (!out) return cn_err();
  cn_writer_put(out, t->s ? t->s : "", t->n);
  return cn_writer_commit(out);
}

int text_print_json(cn_tree *tree)
{
  char *text = tree ? cn_tree_to_json(tree, 1) : NULL;
  if (text) printf("%s\n", text);
  cn_string_free(text);
  cn_tree_free(tree);
  return cn_err();
}

int json_number(cn_tree *dict, const char *key, double value)
{
  bool whole = value == floor(value) && fabs(value) < 9e15;
  return cn_tree_put(dict, key, !isfinite(value) ? cn_tree_none()
                                : whole          ? cn_tree_int((int64_t)value)
                                                 : cn_tree_float(value));
}

int json_text(cn_tree *dict, const char *key, const char *value) { return cn_tree_put(dict, key, cn_tree_str(value)); }

/* ---- SVG ---- */

void svg_escaped(cn_text *t, const char *s)
{
  for (; *s; s++) {
    if (*s == '&') cn_text_put(t, "&amp;");
    else if (*s == '<') cn_text_put(t, "&lt;");
    else if (*s == '>') cn_text_put(t, "&gt;");
    else if (*s == '"') cn_text_put(t, "&quot;");
    else if ((unsigned char)*s >= ' ') cn_text_put_bytes(t, s, 1);
  }
}

void svg_text(cn_text *t, double x, double y, const char *cls, const char *s)
{
  text_putf(t, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, cls);
  svg_escaped(t, s);
  cn_text_put(t, "</text>\n");
}

void svg_line(cn_text *t, const char *cls, double x1, double y1, double x2, double y2)
{
  text_putf(t, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", cls, x1, y1, x2, y2);
}

void svg_rect(cn_text *t, const char *cls, double x, double y, double w, double h)
{
  text_putf(t, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", cls, x, y, w, h);
}

enum { COLOURS = 6 };

static void put_colours(cn_text *t, const char *const *colours)
{
  for (int i = 0; i < COLOURS; i++) cn_text_putf(t, ".c%d{fill:%s;stroke:%s}", i, colours[i], colours[i]);
}

void svg_head(cn_text *t, int width, int height, const char *title, const char *style, const char *dark)
{
  static const char *const on_white[COLOURS] = {"#2a6fb5", "#d9822b", "#3c9a5f", "#b5446e", "#7a5cc0", "#8a949e"};
  static const char *const on_black[COLOURS] = {"#6fb1f0", "#f2ab5e", "#74d096", "#ee86ab", "#b59cf0", "#9aa5af"};
  cn_text_putf(t,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
               width, height, width, height);
  svg_escaped(t, title);
  cn_text_put(t, "</title>\n<style>\ntext{font-family:sans-serif;font-size:12px;fill:#333d47}.b{fill:#fff}"
                 ".h{font-size:17px;font-weight:bold}.s{fill:#5c6873;font-size:11px}.e{text-anchor:end}"
                 ".m{text-anchor:middle}.g{stroke:#e3e7eb}.f{stroke:#c3cad1;fill:none}");
  put_colours(t, on_white);
  cn_text_put(t, style);
  cn_text_put(t, "\n@media(prefers-color-scheme:dark){text{fill:#d5dbe1}.b{fill:#15191e}.s{fill:#98a4af}"
                 ".g{stroke:#2a3138}.f{stroke:#48525c}");
  put_colours(t, on_black);
  cn_text_put(t, dark);
  cn_text_put(t, "}\n</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n");
}
