#include <utility>

#include "engine/runtime/engine_impl.h"
#include "serval/engine.h"

namespace serval {

TokenStream::TokenStream(Engine& engine, const Request& request)
    : batch_(engine), sequence_(batch_.add(request)) {}

TokenStream::Iterator TokenStream::begin() {
  Iterator first;
  first.stream_ = this;
  return ++first;
}

TokenStream::Iterator& TokenStream::Iterator::operator++() {
  event_ = stream_->next();
  return *this;
}

const TokenEvent* TokenStream::next() {
  if (at_ == pending_.size()) {
    pending_.clear();
    at_ = 0;
    while (pending_.empty() && !batch_.idle()) pending_ = batch_.step();
  }
  if (at_ < pending_.size()) return &pending_[at_++];
  if (sequence_ != 0) response_ = throw_if_failed(batch_.take(std::exchange(sequence_, 0)));
  return nullptr;
}

}  // namespace serval
