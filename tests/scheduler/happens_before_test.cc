#include "scheduler/happens_before.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gtest/gtest.h"

#include "vm/host/random_order.h"

namespace serval::testing {
namespace {

using Instructions = std::set<uint32_t>;

// Implements the definition literally: one run for every threshold, with explicit sets.
class Reference {
 public:
  explicit Reference(const Program& program) : program_(program) {
    for (const Wait& w : program.waits) {
      if (w.threshold != 0) thresholds_[w.counter].insert(w.threshold);
    }
    gate_ = {program.gate_counter, program.counters[program.gate_counter].increments_per_pass, 0};
    thresholds_[gate_.counter].insert(gate_.threshold);
  }

  // Instructions that precede a threshold because of their signals to this counter.
  Instructions certain(const Wait& wait) {
    Instructions out;
    for (const uint32_t t : thresholds_[wait.counter]) {
      if (t <= wait.threshold) out.merge(needed(wait.counter, t));
    }
    return out;
  }
  const Instructions& before(const Wait& wait) {
    const auto [at, is_new] = before_.try_emplace({wait.counter, wait.threshold});
    if (!is_new) return at->second;
    Instructions out = certain(wait);
    for (const uint32_t i : Instructions(out)) {
      for (const Wait& w : program_.waits_of(program_.instructions[i]))
        out.insert(before(w).begin(), before(w).end());
    }
    return at->second = std::move(out);
  }
  const Instructions& before_gate() { return before(gate_); }

 private:
  uint64_t increment(uint32_t instruction, uint32_t counter) const {
    uint64_t sum = 0;
    for (const Signal& s : program_.signals_of(program_.instructions[instruction])) {
      if (s.counter == counter) sum += s.increment;
    }
    return sum;
  }
  // Instructions that can run before any wait for the counter to reach the threshold is over.
  Instructions possible(uint32_t counter, uint32_t threshold) const {
    Instructions out;
    std::vector<uint64_t> count(program_.counters.size(), 0);
    const auto over = [&](const Wait& w) {
      return count[w.counter] >= w.threshold && (w.counter != counter || w.threshold < threshold);
    };
    for (bool moved = true; std::exchange(moved, false);) {
      for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
        const auto waits = program_.waits_of(program_.instructions[i]);
        if (out.contains(i) || !std::all_of(waits.begin(), waits.end(), over)) continue;
        out.insert(i);
        moved = true;
        for (const Signal& s : program_.signals_of(program_.instructions[i])) count[s.counter] += s.increment;
      }
    }
    return out;
  }
  Instructions needed(uint32_t counter, uint32_t threshold) const {
    const Instructions can_run = possible(counter, threshold);
    uint64_t sum = 0;
    for (const uint32_t i : can_run) sum += increment(i, counter);
    Instructions out;
    for (const uint32_t i : can_run) {
      if (sum - increment(i, counter) < threshold) out.insert(i);
    }
    return out;
  }

  const Program& program_;
  std::map<uint32_t, std::set<uint32_t>> thresholds_;  // for each counter
  std::map<std::pair<uint32_t, uint32_t>, Instructions> before_;
  Wait gate_;
};

// Builds a program of waits and signals only, because nothing else affects the order.
class Flow {
 public:
  Flow(uint32_t sms, uint32_t counters) : queues_(sms) {
    program_.machine.sms = sms;
    program_.counters.resize(counters);
  }
  void add(uint32_t sm, std::vector<Wait> waits, std::vector<Signal> signals) {
    Instruction i;
    i.wait_begin = static_cast<uint32_t>(program_.waits.size());
    i.wait_count = static_cast<uint16_t>(waits.size());
    i.signal_begin = static_cast<uint32_t>(program_.signals.size());
    i.signal_count = static_cast<uint16_t>(signals.size());
    program_.waits.insert(program_.waits.end(), waits.begin(), waits.end());
    program_.signals.insert(program_.signals.end(), signals.begin(), signals.end());
    for (const Signal& s : signals) program_.counters[s.counter].increments_per_pass += s.increment;
    queues_[sm].push_back(i);
  }
  // The sum of the signals so far.
  uint32_t count(uint32_t counter) const { return program_.counters[counter].increments_per_pass; }

  Program build(uint32_t gate) {
    program_.gate_counter = gate;
    for (const std::vector<Instruction>& queue : queues_) {
      program_.queue_begin.push_back(static_cast<uint32_t>(program_.instructions.size()));
      program_.instructions.insert(program_.instructions.end(), queue.begin(), queue.end());
    }
    program_.queue_begin.push_back(static_cast<uint32_t>(program_.instructions.size()));
    return program_;
  }

