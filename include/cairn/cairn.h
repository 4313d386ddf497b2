/* cairn.h: all of cairn's public API. */
#ifndef CAIRN_CAIRN_H
#define CAIRN_CAIRN_H

#include "base.h"
#include "tensor.h"
#include "ops.h"
#include "kw.h"
#include "autograd.h"
#include "graph.h"
#include "device.h"

#endif
