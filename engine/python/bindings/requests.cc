// Requests and their results.
#include <nanobind/ndarray.h>

#include "engine/python/bindings/bindings.h"
#include "serval/engine.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

// A NumPy array of a member of `self`, without a copy: it keeps `self` alive.
template <class T>
using ArrayView = nb::ndarray<nb::numpy, const T, nb::ndim<1>>;
template <class T>
ArrayView<T> view(nb::handle self, const std::vector<T>& values) {
  return {values.data(), {values.size()}, self};
}

void add_sampling(nb::module_& m) {
  nb::class_<SamplingParams>(m, "Sampling")
      .def(nb::init<>())
      .def_rw("temperature", &SamplingParams::temperature)
      .def_rw("top_k", &SamplingParams::top_k)
      .def_rw("top_p", &SamplingParams::top_p)
      .def_rw("min_p", &SamplingParams::min_p)
      .def_rw("repetition_penalty", &SamplingParams::repetition_penalty)
      .def_rw("repeat_last_n", &SamplingParams::repeat_last_n)
      .def_rw("presence_penalty", &SamplingParams::presence_penalty)
      .def_rw("frequency_penalty", &SamplingParams::frequency_penalty)
      .def_rw("seed", &SamplingParams::seed)
      .def_rw("stream", &SamplingParams::stream);
  nb::class_<LogitBias>(m, "LogitBias").def("__init__", [](LogitBias* bias, int32_t token, float value) {
    new (bias) LogitBias{token, value};
  });
  nb::class_<ChatMessage>(m, "ChatMessage")
      .def("__init__", [](ChatMessage* message, std::string role, std::string content, std::string name) {
        new (message) ChatMessage{std::move(role), std::move(content), std::move(name)};
      });
}

void add_request(nb::module_& m) {
  nb::class_<Request>(m, "Request")
      .def(nb::init<>())
      .def_rw("prompt", &Request::prompt)
      .def_rw("special", &Request::special)
      .def_rw("add_special_tokens", &Request::add_special_tokens)
      .def_rw("skip_special_tokens", &Request::skip_special_tokens)
      .def_rw("prompt_ids", &Request::prompt_ids)
      .def_rw("messages", &Request::messages)
      .def_rw("sampling", &Request::sampling)
      .def_rw("max_tokens", &Request::max_tokens)
      .def_rw("stop", &Request::stop)
      .def_rw("stop_token_ids", &Request::stop_token_ids)
      .def_rw("logit_bias", &Request::logit_bias)
      .def_rw("min_tokens", &Request::min_tokens)
      .def_rw("top_logprobs", &Request::top_logprobs)
      .def_rw("prompt_logprobs", &Request::prompt_logprobs)
      .def_rw("prompt_logprobs_from", &Request::prompt_logprobs_from)
      .def_rw("ignore_eos", &Request::ignore_eos)
      .def_rw("json_object", &Request::json_object)
      .def_rw("json_schema", &Request::json_schema)
      .def_rw("n", &Request::n)
      .def_rw("priority", &Request::priority)
      .def_rw("deadline_ms", &Request::deadline_ms)
      .def_rw("dimensions", &Request::dimensions)
      .def_rw("normalize", &Request::normalize)
      .def_rw("reuse_prefix", &Request::reuse_prefix)
      .def_rw("speculative", &Request::speculative);
}

void add_response(nb::module_& m) {
  nb::class_<TopLogprob>(m, "TopLogprob")
      .def_ro("token", &TopLogprob::token)
      .def_ro("log_probability", &TopLogprob::log_probability);
  nb::class_<PromptLogprob>(m, "PromptLogprob")
      .def_ro("token", &PromptLogprob::token)
      .def_ro("log_probability", &PromptLogprob::log_probability)
      .def_ro("top_logprobs", &PromptLogprob::top_logprobs);
  nb::class_<Timings>(m, "Timings")
      .def_ro("load_ms", &Timings::load_ms)
      .def_ro("queue_ms", &Timings::queue_ms)
      .def_ro("prompt_ms", &Timings::prompt_ms)
      .def_ro("decode_ms", &Timings::decode_ms);
  nb::class_<Response>(m, "Response")
      .def_ro("text", &Response::text)
      .def_prop_ro("tokens",
                   [](nb::handle self) { return view(self, nb::cast<const Response&>(self).tokens); })
      .def_prop_ro(
          "log_probabilities",
          [](nb::handle self) { return view(self, nb::cast<const Response&>(self).log_probabilities); })
      .def_ro("top_logprobs", &Response::top_logprobs)
      .def_ro("prompt_logprobs", &Response::prompt_logprobs)
      .def_prop_ro("embedding",
                   [](nb::handle self) { return view(self, nb::cast<const Response&>(self).embedding); })
      .def_ro("prompt_tokens", &Response::prompt_tokens)
      .def_ro("cached_tokens", &Response::cached_tokens)
      .def_prop_ro("finish", [](const Response& r) { return name_of(r.finish); })
      .def_ro("error", &Response::error)
      .def_prop_ro("error_exit_code", [](const Response& r) { return static_cast<int>(r.error_kind); })
      .def_ro("timings", &Response::timings);
}

}  // namespace

void add_requests(nb::module_& m) {
  add_sampling(m);
  add_request(m);
  add_response(m);
}

}  // namespace serval::python
