// Random requests to the bundled model on the host, most of which may have drafts.
#pragma once

#include "tests/engine/host_requests.h"

namespace serval::testing {

class DraftedRequests : public HostRequests {
 protected:
  static EngineOptions drafting(EngineOptions options, int draft_max, int ngram_min);
  // Most requests may have drafts, and many repeat themselves, so that drafts are right at times.
  static void allow_drafts(Request& request);
  // Some drafts were accepted, and some were not.
  void expect_drafts();
};

}  // namespace serval::testing
