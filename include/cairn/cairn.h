/* cairn.h: all of cairn's public API. */
#ifndef CAIRN_CAIRN_H
#define CAIRN_CAIRN_H

#include "base.h"
#include "tensor.h"
#include "ops.h"
#include "kw.h"
#include "autograd.h"
#include "vmap.h"
#include "graph.h"
#include "compile.h"
#include "control.h"
#include "lists.h"
#include "strings.h"
#include "device.h"
#include "mesh.h"
#include "recording.h"
#include "profile.h"
#include "code.h"
#include "tree.h"
#include "module.h"
#include "nn.h"
#include "optimiser.h"
#include "optimisers.h"
#include "schedules.h"
#include "io.h"
#include "onnx.h"
#include "data.h"
#include "events.h"
#include "train.h"
#include "zoo.h"

#endif