 private:
  Program program_;
  std::vector<std::vector<Instruction>> queues_;
};

// A random program whose waits are reached by earlier signals, so that it never gets stuck.
Program random_flow(uint32_t instructions, uint32_t counters, RandomOrder& random) {
  constexpr uint64_t kMostSms = 3, kMostWaits = 2, kMostSignals = 2, kMostIncrement = 3;
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random.below(limit)); };
  const uint32_t sms = 1 + below(kMostSms);
  Flow flow(sms, counters);
  for (uint32_t i = 0; i < instructions; ++i) {
    std::vector<Wait> waits(below(kMostWaits + 1));
    for (Wait& w : waits) {
      w.counter = below(counters);
      w.threshold = below(flow.count(w.counter) + 1);
      w.operand_mask = below(4);
    }
    std::vector<Signal> signals(below(kMostSignals + 1));
    for (Signal& s : signals) s = {below(counters), below(kMostIncrement + 1)};
    flow.add(below(sms), waits, signals);
  }
  flow.add(0, {}, {{0, 1}});
  return flow.build(0);
}

void expect_as_defined(const Program& program) {
  const HappensBefore hb(program);
  ASSERT_FALSE(hb.stuck());
  Reference reference(program);
  for (uint32_t later = 0; later < program.instructions.size(); ++later) {
    Instructions by_end, by_operand;
    const auto waits = program.waits_of(program.instructions[later]);
    for (size_t w = 0; w < waits.size(); ++w) {
      Instructions before = waits[w].threshold == 0 ? Instructions() : reference.before(waits[w]);
      by_end.insert(before.begin(), before.end());
      if ((waits[w].operand_mask & 1) != 0) by_operand.merge(before);
      const auto certain = hb.certain_before(later, w);
      EXPECT_EQ(Instructions(certain.begin(), certain.end()),
                waits[w].threshold == 0 ? Instructions() : reference.certain(waits[w]));
    }
    for (uint32_t earlier = 0; earlier < program.instructions.size(); ++earlier) {
      EXPECT_EQ(hb.before(earlier, later, std::nullopt), by_end.contains(earlier))
          << earlier << ", " << later;
      EXPECT_EQ(hb.before(earlier, later, 0), by_operand.contains(earlier)) << earlier << ", " << later;
    }
    EXPECT_EQ(hb.before_gate(later, 0), reference.before_gate().contains(later)) << later;
  }
}

TEST(HappensBefore, IsAsDefinedForAnyUseOfCounters) {
  constexpr uint64_t kPrograms = 300;
  for (uint64_t seed = 0; seed < kPrograms && !::testing::Test::HasFailure(); ++seed) {
    RandomOrder random(seed);
    constexpr uint32_t kInstructions = 12;
    SCOPED_TRACE(seed);
    expect_as_defined(random_flow(kInstructions, 1 + static_cast<uint32_t>(random.below(3)), random));
  }
}

TEST(HappensBefore, IsAsDefinedForCountersWithManyThresholds) {
  constexpr uint64_t kPrograms = 12;
  for (uint64_t seed = 0; seed < kPrograms && !::testing::Test::HasFailure(); ++seed) {
    RandomOrder random(seed);
    constexpr uint32_t kInstructions = 120;
    SCOPED_TRACE(seed);
    expect_as_defined(random_flow(kInstructions, 1 + static_cast<uint32_t>(seed % 2), random));
  }
}

// Any two of the three increments bring the counter to 2, so the sum alone makes none of them certain. But
// two of the instructions wait for the first.
TEST(HappensBefore, WhatALowerThresholdNeedsPrecedesAHigherOne) {
  Flow flow(1, 2);
  flow.add(0, {}, {{0, 1}});
  flow.add(0, {{0, 1, 0}}, {{0, 1}});
  flow.add(0, {{0, 1, 0}}, {{0, 1}});
  flow.add(0, {{0, 2, 0}}, {{1, 1}});
  const Program program = flow.build(1);
  const HappensBefore hb(program);
  EXPECT_TRUE(hb.before(0, 3, std::nullopt));
  EXPECT_FALSE(hb.before(1, 3, std::nullopt));
  EXPECT_FALSE(hb.before(2, 3, std::nullopt));
}

// Each instruction waits for all earlier ones, on one counter.
HappensBefore::Effort effort_of_chain(uint32_t length) {
  Flow flow(1, 1);
  for (uint32_t i = 0; i < length; ++i) flow.add(0, {{0, i, 0}}, {{0, 1}});
  const Program program = flow.build(0);
  const HappensBefore hb(program);
  EXPECT_TRUE(hb.before(0, length - 1, std::nullopt));
  EXPECT_TRUE(hb.before_gate(length - 1, 0));
  return hb.effort();
}

TEST(HappensBefore, ThresholdsOnOneCounterTakeWorkAndMemoryInProportion) {
  constexpr uint32_t kLength = 1000, kTimes = 8, kSlack = 2;
  const HappensBefore::Effort once = effort_of_chain(kLength), more = effort_of_chain(kTimes * kLength);
  EXPECT_GT(once.steps, 0U);
  EXPECT_GT(once.bytes, 0U);
  EXPECT_LT(more.steps, kSlack * kTimes * once.steps);
  EXPECT_LT(more.bytes, kSlack * kTimes * once.bytes);
}

}  // namespace
}  // namespace serval::testing
