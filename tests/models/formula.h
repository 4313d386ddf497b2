/* formula.h: weights and inputs as golden.py computes them, from names alone. */
#ifndef TESTS_MODELS_FORMULA_H
#define TESTS_MODELS_FORMULA_H

#include <cairn/cairn.h>

uint64_t formula_hash(const char *text, uint64_t from); /* FNV-1a; from 0: begins */
double formula_unit(uint64_t name, uint64_t i);         /* in [-1, 1); name: its hash */
void formula_fill(cn_module *m);                        /* all parameters and buffers */
cn_tensor *formula_image(const int64_t *shape, size_t ndim);
cn_tensor *formula_tokens(int64_t batch, int64_t length, int64_t vocab);
cn_tensor *formula_units(const char *name, const cn_tensor *like); /* of its shape */

#endif
