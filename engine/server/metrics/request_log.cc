#include "engine/server/metrics/request_log.h"

#include "fmt/format.h"

#include "engine/server/api/json_text.h"

namespace serval::server {

std::string log_line(const RequestRecord& r) {
  constexpr double kMilliseconds = 1e3;
  std::string line = fmt::format(
      "request id={} key={} path={} status={} reason={} stream={} body_bytes={} prompt_tokens={} "
      "cached_tokens={} generated_tokens={} queue_ms={:.1f} first_token_ms={:.1f} total_ms={:.1f}",
      r.id, r.key, r.path, r.status, r.reason, r.stream, r.body_bytes, r.prompt_tokens, r.cached_tokens,
      r.completion_tokens, r.queue_s * kMilliseconds, r.first_token_s * kMilliseconds,
      r.total_s * kMilliseconds);
  if (r.request_id != r.id) line += " request_id=" + json_text(r.request_id);
  if (!r.user.empty()) line += " user=" + json_text(r.user);  // in quotes, and escaped to one line
  return line;
}

}  // namespace serval::server
