// Traces: reports, comparisons, pages.
#include "profiler/trace/trace.h"

#include <array>

#include "engine/python/bindings/bindings.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/html/html.h"
#include "profiler/report/diff.h"
#include "profiler/report/report.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

std::string page_of(const Trace& trace, const std::string& name) {
  const Report report = report_of(trace);
  const std::array<HtmlTrace, 1> traces = {HtmlTrace{name, trace, report}};
  return to_html(traces);
}

}  // namespace

void add_trace(nb::module_& m) {
  using NoLock = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Trace>(m, "Trace")
      .def_ro("metadata", &Trace::metadata)
      .def_prop_ro("source",
                   [](const Trace& t) { return kTraceSourceNames.at(static_cast<size_t>(t.source)); })
      .def_prop_ro("tokens", [](const Trace& t) { return t.windows.size(); })
      .def_prop_ro("executions", [](const Trace& t) { return t.executions.size(); })
      .def(
          "report_text", [](const Trace& t) { return to_text(report_of(t)); }, NoLock())
      .def(
          "report_json", [](const Trace& t) { return to_json(report_of(t)); }, NoLock())
      .def(
          "diff_text",
          [](const Trace& before, const Trace& after) {
            return to_text(diff_of(report_of(before), report_of(after)));
          },
          NoLock())
      .def(
          "diff_json",
          [](const Trace& before, const Trace& after) {
            return to_json(diff_of(report_of(before), report_of(after)));
          },
          NoLock())
      .def("html", &page_of, NoLock())
      .def(
          "save", [](const Trace& t, const std::string& path) { write_trace(t, path); }, NoLock());
  m.def(
      "read_trace", [](const std::string& path) { return read_trace(path); }, NoLock());
}

}  // namespace serval::python
