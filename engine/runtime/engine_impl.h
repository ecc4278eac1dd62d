// The implementation of serval::Engine. Its parts come from Engine::load, or from a test.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/core.h"
#include "engine/grammar/constraints.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/text_model.h"
#include "engine/text/shown_tokens.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "models/pooling.h"

namespace serval {

struct EngineParts {
  ModelInfo info;  // requests are checked against context and vocab_size
  TextModel text;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Backend> draft_backend;  // of PassLoopOptions::draft_model; may be null
  double load_ms = 0;
  uint32_t trace_tokens = 0;  // tokens whose events are kept
  PassLoopOptions loop = {};
  // For weights that are replaced; null: they cannot be.
  std::shared_ptr<const Model> model = nullptr;
  NotFinite not_finite = NotFinite::kRefused;
  std::optional<PoolingConfig> pooling = {};  // of engines for embeddings
};

struct Engine::Impl {
  explicit Impl(EngineParts from);
  static Engine make(EngineParts parts);
  static Impl& of(Engine& engine) { return *engine.impl_; }

  std::vector<int32_t> encode_chat(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  std::vector<int32_t> prompt_of(const Request& request) const;
  // Throws Error(kUsage) if the request is out of range.
  PreparedRequest prepare(const Request& request);
  // Prepares several requests; the error line begins with "requests[3]: ".
  std::vector<PreparedRequest> prepare(std::span<const Request> requests);
  // A request with a single answer.
  PreparedRequest prepare_single(const Request& request);
  std::vector<std::vector<int32_t>> bad_words_of(const Request& request) const;
  // The constraint on the request's text; null: none. Throws Error(kUsage) for a format that is not
  // supported.
  std::shared_ptr<grammar::Constraint> constraint_of(const Request& request);
  // The limit of the request's reasoning, if it has one. Throws as constraint_of().
  std::optional<grammar::ReasoningLimit> reasoning_limit_of(const Request& request);
  // Markers that are control tokens and belong to the request's text.
  std::vector<ShownToken> shown_tokens_of(const Request& request) const;

  const EngineParts parts;
  const ModelLimits limits;
  grammar::Constraints constraints;
  Core core;  // the last member: its thread uses the others
};

}  // namespace serval
