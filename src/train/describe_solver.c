/* describe_solver.c: how a description file's net is trained: optimiser, schedule and loss. See describe.h.
 *
 * Place in the flow: [solver] names the three; their arguments stand beside by PyTorch's names. Invariant: a key
 * belongs to the first of [solver] itself, optimiser, schedule and loss that has it; `schedule.eps` says which. */
#include <cairn/nn.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"

enum { OPTIMIZER, SCHEDULE, LOSS, PARTS };
static const char *const parts[PARTS] = {"optimizer", "schedule", "loss"};
static const char *const otherwise[PARTS] = {"AdamW", NULL, "CrossEntropyLoss"};

/* ---- names ---- */

static const char *name_at(size_t i, const void *payload)
{
  const char *name = NULL, *sig, *doc;
  int part = *(const int *)payload;
  if (part == OPTIMIZER) return cn_optim_class_at(i, &name, &sig, &doc) ? name : NULL;
  if (part == SCHEDULE) return cn_schedule_class_at(i, &name, &sig, &doc) ? name : NULL;
  for (size_t k = 0; cn_module_class_at(k); k++) {
    name = cn_module_class_at(k)->name;
    if (cn_string_ends(name, "Loss") && i-- == 0) return name;
  }
  return NULL;
}

static const char *part_name(const cn_description *d, int part)
{
  return cni_describe_word(d, "solver", parts[part], otherwise[part]);
}

/* The signature of a part; NULL without error where there is none. Owned. */
static cn_signature *signature_of(const cn_description *d, int part)
{
  const char *wanted = part_name(d, part), *name = NULL, *sig = NULL, *doc;
  bool found = false;
  if (!wanted) return NULL;
  if (part == LOSS) {
    const cn_module_class *cls = cn_module_class_find(wanted);
    found = cls && cls->sig;
    sig = found ? cls->sig : NULL;
  }
  for (size_t i = 0; part != LOSS && !found; i++) {
    if (!(part == OPTIMIZER ? cn_optim_class_at : cn_schedule_class_at)(i, &name, &sig, &doc)) break;
    found = !strcmp(name, wanted);
  }
  if (found) return cn_signature_parse(sig);
  const cni_entry *e = cni_entry_find(cni_section_find(d, "solver"), parts[part]);
  cni_describe_unknown(d, e ? e->line : 0, parts[part], wanted, name_at, &part);
  return NULL;
}

typedef struct signatures {
  cn_signature *v[PARTS];
} signatures;

static int signatures_open(signatures *all, const cn_description *d)
{
  *all = (signatures){{NULL}};
  for (int i = 0; i < PARTS && !cn_err(); i++) all->v[i] = signature_of(d, i);
  return cn_err();
}

static void signatures_close(signatures *all)
{
  for (int i = 0; i < PARTS; i++) cn_signature_free(all->v[i]);
}

/* Which part an entry of [solver] is for, and which of its parameters; PARTS: none. */
static int part_of(const signatures *all, const char *key, int *parameter)
{
  for (int i = 0; i < PARTS; i++) {
    size_t n = strlen(parts[i]);
    bool named = cn_string_starts(key, parts[i]) && key[n] == '.';
    const char *name = named ? key + n + 1 : key;
    if (!all->v[i] || (!named && strchr(key, '.'))) continue;
    *parameter = cn_signature_find(all->v[i], name);
    if (*parameter >= 0) return i;
  }
  return PARTS;
}

/* All that [solver] may have, for messages. */
static const char *known_at(size_t i, const void *payload)
{
  const signatures *all = payload;
  static const char *const own[] = {"epochs", "seed", "optimizer", "schedule", "step", "loss", "clip_norm",
                                    "accumulate", "precision", "average", "patience", "monitor"};
  if (i < sizeof own / sizeof *own) return own[i];
  i -= sizeof own / sizeof *own;
  for (int p = 0; p < PARTS; p++) {
    size_t n = all->v[p] ? (size_t)cn_signature_size(all->v[p]) : 0;
    if (i < n) return cni_parameter_at(i, all->v[p]);
    i -= n;
  }
  return NULL;
}

