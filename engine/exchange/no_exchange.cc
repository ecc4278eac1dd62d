// Replaces exchange_timer.cc and rank_streams.cc in a build without CUDA.
#include "engine/exchange/exchange_timer.h"
#include "engine/exchange/rank_streams.h"
#include "vm/base/error.h"

namespace serval {
namespace {

[[noreturn]] void fail() {
  throw Error(ErrorKind::kRuntime, "this build has no GPU interpreter (CMake's option SERVAL_CUDA)");
}

}  // namespace

struct BoundExchange::Impl {};
BoundExchange::BoundExchange(const Program& /*program*/, std::span<const int> /*gpus*/) {
  fail();
}
BoundExchange::~BoundExchange() = default;
double BoundExchange::run_us() {
  fail();
}
std::vector<std::byte> BoundExchange::read(const std::string& /*tensor*/, uint32_t /*rank*/) const {
  fail();
}

ExchangeTimer::ExchangeTimer(std::span<const int> /*gpus*/, int /*repetitions*/) {
  fail();
}
ExchangeTime ExchangeTimer::idle(uint32_t /*rows*/) const {
  fail();
}
ExchangeTime ExchangeTimer::loaded(uint32_t /*rows*/, double /*idle_us*/) const {
  fail();
}

std::unique_ptr<RankStreams> make_rank_streams(std::span<const int> /*gpus*/, uint64_t /*bytes*/) {
  fail();
}

}  // namespace serval
