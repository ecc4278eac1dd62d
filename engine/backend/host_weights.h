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
#include "models/ranks.h"
#include "vm/program.h"

namespace serval {

// Whole weights, and parts that consist of whole rows, are used in place, in bf16 or in the codes of the
// checkpoint. A rank's columns are copied, so that its rows are contiguous; bf16 weights that the program has
// in codes are quantised into copies. Only replace() changes them.
class HostWeights {
 public:
  // Takes the weights in the tensor table of `program`, which must be a program of this model. Throws
  // Error(kOutOfMemory) if the copies do not fit.
  HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model, const Program& program);

  // Row-major, as the tensor describes. The pointer is not const because the handlers' pointer table holds
  // all kinds of tensors; they only read weights.
  uint16_t* of(const Tensor& tensor) const { return places_.at({tensor.name, tensor.device}).at; }

  // Replaces the weights that the source has. Returns whether of() has changed for any tensor. Throws
  // Error(kOutOfMemory), before anything has changed, if the new weights do not fit.
  bool replace(const WeightSource& source);

 private:
  using Key = std::pair<std::string, uint32_t>;        // name and device of a tensor
  using Matrices = std::map<std::string, HostBuffer>;  // whole matrices by source name
  // A rank's part of a weight.
  struct Place {
    std::string source_name;
    DType dtype;
    WeightPart part;
    bool is_copy;  // in copies_ or codes_; else in a whole matrix
    uint16_t* at;

    // True if it has the codes of the checkpoint.
    bool has_stored_codes() const { return !is_copy && has_codes(dtype); }
  };

  Matrix new_matrix(const WeightSource& source, size_t tensor, Matrices& added) const;
  bool is_used_whole(const std::string& source_name) const;

  std::shared_ptr<const ModelWeights> weights_;  // null once all of them have been replaced
  Matrices replaced_;                            // which have replaced those of weights_
  HostBuffer copies_;
  std::map<Key, HostBuffer> codes_;  // which have replaced a checkpoint's own
  std::map<Key, Place> places_;
};

}  // namespace serval
