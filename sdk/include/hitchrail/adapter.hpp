#pragma once
// Hitchrail adapter SDK, optional C++20 layer over adapter.h. Header only; needs the standard library and
// nothing else.
//
// Promises: no exception crosses the border (each hook catches all of them, calls the host's `fail` with the
// hook's name and returns a failure); a hook called in a wrong state is answered HR_E_STATE before your code
// sees it; structs of another minor version are read by copying min(struct_size, own size); a callback the
// host lacks is never called; what Plan holds lives until the host has copied it. Refuses: nothing on its own
// account. A failing callback is thrown as Failure, so a hook need not check results. Does not: parse JSON,
// split lines, keep time. The host does the framing; bring the JSON parser you like.
//
// Use: derive from Session and Probe, write a class with four static functions, name it once:
//
//   struct Echo {
//     static std::unique_ptr<sdk::Probe> probe(sdk::Host&, const hr_probe_request&);
//     static std::string render(sdk::Host&, const hr_render_request&);
//     static std::unique_ptr<sdk::Session> launch(sdk::Host&, const hr_launch_request&);
//     static std::unique_ptr<sdk::Session> reattach(sdk::Host&, const hr_reattach&);
//   };
//   HITCHRAIL_ADAPTER(Echo, "echo", "Echo", "1.0.0");

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hitchrail/adapter.h"

namespace hitchrail::sdk {

// ---- strings and structs
// ---------------------------------------------------------------------------------------------

constexpr hr_str str(std::string_view text) {
  return {text.data(), text.size()};
}
constexpr std::string_view view(hr_str text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

// A zeroed struct with its struct_size set: auto event = sdk::make<hr_event>();
template <class T>
T make() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

// What another version may have made, as this version knows it: min(struct_size, sizeof(T)) bytes into a
// zeroed local.
template <class T>
T read(const T* in) {
  static_assert(std::is_trivially_copyable_v<T>);
  T out{};
  if (in != nullptr) {
    const std::size_t theirs = in->struct_size;
    std::memcpy(&out, in, theirs < sizeof(T) ? theirs : sizeof(T));
  }
  out.struct_size = sizeof(T);
  return out;
}

// ---- failures
// --------------------------------------------------------------------------------------------------------

// Throw it from any hook: the host gets (code, "hook: text") and the hook returns `result`.
class Failure : public std::exception {
 public:
  Failure(hr_result result, std::string code, std::string text)
      : result_(result == HR_OK ? HR_E_INTERNAL : result), code_(std::move(code)), text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] hr_result result() const noexcept { return result_; }
  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  hr_result result_;
  std::string code_;
  std::string text_;
};

constexpr const char* result_name(hr_result result) {
  switch (result) {
    case HR_OK:
      return "HR_OK";
    case HR_E_STATE:
      return "HR_E_STATE";
    case HR_E_ARGUMENT:
      return "HR_E_ARGUMENT";
    case HR_E_UNSUPPORTED:
      return "HR_E_UNSUPPORTED";
    case HR_E_PROTOCOL:
      return "HR_E_PROTOCOL";
    case HR_E_LIMIT:
      return "HR_E_LIMIT";
    case HR_E_INTERNAL:
      return "HR_E_INTERNAL";
    default:
      return "an unknown result";
  }
}

// ---- the plan
// --------------------------------------------------------------------------------------------------------

// Collects what `launch` wants and owns every byte of it; Host::plan hands it over.
class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;  // the arrays point into this object
  Plan& operator=(const Plan&) = delete;

