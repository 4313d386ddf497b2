/* command.h: what the subcommands share. Each is one file with one entry, listed in main.c. */
#ifndef CAIRN_COMMAND_H
#define CAIRN_COMMAND_H

#include <stdbool.h>

/* argv[0] is the subcommand's name. Returns the exit status: 0 done, 1 failed, 2 wrong usage. */
int command_devices(int argc, char **argv);
int command_ops(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_version(int argc, char **argv);
int command_help(int argc, char **argv);

/* Prints the pending cairn error to stderr; returns 1, for `return command_failed();`. */
int command_failed(void);
/* The i-th backend that people want to see: not the one that exists for tests. NULL past the last. Loads
 * plugins. */
const char *command_backend(int i);
/* Says what is wrong with an argument; returns 2. */
int command_usage(const char *command, const char *argument);
/* Parses `--name value` or `--name=value` at argv[*i] and moves *i on; NULL when it is something else. */
const char *command_option(int argc, char **argv, int *i, const char *name);

#endif
