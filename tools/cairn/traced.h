/* traced.h: the graph of what a command is given: a network, traced as it computes, or a file that holds a graph. */
#ifndef CAIRN_COMMAND_TRACED_H
#define CAIRN_COMMAND_TRACED_H

#include <cairn/graph.h>

#include "model.h"

/* what: FILE.cfg, a name of the zoo, a checkpoint; a graph's text (FILE.txt) or a file of cn_graph_save. A file of
 * weights may be a saved graph, or a checkpoint of a net that is described beside it. sizes (may be NULL): of one
 * sample, of which there are `batch`. Owned; NULL with the error set. model_close(m) in any case, after the graph was
 * used. */
cn_graph *traced_graph(model *m, const char *what, const char *sizes, int64_t batch);
/* The same for all sizes of some dims of its input; of a graph from a file, which has its own, ndims must be 0. */
cn_graph *traced_graph_open(model *m, const char *what, const char *sizes, int64_t batch, const cn_free_dim *dims,
                            size_t ndims);

#endif
