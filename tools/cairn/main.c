/* main.c: the `cairn` command: finds the subcommand in one table and runs it.
 *
 * Place in the flow: a user of the public API like any other program. Invariant: a subcommand is one file
 * and one line in the table. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

typedef struct command {
  const char *name, *arguments, *does;
  int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"demo", "[--epochs N] [--seed N] [--device D]", "train a small network on hand-written digits",
     command_demo},
    {"devices", "[--measure]", "list the devices cairn can use; measure what they reach", command_devices},
    {"ops", "[NAME...] [--json]", "list the ops, or describe some", command_ops},
    {"version", "", "print the version", command_version},
    {"help", "", "print this", command_help},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int command_failed(void)
{
  fprintf(stderr, "cairn: %s\n", cn_err() ? cn_err_message() : "failed");
  return 1;
}

const char *command_backend(int i)
{
  const char *name;
  cn_device_count("cuda"); /* loads the plugin where there is one */
  for (int b = 0; (name = cn_backend_name(b)); b++)
    if (strcmp(name, "mirror") && i-- == 0) return name;
  return NULL;
}

int command_usage(const char *name, const char *argument)
{
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(commands[i].name, name))
      fprintf(stderr, "cairn %s: cannot make sense of '%s'\nusage: cairn %s %s\n", name, argument, name,
              commands[i].arguments);
  return 2;
}

const char *command_option(int argc, char **argv, int *i, const char *name)
{
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n)) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  if (argv[*i][n] || *i + 1 >= argc) return NULL;
  return argv[++*i];
}

static void print_help(FILE *to)
{
  fprintf(to, "cairn %s, a deep-learning framework in C\n\nusage: cairn COMMAND [options]\n\n", cn_version());
  for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].does);
  fprintf(to, "\noptions:\n");
  for (int i = 0; i < COMMANDS; i++)
    if (*commands[i].arguments) fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].arguments);
}

int command_help(int argc, char **argv)
{
  (void)argc, (void)argv;
  print_help(stdout);
  return 0;
}

int command_version(int argc, char **argv)
{
  if (argc > 1) return command_usage(argv[0], argv[1]);
  printf("cairn %s\n", cn_version());
  return 0;
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  const char *name = argv[1];
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
  if (!strcmp(name, "--version")) name = "version";
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(commands[i].name, name)) {
      int status = commands[i].run(argc - 1, argv + 1);
      return fflush(stdout) && !status ? 1 : status;
    }
  fprintf(stderr, "cairn: there is no command '%s'; `cairn help` lists them\n", name);
  return 2;
}
