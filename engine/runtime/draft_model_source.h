// The draft model of an engine (EngineOptions::speculation): finds it, compares it with the model that it
// drafts for, the target, and loads it.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/kv_size.h"
#include "engine/runtime/model_source.h"
#include "engine/text/text_codec.h"

namespace serval {

// Options for the draft model by itself: those of the engine, except for what belongs to the target. Its
// weights are kept in the type of its files.
EngineOptions draft_options(const EngineOptions& options);

// Throws Error(kRuntime), one line with the first difference, unless both have the same tokens: their number,
// and the bytes of each.
void check_same_vocabulary(const Model& draft, const TextCodec& draft_codec, const Model& target,
                           const TextCodec& target_codec);

struct LoadedDraftModel {
  std::unique_ptr<Backend> backend;
  uint64_t weight_bytes, kv_cache_bytes;  // on each GPU, or in the host's memory
};

// Loads it beside the target, onto the same kind of backend, with as many tokens in the KV cache. Throws as
// load_model() does, with "draft model: " before the text, and Error(kUsage) if its programs add differently
// in passes of different sizes.
LoadedDraftModel load_draft_model(const EngineOptions& options, ModelSource source, Backend& target);

}  // namespace serval
