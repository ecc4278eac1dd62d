// Files as a whole.
#pragma once

#include <filesystem>
#include <string_view>

namespace serval {

// Replaces the file, or makes it. Throws Error(kRuntime) naming it if it cannot be written.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace serval
