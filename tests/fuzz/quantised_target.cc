// Fuzzes the readers of quantised matrices: of the object "quantization_config" and, after a NUL, of the file
// that has the tensors of one matrix, without the length of its header.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/quantised/matrix_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/safetensors_input.h"
#include "vm/base/json_file.h"
#include "vm/layout/weight_rows.h"

namespace serval::fuzz {
namespace {

namespace fs = std::filesystem;

const WeightSpec kSpec = {.name = "model.layers.0.mlp.up_proj.weight", .rows = 16, .cols = 64};

// A directory for the file, which is read by its path; in memory if the system has such a place.
class Folder {
 public:
  Folder() {
    std::error_code ignored;
    const fs::path parent = fs::exists("/dev/shm", ignored) ? "/dev/shm" : fs::temp_directory_path();
    path_ = parent / ("serval-fuzz-" + std::to_string(getpid()));
    fs::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  void write(const std::string& file) const {
    std::ofstream(path_ / "model.safetensors", std::ios::binary) << file;
  }

 private:
  fs::path path_;
};

void read_kept_rows(const QuantisedMatrix& matrix, const std::vector<float>& values) {
  for (const DType dtype : {DType::kE4M3, DType::kInt4G32, DType::kInt4G64, DType::kInt4G128}) {
    if (!matrix.keeps_codes_in(dtype)) continue;
    const auto row_bytes = static_cast<size_t>(bytes_of_weights(dtype, 1, kSpec.cols));
    std::vector<uint8_t> rows(static_cast<size_t>(kSpec.rows) * row_bytes);
    if (is_int4(dtype)) {
      matrix.read_int4_rows(dtype, 0, kSpec.rows, rows.data());
    } else {
      matrix.read_e4m3_rows(0, kSpec.rows, rows.data());
    }
    first_not_finite_code(dtype, rows.data(), kSpec.rows, kSpec.cols);
    if (is_int4(dtype)) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto width = static_cast<size_t>(kSpec.cols);
      const float kept = value_in_row(dtype, rows.data() + i / width * row_bytes, width, i % width);
      require(kept == values[i] || (std::isnan(kept) && std::isnan(values[i])), "kept codes have the values");
    }
  }
}

void read_matrix(const QuantisedMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(kSpec.elements()));
  std::vector<uint16_t> bf16(values.size());
  matrix.read(0, kSpec.rows, 0, kSpec.cols, values.data());
  matrix.read_elements(3, kSpec.elements() - 3, bf16.data());
  require(!matrix.blamed_for(kSpec.rows - 1, kSpec.cols - 1).empty(), "a tensor is to blame");
  require(!matrix.codes.bytes_of_rows(1, 2).empty(), "rows have bytes");
  read_kept_rows(matrix, values);
}

void read_input(std::string_view config, std::string_view file) {
  static const Folder folder;
  folder.write(with_length(file));
  accepts([&] {
    const nlohmann::json document = {
        {"quantization_config", parse_json_text(config, "config.json: quantization_config")}};
    const auto quantisation = read_quantisation(JsonFields(document, "config.json"));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    const auto found = find_quantised_matrix(checkpoint, *quantisation, kSpec, kSpec.name);
    if (found) read_matrix(found->matrix);
  });
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const std::vector<std::string_view> parts = split(text_of(data, size), 2);
  if (parts.size() == 2) read_input(parts[0], parts[1]);
  return 0;
}
