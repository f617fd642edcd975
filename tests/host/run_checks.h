// A program of named checks:
//
//   program NAME...   runs the named checks; the exit status is 0 if all of them hold
//   program           lists them
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#define REQUIRE(condition, ...)                                            \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                   \
      std::fprintf(stderr, "\n");                                          \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

namespace vitamin {

using Checks = std::map<std::string, std::function<void()>>;

inline int run_checks(const Checks& checks, int argc, char** argv) {
  if (argc == 1) {
    for (const auto& check : checks) std::printf("%s\n", check.first.c_str());
  }
  for (int i = 1; i < argc; ++i) checks.at(argv[i])();
  return 0;
}

}  // namespace vitamin
