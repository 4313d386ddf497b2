/* code.h: kernels of a program's own, in the language of a device: CUDA C++ on CUDA.
 *
 * A text is compiled once, for the device at hand (the machine code is kept on disk), and its kernels are launched in
 * order with the device's other work, on memory of tensors (cn_desc_of(t)->data). Launches can be recorded
 * (cairn/recording.h); compiled functions cannot hold them. */
#ifndef CAIRN_CODE_H
#define CAIRN_CODE_H

#include "base.h"
#include "ext/backend.h"

CN_BEGIN_DECLS

typedef struct cn_code cn_code;

/* The kernel `entry`, declared extern "C", of a text; owned. options: the compiler's, separated by spaces; NULL: none.
 * NULL with the error set, which has the compiler's words. */
CN_API CN_MUST_USE cn_code *cn_code_new(cn_device device, const char *text, const char *entry, const char *options);
CN_API void cn_code_free(cn_code *code); /* launches that are queued still run */
/* Queues one launch in the stream in use. arguments: the address of each of the kernel's, in order, each of the type
 * that the kernel declares (a pointer for a tensor's memory); read before this returns. */
CN_API int cn_code_run(cn_code *code, const cn_code_launch *launch, void *const *arguments);

CN_END_DECLS
#endif
