/* setting.c: reads CAIRN_COMPILE. See setting.h, which has the place in the flow.
 *
 * Invariant: the variable is read here alone, and an unknown value is warned of once. */
#include "setting.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"

enum cni_compile_mode cni_compile_setting(void)
{
  static const struct {
    const char *text;
    enum cni_compile_mode mode;
  } known[] = {{"", CNI_COMPILE_ON},     {"on", CNI_COMPILE_ON}, {"1", CNI_COMPILE_ON},
               {"off", CNI_COMPILE_OFF}, {"0", CNI_COMPILE_OFF}, {"check", CNI_COMPILE_CHECK},
               {"exact", CNI_COMPILE_EXACT}};
  static _Atomic bool warned;
  const char *text = cni_os_env("CAIRN_COMPILE");
  if (!text) return CNI_COMPILE_ON;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(text, known[i].text)) return known[i].mode;
  if (!atomic_exchange(&warned, true))
    cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_COMPILE=%s is none of on, off, check, exact: it is on", text);
  return CNI_COMPILE_ON;
}
