/* warn.c: warnings of the library are Python's: they name the program's line, and filters apply to them.
 *
 * Place in the flow: cn_set_log -> here -> _arguments.warn. A warning may come from any thread, one that has locks of
 * the library and not Python's: it waits, until the call that holds warnings back ends (compile.c), which can then fail
 * by it, or until the main thread is between two instructions. Invariant: what is no warning goes where it would
 * without a callback, to stderr. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cairn_py.h"

enum { TEXT = 1024, WAITING = 8 };
enum { FREE, TAKEN, READY }; /* states of a place for one that waits */

static PyObject *warn; /* _arguments.warn; the module's; NULL: it is not there yet */
static _Thread_local struct {
  int depth;
  char text[TEXT]; /* the first one that was held back */
} held;
static struct {
  _Atomic int state;
  char text[TEXT];
} waiting[WAITING];

static int say(const char *text)
{
  PyObject *done = PyObject_CallFunction(warn, "s", text);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* Runs in the main thread. */
static int say_waiting(void *unused)
{
  (void)unused;
  for (int i = 0; i < WAITING && warn; i++) {
    char text[TEXT];
    if (waiting[i].state != READY) continue;
    memcpy(text, waiting[i].text, sizeof text);
    waiting[i].state = FREE;
    if (say(text)) return -1;
  }
  return 0;
}

static bool wait_for_python(const char *text)
{
  for (int i = 0; i < WAITING; i++) {
    int expected = FREE;
    if (!atomic_compare_exchange_strong(&waiting[i].state, &expected, TAKEN)) continue;
    snprintf(waiting[i].text, TEXT, "%s", text);
    waiting[i].state = READY;
    return Py_AddPendingCall(say_waiting, NULL) == 0;
  }
  return false;
}

static void take(cn_log_level level, const char *text, void *payload)
{
  (void)payload;
  bool warning = level == CN_LOG_WARNING && Py_IsInitialized();
  if (warning && held.depth && !*held.text) snprintf(held.text, TEXT, "%s", text);
  else if (!warning || !wait_for_python(text))
    fprintf(stderr, "%s\n", text);
}

void cnpy_take_warnings(void) { cn_set_log(take, NULL); }

void cnpy_leave_warnings(void)
{
  cn_set_log(NULL, NULL);
  warn = NULL;
}

void cnpy_hold_warnings(void) { held.depth++; }

int cnpy_say_warnings(void)
{
  char text[TEXT];
  held.depth--;
  memcpy(text, held.text, sizeof text);
  *held.text = 0;
  return *text ? say(text) : 0;
}

PyObject *cnpy_set_warn(PyObject *Py_UNUSED(module), PyObject *fn)
{
  if (!(warn = cnpy_own(Py_NewRef(fn))) || say_waiting(NULL)) return NULL;
  Py_RETURN_NONE;
}
