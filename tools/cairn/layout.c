/* layout.c: places for boxes, groups and lines. See picture.h.
 *
 * Each group is laid out by itself, inner ones first: what is in it stands in rows, each below all that it depends on,
 * as in the drawings of Sugiyama, Tagawa and Toda. A line that passes a row gets a place in it; one that enters or
 * leaves the group a port at its upper or lower edge. Orders in rows come from neighbours' means, places from the least
 * squares that keep order and distance. Invariant: no two boxes or groups overlap, unless one is in the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

enum { SIDE = 26, ROW = 36, PAD = 16, HEAD = 22, LINE_WIDTH = 12, SWEEPS = 8 };

typedef enum item_kind { ITEM_BOX, ITEM_GROUP, ITEM_IN, ITEM_OUT, ITEM_PASS } item_kind;

/* What has a place in a row of a group. */
typedef struct item {
  item_kind kind;
  int what;  /* box or group; of ports and passes the value */
  int group; /* that it is in */
  int from;  /* of a pass: the item its line comes from */
  int layer, place; /* row, and place in it */
  double x, y, w, h;
  double want;      /* where its middle should be */
} item;

typedef struct link {
  int from, to, value, line;
} link;

typedef struct layout {
  picture *p;
  item *items;
  size_t nitems, items_cap;
  link *links;
  size_t nlinks, links_cap;
  int *group_item; /* per group */
  int *row;        /* items of the group at hand, row by row */
  size_t nrow, row_cap;
  int *own;        /* its links */
  size_t nown, own_cap;
} layout;

static int add_item(layout *l, item i)
{
  if (cn_grow((void **)&l->items, &l->items_cap, l->nitems + 1, sizeof *l->items)) return CN_ERR_MEMORY;
  l->items[l->nitems] = i;
  return (int)l->nitems++;
}

static int add_link(layout *l, int from, int to, int value, int line)
{
  for (size_t i = l->nlinks; i-- > 0;)
    if (l->links[i].from == from && l->links[i].to == to && l->links[i].value == value) return CN_OK;
  if (cn_grow((void **)&l->links, &l->links_cap, l->nlinks + 1, sizeof *l->links)) return CN_ERR_MEMORY;
  l->links[l->nlinks++] = (link){from, to, value, line};
  return CN_OK;
}

/* An item of that kind for a value; made when there is none. */
static int special(layout *l, item_kind kind, int group, int value, int from, int layer)
{
  for (size_t i = l->nitems; i-- > 0 && l->items[i].kind > ITEM_GROUP;)
    if (l->items[i].kind == kind && l->items[i].group == group && l->items[i].what == value &&
        (kind != ITEM_PASS || (l->items[i].from == from && l->items[i].layer == layer)))
      return (int)i;
  return add_item(l, (item){.kind = kind, .what = value, .group = group, .from = from, .layer = layer,
                            .w = LINE_WIDTH});
}

/* ---- lines into links ---- */

static bool is_in(const picture *p, int group, int outer)
{
  while (group > outer) group = p->groups[group].parent;
  return group == outer;
}

/* A line as links, one in each group that it touches: out of groups, across, into groups. */
static int link_line(layout *l, int i)
{
  const picture_line *line = &l->p->lines[i];
  int a = line->from, b = line->to, status = CN_OK;
  while (!status && !is_in(l->p, l->p->boxes[line->to].group, l->items[a].group)) {
    int group = l->items[a].group, port = special(l, ITEM_OUT, group, line->value, -1, 0);
    status = port < 0 ? port : add_link(l, a, port, line->value, i);
    a = l->group_item[group];
  }
  while (!status && l->items[b].group != l->items[a].group) {
    int group = l->items[b].group, port = special(l, ITEM_IN, group, line->value, -1, 0);
    status = port < 0 ? port : add_link(l, port, b, line->value, i);
    b = l->group_item[group];
  }
  return status ? status : add_link(l, a, b, line->value, i);
}

/* ---- rows ---- */

static bool inside(const layout *l, const link *k, int group) { return l->items[k->from].group == group; }

