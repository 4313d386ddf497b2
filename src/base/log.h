/* log.h: warnings and what CAIRN_VERBOSE asks for, through one callback.
 *
 * CAIRN_VERBOSE is a comma-separated list: warnings, dispatch, graph, memory, all. */
#ifndef CNI_BASE_LOG_H
#define CNI_BASE_LOG_H

#include <cairn/base.h>
#include <stdatomic.h>

enum cni_topic { CNI_TOPIC_WARNINGS = 1, CNI_TOPIC_DISPATCH = 2, CNI_TOPIC_GRAPH = 4, CNI_TOPIC_MEMORY = 8,
                 CNI_TOPIC_COMPILE = 16,
                 CNI_TOPIC_PROFILE = 32 /* not said by the environment: some thread has a profile */ };

extern _Atomic int cni_topics; /* those asked for; -1: CAIRN_VERBOSE was not read yet */
int cni_topics_read(void);
static inline bool cni_verbose(enum cni_topic topic)
{
  int t = atomic_load_explicit(&cni_topics, memory_order_relaxed);
  return ((t < 0 ? cni_topics_read() : t) & (int)topic) != 0;
}
void cni_log(cn_log_level level, enum cni_topic topic, const char *format, ...) CN_PRINTF(3, 4);

#endif
