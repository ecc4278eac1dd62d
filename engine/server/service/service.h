// The request handler of `serval serve`: OpenAI's API, and paths for operators such as /health and /metrics.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/include/serval/engine.h"
#include "engine/server/api/text_request.h"
#include "engine/server/http/exchange.h"
#include "engine/server/http/loop.h"
#include "engine/server/metrics/server_metrics.h"
#include "engine/server/service/admission.h"
#include "engine/server/service/api_keys.h"
#include "engine/server/service/encode.h"
#include "engine/server/service/event_pump.h"
#include "engine/server/service/routes.h"
#include "engine/server/service/status.h"
#include "engine/server/service/worker_pool.h"

namespace serval::server {

struct ServiceOptions {
  ApiKeys keys = {};
  std::string alias = {};  // the model's name in the API; empty: its own name
  // Formats of calls and of reasoning (engine/answer/formats.h); empty: what the chat template shows.
  std::string tool_parser = {}, reasoning_parser = {};
  uint32_t max_queue = 1024;                 // limit of waiting requests
  std::chrono::duration<double> timeout{0};  // from a request's arrival to its end; 0: none
  int workers = 2;                           // threads that parse bodies and encode prompts
  // A stream that sent nothing for so long sends a comment line, so that proxies do not close it.
  std::chrono::milliseconds silence{5'000};
  std::function<void(const RequestRecord&)> on_record = {};  // on the loop's thread
};

// loading(), attach(), detach(), drain() and wait() are thread-safe. The rest is for the loop's thread, which
// must have ended before the service is destroyed.
class Service {
 public:
  // Why the server ends.
  enum class Outcome { kDrained, kFault };

  Service(Loop& loop, ServiceOptions options);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  HttpHandler handler();

  // Reports the progress of loading the model, for /health.
  void loading(const char* stage, uint64_t done, uint64_t total);
  // Accepts requests from now on. `engine` must live until detach() has returned. detach() waits until
  // nothing uses the engine any more; the loop must run meanwhile.
  void attach(Engine& engine);
  void detach();
  // Accepts no more requests. The outcome is kDrained once all requests are answered; those that still run
  // after `patience` fail with 503.
  void drain(std::chrono::duration<double> patience);
  // Returns when the service has an outcome: kDrained after drain(), or kFault, with the error in fault(),
  // one second after the engine has failed.
  Outcome wait();
  const std::string& fault() const { return fault_; }  // after wait()

 private:
  void handle(const std::shared_ptr<Exchange>& exchange);
  HttpResponse metrics() const;
  HttpResponse models(const std::string& wanted) const;
  void take_text(const std::shared_ptr<Exchange>& exchange, TextPath path, const std::string& name,
                 const std::string& key);
  void add(Generation::Arrival arrival, EncodedRequest request);
  void on_end(Generation& generation);
  // Runs `answer` on a worker and sends its result or its error.
  void answer_on_worker(std::shared_ptr<Exchange> exchange, std::function<std::string()> answer);
  void on_fault(const std::string& line);
  void check_time();
  void on_loop(const std::function<void()>& call);
  void end(Outcome outcome);

  Loop& loop_;
  const ServiceOptions options_;
  const std::shared_ptr<EventPump> pump_;
  Status status_;
  ServerMetrics metrics_;
  Admission admission_;
  Engine* engine_ = nullptr;
  ModelDefaults defaults_;
  AnswerFormats formats_;
  int64_t created_ = 0;  // seconds since 1970
  uint64_t last_number_ = 0;
  std::optional<Generation::Clock::time_point> drain_until_;
  std::string fault_;
  std::mutex outcome_mutex_;
  std::condition_variable outcome_changed_;
  std::optional<Outcome> outcome_;
  WorkerPool workers_;  // last, so that its threads end before the other members are destroyed
};

}  // namespace serval::server
