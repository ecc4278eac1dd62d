// The tokenizer and the chat template in a GGUF file's metadata.
#pragma once

#include "models/gguf/gguf_file.h"
#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

bool has_gguf_tokenizer(const GgufFields& fields);

// tokenizer.ggml.model "gpt2", byte-level BPE, with a pre-tokenizer (tokenizer.ggml.pre) that is known, or
// "llama", SentencePiece's BPE. Throws Error(kRuntime) with one line that names the file and the field.
Tokenizer read_gguf_tokenizer(const GgufFields& fields);

// tokenizer.chat_template. Throws, naming the choices, where there is none, and as ChatTemplate::of_text().
ChatTemplate read_gguf_chat_template(const GgufFields& fields, const Tokenizer& tokenizer);

}  // namespace serval
