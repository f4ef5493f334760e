#include "python/core/errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "offpath/base/error.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

void Translate(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    try {
      // Names of files and bytes of damaged ones need not be UTF-8.
      const std::string_view message = error.message();
      const auto text = nb::steal<nb::object>(PyUnicode_DecodeUTF8(
          message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
      if (!text.is_valid()) nb::raise_python_error();
      const nb::object exception =
          nb::module_::import_("offpath.errors")
              .attr("error_for")(std::string(ErrorCodeName(error.code())), text);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

}  // namespace

void RegisterErrors() { nb::register_exception_translator(&Translate); }

}  // namespace offpath::python
