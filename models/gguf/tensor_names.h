// What llama.cpp's converters call a Hugging Face model's tensors (gguf-py, gguf/constants.py).
#pragma once

#include <string>
#include <string_view>

namespace serval {

// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight"; empty where GGUF has no name for it.
std::string gguf_tensor_name(std::string_view weight);

}  // namespace serval
