/* events.h: logs that TensorBoard reads: numbers over steps, histograms, pictures, text, graphs, hyper-parameters,
 * embeddings.
 *
 *     cn_events *log = cn_events_open("runs/first");
 *     cn_events_scalar(log, "loss", cn_item(loss), step);
 *     cn_events_close(log);        then: tensorboard --logdir runs
 */
#ifndef CAIRN_EVENTS_H
#define CAIRN_EVENTS_H

#include "module.h"

CN_BEGIN_DECLS

typedef struct cn_events cn_events;
/* A new file of events in the folder, which is made if need be. Owned. */
CN_API CN_MUST_USE cn_events *cn_events_open(const char *folder);
/* With this behind the file's name. */
CN_API CN_MUST_USE cn_events *cn_events_open_as(const char *folder, const char *suffix);
CN_API void cn_events_close(cn_events *events); /* writes what is left; NULL is fine */
CN_API int cn_events_flush(cn_events *events);  /* now, so that a running TensorBoard sees it */

/* What comes next happened then, in seconds since 1970; 0: when it is logged, as at first. */
CN_API int cn_events_set_time(cn_events *events, double seconds);

/* What earlier files of the folder say of this step and later ones is void: a run goes on from a checkpoint. */
CN_API int cn_events_restart(cn_events *events, int64_t step);

CN_API int cn_events_scalar(cn_events *events, const char *tag, double value, int64_t step);
/* The same in TensorBoard's newer form, a tensor of that type: float32 or float64, which keeps all digits. */
CN_API int cn_events_scalar_as(cn_events *events, const char *tag, double value, cn_dtype dtype, int64_t step);
/* How the finite elements are spread, in the classes that TensorBoard's own writers use, or in those between n limits
 * that rise. */
CN_API int cn_events_histogram(cn_events *events, const char *tag, cn_tensor *values, int64_t step);
CN_API int cn_events_histogram_at(cn_events *events, const char *tag, cn_tensor *values, const double *limits, size_t n,
                                  int64_t step);
/* (H, W), (C, H, W) or (N, C, H, W), which is laid out as a grid; uint8, or floats in [0, 1]. */
CN_API int cn_events_image(cn_events *events, const char *tag, cn_tensor *image, int64_t step);
CN_API int cn_events_text(cn_events *events, const char *tag, const char *markdown, int64_t step);
/* Lines of points: precision and recall of a yes-no classifier at 127 thresholds, or at that many. */
CN_API int cn_events_pr_curve(cn_events *events, const char *tag, cn_tensor *labels, cn_tensor *predictions,
                              int64_t step);
CN_API int cn_events_pr_curve_at(cn_events *events, const char *tag, cn_tensor *labels, cn_tensor *predictions,
                                 size_t thresholds, int64_t step);
/* The graph of a module, as it computes on these inputs, with the modules' names as groups. */
CN_API int cn_events_graph(cn_events *events, cn_module *net, cn_tensor *const *inputs, size_t n);
/* Settings of a run (numbers, text, booleans) and the metrics it reached (numbers), for the table of runs. */
CN_API int cn_events_hparams(cn_events *events, const cn_tree *settings, const cn_tree *metrics);
/* Points for the projector: (N, D) float; labels: N texts or NULL; images: (N, C, H, W) or NULL. */
CN_API int cn_events_embedding(cn_events *events, const char *tag, cn_tensor *points, const char *const *labels,
                               cn_tensor *images, int64_t step);

CN_END_DECLS
#endif
