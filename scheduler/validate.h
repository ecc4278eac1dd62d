// Proves that a program is safe to run in any state within its limits, with any timing of SMs and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vm/program.h"

namespace serval {

// Rules that a valid program keeps. Each has tests named after a counterexample.
enum class Rule : uint8_t {
  kStructure,  // every index in the program's tables is in range and increments add up (vm/program.h)
  kOperands,   // every record's operands fit the tensors that they name
  kDevice,     // records name tensors of their own device, and write to others only by pushing
  kScope,  // a counter lies on the device that waits for it, and its scope covers the devices that signal it
  kProgress,  // every wait ends: no deadlock under the order of the queues
  kPages,     // every instruction can get the pages that it needs
  kRace,      // of two accesses to a region, at least one a write, one is certainly first, also across passes
  kStale,     // data of a pass, and its tokens in a cache, are certainly written before they are read
  // All rows and columns of a tensor that an instruction reads come from one computation
  // (scheduler/values.h), and a pass writes its tokens to a cache once. So a row's results do not depend on
  // its neighbours, on how a prompt is cut into passes, or on earlier passes.
  kValue,
  // When the gate opens on any device, the pass is over on all devices, so epochs cannot mix. One instruction
  // ends a launch, and every device follows its decision.
  kGate,
  kModel,  // a model's program computes that model's graph (models/program_proof.h)
};
const char* name_of(Rule rule);

struct Violation {
  Rule rule;
  std::string message;  // one line: the rule, instructions, tensor region and counter concerned
  std::vector<uint32_t> instructions;  // indices into Program::instructions
  std::string explanation;             // several lines, for `validate --explain`
};

// Returns the first violation found of any rule except kModel; none if the program is valid. Any program that
// deserialise() returns may be passed, of any size. A compiled program takes 2 to 4 ms per thousand
// instructions. Thread-safe.
std::optional<Violation> validate(const Program& program);

// Throws Error(kRuntime) with the violation's line. The engine calls it before it binds any program.
void require_valid(const Program& program);

}  // namespace serval
