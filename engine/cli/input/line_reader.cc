#include "engine/cli/input/line_reader.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "fmt/format.h"

#include "engine/cli/input/prompts.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

// Ctrl-C makes a terminal discard the line being typed. While this object lives the line is kept, so that its
// presence can be tested.
class KeepTypedLine {
 public:
  explicit KeepTypedLine(bool interactive) : changed_(interactive && tcgetattr(STDIN_FILENO, &saved_) == 0) {
    if (!changed_) return;
    termios wanted = saved_;
    wanted.c_lflag |= NOFLSH;
    tcsetattr(STDIN_FILENO, TCSANOW, &wanted);
  }
  ~KeepTypedLine() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  }
  KeepTypedLine(const KeepTypedLine&) = delete;
  KeepTypedLine& operator=(const KeepTypedLine&) = delete;

 private:
  termios saved_ = {};
  bool changed_;
};

// An unfinished line can only be read in the terminal's non-canonical mode. Returns whether there was one.
bool discard_typed_line() {
  termios saved = {};
  if (tcgetattr(STDIN_FILENO, &saved) != 0) return false;
  termios by_byte = saved;
  by_byte.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  by_byte.c_cc[VMIN] = 0;
  by_byte.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &by_byte);
  char discarded[1024];
  bool any = false;
  while (::read(STDIN_FILENO, discarded, sizeof discarded) > 0) any = true;
  tcsetattr(STDIN_FILENO, TCSANOW, &saved);
  return any;
}

}  // namespace

LineReader::LineReader() : interactive_(isatty(STDIN_FILENO) == 1) {}

bool LineReader::take_line(std::string* line) {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos) return false;
  *line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  if (line->ends_with('\r')) line->pop_back();
  *line = repair_utf8(*line);
  return true;
}

LineReader::Result LineReader::on_signal() {
  if (take_signal() == SIGTERM) return {Event::kTerminate, ""};
  const bool typed = interactive_ && discard_typed_line();
  return {typed ? Event::kDiscarded : Event::kInterrupt, ""};
}

// The last line may lack its newline.
LineReader::Result LineReader::at_end() {
  if (buffer_.empty()) return {Event::kEnd, ""};
  buffer_ += '\n';
  Result result{Event::kLine, ""};
  take_line(&result.line);
  return result;
}

// Reads the available bytes. Returns false at the end of the input.
bool LineReader::fill() {
  char bytes[4096];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (count < 0 && errno != EINTR && errno != EAGAIN) {
    throw Error(ErrorKind::kRuntime, fmt::format("stdin: {}", std::strerror(errno)));
  }
  if (count > 0) buffer_.append(bytes, static_cast<size_t>(count));
  if (buffer_.size() > kMaxLineBytes && buffer_.find('\n') == std::string::npos) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("stdin: a line is longer than the limit of {} bytes", kMaxLineBytes));
  }
  return count != 0;
}

LineReader::Result LineReader::read(std::string_view prompt) {
  const KeepTypedLine keep(interactive_);  // before the user can see the prompt and type
  if (interactive_) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, prompt.data(), prompt.size());
  }
  for (;;) {
    Result result{Event::kLine, ""};
    if (take_line(&result.line)) return result;
    pollfd waited[] = {{STDIN_FILENO, POLLIN, 0}, {signals_pend_.descriptor(), POLLIN, 0}};
    if (poll(waited, 2, -1) < 0 && errno != EINTR) {
      throw Error(ErrorKind::kRuntime, fmt::format("stdin: {}", std::strerror(errno)));
    }
    if (pending_signal() != 0) return on_signal();
    if (waited[0].revents != 0 && !fill()) return at_end();
  }
}

}  // namespace serval::cli
