// Runs a fuzz target over committed inputs, without libFuzzer: PROGRAM FILE_OR_FOLDER...
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

std::vector<std::filesystem::path> files_under(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool replay(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) {
    std::fprintf(stderr, "%s: could not be read\n", path.c_str());
    return false;
  }
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t replayed = 0, failed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const std::filesystem::path& path : files_under(argv[i])) {
      // Printed first, so that after a crash the last line names the input.
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);
      ++replayed;
      if (!replay(path)) ++failed;
    }
  }
  std::printf("%zu inputs, %zu failed\n", replayed, failed);
  return replayed > 0 && failed == 0 ? 0 : 1;
}
