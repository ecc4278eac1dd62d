// Conversations as the tokens a chat model was tuned on. The Jinja programs that checkpoints carry are not
// run; the two formats known here are recognised by the control tokens that such a program writes:
//
//   llama3  <|begin_of_text|>, then for each message
//           <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
//           with white space at the ends of CONTENT removed (Meta's "Llama 3 prompt format"). The preamble
//           with dates that the programs of Llama 3.1 and later put into the system message is left out.
//   chatml  for each message <|im_start|>ROLE\nCONTENT<|im_end|>\n, after the BOS token if the program names
//   it.
//
// A BOS token that both the program and tokenizer_config.json name takes the place of <|begin_of_text|>.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/tokenizer.h"

namespace serval {

struct ChatTurn {
  std::string role;     // "system", "user", "assistant", …: 1 to 64 ASCII letters, digits, '_' and '-'
  std::string content;  // any text; control tokens written in it stay text
};

// Immutable; every member may be called from several threads at once.
class ChatTemplate {
 public:
  // The template of a checkpoint: chat_template.jinja, or `chat_template` in tokenizer_config.json. Throws
  // Error(kRuntime), which names the choices, where there is none, it is unknown, or its tokens are not in
  // the vocabulary.
  static ChatTemplate recognise(const std::filesystem::path& model_dir, const Tokenizer& tokenizer);

  // The same for the program's text; `where` begins the message of an Error.
  static ChatTemplate recognise_text(std::string_view jinja, const std::string& where,
                                     const Tokenizer& tokenizer);

  // One of names(). Throws Error(kUsage) for another, Error(kRuntime) where its tokens are not in the
  // vocabulary.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);
  static std::vector<std::string> names();

  std::string_view name() const;

  // `add_generation_prompt` adds the beginning of the assistant's next message. Throws Error(kUsage) for a
  // bad role.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                   bool add_generation_prompt) const;
  std::string render(std::span<const ChatTurn> messages, bool add_generation_prompt) const;

  // The tokens that end an answer, as far as the vocabulary has them.
  std::vector<std::int32_t> stop_ids(const Tokenizer& tokenizer) const;

 private:
  struct Format;
  struct Part;
  ChatTemplate(const Format& format, std::string bos) : format_(&format), bos_(std::move(bos)) {}
  static std::span<const Format> formats();
  static std::string choices();
  static ChatTemplate of(const Format& format, std::string bos, const std::string& where,
                         const Tokenizer& tokenizer);
  std::vector<Part> parts(std::span<const ChatTurn> messages, bool add_generation_prompt) const;

  const Format* format_;
  std::string bos_;  // control token before the first message, or empty
};

}  // namespace serval
