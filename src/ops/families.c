/* families.c: see families.h. */
#include "families.h"

const cni_family cni_families[] = {
#define FAMILY(name) {#name, cni_##name##_ops, &cni_##name##_count},
#include "families.def"
#undef FAMILY
    {NULL, NULL, NULL},
};
