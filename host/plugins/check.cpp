#include "plugins/check.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "core/file.hpp"
#include "plugins/check_child.hpp"
#include "plugins/check_steps.hpp"
#include "plugins/check_wire.hpp"
#include "plugins/plugins.hpp"

namespace hitchrail::plugins {
namespace {

constexpr std::string_view standard_request =
    R"({"schemaVersion":"launch-request/v1","profileId":"check","providerVersion":"unknown","worktree":"/srv/tree","home":"/run-home","temp":"/run-temp",)"
    R"("providerSandbox":"delegated","credentials":[],"gateEndpoints":[]})";

// The findings that need no code, in the order they are judged. A code not listed belongs to the first.
struct StaticRow {
  const char* id;
  const char* sentence;
  std::array<std::string_view, 5> codes;
};
constexpr StaticRow static_rows[] = {
    {"file", "the file and every folder above it belong to root or you, and nobody else can write them", {}},
    {"elf.file", "the file is a whole 64-bit x86-64 shared object", {"plugin-not-elf", "plugin-malformed"}},
    {"elf.note",
     "one note names a supported ABI, the provider and the SDK",
     {"plugin-no-note", "plugin-note-malformed", "plugin-abi-newer", "plugin-abi-older",
      "plugin-provider-invalid"}},
    {"elf.dynamic",
     "no search path, auditor, text relocation or unusual flag",
     {"plugin-search-path", "plugin-dynamic-flag", "plugin-text-relocation"}},
    {"elf.dependencies", "it depends on the C and C++ run-time libraries only", {"plugin-dependency"}},
    {"elf.code", "no code of it is writable", {"plugin-writable-code"}},
    {"elf.exports", "it exports hitchrail_adapter_entry and nothing else", {"plugin-export"}},
};

std::size_t row_of(const Error& error) {
  for (std::size_t i = 0; i < std::size(static_rows); ++i) {
    const auto& codes = static_rows[i].codes;
    if (std::find(codes.begin(), codes.end(), error.code) != codes.end()) {
      return i;
    }
  }
  return 0;
}

void add_static(CheckReport& report, const Result<SealedPlugin>& sealed) {
  const std::size_t failed = sealed.has_error() ? row_of(sealed.error()) : std::size(static_rows);
  for (std::size_t i = 0; i < std::size(static_rows); ++i) {
    Finding finding{static_rows[i].id, static_rows[i].sentence, Outcome::passed, ""};
    if (i == failed) {
      finding.outcome = Outcome::failed;
      finding.detail = sealed.error().object + ": " + sealed.error().detail +
                       (sealed.error().remedy.empty() ? "" : ". " + sealed.error().remedy);
    } else if (i > failed) {
      finding.outcome = Outcome::skipped;
      finding.detail = std::string("not reached: ") + static_rows[failed].id + " failed";
    }
    report.findings.push_back(std::move(finding));
  }
}

// The shared page: a memfd of ours, mapped for both sides.
class Page {
 public:
  static Result<Page> make(std::string_view request) {
    Page out;
    out.fd_ = Fd(::memfd_create("hitchrail-check", MFD_CLOEXEC));
    if (!out.fd_ || ::ftruncate(out.fd_.get(), sizeof(CheckPage)) != 0) {
      return errno_error("make check page", "memfd", errno);
    }
    void* map = ::mmap(nullptr, sizeof(CheckPage), PROT_READ | PROT_WRITE, MAP_SHARED, out.fd_.get(), 0);
    if (map == MAP_FAILED) {
      return errno_error("map check page", "memfd", errno);
    }
    out.page_ = new (map) CheckPage{};
    out.page_->magic = check_magic;
    out.page_->request_size = static_cast<std::uint32_t>(request.size());
    std::memcpy(out.page_->request, request.data(), request.size());
    return out;
  }
  Page(Page&& other) noexcept : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  Page& operator=(Page&&) = delete;
  ~Page() {
    if (page_ != nullptr) {
      ::munmap(page_, sizeof(CheckPage));
    }
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  CheckPage* operator->() const { return page_; }

 private:
  Page() = default;
  Fd fd_;
  CheckPage* page_ = nullptr;
};

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

// What the end of a child says about the step it was in.
void blame(Finding& finding, Hook hook, const ChildEnd& end, std::uint32_t step_ms) {
  const std::string where = hook == Hook::none ? " between two hooks" : " in " + std::string(hook_name(hook));
  if (end.timed_out) {
    finding.outcome = Outcome::timed_out;
    finding.detail = "did not end within " + std::to_string(step_ms) + " ms" + where;
  } else if (!end.signaled) {
    finding.outcome = Outcome::crashed;
    finding.detail = "ended the process with exit code " + std::to_string(end.value) + where;
  } else if (end.value == SIGSYS) {
    finding.outcome = Outcome::failed;
    finding.detail =
        "tried to start a process or thread, or made another forbidden system call with signals blocked," +
        where;
  } else if (end.value == SIGXFSZ) {
    finding.outcome = Outcome::failed;
    finding.detail = "wrote more than 64 MiB" + where;
  } else {
    finding.outcome = Outcome::crashed;
    finding.detail = "was ended by " + signal_text(end.value) + where;
  }
}

std::string slot_text(const StepSlot& slot) {
  return {slot.detail, ::strnlen(slot.detail, sizeof slot.detail)};
}

Outcome outcome_of(StepResult result) {
  switch (result) {
    case StepResult::passed:
      return Outcome::passed;
    case StepResult::failed:
      return Outcome::failed;
    default:
      return Outcome::skipped;
  }
}

Error not_confined(const Page& page) {
  const std::string fault(page->fault, ::strnlen(page->fault, sizeof page->fault));
  return {ErrorClass::environment,
          "checker-not-confined",
          "check plugin",
          "hitchrail-runner",
          fault.empty() ? "the child ended before it was confined" : fault,
          "Run `hitchrail doctor`; without confinement no code of a plugin is run."};
}

// One child after another until every step has a finding. Each child gets at least one step further.
Status run_steps(const SealedPlugin& sealed, const CheckOptions& options, const Page& page,
                 CheckReport& report) {
  const std::size_t base = report.findings.size();
  for (const StepInfo& step : check_steps()) {
    report.findings.push_back({step.id, step.sentence, Outcome::skipped, "not reached"});
  }
  std::size_t first = 0;
  while (first < step_count) {
    page->first.store(static_cast<std::uint32_t>(first));
    page->ready.store(0);
    page->hook.store(0);
    page->step.store(static_cast<std::uint32_t>(first));
    HR_TRY(end, run_check_child(options.runner_fd, sealed.fd.get(), page.fd(), options.step_ms, page->calls));
    if (page->ready.load() == 0) {
      return not_confined(page);
    }
    const std::size_t reached = std::min<std::size_t>(page->step.load(), step_count);
    if (reached < first) {
      return Error{ErrorClass::internal,
                   "checker-page-damaged",
                   "check plugin",
                   report.path,
                   "the adapter wrote into the checker's page",
                   ""};
    }
    if (reached == step_count) {
      break;
    }
    // Nothing the adapter may have written there is believed beyond its bounds.
    const std::uint32_t said = page->hook.load();
    const Hook hook =
        said <= static_cast<std::uint32_t>(Hook::on_transport) ? static_cast<Hook>(said) : Hook::none;
    if (page->steps[reached].result.load() == static_cast<std::uint32_t>(StepResult::none)) {
      blame(report.findings[base + reached], hook, end, options.step_ms);
      page->steps[reached].result.store(static_cast<std::uint32_t>(StepResult::skipped));
      page->blocked.fetch_or(hook_bit(hook) & ~hook_bit(Hook::none));
      if (reached < step_probe_begin || hook == Hook::load) {
        break;  // what does not load is not tried again
      }
    }
    first = reached + 1;
  }
  for (std::size_t i = 0; i < step_count; ++i) {
    Finding& finding = report.findings[base + i];
    const auto result = static_cast<StepResult>(page->steps[i].result.load(std::memory_order_acquire));
    if (finding.outcome == Outcome::skipped && result != StepResult::none &&
        finding.detail == "not reached") {
      finding.outcome = outcome_of(result);
      finding.detail = slot_text(page->steps[i]);
    }
  }
  return {};
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  static constexpr std::array<std::string_view, 5> names = {"passed", "failed", "crashed", "timed-out",
                                                            "skipped"};
  return names[static_cast<std::size_t>(outcome)];
}

std::string_view standard_launch_request() {
  return standard_request;
}

std::size_t CheckReport::count(Outcome outcome) const {
  return static_cast<std::size_t>(std::count_if(
      findings.begin(), findings.end(), [outcome](const Finding& f) { return f.outcome == outcome; }));
}

bool CheckReport::passed() const {
  return !findings.empty() && count(Outcome::passed) == findings.size();
}

Result<CheckReport> check_plugin(const std::string& path, const CheckOptions& options) {
  const std::string_view request =
      options.launch_request_json.empty() ? standard_request : std::string_view(options.launch_request_json);
  if (request.size() > check_request_size) {
    return Error{ErrorClass::usage,
                 "launch-request-too-large",
                 "check plugin",
                 path,
                 "the launch request is over 64 KiB",
                 ""};
  }
  CheckReport report;
  report.path = path;
  const auto sealed = seal_plugin_file(path);
  add_static(report, sealed);
  if (sealed.has_error()) {
    for (const StepInfo& step : check_steps()) {
      report.findings.push_back(
          {step.id, step.sentence, Outcome::skipped, "not reached: no code of this file is run"});
    }
    return report;
  }
  report.provider = sealed->elf.note.provider_id;
  report.digest = sealed->digest;
  HR_TRY(page, Page::make(request));
  HR_CHECK(run_steps(*sealed, options, page, report));
  return report;
}

}  // namespace hitchrail::plugins
