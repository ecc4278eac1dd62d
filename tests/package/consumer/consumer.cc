// Uses Serval as a stranger would: the installed headers, the library, and the model that came with it.
// Usage: consumer [MODEL_DIRECTORY]. Exits with 0 if everything behaved.
#include <iostream>
#include <serval/engine.h>
#include <serval/error.h>

namespace {

constexpr int kTokens = 4;

bool refuses_a_missing_model() {
  try {
    serval::Engine::load({.model = "no/such/directory"});
  } catch (const serval::Error& error) {
    std::cout << "refused: " << error.what() << '\n';
    return error.kind() == serval::ErrorKind::kRuntime;
  }
  return false;
}

bool generates(const char* model) {
  serval::Engine engine = serval::Engine::load({.model = model, .context = 64, .max_sequences = 1});
  const serval::Response response =
      engine.generate({.prompt = "Once upon a time", .sampling = {.temperature = 0}, .max_tokens = kTokens});
  std::cout << "generated:" << response.text << '\n';
  return response.tokens.size() == kTokens;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return refuses_a_missing_model() && (argc < 2 || generates(argv[1])) ? 0 : 1;
  } catch (const serval::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
