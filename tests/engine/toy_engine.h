// An engine on the fake backend, and what it must answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/runtime/engine_impl.h"
#include "tests/engine/fake_backend.h"

namespace serval::testing {

struct ToyOptions {
  int32_t vocab_size = 300;
  FakeBackendOptions backend = {};
  std::vector<int32_t> stop_tokens = {};
  std::unique_ptr<TextCodec> text = nullptr;  // null: the byte codec
  PassLoopOptions loop = {};
};

struct ToyEngine {
  ToyEngine(ToyModel model, ToyOptions options);

  Engine::Impl& impl() { return Engine::Impl::of(engine); }
  // Once nothing runs any more, no KV block is held.
  bool all_blocks_come_back() {
    impl().core.wait_until_idle();
    return engine.stats().kv_blocks_held == 0;
  }

  FakeBackend* backend;  // the engine's
  Engine engine;
};

// Tokens that are pieces of text, whole characters or not.
std::unique_ptr<TextCodec> make_piece_codec(std::vector<std::string> pieces);

// What `model` says to a request by itself, token by token, with no engine between.
Response answer_alone(const ToyModel& model, const PreparedRequest& request);

}  // namespace serval::testing
