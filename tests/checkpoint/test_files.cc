#include "tests/checkpoint/test_files.h"

#include <fstream>
#include <unistd.h>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "models/llama/graph.h"
#include "tests/llama/configs.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

std::string encoded(float value, const std::string& dtype) {
  if (dtype == "F32") return bytes_of<float>({value});
  if (dtype == "BF16") return bytes_of<uint16_t>({float_to_bf16(value)});
  for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits)
    if (fp16_to_float(static_cast<uint16_t>(bits)) == value)
      return bytes_of<uint16_t>({static_cast<uint16_t>(bits)});
  ADD_FAILURE() << value << " is not an F16 value";
  return {};
}

}  // namespace

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "serval-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempDir::write(const std::string& name, std::string_view content) const {
  std::ofstream(path_ / name, std::ios::binary) << content;
}

std::string safetensors_file(std::string_view header, std::string_view data) {
  return bytes_of<uint64_t>({header.size()}) + std::string(header) + std::string(data);
}

std::string safetensors_file(const std::vector<TestTensor>& tensors, size_t padding) {
  std::vector<std::string> entries;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    entries.push_back(fmt::format(R"("{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                                  tensor.name, tensor.dtype, fmt::join(tensor.shape, ", "), data.size(),
                                  data.size() + tensor.data.size()));
    data += tensor.data;
  }
  const std::string header = fmt::format("{{{}}}", fmt::join(entries, ", ")) + std::string(padding, ' ');
  return safetensors_file(header, data);
}

std::string tiny_config_json(bool tied) {
  return fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 64, "vocab_size": 24, "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "tie_word_embeddings": {}, "bos_token_id": 1, "eos_token_id": 2}})",
                     tied);
}

LlamaConfig tiny_config(bool tied) {
  return parse_config(tiny_config_json(tied), "tiny");
}

float tiny_value(std::string_view tensor, size_t index) {
  const size_t salt = std::hash<std::string_view>{}(tensor) % 101;
  return (static_cast<float>((index + salt) % 255) - 127.0F) / 64.0F;
}

std::vector<TestTensor> tiny_tensors(const std::string& dtype, bool tied) {
  std::map<float, std::string> known;
  std::vector<TestTensor> tensors;
  for (const WeightSpec& spec : tiny_config(tied).weights()) {
    TestTensor tensor = {spec.name, dtype, {spec.rows, spec.cols}, ""};
    if (spec.kind == WeightKind::kNorm) tensor.shape = {spec.cols};
    for (size_t i = 0; i < static_cast<size_t>(spec.elements()); ++i) {
      const float value = tiny_value(spec.name, i);
      if (!known.contains(value)) known[value] = encoded(value, dtype);
      tensor.data += known[value];
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

void write_quantised_tiny_model(const TempDir& dir, const nlohmann::json& quantisation,
                                const std::vector<TestTensor>& tensors, bool tied) {
  nlohmann::json config = nlohmann::json::parse(tiny_config_json(tied));
  config["quantization_config"] = quantisation;
  dir.write("config.json", config.dump());
  dir.write("model.safetensors", safetensors_file(tensors));
}

std::string error_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(error.kind(), kind) << line;
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    return line;
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace serval
