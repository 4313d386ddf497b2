/* graph_file.c: graphs as safetensors files: the states are its tensors, the text of the graph is metadata.
 *
 * Place in the flow: cn_graph_save -> lift.c -> text_form.c -> safetensors.c, and back through parse.c; what was lifted
 * is lowered when a plan is made (lower.c). Invariant: a graph that was loaded has passed the verifier and has all its
 * states. */
#include <cairn/ext/graph.h>
#include <cairn/io.h>
#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"
#define TEXT_KEY "cairn.graph"
#define FORMAT_KEY "cairn.graph.format" /* rises when a library that knows the former one would misread a file */
#define PARTS_KEY "cairn.graph.parts" /* ops in it that are parts of others: "sdpa_backward mm_bias@2" */
enum { KEY_ROOM = 32 };

/* ---- writing ---- */

static int put_str(cn_tree *dict, const char *key, const char *value)
{
  return cn_tree_put(dict, key, cn_tree_str(value));
}

/* Does the list have this name already? */
static bool listed(const cn_text *names, const char *name)
{
  size_t n = strlen(name);
  for (const char *at = names->s; at && (at = strstr(at, name)); at += n)
    if ((at == names->s || at[-1] == ' ') && (!at[n] || strchr(" @", at[n]))) return true;
  return false;
}

/* The ops of the graph, and of those that its nodes hold, that no program calls by itself. */
static void note_parts(cn_text *names, const cn_graph *g)
{
  for (int i = 0; i < (int)cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    cn_op_info info;
    if (cn_graph_node_at(&n, g, i)) return;
    for (int k = 0; k < n.nsubs; k++) note_parts(names, n.subs[k]);
    if (n.nsubs) continue;
    if (cn_op_describe(&info, n.op)) return;
    if (!info.internal || listed(names, n.name)) continue;
    cn_text_putf(names, "%s%s", names->n ? " " : "", n.name);
    if (n.op->version > 1) cn_text_putf(names, "@%u", (unsigned)n.op->version);
  }
}

/* Each once, with its version where that is not 1. */
static int put_parts(cn_tree *metadata, const cn_graph *g)
{
  cn_text names = {0};
  note_parts(&names, g);
  int status = cn_err() ? cn_err() : names.failed ? CN_ERR_MEMORY : CN_OK;
  if (!status && names.n) status = put_str(metadata, PARTS_KEY, names.s);
  cn_text_free(&names);
  return status;
}

static int put_metadata(cn_tree *tree, const cn_graph *g)
{
  char *text = cn_graph_to_string(g);
  cn_tree *metadata = text ? cn_tree_dict() : NULL;
  cn_text number = {0};
  cn_text_putf(&number, "%d", cn_graph_format(g));
  int status = metadata ? CN_OK : cn_err() ? cn_err() : CN_ERR_MEMORY;
  if (!status) status = put_str(metadata, FORMAT_KEY, number.s ? number.s : "");
  if (!status) status = put_str(metadata, "cairn.version", cn_version());
  if (!status) status = put_parts(metadata, g);
  if (!status) status = put_str(metadata, TEXT_KEY, text);
  cn_text_free(&number);
  cn_string_free(text);
  if (!status) return cn_tree_put(tree, METADATA, metadata);
  cn_tree_free(metadata);
  return status;
}

static int save_lifted(const cn_graph *g, const char *path)
{
  cn_tree *tree = cn_tree_dict();
  if (!tree) return cn_err();
  int status = put_metadata(tree, g);
  for (size_t i = 0; i < cn_graph_states(g) && !status; i++) {
    char room[KEY_ROOM];
    status = cn_tree_put(tree, cn_graph_state_key(g, i, room, sizeof room), cn_tree_tensor(cn_graph_state(g, i)));
  }
  if (!status) status = cn_save_as(path, tree, CN_FORMAT_SAFETENSORS);
  cn_tree_free(tree);
  return status;
}

int cn_graph_save(const cn_graph *g, const char *path)
{
  if (cn_err()) return cn_err();
  if (!g) return cn_err_set(CN_ERR_TYPE, "graph_save: the graph is NULL");
  int status = cn_graph_can_save(g);
  cn_graph *lifted = status ? NULL : cn_graph_copy(g);
  if (!lifted) return cn_err();
  status = cn_graph_lift(lifted, NULL, NULL);
  if (status >= 0) status = save_lifted(lifted, path);
  cn_graph_free(lifted);
  return status;
}

/* ---- reading ---- */

static int check_format(const cn_tree *metadata)
{
  const char *format = cn_tree_as_str(cn_tree_get(metadata, FORMAT_KEY), "");
  char *end;
  long number = strtol(format, &end, 10);
  if (end == format || *end || number < 1)
    return cn_err_set(CN_ERR_IO, "graph_load: the file's %s is missing or no number", FORMAT_KEY);
  if (number <= CN_GRAPH_FORMAT) return CN_OK;
  return cn_err_set(CN_ERR_IO, "graph_load: the file is of format %ld, and this library reads up to %d: a newer "
                    "library wrote it", number, CN_GRAPH_FORMAT);
}

static int bind_all(cn_graph *g, const cn_tree *tree)
{
  int status = CN_OK;
  for (size_t i = 0; i < cn_graph_states(g) && !status; i++) {
    char room[KEY_ROOM];
    const char *key = cn_graph_state_key(g, i, room, sizeof room);
    cn_tensor *t = cn_tree_as_tensor(cn_tree_get(tree, key));
    cn_scope *s = cn_scope_begin();
    status = t ? cn_graph_bind_loaded(g, i, cn_tensor_sole(t)) /* the file was mapped for them */
               : cn_err_set(CN_ERR_IO, "graph_load: the file has no tensor '%.100s'", key);
    cn_scope_end(s);
  }
  return status;
}

/* Ends the tree. */
static cn_graph *from_tree(cn_tree *tree)
{
  if (!tree) return NULL;
  const cn_tree *metadata = cn_tree_get(tree, METADATA);
  const char *text = cn_tree_as_str(cn_tree_get(metadata, TEXT_KEY), NULL);
  cn_graph *g = NULL;
  if (!text) cn_err_set(CN_ERR_IO, "graph_load: the file holds no graph");
  else if (!check_format(metadata)) g = cn_graph_parse(text);
  if (g && bind_all(g, tree)) {
    cn_graph_free(g);
    g = NULL;
  }
  cn_tree_free(tree);
  return g;
}

cn_graph *cn_graph_load(const char *path) { return cn_err() ? NULL : from_tree(cn_load(path)); }

cn_graph *cn_graph_load_memory(const void *bytes, size_t size)
{
  return cn_err() ? NULL : from_tree(cn_load_memory(bytes, size));
}
