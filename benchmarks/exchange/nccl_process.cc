#include "benchmarks/exchange/nccl_process.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "vm/base/error.h"

namespace serval {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// The child process reports its results as lines, each with a keyword and a value.
constexpr std::string_view kVersion = "version ", kTime = "time ", kNote = "note ", kStep = "step ";

void write_line(int pipe, std::string_view kind, const std::string& rest) {
  const std::string line = fmt::format("{}{}\n", kind, rest);
  // Shorter than PIPE_BUF, so the write is atomic.
  (void)!write(pipe, line.data(), line.size());
}

// Ends the process with a note if a step takes longer than its deadline.
class Watch final : public NcclSteps {
 public:
  explicit Watch(int pipe) : pipe_(pipe), thread_([this] { run(); }) {}
  void set_library(const NcclLibrary* library) {
    const std::lock_guard lock(mutex_);
    library_ = library;
  }
  void begin(const std::string& what, double deadline_s) override {
    const std::lock_guard lock(mutex_);
    write_line(pipe_, kStep, what);  // resets the parent's timeout
    what_ = what;
    seconds_ = deadline_s;
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(deadline_s));
    changed_.notify_one();
  }
  void has(const std::vector<nccl::Communicator>& communicators) override {
    const std::lock_guard lock(mutex_);
    communicators_ = communicators;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (Clock::now() < deadline_) {
      const Clock::time_point until = deadline_;
      changed_.wait_until(lock, until);
    }
    write_line(pipe_, kNote, fmt::format("did not finish within {:g} s: {}", seconds_, what_));
    // NCCL's kernels end when they are aborted. ncclCommAbort may hang too; then the parent ends the process.
    for (const nccl::Communicator communicator : communicators_) (void)library_->comm_abort(communicator);
    _exit(EXIT_FAILURE);
  }

  const int pipe_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point deadline_ = Clock::now() + std::chrono::hours(1);  // until the first step begins
  std::string what_;
  double seconds_ = 0;
  const NcclLibrary* library_ = nullptr;
  std::vector<nccl::Communicator> communicators_;
  std::thread thread_;  // last: it uses the other members
};

void set_environment() {
  // Loads all of NCCL's kernels when CUDA starts: loading one later, while another rank's kernel waits for
  // it, would deadlock.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  // Serval does not use NVLink multicast either.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
}

void measure(const NcclTest& test, const NcclSource& source, int pipe, Watch& watch) {
  watch.begin("loading " + source.library, test.init_s);
  const NcclLibrary library(source.library);
  watch.set_library(&library);
  write_line(pipe, kVersion, nccl::version_text(library.version()));
  watch.begin("CUDA", test.init_s);
  const auto streams = source.streams(test.gpus, *std::ranges::max_element(test.bytes));
  time_nccl(library, *streams, test, watch,
            [&](double us) { write_line(pipe, kTime, fmt::format("{}", us)); });
}

// Runs in the child process.
[[noreturn]] void run_child(const NcclTest& test, const NcclSource& source, int pipe, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);
  for (const int signal : {SIGINT, SIGTERM}) (void)std::signal(signal, SIG_DFL);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // NCCL_DEBUG's output must not get into the result table
  // No exception may leave this function: the parent's code would continue in this process too.
  try {
    set_environment();
    static Watch watch(pipe);  // never destroyed: its thread must survive an exception
    measure(test, source, pipe, watch);
  } catch (const std::exception& error) {
    write_line(pipe, kNote, error.what());
  } catch (...) {
    write_line(pipe, kNote, "it throws what is no error");
  }
  // Runs no destructors: they could hang after a failed measurement.
  _exit(EXIT_SUCCESS);
}

// Parses the child's lines.
class Reader {
 public:
  explicit Reader(NcclResults& results) : results_(results) {}

  const std::string& step() const { return step_; }
  // A note is always the last line.
  bool has_note() const { return !results_.note.empty(); }
  void read(std::string_view bytes) {
    for (const char c : bytes) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      take(line_);
      line_.clear();
    }
  }

 private:
  void take(std::string_view line) {
    const auto rest = [&](std::string_view kind) { return line.substr(kind.size()); };
    if (line.starts_with(kVersion)) results_.version = rest(kVersion);
    if (line.starts_with(kNote)) results_.note = rest(kNote);
    if (line.starts_with(kStep)) step_ = rest(kStep);
    if (!line.starts_with(kTime) || next_ == results_.us.size()) return;
    double us = 0;
    const std::string_view number = rest(kTime);
    (void)std::from_chars(number.data(), number.data() + number.size(), us);
    results_.us[next_++] = us;
  }

  NcclResults& results_;
  std::string line_, step_;
  size_t next_ = 0;  // index of the next size
};

// Returns true when the process has closed its end of the pipe, false if it writes nothing for longer than
// any step may take.
bool read_all(int pipe, const NcclTest& test, Reader& reader) {
  const double patience_s = std::max(test.init_s, test.deadline_s) + test.abort_s;
  constexpr double kMillisecondsPerSecond = 1000;
  char buffer[4096];
  for (;;) {
    const double wait_s = reader.has_note() ? test.abort_s : patience_s;
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    const int found = poll(&ready, 1, static_cast<int>(wait_s * kMillisecondsPerSecond));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    const ssize_t bytes = ::read(pipe, buffer, sizeof buffer);
    if (bytes <= 0) return true;
    reader.read({buffer, static_cast<size_t>(bytes)});
  }
}

// Ends the process if it is still running, and returns how it ended.
std::string end_process(pid_t child) {
  (void)kill(child, SIGKILL);  // if it has closed its end, it has nothing more to do
  const Clock::time_point until = Clock::now() + std::chrono::seconds(10);
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(child, &status, WNOHANG)) != child;) {
    const bool interrupted = ended < 0 && errno == EINTR;
    if ((ended < 0 && !interrupted) || Clock::now() > until) return "its process does not end";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFSIGNALED(status)) return fmt::format("its process was ended by signal {}", WTERMSIG(status));
  return fmt::format("its process ended with status {}", WEXITSTATUS(status));
}

}  // namespace

NcclResults measure_nccl(const NcclTest& test, const NcclSource& source) {
  NcclResults results{.version = {}, .us = std::vector<std::optional<double>>(test.bytes.size()), .note = {}};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {  // processes that NCCL starts would keep it open
    results.note = "cannot create a pipe to its process";
    return results;
  }
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(test, source, ends[1], parent);
  }
  close(ends[1]);
  if (child < 0) {
    results.note = "cannot start its process";
  } else {
    Reader reader(results);
    const bool has_ended = read_all(ends[0], test, reader);
    std::string end = end_process(child);
    if (!has_ended) end = "its process does not answer: " + reader.step();
    const bool complete = std::ranges::all_of(results.us, [](const auto& us) { return us.has_value(); });
    if (!complete && results.note.empty()) results.note = end;
  }
  close(ends[0]);
  return results;
}

}  // namespace serval
