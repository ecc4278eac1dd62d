// One HTTP request and its answer.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

// Used on the loop's thread only. Answer with respond(), or with begin_stream(), any number of write() and
// end_stream(). Calls after the client has disconnected do nothing. The destructor closes the connection if
// the answer is not complete.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(const HttpResponse& response) = 0;
  // Sends `head`, whose body is ignored. Each write() is sent at once.
  virtual void begin_stream(const HttpResponse& head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
  // Calls `call` once if the client disconnects or reads too slowly before its answer is complete;
  // immediately if it has disconnected already.
  virtual void on_disconnect(std::function<void()> call) = 0;
};

// Called on the loop's thread; must not block.
using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace serval::server
