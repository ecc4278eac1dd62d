#include "profiler/sim/parameters.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "instructions/isa.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream in(std::string(SERVAL_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

json calibration() {
  return json::parse(text_of("configs/h200.sim.json"));
}

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The error line for the calibration after `change`.
template <class Change>
std::string complaint(Change&& change) {
  json changed = calibration();
  change(changed);
  return error_of([&] { parse_sim_parameters(changed.dump(), "file"); });
}

TEST(SimParameters, AreWhatTheFileSays) {
  const json file = calibration();
  const SimParameters p = parse_sim_parameters(file.dump(), "file");
  for (const SimField& field : sim_fields())
    EXPECT_EQ(p.*field.member, file["parameters"][field.name]["value"].get<double>()) << field.name;
  EXPECT_EQ(p.under_load.size(), file["under_load"].size());
  ASSERT_EQ(p.ops.size(), size_t{kNumOpcodes});
  const auto attention = static_cast<size_t>(Opcode::kAttention);
  EXPECT_EQ(p.ops[attention].fixed_us, file["ops"]["attention"]["fixed_us"].get<double>());
}

TEST(SimParameters, TheLibraryCarriesTheCalibrationOfTheH200) {
  const SimParameters file = read_sim_parameters(std::string(SERVAL_SOURCE_DIR) + "/configs/h200.sim.json");
  EXPECT_EQ(h200_sim_parameters().name, file.name);
  for (const SimField& field : sim_fields())
    EXPECT_EQ(h200_sim_parameters().*field.member, file.*field.member);
}

// "kRingPages of vm/device/sm90/shared.cuh": the constant still has that value.
TEST(SimParameters, FollowTheKernelsConstants) {
  const std::regex reference(R"((k\w+) of (vm/\S+))");
  const json parameters = calibration()["parameters"];
  int found = 0;
  for (const auto& [name, parameter] : parameters.items()) {
    std::smatch match;
    const std::string from = parameter["from"];
    if (!std::regex_search(from, match, reference) || parameter["value"] == 0) continue;
    const std::string source = text_of(match[2]);
    std::smatch constant;
    ASSERT_TRUE(
        std::regex_search(source, constant, std::regex(match[1].str() + R"( = (\d+)(?: \* (\d+))?;)")))
        << name << ": no " << match[1] << " in " << match[2];
    const double factor = constant[2].matched ? std::stod(constant[2]) : 1;
    EXPECT_EQ(parameter["value"].get<double>(), std::stod(constant[1]) * factor)
        << name << ": the kernel has changed; calibrate again (docs/simulator.md)";
    ++found;
  }
  EXPECT_GT(found, 5);
}

TEST(SimParameters, RefuseAFileAndNameTheField) {
  EXPECT_EQ(complaint([](json& f) { f["parameters"].erase("gb_per_s"); }),
            "file: parameters.gb_per_s: missing");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["gb_per_s"]["value"] = -1; }),
            "file: parameters.gb_per_s.value: found -1, expected a number from 0.001 to 1000000");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["gb_per_s"]["value"] = "fast"; }),
            "file: parameters.gb_per_s.value: found \"fast\", expected a number from 0.001 to 1000000");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["fetch_us"]["unit"] = "ns"; }),
            "file: parameters.fetch_us.unit: found \"ns\", expected \"us\"");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["fetch_us"].erase("from"); }),
            "file: parameters.fetch_us.from: missing");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["consumer_warps"]["value"] = 7.5; }),
            "file: parameters.consumer_warps.value: found 7.5, expected a whole number");
  EXPECT_EQ(complaint([](json& f) { f["parameters"]["warp_speed"] = json::object(); }),
            "file: parameters.\"warp_speed\": unknown field");
  EXPECT_EQ(complaint([](json& f) { f["ops"]["attend"] = f["ops"]["default"]; }),
            "file: ops.\"attend\": unknown field");
  EXPECT_EQ(complaint([](json& f) { f["ops"]["attention"].erase("fixed_us"); }),
            "file: ops.attention.fixed_us: missing");
  EXPECT_EQ(complaint([](json& f) { f["more"] = 1; }), "file: \"more\": unknown field");
  EXPECT_EQ(complaint([](json& f) { f["under_load"] = json::array(); }),
            "file: under_load: expected an array of 2 to 64 points");
  EXPECT_THAT(complaint([](json& f) { std::swap(f["under_load"][1], f["under_load"][2]); }),
              HasSubstr("file: under_load[2].in_flight_bytes: found 16384"));
  EXPECT_EQ(complaint([](json& f) { f["measured"][0].erase("model"); }), "file: measured[0].model: missing");
  EXPECT_THAT(error_of([] { parse_sim_parameters("{", "file"); }), HasSubstr("file: byte"));
  EXPECT_THAT(error_of([] { parse_sim_parameters("[]", "file"); }), HasSubstr("expected a JSON object"));
}

TEST(WhatIf, SetsAParameterOrMultipliesIt) {
  SimParameters p = h200_sim_parameters();
  apply_what_if(p, "gb_per_s=6000");
  EXPECT_EQ(p.gb_per_s, 6000);
  apply_what_if(p, "gb_per_s=x0.5");
  EXPECT_EQ(p.gb_per_s, 3000);
  apply_what_if(p, "attention.fixed_us=2.5");
  EXPECT_EQ(p.ops[static_cast<size_t>(Opcode::kAttention)].fixed_us, 2.5);
  EXPECT_EQ(sim_parameter(p, "attention.fixed_us"), 2.5);
}

TEST(WhatIf, SaysWhatIsWrong) {
  const auto wrong = [](const char* what_if) {
    SimParameters p = h200_sim_parameters();
    return error_of([&] { apply_what_if(p, what_if); });
  };
  EXPECT_EQ(wrong("gb_per_s"), "simulator: \"gb_per_s\": expected NAME=VALUE or NAME=xFACTOR");
  EXPECT_EQ(wrong("gb_per_s=fast"), "simulator: \"gb_per_s=fast\": expected a number after =");
  EXPECT_EQ(wrong("gb_per_s="), "simulator: \"gb_per_s=\": expected a number after =");
  EXPECT_EQ(wrong("warp_speed=9"), "simulator: \"warp_speed\": unknown parameter");
  EXPECT_EQ(wrong("attention.speed=9"), "simulator: \"attention.speed\": unknown parameter");
  EXPECT_EQ(wrong("ring_pages=-1"), "simulator: \"ring_pages\": -1; limit: 0 to 4096, whole");
  EXPECT_EQ(wrong("ring_pages=2.5"), "simulator: \"ring_pages\": 2.5; limit: 0 to 4096, whole");
  EXPECT_EQ(wrong("multiply_us=nan"), "simulator: \"multiply_us\": nan; limit: 0 to 1000000");
}

}  // namespace
}  // namespace serval
