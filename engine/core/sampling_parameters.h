// The numbers of SamplingParams, one line each: their flags and their fields. Checks, flags, a model's
// recommendations and slots are made from this table. A new parameter is a field of SamplingParams, a range
// (instructions/sample/ranges.h), a field of SequenceSlot and a line here; the samplers of the host and of
// the GPU implement it.
#pragma once

#include <span>
#include <variant>

#include "engine/include/serval/engine.h"
#include "instructions/sample/ranges.h"
#include "vm/state/slots.h"

namespace serval {

struct SamplingParameter {
  // Two fields of the same type.
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

// In the order of the help text.
std::span<const SamplingParameter> sampling_parameters();

}  // namespace serval
