/* tree.h: what state is made of: nested lists and dictionaries of numbers, text and tensors.
 *
 * The state of a module, an optimiser or a loader is a tree, in the shape that PyTorch's state_dict has; files of
 * weights and checkpoints hold trees. Dictionaries keep their order, and their keys are text or whole numbers.
 *
 * A tree is owned by whoever made it, or by the list or dictionary it was put into. Functions that read are safe on
 * NULL, so that a path through absent keys reads as absent.
 */
#ifndef CAIRN_TREE_H
#define CAIRN_TREE_H

#include "tensor.h"

CN_BEGIN_DECLS

typedef enum cn_tree_kind {
  CN_TREE_NONE,
  CN_TREE_BOOL,
  CN_TREE_INT,
  CN_TREE_FLOAT,
  CN_TREE_STR,
  CN_TREE_TENSOR,
  CN_TREE_LIST,
  CN_TREE_TUPLE, /* a list that its maker calls a tuple: Python tells them apart */
  CN_TREE_DICT
} cn_tree_kind;

typedef struct cn_tree cn_tree;

/* ---- making; owned, NULL with the error set ---- */
CN_API CN_MUST_USE cn_tree *cn_tree_none(void);
CN_API CN_MUST_USE cn_tree *cn_tree_bool(bool value);
CN_API CN_MUST_USE cn_tree *cn_tree_int(int64_t value);
CN_API CN_MUST_USE cn_tree *cn_tree_float(double value);
CN_API CN_MUST_USE cn_tree *cn_tree_str(const char *value); /* copied */
CN_API CN_MUST_USE cn_tree *cn_tree_str_bytes(const char *value, size_t size); /* may hold zeros */
CN_API CN_MUST_USE cn_tree *cn_tree_tensor(cn_tensor *value); /* keeps a reference; a NULL value fails */
CN_API CN_MUST_USE cn_tree *cn_tree_list(void);
CN_API CN_MUST_USE cn_tree *cn_tree_tuple(void);
CN_API CN_MUST_USE cn_tree *cn_tree_dict(void);
CN_API void cn_tree_free(cn_tree *tree); /* with all below it; NULL is fine */
/* A copy of lists and dictionaries; tensors are shared, or cloned too when `deep`. */
CN_API CN_MUST_USE cn_tree *cn_tree_copy(const cn_tree *tree, bool deep);

/* These take `value` over, also when they fail; a NULL value (its making failed) fails. */
CN_API int cn_tree_push(cn_tree *list, cn_tree *value);
CN_API int cn_tree_put(cn_tree *dict, const char *key, cn_tree *value); /* replaces what the key had */
CN_API int cn_tree_put_index(cn_tree *dict, int64_t key, cn_tree *value);
/* A dictionary that its maker calls an OrderedDict, as state dictionaries are: Python tells them apart. */
CN_API void cn_tree_set_ordered(cn_tree *dict, bool on);
CN_API bool cn_tree_is_ordered(const cn_tree *tree);

/* ---- reading ---- */
CN_API cn_tree_kind cn_tree_kind_of(const cn_tree *tree); /* CN_TREE_NONE for NULL */
CN_API size_t cn_tree_size(const cn_tree *tree);          /* of a list, tuple or dictionary; 0 for others */
CN_API cn_tree *cn_tree_at(const cn_tree *tree, size_t i); /* its i-th value, borrowed; NULL past the end */
CN_API cn_tree *cn_tree_get(const cn_tree *dict, const char *key); /* borrowed; NULL when it has no such key */
CN_API cn_tree *cn_tree_get_index(const cn_tree *dict, int64_t key);              /* borrowed */
/* The i-th key of a dictionary: its text, or NULL where it is a number, which goes to *index (may be NULL). */
CN_API const char *cn_tree_key(const cn_tree *dict, size_t i, int64_t *index);
/* Values, with what to return when the tree is NULL or of another kind. Numbers convert where nothing is lost. */
CN_API bool cn_tree_as_bool(const cn_tree *tree, bool otherwise);
CN_API int64_t cn_tree_as_int(const cn_tree *tree, int64_t otherwise);
CN_API double cn_tree_as_float(const cn_tree *tree, double otherwise);
CN_API const char *cn_tree_as_str(const cn_tree *tree, const char *otherwise); /* borrowed */
CN_API size_t cn_tree_str_size(const cn_tree *tree);
CN_API cn_tensor *cn_tree_as_tensor(const cn_tree *tree); /* borrowed; NULL when it is none */

/* ---- JSON ---- */
/* As JSON text; a tensor in it is an error. indent: spaces a level; 0 puts it on one line. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_tree_to_json(const cn_tree *tree, int indent);
/* Reads one JSON value and nothing behind it. Owned; NULL with an error that names the place. */
CN_API CN_MUST_USE cn_tree *cn_tree_from_json(const char *text, size_t size);

CN_END_DECLS
#endif
