// The server's metrics. A metric that means the same as one of vLLM's has its name, with "serval:" instead of
// "vllm:" (docs/serving.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/include/serval/engine.h"
#include "engine/server/metrics/metrics_text.h"
#include "engine/server/metrics/request_record.h"

namespace serval::server {

class ServerMetrics {
 public:
  // Current values, in addition to the counters.
  struct Now {
    EngineStats engine;
    size_t waiting = 0;  // requests not yet submitted to the engine
    size_t streams = 0;  // requests submitted to the engine
  };

  ServerMetrics();
  void add(const RequestRecord& record);
  void add_gap(double seconds) { gaps_.observe(seconds); }  // between two tokens of an answer
  void refuse(int status) { ++refused_[std::to_string(status)]; }
  std::string text(const std::string& model, const Now& now) const;

 private:
  std::map<std::string, uint64_t> ended_;    // by reason
  std::map<std::string, uint64_t> refused_;  // by status
  Histogram first_token_, gaps_, total_, queue_, prompt_tokens_, completion_tokens_;
};

}  // namespace serval::server
