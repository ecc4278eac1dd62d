// The numbers of SamplingParams, one line each: how the command line calls them and where they go. Checks,
// flags, a model's recommendations and slots are made from this table. A new parameter is a field of
// SamplingParams, a range (instructions/sample/ranges.h), a field of SequenceSlot and a line here; what it
// means is the sampler's, on the host and on the GPU.
#pragma once

#include <span>
#include <variant>

#include "engine/include/serval/engine.h"
#include "instructions/sample/ranges.h"
#include "vm/state/slots.h"

namespace serval {

struct SamplingParameter {
  // A field of the same type on both sides.
  template <class T>
  struct Field {
    T SamplingParams::*asked;
    T SequenceSlot::*in_slot;
  };

  const SamplingRange& range;
  std::variant<Field<float>, Field<int>> field;
  const char* flag;
  const char* help;  // without the default

  double of(const SamplingParams& params) const;
  void set(SamplingParams& params, double value) const;  // within the range
  void copy(const SamplingParams& params, SequenceSlot& slot) const;
};

// In the order of the help.
std::span<const SamplingParameter> sampling_parameters();

}  // namespace serval
