// Readers of the configurations of the methods of quantisation, one file each. Each gets the object that
// names the method, and throws Error(kRuntime) with file and field.
#pragma once

#include "models/checkpoint/quantised/quantisation.h"

namespace serval {

// Hugging Face's and vLLM's "fp8": FineGrainedFP8Config of transformers, AutoFP8, DeepSeek.
Quantisation read_fp8(const JsonFields& fields);
// "fbgemm_fp8": FbgemmFp8Config of transformers.
Quantisation read_fbgemm_fp8(const JsonFields& fields);
// "compressed-tensors": QuantizationConfig of that package.
Quantisation read_compressed_tensors(const JsonFields& fields);
// "modelopt": NVIDIA's Model Optimizer, in config.json or, nested, in hf_quant_config.json.
Quantisation read_modelopt(const JsonFields& fields);
// "gptq": AutoGPTQ, GPTQModel, Optimum.
Quantisation read_gptq(const JsonFields& fields);
// "awq": AutoAWQ.
Quantisation read_awq(const JsonFields& fields);

// For these readers: refuse the first of `keys` whose value is not absent, null, false, or empty.
void refuse_unless_empty(const JsonFields& fields, std::initializer_list<const char*> keys);
// Refuses a text other than the supported ones, whatever their case; returns it in lower case. Absent:
// `fallback`.
std::string one_of(const JsonFields& fields, const char* key, const std::string& fallback,
                   std::initializer_list<const char*> supported);
// Adds the notice for an object or text that asks to quantise keys and values: understood if it means 8-bit
// floats, refused otherwise.
void read_kv_cache_scheme(const JsonFields& fields, const char* key, Quantisation& quantisation);
// Group size `key`: columns, or a scale per row for −1.
void read_group_size(const JsonFields& fields, const char* key, WeightScheme& scheme);
// Block size `size`, [rows, columns], which is the value of `key`.
void read_block_size(const JsonFields& fields, const char* key, const nlohmann::json& size,
                     WeightScheme& scheme);

}  // namespace serval
