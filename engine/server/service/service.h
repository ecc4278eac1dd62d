// What `serval serve` does with requests: OpenAI's paths, and what an operator asks.
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
#include "engine/server/service/event_pump.h"
#include "engine/server/service/routes.h"
#include "engine/server/service/status.h"
#include "engine/server/service/worker_pool.h"

namespace serval::server {

struct ServiceOptions {
  ApiKeys keys = {};
  std::string alias = {};                    // what the model is called; empty: by its own name
  uint32_t max_queue = 1024;                 // requests that wait
  std::chrono::duration<double> timeout{0};  // of a request; 0: none
  int workers = 2;                           // threads that read bodies and encode prompts
  // A stream that says nothing for so long gets a comment line, so that what is between does not give it up.
  std::chrono::milliseconds silence{5'000};
  std::function<void(const RequestRecord&)> on_record = {};  // on the loop's thread
};

// Thread-safe: loading(), attach(), detach(), drain(), wait(). All else is for the loop's thread,
// which must have ended when the service is destroyed.
class Service {
 public:
  // Why the server is to end.
  enum class Outcome { kDrained, kFault };

  Service(Loop& loop, ServiceOptions options);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  HttpHandler handler();

  // How far the model is loaded, for /health.
  void loading(const char* stage, uint64_t done, uint64_t total);
  // Requests are taken from now on. The engine stays until detach(), which returns when nothing uses it any
  // more; the loop must run meanwhile.
  void attach(Engine& engine);
  void detach();
  // No request is taken any more. The outcome is there when all have been answered; after `patience` those
  // that still run are told that the server shuts down.
  void drain(std::chrono::duration<double> patience);
  // kFault, with its line in fault(), about a second after the engine has failed.
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
  // Runs `answer` on a worker, and sends what it returns or throws.
  void answer_aside(std::shared_ptr<Exchange> exchange, std::function<std::string()> answer);
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
  int64_t created_ = 0;  // seconds since 1970
  uint64_t last_number_ = 0;
  std::optional<Generation::Clock::time_point> drain_until_;
  std::string fault_;
  std::mutex outcome_mutex_;
  std::condition_variable outcome_changed_;
  std::optional<Outcome> outcome_;
  WorkerPool workers_;  // the last: its threads use the others
};

}  // namespace serval::server
