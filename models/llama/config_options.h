// Refuses keys of config.json that ask for a computation that Serval has no instruction for.
//
// The keys come from transformers' Llama-like models (5.23: Apertus, Cohere, DeepSeek, DBRX, Exaone, Falcon,
// Falcon-H1, Gemma, GPT-NeoX, gpt-oss, Granite, Llama 4, MiniCPM, Mistral, Mixtral, MPT, OLMo, Phi, Qwen,
// SmolLM, StableLM, …), because their files sometimes claim to be Llama's. A neutral value is accepted.
// Unknown keys are accepted too: most describe training or serving.
#pragma once

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

// Throws Error(kRuntime) with the first key whose value asks for a forward pass other than Llama's. Needs
// model.head_dim and model.max_position.
void check_config_options(const JsonFields& fields, const ModelShape& model);

}  // namespace serval
