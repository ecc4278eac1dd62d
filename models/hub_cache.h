// The cache of Hugging Face's hub (huggingface_hub, "Understand caching"): models that its tools have
// fetched.
//
// CACHE/models--ORG--NAME/refs/REVISION holds a commit, CACHE/models--ORG--NAME/snapshots/COMMIT its files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache_directory();

// "org/name", or "org/name@revision" for another than "main": letters, digits, '.', '_' and '-'.
bool is_hub_name(std::string_view name);

// The model of that name in the cache: a directory with config.json, or a GGUF file. Nothing where the cache
// does not have it. Throws Error(kRuntime) where what it has is no model, or several GGUF files.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& name);

// The names of all that the cache has, in alphabetical order.
std::vector<std::string> hub_cache_names();

// The GGUF files in a directory that can be opened by themselves, without later files of split sets.
std::vector<std::filesystem::path> gguf_files_in(const std::filesystem::path& directory);

}  // namespace serval
