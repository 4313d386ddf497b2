/* os_terminal.c: the terminal, and what host and process are called. See ext/system.h.
 *
 * Invariant: nothing here sets the sticky error. */
#define _DEFAULT_SOURCE
#include <cairn/ext/system.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os.h"

enum { USUAL_WIDTH = 80 };

void cn_host_name(char *name, size_t size)
{
  if (!size) return;
  if (gethostname(name, size)) snprintf(name, size, "localhost");
  name[size - 1] = 0;
}

int64_t cn_process_id(void) { return (int64_t)getpid(); }

bool cn_is_terminal(void) { return isatty(STDOUT_FILENO) == 1; }

int cn_terminal_width(void)
{
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col) return USUAL_WIDTH;
  return size.ws_col;
}

void cn_terminal_write(const char *text)
{
  cni_os_write_stdout(text);
  fflush(stdout);
}
