// The attention engine in offpath._core.
#pragma once

#include <nanobind/nanobind.h>

namespace offpath::python {

void BindKvCache(nanobind::module_& m);
void BindSelection(nanobind::module_& m);
void BindPrediction(nanobind::module_& m);
void BindDecoder(nanobind::module_& m);

}  // namespace offpath::python
