#include "engine/core/sampling_parameters.h"

#include <type_traits>

namespace serval {
namespace {

template <class T>
using Field = SamplingParameter::Field<T>;

using namespace sampling_range;

constexpr SamplingParameter kParameters[] = {
    {kTemperature, Field<float>{&SamplingParams::temperature, &SequenceSlot::temperature}, "--temp",
     "temperature, 0 to 100; 0: always the likeliest token"},
    {kTopK, Field<int>{&SamplingParams::top_k, &SequenceSlot::top_k}, "--top-k",
     "keep the N likeliest tokens; 0: all"},
    {kTopP, Field<float>{&SamplingParams::top_p, &SequenceSlot::top_p}, "--top-p",
     "keep the likeliest tokens that make up X of the probability; 1: all"},
    {kMinP, Field<float>{&SamplingParams::min_p, &SequenceSlot::min_p}, "--min-p",
     "drop tokens less likely than X times the likeliest; 0: none"},
    {kRepetitionPenalty, Field<float>{&SamplingParams::repetition_penalty, &SequenceSlot::repetition_penalty},
     "--repeat-penalty", "makes the last tokens less likely, prompt included; 1: off"},
    {kRepeatLastN, Field<int>{&SamplingParams::repeat_last_n, &SequenceSlot::repeat_last_n},
     "--repeat-last-n", "tokens that --repeat-penalty looks at; 0: none, -1: all"},
    {kPresencePenalty, Field<float>{&SamplingParams::presence_penalty, &SequenceSlot::presence_penalty},
     "--presence-penalty", "subtracted from the logits of tokens that the answer has, -2 to 2; 0: off"},
    {kFrequencyPenalty, Field<float>{&SamplingParams::frequency_penalty, &SequenceSlot::frequency_penalty},
     "--frequency-penalty", "the same for each time that it has them; 0: off"},
};

}  // namespace

std::span<const SamplingParameter> sampling_parameters() {
  return kParameters;
}

double SamplingParameter::of(const SamplingParams& params) const {
  return std::visit([&](const auto& f) { return static_cast<double>(params.*f.asked); }, field);
}

void SamplingParameter::set(SamplingParams& params, double value) const {
  std::visit(
      [&](const auto& f) {
        params.*f.asked = static_cast<std::remove_reference_t<decltype(params.*f.asked)>>(value);
      },
      field);
}

void SamplingParameter::copy(const SamplingParams& params, SequenceSlot& slot) const {
  std::visit([&](const auto& f) { slot.*f.in_slot = params.*f.asked; }, field);
}

}  // namespace serval
