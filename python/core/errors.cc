#include "python/core/errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "offpath/base/error.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

void Translate(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    try {
      const nb::object exception = nb::module_::import_("offpath.errors")
                                       .attr("error_for")(std::string(ErrorCodeName(error.code())),
                                                          std::string(error.message()));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

}  // namespace

void RegisterErrors() { nb::register_exception_translator(&Translate); }

}  // namespace offpath::python
