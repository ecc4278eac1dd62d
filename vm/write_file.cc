#include "vm/write_file.h"

#include <fstream>

#include "vm/error.h"

namespace serval {

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Error(ErrorKind::kRuntime, path.string() + ": could not be written");
}

}  // namespace serval
