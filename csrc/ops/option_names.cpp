#include "option_names.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../dispatch/select.h"

namespace vitamin {
namespace {

constexpr const char* kActivations[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
constexpr int64_t kActivationCount = 5;

const std::string& names_text() {
  static const std::string text = kernel_names();
  return text;
}

std::vector<std::string> split_names() {
  static constexpr char kSeparator[] = ", ";
  std::vector<std::string> names;
  const std::string& text = names_text();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(kSeparator, begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + std::strlen(kSeparator);
  }
  return names;
}

const std::vector<std::string>& names() {
  static const std::vector<std::string> list = split_names();
  return list;
}

}  // namespace

Activation parse_activation(const char* name) {
  for (int64_t i = 0; i < kActivationCount; ++i) {
    if (std::strcmp(name, kActivations[i]) == 0) return Activation(i);
  }
  throw std::runtime_error(std::string("hgemm: activation is '") + name +
                           "'; wanted none, relu, gelu, gelu_tanh or silu");
}

int64_t kernel_number(const char* name) {
  for (size_t i = 0; i < names().size(); ++i) {
    if (names()[i] == name) return int64_t(i);
  }
  throw std::runtime_error(std::string("hgemm: kernel is '") + name + "'; wanted one of " +
                           names_text());
}

const char* activation_name(int64_t number) {
  return number >= 0 && number < kActivationCount ? kActivations[number] : "?";
}

const char* kernel_name(int64_t number) {
  return number >= 0 && number < int64_t(names().size()) ? names()[number].c_str() : "?";
}

}  // namespace vitamin

const char* vitamin_kernel_names() { return vitamin::names_text().c_str(); }
