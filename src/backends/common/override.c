/* override.c: CAIRN_KERNEL, the one variable that chooses between implementations. See dispatch.h.
 *
 * Place in the flow: read at the first op; asked while kernel lists are put in order, never while an op runs.
 * Invariant: an entry that means nothing is reported, not dropped. */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "dispatch.h"
#include "registry.h"

enum { MOST = 32, WORD = 64 };

typedef struct wish {
  char op[WORD], name[WORD];
  bool leave_out, used;
} wish;

static wish wishes[MOST];
static int count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Copies what stands before one of `stops`; returns what comes after it. */
static const char *word(char to[WORD], const char *from, const char *stops)
{
  size_t n = strcspn(from, stops), kept = n < WORD - 1 ? n : WORD - 1;
  memcpy(to, from, kept);
  to[kept] = 0;
  return from + n;
}

static void read_wishes(void)
{
  const char *at = cni_os_env("CAIRN_KERNEL");
  while (at && *at) {
    wish w = {.used = false};
    at = word(w.op, at, "=,");
    if (*at == '=') {
      at++;
      w.leave_out = *at == '-';
      at = word(w.name, at + w.leave_out, ",");
    }
    if (!w.op[0] || !w.name[0])
      cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_KERNEL: '%s' is not OP=IMPLEMENTATION", w.op);
    else if (count < MOST) wishes[count++] = w;
    else cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_KERNEL: more than %d entries; %s is ignored", MOST, w.op);
    if (*at == ',') at++;
  }
}

/* Is `name` meant by the pattern? A star may stand at its beginning and at its end. */
static bool meant(const char *pattern, const char *name)
{
  size_t n = strlen(pattern), length = strlen(name);
  bool any_begin = pattern[0] == '*', any_end = n && pattern[n - 1] == '*';
  if (n == 1 && any_begin) return true;
  const char *text = pattern + any_begin;
  n -= (size_t)any_begin + (size_t)any_end;
  if (n > length) return false;
  if (any_begin && any_end) {
    for (size_t i = 0; i + n <= length; i++)
      if (!strncmp(name + i, text, n)) return true;
    return false;
  }
  if (any_begin) return !strncmp(name + length - n, text, n);
  return !strncmp(name, text, n) && (any_end || length == n);
}

cni_wish cni_kernel_wish(const cni_opinfo *info, const char *implementation)
{
  pthread_once(&once, read_wishes);
  cni_wish result = CNI_AS_LISTED;
  for (int i = 0; i < count; i++) {
    wish *w = &wishes[i];
    if (strcmp(w->name, implementation) || !(meant(w->op, info->name) || (info->group[0] && meant(w->op, info->group))))
      continue;
    w->used = true;
    if (result != CNI_LEFT_OUT) result = w->leave_out ? CNI_LEFT_OUT : CNI_FIRST;
  }
  return result;
}

void cni_kernel_wishes_check(void)
{
  bool all_used = true;
  for (int i = 0; i < count; i++) all_used = all_used && wishes[i].used;
  if (!all_used) cni_plugins_load(); /* it may be one of theirs */
  for (int i = 0; i < count; i++)
    if (!wishes[i].used)
      cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS,
              "CAIRN_KERNEL: there is no implementation %s of %s (`cairn ops` lists them)", wishes[i].name,
              wishes[i].op);
}
