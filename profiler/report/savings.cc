#include "profiler/report/savings.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <set>
#include <string>

#include "instructions/isa.h"
#include "profiler/sim/kernel_choice.h"

namespace serval {
namespace {

struct WhatIf {
  std::string change;
  std::vector<std::string> what_ifs;  // as apply_what_if() takes them
};

// Half of what a role or a step takes is what good work on it may win; twice the bandwidth is another GPU.
std::vector<WhatIf> of_the_machine(const Program& program, const SimLaunch& launch, const SimParameters& p) {
  constexpr uint32_t kMorePages = 4;
  const double pages = kernel_choice(program, row_bound(launch), p).ring_pages;
  return {
      {"memory bandwidth 10 % higher", {"gb_per_s=x1.1"}},
      {fmt::format("{} pages more", kMorePages), {fmt::format("ring_pages={}", pages + kMorePages)}},
      {"one page more in flight", {fmt::format("pages_in_flight={}", p.pages_in_flight + 1)}},
      {"one page less in flight", {fmt::format("pages_in_flight={}", std::max(1.0, p.pages_in_flight - 1))}},
      {"signals out in half the time", {"signal_us=x0.5", "last_storer_us=x0.5"}},
      {"signals noticed in half the time", {"notice_rounds=x0.5", "notice_us=x0.5", "join_us=x0.5"}},
      {"activations read in half the time", {"read_rounds=x0.5"}},
      {"activations prepared in half the time", {"prepare_us=x0.5", "prepare_us_per_kib=x0.5"}},
      {"pages taken and multiplied in half the time",
       {"take_us=x0.5", "multiply_us=x0.5", "sm_page_us=x0.5"}},
      {"landed pages seen in half the time", {"land_us=x0.5"}},
      {"rows' scales found in half the time", {"scale_us=x0.5"}},
      {"results stored in half the time", {"store_us=x0.5", "next_tile_us=x0.5"}},
      {"records fetched in half the time", {"fetch_us=x0.5"}},
  };
}

// Ops that run as one function of all consumer warps have times of their own.
std::vector<WhatIf> of_the_ops(const Program& program, const SimParameters& parameters) {
  std::set<uint16_t> opcodes;
  for (const Instruction& i : program.instructions) opcodes.insert(i.opcode);
  std::vector<WhatIf> out;
  for (const uint16_t opcode : opcodes) {
    if (opcode >= parameters.ops.size()) continue;
    const std::string op = op_name(opcode);
    out.push_back({op + " in half the time", {op + ".fixed_us=x0.5", op + ".us_per_kib=x0.5"}});
  }
  return out;
}

}  // namespace

std::vector<Saving> predicted_savings(const Program& program, const SimLaunch& launch,
                                      const SimParameters& parameters, size_t most) {
  constexpr double kNsPerUs = 1e3;
  constexpr double kLeast_us = 0.01;  // what is less says nothing
  std::vector<WhatIf> changes = of_the_machine(program, launch, parameters);
  const std::vector<WhatIf> ops = of_the_ops(program, parameters);
  changes.insert(changes.end(), ops.begin(), ops.end());
  const double before_us = predict_us(program, launch, parameters);
  std::vector<Saving> out;
  for (const WhatIf& change : changes) {
    SimParameters changed = parameters;
    for (const std::string& what_if : change.what_ifs) apply_what_if(changed, what_if);
    const double saved_us = before_us - predict_us(program, launch, changed);
    if (saved_us >= kLeast_us) out.push_back({change.change, saved_us * kNsPerUs});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Saving& a, const Saving& b) { return a.saved_ns > b.saved_ns; });
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace serval
