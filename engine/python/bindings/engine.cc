// The engine: options, loading, blocking runs.
#include "serval/engine.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/python/bindings/bindings.h"
#include "engine/python/bindings/process_engine.h"
#include "engine/runtime/answers.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

// Collects the answers of several requests on the engine's thread, without Python's lock.
class Answers {
 public:
  explicit Answers(const std::vector<Request>& requests) {
    for (const Request& request : requests) {
      responses_.emplace_back(static_cast<size_t>(request.n));
      left_ += static_cast<size_t>(request.n);
    }
  }
  void add(size_t request, const RequestEvent& event) {
    const std::lock_guard lock(mutex_);
    add_event(responses_[request][event.answer], event);
    if (event.kind == RequestEvent::Kind::kToken) return;
    --left_;
    changed_.notify_one();
  }
  // Number of answers that are not complete, after a change or kSignalCheck.
  size_t wait() {
    std::unique_lock lock(mutex_);
    if (left_ > 0) changed_.wait_for(lock, kSignalCheck);
    return left_;
  }
  std::vector<std::vector<Response>> take() { return std::move(responses_); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Response>> responses_;
  size_t left_ = 0;
};

std::vector<RequestHandle> submit_all(Engine& engine, const std::vector<Request>& requests,
                                      const std::shared_ptr<Answers>& answers) {
  std::vector<RequestHandle> handles;
  for (size_t i = 0; i < requests.size(); ++i)
    handles.push_back(
        engine.submit(requests[i], [answers, i](const RequestEvent& e) { answers->add(i, e); }));
  return handles;
}

// Runs the requests to their ends. on_change(left), or None, is called as answers end. Ctrl-C raises
// KeyboardInterrupt; this and an exception of on_change cancel the requests.
std::vector<std::vector<Response>> run(const ProcessEngine& engine, const std::vector<Request>& requests,
                                       const nb::object& on_change) {
  const ProcessEngine::Call call(engine);
  const auto answers = std::make_shared<Answers>(requests);
  std::vector<RequestHandle> handles;
  {
    const nb::gil_scoped_release release;
    handles = submit_all(*engine.get(), requests, answers);
  }
  size_t left = 0, reported = 0;
  do {
    {
      const nb::gil_scoped_release release;
      left = answers->wait();
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!on_change.is_none() && left != reported) on_change(left);
    reported = left;
  } while (left > 0);
  return answers->take();
}

void add_speculation(nb::module_& m) {
  nb::class_<Speculation>(m, "Speculation")
      .def(nb::init<>())
      .def_prop_rw(
          "method", [](const Speculation& s) { return speculation_name(s.method); },
          [](Speculation& s, const std::string& name) { s.method = speculation_named(name); })
      .def_rw("model", &Speculation::model)
      .def_rw("draft_p_min", &Speculation::draft_p_min)
      .def_rw("draft_max", &Speculation::draft_max)
      .def_rw("draft_min", &Speculation::draft_min)
      .def_rw("ngram_min", &Speculation::ngram_min)
      .def_rw("ngram_max", &Speculation::ngram_max)
      .def_rw("accept_rate", &Speculation::accept_rate);
}

void add_options(nb::module_& m) {
  nb::class_<EngineOptions>(m, "EngineOptions")
      .def(nb::init<>())
      .def_rw("model", &EngineOptions::model)
      .def_rw("random_weights", &EngineOptions::random_weights)
      .def_rw("allow_nonfinite", &EngineOptions::allow_nonfinite)
      .def_rw("weights", &EngineOptions::weights)
      .def_rw("lm_head", &EngineOptions::lm_head)
      .def_rw("activations", &EngineOptions::activations)
      .def_rw("embeddings", &EngineOptions::embeddings)
      .def_rw("pooling", &EngineOptions::pooling)
      .def_rw("context", &EngineOptions::context)
      .def_rw("max_sequences", &EngineOptions::max_sequences)
      .def_rw("kv_cache_memory", &EngineOptions::kv_cache_memory)
      .def_rw("kv_cache_share", &EngineOptions::kv_cache_share)
      .def_rw("max_batch_tokens", &EngineOptions::max_batch_tokens)
      .def_rw("batch_invariant", &EngineOptions::batch_invariant)
      .def_rw("backend", &EngineOptions::backend)
      .def_rw("threads", &EngineOptions::threads)
      .def_rw("sms", &EngineOptions::sms)
      .def_rw("gpus", &EngineOptions::gpus)
      .def_rw("speculation", &EngineOptions::speculation)
      .def_rw("policy", &EngineOptions::policy)
      .def_rw("global_queue", &EngineOptions::global_queue)
      .def_rw("chat_template", &EngineOptions::chat_template)
      .def_rw("interleaving", &EngineOptions::interleaving)
      .def_rw("checked", &EngineOptions::checked)
      .def_rw("program", &EngineOptions::program)
      .def_rw("stall_timeout_s", &EngineOptions::stall_timeout_s)
      .def_rw("fault_at_launch", &EngineOptions::fault_at_launch)
      .def_rw("trace_tokens", &EngineOptions::trace_tokens)
      .def("check", [](const EngineOptions& options) { check_options(options); });
}

void add_info(nb::module_& m) {
  nb::class_<ModelInfo>(m, "ModelInfo")
      .def_ro("name", &ModelInfo::name)
      .def_ro("backend", &ModelInfo::backend)
      .def_ro("backend_notice", &ModelInfo::backend_notice)
      .def_ro("hidden_size", &ModelInfo::hidden_size)
      .def_ro("intermediate_size", &ModelInfo::intermediate_size)
      .def_ro("num_layers", &ModelInfo::num_layers)
      .def_ro("num_heads", &ModelInfo::num_heads)
      .def_ro("num_kv_heads", &ModelInfo::num_kv_heads)
      .def_ro("head_dim", &ModelInfo::head_dim)
      .def_ro("vocab_size", &ModelInfo::vocab_size)
      .def_ro("context", &ModelInfo::context)
      .def_ro("max_sequences", &ModelInfo::max_sequences)
      .def_ro("kv_cache_tokens", &ModelInfo::kv_cache_tokens)
      .def_ro("num_parameters", &ModelInfo::num_parameters)
      .def_ro("weight_bytes_per_token", &ModelInfo::weight_bytes_per_token)
      .def_ro("kv_bytes_per_token", &ModelInfo::kv_bytes_per_token)
      .def_ro("pooling", &ModelInfo::pooling)
      .def_ro("normalizes", &ModelInfo::normalizes)
      .def_ro("draft_model", &ModelInfo::draft_model)
      .def_ro("draft_weight_bytes", &ModelInfo::draft_weight_bytes)
      .def_ro("draft_kv_cache_bytes", &ModelInfo::draft_kv_cache_bytes)
      .def_ro("policy", &ModelInfo::policy)
      .def_ro("gpus", &ModelInfo::gpus)
      .def_ro("sms", &ModelInfo::sms)
      .def_ro("instructions", &ModelInfo::instructions)
      .def_ro("chat_template", &ModelInfo::chat_template)
      .def_ro("chat_template_text", &ModelInfo::chat_template_text)
      .def_ro("bos_token", &ModelInfo::bos_token)
      .def_ro("eos_token", &ModelInfo::eos_token)
      .def_ro("model_sampling", &ModelInfo::model_sampling);
  nb::class_<DraftStats>(m, "DraftStats")
      .def_ro("passes", &DraftStats::passes)
      .def_ro("drafted", &DraftStats::drafted)
      .def_ro("accepted", &DraftStats::accepted)
      .def_ro("ms", &DraftStats::ms)
      .def_prop_ro("accepted_at", [](const DraftStats& d) {
        return std::vector<uint64_t>(std::begin(d.accepted_at), std::end(d.accepted_at));
      });
  nb::class_<EngineStats>(m, "EngineStats")
      .def_ro("running", &EngineStats::running)
      .def_ro("waiting", &EngineStats::waiting)
      .def_ro("kv_blocks", &EngineStats::kv_blocks)
      .def_ro("kv_blocks_held", &EngineStats::kv_blocks_held)
      .def_ro("kv_blocks_kept", &EngineStats::kv_blocks_kept)
      .def_ro("finished", &EngineStats::finished)
      .def_ro("preemptions", &EngineStats::preemptions)
      .def_ro("prompt_tokens", &EngineStats::prompt_tokens)
      .def_ro("cached_tokens", &EngineStats::cached_tokens)
      .def_ro("generated_tokens", &EngineStats::generated_tokens)
      .def_ro("drafts", &EngineStats::drafts)
      .def_ro("passes", &EngineStats::passes)
      .def_ro("launches", &EngineStats::launches)
      .def_ro("rows", &EngineStats::rows)
      .def_ro("pass_ms", &EngineStats::pass_ms)
      .def_ro("kernel_ms", &EngineStats::kernel_ms);
}

}  // namespace

