/* formulas.c: see formulas.h. The rows are formulas.def's. */
#include "formulas.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name, *floats, *integers;
} formulas[] = {
#define BOTH(name, text) {#name, text, text},
#define FLOATS(name, text) {#name, text, NULL},
#define EACH(name, floats, integers) {#name, floats, integers},
#define INTEGERS(name, text) {#name, NULL, text},
#include "formulas.def"
};

const char *cni_hlo_formula(const char *name, bool integers)
{
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    if (!strcmp(formulas[i].name, name)) return integers ? formulas[i].integers : formulas[i].floats;
  return NULL;
}
