#!/bin/sh
# usage: as_user.sh TEST: runs a test as a real ordinary uid (this one, or 65534 when root calls).
# It is copied, since a build folder below a private home cannot be entered by that user.
set -eu
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$1" "$copy/test"
chmod -R a+rX "$copy"
export TMPDIR=/tmp
user=""
if [ "$(id -u)" = 0 ]; then
  user="setpriv --reuid 65534 --regid 65534 --clear-groups"
fi
[ "$($user id -u)" != 0 ]
$user "$copy/test"
