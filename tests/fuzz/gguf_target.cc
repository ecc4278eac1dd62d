// Fuzzes the reader of .gguf files: fields and tensors, the model and the tokenizer that the fields describe,
// and elements of the tensors.
#include <algorithm>
#include <cstdint>

#include "models/gguf/gguf_config.h"
#include "models/gguf/gguf_file.h"
#include "models/gguf/gguf_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

void read_elements(const GgufTensor& tensor, std::string_view file) {
  const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
  require(begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size(),
          "tensors lie within the file");
  const size_t elements = tensor.bytes.size() / tensor.type->block_bytes * tensor.type->block_elements;
  std::vector<uint16_t> last(std::min<size_t>(elements, 40));
  read_ggml_elements(*tensor.type, tensor.bytes, elements - last.size(), last);
}

void read_file(std::string_view file) {
  GgufContents contents{GgufFields(""), {}};
  if (!accepts([&] { contents = parse_gguf(bytes_of(file), "file"); })) return;
  for (const auto& [name, tensor] : contents.tensors) {
    require(name == tensor.name, "a tensor's key is its name");
    read_elements(tensor, file);
  }
  const auto find = [&](std::string_view name) {
    const auto found = contents.tensors.find(name);
    return found == contents.tensors.end() ? nullptr : &found->second;
  };
  accepts([&] { read_gguf_model(contents.fields, find, "model"); });
  accepts([&] {
    const Tokenizer tokenizer = read_gguf_tokenizer(contents.fields);
    tokenizer.encode("a text, 12", true);
    read_gguf_chat_template(contents.fields, tokenizer);
  });
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  serval::fuzz::read_file(serval::fuzz::text_of(data, size));
  return 0;
}
