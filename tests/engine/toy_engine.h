// An engine with the fake backend, and its expected answers.
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
  // Waits until nothing runs. Returns whether no KV block is held then.
  bool releases_all_blocks() {
    impl().core.wait_until_idle();
    return engine.stats().kv_blocks_held == 0;
  }

  FakeBackend* backend;  // the engine's
  Engine engine;
};

// Tokens are pieces of text; they need not be whole characters.
std::unique_ptr<TextCodec> make_piece_codec(std::vector<std::string> pieces);

// The answer of `model` to a request, token by token, without an engine.
Response answer_alone(const ToyModel& model, const PreparedRequest& request);

}  // namespace serval::testing
