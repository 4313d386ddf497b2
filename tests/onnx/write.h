/* write.h: small ONNX models written field by field, for tests. */
#ifndef CAIRN_TESTS_ONNX_WRITE_H
#define CAIRN_TESTS_ONNX_WRITE_H

#include <cairn/ext/system.h>

void put_int(cn_text *m, int field, int64_t value);
void put_float(cn_text *m, int field, float value);
void put_text(cn_text *m, int field, const char *s);
void put_message(cn_text *m, int field, cn_text *inner); /* frees inner */

/* A node: names with a blank between. attrs: fields of AttributeProto are put by the caller, may be NULL; freed. */
void put_node(cn_text *graph, const char *op, const char *inputs, const char *outputs, cn_text *attr);
cn_text attr_int(const char *name, int64_t value);
cn_text attr_float(const char *name, float value);
cn_text attr_graph(const char *name, cn_text *graph);                  /* frees graph */
void put_value(cn_text *graph, int field, const char *name, int type); /* an input (11) or output (12), a tensor */
void put_ints(cn_text *graph, const char *name, const int64_t *v, size_t n); /* an initialiser: a vector of int64 */
/* ... of float32, of this shape; its numbers from 0 on by steps of a quarter. */
void put_floats(cn_text *graph, const char *name, const int64_t *shape, size_t ndim);
/* An input or output of floats, with its sizes, digits or names: "N,3". */
void put_shaped(cn_text *graph, int field, const char *name, const char *sizes);
/* The model around a graph, which is freed. */
cn_text model_of(cn_text *graph, int64_t opset);

#endif
