/* text.h: what commands write: text with fractions in it, drawings as SVG, and where either goes.
 *
 * Place in the flow: below every file that prints a table or draws. Invariant: what is written does not depend on the
 * locale; drawings are well-formed XML whatever names hold. */
#ifndef CAIRN_COMMAND_TEXT_H
#define CAIRN_COMMAND_TEXT_H

#include <cairn/ext/system.h>
#include <cairn/tree.h>

/* As printf, fractions too (cn_text_putf has none); up to 1000 bytes at a time. */
void text_putf(cn_text *t, const char *format, ...) CN_PRINTF(2, 3);
/* 1.8 G, 25 M, 300, with the unit behind it; three digits. */
void text_amount(cn_text *t, double x, const char *unit);
/* To a file, which appears whole or not at all; "-": to standard output. 0 or an error. */
int text_write(const char *path, const cn_text *t);
/* Prints it as JSON, and frees it. NULL: its making failed. 0 or an error. */
int text_print_json(cn_tree *tree);

/* ---- numbers in a tree of JSON; what is not finite is null ---- */
int json_number(cn_tree *dict, const char *key, double value);
int json_text(cn_tree *dict, const char *key, const char *value);

/* ---- SVG ---- */
void svg_escaped(cn_text *t, const char *s);
/* <text class="cls">; positions in tenths of a pixel. */
void svg_text(cn_text *t, double x, double y, const char *cls, const char *s);
void svg_line(cn_text *t, const char *cls, double x1, double y1, double x2, double y2);
void svg_rect(cn_text *t, const char *cls, double x, double y, double w, double h);
/* The beginning of a drawing with its title and, behind those that all have, its own rules of style: light, and for
 * dark pages. Classes that all have: b background, h heading, s small print, e ends there, m middle, g grid, f frame,
 * c0 to c5 colours. */
void svg_head(cn_text *t, int width, int height, const char *title, const char *style, const char *dark);

#endif
