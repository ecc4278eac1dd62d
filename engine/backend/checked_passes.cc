#include "engine/backend/checked_passes.h"

#include <utility>

#include "fmt/format.h"

#include "instructions/checked_isa.h"
#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval {

StateView CheckedPasses::view(const Pass& pass) const {
  return {pass.rows.data(), pass.block_table.data(), blocks_for_tokens(program_.limits.max_context),
          reinterpret_cast<const AttentionList*>(pass.attention.data())};
}

void CheckedPasses::check(const StateBlock& state) {
  previous_ = std::exchange(current_, {});
  current_.rows.assign(state.rows.begin(), state.rows.end());
  current_.block_table.assign(state.block_table.begin(), state.block_table.end());
  const auto* list = reinterpret_cast<const uint32_t*>(&state.attention);
  const uint64_t words = attention_list_bytes(program_.limits.rows) / sizeof(uint32_t);
  current_.attention.assign(list, list + words);
  std::vector<StateView> states;
  if (passes_ > 0) states.push_back(view(previous_));
  states.push_back(view(current_));
  CheckedOptions options;
  options.seed = seed_ + passes_;
  options.passes = static_cast<uint32_t>(states.size());
  options.states = states;
  if (const auto found = run_checked(program_, checked_isa(), options)) {
    throw Error(ErrorKind::kRuntime, fmt::format("checked: pass {} of the run: {}", passes_, *found));
  }
  ++passes_;
}

}  // namespace serval
