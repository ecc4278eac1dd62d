// What is behind serval::RequestHandle.
#pragma once

#include <memory>
#include <optional>

#include "engine/core/channel.h"
#include "engine/include/serval/engine.h"

namespace serval {

struct RequestHandle::Impl {
  EventReader reader;  // of one request; of none where there is a sink
  std::shared_ptr<Channel> channel;
  uint32_t answers;

  ~Impl() { channel->cancel(); }  // in vain where it is complete
};

}  // namespace serval
