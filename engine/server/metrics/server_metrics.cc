#include "engine/server/metrics/server_metrics.h"

#include <map>
#include <string>

#include "fmt/format.h"

#include "engine/server/metrics/process_stats.h"

namespace serval::server {
namespace {

constexpr double kSeconds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                               1,      2,     5,     10,    20,   50,   100,  200, 500};
constexpr double kTokens[] = {1,   2,    5,    10,   20,    50,    100,   200,
                              500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

double share(uint32_t part, uint32_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / whole;
}

// Converts a count to the type of metrics.
double count(uint64_t value) {
  return static_cast<double>(value);
}

void write_drafts(MetricsText& text, const DraftStats& drafts) {
  text.counter("serval:spec_decode_num_drafts_total", "Passes of one sequence with drafts.",
               count(drafts.passes));
  text.counter("serval:spec_decode_num_draft_tokens_total", "Drafted tokens.", count(drafts.drafted));
  text.counter("serval:spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.",
               count(drafts.accepted));
  std::map<std::string, uint64_t> by_place;
  for (size_t i = 0; i < DraftStats::kPlaces; ++i) by_place[fmt::format("{}", i)] = drafts.accepted_at[i];
  text.counters("serval:spec_decode_num_accepted_tokens_per_pos_total",
                "Accepted tokens by their place after the sequence's last token.", "position", by_place);
}

void write_engine(MetricsText& text, const EngineStats& engine) {
  text.gauge("serval:kv_cache_usage_perc", "Share of the KV blocks that running sequences hold, 0 to 1.",
             share(engine.kv_blocks_held, engine.kv_blocks));
  text.counter("serval:num_preemptions_total", "Preemptions: running sequences that lost their KV blocks.",
               count(engine.preemptions));
  text.counter("serval:prefix_cache_queries_total", "Prompt tokens looked up in the KV cache.",
               count(engine.prompt_tokens));
  text.counter("serval:prefix_cache_hits_total", "Prompt tokens found in the KV cache.",
               count(engine.cached_tokens));
  text.counter("serval:prompt_tokens_total", "Prompt tokens; those of a preempted sequence count again.",
               count(engine.prompt_tokens));
  text.counter("serval:generation_tokens_total", "Tokens generated.", count(engine.generated_tokens));
  text.counter("serval:passes_total", "Forward passes of the model.", count(engine.passes));
  text.counter("serval:pass_rows_total", "Rows of the passes: tokens of prompts and answers.",
               count(engine.rows));
  write_drafts(text, engine.drafts);
  constexpr double kMilliseconds = 1e-3;
  text.counter("serval:pass_seconds_total", "Time of the passes.", engine.pass_ms * kMilliseconds);
  text.counter("serval:launches_total", "Launches of one or more passes.", count(engine.launches));
  text.counter("serval:launch_gap_seconds_total", "Time between launches that followed each other at once.",
               engine.gap_ms * kMilliseconds);
}

// Has no labels, as in Prometheus' client libraries.
std::string process_text() {
  const auto process = read_process_stats();
  if (!process) return {};
  MetricsText text(MetricsText::Labels{});
  text.counter("process_cpu_seconds_total", "CPU time of the process, user and system, in seconds.",
               process->cpu_seconds);
  text.gauge("process_open_fds", "Open file descriptors.", count(process->open_files));
  text.gauge("process_max_fds", "Limit of open file descriptors.", count(process->max_files));
  text.gauge("process_virtual_memory_bytes", "Virtual memory in bytes.", count(process->virtual_bytes));
  text.gauge("process_resident_memory_bytes", "Resident memory in bytes.", count(process->resident_bytes));
  text.gauge("process_start_time_seconds", "When the process has started, in seconds since 1970.",
             process->start_time);
  return text.take();
}

}  // namespace

ServerMetrics::ServerMetrics()
    : first_token_(kSeconds),
      gaps_(kSeconds),
      total_(kSeconds),
      queue_(kSeconds),
      prompt_tokens_(kTokens),
      completion_tokens_(kTokens) {}

void ServerMetrics::add(const RequestRecord& record) {
  ++ended_[record.reason];
  total_.observe(record.total_s);
  if (record.first_token_s > 0) first_token_.observe(record.first_token_s);
  if (record.prompt_tokens == 0) return;
  queue_.observe(record.queue_s);
  prompt_tokens_.observe(static_cast<double>(record.prompt_tokens));
  completion_tokens_.observe(static_cast<double>(record.completion_tokens));
}

std::string ServerMetrics::text(const std::string& model, const Now& now) const {
  MetricsText text(MetricsText::Labels{{"model_name", model}});
  text.gauge("serval:num_requests_running", "Answers that run in the engine.", now.engine.running);
  text.gauge("serval:num_requests_waiting",
             "Requests that wait in the server, plus answers that wait in the engine.",
             static_cast<double>(now.waiting + now.engine.waiting));
  text.gauge("serval:num_requests_open", "Requests submitted to the engine that have not ended.",
             static_cast<double>(now.streams));
  write_engine(text, now.engine);
  text.counters("serval:request_success_total", "Requests that have ended, by reason.", "finished_reason",
                ended_);
  text.counters("serval:request_refused_total", "Requests that were refused, by status.", "status", refused_);
  text.histogram("serval:time_to_first_token_seconds", "From a request's arrival to its first token.",
                 first_token_);
  text.histogram("serval:inter_token_latency_seconds", "Between two tokens of an answer.", gaps_);
  text.histogram("serval:e2e_request_latency_seconds", "From a request's arrival to its end.", total_);
  text.histogram("serval:request_queue_time_seconds", "From a request's arrival until it first runs.",
                 queue_);
  text.histogram("serval:request_prompt_tokens", "Tokens of a request's prompts.", prompt_tokens_);
  text.histogram("serval:request_generation_tokens", "Tokens of a request's answers.", completion_tokens_);
  return text.take() + process_text();
}

}  // namespace serval::server
