#include "engine/server/http/descriptor_limit.h"

#include <algorithm>
#include <sys/resource.h>

namespace serval::server {

size_t raise_descriptor_limit(size_t connections) {
  constexpr size_t kOthers = 128;  // files of the model, threads, logs
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return connections;
  const rlim_t wanted = connections + kOthers;
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min(wanted, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  const auto all = static_cast<size_t>(limit.rlim_cur);
  return std::min(connections, all - std::min(all, kOthers));
}

}  // namespace serval::server
