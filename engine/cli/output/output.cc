#include "engine/cli/output/output.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "fmt/format.h"

#include "engine/cli/output/progress.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

// For a pipe or terminal that another program has set to non-blocking.
void wait_until_writable() {
  pollfd wanted{STDOUT_FILENO, POLLOUT, 0};
  poll(&wanted, 1, -1);
}

}  // namespace

void write_stdout(std::string_view text) {
  erase_progress();
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      wait_until_writable();
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR) {
      throw Error(ErrorKind::kRuntime, fmt::format("stdout: {}", std::strerror(errno)));
    }
  }
}

void reserve_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened with the wrong access mode on purpose: using it fails like using a closed descriptor.
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace serval::cli
