/* hot.h: the mark of files that calls pass through on their way to a kernel. The build compiles the files of src/ops
 * that include it for speed and the others for size: cmake/CairnLibrary.cmake looks for the include.
 *
 * Invariant: a file has the mark because a measurement says so (bench/run --only small). */
#ifndef CNI_OPS_HOT_H
#define CNI_OPS_HOT_H

#endif
