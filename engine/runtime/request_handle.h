// The implementation of serval::RequestHandle.
#pragma once

#include <memory>
#include <utility>

#include "engine/core/channel.h"
#include "engine/include/serval/engine.h"

namespace serval {

struct RequestHandle::Impl {
  Impl(EventReader its_reader, std::shared_ptr<Channel> its_channel, uint32_t its_answers)
      : reader(std::move(its_reader)), channel(std::move(its_channel)), answers(its_answers) {}

  EventReader reader;  // has one request; none if there is a sink
  std::shared_ptr<Channel> channel;
  uint32_t answers;

  ~Impl() { channel->cancel(); }  // no effect if it is complete
};

}  // namespace serval
