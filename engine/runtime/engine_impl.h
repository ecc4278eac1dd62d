// What is behind serval::Engine. The parts come from Engine::load, or from a test.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/core.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/text_model.h"

namespace serval {

struct EngineParts {
  ModelInfo info;  // context and vocab_size are what requests are checked against
  TextModel text;
  std::unique_ptr<Backend> backend;
  double load_ms = 0;
  uint32_t trace_tokens = 0;  // whose events are kept
  PassLoopOptions loop = {};
};

struct Engine::Impl {
  explicit Impl(EngineParts from);
  static Engine make(EngineParts parts);
  static Impl& of(Engine& engine) { return *engine.impl_; }

  std::vector<int32_t> encode_chat(std::span<const ChatMessage> messages) const;
  // Throws Error(kUsage) where the request is out of range.
  PreparedRequest prepare(const Request& request) const;
  // The same for several; the error line begins with "requests[3]: ".
  std::vector<PreparedRequest> prepare(std::span<const Request> requests) const;
  // One whose answer goes to a single response.
  PreparedRequest prepare_single(const Request& request) const;

  const EngineParts parts;
  const ModelLimits limits;
  Core core;  // the last member: its thread uses the others
};

}  // namespace serval
