// Checks that events follow the Trace Event Format, for the part of it that our traces use.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace serval {

// Takes the events of one trace, in the order of the file.
class ChromeCheck {
 public:
  explicit ChromeCheck(std::string name) : name_(std::move(name)) {}

  // Throws Error(kRuntime), naming the trace, the event's number, the field and what is wrong: a phase other
  // than X, M, C, s, f; a field that its phase needs is missing or of a wrong type; a thread's slices or a
  // counter's values go back in time; slices overlap (the format allows one inside another, but our traces
  // have none).
  void add(const nlohmann::json& event);
  // To be called after the last event. Throws as well if a flow does not begin and end once each, ends before
  // it begins, or has an end outside every slice of its thread.
  void finish() const;

  uint64_t slices() const { return num_slices_; }
  uint64_t flows() const { return starts_.size(); }
  // About the memory that this object takes.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Span {
    int64_t begin_ns, end_ns;
  };
  using Thread = std::pair<int64_t, int64_t>;  // process, thread
  struct FlowEnd {
    Thread thread;
    int64_t at_ns;
  };
  using Flows = std::map<int64_t, FlowEnd>;  // by id

  [[noreturn]] void refuse(const std::string& what) const;
  int64_t integer(const nlohmann::json& event, const char* key) const;
  int64_t nanoseconds(const nlohmann::json& event, const char* key) const;
  std::string text(const nlohmann::json& event, const char* key) const;
  Thread thread_of(const nlohmann::json& event) const;
  void add_slice(const nlohmann::json& event);
  void add_counter(const nlohmann::json& event);
  void add_flow(const nlohmann::json& event, Flows& flows);
  template <class Map>
  void count_entry(const Map&);
  void check_enclosed(int64_t id, const FlowEnd& end) const;

  std::string name_;
  uint64_t event_ = 0;  // number of the event being checked
  uint64_t num_slices_ = 0;
  uint64_t bytes_ = 0;
  std::map<Thread, std::vector<Span>> slices_;
  std::map<std::pair<int64_t, std::string>, int64_t>
      counters_;  // by process and name: time of the last value
  Flows starts_, ends_;
};

}  // namespace serval
