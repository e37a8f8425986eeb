#!/bin/sh
# usage: as_user.sh TEST GATE INIT: runs a test of the gate as a real ordinary uid (this one, or 65534 when root calls). What it
# needs is copied, since a build folder below a private home cannot be entered by that user.
set -eu
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$1" "$copy/test"
cp "$2" "$copy/hitchrail-gate"
cp "$3" "$copy/hitchrail-init"
cp -r "$(dirname "$0")/../../../profiles" "$copy/profiles"
chmod -R a+rX "$copy"
export HITCHRAIL_LIBEXEC="$copy" HITCHRAIL_PROFILES="$copy/profiles" TMPDIR=/tmp
user=""
if [ "$(id -u)" = 0 ]; then
  user="setpriv --reuid 65534 --regid 65534 --clear-groups"
fi
[ "$($user id -u)" != 0 ]
$user "$copy/test"
