#include "models/gguf/tensor_names.h"

#include <fmt/format.h>
#include <utility>

namespace serval {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr Names kOfModel[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};

constexpr Names kOfLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

constexpr std::string_view kLayerPrefix = "model.layers.";

}  // namespace

std::string gguf_tensor_name(std::string_view weight) {
  const std::size_t dot = weight.rfind('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view module = weight.substr(0, dot), kind = weight.substr(dot);  // ".weight" or ".bias"
  for (const auto& [ours, theirs] : kOfModel)
    if (module == ours) return fmt::format("{}{}", theirs, kind);
  if (!module.starts_with(kLayerPrefix)) return "";
  const std::string_view rest = module.substr(kLayerPrefix.size());
  const std::size_t number_end = rest.find('.');
  if (number_end == std::string_view::npos) return "";
  for (const auto& [ours, theirs] : kOfLayer) {
    if (rest.substr(number_end + 1) == ours)
      return fmt::format("blk.{}.{}{}", rest.substr(0, number_end), theirs, kind);
  }
  return "";
}

}  // namespace serval
