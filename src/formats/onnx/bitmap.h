/* bitmap.h: pictures in files without compression. Internal. */
#ifndef CNI_ONNX_BITMAP_H
#define CNI_ONNX_BITMAP_H

#include <cairn/cairn.h>

/* (height, width, 3) uint8 of a BMP (8, 24 or 32 bits) or a PNM (P1 to P6); NULL without an error where it is another
 * file, with one where it is damaged. Borrowed from the scope. */
cn_tensor *cni_onnx_bitmap(const unsigned char *bytes, size_t size);

#endif
