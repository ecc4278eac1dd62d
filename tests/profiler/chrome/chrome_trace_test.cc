// Trace files: reading restores what was written, and damaged files are refused.
#include "profiler/chrome/chrome_trace.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "profiler/analysis/edges.h"
#include "profiler/analysis/slices.h"
#include "tests/profiler/toy_traces.h"
#include "tests/profiler/trace_builder.h"
#include "tests/text_pieces.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const TextPieces& text, const TraceLimits& limits = {}) {
  try {
    from_chrome_json(text, "a.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), StartsWith("a.json: "));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "no error";
}
std::string error_of(const std::string& text) {
  return error_of(one_piece(text));
}

// The trace of two SMs with every feature that a file can contain.
Trace rich_trace() {
  Trace trace = two_sm_trace().trace();
  trace.metadata = {{"model", "toy \"\xc3\xa9\\"}, {"context", "128"}};
  trace.program.instructions[2].layer = 7;
  trace.samples = {{3, 0, 32768, 7}, {5, 1, 16384, 4}};
  return trace;
}

TEST(ChromeTrace, GivesBackWhatWentIn) {
  const Trace trace = rich_trace();
  const std::string text = to_chrome_json(trace);
  const Trace back = from_chrome_json(text, "a.json");
  EXPECT_EQ(back.metadata, trace.metadata);
  EXPECT_EQ(back.program.instructions[2].text, trace.program.instructions[2].text);
  EXPECT_EQ(back.program.machine, trace.program.machine);
  EXPECT_EQ(back.executions[2].at, trace.executions[2].at);
  EXPECT_EQ(edges_of(back), edges_of(trace));
  EXPECT_EQ(to_chrome_json(back), text);
}

TEST(ChromeTrace, FilesMayBeCompressed) {
  const std::filesystem::path folder = ::testing::TempDir();
  for (const char* name : {"serval_trace.json", "serval_trace.json.gz"}) {
    write_trace(rich_trace(), folder / name);
    EXPECT_EQ(to_chrome_json(read_trace(folder / name)), to_chrome_json(rich_trace()));
    std::filesystem::remove(folder / name);
  }
  EXPECT_THROW(write_trace(rich_trace(), folder / "no such folder" / "a.json"), Error);
}

TEST(ChromeTrace, MayHaveMoreValuesThanATreeMayHold) {
  Trace trace = rich_trace();
  constexpr size_t kValuesOfWait = 4;
  trace.program.waits.resize(kMaxJsonValues / kValuesOfWait + 1, {0, 1, 1});
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "serval_long.json.gz";
  write_trace(trace, path);
  EXPECT_EQ(read_trace(path).program.waits, trace.program.waits);
  std::filesystem::remove(path);
}

TEST(ChromeTrace, WhatIsKeptOfAFileWithoutEndIsBounded) {
  std::string execution = "[0,0,0,0,0,0,0";
  for (size_t kind = 0; kind < kNumEventKinds; ++kind) execution += ",0";
  const std::pair<const char*, std::string> lists[] = {
      {R"({"traceEvents":[)", R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":0},)"},
      {R"({"serval":{"waits":[)", "[0,0,0],"},
      {R"({"serval":{"signals":[)", "[0,0],"},
      {R"({"serval":{"pushes":[)", "[0,0,0,0],"},
      {R"({"servalInstructions":[)", R"([0,0,0,0,0,0,0,0,0,0,"text"],)"},
      {R"({"servalExecutions":[)", execution + "],"},
      {R"({"servalSamples":[)", "[0,0,0,0],"}};
  for (const auto& [begin, element] : lists) {
    size_t pieces = 0;
    EXPECT_EQ(error_of(without_end(begin, element, pieces), {.memory_bytes = 10'000}),
              "a.json: its events and lists need more than 10000 bytes of memory")
        << begin;
    EXPECT_LT(pieces, 2'000U);
  }
}

TEST(ChromeTrace, OfARecordedRunIsWhatTheFormatAsksFor) {
  ToyBuilder b(2);
  const uint32_t first = b.counter(), gate = b.counter();
  b.add(0, kToyAdd, {.in = 0, .out = 1, .value = 5}, {}, {{first, 1}});
  b.add(1, kToyEnd, {}, {{first, 1, 1}}, {{gate, 1}});
  ToyMachine machine(b.build(gate), 2);
  EXPECT_EQ(error_of(to_chrome_json(record_toy(machine, 20, 20))), "no error");
}

TEST(ChromeTrace, HasASliceForEachStateAndAnArrowForEachWait) {
  const Trace trace = rich_trace();
  std::map<std::string, size_t> phases;
  const json root = json::parse(to_chrome_json(trace));
  for (const json& event : root["traceEvents"]) ++phases[event["ph"]];
  EXPECT_EQ(phases["X"], slices_of(trace).size());
  EXPECT_EQ(phases["s"], edges_of(trace).size());
  EXPECT_EQ(phases["f"], edges_of(trace).size());
  EXPECT_EQ(phases["M"], 1 + 2 * trace.program.machine.sms * kNumSmRoles);
  EXPECT_GT(phases["C"], 0U);
  EXPECT_EQ(root["displayTimeUnit"], "ns");
}

TEST(ChromeTrace, AGpuIsAProcessAndArrowsGoFromOneToAnother) {
  const Trace trace = two_gpu_trace().trace();
  const std::string text = to_chrome_json(trace);
  const json root = json::parse(text);
  std::map<int64_t, std::string> processes;
  std::map<std::string, std::set<int64_t>> threads;  // processes by name
  std::map<int64_t, int64_t> starts, crossings;      // by flow: process; and from process to process
  std::set<int64_t> counters;
  for (const json& event : root["traceEvents"]) {
    const int64_t pid = event["pid"];
    if (event["name"] == "process_name") processes[pid] = event["args"]["name"];
    if (event["name"] == "thread_name") threads[event["args"]["name"]].insert(pid);
    if (event["ph"] == "C") counters.insert(pid);
    if (event["ph"] == "s") starts[event["id"]] = pid;
    if (event["ph"] != "f") continue;
    const bool crosses = starts.at(event["id"]) != pid;
    EXPECT_EQ(event["cat"] == "link", crosses);
    EXPECT_EQ(event["name"].get<std::string>().ends_with(" over the link"), crosses);
    if (crosses) crossings[starts.at(event["id"])] = pid;
  }
  EXPECT_EQ(processes,
            (std::map<int64_t, std::string>{{1, "GPU 0: test (device)"}, {2, "GPU 1: test (device)"}}));
  EXPECT_EQ(threads["SM 0 storer"], (std::set<int64_t>{1, 2}));
  EXPECT_EQ(crossings, (std::map<int64_t, int64_t>{{1, 2}, {2, 1}}));
  EXPECT_EQ(counters, (std::set<int64_t>{1, 2}));

  const Trace back = from_chrome_json(text, "a.json");
  EXPECT_EQ(back.program.ranks, 2U);
  EXPECT_EQ(back.program.pushes, trace.program.pushes);
  EXPECT_EQ(to_chrome_json(back), text);
}

TEST(ChromeTrace, OfOneGpuSaysNothingOfRanks) {
  const json root = json::parse(to_chrome_json(rich_trace()));
  EXPECT_FALSE(root["serval"].contains("ranks"));
  EXPECT_FALSE(root["serval"].contains("pushes"));
}

TEST(ChromeTrace, SlicesCarryWhatAClickIsToShow) {
  const json root = json::parse(to_chrome_json(rich_trace()));
  bool found = false;
  for (const json& event : root["traceEvents"]) {
    if (event["ph"] != "X" || event["name"] != "long") continue;
    found = true;
    EXPECT_EQ(event["cat"], "compute");
    EXPECT_EQ(event["args"]["layer"], 7);
    EXPECT_EQ(event["args"]["bytes"], 3000);
    EXPECT_THAT(event["args"]["text"].get<std::string>(), StartsWith("long "));
  }
  EXPECT_TRUE(found);
}

TEST(ChromeTrace, CutAnywhereItIsAnError) {
  const std::string text = to_chrome_json(rich_trace());
  // The last byte is a line break; the file is complete without it.
  for (size_t length = 0; length + 1 < text.size(); length += 1 + text.size() / 200)
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
}

TEST(ChromeTrace, WithAByteChangedItIsReadOrRefused) {
  const std::string good = to_chrome_json(rich_trace());
  const size_t step = good.size() / 100;
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); at += step) {
    for (const char byte : {'\0', '"', '9', '['}) {
      std::string text = good;
      text[at] = byte;
      refused += error_of(text) == "no error" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, good.size() / step);
}

// The error after `damage` to the file's JSON tree.
std::string error_after(const std::function<void(json&)>& damage) {
  json root = json::parse(to_chrome_json(rich_trace()));
  damage(root);
  return error_of(root.dump());
}

json& first_event(json& root, const std::string& phase) {
  for (json& event : root["traceEvents"]) {
    if (event["ph"] == phase) return event;
  }
  ADD_FAILURE() << "no event " << phase;
  return root;
}

TEST(ChromeTrace, FieldsThatAPhaseNeedsHaveToBeThere) {
  const auto expect = [](const char* said, const char* phase, const std::function<void(json&)>& damage) {
    EXPECT_THAT(error_after([&](json& root) { damage(first_event(root, phase)); }), HasSubstr(said));
  };
  expect("ph: \"B\", not one of X M C s f", "X", [](json& e) { e["ph"] = "B"; });
  expect("name: missing", "X", [](json& e) { e.erase("name"); });
  expect("tid: missing", "X", [](json& e) { e.erase("tid"); });
  expect("ts: missing", "X", [](json& e) { e["ts"] = "1"; });
  expect("dur: -1", "X", [](json& e) { e["dur"] = -1; });
  expect("args: missing, or not numbers", "C", [](json& e) { e["args"] = {{"value", "much"}}; });
  expect("id: missing", "s", [](json& e) { e.erase("id"); });
  expect("bp: not e", "f", [](json& e) { e["bp"] = "x"; });
}

TEST(ChromeTrace, TimeDoesNotGoBackAndSlicesDoNotOverlap) {
  const auto damage_second = [](const char* phase, const std::function<void(json&, const json&)>& damage) {
    return error_after([&](json& root) {
      json* before = nullptr;
      for (json& event : root["traceEvents"]) {
        if (event["ph"] != phase) continue;
        const bool same = before != nullptr && event.value("tid", 0) == before->value("tid", 0) &&
                          event["name"].is_string();
        if (same) return damage(event, *before);
        before = &event;
      }
      ADD_FAILURE() << "no two events " << phase;
    });
  };
  EXPECT_THAT(
      damage_second("X", [](json& e, const json& before) { e["ts"] = before["ts"].get<double>() - 0.001; }),
      HasSubstr("ts: before the thread's last slice"));
  EXPECT_THAT(damage_second("X", [](json& e, const json& before) { e["ts"] = before["ts"]; }),
              HasSubstr("ts: inside the thread's last slice"));
  EXPECT_THAT(error_after([](json& root) {
                json::array_t& events = root["traceEvents"].get_ref<json::array_t&>();
                std::reverse(events.begin(), events.end());
              }),
              HasSubstr("before the counter's last value"));
}

TEST(ChromeTrace, FlowsBeginAndEndOnceInsideSlices) {
  EXPECT_THAT(error_after([](json& root) { first_event(root, "s")["id"] = 1; }),
              HasSubstr("flow 1 appears twice"));
  EXPECT_THAT(error_after([](json& root) { first_event(root, "s")["id"] = 99; }), HasSubstr("no end"));
  EXPECT_THAT(error_after([](json& root) { first_event(root, "f")["ts"] = 0; }),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(error_after([](json& root) { first_event(root, "f")["ts"] = 900; }), HasSubstr("in no slice"));
  EXPECT_THAT(error_after([](json& root) { first_event(root, "f")["ph"] = "M"; }),
              HasSubstr("4 flows begin, 3 end"));
}

TEST(ChromeTrace, WhatIsDrawnHasToBeWhatWasRecorded) {
  EXPECT_THAT(error_after([](json& root) { root["servalExecutions"][0][18] = 200; }), HasSubstr("a.json"));
  EXPECT_THAT(error_after([](json& root) {
                root["traceEvents"].push_back(
                    {{"ph", "X"}, {"pid", 2}, {"tid", 1}, {"ts", 1}, {"dur", 1}, {"name", "x"}});
              }),
              HasSubstr("slices, its executions give"));
}

TEST(ChromeTrace, OtherProgramsTracesAreNotOurs) {
  EXPECT_THAT(error_of("{\"traceEvents\":[]}"), HasSubstr("not a trace of serval profile"));
  EXPECT_THAT(error_of("[]"), HasSubstr("a.json"));
  EXPECT_THAT(error_of("nonsense"), HasSubstr("not JSON"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["format"] = 2; }),
              HasSubstr("format: 2, expected 1"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["events"][3] = "other"; }),
              HasSubstr("events: not those of this version"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["source"] = "moon"; }), HasSubstr("\"moon\""));
}

TEST(ChromeTrace, ListsHaveToHaveWhatTheyClaim) {
  EXPECT_THAT(error_after([](json& root) { root["servalExecutions"][1].erase(3); }),
              HasSubstr("servalExecutions 1: not a list of 21 values"));
  EXPECT_THAT(error_after([](json& root) { root["servalExecutions"][1][2] = -1; }),
              HasSubstr("servalExecutions 1: value 3: -1; limit: 0"));
  EXPECT_THAT(error_after([](json& root) { root["servalExecutions"][1][4] = 1.5; }),
              HasSubstr("value 5: not an integer"));
  EXPECT_THAT(error_after([](json& root) { root["servalExecutions"][1][4] = UINT64_MAX; }),
              HasSubstr("value 5"));
  EXPECT_THAT(error_after([](json& root) { root["servalInstructions"][0][10] = 3; }),
              HasSubstr("servalInstructions 0: value 11: not a text"));
  EXPECT_THAT(error_after([](json& root) { root["servalSamples"][0] = 3; }),
              HasSubstr("servalSamples 0: not a list of 4 values"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["waits"] = 3; }), HasSubstr("waits: missing"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["ops"][0] = 3; }),
              HasSubstr("serval.ops: value 1"));
  EXPECT_THAT(error_after([](json& root) { root["serval"]["metadata"]["x"] = 3; }),
              HasSubstr("metadata: \"x\" is not a text"));
}

}  // namespace
}  // namespace serval::testing
