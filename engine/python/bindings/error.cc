#include "vm/base/error.h"

#include "engine/python/bindings/bindings.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

// Raises serval.Error(message, exit_code), which the package defines in Python.
void raise(const Error& error) {
  const nb::object type = nb::module_::import_("serval._errors").attr("Error");
  const nb::object value = type(error.what(), error.exit_code());
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void add_error(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace serval::python
