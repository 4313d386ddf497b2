/* ops_json.c: one op as a JSON object, for bindings and documentation; the pieces serve `cairn classes` too.
 *
 * Invariant: everything here comes from the op's row; nothing is known by name. */
#include <stdio.h>

#include "command.h"
#include "ops.h"

void json_string(const char *s)
{
  putchar('"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') printf("\\%c", *s);
    else if (*s == '\n') printf("\\n");
    else if ((unsigned char)*s < 0x20) printf("\\u%04x", (unsigned)*s);
    else putchar(*s);
  }
  putchar('"');
}

static void number(double f)
{
  if (f - f == 0) printf("%.17g", f);
  else json_string(f > 0 ? "inf" : f < 0 ? "-inf" : "nan");
}

static void value(const cn_value *v)
{
  switch ((cn_value_tag)v->tag) {
  case CN_V_INT: printf("%lld", (long long)v->u.i); break;
  case CN_V_BOOL: printf(v->u.i ? "true" : "false"); break;
  case CN_V_FLOAT: number(v->u.f); break;
  case CN_V_STR: json_string(v->u.s); break;
  case CN_V_INTS:
    putchar('[');
    for (int i = 0; i < v->n; i++) printf("%s%lld", i ? ", " : "", (long long)v->u.is[i]);
    putchar(']');
    break;
  case CN_V_FLOATS:
    putchar('[');
    for (int i = 0; i < v->n; i++) {
      if (i) printf(", ");
      number(v->u.fs[i]);
    }
    putchar(']');
    break;
  default: printf("null");
  }
}

static void flag(const char *name, bool on) { printf(", \"%s\": %s", name, on ? "true" : "false"); }

static void names(const char *what, const char *const *list, int n)
{
  printf(", \"%s\": [", what);
  for (int i = 0; i < n; i++) {
    if (i) printf(", ");
    json_string(list[i]);
  }
  printf("]");
}

void json_parameter(const cn_op_param *p)
{
  printf("\n    {\"name\": ");
  json_string(p->name);
  printf(", \"type\": ");
  json_string(p->type);
  if (p->default_text) {
    printf(", \"default\": ");
    value(&p->default_value);
  }
  flag("number", p->number);
  flag("optional", p->optional);
  flag("keyword_only", p->keyword_only);
  printf("}");
}

static void parameters(const cn_op_info *info)
{
  printf(",\n  \"parameters\": [");
  for (int i = 0; i < info->nparams; i++) {
    if (i) printf(",");
    json_parameter(&info->params[i]);
  }
  printf("]");
}

static void dtypes(uint32_t bits)
{
  printf(",\n  \"dtypes\": ");
  const char *before = "[";
  for (int d = 1; d < CN_DTYPE_COUNT; d++)
    if (bits >> d & 1) {
      printf("%s", before);
      json_string(cn_dtype_name((cn_dtype)d));
      before = ", ";
    }
  printf(bits ? "]" : "null");
}

static void kernels(const cn_op *op)
{
  const char *backend;
  printf(",\n  \"kernels\": {");
  for (int b = 0; (backend = command_backend(b)); b++) {
    const char *names[OPS_KERNELS];
    size_t n = cn_op_kernels(names, OPS_KERNELS, op, backend);
    if (b) printf(", ");
    json_string(backend);
    printf(": [");
    for (size_t k = 0; k < n && k < OPS_KERNELS; k++) {
      if (k) printf(", ");
      json_string(names[k]);
    }
    printf("]");
  }
  printf("}");
}

void ops_json(const cn_op_info *info, const cn_op *op)
{
  printf(" {\"name\": ");
  json_string(info->name);
  printf(", \"namespace\": ");
  json_string(info->space);
  printf(", \"overload\": ");
  json_string(info->overload);
  names("aliases", info->aliases, info->naliases);
  printf(", \"kind\": ");
  json_string(ops_kind(info->kind));
  printf(",\n  \"signature\": ");
  json_string(info->sig);
  printf(",\n  \"doc\": ");
  json_string(info->doc);
  printf(",\n  \"gradient\": %s", info->gradient ? "true" : "false");
  flag("random", info->random);
  flag("method", info->method);
  flag("inplace", info->inplace);
  flag("internal", info->internal);
  flag("numbers", info->numbers);
  parameters(info);
  names("results", info->results, info->nresults);
  flag("list_result", info->list_result);
  dtypes(ops_dtypes(info, op));
  kernels(op);
  printf("}");
}
