/* pickle.c: the stack machine of Python's pickles, protocols 0 to 5 as far as data needs them. See pickle.h.
 *
 * Invariant: items, stack and memo take memory in proportion to the bytes that were read; nothing is recursive, and no
 * operation but those in the table at the end does anything. */
#include "pickle.h"

#include <string.h>

enum { CHUNK = 255, NO_MARK = -1, NAME_MOST = 255, SPEND_RATIO = 64, SPEND_FREE = 1 << 16 };

typedef struct chunk {
  struct chunk *next;
  size_t used;
  cni_item items[CHUNK];
} chunk;

typedef struct stack {
  cni_item **v;
  size_t n, cap;
} stack;

struct cni_pickle {
  cni_source *source;
  cni_pickle_meaning meaning;
  const unsigned char *s, *end;
  chunk *chunks;
  stack stack, memo;
  size_t *marks; /* heights of the stack */
  size_t nmarks, marks_cap;
  struct owned {
    char *s;
    size_t n;
  } *texts; /* that do not stand in the pickle as they are */
  size_t ntexts, texts_cap;
  uint64_t spent; /* on copies */
  bool stopped;
};

/* Every operation returns whether all went well; if not, the error is set. */
typedef bool (*operation)(cni_pickle *p, unsigned char op);

static bool bad(cni_pickle *p, const char *what)
{
  if (!cn_err()) cni_source_bad(p->source, "pickle", "%s at byte %zu", what, cni_pickle_at(p));
  return false;
}

/* ---- items ---- */

cni_item *cni_item_new(cni_pickle *p, cni_pickled kind)
{
  if (!p->chunks || p->chunks->used == CHUNK) {
    chunk *c = cn_alloc(sizeof *c);
    if (!c) return NULL;
    c->next = p->chunks;
    c->used = 0;
    p->chunks = c;
  }
  cni_item *item = &p->chunks->items[p->chunks->used++];
  memset(item, 0, sizeof *item);
  item->kind = kind;
  return item;
}

/* A few bytes can ask for a copy of something large again and again; a sane pickle copies little. */
static bool spend(cni_pickle *p, size_t n)
{
  uint64_t most = SPEND_RATIO * (uint64_t)p->source->size + SPEND_FREE;
  p->spent += n;
  return p->spent <= most || bad(p, "it unpacks to far more than it should");
}

cni_item *cni_item_text(cni_pickle *p, const char *s, size_t n)
{
  if (!spend(p, n) || cn_grow((void **)&p->texts, &p->texts_cap, p->ntexts + 1, sizeof *p->texts)) return NULL;
  char *copy = cn_alloc(n + 1);
  cni_item *item = copy ? cni_item_new(p, CNI_PICKLED_STR) : NULL;
  if (!item) {
    cn_free(copy, n + 1);
    return NULL;
  }
  memcpy(copy, s, n);
  copy[n] = 0;
  p->texts[p->ntexts++] = (struct owned){copy, n};
  item->u.text.s = copy;
  item->u.text.n = n;
  return item;
}

int cni_item_push(cni_pickle *p, cni_item *list, cni_item *value)
{
  if (!spend(p, 1)) return cn_err();
  if (cn_grow((void **)&list->u.list.v, &list->u.list.cap, list->u.list.n + 1, sizeof value)) return CN_ERR_MEMORY;
  list->u.list.v[list->u.list.n++] = value;
  return CN_OK;
}

bool cni_item_is(const cni_item *item, const char *text)
{
  bool has_text = item && (item->kind == CNI_PICKLED_STR || item->kind == CNI_PICKLED_GLOBAL);
  return has_text && item->u.text.n == strlen(text) && !memcmp(item->u.text.s, text, item->u.text.n);
}

static bool holds(const cni_item *i)
{
  return i->kind == CNI_PICKLED_LIST || i->kind == CNI_PICKLED_TUPLE || i->kind == CNI_PICKLED_DICT;
}

cni_pickle *cni_pickle_new(cni_source *source, const cni_pickle_meaning *meaning)
{
  cni_pickle *p = cn_alloc_zero(sizeof *p);
  if (!p) return NULL;
  p->source = source;
  p->meaning = *meaning;
  p->s = source->data;
  p->end = source->data + source->size;
  return p;
}