  Plan& arg(std::string_view value) {
    argv_.push_back(keep(value));
    return *this;
  }
  Plan& env_from_host(std::string_view name) { return env(HR_ENV_FROM_HOST, name, {}); }
  Plan& env_literal(std::string_view name, std::string_view value) {
    return env(HR_ENV_LITERAL, name, value);
  }
  Plan& env_home(std::string_view name, std::string_view below = {}) { return env(HR_ENV_HOME, name, below); }
  Plan& stream(std::uint32_t id, std::uint32_t framing, std::uint32_t overflow = HR_OVERFLOW_FAIL,
               std::uint32_t record_cap = 0) {
    streams_.push_back({id, framing, overflow, record_cap});
    return *this;
  }
  // n-th call gives HR_STREAM_FILE_FIRST + n.
  std::uint32_t file_stream(std::string_view pattern, std::uint32_t framing, std::uint32_t flags = 0,
                            std::uint32_t record_cap = 0) {
    const auto id = HR_STREAM_FILE_FIRST + static_cast<std::uint32_t>(file_streams_.size());
    file_streams_.push_back({id, framing, record_cap, flags, keep(pattern)});
    return id;
  }
  Plan& input(std::string_view bytes) {
    input_.push_back({HR_PART_BYTES, 0, keep(bytes)});
    return *this;
  }
  Plan& input_secret(std::string_view key, std::uint32_t encoding = HR_ENCODE_RAW) {
    input_.push_back({HR_PART_SECRET, encoding, keep(key)});
    return *this;
  }
  Plan& close_input() {
    flags_ |= HR_PLAN_CLOSE_INPUT;
    return *this;
  }
  Plan& needs_pipe() {
    flags_ |= HR_PLAN_NEEDS_PIPE;
    return *this;
  }
  Plan& websocket(std::string_view endpoint) {
    transport_ = HR_TRANSPORT_WEBSOCKET;
    endpoint_ = keep(endpoint);
    return *this;
  }
  Plan& stop_close_input(std::uint32_t wait_ms) { return stop(HR_STOP_CLOSE_INPUT, 0, wait_ms, nullptr, 0); }
  Plan& stop_signal(std::int32_t signal, std::uint32_t wait_ms) {
    return stop(HR_STOP_SIGNAL, signal, wait_ms, nullptr, 0);
  }
  Plan& stop_send(std::string_view bytes, std::uint32_t wait_ms) {
    stop_parts_.push_back({HR_PART_BYTES, 0, keep(bytes)});
    return stop(HR_STOP_SEND, 0, wait_ms, &stop_parts_.back(), 1);
  }
  Plan& home_file(std::string_view path, std::string_view bytes) {
    home_files_.push_back({keep(path), keep(bytes)});
    return *this;
  }

  // Valid as long as this object lives and is not changed.
  [[nodiscard]] hr_plan raw() const {
    auto out = make<hr_plan>();
    out.flags = flags_;
    out.transport = transport_;
    out.argv = argv_.data();
    out.argc = argv_.size();
    out.env = env_.data();
    out.env_count = env_.size();
    out.streams = streams_.data();
    out.stream_count = streams_.size();
    out.initial_input = input_.data();
    out.initial_input_count = input_.size();
    out.stop = stop_.data();
    out.stop_count = stop_.size();
    out.home_files = home_files_.data();
    out.home_file_count = home_files_.size();
    out.file_streams = file_streams_.data();
    out.file_stream_count = file_streams_.size();
    out.endpoint = endpoint_;
    return out;
  }

 private:
  hr_str keep(std::string_view text) {
    store_.emplace_back(text);
    return str(store_.back());
  }
  Plan& env(std::uint32_t source, std::string_view name, std::string_view value) {
    env_.push_back({source, 0, keep(name), keep(value)});
    return *this;
  }
  Plan& stop(std::uint32_t kind, std::int32_t signal, std::uint32_t wait_ms, const hr_part* parts,
             std::size_t count) {
    stop_.push_back({kind, signal, wait_ms, 0, parts, count});
    return *this;
  }

  std::deque<std::string> store_;  // a deque never moves what it holds
  std::deque<hr_part> stop_parts_;
  std::vector<hr_str> argv_;
  std::vector<hr_env> env_;
  std::vector<hr_stream_spec> streams_;
  std::vector<hr_file_stream> file_streams_;
  std::vector<hr_part> input_;
  std::vector<hr_stop_step> stop_;
  std::vector<hr_home_file> home_files_;
  hr_str endpoint_{};
  std::uint32_t flags_ = 0;
  std::uint32_t transport_ = HR_TRANSPORT_STDIO;
};

// ---- the host, as a hook sees it
// -------------------------------------------------------------------------------------

// Valid inside the hook it was given to. Every call that the host refuses throws Failure with the host's
// result.
class Host {
 public:
  explicit Host(const hr_host* raw, std::deque<std::uint32_t>* steps = nullptr) : raw_(raw), steps_(steps) {}

