#include "offpath/base/deadline.h"

#include "tests/base/expect_error.h"

namespace offpath {
namespace {

using std::chrono::nanoseconds;

TEST(Deadline, InThePastIsExpiredAndNamesWhatWasWaitedFor) {
  const auto deadline = Deadline::After(nanoseconds(0));
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), nanoseconds(0));
  EXPECT_EQ(deadline.remaining_ms(), 0);
  EXPECT_ERROR(deadline.Check("a hello from the peer"), ErrorCode::kTimeout,
               "waited for a hello from the peer");
}

TEST(Deadline, AheadIsNotExpired) {
  const auto deadline = Deadline::After(std::chrono::hours(1));
  EXPECT_FALSE(deadline.expired());
  EXPECT_NO_THROW(deadline.Check("nothing"));
  EXPECT_GT(deadline.remaining(), std::chrono::minutes(59));
}

TEST(Deadline, BeyondTheClocksRangeIsTheFarFutureAndNotThePast) {
  const auto deadline = Deadline::After(nanoseconds::max());
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.remaining_ms(), 0);
}

TEST(Deadline, RoundsUpForPollSoThatItDoesNotSpin) {
  const auto deadline = Deadline::After(std::chrono::microseconds(999'500'000));
  EXPECT_GE(deadline.remaining_ms(), 1);
  EXPECT_LE(deadline.remaining_ms(), 999'500);
  EXPECT_GE(Deadline::At(Deadline::Clock::now() + std::chrono::hours(999)).remaining_ms(),
            1'000'000'000);
}

TEST(Deadline, EarlierOfTakesTheFirst) {
  const auto soon = Deadline::After(std::chrono::seconds(1));
  const auto late = Deadline::After(std::chrono::hours(1));
  EXPECT_EQ(soon.EarlierOf(late).when(), soon.when());
  EXPECT_EQ(late.EarlierOf(soon).when(), soon.when());
}

}  // namespace
}  // namespace offpath
