// The Hugging Face Hub cache (huggingface_hub, "Understand caching"), which holds downloaded models.
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

// "org/name", or "org/name@revision" for a revision other than "main". Each part consists of letters, digits,
// '.', '_' and '-'.
bool is_hub_name(std::string_view name);

// Path of the cached model: a directory with config.json, or a GGUF file. nullopt if the cache does not have
// it. Throws Error(kRuntime) if the snapshot has neither, or has several GGUF files.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& name);

// Names of all models in the cache that have a "main" revision, sorted.
std::vector<std::string> hub_cache_names();

// GGUF files in a directory that open_gguf_model() accepts: not the second and later files of a split model.
std::vector<std::filesystem::path> gguf_files_in(const std::filesystem::path& directory);

}  // namespace serval
