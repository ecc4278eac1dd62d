// Conversations as the tokens a chat model was tuned on: the checkpoint's own Jinja template (models/jinja/)
// is evaluated, as transformers' apply_chat_template does it. It gets `messages` (each with role, content
// and, where it has one, name), `tools` and `documents` (none), `add_generation_prompt`, and `bos_token` and
// `eos_token` as far as tokenizer_config.json names them.
//
// Two templates are built in: llama3 (Meta's "Llama 3 prompt format", without the preamble that Llama 3.1 and
// later put into the system message) and chatml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/jinja/text.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

struct ChatTurn {
  std::string role;       // "system", "user", "assistant", …: 1 to 64 ASCII letters, digits, '_' and '-'
  std::string content;    // any text; control tokens written in it stay text
  std::string name = {};  // the same; empty: none, and the template sees none
};

// Immutable; every member may be called from several threads at once. Copies share the template.
class ChatTemplate {
 public:
  // The template of a checkpoint: chat_template.jinja, or `chat_template` in tokenizer_config.json. Throws
  // Error(kRuntime), which names the choices, where there is none, and one with the line of the template
  // where it cannot be read.
  static ChatTemplate of_checkpoint(const std::filesystem::path& model_dir, const Tokenizer& tokenizer);

  // A template's text. `where` begins the message of an Error, `name` is what name() gives.
  static ChatTemplate of_text(std::string_view jinja, std::string where, std::string name,
                              const Tokenizer& tokenizer);

  // Throws the Error(kRuntime) of a model that has none `where` it would be.
  [[noreturn]] static void refuse_missing(const std::string& where);

  // One of names(), or a file with a template. Throws Error(kUsage) where it is neither, Error(kRuntime)
  // where a built-in template's tokens are not in the vocabulary, or as of_text.
  static ChatTemplate chosen(const std::string& name_or_file, const Tokenizer& tokenizer);
  static std::vector<std::string> names();
  static bool can_be_chosen(const std::string& name_or_file);

  // A built-in template's name, the file that was chosen, or the checkpoint's file that has the template.
  const std::string& name() const;

  // `add_generation_prompt` adds the beginning of the assistant's next message. Throws Error(kUsage) for a
  // bad role and where the template refuses the messages or fails on them:
  // "messages: chat template NAME: line N: …", without the path of its file.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                   bool add_generation_prompt) const;
  std::string render(std::span<const ChatTurn> messages, bool add_generation_prompt) const;

  // The tokens that end an answer: what the template writes after one, and those that models tuned with it
  // use in its place, as far as the vocabulary has them.
  std::vector<std::int32_t> stop_ids() const;

 private:
  struct Loaded;
  explicit ChatTemplate(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}
  jinja::Text written(std::span<const ChatTurn> messages, bool add_generation_prompt) const;
  std::vector<std::int32_t> find_stop_ids(const Tokenizer& tokenizer) const;

  std::shared_ptr<const Loaded> loaded_;
};

}  // namespace serval
