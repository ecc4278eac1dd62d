#include "models/llama/rope_table.h"

#include <cmath>

namespace serval {

std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions) {
  const std::vector<float> frequencies = rope_inverse_frequencies(config);
  const size_t pairs = frequencies.size();
  std::vector<float> table(size_t{positions} * pairs * 2);
  for (uint32_t p = 0; p < positions; ++p) {
    float* row = table.data() + size_t{p} * pairs * 2;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<float>(p) * frequencies[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace serval
