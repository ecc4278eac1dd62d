#include "profiler/sim/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "instructions/isa.h"
#include "profiler/sim/calibration_text.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"
#include "vm/layout/units.h"
#include "vm/state/limits.h"

namespace serval {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxLoadPoints = 64;
constexpr double kMaxUs = 1e6;
constexpr double kMaxGbPerS = 1e6;
constexpr double kMaxBytes = 1 << 30;
constexpr int kMaxPages = 4096;
constexpr double kMaxFactor = 1000;
constexpr double kMaxWarps = 32;
constexpr double kMaxBuffers = 256;
constexpr double kLeastPositive = 1e-3;
constexpr size_t kMaxMeasured = 256;
constexpr int64_t kMaxContext = 1 << 24;
constexpr double kMaxTokenUs = 1e9;

constexpr SimField kFields[] = {
    {"gb_per_s", "1e9 bytes/s", &SimParameters::gb_per_s, kLeastPositive, kMaxGbPerS, false},
    {"sm_gb_per_s", "1e9 bytes/s", &SimParameters::sm_gb_per_s, kLeastPositive, kMaxGbPerS, false},
    {"l2_gb_per_s", "1e9 bytes/s", &SimParameters::l2_gb_per_s, kLeastPositive, kMaxGbPerS, false},
    {"link_us", "us", &SimParameters::link_us, 0, kMaxUs, false},
    {"link_gb_per_s", "1e9 bytes/s", &SimParameters::link_gb_per_s, kLeastPositive, kMaxGbPerS, false},
    {"latency_factor", "1", &SimParameters::latency_factor, kLeastPositive, kMaxFactor, false},
    {"under_load_sms", "SMs", &SimParameters::under_load_sms, 1, kMaxSms, true},
    {"round_factor", "1", &SimParameters::round_factor, 0, kMaxFactor, false},
    {"notice_rounds", "rounds", &SimParameters::notice_rounds, 0, kMaxFactor, false},
    {"notice_us", "us", &SimParameters::notice_us, 0, kMaxUs, false},
    {"join_us", "us", &SimParameters::join_us, 0, kMaxUs, false},
    {"read_rounds", "rounds", &SimParameters::read_rounds, 0, kMaxFactor, false},
    {"ring_pages", "pages", &SimParameters::ring_pages, 0, kMaxPages, true},
    {"pages_in_flight_waiting", "pages", &SimParameters::pages_in_flight_waiting, 1, kMaxPages, true},
    {"pages_in_flight", "pages", &SimParameters::pages_in_flight, 1, kMaxPages, true},
    {"record_buffers", "instructions", &SimParameters::record_buffers, 1, kMaxBuffers, true},
    {"consumer_warps", "warps", &SimParameters::consumer_warps, 1, kMaxWarps, true},
    {"storer_warps", "warps", &SimParameters::storer_warps, 1, kMaxWarps, true},
    {"activation_rows", "rows", &SimParameters::activation_rows, 0, kMaxPages, true},
    {"partial_bytes", "bytes", &SimParameters::partial_bytes, kUnitRows * sizeof(float), kMaxBytes, true},
    {"partial_buffers", "units", &SimParameters::partial_buffers, 1, kMaxBuffers, true},
    {"fetch_us", "us", &SimParameters::fetch_us, 0, kMaxUs, false},
    {"load_us", "us", &SimParameters::load_us, 0, kMaxUs, false},
    {"issue_us", "us", &SimParameters::issue_us, 0, kMaxUs, false},
    {"land_us", "us", &SimParameters::land_us, 0, kMaxUs, false},
    {"prepare_us", "us", &SimParameters::prepare_us, 0, kMaxUs, false},
    {"prepare_us_per_kib", "us/KiB", &SimParameters::prepare_us_per_kib, 0, kMaxUs, false},
    {"scale_us", "us", &SimParameters::scale_us, 0, kMaxUs, false},
    {"take_us", "us", &SimParameters::take_us, 0, kMaxUs, false},
    {"multiply_us", "us", &SimParameters::multiply_us, 0, kMaxUs, false},
    {"chain_us", "us", &SimParameters::chain_us, 0, kMaxUs, false},
    {"sm_page_us", "us", &SimParameters::sm_page_us, 0, kMaxUs, false},
    {"store_us", "us", &SimParameters::store_us, 0, kMaxUs, false},
    {"next_tile_us", "us", &SimParameters::next_tile_us, 0, kMaxUs, false},
    {"last_storer_us", "us", &SimParameters::last_storer_us, 0, kMaxUs, false},
    {"signal_us", "us", &SimParameters::signal_us, 0, kMaxUs, false},
    {"slab_us", "us", &SimParameters::slab_us, 0, kMaxUs, false},
    {"slab_row_us", "us/row", &SimParameters::slab_row_us, 0, kMaxUs, false},
    {"part_us_per_kib", "us/KiB", &SimParameters::part_us_per_kib, 0, kMaxUs, false},
};

struct OpField {
  const char* name;
  double OpTimes::*member;
  double least, most;
};
constexpr OpField kOpFields[] = {
    {"fixed_us", &OpTimes::fixed_us, 0, kMaxUs},
    {"us_per_kib", &OpTimes::us_per_kib, 0, kMaxUs},
    {"us_per_mflop", &OpTimes::us_per_mflop, 0, kMaxUs},
    {"window_bytes", &OpTimes::window_bytes, 1024, kMaxBytes},
};

// An unknown name in a file is an error.
template <class Known>
void refuse_unknown(const nlohmann::json& object, const JsonFields& fields, Known&& known) {
  for (const auto& [key, value] : object.items()) {
    if (!known(key)) fields.fail(in_quotes(key), "unknown field");
  }
}

template <class Fields>
auto* find_named(Fields& fields, std::string_view name) {
  const auto found =
      std::find_if(std::begin(fields), std::end(fields), [&](const auto& f) { return name == f.name; });
  return found == std::end(fields) ? nullptr : &*found;
}

std::string required_text(const JsonFields& from, const char* key) {
  std::string text = from.text_or(key, "");
  if (text.empty()) from.fail(key, "missing");
  return text;
}

double read_number(const JsonFields& from, const SimField& field) {
  const double value = from.number("value", field.least, field.most);
  if (field.whole && value != std::floor(value))
    from.fail("value", fmt::format("found {}, expected a whole number", value));
  return value;
}

void read_fields(const JsonFields& file, const nlohmann::json& json, SimParameters& out) {
  const JsonFields parameters = file.object("parameters");
  refuse_unknown(json.at("parameters"), parameters,
                 [](const std::string& key) { return find_named(kFields, key) != nullptr; });
  for (const SimField& field : kFields) {
    const JsonFields parameter = parameters.object(field.name);
    const std::string unit = parameter.text_or("unit", "");
    if (unit != field.unit)
      parameter.fail("unit", fmt::format("found {}, expected \"{}\"", in_quotes(unit), field.unit));
    required_text(parameter, "from");
    out.*field.member = read_number(parameter, field);
  }
}

void read_under_load(const JsonFields& file, SimParameters& out) {
  const nlohmann::json* points = file.find("under_load");
  if (points == nullptr || !points->is_array() || points->size() < 2 || points->size() > kMaxLoadPoints)
    file.fail("under_load", fmt::format("expected an array of 2 to {} points", kMaxLoadPoints));
  for (size_t i = 0; i < points->size(); ++i) {
    const JsonFields point = file.element("under_load", i);
    const double least_bytes = i == 0 ? 0 : out.under_load.back().in_flight_bytes + 1;
    out.under_load.push_back(
        {.in_flight_bytes = point.number("in_flight_bytes", least_bytes, i == 0 ? 0 : kMaxBytes),
         .gb_per_s = point.number("gb_per_s", i == 0 ? 0 : kLeastPositive, kMaxGbPerS),
         .round_us = point.number("round_us", 0, kMaxUs)});
  }
}

OpTimes read_op(const JsonFields& from) {
  OpTimes times;
  for (const OpField& field : kOpFields)
    times.*field.member = from.number(field.name, field.least, field.most);
  return times;
}

constexpr const char* kDefaultOp = "default";

void read_ops(const JsonFields& file, const nlohmann::json& json, SimParameters& out) {
  const JsonFields ops = file.object("ops");
  refuse_unknown(json.at("ops"), ops, [](const std::string& key) {
    return key == kDefaultOp ||
           std::any_of(isa().begin(), isa().end(), [&](const OpInfo& op) { return key == op.name; });
  });
  const OpTimes otherwise = read_op(ops.object(kDefaultOp));
  for (const OpInfo& op : isa())
    out.ops.push_back(ops.has(op.name) ? read_op(ops.object(op.name)) : otherwise);
}

std::vector<std::string> read_what_ifs(const JsonFields& measured) {
  constexpr const char* kKey = "what_if";
  std::vector<std::string> what_ifs;
  const nlohmann::json* list = measured.find(kKey);
  if (list == nullptr) return what_ifs;
  for (const nlohmann::json& one : *list) {
    if (!list->is_array() || !one.is_string()) measured.fail(kKey, "expected an array of strings");
    what_ifs.push_back(one);
  }
  return what_ifs;
}

void read_measured(const JsonFields& file, SimParameters& out) {
  const nlohmann::json* all = file.find("measured");
  if (all == nullptr || !all->is_array() || all->size() > kMaxMeasured)
    file.fail("measured", fmt::format("expected an array of at most {} objects", kMaxMeasured));
  for (size_t i = 0; i < all->size(); ++i) {
    const JsonFields one = file.element("measured", i);
    required_text(one, "from");
    out.measured.push_back(
        {.model = required_text(one, "model"),
         .policy = required_text(one, "policy"),
         .sequences = static_cast<uint32_t>(one.integer("sequences", 1, kLargestSequences)),
         .context = static_cast<uint32_t>(one.integer("context", 0, kMaxContext)),
         .prompt = one.has("prompt") ? static_cast<uint32_t>(one.integer("prompt", 0, kLargestRows)) : 0,
         .us = one.number("us", kLeastPositive, kMaxTokenUs),
         .what_ifs = read_what_ifs(one)});
  }
}

[[noreturn]] void refuse(std::string_view name, const std::string& what) {
  throw Error(ErrorKind::kUsage, fmt::format("simulator: {}: {}", in_quotes(name), what));
}

void check_range(std::string_view name, double value, double least, double most, bool whole) {
  // A NaN fails this comparison, too.
  if (value >= least && value <= most && (!whole || value == std::floor(value))) return;
  refuse(name, fmt::format("{}; limit: {} to {}{}", value, least, most, whole ? ", whole" : ""));
}

// A number of the parameters with its range, found by its name.
struct Named {
  double* value;
  double least, most;
  bool whole;
};

Named named(SimParameters& parameters, std::string_view name) {
  if (const SimField* field = find_named(kFields, name))
    return {&(parameters.*field->member), field->least, field->most, field->whole};
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos) {
    const OpField* field = find_named(kOpFields, name.substr(dot + 1));
    const auto op = std::find_if(isa().begin(), isa().end(),
                                 [&](const OpInfo& o) { return name.substr(0, dot) == o.name; });
    if (field != nullptr && op != isa().end()) {
      OpTimes& times = parameters.ops[static_cast<size_t>(op - isa().begin())];
      return {&(times.*field->member), field->least, field->most, false};
    }
  }
  refuse(name, "unknown parameter");
}

}  // namespace

