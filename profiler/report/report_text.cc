#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <numeric>

#include "profiler/report/report.h"

namespace serval {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kBytesPerMegabyte = 1e6, kOperationsPerGflop = 1e9;

double us(double ns) {
  return ns / kNsPerUs;
}
double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string head(const Report& r) {
  std::string out;
  for (const auto& [key, value] : r.metadata) out += fmt::format("{:<18}{}\n", key, value);
  const auto [least, most] = std::minmax_element(r.token_ns.begin(), r.token_ns.end());
  out += fmt::format("{:<18}{}, {} SMs{}\n", "source", kTraceSourceNames[static_cast<size_t>(r.source)],
                     r.sms, r.ranks > 1 ? fmt::format(" of {} GPUs", r.ranks) : "");
  out += fmt::format("{:<18}{:.2f} us", "token time", us(r.median_token_ns));
  if (r.tokens > 1) out += fmt::format(" (median of {}: {:.2f} to {:.2f})", r.tokens, us(*least), us(*most));
  out += fmt::format("\n{:<18}{:.2f} MB a token, {:.0f} GB/s\n", "read",
                     static_cast<double>(r.bytes) / kBytesPerMegabyte, r.gb_per_s);
  out += fmt::format("{:<18}{:.2f} GFLOP a token, {:.1f} TFLOP/s\n", "computed",
                     static_cast<double>(r.operations) / kOperationsPerGflop, r.tflop_per_s);
  if (r.limit_gb_per_s > 0) {
    const bool memory = r.limit_ns >= r.compute_limit_ns;
    out += fmt::format(
        "{:<18}{:.0f} GB/s takes {:.2f} us, {:.0f} TFLOP/s {:.2f} us: {:.1f} % of what {} allows\n", "limit",
        r.limit_gb_per_s, us(r.limit_ns), r.limit_tflop_per_s, us(r.compute_limit_ns),
        percent(std::max(r.limit_ns, r.compute_limit_ns), r.median_token_ns),
        memory ? "memory" : "arithmetic");
  }
  out += fmt::format("{:<18}bytes {:.1f} %, compute {:.1f} %: the fullest SM above the mean\n", "imbalance",
                     100 * r.imbalance, 100 * r.compute_imbalance);
  return out;
}

// The path's times by state, and last the waits for another GPU's signal.
using PathTimes = std::array<double, kNumSliceStates + 1>;

size_t column_of(const PathSummary& p) {
  return p.over_link ? kNumSliceStates : static_cast<size_t>(p.state);
}

// One line for each op on the path, one column for each state, and one for the link if there are several
// GPUs.
std::string path_table(const Report& r) {
  std::string out = fmt::format("\ncritical path, us a token\n{:<18}", "op");
  const size_t columns = r.ranks > 1 ? kNumSliceStates + 1 : kNumSliceStates;
  PathTimes sums{};
  std::vector<std::string> ops;
  double all = 0;
  for (const PathSummary& p : r.path) {
    sums[column_of(p)] += p.ns;
    all += p.ns;
    if (std::find(ops.begin(), ops.end(), p.op) == ops.end()) ops.push_back(p.op);
  }
  for (const char* state : kSliceStateNames) out += fmt::format("{:>9}", state);
  if (r.ranks > 1) out += fmt::format("{:>9}", kLinkState);
  out += fmt::format("{:>9}{:>9}\n", "all", "share");
  const auto line = [&](const std::string& name, const PathTimes& times) {
    out += fmt::format("{:<18}", name);
    for (size_t c = 0; c < columns; ++c) out += fmt::format("{:>9.2f}", us(times[c]));
    const double sum = std::accumulate(times.begin(), times.end(), 0.0);
    out += fmt::format("{:>9.2f}{:>7.1f} %\n", us(sum), percent(sum, all));
  };
  for (const std::string& op : ops) {
    PathTimes times{};
    for (const PathSummary& p : r.path) {
      if (p.op == op) times[column_of(p)] += p.ns;
    }
    line(op, times);
  }
  line("all", sums);
  return out;
}

std::string op_table(const Report& r) {
  std::string out = fmt::format("\nops, us a token on an average SM\n{:<18}{:>9}{:>11}{:>9}{:>9}{:>9}{:>9}\n",
                                "op", "runs", "MB", "wait", "load", "compute", "store");
  const auto sms = static_cast<double>(r.sms);
  for (const OpSummary& op : r.ops) {
    out += fmt::format("{:<18}{:>9}{:>11.2f}{:>9.2f}{:>9.2f}{:>9.2f}{:>9.2f}\n", op.op, op.executions,
                       static_cast<double>(op.bytes) / kBytesPerMegabyte, us(op.wait_ns / sms),
                       us(op.load_ns / sms), us(op.compute_ns / sms), us(op.store_ns / sms));
  }
  return out;
}

// One line for each op that pushes to other GPUs.
std::string exchange_table(const Report& r) {
  if (r.exchanges.empty()) return "";
  std::string out = fmt::format(
      "\nexchanges between GPUs; exposed and hidden: us a token on an average "
      "SM\n{:<18}{:>9}{:>11}{:>9}{:>9}{:>9}\n",
      "pushed by", "times", "MB", "transit", "exposed", "hidden");
  const auto sms = static_cast<double>(r.sms);
  ExchangeSummary all{.op = "all"};
  const auto line = [&](const ExchangeSummary& e, const std::string& transit) {
    out += fmt::format("{:<18}{:>9.0f}{:>11.3f}{:>9}{:>9.2f}{:>9.2f}\n", e.op, e.exchanges,
                       static_cast<double>(e.bytes) / kBytesPerMegabyte, transit, us(e.exposed_ns / sms),
                       us(e.hidden_ns / sms));
  };
  for (const ExchangeSummary& e : r.exchanges) {
    line(e, e.transit_ns > 0 ? fmt::format("{:.2f}", us(e.transit_ns)) : "-");
    all.exchanges += e.exchanges;
    all.bytes += e.bytes;
    all.exposed_ns += e.exposed_ns;
    all.hidden_ns += e.hidden_ns;
  }
  line(all, "");
  return out;
}

// Shows the SMs whose consumers compute least.
std::string sm_table(const Report& r) {
  constexpr size_t kMostLines = 8;
  std::vector<SmSummary> sms = r.by_sm;
  std::stable_sort(sms.begin(), sms.end(),
                   [](const SmSummary& a, const SmSummary& b) { return a.compute_ns < b.compute_ns; });
  sms.resize(std::min(sms.size(), kMostLines));
  std::string out =
      fmt::format("\nbubbles, us a token: SMs that compute least\n{:<18}{:>9}{:>9}{:>9}{:>9}{:>11}  {}\n",
                  "SM", "compute", "wait", "load", "idle", "MB", "longest wait");
  for (const SmSummary& sm : sms) {
    out += fmt::format("{:<18}{:>9.2f}{:>9.2f}{:>9.2f}{:>9.2f}{:>11.2f}  ",
                       r.ranks > 1 ? sm.name : std::to_string(sm.sm), us(sm.compute_ns), us(sm.wait_ns),
                       us(sm.load_ns), us(sm.idle_ns), static_cast<double>(sm.bytes) / kBytesPerMegabyte);
    if (!sm.worst_wait.empty()) out += fmt::format("{} {:.2f} us", sm.worst_wait, us(sm.worst_wait_ns));
    out += '\n';
  }
  return out;
}

// Bandwidth over time in a few steps, each with a bar that is full at the limit.
std::string bandwidth_table(const Report& r) {
  constexpr size_t kLines = 16;
  constexpr double kBarLength = 40;
  const std::vector<TrackPoint>& points = r.bandwidth.points;
  double most = r.limit_gb_per_s;
  if (most <= 0) {
    for (const TrackPoint& p : points) most = std::max(most, p.value);
  }
  std::string out = fmt::format("\nbandwidth, GB/s; a full bar is {:.0f}\n", most);
  const size_t step = (points.size() + kLines - 1) / kLines;
  for (size_t first = 0; first < points.size(); first += step) {
    const size_t last = std::min(points.size(), first + step);
    double sum = 0;
    for (size_t p = first; p < last; ++p) sum += points[p].value;
    const double mean = sum / static_cast<double>(last - first);
    const double bar = std::clamp(most > 0 ? mean / most : 0, 0.0, 1.0) * kBarLength;
    const double at = static_cast<double>(points[first].at_ns - points.front().at_ns);
    out += fmt::format("{:>12.2f} us {:>9.0f}", us(at), mean);
    if (bar >= 1) out += "  " + std::string(static_cast<size_t>(bar), '#');
    out += '\n';
  }
  return out;
}

std::string straggler_table(const Report& r) {
  if (r.stragglers.empty()) return "";
  std::string out = "\nstragglers: later than the median of their op in the same join\n";
  for (const Straggler& s : r.stragglers) {
    out += fmt::format("{:<18}{:<8}counter {:<7}{:>9.2f} us late", s.op, s.sm_name, s.counter, us(s.late_ns));
    out += s.layer == kNoTag ? "\n" : fmt::format("  layer {}\n", s.layer);
  }
  return out;
}

std::string saving_table(const Report& r) {
  if (r.savings.empty()) return "";
  std::string out = "\nwhat would save most, as the simulator predicts\n";
  for (const Saving& s : r.savings)
    out += fmt::format("{:>9.2f} us {:>6.1f} %  {}\n", us(s.saved_ns), percent(s.saved_ns, r.median_token_ns),
                       s.change);
  return out;
}

}  // namespace

std::string to_text(const Report& report) {
  return head(report) + path_table(report) + op_table(report) + exchange_table(report) + sm_table(report) +
         bandwidth_table(report) + straggler_table(report) + saving_table(report);
}

}  // namespace serval
