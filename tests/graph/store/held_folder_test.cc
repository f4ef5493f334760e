// A store that is replaced while it is read is read as one of the two, and never as half of each.
#include "offpath/graph/store/held_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "offpath/graph/store/store.h"
#include "offpath/graph/store/verify.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"
#include "tests/graph/random_store.h"

namespace offpath::graph {
namespace {

namespace fs = std::filesystem;

void Replace(const std::string& folder) {
  fs::create_directory(folder + ".new");
  fs::rename(folder, folder + ".old");
  fs::rename(folder + ".new", folder);
  fs::remove_all(folder + ".old");
}

TEST(ReadOneFolder, AFolderThatIsReplacedMeanwhileIsReadAgain) {
  const TempFolder temp;
  const std::string folder = temp / "g";
  fs::create_directory(folder);
  for (const bool fails : {false, true}) {
    int times = 0;
    EXPECT_EQ(ReadOneFolder(folder,
                            [&] {
                              if (++times > 2) return times;
                              Replace(folder);
                              if (fails) throw Error(ErrorCode::kCorruptData, "half of each");
                              return 0;
                            }),
              3);
  }
}

TEST(ReadOneFolder, OneThatIsReplacedTimeAfterTimeIsUnavailable) {
  const TempFolder temp;
  const std::string folder = temp / "g";
  fs::create_directory(folder);
  EXPECT_ERROR(ReadOneFolder(folder,
                             [&] {
                               Replace(folder);
                               return 0;
                             }),
               ErrorCode::kUnavailable, "was replaced");
}

TEST(ReadOneFolder, WhatIsWrongWithAFolderThatStaysOrWithNoneIsSaidAtOnce) {
  const TempFolder temp;
  fs::create_directory(temp / "g");
  for (const std::string& folder : {temp / "g", temp / "none"}) {
    int times = 0;
    EXPECT_ERROR(ReadOneFolder(folder,
                               [&]() -> int {
                                 ++times;
                                 throw Error(ErrorCode::kCorruptData, "damaged");
                               }),
                 ErrorCode::kCorruptData, "damaged");
    EXPECT_EQ(times, 1);
  }
}

TEST(Store, IsOneOfTheTwoThatAreExchangedWhileItIsOpened) {
  const TempFolder temp;
  const std::string folder = temp / "g";
  std::map<uint32_t, float> firsts;  // feature by the store's fingerprint
  for (const uint64_t seed : {1, 2}) {
    WriteRandomStore(folder, {.papers = 40, .authors = 10, .edges = 50, .seed = seed});
    const auto store = Store::Open(folder);
    firsts[store->fingerprint()] = store->node_types()[0].features.data[0];
  }
  ASSERT_EQ(firsts.size(), 2U);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (uint64_t i = 0; i < 40; ++i) {
      WriteRandomStore(folder, {.papers = 40, .authors = 10, .edges = 50, .seed = 1 + i % 2});
    }
    over = true;
  });
  size_t opened = 0;
  for (; !over; ++opened) {
    try {
      const auto store = Store::Open(folder);
      EXPECT_EQ(firsts.at(store->fingerprint()), store->node_types()[0].features.data[0]);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  writer.join();
  EXPECT_GT(opened, 0U);
}

TEST(Verify, AStoreThatIsReplacedMeanwhileIsNotCalledDamaged) {
  const TempFolder temp;
  const std::string folder = temp / "g";
  WriteRandomStore(folder, {.seed = 1});
  bool replaced = false;
  EXPECT_ERROR(VerifyStore(folder,
                           [&](std::string_view, uint64_t, uint64_t) {
                             if (!replaced) WriteRandomStore(folder, {.papers = 500, .seed = 2});
                             replaced = true;
                           }),
               ErrorCode::kUnavailable, "was replaced");
  EXPECT_TRUE(replaced);
  EXPECT_TRUE(VerifyStore(folder).ok());
}

}  // namespace
}  // namespace offpath::graph