void cni_pickle_free(cni_pickle *p)
{
  if (!p) return;
  while (p->chunks) {
    chunk *c = p->chunks;
    for (size_t i = 0; i < c->used; i++)
      if (holds(&c->items[i])) cn_free(c->items[i].u.list.v, c->items[i].u.list.cap * sizeof(cni_item *));
    p->chunks = c->next;
    cn_free(c, sizeof *c);
  }
  cn_free(p->stack.v, p->stack.cap * sizeof *p->stack.v);
  cn_free(p->memo.v, p->memo.cap * sizeof *p->memo.v);
  cn_free(p->marks, p->marks_cap * sizeof *p->marks);
  for (size_t i = 0; i < p->ntexts; i++) cn_free(p->texts[i].s, p->texts[i].n + 1);
  cn_free(p->texts, p->texts_cap * sizeof *p->texts);
  cn_free(p, sizeof *p);
}

size_t cni_pickle_at(const cni_pickle *p) { return (size_t)(p->s - p->source->data); }

/* ---- stack ---- */

static bool push(cni_pickle *p, cni_item *item)
{
  if (!item || cn_grow((void **)&p->stack.v, &p->stack.cap, p->stack.n + 1, sizeof item)) return false;
  p->stack.v[p->stack.n++] = item;
  return true;
}

/* How deep the stack may be taken down: to the last mark. */
static size_t bottom(const cni_pickle *p) { return p->nmarks ? p->marks[p->nmarks - 1] : 0; }

static cni_item *pop(cni_pickle *p)
{
  if (p->stack.n > bottom(p)) return p->stack.v[--p->stack.n];
  bad(p, "a value is missing");
  return NULL;
}

static cni_item *top(cni_pickle *p)
{
  if (p->stack.n > bottom(p)) return p->stack.v[p->stack.n - 1];
  bad(p, "a value is missing");
  return NULL;
}

static bool mark(cni_pickle *p, unsigned char op)
{
  (void)op;
  if (cn_grow((void **)&p->marks, &p->marks_cap, p->nmarks + 1, sizeof *p->marks)) return false;
  p->marks[p->nmarks++] = p->stack.n;
  return true;
}

/* Takes the last mark away: items from *from on stood above it. */
static bool unmark(cni_pickle *p, size_t *from)
{
  if (!p->nmarks) return bad(p, "a mark is missing");
  *from = p->marks[--p->nmarks];
  return true;
}

static bool discard(cni_pickle *p, unsigned char op)
{
  size_t from;
  if (op == '0') return pop(p) != NULL;
  if (!unmark(p, &from)) return false;
  p->stack.n = from;
  return true;
}

static bool duplicate(cni_pickle *p, unsigned char op)
{
  (void)op;
  cni_item *item = top(p);
  return item && push(p, item);
}

/* ---- bytes ---- */

static const unsigned char *take(cni_pickle *p, uint64_t n)
{
  if (n > (size_t)(p->end - p->s)) {
    bad(p, "it is cut short");
    return NULL;
  }
  const unsigned char *from = p->s;
  p->s += n;
  return from;
}

/* A number of `size` bytes without a sign. */
static bool take_size(cni_pickle *p, unsigned size, uint64_t *value)
{
  const unsigned char *b = take(p, size);
  *value = 0;
  for (unsigned i = 0; b && i < size; i++) *value |= (uint64_t)b[i] << 8 * i;
  return b != NULL;
}

/* A line without its end. */
static bool take_line(cni_pickle *p, const char **line, size_t *n)
{
  const unsigned char *stop = memchr(p->s, '\n', (size_t)(p->end - p->s));
  if (!stop) return bad(p, "a line does not end");
  *line = (const char *)p->s;
  *n = (size_t)(stop - p->s);
  p->s = stop + 1;
  return true;
}

/* ---- values ---- */

static bool push_constant(cni_pickle *p, unsigned char op)
{
  cni_pickled kind = op == 'N'    ? CNI_PICKLED_NONE
                     : op == ']'  ? CNI_PICKLED_LIST
                     : op == ')'  ? CNI_PICKLED_TUPLE
                     : op == '}'  ? CNI_PICKLED_DICT
                                  : CNI_PICKLED_BOOL;
  cni_item *item = cni_item_new(p, kind);
  if (item && kind == CNI_PICKLED_BOOL) item->u.b = op == 0x88;
  return push(p, item);
}

static bool push_int(cni_pickle *p, int64_t value)
{
  cni_item *item = cni_item_new(p, CNI_PICKLED_INT);
  if (item) item->u.i = value;
  return push(p, item);
}

