/* classes.c: `cairn classes`: what is made by name, with its signature: layers, optimisers, rate schedules; as JSON for
 * the bindings.
 *
 * Invariant: everything here comes from the classes' rows; nothing is known by name. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ops.h"

/* A class of any of the three kinds. */
typedef struct row {
  const char *name, *sig, *doc, *call; /* call: of modules, NULL elsewhere and for one tensor in and one out */
  const char *keys;                    /* of optimisers: see cn_optim_class_keys; NULL elsewhere */
} row;

static bool module_at(size_t i, row *r)
{
  const cn_module_class *c = cn_module_class_at(i);
  if (c) *r = (row){c->name, c->sig, c->doc, c->call, NULL};
  return c != NULL;
}

static bool optim_at(size_t i, row *r)
{
  r->call = NULL;
  r->keys = cn_optim_class_keys(i);
  return cn_optim_class_at(i, &r->name, &r->sig, &r->doc);
}

static bool schedule_at(size_t i, row *r)
{
  r->call = r->keys = NULL;
  return cn_schedule_class_at(i, &r->name, &r->sig, &r->doc);
}

static const struct kind {
  const char *name;
  bool (*at)(size_t i, row *r);
} kinds[] = {{"modules", module_at}, {"optimisers", optim_at}, {"schedules", schedule_at}};

static void print_parameters(const char *key, const char *text)
{
  cn_op_param p;
  cn_signature *s = cn_signature_parse(text);
  printf(", \"%s\": [", key);
  for (int i = 0; s && i < cn_signature_size(s); i++) {
    if (i) printf(",");
    if (!cn_signature_param(&p, s, i)) json_parameter(&p);
  }
  printf("]");
  cn_signature_free(s);
}

static void print_json(const row *r)
{
  char call[600];
  printf("  {\"name\": ");
  json_string(r->name);
  printf(", \"signature\": ");
  json_string(r->sig);
  printf(",\n   \"doc\": ");
  json_string(r->doc ? r->doc : "");
  printf(",\n   \"call\": ");
  json_string(r->call ? r->call : "(Tensor input) -> Tensor");
  if (r->keys) {
    printf(", \"keys\": ");
    json_string(r->keys);
  }
  print_parameters("parameters", r->sig);
  snprintf(call, sizeof call, "forward%s", r->call ? r->call : "(Tensor input) -> Tensor");
  print_parameters("inputs", call);
  printf("}");
}

static void print_kind(const struct kind *k, bool json)
{
  row r;
  const char *before = "\n";
  for (size_t i = 0; k->at(i, &r); i++) {
    if (!r.sig) continue;
    if (json) {
      printf("%s", before);
      print_json(&r);
      before = ",\n";
    } else {
      const char *end = strstr(r.sig, " ->");
      printf("  %.*s\n", end ? (int)(end - r.sig) : (int)strlen(r.sig), r.sig);
    }
  }
}

int command_classes(int argc, char **argv)
{
  bool json = argc > 1 && !strcmp(argv[1], "--json");
  if (argc > 2 || (argc == 2 && !json)) return command_usage(argv[0], argv[argc - 1]);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    printf(json ? "%s\"%s\": [" : "%s%s\n", !json ? "" : i ? ", " : "{", kinds[i].name);
    print_kind(&kinds[i], json);
    if (json) printf("]\n");
  }
  if (json) printf("}\n");
  return cn_err() ? command_failed() : 0;
}