static int find_layers(layout *l, int group)
{
  bool ports = false, moved = true;
  int last = 0;
  for (size_t i = 0; i < l->nitems; i++) ports |= l->items[i].group == group && l->items[i].kind == ITEM_IN;
  for (size_t i = 0; i < l->nitems; i++)
    if (l->items[i].group == group) l->items[i].layer = l->items[i].kind == ITEM_IN ? 0 : ports;
  for (size_t round = 0; moved && round < l->nitems; round++) {
    moved = false;
    for (size_t i = 0; i < l->nlinks; i++) {
      const link *k = &l->links[i];
      if (!inside(l, k, group) || l->items[k->to].layer > l->items[k->from].layer) continue;
      l->items[k->to].layer = l->items[k->from].layer + 1;
      moved = true;
    }
  }
  for (size_t i = 0; i < l->nitems; i++)
    if (l->items[i].group == group && l->items[i].layer > last) last = l->items[i].layer;
  for (size_t i = 0; i < l->nitems; i++)
    if (l->items[i].group == group && l->items[i].kind == ITEM_OUT) l->items[i].layer = last;
  return last;
}

/* Links over several rows go by passes, which lines of one value share. */
static int add_passes(layout *l, int group)
{
  size_t n = l->nlinks;
  for (size_t i = 0; i < n; i++) {
    link k = l->links[i];
    if (!inside(l, &k, group)) continue;
    int at = k.from;
    for (int layer = l->items[k.from].layer + 1; layer < l->items[k.to].layer; layer++) {
      int pass = special(l, ITEM_PASS, group, k.value, k.from, layer);
      int status = pass < 0 ? pass : add_link(l, at, pass, k.value, k.line);
      if (status) return status;
      at = pass;
    }
    l->links[i].from = at;
  }
  return CN_OK;
}

static int collect(layout *l, int group, int last)
{
  l->nrow = 0;
  for (int layer = 0; layer <= last; layer++) {
    int place = 0;
    for (size_t i = 0; i < l->nitems; i++) {
      if (l->items[i].group != group || l->items[i].layer != layer) continue;
      if (cn_grow((void **)&l->row, &l->row_cap, l->nrow + 1, sizeof *l->row)) return CN_ERR_MEMORY;
      l->items[i].place = place++;
      l->row[l->nrow++] = (int)i;
    }
  }
  if (cn_grow((void **)&l->own, &l->own_cap, l->nlinks, sizeof *l->own)) return CN_ERR_MEMORY;
  l->nown = 0;
  for (size_t i = 0; i < l->nlinks; i++)
    if (inside(l, &l->links[i], group)) l->own[l->nown++] = (int)i;
  return CN_OK;
}

/* ---- orders and places in rows ---- */

static double middle(const item *it) { return it->x + it->w / 2; }

/* The mean of the neighbours above (or below) of each item of a row: their places in it, or their middles. Of groups,
 * too: by their ports a column of groups would drift to one side. */
static void wish(layout *l, size_t first, size_t end, bool down, bool places)
{
  for (size_t i = first; i < end; i++) {
    item *it = &l->items[l->row[i]];
    double sum = 0;
    int n = 0;
    for (size_t k = 0; k < l->nown; k++) {
      const link *s = &l->links[l->own[k]];
      if ((down ? s->to : s->from) != l->row[i]) continue;
      const item *other = &l->items[down ? s->from : s->to];
      sum += places ? (double)other->place : middle(other);
      n++;
    }
    it->want = n ? sum / n : places ? (double)it->place : middle(it);
  }
}

static const layout *sorting; /* qsort takes no payload */