static bool push_text(cni_pickle *p, cni_pickled kind, const char *s, size_t n)
{
  cni_item *item = cni_item_new(p, kind);
  if (item) item->u.text.s = s, item->u.text.n = n;
  return push(p, item);
}

static bool binary_int(cni_pickle *p, unsigned char op)
{
  uint64_t v;
  if (!take_size(p, op == 'J' ? 4 : op == 'M' ? 2 : 1, &v)) return false;
  return push_int(p, op == 'J' ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v);
}

static bool binary_long(cni_pickle *p, unsigned char op)
{
  uint64_t n, v = 0;
  if (!take_size(p, op == 0x8a ? 1 : 4, &n)) return false;
  const unsigned char *b = take(p, n);
  if (!b) return false;
  if (n > 8) return push_text(p, CNI_PICKLED_BIG, (const char *)b, (size_t)n);
  for (size_t i = 0; i < n; i++) v |= (uint64_t)b[i] << 8 * i;
  if (n && n < 8 && b[n - 1] & 0x80) v |= UINT64_MAX << 8 * n;
  return push_int(p, (int64_t)v);
}

/* "I5", "I01" (true), "L5L": numbers as text. */
static bool text_int(cni_pickle *p, unsigned char op)
{
  const char *s;
  size_t n, i = 0;
  if (!take_line(p, &s, &n)) return false;
  if (op == 'I' && n == 2 && s[0] == '0' && (s[1] == '0' || s[1] == '1'))
    return push_constant(p, s[1] == '1' ? 0x88 : 0x89);
  if (op == 'L' && n && s[n - 1] == 'L') n--;
  bool minus = n && s[0] == '-', fits = true;
  int64_t v = 0;
  for (i = minus; i < n && s[i] >= '0' && s[i] <= '9'; i++)
    fits = fits && !__builtin_mul_overflow(v, 10, &v) && !__builtin_sub_overflow(v, s[i] - '0', &v);
  if (i < n || n == (size_t)minus) return bad(p, "a number is damaged");
  if (!fits || (!minus && v == INT64_MIN)) return push_text(p, CNI_PICKLED_BIG, s, n);
  return push_int(p, minus ? v : -v);
}

static bool push_float(cni_pickle *p, unsigned char op)
{
  double v = 0;
  if (op == 'G') {
    const unsigned char *b = take(p, 8);
    uint64_t raw = 0;
    if (!b) return false;
    for (int i = 0; i < 8; i++) raw = raw << 8 | b[i];
    memcpy(&v, &raw, sizeof v);
  } else {
    char text[64];
    const char *s, *stop = text;
    size_t n;
    if (!take_line(p, &s, &n)) return false;
    if (n && n < sizeof text) {
      memcpy(text, s, n);
      text[n] = 0;
      v = cn_number_read(text, &stop);
    }
    if (!n || (size_t)(stop - text) != n) return bad(p, "a number is damaged");
  }
  cni_item *item = cni_item_new(p, CNI_PICKLED_FLOAT);
  if (item) item->u.f = v;
  return push(p, item);
}

/* Text and bytes with their length in front, in 1, 4 or 8 bytes. */
static bool counted_text(cni_pickle *p, unsigned char op)
{
  uint64_t n;
  bool one = op == 'U' || op == 0x8c || op == 'C', eight = op == 0x8d || op == 0x8e || op == 0x96;
  if (!take_size(p, one ? 1 : eight ? 8 : 4, &n)) return false;
  const unsigned char *b = take(p, n);
  return b && push_text(p, CNI_PICKLED_STR, (const char *)b, (size_t)n);
}

/* Text on a line of its own: what protocol 0 wrote. Escapes have no place in names and numbers. */
static bool line_text(cni_pickle *p, unsigned char op)
{
  const char *s;
  size_t n;
  if (!take_line(p, &s, &n)) return false;
  if (memchr(s, '\\', n)) return bad(p, "text of protocol 0 with escapes is not read");
  if (op == 'S') {
    if (n < 2 || (s[0] != '\'' && s[0] != '"') || s[n - 1] != s[0]) return bad(p, "text without quotes");
    s++, n -= 2;
  }
  return push_text(p, CNI_PICKLED_STR, s, n);
}

/* ---- lists ---- */

