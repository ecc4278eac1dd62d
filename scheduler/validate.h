// Proves that a program may run: in any state within its limits, with any timing of SMs and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vm/program.h"

namespace serval {

// What a valid program keeps. Each has tests named after a counterexample.
enum class Rule : uint8_t {
  kStructure,  // every index in the file's tables is in range and increments add up (vm/program.h)
  kOperands,   // every record's operands fit the tensors they name
  kDevice,     // records name tensors of their own device, and write others only where they push
  kScope,      // a counter lies on the device that waits for it, and its scope covers those that signal it
  kProgress,   // every wait is satisfied in the end: no deadlock under the order of the queues
  kPages,      // every instruction can get the pages it needs
  kRace,       // of two accesses to a region, one a write, one is certainly first: across passes, too
  kStale,  // what lives within a pass, and a pass's tokens in a cache, is certainly written before it is read
  // What an instruction reads of a tensor is of one computation (scheduler/values.h), for all rows and
  // columns, and a pass writes its tokens to a cache once: so what a row gets does not depend on its
  // neighbours, on how a prompt is cut into passes, or on what passes there were before.
  kValue,
  // When the gate opens, on any device, the pass is over on all of them, so epochs cannot mix; one
  // instruction ends a launch, and every device goes by its decision.
  kGate,
  kModel,  // of a program of a model: it computes that model's graph (models/program_proof.h)
};
const char* name_of(Rule rule);

struct Violation {
  Rule rule;
  std::string message;  // one line: the rule, instructions, tensor region and counter concerned
  std::vector<uint32_t> instructions;  // indices into Program::instructions
  std::string explanation;             // several lines, for `validate --explain`
};

// The first violation found, of all rules but kModel's, none if the program is valid. No size limit; a
// compiled program takes 2 to 4 ms per thousand instructions. Thread-safe. Any bytes that deserialise()
// accepts may be passed.
std::optional<Violation> validate(const Program& program);

// Throws Error(kRuntime) with the violation's line. The engine calls it before it binds any program.
void require_valid(const Program& program);

}  // namespace serval
