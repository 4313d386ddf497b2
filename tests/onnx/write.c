/* write.c: see write.h. */
#include "write.h"

#include <string.h>

static void varint(cn_text *m, uint64_t v)
{
  for (; v > 127; v >>= 7) cn_text_put_bytes(m, &(char){(char)(v | 128)}, 1);
  cn_text_put_bytes(m, &(char){(char)v}, 1);
}

void put_int(cn_text *m, int field, int64_t value)
{
  varint(m, (uint64_t)field << 3);
  varint(m, (uint64_t)value);
}

void put_float(cn_text *m, int field, float value)
{
  varint(m, (uint64_t)field << 3 | 5);
  cn_text_put_bytes(m, (const char *)&value, sizeof value);
}

static void put_bytes(cn_text *m, int field, const char *s, size_t n)
{
  varint(m, (uint64_t)field << 3 | 2);
  varint(m, n);
  cn_text_put_bytes(m, s, n);
}

void put_text(cn_text *m, int field, const char *s) { put_bytes(m, field, s, strlen(s)); }

void put_message(cn_text *m, int field, cn_text *inner)
{
  put_bytes(m, field, inner->s ? inner->s : "", inner->n);
  cn_text_free(inner);
}

static void put_names(cn_text *m, int field, const char *names)
{
  for (const char *end; *names; names = *end ? end + 1 : end) {
    end = strchr(names, ' ');
    end = end ? end : names + strlen(names);
    put_bytes(m, field, names, (size_t)(end - names));
  }
}

void put_node(cn_text *graph, const char *op, const char *inputs, const char *outputs, cn_text *attr)
{
  cn_text n = {0};
  put_names(&n, 1, inputs);
  put_names(&n, 2, outputs);
  put_text(&n, 4, op);
  if (attr) put_message(&n, 5, attr);
  put_message(graph, 1, &n);
}

cn_text attr_int(const char *name, int64_t value)
{
  cn_text a = {0};
  put_text(&a, 1, name);
  put_int(&a, 3, value);
  put_int(&a, 20, 2);
  return a;
}

cn_text attr_float(const char *name, float value)
{
  cn_text a = {0};
  put_text(&a, 1, name);
  put_float(&a, 2, value);
  put_int(&a, 20, 1);
  return a;
}

cn_text attr_graph(const char *name, cn_text *graph)
{
  cn_text a = {0};
  put_text(&a, 1, name);
  put_message(&a, 6, graph);
  put_int(&a, 20, 5);
  return a;
}

void put_value(cn_text *graph, int field, const char *name, int type)
{
  cn_text tensor = {0}, kind = {0}, value = {0};
  put_int(&tensor, 1, type);
  put_message(&kind, 1, &tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, &kind);
  put_message(graph, field, &value);
}

void put_ints(cn_text *graph, const char *name, const int64_t *v, size_t n)
{
  cn_text t = {0};
  put_int(&t, 1, (int64_t)n);
  put_int(&t, 2, 7);
  put_text(&t, 8, name);
  put_bytes(&t, 9, (const char *)v, n * sizeof *v);
  put_message(graph, 5, &t);
}

void put_floats(cn_text *graph, const char *name, const int64_t *shape, size_t ndim)
{
  cn_text t = {0}, bytes = {0};
  int64_t n = 1;
  for (size_t i = 0; i < ndim; i++) put_int(&t, 1, shape[i]), n *= shape[i];
  put_int(&t, 2, 1);
  put_text(&t, 8, name);
  for (int64_t i = 0; i < n; i++) cn_text_put_bytes(&bytes, (const char *)&(float){(float)i / 4}, sizeof(float));
  put_bytes(&t, 9, bytes.s, bytes.n);
  cn_text_free(&bytes);
  put_message(graph, 5, &t);
}

void put_shaped(cn_text *graph, int field, const char *name, const char *sizes)
{
  cn_text tensor = {0}, shape = {0}, kind = {0}, value = {0};
  put_int(&tensor, 1, 1);
  for (const char *end; *sizes; sizes = *end ? end + 1 : end) {
    cn_text dim = {0};
    end = sizes + strcspn(sizes, ",");
    if (*sizes >= '0' && *sizes <= '9') put_int(&dim, 1, *sizes - '0');
    else put_bytes(&dim, 2, sizes, (size_t)(end - sizes));
    put_message(&shape, 1, &dim);
  }
  put_message(&tensor, 2, &shape);
  put_message(&kind, 1, &tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, &kind);
  put_message(graph, field, &value);
}

cn_text model_of(cn_text *graph, int64_t opset)
{
  cn_text m = {0}, set = {0};
  put_int(&m, 1, 8);
  put_text(&set, 1, "");
  put_int(&set, 2, opset);
  put_message(&m, 8, &set);
  put_message(&m, 7, graph);
  return m;
}
