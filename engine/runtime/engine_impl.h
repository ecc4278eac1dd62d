// What is behind serval::Engine. The parts come from Engine::load, or from a test.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/batch_decoder.h"
#include "engine/runtime/kv_allocator.h"
#include "engine/runtime/request.h"
#include "engine/runtime/run_mutex.h"
#include "engine/runtime/text_model.h"

namespace serval {

struct EngineParts {
  ModelInfo info;  // context and vocab_size are what requests are checked against
  TextModel text;
  std::unique_ptr<Backend> backend;
  double load_ms = 0;
  uint32_t trace_tokens = 0;  // whose events are kept
};

// Throws Error(kRuntime) with the response's error, if it has one.
Response throw_if_failed(Response response);

struct Engine::Impl {
  explicit Impl(EngineParts from);
  static Engine make(EngineParts parts);
  static Impl& of(Engine& engine) { return *engine.impl_; }

  std::vector<int32_t> encode_chat(std::span<const ChatMessage> messages) const;
  // Throws Error(kUsage) where the request is out of range.
  PreparedRequest prepare(const Request& request) const;
  DecoderContext decoder_context();
  // Runs the requests to their ends, as many at a time as there is room for. on_event gets handles: index
  // + 1.
  std::vector<Response> run_to_end(std::vector<PreparedRequest> requests, uint64_t epoch,
                                   const TokenCallback& on_token);

  const EngineParts parts;
  const ModelLimits limits;
  KvAllocator kv;
  RunMutex run_mutex;
  std::atomic<uint64_t> cancel_epoch{0};
};

}  // namespace serval