  void log(std::uint32_t level, std::string_view text) {
    need(&hr_host::log, "log")(raw_->ctx, level, str(text));
  }
  [[nodiscard]] std::int64_t now_ms() { return need(&hr_host::now_ms, "now_ms")(raw_->ctx); }
  void random(void* out, std::size_t size) { need(&hr_host::random, "random")(raw_->ctx, out, size); }
  [[nodiscard]] const void* extension(std::string_view id) {
    return need(&hr_host::extension, "extension")(raw_->ctx, str(id));
  }
  // [probe]
  void probe_step(const hr_probe_step& step) {
    call(&hr_host::probe_step, "probe_step", &step);
    if (steps_ != nullptr) {
      steps_->push_back(step.step_id);
    }
  }
  void probe_command(std::uint32_t step_id, std::initializer_list<std::string_view> argv,
                     std::uint32_t timeout_ms = 0, std::uint32_t max_output = 0) {
    std::vector<hr_str> arguments;
    for (const std::string_view argument : argv) {
      arguments.push_back(str(argument));
    }
    auto step = make<hr_probe_step>();
    step.kind = HR_STEP_COMMAND;
    step.step_id = step_id;
    step.timeout_ms = timeout_ms;
    step.max_output = max_output;
    step.argv = arguments.data();
    step.argc = arguments.size();
    probe_step(step);
  }
  void probe_result(std::string_view json) { call(&hr_host::probe_result, "probe_result", str(json)); }
  // [launch]
  void plan(const Plan& plan) {
    const hr_plan raw = plan.raw();
    call(&hr_host::plan, "plan", &raw);
  }
  // [session]
  void emit(const hr_event& event) { call(&hr_host::emit, "emit", &event); }
  void send(const hr_part* parts, std::size_t count) { call(&hr_host::send, "send", parts, count); }
  void send(std::string_view bytes) {
    const hr_part part{HR_PART_BYTES, 0, str(bytes)};
    send(&part, 1);
  }
  void close_input() { call(&hr_host::close_input, "close_input"); }
  void signal_leader(std::int32_t signal) { call(&hr_host::signal_leader, "signal_leader", signal); }
  void request_approval(const hr_approval& approval) {
    call(&hr_host::request_approval, "request_approval", &approval);
  }
  void withdraw_approval(std::string_view id) {
    call(&hr_host::withdraw_approval, "withdraw_approval", str(id));
  }
  void control_result(std::uint64_t control_id, std::uint32_t outcome, std::string_view detail = {}) {
    call(&hr_host::control_result, "control_result", control_id, outcome, str(detail));
  }
  void set_conversation(std::string_view id) {
    call(&hr_host::set_conversation, "set_conversation", str(id));
  }
  void set_turn(std::string_view id) { call(&hr_host::set_turn, "set_turn", str(id)); }
  [[nodiscard]] std::uint64_t call_service(std::string_view service, std::string_view method,
                                           std::string_view params) {
    std::uint64_t id = 0;
    call(&hr_host::call_service, "call_service", str(service), str(method), str(params), &id);
    return id;
  }
  void set_timer(std::uint32_t id, std::uint32_t after_ms) {
    call(&hr_host::set_timer, "set_timer", id, after_ms);
  }
  void cancel_timer(std::uint32_t id) { call(&hr_host::cancel_timer, "cancel_timer", id); }
  void finish(const hr_verdict& verdict) { call(&hr_host::finish, "finish", &verdict); }
  void end_run() { call(&hr_host::end_run, "end_run"); }
  [[nodiscard]] const hr_host* raw() const { return raw_; }

 private:
  friend struct Border;
  template <class F>
  F need(F hr_host::*member, const char* name) const {
    const auto offset = static_cast<std::size_t>(reinterpret_cast<const char*>(&(raw_->*member)) -
                                                 reinterpret_cast<const char*>(raw_));
    if (raw_->struct_size < offset + sizeof(F) || raw_->*member == nullptr) {
      throw Failure(HR_E_UNSUPPORTED, "host-lacks-callback",
                    std::string("this host has no callback ") + name);
    }
    return raw_->*member;
  }
  template <class F, class... Args>
  void call(F hr_host::*member, const char* name, Args... args) const {
    const hr_result result = need(member, name)(raw_->ctx, args...);
    if (result != HR_OK) {
      throw Failure(result, "callback-refused", std::string(name) + " answered " + result_name(result));
    }
  }

