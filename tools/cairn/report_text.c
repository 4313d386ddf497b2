/* report_text.c: a report as tables and as JSON, and a profile as a trace. See report.h.
 *
 * Invariant: names may hold any characters; the files are well-formed all the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

/* cn_text_putf has no floats. */
static void put_double(cn_text *t, const char *format, double x)
{
  char text[64];
  snprintf(text, sizeof text, format, x);
  cn_text_put(t, text);
}

/* ---- tables ---- */

/* "3.63 G", "25 M" */
static void put_amount(cn_text *t, double x, const char *unit)
{
  static const char *const prefix[] = {"", "k", "M", "G", "T"};
  int k = 0;
  for (; k < 4 && x >= 1000; k++) x /= 1000;
  put_double(t, k && x < 10 ? "%.2f " : k && x < 100 ? "%.1f " : "%.0f ", x);
  cn_text_putf(t, "%s%s", prefix[k], unit);
}

static void put_rate(cn_text *t, double amount, double time)
{
  if (amount > 0 && time > 0) put_double(t, "%9.1f", amount / time / 1e9);
  else cn_text_put(t, "        -");
}

static void put_part(cn_text *t, double part, double whole)
{
  if (part > 0 && whole > 0) put_double(t, "%8.1f%%", 100 * part / whole);
  else cn_text_put(t, "        -");
}

static const char head[] =
    "  calls   time ms   share    GFLOP       MB   FLOP/B  GFLOP/s     GB/s  of peak  of copy  bound\n";

static void put_row(cn_text *t, const report *r, const report_row *row)
{
  put_double(t, "%7.0f", row->calls);
  put_double(t, "%10.3f", row->time * 1e3);
  put_double(t, "%7.1f%%", r->time > 0 ? 100 * row->time / r->time : 0);
  put_double(t, "%9.3f", row->flops / 1e9);
  put_double(t, "%9.2f", row->bytes / 1e6);
  put_double(t, "%9.1f", row->bytes > 0 ? row->flops / row->bytes : 0);
  put_rate(t, row->flops, row->time);
  put_rate(t, row->bytes, row->time);
  put_part(t, row->time > 0 ? row->flops / row->time / 1e9 : 0, r->gflops);
  put_part(t, row->time > 0 ? row->bytes / row->time / 1e9 : 0, r->gbps);
  bool any = row->flops > 0 || row->bytes > 0;
  cn_text_putf(t, "  %s\n", !any ? "-" : report_is_memory_bound(r, row) ? "memory" : "compute");
}

enum { WIDTH = 34 };

static void put_name(cn_text *t, int indent, const char *name)
{
  char text[WIDTH + 1];
  size_t n = strlen(name), room = (size_t)(WIDTH - indent);
  if (n <= room) snprintf(text, sizeof text, "%*s%-*s", indent, "", (int)room, name);
  else snprintf(text, sizeof text, "%*s...%s", indent, "", name + (n - room + 3));
  cn_text_put(t, text);
}

static void put_ops(cn_text *t, const report *r, int most)
{
  double rest = r->time - r->all.time;
  put_name(t, 0, "op");
  cn_text_put(t, head);
  for (size_t i = 0; i < r->ops.n && i < (size_t)most; i++) {
    put_name(t, 0, r->ops.v[i].op);
    put_row(t, r, &r->ops.v[i]);
  }
  if (r->ops.n > (size_t)most) cn_text_putf(t, "and %d more: --rows\n", (int)r->ops.n - most);
  put_name(t, 0, "all");
  put_row(t, r, &r->all);
  put_name(t, 0, "between them");
  put_double(t, "%17.3f", fmax(rest, 0) * 1e3);
  put_double(t, "%7.1f%%\n", r->time > 0 ? 100 * fmax(rest, 0) / r->time : 0);
}

