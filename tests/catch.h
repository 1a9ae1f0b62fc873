// Catch2 v2 (Debian 12) and v3 (Ubuntu 24.04) behind one include.
#pragma once

// The project's CHECK(condition, text) and Catch's CHECK(condition) share a name: the headers that use the former come
// first, so that tests may include anything in any order.
#include "engine/base/result.h"
#include "kernels/check.h"
#undef CHECK

#ifdef SLIP_CATCH3
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where v2 puts it
#else
#include <catch2/catch.hpp>
#endif
