// Weights in the layout that the ranks of the host interpreter need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/checkpoint/host_buffer.h"
#include "models/checkpoint/weights.h"
#include "models/model.h"
#include "vm/program.h"

namespace serval {

// Whole weights, and parts that consist of whole rows, are used in place, in bf16 or in the e4m3 of the
// checkpoint. A rank's columns are copied, so that its rows are contiguous; bf16 weights that the program has
// in e4m3 are quantised into copies.
// Immutable after construction.
class HostWeights {
 public:
  // Takes the weights in the tensor table of `program`, which must be a program of this model. Throws
  // Error(kOutOfMemory) if the copies do not fit.
  HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model, const Program& program);

  // Row-major, as the tensor describes. The pointer is not const because the handlers' pointer table holds
  // all kinds of tensors; they only read weights.
  uint16_t* of(const Tensor& tensor) const { return places_.at({tensor.name, tensor.device}); }

 private:
  std::shared_ptr<const ModelWeights> weights_;
  HostBuffer copies_;
  std::map<std::pair<std::string, uint32_t>, uint16_t*> places_;  // by name and device
};

}  // namespace serval