static void put_modules(cn_text *t, const report *r, int depth)
{
  if (!r->modules.n) return;
  cn_text_put(t, "\n");
  put_name(t, 0, "module");
  cn_text_put(t, head);
  for (size_t i = 0; i < r->modules.n; i++) {
    const report_row *row = &r->modules.v[i];
    const char *last = strrchr(row->name, '.');
    if (row->depth > depth) continue;
    put_name(t, row->depth < 10 ? row->depth * 2 : 20, last ? last + 1 : row->name);
    put_row(t, r, row);
  }
}

int report_print(cn_text *t, const report *r, int depth, int most)
{
  cn_text_putf(t, "%s, %s, input ", r->what, r->how);
  cn_text_put_sizes(t, r->shape, r->ndim);
  cn_text_putf(t, ", %d thread%s: ", r->threads, r->threads == 1 ? "" : "s");
  put_double(t, "%.2f ms a run", r->time * 1e3);
  cn_text_putf(t, " (%d of them), ", r->runs);
  put_amount(t, r->all.flops, "FLOP, ");
  put_double(t, "%.1f GFLOP/s\n", r->time > 0 ? r->all.flops / r->time / 1e9 : 0);
  put_double(t, "this machine: %.0f GFLOP/s (float32 product), ", r->gflops);
  put_double(t, "%.1f GB/s (copy); memory is the limit below ", r->gbps);
  put_double(t, "%.1f FLOP/B\n", r->gbps > 0 ? r->gflops / r->gbps : 0);
  cn_text_put(t, "memory: ");
  put_amount(t, (double)r->most, r->planned ? "B for tensors beside the program's own block, "
                                            : "B for tensors of a run at once, ");
  put_amount(t, (double)r->held, "B of the process at most\n\n");
  put_ops(t, r, most);
  put_modules(t, r, depth);
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- JSON ---- */

static void put_string(cn_text *t, const char *s)
{
  cn_text_put(t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') cn_text_putf(t, "\\%c", *s);
    else if ((unsigned char)*s < ' ') cn_text_putf(t, "\\u%04x", (unsigned)(unsigned char)*s);
    else cn_text_putf(t, "%c", *s);
  }
  cn_text_put(t, "\"");
}

static void put_field(cn_text *t, const char *name, double x)
{
  cn_text_putf(t, ", \"%s\": ", name);
  put_double(t, "%.9g", isfinite(x) ? x : 0);
}

static void put_json_rows(cn_text *t, const char *what, const report *r, const report_rows *rows)
{
  cn_text_putf(t, ",\n\"%s\": [", what);
  for (size_t i = 0; i < rows->n; i++) {
    const report_row *row = &rows->v[i];
    cn_text_put(t, i ? ",\n  {\"module\": " : "\n  {\"module\": ");
    put_string(t, row->name);
    cn_text_put(t, ", \"op\": ");
    put_string(t, row->op);
    put_field(t, "calls", row->calls);
    put_field(t, "seconds", row->time);
    put_field(t, "flops", row->flops);
    put_field(t, "bytes", row->bytes);
    put_field(t, "gflops_per_second", row->time > 0 ? row->flops / row->time / 1e9 : 0);
    put_field(t, "gbytes_per_second", row->time > 0 ? row->bytes / row->time / 1e9 : 0);
    put_field(t, "roof_gflops_per_second", report_roof(r, row));
    cn_text_putf(t, ", \"bound\": \"%s\"}", report_is_memory_bound(r, row) ? "memory" : "compute");
  }
  cn_text_put(t, "]");
}

int report_json(cn_text *t, const report *r)
{
  cn_text_put(t, "{\"network\": ");
  put_string(t, r->what);
  cn_text_put(t, ", \"how\": ");
  put_string(t, r->how);
  cn_text_put(t, ", \"input\": [");
  for (size_t i = 0; i < r->ndim; i++) cn_text_putf(t, "%s%lld", i ? ", " : "", (long long)r->shape[i]);
  cn_text_put(t, "]");
  put_field(t, "threads", r->threads);
  put_field(t, "runs", r->runs);
  put_field(t, "seconds", r->time);
  put_field(t, "seconds_in_ops", r->all.time);
  put_field(t, "flops", r->all.flops);
  put_field(t, "bytes", r->all.bytes);
  put_field(t, "machine_gflops_per_second", r->gflops);
  put_field(t, "machine_gbytes_per_second", r->gbps);
  put_field(t, "most_bytes_of_tensors", (double)r->most);
  put_field(t, "most_bytes_of_process", (double)r->held);
  put_json_rows(t, "ops", r, &r->ops);
  put_json_rows(t, "modules", r, &r->modules);
  put_json_rows(t, "layers", r, &r->layers);
  cn_text_put(t, ",\n\"memory\": [");
  for (size_t i = 0; i < r->npoints; i++) {
    put_double(t, i ? ", [%.9g, " : "[%.9g, ", r->memory[i].time);
    cn_text_putf(t, "%lld]", (long long)r->memory[i].held);
  }
  cn_text_put(t, "]}\n");
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- traces, for chrome://tracing and Perfetto ---- */

static void put_event(cn_text *t, const cn_profile_entry *e, double start)
{
  static const char *const kinds[] = {"cpu_op", "cpu_op", "cpu_op", "cpu_op", "cpu_op",
                                      "python_function", "user_annotation"};
  char device[64];
  cn_device_name(device, sizeof device, e->device);
  cn_text_put(t, ",\n{\"ph\": \"X\", \"name\": ");
  put_string(t, e->name);
  cn_text_putf(t, ", \"cat\": \"%s\", \"pid\": \"%s\", \"tid\": %llu", e->timed ? "kernel" : kinds[e->kind],
               e->timed ? device : "host", e->timed ? 0ull : (unsigned long long)e->thread);
  put_field(t, "ts", ((e->timed ? e->device_begin : e->begin) - start) * 1e6);
  put_field(t, "dur", (e->timed ? e->device_end - e->device_begin : e->end - e->begin) * 1e6);
  cn_text_put(t, ", \"args\": {\"Module Hierarchy\": ");
  put_string(t, e->module);
  if (e->shapes) cn_text_putf(t, ", \"Input Dims\": %s", e->shapes);
  if (*e->detail) {
    cn_text_put(t, e->kind == CN_ENTRY_MODULE ? ", \"class\": " : ", \"Implementation\": ");
    put_string(t, e->detail);
  }
  if (e->flops > 0) put_field(t, "flops", e->flops);
  if (e->read + e->written > 0) put_field(t, "bytes read", e->read), put_field(t, "bytes written", e->written);
  cn_text_put(t, "}}");
}

int report_trace(cn_text *t, const cn_profile *p)
{
  cn_profile_entry e = {.size = sizeof e};
  double start = cn_profile_count(p) && !cn_profile_at(&e, p, 0) ? e.begin : 0;
  cn_text_put(t, "{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"ph\": \"M\", \"name\": "
                 "\"process_name\", \"pid\": \"host\", \"tid\": 0, \"args\": {\"name\": \"cairn\"}}");
  for (size_t i = 0; i < cn_profile_count(p); i++) {
    if (cn_profile_at(&e, p, i)) return cn_err();
    put_event(t, &e, start);
  }
  for (size_t i = 0; i < cn_profile_memory_count(p); i++) {
    cn_profile_memory m = {.size = sizeof m};
    char device[64];
    if (cn_profile_memory_at(&m, p, i)) return cn_err();
    cn_text_putf(t, ",\n{\"ph\": \"C\", \"name\": \"memory %s\", \"pid\": \"host\", \"tid\": %llu",
                 cn_device_name(device, sizeof device, m.device), (unsigned long long)m.thread);
    put_field(t, "ts", (m.time - start) * 1e6);
    cn_text_putf(t, ", \"args\": {\"bytes\": %lld}}", (long long)m.total);
  }
  cn_text_put(t, "]}\n");
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}
