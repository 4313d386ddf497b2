/* processors.h: what processors can do at most, and what a network would take on each by the roofline model.
 *
 * Place in the flow: processors.def has the facts; work.c lists what a network does; compare.c prints both. Invariant:
 * nothing here is measured, and what nobody published is 0. */
#ifndef CAIRN_COMMAND_PROCESSORS_H
#define CAIRN_COMMAND_PROCESSORS_H

#include "work.h"

/* Types of numbers by what units have them; F16 is float16 or bfloat16. */
typedef enum number_type {
  TYPE_FP64, TYPE_FP32, TYPE_TF32, TYPE_F16, TYPE_FP8, TYPE_INT8, TYPE_FP4, TYPES
} number_type;
typedef enum processor_kind { PROCESSOR_CPU, PROCESSOR_GPU, PROCESSOR_TPU } processor_kind;

typedef struct processor {
  const char *name;
  processor_kind kind;
  int year, nanometres, units;
  double clock;              /* Hz */
  const char *memory;
  double capacity, bandwidth; /* bytes, bytes a second */
  double watts, dollars;
  double peak[TYPES];         /* operations a second */
  number_type counted;        /* the type that per_clock is of */
  double per_clock;           /* operations of a unit */
  const char *source;
} processor;

extern const char *const processor_kinds[], *const processor_types[TYPES]; /* names */
const processor *processor_at(size_t i); /* NULL past the last */
/* Has its name `part` in it, whatever the case of letters? The first that has; NULL: none. */
bool processor_matches(const processor *p, const char *part);
const processor *processor_find(const char *part);
/* -1: there is no such type. */
int processor_type(const char *name);
double processor_item(number_type type); /* bytes */

/* Energy of an operation (half a multiply and add), and of a byte from memory; 0: unknown. */
double processor_joules(const processor *p, number_type type);
double processor_joules_a_byte(const processor *p);

typedef struct estimate_options {
  int type;      /* a number_type; -1: 16 bits where the processor has them, or float32, or int8 */
  double launch; /* seconds before each op; negative: what is usual for the kind */
  double price;  /* dollars an hour; 0: the launch price over three years */
} estimate_options;

typedef struct estimate {
  int type;                   /* -1: the processor cannot */
  double flops, bytes;
  double time, memory, launch; /* seconds; in which memory is the limit; before ops */
  double switching, power;    /* joules: of operations and bytes; of the design power all the time. 0: unknown */
  double dollars;             /* of one run; 0: unknown */
  bool fits;                  /* the weights, in its memory; where nobody knows its size: true */
} estimate;

/* Of one run: each node takes what the slower of arithmetic and memory takes. */
void estimate_of(estimate *e, const processor *p, const work *w, const estimate_options *o);

#endif