/* Moves what stands above the last mark (or the top `count` items) into a new list or tuple. */
static bool collect(cni_pickle *p, cni_pickled kind, int count)
{
  size_t from = 0;
  if (count == NO_MARK && !unmark(p, &from)) return false;
  if (count != NO_MARK) {
    if (p->stack.n - bottom(p) < (size_t)count) return bad(p, "a value is missing");
    from = p->stack.n - (size_t)count;
  }
  cni_item *list = cni_item_new(p, kind);
  for (size_t i = from; list && i < p->stack.n; i++)
    if (cni_item_push(p, list, p->stack.v[i])) return false;
  p->stack.n = from;
  return push(p, list);
}

static bool make_list(cni_pickle *p, unsigned char op)
{
  if (op == 'd' && p->nmarks && (p->stack.n - bottom(p)) % 2) return bad(p, "a key without a value");
  if (op == 'l' || op == 'd') return collect(p, op == 'l' ? CNI_PICKLED_LIST : CNI_PICKLED_DICT, NO_MARK);
  return collect(p, CNI_PICKLED_TUPLE, op == 't' ? NO_MARK : op - 0x84);
}

/* Adds what stands above the mark, or the last one or two values, to the list or dictionary below. */
static bool append(cni_pickle *p, unsigned char op)
{
  bool dict = op == 's' || op == 'u';
  size_t from = 0, one = dict ? 2 : 1;
  if ((op == 'e' || op == 'u') && !unmark(p, &from)) return false;
  if (op == 'a' || op == 's') {
    if (p->stack.n - bottom(p) < one) return bad(p, "a value is missing");
    from = p->stack.n - one;
  }
  if (from <= bottom(p)) return bad(p, "a list is missing");
  cni_item *list = p->stack.v[from - 1];
  cni_pickled kind = dict ? CNI_PICKLED_DICT : CNI_PICKLED_LIST;
  if (list->kind != kind) return bad(p, "adding to what is no list or dictionary");
  if ((p->stack.n - from) % one) return bad(p, "a key without a value");
  for (size_t i = from; i < p->stack.n; i++)
    if (cni_item_push(p, list, p->stack.v[i])) return false;
  p->stack.n = from;
  return true;
}

/* ---- memo ---- */

static bool take_index(cni_pickle *p, unsigned size, uint64_t *index)
{
  const char *s;
  size_t n, i;
  if (size) return take_size(p, size, index);
  if (!take_line(p, &s, &n)) return false;
  for (*index = 0, i = 0; i < n && s[i] >= '0' && s[i] <= '9' && *index <= UINT32_MAX; i++)
    *index = *index * 10 + (uint64_t)(s[i] - '0');
  return i == n && n ? true : bad(p, "a number is damaged");
}

static bool memo_put(cni_pickle *p, unsigned char op)
{
  uint64_t index = p->memo.n;
  if (op != 0x94 && !take_index(p, op == 'q' ? 1 : op == 'r' ? 4 : 0, &index)) return false;
  cni_item *item = top(p);
  if (!item) return false;
  if (index > cni_pickle_at(p)) return bad(p, "a memo number larger than the pickle");
  if (cn_grow((void **)&p->memo.v, &p->memo.cap, (size_t)index + 1, sizeof item)) return false;
  for (; p->memo.n <= index; p->memo.n++) p->memo.v[p->memo.n] = NULL;
  p->memo.v[index] = item;
  return true;
}

static bool memo_get(cni_pickle *p, unsigned char op)
{
  uint64_t index;
  if (!take_index(p, op == 'h' ? 1 : op == 'j' ? 4 : 0, &index)) return false;
  if (index >= p->memo.n || !p->memo.v[index]) return bad(p, "a value that was not remembered");
  return push(p, p->memo.v[index]);
}

/* ---- names and calls ---- */

static bool push_global(cni_pickle *p, const char *module, size_t nmodule, const char *name, size_t nname)
{
  char text[2 * NAME_MOST + 2];
  if (nmodule > NAME_MOST || nname > NAME_MOST) return bad(p, "a name that is too long");
  memcpy(text, module, nmodule);
  text[nmodule] = '.';
  memcpy(text + nmodule + 1, name, nname);
  cni_item *item = cni_item_text(p, text, nmodule + 1 + nname);
  if (item) item->kind = CNI_PICKLED_GLOBAL;
  return push(p, item);
}

