/* update.h: how updates are numbered: what update.c and backends with loops of their own for them share. */
#ifndef CNI_OPS_UPDATE_H
#define CNI_OPS_UPDATE_H

#include "program.h"
#include "update.gen.h"

/* A variant of a rule, in three digits: whether the gradient is followed uphill, where the weight decay goes, and the
 * second of two forms (of lerp for large weights, of SGD with Nesterov's momentum). */
enum { CNI_DECAY_NONE, CNI_DECAY_GRADIENT, CNI_DECAY_PARAM };
#define CNI_UPDATE_VARIANT(maximize, decay, other) ((maximize) + 2 * (decay) + 6 * (other))
#define CNI_MAXIMIZES(variant) ((variant) % 2)
#define CNI_DECAYS(variant) ((variant) / 2 % 3)
#define CNI_OTHER_FORM(variant) ((variant) / 6)

/* In a block: the arguments of an update by their names in its signature, as positions. */
#define CNI_ARGUMENTS(op) enum { CNI_ARGS_##op }

#endif
