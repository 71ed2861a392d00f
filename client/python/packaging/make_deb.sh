#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package python3-pserver of a wheel that uses the system's libraries.
#
#   make_deb.sh WHEEL FOLDER     prints the path of the package that it writes into FOLDER
#
# What it depends on is what dpkg-shlibdeps finds in the extension. Needs dpkg-dev and binutils.
set -euo pipefail
wheel=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
license=$(realpath "$(dirname "$0")/../../../LICENSE")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
tree=$work/tree
place=$tree/usr/lib/python3/dist-packages
mkdir -p "$place" "$tree/DEBIAN" "$work/debian" "$tree/usr/share/doc/python3-pserver"
/usr/bin/python3 -m zipfile -e "$wheel" "$place"
rm "$place"/pserver-*.dist-info/RECORD # pip shall know the package and leave its files to dpkg
extension=$place/pserver/_pserver.abi3.so
strip --strip-unneeded "$extension"
chmod 644 "$extension"
cp "$license" "$tree/usr/share/doc/python3-pserver/copyright"

version=$(sed -n 's/^Version: //p' "$place"/pserver-*.dist-info/METADATA)
architecture=$(dpkg --print-architecture)
printf 'Source: pserver\n\nPackage: python3-pserver\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "$extension" | sed 's/^shlibs:Depends=//')
cat >"$tree/DEBIAN/control" <<END
Package: python3-pserver
Source: pserver
Version: $version
Architecture: $architecture
Maintainer: pserver
Section: python
Priority: optional
Depends: python3 (>= 3.11), python3-numpy, $libraries
Suggests: python3-torch
Installed-Size: $(du -sk "$tree" | cut -f 1)
Description: Client of the parameter server pserver
 Pushes gradients and pulls parameters as numpy arrays, with retries, exactly-once pushes and
 failover. The C library is inside.
END
printf '#!/bin/sh\nset -e\n[ "$1" != configure ] || py3compile -p python3-pserver\n' \
    >"$tree/DEBIAN/postinst"
printf '#!/bin/sh\nset -e\npy3clean -p python3-pserver\n' >"$tree/DEBIAN/prerm"
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
package=$folder/python3-pserver_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
echo "$package"
