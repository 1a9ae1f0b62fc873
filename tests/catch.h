// Catch2 v2 (Debian 12) and v3 (Ubuntu 24.04) behind one include.
#pragma once
#ifdef SLIP_CATCH3
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where v2 puts it
#else
#include <catch2/catch.hpp>
#endif
