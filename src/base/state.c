/* state.c: makes, installs and frees per-thread state; sticky errors.
 *
 * Invariant: cni_state() never returns NULL; when no state can be allocated a shared emergency state stands in,
 * whose only purpose is to report that memory ran out. */
#include "state.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "hooks.h"
#include "limits.h"
#include "os.h"

_Thread_local cn_state *cni_tls_state;

static cn_state emergency;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void thread_exit(void *state) { cn_state_free(state); }
static void make_exit_key(void) { pthread_key_create(&exit_key, thread_exit); }

static void state_init(cn_state *s)
{
  s->default_dtype = CN_F32;
  s->default_device = CN_CPU;
  s->pooled = true;
  cni_pool_init(s);
}

cn_state *cn_state_new(void)
{
  cn_state *s = cni_os_alloc(sizeof *s);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  state_init(s);
  return s;
}

cn_state *cni_state_make(void)
{
  pthread_once(&exit_once, make_exit_key);
  cn_state *s = cn_state_new();
  if (!s) {
    emergency.err = CN_ERR_MEMORY;
    snprintf(emergency.message, sizeof emergency.message, "out of memory: no state for this thread");
    return &emergency;
  }
  cni_tls_state = s;
  pthread_setspecific(exit_key, s);
  return s;
}

void cn_state_free(cn_state *s)
{
  if (!s || s == &emergency) return;
  cn_state *current = cni_tls_state;
  cni_tls_state = s; /* what is released below goes to this state's pools */
  if (cni_hooks.state_exit) cni_hooks.state_exit(s);
  if (cni_hooks.backend_exit) cni_hooks.backend_exit(s);
  cni_limits_forget(s);
  cni_pool_flush(s);
  cni_tls_state = current == s ? NULL : current;
  pthread_once(&exit_once, make_exit_key);
  if (pthread_getspecific(exit_key) == s) pthread_setspecific(exit_key, NULL);
  cni_os_free(s, sizeof *s);
}

cn_state *cn_state_swap(cn_state *s)
{
  cn_state *old = cni_tls_state;
  pthread_once(&exit_once, make_exit_key);
  cni_tls_state = s;
  pthread_setspecific(exit_key, s);
  return old;
}

/* The first error stays. */
static int fail_with(int code, const char *format, va_list ap)
{
  cn_state *s = cni_state();
  if (s->err) return s->err;
  s->err = code;
  vsnprintf(s->message, sizeof s->message, format, ap);
  return code;
}

int cni_fail(int code, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  int status = fail_with(code, format, ap);
  va_end(ap);
  return status;
}

int cni_fail_memory(size_t size)
{
  return cni_fail(CN_ERR_MEMORY, "out of memory: %zu bytes could not be allocated", size);
}

int cn_err(void) { return cni_state()->err; }
const char *cn_err_message(void)
{
  cn_state *s = cni_state();
  return s->err ? s->message : "";
}

void cn_err_clear(void)
{
  cn_state *s = cni_state();
  s->err = 0;
  s->message[0] = 0;
}

int cn_err_set(int code, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  int status = fail_with(code < 0 ? code : CN_ERR_VALUE, format, ap);
  va_end(ap);
  return status;
}

void cni_error_take(cni_saved_error *saved)
{
  cn_state *s = cni_state();
  saved->err = s->err;
  if (!s->err) return;
  memcpy(saved->message, s->message, sizeof saved->message);
  s->err = 0;
}

void cni_error_restore(const cni_saved_error *saved)
{
  cn_state *s = cni_state();
  if (!saved->err) return;
  s->err = saved->err;
  memcpy(s->message, saved->message, sizeof s->message);
}

cn_device cn_default_device(void) { return cni_state()->default_device; }
void cn_set_default_device(cn_device device)
{
  cni_state()->default_device = device == CN_DEVICE_DEFAULT ? CN_CPU : device;
}

cn_dtype cn_default_dtype(void) { return cni_state()->default_dtype; }
int cn_set_default_dtype(cn_dtype dtype)
{
  if (dtype != CN_F16 && dtype != CN_BF16 && dtype != CN_F32 && dtype != CN_F64)
    return cni_fail(CN_ERR_DTYPE, "default dtype: %s is not float16, bfloat16, float32 or float64",
                    cn_dtype_name(dtype));
  cni_state()->default_dtype = dtype;
  return CN_OK;
}

const char *cn_version(void) { return CN_VERSION_STRING; }
