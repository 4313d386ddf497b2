/* processors.c: see processors.h. */
#include "processors.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const char *const processor_kinds[] = {"CPU", "GPU", "TPU"};
const char *const processor_types[TYPES] = {"fp64", "fp32", "tf32", "16 bits", "fp8", "int8", "fp4"};

static const processor table[] = {
#define PROCESSOR(name, kind, year, nm, units, mhz, memory, gb, gbps, watts, dollars, f64, f32, tf32, f16, f8, i8, f4, \
                  of, per_clock, source)                                                                               \
  {name, PROCESSOR_##kind, year, nm, units, (mhz) * 1e6, memory, (gb) * 1e9, (gbps) * 1e9, watts, dollars,             \
   {(f64) * 1e12, (f32) * 1e12, (tf32) * 1e12, (f16) * 1e12, (f8) * 1e12, (i8) * 1e12, (f4) * 1e12}, TYPE_##of,        \
   per_clock, source},
#define ENERGY(nm, i8, f16, f32)
#define MEMORY_ENERGY(memory, pj)
#include "processors.def"
#undef PROCESSOR
#undef ENERGY
#undef MEMORY_ENERGY
};

static const struct energy {
  double nanometres, int8, f16, fp32;
} energies[] = {
#define PROCESSOR(name, kind, year, nm, units, mhz, memory, gb, gbps, watts, dollars, f64, f32, tf32, f16, f8, i8, f4, \
                  of, per_clock, source)
#define ENERGY(nm, i8, f16, f32) {nm, (i8) * 1e-12, (f16) * 1e-12, (f32) * 1e-12},
#define MEMORY_ENERGY(memory, pj)
#include "processors.def"
#undef ENERGY
#undef MEMORY_ENERGY
};

static const struct memory_energy {
  const char *memory;
  double joules;
} memory_energies[] = {
#define ENERGY(nm, i8, f16, f32)
#define MEMORY_ENERGY(memory, pj) {memory, (pj) * 1e-12},
#include "processors.def"
#undef PROCESSOR
#undef ENERGY
#undef MEMORY_ENERGY
};

const processor *processor_at(size_t i) { return i < sizeof table / sizeof *table ? &table[i] : NULL; }

static bool has(const char *text, const char *part)
{
  for (; *text; text++) {
    size_t n = 0;
    while (part[n] && tolower((unsigned char)text[n]) == tolower((unsigned char)part[n])) n++;
    if (!part[n]) return true;
  }
  return false;
}

bool processor_matches(const processor *p, const char *part) { return has(p->name, part); }

const processor *processor_find(const char *part)
{
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (has(table[i].name, part)) return &table[i];
  return NULL;
}

int processor_type(const char *name)
{
  static const char *const others[][2] = {{"bf16", "16 bits"}, {"fp16", "16 bits"}, {"f16", "16 bits"},
                                          {"f32", "fp32"},     {"f64", "fp64"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(name, others[i][0])) name = others[i][1];
  for (int i = 0; i < TYPES; i++)
    if (!strcmp(name, processor_types[i])) return i;
  return -1;
}

double processor_item(number_type type)
{
  static const double bytes[TYPES] = {8, 4, 4, 2, 1, 1, 0.5};
  return bytes[type];
}

/* ---- energy ---- */

double processor_joules(const processor *p, number_type type)
{
  const struct energy *e = &energies[0];
  if (!p->nanometres || type == TYPE_FP64 || type == TYPE_FP8 || type == TYPE_FP4) return 0; /* in neither table */
  for (size_t i = 1; i < sizeof energies / sizeof *energies; i++) /* the nearer node, by their ratio */
    if (fabs(log(p->nanometres / energies[i].nanometres)) < fabs(log(p->nanometres / e->nanometres))) e = &energies[i];
  return (type == TYPE_INT8 ? e->int8 : type == TYPE_F16 ? e->f16 : e->fp32) / 2;
}

/* By kind of memory: all HBM as HBM2, all GDDR as GDDR6; what is in no table is unknown. */
double processor_joules_a_byte(const processor *p)
{
  for (size_t i = 0; i < sizeof memory_energies / sizeof *memory_energies; i++) {
    const char *m = memory_energies[i].memory;
    size_t letters = strcspn(m, "0123456789");
    bool family = strncmp(m, "DDR", 3) && !strncmp(p->memory, m, letters);
    if (family || !strcmp(p->memory, m)) return memory_energies[i].joules;
  }
  return 0;
}

/* ---- the roofline model ---- */

static int type_for(const processor *p, int asked)
{
  static const number_type order[] = {TYPE_F16, TYPE_FP32, TYPE_INT8};
  if (asked >= 0) return p->peak[asked] > 0 ? asked : -1;
  for (int i = 0; i < 3; i++)
    if (p->peak[order[i]] > 0) return (int)order[i];
  return -1;
}

static double launch_of(const processor *p, const estimate_options *o)
{
  static const double usual[] = {0.5e-6, 4e-6, 1e-6}; /* a call, a kernel, a step of a program */
  return o->launch >= 0 ? o->launch : usual[p->kind];
}

/* Of what is not in products: float32's rate where it is known, else it never is the limit. */
static double node_time(double *memory, const processor *p, const work_node *n, int type)
{
  double bytes = (n->read + n->written) * processor_item((number_type)type) / 4, other = n->flops - n->products;
  double arithmetic = n->products / p->peak[type];
  if (p->peak[TYPE_FP32] > 0) arithmetic += other / p->peak[TYPE_FP32];
  double move = bytes / p->bandwidth;
  *memory += move > arithmetic ? move : 0;
  return fmax(move, arithmetic);
}

static const double three_years = 3 * 365 * 24; /* hours */

void estimate_of(estimate *e, const processor *p, const work *w, const estimate_options *o)
{
  *e = (estimate){.type = type_for(p, o->type), .flops = w->all.flops};
  if (e->type < 0) return;
  number_type type = (number_type)e->type;
  double scale = processor_item(type) / 4, joules = processor_joules(p, type), each = processor_joules_a_byte(p);
  e->bytes = (w->all.read + w->all.written) * scale;
  e->fits = p->capacity <= 0 || w->parameters * scale <= p->capacity;
  for (size_t i = 0; i < w->n; i++) e->time += node_time(&e->memory, p, &w->v[i], e->type);
  e->launch = (double)w->n * launch_of(p, o);
  e->time += e->launch;
  if (joules > 0 && each > 0) e->switching = e->flops * joules + e->bytes * each;
  e->power = p->watts * e->time;
  e->dollars = (o->price > 0 ? o->price : p->dollars / three_years) / 3600 * e->time;
}
