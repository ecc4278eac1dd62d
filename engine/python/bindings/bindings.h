// The parts of the extension module. Each adds its classes and functions; docstrings are in the package's
// Python files, which are what users see.
#pragma once

#include <chrono>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace serval::python {

// How long a waiting call ignores Ctrl-C.
inline constexpr std::chrono::milliseconds kSignalCheck{50};

void add_error(nanobind::module_& m);
void add_requests(nanobind::module_& m);
void add_engine(nanobind::module_& m);
void add_event_queue(nanobind::module_& m);
void add_program(nanobind::module_& m);
void add_trace(nanobind::module_& m);
void add_weights(nanobind::module_& m);

}  // namespace serval::python
