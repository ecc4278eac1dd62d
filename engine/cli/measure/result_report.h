// Prints a benchmark's results and appends them to a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace serval::cli {

struct MarkdownTable {
  std::string head;
  std::string (*row)(const nlohmann::ordered_json& result);
};

// Prints results as they arrive, and appends them to the record file.
class ResultReport {
 public:
  // `format` is md, json or csv. An empty `record_file` means none.
  ResultReport(std::string format, std::string record_file, MarkdownTable table)
      : format_(std::move(format)), record_file_(std::move(record_file)), table_(std::move(table)) {}

  void begin() const;
  // Throws Error(kRuntime) naming the file.
  void add(const nlohmann::ordered_json& result);
  // Prints `note` after a Markdown table unless it is empty.
  void end(const std::string& note = "") const;

 private:
  const std::string format_, record_file_;
  const MarkdownTable table_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace serval::cli
