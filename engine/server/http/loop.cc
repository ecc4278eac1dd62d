#include "engine/server/http/loop.h"

#include <utility>

#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "engine/server/http/loop_impl.h"
#include "vm/base/signals_blocked.h"

namespace serval::server {

namespace net = boost::asio;
using boost::system::error_code;

Loop::Loop() : impl_(std::make_unique<Impl>()) {}

Loop::~Loop() {
  stop();
  for (const auto& descriptor : impl_->watched) descriptor->release();
}

void Loop::start() {
  const SignalsBlocked blocked;
  impl_->thread = std::thread([this] { impl_->io.run(); });
}

void Loop::stop() {
  impl_->io.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void Loop::post(std::function<void()> call) {
  net::post(impl_->io, std::move(call));
}

void Loop::after(std::chrono::milliseconds delay, std::function<void()> call) {
  const auto timer = std::make_shared<net::steady_timer>(impl_->io, delay);
  timer->async_wait([timer, call = std::move(call)](error_code error) {
    if (!error) call();
  });
}

void Loop::every(std::chrono::milliseconds period, std::function<void()> call) {
  impl_->repeat(period, std::make_shared<std::function<void()>>(std::move(call)));
}

void Loop::Impl::repeat(std::chrono::milliseconds period,
                        const std::shared_ptr<std::function<void()>>& call) {
  const auto timer = std::make_shared<net::steady_timer>(io, period);
  timer->async_wait([this, timer, period, call](error_code error) {
    if (error) return;
    (*call)();
    repeat(period, call);
  });
}

void Loop::when_readable(int descriptor, std::function<void()> call) {
  impl_->watched.push_back(std::make_unique<net::posix::stream_descriptor>(impl_->io, descriptor));
  impl_->watched.back()->async_wait(net::posix::stream_descriptor::wait_read,
                                    [call = std::move(call)](error_code error) {
                                      if (!error) call();
                                    });
}

}  // namespace serval::server
