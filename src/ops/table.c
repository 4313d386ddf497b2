/* table.c: gathers the rows of all families into one numbered table. See table.h.
 *
 * Built-in ops have the numbers of api.gen.h; ops registered at run time follow. Invariant: cni_ops only grows. */
#include "table.h"

#include <cairn/ext/hash.h>
#include <pthread.h>
#include <string.h>

#include "api.gen.h"
#include "base/alloc.h"
#include "families.h"
#include "hot.h"

enum { SLOTS = 2048, MOST = 1024 };

static cni_opinfo *ops[MOST];
cni_opinfo *const *cni_ops = ops;
int cni_nops;
static cni_opinfo *by_name[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

extern const char *const cni_op_names[];
extern const char *const cni_op_docs[];

static size_t slot_of(const char *name)
{
  size_t i = cn_hash(name, strlen(name)) % SLOTS;
  while (by_name[i] && strcmp(by_name[i]->name, name)) i = (i + 1) % SLOTS;
  return i;
}

const cni_opinfo *cni_op_by_name(const char *name) { return by_name[slot_of(name)]; }

const cni_opinfo *cni_op_info(const cn_op *row)
{
  char name[CNI_NAME_MAX];
  size_t n = strcspn(row->sig, "(");
  if (n >= sizeof name) return NULL;
  memcpy(name, row->sig, n);
  name[n] = 0;
  return cni_op_by_name(name);
}

const char *cni_op_doc(const cni_opinfo *info)
{
  if (info->row->doc) return info->row->doc;
  return info->id < CNI_OP_COUNT_BUILTIN ? cni_op_docs[info->id] : "";
}

static void drop(cni_opinfo *info)
{
  if (info->own_row) cni_free((void *)info->row, sizeof *info->row);
  cni_free(info->params, (size_t)info->nparams * sizeof *info->params);
  cni_free(info, sizeof *info);
}

/* The number of a built-in op, whose names are in order; -1: there is none of that name. */
static int builtin_id(const char *name)
{
  int low = 0, high = CNI_OP_COUNT_BUILTIN;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(cni_op_names[middle], name);
    if (!order) return middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return -1;
}

/* Adds a row: under its number when it is built in, else behind all others. */
static int add(const cn_op *row)
{
  cni_opinfo *info = cni_alloc_zero(sizeof *info);
  if (!info) return CN_ERR_MEMORY;
  info->row = row;
  int status = cni_signature_parse(info, row->sig);
  if (!status && cni_op_by_name(info->name))
    status = cni_fail(CN_ERR_VALUE, "op %s: there is one of that name already", info->name);
  int id = builtin_id(info->name);
  if (id < 0) id = cni_nops;
  if (!status && id >= MOST) status = cni_fail(CN_ERR_UNSUPPORTED, "op table: more than %d ops", MOST);
  if (status) {
    drop(info);
    return status;
  }
  info->id = id;
  ops[id] = info;
  by_name[slot_of(info->name)] = info;
  if (id >= cni_nops) cni_nops = id + 1;
  return CN_OK;
}

int cni_table_init(void)
{
  cni_nops = CNI_OP_COUNT_BUILTIN;
  for (const cni_family *f = cni_families; f->rows; f++)
    for (size_t i = 0; i < *f->count; i++) {
      int status = add(&f->rows[i]);
      if (status) return status;
    }
  for (int i = 0; i < CNI_OP_COUNT_BUILTIN; i++)
    if (!ops[i])
      return cni_fail(CN_ERR_INTERNAL, "op %s is in the generated headers but in no family: run tools/opgen.py",
                      cni_op_names[i]);
  return CN_OK;
}

void cni_table_exit(void)
{
  for (int i = 0; i < cni_nops; i++)
    if (ops[i]) drop(ops[i]);
  memset(ops, 0, sizeof ops);
  memset(by_name, 0, sizeof by_name);
  cni_nops = 0;
}

/* A row of another size than ours: what it lacks is zero. */
static int add_copy(const void *row, size_t row_size)
{
  cn_op *copy = cni_alloc_zero(sizeof *copy);
  if (!copy) return CN_ERR_MEMORY;
  memcpy(copy, row, row_size < sizeof *copy ? row_size : sizeof *copy);
  int status = add(copy);
  if (status) cni_free(copy, sizeof *copy);
  else cni_ops[cni_nops - 1]->own_row = true;
  return status;
}

int cn_op_register_rows(const cn_op *rows, size_t n, size_t row_size)
{
  int status = CN_OK;
  if (row_size < offsetof(cn_op, infer)) return cni_fail(CN_ERR_VALUE, "op_register: row_size is not sizeof(cn_op)");
  cni_init();
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < n && !status; i++)
    status = row_size == sizeof *rows ? add(&rows[i]) : add_copy((const char *)rows + i * row_size, row_size);
  pthread_mutex_unlock(&lock);
  return status;
}

const cn_op *cn_op_find(const char *name)
{
  cni_init();
  const cni_opinfo *info = name ? cni_op_by_name(name) : NULL;
  return info ? info->row : NULL;
}
