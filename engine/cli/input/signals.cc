#include "engine/cli/input/signals.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "engine/cli/output/progress.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

std::atomic<int> arrived_signal{0};
std::atomic<Engine*> engine_to_cancel{nullptr};
std::atomic<bool> deferred{false};
std::atomic<bool> quits{false};
int wake_pipe[2] = {-1, -1};  // read end, write end
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<Engine*>::is_always_lock_free);

void on_signal(int number) {
  const int saved_errno = errno;
  Engine* engine = engine_to_cancel.load();
  const bool arranged = engine != nullptr || deferred.load();
  const int earlier = arrived_signal.exchange(number);
  if (!arranged || earlier != 0) {
    erase_progress();
    _exit(quits.load() && earlier == 0 ? 0 : kSignalExitBase + number);
  }
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_pipe[1], &byte, 1);
  if (engine != nullptr) engine->cancel();
  errno = saved_errno;
}

void handle(int number) {
  struct sigaction now = {};
  sigaction(number, nullptr, &now);
  if (now.sa_handler == SIG_IGN) return;
  struct sigaction wanted = {};
  wanted.sa_handler = on_signal;  // without SA_RESTART, so that a read at the prompt returns
  sigemptyset(&wanted.sa_mask);
  sigaddset(&wanted.sa_mask, SIGINT);
  sigaddset(&wanted.sa_mask, SIGTERM);
  sigaction(number, &wanted, nullptr);
}

}  // namespace

void install_signal_handlers() {
  if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(ErrorKind::kRuntime, std::string("pipe: ") + std::strerror(errno));
  }
  handle(SIGINT);
  handle(SIGTERM);
  std::signal(SIGPIPE, SIG_IGN);
}

int pending_signal() noexcept {
  return arrived_signal.load();
}

int take_signal() noexcept {
  char drained[16];
  while (::read(wake_pipe[0], drained, sizeof drained) > 0) {
  }
  return arrived_signal.exchange(0);
}

QuitScope::QuitScope() noexcept {
  quits = true;
}
QuitScope::~QuitScope() {
  quits = false;
}

CancelScope::CancelScope(Engine& engine) noexcept {
  engine_to_cancel = &engine;
}
CancelScope::~CancelScope() {
  engine_to_cancel = nullptr;
}

DeferScope::DeferScope() noexcept {
  deferred = true;
}
DeferScope::~DeferScope() {
  deferred = false;
}
int DeferScope::descriptor() const noexcept {
  return wake_pipe[0];
}

}  // namespace serval::cli
