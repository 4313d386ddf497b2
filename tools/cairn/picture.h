/* picture.h: a graph as boxes, groups and lines, for `cairn graph`.
 *
 * Place in the flow: graph.c gets the graph; picture.c makes boxes of its nodes and groups of its scopes; layout.c
 * gives them places; svg.c writes files. Invariant: boxes and groups stand in the order of the program, so that every
 * line leads from an earlier one to a later one, and a group's parent stands before it. */
#ifndef CAIRN_COMMAND_PICTURE_H
#define CAIRN_COMMAND_PICTURE_H

#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>

enum { PICTURE_TEXT = 96 };

typedef enum box_kind { BOX_OP, BOX_INPUT, BOX_OUTPUT, BOX_FOLDED } box_kind;

typedef struct picture_box {
  box_kind kind;
  char label[PICTURE_TEXT];  /* "conv2d"; of a folded scope "layer1.0 BasicBlock" */
  char detail[PICTURE_TEXT]; /* what it reads besides lines: "weight [64, 3, 7, 7]" */
  int group;                 /* 0: the whole picture */
  double work, bytes;        /* multiply-adds; bytes read and written */
  double x, y, w, h;         /* of its upper left corner, and sizes */
} picture_box;

typedef struct picture_group {
  char label[PICTURE_TEXT];
  int parent; /* -1 for the whole picture, which is group 0 */
  double x, y, w, h;
} picture_group;

typedef struct picture_line {
  int from, to; /* boxes */
  int value;    /* that it stands for: lines of one value run together */
  char label[PICTURE_TEXT]; /* "float32 [1, 64, 56, 56]" */
} picture_line;

typedef struct picture_point {
  double x, y;
} picture_point;

/* A stroke of a line as it is drawn. */
typedef struct picture_stroke {
  picture_point from, to;
  bool arrow;        /* it ends at a box */
  const char *label; /* at its beginning; NULL: none */
} picture_stroke;

typedef struct picture {
  picture_box *boxes;
  size_t nboxes, boxes_cap;
  picture_group *groups;
  size_t ngroups, groups_cap;
  picture_line *lines;
  size_t nlines, lines_cap;
  picture_stroke *strokes;
  size_t nstrokes, strokes_cap;
  double work, bytes; /* of all */
  int64_t parameters; /* elements of states */
} picture;

/* Boxes, groups and lines of a graph; scopes deeper than depth become one box each. 0 or a negative status;
 * picture_free in any case. */
int picture_of(picture *p, const cn_graph *g, int depth);
int picture_place(picture *p); /* layout.c: places, and strokes */
int picture_svg(cn_text *out, const picture *p, const char *title);
int picture_dot(cn_text *out, const picture *p, const char *title);
void picture_free(picture *p);
/* How much of the whole a box costs, 0..1. */
double picture_share(const picture *p, const picture_box *b);

#endif
