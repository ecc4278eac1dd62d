// Several sequences decoded together, each with its own prompt, length and seed. A new one joins whenever
// another has left. On a CPU, a story does not depend on the others.
//
//   example_batch [MODEL]
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "serval/engine.h"

namespace {

const std::vector<std::string> kBeginnings = {"Once upon a time", "One day, a little fox", "The old mill",
                                              "In a quiet village", "Mia had a kite"};
constexpr size_t kTogether = 3;  // stories told at the same time

serval::Request request_for(size_t story) {
  serval::Request request;
  request.prompt = kBeginnings[story];
  request.max_tokens = 20 + 10 * static_cast<int>(story);
  request.sampling.seed = 100 + story;
  request.sampling.temperature = story % 2 == 0 ? 0.0f : 0.8f;
  return request;
}

}  // namespace

int main(int argc, char** argv) try {
  serval::EngineOptions options;
  if (argc > 1) options.model = argv[1];
  serval::Engine engine = serval::Engine::load(options);

  serval::Batch batch(engine);
  std::map<uint64_t, size_t> story_of;  // by handle
  size_t joined = 0, told = 0;
  while (told < kBeginnings.size()) {
    while (joined < kBeginnings.size() && story_of.size() < kTogether) {
      story_of[batch.add(request_for(joined))] = joined;
      ++joined;
    }
    for (const serval::TokenEvent& event : batch.step()) {
      if (event.finish == serval::Finish::kNone) continue;
      std::cout << kBeginnings[story_of[event.sequence]] << batch.take(event.sequence).text << "\n\n";
      story_of.erase(event.sequence);
      ++told;
    }
  }
  std::cout << told << " stories\n";
  return 0;
} catch (const serval::Error& error) {
  std::cerr << "example_batch: " << error.what() << '\n';
  return error.exit_code();
}
