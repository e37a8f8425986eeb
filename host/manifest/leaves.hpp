#pragma once
// A walk over every string of a document.

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

// Code manifest-secret, with the member's path, when any string leaf or member name has the shape of a
// secret.
Status no_secret_leaf(const json::Value& document);

}  // namespace hitchrail::manifest
