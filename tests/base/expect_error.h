// EXPECT_ERROR(statement, code, "part of the message"): the statement throws offpath::Error with
// this code, and its message says this.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "offpath/base/error.h"

#define EXPECT_ERROR(statement, expected_code, expected_text)                    \
  do {                                                                           \
    try {                                                                        \
      statement;                                                                 \
      ADD_FAILURE() << #statement " did not throw";                              \
    } catch (const offpath::Error& error) {                                      \
      EXPECT_EQ(error.code(), expected_code) << error.what();                    \
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr(expected_text)); \
    }                                                                            \
  } while (false)
