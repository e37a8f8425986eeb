#pragma once
// Records of the harness are up to 8 MiB and mostly one long string: the SDK's view reads them in place.

#include <hitchrail/json.hpp>

namespace hitchrail::codex_cli {

namespace json = sdk::json;

}  // namespace hitchrail::codex_cli
