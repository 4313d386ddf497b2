/* log.c: see log.h. Invariant: without CAIRN_VERBOSE and without a callback nothing is ever written. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "os.h"

static cn_log_fn log_fn;
static void *log_payload;
_Atomic int cni_topics = -1;

void cn_set_log(cn_log_fn fn, void *payload)
{
  log_fn = fn;
  log_payload = payload;
}

int cni_topics_read(void)
{
  const char *v = cni_os_env("CAIRN_VERBOSE");
  int t = 0;
  if (v && strstr(v, "warnings")) t |= CNI_TOPIC_WARNINGS;
  if (v && strstr(v, "dispatch")) t |= CNI_TOPIC_DISPATCH;
  if (v && strstr(v, "graph")) t |= CNI_TOPIC_GRAPH;
  if (v && strstr(v, "memory")) t |= CNI_TOPIC_MEMORY;
  if (v && strstr(v, "compile")) t |= CNI_TOPIC_COMPILE;
  if (v && strstr(v, "all")) t = 0xff;
  atomic_store(&cni_topics, t);
  return t;
}

void cni_log(cn_log_level level, enum cni_topic topic, const char *format, ...)
{
  bool asked = cni_verbose(topic);
  if (!asked && !(log_fn && level == CN_LOG_WARNING)) return;
  char text[1024];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  if (log_fn) {
    log_fn(level, text, log_payload);
    return;
  }
  cni_os_write_stderr(text);
  cni_os_write_stderr("\n");
}
