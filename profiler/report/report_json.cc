#include <nlohmann/json.hpp>

#include "profiler/report/report.h"

namespace serval {
namespace {

using nlohmann::ordered_json;

template <class Rows, class Row>
ordered_json list_of(const Rows& rows, Row&& row) {
  ordered_json out = ordered_json::array();
  for (const auto& r : rows) out.push_back(row(r));
  return out;
}

ordered_json layer_of(uint16_t layer) {
  return layer == kNoTag ? ordered_json(nullptr) : ordered_json(layer);
}

ordered_json path_json(const PathSummary& p) {
  return {{"op", p.op}, {"state", p.state_name()}, {"ns", p.ns}, {"steps", p.steps}};
}

ordered_json op_json(const OpSummary& o) {
  return {
      {"op", o.op},           {"executions", o.executions}, {"bytes", o.bytes},      {"wait_ns", o.wait_ns},
      {"load_ns", o.load_ns}, {"compute_ns", o.compute_ns}, {"store_ns", o.store_ns}};
}

ordered_json sm_json(const SmSummary& s) {
  return {{"sm", s.sm},
          {"compute_ns", s.compute_ns},
          {"wait_ns", s.wait_ns},
          {"load_ns", s.load_ns},
          {"idle_ns", s.idle_ns},
          {"bytes", s.bytes},
          {"worst_wait", s.worst_wait},
          {"worst_wait_ns", s.worst_wait_ns}};
}

ordered_json straggler_json(const Straggler& s) {
  return {{"execution", s.execution}, {"op", s.op},          {"layer", layer_of(s.layer)}, {"sm", s.sm},
          {"counter", s.counter},     {"late_ns", s.late_ns}};
}

ordered_json exchange_json(const ExchangeSummary& e) {
  return {{"op", e.op},
          {"exchanges", e.exchanges},
          {"bytes", e.bytes},
          {"transit_ns", e.transit_ns},
          {"exposed_ns", e.exposed_ns},
          {"hidden_ns", e.hidden_ns}};
}

ordered_json saving_json(const Saving& s) {
  return {{"change", s.change}, {"saved_ns", s.saved_ns}};
}

ordered_json track_json(const Track& track) {
  return {{"name", track.name}, {"points", list_of(track.points, [](const TrackPoint& p) {
                                   return ordered_json{p.at_ns, p.value};
                                 })}};
}

}  // namespace

std::string to_json(const Report& r) {
  ordered_json out = {{"source", kTraceSourceNames[static_cast<size_t>(r.source)]},
                      {"metadata", r.metadata},
                      {"sms", r.sms},
                      {"tokens", r.tokens},
                      {"token_ns", r.token_ns},
                      {"median_token_ns", r.median_token_ns},
                      {"bytes", r.bytes},
                      {"operations", r.operations},
                      {"gb_per_s", r.gb_per_s},
                      {"tflop_per_s", r.tflop_per_s},
                      {"limit_gb_per_s", r.limit_gb_per_s},
                      {"limit_tflop_per_s", r.limit_tflop_per_s},
                      {"limit_ns", r.limit_ns},
                      {"compute_limit_ns", r.compute_limit_ns},
                      {"path", list_of(r.path, path_json)},
                      {"ops", list_of(r.ops, op_json)},
                      {"by_sm", list_of(r.by_sm, sm_json)},
                      {"imbalance", r.imbalance},
                      {"compute_imbalance", r.compute_imbalance},
                      {"bandwidth", track_json(r.bandwidth)},
                      {"stragglers", list_of(r.stragglers, straggler_json)},
                      {"savings", list_of(r.savings, saving_json)}};
  if (r.ranks > 1) {
    out["ranks"] = r.ranks;
    out["exchanges"] = list_of(r.exchanges, exchange_json);
  }
  return out.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace serval
