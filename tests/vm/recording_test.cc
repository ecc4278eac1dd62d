// Converts what the recording kernel leaves in memory to events (vm/device/recording.h). Needs no GPU.
#include "vm/device/recording.h"

#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace serval::device {
namespace {

using Kind = EventKind;

constexpr SeenSignals kSeenAtOnce{};

RecordTimes record(uint32_t instruction, uint32_t pass, const std::map<Kind, uint32_t>& times) {
  RecordTimes t{};
  t.instruction = instruction;
  t.pass = pass;
  for (const auto& [kind, ticks] : times) t.at[static_cast<size_t>(kind)] = ticks;
  return t;
}

// A product whose events were all recorded in order.
RecordTimes product() {
  return record(7, 3,
                {{Kind::kFetchBegin, 11},
                 {Kind::kFetched, 21},
                 {Kind::kLoadBegin, 31},
                 {Kind::kLoadIssued, 41},
                 {Kind::kFirstLanded, 51},
                 {Kind::kLastLanded, 61},
                 {Kind::kWaitBegin, 71},
                 {Kind::kInputsReady, 81},
                 {Kind::kComputeBegin, 91},
                 {Kind::kComputeEnd, 101},
                 {Kind::kStoreBegin, 111},
                 {Kind::kStored, 121},
                 {Kind::kSignalled, 131}});
}

EventRings rings_of(const std::vector<RecordTimes>& records, uint32_t written, uint32_t capacity) {
  const std::vector<uint32_t> counts{written};
  const std::vector<SeenSignals> seen{kSeenAtOnce};
  return events_of({records, counts, {}, seen, capacity});
}

std::map<Kind, Event> events_of_record(const RecordTimes& t) {
  const EventRings rings = rings_of({t}, 1, 1);
  std::map<Kind, Event> events;
  for (uint32_t n = 0; n < rings.written[0]; ++n)
    events[static_cast<Kind>(rings.events[n].kind)] = rings.events[n];
  return events;
}

uint32_t ticks_of(const RecordTimes& t, Kind kind) {
  const auto events = events_of_record(t);
  return events.contains(kind) ? events.at(kind).ticks : 0;
}

void set(RecordTimes& t, Kind kind, uint32_t ticks) {
  t.at[static_cast<size_t>(kind)] = ticks;
}

TEST(Recording, AProductHasAllItsEventsWithTheirArguments) {
  RecordTimes t = product();
  t.room_ticks = 5;
  t.bytes = 16384;
  t.pages = 0x62;
  t.first_counter = 8;
  t.last_counter = 9;
  t.starved_ticks = 4;
  const auto events = events_of_record(t);
  EXPECT_EQ(events.size(), kNumEventKinds);
  for (const auto& [kind, event] : events) {
    EXPECT_EQ(event.instruction, 7U);
    EXPECT_EQ(event.pass, 3U);
    EXPECT_EQ(event.pages, kind == Kind::kSignalled ? 0x62 : kNoPageSample);
  }
  EXPECT_EQ(events.at(Kind::kLoadIssued).argument, 5U);
  EXPECT_EQ(events.at(Kind::kLastLanded).argument, 16384U);
  EXPECT_EQ(events.at(Kind::kWaitBegin).argument, 8U);
  EXPECT_EQ(events.at(Kind::kInputsReady).argument, 9U);
  EXPECT_EQ(events.at(Kind::kComputeEnd).argument, 4U);
}

TEST(Recording, WhatDidNotHappenIsNoEvent) {
  const auto events = events_of_record(record(0, 0, {{Kind::kFetchBegin, 1}, {Kind::kSignalled, 9}}));
  EXPECT_EQ(events.size(), 2U);
}

TEST(Recording, ActivationsWereInPlaceWhenArithmeticBeganIfThePagesWereThereFirst) {
  RecordTimes t = product();
  EXPECT_EQ(ticks_of(t, Kind::kPrepared), 91U);
  set(t, Kind::kFirstLanded, 85);
  set(t, Kind::kLastLanded, 85);
  EXPECT_EQ(ticks_of(t, Kind::kPrepared), 0U) << "the page came last: nobody has seen when they were";
}

TEST(Recording, ConsumersMaySeeTheLastPageBeforeTheFirst) {
  RecordTimes t = product();
  set(t, Kind::kFirstLanded, 65);
  set(t, Kind::kComputeEnd, 85);  // of the last page, before the first page's products begin
  EXPECT_EQ(ticks_of(t, Kind::kFirstLanded), 61U);
  EXPECT_EQ(ticks_of(t, Kind::kLastLanded), 65U);
  EXPECT_EQ(ticks_of(t, Kind::kComputeEnd), 91U);
}

TEST(Recording, TheLoaderMayNoteLateThatItHasIssuedAll) {
  RecordTimes t = product();
  set(t, Kind::kLoadIssued, 63);
  EXPECT_EQ(ticks_of(t, Kind::kLoadIssued), 61U);
}

// A group instruction whose warps began at 31 and ended at 41.
RecordTimes group(uint32_t inputs_ready) {
  return record(1, 0,
                {{Kind::kFetchBegin, 1},
                 {Kind::kInputsReady, inputs_ready},
                 {Kind::kComputeBegin, 31},
                 {Kind::kComputeEnd, 41},
                 {Kind::kSignalled, 61}});
}

TEST(Recording, AGroupStoresWhatItHasComputedAndHasNothingToPrepare) {
  const RecordTimes t = group(21);
  EXPECT_EQ(ticks_of(t, Kind::kPrepared), 21U);
  EXPECT_EQ(ticks_of(t, Kind::kComputeBegin), 31U);
  EXPECT_EQ(ticks_of(t, Kind::kStoreBegin), 41U);
  EXPECT_EQ(ticks_of(t, Kind::kStored), 41U);
}

TEST(Recording, WhoStartsEarlyComputesOnceItsInputsAreReady) {
  const RecordTimes t = group(51);
  EXPECT_EQ(ticks_of(t, Kind::kComputeBegin), 51U);
  EXPECT_EQ(ticks_of(t, Kind::kComputeEnd), 51U);
}

TEST(Recording, AStorerThatHadNothingToStoreBeginsWhenArithmeticEnds) {
  RecordTimes t = product();
  set(t, Kind::kStoreBegin, 5);  // of an earlier record
  EXPECT_EQ(ticks_of(t, Kind::kStoreBegin), 101U);
}

TEST(Recording, TicksMayWrap) {
  RecordTimes t = product();
  set(t, Kind::kComputeBegin, 0xfffffff1);
  set(t, Kind::kInputsReady, 0xffffffe1);
  set(t, Kind::kComputeEnd, 0x11);
  set(t, Kind::kStoreBegin, 0x21);
  set(t, Kind::kStored, 0x31);
  EXPECT_EQ(ticks_of(t, Kind::kComputeEnd), 0x11U);
  EXPECT_EQ(ticks_of(t, Kind::kStoreBegin), 0x21U);
}

TEST(Recording, AFullRingHoldsTheLastRecords) {
  std::vector<RecordTimes> records;
  for (uint32_t n = 4; n < 8; ++n) records.push_back(record(n, 0, {{Kind::kFetchBegin, n}}));
  const EventRings rings = rings_of(records, 8, 4);
  ASSERT_EQ(rings.written[0], 4U);
  EXPECT_EQ(rings.events[0].instruction, 4U);
  EXPECT_EQ(rings.events[3].instruction, 7U);
}

TEST(Recording, ClocksAreAlignedByTheSignalThatCameFastest) {
  LaunchClock clock{.begin = {1000, 50}, .end = {3000, 1050}, .sent = {}};
  SeenSignals first{}, second{};
  for (uint32_t r = 0; r < kClockRounds; ++r) {
    clock.sent[r] = 1000 + 100 * r;
    first[r] = clock.sent[r] + 30 + r;
    second[r] = clock.sent[r] + 530 + (kClockRounds - r);  // its clock is 501 ahead
  }
  const std::vector<SeenSignals> seen{first, second};
  const std::vector<uint32_t> written{0, 0};
  const EventRings rings = events_of({{}, written, clock, seen, 4});
  EXPECT_EQ(rings.clocks[1].begin.ticks - rings.clocks[0].begin.ticks, 501U);
  EXPECT_EQ(rings.clocks[1].end.ticks - rings.clocks[0].end.ticks, 501U);
  EXPECT_EQ(rings.clocks[1].begin.ns, 50U);
}

}  // namespace
}  // namespace serval::device
