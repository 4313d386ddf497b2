/* cairn.hpp: cairn in C++17, header-only on top of the C library.
 *
 *     c++ -std=c++17 program.cpp $(pkg-config --cflags --libs cairn)
 *
 * Everything stands in namespace cn. Handles (tensors, modules, optimisers, data sets) are values: they free
 * themselves, and a copy is one more reference. What fails throws cn::Error. docs/CPP.md shows it beside PyTorch's
 * C++ API. */
#ifndef CAIRN_CAIRN_HPP
#define CAIRN_CAIRN_HPP

#include <cairn/autograd.hpp>
#include <cairn/compile.hpp>
#include <cairn/control.hpp>
#include <cairn/data.hpp>
#include <cairn/description.hpp>
#include <cairn/events.hpp>
#include <cairn/graph.hpp>
#include <cairn/io.hpp>
#include <cairn/lists.hpp>
#include <cairn/module.hpp>
#include <cairn/names.hpp>
#include <cairn/onnx.hpp>
#include <cairn/optim.hpp>
#include <cairn/recording.hpp>
#include <cairn/system.hpp>
#include <cairn/tensor.hpp>
#include <cairn/train.hpp>
#include <cairn/zoo.hpp>

#endif
