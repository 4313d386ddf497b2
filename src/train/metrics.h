/* metrics.h: what cn_fit needs of a metric beyond train.h. Internal. */
#ifndef CNI_TRAIN_METRICS_H
#define CNI_TRAIN_METRICS_H

#include <cairn/train.h>

/* Is it fed by cn_metric_update? Those of cn_metric_mean are fed by the program. */
bool cni_metric_takes_batches(const cn_metric *metric);
/* What it has added up, as a tensor, for checkpoints; and back. state: owned. */
cn_tree *cni_metric_state(const cn_metric *metric);
int cni_metric_load(cn_metric *metric, const cn_tree *state);

#endif
