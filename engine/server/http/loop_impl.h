// The implementation of Loop. Only files of this folder include it, so that the others do not need Asio.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/posix/stream_descriptor.hpp"
#include "engine/server/http/loop.h"

namespace serval::server {

struct Loop::Impl {
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work = make_work_guard(io);
  std::vector<std::unique_ptr<boost::asio::posix::stream_descriptor>> watched;
  std::thread thread;

  void repeat(std::chrono::milliseconds period, const std::shared_ptr<std::function<void()>>& call);
};

}  // namespace serval::server
