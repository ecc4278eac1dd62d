#include "profiler/report/diff.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace serval {
namespace {

using nlohmann::ordered_json;
using Figures = std::map<std::pair<std::string, std::string>, double>;  // [op, state] ns

Figures op_figures(const Report& r) {
  Figures out;
  const auto sms = static_cast<double>(r.sms);
  for (const OpSummary& op : r.ops) {
    out[{op.op, "wait"}] = op.wait_ns / sms;
    out[{op.op, "load"}] = op.load_ns / sms;
    out[{op.op, "compute"}] = op.compute_ns / sms;
    out[{op.op, "store"}] = op.store_ns / sms;
  }
  return out;
}

Figures path_figures(const Report& r) {
  Figures out;
  for (const PathSummary& p : r.path) out[{p.op, p.state_name()}] = p.ns;
  return out;
}

std::vector<Change> changes(const Figures& before, const Figures& after) {
  std::map<std::pair<std::string, std::string>, Change> all;
  for (const auto& [key, ns] : before) all[key].before_ns = ns;
  for (const auto& [key, ns] : after) all[key].after_ns = ns;
  std::vector<Change> out;
  for (auto& [key, change] : all) {
    std::tie(change.op, change.state) = key;
    if (change.before_ns != 0 || change.after_ns != 0) out.push_back(change);
  }
  std::stable_sort(out.begin(), out.end(), [](const Change& a, const Change& b) {
    return std::abs(a.difference_ns()) > std::abs(b.difference_ns());
  });
  return out;
}

constexpr double kNsPerUs = 1e3;

std::string line(const std::string& name, const Change& c) {
  std::string out = fmt::format("{:<28}{:>12.2f}{:>12.2f}{:>+12.2f}", name, c.before_ns / kNsPerUs,
                                c.after_ns / kNsPerUs, c.difference_ns() / kNsPerUs);
  if (c.before_ns > 0) out += fmt::format("{:>+9.1f} %", 100 * c.difference_ns() / c.before_ns);
  return out + '\n';
}

std::string table(const std::string& title, const std::vector<Change>& rows) {
  constexpr size_t kMostLines = 20;
  std::string out = '\n' + title + '\n';
  for (size_t r = 0; r < std::min(rows.size(), kMostLines); ++r)
    out += line(fmt::format("{:<19}{}", rows[r].op, rows[r].state), rows[r]);
  return out;
}

ordered_json change_json(const Change& c) {
  ordered_json out;
  if (!c.op.empty()) out = {{"op", c.op}, {"state", c.state}};
  out["before_ns"] = c.before_ns;
  out["after_ns"] = c.after_ns;
  out["difference_ns"] = c.difference_ns();
  return out;
}

ordered_json changes_json(const std::vector<Change>& rows) {
  ordered_json out = ordered_json::array();
  for (const Change& c : rows) out.push_back(change_json(c));
  return out;
}

}  // namespace

TraceDiff diff_of(const Report& before, const Report& after) {
  return {.token = {"", "", before.median_token_ns, after.median_token_ns},
          .ops = changes(op_figures(before), op_figures(after)),
          .path = changes(path_figures(before), path_figures(after))};
}

std::string to_text(const TraceDiff& diff) {
  return fmt::format("{:<28}{:>12}{:>12}{:>12}\n", "us a token", "before", "after", "difference") +
         line("token time", diff.token) + table("ops, on an average SM", diff.ops) +
         table("critical path", diff.path);
}

std::string to_json(const TraceDiff& diff) {
  const ordered_json out = {{"token", change_json(diff.token)},
                            {"slower", diff.slower()},
                            {"ops", changes_json(diff.ops)},
                            {"path", changes_json(diff.path)}};
  return out.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace serval