  const hr_host* raw_;
  std::deque<std::uint32_t>* steps_;
};

// ---- what an adapter derives from
// --------------------------------------------------------------------------------------

class Probe {
 public:
  virtual ~Probe() = default;
  // One result of a step asked for, in order. Ask for more with host.probe_step, end with host.probe_result.
  virtual void on_step(Host& host, const hr_probe_step_result& result) = 0;
};

// Called only in the states of adapter.h's table; the layer answers every other call itself.
class Session {
 public:
  virtual ~Session() = default;
  virtual void map_events(Host& host, const hr_record& record) = 0;  // open, exited
  virtual void on_exit(Host& /*host*/, const hr_exit& /*exit*/) {}   // open -> exited
  virtual void on_end(Host& host) = 0;                               // exited -> ended: call finish
  [[nodiscard]] virtual std::string snapshot(Host& host) const = 0;  // any state
  virtual void control(Host& host, const hr_control& control) {      // open
    host.control_result(control.control_id, HR_CONTROL_IMPOSSIBLE, "this provider has no such operation");
  }
  virtual void on_decision(Host& /*host*/, const hr_decision& /*decision*/) {  // open
    throw Failure(HR_E_UNSUPPORTED, "no-approvals", "this adapter never asks for an approval");
  }
  virtual void on_call_result(Host& /*host*/, const hr_call_result& /*result*/) {  // open
    throw Failure(HR_E_UNSUPPORTED, "no-services", "this adapter never calls a service");
  }
  virtual void on_timer(Host& /*host*/, std::uint32_t /*timer_id*/) {}               // open
  virtual void on_transport(Host& /*host*/, const hr_transport_event& /*event*/) {}  // open
};

// ---- the border
// ------------------------------------------------------------------------------------------------------------

enum class State { planned, open, exited, ended };

// What hr_session and hr_probe point to.
struct SessionBox {
  State state = State::planned;
  std::unique_ptr<Session> session;
};
struct ProbeBox {
  std::deque<std::uint32_t> steps;  // asked for and not answered
  std::unique_ptr<Probe> probe;
};

struct Border {
  // Uses no heap: it also runs when memory is what is missing.
  static void report(const hr_host* host, const char* hook, std::string_view code,
                     std::string_view text) noexcept {
    constexpr std::size_t fail_end = offsetof(hr_host, fail) + sizeof(hr_host::fail);
    if (host == nullptr || host->struct_size < fail_end || host->fail == nullptr) {
      return;
    }
    char buffer[1024];
    const int written = std::snprintf(buffer, sizeof buffer, "%s: %.*s", hook,
                                      static_cast<int>(text.size() < 900 ? text.size() : 900), text.data());
    const auto size = written < 0 ? std::size_t{0} : static_cast<std::size_t>(written);
    host->fail(host->ctx, str(code), {buffer, size < sizeof buffer ? size : sizeof buffer - 1});
  }

  template <class Body>
  static hr_result guard(const hr_host* host, const char* hook, Body&& body) noexcept {
    if (host == nullptr || host->struct_size == 0) {
      return HR_E_ARGUMENT;
    }
    try {
      return body();
    } catch (const Failure& failure) {
      report(host, hook, failure.code(), failure.text());
      return failure.result();
    } catch (const std::bad_alloc&) {
      report(host, hook, "adapter-out-of-memory", "out of memory");
      return HR_E_LIMIT;
    } catch (const std::exception& error) {
      report(host, hook, "adapter-exception", error.what());
      return HR_E_INTERNAL;
    } catch (...) {
      report(host, hook, "adapter-exception", "something that is not a std::exception was thrown");
      return HR_E_INTERNAL;
    }
  }

