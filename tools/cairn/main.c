/* main.c: the `cairn` command: finds the subcommand in one table and runs it.
 *
 * Place in the flow: a user of the public API like any other program. Invariant: a subcommand is one file
 * and one row of commands.def. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

typedef struct command {
  const char *name, *arguments, *does;
  int (*run)(int argc, char **argv);
  const char *more; /* for `cairn help NAME`; NULL: nothing more to say */
} command;

static const command commands[] = {
#define COMMAND(name, arguments, does, more) {#name, arguments, does, command_##name, more},
#include "commands.def"
#undef COMMAND
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const char *command_program = "cairn";

int command_failed(void)
{
  fflush(stdout);
  fprintf(stderr, "cairn: %s\n", cn_err() ? cn_err_message() : "failed");
  return 1;
}

const char *command_backend(int i)
{
  const char *name;
  cn_device_count("cuda"); /* loads the plugins that are there */
  cn_device_count("pjrt");
  for (int b = 0; (name = cn_backend_name(b)); b++)
    if (strcmp(name, "mirror") && strcmp(name, "meta") && i-- == 0) return name; /* those that compute */
  return NULL;
}

static const command *find(const char *name)
{
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}

int command_usage(const char *name, const char *argument)
{
  fprintf(stderr, "cairn %s: cannot make sense of '%s'; usage: cairn %s %s\n", name, argument, name,
          find(name)->arguments);
  return 2;
}

int command_missing(const char *name, const char *what)
{
  fprintf(stderr, "cairn %s: %s; usage: cairn %s %s\n", name, what, name, find(name)->arguments);
  return 2;
}

static void print_help(FILE *to)
{
  fprintf(to, "cairn %s, a deep-learning framework in C\n\nusage: cairn COMMAND [options]\n\n", cn_version());
  for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].does);
  fprintf(to, "\n`cairn help COMMAND` explains one.\n");
}

int command_help(int argc, char **argv)
{
  if (argc < 2) {
    print_help(stdout);
    return 0;
  }
  const command *c = find(argv[1]);
  if (!c || argc > 2) return command_usage("help", argv[argc > 2 ? 2 : 1]);
  printf("usage: cairn %s %s\n\n%s\n", c->name, c->arguments, c->does);
  if (c->more) printf("\n%s", c->more);
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
  command_program = argv[0];
  const char *name = argv[1];
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
  if (!strcmp(name, "--version")) name = "version";
  const command *c = find(name);
  if (!c) {
    fprintf(stderr, "cairn: there is no command '%s'; `cairn help` lists them\n", name);
    return 2;
  }
  if (argc == 3 && c->more && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))
    return command_help(2, (char *[]){argv[2], argv[1]});
  int status = c->run(argc - 1, argv + 1);
  return fflush(stdout) && !status ? 1 : status;
}
