#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "python/core/graph_bindings.h"

namespace nb = nanobind;

namespace offpath::python {

Progress ProgressOf(nb::object callable) {
  // The copy that a C++ thread drops last must not touch reference counts without the GIL.
  const std::shared_ptr<nb::object> held(new nb::object(std::move(callable)), [](nb::object* o) {
    const nb::gil_scoped_acquire gil;
    delete o;
  });
  return [held](std::string_view stage, uint64_t done, uint64_t total) {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!held->is_none()) (*held)(std::string(stage), done, total);
  };
}

}  // namespace offpath::python
