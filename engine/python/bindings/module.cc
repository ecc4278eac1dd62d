#include "engine/python/bindings/bindings.h"
#include "vm/base/version.h"

NB_MODULE(_serval, m) {
  m.attr("version") = serval::version();
  serval::python::add_error(m);
  serval::python::add_requests(m);
  serval::python::add_engine(m);
  serval::python::add_event_queue(m);
  serval::python::add_program(m);
  serval::python::add_trace(m);
  serval::python::add_weights(m);
}