  // A hook of a living session: the state table first, then the adapter, then the state it leads to.
  template <class Body>
  static hr_result hook(const hr_host* host, hr_session* session, const char* name, unsigned allowed,
                        Body&& body) noexcept {
    auto* box = reinterpret_cast<SessionBox*>(session);
    if (box == nullptr) {
      return HR_E_ARGUMENT;
    }
    if ((allowed & (1u << static_cast<unsigned>(box->state))) == 0) {
      return HR_E_STATE;
    }
    return guard(host, name, [&]() -> hr_result {
      Host view(host);
      body(*box, view);
      return HR_OK;
    });
  }
  static constexpr unsigned in(State state) { return 1u << static_cast<unsigned>(state); }
  static constexpr unsigned in_open = 1u << static_cast<unsigned>(State::open);
  static constexpr unsigned in_exited = 1u << static_cast<unsigned>(State::exited);
  static constexpr unsigned in_any = 15u;
};

template <class Adapter>
struct Hooks : private Border {
  static hr_result probe(const hr_host* host, const hr_probe_request* request, hr_probe** out) noexcept {
    return guard(host, "probe", [&]() -> hr_result {
      if (request == nullptr || out == nullptr) {
        return HR_E_ARGUMENT;
      }
      *out = nullptr;
      auto box = std::make_unique<ProbeBox>();
      Host view(host, &box->steps);
      box->probe = Adapter::probe(view, read(request));
      if (box->probe == nullptr) {
        throw Failure(HR_E_INTERNAL, "no-probe", "no probe object was made");
      }
      *out = reinterpret_cast<hr_probe*>(box.release());
      return HR_OK;
    });
  }
  static hr_result on_probe_step(const hr_host* host, hr_probe* probe,
                                 const hr_probe_step_result* result) noexcept {
    auto* box = reinterpret_cast<ProbeBox*>(probe);
    return guard(host, "on_probe_step", [&]() -> hr_result {
      if (box == nullptr || result == nullptr) {
        return HR_E_ARGUMENT;
      }
      const hr_probe_step_result local = read(result);
      if (box->steps.empty() || box->steps.front() != local.step_id) {
        return HR_E_STATE;
      }
      box->steps.pop_front();
      Host view(host, &box->steps);
      box->probe->on_step(view, local);
      return HR_OK;
    });
  }
  static void probe_close(hr_probe* probe) noexcept { delete reinterpret_cast<ProbeBox*>(probe); }

  static hr_result render(const hr_host* host, const hr_render_request* request) noexcept {
    return guard(host, "render", [&]() -> hr_result {
      if (request == nullptr) {
        return HR_E_ARGUMENT;
      }
      Host view(host);
      const std::string text = Adapter::render(view, read(request));
      return host->rendered(host->ctx, str(text));
    });
  }
  static hr_result launch(const hr_host* host, const hr_launch_request* request, hr_session** out) noexcept {
    return guard(host, "launch", [&]() -> hr_result {
      if (request == nullptr || out == nullptr) {
        return HR_E_ARGUMENT;
      }
      Host view(host);
      return give(Adapter::launch(view, read(request)), State::planned, out);
    });
  }
  static hr_result reattach(const hr_host* host, const hr_reattach* request, hr_session** out) noexcept {
    return guard(host, "reattach", [&]() -> hr_result {
      if (request == nullptr || out == nullptr) {
        return HR_E_ARGUMENT;
      }
      const hr_reattach local = read(request);
      if (local.state != HR_STATE_OPEN && local.state != HR_STATE_EXITED) {
        return HR_E_ARGUMENT;
      }
      Host view(host);
      return give(Adapter::reattach(view, local), local.state == HR_STATE_OPEN ? State::open : State::exited,
                  out);
    });
  }
  static hr_result map_events(const hr_host* host, hr_session* session, const hr_record* record) noexcept {
    return hook(host, session, "map_events", in_open | in_exited,
                [&](SessionBox& box, Host& view) { box.session->map_events(view, read(record)); });
  }
  static hr_result on_exit(const hr_host* host, hr_session* session, const hr_exit* exit) noexcept {
    return hook(host, session, "on_exit", in_open, [&](SessionBox& box, Host& view) {
      box.session->on_exit(view, read(exit));
      box.state = State::exited;
    });
  }
  static hr_result on_end(const hr_host* host, hr_session* session) noexcept {
    return hook(host, session, "on_end", in_exited, [&](SessionBox& box, Host& view) {
      box.session->on_end(view);
      box.state = State::ended;
    });
  }
  static hr_result snapshot(const hr_host* host, const hr_session* session) noexcept {
    const auto* box = reinterpret_cast<const SessionBox*>(session);
    return guard(host, "snapshot", [&]() -> hr_result {
      if (box == nullptr) {
        return HR_E_ARGUMENT;
      }
      Host view(host);
      const std::string bytes = std::as_const(*box->session).snapshot(view);
      return host->snapshot_bytes(host->ctx, str(bytes));
    });
  }
  static void close(hr_session* session) noexcept { delete reinterpret_cast<SessionBox*>(session); }
  static hr_result control(const hr_host* host, hr_session* session, const hr_control* control) noexcept {
    return hook(host, session, "control", in_open,
                [&](SessionBox& box, Host& view) { box.session->control(view, read(control)); });
  }
  static hr_result on_decision(const hr_host* host, hr_session* session,
                               const hr_decision* decision) noexcept {
    return hook(host, session, "on_decision", in_open,
                [&](SessionBox& box, Host& view) { box.session->on_decision(view, read(decision)); });
  }
  static hr_result on_call_result(const hr_host* host, hr_session* session,
                                  const hr_call_result* result) noexcept {
    return hook(host, session, "on_call_result", in_open,
                [&](SessionBox& box, Host& view) { box.session->on_call_result(view, read(result)); });
  }
  static hr_result on_timer(const hr_host* host, hr_session* session, std::uint32_t timer_id) noexcept {
    return hook(host, session, "on_timer", in_open,
                [&](SessionBox& box, Host& view) { box.session->on_timer(view, timer_id); });
  }
  static hr_result on_transport(const hr_host* host, hr_session* session,
                                const hr_transport_event* event) noexcept {
    return hook(host, session, "on_transport", in_open,
                [&](SessionBox& box, Host& view) { box.session->on_transport(view, read(event)); });
  }

