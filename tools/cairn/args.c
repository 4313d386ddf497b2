/* args.c: arguments and paths of subcommands. See command.h. Invariant: every word of a command line is either used or
 * complained about. */
#include <cairn/ext/system.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

const char *command_option(int argc, char **argv, int *i, const char *name)
{
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n)) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  if (argv[*i][n] || *i + 1 >= argc) return NULL;
  return argv[++*i];
}

/* 1: argv[*i] was this flag. */
static bool take(int argc, char **argv, int *i, const command_flag *flag)
{
  if (flag->on && !strcmp(argv[*i], flag->name)) return *flag->on = true;
  const char *value = flag->value ? command_option(argc, argv, i, flag->name) : NULL;
  if (value) *flag->value = value;
  return value != NULL;
}

int command_parse(int argc, char **argv, const command_flag *flags, const char **words, int most)
{
  int n = 0;
  bool flags_end = false;
  for (int i = 1; i < argc; i++) {
    const command_flag *f = flags;
    if (!flags_end && !strcmp(argv[i], "--")) {
      flags_end = true;
      continue;
    }
    while (!flags_end && f->name && !take(argc, argv, &i, f)) f++;
    if (!flags_end && f->name) continue;
    if (n == most || (!flags_end && argv[i][0] == '-' && argv[i][1])) {
      command_usage(argv[0], argv[i]);
      return -1;
    }
    words[n++] = argv[i];
  }
  return n;
}

bool command_number(double *value, const char *text)
{
  const char *end;
  if (!text) return true;
  double v = cn_number_read(text, &end);
  if (end == text || *end || !isfinite(v)) return false;
  *value = v;
  return true;
}

bool command_whole(int64_t *value, const char *text)
{
  double v = 0;
  if (!text) return true;
  if (!command_number(&v, text) || v != floor(v) || fabs(v) > 9e15) return false;
  *value = (int64_t)v;
  return true;
}

size_t command_sizes(int64_t *sizes, size_t most, const char *text)
{
  size_t n = 0;
  for (const char *s = text, *end; n < most; s = end + 1) {
    double v = cn_number_read(s, &end);
    if (end == s || v != floor(v) || v < 1 || v > 1e9 || (*end && *end != ',' && *end != 'x')) return 0;
    sizes[n++] = (int64_t)v;
    if (!*end) return n;
  }
  return 0;
}

const char *command_join(char *path, const char *folder, const char *name)
{
  snprintf(path, COMMAND_PATH, "%s/%s", folder, name);
  return path;
}

bool command_is_file(const char *folder, const char *name)
{
  char path[COMMAND_PATH];
  return cn_path_kind_of(command_join(path, folder, name)) == CN_PATH_FILE;
}
