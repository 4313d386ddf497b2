/* command.h: what the subcommands share. Each is one file with one entry, listed in commands.def. */
#ifndef CAIRN_COMMAND_H
#define CAIRN_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/* argv[0] is the subcommand's name. Returns the exit status: 0 done, 1 failed, 2 wrong usage. help_NAME is defined
 * where the row of commands.def names it. */
#define COMMAND(name, arguments, does, more) \
  int command_##name(int argc, char **argv); \
  extern const char help_##name[];
#include "commands.def"
#undef COMMAND

extern const char *command_program; /* as the user called it, for commands to try next */

/* Prints the pending cairn error to stderr; returns 1, for `return command_failed();`. */
int command_failed(void);
/* The i-th backend that people want to see: not the one that exists for tests. NULL past the last. Loads
 * plugins. */
const char *command_backend(int i);
/* Says what is wrong with an argument; returns 2. */
int command_usage(const char *command, const char *argument);
/* Says what is missing; returns 2. */
int command_missing(const char *command, const char *what);

/* ---- arguments ---- */
/* An option: `--name value` or `--name=value` when it has a value, else `--name` alone. */
typedef struct command_flag {
  const char *name;
  const char **value;
  bool *on;
} command_flag;
/* Sorts the arguments behind argv[0] into flags (up to one without name) and words. Returns how many words there are;
 * -1: it has said what is wrong. */
int command_parse(int argc, char **argv, const command_flag *flags, const char **words, int most);
/* Parses `--name value` or `--name=value` at argv[*i] and moves *i on; NULL when it is something else. */
const char *command_option(int argc, char **argv, int *i, const char *name);
/* Numbers of options; what is NULL leaves *value alone. false: text is no such number. */
bool command_number(double *value, const char *text);
bool command_whole(int64_t *value, const char *text);
/* "3,224,224" into at most `most` numbers; returns how many, 0 when it is no such list. */
size_t command_sizes(int64_t *sizes, size_t most, const char *text);

/* ---- paths ---- */
enum { COMMAND_PATH = 4096 };
const char *command_join(char *path, const char *folder, const char *name); /* writes COMMAND_PATH bytes at most */
bool command_is_file(const char *folder, const char *name);

#endif
