// One request of a client, and the way of its answer.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

// For the loop's thread alone. An answer is either respond(), or begin_stream(), any number of write() and
// end_stream(). What comes after the client has gone is dropped. An exchange that is destroyed without an
// answer closes its connection.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(const HttpResponse& response) = 0;
  // `head` without a body. Whatever is written goes out at once.
  virtual void begin_stream(const HttpResponse& head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
  // Called once if the client goes, or reads too slowly, before its answer is complete; at once if it has
  // gone already.
  virtual void on_gone(std::function<void()> call) = 0;
};

// Called on the loop's thread, and must not block it.
using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace serval::server
