/* init.c: the one file that names compiled-in parts: fills the tables through which lower layers call upper ones.
 *
 * Invariant: succeeds once per process, at the first op; nothing runs at load. */
#include <pthread.h>

#include "autograd/autograd.h"
#include "backends/common/dispatch.h"
#include "backends/common/registry.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/jit/jit.h"
#include "backends/meta/meta.h"
#include "backends/mirror/mirror.h"
#include "base/hooks.h"
#include "base/state.h"
#include "compile/compile.h"
#include "graph/capture.h"
#include "ops/families.h"
#include "ops/profile.h"
#include "tensor/tensor.h"

_Atomic bool cni_initialised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int start(void)
{
  cni_autograd_init();
  cni_mode_handlers[__builtin_ctz(CNI_MODE_PROFILE)] = cni_profile_mode;
  cni_mode_handlers[__builtin_ctz(CNI_MODE_CAPTURE)] = cni_capture_mode;
  cni_hooks.tensor_memory = cni_profile_memory;
  cni_hooks.leaf_touched = cni_leaf_touched;
  cni_hooks.capture_hooked = cni_capture_hooked;
  cni_hooks.takes_shortcut = cni_capture_shortcut;
  cni_hooks.place_read = cni_capture_place_read;
  cni_hooks.capture_saves = cni_capture_saves;
  cni_hooks.scope_call_begin = cni_scope_call_begin;
  cni_hooks.scope_call_end = cni_scope_call_end;
  cni_hooks.bring_inside = cni_bring_one_inside;
  cni_hooks.bring_written = cni_bring_one_written;
  cni_hooks.replay_control = cni_replay_control;
  cni_hooks.code_wanted = cni_jit_want;
  cni_hooks.code_waits = cni_jit_waits;
  cni_hooks.has_code = cni_jit_has;
  cni_hooks.code_made = cni_jit_made;
  int status = cni_table_init();
  if (!status) status = cni_registry_init();
  if (!status) status = cni_backend_add(cni_cpu_backend());
  if (!status) status = cni_cpu_add_kernels();
  if (!status) status = cni_backend_add(cni_mirror_backend(&cni_host));
  if (!status) status = cni_backend_add(cni_meta_backend(&cni_host));
  return status;
}

void cni_init(void)
{
  bool started = false;
  if (cni_ready()) return;
  pthread_mutex_lock(&lock);
  if (!cni_ready()) {
    if (start()) { /* out of memory: the next call tries again */
      cni_registry_exit();
      cni_table_exit();
    } else {
      atomic_store(&cni_initialised, true);
      started = true;
    }
  }
  pthread_mutex_unlock(&lock);
  if (started) cni_kernel_wishes_check(); /* may load plugins, which need what has been started */
}