 private:
  static hr_result give(std::unique_ptr<Session> session, State state, hr_session** out) {
    *out = nullptr;
    if (session == nullptr) {
      throw Failure(HR_E_INTERNAL, "no-session", "no session object was made");
    }
    auto box = std::make_unique<SessionBox>();
    box->state = state;
    box->session = std::move(session);
    *out = reinterpret_cast<hr_session*>(box.release());
    return HR_OK;
  }
};

template <class Adapter>
constexpr hr_adapter make_adapter(std::string_view provider, std::string_view display_name,
                                  std::string_view version) {
  using H = Hooks<Adapter>;
  hr_adapter out{};
  out.struct_size = sizeof(hr_adapter);
  out.abi_major = HR_ABI_MAJOR;
  out.abi_minor = HR_ABI_MINOR;
  out.provider_id = str(provider);
  out.display_name = str(display_name);
  out.version = str(version);
  out.probe = &H::probe;
  out.on_probe_step = &H::on_probe_step;
  out.probe_close = &H::probe_close;
  out.render = &H::render;
  out.launch = &H::launch;
  out.reattach = &H::reattach;
  out.map_events = &H::map_events;
  out.on_exit = &H::on_exit;
  out.on_end = &H::on_end;
  out.snapshot = &H::snapshot;
  out.close = &H::close;
  out.control = &H::control;
  out.on_decision = &H::on_decision;
  out.on_call_result = &H::on_call_result;
  out.on_timer = &H::on_timer;
  out.on_transport = &H::on_transport;
  return out;
}

}  // namespace hitchrail::sdk

// Once in one source file, at file scope: the note, the table and the exported entry.
#define HITCHRAIL_ADAPTER(Type, provider, display_name, version)             \
  HR_ADAPTER_NOTE(provider);                                                 \
  namespace {                                                                \
  constexpr hr_adapter hitchrail_adapter_table =                             \
      ::hitchrail::sdk::make_adapter<Type>(provider, display_name, version); \
  }                                                                          \
  extern "C" HR_EXPORT const hr_adapter* hitchrail_adapter_entry(void) {     \
    return &hitchrail_adapter_table;                                         \
  }                                                                          \
  static_assert(sizeof(provider) <= HR_MAX_PROVIDER_ID + 1, "a provider id has at most 63 bytes")
