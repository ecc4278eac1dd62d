// The tokenizer and the chat template in a GGUF file's metadata.
#pragma once

#include "models/gguf/gguf_file.h"
#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

bool has_gguf_tokenizer(const GgufFields& fields);

// Supports tokenizer.ggml.model "gpt2" (byte-level BPE) with the pre-tokenizers of pre_tokenizers.h, and
// "llama" (SentencePiece's BPE). Throws Error(kRuntime) with one line that names the file and the field.
Tokenizer read_gguf_tokenizer(const GgufFields& fields);

// Reads tokenizer.chat_template. If it is missing, throws an error that names the alternatives. Also throws
// as ChatTemplate::of_text().
ChatTemplate read_gguf_chat_template(const GgufFields& fields, const Tokenizer& tokenizer);

}  // namespace serval
