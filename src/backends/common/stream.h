/* stream.h: the stream of each device that a thread's work goes into. See stream.c. */
#ifndef CNI_COMMON_STREAM_H
#define CNI_COMMON_STREAM_H

#include <cairn/base.h>

/* The backend's handle of the stream that this thread uses on a device; NULL: the device's own. */
void *cni_stream_in_use(cn_device device);
void cni_streams_forget(cn_state *state); /* a thread ends */

#endif
