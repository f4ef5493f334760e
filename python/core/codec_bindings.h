// Row quantization in offpath._core.
#pragma once

#include <nanobind/nanobind.h>

namespace offpath::python {

void BindCodec(nanobind::module_& m);

}  // namespace offpath::python
