#include "profiler/report/savings.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "instructions/isa.h"
#include "profiler/sim/kernel_choice.h"

namespace serval {
namespace {

struct WhatIf {
  std::string change;
  std::vector<std::string> what_ifs;  // arguments of apply_what_if()
};

// Good work on a role or a step may halve its time. Bandwidth grows by less: twice as much is another GPU.
std::vector<WhatIf> machine_changes(const Program& program, const SimLaunch& launch, const SimParameters& p) {
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

// Ops that run as one function of all consumer warps have parameters of their own.
std::vector<WhatIf> op_changes(const Program& program, const SimParameters& parameters) {
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

std::vector<WhatIf> link_changes(const Program& program) {
  if (program.num_devices == 1) return {};
  return {{"the link in half the time", {"link_us=x0.5"}},
          {"twice the link's bandwidth", {"link_gb_per_s=x2"}}};
}

// µs that each change saves. Simulations are independent, and those of several GPUs take seconds, so as many
// run at a time as there are cores, but at most eight, since each needs memory of its own.
std::vector<double> saved_by(const std::vector<WhatIf>& changes, const Program& program,
                             const SimLaunch& launch, const SimParameters& parameters) {
  constexpr size_t kMostAtATime = 8;
  const double before_us = predict_us(program, launch, parameters);
  std::vector<double> saved_us(changes.size());
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex of_failure;
  const auto work = [&] {
    for (size_t i = next++; i < changes.size(); i = next++) {
      try {
        SimParameters changed = parameters;
        for (const std::string& what_if : changes[i].what_ifs) apply_what_if(changed, what_if);
        saved_us[i] = before_us - predict_us(program, launch, changed);
      } catch (...) {
        const std::scoped_lock lock(of_failure);
        failure = std::current_exception();
      }
    }
  };
  {
    const size_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> others;
    for (size_t n = 1; n < std::min({cores, kMostAtATime, changes.size()}); ++n) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return saved_us;
}

}  // namespace

std::vector<Saving> predicted_savings(const Program& program, const SimLaunch& launch,
                                      const SimParameters& parameters, size_t most) {
  constexpr double kNsPerUs = 1e3;
  constexpr double kLeast_us = 0.01;  // smaller savings are noise
  std::vector<WhatIf> changes = machine_changes(program, launch, parameters);
  for (const auto& more : {op_changes(program, parameters), link_changes(program)})
    changes.insert(changes.end(), more.begin(), more.end());
  const std::vector<double> saved_us = saved_by(changes, program, launch, parameters);
  std::vector<Saving> out;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (saved_us[i] >= kLeast_us) out.push_back({changes[i].change, saved_us[i] * kNsPerUs});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Saving& a, const Saving& b) { return a.saved_ns > b.saved_ns; });
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace serval
