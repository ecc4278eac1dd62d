#include "engine/cli/commands/restart.h"

#include <cerrno>
#include <cstring>
#include <linux/close_range.h>
#include <unistd.h>
#include <vector>

#include "vm/base/error.h"

namespace serval::cli {

void restart(const Arguments& arguments) {
  std::vector<std::string> words = {"serval"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Libraries may have opened files without close-on-exec. Kernels without close_range() leave them open,
  // which is harmless.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", argv.data());
  throw Error(ErrorKind::kDeviceFault,
              std::string("/proc/self/exe: cannot be started again: ") + std::strerror(errno));
}

}  // namespace serval::cli
