// Keys of config.json that change what a model computes and that Serval has no instruction for.
//
// They are those of transformers' Llama-like models (5.23: Apertus, Cohere, DeepSeek, DBRX, Exaone, Falcon,
// Falcon-H1, Gemma, GPT-NeoX, gpt-oss, Granite, Llama 4, MiniCPM, Mistral, Mixtral, MPT, OLMo, Phi, Qwen,
// SmolLM, StableLM, …), whose files are sometimes passed off as Llama's. Where their value is the one that
// changes nothing, they are accepted; so is any key that is not listed, since most say how a model was
// trained or how it should be served.
#pragma once

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

// Throws Error(kRuntime) with the first key whose value asks for another forward pass than Llama's. `model`
// has heads and positions already.
void check_config_options(const JsonFields& fields, const ModelShape& model);

}  // namespace serval
