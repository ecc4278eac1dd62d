// Events of requests for an event loop: one thread of Python takes them, several at a time.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/python/bindings/bindings.h"
#include "engine/python/bindings/process_engine.h"
#include "engine/runtime/answers.h"
#include "serval/engine.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

struct Event {
  uint64_t request = 0;
  uint32_t answer = 0;
  std::string text;                       // that the token completes
  int32_t token = -1;                     // -1: none
  std::optional<Response> response = {};  // the whole answer, with its last event
};

// The engine's thread adds, another thread takes. Thread-safe.
class EventQueue {
 public:
  void add(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }
  // All events since the last call; waits for one. None: closed.
  std::vector<Event> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !events_.empty(); });
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  bool closed_ = false;
};

RequestHandle submit(const ProcessEngine& engine, const Request& request,
                     const std::shared_ptr<EventQueue>& queue, uint64_t id) {
  auto responses = std::make_shared<std::vector<Response>>(static_cast<size_t>(request.n));
  return engine.get()->submit(request, [queue, responses, id](const RequestEvent& e) {
    Response& response = (*responses)[e.answer];
    add_event(response, e);
    Event event{.request = id, .answer = e.answer, .text = {}};
    if (e.kind == RequestEvent::Kind::kToken)
      event.text = e.token.text, event.token = e.token.token;
    else
      event.response = std::move(response);
    queue->add(std::move(event));
  });
}

}  // namespace

void add_event_queue(nb::module_& m) {
  nb::class_<Event>(m, "Event")
      .def_ro("request", &Event::request)
      .def_ro("answer", &Event::answer)
      .def_ro("text", &Event::text)
      .def_ro("token", &Event::token)
      .def_prop_ro(
          "response", [](Event& event) { return event.response ? &*event.response : nullptr; },
          nb::rv_policy::reference_internal);
  nb::class_<EventQueue>(m, "EventQueue")
      .def(nb::init<>())
      .def("close", &EventQueue::close)
      .def("take", &EventQueue::take, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<RequestHandle>(m, "RequestHandle").def("cancel", &RequestHandle::cancel);
  m.def("submit", &submit, nb::arg("engine"), nb::arg("request"), nb::arg("queue"), nb::arg("id"),
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace serval::python