std::span<const SimField> sim_fields() {
  return kFields;
}

SimParameters parse_sim_parameters(std::string_view text, const std::string& name) {
  const nlohmann::json json = parse_json_text(text, name);
  const JsonFields file(json, name);
  refuse_unknown(json, file, [](const std::string& key) {
    return key == "name" || key == "parameters" || key == "under_load" || key == "ops" || key == "measured";
  });
  SimParameters out;
  out.name = required_text(file, "name");
  read_fields(file, json, out);
  read_under_load(file, out);
  read_ops(file, json, out);
  read_measured(file, out);
  return out;
}

SimParameters read_sim_parameters(const std::filesystem::path& path) {
  return parse_sim_parameters(read_text_file(path, kMaxFileBytes), path.string());
}

const SimParameters& h200_sim_parameters() {
  static const SimParameters parameters = parse_sim_parameters(kH200Calibration, "configs/h200.sim.json");
  return parameters;
}

double sim_parameter(const SimParameters& parameters, std::string_view name) {
  return *named(const_cast<SimParameters&>(parameters), name).value;
}

void set_sim_parameter(SimParameters& parameters, std::string_view name, double value) {
  const Named found = named(parameters, name);
  check_range(name, value, found.least, found.most, found.whole);
  *found.value = value;
}

void apply_what_if(SimParameters& parameters, std::string_view what_if) {
  const size_t equals = what_if.find('=');
  if (equals == std::string_view::npos) refuse(what_if, "expected NAME=VALUE or NAME=xFACTOR");
  const std::string_view name = what_if.substr(0, equals);
  std::string_view number = what_if.substr(equals + 1);
  const bool factor = number.starts_with('x');
  if (factor) number.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size())
    refuse(what_if, "expected a number after =");
  set_sim_parameter(parameters, name, factor ? value * sim_parameter(parameters, name) : value);
}

}  // namespace serval
