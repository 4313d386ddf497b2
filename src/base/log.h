/* log.h: warnings and what CAIRN_VERBOSE asks for, through one callback.
 *
 * CAIRN_VERBOSE is a comma-separated list: warnings, dispatch, graph, memory, all. */
#ifndef CNI_BASE_LOG_H
#define CNI_BASE_LOG_H

#include <cairn/base.h>

enum cni_topic { CNI_TOPIC_WARNINGS = 1, CNI_TOPIC_DISPATCH = 2, CNI_TOPIC_GRAPH = 4, CNI_TOPIC_MEMORY = 8 };

bool cni_verbose(enum cni_topic topic); /* cheap after the first call */
void cni_log(cn_log_level level, enum cni_topic topic, const char *format, ...) CN_PRINTF(3, 4);

#endif
