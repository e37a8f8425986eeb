#!/bin/sh
# usage: as_user.sh TEST PROGRAMS_FOLDER [INIT]: runs a boundary test as a real ordinary uid (this one, or 65534 when root calls).
# What it needs is copied, since a build folder below a private home cannot be entered by that user.
set -eu
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$1" "$copy/test"
for program in hitchrail-init hitchrail-probe hitchrail-shim; do
  if [ -e "$2/$program" ]; then
    cp "$2/$program" "$copy/"
  fi
done
cp -r "$(dirname "$0")/../../profiles" "$copy/profiles"
cp -r "$(dirname "$0")/../../docs" "$copy/docs"
chmod -R a+rX "$copy"
export HITCHRAIL_TEST_DOCS="$copy/docs" HITCHRAIL_LIBEXEC="$copy" HITCHRAIL_PROFILES="$copy/profiles" TMPDIR=/tmp
user=""
if [ "$(id -u)" = 0 ]; then
  user="setpriv --reuid 65534 --regid 65534 --clear-groups"
fi
[ "$($user id -u)" != 0 ]
$user "$copy/test"
