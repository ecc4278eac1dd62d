// The weights as the host interpreter's ranks want them.
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

// Whole weights and whole rows of them lie where the checkpoint's do; a rank's columns are copied, so that
// its rows are neighbours. Immutable once made.
class HostWeights {
 public:
  // Of the weights in the program's tensor table, which is of this model. Throws Error(kOutOfMemory) where
  // the copies do not fit.
  HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model, const Program& program);

  // Row-major, as the tensor says. Handlers only read it; their table of pointers is one for all kinds.
  uint16_t* of(const Tensor& tensor) const { return places_.at({tensor.name, tensor.device}); }

 private:
  std::shared_ptr<const ModelWeights> weights_;
  HostBuffer copies_;
  std::map<std::pair<std::string, uint32_t>, uint16_t*> places_;  // by name and device
};

}  // namespace serval
