// Many requests of all kinds at once with the bundled model: each gets what it gets alone.
#include <memory>
#include <string>
#include <utility>

#include "engine/backend/host_backend.h"
#include "engine/runtime/engine_impl.h"
#include "engine/runtime/load_model.h"
#include "tests/engine/host_requests.h"
#include "tests/sample.h"

namespace serval::testing {
namespace {

TEST_F(HostRequests, GetTheSameBitsAsAlone) {
  prepare(sampled(300), engine(2, 2));
  run(engine(2, 7));
  EXPECT_GT(stats().cached_tokens, 0U);
  EXPECT_GT(stats().preemptions, 0U) << "of " << stats().kv_blocks << " blocks";
  EXPECT_GT(ends(Finish::kCancelled), 0U);
  EXPECT_GT(ends(Finish::kDeadline), 0U);
}

TEST_F(HostRequests, GetTheirBitsInSpiteOfPreemptions) {
  prepare(8, engine(2, 2), make_answers_long);
  run(engine(2, 2));
  EXPECT_GT(stats().preemptions, 0U) << "each grows to four blocks, and there are " << stats().kv_blocks;
}

TEST_F(HostRequests, GetTheirBitsWithAnyNumberOfThreadsAndSms) {
  prepare(30, engine(2, 2));
  for (const auto& [threads, sms] : {std::pair{1, 1}, {1, 7}, {2, 1}}) {
    SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(sms) + " SMs");
    run(engine(threads, sms, 48));
  }
}

TEST_F(HostRequests, GetTheirBitsOnTwoRanks) {
  EngineOptions options = options_of(2, 2, 64);
  options.gpus = {0, 1};
  prepare(24, engine(options));
  options.sms = 5;
  run(engine(options));
}

TEST_F(HostRequests, GetTheirBitsInAnyInterleavingOfInstructions) {
  prepare(12, engine(2, 2));
  EngineOptions options = options_of(1, 7, 48);
  options.interleaving = 3;
  run(engine(options));
}

// With programs of both arithmetic classes, as on a GPU.
class RequestsInTwoClasses : public HostRequests {
 protected:
  static LoadEngine engine(bool batch_invariant, uint32_t sms) {
    return [=](const Size& size) {
      BackendOptions options;
      options.limits = {.context = kContext,
                        .sequences = static_cast<uint32_t>(size.sequences),
                        .rows = 64,
                        .cache_blocks = size.kv_blocks,
                        .tile_rows = 32,
                        .batch_invariant = batch_invariant};
      options.row_classes = {kDefaultRows, 48};
      options.sms = sms;
      const ModelSource source = find_model("");
      EngineParts parts;
      parts.info.context = kContext;
      parts.info.vocab_size = source.model->vocab_size;
      parts.text = load_text_model(source, "", /*random_weights=*/false);
      parts.backend = make_host_backend(*source.model, Weights({}, source).on_host(), options);
      parts.loop.max_sequences = options.limits.sequences;
      return Engine::Impl::make(std::move(parts));
    };
  }
};

TEST_F(RequestsInTwoClasses, GetTheirBitsIfBatchInvariant) {
  prepare(sampled(300), engine(true, 2));
  run(engine(true, 7));
  EXPECT_GT(stats().cached_tokens, 0U);
  EXPECT_GT(stats().preemptions, 0U) << "of " << stats().kv_blocks << " blocks";
  EXPECT_GT(ends(Finish::kCancelled), 0U);
}

TEST_F(RequestsInTwoClasses, GetTheirBitsInSpiteOfPreemptions) {
  prepare(8, engine(true, 2), make_answers_long);
  run(engine(true, 2));
  EXPECT_GT(stats().preemptions, 0U) << "each grows to four blocks, and there are " << stats().kv_blocks;
}

TEST_F(RequestsInTwoClasses, DependOnTheBatchOtherwise) {
  prepare(30, engine(false, 2));
  EXPECT_NE(first_difference(engine(false, 2)), "");
}

}  // namespace
}  // namespace serval::testing