static bool global(cni_pickle *p, unsigned char op)
{
  const char *module, *name;
  size_t nmodule, nname;
  if (op == 'c') {
    if (!take_line(p, &module, &nmodule) || !take_line(p, &name, &nname)) return false;
    return push_global(p, module, nmodule, name, nname);
  }
  cni_item *n = pop(p), *m = n ? pop(p) : NULL;
  if (!m) return false;
  if (m->kind != CNI_PICKLED_STR || n->kind != CNI_PICKLED_STR) return bad(p, "a name that is no text");
  return push_global(p, m->u.text.s, m->u.text.n, n->u.text.s, n->u.text.n);
}

static bool call(cni_pickle *p, unsigned char op)
{
  (void)op;
  cni_item *args = pop(p), *function = args ? pop(p) : NULL;
  if (!function) return false;
  bool callable = function->kind == CNI_PICKLED_GLOBAL && args->kind == CNI_PICKLED_TUPLE;
  if (!callable) return bad(p, "a call of what is no function");
  return push(p, p->meaning.call(p, function, args, p->meaning.payload));
}

static bool persistent(cni_pickle *p, unsigned char op)
{
  (void)op;
  cni_item *id = pop(p);
  return id && push(p, p->meaning.persistent(p, id, p->meaning.payload));
}

/* Attributes of an object: those of dictionaries and tensors (versions of modules, hooks) are no data. Other objects
 * cannot be there, because no call makes them. */
static bool build(cni_pickle *p, unsigned char op)
{
  (void)op;
  cni_item *state = pop(p), *object = state ? top(p) : NULL;
  if (!object) return false;
  if (object->kind == CNI_PICKLED_DICT || object->kind == CNI_PICKLED_OBJECT) return true;
  return bad(p, "attributes of what has none");
}

/* ---- the machine ---- */

static bool protocol(cni_pickle *p, unsigned char op)
{
  uint64_t v;
  if (!take_size(p, op == 0x80 ? 1 : 8, &v)) return false; /* frames only help those who read from streams */
  return op != 0x80 || v <= 5 ? true : bad(p, "a protocol that is not known");
}

static bool stop(cni_pickle *p, unsigned char op)
{
  (void)op;
  p->stopped = true;
  return true;
}

static const operation operations[256] = {
  [0x80] = protocol, [0x95] = protocol, ['.'] = stop,
  ['('] = mark, ['0'] = discard, ['1'] = discard, ['2'] = duplicate,
  ['N'] = push_constant, [0x88] = push_constant, [0x89] = push_constant,
  [']'] = push_constant, [')'] = push_constant, ['}'] = push_constant,
  ['J'] = binary_int, ['K'] = binary_int, ['M'] = binary_int,
  [0x8a] = binary_long, [0x8b] = binary_long, ['I'] = text_int, ['L'] = text_int,
  ['G'] = push_float, ['F'] = push_float,
  ['U'] = counted_text, ['T'] = counted_text, ['X'] = counted_text, [0x8c] = counted_text, [0x8d] = counted_text,
  ['C'] = counted_text, ['B'] = counted_text, [0x8e] = counted_text, [0x96] = counted_text,
  ['S'] = line_text, ['V'] = line_text,
  ['t'] = make_list, [0x85] = make_list, [0x86] = make_list, [0x87] = make_list, ['l'] = make_list, ['d'] = make_list,
  ['a'] = append, ['e'] = append, ['s'] = append, ['u'] = append,
  ['p'] = memo_put, ['q'] = memo_put, ['r'] = memo_put, [0x94] = memo_put,
  ['g'] = memo_get, ['h'] = memo_get, ['j'] = memo_get,
  ['c'] = global, [0x93] = global, ['R'] = call, [0x81] = call, ['Q'] = persistent, ['b'] = build,
};

cni_item *cni_pickle_read(cni_pickle *p)
{
  p->stack.n = p->memo.n = p->nmarks = 0;
  for (p->stopped = false; !p->stopped;) {
    const unsigned char *op = take(p, 1);
    if (!op) return NULL;
    if (!operations[*op]) {
      cni_source_bad(p->source, "pickle", "operation 0x%02x at byte %zu is not for data", *op, cni_pickle_at(p) - 1);
      return NULL;
    }
    if (!operations[*op](p, *op)) return NULL;
  }
  if (p->nmarks || p->stack.n != 1) {
    bad(p, "it does not end with one value");
    return NULL;
  }
  return p->stack.v[0];
}
