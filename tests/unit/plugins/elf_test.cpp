#include "plugins/elf.hpp"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "core/file.hpp"
#include "hitchrail/adapter.h"
#include "zoo.hpp"

namespace {

using namespace hitchrail;

std::string sound_bytes() {
  const Fd file(::open(test::zoo("sound").c_str(), O_RDONLY | O_CLOEXEC));
  auto bytes = read_all(file.get(), 16u << 20);
  REQUIRE(bytes.has_value());
  return *bytes;
}

std::size_t note_at(const std::string& bytes) {
  hr_note head{};
  head.name_size = 10;
  head.desc_size = HR_NOTE_DESC_SIZE;
  head.type = HR_NOTE_TYPE;
  std::memcpy(head.name, HR_NOTE_NAME, sizeof HR_NOTE_NAME);
  const std::string needle(reinterpret_cast<const char*>(&head), offsetof(hr_note, abi_major));
  const std::size_t at = bytes.find(needle);
  REQUIRE(at != std::string::npos);
  return at;
}

template <class T>
std::string with(std::string bytes, std::size_t member, const T& value) {
  std::memcpy(bytes.data() + note_at(bytes) + member, &value, sizeof value);
  return bytes;
}

std::string with_provider(const std::string& provider) {
  char field[64] = {};
  std::memcpy(field, provider.data(), std::min(provider.size(), sizeof field));
  return with(sound_bytes(), offsetof(hr_note, provider_id), field);
}

Error refused(const std::string& bytes) {
  const auto report = plugins::inspect_adapter(bytes, "adapter.so");
  REQUIRE(report.has_error());
  const Error error = report.error();
  CHECK(error.kind == ErrorClass::refused);
  CHECK(error.object == "adapter.so");
  CHECK(error.detail.find("found") != std::string::npos);
  CHECK(error.detail.find("supported") != std::string::npos);
  CHECK_FALSE(error.remedy.empty());
  return error;
}

TEST_CASE("the note of a sound adapter is read without running it") {
  const auto report = plugins::inspect_adapter(sound_bytes(), "adapter.so");
  REQUIRE(report.has_value());
  CHECK(report->note.provider_id == "echo-c");
  CHECK(report->note.abi_major == HR_ABI_MAJOR);
  CHECK(report->note.abi_minor == HR_ABI_MINOR);
  CHECK(report->note.sdk_version == HR_SDK_VERSION);
  CHECK(report->exports == std::vector<std::string>{HR_ENTRY_SYMBOL});
  CHECK_FALSE(report->needed.empty());
}

TEST_CASE("a newer major is refused with found, supported and remedy") {
  const Error error = refused(with(sound_bytes(), offsetof(hr_note, abi_major), HR_ABI_MAJOR + 1));
  CHECK(error.code == "plugin-abi-newer");
  CHECK(error.detail == "found adapter ABI 2.0; supported is 1.0 to 1.0");
  CHECK(error.remedy.find("rebuild the adapter") != std::string::npos);
}

TEST_CASE("a newer minor is refused with found, supported and remedy") {
  const Error error = refused(with(sound_bytes(), offsetof(hr_note, abi_minor), HR_ABI_MINOR + 7));
  CHECK(error.code == "plugin-abi-newer");
  CHECK(error.detail == "found adapter ABI 1.7; supported is 1.0 to 1.0");
}

TEST_CASE("an older major is refused with found, supported and remedy") {
  const Error error = refused(with(sound_bytes(), offsetof(hr_note, abi_major), 0u));
  CHECK(error.code == "plugin-abi-older");
  CHECK(error.remedy.find("Rebuild") != std::string::npos);
}

TEST_CASE("a provider id that is other text, empty, or fills its field is refused") {
  for (const std::string& provider : {std::string("Not An Id\x1b[2J"), std::string(), std::string("9lives"),
                                      std::string(64, 'a'), std::string("with_underscore")}) {
    INFO(provider);
    CHECK(refused(with_provider(provider)).code == "plugin-provider-invalid");
  }
}

TEST_CASE("a note whose size does not fit the file is refused") {
  CHECK(refused(with(sound_bytes(), offsetof(hr_note, desc_size), 1u << 30)).code == "plugin-malformed");
}

TEST_CASE("an SDK version that is no text is refused") {
  char field[16] = {};
  CHECK(refused(with(sound_bytes(), offsetof(hr_note, sdk_version), field)).code == "plugin-note-malformed");
}

TEST_CASE("what is not an x86-64 shared object is refused as such") {
  CHECK(refused("").code == "plugin-not-elf");
  CHECK(refused("#!/bin/sh\n").code == "plugin-not-elf");
  std::string other_machine = sound_bytes();
  other_machine[18] = 0x28;  // e_machine: ARM
  CHECK(refused(other_machine).code == "plugin-not-elf");
  std::string program = sound_bytes();
  program[16] = 2;  // e_type: ET_EXEC
  CHECK(refused(program).code == "plugin-not-elf");
}

TEST_CASE("a file cut at any length up to its last table is an error, never a crash") {
  const std::string whole = sound_bytes();
  std::size_t sound = 0;
  for (std::size_t size = 0; size < whole.size(); size += size < 4096 ? 1 : 7) {
    // A copy of its own, so that a read past the end is found by the sanitizer.
    const std::string cut(whole.data(), size);
    sound += plugins::inspect_adapter(cut, "adapter.so").has_value() ? 1 : 0;
  }
  // Section headers and symbols for debuggers lie at the end; without them a library still loads.
  CHECK(sound < whole.size() / 7);
  CHECK(plugins::inspect_adapter(whole.substr(0, whole.size() / 4), "adapter.so").has_error());
}

TEST_CASE("any damage of the file is an error or no matter, never a crash") {
  const std::string whole = sound_bytes();
  std::mt19937_64 random(20261130);
  std::size_t refused_count = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    const int hits = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < hits; ++i) {
      // Headers, notes and the dynamic tables are where offsets are.
      const std::size_t range =
          (random() & 1) != 0 ? std::min<std::size_t>(bytes.size(), 2048) : bytes.size();
      bytes[random() % range] = static_cast<char>(random());
    }
    refused_count += plugins::inspect_adapter(bytes, "adapter.so").has_error() ? 1 : 0;
  }
  CHECK(refused_count > 1000);
}

}  // namespace