static const char *precision_at(size_t i, const void *payload)
{
  static const char *const names[] = {"float32", "bfloat16", "float16"};
  (void)payload;
  return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static const char *step_at(size_t i, const void *payload)
{
  static const char *const names[] = {"epoch", "batch"};
  (void)payload;
  return i < sizeof names / sizeof *names ? names[i] : NULL;
}

/* A key whose values are listed. */
static int check_word(const cn_description *d, const char *key, cni_name_at at)
{
  const cni_entry *e = cni_entry_find(cni_section_find(d, "solver"), key);
  for (size_t i = 0; e && at(i, NULL); i++)
    if (!strcmp(at(i, NULL), e->raw)) return CN_OK;
  return e ? cni_describe_unknown(d, e->line, key, e->raw, at, NULL) : CN_OK;
}

int cni_check_solver(const cn_description *d)
{
  const cni_section *s = cni_section_find(d, "solver");
  signatures all;
  int parameter;
  signatures_open(&all, d);
  for (size_t i = 0; s && i < s->n && !cn_err(); i++)
    if (!cni_head_key("solver", s->v[i].key) && part_of(&all, s->v[i].key, &parameter) == PARTS)
      cni_describe_unknown(d, s->v[i].line, "key of [solver]", s->v[i].key, known_at, &all);
  signatures_close(&all);
  if (!cn_err()) check_word(d, "precision", precision_at);
  if (!cn_err()) check_word(d, "step", step_at);
  return cn_err();
}

/* ---- making ---- */

/* The arguments of one part. */
static int gather(cni_given *given, const cn_description *d, const signatures *all, int part)
{
  const cni_section *s = cni_section_find(d, "solver");
  int parameter;
  for (size_t i = 0; s && i < s->n; i++) {
    const cni_entry *e = &s->v[i];
    if (cni_head_key("solver", e->key) || part_of(all, e->key, &parameter) != part) continue;
    if (cni_given_set(given, all->v[part], parameter, e->value)) return cni_describe_blame(d, e->line, "[solver]");
  }
  return CN_OK;
}

static int line_of(const cn_description *d, int part)
{
  const cni_entry *e = cni_entry_find(cni_section_find(d, "solver"), parts[part]);
  return e ? e->line : 0;
}

cn_optim *cn_description_optim(const cn_description *d, cn_module *net)
{
  signatures all;
  cni_given *given = NULL;
  cn_optim *opt = NULL;
  if (!cni_described(d)) return NULL;
  if (!signatures_open(&all, d)) given = cni_given_new(all.v[OPTIMIZER]);
  if (given && !gather(given, d, &all, OPTIMIZER)) {
    opt = cn_optim_make(part_name(d, OPTIMIZER), net, given->v, (size_t)cn_signature_size(all.v[OPTIMIZER]));
    if (!opt) cni_describe_blame(d, line_of(d, OPTIMIZER), "[solver]");
  }
  signatures_close(&all);
  cni_given_free(given);
  return opt;
}

/* Schedules whose numbers count batches unless the file says otherwise. */
static bool by_batches(const cn_description *d, const char *name)
{
  const char *said = cni_describe_word(d, "solver", "step", NULL);
  if (said) return !strcmp(said, "batch");
  return !strcmp(name, "OneCycleLR") || !strcmp(name, "CyclicLR") || !strcmp(name, "WarmupCosineLR");
}

static void fill_missing(cni_given *given, const cn_signature *sig, const char *name, cn_value value)
{
  int i = cn_signature_find(sig, name);
  if (i >= 0 && given->v[i].tag == CN_V_NONE) given->v[i] = value;
}

cn_schedule *cn_description_schedule(const cn_description *d, cn_optim *opt, int64_t batches, bool *each_batch)
{
  const char *name = part_name(d, SCHEDULE);
  signatures all;
  *each_batch = name && by_batches(d, name);
  cni_given *given = NULL;
  cn_schedule *schedule = NULL;
  if (!cni_described(d) || !name) return NULL;
  if (!signatures_open(&all, d)) given = cni_given_new(all.v[SCHEDULE]);
  if (given && !gather(given, d, &all, SCHEDULE)) {
    const cn_signature *sig = all.v[SCHEDULE];
    int64_t steps = cni_describe_number(d, "solver", "epochs", 1) * (*each_batch ? batches : 1);
    fill_missing(given, sig, "T_max", cn_v_int(steps)); /* the whole run, where the file does not say how long */
    fill_missing(given, sig, "total_steps", cn_v_int(steps));
    fill_missing(given, sig, "max_lr", cn_v_float(cn_optim_get(opt, 0, "lr")));
    schedule = cn_schedule_make(name, opt, given->v, (size_t)cn_signature_size(sig));
    if (!schedule) cni_describe_blame(d, line_of(d, SCHEDULE), "[solver]");
  }
  signatures_close(&all);
  cni_given_free(given);
  return schedule;
}

cn_module *cn_description_loss(const cn_description *d)
{
  signatures all;
  cni_given *given = NULL;
  cn_module *loss = NULL;
  if (!cni_described(d)) return NULL;
  if (!signatures_open(&all, d)) given = cni_given_new(all.v[LOSS]);
  if (given && !gather(given, d, &all, LOSS)) {
    loss = cn_module_make(part_name(d, LOSS), given->v, (size_t)cn_signature_size(all.v[LOSS]));
    if (!loss) cni_describe_blame(d, line_of(d, LOSS), "[solver]");
  }
  signatures_close(&all);
  cni_given_free(given);
  return loss;
}
