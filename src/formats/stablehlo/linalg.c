/* linalg.c: rows of factors of matrices. What has no inverse gives infinities or NaN: a device cannot object. See row.h. */
#include "rows.h"

const cni_hrow cni_hlo_linalg_rows[] = {{NULL, NULL, NULL}};
