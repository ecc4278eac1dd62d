#include "profiler/analysis/tracks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/trace_builder.h"

namespace serval::testing {
namespace {

const Track& track_named(const std::vector<Track>& tracks, const std::string& name) {
  for (const Track& track : tracks) {
    if (track.name == name) return track;
  }
  ADD_FAILURE() << "no track " << name;
  return tracks.front();
}

double area_of(const Track& track, int64_t end_ns) {
  double sum = 0;
  for (size_t p = 0; p < track.points.size(); ++p) {
    const int64_t until = p + 1 < track.points.size() ? track.points[p + 1].at_ns : end_ns;
    sum += track.points[p].value * static_cast<double>(until - track.points[p].at_ns);
  }
  return sum;
}

TEST(Tracks, BandwidthAddsUpToTheBytes) {
  const Trace trace = two_sm_trace().trace();
  for (const int64_t bin_ns : {1, 7, 100, 5000}) {
    EXPECT_NEAR(area_of(track_named(tracks_of(trace, bin_ns), "GB/s"), 2000), 2 * 3150, 1e-6) << bin_ns;
  }
}

TEST(Tracks, BytesComeWithThePagesOrWhileComputing) {
  const Trace trace = two_sm_trace().trace();
  const std::vector<TrackPoint> points = track_named(tracks_of(trace, 100), "GB/s").points;
  ASSERT_EQ(points.size(), 20U);
  EXPECT_EQ(points[1].at_ns, 100);
  EXPECT_DOUBLE_EQ(points[1].value, 3000.0 / 498);                   // long's pages: 2 to 500
  EXPECT_DOUBLE_EQ(points[0].value, 98 * (3000.0 / 498) / 100 + 1);  // and short's 100 bytes: 20 to 100
  EXPECT_DOUBLE_EQ(points[6].value, 0);
}

TEST(Tracks, ArithmeticAddsUpToTheOperations) {
  TraceBuilder b = two_sm_trace();
  for (TraceInstruction& i : b.trace().program.instructions) i.operations = 1000;
  for (const int64_t bin_ns : {7, 100}) {
    EXPECT_NEAR(area_of(track_named(tracks_of(b.trace(), bin_ns), "TFLOP/s"), 2000), 6000 * 1e-3, 1e-9)
        << "six executions";
  }
}

TEST(Tracks, BusySmsAreThoseThatCompute) {
  const std::vector<TrackPoint> points =
      track_named(tracks_of(two_sm_trace().trace(), 100), "busy SMs").points;
  EXPECT_DOUBLE_EQ(points[0].value, 0.8);
  EXPECT_DOUBLE_EQ(points[3].value, 0.6);  // from 300, without pages until 340
  EXPECT_DOUBLE_EQ(points[8].value, 1);
}

TEST(Tracks, SamplesHoldUntilTheNextOfTheirSm) {
  TraceBuilder b = two_sm_trace();
  EXPECT_EQ(tracks_of(b.trace(), 100).size(), 3U) << "none of pages without samples";
  b.trace().samples = {{0, 0, 1000, 4}, {500, 0, 0, 2}, {1000, 1, 300, 1}};
  const std::vector<Track> tracks = tracks_of(b.trace(), 500);
  const std::vector<TrackPoint>& flight = track_named(tracks, "bytes in flight").points;
  ASSERT_EQ(flight.size(), 4U);
  EXPECT_DOUBLE_EQ(flight[0].value, 1000);
  EXPECT_DOUBLE_EQ(flight[1].value, 0);
  EXPECT_DOUBLE_EQ(flight[3].value, 300);
  EXPECT_DOUBLE_EQ(track_named(tracks, "free pages").points[3].value, 3);
}

TEST(Tracks, OfTheLinkHaveWhatEachGpuPushesAndGets) {
  TraceBuilder b = two_gpu_trace();
  // GPU 0's push stores 100 bytes from 100 to 120; its other two end at 420 and 1000.
  constexpr int64_t kBin = 20;
  const std::vector<Track> gpu = tracks_of_ranks(b.trace(), kBin)[0];
  const Track &out = gpu[gpu.size() - 2], &in = gpu.back();
  EXPECT_EQ(out.name, "link out GB/s");
  EXPECT_EQ(in.name, "link in GB/s");
  EXPECT_DOUBLE_EQ(out.points[5].value, 5);
  EXPECT_DOUBLE_EQ(in.points[5].value, 0);
  EXPECT_DOUBLE_EQ(in.points[15].value, 5) << "GPU 1's push, from 300 to 320";
  EXPECT_NEAR(area_of(out, 2000), 2 * (100 + 40 + 16), 1e-6) << "two tokens";
  EXPECT_NEAR(area_of(in, 2000), 2 * (100 + 40), 1e-6);
}

TEST(Tracks, OfAllGpusHaveOneOfTheLinkForEach) {
  const Trace trace = two_gpu_trace().trace();
  constexpr int64_t kBin = 20;
  const std::vector<Track> links = link_tracks(trace, kBin);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[1].name, "GPU 1 out GB/s");
  EXPECT_NEAR(area_of(links[1], 2000), 2 * (100 + 40), 1e-6);
  EXPECT_TRUE(link_tracks(two_sm_trace().trace(), kBin).empty());
}

TEST(Tracks, OfARankAreThoseOfItsSms) {
  const Trace trace = two_gpu_trace().trace();
  constexpr int64_t kBin = 1000;
  const Track of_gpu = tracks_of_ranks(trace, kBin)[1].front(), of_all = tracks_of(trace, kBin).front();
  EXPECT_DOUBLE_EQ(of_gpu.points[0].value, 1) << "1,000 bytes in 1,000 ns";
  EXPECT_DOUBLE_EQ(of_all.points[0].value, 2);
}

}  // namespace
}  // namespace serval::testing
