#pragma once
// The callbacks of a live session: the functions behind hr_host, and the events the host writes on an
// adapter's word.

#include <hitchrail/adapter.h>

#include <cstdint>
#include <string_view>

namespace hitchrail::runner {

class Session;

struct SessionCalls {
  static hr_host table(Session* session);
  static hr_result arm(Session& session, std::uint32_t timer_id, std::uint32_t after_ms);
  static void stage_control_result(Session& session, std::uint64_t control_id, std::uint32_t outcome,
                                   std::string_view detail);
  static void stage_missing_verdict(Session& session);

 private:
  static void log(void* ctx, std::uint32_t level, hr_str text);
  static void fail(void* ctx, hr_str code, hr_str text);
  static std::int64_t now_ms(void* ctx);
  static hr_result emit(void* ctx, const hr_event* event);
  static hr_result send(void* ctx, const hr_part* parts, std::size_t count);
  static hr_result close_input(void* ctx);
  static hr_result signal_leader(void* ctx, std::int32_t signal);
  static hr_result request_approval(void* ctx, const hr_approval* approval);
  static hr_result withdraw_approval(void* ctx, hr_str approval_id);
  static hr_result control_result(void* ctx, std::uint64_t control_id, std::uint32_t outcome, hr_str detail);
  static hr_result set_conversation(void* ctx, hr_str conversation_id);
  static hr_result set_turn(void* ctx, hr_str turn_id);
  static hr_result call_service(void* ctx, hr_str service, hr_str method, hr_str params_json,
                                std::uint64_t* call_id);
  static hr_result set_timer(void* ctx, std::uint32_t timer_id, std::uint32_t after_ms);
  static hr_result cancel_timer(void* ctx, std::uint32_t timer_id);
  static hr_result finish(void* ctx, const hr_verdict* verdict);
  static hr_result snapshot_bytes(void* ctx, hr_str bytes);
  static hr_result end_run(void* ctx);

  static bool in_hook(const Session& session);
  static hr_result check_event(const Session& session, const hr_event& event);
  static void stage_verdict(Session& session, const hr_verdict& verdict);
};

}  // namespace hitchrail::runner