void add_engine(nb::module_& m) {
  using NoLock = nb::call_guard<nb::gil_scoped_release>;
  add_speculation(m);
  add_options(m);
  add_info(m);
  nb::class_<ProcessEngine>(m, "Engine", nb::is_weak_referenceable())
      .def(nb::init<const EngineOptions&>(), NoLock())
      .def("info", [](const ProcessEngine& e) { return e.get()->info(); })
      .def("stats", [](const ProcessEngine& e) { return e.get()->stats(); })
      .def("tokenize",
           [](const ProcessEngine& e, const std::string& text, bool special, bool add_special_tokens) {
             return e.get()->tokenize(text, {.special = special, .add_special_tokens = add_special_tokens});
           })
      .def("detokenize", [](const ProcessEngine& e, const std::vector<int32_t>& ids,
                            bool special) { return e.get()->detokenize(ids, special); })
      .def("tokenize_chat",
           [](const ProcessEngine& e, const std::vector<ChatMessage>& messages, bool add_generation_prompt) {
             return e.get()->tokenize_chat(messages, {.add_generation_prompt = add_generation_prompt,
                                                      .continue_final_message = !add_generation_prompt});
           })
      .def(
          "write_trace",
          [](const ProcessEngine& e, const std::string& path, int tokens) {
            e.get()->write_trace(path, tokens);
          },
          NoLock())
      .def_prop_ro("has_calls", &ProcessEngine::has_calls)
      .def("cancel", [](const ProcessEngine& e) { e.get()->cancel(); })
      .def("close", &ProcessEngine::close, NoLock());
  m.def("run", &run, nb::arg("engine"), nb::arg("requests"), nb::arg("on_change").none());
  m.def("bundled_model", [] { return bundled_model_directory().string(); });
}

}  // namespace serval::python
