// Reads the JSON of calls of tools in pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace serval {

// The beginning of a call's object, up to its arguments: {"name": "…", "arguments":
struct CallHead {
  enum class Match {
    kNo,
    kPartly,  // more text decides
    kYes,
  };
  Match match = Match::kNo;
  size_t length = 0;  // bytes that it takes; the arguments' object, if any, begins there
  std::string name = {};
  bool has_arguments = false;  // false: the object ended after the name
};

// Reads the head at the beginning of `text`. `"type": "function"` may precede the name, the key of the
// arguments may be "parameters", too, and spaces may stand where JSON allows them. The arguments must be an
// object.
CallHead read_call_head(std::string_view text);

// Follows the nesting of JSON text, byte by byte, to find the end of an object.
class JsonNesting {
 public:
  // `depth`: objects and arrays that are open already.
  explicit JsonNesting(int depth = 0) : depth_(depth) {}
  // The bytes of `text` up to the end of the outermost object; all of them if it does not end here.
  size_t read(std::string_view text);
  bool ended() const { return ended_; }

 private:
  int depth_;
  bool in_text_ = false, escaped_ = false, ended_ = false;
};

}  // namespace serval
