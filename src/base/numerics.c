/* numerics.c: how far devices may round, and whether their results repeat (device.h).
 *
 * Place in the flow: set by programs, read by kernels of devices at each call and by the keys of compiled programs.
 * Invariant: one word holds all of it, so that a reader never sees half of a change. */
#include "numerics.h"

#include <stdatomic.h>
#include <string.h>

#include "log.h"
#include "os.h"
#include "state.h"

enum { MATMUL = 0, CONV = 4, REPEATS = 8, FIELD = 15, KNOWN = 1 << 12, WARNED = 64 };

static _Atomic int settings; /* fields of four bits; KNOWN: the environment was read */

static int from_environment(void)
{
  const char *text = cni_os_env("CAIRN_DETERMINISTIC");
  int mode = !text || !strcmp(text, "0") ? CN_DETERMINISTIC_OFF
             : !strcmp(text, "conv")     ? CN_DETERMINISTIC_CONV
             : !strcmp(text, "warn")     ? CN_DETERMINISTIC_WARN
                                         : CN_DETERMINISTIC_FAIL;
  int none = 0, read = KNOWN | mode << REPEATS;
  return atomic_compare_exchange_strong(&settings, &none, read) ? read : none;
}

int cni_numerics(void)
{
  int now = atomic_load_explicit(&settings, memory_order_relaxed);
  return now ? now : from_environment();
}

static int set(const char *what, int field, int value, int most)
{
  if (value < 0 || value > most) return cni_fail(CN_ERR_VALUE, "%s: there is no such setting: %d", what, value);
  int now = cni_numerics();
  while (!atomic_compare_exchange_weak(&settings, &now, (now & ~(FIELD << field)) | value << field)) continue;
  return CN_OK;
}

static int get(int field) { return cni_numerics() >> field & FIELD; }

int cn_set_matmul_precision(cn_precision precision)
{
  return set("cn_set_matmul_precision", MATMUL, (int)precision, CN_PRECISION_BF16);
}
cn_precision cn_matmul_precision(void) { return (cn_precision)get(MATMUL); }
int cn_set_conv_precision(cn_precision precision)
{
  return set("cn_set_conv_precision", CONV, (int)precision, CN_PRECISION_BF16);
}
cn_precision cn_conv_precision(void) { return (cn_precision)get(CONV); }
int cn_set_deterministic(cn_deterministic mode)
{
  return set("cn_set_deterministic", REPEATS, (int)mode, CN_DETERMINISTIC_FAIL);
}
cn_deterministic cn_deterministic_mode(void) { return (cn_deterministic)get(REPEATS); }

int cni_not_deterministic(const char *op)
{
  static _Atomic(const char *) warned[WARNED]; /* names that are there for good */
  cn_deterministic mode = cn_deterministic_mode();
  if (mode < CN_DETERMINISTIC_WARN) return CN_OK;
  if (mode == CN_DETERMINISTIC_FAIL)
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: has no deterministic implementation on this device, and deterministic "
                    "ones are asked for (cn_set_deterministic)", op);
  for (int i = 0; i < WARNED; i++) {
    const char *none = NULL;
    if (atomic_compare_exchange_strong(&warned[i], &none, op)) {
      cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "%s: has no deterministic implementation on this device", op);
      break;
    }
    if (none == op) break;
  }
  return CN_OK;
}