static int by_wish(const void *a, const void *b)
{
  const item *x = &sorting->items[*(const int *)a], *y = &sorting->items[*(const int *)b];
  if (x->want != y->want) return x->want < y->want ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* Items first..end of the row array are one row. */
static size_t row_end(const layout *l, size_t first)
{
  size_t end = first + 1;
  while (end < l->nrow && l->items[l->row[end]].layer == l->items[l->row[first]].layer) end++;
  return end;
}

static size_t row_begin(const layout *l, size_t end)
{
  size_t first = end - 1;
  while (first > 0 && l->items[l->row[first - 1]].layer == l->items[l->row[end - 1]].layer) first--;
  return first;
}

static void sort_row(layout *l, size_t first, size_t end)
{
  sorting = l;
  qsort(l->row + first, end - first, sizeof *l->row, by_wish);
  for (size_t i = first; i < end; i++) l->items[l->row[i]].place = (int)(i - first);
}

/* Places of one row: as near to what is wanted as order and distance allow (pools of neighbours that are in each
 * other's way move together). */
static void place_row(layout *l, size_t first, size_t end, double *level, int *count)
{
  size_t pools = 0;
  double offset = 0;
  for (size_t i = first; i < end; i++) {
    const item *it = &l->items[l->row[i]];
    level[pools] = it->want - it->w / 2 - offset;
    count[pools++] = 1;
    for (; pools > 1 && level[pools - 2] > level[pools - 1]; pools--) {
      int n = count[pools - 2] + count[pools - 1];
      level[pools - 2] = (level[pools - 2] * count[pools - 2] + level[pools - 1] * count[pools - 1]) / n;
      count[pools - 2] = n;
    }
    offset += it->w + SIDE;
  }
  offset = 0;
  for (size_t i = first, pool = 0; i < end; i++) {
    item *it = &l->items[l->row[i]];
    it->x = level[pool] + offset;
    offset += it->w + SIDE;
    if (!--count[pool]) pool++;
  }
}

/* Goes through the rows, down or up, so that each sees where the one before it went. */
static void sweep(layout *l, bool down, bool places, double *level, int *count)
{
  size_t first = down ? 0 : l->nrow, end = first;
  while (down ? first < l->nrow : end > 0) {
    if (down) end = row_end(l, first);
    else first = row_begin(l, end);
    wish(l, first, end, down, places);
    if (places) sort_row(l, first, end);
    else place_row(l, first, end, level, count);
    if (down) first = end;
    else end = first;
  }
}

static int place_rows(layout *l)
{
  double *level = cn_alloc((l->nrow + 1) * sizeof *level);
  int *count = level ? cn_alloc((l->nrow + 1) * sizeof *count) : NULL;
  for (int i = 0; count && i < 2 * SWEEPS; i++) sweep(l, i % 2 == 0, i < SWEEPS, level, count);
  bool done = count != NULL;
  cn_free(level, (l->nrow + 1) * sizeof *level);
  cn_free(count, (l->nrow + 1) * sizeof *count);
  return done ? CN_OK : CN_ERR_MEMORY;
}

/* Heights of rows, the group's size, and places counted from its inner corner. */
static void measure(layout *l, int group)
{
  double left = HUGE_VAL, right = 0, y = 0;
  for (size_t i = 0; i < l->nrow; i++) left = fmin(left, l->items[l->row[i]].x);
  for (size_t i = 0; i < l->nrow; i++) {
    item *it = &l->items[l->row[i]];
    it->x -= left;
    right = fmax(right, it->x + it->w);
  }
  for (size_t first = 0, end; first < l->nrow; first = end) {
    double high = 0;
    end = row_end(l, first);
    for (size_t i = first; i < end; i++) high = fmax(high, l->items[l->row[i]].h);
    for (size_t i = first; i < end; i++) {
      item *it = &l->items[l->row[i]];
      it->y = y + (it->kind > ITEM_GROUP ? 0 : (high - it->h) / 2);
      if (it->kind > ITEM_GROUP) it->h = high; /* lines go through the whole row */
    }
    y += high + (high > 0 ? ROW : ROW / 2);
  }
  double title = 8.0 * (double)strlen(l->p->groups[group].label);
  l->p->groups[group].w = fmax(right, title) + 2 * PAD;
  l->p->groups[group].h = fmax(y - ROW, 0) + HEAD + 2 * PAD;
  if (l->group_item[group] < 0) return;
  l->items[l->group_item[group]].w = l->p->groups[group].w;
  l->items[l->group_item[group]].h = l->p->groups[group].h;
}

static int lay_out(layout *l, int group)
{
  int last = find_layers(l, group), status = add_passes(l, group);
  if (!status) status = collect(l, group, last);
  if (!status) status = place_rows(l);
  if (!status) measure(l, group);
  return status;
}

/* ---- on paper ---- */

static void to_paper(layout *l)
{
  for (size_t g = 0; g < l->p->ngroups; g++) { /* outer ones first */
    picture_group *in = &l->p->groups[g];
    for (size_t i = 0; i < l->nitems; i++) {
      item *it = &l->items[i];
      if (it->group != (int)g) continue;
      it->x += in->x + PAD;
      it->y += in->y + HEAD + PAD;
      if (it->kind == ITEM_GROUP) l->p->groups[it->what].x = it->x, l->p->groups[it->what].y = it->y;
      if (it->kind == ITEM_BOX) l->p->boxes[it->what].x = it->x, l->p->boxes[it->what].y = it->y;
    }
  }
}

/* Where on an item a value's line begins or ends: the middle, or the port of a group. */
static double paper_x(const layout *l, int i, int value)
{
  const item *it = &l->items[i];
  if (it->kind == ITEM_GROUP)
    for (size_t k = l->nitems; k-- > 0 && l->items[k].kind > ITEM_GROUP;)
      if (l->items[k].group == it->what && l->items[k].what == value && l->items[k].kind != ITEM_PASS)
        return l->items[k].x + l->items[k].w / 2;
  return it->x + it->w / 2;
}

static int add_stroke(picture *p, picture_point from, picture_point to, bool arrow, const char *label)
{
  if (cn_grow((void **)&p->strokes, &p->strokes_cap, p->nstrokes + 1, sizeof *p->strokes)) return CN_ERR_MEMORY;
  p->strokes[p->nstrokes++] = (picture_stroke){from, to, arrow, label};
  return CN_OK;
}

/* From edge to edge; each value is labelled where it leaves its box. */
static int draw_link(const layout *l, size_t i)
{
  const link *k = &l->links[i];
  const item *from = &l->items[k->from], *to = &l->items[k->to];
  const char *label = from->kind == ITEM_BOX ? l->p->lines[k->line].label : NULL;
  for (size_t j = 0; label && j < i; j++)
    if (l->links[j].from == k->from && l->links[j].value == k->value) label = NULL;
  picture_point a = {paper_x(l, k->from, k->value), from->y + from->h}, b = {paper_x(l, k->to, k->value), to->y};
  return add_stroke(l->p, a, b, to->kind == ITEM_BOX, label);
}

/* Ports reach to the group's edge, passes through their row. */
static int draw_special(const layout *l, const item *it)
{
  const picture_group *g = &l->p->groups[it->group];
  double x = it->x + it->w / 2;
  picture_point a = {x, it->kind == ITEM_IN ? g->y : it->y};
  picture_point b = {x, it->kind == ITEM_OUT ? g->y + g->h : it->y + it->h};
  return add_stroke(l->p, a, b, false, NULL);
}

static int draw(const layout *l)
{
  int status = CN_OK;
  for (size_t i = 0; i < l->nlinks && !status; i++) status = draw_link(l, i);
  for (size_t i = 0; i < l->nitems && !status; i++)
    if (l->items[i].kind > ITEM_GROUP) status = draw_special(l, &l->items[i]);
  return status;
}

/* Room for the texts: those of the box, and beside its middle those of its lines. */
static void size_box(const picture *p, int i)
{
  picture_box *b = &p->boxes[i];
  b->w = fmax(7.6 * (double)strlen(b->label), 5.8 * (double)strlen(b->detail)) + 20;
  b->h = *b->detail ? 38 : 26;
  for (size_t k = 0; k < p->nlines; k++)
    if (p->lines[k].from == i) b->w = fmax(b->w, 2 * (5.8 * (double)strlen(p->lines[k].label) + 10));
}

int picture_place(picture *p)
{
  size_t bytes = (p->ngroups + 1) * sizeof(int);
  layout l = {.p = p, .group_item = cn_alloc(bytes)};
  int status = l.group_item ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < p->nboxes && !status; i++) {
    size_box(p, (int)i);
    int at = add_item(&l, (item){.kind = ITEM_BOX, .what = (int)i, .group = p->boxes[i].group, .w = p->boxes[i].w,
                                 .h = p->boxes[i].h});
    if (at < 0) status = at;
  }
  for (size_t g = 0; g < p->ngroups && !status; g++) {
    l.group_item[g] = g ? add_item(&l, (item){.kind = ITEM_GROUP, .what = (int)g, .group = p->groups[g].parent}) : -1;
    if (g && l.group_item[g] < 0) status = CN_ERR_MEMORY;
  }
  for (size_t i = 0; i < p->nlines && !status; i++) status = link_line(&l, (int)i);
  for (size_t g = p->ngroups; g-- > 0 && !status;) status = lay_out(&l, (int)g);
  if (!status) {
    to_paper(&l);
    status = draw(&l);
  }
  cn_free(l.items, l.items_cap * sizeof *l.items);
  cn_free(l.links, l.links_cap * sizeof *l.links);
  cn_free(l.row, l.row_cap * sizeof *l.row);
  cn_free(l.own, l.own_cap * sizeof *l.own);
  cn_free(l.group_item, bytes);
  return status;
}
