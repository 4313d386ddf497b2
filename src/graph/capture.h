/* capture.h: what init.c needs of capture. */
#ifndef CNI_GRAPH_CAPTURE_H
#define CNI_GRAPH_CAPTURE_H

#include "ops/apply.h"

int cni_capture_mode(cni_applying *a); /* the last mode: records instead of running */

#endif
