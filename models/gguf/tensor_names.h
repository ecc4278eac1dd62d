// Names that llama.cpp's converters give to the tensors of a Hugging Face model (gguf-py, gguf/constants.py).
#pragma once

#include <string>
#include <string_view>

namespace serval {

// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight"; empty if GGUF has no name for it.
std::string gguf_tensor_name(std::string_view weight);

}  // namespace serval
