/* ext/signature.h: arguments that a signature describes, for whatever is made by name: modules, optimisers, rate
 * schedules, and a program's own.
 *
 * A signature is written as those of ops are (ext/op.h), with a word for what it makes behind the arrow:
 * "Dropout(float p=0.5, bool inplace=False) -> Module ; dropout". Besides an op's types it may have Module, float[N],
 * and int[N]|str, for which numbers or a text may be given.
 */
#ifndef CAIRN_EXT_SIGNATURE_H
#define CAIRN_EXT_SIGNATURE_H

#include "op.h"

CN_BEGIN_DECLS

typedef struct cn_signature cn_signature;
CN_API CN_MUST_USE cn_signature *cn_signature_parse(const char *text); /* owned; NULL with the error set */
CN_API void cn_signature_free(cn_signature *signature);
CN_API const char *cn_signature_name(const cn_signature *signature); /* "Dropout" */
CN_API const char *cn_signature_result(const cn_signature *signature); /* "Module" */
CN_API int cn_signature_size(const cn_signature *signature);          /* how many parameters */
CN_API int cn_signature_param(cn_op_param *param, const cn_signature *signature, int i);
CN_API int cn_signature_find(const cn_signature *signature, const char *name); /* its number; -1: none of that name */

/* Arguments: one value for each parameter, checked, with defaults filled in; lists and texts are copied, tensors kept,
 * modules only pointed to. The signature must outlive them. */
typedef struct cn_args cn_args;
/* given[i] is for parameter i; those missing at the end get their defaults, and CN_V_NONE stands for the default where
 * the parameter cannot be None. Owned. */
CN_API CN_MUST_USE cn_args *cn_args_new(const cn_signature *signature, const cn_value *given, size_t n);
CN_API CN_MUST_USE cn_args *cn_args_copy(const cn_args *args);
CN_API void cn_args_free(cn_args *args);
CN_API const cn_signature *cn_args_signature(const cn_args *args);
CN_API const cn_value *cn_args_values(const cn_args *args); /* one per parameter */
CN_API const cn_value *cn_args_get(const cn_args *args, const char *name); /* NULL: no such parameter */
CN_API uint64_t cn_args_hash(const cn_args *args, const char *without); /* of all values but this one's (may be NULL) */
/* Replaces one value, checked as at the beginning, by making the arguments anew. */
CN_API int cn_args_set(cn_args **args, const char *name, cn_value value);

/* For functions with an options struct: what opts says, in a struct of this library's size (an older or newer program's
 * has another): room, filled from it; all zero for NULL. NULL with the error set where it has options that this library
 * does not know, or one without a name. */
CN_API const void *cn_opts_read(void *room, size_t room_size, const void *opts, const char *who);

CN_END_DECLS
#endif
