// Prints texts that are generated in parallel one after the other.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace serval::cli {

struct PrintedText {
  std::string title;   // empty: none
  std::string prompt;  // printed before the generated text
};

// Prints to stdout in the order of the texts: the first unfinished one as it arrives, later ones when it is
// their turn.
class OrderedPrinter {
 public:
  explicit OrderedPrinter(std::vector<PrintedText> texts);

  void start() { begin_current(); }
  // Appends `more` to text `index`; `finished` marks its end.
  void add(size_t index, const std::string& more, bool finished);
  // Ends the texts that are still open because they were cancelled.
  void finish();

 private:
  void begin_current();
  void next();
  void print(const std::string& text);

  const std::vector<PrintedText> texts_;
  std::vector<std::string> waiting_;
  std::vector<bool> finished_;
  size_t current_ = 0;
  bool ended_line_ = true;
};

}  // namespace serval::cli
